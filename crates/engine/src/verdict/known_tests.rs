use super::*;
use mpps_io::around::MtuChange;
use mpps_io::around::QueueDrops;

const S: u64 = 1_000_000_000;

fn seen() -> Surroundings {
    Surroundings {
        interface: "eth7".to_owned(),
        ..Surroundings::default()
    }
}

fn outage(from_ns: u64, to_ns: u64) -> Outage {
    Outage {
        from_ns,
        to_ns,
        from_start: false,
        to_end: false,
    }
}

fn told(around: Surroundings) -> Vec<(KnownKind, String)> {
    let e = Evidence {
        around: vec![around],
        duration_ns: 10 * S,
        packet_len: 1400,
        ..Evidence::default()
    };
    known(&e, &[]).into_iter().map(|of| (of.kind, of.sentence)).collect()
}

#[test]
fn nothing_is_known_of_surroundings_in_which_nothing_happened() {
    assert_eq!(told(seen()), []);
    let queues = Some(Vec::new());
    let quiet = Surroundings {
        queues,
        device_dropped: Some(0),
        path_mtu: Some(([10, 0, 0, 2].into(), 1400)),
        ..seen()
    };
    assert_eq!(told(quiet), [], "packets of 1,400 bytes fit");
}

#[test]
fn a_link_an_address_and_a_queue_are_each_named_with_their_own_time_and_number() {
    let around = Surroundings {
        no_carrier: vec![outage(S, 3 * S), outage(4 * S, 4 * S + S / 4), outage(11 * S, 12 * S)],
        off: vec![Outage {
            from_start: true,
            ..outage(0, S / 2)
        }],
        addresses: vec![(
            "fd99::1".parse().expect("an address"),
            Outage {
                to_end: true,
                ..outage(2 * S, 10 * S)
            },
        )],
        mtu: vec![MtuChange {
            at_ns: 3 * S / 2,
            from: 1500,
            to: 1280,
        }],
        queues: Some(vec![
            QueueDrops {
                name: "tbf 8001:".to_owned(),
                packets: 86_834,
                imitates: false,
            },
            QueueDrops {
                name: "netem 1:".to_owned(),
                packets: 1,
                imitates: true,
            },
        ]),
        ..seen()
    };
    let expected = [
        (
            KnownKind::QueueDropped,
            "the queue tbf 8001: of eth7 dropped 86,834 packets",
        ),
        (
            KnownKind::PathImitated,
            "the queue netem 1: of eth7, which imitates a path, dropped 1 packet",
        ),
        (
            KnownKind::LinkOff,
            "eth7 was switched off for 500.0 ms, from the start to 0.500 s",
        ),
        (
            KnownKind::NoCarrier,
            "eth7 had no carrier 2 times, for 2.250 s in all, the longest from 1.000 to 3.000 s",
        ),
        (
            KnownKind::AddressMissing,
            "eth7 was without its address fd99::1 for 8.000 s, from 2.000 s to the end",
        ),
        (
            KnownKind::MtuChanged,
            "the MTU of eth7 was changed from 1500 to 1280 bytes at 1.500 s (packets of the test have 1400)",
        ),
    ];
    assert_eq!(told(around), expected.map(|(kind, text)| (kind, text.to_owned())));
}

#[test]
fn what_a_path_tried_again_is_not_lost_at_the_device() {
    let around = Surroundings {
        device_dropped: Some(5),
        ..seen()
    };
    let e = Evidence {
        around: vec![around],
        ..Evidence::default()
    };
    for (refused, sentence, left) in [
        (0, "the device eth7 dropped 5 packets instead of sending them", 5),
        (
            3,
            "the device eth7 dropped 5 packets, of which 3 at the most were tried again",
            2,
        ),
        (
            9,
            "the device eth7 dropped 5 packets, of which 5 at the most were tried again",
            0,
        ),
    ] {
        let lane = LaneSummary {
            path_counters: vec![(counter::TX_REFUSED.to_owned(), refused)],
            ..LaneSummary::default()
        };
        let all = known(&e, &[lane]);
        assert_eq!((all[0].sentence.as_str(), all[0].packets), (sentence, Some(left)));
        assert_eq!(all[0].may_lose(), left > 0);
    }
}

