//! Results of streams, groups and sizes, from the totals of their books.

use crate::books::Layout;
use crate::plan::{PacketStream, Packets};
use mpps_stats::{Remark, RemarkName, ReorderDistance, StreamKind, StreamSummary, Summary, Tally, Totals, count};
use mpps_wire::FrameSize;
use std::collections::BTreeSet;

/// Most streams that a sentence, or reasons of a run, name.
const MOST_NAMED: usize = 8;

/// Adds to a summary the results of streams. `senders`: lanes that send. `tolerance`: largest share of departures that
/// a valid stream may miss. `totals`: of the books of `layout`; none if there is one stream of one size, whose results
/// are those of the run.
pub(crate) fn add(
    summary: &mut Summary,
    packets: &Packets,
    (senders, tolerance): (usize, f64),
    layout: Option<&Layout>,
    totals: Vec<Totals>,
) {
    let Some(layout) = layout else {
        summary.streams = packets
            .streams
            .iter()
            .map(|stream| whole(summary, stream, senders))
            .collect();
        return;
    };
    // Books of streams come first.
    let sent: Vec<u64> = totals.iter().map(|totals| totals.tally.tx).collect();
    for (book, totals) in layout.books.iter().zip(totals) {
        let own: Vec<usize> = match book.kind {
            StreamKind::Stream => book.tracks.clone(),
            StreamKind::Group => members(packets, &book.name),
            StreamKind::Size => Vec::new(),
        };
        let streams = || {
            own.iter()
                .filter_map(|number| Some((*number, packets.streams.get(*number)?)))
        };
        let lanes = streams().flat_map(|(number, stream)| stream.senders(number, senders));
        let mut made = StreamSummary {
            name: book.name.clone(),
            streams: own.len(),
            flows: streams().map(|(_, stream)| u64::from(stream.flows())).sum(),
            lanes: lanes.collect::<BTreeSet<_>>().len(),
            frame_size: match book.kind {
                StreamKind::Size => mean_of_class(packets, &book.name),
                _ => mean_size(streams().map(|(number, stream)| (sent[number], stream.mean_size))),
            },
            ..counted(summary, &totals)
        };
        match book.kind {
            StreamKind::Stream => {
                made.group = streams().next().and_then(|(_, stream)| stream.group.clone());
                summary.streams.push(made);
            }
            StreamKind::Group => summary.groups.push(made),
            StreamKind::Size => {
                // A departure that was missed has no size.
                (made.due, made.intended_pps) = (None, None);
                summary.sizes.push(made);
            }
        }
    }
    judge(summary, tolerance);
}

/// Returns the numbers of the streams of a group.
fn members(packets: &Packets, group: &str) -> Vec<usize> {
    let all = packets.streams.iter().enumerate();
    all.filter(|(_, stream)| stream.group.as_deref() == Some(group))
        .map(|(number, _)| number)
        .collect()
}

/// Returns the results of the only stream of a run.
fn whole(summary: &Summary, stream: &PacketStream, senders: usize) -> StreamSummary {
    StreamSummary {
        name: stream.name.clone(),
        group: stream.group.clone(),
        streams: 1,
        flows: stream.flows().into(),
        lanes: stream.senders(0, senders).len(),
        frame_size: stream.mean_size,
        tx: summary.tx,
        untagged: summary.untagged,
        untagged_came: summary.untagged_came,
        rx: summary.rx,
        lost: summary.lost,
        late: summary.late,
        duplicates: summary.duplicates,
        reordered: summary.reordered,
        reorder_distance: summary.reorder_distance,
        corrupt: summary.corrupt,
        missed: summary.missed,
        due: summary.due,
        intended_pps: summary.intended_pps,
        offered_pps: summary.offered_pps,
        received_pps: summary.received_pps,
        loss_ratio: summary.loss_ratio,
        loss_stretches: summary.loss_stretches.clone(),
        latency: summary.latency,
        latency_scheduled: summary.latency_scheduled,
        latency_arrival: summary.latency_arrival,
        wake_up: summary.wake_up,
        valid: summary.valid,
        invalid_reasons: Vec::new(),
    }
}

