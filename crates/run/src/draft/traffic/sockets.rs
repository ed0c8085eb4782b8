//! Packets of a packet's text on ports where the kernel writes the headers: what a socket can say becomes the fields of
//! UDP between two ends, and the stamp in front is what packets are known by.

use super::streams::{option_of, options};
use crate::fail::{Result, usage};
use crate::paths::Checked;
use crate::request::Run;
use mpps_plan::fields::FIELDS;
use mpps_traffic::{Fill, Header, HeaderKind, Load, PartPlace, PartValues, Source, Step, Stream, Tag};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Replaces the packet of a plan by the fields of UDP between two ends, for a port that has payloads alone.
///
/// # Errors
/// Names what a socket cannot say.
pub(super) fn as_ends(args: &mut Run, port: &Checked) -> Result<()> {
    let Some(streams) = args.plan.traffic.streams.clone() else {
        return Ok(());
    };
    let option = option_of(&streams);
    options(args, &streams, option)?;
    if let Some(scale) = &args.plan.load.scale {
        return Err(usage(format!("--scale {scale}: on port '{}': want --rate", port.spec)));
    }
    args.plan.traffic.streams = None;
    let on = &port.spec;
    let other = "af_packet, af_xdp, dpdk, null or loop";
    let wrong = |what: &str| {
        usage(format!(
            "{option}: on port '{on}' the kernel writes the headers: {what}"
        ))
    };
    let [stream] = &streams.streams[..] else {
        return Err(wrong(&format!("want one stream, or {other}")));
    };
    if let Some((key, _)) = keys(stream).iter().find(|(_, given)| *given) {
        return Err(wrong(&format!("{key}: want it left out, or {other}")));
    }
    let kinds: Vec<HeaderKind> = stream.packet.headers.iter().map(|header| header.kind).collect();
    let v6 = match kinds[..] {
        [HeaderKind::Eth, HeaderKind::Ipv4, HeaderKind::Udp] => Some(false),
        [HeaderKind::Eth, HeaderKind::Ipv6, HeaderKind::Udp] => Some(true),
        _ => None,
    };
    let (Some(v6), [eth, ip, udp]) = (v6, &stream.packet.headers[..]) else {
        return Err(wrong(&format!("want eth / ipv4 / udp or eth / ipv6 / udp, or {other}")));
    };
    let ends = |header: &Header, names: bool| -> Result<[Option<String>; 2]> {
        let mut ends = [None, None];
        for part in header.parts() {
            let place = ["src", "dst"].iter().position(|name| names && *name == part.field);
            let whole = matches!(part.place, PartPlace::Bits { .. });
            let text = place.filter(|_| whole).and_then(|_| text(header.kind, &part.values));
            let (Some(place), Some(text)) = (place, text) else {
                let field = format!("{} {}", header.kind.name(), part.field);
                return Err(wrong(&format!("{field}: want it left out, or {other}")));
            };
            ends[place] = Some(text);
        }
        Ok(ends)
    };
    ends(eth, false)?;
    let ([src, dst], [src_ports, dst_ports]) = (ends(ip, true)?, ends(udp, true)?);
    let (Some(dst), Some(dst_ports)) = (dst, dst_ports) else {
        return Err(wrong("want dst= in ip and in udp"));
    };
    let dst = if v6 { format!("[{dst}]") } else { dst };
    let step = match stream.step {
        Step::Together => "together",
        Step::Combine => "combine",
    };
    let rate = match &stream.load {
        Load::Rate(rate) => Some(rate.clone()),
        Load::Most | Load::Weight(_) => None,
    };
    let size = stream.size.as_ref().map(|size| size.text.clone());
    let fields = [
        ("src", src),
        ("dest", Some(format!("{dst}:{dst_ports}"))),
        ("src-port-range", src_ports),
        ("step", Some(step.to_owned())),
        ("frame-size", size),
        ("rate", rate),
        ("flows", stream.flows.map(|flows| flows.to_string())),
        ("count", stream.packets.map(|packets| packets.to_string())),
    ];
    for (name, text) in fields {
        let Some(text) = text else { continue };
        let Some(field) = FIELDS.iter().find(|field| field.option == name) else {
            continue;
        };
        let is_given = match name {
            "frame-size" => args.plan.traffic.frame_size.is_some(),
            "rate" => args.plan.load.rate.is_some(),
            "count" => args.plan.traffic.count.is_some(),
            _ => false,
        };
        if is_given {
            return Err(usage(format!("--{name}: {option} has {text}: want one of the two")));
        }
        (field.access.read)(&mut args.plan, &text).map_err(|want| wrong(&format!("{text}: {want}")))?;
    }
    Ok(())
}

/// Returns the keys of a stream that a run of sockets does not follow, and whether they are given.
fn keys(stream: &Stream) -> [(&'static str, bool); 15] {
    [
        ("pcap", stream.pcap.is_some()),
        ("fill", stream.fill != Fill::Data),
        ("tag", stream.tag != Tag::Tail),
        ("start", !stream.start.is_zero()),
        ("after", stream.after.is_some()),
        ("burst", stream.burst.is_some()),
        ("repeat", stream.repeat != 1),
        ("pacing", stream.pacing.is_some()),
        ("weight", matches!(stream.load, Load::Weight(_))),
        ("scale", !stream.scale),
        ("track", stream.track),
        ("group", stream.group.is_some()),
        ("lanes", !stream.lanes.is_empty()),
        ("from", stream.from.is_some()),
        ("to", stream.to.is_some()),
    ]
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
