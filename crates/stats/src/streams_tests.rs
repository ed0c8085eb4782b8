use super::*;
use crate::Delay;
use proptest::prelude::*;
use std::collections::HashSet;

/// Streams of one flow, and the counts so far.
struct Receiver {
    streams: Streams,
    now: u64,
    rx: u64,
    expected: i64,
    duplicates: u64,
    reordered: u64,
}

impl Receiver {
    fn new() -> Self {
        Self {
            streams: Streams::new(SequenceWindows::new(2, 1 << 14, 1 << 20)),
            now: 1_000_000_000,
            rx: 0,
            expected: 0,
            duplicates: 0,
            reordered: 0,
        }
    }

    fn book(&mut self, one: Counted) {
        self.rx += 1;
        self.expected += one.expected;
        self.reordered += u64::from(one.distance > 0);
    }

    /// Receives a packet with this number and this time, µs.
    fn hear(&mut self, seq: u64, time: u64) {
        self.now += 1000;
        self.take(seq, time * 1000);
    }

    /// As [`Receiver::hear`], with a time in ns and without moving the clock.
    fn take(&mut self, seq: u64, time_ns: u64) {
        match self
            .streams
            .record(1, seq, time_ns, self.now, Some(Delay::of(0, None, seq)))
        {
            Outcome::Counted(one) => {
                assert_eq!(one.delay.map(|delay| delay.latency_ns), Some(seq));
                self.book(one);
            }
            Outcome::Duplicate => self.duplicates += 1,
            Outcome::Aside => {}
            Outcome::Believed(all) => all.into_iter().for_each(|one| self.book(one)),
        }
    }

    /// Receives packets with these numbers; the sender's times go up with the numbers.
    fn run(&mut self, numbers: impl IntoIterator<Item = u64>) {
        numbers.into_iter().for_each(|n| self.hear(n, 5000 + n));
    }

    fn lost(&self) -> i64 {
        self.expected - self.rx as i64
    }

    fn doubts(&self) -> Doubts {
        self.streams.doubts()
    }

    /// Receives packets with these numbers. Checks after each that every number from 0 on is received, lost or open.
    fn run_spanned(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for n in numbers {
            self.run([n]);
            let (doubts, spanned) = (self.doubts(), self.streams.windows.next(1) as i64);
            let open = (doubts.open_gap + doubts.contested_gap) as i64;
            assert_eq!(self.expected + open, spanned, "at {n}: {doubts:?}");
        }
    }
}

/// Returns the numbers from 0 on in the order in which they come if each is `delay` places late.
fn delayed(numbers: u64, mut delay: impl FnMut(u64) -> u64) -> Vec<u64> {
    let mut order: Vec<_> = (0..numbers).map(|n| (n + delay(n), n)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, n)| n).collect()
}

/// Returns a number below `end`, the same for each `n`.
fn dice(seed: u64, n: u64, end: u64) -> u64 {
    let mut x = (seed ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x ^ x >> 29) % end
}

/// Returns packets that the sender did not send: number and time, at every place of a stream of 900.
fn forged() -> impl Iterator<Item = (u64, u64)> {
    let numbers = [
        0,
        1,
        90,
        299,
        300,
        450,
        599,
        601,
        700,
        899,
        900,
        965,
        1199,
        9_000,
        900_000_000,
        u64::MAX - 1,
    ];
    let times = [0, 5000, 5300, 5600, 9_999_999, u64::MAX / 1000];
    numbers.into_iter().flat_map(move |n| times.map(|t| (n, t)))
}

#[test]
fn no_single_forged_packet_makes_a_loss_wherever_it_comes() {
    for (seq, time) in forged() {
        for at in [0, 1, 2, 3, 300, 600, 898, 899, 900] {
            let mut r = Receiver::new();
            r.run(0..at);
            r.hear(seq, time);
            r.run(at..900);
            let context = format!("{seq} at {time} before {at}: {:?}", r.doubts());
            // A gap of up to NEAR at the end is believed.
            let most = NEAR as i64 * i64::from((900..=900 + NEAR).contains(&seq));
            assert!(r.lost() <= most.max(1) && r.lost() >= 0, "lost {}: {context}", r.lost());
            assert!((898..=901).contains(&r.rx), "received {}: {context}", r.rx);
        }
    }
}

