//! The one list of paths, and the one way to open their ports.
//!
//! A workload describes what it needs of each port ([`Request`]). A path opens all its ports of a run in one call
//! ([`Path::open`]), and erases their types ([`Opened`]): all around a lane's loop is compiled once for all paths. The
//! loop itself is compiled for each, so nothing on the packet path is a virtual call. `docs/design/adding-a-path.md`
//! shows how a path is added: its crate, one file here, one line in [`paths!`].

mod af_packet;
mod af_xdp;
mod dpdk;
mod help;
mod io_uring;
mod loopback;
#[cfg(test)]
mod mirror;
mod ntuple;
mod null;
mod rules;
mod udp;
mod xdp;

pub use dpdk::{dpdk_version, peer_plugin};
pub use help::{port_help, summary, text};
pub use rules::Rules;

use crate::draft::reserve::ANY_INTERFACE;
use crate::fail::{Result, say, usage};
use crate::request::Run;
use help::Help;
use mpps_engine::{AnyPort, DropPlan, ForwardPlan, LaneStart, Loops, Only, ReflectPlan, TrafficPlan, pair};
use mpps_io::kernel::KernelPort;
use mpps_io::selection::Headers;
use mpps_io::{Capabilities, Layer, Port, PortSpec, Request, Roles, Task};
use mpps_netdev::NetDev;
use mpps_sys::privilege::CapabilitySet;
use mpps_wire::Untagged;
use rules::Steering;
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Description of a path, and the functions by which it is used.
trait Path {
    /// Name of the path, as written in front of a port's colon.
    const NAME: &'static str;
    /// Devices and options, for the help.
    const HELP: Help;
    /// Description of the path in the demo; `None`: the demo can't show it.
    const DEMO: Option<Demo> = None;
    /// True if the path drives a network interface of the host, named by the port's device.
    const DRIVES_INTERFACE: bool = false;
    /// True if the path's ports are made by BPF programs.
    const NEEDS_BPF: bool = false;
    /// True if flow rules can be in force on the path's ports.
    const STEERS: bool = false;
    /// True if the path's ports are sockets, which carry payloads.
    const SOCKETS: bool = false;

    /// Checked options of a port.
    type Config: Debug;

    /// Checks a port's specification for a task; opens nothing.
    fn check(spec: &PortSpec, task: Task) -> Result<Self::Config>;

    /// Returns the traits of a port, known before it is open.
    fn traits(config: &Self::Config) -> Traits;

    /// Checks the options that only this path knows, for a run with this many of its ports.
    fn check_run(_run: &Run, _ports: usize) -> Result<()> {
        Ok(())
    }

    /// Refuses a port of this path if it can't be in one run with the others.
    fn check_beside(_spec: &PortSpec, _all: &[PortSpec]) -> Result<()> {
        Ok(())
    }

    /// Returns the most flows that these lanes can have; `None`: as many as memory holds.
    fn most_flows(_config: &Self::Config, _roles: &[Roles]) -> Option<usize> {
        None
    }

    /// Undoes changes to the host that a killed run has left behind. Returns one line per change.
    fn mend() -> Vec<String> {
        Vec::new()
    }

    /// Returns the privileges that a run on such a port keeps.
    fn keeps(_config: &Self::Config, _work: Work) -> Kept {
        Kept::default()
    }

    /// Opens all ports that a run has on this path.
    fn open<'r>(ports: Vec<(&'r Self::Config, Request<'r>)>, opening: &Opening<'_>) -> Result<Opened<'r>>;
}

/// Open ports of a run.
pub(crate) enum Opened<'r> {
    /// Ports that frames or payloads come from and go to, in their order.
    Lanes(Vec<Box<dyn AnyPort>>),
    /// Devices on which the kernel runs the workload.
    Kernel(Box<dyn KernelDevices + 'r>),
}

impl Opened<'_> {
    /// Erases the type of ports. `L`: loops that are compiled for them.
    fn lanes<L: Loops + 'static, P: Port + 'static>(ports: Vec<P>) -> Self {
        let erased = |port| Box::new(Only::<P, L>::new(port)) as Box<dyn AnyPort>;
        Self::Lanes(ports.into_iter().map(erased).collect())
    }

    /// Returns the capabilities of each port.
    pub(crate) fn capabilities(&self) -> Vec<&Capabilities> {
        match self {
            Self::Lanes(ports) => ports.iter().map(|port| port.port().capabilities()).collect(),
            Self::Kernel(devices) => devices.capabilities(),
        }
    }

    /// Returns whether packets come to lanes of this program.
    pub(crate) fn has_lanes(&self) -> bool {
        matches!(self, Self::Lanes(_))
    }
}

