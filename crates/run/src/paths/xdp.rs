//! `xdp`: programs in the kernel. A device is looked up and planned for. Only then is it given its programs, which are
//! made for this one run.

use super::af_xdp::NO_RULES;
use super::help::{Help, SWITCH, option};
use super::rules::Steering;
use super::{Demo, Kept, KernelDevices, KernelPlan, Neighbors, Opened, Opening, Path, Traits, Work, remark};
use crate::fail::{Failure, Result, unopened, usage};
use mpps_engine::{
    Common, DropPlan, ForwardPlan, Link, Pacing, PacketStream, ReflectPlan, StreamLoad, TrafficPlan, size_classes,
};
use mpps_io::kernel::KernelPort;
use mpps_io::selection::{Listed, MOST_LEFT, left_to_host};
use mpps_io::{Capabilities, PortSpec, Request, Selection, Task};
use mpps_netdev::NetDev;
use mpps_sys::privilege::{CapabilitySet, bpf_needs_none};
use mpps_wire::image::Parts;
use mpps_wire::{ChecksumMode, Image, ImageSpec, MacAddr, Rewrite, Template, TemplateSpec};
use mpps_xdp::{
    Answer, Arrival, Config, DropSpec, ForwardPortSpec, ForwardRewrite, ForwardSpec, ForwardTake, ReflectSpec, Series,
    StreamSpec, Taken, TrafficSpec, Unanswered, XdpDevice, XdpPort,
};
use std::net::IpAddr;
use std::time::{Duration, Instant};

pub(super) struct Xdp;

impl Path for Xdp {
    const NAME: &'static str = "xdp";
    const HELP: Help = Help {
        device: "INTERFACE",
        examples: &["xdp:eth1,batch=64"],
        options: &[
            option(
                "mode",
                "auto|native|skb",
                "auto",
                "programs run in the driver, or on socket buffers",
            ),
            option("clock", "poll|packet", "poll", "when the time of arrival is read"),
            option(
                "check",
                "all|headers",
                "all",
                "what is verified of packets that come back",
            ),
            option(
                "batch",
                "1 to 256",
                "by --rate",
                "frames that the kernel makes in one go",
            ),
            option(
                "promisc",
                SWITCH,
                "off; forward, two ports: on",
                "take frames for other MAC addresses, too",
            ),
        ],
        note: "",
    };
    const DEMO: Option<Demo> = Some(Demo {
        about: "programs in the kernel: no packet comes to user space",
        by_address: false,
        pinned: false,
        optional: true,
    });
    const DRIVES_INTERFACE: bool = true;
    const NEEDS_BPF: bool = true;
    const STEERS: bool = true;

    type Config = Config;

    fn check(spec: &PortSpec, task: Task) -> Result<Config> {
        let mut config = mpps_xdp::check(spec)?;
        config.promisc = Some(task.promiscuous(config.promisc));
        if task == Task::Capture {
            return Err(usage(format!(
                "port '{spec}': packets of the xdp path never come to user space, so none can be written: want \
                 af_xdp:{0} or af_packet:{0}",
                spec.device
            )));
        }
        Ok(config)
    }

    fn traits(config: &Config) -> Traits {
        Traits {
            interface: Some(config.device.clone()),
            neighbors: Neighbors::Host,
            in_kernel: true,
            takes_from_host: true,
            steering: Steering::Ntuple {
                queues: None,
                otherwise: NO_RULES,
            },
            ..Traits::default()
        }
    }

    /// Refuses a port of another path, because a program in the kernel can't pass frames to it, and more than two
    /// ports.
    fn check_beside(spec: &PortSpec, all: &[PortSpec]) -> Result<()> {
        if let Some(other) = all.iter().find(|other| other.path != spec.path) {
            return Err(usage(format!(
                "port '{other}': in the kernel (by devmap) '{spec}' can pass frames to another XDP device only: want \
                 xdp:{} too, or both ports on af_xdp",
                other.device
            )));
        }
        match all {
            [_, _, third, ..] => Err(usage(format!(
                "port '{third}': the kernel's programs forward on one device or between two: want two ports at the \
                 most, or all on af_xdp"
            ))),
            _ => Ok(()),
        }
    }

