//! Flows of a run that sends: which there are, and whether ports, lanes and memory have room for them.

use super::super::across::Far;
use super::super::ends::{Destination, of_two};
use super::super::memory;
use super::super::reach::sockets_apart;
use super::{Streamed, bracketed, dashed};
use crate::fail::{Result, usage};
use crate::paths::Checked;
use crate::request::Run;
use mpps_engine::{FlowSet, footprint};
use mpps_io::{AddressRange, Roles, addresses as ranges};
use mpps_plan::DEFAULT_SRC_PORTS;
use mpps_stats::{Remark, RemarkName};
use std::ops::RangeInclusive;

/// Bytes that the kernel's maps take per flow: its window, its slips and its ports. Addresses take more if they vary.
const KERNEL_FLOW: u64 = 32 + 4 * 16 + 8 * 16 + 8;
const KERNEL_ADDRESSES: u64 = 32;

/// Refuses a port that spreads one flow over several lanes. Each lane counts duplicates and reordering of the packets
/// that reach it, so all packets of a flow must reach the same lane.
pub(in crate::draft) fn one_lane_a_flow(port: &Checked, roles: &[Roles]) -> Result<()> {
    let receivers = roles.iter().filter(|r| r.rx).count();
    match &port.traits.spreads_flows {
        Some(option) if receivers > 1 => Err(usage(format!(
            "port '{}': {option} spreads one flow over {receivers} lanes, so its loss can't be counted: want \
             fanout=hash",
            port.spec
        ))),
        _ => Ok(()),
    }
}

/// Refuses flows that share addresses which they must not share, or that are fewer than the lanes that send them.
pub(super) fn check(
    args: &Run,
    (port, far): (&Checked, Option<&Far>),
    roles: &[Roles],
    (srcs, dest): (&AddressRange, &Destination),
    flows: &FlowSet,
) -> Result<()> {
    // Ranges may have more addresses than there are flows.
    let (used_srcs, used_dests) = flows.address_counts();
    let used = (
        ranges::from(*srcs.start(), used_srcs),
        ranges::from(dest.ip, used_dests),
    );
    if args.plan.traffic.streams.is_none() {
        of_two(&used.0, &used.1)?;
    }
    if port.traits.socket.is_some() && args.plan.traffic.streams.is_none() {
        sockets_apart(&port.spec, (&used.0, &used.1), flows)?;
    }
    // Lanes that send in one direction.
    let senders = far.map_or(roles, |far| &far.sends);
    let tx_lanes = senders.iter().filter(|r| r.tx).count();
    if args.plan.traffic.streams.is_none() && (flows.count() as usize) < tx_lanes {
        return Err(usage(format!(
            "{}: {} flow{} for {tx_lanes} sending lanes: want one flow per lane at least",
            makers_of_flows(args, port, (srcs, dest)),
            flows.count(),
            if flows.count() == 1 { "" } else { "s" },
        )));
    }
    Ok(())
}

/// Refuses flows, rows and lanes that have no room in memory. Returns the bytes that the flows take.
pub(super) fn check_memory(
    args: &Run,
    (port, far): (&Checked, Option<&Far>),
    roles: &[Roles],
    (srcs, dest): (&AddressRange, &Destination),
    flows: &FlowSet,
    // For a share of the link's speed, which is not known yet, `pps` is 0: then the least number of slips per flow is
    // assumed.
    (pps, receive): (Option<f64>, bool),
    streams: Option<&Streamed>,
) -> Result<(u64, u64)> {
    let (count, settle, lanes) = (
        u64::from(flows.count()),
        *args.plan.times.settle,
        memory::lane_count(roles, [Some(port), far.map(|far| &far.port)].into_iter().flatten()),
    );
    let of_kernel = match (port.traits.in_kernel, flows.is_plain()) {
        (false, _) => 0,
        (true, true) => KERNEL_FLOW,
        (true, false) => KERNEL_FLOW + KERNEL_ADDRESSES,
    };
    let ways = if args.plan.traffic.goes_back() { 2 } else { 1 };
    let bytes = move |n: u64| {
        let of_way = footprint::flows_of_traffic(n, pps, settle, receive, lanes);
        of_way.saturating_add(n.saturating_mul(of_kernel)).saturating_mul(ways)
    };
    let ports = (args.plan.traffic.src_ports.as_ref(), args.plan.traffic.flows);
    let several = [srcs, &dest.ips()].iter().any(|ips| ranges::only(ips).is_none());
    let of_streams = streams.map(|streams| format!("{}: {} flows take", streams.option, memory::count(count)));
    let says = match ports {
        _ if of_streams.is_some() => of_streams.unwrap_or_default(),
        (_, None) if several => format!("{}: {} flows take", of_ranges(srcs, dest), memory::count(count)),
        (Some(src), None) => format!(
            "--src-port-range {} by --dest ports {}: {} flows take",
            dashed(src),
            dashed(&dest.ports),
            memory::count(src.len() as u64 * dest.ports.len() as u64)
        ),
        _ => format!("--flows {count}: they take"),
    };
    let mut parts = match far {
        None => memory::of_run(args, settle, (roles, lanes), [port]),
        // Each port has buffers for its own lanes.
        Some(far) => {
            let mut parts = memory::of_run(args, settle, (roles, lanes), []);
            parts.extend(memory::of_port(port, &far.sends, lanes.all));
            parts.extend(memory::of_port(&far.port, &far.roles, lanes.all));
            parts
        }
    };
    if let Some(streams) = streams {
        let none = vec![0; streams.all.len()];
        let packets = streams.packets([false; 2], &none);
        let loads = streams.loads(args, None, false)?.of;
        let pps: Vec<_> = loads.iter().map(|load| Some(load.as_ref()?.rate?.pps())).collect();
        let times = (*args.plan.times.interval, settle);
        let bytes = packets.map_or(0, |packets| footprint::streams(&packets, &pps, times, receive, lanes));
        let says = format!(
            "{}: sizes, rows and histograms of {} streams take",
            streams.option,
            streams.all.len()
        );
        parts.push(memory::Part::new(says, bytes, |_| {
            "fewer streams, fewer sizes, or a longer --interval".to_owned()
        }));
    }
    let of_packet = args.plan.traffic.streams.is_some();
    parts.push(memory::Part::new(says, bytes(count), move |left| {
        match memory::most(count, left, bytes) {
            0 => "a higher limit of memory".to_owned(),
            most if of_packet => format!("{} flows at most", memory::count(most)),
            most => format!("--flows N, {} at most", memory::count(most)),
        }
    }));
    memory::check(&parts)?;
    Ok((bytes(count), memory::total(&parts)))
}

