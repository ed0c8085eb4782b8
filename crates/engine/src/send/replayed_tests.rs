use super::*;
use mpps_io::{Pacing, Rate};
use mpps_replay::{Capture, Preparation, Selection, Sent};
use mpps_traffic::Speed;
use proptest::prelude::*;
use std::io::Cursor;

/// Packet of a capture: when it was captured, ns, and the source port that makes its flow.
type Captured = (u64, u8);

/// Time of the run's start, and of the stream's after it, ns.
const START: [u64; 2] = [5_000_000_000, 77];

/// Returns a capture file in memory, with times in ns.
fn capture(packets: &[Captured]) -> Capture {
    let mut file = vec![0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0];
    file.extend([0; 8]);
    file.extend([0, 0, 4, 0, 1, 0, 0, 0]);
    for (at_ns, port) in packets {
        let mut frame = [0; 60];
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        (frame[17], frame[22], frame[23]) = (46, 64, 17);
        (frame[35], frame[37], frame[39]) = (*port, 9, 26);
        for number in [at_ns / 1_000_000_000, at_ns % 1_000_000_000, 60, 60] {
            file.extend((number as u32).to_le_bytes());
        }
        file.extend(frame);
    }
    Capture::read(&mut Cursor::new(file), &Selection::default(), 1 << 30).expect("a capture")
}

/// Speed of a replay: a multiple of the capture's, or packets per second.
#[derive(Clone, Copy, Debug)]
enum Fast {
    Speed(u32, u32),
    Rate(u64, u64),
}

fn fast() -> impl Strategy<Value = Fast> {
    prop_oneof![
        Just(Fast::Speed(1, 1)),
        (1u32..100, 1u32..100).prop_map(|(num, den)| Fast::Speed(num, den)),
        (1u64..1_000_000, 1u64..100).prop_map(|(num, den)| Fast::Rate(num, den)),
    ]
}

/// Packets whose times may go backwards and be the same.
fn packets() -> impl Strategy<Value = Vec<Captured>> {
    let at = prop_oneof![0u64..3, 0u64..10_000, 0u64..4_000_000_000_000];
    prop::collection::vec((at, 0u8..12), 1..40)
}

/// Shape of a stream: lanes, its speed, the time between two laps in ns, and its packets over all laps.
type Shape = (usize, Fast, Option<u64>, u64);
/// End of a run: number of the departure that it ends with, ns after that one, and whether the stream has no other end.
type End = (u64, u64, bool);

/// Stream of a capture, and its departures by a plainer way.
#[derive(Debug)]
struct Case {
    replay: Replay,
    load: StreamLoad,
    end_ns: u64,
    /// Lap, place in the capture and time of each departure, in the order of the capture.
    departures: Vec<(u64, u32, u64)>,
}

impl Case {
    fn new(packets: &[Captured], (lanes, fast, gap_ns, sent): Shape, end: Option<End>) -> Self {
        let capture = capture(packets);
        let all = packets.len() as u64;
        let dues: Vec<u64> = packets
            .iter()
            .scan(0, |latest, (at, _)| {
                *latest = at.saturating_sub(packets[0].0).max(*latest);
                Some(*latest)
            })
            .collect();
        let span = dues[dues.len() - 1];
        let gap = gap_ns.unwrap_or(span / (all - 1).max(1));
        let period = u128::from(span + gap);
        // Time that the replay takes, over that of the capture.
        let (takes, took) = match fast {
            Fast::Speed(num, den) => (u128::from(den), u128::from(num)),
            Fast::Rate(num, den) => {
                let ns = u128::from(all) * 1_000_000_000;
                (ns * u128::from(den), (period * u128::from(num)).max(1))
            }
        };
        let at = |n: u64| {
            let ns = u128::from(n / all) * period + u128::from(dues[(n % all) as usize]);
            START[0] + START[1] + (ns * takes / took) as u64
        };
        let end_ns = end.map_or(u64::MAX, |(number, more, _)| at(number % sent) + more);
        // Laps that take no time have no end.
        let endless = end.is_some_and(|(_, _, endless)| endless) && period > 0;
        let load = StreamLoad {
            rate: match fast {
                Fast::Speed(..) => None,
                Fast::Rate(num, den) => Rate::new(num, den),
            },
            pacing: Pacing::Constant,
            weight: 1,
            start_ns: START[1],
            packets: (!endless).then_some(sent),
        };
        let speed = match fast {
            Fast::Speed(num, den) => Speed::new(num, den).expect("a speed"),
            Fast::Rate(..) => Speed::ONE,
        };
        let laps = (!endless).then(|| sent.div_ceil(all));
        let schedule = Schedule::new(&capture.facts(), laps, speed);
        let how = Preparation {
            lanes,
            ..Preparation::default()
        };
        let replay = Replay {
            frames: Arc::new(Frames::new(&capture, &how).expect("frames")),
            schedule: Some(gap_ns.map_or(schedule, |gap| schedule.with_gap(gap))),
            peak: 1.0,
            first_flow: 0,
            seed: 7,
        };
        let departures = (0..load.packets.unwrap_or(u64::MAX))
            .map(|n| (n / all, (n % all) as u32, at(n)))
            .take_while(|(_, _, at)| *at < end_ns)
            .collect();
        Self {
            replay,
            load,
            end_ns,
            departures,
        }
    }

    fn lanes(&self) -> usize {
        self.replay.frames.lanes()
    }

    fn lane(&self, lane: usize) -> Replayed {
        let run = (START[0], self.end_ns);
        Replayed::new(&self.replay, &self.load, lane as u32, run, u64::MAX).expect("a spacing")
    }
}

