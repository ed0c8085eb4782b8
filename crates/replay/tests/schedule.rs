//! Properties of the times at which a replay's packets are due.

use mpps_replay::{Facts, Schedule};
use mpps_traffic::{Speed, SpeedError};
use proptest::prelude::*;

fn facts(packets: u64, span_ns: u64) -> Facts {
    Facts {
        packets,
        span_ns,
        ..Facts::default()
    }
}

fn speed() -> impl Strategy<Value = Speed> {
    let half = || prop_oneof![1u32..20, 1u32..=u32::MAX];
    (half(), half()).prop_map(|(numerator, denominator)| Speed::new(numerator, denominator).unwrap())
}

/// Numbers of any size.
fn any_size() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(number, shift)| number >> shift)
}

/// `lap * period + offset`, times `denominator`, in two halves of 64 bits and what is above.
fn exact(lap: u64, period: u128, offset: u64, denominator: u32) -> [u64; 4] {
    let mut words = [0u64; 4];
    let mut add = |at: usize, value: u128| {
        let mut carry = value;
        for word in &mut words[at..] {
            let sum = u128::from(*word) + (carry & u128::from(u64::MAX));
            *word = sum as u64;
            carry = (carry >> 64) + (sum >> 64);
        }
    };
    let times = u128::from(lap) * u128::from(period as u64);
    let above = u128::from(lap) * (period >> 64);
    for (at, value) in [(0, times), (1, above), (0, u128::from(offset))] {
        add(at, (value & u128::from(u64::MAX)) * u128::from(denominator));
        add(at + 1, (value >> 64) * u128::from(denominator));
    }
    words
}

/// `words / numerator`, rounded down, and `u64::MAX` at most; by long division.
fn divided(words: [u64; 4], numerator: u32) -> u64 {
    let (mut rest, mut quotient) = (0u128, [0u64; 4]);
    for at in (0..4).rev() {
        let part = rest << 64 | u128::from(words[at]);
        quotient[at] = (part / u128::from(numerator)) as u64;
        rest = part % u128::from(numerator);
    }
    if quotient[1..] == [0; 3] { quotient[0] } else { u64::MAX }
}

#[test]
fn a_capture_that_takes_no_time_has_no_rate() {
    for packets in [1, 100] {
        assert_eq!(Schedule::new(&facts(packets, 0), None, Speed::ONE).rate(), None);
        let spaced = Schedule::new(&facts(packets, 0), None, Speed::ONE).with_gap(1000);
        assert_eq!(spaced.rate(), Some((packets * 1_000_000, 1)));
    }
}

