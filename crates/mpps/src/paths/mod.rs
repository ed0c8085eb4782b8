//! The one list of paths, and the one way to open their ports.
//!
//! A workload says what it needs of each port ([`Request`]) and what it does with open ports ([`Use`]); a path makes of
//! the request what it has and opens all its ports of a run in one call ([`Path::open`]). Open ports are then handed to
//! the workload ([`Opened`]), which is compiled for each path, so nothing on the packet path is a virtual call. Opening
//! is compiled once per path, whatever the workload. `docs/adding-a-path.md` shows
//! how a path is added: its crate, one file here, one line in [`paths!`].

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

pub(crate) use dpdk::{dpdk_version, peer_plugin};
pub(crate) use help::{port_help, summary, text};
pub(crate) use rules::Rules;

use crate::fail::{Result, say, usage};
use crate::plan::reserve::ANY_INTERFACE;
use crate::plan::run::Run;
use help::Help;
use mpps_engine::{DropPlan, ForwardPlan, ReflectPlan, TrafficPlan};
use mpps_io::kernel::KernelPort;
use mpps_io::{Capabilities, Layer, Port, PortSpec, Request, Roles, Task};
use mpps_netdev::NetDev;
use mpps_sys::privilege::CapabilitySet;
use rules::Steering;
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};

/// What a path says of itself, and how it is entered.
trait Path {
    /// As it is written in front of a port's colon.
    const NAME: &'static str;
    /// Devices and options, for the help.
    const HELP: Help;
    /// How the demo shows it; `None`: it can't.
    const DEMO: Option<Demo> = None;
    /// It drives a network interface of the host, named by the port's device.
    const DRIVES_INTERFACE: bool = false;
    /// Its ports are made by BPF programs.
    const NEEDS_BPF: bool = false;
    /// Flow rules can be in force on its ports.
    const STEERS: bool = false;
    /// What its ports are.
    const KIND: Kind = Kind::Device;

    /// The options of a port, checked.
    type Config: Debug;
    /// Ports of a run, open.
    type Opened<'r>: Opened;

    /// Checks a port's specification for what it is wanted for; opens nothing.
    fn check(spec: &PortSpec, task: Task) -> Result<Self::Config>;

    /// What is known of a port before it is open.
    fn traits(config: &Self::Config) -> Traits;

    /// Checks options that are this path's, for a run with this many of its ports.
    fn check_run(_run: &Run, _ports: usize) -> Result<()> {
        Ok(())
    }

    /// Refuses a port of this path beside these others.
    fn check_beside(_spec: &PortSpec, _all: &[PortSpec]) -> Result<()> {
        Ok(())
    }

    /// Most flows that these lanes can have; `None`: as many as memory holds.
    fn most_flows(_config: &Self::Config, _roles: &[Roles]) -> Option<usize> {
        None
    }

    /// Undoes changes to the host that a killed run has left behind. Returns one line per change.
    fn mend() -> Vec<String> {
        Vec::new()
    }

    /// What stays of the privileges of a run on such a port.
    fn keeps(_config: &Self::Config, _work: Work) -> Kept {
        Kept::default()
    }

    /// Opens all ports of this path that a run has.
    fn open<'r>(ports: Vec<(&'r Self::Config, Request<'r>)>, opening: &Opening<'_>) -> Result<Self::Opened<'r>>;
}

/// Open ports of one path.
trait Opened {
    /// Hands them to a workload. Only this step is compiled for each workload: whatever can be done before is done in
    /// [`Path::open`].
    fn hand_to<U: Use>(self, user: U) -> Result<U::Out>;
}

impl<P: Port> Opened for Vec<P> {
    fn hand_to<U: Use>(self, user: U) -> Result<U::Out> {
        user.frames(&self)
    }
}

/// How the demo shows a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demo {
    /// What it is, in a few words.
    pub(crate) about: &'static str,
    /// Its ports are addresses of the host, so it works without a lab; else they are interfaces.
    pub(crate) by_address: bool,
    /// Its lanes can be pinned.
    pub(crate) pinned: bool,
    /// Not every kernel has it.
    pub(crate) optional: bool,
}

