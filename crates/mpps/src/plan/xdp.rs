//! What is particular to the `xdp` path: options that mean something else where the kernel runs the workload, the lanes
//! of a run without queues, and the way from a plan to the data that the programs are made from.

use super::lanes;
use super::path::PathConfig;
use crate::cli::values::Cores;
use crate::cli::{Forward, Run, Traffic};
use crate::fail::{Failure, Result, usage};
use mpps_engine::{Common, DropPlan, ForwardPlan, LanePlan, Link, Pacing, ReflectPlan, TrafficPlan};
use mpps_io::{PortSpec, Roles};
use mpps_netdev::NetDev;
use mpps_sys::sched::allowed_cores;
use mpps_wire::{ChecksumMode, MacAddr, Rewrite, Template, TemplateSpec};
use mpps_xdp::{
    Answer, DropSpec, Flows, ForwardPortSpec, ForwardRewrite, ForwardSpec, ForwardTake, ReflectSpec, Series, Taken,
    TrafficSpec, Unanswered,
};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

/// Own addresses that a forwarding program has room for: IPv4, IPv6.
const MOST_OWN: [usize; 2] = [8, 16];

/// Refuses the options of every run that mean nothing here.
fn check_run(run: &Run, port: &PortSpec) -> Result<()> {
    if let Some(burst) = run.burst {
        return Err(usage(format!(
            "--burst {burst}: no frame comes to this program on '{port}': want the port's option batch=N, frames that the kernel makes at a time"
        )));
    }
    if run.busy_poll {
        return Err(usage(format!(
            "--busy-poll: on '{port}' the kernel's programs run as packets come, and nobody polls: want it left out"
        )));
    }
    Ok(())
}

/// Refuses what `sendrecv` and `send` can't do here.
pub(super) fn check_traffic(args: &Traffic) -> Result<()> {
    if let Some(n) = args.rx_lanes {
        return Err(usage(format!(
            "--rx-lanes {n}: on '{}' packets are received by programs, where the device's queues are served: want it left out (--tx-lanes or --lanes N: lanes that send)",
            args.port
        )));
    }
    check_run(&args.run, &args.port)
}

/// Refuses what listeners and forwarders can't do here: their programs run where the device's queues are served.
pub(super) fn check_served(run: &Run, port: &PortSpec) -> Result<()> {
    let list = |cores: &Cores| cores.0.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let given = [
        ("--lanes", run.lanes.map(|n| n.to_string())),
        ("--cores", run.cores.as_ref().map(list)),
    ];
    if let Some((option, Some(value))) = given.into_iter().find(|(_, value)| value.is_some()) {
        return Err(usage(format!(
            "{option} {value}: on '{port}' a program of the kernel runs where the device's queues are served (ethtool -L, the interrupts' affinity): want it left out"
        )));
    }
    check_run(run, port)
}

/// Refuses ports that frames can't go between, and what a forwarder can't do. Of more than two, all are on one path.
pub(super) fn check_forward(args: &Forward) -> Result<()> {
    let xdp = |spec: &PortSpec| spec.path == "xdp";
    match &args.devices[..] {
        [first, second] if xdp(first) != xdp(second) => {
            let (other, inside) = if xdp(first) { (second, first) } else { (first, second) };
            Err(usage(format!(
                "port '{other}': the kernel's way from '{inside}' (a devmap) leads to another XDP device only: want xdp:{} too, or both ports on af_xdp",
                other.device
            )))
        }
        [_, _, third, ..] if xdp(third) => Err(usage(format!(
            "port '{third}': the kernel's programs forward on one device or between two: want two ports at the most, or all on af_xdp"
        ))),
        [first, ..] => check_forward_run(args, first),
        [] => Ok(()),
    }
}

fn check_forward_run(args: &Forward, port: &PortSpec) -> Result<()> {
    if port.path != "xdp" {
        return Ok(());
    }
    if args.split_directions {
        return Err(usage(format!(
            "--split-directions: on '{port}' no lane moves frames, a program of each device does: want it left out"
        )));
    }
    if !args.drain.is_zero() {
        return Err(usage(format!(
            "--drain {:?}: on '{port}' the driver sends at the end of each of the kernel's polls: want it left out",
            args.drain
        )));
    }
    check_served(&args.run, port)
}

/// Why `capture` can't be on this path.
pub(crate) fn no_capture(port: &PortSpec) -> Failure {
    usage(format!(
        "port '{port}': packets of the xdp path never come to user space, so none can be written: want af_xdp:{0} or af_packet:{0}",
        port.device
    ))
}

/// Lanes of `sendrecv` and `send`: those that send. The one that reads what was counted is added by [`common`].
pub(super) fn senders(args: &Traffic) -> Vec<Roles> {
    let lanes = args.run.lanes.or(args.tx_lanes).unwrap_or(1);
    vec![Roles { rx: false, tx: true }; lanes]
}

/// What every run has, with a core of its own for each lane that sends, and the lane that reads rows behind them.
///
/// A sending lane is inside the kernel for the whole run and keeps its core busy, so two can't share one. The last cores
/// are taken first: the first is where most else of a host runs, the reading lane among it.
pub(super) fn common(run: &Run, senders: &[Roles], default_duration: Option<Duration>) -> Result<Common> {
    let run = Run {
        cores: (!senders.is_empty()).then(|| cores(run, senders.len())).transpose()?,
        ..run.clone()
    };
    let mut common = lanes::common(&run, senders, default_duration, 1)?;
    if !senders.is_empty() && senders.len() == allowed_cores().len() {
        common.warnings.push(format!(
            "{} sending lane{} on as many cores: the live view and whatever else runs here take their time from them",
            senders.len(),
            if senders.len() == 1 { "" } else { "s" }
        ));
    }
    common.lanes.push(LanePlan {
        rx: true,
        tx: false,
        core: None,
    });
    Ok(common)
}