proptest! {
    #[test]
    fn at_speed_one_each_time_is_that_of_the_capture(packets in 1u64..1000, span in any_size(), offset in any_size()) {
        let schedule = Schedule::new(&facts(packets, span), Some(1), Speed::ONE);
        prop_assert_eq!(schedule.due_ns(0, offset), offset);
        prop_assert_eq!(schedule.last_ns(), Some(span));
    }

    #[test]
    fn no_time_is_before_that_of_the_packet_before_it(
        mut offsets in prop::collection::vec(0u64..10_000_000_000, 1..50), lap in any_size(), speed in speed(),
    ) {
        offsets.sort();
        let first = offsets[0];
        offsets.iter_mut().for_each(|offset| *offset -= first);
        let facts = facts(offsets.len() as u64, *offsets.last().unwrap());
        let schedule = Schedule::new(&facts, None, speed);
        let mut before = 0;
        for lap in [lap, lap.saturating_add(1)] {
            for offset in &offsets {
                let due = schedule.due_ns(lap, *offset);
                prop_assert!(before <= due);
                before = due;
            }
        }
    }

    #[test]
    fn each_time_is_the_exact_fraction_rounded_down(
        packets in 1u64..1000, span in any_size(), lap in any_size(), offset in any_size(),
        numerator in 1u32.., denominator in 1u32..,
    ) {
        let schedule = Schedule::new(&facts(packets, span), None, Speed::new(numerator, denominator).unwrap());
        let gap = if packets == 1 { span } else { span / (packets - 1) };
        let period = u128::from(span) + u128::from(gap);
        prop_assert_eq!(schedule.due_ns(lap, offset), divided(exact(lap, period, offset, denominator), numerator));
    }

    #[test]
    fn nothing_drifts_in_a_million_laps(packets in 2u64..1000, span in 1u64..10_000_000_000, offset in 0u64..1000) {
        let schedule = Schedule::new(&facts(packets, span), Some(1_000_001), Speed::ONE);
        let period = span + span / (packets - 1);
        prop_assert_eq!(schedule.due_ns(1_000_000, offset), 1_000_000 * period + offset);
        // At a third of the speed, three times as late: not three times a rounded one.
        let slow = Schedule::new(&facts(packets, span), Some(1_000_001), Speed::new(1, 3).unwrap());
        prop_assert_eq!(slow.due_ns(1_000_000, offset), 3 * (1_000_000 * period + offset));
        let fast = Schedule::new(&facts(packets, span), Some(1_000_001), Speed::new(7, 1).unwrap());
        prop_assert_eq!(fast.due_ns(1_000_000, offset), (1_000_000 * period + offset) / 7);
    }

    #[test]
    fn packets_come_in_order_lap_after_lap(packets in 1u64..100, laps in 1u64..100, n in 0u64..20_000) {
        let schedule = Schedule::new(&facts(packets, 5), Some(laps), Speed::ONE);
        let want = (n < packets * laps).then_some((n / packets, n % packets));
        prop_assert_eq!(schedule.place(n), want);
        prop_assert_eq!(schedule.packets(), Some(packets * laps));
        prop_assert_eq!(Schedule::new(&facts(packets, 5), None, Speed::ONE).place(n), Some((n / packets, n % packets)));
    }

    #[test]
    fn any_text_is_a_speed_or_refused(text in "[0-9.x+-]{0,14}") {
        if let Ok(speed) = text.parse::<Speed>() {
            let number: f64 = text.parse().unwrap();
            let one = Schedule::new(&facts(1, 0), Some(1), speed).due_ns(0, 1 << 40);
            let want = (1u64 << 40) as f64 / number;
            prop_assert!((one as f64 - want).abs() <= 1.0 + want * 1e-12 || one == u64::MAX);
        }
    }
}

#[test]
fn captures_of_one_packet_or_none() {
    let one = Schedule::new(&facts(1, 0), Some(3), Speed::ONE);
    assert_eq!(
        [0, 1, 2, 3].map(|n| one.place(n)),
        [Some((0, 0)), Some((1, 0)), Some((2, 0)), None]
    );
    assert_eq!((one.due_ns(2, 0), one.packets(), one.last_ns()), (0, Some(3), Some(0)));
    let none = Schedule::new(&facts(0, 0), None, Speed::ONE);
    assert_eq!((none.place(0), none.packets(), none.last_ns()), (None, Some(0), None));
    let without_end = Schedule::new(&facts(2, 10), None, Speed::ONE);
    assert_eq!((without_end.packets(), without_end.last_ns()), (None, None));
    assert_eq!(without_end.due_ns(1, 0), 20);
    let rates = [one, one.with_gap(5), without_end].map(|schedule| schedule.rate());
    assert_eq!(rates, [None, Some((200_000_000, 1)), Some((100_000_000, 1))]);
}

#[test]
fn speeds_are_decimal_numbers() {
    for (text, want) in [
        ("1", "1"),
        ("2.5", "5/2"),
        ("0.001", "1/1000"),
        ("10.0", "10"),
        ("4294967295", "4294967295"),
    ] {
        assert_eq!(text.parse::<Speed>().unwrap().to_string(), want);
    }
    for text in [
        "",
        "0",
        "0.0",
        ".5",
        "1.",
        "-1",
        "1e3",
        "4294967296",
        "4294967295.1",
        "1.0000000001",
        "١",
    ] {
        assert_eq!(text.parse::<Speed>(), Err(SpeedError), "{text}");
    }
    assert_eq!(Speed::new(0, 1), None);
    assert_eq!(Speed::new(1, 0), None);
}
