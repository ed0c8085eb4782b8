//! What was counted elsewhere and is booked by the row gives what booking by the packet gives.

use mpps_stats::{
    Collector, Delay, Event, LaneSeries, Moments, Row, Sink, Tally, Time, Timing, Totals, Workload, bucket_of,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const MS: u64 = 1_000_000;

type Period = (u64, u64, Vec<(u64, u64)>);

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<(Vec<Row>, Vec<Period>)>>);

impl Sink for Kept {
    fn event(&mut self, event: &Event<'_>) {
        let mut kept = self.0.lock().unwrap();
        match event {
            Event::Row(row) => kept.0.push((*row).clone()),
            Event::Period(period) => kept
                .1
                .push((period.start_ns, period.length_ns, period.buckets.to_vec())),
            _ => {}
        }
    }
}

/// A packet: gap since the last (µs), latency (µs; `None`: lost), slip (ns), distance.
type Packet = (u64, Option<u64>, u64, u64);

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let latency = prop_oneof![1 => Just(None), 8 => (0u64..2_000).prop_map(Some), 1 => (0u64..150_000).prop_map(Some)];
    proptest::collection::vec((0u64..3_000, latency, 0u64..9_000, 0u64..3), 1..400)
}

fn run(timing: Timing, end_ns: u64, feed: impl FnOnce(&LaneSeries, &mut dyn FnMut())) -> (Totals, Kept) {
    let lane = LaneSeries::new(timing, true);
    let mut collector = Collector::new(vec![&lane], Workload::SendRecv, true);
    let kept = Kept::default();
    let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(kept.clone())];
    feed(&lane, &mut || collector.poll(&mut sinks));
    collector.set_end(end_ns);
    (collector.finish(&mut sinks), kept)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn rows_booked_whole_are_those_of_packets_booked_one_by_one(
        packets in packets(),
        interval_us in prop_oneof![Just(1_000u64), Just(30_000), Just(100_000), Just(250_000)],
    ) {
        let timing = Timing { start_ns: 77 * MS, interval_ns: interval_us * 1_000, settle_ns: 100 * MS };
        let mut events = Vec::new();
        let mut at = timing.start_ns;
        for &(gap, latency, slip, distance) in &packets {
            at += gap * 1_000;
            events.push((at, at, None, distance));
            if let Some(latency) = latency {
                events.push((at + latency * 1_000, at, Some(slip), distance));
            }
        }
        let end = at + 1;
        events.sort();

        let (totals, kept) = run(timing, end, |lane, _| {
            let mut recorder = lane.recorder();
            for &(at, sent, slip, distance) in &events {
                match slip {
                    None => recorder.sent(sent, 1),
                    Some(slip) => { recorder.received(sent, Delay::of(sent, None, at), Some(slip), distance); }
                }
                recorder.flush();
                recorder.advance(at);
            }
            recorder.end();
        });

        // The same, counted elsewhere first.
        let mut rows: BTreeMap<u64, Tally> = BTreeMap::new();
        let mut buckets: BTreeMap<u64, Vec<(Time, usize)>> = BTreeMap::new();
        let (mut farthest, mut newest) = (0, 0);
        for &(at, sent, slip, distance) in &events {
            newest = at;
            let row = timing.row_of(sent);
            let tally = rows.entry(row).or_default();
            let latency = at - sent;
            match slip {
                None => tally.tx += 1,
                Some(_) if latency > timing.settle_ns => tally.late += 1,
                Some(slip) => {
                    tally.rx += 1;
                    if distance > 0 {
                        tally.reordered += 1;
                        tally.distance_sum += distance;
                        farthest = farthest.max(distance);
                    }
                    let latencies = [(Time::Latency, latency), (Time::Scheduled, latency + slip)];
                    for (time, ns) in latencies {
                        tally.times[time].merge(&Moments::new(1, ns, ns, ns));
                    }
                    let period = buckets.entry(row / timing.rows_per_period()).or_default();
                    period.extend(latencies.map(|(time, ns)| (time, bucket_of(ns))));
                }
            }
        }
        let (booked, kept_booked) = run(timing, end, |lane, _| {
            let mut recorder = lane.recorder();
            let per = timing.rows_per_period();
            let mut now = timing.start_ns;
            let (mut next, mut period) = (0, 0);
            while now < newest + 400 * MS {
                now += 10 * MS;
                let limit = timing.closable(now);
                for row in next..limit {
                    if let Some(tally) = rows.get(&row) {
                        recorder.book(row, tally);
                    }
                }
                next = limit;
                while (period + 1) * per <= limit {
                    for (time, bucket) in buckets.remove(&period).unwrap_or_default() {
                        recorder.book_bucket((period + 1) * per - 1, time, bucket, 1);
                    }
                    period += 1;
                }
                recorder.farthest(farthest);
                recorder.flush();
                recorder.advance(now);
            }
            recorder.end();
        });
        prop_assert_eq!(totals.tally, booked.tally);
        prop_assert_eq!(totals.lost, booked.lost);
        prop_assert_eq!(totals.overflowed + booked.overflowed, 0);
        prop_assert_eq!(totals.distance_max, booked.distance_max);
        prop_assert_eq!(totals.latency, booked.latency);
        prop_assert_eq!(totals.scheduled, booked.scheduled);
        let (kept, booked) = (kept.0.lock().unwrap(), kept_booked.0.lock().unwrap());
        prop_assert_eq!(&kept.0, &booked.0);
        prop_assert_eq!(&kept.1, &booked.1);
    }
}

