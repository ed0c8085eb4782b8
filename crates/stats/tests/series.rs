//! The rows of a run add up: whatever lanes book, in whatever order rows close, sums over the rows equal the totals.

use mpps_stats::{
    ArrivalTimes, Collector, Delay, Event, LaneSeries, Row, Sink, StreamBook, StreamKind, Timing, Totals, Workload,
};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct Rows(Arc<Mutex<Vec<Row>>>);

impl Sink for Rows {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Row(row) = event {
            self.0.lock().unwrap().push((*row).clone());
        }
    }
}

const MS: u64 = 1_000_000;

/// One packet: lane, gap since the last (µs), latency (µs; `None`: lost).
type Packet = (usize, u64, Option<u64>);

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let latency = prop_oneof![
        1 => Just(None),
        8 => (0u64..2_000).prop_map(Some),
        1 => (0u64..400_000).prop_map(Some),
    ];
    proptest::collection::vec((0usize..3, 0u64..3_000, latency), 1..600)
}

/// Books the packets; what rows and totals have is what was booked.
fn booked(
    packets: &[Packet],
    timing: Timing,
    poll_every: usize,
    lanes: &[LaneSeries],
) -> Result<(Totals, Vec<Row>), TestCaseError> {
    let mut recorders: Vec<_> = lanes.iter().map(LaneSeries::recorder).collect();
    let mut collector = Collector::new(lanes.iter().collect(), Workload::SendRecv, false);
    let rows = Rows::default();
    let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(rows.clone())];

    // Events in the order of time: (at, lane, sent at, received?).
    let mut events = Vec::new();
    let mut now = timing.start_ns;
    for &(lane, gap, latency) in packets {
        now += gap * 1_000;
        events.push((now, lane, now, false));
        if let Some(latency) = latency {
            events.push((now + latency * 1_000, lane, now, true));
        }
    }
    let end = now + 1;
    events.sort();
    let (mut tx, mut rx, mut late) = (0u64, 0u64, 0u64);
    // The rows of those received: what arrives in the settle time is the last one's.
    let mut arrivals = Vec::new();
    for (i, &(at, lane, sent, back)) in events.iter().enumerate() {
        if back && at > end + timing.settle_ns {
            continue; // the run has ended
        }
        let recorder = &mut recorders[lane];
        if back {
            if recorder.received(sent, Delay::of(sent, None, at), None, 0) {
                rx += 1;
                recorder.by_arrival(at, 1);
                arrivals.push(timing.row_of(at).min(timing.row_of(end - 1)));
            } else {
                late += 1
            }
            prop_assert_eq!(rx + late > 0, true);
            if at - sent <= timing.settle_ns {
            } else {
                prop_assert!(late > 0)
            }
        } else {
            recorder.sent(sent, 1);
            tx += 1;
        }
        recorder.flush();
        for recorder in &mut recorders {
            recorder.advance(at);
        }
        if i % poll_every == 0 {
            collector.poll(&mut sinks);
        }
    }
    collector.set_end(end);
    collector.poll(&mut sinks);
    recorders.into_iter().for_each(|r| r.end());
    let totals = collector.finish(&mut sinks);
    let rows = rows.0.lock().unwrap().clone();
    prop_assert_eq!(totals.tally.tx, tx);
    prop_assert_eq!(totals.tally.rx, rx);
    prop_assert_eq!(totals.tally.late, late);
    prop_assert_eq!(totals.lost, (tx - rx - late) as i64);
    prop_assert_eq!(totals.latency.count, rx);
    prop_assert_eq!(rows.iter().map(|r| r.tx).sum::<u64>(), tx);
    prop_assert_eq!(rows.iter().map(|r| r.rx).sum::<u64>(), rx);
    prop_assert_eq!(rows.iter().map(|r| r.late).sum::<u64>(), late);
    prop_assert_eq!(rows.iter().map(|r| r.lost).sum::<i64>(), (tx - rx - late) as i64);
    prop_assert_eq!(rows.len() as u64, timing.row_of(end - 1) + 1);
    prop_assert!(rows.iter().enumerate().all(|(i, r)| r.index == i as u64));
    let percentiles = totals.latency.percentiles;
    prop_assert_eq!(percentiles.is_some(), rx > 0);
    prop_assert_eq!(totals.tally.arrived, rx);
    for row in &rows {
        let here = arrivals.iter().filter(|at| **at == row.index).count() as u64;
        prop_assert_eq!(row.rx_by_arrival, Some(here));
    }
    // Each packet is in the row of its sending.
    for row in rows.iter() {
        let sent_here = events
            .iter()
            .filter(|e| !e.3 && timing.row_of(e.2) == row.index)
            .count() as u64;
        prop_assert_eq!(row.tx, sent_here);
    }
    Ok((totals, rows))
}