/// What the ports of a path are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sockets: they carry payloads.
    Socket,
    /// No device stands behind them.
    Synthetic,
    /// Devices, which frames come from and go to.
    Device,
}

/// What is known of a port before it is open.
#[derive(Clone, Debug)]
pub(crate) struct Traits {
    /// Where frames start.
    pub(crate) layer: Layer,
    /// Name of the host's interface that the path opens.
    pub(crate) interface: Option<String>,
    /// Name of the host's interface under a device that is none itself.
    pub(crate) under: Option<String>,
    /// Who finds the MAC address of a next hop.
    pub(crate) neighbors: Neighbors,
    /// The kernel runs the workload: no packet comes to user space.
    pub(crate) in_kernel: bool,
    /// Packets are taken from the host, and a program at the interface has chosen them before a lane sees them. All
    /// others are the host's.
    pub(crate) takes_from_host: bool,
    /// Receiving and sending may be split between lanes.
    pub(crate) split_lanes: bool,
    /// The option by which one flow is spread over several lanes.
    pub(crate) spreads_flows: Option<String>,
    /// It delivers its buffers as they are, again and again.
    pub(crate) repeats_frames: bool,
    /// The kernel's socket that packets go through.
    pub(crate) socket: Option<Socket>,
    /// Buffers that lanes have, where the options say how many.
    pub(crate) buffers: Vec<Buffers>,
    /// How flow rules come into force.
    steering: Steering,
}

impl Default for Traits {
    /// Of an Ethernet device that is no interface of the host's.
    fn default() -> Self {
        Self {
            layer: Layer::Ethernet,
            interface: None,
            under: None,
            neighbors: Neighbors::Lanes,
            in_kernel: false,
            takes_from_host: false,
            split_lanes: true,
            spreads_flows: None,
            repeats_frames: false,
            socket: None,
            buffers: Vec::new(),
            steering: Steering::Not("no device stands behind it"),
        }
    }
}

/// Buffers whose number is an option's value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffers {
    /// The option.
    pub(crate) option: &'static str,
    /// Buffers per lane.
    pub(crate) count: usize,
    /// Bytes of one.
    pub(crate) bytes: usize,
    /// The lanes that have them.
    pub(crate) lanes: fn(Roles) -> bool,
    /// Least value of the option.
    pub(crate) least: usize,
    /// Number of queues that have such buffers each; lanes, if there are more of them.
    pub(crate) queues: usize,
}

impl Buffers {
    /// A pool of each lane: `frames=`. Something goes with every buffer.
    pub(crate) fn pool(count: usize, bytes: usize) -> Vec<Self> {
        vec![Self::frames(count, bytes)]
    }

    /// The same, one of several.
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

/// Who finds the MAC address of a next hop, and who answers for ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Neighbors {
    /// Nobody is there who could be asked.
    Nobody,
    /// The lanes ask; for an address of the interface's own the host answers.
    Lanes,
    /// The lanes ask and answer: no address of the port is the host's.
    LanesAlone,
    /// The lanes, but for an address of the interface's own the host: answers to it would go to the host.
    Host,
}

/// A socket of the kernel's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Socket {
    /// The address that the port names.
    pub(crate) address: Option<IpAddr>,
    /// The UDP port that it names.
    pub(crate) port: Option<u16>,
    /// Where it listens.
    pub(crate) listens: SocketAddr,
}

/// What stays of a run's privileges for a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// With each lane, in force.
    pub(crate) lanes: CapabilitySet,
    /// With lane 0, beside that.
    pub(crate) reader: CapabilitySet,
    /// With the main thread and those of the path's own, in force.
    pub(crate) in_force: CapabilitySet,
    /// These threads stay root.
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

/// What a run does with its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// It generates, receives or captures.
    Ends,
    /// It sends what comes back by the port that it came from: `reflect`, and `forward` on one port.
    SendsBack,
    /// `forward` on more.
    Forwards,
}

