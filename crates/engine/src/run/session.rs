//! Several trials on open ports.

use crate::error::RunError;
use crate::plan::TrafficPlan;
use crate::run::any_port::AnyPort;
use crate::run::crew::{Base, Crew};
use crate::run::entries::{by_burst, order};
use crate::run::on_ports::OnPorts;
use crate::run::traces::Traces;
use mpps_io::Layer;
use mpps_stats::{Sink, Summary};
use mpps_sys::clock::monotonic_ns;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;

/// Opens the lanes on `ports` once, and hands `body` [`Trials`]: it runs any number of `sendrecv` and `send` trials on
/// them. Returns the result of `body`, once the lanes have released their queues.
///
/// `opening` says what every trial has (lanes, addresses, layer 2) and what none exceeds: its flows, and whether
/// packets are received. The ports must have been opened for it: one, or two as in
/// [`run_traffic`](crate::run_traffic). Its load and its times mean nothing here. The peer's
/// MAC address is found, and privileges are given up ([`Common::give_up`](crate::Common::give_up)), once, before `body`
/// is called. `interruptions` is asked while the MAC address is looked for.
///
/// Ten lines for three trials at three rates:
///
/// ```
/// # use mpps_engine::{Common, FlowSet, LanePlan, Link, Pacing, Rate, TrafficPlan, session};
/// # use mpps_io::loopback::{LoopConfig, LoopPort};
/// # use mpps_sys::clock::monotonic_ns;
/// # use mpps_wire::{MacAddr, ReflectFilter, reflect_in_place};
/// # use std::time::Duration;
/// # let ms = Duration::from_millis;
/// # let link = Link { mac: MacAddr([2, 0, 0, 0, 0, 1]), vlan: None, answer_for: vec![], unanswered: vec![],
/// #     dest_mac: Some(MacAddr([2, 0, 0, 0, 0, 2])), next_hop: None, hint: String::new() };
/// # let common = Common { lanes: vec![LanePlan::BOTH], duration: Some(ms(50)), settle: ms(5), ..Common::default() };
/// # let plan = TrafficPlan { common, receive: true, src: [10, 99, 0, 1].into(), dst: [10, 99, 0, 2].into(),
/// #     flows: FlowSet::new(10_000..=10_007, 9000..=9000, None), payload_len: 18, frame_size: 64, rate: None,
/// #     then: None, pacing: Pacing::Constant, tx_burst: 32, catch_up: ms(5), tolerance: 0.01, ttl: 64, dscp: 0,
/// #     link: Some(link), far: None, back: None };
/// let config = LoopConfig { loss: 0.01, ..LoopConfig::default() };
/// let filter = ReflectFilter::default();
/// let turn = move |frame: &mut [u8]| reflect_in_place(frame, &filter, false).is_ok();
/// let port = LoopPort::new(config, 1, monotonic_ns, turn);
/// session(&[&port], &plan, &|| 0, |session| {
///     for pps in [10_000, 20_000, 40_000] {
///         let plan = TrafficPlan { rate: Rate::new(pps, 1), ..plan.clone() };
///         let summary = session.trial(plan, &mut [], &|| 0)?;
///         println!("{pps} pps: {} of {} lost", summary.lost, summary.tx);
///     }
///     Ok(())
/// })?
/// # as Result<(), mpps_engine::RunError>
/// # ;
/// # Ok::<(), mpps_engine::RunError>(())
/// ```
///
/// # Errors
/// When the lanes could not be opened: the errors of [`run_traffic`](crate::run_traffic) before its first packet.
pub fn session<R>(
    ports: &[&dyn AnyPort],
    opening: &TrafficPlan,
    interruptions: &dyn Fn() -> u32,
    body: impl FnOnce(&mut dyn Trials) -> R,
) -> Result<R, RunError> {
    let job = OnPorts::traffic(ports, opening);
    let open = Open::new(opening, ports);
    let base = Base::new(&job, &opening.common, true);
    thread::scope(|scope| {
        let mut session = Session {
            crew: Crew::open(scope, &base, interruptions)?,
            traces: Traces::new(
                monotonic_ns(),
                opening.flows.clone(),
                (opening.src, opening.dst),
                open.layer,
                opening.far.is_some(),
            ),
            open: &open,
        };
        Ok(body(&mut session))
    })
}