fn intervals() -> impl Strategy<Value = u64> {
    prop_oneof![Just(100u64), Just(1_000), Just(30_000), Just(100_000), Just(250_000)]
}

fn timing(interval_us: u64, start_ms: u64) -> Timing {
    Timing {
        start_ns: start_ms * MS,
        interval_ns: interval_us * 1_000,
        settle_ns: 100 * MS,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn every_packet_is_in_one_row_and_in_the_totals_once(
        packets in packets(),
        interval_us in intervals(),
        poll_every in 1usize..50,
    ) {
        let timing = timing(interval_us, 77);
        let lanes: Vec<LaneSeries> = (0..3).map(|_| LaneSeries::new(timing, true)).collect();
        booked(&packets, timing, poll_every, &lanes)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]
    #[test]
    fn a_series_that_was_renewed_has_nothing_of_the_run_before(
        [before, packets] in [packets(), packets()],
        interval_us in prop_oneof![Just(1_000u64), Just(30_000), Just(250_000)],
        poll_every in 1usize..50,
    ) {
        let [first, second] = [timing(interval_us, 77), timing(interval_us, 5_000)];
        let mut used: Vec<LaneSeries> = (0..3).map(|_| LaneSeries::new(first, true)).collect();
        booked(&before, first, poll_every, &used)?;
        for lane in &mut used {
            let renewed = [timing(7 * interval_us, 77), second].map(|timing| lane.renew(timing));
            prop_assert_eq!(renewed, [false, true]);
        }
        let new: Vec<LaneSeries> = (0..3).map(|_| LaneSeries::new(second, true)).collect();
        let [used, new] = [used, new].map(|lanes| booked(&packets, second, poll_every, &lanes));
        prop_assert_eq!(format!("{:?}", used?), format!("{:?}", new?));
    }
}

#[test]
fn a_collector_that_never_runs_loses_places_but_no_counts() {
    let timing = Timing {
        start_ns: 0,
        interval_ns: MS,
        settle_ns: 10 * MS,
    };
    let lane = LaneSeries::new(timing, true);
    let mut recorder = lane.recorder();
    let mut collector = Collector::new(vec![&lane], Workload::SendRecv, false);
    let rows = Rows::default();
    let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(rows.clone())];
    for ms in 0..60_000u64 {
        recorder.advance(ms * MS);
        recorder.sent(ms * MS, 3);
        recorder.received(ms * MS, Delay::of(0, None, 5), None, 0);
        recorder.by_arrival(ms * MS + 5, 1);
        recorder.flush();
    }
    recorder.end();
    collector.set_end(60_000 * MS);
    let totals = collector.finish(&mut sinks);
    assert_eq!((totals.tally.tx, totals.tally.rx), (180_000, 60_000));
    assert!(totals.overflowed > 0);
    assert!((1..60_000).contains(&totals.unranked), "{}", totals.unranked);
    let rows = rows.0.lock().unwrap();
    assert_eq!(rows.iter().map(|r| r.tx).sum::<u64>(), 180_000);
    assert_eq!(rows.iter().filter_map(|r| r.rx_by_arrival).sum::<u64>(), 60_000);
    assert_eq!(rows.len(), 60_000);
}

#[test]
fn a_series_has_one_writer() {
    let timing = Timing {
        start_ns: 0,
        interval_ns: MS,
        settle_ns: 0,
    };
    let lane = LaneSeries::new(timing, false);
    let _first = lane.recorder();
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lane.recorder().flush())).is_err());
}