    fn keeps(config: &Config, work: Work) -> Kept {
        let mut kept = Kept::default();
        // If this is not known, the capability is kept.
        if !bpf_needs_none().unwrap_or(false) {
            kept.lanes = CapabilitySet::BPF;
            kept.in_force = CapabilitySet::BPF;
        }
        // The kernel needs this to report whether the other end has a program, if that end is in another namespace.
        let veth = || NetDev::by_name(&config.device).is_ok_and(|device| device.driver == "veth");
        if work == Work::SendsBack && veth() {
            kept.reader = CapabilitySet::NET_ADMIN;
        }
        kept
    }

    fn open<'r>(ports: Vec<(&'r Config, Request<'r>)>, _opening: &Opening<'_>) -> Result<Opened<'r>> {
        let open = |(config, request): &(&Config, Request<'_>)| {
            let device = mpps_xdp::open(config).map_err(unopened(request.spec))?;
            remark(device.remarks());
            Ok(device)
        };
        Ok(Opened::Kernel(Box::new(Devices {
            devices: ports.iter().map(open).collect::<Result<_>>()?,
            requests: ports.into_iter().map(|(_, request)| request).collect(),
            programs: Vec::new(),
            trials: 0,
        })))
    }
}

/// Devices, and the request for each.
struct Devices<'a> {
    devices: Vec<XdpDevice>,
    requests: Vec<Request<'a>>,
    /// The programs on them. Empty only while others are loaded, because a device has one program.
    programs: Vec<XdpPort>,
    /// Trials that were begun: each has tags of another run.
    trials: u8,
}

impl Devices<'_> {
    /// Returns the device of a workload on one port, and the request for it.
    fn one(&self) -> Result<(XdpDevice, impl Fn(mpps_io::Error) -> Failure, Taken)> {
        let first = self.devices.first().zip(self.requests.first());
        let (device, request) = first.ok_or_else(|| usage("xdp: no port"))?;
        Ok((device.clone(), unopened(request.spec), Taken::of(request)))
    }

    fn traffic(&self, plan: &TrafficPlan) -> Result<Vec<XdpPort>> {
        let (device, unopened, _) = self.one()?;
        let ports = match (&self.devices[..], &plan.far) {
            ([from, to], Some(_)) => {
                mpps_xdp::across([from.clone(), to.clone()], &two_ways(plan, self.trials)?).map(Vec::from)
            }
            _ => device.traffic(&one_way(plan, self.trials)?).map(|port| vec![port]),
        };
        ports.map_err(unopened)
    }

    /// Prepares the programs of a finished trial for another one. Returns false if they were not made for such a trial.
    fn renew(&mut self, plan: &TrafficPlan) -> Result<bool> {
        let specs = match &plan.far {
            Some(_) => two_ways(plan, self.trials)?.to_vec(),
            None => vec![one_way(plan, self.trials)?],
        };
        let mut programs = self.programs.iter_mut().zip(&specs);
        Ok(programs.all(|(port, spec)| port.renew(spec)))
    }

    fn forward(&self, plan: &ForwardPlan) -> Result<XdpPort> {
        let Some(first) = self.requests.first() else {
            return Err(usage("xdp: no port"));
        };
        let mut takes = Vec::new();
        for request in &self.requests {
            let (take, told) = forward_take(request)?;
            takes.push(take);
            told.iter().for_each(|line| remark(std::slice::from_ref(line)));
        }
        // The error itself names the device.
        mpps_xdp::forward(self.devices.clone(), &forward_spec(plan, takes)).map_err(unopened(first.spec))
    }
}

