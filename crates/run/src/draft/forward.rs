//! The plan of `forward`.

use super::traffic::dashed;
use super::{kernel, lanes, memory};
use crate::fail::{Result, usage};
use crate::paths::{self, Checked, Rules};
use crate::request::Run;
use mpps_engine::{ForwardPlan, ForwardPort, OnFull, Work};
use mpps_io::{Capabilities, Layer, PortSpec, Request, Roles, Selection, Task};
use mpps_plan::Plain;
use mpps_plan::values::forward::{MOST_PORTS, Mode, Take};
use mpps_plan::values::on_full_name;
use mpps_stats::HostFact;
use mpps_wire::{MacAddr, Rewrite, TakeFilter};
use std::net::IpAddr;
use std::time::Duration;

/// Protocol number of UDP.
const UDP: u8 = 17;

/// Arguments, checked as far as possible without opening anything.
#[derive(Debug)]
pub struct Draft {
    pub args: Run,
    /// Ports in pairs: see [`ForwardPlan::ports`].
    pub(crate) ports: Vec<DraftPort>,
    take: Take,
    on_full: OnFull,
    pub(crate) rules: Rules,
}

/// Port of a draft.
#[derive(Debug)]
pub(crate) struct DraftPort {
    pub(crate) port: Checked,
    /// One entry per lane of its pair, or of the port alone.
    pub(crate) roles: Vec<Roles>,
    /// Number of the first of these lanes among all lanes.
    pub(crate) first_lane: usize,
}

impl Draft {
    pub(crate) fn new(args: Run) -> Result<Self> {
        let specs = args.plan.specs();
        check_ports(&specs)?;
        paths::check_together(&specs)?;
        check_mode(&args)?;
        check_lanes(&args)?;
        let take = check_take(&args)?;
        let ports = (0..args.plan.ports.len()).map(|place| DraftPort::new(place, &args));
        let ports: Vec<_> = ports.collect::<Result<_>>()?;
        let all: Vec<_> = ports.iter().map(|p| &p.port).collect();
        paths::check_run(&args, &all)?;
        let rules = Rules::of(&args, ports.iter().map(|p| (&p.port, &p.roles[..])))?;
        let roles = vec![Roles { rx: true, tx: true }; ports.iter().step_by(2).map(|p| p.roles.len()).sum()];
        let mut parts = memory::of_run(&args, Duration::ZERO, (&roles, memory::lane_count(&roles, [])), all);
        parts.extend(memory_of_work(&args));
        memory::check(&parts)?;
        let mut args = args;
        let first = &ports[0].port;
        let on_full = kernel::on_full(args.plan.lanes.on_full.plain(), &first.spec, first.traits.in_kernel)?;
        lanes::fill(&mut args, &[], "0");
        args.complete.fill("lanes.on_full", on_full_name(on_full));
        if !ports[0].port.traits.in_kernel {
            args.complete.fill("lanes.lanes", args.plan.lanes.lanes.unwrap_or(1));
        }
        args.complete.fill("selection.take", take.name());
        Ok(Self {
            rules,
            args,
            ports,
            take,
            on_full,
        })
    }

    pub(crate) fn plan(&self, capabilities: &[&Capabilities]) -> Result<ForwardPlan> {
        // Roles of a lane at each port are in `DraftPort::roles`.
        let lanes = self.ports.iter().step_by(2).map(|port| port.roles.len()).sum();
        let lanes = vec![Roles { rx: true, tx: true }; lanes];
        let burst = capabilities.iter().map(|c| c.preferred_burst).max().unwrap_or(1);
        let mut common = if self.ports[0].port.traits.in_kernel {
            kernel::common(&self.args, &[], 1, None, capabilities[0].path)?
        } else {
            lanes::common(&self.args, &lanes, None, burst)?
        };
        let names: Vec<_> = self.ports.iter().map(|port| port.port.spec.to_string()).collect();
        common.host.extend([
            HostFact::shown("port", names.join(", ")),
            HostFact::new("forward_mode", self.modes()),
            HostFact::shown("takes", self.takes()),
            HostFact::new("on_full", on_full_name(self.on_full)),
        ]);
        if self.args.plan.forward.split_directions {
            common.host.push(HostFact::shown("directions", "a lane each"));
        }
        if !self.args.plan.forward.drain.is_zero() {
            let drain = format!("{}", self.args.plan.forward.drain.as_secs_f64() * 1e6);
            common.host.push(HostFact::new("drain_us", drain));
        }
        if let Some(work) = self.args.plan.forward.work.plain() {
            common.host.push(HostFact::shown("work", words_of(work)));
        }
        common.host.extend(self.rules.facts());
        let ports = names.into_iter().zip(capabilities).enumerate();
        let ports = ports.map(|(i, (name, capabilities))| ForwardPort {
            name,
            take: self.filter(i),
            rewrite: self.rewrite(i, capabilities),
        });
        Ok(ForwardPlan {
            ports: ports.collect(),
            common,
            split_directions: self.args.plan.forward.split_directions,
            drain: *self.args.plan.forward.drain,
            on_full: self.on_full,
            work: self.args.plan.forward.work.plain().unwrap_or_default(),
        })
    }