#[test]
fn lanes_that_ended_before_the_end_is_told_close_no_rows_beyond_it() {
    let timing = Timing {
        start_ns: 0,
        interval_ns: MS,
        settle_ns: 0,
    };
    let mut lane = LaneSeries::new(timing, false);
    lane.set_start(1_000);
    let mut recorder = lane.recorder();
    recorder.sent(1_000, 1);
    recorder.end();
    let mut collector = Collector::new(vec![&lane], Workload::Send, false);
    let rows = Rows::default();
    let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(rows.clone())];
    collector.poll(&mut sinks);
    assert!(rows.0.lock().unwrap().is_empty());
    collector.set_end(1_000 + 3 * MS);
    assert_eq!(collector.finish(&mut sinks).tally.tx, 1);
    assert_eq!(rows.0.lock().unwrap().len(), 3);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn drops_by_this_host_add_up_over_rows_and_stretches_whenever_they_were_read(
        interval_us in prop_oneof![Just(1_000u64), Just(30_000), Just(100_000), Just(250_000)],
        // (µs to the next look, packets dropped since): a process that was stopped looks late.
        looks in proptest::collection::vec(
            (prop_oneof![9 => 1_000u64..40_000, 1 => 40_000u64..900_000], 0u64..3),
            1..120,
        ),
    ) {
        let timing = Timing { start_ns: 77 * MS, interval_ns: interval_us * 1_000, settle_ns: 0 };
        let lane = LaneSeries::new(timing, false);
        let mut recorder = lane.recorder();
        let mut collector = Collector::new(vec![&lane], Workload::Reflect, false);
        let rows = Rows::default();
        let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(rows.clone())];
        let (mut now, mut dropped) = (timing.start_ns, 0);
        let mut next = collector.next_reading_ns(now);
        // (read at, total)
        let mut read = Vec::new();
        for &(us, n) in &looks {
            now += us * 1_000;
            dropped += n;
            recorder.advance(now);
            if now >= next {
                collector.note_host_drops(now, &[Some(dropped)]);
                next = collector.next_reading_ns(now);
                read.push((now, dropped));
            }
            collector.poll(&mut sinks);
        }
        recorder.end();
        collector.set_end(now);
        collector.note_host_drops(now, &[Some(dropped)]);
        let totals = collector.finish(&mut sinks);
        let rows = rows.0.lock().unwrap();
        prop_assert_eq!(rows.iter().filter_map(|row| row.host_dropped).sum::<u64>(), dropped);
        prop_assert_eq!((totals.host_dropped, totals.host_drops.packets()), (Some(dropped), dropped));
        prop_assert!(rows.last().is_some_and(|row| row.host_dropped.is_some()), "the last reading is in the last row");
        // No row has what was not yet read when it ended, but for a reading that was late.
        for (i, row) in rows.iter().enumerate() {
            let sum: u64 = rows[..=i].iter().filter_map(|row| row.host_dropped).sum();
            let end = timing.start_ns + row.start_ns + row.length_ns;
            let by_then = read.iter().filter(|(at, _)| *at < end).map(|(_, total)| *total).max().unwrap_or(0);
            prop_assert!(sum >= by_then || i + 1 == rows.len(), "row {i}: {sum} of {by_then} that were read by its \
                                                                 end");
        }
    }
}

#[test]
fn a_packet_that_is_handed_over_long_after_it_arrived_stands_in_the_oldest_open_row() {
    let timing = Timing {
        start_ns: 0,
        interval_ns: MS,
        settle_ns: 10 * MS,
    };
    let lane = LaneSeries::new(timing, true);
    let mut recorder = lane.recorder();
    recorder.by_arrival(7 * MS, 3);
    recorder.advance(200 * MS);
    recorder.by_arrival(7 * MS, 2);
    recorder.by_arrival(200 * MS, 1);
    recorder.end();
    let mut collector = Collector::new(vec![&lane], Workload::SendRecv, false);
    let rows = Rows::default();
    collector.set_end(300 * MS);
    collector.finish(&mut [Box::new(rows.clone())]);
    let rows = rows.0.lock().unwrap();
    let some: Vec<_> = rows.iter().filter(|row| row.rx_by_arrival != Some(0)).collect();
    let some: Vec<_> = some.iter().map(|row| (row.index, row.rx_by_arrival)).collect();
    assert_eq!(some, [(7, Some(3)), (140, Some(2)), (200, Some(1))]);
}

