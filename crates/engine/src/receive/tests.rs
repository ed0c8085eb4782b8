//! A burst counts for what its frames count for one by one.

use super::*;
use mpps_stats::{ArrivalTimes, Collector, LaneSeries, Timing, Workload};
use mpps_wire::Stamp;
use proptest::prelude::*;

const START: u64 = 1_000_000_000;
const FLOWS: u32 = 3;
const SENT: u64 = 400;
/// When all frames are read: later than the settle time after some of them were sent.
const READ: u64 = START + 100_000_000;

/// Class and arrival time of a frame, in place of its bytes.
#[derive(Clone, Copy, Debug)]
struct Told {
    class: Class,
    rx_time: Option<u64>,
}

impl Frame for Told {
    fn bytes(&self) -> &[u8] {
        &[]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }
    fn capacity(&self) -> usize {
        0
    }
    fn set_len(&mut self, _: usize) {}
    fn rx_time_ns(&self) -> Option<u64> {
        self.rx_time
    }
}

/// Frames of this test know their class by themselves; behind the last one of a burst the first is asked again.
struct Teller<'f>(&'f std::cell::RefCell<std::iter::Cycle<std::vec::IntoIter<Class>>>);

impl Reader for Teller<'_> {
    fn classify<F: Frame>(&self, _: &F, _: &mut Checker) -> Class {
        self.0.borrow_mut().next().expect("a class a frame")
    }
}

fn frames() -> impl Strategy<Value = Vec<Told>> {
    // Numbers ascend mostly; some repeat, some are skipped, some were never sent.
    let step = prop_oneof![6 => Just(1i64), 1 => -3i64..4];
    let kind = prop_oneof![20 => Just(0u8), 1 => 1u8..4];
    // Before the reading, and long before it: in time although it was read late. Before the packet was sent, and after
    // it was read: both can't be.
    let noted = prop_oneof![
        8 => (80_000_000..80_003_000u64).prop_map(|ns| START + ns),
        2 => Just(START + 50_000_000),
        1 => Just(START - 1_000_000),
        1 => Just(READ + 1_000_000),
    ];
    let frame = (
        0u32..2 * FLOWS,
        step,
        0u64..3,
        kind,
        proptest::option::weighted(0.5, noted),
    );
    prop::collection::vec(frame, 1..600).prop_map(|frames| {
        let mut next = [0i64; FLOWS as usize];
        let told = frames.into_iter().map(|(flow, step, time, kind, rx_time)| {
            // Half of them are of one flow: runs are to occur.
            let flow = flow.saturating_sub(FLOWS);
            let at = &mut next[flow as usize];
            let seq = *at as u64;
            *at = (*at + step).max(0);
            let class = match kind {
                0 => Class::Test {
                    flow,
                    stamp: Stamp {
                        seq,
                        time_ns: START + time * 40_000_000,
                    },
                },
                1 => Class::Corrupt,
                2 => Class::Foreign(Foreign::WrongPort),
                _ => Class::SlowPath,
            };
            Told { class, rx_time }
        });
        told.collect()
    })
}

/// Everything that was counted of the frames, taken in bursts of `burst`, in words.
fn counted(frames: &[Told], slips: Option<&Slips>, burst: usize) -> String {
    let timing = Timing {
        start_ns: START,
        interval_ns: 50_000_000,
        settle_ns: 60_000_000,
    };
    let lane = LaneSeries::new(timing, true).with_arrivals(true);
    let mut collector = Collector::new(vec![&lane], Workload::SendRecv, true);
    collector.time_arrivals(ArrivalTimes::Noted);
    let sent = [SentLog::of_blocks(u64::from(FLOWS), 40)];
    sent[0].note(0, 0..SENT * u64::from(FLOWS), START);
    let part = Part::new((FLOWS, 0, WINDOW_BYTES), slips, &sent, START);
    let mut receiver = Receiver::new(std::iter::once(part), START);
    let mut recorder = lane.recorder();
    let (mut received, mut slow) = (0, 0);
    for frames in frames.chunks(burst) {
        let classes: Vec<Class> = frames.iter().map(|frame| frame.class).collect();
        let classes = std::cell::RefCell::new(classes.into_iter().cycle());
        let counts = receiver.burst(frames, &Teller(&classes), READ, &mut recorder, &mut Books::default());
        (received, slow) = (received + counts.0, slow + counts.1);
    }
    recorder.end();
    collector.set_end(START + 200_000_000);
    let totals = collector.finish(&mut []);
    format!(
        "{received} {slow} {totals:?} {:?} {:?}",
        receiver.reasons(),
        receiver.first.windows
    )
}

proptest! {
    // A series is megabytes.
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn a_burst_counts_for_what_its_frames_count_for_one_by_one(frames in frames(), burst in 2usize..400, paced: bool) {
        let slips = Slips::new(FLOWS, 0.0, 0);
        // The slip of one packet in seven is no longer known.
        let all = (0..FLOWS).flat_map(|flow| (0..SENT).map(move |seq| (flow, seq)));
        for (flow, seq) in all.filter(|(_, seq)| seq % 7 != 3) {
            slips.note(flow, seq, (seq * 7_919 + u64::from(flow)) % 50_000);
        }
        let slips = paced.then_some(&slips);
        prop_assert_eq!(counted(&frames, slips, burst), counted(&frames, slips, 1));
    }
}

/// More packets than a list of arrivals holds come together, each with its own arrival.
#[test]
fn more_arrivals_than_a_list_holds_are_all_booked() {
    let frame = |seq: u64| Told {
        class: Class::Test {
            flow: 0,
            stamp: Stamp {
                seq,
                time_ns: START + 80_000_000,
            },
        },
        rx_time: Some(START + 80_000_000 + seq * 1_000),
    };
    let frames: Vec<Told> = (0..MAX_BURST as u64 + 50).map(frame).collect();
    assert_eq!(counted(&frames, None, frames.len()), counted(&frames, None, 1));
}