#[test]
fn forged_packets_in_turn_with_the_stream_make_no_loss_and_are_counted() {
    let mut r = Receiver::new();
    let jumps = [700_000, 2, 950_000, 40_000_000, 3000];
    for n in 0..2000 {
        r.run([n]);
        r.hear(jumps[n as usize % 5], 100_000_000 + n);
        if n % 3 == 0 {
            r.hear(jumps[n as usize % 5] + 1, 100_000_001 + n);
        }
    }
    assert!(r.lost() <= 0, "{} {:?}", r.lost(), r.doubts());
    assert!(r.doubts().implausible() > 1900, "{:?}", r.doubts());
}

#[test]
fn a_long_loss_is_counted_to_the_packet_once_three_have_followed() {
    for gap in [1, NEAR, NEAR + 1, 5000, 20_000, 700_000] {
        let mut r = Receiver::new();
        r.run(0..100);
        r.run(100 + gap..102 + gap);
        let early = if gap > NEAR { 0 } else { gap as i64 };
        assert_eq!(r.lost(), early, "{gap}");
        assert_eq!(r.doubts().implausible() > 0, gap > NEAR, "{gap}");
        r.run(102 + gap..200 + gap);
        assert_eq!((r.lost(), r.rx), (gap as i64, 200), "{gap}");
        assert_eq!(r.doubts(), Doubts::default(), "{gap}");
    }
}

#[test]
fn a_sparse_stream_is_counted_to_the_packet() {
    for step in [2, 65, 100, 5000] {
        let mut r = Receiver::new();
        r.run((0..1000).map(|n| n * step));
        assert_eq!(
            (r.rx, r.lost()),
            (1000, 1000 + 999 * (step as i64 - 1) - 1000),
            "{step}"
        );
        assert_eq!((r.doubts().implausible(), r.doubts().open_gap), (0, 0), "{step}");
    }
}

#[test]
fn a_sender_that_began_again_loses_nothing_and_all_its_packets_count() {
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0], [7, 9, 30], [500, 0, 250]] {
        let mut r = Receiver::new();
        r.run(0..10_000);
        order.into_iter().for_each(|n| r.hear(n, 1_000_000 + n));
        let whole = order.into_iter().max().unwrap() + 1;
        let least = order.into_iter().min().unwrap();
        (whole..2000).for_each(|n| r.hear(n, 1_000_000 + n));
        let came = 10_000 + 3 + 2000 - whole;
        assert_eq!(
            (r.rx, r.expected),
            (came, 10_000 + 2000 - least as i64),
            "{order:?} {:?}",
            r.doubts()
        );
        assert_eq!(
            (r.doubts().restarts, r.doubts().implausible(), r.duplicates),
            (1, 0, 0),
            "{order:?}"
        );
    }
}

#[test]
fn a_forged_stream_of_three_does_not_turn_what_the_sender_sent_meanwhile_into_loss() {
    for (time, restarts) in [(5600, 1), (6000, 2)] {
        let mut r = Receiver::new();
        r.run(0..600);
        (300..303).for_each(|n| r.hear(n, time));
        r.run(600..900);
        assert_eq!((r.lost(), r.rx), (0, 903), "{time}");
        let doubts = r.doubts();
        assert_eq!(doubts.restarts, restarts, "{time}: {doubts:?}");
        assert_eq!(doubts.open_gap > 0, restarts == 1, "{time}: {doubts:?}");
    }
}

#[test]
fn the_last_packet_after_a_gap_is_received_and_the_gap_is_left_open() {
    let mut r = Receiver::new();
    r.run(0..100);
    r.run([1000]);
    assert_eq!((r.rx, r.lost()), (101, 0));
    assert_eq!((r.doubts().implausible(), r.doubts().open_gap), (1, 900));
}

#[test]
fn a_loss_after_the_first_packet_is_counted_and_told_apart() {
    let mut r = Receiver::new();
    r.run([0]);
    r.run(5000..5100);
    assert_eq!((r.lost(), r.doubts().after_first), (4999, 4999));
}