    /// Returns how frames are changed, in the words of the options.
    fn modes(&self) -> String {
        let last = self.ports.len() - 1;
        let (first, last) = (mode_of(&self.args, 0), mode_of(&self.args, last));
        match first == last {
            true => first.name().to_owned(),
            false => format!("{}; {} on the last port", first.name(), last.name()),
        }
    }

    /// Returns which frames are taken, in the words of the options.
    fn takes(&self) -> String {
        let mut text = self.take.name().to_owned();
        if let Some(ip) = self.args.plan.selection.one_ip() {
            text += &format!(" --ip {ip}");
        }
        if let Some(ports) = &self.args.plan.selection.ports {
            text += &format!(" --port {}", dashed(ports));
        }
        text
    }

    /// Returns the run's requests to its ports.
    pub(crate) fn requests(&self) -> Vec<(&Checked, Request<'_>)> {
        self.ports.iter().map(|port| (&port.port, self.request(port))).collect()
    }

    fn request<'a>(&'a self, port: &'a DraftPort) -> Request<'a> {
        Request {
            spec: &port.port.spec,
            task: Task::Forward,
            roles: &port.roles,
            cores: lanes::cores_of(&self.args, port.first_lane, port.roles.len()),
            selection: self.selection(),
            answer: Vec::new(),
            flows: None,
            seed: self.args.plan.seed,
        }
    }

    /// Returns the selection of frames that are taken.
    fn selection(&self) -> Selection {
        match self.take {
            Take::All => Selection::All,
            Take::Foreign => Selection::Foreign,
            Take::Udp => Selection::Either {
                protocol: Some(UDP),
                ip: self.args.plan.selection.one_ip(),
                ports: self.args.plan.selection.ports.plain(),
            },
        }
    }

    /// Returns the filter of frames at port `port`.
    fn filter(&self, port: usize) -> TakeFilter {
        match self.selection() {
            // Frames at such a port have been selected already.
            _ if self.ports[port].port.traits.takes_from_host => TakeFilter::All,
            Selection::Foreign => TakeFilter::Foreign(self.ports[port].own_addresses().into()),
            Selection::Either { ip, ports, .. } => TakeFilter::Udp { ip, ports },
            _ => TakeFilter::All,
        }
    }

    /// Returns the change to frames that leave by port `port`.
    fn rewrite(&self, port: usize, capabilities: &Capabilities) -> Rewrite {
        match mode_of(&self.args, port) {
            Mode::Io => Rewrite::Io,
            Mode::MacSwap => Rewrite::MacSwap,
            Mode::FiveTupleSwap => Rewrite::FiveTupleSwap,
            Mode::L2Forward => {
                let macs = self
                    .args
                    .plan
                    .forward
                    .dest_mac
                    .as_ref()
                    .map(|macs| macs.0.as_slice())
                    .unwrap_or_default();
                Rewrite::L2Forward {
                    source: MacAddr(capabilities.mac.unwrap_or_default()),
                    // `check_mode` requires one at least.
                    destination: macs.get(port).or(macs.first()).copied().unwrap_or_default(),
                }
            }
        }
    }
}

impl DraftPort {
    /// Checks the port at this place among all.
    fn new(place: usize, args: &Run) -> Result<Self> {
        let spec = &args.plan.ports[place];
        let split = args.plan.forward.split_directions && paired(args, place);
        let port = Checked::new(spec, Task::Forward)?;
        if port.traits.layer == Layer::Payload {
            return Err(usage(format!(
                "port '{spec}': it carries payloads, not frames: want an Ethernet path, such as af_packet:eth1"
            )));
        }
        if split && !port.traits.split_lanes {
            return Err(usage(format!(
                "--split-directions: on '{spec}' a lane receives what it sends itself: want it left out"
            )));
        }
        if port.traits.in_kernel {
            kernel::check_forward(args, spec)?;
        }
        let lanes = args.plan.lanes.lanes.unwrap_or(1);
        let (receives, sends) = (Roles { rx: true, tx: false }, Roles { rx: false, tx: true });
        let roles = match (split, place % 2) {
            (false, _) => vec![Roles { rx: true, tx: true }; lanes],
            (true, 0) => [receives, sends].repeat(lanes),
            (true, _) => [sends, receives].repeat(lanes),
        };
        // All ports before this one are in pairs.
        let first_lane = place / 2 * lanes * ways(args);
        Ok(Self {
            port,
            roles,
            first_lane,
        })
    }

    /// Returns the host's own addresses, whose frames `--take foreign` leaves to the host.
    pub(crate) fn own_addresses(&self) -> Vec<IpAddr> {
        let device = self.port.interface();
        device
            .map(|device| mpps_netdev::host_addresses(&device))
            .unwrap_or_default()
    }
}

/// Returns whether the port at this place is in a pair, so that frames go to the other port.
fn paired(args: &Run, place: usize) -> bool {
    place ^ 1 < args.plan.ports.len()
}