/// Description of a path in the demo.
#[derive(Clone, Copy, Debug)]
pub struct Demo {
    /// Description of the path, in a few words.
    pub about: &'static str,
    /// True if its ports are addresses of the host, so it works without a lab; otherwise they are interfaces.
    pub by_address: bool,
    /// True if its lanes can be pinned.
    pub pinned: bool,
    /// True if some kernels lack the path.
    pub optional: bool,
}

/// Traits of a port, known before it is open.
#[derive(Clone, Debug)]
pub struct Traits {
    /// Layer at which the port's packets start.
    pub(crate) layer: Layer,
    /// Name of the host's interface that the path opens.
    pub(crate) interface: Option<String>,
    /// Name of the host's interface beneath a virtual device.
    pub(crate) under: Option<String>,
    /// How the MAC address of a next hop is found.
    pub(crate) neighbors: Neighbors,
    /// True if the kernel runs the workload: no packet comes to user space.
    pub in_kernel: bool,
    /// True if packets are taken from the host: a program at the interface chooses them before a lane sees them. All
    /// others go to the host.
    pub(crate) takes_from_host: bool,
    /// True if the far end is a part of the path, which returns packets of any headers by their tags.
    pub(crate) returns_by_tag: bool,
    /// True if the device may take the outermost VLAN tag off the frames that it receives.
    pub(crate) strips_tags: bool,
    /// True if receiving and sending may be split between lanes.
    pub(crate) split_lanes: bool,
    /// Option that spreads one flow over several lanes.
    pub(crate) spreads_flows: Option<String>,
    /// True if the port delivers its buffers unchanged, again and again.
    pub(crate) repeats_frames: bool,
    /// True if the frames of the port carry the time of their arrival.
    pub(crate) times_arrivals: bool,
    /// Kernel socket that packets go through.
    pub(crate) socket: Option<Socket>,
    /// Buffers of the lanes whose number is set by options.
    pub(crate) buffers: Vec<Buffers>,
    /// How flow rules are applied.
    steering: Steering,
}

impl Default for Traits {
    /// Traits of an Ethernet device that is no interface of the host.
    fn default() -> Self {
        Self {
            layer: Layer::Ethernet,
            interface: None,
            under: None,
            neighbors: Neighbors::Lanes,
            in_kernel: false,
            takes_from_host: false,
            returns_by_tag: false,
            strips_tags: false,
            split_lanes: true,
            spreads_flows: None,
            repeats_frames: false,
            times_arrivals: false,
            socket: None,
            buffers: Vec::new(),
            steering: Steering::Not("no device stands behind it"),
        }
    }
}

/// Buffers whose number is set by an option.
#[derive(Clone, Copy, Debug)]
pub struct Buffers {
    /// Name of the option.
    pub(crate) option: &'static str,
    /// Buffers per lane.
    pub(crate) count: usize,
    /// Bytes of one buffer.
    pub(crate) bytes: usize,
    /// Selects the lanes that have these buffers, by their roles.
    pub(crate) lanes: fn(Roles) -> bool,
    /// Least value of the option.
    pub(crate) least: usize,
    /// Number of queues that have as many buffers each, or the number of lanes if that is greater.
    pub(crate) queues: usize,
}

impl Buffers {
    /// Returns one pool per lane, sized by `frames=`. Each buffer takes 64 bytes more than its content.
    pub(crate) fn pool(count: usize, bytes: usize) -> Vec<Self> {
        vec![Self::frames(count, bytes)]
    }

    /// Returns the same pool as one value, for ports with several.
    pub(crate) fn frames(count: usize, bytes: usize) -> Self {
        Self {
            option: "frames",
            count,
            bytes: bytes + 64,
            lanes: |_| true,
            least: 1,
            queues: 1,
        }
    }
}

/// Party that finds the MAC address of a next hop, and party that answers for the run's own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbors {
    /// No peer exists that could be asked.
    Nobody,
    /// The lanes ask. The host answers for addresses of the interface.
    Lanes,
    /// The lanes ask and answer: no address of the port is the host's.
    LanesAlone,
    /// The lanes ask, unless the source is an address of the interface. Then the host asks, because the answers go to
    /// the host.
    Host,
}

/// Socket of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Socket {
    /// Address in the port's specification.
    pub(crate) address: Option<IpAddr>,
    /// UDP port in the port's specification.
    pub(crate) port: Option<u16>,
    /// Address and UDP port that the socket listens on.
    pub(crate) listens: SocketAddr,
}

