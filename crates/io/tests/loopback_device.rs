//! The device in the loop against what its rate and queue say beforehand, packet for packet, by a clock that is set.

use mpps_io::loopback::{Capacity, Jitter, LoopConfig, LoopPort, Spread, check};
use mpps_io::{Burst, Frame, Layer, MAX_BURST, Port, Queue};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

const SECOND: u64 = 1_000_000_000;

/// A departure: when, how many bytes, which flow.
type Departure = (u64, usize, u32);

/// One that has come back: which, and when it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Back {
    packet: u64,
    time_ns: Option<u64>,
}

/// What a lane has got back, and what the loop has counted.
struct Passed {
    back: Vec<Back>,
    counts: HashMap<&'static str, u64>,
}

impl Passed {
    fn count(&self, name: &str) -> u64 {
        self.counts[name]
    }

    fn packets(&self) -> Vec<u64> {
        self.back.iter().map(|back| back.packet).collect()
    }
}

fn base() -> LoopConfig {
    let mut config = LoopConfig {
        reflect: false,
        ..LoopConfig::default()
    };
    (config.buffers.frames, config.buffers.mtu) = (4096, 1500);
    config
}

fn config(options: &str) -> LoopConfig {
    let spec = format!("loop:{options}").parse().expect("of the form of a port");
    let config = check(&spec).expect("right");
    LoopConfig {
        reflect: false,
        ..config
    }
}

/// Sends on one lane of several; the receiver looks once in `every` departures and then at the end.
fn pass_on(config: &LoopConfig, (lane, lanes): (usize, usize), departures: &[Departure], every: usize) -> Passed {
    let time = AtomicU64::new(0);
    let port = LoopPort::new(
        config.clone(),
        lanes,
        || time.load(Ordering::Relaxed),
        |_: &mut [u8]| true,
    );
    let pool = port.pool(lane).expect("a pool");
    let mut queue = port.queue(lane, &pool).expect("a queue");
    let mut burst = Burst::new(MAX_BURST);
    let mut back = Vec::new();
    let take = |burst: &mut Burst<_>, back: &mut Vec<Back>| {
        let before = back.len();
        for frame in burst.as_slice() {
            let frame: &mpps_io::loopback::LoopFrame<'_> = frame;
            let packet = u64::from_le_bytes(frame.bytes()[50..58].try_into().expect("8 bytes"));
            back.push(Back {
                packet,
                time_ns: frame.rx_time_ns(),
            });
        }
        burst.clear();
        back.len() > before
    };
    for (packet, (at, len, flow)) in departures.iter().enumerate() {
        time.store(*at, Ordering::Relaxed);
        assert_eq!(queue.allocate(&mut burst, 1).expect("allocate"), 1, "a buffer is free");
        let frame = &mut burst.as_mut_slice()[0];
        frame.set_len(*len);
        frame.set_flow(*flow);
        frame.bytes_mut().fill(0);
        frame.bytes_mut()[50..58].copy_from_slice(&(packet as u64).to_le_bytes());
        queue.transmit(&mut burst).expect("transmit");
        burst.clear();
        if packet % every == every - 1 {
            while queue.receive(&mut burst).expect("receive") > 0 {
                take(&mut burst, &mut back);
            }
        }
    }
    // Longer than anything waits, and once more, for what is held back from the first time on.
    for end in [u64::MAX / 4, u64::MAX / 2] {
        time.store(end, Ordering::Relaxed);
        while queue.receive(&mut burst).expect("receive") > 0 {
            take(&mut burst, &mut back);
        }
    }
    let frames = config.buffers.frames;
    let mut all = Vec::new();
    loop {
        let mut burst = Burst::new(MAX_BURST);
        match queue.allocate(&mut burst, MAX_BURST).expect("allocate") {
            0 => break,
            _ => all.push(burst),
        }
    }
    assert_eq!(all.iter().map(Burst::len).sum::<usize>(), frames, "no buffer is gone");
    let counts = port.counters(lane).other.into_iter().collect();
    Passed { back, counts }
}

fn pass(config: &LoopConfig, departures: &[Departure]) -> Passed {
    pass_on(config, (0, 1), departures, 1)
}

/// `n` departures, one in `ns`.
fn evenly(n: u64, ns: u64) -> Vec<Departure> {
    (0..n).map(|packet| (packet * ns, 64, 0)).collect()
}