#[test]
fn packets_that_overtake_by_thousands_are_counted_exactly() {
    // A path delays all packets but some: these come 3000 numbers early, from the first on.
    for every in [2, 4, 50, 700] {
        let (mut r, all) = (Receiver::new(), 30_000u64);
        let mut seen = HashSet::new();
        for n in 0..all + 3000 {
            // Every 1000th is lost.
            let early = Some(n).filter(|n| n % every == 0 && *n < all);
            let slow = n.checked_sub(3000).filter(|n| n % every != 0);
            for n in early.into_iter().chain(slow).filter(|n| n % 1000 != 999) {
                seen.insert(n);
                r.run([n]);
            }
        }
        let sent = seen.iter().max().unwrap() + 1;
        assert_eq!(
            (r.rx, r.expected),
            (seen.len() as u64, sent as i64),
            "{every} {:?}",
            r.doubts()
        );
        assert_eq!(
            (r.duplicates, r.doubts().restarts, r.doubts().beyond_window),
            (0, 0, 0),
            "{every}"
        );
    }
}

#[test]
fn a_packet_overtaken_while_a_leap_is_undone_is_no_loss() {
    let mut r = Receiver::new();
    r.run_spanned((0..10).chain([16, 10, 12, 11, 13, 14, 15]).chain(17..100));
    assert_eq!((r.rx, r.lost(), r.doubts()), (100, 0, Doubts::default()));
}

#[test]
fn two_packets_of_three_that_overtake_are_no_loss_and_take_none_away() {
    for late in [8, 20, 100] {
        for all in [30, 30_000] {
            let mut r = Receiver::new();
            r.run_spanned(delayed(all, |n| if n % 3 == 2 { late } else { 0 }));
            assert_eq!((r.rx, r.lost()), (all, 0), "{late} {all} {:?}", r.doubts());
        }
    }
}

