//! Packets of a packet's text on ports where the kernel writes the headers. A packet that the options could say as well
//! is UDP between two ends, known by the stamp in front. Any other that a socket can send, and each stream of a file,
//! is known by its tag. Each of its flows is a socket, which has the fields of that flow.

use super::streams::{One, Streamed, named, option_of, options, senders};
use crate::fail::{Result, usage};
use crate::paths::{self, Checked};
use crate::request::Run;
use mpps_io::{Marks, Roles, SocketFlow};
use mpps_plan::Workload;
use mpps_plan::fields::FIELDS;
use mpps_plan::values::is_one_host;
use mpps_traffic::{Header, HeaderKind, PartPlace, PartValues, Source, Step, Stream, Tag};
use mpps_wire::Image;
use mpps_wire::image::Place;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Paths that send what sockets can't.
const OTHER: &str = "af_packet, af_xdp, dpdk, null or loop";
/// Fields of a socket, by header.
const OF_IPV4: [&str; 6] = ["src", "dst", "dscp", "ecn", "tos", "ttl"];
const OF_IPV6: [&str; 7] = ["src", "dst", "dscp", "ecn", "tc", "flow", "hop"];
const OF_UDP: [&str; 2] = ["src", "dst"];

/// Checks the streams of a plan for a port that has payloads alone. Replaces the packet by the options, if these say as
/// much.
///
/// # Errors
/// Names what a socket cannot say.
pub(super) fn as_ends(args: &mut Run, port: &Checked) -> Result<()> {
    let Some(streams) = args.plan.traffic.streams.clone() else {
        return Ok(());
    };
    let option = option_of(&streams);
    options(args, &streams, option)?;
    for stream in &streams.streams {
        check(
            stream,
            &named(option, stream),
            port,
            args.plan.workload == Workload::Sendrecv,
        )?;
    }
    let [stream] = &streams.streams[..] else {
        return of_sockets(port, option);
    };
    let Some(fields) = fields_of(stream).filter(|_| option == "--packet") else {
        return of_sockets(port, option);
    };
    if let Some(scale) = &args.plan.load.scale {
        return Err(usage(format!("--scale {scale}: on port '{}': want --rate", port.spec)));
    }
    args.plan.traffic.streams = None;
    for (name, text) in fields {
        let Some(field) = FIELDS.iter().find(|field| field.option == name) else {
            continue;
        };
        (field.access.read)(&mut args.plan, &text).map_err(|want| wrong(option, port, &format!("{text}: {want}")))?;
    }
    Ok(())
}

/// Refuses streams on a port without sockets.
fn of_sockets(port: &Checked, option: &str) -> Result<()> {
    match port.traits.socket {
        Some(_) => Ok(()),
        None => paths::check_headers(port, option),
    }
}

fn wrong(named: &str, port: &Checked, what: &str) -> crate::fail::Failure {
    let on = &port.spec;
    usage(format!("{named}: on port '{on}' the kernel writes the headers: {what}"))
}

/// Refuses headers and fields that a socket does not send.
fn check(stream: &Stream, named: &str, port: &Checked, receives: bool) -> Result<()> {
    let wrong = |what: &str| Err(wrong(named, port, what));
    if stream.pcap.is_some() {
        return wrong(&format!("pcap: want it left out, or {OTHER}"));
    }
    if receives && stream.tag != Tag::Tail {
        return wrong(&format!(
            "tag: want tail, by which packets that come back are known, or {OTHER}"
        ));
    }
    let kinds: Vec<HeaderKind> = stream.packet.headers.iter().map(|header| header.kind).collect();
    let fields: [&[&str]; 3] = match kinds[..] {
        [HeaderKind::Eth, HeaderKind::Ipv4, HeaderKind::Udp] => [&[], &OF_IPV4, &OF_UDP],
        [HeaderKind::Eth, HeaderKind::Ipv6, HeaderKind::Udp] => [&[], &OF_IPV6, &OF_UDP],
        _ => return wrong(&format!("want eth / ipv4 / udp or eth / ipv6 / udp, or {OTHER}")),
    };
    for (header, fields) in stream.packet.headers.iter().zip(fields) {
        for part in header.parts() {
            let field = format!("{} {}", header.kind.name(), part.field);
            if !fields.contains(&part.field) {
                return wrong(&format!("{field}: want it left out, or {OTHER}"));
            }
            if let PartValues::Numbers(Source::Random { period: None, .. }) = part.values {
                return wrong(&format!(
                    "{field}: its values have no period, and each flow is a socket: want a period, such as \
                     random(1..9)*100, or {OTHER}"
                ));
            }
        }
    }
    match &stream.packet.headers[1..] {
        [ip, udp] if is_written(ip, "dst") && is_written(udp, "dst") => Ok(()),
        _ => wrong("want dst= in ip and in udp"),
    }
}