/// The device as one would write it down: exact fractions, and every packet that there ever was looked at again.
/// Gives when each packet has been served, rounded up; `None` for those that are dropped.
fn by_hand(capacity: Capacity, queue: usize, departures: &[Departure]) -> Vec<Option<u64>> {
    // In ns times the rate.
    let mut ends: Vec<u128> = Vec::new();
    let serve = |(at, len, _): &Departure| {
        let (rate, work) = match capacity {
            Capacity::Packets(rate) => (rate, 1),
            Capacity::Bits(rate) => (rate, 8 * ((*len + 4).max(64) + 20)),
        };
        let rate = u128::from(rate);
        let now = u128::from(*at) * rate;
        if ends.iter().filter(|end| **end > now).count() >= queue {
            return None;
        }
        let start = ends.last().map_or(now, |last| now.max(*last));
        ends.push(start + work as u128 * u128::from(SECOND));
        ends.last().map(|end| end.div_ceil(rate) as u64)
    };
    departures.iter().map(serve).collect()
}

fn capacities() -> impl Strategy<Value = Capacity> {
    let rates = || prop_oneof![1..100_000_000_u64, 1..1_000_u64, Just(SECOND), Just(7_777_777)];
    prop_oneof![
        rates().prop_map(Capacity::Packets),
        rates().prop_map(|rate| Capacity::Bits(rate * 500)),
    ]
}

/// Gaps are chosen about the time that a packet takes, so that the queue fills and empties.
fn departures(capacity: Capacity) -> impl Strategy<Value = Vec<Departure>> {
    let service = match capacity {
        Capacity::Packets(rate) => SECOND / rate,
        Capacity::Bits(rate) => 5000 * SECOND / rate,
    };
    let gap = prop_oneof![3 => Just(0), 4 => 0..=2 * service + 2, 1 => 0..=40 * service + 40];
    let one = (gap, prop_oneof![Just(60_usize), 58..1500_usize], 0..4_u32);
    prop::collection::vec(one, 1..400).prop_map(|steps| {
        let mut now = 0;
        let at = |(gap, len, flow)| {
            now += gap;
            (now, len, flow)
        };
        steps.into_iter().map(at).collect()
    })
}

