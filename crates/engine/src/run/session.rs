//! Several trials on open ports.

use crate::error::RunError;
use crate::plan::TrafficPlan;
use crate::receive::traces::Traces;
use crate::run::any_port::AnyPort;
use crate::run::crew::{Base, Crew};
use crate::run::entries::{by_burst, order};
use crate::run::on_ports::OnPorts;
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
/// MAC address is found, and privileges are given up ([`Owner::opened`](crate::Owner::opened)), once, before `body`
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
/// #     flows: FlowSet::new(10_000..=10_007, 9000..=9000, None), packets: None, payload_len: 18, frame_size: 64,
/// #     rate: None, then: None, pacing: Pacing::Constant, tx_burst: 32, catch_up: ms(5), tolerance: 0.01, ttl: 64,
/// #     dscp: 0, link: Some(link), far: None, back: None, beside: vec![] };
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
            traces: traces_of(opening, &open.ports),
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
    /// Layer of each port, and bytes of the largest frame that it takes.
    ports: Vec<(Layer, usize)>,
    /// Ports that take bursts of one flow only.
    one_flow_per_burst: Vec<bool>,
}

/// Returns the data by which packets of each track are recognised, before the first trial.
fn traces_of(opening: &TrafficPlan, ports: &[(Layer, usize)]) -> Vec<Traces> {
    let since_ns = monotonic_ns();
    let of = |(plan, (layer, _)): (&TrafficPlan, &(Layer, usize))| {
        let (flows, ends) = (plan.flows.clone(), (plan.src, plan.dst));
        let traces = Traces::new(since_ns, flows, ends, *layer, plan.far.is_some());
        match plan.packets {
            Some(_) => traces.of_tags(plan.common.run_id),
            None => traces,
        }
    };
    let mut traces: Vec<Traces> = opening.each().zip(ports).map(of).collect();
    if opening.back.is_some() {
        traces.push(traces[0].back());
    }
    traces
}

/// Lanes that are open, each with its queue: see [`session`].
struct Session<'s> {
    crew: Crew<'s>,
    open: &'s Open<'s>,
    /// Traces of the trials so far, by track.
    traces: Vec<Traces>,
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
        // The way back has the next seed.
        let back = plan.back.iter().map(|_| plan.common.seed.wrapping_add(1));
        let seeds = plan.each().map(|plan| plan.common.seed).chain(back);
        self.traces.iter_mut().zip(seeds).for_each(|(of, seed)| of.add(seed));
        let traces = self.traces.iter().map(|of| Arc::new(of.clone())).collect();
        let order = order(plan, traces, &self.open.one_flow_per_burst);
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
        let of = |port: &&dyn AnyPort| (port.port().capabilities().layer, port.port().capabilities().max_frame);
        Self {
            plan,
            ports: ports.iter().map(of).collect(),
            one_flow_per_burst: by_burst(ports),
        }
    }

    /// Checks that the ports were opened for such a trial; the error says what is wrong, and what would be right.
    fn fits(&self, plan: &TrafficPlan) -> Result<(), String> {
        if plan.beside.len() != self.plan.beside.len() {
            return Err("every trial has the ports that the session was opened with".to_owned());
        }
        if plan.beside.is_empty() {
            // Packets arrive at the last port.
            let max_frame = self.ports.iter().map(|(_, max_frame)| *max_frame).min();
            return fits(plan, self.plan, (self.ports[0].0, max_frame.unwrap_or(0)));
        }
        let mut each = plan.each().zip(self.plan.each()).zip(&self.ports);
        each.try_for_each(|((plan, opening), port)| fits(plan, opening, *port))
    }
}

/// Checks that a port was opened for such a trial by the plan `opening`: see [`Open::fits`]. `max_frame`: bytes of the
/// largest frame that the port takes.
fn fits(plan: &TrafficPlan, opening: &TrafficPlan, (layer, max_frame): (Layer, usize)) -> Result<(), String> {
    let payload_path = layer == Layer::Payload;
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
    let tracks = if opening.back.is_some() { 2 } else { 1 };
    let lanes = &opening.common.lanes[..opening.own_lanes()];
    let senders = lanes.iter().filter(|lane| lane.tx).count() / tracks;
    if plan.packets.is_none() && (flows.count() as usize) < senders {
        return Err(format!(
            "{} flows for {senders} sending lanes (want a flow per lane, or more)",
            flows.count()
        ));
    }
    let frame_len = |plan: &TrafficPlan| plan.packets.as_ref().map(|packets| packets.frame_len());
    match (frame_len(plan), frame_len(opening)) {
        (None, None) => {}
        (Some(len), Some(open)) if len <= max_frame.max(open) => return Ok(()),
        (Some(len), Some(open)) => {
            let most = max_frame.max(open);
            return Err(format!("frames of {len} bytes (want {most} at most)"));
        }
        _ => return Err("every trial has packets of the kind that the session was opened with".to_owned()),
    }
    let most = most_payload(opening, layer, max_frame).max(opening.payload_len);
    if !(mpps_wire::STAMP_LEN..=most).contains(&plan.payload_len) {
        return Err(format!(
            "a payload of {} bytes (want {} to {most})",
            plan.payload_len,
            mpps_wire::STAMP_LEN
        ));
    }
    Ok(())
}

/// Returns the largest payload that a port takes, bytes.
fn most_payload(plan: &TrafficPlan, layer: Layer, max_frame: usize) -> usize {
    const ETHERNET: usize = 14;
    const UDP: usize = 8;
    let headers = match (layer, plan.src) {
        (Layer::Payload, _) => 0,
        (Layer::Ethernet, IpAddr::V4(_)) => ETHERNET + 20 + UDP,
        (Layer::Ethernet, IpAddr::V6(_)) => ETHERNET + 40 + UDP,
    };
    let tag = match &plan.link {
        Some(link) if link.vlan.is_some() => 4,
        _ => 0,
    };
    max_frame.saturating_sub(headers + tag)
}