/// Returns the number of lanes that a pair of ports has for each lane of `--lanes`.
fn ways(args: &Run) -> usize {
    if args.plan.forward.split_directions { 2 } else { 1 }
}

/// Returns the work on each frame, in words.
fn words_of(work: Work) -> String {
    let Work {
        ns,
        reads,
        writes,
        memory,
    } = work;
    match reads + writes {
        0 => format!("{ns} ns on each frame"),
        _ => format!("{ns} ns, {reads} reads and {writes} writes in {memory} bytes on each frame"),
    }
}

/// Returns the memory that the work on frames takes, for each direction of a lane.
fn memory_of_work(args: &Run) -> Option<memory::Part> {
    let memory = args.plan.forward.work.as_ref().map_or(0, |work| work.memory as u64);
    let directions = (args.plan.ports.len() * args.plan.lanes.lanes.unwrap_or(1)) as u64;
    let says = format!("--work with {directions} directions of lanes: their memory takes");
    (memory > 0).then(|| {
        memory::Part::new(says, memory * directions, move |left| match left / directions {
            0 => "no reads and writes".to_owned(),
            most => format!("memory={most} at most"),
        })
    })
}

/// Returns the change to frames that leave by the port at this place.
fn mode_of(args: &Run, place: usize) -> Mode {
    let default = if paired(args, place) { Mode::Io } else { Mode::MacSwap };
    args.plan.forward.mode.plain().unwrap_or(default)
}

fn check_ports(specs: &[PortSpec]) -> Result<()> {
    if specs.len() > MOST_PORTS {
        return Err(usage(format!(
            "port '{}': this is port number {}: want {MOST_PORTS} ports at the most",
            specs[MOST_PORTS],
            MOST_PORTS + 1
        )));
    }
    let alike = |a: &PortSpec, b: &PortSpec| a.path == b.path && a.device == b.device && !a.device.is_empty();
    for (place, spec) in specs.iter().enumerate() {
        let Some(earlier) = specs[..place].iter().position(|other| alike(other, spec)) else {
            continue;
        };
        return Err(usage(match specs.len() {
            2 => format!(
                "port '{spec}': this is the first port again: want another, or only one port to send back out of '{}'",
                specs[0]
            ),
            _ => format!(
                "port '{spec}': it is given as port {} and port {}: want each port once",
                earlier + 1,
                place + 1
            ),
        }));
    }
    let first = &specs[0];
    match specs.iter().find(|spec| spec.path != first.path) {
        Some(other) if specs.len() > 2 => Err(usage(format!(
            "port '{other}': more than two ports must be on one path: want it on {}, as '{first}' is, or only two \
             ports",
            first.path
        ))),
        _ => Ok(()),
    }
}

/// Most lanes of a run: a larger number is a mistake.
const MOST_LANES: usize = 256;

fn check_lanes(args: &Run) -> Result<()> {
    let (lanes, ports) = (args.plan.lanes.lanes.unwrap_or(1), args.plan.ports.len());
    let each = ports / 2 * ways(args) + ports % 2;
    if lanes * each > MOST_LANES {
        return Err(usage(format!(
            "--lanes {lanes}: on {ports} ports that makes {} lanes: want {} at the most",
            lanes * each,
            MOST_LANES / each
        )));
    }
    Ok(())
}

fn check_mode(args: &Run) -> Result<()> {
    let (mode, ports) = (mode_of(args, 0), args.plan.ports.len());
    match &args.plan.forward.dest_mac {
        None if mode == Mode::L2Forward => {
            return Err(usage(
                "--mode l2fwd: want --dest-mac MAC[,MAC…], the MAC address that each port sends to",
            ));
        }
        Some(_) if mode != Mode::L2Forward => {
            return Err(usage(format!(
                "--dest-mac: mode {} sets no MAC address: want --mode l2fwd",
                mode.name()
            )));
        }
        Some(macs) if macs.0.len() != 1 && macs.0.len() != ports => {
            let what = match ports {
                1 => "one port: want one".to_owned(),
                _ => format!("{ports} ports: want one for all, or {ports}"),
            };
            return Err(usage(format!("--dest-mac: {} addresses for {what}", macs.0.len())));
        }
        _ => {}
    }
    if args.plan.forward.split_directions && ports == 1 {
        return Err(usage(
            "--split-directions: one port has one direction: want two ports, or --lanes N",
        ));
    }
    Ok(())
}

fn check_take(args: &Run) -> Result<Take> {
    let which = args.plan.selection.ip.is_some() || args.plan.selection.ports.is_some();
    if let Some(ip) = args.plan.selection.one_ip().filter(|ip| ip.is_unspecified()) {
        return Err(usage(format!("--ip {ip}: want the address of one host or group")));
    }
    match args.plan.selection.take.plain() {
        None if which => Ok(Take::Udp),
        None => Ok(Take::default()),
        Some(take) if which && take != Take::Udp => Err(usage(format!(
            "--take {}: --ip and --port choose UDP packets: want --take udp, or neither of them",
            take.name()
        ))),
        Some(take) => Ok(take),
    }
}

#[cfg(test)]
#[path = "forward_tests.rs"]
mod tests;