/// Returns what the totals of a book say.
fn counted(summary: &Summary, totals: &Totals) -> StreamSummary {
    let tally: &Tally = &totals.tally;
    let seconds = summary.duration_ns.max(1) as f64 / 1e9;
    let lost = totals.lost.max(0) as u64;
    let due = summary.intended_pps.map(|_| tally.tx + tally.missed);
    StreamSummary {
        streams: 1,
        tx: tally.tx,
        untagged: tally.untagged,
        untagged_came: tally.untagged_came,
        rx: tally.rx,
        lost,
        late: tally.late,
        duplicates: tally.duplicates,
        reordered: tally.reordered,
        reorder_distance: ReorderDistance {
            max: totals.distance_max,
            mean: match tally.reordered {
                0 => 0.0,
                reordered => tally.distance_sum as f64 / reordered as f64,
            },
        },
        corrupt: tally.corrupt,
        missed: tally.missed,
        due,
        intended_pps: due.map(|due| due as f64 / seconds),
        offered_pps: tally.tx as f64 / seconds,
        received_pps: tally.rx as f64 / seconds,
        loss_ratio: match tally.tx.saturating_sub(tally.untagged) {
            0 => 0.0,
            known => lost as f64 / known as f64,
        },
        loss_stretches: totals.loss.clone(),
        latency: totals.latency,
        latency_scheduled: summary.latency_scheduled.map(|_| totals.scheduled),
        latency_arrival: totals.arrival,
        wake_up: totals.wake_up,
        valid: true,
        ..StreamSummary::default()
    }
}

/// Returns the mean frame of streams, bytes with FCS: of each, the packets sent and the mean frame.
fn mean_size(streams: impl Iterator<Item = (u64, f64)> + Clone) -> f64 {
    let all: u64 = streams.clone().map(|(sent, _)| sent).sum();
    match all {
        0 => streams.clone().map(|(_, size)| size).sum::<f64>() / streams.count().max(1) as f64,
        _ => streams.map(|(sent, size)| sent as f64 * size).sum::<f64>() / all as f64,
    }
}

/// Returns the mean of the sizes in a class, bytes with FCS.
fn mean_of_class(packets: &Packets, name: &str) -> f64 {
    let (low, high) = name.split_once('-').unwrap_or((name, name));
    let (low, high) = (low.parse().unwrap_or(0), high.parse().unwrap_or(usize::MAX));
    let lens = packets.streams.iter().flat_map(PacketStream::lens);
    let within: Vec<usize> = lens
        .map(|len| len + FrameSize::FCS_LEN)
        .filter(|size| (low..=high).contains(size))
        .collect();
    within.iter().sum::<usize>() as f64 / within.len().max(1) as f64
}