#[test]
fn reordering_whose_packets_all_came_is_not_implausible() {
    for late in 3..=10 {
        let mut r = Receiver::new();
        r.run_spanned(delayed(1000, |n| n % 2 * late));
        assert_eq!((r.rx, r.lost(), r.doubts()), (1000, 0, Doubts::default()), "{late}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each packet is late by a number of places of its own.
    #[test]
    fn jitter_is_counted_exactly(
        seed: u64,
        jitter in prop_oneof![1u64..100, 1u64..3000],
        loss in prop_oneof![Just(0u64), 1u64..50],
    ) {
        jittered(seed, |n| dice(seed, n, jitter), loss)?;
    }

    /// A fast path and a slow one.
    #[test]
    fn two_paths_are_counted_exactly(
        seed: u64, fast in 1u64..100, late in prop_oneof![1u64..100, 1u64..3000],
        loss in prop_oneof![Just(0u64), 1u64..50],
    ) {
        jittered(seed, |n| if dice(seed, n, 100) < fast { 0 } else { late }, loss)?;
    }
}

/// Receives a stream whose packets are late by `delay`, of which `loss` % are lost, and whose ends are in order.
fn jittered(seed: u64, delay: impl Fn(u64) -> u64, loss: u64) -> Result<(), TestCaseError> {
    const ALL: u64 = 6000;
    let order = delayed(ALL, |n| if n < 3 { 0 } else { 3 + delay(n) });
    let came: Vec<_> = order
        .into_iter()
        .filter(|n| *n < 3 || dice(!seed, *n, 100) >= loss)
        .collect();
    let (mut r, mut rx) = (Receiver::new(), came.len() as u64);
    r.run_spanned(came);
    if loss == 0 {
        prop_assert_eq!((r.rx, r.lost(), r.doubts()), (rx, 0, Doubts::default()));
    }
    r.run_spanned(ALL..ALL + 3);
    rx += 3;
    prop_assert_eq!((r.rx, r.duplicates), (rx, 0));
    prop_assert_eq!((r.expected, r.doubts()), (ALL as i64 + 3, Doubts::default()));
    Ok(())
}

proptest! {
    /// A path that loses, doubles and reorders within its window: the counts are exact, as long as three packets
    /// follow.
    #[test]
    fn what_a_way_did_is_counted_exactly(
        start in prop_oneof![Just(0u64), 0u64..100_000],
        steps in proptest::collection::vec(
            (1u64..40, prop_oneof![9 => Just(0u64), 2 => 0u64..200, 1 => 0u64..6000], 0u64..30),
            1..60,
        ),
    ) {
        let (mut r, mut n) = (Receiver::new(), start + 100);
        r.run(start..n);
        let (mut seen, mut copies): (HashSet<u64>, u64) = ((start..n).collect(), 0);
        for (run, gap, back) in steps {
            n += gap;
            for _ in 0..run + 3 {
                seen.insert(n);
                r.run([n]);
                n += 1;
            }
            let old = n - 1 - back;
            if old >= start {
                copies += u64::from(!seen.insert(old));
                r.run([old]);
            }
        }
        prop_assert_eq!(r.rx, seen.len() as u64);
        prop_assert_eq!(r.expected, (n - start) as i64);
        prop_assert_eq!(r.duplicates, copies);
        prop_assert_eq!(r.doubts(), Doubts::default());
    }

    /// Any packets, some of them close together, so that copies and gaps meet.
    #[test]
    fn every_packet_is_in_exactly_one_count_whatever_comes(
        packets in proptest::collection::vec(
            (prop_oneof![0u64..200, 0u64..50_000, any::<u64>()], prop_oneof![0u64..5, 0u64..100_000]), 1..400),
    ) {
        let mut r = Receiver::new();
        for (n, (seq, time)) in packets.into_iter().enumerate() {
            r.hear(seq.min(u64::MAX - 1), time);
            let doubts = r.doubts();
            prop_assert_eq!(r.rx + r.duplicates + doubts.aside + doubts.beyond_window, n as u64 + 1, "{:?}", doubts);
            prop_assert!(doubts.jumps <= r.rx, "{:?}", doubts);
        }
    }
}

/// A stream of 900 in which `forged` come at 600, in a row or one after each packet, with a time after or before those
/// of the packets that follow.
fn among(forged: &[u64], in_turn: bool, late: bool) -> Receiver {
    let mut r = Receiver::new();
    r.run(0..600);
    let mut forged = forged.iter().enumerate();
    let mut next = |r: &mut Receiver, at: u64| {
        let one = forged.next();
        if let Some((i, seq)) = one {
            // Tenths of the stream's steps.
            r.now += 100;
            let time = if late {
                90_000_000 + i as u64
            } else {
                (5000 + at) * 1000 + 1 + i as u64
            };
            r.take(*seq, time);
        }
        one.is_some()
    };
    for n in 600..900 {
        while next(&mut r, n - 1) && !in_turn {}
        r.run([n]);
    }
    r
}

#[test]
fn forged_numbers_a_little_ahead_are_no_loss_once_the_stream_goes_on() {
    let chain: Vec<_> = (1..=20).map(|i| 599 + 63 * i).collect();
    for forged in [&[662][..], &[600, 663], &[662, 725], &chain] {
        for (in_turn, late) in [(false, false), (false, true), (true, false), (true, true)] {
            let r = among(forged, in_turn, late);
            let context = format!(
                "{forged:?} {in_turn} {late}: {:?} {} {}",
                r.doubts(),
                r.rx,
                r.duplicates
            );
            assert_eq!(r.lost(), 0, "{context}");
            let doubts = r.doubts();
            assert!(doubts.implausible() + doubts.restarts > 0, "{context}");
        }
    }
}

#[test]
fn every_packet_is_in_one_count_where_copies_meet_an_open_gap() {
    let mut r = Receiver::new();
    for (seq, time) in [
        (49, 41_602),
        (0, 0),
        (114, 50_000),
        (0, 0),
        (116, 50_000),
        (114, 50_001),
    ] {
        r.hear(seq, time);
    }
    let doubts = r.doubts();
    assert_eq!(
        r.rx + r.duplicates + doubts.aside + doubts.beyond_window,
        6,
        "{doubts:?}"
    );
}