/// What all ports of a run share while they are opened.
pub(crate) struct Opening<'a> {
    /// The run's options.
    pub(crate) run: &'a Run,
    /// Its flow rules.
    pub(crate) rules: &'a Rules,
    /// How often the end has been asked for.
    pub(crate) interruptions: &'a dyn Fn() -> u32,
}

/// What is to be done with the open ports of a run, whatever their path.
pub(crate) trait Use: Sized {
    /// Kinds of ports that it can be used with. It is compiled for no others: a workload on two ports would be the
    /// square of all paths.
    const KINDS: &'static [Kind] = &[Kind::Socket, Kind::Synthetic, Kind::Device];
    /// Its task makes packets of its own ([`Task::generates`]).
    const GENERATES: bool = false;

    /// What comes of it.
    type Out;

    /// With ports that frames come from and go to, all of one path.
    fn frames<P: Port>(self, ports: &[P]) -> Result<Self::Out>;

    /// With devices on which the kernel runs the workload.
    fn in_kernel<D: KernelDevices>(self, devices: D) -> Result<Self::Out>;
}

/// As [`Use`], for two ports of two paths.
pub(crate) trait UseTwo: Use {
    /// With two ports, each of its own path.
    fn two<A: Port, B: Port>(self, a: &A, b: &B) -> Result<Self::Out>;
}

/// Devices that were looked up, before they are given their programs, which are made from the plan of one run.
pub(crate) trait KernelDevices {
    /// The devices with their programs.
    type Port: KernelPort;
    /// What each device can do.
    fn capabilities(&self) -> Vec<&Capabilities>;
    /// Loads and attaches the programs of `sendrecv` and `send`: of one trial, and of another when those are gone. One
    /// port; of two devices one for each way.
    fn traffic(&self, plan: &TrafficPlan) -> Result<Vec<Self::Port>>;
    /// Makes the programs of a trial that is over ready for another; false: they were not made for such a trial.
    fn renew(&self, ports: &mut [Self::Port], plan: &TrafficPlan) -> Result<bool>;
    /// Of `reflect`.
    fn reflect(self, plan: &ReflectPlan) -> Result<Self::Port>;
    /// Of `drop`.
    fn drop(self, plan: &DropPlan) -> Result<Self::Port>;
    /// Of `forward`.
    fn forward(self, plan: &ForwardPlan) -> Result<Self::Port>;
}

/// A port as it was written, its options checked; nothing is open.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) spec: PortSpec,
    pub(crate) traits: Traits,
    config: Config,
}

impl Checked {
    /// Checks a port's specification for what it is wanted for.
    pub(crate) fn new(spec: &PortSpec, task: Task) -> Result<Self> {
        let config = Config::check(spec, task)?;
        Ok(Self {
            spec: spec.clone(),
            traits: config.traits(),
            config,
        })
    }

    /// The interface that the path opens; `None` where it opens none, and where there is no such interface.
    pub(crate) fn interface(&self) -> Option<NetDev> {
        NetDev::by_name(self.traits.interface.as_deref()?).ok()
    }

    /// Index of the interface whose packets another program of this host could take for its own. Sockets of the kernel
    /// share all ([`ANY_INTERFACE`]), once their port is known.
    pub(crate) fn shared_interface(&self) -> Option<u32> {
        if let Some(socket) = self.traits.socket {
            return (socket.port != Some(0)).then_some(ANY_INTERFACE);
        }
        let name = self.traits.interface.as_ref().or(self.traits.under.as_ref())?;
        NetDev::by_name(name).ok().map(|device| device.ifindex)
    }

    /// Whether there is no other end: nobody whose address could be asked for.
    pub(crate) fn nobody_answers(&self) -> bool {
        self.traits.neighbors == Neighbors::Nobody
    }

    /// Most flows that these lanes can have; `None`: as many as memory holds.
    pub(crate) fn most_flows(&self, roles: &[Roles]) -> Option<usize> {
        self.config.most_flows(roles)
    }

