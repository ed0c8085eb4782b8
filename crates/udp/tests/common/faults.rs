//! What goes wrong is told, counted, and does not end a run: what holds for each path over UDP sockets.

use crate::common::*;
use crate::path::Mode;
use mpps_io::{Burst, ErrorKind, Frame, Port, Queue, Wait};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

#[test]
fn a_missing_listener_is_counted_and_traffic_passes_once_it_is_there() {
    let listen = free_port("127.0.0.1");
    let to = SocketAddr::from(([127, 0, 0, 1], listen));
    let client = port("127.0.0.1", connected("127.0.0.1", to, 2), &[BOTH]);
    let pool = client.pool(0).expect("pool");
    let mut queue = client.queue(0, &pool).expect("queue");
    let mut burst = Burst::new(64);
    for _ in 0..50 {
        send_all(&mut queue, &[(0, pattern(1, 32)), (1, pattern(2, 32))]);
        assert_eq!(queue.receive(&mut burst).expect("receive"), 0);
    }
    assert!(other(&client, 0, "refused") > 0);
    assert_eq!(client.counters(0).tx_failed, 0);
    let server = UdpSocket::bind(to).expect("bind");
    server.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
    send_all(&mut queue, &[(0, pattern(3, 32)), (1, pattern(4, 32))]);
    let mut buffer = [0; 64];
    for _ in 0..2 {
        let (n, from) = server.recv_from(&mut buffer).expect("datagram");
        server.send_to(&buffer[..n], from).expect("answer");
    }
    let mut got = receive_all(&mut queue, 2);
    got.sort();
    assert_eq!(got, [(Some(0), pattern(3, 32)), (Some(1), pattern(4, 32))]);
}

#[test]
fn what_a_full_receive_buffer_drops_is_counted_exactly() {
    let listen = free_port("127.0.0.1");
    let rx = port(&format!("127.0.0.1:{listen},rcvbuf=16K"), Mode::Listening, &[RX]);
    let to = SocketAddr::from(([127, 0, 0, 1], listen));
    let tx = port("127.0.0.1", connected("127.0.0.1", to, 1), &[TX]);
    let (rx_pool, tx_pool) = (rx.pool(0).expect("pool"), tx.pool(0).expect("pool"));
    let (mut rx_queue, mut tx_queue) = (
        rx.queue(0, &rx_pool).expect("queue"),
        tx.queue(0, &tx_pool).expect("queue"),
    );
    let sent: Vec<_> = (0..1000).map(|i| (0, pattern(i, 100))).collect();
    send_all(&mut tx_queue, &sent);
    // Loopback delivers before the send returns: what is not there now was dropped.
    let mut received = 0;
    let mut burst = Burst::new(64);
    while rx_queue.receive(&mut burst).expect("receive") > 0 {
        received += burst.len() as u64;
        burst.clear();
    }
    let dropped = rx.counters(0).rx_dropped;
    assert!(dropped > 0 && received > 0, "received {received}, dropped {dropped}");
    assert_eq!(received + dropped, 1000);
    // Read again: the same total, not the sum of both.
    assert_eq!(rx.counters(0).rx_dropped, dropped);
}

#[test]
fn a_port_that_another_program_holds_is_refused_by_name() {
    let held = UdpSocket::bind("127.0.0.1:0").expect("bind");
    let port_number = held.local_addr().expect("address").port();
    let end = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let connected = Mode::Connected(vec![(end(port_number), end(9)).into()]);
    // So it is where flows to several peers share the source.
    let shared = Mode::Connected(vec![
        (end(port_number), end(9)).into(),
        (end(port_number), end(10)).into(),
    ]);
    for (mode, device) in [
        (Mode::Listening, format!("127.0.0.1:{port_number}")),
        (connected, "127.0.0.1".to_owned()),
        (shared, "127.0.0.1".to_owned()),
    ] {
        let error = try_port(&device, mode, &[BOTH]).err().expect("refused");
        assert_eq!(error.kind, ErrorKind::InUse);
        let text = error.to_string();
        assert!(
            text.contains(&format!("127.0.0.1:{port_number}")) && text.contains("in use by another program"),
            "{text}"
        );
    }
    // One of our own listeners shares its port among its lanes, not with anybody else.
    let listen = free_port("127.0.0.1");
    let device = format!("127.0.0.1:{listen}");
    let first = port(&device, Mode::Listening, &[BOTH, BOTH]);
    let second = try_port(&device, Mode::Listening, &[BOTH]);
    assert_eq!(second.err().expect("refused").kind, ErrorKind::InUse);
    drop(first);
    port(&device, Mode::Listening, &[BOTH]);
}