impl KernelDevices for Devices<'_> {
    fn capabilities(&self) -> Vec<&Capabilities> {
        self.devices.iter().map(XdpDevice::capabilities).collect()
    }

    fn load(&mut self, plan: KernelPlan<'_>) -> Result<Option<Duration>> {
        self.trials = self.trials.wrapping_add(1);
        if let KernelPlan::Traffic(plan) = plan
            && !self.programs.is_empty()
            && self.renew(plan)?
        {
            return Ok(None);
        }
        self.programs.clear();
        let began = Instant::now();
        self.programs = match plan {
            KernelPlan::Traffic(plan) => self.traffic(plan)?,
            KernelPlan::Forward(plan) => vec![self.forward(plan)?],
            KernelPlan::Reflect(plan) => {
                let (device, unopened, taken) = self.one()?;
                vec![device.reflect(&reflect_spec(plan, taken)).map_err(unopened)?]
            }
            KernelPlan::Drop(plan) => {
                let (device, unopened, taken) = self.one()?;
                vec![device.drop(&drop_spec(plan, taken)).map_err(unopened)?]
            }
        };
        self.programs.iter().for_each(|port| remark(port.remarks()));
        Ok(Some(began.elapsed()))
    }

    fn ports(&self) -> Vec<&dyn KernelPort> {
        self.programs.iter().map(|port| port as _).collect()
    }
}

/// Returns the frames that the program takes at a port of `forward`, and a remark.
///
/// # Errors
/// If the interface has more addresses than its program has room for.
fn forward_take(request: &Request<'_>) -> Result<(ForwardTake, Option<String>)> {
    let device = NetDev::by_name(&request.spec.device).ok();
    let (left, told) = match (&request.selection, device) {
        (Selection::Foreign, Some(device)) => left_of(&device, request.spec)?,
        _ => (Vec::new(), None),
    };
    Ok((ForwardTake::of(&request.selection, left), told))
}

/// Returns the addresses that `--take foreign` leaves to the host, and a remark if there is no room for all of the
/// host's addresses.
///
/// # Errors
/// If there is no room for the addresses of the interface itself.
fn left_of(device: &NetDev, port: &PortSpec) -> Result<(Vec<IpAddr>, Option<String>)> {
    let own: Vec<IpAddr> = device.addresses.iter().map(|(ip, _)| *ip).collect();
    let (_, missing) = left_to_host(own, 0);
    if missing > 0 {
        return Err(usage(format!(
            "port '{port}': {} has more addresses than a program has room for ({} of IPv4, {} of IPv6), so frames for \
             the host can't be told: want --take udp or --take all",
            device.name, MOST_LEFT[0], MOST_LEFT[1]
        )));
    }
    let (left, more) = left_to_host(mpps_netdev::host_addresses(device), 0);
    let remark = (more > 0).then(|| {
        format!(
            "{}: {more} of the host's addresses on other interfaces are more than the XDP program has room for: frames \
             for them are taken, too",
            device.name
        )
    });
    Ok((left, remark))
}

/// Returns the settings of the rows. Rows stay open for the settle time even if no packet comes back, because the
/// engine closes them only after it.
fn series(common: &Common) -> Series {
    Series {
        interval_ns: common.interval.as_nanos() as u64,
        settle_ns: common.settle.as_nanos() as u64,
    }
}

fn answer(link: Option<&Link>) -> Answer {
    link.map_or_else(Answer::default, |link| Answer {
        addresses: Listed::of(&link.answer_for),
        next_hop: link.next_hop.filter(|_| link.dest_mac.is_none()),
    })
}

/// Returns the cores of the lanes that send.
fn sending_cores(plan: &TrafficPlan) -> Vec<usize> {
    let sending = plan.common.lanes.iter().filter(|lane| lane.tx);
    sending.filter_map(|lane| lane.core).collect()
}

/// Describes the programs of `sendrecv` and `send` on one device.
fn one_way(plan: &TrafficPlan, trial: u8) -> Result<TrafficSpec> {
    traffic_spec(plan, sending_cores(plan), Arrival::Back, trial)
}

