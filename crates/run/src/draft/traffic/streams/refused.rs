//! Options and keys that streams of a run do not have, and the packets of a listener.

use super::untagged::is_icmp;
use super::{Known, One, all_of, few, named, option_of};
use crate::fail::{Result, usage};
use crate::request::Run;
use mpps_engine::Packets;
use mpps_io::Step;
use mpps_io::selection::Headers;
use mpps_plan::Workload;
use mpps_traffic::{Fill, Form, Stream, Tag, Traffic};
use std::sync::Arc;

/// Refuses options that say what a packet's own fields, or a stream's own keys, say.
pub(in crate::draft) fn options(args: &Run, streams: &Traffic, by: &str) -> Result<()> {
    let of = &args.plan.traffic;
    let in_file = by != "--packet";
    let field = |want: &'static str| match by {
        "--pcap" => "--set rewrite=PACKET",
        _ => want,
    };
    let fields = [
        (of.src.is_some(), "--src", field("src= in the packet")),
        (of.dest.is_some(), "--dest", field("dst= in the packet")),
        (of.src_ports.is_some(), "--src-port-range", field("src= in udp or tcp")),
        (of.vlan.is_some(), "--vlan", field("vlan vid= in the packet")),
        (of.ttl != 64, "--ttl", field("ttl= in ipv4, hop= in ipv6")),
        (of.dscp != 0, "--dscp", field("dscp= in ipv4 or ipv6")),
        (*of.step != Step::Combine, "--step", "it left out"),
        (of.flows.is_some(), "--flows", "ranges of as many values in the packet"),
        (of.payload_size.is_some(), "--payload-size", "--frame-size"),
        (of.dest_mac.is_some(), "--dest-mac", field("eth dst= in the packet")),
        (
            of.back_dest_mac.is_some(),
            "--back-dest-mac",
            field("eth dst= in the packet"),
        ),
        (args.plan.load.then.is_some(), "--then", "it left out"),
        (
            in_file && of.frame_size.is_some(),
            "--frame-size",
            if by == "--pcap" {
                "it left out"
            } else {
                "size in the streams"
            },
        ),
        (
            streams.streams.len() > 1 && of.count.is_some(),
            "--count",
            "packets in the streams",
        ),
    ];
    match fields.iter().find(|(given, ..)| *given) {
        Some((_, option, want)) => Err(usage(format!("{option}: beside {by}: want {want}"))),
        None => Ok(()),
    }
}

/// Returns streams that others send.
fn packets_of(all: &[One]) -> Option<Packets> {
    Some(Packets {
        streams: all.iter().map(|one| one.made(0)).collect::<Option<_>>()?,
        stripped: [false; 2],
        turned: false,
        hops: Vec::new(),
    })
}

/// Knowledge of a receiver.
const NOBODY: Known<'_> = Known {
    before: None,
    senders: 0,
    of_sockets: false,
};

/// Refuses keys of a stream that runs do not follow; `named`: the stream in messages.
pub(super) fn keys(stream: &Stream, named: &str, workload: Workload) -> Result<()> {
    let known = stream.tag == Tag::Tail || stream.pcap.is_some() || workload != Workload::Drop;
    match known {
        true => Ok(()),
        false => Err(usage(format!(
            "{named}: tag: want tail, by which a receiver without a sender knows its packets"
        ))),
    }
}

/// Packets that a listener takes by their tags.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    /// Bytes of their headers, the most of all streams.
    pub(crate) header_len: usize,
    /// Streams, for results of each: those of a file, which `drop` has.
    pub(crate) streams: Option<Arc<Packets>>,
    /// Packets of streams without a tag, which `reflect` takes by their headers.
    pub(crate) untagged: Vec<Headers>,
}

/// Checks the packets of a listener.
pub(crate) fn of_listener(args: &Run, streams: &Traffic) -> Result<Taken> {
    // Ports by number are the sender's.
    let mut streams = streams.clone();
    for stream in &mut streams.streams {
        (stream.from, stream.to) = (None, None);
    }
    let streams = &streams;
    let option = option_of(streams);
    let (mut header_len, mut untagged) = (0, Vec::new());
    for stream in &streams.streams {
        let named = named(option, stream);
        keys(stream, &named, args.plan.workload)?;
        if stream.pcap.is_some() {
            return Err(usage(format!(
                "{named}: pcap: its flows are the sender's lanes: want --packet eth in place of the file, which takes \
                 all packets with a tag"
            )));
        }
        if stream.fill != Fill::Data {
            return Err(usage(format!(
                "{named}: fill: the data of a sender are verified: want data"
            )));
        }
        let form = Form::of(stream, args.plan.seed, 0).map_err(|why| usage(format!("{named}: {}", why.line)))?;
        if args.plan.workload == Workload::Drop && form.has_payload() && !args.plan.checks.no_verify {
            return Err(usage(format!(
                "{named}: payload: drop verifies the data of a sender, and no bytes that vary: want --no-verify"
            )));
        }
        header_len = header_len.max(form.header_len());
        if stream.tag != Tag::Tail {
            let one = One::new(stream.clone(), option, args, 0, false)?;
            let headers = one.made(0).and_then(|made| made.headers());
            let headers = headers.filter(|headers| !is_icmp(headers));
            untagged.push(headers.ok_or_else(|| {
                one.wrong(
                    "its packets have no tag, and no header that differs from those of the host's own packets: want \
                     tag = tail, or UDP, TCP or another protocol over IP",
                )
            })?);
        }
    }
    let streams = match args.plan.workload == Workload::Drop && !streams.is_one_packet() {
        true => packets_of(&all_of(args, streams, option, NOBODY)?),
        false => None,
    };
    Ok(Taken {
        header_len,
        streams: streams.map(Arc::new),
        untagged: few(untagged),
    })
}