/// Privileges that a run keeps for a port.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Each lane keeps these, in force.
    pub(crate) lanes: CapabilitySet,
    /// Lane 0 keeps these as well.
    pub(crate) reader: CapabilitySet,
    /// The main thread and the path's own threads keep these, in force.
    pub(crate) in_force: CapabilitySet,
    /// True if those threads stay root.
    pub(crate) root: bool,
}

impl Default for Kept {
    fn default() -> Self {
        let none = CapabilitySet::empty();
        Self {
            lanes: none,
            reader: none,
            in_force: none,
            root: false,
        }
    }
}

/// Work of a run, as far as it decides which privileges are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The run generates, receives or captures packets.
    Ends,
    /// The run sends packets back by the port that they came from: `reflect`, and `forward` on one port.
    SendsBack,
    /// `forward` on more than one port.
    Forwards,
}

/// Data that all ports of a run share while they are opened.
pub(crate) struct Opening<'a> {
    /// The run's options.
    pub(crate) run: &'a Run,
    /// The run's flow rules.
    pub(crate) rules: &'a Rules,
    /// Returns how often the end of the run has been requested.
    pub(crate) interruptions: &'a dyn Fn() -> u32,
}

/// Devices on which the kernel runs a workload. They are looked up, and get their programs once the plan is made.
pub(crate) trait KernelDevices {
    /// Returns the capabilities of each device.
    fn capabilities(&self) -> Vec<&Capabilities>;
    /// Loads and attaches the programs of a run. Programs of a finished trial stay if they were made for such a trial,
    /// else other ones take their place. Returns how long the loading took; `None`: the programs have stayed.
    fn load(&mut self, plan: KernelPlan<'_>) -> Result<Option<Duration>>;
    /// Returns the loaded programs as ports: one, or one for each direction of `sendrecv` on two devices.
    fn ports(&self) -> Vec<&dyn KernelPort>;
}

/// Plan of a run in the kernel.
#[derive(Clone, Copy)]
pub(crate) enum KernelPlan<'p> {
    /// `sendrecv` and `send`.
    Traffic(&'p TrafficPlan),
    /// `reflect`.
    Reflect(&'p ReflectPlan),
    /// `drop`.
    Drop(&'p DropPlan),
    /// `forward`.
    Forward(&'p ForwardPlan),
}

/// Port as it was written, with checked options. It is not open.
#[derive(Debug)]
pub struct Checked {
    /// Port as it was written.
    pub spec: PortSpec,
    /// Properties of the path with these options.
    pub traits: Traits,
    config: Config,
}

impl Checked {
    /// Checks a port's specification for a task.
    pub(crate) fn new(spec: &PortSpec, task: Task) -> Result<Self> {
        let config = Config::check(spec, task)?;
        Ok(Self {
            spec: spec.clone(),
            traits: config.traits(),
            config,
        })
    }

    /// Returns the interface that the path opens; `None` if it opens none, or if there is no such interface.
    pub fn interface(&self) -> Option<NetDev> {
        NetDev::by_name(self.traits.interface.as_deref()?).ok()
    }

    /// Returns the index of the interface whose packets another program of this host could mistake for its own. Sockets
    /// of the kernel share all interfaces ([`ANY_INTERFACE`]), once their port is known.
    pub(crate) fn shared_interface(&self) -> Option<u32> {
        if let Some(socket) = self.traits.socket {
            return (socket.port != Some(0)).then_some(ANY_INTERFACE);
        }
        let name = self.traits.interface.as_ref().or(self.traits.under.as_ref())?;
        NetDev::by_name(name).ok().map(|device| device.ifindex)
    }

    /// Returns whether there is no peer whose address could be asked for.
    pub(crate) fn nobody_answers(&self) -> bool {
        self.traits.neighbors == Neighbors::Nobody
    }

    /// Returns the most flows that these lanes can have; `None`: as many as memory holds.
    pub(crate) fn most_flows(&self, roles: &[Roles]) -> Option<usize> {
        self.config.most_flows(roles)
    }

    /// Returns the privileges that a run on this port keeps.
    pub(crate) fn keeps(&self, work: Work) -> Kept {
        self.config.keeps(work)
    }
}

/// A path in the list.
pub(crate) struct Entry {
    name: &'static str,
    sockets: bool,
    /// Description of the path in the demo; `None`: the demo can't show it.
    demo: Option<Demo>,
    drives_interface: bool,
    needs_bpf: bool,
    steers: bool,
    help: Help,
    check_run: fn(&Run, usize) -> Result<()>,
    check_beside: fn(&PortSpec, &[PortSpec]) -> Result<()>,
    mend: fn() -> Vec<String>,
}

impl Entry {
    const fn of<P: Path>() -> Self {
        Self {
            name: P::NAME,
            sockets: P::SOCKETS,
            demo: P::DEMO,
            drives_interface: P::DRIVES_INTERFACE,
            needs_bpf: P::NEEDS_BPF,
            steers: P::STEERS,
            help: P::HELP,
            check_run: P::check_run,
            check_beside: P::check_beside,
            mend: P::mend,
        }
    }
}

/// Makes the list, and the type that holds a port of any path of it. Behind `=>` stands the type of ports that
/// `forward` copies from and to if the other port is of another path.
macro_rules! paths {
    ($($(#[$when:meta])? $name:ident: $path:ty $(=> $port:ty)?,)*) => {
        /// The paths of this build.
        pub(crate) const LIST: &[Entry] = &[$($(#[$when])? Entry::of::<$path>()),*];

        /// Checked options of a port of any path.
        #[derive(Debug)]
        enum Config { $($(#[$when])? $name(<$path as Path>::Config),)* }

        impl Config {
            fn check(spec: &PortSpec, task: Task) -> Result<Self> {
                $($(#[$when])? if spec.path == <$path as Path>::NAME {
                    return <$path as Path>::check(spec, task).map(Self::$name);
                })*
                Err(unknown(spec))
            }

            fn traits(&self) -> Traits {
                match self { $($(#[$when])? Self::$name(config) => <$path as Path>::traits(config),)* }
            }

            fn most_flows(&self, roles: &[Roles]) -> Option<usize> {
                match self { $($(#[$when])? Self::$name(config) => <$path as Path>::most_flows(config, roles),)* }
            }

            fn keeps(&self, work: Work) -> Kept {
                match self { $($(#[$when])? Self::$name(config) => <$path as Path>::keeps(config, work),)* }
            }
        }

        /// Opens ports that are all of the path of the first.
        fn open_alike<'r>(
            first: &Checked,
            ports: Vec<(&'r Checked, Request<'r>)>,
            opening: &Opening<'_>,
        ) -> Result<Opened<'r>> {
            match &first.config {
                $($(#[$when])? Config::$name(_) => {
                    let own = ports.into_iter().filter_map(|(port, request)| match &port.config {
                        Config::$name(config) => Some((config, request)),
                        _ => None,
                    });
                    <$path as Path>::open(own.collect(), opening)
                })*
            }
        }

        /// Joins two ports of different paths for `forward`; `None`: they are of one path, or have no frames.
        pub(crate) fn join<'p>(a: &'p dyn AnyPort, b: &'p dyn AnyPort) -> Option<Box<dyn LaneStart + 'p>> {
            if a.as_any().type_id() == b.as_any().type_id() {
                return None;
            }
            $($(if let Some(a) = a.as_any().downcast_ref::<$port>() {
                return join_to(a, b);
            })?)*
            None
        }

        fn join_to<'p, A: Port>(a: &'p A, b: &'p dyn AnyPort) -> Option<Box<dyn LaneStart + 'p>> {
            $($(if let Some(b) = b.as_any().downcast_ref::<$port>() {
                return Some(pair(a, b));
            })?)*
            None
        }
    };
}

paths! {
    Udp: udp::Udp,
    IoUring: io_uring::Uring,
    AfPacket: af_packet::AfPacket => mpps_af_packet::AfPacketPort,
    AfXdp: af_xdp::AfXdp => mpps_af_xdp::AfXdpPort,
    Xdp: xdp::Xdp,
    Dpdk: dpdk::Dpdk => mpps_dpdk::DpdkPort,
    Null: null::Null => null::Producer,
    Loop: loopback::Loop => loopback::Returner,
    #[cfg(test)]
    Mirror: mirror::Mirror,
}

/// Returns the error for a path that is not in the list.
fn unknown(spec: &PortSpec) -> crate::fail::Failure {
    let have = names(|_| true);
    let bare = |name: &str| name.replace('_', "");
    let meant = have.iter().find(|name| bare(name) == bare(&spec.path));
    let meant = meant.map_or_else(String::new, |name| format!(" (did you mean {name}?)"));
    usage(format!(
        "port '{spec}': unknown path '{}'{meant}: want one of {}",
        spec.path,
        have.join(", ")
    ))
}

/// Returns the names of the paths for which `which` is true, in the order of the list.
fn names(which: impl Fn(&Entry) -> bool) -> Vec<&'static str> {
    LIST.iter()
        .filter(|entry| which(entry))
        .map(|entry| entry.name)
        .collect()
}

/// Returns the paths that the demo shows, in the order of the list.
pub fn shown() -> impl Iterator<Item = (&'static str, Demo)> {
    LIST.iter().filter_map(|entry| Some((entry.name, entry.demo?)))
}

/// Returns the names of all paths. `dpdk` is among them even if it is not built in: its error says so.
pub fn all_names() -> Vec<&'static str> {
    names(|_| true)
}

/// Returns whether the path of this port drives an interface of the host that the port names.
pub fn drives_interface(spec: &PortSpec) -> bool {
    LIST.iter()
        .any(|entry| entry.name == spec.path && entry.drives_interface)
}

/// Returns whether the path of this port needs BPF programs.
pub(crate) fn needs_bpf(spec: &PortSpec) -> bool {
    LIST.iter().any(|entry| entry.name == spec.path && entry.needs_bpf)
}

/// Returns whether packets of this port go through sockets of the kernel.
pub(crate) fn has_sockets(spec: &PortSpec) -> bool {
    LIST.iter().any(|entry| entry.name == spec.path && entry.sockets)
}

/// Checks the options of a run that only one path knows, for these ports.
pub(crate) fn check_run(run: &Run, ports: &[&Checked]) -> Result<()> {
    LIST.iter().try_for_each(|entry| {
        let own = ports.iter().filter(|port| port.spec.path == entry.name).count();
        (entry.check_run)(run, own)
    })
}

/// Refuses a port for packets of any headers, which `option` gives, if it can't have them.
pub(crate) fn check_headers(port: &Checked, option: &str) -> Result<()> {
    match port.traits.layer {
        Layer::Ethernet => Ok(()),
        Layer::Payload => Err(usage(format!(
            "{option}: on port '{}' the kernel writes the headers: want af_packet, af_xdp, xdp, dpdk, null or loop",
            port.spec
        ))),
    }
}

/// Refuses ports that can't be in one run.
pub(crate) fn check_together(all: &[PortSpec]) -> Result<()> {
    all.iter()
        .try_for_each(|spec| match LIST.iter().find(|entry| entry.name == spec.path) {
            Some(entry) => (entry.check_beside)(spec, all),
            None => Ok(()),
        })
}

/// Undoes changes to the host that killed runs have left behind. Returns one line per change.
pub fn mend() -> impl Iterator<Item = String> {
    LIST.iter().flat_map(|entry| (entry.mend)())
}

/// Opens the ports of a run, those of each path together.
pub(crate) fn open<'r>(ports: Vec<(&'r Checked, Request<'r>)>, opening: &Opening<'_>) -> Result<Opened<'r>> {
    let path = |port: &Checked| std::mem::discriminant(&port.config);
    let mut rest: Vec<_> = ports.into_iter().enumerate().collect();
    let mut lanes = Vec::new();
    while let Some(&(_, (first, _))) = rest.first() {
        let (own, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(_, (port, _))| path(port) == path(first));
        let (places, own): (Vec<_>, Vec<_>) = own.into_iter().unzip();
        rest = others;
        match open_alike(first, own, opening)? {
            Opened::Lanes(ports) => lanes.extend(places.into_iter().zip(ports)),
            kernel if rest.is_empty() && lanes.is_empty() => return Ok(kernel),
            Opened::Kernel(_) => return Err(alone(&first.spec)),
        }
    }
    if lanes.is_empty() {
        return Err(usage("no port: want one at least"));
    }
    lanes.sort_by_key(|(place, _)| *place);
    Ok(Opened::Lanes(lanes.into_iter().map(|(_, port)| port).collect()))
}

/// Returns the error for a port of another path beside one on which the kernel runs the workload. That path has refused
/// such ports before.
fn alone(spec: &PortSpec) -> crate::fail::Failure {
    usage(format!("port '{spec}': want ports of one path"))
}

/// Prints a port's remarks: requests that it could not meet, and better settings that were not possible.
fn remark(remarks: &[String]) {
    for line in remarks {
        say!("{line}");
    }
}

/// Returns packets without a tag as a reflector takes them.
pub(crate) fn untagged(headers: impl Iterator<Item = Headers>) -> Box<[Untagged]> {
    headers
        .map(|of| Untagged {
            protocol: of.protocol,
            ips: [of.from, of.to],
            ports: [of.from_ports, of.to_ports],
        })
        .collect()
}

#[cfg(test)]
mod tests;
