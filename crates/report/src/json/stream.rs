//! Keys of a stream, of a group of streams, or of frames of one size.

use super::keys::{Key, Kind, object};
use super::{latency, outside, stretches};
use mpps_stats::{Latency, StreamSummary, sentences};
use serde_json::{Value, json};

/// Returns an object for each of the streams, groups or sizes.
pub(super) fn streams(all: &[StreamSummary]) -> Value {
    all.iter().map(|one| object(&STREAM, one)).collect()
}

/// Keys of a stream, in the order of the output. Where a run has the same, it has the same name there.
pub const STREAM: [Key<StreamSummary>; 31] = [
    Key::new(
        "name",
        Kind::Text,
        "name of the stream or of the group; of a size its bytes with FCS, `594`, or a range, `512-1023`",
        |s| s.name.as_str().into(),
    ),
    Key::or_null("group", Kind::Text, "group that the stream belongs to", |s| {
        s.group.as_deref().into()
    }),
    Key::new("streams", Kind::Count, "streams that these results are of", |s| {
        s.streams.into()
    }),
    Key::new("flows", Kind::Count, "their flows; 0 of a size", |s| s.flows.into()),
    Key::new(
        "lanes",
        Kind::Count,
        "lanes that send them; 0 of a size, and of `drop`",
        |s| s.lanes.into(),
    ),
    Key::new(
        "frame_size_bytes",
        Kind::Number,
        "mean length of a frame with FCS, of the sizes as they were asked for",
        |s| s.frame_size.into(),
    ),
    Key::new("tx_packets", Kind::Count, "packets sent", |s| s.tx.into()),
    Key::or_null(
        "rx_packets",
        Kind::Count,
        "packets received: each once, intact, within the settle time; `null`, as `lost`, `loss_ratio`, `late` and \
         `received_pps`, where all are sent without a tag",
        |s| known(s, s.rx.into()),
    ),
    Key::or_null(
        "lost",
        Kind::Count,
        "packets lost: `tx_packets − untagged_packets − rx_packets − late`",
        |s| known(s, s.lost.into()),
    ),
    Key::or_null(
        "loss_ratio",
        Kind::Number,
        "`lost ÷ (tx_packets − untagged_packets)`",
        |s| known(s, s.loss_ratio.into()),
    ),
    Key::new(
        "loss_stretches",
        Kind::List,
        "[when packets were lost](counts.md#when-packets-were-lost), to 100 ms: `from_s to_s lost` of the largest \
         stretches",
        |s| stretches(&s.loss_stretches, "lost"),
    ),
    Key::new(
        "loss_outside_stretches",
        Kind::Object,
        "the other ones: `stretches lost`, and `found_later`",
        |s| outside(&s.loss_stretches, "lost"),
    ),
    Key::or_null("late", Kind::Count, "packets that came after the settle time", |s| {
        known(s, s.late.into())
    }),
    Key::new("duplicates", Kind::Count, "further copies of packets", |s| {
        s.duplicates.into()
    }),
    Key::new(
        "reordered",
        Kind::Count,
        "packets that came after a later one of their flow",
        |s| s.reordered.into(),
    ),
    Key::new(
        "reorder_distance",
        Kind::Object,
        "how far they came behind the latest of their flow, in packets: `max mean`",
        |s| json!({ "max": s.reorder_distance.max, "mean": Value::from(s.reorder_distance.mean) }),
    ),
    Key::new(
        "corrupt",
        Kind::Count,
        "packets whose checksum or data was wrong; 0 of a size, which such a packet does not show",
        |s| s.corrupt.into(),
    ),
    Key::new("missed", Kind::Count, "departures that were due and not sent", |s| {
        s.missed.into()
    }),
    Key::or_null(
        "due_packets",
        Kind::Count,
        "departures that the schedule had; `null` where no rate was asked for",
        |s| s.due.into(),
    ),
    Key::or_null(
        "intended_pps",
        Kind::Number,
        "mean rate asked for over the whole time of sending, packets/s",
        |s| s.intended_pps.into(),
    ),
    Key::new(
        "offered_pps",
        Kind::Number,
        "rate sent, over the time of sending of the run",
        |s| s.offered_pps.into(),
    ),
    Key::or_null("received_pps", Kind::Number, "rate received, over the same time", |s| {
        known(s, s.received_pps.into())
    }),
    Key::new(
        "latency_ns",
        Kind::Times,
        "[latency](times.md#latency) from the send time: `min mean p50 p90 p99 p999 max count`; percentiles are `null` \
         where only the group has them",
        |s| latency(&s.latency).into(),
    ),
    Key::or_null(
        "latency_scheduled_ns",
        Kind::Times,
        "latency from the scheduled time",
        |s| s.latency_scheduled.as_ref().map(latency).into(),
    ),
    Key::or_null(
        "latency_arrival_ns",
        Kind::Times,
        "latency from the send time to the arrival",
        |s| s.latency_arrival.as_ref().map(latency).into(),
    ),
    Key::or_null(
        "wake_up_ns",
        Kind::Times,
        "time from the arrival to the lane's reading",
        |s| s.wake_up.as_ref().map(latency).into(),
    ),
    Key::or_null(
        "delay_variation_ns",
        Kind::Count,
        "variation of the latency from the send time: its 99.9th percentile less its minimum (RFC 8219)",
        |s| delay_variation(&s.latency).into(),
    ),
    Key::new(
        "valid",
        Kind::Flag,
        "whether these numbers can be trusted ([the verdict](verdict.md#the-verdict)); of a group those of all its \
         streams, of a size, and of all of `drop`, those of the run",
        |s| s.valid.into(),
    ),
    Key::new(
        "invalid_reasons",
        Kind::Texts,
        "why they can't, a sentence each; reasons of the whole run are the run's alone",
        |s| json!(sentences(&s.invalid_reasons)),
    ),
    Key::new(
        "untagged_packets",
        Kind::Count,
        "packets sent [without a tag](traffic.md#without-a-tag), of which nobody knows whether they came",
        |s| s.untagged.into(),
    ),
    Key::new(
        "untagged_came",
        Kind::Count,
        "packets that came with the headers of the stream and do not say which of it they are",
        |s| s.untagged_came.into(),
    ),
];

/// Returns a number on packets that came, if that is known.
fn known(of: &StreamSummary, number: Value) -> Value {
    if of.is_untagged() { Value::Null } else { number }
}

/// Returns the variation of a delay by RFC 8219, ns; `None` without percentiles.
pub(crate) fn delay_variation(of: &Latency) -> Option<u64> {
    let percentiles = of.percentiles.filter(|_| of.count > 0)?;
    Some(percentiles.p999.saturating_sub(of.min))
}