    /// What stays of the privileges of a run on this port.
    pub(crate) fn keeps(&self, work: Work) -> Kept {
        self.config.keeps(work)
    }
}

/// A path in the list.
pub(crate) struct Entry {
    name: &'static str,
    kind: Kind,
    /// How the demo shows it; `None`: it can't.
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
            kind: P::KIND,
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

/// Makes the list, and the type that holds a port of any path of it.
macro_rules! paths {
    ($($(#[$when:meta])? $name:ident: $path:ty,)*) => {
        /// The paths of this build.
        pub(crate) const LIST: &[Entry] = &[$($(#[$when])? Entry::of::<$path>()),*];

        /// The checked options of a port, of whatever path.
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

        /// Open ports, all of one path, whichever it is.
        enum Ports<'r> { $($(#[$when])? $name(<$path as Path>::Opened<'r>),)* }

        impl<'r> Ports<'r> {
            /// Opens ports, which are all of the path of the first, for a workload that can be used with these kinds.
            fn open(
                ports: Vec<(&'r Checked, Request<'r>)>,
                opening: &Opening<'_>,
                kinds: &'static [Kind],
            ) -> Result<Self> {
                let Some(first) = ports.first().map(|(port, _)| *port) else {
                    return Err(usage("no port: want one at least"));
                };
                match &first.config {
                    $($(#[$when])? Config::$name(_) => {
                        if !is_one_of(<$path as Path>::KIND, kinds) {
                            // The plan has refused it.
                            return Err(alone(&first.spec));
                        }
                        let own = ports.into_iter().filter_map(|(port, request)| match &port.config {
                            Config::$name(config) => Some((config, request)),
                            _ => None,
                        });
                        <$path as Path>::open(own.collect(), opening).map(Self::$name)
                    })*
                }
            }

            fn hand_to<U: Use>(self, user: U) -> Result<U::Out> {
                match self {
                    $($(#[$when])? Self::$name(ports) if const { is_one_of(<$path as Path>::KIND, U::KINDS) } => {
                        ports.hand_to(user)
                    })*
                    // They were not opened.
                    _ => Err(usage("ports of a path that the workload can't be used with")),
                }
            }
        }
    };
}

paths! {
    Udp: udp::Udp,
    IoUring: io_uring::Uring,
    AfPacket: af_packet::AfPacket,
    AfXdp: af_xdp::AfXdp,
    Xdp: xdp::Xdp,
    Dpdk: dpdk::Dpdk,
    Null: null::Null,
    Loop: loopback::Loop,
    #[cfg(test)]
    Mirror: mirror::Mirror,
}

/// A path that is not in the list.
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

/// Names of the paths of which this holds, in the order of the list.
fn names(which: impl Fn(&Entry) -> bool) -> Vec<&'static str> {
    LIST.iter()
        .filter(|entry| which(entry))
        .map(|entry| entry.name)
        .collect()
}

/// The paths that the demo shows, in the order of the list.
pub(crate) fn shown() -> impl Iterator<Item = (&'static str, Demo)> {
    LIST.iter().filter_map(|entry| Some((entry.name, entry.demo?)))
}

/// Names of all paths, `dpdk` also where it is not built in: its error says so.
pub(crate) fn all_names() -> Vec<&'static str> {
    names(|_| true)
}

/// Whether the path of this port drives an interface of the host that the port names.
pub(crate) fn drives_interface(spec: &PortSpec) -> bool {
    LIST.iter()
        .any(|entry| entry.name == spec.path && entry.drives_interface)
}

/// Whether the path of this port can't do without BPF programs.
pub(crate) fn needs_bpf(spec: &PortSpec) -> bool {
    LIST.iter().any(|entry| entry.name == spec.path && entry.needs_bpf)
}

/// Whether packets of this port go through sockets of the kernel's.
pub(crate) fn has_sockets(spec: &PortSpec) -> bool {
    LIST.iter()
        .any(|entry| entry.name == spec.path && entry.kind == Kind::Socket)
}

/// Checks the options of a run that one path knows, for these ports.
pub(crate) fn check_run(run: &Run, ports: &[&Checked]) -> Result<()> {
    LIST.iter().try_for_each(|entry| {
        let own = ports.iter().filter(|port| port.spec.path == entry.name).count();
        (entry.check_run)(run, own)
    })
}

/// Refuses ports that can't be in one run.
pub(crate) fn check_together(all: &[PortSpec]) -> Result<()> {
    all.iter()
        .try_for_each(|spec| match LIST.iter().find(|entry| entry.name == spec.path) {
            Some(entry) => (entry.check_beside)(spec, all),
            None => Ok(()),
        })
}

/// Puts right what runs that were killed have left of their changes to the host; what is said of that, a line each.
pub(crate) fn mend() -> impl Iterator<Item = String> {
    LIST.iter().flat_map(|entry| (entry.mend)())
}

/// Opens the ports of a run, which are all of one path.
pub(crate) fn with_alike<U: Use>(
    ports: Vec<(&Checked, Request<'_>)>,
    opening: &Opening<'_>,
    user: U,
) -> Result<U::Out> {
    Ports::open(ports, opening, U::KINDS)?.hand_to(user)
}

/// Opens the ports of a run: all of one path, or two of two.
pub(crate) fn with_ports<U: UseTwo>(
    mut ports: Vec<(&Checked, Request<'_>)>,
    opening: &Opening<'_>,
    user: U,
) -> Result<U::Out> {
    let path = |port: &Checked| std::mem::discriminant(&port.config);
    match &ports[..] {
        [(a, _), (b, _)] if path(a) != path(b) => {
            let spec = &b.spec;
            let other = ports.split_off(1);
            let first = Ports::open(ports, opening, U::KINDS)?;
            let second = Ports::open(other, opening, U::KINDS)?;
            first.hand_to(First { second, spec, user })
        }
        _ => with_alike(ports, opening, user),
    }
}

/// Whether a kind of ports is in the list.
const fn is_one_of(kind: Kind, kinds: &[Kind]) -> bool {
    let mut i = 0;
    while i < kinds.len() {
        if kinds[i] as u8 == kind as u8 {
            return true;
        }
        i += 1;
    }
    false
}

/// What is done with the first of two ports: the second is handed on, too.
struct First<'a, U> {
    second: Ports<'a>,
    /// The second, as it was written.
    spec: &'a PortSpec,
    user: U,
}

impl<U: UseTwo> Use for First<'_, U> {
    const KINDS: &'static [Kind] = U::KINDS;
    const GENERATES: bool = U::GENERATES;
    type Out = U::Out;

    fn frames<P: Port>(self, ports: &[P]) -> Result<U::Out> {
        let second = Second {
            first: &ports[0],
            spec: self.spec,
            user: self.user,
        };
        self.second.hand_to(second)
    }

    fn in_kernel<D: KernelDevices>(self, _devices: D) -> Result<U::Out> {
        Err(alone(self.spec))
    }
}

/// What is done with the second.
struct Second<'a, A, U> {
    first: &'a A,
    /// The second, as it was written.
    spec: &'a PortSpec,
    user: U,
}

impl<A: Port, U: UseTwo> Use for Second<'_, A, U> {
    const KINDS: &'static [Kind] = U::KINDS;
    const GENERATES: bool = U::GENERATES;
    type Out = U::Out;

    fn frames<P: Port>(self, ports: &[P]) -> Result<U::Out> {
        self.user.two(self.first, &ports[0])
    }

    fn in_kernel<D: KernelDevices>(self, _devices: D) -> Result<U::Out> {
        Err(alone(self.spec))
    }
}

/// A port beside one on which the kernel runs the workload: its path has refused that before.
fn alone(spec: &PortSpec) -> crate::fail::Failure {
    usage(format!("port '{spec}': want ports of one path"))
}

/// Prints a port's remarks: requests that it could not meet, and better settings that it could not have.
fn remark(remarks: &[String]) {
    for line in remarks {
        say!("{line}");
    }
}

#[cfg(test)]
mod tests;