#[test]
fn what_comes_for_a_closed_row_stays_in_the_totals() {
    let timing = Timing {
        start_ns: 0,
        interval_ns: MS,
        settle_ns: 10 * MS,
    };
    let (totals, kept) = run(timing, 400 * MS, |lane, poll| {
        let mut recorder = lane.recorder();
        let tally = |tx, rx| Tally {
            tx,
            rx,
            ..Tally::default()
        };
        recorder.book(3, &tally(5, 5));
        recorder.advance(300 * MS);
        poll();
        recorder.book(3, &tally(7, 4));
        recorder.book_bucket(3, Time::Latency, 1_000, 2);
        recorder.book_bucket(350, Time::Latency, 1_000, 2);
        recorder.late_after_close(2);
        recorder.end();
    });
    assert_eq!((totals.tally.tx, totals.tally.rx, totals.tally.late), (12, 9, 2));
    assert_eq!((totals.lost, totals.overflowed), (1, 1));
    let kept = kept.0.lock().unwrap();
    assert_eq!((kept.0[3].tx, kept.0[3].rx), (5, 5));
    assert_eq!(kept.1, [(300 * MS, 100 * MS, vec![(1_000, 2)])]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn packets_booked_together_are_those_booked_one_by_one(
        bursts in proptest::collection::vec(
            (0u64..3_000, prop_oneof![8 => 0u64..2_000, 1 => 0u64..250_000], 1u32..40, any::<bool>()),
            1..200,
        ),
    ) {
        let timing = Timing { start_ns: 77 * MS, interval_ns: 1_000_000, settle_ns: 100 * MS };
        let end = timing.start_ns + bursts.iter().map(|(gap, ..)| gap * 1_000).sum::<u64>() + 1;
        let book = |together: bool| {
            let mut in_time = 0;
            let (totals, kept) = run(timing, end, |lane, poll| {
                let mut recorder = lane.recorder();
                let mut at = timing.start_ns;
                for &(gap, latency, n, paced) in &bursts {
                    at += gap * 1_000;
                    let received = at + latency * 1_000;
                    // Where they were paced each slipped by something else, the last one's is no longer known.
                    let slips: Vec<u64> = (1..u64::from(n)).filter(|_| paced).map(|i| i * i * 997).collect();
                    if together {
                        in_time += u64::from(n) * u64::from(recorder.received_n(at, received, n, &slips));
                    } else {
                        let one_by_one = slips.iter().map(|slip| Some(*slip)).chain(std::iter::repeat(None));
                        let booked = one_by_one.take(n as usize);
                        let delay = Delay::of(at, None, received);
                        let booked = booked.filter(|slip| recorder.received(at, delay, *slip, 0));
                        in_time += booked.count() as u64;
                    }
                    recorder.flush();
                    recorder.advance(at);
                    poll();
                }
                recorder.end();
            });
            let kept = std::mem::take(&mut *kept.0.lock().unwrap());
            (in_time, format!("{totals:?} {kept:?}"))
        };
        prop_assert_eq!(book(true), book(false));
    }
}