#[test]
fn frames_dropped_unsent_return_to_the_pool() {
    let port = port(
        "127.0.0.1",
        connected("127.0.0.1", SocketAddr::from(([127, 0, 0, 1], 9)), 1),
        &[TX],
    );
    let pool = port.pool(0).expect("pool");
    let mut queue = port.queue(0, &pool).expect("queue");
    let mut bursts: Vec<_> = Vec::new();
    let mut size = 0;
    loop {
        let mut burst = Burst::new(256);
        let n = queue.allocate(&mut burst, 256).expect("allocate");
        size += n;
        bursts.push(burst);
        if n < 256 {
            break;
        }
    }
    assert!(size >= 512, "{size} frames");
    bursts.clear();
    let mut burst = Burst::new(256);
    for _ in 0..10 * size / 256 {
        assert_eq!(queue.allocate(&mut burst, 256).expect("allocate"), 256);
        burst.clear();
    }
}

#[test]
fn received_frames_held_back_stop_reception_and_nothing_is_lost() {
    for options in ["", ",gro=on"] {
        let listen = free_port("127.0.0.1");
        let rx = port(&format!("127.0.0.1:{listen}{options}"), Mode::Listening, &[RX]);
        let pool = rx.pool(0).expect("pool");
        let client = UdpSocket::bind("127.0.0.1:0").expect("bind");
        for i in 0..2000 {
            client.send_to(&pattern(i, 20), ("127.0.0.1", listen)).expect("send");
        }
        assert_eq!(rx.counters(0).rx_dropped, 0);
        let mut got = Vec::new();
        // The queue is taken into use anew after each stop: buffers posted and pending must not leak.
        while got.len() < 2000 {
            let mut queue = rx.queue(0, &pool).expect("queue");
            let mut held = Vec::new();
            loop {
                let mut burst = Burst::new(100);
                let n = queue.receive(&mut burst).expect("receive");
                got.extend(burst.as_slice().iter().map(|f| f.bytes().to_vec()));
                held.push(burst);
                if n == 0 {
                    break;
                }
            }
        }
        assert!(
            got.iter().enumerate().all(|(i, bytes)| *bytes == pattern(i, 20)),
            "{options}"
        );
    }
}

#[test]
fn a_datagram_longer_than_a_frame_is_cut_and_says_so() {
    if !in_own_network("shared::a_datagram_longer_than_a_frame_is_cut_and_says_so") {
        return;
    }
    ip("link set lo mtu 1500 up");
    let listen = free_port("127.0.0.1");
    let rx = port(&format!("127.0.0.1:{listen}"), Mode::Listening, &[RX]);
    let pool = rx.pool(0).expect("pool");
    let mut queue = rx.queue(0, &pool).expect("queue");
    let client = UdpSocket::bind("127.0.0.1:0").expect("bind");
    client.send_to(&vec![7; 60_000], ("127.0.0.1", listen)).expect("send");
    let mut burst = Burst::new(8);
    until("received", || queue.receive(&mut burst).expect("receive") > 0);
    assert_eq!(burst.as_slice()[0].wire_len(), 60_000);
    assert_eq!(burst.as_slice()[0].bytes().len(), 1472);
    assert_eq!(other(&rx, 0, "rx_truncated"), 1);
}

#[test]
fn an_interface_that_goes_down_is_told_and_traffic_passes_when_it_is_back() {
    if !in_own_network("shared::an_interface_that_goes_down_is_told_and_traffic_passes_when_it_is_back") {
        return;
    }
    ip("link add name mpps-a type veth peer name mpps-b");
    ip("addr add 10.0.0.1/24 dev mpps-a");
    ip("link set mpps-a up");
    ip("link set mpps-b up");
    let to = SocketAddr::from(([10, 0, 0, 2], 9));
    let tx = port("10.0.0.1", connected("10.0.0.1", to, 1), &[BOTH]);
    assert_eq!(tx.capabilities().max_frame, 1472);
    let pool = tx.pool(0).expect("pool");
    let mut queue = tx.queue(0, &pool).expect("queue");
    send_all(&mut queue, &[(0, pattern(0, 100))]);
    ip("link set mpps-a down");
    let mut burst = Burst::new(4);
    until("link down told", || {
        burst.clear();
        queue.allocate(&mut burst, 1).expect("allocate");
        burst.as_mut_slice()[0].set_len(100);
        queue.transmit(&mut burst).is_err_and(|e| e.kind == ErrorKind::LinkDown)
    });
    // Nothing is given up: what was taken waits for the link, and the rest stays in the burst.
    assert_eq!(burst.len(), 1);
    // A ring tells of the sends that wait with whatever call comes next.
    match queue.receive(&mut Burst::new(4)) {
        Ok(received) => assert_eq!(received, 0),
        Err(error) => assert_eq!(error.kind, ErrorKind::LinkDown),
    }
    ip("link set mpps-a up");
    until("sent after the link is back", || {
        queue.transmit(&mut burst).is_ok_and(|n| n == 1)
    });
    // A queue that goes ends what is under way.
    drop(queue);
    assert_eq!(tx.counters(0).tx_failed, 0);
}