#[test]
fn rows_of_those_who_do_not_send_are_by_arrival_and_a_kernel_tells_long_rows_only() {
    let arrivals = |workload, interval_ms: u64, in_kernel| {
        let timing = timing(interval_ms * 1_000, 0);
        let lane = LaneSeries::new(timing, true);
        let mut recorder = lane.recorder();
        match workload {
            Workload::SendRecv => recorder.by_arrival(5 * MS, 4),
            Workload::Send => recorder.sent(5 * MS, 4),
            _ => recorder.arrived_n(5 * MS, 4, None),
        }
        recorder.end();
        let mut collector = Collector::new(vec![&lane], workload, false);
        if in_kernel {
            collector.kernel_sends();
        }
        let rows = Rows::default();
        collector.set_end(10 * MS);
        collector.finish(&mut [Box::new(rows.clone())]);
        let rows = rows.0.lock().unwrap();
        rows.iter()
            .map(|row| row.rx_by_arrival)
            .reduce(|a, b| Some(a? + b?))
            .flatten()
    };
    for workload in [Workload::Drop, Workload::Reflect, Workload::Forward, Workload::Capture] {
        assert_eq!(
            [1, 100].map(|ms| arrivals(workload, ms, true)),
            [Some(4); 2],
            "{workload:?}"
        );
    }
    assert_eq!(arrivals(Workload::Send, 1, false), None);
    assert_eq!([1, 100].map(|ms| arrivals(Workload::SendRecv, ms, false)), [Some(4); 2]);
    assert_eq!(
        [1, 100].map(|ms| arrivals(Workload::SendRecv, ms, true)),
        [None, Some(4)]
    );
}

#[derive(Clone, Default)]
struct OfStreams(Arc<Mutex<Vec<Vec<Row>>>>);

impl Sink for OfStreams {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Streams(streams) => {
                assert_eq!(streams.of.len(), streams.rows.len());
                self.0.lock().unwrap().push(streams.rows.to_vec());
            }
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn books_of_streams_have_what_their_tracks_have(packets in packets(), polls in 1usize..40) {
        let timing = timing(100_000, 3);
        let lanes: Vec<Vec<LaneSeries>> =
            (0..2).map(|_| (0..3).map(|track| LaneSeries::of_stream(timing, track != 1)).collect()).collect();
        let book = |name: &str, tracks: &[usize], ranked| StreamBook {
            kind: StreamKind::Stream,
            name: name.to_owned(),
            tracks: tracks.to_vec(),
            ranked,
        };
        let books = vec![
            book("0", &[0], true),
            book("1", &[1], false),
            book("2", &[2], true),
            book("both", &[0, 2], true),
        ];
        let tracks = (0..3).map(|track| lanes.iter().map(|lane| &lane[track]).collect()).collect();
        let mut collector = Collector::of_streams(tracks, books, Workload::SendRecv, false);
        let rows = OfStreams::default();
        let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(rows.clone())];
        let mut recorders: Vec<Vec<_>> =
            lanes.iter().map(|lane| lane.iter().map(LaneSeries::recorder).collect()).collect();
        let (mut tx, mut rx) = ([0u64; 3], [0u64; 3]);
        let mut now = timing.start_ns;
        for (i, &(track, gap, latency)) in packets.iter().enumerate() {
            now += gap * 30_000;
            let recorder: &mut mpps_stats::Recorder<'_> = &mut recorders[i % 2][track];
            recorder.sent_now(now, 1);
            tx[track] += 1;
            // What comes back comes back at once, by its send time.
            if latency.is_some_and(|us| us <= 100_000) {
                prop_assert!(recorder.received(now, Delay::of(0, None, latency.unwrap_or(0) * 1_000), None, 0));
                rx[track] += 1;
            }
            recorder.flush();
            recorders.iter_mut().flatten().for_each(|recorder| recorder.advance(now));
            if i % polls == 0 {
                collector.poll(&mut sinks);
            }
        }
        collector.set_end(now + 1);
        recorders.into_iter().flatten().for_each(|recorder| recorder.end());
        collector.finish(&mut sinks);
        let totals = collector.totals_of_tracks();
        let both = |of: [u64; 3]| [of[0], of[1], of[2], of[0] + of[2]];
        prop_assert_eq!(totals.iter().map(|of| of.tally.tx).collect::<Vec<_>>(), both(tx));
        prop_assert_eq!(totals.iter().map(|of| of.tally.rx).collect::<Vec<_>>(), both(rx));
        for (place, of) in totals.iter().enumerate() {
            prop_assert_eq!(of.latency.count, of.tally.rx);
            prop_assert_eq!(of.latency.percentiles.is_some(), place != 1 && of.tally.rx > 0, "{}", place);
            prop_assert_eq!((of.unranked, of.overflowed), (0, 0));
        }
        let rows = rows.0.lock().unwrap().clone();
        prop_assert_eq!(rows.iter().map(|rows| rows[3].tx).sum::<u64>(), tx[0] + tx[2]);
    }
}

