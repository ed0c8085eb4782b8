use super::*;
use crate::send::replayed::Replayed;
use mpps_io::{Pacing, Rate};
use mpps_replay::{Capture, Frames, Opened, Preparation, Schedule, Selection};
use mpps_traffic::Speed;
use std::io::{self, Cursor, Read};

struct File(Vec<u8>);

impl Opened for File {
    fn name(&self) -> &str {
        "a.pcap"
    }

    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(Cursor::new(&self.0)))
    }
}

/// Returns a capture file of packets at these times, ns.
fn file(times: &[u32]) -> Vec<u8> {
    let mut file = vec![0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0];
    file.extend([0; 8]);
    file.extend([0, 0, 4, 0, 1, 0, 0, 0]);
    for (at, time) in times.iter().enumerate() {
        for number in [0, *time, 60, 60] {
            file.extend(number.to_le_bytes());
        }
        file.extend([at as u8; 60]);
    }
    file
}

const TIMES: [u32; 6] = [0, 100, 150, 900, 900, 2_000];
const START: u64 = 1_000_000;
const LOOPS: u64 = 3;

fn replay(frames: Frames, schedule: Option<Schedule>) -> Replay {
    Replay {
        frames: Arc::new(frames),
        schedule,
        peak: 1.0,
        first_flow: 0,
        seed: 0,
    }
}

fn load(rate: Option<Rate>) -> StreamLoad {
    StreamLoad {
        rate,
        pacing: Pacing::Constant,
        weight: 1,
        start_ns: 50,
        packets: Some(LOOPS * TIMES.len() as u64),
    }
}

/// Capture that is read ahead, what its lane knows of it, and its schedule.
fn ahead() -> (Replay, Flown, Schedule) {
    let how = Preparation {
        most: 1 << 20,
        ..Preparation::default()
    };
    let (frames, facts) = Frames::ahead(Box::new(File(file(&TIMES))), &Selection::default(), &how).expect("frames");
    let schedule = Schedule::new(&facts, Some(LOOPS), Speed::ONE);
    let flown = Flown::new(&frames);
    (replay(frames, Some(schedule)), flown, schedule)
}

/// Reads the whole file into the rings.
fn feed(replay: &Replay, flown: &Flown) {
    let (ahead, rings) = (
        replay.frames.read_ahead().expect("a capture"),
        flown.rings().expect("rings"),
    );
    ahead.feed(rings, replay.schedule.as_ref(), Some(LOOPS), replay.frames.lens());
}

fn rings(flown: &Flown) -> (&Rings, &Ring) {
    let rings = flown.rings().expect("rings");
    (rings, rings.of(0).expect("a ring"))
}

/// Returns the departures of all frames, at their own times, in a run without an end.
fn departures<'r>(of_file: &'r Replay, flown: &'r Flown) -> Ahead<'r> {
    let run = (START, u64::MAX);
    Ahead::new((of_file, &load(None)), rings(flown), None, 18, run, u64::MAX)
}

#[test]
fn departures_of_a_capture_that_is_read_ahead_are_those_of_one_in_memory() {
    let (of_file, flown, schedule) = ahead();
    feed(&of_file, &flown);
    let kept = Capture::read(&file(&TIMES)[..], &Selection::default(), 1 << 20).expect("a capture");
    let kept = replay(
        Frames::new(&kept, &Preparation::default()).expect("frames"),
        Some(schedule),
    );
    for (end_ns, skipped_ns) in [(u64::MAX, 0), (u64::MAX, START + 1_000), (START + 3_000, 0)] {
        let run = (START, end_ns);
        let mut one = Ahead::new((&of_file, &load(None)), rings(&flown), None, 18, run, u64::MAX);
        let mut other = Replayed::new(&kept, &load(None), 0, run, u64::MAX).expect("departures");
        assert_eq!(one.skip_before(skipped_ns), other.skip_before(skipped_ns));
        while let Some(due) = other.next_due() {
            assert_eq!((one.next_due(), one.due(due - 1, 4)), (Some(due), 0));
            assert_eq!(one.due(due + 60, 4), other.due(due + 60, 4), "{due}");
            assert_eq!(one.pop(), Some(other.pop()));
        }
        assert_eq!((one.next_due(), one.due(u64::MAX, 4), one.note()), (None, 0, None));
    }
}

#[test]
fn frames_that_are_read_too_late_are_counted_and_their_lane_goes_on() {
    let (of_file, flown, _) = ahead();
    let mut ahead = departures(&of_file, &flown);
    assert!(ahead.waits() && ahead.pop().is_none() && ahead.due(u64::MAX, 4) == 0);
    assert!(ahead.fault().is_none());
    feed(&of_file, &flown);
    // Those due 0 and 100 ns after the start are late by then.
    ahead.look(START + 50 + 120);
    assert!(!ahead.waits());
    let times: Vec<u64> = std::iter::from_fn(|| ahead.pop()).collect();
    assert_eq!((times.len(), times[0]), (18, START + 50));
    let note = ahead.note().expect("a note");
    assert!(note.starts_with("pcap a.pcap: 2 packets left late"), "{note}");
}

#[test]
fn frames_without_times_leave_as_fast_as_they_are_read_or_at_an_even_rate() {
    let (mut of_file, flown, _) = ahead();
    feed(&of_file, &flown);
    of_file.schedule = None;
    let mut fast = departures(&of_file, &flown);
    assert_eq!((fast.is_timed(), fast.due(0, 32), fast.skip_before(0)), (false, 18, 0));
    assert_eq!(std::iter::from_fn(|| fast.pop()).count(), 18);
    let rate = Rate::new(1_000_000, 1).expect("a rate");
    let pacer = Pacer::new(START, Some(18_000), rate, Pacing::Constant, (0, 1), 0);
    let run = (START, u64::MAX);
    let mut even = Ahead::new(
        (&of_file, &load(Some(rate))),
        rings(&flown),
        Some(pacer),
        18,
        run,
        u64::MAX,
    );
    assert_eq!(even.skip_before(START + 2_000), 2);
    let times: Vec<u64> = std::iter::from_fn(|| even.pop()).collect();
    assert_eq!(times, (2..18).map(|n| START + n * 1_000).collect::<Vec<_>>());
}

#[test]
fn a_file_with_fewer_packets_than_it_had_is_a_fault_once_all_that_was_read_has_left() {
    let (_, _, schedule) = ahead();
    let how = Preparation {
        most: 1 << 20,
        ..Preparation::default()
    };
    let short = Box::new(Shrinks(file(&TIMES), std::sync::atomic::AtomicBool::new(false)));
    let (frames, _) = Frames::ahead(short, &Selection::default(), &how).expect("frames");
    let of_file = replay(frames, Some(schedule));
    let flown = Flown::new(&of_file.frames);
    feed(&of_file, &flown);
    let mut ahead = departures(&of_file, &flown);
    assert!(ahead.fault().is_none());
    assert_eq!(std::iter::from_fn(|| ahead.pop()).count(), 4);
    let fault = ahead.fault().expect("a fault").to_string();
    assert!(fault.contains("pcap a.pcap") && fault.contains("packet 5"), "{fault}");
}

/// A file that has four of its packets when it is opened again.
struct Shrinks(Vec<u8>, std::sync::atomic::AtomicBool);

impl Opened for Shrinks {
    fn name(&self) -> &str {
        "a.pcap"
    }

    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        let again = self.1.swap(true, std::sync::atomic::Ordering::Relaxed);
        let len = if again { 24 + 4 * 76 } else { self.0.len() };
        Ok(Box::new(&self.0[..len]))
    }
}
