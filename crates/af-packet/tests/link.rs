//! Interfaces that are missing, go down, come back, or are removed.

mod common;

use common::{BOTH, DEADLINE, IP_B, Lab, MAC_B, receive, udp};
use mpps_af_packet::netdev::{NetDev, neighbor_lookup, route_lookup};
use mpps_io::{Burst, ErrorKind, Frame, Port, Queue, Wait};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Waits on the queue until it reports an error.
fn error_of_wait(queue: &mut mpps_af_packet::AfPacketQueue<'_>) -> Option<ErrorKind> {
    let end = Instant::now() + DEADLINE;
    while Instant::now() < end {
        if let Err(e) = queue.wait(Wait { rx: true, tx: false }, Duration::from_millis(20)) {
            return Some(e.kind);
        }
    }
    None
}

fn one<'p>(queue: &mut mpps_af_packet::AfPacketQueue<'p>) -> Burst<mpps_af_packet::AfPacketFrame<'p>> {
    let mut burst = Burst::new(4);
    assert_eq!(queue.allocate(&mut burst, 1).expect("allocate"), 1);
    let bytes = udp(MAC_B, IP_B, 1, 2, 18, 7);
    burst.as_mut_slice()[0].set_len(bytes.len());
    burst.as_mut_slice()[0].bytes_mut().copy_from_slice(&bytes);
    burst
}