fn run() -> impl Strategy<Value = (Capacity, Vec<Departure>)> {
    capacities().prop_flat_map(|capacity| (Just(capacity), departures(capacity)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn each_packet_is_dropped_or_arrives_just_when_rate_and_queue_say(
        (capacity, departures) in run(),
        queue in prop_oneof![1..4_usize, 1..100_usize],
        delay_ns in prop_oneof![Just(0), 0..1_000_000_u64],
        every in 1..50_usize,
    ) {
        let config = LoopConfig { capacity: Some(capacity), queue, delay_ns, ..base() };
        let passed = pass_on(&config, (0, 1), &departures, every);
        let told = by_hand(capacity, queue, &departures);
        let expected: Vec<_> = (0..).zip(&told).filter_map(|(packet, served)| {
            served.map(|served| Back { packet, time_ns: Some(served + delay_ns) })
        }).collect();
        let dropped = departures.len() - expected.len();
        prop_assert_eq!(&passed.back, &expected);
        prop_assert_eq!(passed.count("dropped_queue"), dropped as u64);
        prop_assert_eq!(passed.counts.values().sum::<u64>(), dropped as u64, "nothing else happens");
    }

    #[test]
    fn up_to_its_rate_a_device_loses_nothing_and_takes_the_time_of_one_packet(
        rate in 1..20_000_000_u64,
        more_ns in prop_oneof![Just(0), 0..1_000_u64],
        queue in 1..10_usize,
    ) {
        let config = LoopConfig { capacity: Some(Capacity::Packets(rate)), queue, ..base() };
        let departures = evenly(300, SECOND.div_ceil(rate) + more_ns);
        let passed = pass(&config, &departures);
        prop_assert_eq!(passed.count("dropped_queue"), 0);
        prop_assert_eq!(passed.back.len(), departures.len());
        for (back, (at, ..)) in passed.back.iter().zip(&departures) {
            prop_assert_eq!(back.time_ns, Some(at + SECOND.div_ceil(rate)));
        }
    }

    #[test]
    fn beyond_its_rate_it_loses_just_what_it_cannot_serve_but_for_one_queue(
        rate in 1..20_000_000_u64,
        share in 0.01..0.99_f64,
        queue in 2..300_usize,
        n in 1..3_000_u64,
    ) {
        // One departure in so many ns, each less than a packet takes.
        let gap = (SECOND as f64 / rate as f64 * share) as u64;
        let config = LoopConfig { capacity: Some(Capacity::Packets(rate)), queue, ..base() };
        let passed = pass(&config, &evenly(n, gap));
        // It always works: what it has taken is what it has served since the first packet came, and what it holds.
        let served = u128::from((n - 1) * gap) * u128::from(rate) / u128::from(SECOND);
        let taken = n.min(queue as u64 + served as u64);
        prop_assert_eq!(passed.back.len() as u64, taken);
        prop_assert_eq!(passed.count("dropped_queue"), n - taken);
        // 1 − C ÷ R of n packets, within one queue.
        let ratio = 1.0 - rate as f64 * gap as f64 / SECOND as f64;
        let off = (ratio * n as f64 - (n - taken) as f64).abs();
        prop_assert!(off <= queue as f64 + 1.0, "{} of {}", n - taken, n);
        for (back, k) in passed.back.iter().zip(1_u64..) {
            let end = u128::from(k) * u128::from(SECOND);
            prop_assert_eq!(back.time_ns, Some(end.div_ceil(u128::from(rate)) as u64));
            prop_assert!(back.time_ns.expect("a time") - back.packet * gap <= queue as u64 * SECOND.div_ceil(rate));
        }
    }

    #[test]
    fn beside_every_fault_each_packet_comes_back_or_is_counted(
        (capacity, departures) in run(),
        served in prop::bool::ANY,
        (queue, delay_ns, seed, every) in (1..200_usize, 0..1_000_000_u64, any::<u64>(), 1..50_usize),
        (spread, overtake) in (prop_oneof![Just(Spread::Uniform), Just(Spread::Exponential)], prop::bool::ANY),
        (time_ns, burst_loss) in (prop_oneof![Just(0), 0..5_000_000_u64], prop_oneof![Just(0.0), 0.0..0.5_f64]),
        (burst_length, ratio) in (1..20_u32, prop_oneof![Just(0.0), 0.0..0.2_f64]),
    ) {
        let mut config = LoopConfig {
            capacity: served.then_some(capacity), queue, delay_ns, seed, burst_loss, burst_length,
            jitter: Jitter { time_ns, spread, overtake: overtake && time_ns > 0 },
            loss: ratio, duplicate: ratio, corrupt: ratio, ..base()
        };
        if !config.jitter.overtake {
            config.reorder = ratio;
        }
        // No checksum stands in these, so that no bit of them is flipped.
        let passed = pass_on(&config, (0, 1), &departures, every);
        let gone = ["lost", "dropped_queue", "dropped_burst"].map(|name| passed.count(name)).iter().sum::<u64>();
        let back = passed.back.len() as u64;
        prop_assert_eq!(departures.len() as u64, back - passed.count("duplicated") + gone);
        let mut seen = vec![false; departures.len()];
        let mut highest = [None; 4];
        let (mut duplicates, mut reordered) = (0, 0);
        for Back { packet, .. } in &passed.back {
            let flow = departures[*packet as usize].2 as usize;
            if std::mem::replace(&mut seen[*packet as usize], true) {
                duplicates += 1;
            } else if highest[flow] > Some(*packet) {
                reordered += 1;
            } else {
                highest[flow] = Some(*packet);
            }
        }
        prop_assert_eq!(duplicates, passed.count("duplicated"));
        prop_assert_eq!(reordered, passed.count("reordered"));
        let times: Vec<_> = passed.back.iter().filter_map(|back| back.time_ns).collect();
        prop_assert!(times.is_sorted());
        prop_assert!(times.is_empty() || times.len() == passed.back.len());
        // Whenever the receiver looks, the same has happened; held packets are let go when they are looked for.
        if config.reorder == 0.0 {
            prop_assert_eq!(pass_on(&config, (0, 1), &departures, 1).back, passed.back);
        }
    }

    #[test]
    fn jitter_of_one_packet_is_its_own_and_in_its_bounds(
        time_ns in 1..1_000_000_u64,
        seed in any::<u64>(),
        gap in 0..10_000_u64,
    ) {
        let jitter = |overtake| Jitter { time_ns, spread: Spread::Uniform, overtake };
        let with = |overtake| LoopConfig { jitter: jitter(overtake), seed, delay_ns: 77, ..base() };
        let departures = evenly(500, gap);
        let (free, kept) = (pass(&with(true), &departures), pass(&with(false), &departures));
        let mut own = vec![0; 500];
        for back in &free.back {
            let time = back.time_ns.expect("a time");
            let sent = departures[back.packet as usize].0 + 77;
            prop_assert!(time >= sent && time <= sent + time_ns);
            own[back.packet as usize] = time;
        }
        prop_assert_eq!(kept.packets(), (0..500).collect::<Vec<_>>());
        let mut latest = 0;
        for back in &kept.back {
            // Its own time, or that of the one before it, which it may not overtake.
            latest = own[back.packet as usize].max(latest);
            prop_assert_eq!(back.time_ns, Some(latest));
        }
        prop_assert_eq!(kept.count("reordered"), 0);
    }
}

#[test]
fn a_rate_twice_the_capacity_is_halved_behind_a_full_queue() {
    let passed = pass(&config("capacity=100kpps,queue=100"), &evenly(20_000, 5_000));
    // 99.995 ms of service, and what is left in the queue.
    assert_eq!(passed.back.len(), 9_999 + 100);
    assert_eq!(passed.count("dropped_queue"), 20_000 - 10_099);
    // A full queue holds a packet for 1 ms, less what the one being served has had of its time already.
    let waits = passed.back.iter().skip(200);
    let waits: Vec<_> = waits
        .map(|back| back.time_ns.expect("a time") - back.packet * 5_000)
        .collect();
    assert!(
        waits.iter().all(|wait| *wait == 1_000_000 || *wait == 995_000),
        "{waits:?}"
    );
}

#[test]
fn a_rate_in_bits_counts_what_a_frame_takes_on_the_wire() {
    // 60 and less, with FCS, preamble and gap: 84 bytes, 672 ns; 1514: 1538 bytes, 12304 ns.
    for (len, ns) in [(58, 672), (60, 672), (61, 680), (1514, 12_304)] {
        let passed = pass(&config("capacity=1Gbps"), &[(5, len, 0), (5, len, 0), (20_000, len, 0)]);
        let times: Vec<_> = passed.back.iter().filter_map(|back| back.time_ns).collect();
        assert_eq!(times[..2], [5 + ns, 5 + 2 * ns], "{len}");
        assert_eq!(times[2], 20_000.max(5 + 2 * ns) + ns, "{len}");
    }
}

#[test]
fn lanes_share_rate_and_queue() {
    let config = config("capacity=300kpps,queue=10");
    for (lane, queue) in [(0, 4), (1, 3), (2, 3)] {
        let passed = pass_on(&config, (lane, 3), &[(0, 64, 0); 8], 1);
        let times: Vec<_> = passed.back.iter().filter_map(|back| back.time_ns).collect();
        let expected: Vec<_> = (1..=queue).map(|k| k * 10_000).collect();
        assert_eq!(times, expected, "lane {lane}");
        assert_eq!(passed.count("dropped_queue"), 8 - queue);
    }
    assert!(config.check_lanes(10).is_ok());
    let refusal = config.check_lanes(11).expect_err("one would have no queue").to_string();
    assert!(refusal.contains("queue=10") && refusal.contains("11"), "{refusal}");
}

#[test]
fn bursts_lose_the_share_asked_for_in_bursts_of_the_length_asked_for() {
    for (ratio, length) in [(0.01, 1), (0.02, 8), (0.3, 3), (0.5, 1), (0.5, 50)] {
        let config = config(&format!("burst_loss={ratio}:{length}"));
        let n = 400_000;
        let passed = pass(&config, &evenly(n, 1_000));
        let packets = passed.packets();
        let lost = n - packets.len() as u64;
        assert_eq!(passed.count("dropped_burst"), lost);
        let bursts = packets.windows(2).filter(|pair| pair[1] != pair[0] + 1).count() as f64;
        let (share, mean) = (lost as f64 / n as f64, lost as f64 / bursts);
        println!("{ratio}:{length}: {share} {mean}");
        assert!((share - ratio).abs() < ratio * 0.1, "{ratio}:{length}: {share}");
        assert!(
            (mean - f64::from(length)).abs() < f64::from(length) * 0.1,
            "{ratio}:{length}: {mean}"
        );
        assert!(
            passed.back.iter().all(|back| back.time_ns.is_none()),
            "nothing takes time"
        );
    }
}

#[test]
fn jitter_is_spread_as_asked_for() {
    for (spread, mean, below_mean) in [("uniform", 50_000.0, 0.5), ("exp", 100_000.0, 0.632)] {
        let config = config(&format!("jitter=100us:{spread},jitter_reorder=on"));
        let n = 100_000;
        let passed = pass(&config, &evenly(n, 1_000));
        let own = passed.back.iter();
        let own: Vec<_> = own
            .map(|back| (back.time_ns.expect("a time") - back.packet * 1_000) as f64)
            .collect();
        assert_eq!(own.len(), n as usize);
        let average = own.iter().sum::<f64>() / n as f64;
        let below = own.iter().filter(|ns| **ns < mean).count() as f64 / n as f64;
        println!("{spread}: {average} {below}");
        assert!((average - mean).abs() < mean * 0.02, "{spread}: {average}");
        assert!((below - below_mean).abs() < 0.01, "{spread}: {below}");
    }
}

#[test]
fn a_seed_gives_the_same_again_and_one_option_does_not_change_another() {
    let departures = evenly(5_000, 1_000);
    let lost = |options: &str| pass(&config(options), &departures).packets();
    let (burst, loss) = (lost("burst_loss=0.1:4,seed=7"), lost("loss=0.1,seed=7"));
    assert_eq!(burst, lost("burst_loss=0.1:4,seed=7"));
    assert_ne!(burst, lost("burst_loss=0.1:4,seed=8"));
    let mut both: Vec<_> = burst.iter().filter(|packet| loss.contains(packet)).copied().collect();
    assert_eq!(lost("burst_loss=0.1:4,loss=0.1,jitter=1ms,seed=7"), both);
    // A queue drops whatever it drops, and others are lost as before.
    let queued = "capacity=500kpps,queue=2,seed=7";
    let passed = lost(queued);
    both.retain(|packet| passed.contains(packet));
    assert_eq!(lost(&format!("{queued},burst_loss=0.1:4,loss=0.1")), both);
}

#[test]
fn what_is_written_is_what_is_done_and_what_contradicts_itself_is_refused() {
    let parsed = |options: &str| check(&format!("loop:{options}").parse().expect("of the form of a port"));
    for (text, capacity) in [
        ("1pps", Capacity::Packets(1)),
        ("1.5Mpps", Capacity::Packets(1_500_000)),
        ("0.0010kpps", Capacity::Packets(1)),
        (".5Gpps", Capacity::Packets(500_000_000)),
        ("10Gbps", Capacity::Bits(10_000_000_000)),
        ("100 Mbps", Capacity::Bits(100_000_000)),
        ("1bps", Capacity::Bits(1)),
    ] {
        assert_eq!(
            parsed(&format!("capacity={text}")).expect(text).capacity,
            Some(capacity)
        );
    }
    let long = parsed("capacity=1Mpps,queue=1000000").expect("right");
    assert!(long.buffers.frames > long.queue);
    for (options, named) in [
        ("capacity=1", "capacity=1: want"),
        ("capacity=0pps", "want a whole number"),
        ("capacity=0.5pps", "want a whole number"),
        ("capacity=1.0005kpps", "want a whole number"),
        ("capacity=1001Gbps", "1000Gbps"),
        ("capacity=1mpps", "1.5Mpps"),
        ("capacity=-1Mpps", "want"),
        ("capacity=1e3pps", "want"),
        ("capacity=1Mpps,queue=0", "queue=0"),
        ("queue=10", "capacity="),
        ("capacity=1Mpps,queue=1000,frames=1000", "more than queue=1000"),
        ("capacity=1Gbps,layer=payload", "layer=payload"),
        ("jitter=1", "jitter=1: want"),
        ("jitter=1ms:normal", "uniform or exp"),
        ("jitter=61s", "60s"),
        ("jitter_reorder=on", "jitter="),
        ("jitter=1ms,jitter_reorder=on,reorder=0.1", "reorder="),
        ("burst_loss=0.1", "mean length"),
        ("burst_loss=0.6:2", "0.5"),
        ("burst_loss=1%:0", "1 to 65536"),
    ] {
        let refusal = parsed(options).expect_err(options).to_string();
        assert!(
            refusal.contains(named) && !refusal.contains('\n'),
            "{options}: {refusal}"
        );
    }
    let port = LoopPort::new(
        config("capacity=1Gbps,queue=7,jitter=1ms:exp,burst_loss=1%:8"),
        1,
        || 0,
        |_: &mut [u8]| true,
    );
    let facts: HashMap<_, _> = port.facts().into_iter().map(|fact| (fact.name, fact.value)).collect();
    for (name, value) in [
        ("capacity_bps", "1000000000"),
        ("queue", "7"),
        ("jitter_ns", "1000000"),
        ("jitter_spread", "exp"),
        ("burst_loss_ratio", "0.01"),
        ("burst_loss_length", "8"),
    ] {
        assert_eq!(facts[name], value, "{name}");
    }
}

#[test]
fn payloads_are_served_by_the_packet_too() {
    let mut config = config("capacity=1Mpps,queue=2");
    config.buffers.layer = Layer::Payload;
    let passed = pass(&config, &[(0, 64, 0); 3]);
    assert_eq!(passed.packets(), [0, 1]);
}