/// Returns whether a header's text has a value for a field.
fn is_written(header: &Header, field: &str) -> bool {
    header.parts().any(|part| part.field == field)
}

/// Returns the options that say the same as a stream; `None`: there are none.
fn fields_of(stream: &Stream) -> Option<Vec<(&'static str, String)>> {
    if has_keys(stream) {
        return None;
    }
    let [_, ip, udp] = &stream.packet.headers[..] else {
        return None;
    };
    let of = |header: &Header, name: &str| -> Option<Option<String>> {
        let mut parts = header.parts().filter(|part| part.field == name);
        let Some(part) = parts.next() else { return Some(None) };
        let whole = matches!(part.place, PartPlace::Bits { .. }) && parts.next().is_none();
        Some(Some(text(header.kind, &part.values).filter(|_| whole)?))
    };
    let constant = |name: &str| -> Option<Option<String>> {
        match ip.parts().find(|part| part.field == name).map(|part| part.values) {
            None => Some(None),
            Some(PartValues::Numbers(Source::Constant(value))) => Some(Some(value.to_string())),
            Some(_) => None,
        }
    };
    if ["ecn", "tos", "tc", "flow"]
        .into_iter()
        .any(|name| is_written(ip, name))
    {
        return None;
    }
    let (src, src_ports) = (of(ip, "src")?, of(udp, "src")?);
    let (dst, dst_ports) = (of(ip, "dst")??, of(udp, "dst")??);
    let (ttl, dst) = match ip.kind {
        HeaderKind::Ipv6 => (constant("hop")?, format!("[{dst}]")),
        _ => (constant("ttl")?, dst),
    };
    let step = match stream.step {
        Step::Together => "together",
        Step::Combine => "combine",
    };
    let fields = [
        ("src", src),
        ("dest", Some(format!("{dst}:{dst_ports}"))),
        ("src-port-range", src_ports),
        ("ttl", ttl),
        ("dscp", constant("dscp")?),
        ("step", Some(step.to_owned())),
    ];
    Some(
        fields
            .into_iter()
            .filter_map(|(name, text)| Some((name, text?)))
            .collect(),
    )
}

/// Returns whether a stream has keys. That of `--packet` has none, unless a plan was written by hand.
fn has_keys(stream: &Stream) -> bool {
    let plain = Stream::of(stream.packet.clone());
    [
        stream.fill != plain.fill,
        stream.tag != plain.tag,
        stream.load != plain.load,
        stream.size.is_some(),
        stream.flows.is_some(),
        stream.packets.is_some(),
        !stream.start.is_zero(),
        stream.after.is_some(),
        stream.burst.is_some(),
        stream.repeat != plain.repeat,
        stream.pacing.is_some(),
        !stream.scale,
        stream.track,
        stream.group.is_some(),
        !stream.lanes.is_empty(),
    ]
    .contains(&true)
}

/// Returns the flows of all streams as sockets, in their order.
///
/// # Errors
/// Names what the sockets of this host and of this port can't send, and flows that are too many for them.
pub(super) fn flows_of(streams: &Streamed, port: &Checked, roles: &[Roles]) -> Result<Vec<SocketFlow>> {
    let count = streams.flows().count() as usize;
    if let Some(most) = port.most_flows(roles).filter(|most| count > *most) {
        return Err(usage(format!(
            "{}: on port '{}': each of {count} flows takes a socket: want {most} at most, or more by the port's option \
             sockets=N and ulimit -n",
            streams.option, port.spec
        )));
    }
    let senders = senders(roles);
    let mut all = Vec::with_capacity(count);
    for (number, one) in streams.all.iter().enumerate() {
        let lanes = one.places(number, &senders)?;
        let marked = one.marked();
        for (flow, ends) in marked.into_iter().enumerate() {
            let lane = lanes.get(flow % lanes.len().max(1)).copied().unwrap_or(0);
            all.push(flow_of(one, port, ends, lane as u32)?);
        }
    }
    let own: HashSet<SocketAddr> = all.iter().map(|flow| flow.src).collect();
    if let Some(flow) = all.iter().find(|flow| own.contains(&flow.dst)) {
        return Err(usage(format!(
            "{}: {}: this run sends from there itself, so its packets would come back without a reflector: want \
             another port at one of the ends",
            streams.option, flow.dst
        )));
    }
    let ips: HashSet<IpAddr> = own.iter().map(SocketAddr::ip).collect();
    for ip in ips {
        if let Err(error) = UdpSocket::bind((ip, 0))
            && error.kind() == ErrorKind::AddrNotAvailable
        {
            return Err(usage(format!(
                "{}: this host does not have {ip}, and a socket is bound to each source address: want src= of its own, \
                 or {OTHER}",
                streams.option
            )));
        }
    }
    Ok(all)
}