/// A core for each of `lanes` sending lanes.
fn cores(run: &Run, lanes: usize) -> Result<Cores> {
    let Some(Cores(list)) = &run.cores else {
        let allowed = allowed_cores();
        let Some(first) = allowed.len().checked_sub(lanes) else {
            return Err(usage(format!(
                "--lanes {lanes}: each lane that sends keeps a core of its own busy on xdp: want {} at the most",
                allowed.len()
            )));
        };
        return Ok(Cores(allowed[first..].to_vec()));
    };
    let mut seen = BTreeSet::new();
    let distinct: Vec<usize> = list.iter().copied().filter(|core| seen.insert(*core)).collect();
    if distinct.len() < lanes {
        return Err(usage(format!(
            "--cores: {} core{} for {lanes} sending lanes: each keeps one of its own busy on xdp: want {lanes} different ones",
            distinct.len(),
            if distinct.len() == 1 { "" } else { "s" }
        )));
    }
    Ok(Cores(distinct))
}

/// Rows stay open for the settle time whether anything comes back or not: the engine closes them after it.
fn series(common: &Common) -> Series {
    Series {
        interval_ns: common.interval.as_nanos() as u64,
        settle_ns: common.settle.as_nanos() as u64,
    }
}

fn answer(link: Option<&Link>) -> Answer {
    link.map_or_else(Answer::default, |link| Answer {
        addresses: link.answer_for.clone(),
        next_hop: link.next_hop.filter(|_| link.dest_mac.is_none()),
    })
}

/// The programs of `sendrecv` and `send`.
pub(crate) fn traffic_spec(plan: &TrafficPlan) -> Result<TrafficSpec> {
    let link = plan.link.as_ref();
    let template = Template::new(&TemplateSpec {
        src_mac: link.map(|link| link.mac).unwrap_or_default(),
        dst_mac: link.and_then(|link| link.dest_mac).unwrap_or(MacAddr::BROADCAST),
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
    let ports = plan.flows.src_ports();
    let (src_first, dst_first) = plan.flows.ports(0);
    Ok(TrafficSpec {
        series: series(&plan.common),
        headers: template.headers().to_vec(),
        sum: template.constant_sum(),
        src: plan.src,
        dst: plan.dst,
        payload_len: plan.payload_len,
        seed: plan.common.seed,
        flows: Flows {
            src_first,
            src_count: ports.len() as u32,
            dst_first,
            count: plan.flows.count(),
        },
        cores: plan
            .common
            .lanes
            .iter()
            .filter(|lane| lane.tx)
            .filter_map(|lane| lane.core)
            .collect(),
        receive: plan.receive,
        rate_pps: plan.rate.map(|rate| rate.pps()),
        random: plan.pacing == Pacing::Poisson,
        catch_up_ns: plan.catch_up.as_nanos() as u64,
        answer: answer(link),
    })
}

/// The program of `reflect`.
pub(crate) fn reflect_spec(plan: &ReflectPlan, taken: Taken) -> ReflectSpec {
    ReflectSpec {
        series: series(&plan.common),
        taken,
        unanswered: Unanswered {
            own: plan.filter.own.to_vec(),
            broadcasts: plan.filter.broadcasts.to_vec(),
            loopback: plan.filter.loopback,
        },
    }
}

/// The program of `drop`.
pub(crate) fn drop_spec(plan: &DropPlan, taken: Taken) -> DropSpec {
    DropSpec {
        series: series(&plan.common),
        taken,
        verify: plan.verify,
        seed: plan.common.seed,
        max_flows: plan.max_flows,
    }
}

/// The programs of `forward`; `takes` has an entry a port.
pub(crate) fn forward_spec(plan: &ForwardPlan, takes: Vec<ForwardTake>) -> ForwardSpec {
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

/// The addresses that `--take foreign` leaves to the host, and a remark where not all of the host's have room.
///
/// # Errors
/// When those of the interface itself have none.
pub(super) fn left_to_host(device: &NetDev, port: &PortSpec) -> Result<(Vec<IpAddr>, Option<String>)> {
    let own: Vec<IpAddr> = device.addresses.iter().map(|(ip, _)| *ip).collect();
    let (_, missing) = with_room(own);
    if missing > 0 {
        return Err(usage(format!(
            "port '{port}': {} has more addresses than a program has room for ({} of IPv4, {} of IPv6), so frames for the host can't be told: want --take udp or --take all",
            device.name, MOST_OWN[0], MOST_OWN[1]
        )));
    }
    let (left, more) = with_room(mpps_netdev::host_addresses(device));
    let remark = (more > 0).then(|| {
        format!(
            "{}: {more} of the host's addresses on other interfaces are more than the XDP program has room for: frames for them are taken, too",
            device.name
        )
    });
    Ok((left, remark))
}

/// The first of each family, as many as have room, and how many have none.
fn with_room(all: Vec<IpAddr>) -> (Vec<IpAddr>, usize) {
    let (mut count, total, mut left) = ([0; 2], all.len(), all);
    left.retain(|ip| {
        let family = usize::from(ip.is_ipv6());
        count[family] += 1;
        count[family] <= MOST_OWN[family]
    });
    let more = total - left.len();
    (left, more)
}

/// Whether the kernel runs the workload on this path.
pub(super) fn is_xdp(path: &PathConfig) -> bool {
    matches!(path, PathConfig::Xdp(_))
}

#[cfg(test)]
#[path = "xdp_tests.rs"]
mod tests;