/// Describes the programs of `sendrecv` from one device to another, and those of the way back. If packets go one way
/// only, the latter only answer.
fn two_ways(plan: &TrafficPlan, trial: u8) -> Result<[TrafficSpec; 2]> {
    let (mut cores, way_back) = (sending_cores(plan), plan.way_back());
    let of_back = match plan.back {
        Some(_) => cores.split_off(cores.len() / 2),
        None => Vec::new(),
    };
    // The program that receives packets of one direction also answers at the device by which packets of the other
    // direction leave.
    let there = TrafficSpec {
        answer: answer(plan.far.as_ref()),
        ..traffic_spec(plan, cores, Arrival::Across, trial)?
    };
    let back = TrafficSpec {
        answer: answer(plan.link.as_ref()),
        ..traffic_spec(&way_back, of_back, Arrival::AcrossBack, trial)?
    };
    let back = match plan.back {
        Some(_) => back,
        None => TrafficSpec {
            receive: false,
            rate_pps: None,
            random: false,
            flows: plan.flows.first(1),
            ..back
        },
    };
    Ok([there, back])
}

/// Returns the packets of a stream that have one size. `macs`: of its next hop, and of the port.
fn parts_of(stream: &PacketStream, spec: &ImageSpec, macs: [MacAddr; 2]) -> Parts {
    let mut spec = spec.clone();
    for (at, takes) in [stream.to_next_hop.is_some(), stream.from_port].into_iter().enumerate() {
        if takes {
            spec.headers[at * 6..at * 6 + 6].copy_from_slice(&macs[at].0);
        }
    }
    let parts = Image::new(spec).and_then(|image| image.parts());
    // The plan was validated; packets that can't be made are a defect.
    parts.expect("validated plan")
}

/// Returns the streams of a plan that has several.
///
/// # Errors
/// If the MAC address of more than one next hop is to be asked for.
fn streams(plan: &TrafficPlan, cores: usize) -> Result<Vec<StreamSpec>> {
    let Some(packets) = plan.packets.as_ref().filter(|packets| packets.plain(cores).is_none()) else {
        return Ok(Vec::new());
    };
    let link = plan.link.as_ref();
    let own = link.map(|link| link.mac).unwrap_or_default();
    let classes = size_classes(packets);
    let stream = |(number, stream): (usize, &PacketStream)| {
        let to = match stream.to_next_hop {
            None | Some(0) => link.and_then(|link| link.dest_mac).unwrap_or(MacAddr::BROADCAST),
            // The way back has none of them: its programs only answer.
            Some(hop) => packets.hops.get(hop - 1).map_or(Ok(MacAddr::BROADCAST), |hop| {
                let hop = &hop.link;
                hop.dest_mac.ok_or_else(|| {
                    let of = hop.next_hop.map(|ip| format!(" {ip}")).unwrap_or_default();
                    usage(format!(
                        "stream '{}': xdp asks for the MAC address of one next hop, and{of} is another: want dst=MAC \
                         in its eth, or af_xdp",
                        stream.name
                    ))
                })
            })?,
        };
        let load = stream.load;
        Ok(StreamSpec {
            packets: stream
                .specs
                .iter()
                .map(|spec| parts_of(stream, spec, [to, own]))
                .collect(),
            order: stream.sizes.clone(),
            classes: match stream.specs.len() {
                // Its size is that of all its packets.
                1 => Vec::new(),
                _ => classes.get(number).cloned().unwrap_or_default(),
            },
            to_next_hop: stream.to_next_hop == Some(0),
            lanes: stream.senders(number, cores),
            rate_pps: load.map_or(plan.rate, |load| load.rate).map(|rate| rate.pps()),
            joins: load.is_some_and(|load| load.start_ns > 0),
        })
    };
    packets.streams.iter().enumerate().map(stream).collect()
}

/// Returns the headers of all packets; the sum of what is constant of UDP between two ends, or the packets of any
/// headers in place of them.
fn packets(plan: &TrafficPlan, cores: usize) -> Result<(Vec<u8>, u16, Option<Parts>)> {
    let link = plan.link.as_ref();
    let macs = [
        link.and_then(|link| link.dest_mac).unwrap_or(MacAddr::BROADCAST),
        link.map(|link| link.mac).unwrap_or_default(),
    ];
    if let Some(stream) = plan.packets.as_ref().and_then(|packets| packets.plain(cores)) {
        let parts = parts_of(stream, &stream.specs[0], macs);
        return Ok((parts.headers.clone(), 0, Some(parts)));
    }
    let template = Template::new(&TemplateSpec {
        src_mac: macs[1],
        dst_mac: macs[0],
        vlan: link.and_then(|link| link.vlan),
        src: plan.src,
        dst: plan.dst,
        payload_len: plan.payload_len,
        ttl: plan.ttl,
        dscp: plan.dscp,
        seed: plan.common.seed,
        checksum: ChecksumMode::Software,
    })
    .map_err(usage)?;
    Ok((template.headers().to_vec(), template.constant_sum(), None))
}