#[test]
fn down_is_link_down_on_every_call_without_losing_frames_and_up_works_again() {
    let Some(lab) = Lab::bare() else { return };
    let (a, b) = lab.ports("");
    let (pool_a, pool_b) = (a.pool(0).expect("pool"), b.pool(0).expect("pool"));
    let (mut qa, mut qb) = (a.queue(0, &pool_a).expect("queue"), b.queue(0, &pool_b).expect("queue"));
    lab.a.ip("link set va down");
    assert_eq!(error_of_wait(&mut qa), Some(ErrorKind::LinkDown));
    let mut burst = one(&mut qa);
    assert_eq!(qa.transmit(&mut burst).expect_err("down").kind, ErrorKind::LinkDown);
    assert_eq!(burst.len(), 1);
    let end = Instant::now() + DEADLINE;
    let mut received = Burst::new(4);
    let polled = std::iter::from_fn(|| (Instant::now() < end).then(|| qa.receive(&mut received)));
    assert_eq!(
        polled.filter_map(Result::err).next().map(|e| e.kind),
        Some(ErrorKind::LinkDown),
        "polling sees it too"
    );
    // The other end has lost its carrier: sending there tells, receiving does not.
    let mut other = one(&mut qb);
    let tries = std::iter::from_fn(|| (Instant::now() < end).then(|| qb.transmit(&mut other)));
    assert_eq!(
        tries.filter_map(Result::err).next().map(|e| e.kind),
        Some(ErrorKind::LinkDown),
        "no carrier"
    );
    assert_eq!(other.len(), 1);

    lab.a.ip("link set va up");
    while qa.transmit(&mut burst).unwrap_or(0) == 0 {
        assert!(Instant::now() < end, "did not come back");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(
        receive(&mut qb, 1, |f| f.bytes().to_vec()),
        [udp(MAC_B, IP_B, 1, 2, 18, 7)],
        "sent once"
    );
    while qb.transmit(&mut other).unwrap_or(0) == 0 {
        assert!(Instant::now() < end, "did not come back");
        std::thread::sleep(Duration::from_millis(5));
    }
    while qa.receive(&mut received).unwrap_or(0) == 0 {
        assert!(Instant::now() < end, "did not receive again");
    }
}

#[test]
fn a_removed_interface_is_gone_even_when_one_of_its_name_returns() {
    let Some(lab) = Lab::bare() else { return };
    let (a, b) = lab.ports("");
    let (pool_a, pool_b) = (a.pool(0).expect("pool"), b.pool(0).expect("pool"));
    let (mut qa, mut qb) = (a.queue(0, &pool_a).expect("queue"), b.queue(0, &pool_b).expect("queue"));
    let mut burst = one(&mut qa);
    lab.a.ip("link del va");
    lab.a.ip("link add va type veth peer name vc");
    lab.a.ip("link set va up");
    assert_eq!(qa.transmit(&mut burst).expect_err("removed").kind, ErrorKind::Gone);
    assert_eq!(burst.len(), 1);
    assert_eq!(error_of_wait(&mut qa), Some(ErrorKind::Gone));
    let end = Instant::now() + DEADLINE;
    let mut received = Burst::new(4);
    let polled = std::iter::from_fn(|| (Instant::now() < end).then(|| qb.receive(&mut received)));
    assert_eq!(
        polled.filter_map(Result::err).next().map(|e| e.kind),
        Some(ErrorKind::Gone),
        "a lane that only polls"
    );
}

#[test]
fn a_missing_interface_is_named_with_those_that_exist() {
    let Some(lab) = Lab::new() else { return };
    let error = lab.a.open("af_packet:nope0", &[BOTH], None).err().expect("missing");
    assert_eq!(error.kind, ErrorKind::NotFound);
    let text = error.to_string();
    assert!(
        text.contains("nope0") && text.contains("lo, va") && !text.contains('\n'),
        "{text}"
    );
}

#[test]
fn a_queue_can_be_taken_once() {
    let Some(lab) = Lab::new() else { return };
    let (a, _b) = lab.ports("");
    let pool = a.pool(0).expect("pool");
    assert!(a.pool(0).is_err());
    let _queue = a.queue(0, &pool).expect("queue");
    assert_eq!(a.queue(0, &pool).err().map(|e| e.kind), Some(ErrorKind::InUse));
    assert_eq!(a.queue(1, &pool).err().map(|e| e.kind), Some(ErrorKind::NotFound));
}

#[test]
fn the_port_can_be_opened_again_after_it_was_dropped_and_beside_another() {
    let Some(lab) = Lab::new() else { return };
    let two = [BOTH, BOTH];
    let first = lab.a.open("af_packet:va", &two, None).expect("open");
    let beside = lab
        .a
        .open("af_packet:va", &two, None)
        .expect("a second fanout group on the interface");
    drop((first, beside));
    drop(
        lab.a
            .open("af_packet:va,fanout=lb", &two, None)
            .expect("open with another mode"),
    );
}

#[test]
fn the_kernels_tables_are_read() {
    let Some(lab) = Lab::new() else { return };
    let ip = |text: &str| text.parse::<IpAddr>().expect("address");
    lab.a.ip("route add default via 10.88.0.2 dev va");
    lab.a.ip("-6 address add fd88::1/64 dev va nodad");
    lab.a.ip("-6 route add default via fd88::2 dev va");
    lab.a.ip("neigh add 10.88.0.2 lladdr 02:00:00:00:00:0b dev va");
    lab.a.ip("neigh add fd88::2 lladdr 02:00:00:00:00:0c dev va");
    lab.a.run(|| {
        let device = NetDev::by_name("va").expect("device");
        assert_eq!(
            (device.mac, device.mtu, device.driver.as_str()),
            (common::MAC_A, 1500, "veth")
        );
        assert!(device.up && device.is_virtual && device.ethernet);
        assert!(device.addresses.contains(&(ip("10.88.0.1"), 24)) && device.addresses.contains(&(ip("fd88::1"), 64)));
        let index = device.ifindex;
        let near = route_lookup(ip("10.88.0.9"), index).expect("route");
        assert_eq!((near.next_hop, near.source), (ip("10.88.0.9"), Some(ip("10.88.0.1"))));
        assert_eq!(
            route_lookup(ip("192.0.2.1"), index).expect("route").next_hop,
            ip("10.88.0.2")
        );
        let far = route_lookup(ip("2001:db8::1"), index).expect("route");
        assert_eq!((far.next_hop, far.source), (ip("fd88::2"), Some(ip("fd88::1"))));
        assert_eq!(neighbor_lookup(ip("10.88.0.2"), index).expect("table"), Some(MAC_B));
        assert_eq!(
            neighbor_lookup(ip("fd88::2"), index).expect("table"),
            Some([2, 0, 0, 0, 0, 0xc])
        );
        assert_eq!(neighbor_lookup(ip("10.88.0.77"), index).expect("table"), None);
        assert_eq!(
            NetDev::by_name("nope0").expect_err("missing").kind(),
            std::io::ErrorKind::NotFound
        );
    });
}
