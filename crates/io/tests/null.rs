//! The null path: what its queue promises.

use mpps_io::null::{NoSource, NullConfig, NullPort, Source, check};
use mpps_io::{Burst, ErrorKind, Frame, Layer, MAX_BURST, Port, Queue};
use proptest::prelude::*;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Gives bursts of at most `most` numbered packets.
struct Numbers {
    next: u32,
    most: usize,
    left: usize,
}

impl Source for Numbers {
    fn begin(&mut self, room: usize) -> usize {
        self.left = self.most;
        room
    }

    fn fill(&mut self, frame: &mut [u8]) -> usize {
        if self.left == 0 {
            return 0;
        }
        self.left -= 1;
        frame[..4].copy_from_slice(&self.next.to_le_bytes());
        self.next += 1;
        60
    }
}

fn config(frames: usize) -> NullConfig {
    NullConfig {
        frames,
        ..NullConfig::default()
    }
}

proptest! {
    #[test]
    fn every_frame_comes_back_to_the_pool(
        frames in 1..600_usize,
        most in 0..300_usize,
        steps in prop::collection::vec((0..4_u8, 1..=MAX_BURST), 1..50),
    ) {
        let port = NullPort::new(config(frames), 1, MAC, |_| Numbers { next: 0, most, left: 0 });
        let pool = port.pool(0).expect("a pool");
        let mut queue = port.queue(0, &pool).expect("a queue");
        let mut burst = Burst::new(MAX_BURST);
        let mut expected = 0;
        for (what, n) in steps {
            let before = burst.len();
            match what {
                0 => {
                    let got = queue.allocate(&mut burst, n).expect("allocate");
                    prop_assert_eq!(got, n.min(MAX_BURST - before).min(frames - before));
                    prop_assert_eq!(burst.len(), before + got);
                    for frame in &burst.as_slice()[before..] {
                        prop_assert_eq!(frame.capacity(), 1514);
                    }
                }
                1 => {
                    prop_assert_eq!(queue.transmit(&mut burst).expect("transmit"), before);
                    prop_assert!(burst.is_empty());
                }
                2 => burst.clear(),
                _ => {
                    let got = queue.receive(&mut burst).expect("receive");
                    prop_assert_eq!(got, most.min(MAX_BURST - before).min(frames - before));
                    for frame in &burst.as_slice()[before..] {
                        prop_assert_eq!(frame.bytes().len(), 60);
                        prop_assert_eq!(&frame.bytes()[..4], &u32::to_le_bytes(expected));
                        expected += 1;
                    }
                }
            }
        }
        drop(burst);
        let mut all = Vec::new();
        loop {
            let mut burst = Burst::new(MAX_BURST);
            if queue.allocate(&mut burst, MAX_BURST).expect("allocate") == 0 {
                break;
            }
            all.push(burst);
        }
        prop_assert_eq!(all.iter().map(Burst::len).sum::<usize>(), frames);
    }

    #[test]
    fn a_frame_keeps_its_flow_and_clamps_its_length(flow: u32, len in 0..5000_usize) {
        let port = NullPort::new(config(1), 1, MAC, NoSource);
        let pool = port.pool(0).expect("a pool");
        let mut queue = port.queue(0, &pool).expect("a queue");
        let mut burst = Burst::new(1);
        queue.allocate(&mut burst, 1).expect("allocate");
        let frame = &mut burst.as_mut_slice()[0];
        frame.set_flow(flow);
        frame.set_len(len);
        // The highest number can't be told from none; no generator has so many flows.
        prop_assert_eq!(frame.flow(), (flow != u32::MAX).then_some(flow));
        prop_assert_eq!(frame.bytes_mut().len(), len.min(1514));
        prop_assert_eq!(frame.wire_len(), len.min(1514));
    }
}

#[test]
fn frames_of_another_pool_go_back_to_that_pool() {
    let port = NullPort::new(config(4), 2, MAC, NoSource);
    let (here, there) = (port.pool(0).expect("a pool"), port.pool(1).expect("a pool"));
    let mut first = port.queue(0, &here).expect("a queue");
    let mut second = port.queue(1, &there).expect("a queue");
    let mut burst = Burst::new(8);
    assert_eq!(first.allocate(&mut burst, 2).expect("never fails"), 2);
    assert_eq!(second.allocate(&mut burst, 2).expect("never fails"), 2);
    assert_eq!(second.transmit(&mut burst).expect("never fails"), 4);
    assert_eq!(first.allocate(&mut burst, 8).expect("never fails"), 4);
    assert_eq!(second.allocate(&mut burst, 8).expect("never fails"), 4);
}

#[test]
fn nothing_is_received_without_a_source() {
    let port = NullPort::new(config(4), 1, MAC, NoSource);
    let pool = port.pool(0).expect("a pool");
    let mut burst = Burst::new(8);
    assert_eq!(
        port.queue(0, &pool)
            .expect("a queue")
            .receive(&mut burst)
            .expect("never fails"),
        0
    );
}

#[test]
fn a_queue_is_taken_once_and_an_unknown_one_refused() {
    let port = NullPort::new(config(4), 1, MAC, NoSource);
    let pool = port.pool(0).expect("a pool");
    let queue = port.queue(0, &pool).expect("a queue");
    assert_eq!(port.queue(0, &pool).err().expect("taken").kind, ErrorKind::InUse);
    assert_eq!(port.queue(1, &pool).err().expect("unknown").kind, ErrorKind::NotFound);
    drop(queue);
    assert!(port.queue(0, &pool).is_ok());
}

#[test]
fn options_are_read_and_wrong_ones_named() {
    let read = |text: &str| check(&text.parse().expect("a port"));
    assert_eq!(read("null:"), Ok(NullConfig::default()));
    let config = NullConfig {
        frames: 64,
        mtu: 9000,
        layer: Layer::Payload,
    };
    assert_eq!(read("null:frames=64,mtu=9000,layer=payload"), Ok(config));
    for (wrong, named) in [
        ("null:eth0", "device 'eth0'"),
        ("null:frames=0", "frames=0: want a whole number from 1 to"),
        ("null:mtu=70000", "mtu=70000: want a whole number from 68 to 65535"),
        ("null:layer=ip", "layer=ip: want ethernet or payload"),
        (
            "null:delay=1ms",
            "unknown option 'delay': null: takes layer, frames, mtu",
        ),
    ] {
        let error = read(wrong).expect_err(wrong).to_string();
        assert!(error.contains(named), "{wrong}: {error}");
    }
}

#[test]
fn capabilities_follow_the_layer() {
    let ethernet = NullPort::new(config(1), 3, MAC, NoSource);
    assert_eq!(
        (ethernet.capabilities().mac, ethernet.capabilities().max_frame),
        (Some(MAC), 1514)
    );
    assert!(ethernet.pool(2).is_ok() && ethernet.pool(3).is_err());
    let payload = NullPort::new(
        NullConfig {
            layer: Layer::Payload,
            ..config(1)
        },
        1,
        MAC,
        NoSource,
    );
    assert_eq!(
        (payload.capabilities().mac, payload.capabilities().max_frame),
        (None, 1472)
    );
}