fn case() -> impl Strategy<Value = Case> {
    let gap = prop::option::of(prop_oneof![Just(0), 0u64..10_000, 0u64..1_000_000_000]);
    let end = prop::option::of((any::<u64>(), 0u64..3, any::<bool>()));
    let shape = (1usize..5, fast(), gap, 1u64..200);
    (packets(), shape, end).prop_map(|(packets, shape, end)| Case::new(&packets, shape, end))
}

/// Takes all departures that are left, and returns their times.
fn rest(mut lane: Replayed) -> Vec<u64> {
    let mut times = Vec::new();
    while let Some(due) = lane.next_due() {
        assert_eq!(lane.pop(), due);
        times.push(due);
    }
    times
}

proptest! {
    #[test]
    fn lanes_together_send_each_packet_of_the_capture_once_at_its_time(case in case()) {
        let mut all = Vec::new();
        for lane in 0..case.lanes() {
            for (n, at) in rest(case.lane(lane)).into_iter().enumerate() {
                let Sent { at: place, lap } = case.replay.frames.sent(lane, n as u64);
                all.push((lap, place, at));
            }
        }
        all.sort_unstable();
        prop_assert_eq!(all, case.departures);
    }

    #[test]
    fn due_and_skip_count_what_pop_would_give(
        case in case(), lane in 0usize..5, popped in 0usize..100, most in 0usize..70,
        at in any::<prop::sample::Index>(), (less, more) in (0u64..2, 0u64..2),
    ) {
        let mut lane = case.lane(lane % case.lanes());
        for _ in 0..popped.min(rest(lane.clone()).len()) {
            lane.pop();
        }
        let rest_of = rest(lane.clone());
        // Departures have the same time as others, and are a ns apart.
        let at_ns = match case.departures.len() {
            0 => START[0],
            all => case.departures[at.index(all)].2 + more - less,
        };
        // Late ones leave one by one, unless they are very late or within a microsecond.
        let is_together = |due: &u64| at_ns >= rest_of[0] + EASED_NS || *due < rest_of[0] + TOGETHER_NS;
        let due = rest_of.iter().filter(|due| **due <= at_ns).take_while(|due| is_together(due)).count();
        prop_assert_eq!(lane.due(at_ns, most), due.min(most));
        let before = rest_of.iter().filter(|due| **due < at_ns).count();
        prop_assert_eq!(lane.skip_before(at_ns), before as u64);
        prop_assert_eq!(rest(lane), &rest_of[before..]);
    }
}

#[test]
fn departures_that_are_late_make_up_for_a_part_of_it_each() {
    let packets: Vec<Captured> = [0, 10_000, 20_000, 20_000, 30_000, 40_000].map(|at| (at, 1)).to_vec();
    let case = Case::new(&packets, (1, Fast::Speed(1, 1), None, 6), None);
    let start = START[0] + START[1];
    let mut lane = case.lane(0);
    // The lane did not run until 22 µs after the first was due.
    let mut left = Vec::new();
    let mut now = start + 22_000;
    while let Some(due) = lane.next_due() {
        now = now.max(due);
        let burst = lane.due(now, 32);
        left.push((now - start, burst));
        for _ in 0..burst {
            lane.pop();
        }
    }
    assert_eq!(left, [(22_000, 1), (31_500, 1), (41_000, 2), (50_500, 1), (60_000, 1)]);
    // At 1,000 pps one that is late by 640 µs makes up for 1/64 of it.
    let slow = Case::new(&[0, 1_000_000].map(|at| (at, 1)), (1, Fast::Speed(1, 1), None, 2), None);
    let mut lane = slow.lane(0);
    assert_eq!(lane.due(start + 640_000, 32), 1);
    lane.pop();
    assert_eq!(lane.next_due(), Some(start + 640_000 + 1_000_000 - 10_000));
    // One that is late by 1 ms sends all at once.
    assert_eq!(case.lane(0).due(start + EASED_NS, 32), 6);
    // None is put off behind the end.
    let mut ends = Case::new(&packets, (1, Fast::Speed(1, 1), None, 6), Some((5, 1, false))).lane(0);
    assert_eq!(ends.due(start + 39_000, 32), 1);
    ends.pop();
    assert_eq!(ends.next_due(), Some(start + 40_000));
}

#[test]
fn departures_that_always_miss_their_time_by_a_little_do_not_fall_behind() {
    let packets: Vec<Captured> = (0..10_000).map(|n| (n * 10_000, 1)).collect();
    let case = Case::new(&packets, (1, Fast::Speed(1, 1), None, 10_000), None);
    for missed in [0, 400, 1_000, 1_900] {
        let (mut lane, mut n) = (case.lane(0), 0);
        while let Some(due) = lane.next_due() {
            assert_eq!(lane.due(due + missed, 32), 1);
            let late = due + missed - lane.pop();
            assert!(
                late <= 2 * missed + LEAST_NS,
                "{n}: {late} ns late, each missed its time by {missed} ns"
            );
            n += 1;
        }
        assert_eq!(n, 10_000);
    }
}

#[test]
fn a_capture_without_a_spacing_has_no_departures_of_its_own() {
    let mut case = Case::new(&[(0, 1), (5, 2)], (1, Fast::Speed(1, 1), None, 2), None);
    assert_eq!(rest(case.lane(0)), [5_000_000_077, 5_000_000_082]);
    case.replay.schedule = None;
    assert!(Replayed::new(&case.replay, &case.load, 0, (0, u64::MAX), u64::MAX).is_none());
}
