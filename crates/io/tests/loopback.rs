//! The loop's counters against an observer that knows nothing of the loop: he reads sequence numbers, data and times.

use mpps_io::loopback::{LoopConfig, LoopFrame, LoopPort};
use mpps_io::{Burst, ErrorKind, Frame, Layer, MAX_BURST, Port, Queue, Wait};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const FLUSH_NS: u64 = 20_000_000;

fn keep(_: &mut [u8]) -> bool {
    true
}

/// The byte of packet `sequence` at `at`, from 16 on.
fn data(sequence: u64, at: usize) -> u8 {
    (sequence as usize).wrapping_mul(31).wrapping_add(at) as u8
}

#[derive(Clone, Copy)]
struct Sent {
    flow: u32,
    /// Position in its flow.
    place: usize,
    time_ns: u64,
    seen: bool,
}

/// Sends numbered packets and sees what comes back.
struct Observer {
    config: LoopConfig,
    flows: u32,
    sent: Vec<Sent>,
    places: HashMap<u32, usize>,
    /// By flow: places of the good packets seen.
    good: HashMap<u32, Vec<usize>>,
    previous: Option<(u64, Option<u64>)>,
    returned: u64,
    duplicated: u64,
    reordered: u64,
    corrupted: u64,
}

impl Observer {
    fn new(config: LoopConfig, flows: u32) -> Self {
        Self {
            config,
            flows,
            sent: Vec::new(),
            places: HashMap::new(),
            good: HashMap::new(),
            previous: None,
            returned: 0,
            duplicated: 0,
            reordered: 0,
            corrupted: 0,
        }
    }