proptest! {
    /// The parts of each packet add up to its latency, whether packets are booked one by one or a burst at once, and
    /// whether a packet is late is a matter of its arrival, not of the lane that reads late.
    #[test]
    fn arrivals_and_what_follows_them_add_up_to_the_latency(
        bursts in proptest::collection::vec(
            (1u64..3_000, 0u64..1_200_000, proptest::collection::vec(0u64..1_300_000, 1..20)), 1..60,
        ),
        interval_ms in 1u64..300,
    ) {
        let timing = Timing { start_ns: 7, interval_ns: interval_ms * MS, settle_ns: 900 * MS };
        let result = |at_once: bool| {
            let lane = LaneSeries::new(timing, true).with_arrivals(true);
            let mut recorder = lane.recorder();
            let mut collector = Collector::new(vec![&lane], Workload::SendRecv, false);
            collector.time_arrivals(ArrivalTimes::Noted);
            let rows = Rows::default();
            let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(rows.clone())];
            let (mut sent, mut in_time) = (timing.start_ns, 0);
            for (gap, latency, arrivals) in &bursts {
                sent += gap * 1_000;
                let read = sent + latency * 1_000;
                let delays: Vec<_> =
                    arrivals.iter().map(|us| Delay::of(sent, Some(sent + us * 1_000), read)).collect();
                recorder.sent(sent, delays.len() as u64);
                if at_once && latency * 1_000 <= timing.settle_ns {
                    let until: Vec<u64> = delays.iter().filter_map(|delay| delay.arrival_ns).collect();
                    assert!(recorder.received_n(sent, read, delays.len() as u32, &[]));
                    recorder.timed(latency * 1_000, &until);
                    in_time += delays.len() as u64;
                } else {
                    for delay in &delays {
                        let counts = recorder.received(sent, *delay, None, 0);
                        assert_eq!(counts, delay.until_arrival_ns() <= timing.settle_ns);
                        in_time += u64::from(counts);
                    }
                }
                recorder.flush();
                recorder.advance(sent);
                collector.poll(&mut sinks);
            }
            recorder.end();
            collector.set_end(sent + 1);
            let totals = collector.finish(&mut sinks);
            assert_eq!(totals.tally.rx, in_time);
            let rows = rows.0.lock().expect("rows").clone();
            (totals, rows)
        };
        let (one_by_one, rows) = result(false);
        let (at_once, _) = result(true);
        prop_assert_eq!(one_by_one.tally, at_once.tally);
        let [latency, arrival, wake_up] = [Some(at_once.latency), at_once.arrival, at_once.wake_up]
            .map(|of| of.expect("noted"));
        prop_assert_eq!([arrival, wake_up], [one_by_one.arrival, one_by_one.wake_up].map(|of| of.expect("noted")));
        prop_assert_eq!([arrival.count, wake_up.count], [latency.count; 2]);
        if latency.count > 0 {
            prop_assert!((arrival.mean + wake_up.mean - latency.mean).abs() <= 1e-6 * latency.mean.max(1.0));
            prop_assert!(arrival.max <= latency.max && arrival.percentiles.is_some() && wake_up.percentiles.is_some());
        }
        let of_rows: u64 = rows.iter().filter_map(|row| row.wake_up).map(|of| of.count).sum();
        prop_assert_eq!(of_rows, wake_up.count);
    }
}