/// Ports that are open for trials, one after another, as [`session`] provides them.
pub trait Trials {
    /// Runs one trial, `sendrecv` or `send`, from its first departure to the end of its settle time, with counters,
    /// rows and a verdict of its own. Rate, pacing, length, settle time, rows, payload length, seed and flows may
    /// differ from trial to trial. Sinks get every row, and have had [`Sink::finish`] when the trial returns: each
    /// trial needs its own sinks. `interruptions` is called every 20 ms or more often. It returns how often the user
    /// has asked for the end, as with [`run_traffic`](crate::run_traffic).
    ///
    /// Before a trial begins, packets that have come in since the last trial are taken off the queues and are in no
    /// count. Intact packets of earlier trials of this session that come in then or later count as
    /// `late_of_an_earlier_trial` among [`Summary::reasons`]. If each trial has another seed, packets of the last 16
    /// are known.
    ///
    /// The start lies after the call by 6 ms, 1 ms per lane, and 0.2 µs per flow of the opening plan.
    ///
    /// # Errors
    /// [`RunError::Unfit`], before anything is sent, for a trial that the ports were not opened for: the session goes
    /// on. [`RunError::Interrupted`] for a trial that begins after the user has asked for the end of another.
    /// [`RunError::Panicked`] when a lane has panicked, now or before: there will be no more trials. Trouble on the way
    /// (a device that goes down or vanishes, an interruption) is no error: the trial has its result, and
    /// [`Summary::valid`] shows whether it counts.
    fn trial(
        &mut self,
        plan: TrafficPlan,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> Result<Summary, RunError>;

    /// Runs the last trial, as [`Trials::trial`] does. The lanes release their queues before its counters are read.
    /// There is no trial after it.
    ///
    /// # Errors
    /// Returns the errors of [`Trials::trial`].
    fn last(
        &mut self,
        plan: TrafficPlan,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> Result<Summary, RunError>;
}

/// Opening plan of a session, and properties of its ports.
struct Open<'s> {
    plan: &'s TrafficPlan,
    layer: Layer,
    /// Bytes of the largest frame that every port takes.
    max_frame: usize,
    /// Ports that take bursts of one flow only.
    one_flow_per_burst: [bool; 2],
}

/// Lanes that are open, each with its queue: see [`session`].
struct Session<'s> {
    crew: Crew<'s>,
    open: &'s Open<'s>,
    traces: Traces,
}

impl Session<'_> {
    fn run(
        &mut self,
        plan: TrafficPlan,
        last: bool,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> Result<Summary, RunError> {
        self.open.fits(&plan).map_err(RunError::Unfit)?;
        self.traces.add(plan.common.seed);
        let order = order(plan, Some(Arc::new(self.traces.clone())), self.open.one_flow_per_burst);
        self.crew.trial(order, last, sinks, interruptions)
    }
}

impl Trials for Session<'_> {
    fn trial(
        &mut self,
        plan: TrafficPlan,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> Result<Summary, RunError> {
        self.run(plan, false, sinks, interruptions)
    }

    fn last(
        &mut self,
        plan: TrafficPlan,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> Result<Summary, RunError> {
        self.run(plan, true, sinks, interruptions)
    }
}

impl<'s> Open<'s> {
    fn new(plan: &'s TrafficPlan, ports: &[&dyn AnyPort]) -> Self {
        let capabilities = || ports.iter().map(|port| port.port().capabilities());
        Self {
            plan,
            layer: ports[0].port().capabilities().layer,
            max_frame: capabilities().map(|port| port.max_frame).min().unwrap_or(0),
            one_flow_per_burst: by_burst(ports),
        }
    }

    /// Checks that the port was opened for such a trial; the error says what is wrong, and what would be right.
    fn fits(&self, plan: &TrafficPlan) -> Result<(), String> {
        let opening = self.plan;
        let payload_path = self.layer == Layer::Payload;
        if plan.common.lanes != opening.common.lanes {
            return Err("every trial has the lanes that the session was opened with".to_owned());
        }
        if (plan.src, plan.dst) != (opening.src, opening.dst) {
            return Err(format!(
                "packets from {} to {} (want {} to {})",
                plan.src, plan.dst, opening.src, opening.dst
            ));
        }
        if (&plan.link, &plan.far, plan.back.is_some()) != (&opening.link, &opening.far, opening.back.is_some()) {
            return Err(
                "every trial has the MAC addresses, VLAN and neighbours that the session was opened with".to_owned(),
            );
        }
        if plan.receive && !opening.receive {
            return Err("a trial that receives, on ports that were opened for sending only".to_owned());
        }
        if payload_path && (plan.ttl, plan.dscp) != (opening.ttl, opening.dscp) {
            return Err(format!(
                "time to live {}, DSCP {} (want {}, {}: its sockets have them)",
                plan.ttl, plan.dscp, opening.ttl, opening.dscp
            ));
        }
        let (flows, open) = (&plan.flows, &opening.flows);
        let within = if payload_path {
            flows.is_start_of(open)
        } else {
            flows.is_within(open)
        };
        if !within {
            return Err("flows beyond those that it was opened for".to_owned());
        }
        // With traffic both ways, each lane sends in one.
        let ways = if opening.back.is_some() { 2 } else { 1 };
        let senders = opening.common.lanes.iter().filter(|lane| lane.tx).count() / ways;
        if (flows.count() as usize) < senders {
            return Err(format!(
                "{} flows for {senders} sending lanes (want a flow per lane, or more)",
                flows.count()
            ));
        }
        let most = self.most_payload().max(opening.payload_len);
        if !(mpps_wire::STAMP_LEN..=most).contains(&plan.payload_len) {
            return Err(format!(
                "a payload of {} bytes (want {} to {most})",
                plan.payload_len,
                mpps_wire::STAMP_LEN
            ));
        }
        Ok(())
    }

    /// Returns the largest payload that the path takes, bytes.
    fn most_payload(&self) -> usize {
        const ETHERNET: usize = 14;
        const UDP: usize = 8;
        let headers = match (self.layer, self.plan.src) {
            (Layer::Payload, _) => 0,
            (Layer::Ethernet, IpAddr::V4(_)) => ETHERNET + 20 + UDP,
            (Layer::Ethernet, IpAddr::V6(_)) => ETHERNET + 40 + UDP,
        };
        let tag = match &self.plan.link {
            Some(link) if link.vlan.is_some() => 4,
            _ => 0,
        };
        self.max_frame.saturating_sub(headers + tag)
    }
}