/// Returns the loads that streams have of their own.
fn loads(plan: &TrafficPlan) -> impl Iterator<Item = &StreamLoad> {
    plan.packets
        .iter()
        .flat_map(|packets| &packets.streams)
        .filter_map(|stream| stream.load.as_ref())
}

/// `trial`: number of the trial.
fn traffic_spec(plan: &TrafficPlan, cores: Vec<usize>, arrival: Arrival, trial: u8) -> Result<TrafficSpec> {
    let streams = streams(plan, cores.len())?;
    let (headers, sum, packet) = match streams.first() {
        Some(first) => (first.packets[0].headers.clone(), 0, None),
        None => packets(plan, cores.len())?,
    };
    Ok(TrafficSpec {
        streams,
        series: series(&plan.common),
        headers,
        sum,
        packet,
        run: (mpps_wire::random(plan.common.run_id, 0) as u8).wrapping_add(trial),
        src: plan.src,
        dst: plan.dst,
        payload_len: plan.payload_len,
        seed: plan.common.seed,
        flows: plan.flows.clone(),
        cores,
        receive: plan.receive,
        arrival,
        rate_pps: plan.rate.map(|rate| rate.pps()),
        counted: plan.common.count.is_some(),
        random: plan.pacing == Pacing::Poisson
            || loads(plan).any(|load| load.pacing == Pacing::Poisson && load.rate.is_some()),
        catch_up_ns: plan.catch_up.as_nanos() as u64,
        answer: answer(plan.link.as_ref()),
    })
}

/// Describes the program of `reflect`.
fn reflect_spec(plan: &ReflectPlan, mut taken: Taken) -> ReflectSpec {
    if plan.filter.tagged.is_some() {
        // They choose no packets there, but no packet comes from one.
        taken.addresses.range.clone_from(&plan.filter.ip);
    }
    ReflectSpec {
        tagged: plan.filter.tagged,
        series: series(&plan.common),
        taken,
        unanswered: Unanswered {
            own: plan.filter.own.to_vec(),
            broadcasts: plan.filter.broadcasts.to_vec(),
            loopback: plan.filter.loopback,
        },
    }
}

/// Describes the program of `drop`.
fn drop_spec(plan: &DropPlan, taken: Taken) -> DropSpec {
    DropSpec {
        series: series(&plan.common),
        taken,
        verify: plan.verify,
        seed: plan.common.seed,
        max_flows: plan.max_flows,
        tagged: plan.tagged,
        streams: plan
            .streams
            .iter()
            .flat_map(|packets| &packets.streams)
            .map(|of| of.first_flow() + of.flows())
            .collect(),
    }
}

/// Describes the programs of `forward`; `takes` has an entry per port.
fn forward_spec(plan: &ForwardPlan, takes: Vec<ForwardTake>) -> ForwardSpec {
    let ports = plan.ports.iter().zip(takes).map(|(port, take)| ForwardPortSpec {
        name: port.name.clone(),
        take,
        rewrite: match port.rewrite {
            Rewrite::Io => ForwardRewrite::Io,
            Rewrite::MacSwap => ForwardRewrite::MacSwap,
            Rewrite::FiveTupleSwap => ForwardRewrite::FiveTupleSwap,
            Rewrite::L2Forward { destination, .. } => ForwardRewrite::L2Forward {
                destination: destination.0,
            },
        },
    });
    ForwardSpec {
        series: series(&plan.common),
        ports: ports.collect(),
    }
}

#[cfg(test)]
#[path = "xdp_tests.rs"]
mod tests;