#[test]
fn an_mtu_may_lose_packets_while_they_are_longer() {
    let change = |at_ns, from, to| MtuChange { at_ns, from, to };
    let all = |mtu| {
        let e = Evidence {
            around: vec![Surroundings { mtu, ..seen() }],
            duration_ns: 10 * S,
            packet_len: 1400,
            ..Evidence::default()
        };
        known(&e, &[]).into_iter().map(|of| of.when_ns).collect::<Vec<_>>()
    };
    let lowered = change(S, 1500, 1399);
    assert_eq!(all(vec![lowered]), [[(S, 10 * S)]]);
    assert_eq!(
        all(vec![lowered, change(2 * S, 1399, 1400)]),
        [vec![(S, 2 * S)], vec![]]
    );
    assert_eq!(all(vec![change(S, 1500, 1400)]), [[]]);
}

#[test]
fn a_learned_path_mtu_explains_only_packets_that_are_longer() {
    let around = Surroundings {
        path_mtu: Some(([10, 0, 0, 2].into(), 1399)),
        ..seen()
    };
    let told = told(around);
    assert!(
        told.len() == 1 && told[0].1.contains("no packets longer than 1399 bytes"),
        "{told:?}"
    );
}

#[test]
fn drops_that_the_path_was_told_of_and_tried_again_are_none() {
    let lane = LaneSummary {
        path_counters: vec![(counter::TX_REFUSED.to_owned(), 70)],
        ..LaneSummary::default()
    };
    let queues = |packets| Surroundings {
        queues: Some(vec![QueueDrops {
            name: "fq_codel 8001:".to_owned(),
            packets,
            imitates: false,
        }]),
        ..seen()
    };
    let told = |packets| {
        let e = Evidence {
            around: vec![queues(packets)],
            ..Evidence::default()
        };
        let known = known(&e, std::slice::from_ref(&lane));
        known.iter().filter_map(|of| of.packets).collect::<Vec<_>>()
    };
    assert_eq!((told(70), told(75)), (vec![0], vec![5]));
}

#[test]
fn a_drop_that_was_tried_again_is_taken_off_once_for_all_interfaces() {
    let lane = LaneSummary {
        path_counters: vec![(counter::TX_REFUSED.to_owned(), 70)],
        ..LaneSummary::default()
    };
    let of = |packets| Surroundings {
        queues: Some(vec![QueueDrops {
            name: "fq 1:".to_owned(),
            packets,
            imitates: false,
        }]),
        ..seen()
    };
    for (drops, left) in [([70, 50], 50), ([50, 70], 50), ([20, 30], 0), ([0, 71], 1)] {
        let e = Evidence {
            around: drops.map(of).to_vec(),
            ..Evidence::default()
        };
        let known = known(&e, std::slice::from_ref(&lane));
        assert_eq!(known.iter().filter_map(|of| of.packets).sum::<u64>(), left, "{drops:?}");
    }
}

#[test]
fn an_outage_has_each_of_its_times_and_a_counter_of_all_packets_says_so() {
    let e = Evidence {
        around: vec![Surroundings {
            no_carrier: vec![outage(S, 2 * S), outage(4 * S, 5 * S)],
            kernel: vec![(KernelCount::ReversePathFilter, 3)],
            ..seen()
        }],
        duration_ns: 10 * S,
        ..Evidence::default()
    };
    let known = known(&e, &[]);
    assert_eq!(known[0].when_ns, [(S, 2 * S), (4 * S, 5 * S)]);
    assert_eq!(known[0].within(S + S / 2, 4 * S + S / 4), S / 2 + S / 4);
    assert_eq!([known[0].of_others, known[1].of_others], [false, true]);
}