/// Returns a flow as a socket, by the headers of its packets.
fn flow_of(one: &One, port: &Checked, headers: [u8; HEADERS], lane: u32) -> Result<SocketFlow> {
    let wrong = |what: String| Err(one.wrong(format!("on port '{}': {what}", port.spec)));
    let [_, ip, udp] = &one.stream.packet.headers[..] else {
        return wrong("want three headers".to_owned());
    };
    let mut flow = read(&headers, one.is_v6());
    flow.lane = Some(lane);
    let own = port.traits.socket;
    if let Some(address) = own.and_then(|own| own.address).filter(|own| *own != flow.src.ip()) {
        return wrong(format!(
            "{} src {}: the port's address is {address}: want the same, or one of them only",
            ip.kind.name(),
            flow.src.ip()
        ));
    }
    let named = own.and_then(|own| own.port);
    match (is_written(udp, "src"), named) {
        (true, Some(named)) if named != flow.src.port() => {
            return wrong(format!(
                "udp src {}: the port names source port {named}: want one of the two left out",
                flow.src.port()
            ));
        }
        (true, _) => {}
        // The kernel chooses one.
        (false, named) => flow.src.set_port(named.unwrap_or(0)),
    }
    if !is_one_host(flow.dst.ip()) || flow.dst.port() == 0 {
        return wrong(format!(
            "dst {}: want an address of one host, and a port from 1 on",
            flow.dst
        ));
    }
    if flow.marks.ttl == Some(0) {
        return wrong("time to live 0: want 1 to 255".to_owned());
    }
    if !is_written(ip, "flow") {
        flow.marks.label = None;
    }
    Ok(flow)
}

/// Bytes of Ethernet, IPv6 and UDP: the most that headers have here.
const HEADERS: usize = 62;

/// Returns the ends and the marks in the headers of a packet.
fn read(headers: &[u8; HEADERS], v6: bool) -> SocketFlow {
    let word = |at: usize| u32::from_be_bytes([headers[at], headers[at + 1], headers[at + 2], headers[at + 3]]);
    let long = |at: usize| (0..4).fold(0, |ip, place| ip << 32 | u128::from(word(at + 4 * place)));
    let (ips, ports, marks): ([IpAddr; 2], u32, Marks) = match v6 {
        false => (
            [26, 30].map(|at| Ipv4Addr::from_bits(word(at)).into()),
            word(34),
            Marks {
                class: Some(headers[15]),
                ttl: Some(headers[22]),
                label: None,
            },
        ),
        true => (
            [22, 38].map(|at| Ipv6Addr::from_bits(long(at)).into()),
            word(54),
            Marks {
                class: Some((word(14) >> 20) as u8),
                ttl: Some(headers[21]),
                label: Some(word(14) & 0xf_ffff),
            },
        ),
    };
    SocketFlow {
        marks,
        ..(
            SocketAddr::new(ips[0], (ports >> 16) as u16),
            SocketAddr::new(ips[1], ports as u16),
        )
            .into()
    }
}

impl One {
    /// Returns the first bytes of a packet of each flow.
    fn marked(&self) -> Vec<[u8; HEADERS]> {
        let spec = self.form().and_then(|form| form.spec(form.sizes().0));
        let Some(image) = spec.and_then(Image::new) else {
            return Vec::new();
        };
        let mut frame = vec![0; image.frame_len()];
        let of_flow = |flow: u32| {
            image.write(&mut frame, Place { flow, number: 0 }, 0);
            let mut headers = [0; HEADERS];
            headers.iter_mut().zip(&frame).for_each(|(to, from)| *to = *from);
            headers
        };
        (0..image.flows() as u32).map(of_flow).collect()
    }
}

/// Returns addresses or ports as the options have them; `None` if they do not follow each other.
fn text(kind: HeaderKind, values: &PartValues<'_>) -> Option<String> {
    let one = |value: u128| match kind {
        HeaderKind::Ipv4 => Ipv4Addr::from_bits(value as u32).to_string(),
        HeaderKind::Ipv6 => Ipv6Addr::from_bits(value).to_string(),
        _ => value.to_string(),
    };
    match values {
        PartValues::Network(first, bits) => Some(format!("{}/{bits}", one(*first))),
        PartValues::Numbers(Source::Constant(value)) => Some(one(*value)),
        PartValues::Numbers(Source::Counter { start, step: 1, count }) => {
            let last = start.checked_add(u128::from(*count) - 1)?;
            Some(format!("{}-{}", one(*start), one(last)))
        }
        _ => None,
    }
}