/// Formats ranges of addresses as options.
fn of_ranges(srcs: &AddressRange, dest: &Destination) -> String {
    format!("--src {} by --dest {}", ranges::text(srcs), bracketed(&dest.ips()))
}

/// Returns the options that limit the number of flows.
fn makers_of_flows(args: &Run, port: &Checked, (srcs, dest): (&AddressRange, &Destination)) -> String {
    if let Some(n) = args.plan.traffic.flows {
        return format!("--flows {n}");
    }
    let several = |ips: &AddressRange| ranges::only(ips).is_none();
    let (ips, ports) = (dest.ips(), dashed(&dest.ports));
    let mut given = Vec::new();
    if several(srcs) {
        given.push(format!("--src {}", ranges::text(srcs)));
    }
    if let Some(src) = &args.plan.traffic.src_ports {
        given.push(format!("--src-port-range {}", dashed(src)));
    }
    if several(&ips) || dest.ports.start() != dest.ports.end() {
        given.push(format!("--dest {}:{ports}", bracketed(&ips)));
    }
    match port.traits.socket.and_then(|socket| socket.port) {
        Some(_) => given.insert(0, format!("port '{}'", port.spec)),
        None if given.is_empty() => given.push("--src-port-range".to_owned()),
        None => {}
    }
    given.join(" by ")
}

/// Returns the flows of a run.
pub(super) fn flows(
    args: &Run,
    port: &Checked,
    roles: &[Roles],
    (srcs, dest): (&AddressRange, &Destination),
    moved: Option<&RangeInclusive<u16>>,
    warnings: &mut Vec<Remark>,
) -> Result<FlowSet> {
    let counts = (ranges::count(srcs), dest.count);
    let set = |src_ports: RangeInclusive<u16>| {
        let dst_ports = dest.ports.clone();
        let lengths = [src_ports.len() as u32, dst_ports.len() as u32, counts.0, counts.1];
        let wanted = FlowSet::wanted(lengths, *args.plan.traffic.step);
        if args.plan.traffic.flows.is_none() && wanted > u128::from(u32::MAX) {
            return Err(usage(format!(
                "{}, --step combine: {wanted} flows: want {} at the most, such as the first of them by --flows N, or \
                 --step together",
                of_ranges(srcs, dest),
                u32::MAX
            )));
        }
        Ok(FlowSet::of(
            src_ports,
            dst_ports,
            counts,
            *args.plan.traffic.step,
            args.plan.traffic.flows,
        ))
    };
    let Some(socket) = port.traits.socket else {
        let given = args.plan.traffic.src_ports.as_deref().or(moved);
        return set(given.cloned().unwrap_or(DEFAULT_SRC_PORTS));
    };
    if dest.ports.start() != dest.ports.end() {
        return Err(usage(format!(
            "--dest {}: {} sends each source port to one destination port: want one port",
            dashed(&dest.ports),
            port.spec.path
        )));
    }
    let lanes = roles
        .iter()
        .filter(|r| r.tx)
        .count()
        .max(roles.iter().filter(|r| r.rx).count()) as u16;
    if let (Some(named), Some(_)) = (socket.port, &args.plan.traffic.src_ports) {
        return Err(usage(format!(
            "--src-port-range: the port {} names source port {named}: want one of the two left out",
            args.plan.port()
        )));
    }
    let first = socket.port.unwrap_or(*DEFAULT_SRC_PORTS.start());
    let given = args.plan.traffic.src_ports.as_deref().or(moved);
    let src = given.cloned().unwrap_or(first..=first.saturating_add(lanes - 1));
    let most = port.most_flows(roles).unwrap_or(usize::MAX).min(u32::MAX as usize) as u32;
    let all = set(src)?;
    if all.count() <= most {
        return Ok(all);
    }
    let text = format!(
        "{}: {most} of {} flows are used, because each takes a socket (more with the port's option sockets=N)",
        port.spec.path,
        all.count()
    );
    let remark = Remark::new(RemarkName::FewerFlows, text)
        .with("flows", u64::from(most))
        .with("wanted_flows", u64::from(all.count()));
    warnings.push(remark);
    Ok(all.first(most))
}
