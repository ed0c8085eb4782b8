use super::*;
use proptest::prelude::*;

const START: u64 = 1_000;

/// Packets of a lane as a test remembers them: flow, number and send time.
type Packets = Vec<(u32, u64, u64)>;

/// Sends bursts of these lengths in turn over the flows of lane `lane` of `lanes`, 100 ns apart each.
fn sent(log: &SentLog, flows: u32, by_burst: bool, (lane, lanes): (u32, u32), bursts: &[u64]) -> Packets {
    let mut packets = Packets::new();
    let (mut total, mut next) = (0, vec![0; flows as usize]);
    for (i, &len) in bursts.iter().enumerate() {
        let now = START + 100 * i as u64;
        if by_burst {
            let place = i % flows as usize;
            log.note(place, next[place]..next[place] + len, now);
            packets.extend((0..len).map(|k| (place as u32 * lanes + lane, next[place] + k, now)));
            next[place] += len;
        } else {
            log.note(0, total..total + len, now);
            packets.extend((total..total + len).map(|n| {
                let place = (n % u64::from(flows)) as u32;
                (place * lanes + lane, n / u64::from(flows), now)
            }));
            total += len;
        }
    }
    packets
}

/// Whether a packet was sent, by the short way.
fn next(senders: &mut Senders<'_>, flow: u32, seq: u64, time: u64, now: u64) -> bool {
    let seat = senders.seat_of(flow, seq);
    senders.sent_in(seat, flow, seq, time, now)
}

proptest! {
    #[test]
    fn each_packet_is_known_by_flow_number_and_time_and_no_other_is(
        flows in 1u32..70,
        by_burst: bool,
        lanes in 1u32..4,
        paced: bool,
        bursts in prop::collection::vec(1u64..256, 1..60),
        forged in 1u64..1_000_000,
    ) {
        let pps = paced.then_some(1000.0);
        let logs: Vec<_> = (0..lanes)
            .map(|_| SentLog::new(u64::from(flows), by_burst, (u64::from(lanes), 1), pps, 1_000_000_000_000))
            .collect();
        let mut all = Packets::new();
        for (lane, log) in logs.iter().enumerate() {
            all.extend(sent(log, flows, by_burst, (lane as u32, lanes), &bursts));
        }
        let now = START + 100 * bursts.len() as u64;
        let mut senders = Senders::new(&logs, START);
        // The next of a flow is in the next seat.
        let seat = senders.seat_of(0, 0).next();
        prop_assert_eq!(seat.key, senders.seat_of(0, 1).key);
        let mut unsent = vec![0; (flows * lanes) as usize];
        for &(flow, seq, time) in &all {
            prop_assert!(next(&mut senders, flow, seq, time, now), "{flow} {seq}");
            prop_assert!(senders.sent(flow, seq, time, now));
            prop_assert!(!senders.sent(flow, seq, START - 1, now));
            prop_assert!(!senders.sent(flow, seq, now + SPREAD_NS + forged, now));
            if paced {
                // Each packet has its own time.
                prop_assert!(!senders.sent(flow, seq, time.wrapping_sub(forged), now));
                prop_assert!(!next(&mut senders, flow, seq, time + forged, now));
            } else if !by_burst {
                // A block begins at most 32 packets, each in a burst of its own, before the packet.
                prop_assert!(!senders.sent(flow, seq, time.wrapping_sub(3_100 + forged), now));
            }
            unsent[flow as usize] = (seq + 1).max(unsent[flow as usize]);
        }
        for (flow, &next) in unsent.iter().enumerate() {
            for seq in [next, next + 1, next + forged, u64::MAX, u64::MAX / u64::from(flows), u64::MAX / 2 + 1] {
                prop_assert!(!senders.sent(flow as u32, seq, now, now), "{flow} {seq}");
                prop_assert!(!senders.sent(flow as u32, seq, START, now), "{flow} {seq}");
            }
        }
        prop_assert!(!senders.sent(flows * lanes, 0, START, now));
        prop_assert!(!senders.sent(u32::MAX, 0, START, now));
    }
}

#[test]
fn what_has_not_left_after_all_was_not_sent_until_it_is_tried_again() {
    for by_burst in [false, true] {
        let log = [SentLog::new(2, by_burst, (1, 1), Some(1.0), 1_000_000_000)];
        let mut senders = Senders::new(&log, START);
        // In turn: packets 0 to 9 of the lane. By burst: numbers 0 to 9 of the flow at place 1.
        log[0].note(1, 0..10, START + 5);
        let last = if by_burst { (1, 9) } else { (1, 4) };
        let before = if by_burst { (1, 6) } else { (0, 3) };
        assert!(senders.sent(last.0, last.1, START + 5, START + 9));
        log[0].take_back(1, 7);
        assert!(!senders.sent(last.0, last.1, START + 5, START + 9), "{by_burst}");
        assert!(senders.sent(before.0, before.1, START + 5, START + 9), "{by_burst}");
        log[0].note(1, 7..10, START + 50);
        assert!(!senders.sent(last.0, last.1, START + 5, START + 60), "{by_burst}");
        assert!(senders.sent(last.0, last.1, START + 50, START + 60), "{by_burst}");
        assert!(senders.sent(before.0, before.1, START + 5, START + 60), "{by_burst}");
    }
}

#[test]
fn a_packet_whose_send_time_is_kept_no_more_left_between_the_start_and_the_oldest_that_is() {
    let shape = Shape {
        counts: 1,
        shift: 0,
        blocks: 1024,
    };
    let logs = [SentLog::shaped(1, shape)];
    for n in 0..100_000 {
        logs[0].note(0, n..n + 1, START + n);
    }
    let (mut senders, now) = (Senders::new(&logs, START), START + 100_000);
    assert!(senders.sent(0, 99_999, START + 99_999, now) && !senders.sent(0, 99_999, START + 99_998, now));
    // Exact as far as the ring goes, less a burst that may be being written.
    let exact = 100_000 - 1024 + 257;
    assert!(senders.sent(0, exact, START + exact, now) && !senders.sent(0, exact, START, now));
    assert!(senders.sent(0, 5, START + 5, now) && senders.sent(0, 5, START, now));
    assert!(!senders.sent(0, 5, START - 1, now) && !senders.sent(0, 5, now - 100, now));
}

#[test]
fn a_million_flows_take_megabytes_by_either_way_of_sending() {
    for (flows, pps) in [(1 << 20, None), (1 << 20, Some(1e6)), (1, Some(1e9)), (1, None)] {
        assert!(
            SentLog::bytes(flows, pps, 2_000_000_000, 1) <= 48 << 20,
            "{flows} {pps:?}"
        );
    }
    assert!(SentLog::bytes(u64::MAX, None, u64::MAX, 1) <= 48 << 20);
    // Slow: one time for each packet. Fast: one for a burst.
    let shift = |flows, by_burst, pps| SentLog::new(flows, by_burst, (1, 1), pps, 1_000_000_000).shift;
    assert_eq!(
        [
            shift(1, false, Some(20e3)),
            shift(1, false, Some(1e9)),
            shift(64, false, None)
        ],
        [0, 5, 5]
    );
    assert_eq!([shift(64, true, Some(1e6)), shift(1 << 20, true, None)], [0, 8]);
}