#[test]
fn a_datagram_that_no_longer_fits_the_mtu_is_an_error_that_says_so() {
    if !in_own_network("shared::a_datagram_that_no_longer_fits_the_mtu_is_an_error_that_says_so") {
        return;
    }
    ip("link set lo up");
    for options in ["", ",gso=on"] {
        ip("link set lo mtu 9000");
        let to = SocketAddr::from(([127, 0, 0, 1], free_port("127.0.0.1")));
        let _held = UdpSocket::bind(to).expect("bind");
        let tx = port(&format!("127.0.0.1{options}"), connected("127.0.0.1", to, 1), &[TX]);
        assert_eq!(tx.capabilities().max_frame, 8972);
        let pool = tx.pool(0).expect("pool");
        let mut queue = tx.queue(0, &pool).expect("queue");
        send_all(&mut queue, &[(0, pattern(0, 8972)), (0, pattern(0, 8972))]);
        ip("link set lo mtu 1500");
        let mut burst = Burst::new(4);
        queue.allocate(&mut burst, 2).expect("allocate");
        // A ring takes them, and reports it with a later call.
        let mut error = None;
        until("an error", || {
            error = queue.transmit(&mut burst).err();
            error.is_some()
        });
        let error = error.expect("it was waited for");
        // The MTU may be raised again: nothing is given up.
        assert_eq!(error.kind, ErrorKind::NoWay(mpps_io::Obstacle::TooLong), "{error}");
        assert_eq!(tx.counters(0).tx_failed, 0);
        let error = error.to_string();
        assert!(error.contains("8972 bytes") && error.contains("MTU"), "{error}");
    }
}

#[test]
fn an_address_that_is_not_ours_is_refused() {
    let error = try_port("192.0.2.1:9000", Mode::Listening, &[BOTH])
        .err()
        .expect("refused");
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.to_string().contains("192.0.2.1:9000"), "{error}");
}

#[test]
fn an_idle_wait_ends_when_something_comes() {
    let listen = free_port("127.0.0.1");
    let rx = port(&format!("127.0.0.1:{listen}"), Mode::Listening, &[RX]);
    let pool = rx.pool(0).expect("pool");
    let mut queue = rx.queue(0, &pool).expect("queue");
    let sender = std::thread::spawn(move || {
        let client = UdpSocket::bind("127.0.0.1:0").expect("bind");
        client.send_to(b"wake", ("127.0.0.1", listen)).expect("send");
    });
    let mut burst = Burst::new(8);
    // Either it is there already or the wait ends early: an hour passes in neither case.
    until("woken", || {
        queue
            .wait(Wait { rx: true, tx: false }, Duration::from_secs(3600))
            .expect("wait");
        queue.receive(&mut burst).expect("receive") > 0
    });
    sender.join().expect("sender");
}

#[test]
fn real_buffer_sizes_are_reported() {
    let rx = port(
        &format!("127.0.0.1:{},rcvbuf=64K", free_port("127.0.0.1")),
        Mode::Listening,
        &[RX],
    );
    let facts = rx.facts();
    let value = |name| {
        facts
            .iter()
            .find(|f| f.name == name)
            .map(|f| f.value.clone())
            .expect(name)
    };
    assert_eq!(value("rcvbuf_bytes"), (2 * 65_536).to_string());
    assert_eq!(value("sockets"), "1");
    assert_eq!(rx.capabilities().max_frame, 65_507);
}

#[test]
fn an_allocated_frame_on_a_listener_and_a_flow_out_of_range_are_errors_that_leave_the_frame() {
    let rx = port(
        &format!("127.0.0.1:{}", free_port("127.0.0.1")),
        Mode::Listening,
        &[BOTH],
    );
    let to = SocketAddr::from(([127, 0, 0, 1], 9));
    let tx = port("127.0.0.1", connected("127.0.0.1", to, 2), &[BOTH]);
    for port in [&rx, &tx] {
        let pool = port.pool(0).expect("pool");
        let mut queue = port.queue(0, &pool).expect("queue");
        assert!(port.queue(0, &pool).is_err_and(|e| e.kind == ErrorKind::InUse));
        let mut burst = Burst::new(8);
        queue.allocate(&mut burst, 1).expect("allocate");
        burst.as_mut_slice()[0].set_flow(2);
        assert_eq!(
            queue.transmit(&mut burst).expect_err("error").kind,
            ErrorKind::Unsupported
        );
        assert_eq!(burst.len(), 1);
    }
}
