//! Options and keys that streams of a run do not have.

use super::{named, option_of};
use crate::fail::{Result, usage};
use crate::request::Run;
use mpps_io::Step;
use mpps_traffic::{Fill, Form, Stream, Tag, Traffic};

/// Refuses options that say what a packet's own fields, or a stream's own keys, say.
pub(super) fn options(args: &Run, streams: &Traffic, by: &str) -> Result<()> {
    let of = &args.plan.traffic;
    let in_file = by == "--traffic";
    let fields = [
        (of.src.is_some(), "--src", "src= in the packet"),
        (of.dest.is_some(), "--dest", "dst= in the packet"),
        (of.src_ports.is_some(), "--src-port-range", "src= in udp or tcp"),
        (of.vlan.is_some(), "--vlan", "vlan vid= in the packet"),
        (of.ttl != 64, "--ttl", "ttl= in ipv4, hop= in ipv6"),
        (of.dscp != 0, "--dscp", "dscp= in ipv4 or ipv6"),
        (*of.step != Step::Combine, "--step", "it left out"),
        (of.flows.is_some(), "--flows", "ranges of as many values in the packet"),
        (of.payload_size.is_some(), "--payload-size", "--frame-size"),
        (of.dest_mac.is_some(), "--dest-mac", "eth dst= in the packet"),
        (of.both_ways, "--both-ways", "a run for each way"),
        (args.plan.load.then.is_some(), "--then", "it left out"),
        (
            in_file && of.frame_size.is_some(),
            "--frame-size",
            "size in the streams",
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

/// Refuses keys of a stream that runs do not follow; `named`: the stream in messages.
pub(super) fn keys(stream: &Stream, named: &str) -> Result<()> {
    let keys = [
        (stream.tag != Tag::Tail, "tag", "tail"),
        (stream.from.is_some() || stream.to.is_some(), "from, to", "it left out"),
    ];
    match keys.iter().find(|(given, ..)| *given) {
        Some((_, key, want)) => Err(usage(format!("{named}: {key}: want {want}"))),
        None => Ok(()),
    }
}

/// Checks the packets of a listener. Returns the bytes of their headers, the most of all streams.
pub(crate) fn of_listener(streams: &Traffic, seed: u64) -> Result<usize> {
    let option = option_of(streams);
    let mut longest = 0;
    for stream in &streams.streams {
        let named = named(option, stream);
        keys(stream, &named)?;
        if stream.fill != Fill::Data {
            return Err(usage(format!(
                "{named}: fill: the data of a sender are verified: want data"
            )));
        }
        let form = Form::of(stream, seed, 0).map_err(|why| usage(format!("{named}: {}", why.line)))?;
        longest = longest.max(form.header_len());
    }
    Ok(longest)
}
