//! Sending, turning and receiving allocate nothing, and give nothing back to the allocator.

use crate::common::*;
use crate::counting::{ALLOCATIONS, ON_PACKET_PATH};
use crate::path::{Mode, WAYS};
use mpps_io::{Burst, Frame, MAX_BURST, Port, Queue, Wait};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Datagrams of a round: more than sends can be under way on a ring of the smallest sizes.
const DATAGRAMS: usize = 64;
const FLOWS: u32 = 3;

/// Sends datagrams of one flow, has them turned, and takes them back, by every call that a lane makes.
fn round<Q: Queue>(client: &mut Q, echo: &mut Q, [out, turned, back]: &mut [Burst<Q::Frame>; 3], flow: u32) {
    let (mut written, mut came) = (0, 0);
    until("a round", || {
        let n = client.allocate(out, DATAGRAMS - written).expect("allocate");
        let first = out.len() - n;
        for frame in &mut out.as_mut_slice()[first..] {
            frame.set_flow(flow);
            frame.set_len(64 + written / 32);
            written += 1;
        }
        client.transmit(out).expect("transmit");
        client.flush().expect("flush");
        assert!(echo.rx_fill().is_some());
        echo.receive(turned).expect("receive");
        echo.transmit(turned).expect("transmit");
        echo.flush().expect("flush");
        let rx = Wait { rx: true, tx: false };
        client.wait(rx, Duration::from_micros(100)).expect("wait");
        client.receive(back).expect("receive");
        came += back.len();
        back.clear();
        came == DATAGRAMS
    });
}

#[test]
fn sending_turning_and_receiving_allocate_nothing() {
    for way in WAYS {
        let listen = free_port("127.0.0.1");
        let to = SocketAddr::from(([127, 0, 0, 1], listen));
        let echo = port(&format!("127.0.0.1:{listen}{way}"), Mode::Listening, &[BOTH]);
        let flows = connected("127.0.0.1", to, FLOWS as usize);
        let client = port(&format!("127.0.0.1{way}"), flows, &[BOTH]);
        let (echo_pool, pool) = (echo.pool(0).expect("pool"), client.pool(0).expect("pool"));
        let mut echo_queue = echo.queue(0, &echo_pool).expect("queue");
        let mut queue = client.queue(0, &pool).expect("queue");
        let mut bursts = [MAX_BURST, MAX_BURST, 40].map(Burst::new);
        let mut rounds = |n: u32| (0..n).for_each(|i| round(&mut queue, &mut echo_queue, &mut bursts, i % FLOWS));
        rounds(20);
        ALLOCATIONS.store(0, Ordering::Relaxed);
        ON_PACKET_PATH.with(|flag| flag.set(true));
        rounds(100);
        ON_PACKET_PATH.with(|flag| flag.set(false));
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), 0, "{way}");
    }
}