    fn write(&mut self, frame: &mut LoopFrame<'_>, len: usize, time_ns: u64) {
        let sequence = self.sent.len() as u64;
        let flow = (sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32 % self.flows;
        let place = self.places.entry(flow).or_default();
        frame.set_flow(flow);
        frame.set_len(len);
        let bytes = frame.bytes_mut();
        bytes[..8].copy_from_slice(&sequence.to_le_bytes());
        (16..len).for_each(|at| bytes[at] = data(sequence, at));
        self.sent.push(Sent {
            flow,
            place: *place,
            time_ns,
            seen: false,
        });
        *place += 1;
    }

    fn see(&mut self, frame: &LoopFrame<'_>, now: u64) -> Result<(), TestCaseError> {
        let bytes = frame.bytes();
        let sequence = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
        let sent = self.sent[sequence as usize];
        let time = frame.rx_time_ns();
        self.returned += 1;
        prop_assert_eq!(frame.flow(), Some(sent.flow));
        prop_assert_eq!(time.is_some(), self.config.delay_ns > 0);
        let due = sent.time_ns + self.config.delay_ns;
        prop_assert!(due <= now, "delivered before its time");
        if let Some(time) = time {
            prop_assert!(time <= now, "from the future");
            prop_assert!(
                self.previous
                    .and_then(|(_, before)| before)
                    .is_none_or(|before| before <= time)
            );
        }
        let good = self.good.entry(sent.flow).or_default();
        if (16..bytes.len()).any(|at| bytes[at] != data(sequence, at)) {
            self.corrupted += 1;
            let wrong: u32 = (16..bytes.len())
                .map(|at| (bytes[at] ^ data(sequence, at)).count_ones())
                .sum();
            prop_assert_eq!(wrong, 1);
            prop_assert!(time.is_none_or(|time| time == due));
        } else if sent.seen {
            self.duplicated += 1;
            prop_assert_eq!(
                self.previous.map(|(sequence, _)| sequence),
                Some(sequence),
                "a copy follows its original"
            );
            prop_assert!(time.is_none_or(|time| time == due));
        } else {
            let overtaken_by = good.iter().filter(|place| **place > sent.place).count();
            good.push(sent.place);
            if overtaken_by > 0 {
                self.reordered += 1;
                let distance = self.config.reorder_distance as usize;
                prop_assert!(overtaken_by <= distance);
                if overtaken_by < distance {
                    prop_assert!(due + FLUSH_NS <= now, "let go too early");
                    prop_assert!(time.is_none_or(|time| time == due + FLUSH_NS));
                }
            } else if time != Some(due) && time.is_some() {
                prop_assert!(self.config.reorder > 0.0, "delay is not exact");
                prop_assert_eq!(time, Some(due + FLUSH_NS));
            }
            self.sent[sequence as usize].seen = true;
        }
        self.previous = Some((sequence, time));
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send { n: usize, len: usize },
    Receive { limit: usize },
    Pass { ns: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1..=MAX_BURST, 16_usize..64).prop_map(|(n, len)| Step::Send { n, len }),
        3 => (1..=MAX_BURST).prop_map(|limit| Step::Receive { limit }),
        3 => prop_oneof![0..2_000_u64, 0..3_000_000_u64, 0..50_000_000_u64].prop_map(|ns| Step::Pass { ns }),
    ];
    prop::collection::vec(step, 1..60)
}

fn config() -> impl Strategy<Value = LoopConfig> {
    let ratio = prop_oneof![2 => Just(0.0), 3 => 0.0..0.25, 1 => Just(0.25)];
    let ratios = [ratio.clone(), ratio.clone(), ratio.clone(), ratio];
    let delay = prop_oneof![Just(0), Just(1), 0..10_000_u64, 0..30_000_000_u64];
    (
        ratios,
        1..=16_u32,
        delay,
        any::<u64>(),
        prop_oneof![1..8_usize, 8..600_usize],
        prop::bool::weighted(0.2),
    )
        .prop_map(|(mut ratios, reorder_distance, mut delay_ns, seed, frames, plain)| {
            // Neither faults nor a delay: the way of most runs, which is another.
            if plain {
                (ratios, delay_ns) = ([0.0; 4], 0);
            }
            let [loss, duplicate, reorder, corrupt] = ratios;
            let mut config = LoopConfig {
                loss,
                duplicate,
                reorder,
                corrupt,
                ..LoopConfig::default()
            };
            (config.reorder_distance, config.delay_ns, config.seed) = (reorder_distance, delay_ns, seed);
            (config.buffers.frames, config.buffers.mtu, config.buffers.layer) = (frames, 92, Layer::Payload);
            config
        })
}

fn counter(port: &impl Port, queue: usize, name: &str) -> u64 {
    let counters = port.counters(queue).other;
    counters
        .iter()
        .find(|(key, _)| *key == name)
        .map(|(_, total)| *total)
        .expect("a counter of that name")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn counters_equal_what_an_observer_sees_and_no_frame_is_gone(
        config in config(),
        flows in 1..=8_u32,
        steps in steps(),
    ) {
        let time = AtomicU64::new(1_000);
        let port = LoopPort::new(config.clone(), 1, || time.load(Ordering::Relaxed), keep);
        let pool = port.pool(0).expect("a pool");
        let mut queue = port.queue(0, &pool).expect("a queue");
        let mut observer = Observer::new(config.clone(), flows);
        let drain = [Step::Pass { ns: 1_000_000_000 }, Step::Receive { limit: MAX_BURST }];
        let rounds = 2 * config.buffers.frames / MAX_BURST + 3;
        let drain = drain.iter().cycle().take(2 * rounds).cloned();
        for step in steps.into_iter().chain(drain) {
            let now = time.load(Ordering::Relaxed);
            match step {
                Step::Send { n, len } => {
                    let mut burst = Burst::new(MAX_BURST);
                    let got = queue.allocate(&mut burst, n).expect("allocate");
                    prop_assert_eq!(got, burst.len());
                    prop_assert!(got <= n);
                    burst.as_mut_slice().iter_mut().for_each(|frame| observer.write(frame, len, now));
                    prop_assert_eq!(queue.transmit(&mut burst).expect("transmit"), got);
                    prop_assert!(burst.is_empty());
                }
                Step::Receive { limit } => {
                    let mut burst = Burst::new(limit);
                    let got = queue.receive(&mut burst).expect("receive");
                    prop_assert_eq!(got, burst.len());
                    for frame in burst.as_slice() {
                        observer.see(frame, now)?;
                    }
                    prop_assert_eq!(counter(&port, 0, "duplicated"), observer.duplicated);
                    prop_assert_eq!(counter(&port, 0, "reordered"), observer.reordered);
                    prop_assert_eq!(counter(&port, 0, "corrupted"), observer.corrupted);
                }
                Step::Pass { ns } => time.store(now + ns, Ordering::Relaxed),
            }
        }
        let lost = counter(&port, 0, "lost");
        prop_assert_eq!(observer.sent.len() as u64, observer.returned - observer.duplicated + lost);
        let mut all = Vec::new();
        loop {
            let mut burst = Burst::new(MAX_BURST);
            if queue.allocate(&mut burst, MAX_BURST).expect("allocate") == 0 {
                break;
            }
            all.push(burst);
        }
        prop_assert_eq!(all.iter().map(Burst::len).sum::<usize>(), config.buffers.frames);
    }

    #[test]
    fn a_queue_that_is_dropped_gives_back_what_is_in_flight(config in config(), n in 1..MAX_BURST) {
        let frames = config.buffers.frames;
        let port = LoopPort::new(config, 1, || 0, keep);
        let pool = port.pool(0).expect("a pool");
        for _ in 0..3 {
            let mut queue = port.queue(0, &pool).expect("free again once the queue is dropped");
            let mut burst = Burst::new(MAX_BURST);
            let got = queue.allocate(&mut burst, n).expect("allocate");
            prop_assert_eq!(got, n.min(frames));
            queue.transmit(&mut burst).expect("transmit");
            queue.receive(&mut burst).expect("receive");
        }
    }
}

fn payload_config() -> LoopConfig {
    let mut config = LoopConfig::default();
    config.buffers.layer = Layer::Payload;
    config
}

/// Sends `n` packets of `len` bytes in one flow and counts those that come back.
fn pass(config: LoopConfig, n: usize, len: usize) -> (usize, Vec<(&'static str, u64)>) {
    let time = AtomicU64::new(0);
    let port = LoopPort::new(config, 1, || time.fetch_add(1_000, Ordering::Relaxed), keep);
    let pool = port.pool(0).expect("a pool");
    let mut queue = port.queue(0, &pool).expect("a queue");
    let mut returned = 0;
    let mut burst = Burst::new(32);
    for _ in 0..n / 32 {
        queue.allocate(&mut burst, 32).expect("allocate");
        burst.as_mut_slice().iter_mut().for_each(|frame| frame.set_len(len));
        queue.transmit(&mut burst).expect("transmit");
        returned += queue.receive(&mut burst).expect("receive");
        burst.clear();
    }
    for _ in 0..n {
        time.fetch_add(1_000_000, Ordering::Relaxed);
        returned += queue.receive(&mut burst).expect("receive");
        burst.clear();
    }
    (returned, port.counters(0).other)
}

#[test]
fn ratios_are_what_was_asked_for() {
    let n = 320_000;
    let config = LoopConfig {
        loss: 0.01,
        duplicate: 0.02,
        reorder: 0.03,
        corrupt: 0.04,
        delay_ns: 5_000,
        ..payload_config()
    };
    let (returned, counts) = pass(config, n, 64);
    let total = |name| counts.iter().find(|(key, _)| *key == name).expect("counted").1 as f64 / n as f64;
    for (name, ratio) in [
        ("lost", 0.01),
        ("duplicated", 0.02),
        ("reordered", 0.03),
        ("corrupted", 0.04),
    ] {
        assert!((total(name) - ratio).abs() < ratio / 10.0, "{name}: {}", total(name));
    }
    assert_eq!(returned as f64, n as f64 * (1.0 + total("duplicated") - total("lost")));
}

#[test]
fn the_same_seed_gives_the_same_faults_and_another_seed_others() {
    let config = |seed| LoopConfig {
        loss: 0.1,
        duplicate: 0.1,
        reorder: 0.1,
        corrupt: 0.1,
        seed,
        ..payload_config()
    };
    assert_eq!(pass(config(7), 3_200, 64), pass(config(7), 3_200, 64));
    assert_ne!(pass(config(7), 3_200, 64), pass(config(8), 3_200, 64));
}

#[test]
fn a_payload_that_is_all_stamp_is_not_corrupted() {
    let (returned, counts) = pass(
        LoopConfig {
            corrupt: 1.0,
            ..payload_config()
        },
        320,
        16,
    );
    assert_eq!(returned, 320);
    assert!(counts.iter().all(|(_, total)| *total == 0), "{counts:?}");
}

#[test]
fn a_ratio_of_one_meets_every_frame() {
    assert_eq!(
        pass(
            LoopConfig {
                loss: 1.0,
                ..payload_config()
            },
            320,
            64
        )
        .0,
        0
    );
    assert_eq!(
        pass(
            LoopConfig {
                duplicate: 1.0,
                ..payload_config()
            },
            320,
            64
        )
        .0,
        640
    );
    // Nothing is left to overtake them.
    let (returned, counts) = pass(
        LoopConfig {
            reorder: 1.0,
            ..payload_config()
        },
        320,
        64,
    );
    assert_eq!(returned, 320);
    assert!(counts.iter().all(|(_, total)| *total == 0), "{counts:?}");
}

#[test]
fn frames_are_turned_round_on_ethernet_only_and_what_does_not_turn_is_counted() {
    let turn = |frame: &mut [u8]| {
        frame[1] = 1;
        frame[0] == 0
    };
    for (layer, reflect) in [
        (Layer::Ethernet, true),
        (Layer::Ethernet, false),
        (Layer::Payload, true),
    ] {
        let mut config = LoopConfig {
            reflect,
            ..LoopConfig::default()
        };
        config.buffers.layer = layer;
        let turned = reflect && layer == Layer::Ethernet;
        let port = LoopPort::new(config, 1, || 0, turn);
        let pool = port.pool(0).expect("a pool");
        let mut queue = port.queue(0, &pool).expect("a queue");
        let mut burst = Burst::new(2);
        queue.allocate(&mut burst, 2).expect("allocate");
        for (i, frame) in burst.as_mut_slice().iter_mut().enumerate() {
            frame.bytes_mut()[..2].copy_from_slice(&[i as u8, 0]);
        }
        queue.transmit(&mut burst).expect("transmit");
        let returned = queue.receive(&mut burst).expect("receive");
        assert_eq!(returned, if turned { 1 } else { 2 });
        assert_eq!(burst.as_slice()[0].bytes()[1], u8::from(turned));
        assert_eq!(counter(&port, 0, "not_reflected"), u64::from(turned));
    }
}

#[test]
fn a_queue_is_taken_once_and_an_unknown_one_refused() {
    let port = LoopPort::new(payload_config(), 2, || 0, keep);
    let pool = port.pool(1).expect("a pool");
    let _queue = port.queue(1, &pool).expect("a queue");
    assert_eq!(port.queue(1, &pool).err().expect("taken").kind, ErrorKind::InUse);
    assert_eq!(port.queue(2, &pool).err().expect("unknown").kind, ErrorKind::NotFound);
    assert_eq!(port.pool(2).err().expect("unknown").kind, ErrorKind::NotFound);
    assert_eq!(port.queues(), 2);
}

#[test]
fn waiting_ends_by_the_arrival_and_does_not_make_it_early() {
    let start = std::time::Instant::now();
    let config = LoopConfig {
        delay_ns: 300_000,
        ..payload_config()
    };
    let port = LoopPort::new(config, 1, || start.elapsed().as_nanos() as u64, keep);
    let pool = port.pool(0).expect("a pool");
    let mut queue = port.queue(0, &pool).expect("a queue");
    let mut burst = Burst::new(1);
    queue.allocate(&mut burst, 1).expect("allocate");
    let sent = start.elapsed().as_nanos() as u64;
    queue.transmit(&mut burst).expect("transmit");
    let rx = Wait { rx: true, tx: false };
    // An hour's timeout: were it not for the arrival, this test would not end.
    while queue.receive(&mut burst).expect("receive") == 0 {
        queue.wait(rx, Duration::from_secs(3600)).expect("wait");
    }
    let due = burst.as_slice()[0].rx_time_ns().expect("a time");
    assert!(due >= sent + 300_000 && due <= start.elapsed().as_nanos() as u64);
    queue
        .wait(Wait { rx: true, tx: true }, Duration::from_secs(3600))
        .expect("room to transmit");
    queue
        .wait(rx, Duration::from_millis(1))
        .expect("nothing in flight: the timeout ends it");
}