/// Judges each stream by its own departures. The run is valid if all streams are. Streams of a receiver are valid if
/// the run is.
fn judge(summary: &mut Summary, tolerance: f64) {
    let (run_valid, workload) = (summary.valid, summary.workload);
    if !workload.generates() {
        let all = summary.streams.iter_mut().chain(&mut summary.groups);
        all.for_each(|of| of.valid = run_valid);
        return;
    }
    // What else is wrong with the run is wrong with each of its streams.
    let others = summary
        .invalid_reasons
        .iter()
        .any(|reason| reason.name != RemarkName::MissedDepartures);
    let mut never = Vec::new();
    for stream in &mut summary.streams {
        let senders = stream.lanes.max(1) as u64;
        let due = stream.due.filter(|due| *due > 0);
        let off = due.map(|due| stream.missed as f64 / due as f64);
        if stream.tx == 0 && due.is_some() {
            let text = format!("stream {}: nothing was sent", stream.name);
            stream
                .invalid_reasons
                .push(Remark::new(RemarkName::NothingSent, text).with("stream", stream.name.clone()));
        } else if let Some((due, off)) = due.zip(off)
            && off > tolerance
            && stream.missed > senders
        {
            let text = format!(
                "stream {}: {} of {} departures were missed ({:.3} %; {:.3} % are allowed)",
                stream.name,
                count(stream.missed),
                count(due),
                off * 100.0,
                tolerance * 100.0
            );
            let remark = Remark::new(RemarkName::MissedDepartures, text)
                .with("stream", stream.name.clone())
                .with("missed_packets", stream.missed)
                .with("due_packets", due)
                .with("allowed_ratio", tolerance);
            stream.invalid_reasons.push(remark);
        }
        stream.valid = stream.invalid_reasons.is_empty() && !others;
        if stream.due == Some(0) && stream.tx == 0 {
            never.push(stream.name.clone());
        }
    }
    for group in &mut summary.groups {
        let own = |stream: &&StreamSummary| stream.group.as_deref() == Some(&group.name);
        group.valid = !summary.streams.iter().filter(own).any(|stream| !stream.valid);
    }
    let suffered = summary
        .streams
        .iter()
        .filter(|stream| !stream.invalid_reasons.is_empty());
    let mut reasons: Vec<Remark> = suffered
        .flat_map(|stream| stream.invalid_reasons.iter().cloned())
        .collect();
    if reasons.len() > MOST_NAMED {
        let more = reasons.len() - MOST_NAMED;
        reasons.truncate(MOST_NAMED);
        let text = format!("{more} more streams missed departures");
        reasons.push(Remark::new(RemarkName::MissedDepartures, text).with("streams", more as u64));
    }
    summary.valid &= reasons.is_empty();
    summary.invalid_reasons.extend(reasons);
    let run_valid = summary.valid;
    summary.sizes.iter_mut().for_each(|size| size.valid = run_valid);
    if !never.is_empty() {
        let all = never.len();
        let more = if all > MOST_NAMED {
            format!(" and {} more", all - MOST_NAMED)
        } else {
            String::new()
        };
        never.truncate(MOST_NAMED);
        let text = format!(
            "no packet of {} {}{more} was due: the run had ended before",
            if all == 1 { "stream" } else { "streams" },
            never.join(", ")
        );
        summary
            .warnings
            .push(Remark::new(RemarkName::NothingSent, text).with("streams", all as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_stats::Workload;

    fn stream(name: String, [tx, missed]: [u64; 2]) -> StreamSummary {
        StreamSummary {
            name,
            lanes: 1,
            tx,
            missed,
            due: Some(tx + missed),
            ..StreamSummary::default()
        }
    }

    fn judged(workload: Workload, valid: bool, streams: Vec<StreamSummary>) -> Summary {
        let mut summary = Summary {
            workload,
            valid,
            streams,
            ..Summary::default()
        };
        judge(&mut summary, 0.01);
        summary
    }

    #[test]
    fn streams_that_missed_departures_or_sent_nothing_are_named_and_many_are_counted() {
        let late = (0..MOST_NAMED + 3).map(|of| stream(format!("late {of}"), [50, 50]));
        let all = [
            stream("mute".into(), [0, 9]),
            stream("good".into(), [999, 1]),
            stream("never".into(), [0, 0]),
        ];
        let summary = judged(Workload::SendRecv, true, all.into_iter().chain(late).collect());
        let valid: Vec<bool> = summary.streams.iter().map(|of| of.valid).take(4).collect();
        assert_eq!((summary.valid, valid), (false, vec![false, true, true, false]));
        let reasons = &summary.invalid_reasons;
        assert_eq!(reasons.len(), MOST_NAMED + 1, "{reasons:?}");
        assert_eq!(reasons[0].sentence, "stream mute: nothing was sent");
        assert_eq!(reasons[MOST_NAMED].sentence, "4 more streams missed departures");
        let warned: Vec<&str> = summary.warnings.iter().map(|of| of.sentence.as_str()).collect();
        assert_eq!(warned, ["no packet of stream never was due: the run had ended before"]);
    }

    #[test]
    fn streams_that_others_send_are_valid_if_the_run_is() {
        for valid in [true, false] {
            let summary = judged(Workload::Drop, valid, vec![stream("mute".into(), [0, 9])]);
            assert_eq!((summary.valid, summary.streams[0].valid), (valid, valid));
            assert!(summary.invalid_reasons.is_empty() && summary.warnings.is_empty());
        }
    }
}
