//! What the kernel offers beside moving frames: timestamps, offloads, statistics, busy polling.
#![cfg(not(miri))]

mod lab;

use std::time::Duration;

use lab::{Host, Lab, Make, Random, checksum, over, send_one, udp4, until};
use xsk::{AttachedMode, BusyPoll, Error, Program, ProgramMode, Ready, Socket, TxRequest, Umem};

const IP: [u8; 4] = [10, 9, 0, 2];

fn frame(len: usize) -> Vec<u8> {
    udp4([2, 0, 0, 0, 0, 1], IP, 9000, len, &mut Random(3))
}

fn clock(id: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one structure, which is ours.
    assert_eq!(unsafe { libc::clock_gettime(id, &raw mut now) }, 0);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[test]
fn the_time_of_arrival_lies_in_front_of_the_frame_in_both_modes() {
    for mode in [ProgramMode::Native, ProgramMode::Skb] {
        let Some(lab) = Lab::new(1, 1500) else { return };
        let mut make = Make::default().mode(mode);
        make.program.rx_timestamp = true;
        let ends = [Host::A, Host::B].map(|host| lab.end(host, "veth0", 0, &make));
        let pools = [ends[0].pool(), ends[1].pool()];
        let (_rx, mut tx) = over((&ends[0].socket, &pools[0]));
        let (mut rx, _tx) = over((&ends[1].socket, &pools[1]));
        let before = clock(libc::CLOCK_MONOTONIC);
        send_one(&mut tx, &pools[0], &frame(100));
        let mut time = None;
        until("the frame arrives", || {
            rx.receive(1, |frame| {
                assert_eq!(frame.bytes(), self::frame(100));
                time = frame.metadata_u64();
            }) == 1
        });
        let after = clock(libc::CLOCK_MONOTONIC);
        assert!(
            time.is_some_and(|t| (before..=after).contains(&t)),
            "{before} {time:?} {after}"
        );
        assert_eq!(ends[1].program.counters().unwrap().no_metadata, 0);
    }
}

/// A UDP frame with the pseudo-header's sum where its checksum goes, as the kernel wants it.
fn with_pseudo_sum(len: usize) -> Vec<u8> {
    let mut bytes = frame(len);
    let sum = !checksum(&bytes[26..34], 17 + (len - 34) as u32);
    bytes[40..42].copy_from_slice(&sum.to_be_bytes());
    bytes
}

#[test]
fn the_kernel_computes_a_requested_checksum_in_software() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let mut make = Make::default();
    make.umem.tx_metadata_len = 24;
    make.umem.tx_software_checksum = true;
    let ends = [Host::A, Host::B].map(|host| lab.end(host, "veth0", 0, &make));
    let pools = [ends[0].pool(), ends[1].pool()];
    let (_rx, mut tx) = over((&ends[0].socket, &pools[0]));
    let (mut rx, _tx) = over((&ends[1].socket, &pools[1]));
    let bytes = with_pseudo_sum(123);
    let mut out = pools[0].allocate_one().unwrap();
    out.set_len(bytes.len());
    out.bytes_mut().copy_from_slice(&bytes);
    let request = TxRequest {
        checksum: Some((34, 6)),
        ..TxRequest::default()
    };
    assert!(out.request(&request));
    assert_eq!(tx.send([out]), 1);
    tx.kick().unwrap();
    let mut got = Vec::new();
    until("the frame arrives", || {
        rx.receive(1, |frame| got.extend_from_slice(frame.bytes())) == 1
    });
    assert_ne!(got[40..42], bytes[40..42], "the kernel left the field alone");
    // Right when the sum over pseudo-header and datagram is all ones (RFC 768).
    let pseudo = u32::from(!checksum(&got[26..34], 17 + (got.len() - 34) as u32));
    assert_eq!(checksum(&got[34..], pseudo), 0);
}

#[test]
fn the_time_of_transmission_comes_with_the_completion() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let mut make = Make::default();
    make.umem.tx_metadata_len = 24;
    let ends = [Host::A, Host::B].map(|host| lab.end(host, "veth0", 0, &make));
    let pool = ends[0].pool();
    let (_rx, mut tx) = over((&ends[0].socket, &pool));
    let before = clock(libc::CLOCK_TAI);
    let mut out = pool.allocate_one().unwrap();
    out.set_len(100);
    out.bytes_mut().copy_from_slice(&frame(100));
    let request = TxRequest {
        timestamp: true,
        ..TxRequest::default()
    };
    assert!(out.request(&request));
    assert_eq!(tx.send([out]), 1);
    tx.kick().unwrap();
    let mut time = None;
    until("the completion comes", || {
        tx.reclaim_frames(1, |frame| time = frame.tx_timestamp()) == 1
    });
    let after = clock(libc::CLOCK_TAI);
    assert!(
        time.is_some_and(|t| (before..=after).contains(&t)),
        "{before} {time:?} {after}"
    );
}

#[test]
fn a_launch_time_is_taken_by_the_kernel() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let mut make = Make::default();
    make.umem.tx_metadata_len = 24;
    let ends = [Host::A, Host::B].map(|host| lab.end(host, "veth0", 0, &make));
    let pools = [ends[0].pool(), ends[1].pool()];
    let (_rx, mut tx) = over((&ends[0].socket, &pools[0]));
    let (mut rx, _tx) = over((&ends[1].socket, &pools[1]));
    let mut out = pools[0].allocate_one().unwrap();
    out.set_len(100);
    out.bytes_mut().copy_from_slice(&frame(100));
    let request = TxRequest {
        launch_time: Some(clock(libc::CLOCK_TAI) + 1000),
        ..TxRequest::default()
    };
    assert!(out.request(&request));
    assert_eq!(tx.send([out]), 1);
    tx.kick().unwrap();
    until("the frame arrives", || rx.receive(1, drop) == 1);
    assert_eq!(ends[0].socket.statistics().unwrap().tx_invalid_descs, 0);
}

#[test]
fn statistics_tell_a_full_rx_ring_from_an_empty_fill_ring() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let send = lab.end(Host::A, "veth0", 0, &Make::default());
    let mut make = Make::default();
    make.socket.rx_ring = 64;
    let full = lab.end(Host::B, "veth0", 0, &make);
    let pools = [send.pool(), full.pool()];
    let (_rx, mut tx) = over((&send.socket, &pools[0]));
    let mut halves = over((&full.socket, &pools[1]));
    for _ in 0..100 {
        send_one(&mut tx, &pools[0], &frame(100));
    }
    until("the ring overflows", || {
        full.socket.statistics().unwrap().rx_ring_full == 36
    });
    assert_eq!(halves.0.available(), 64);
    assert_eq!(full.socket.statistics().unwrap().rx_lost(), 36);

    // No chunk given back: with the fill ring drained, frames are lost for the want of one.
    until("the fill ring is empty", || {
        send_one(&mut tx, &pools[0], &frame(100));
        halves.0.set_fill_limit(1);
        let held: Vec<_> = {
            let mut held = Vec::new();
            halves.0.receive(64, |frame| held.push(frame));
            held
        };
        std::mem::drop(held);
        full.socket.statistics().unwrap().rx_fill_ring_empty_descs > 0 || halves.0.fill_level() <= 1
    });
}

#[test]
fn frames_that_exceed_a_chunk_are_counted_as_dropped() {
    let Some(lab) = Lab::new(1, 3000) else { return };
    let mut make = Make::default();
    make.umem.frame_size = 4096;
    let send = lab.end(Host::A, "veth0", 0, &make);
    let receive = lab.end(Host::B, "veth0", 0, &Make::default());
    let pools = [send.pool(), receive.pool()];
    let (_rx, mut tx) = over((&send.socket, &pools[0]));
    let (mut rx, _tx) = over((&receive.socket, &pools[1]));
    send_one(&mut tx, &pools[0], &frame(2500));
    until("it is counted", || receive.socket.statistics().unwrap().rx_dropped == 1);
    assert_eq!(rx.available(), 0);
}

#[test]
fn busy_polling_is_set_up_and_carries_frames() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let mut make = Make::default();
    make.socket.busy_poll = Some(BusyPoll {
        budget: 64,
        usecs: 20,
        prefer: true,
    });
    let ends = [Host::A, Host::B].map(|host| lab.end(host, "veth0", 0, &make));
    let pools = [ends[0].pool(), ends[1].pool()];
    let (_rx, mut tx) = over((&ends[0].socket, &pools[0]));
    let (mut rx, _tx) = over((&ends[1].socket, &pools[1]));
    let mut received = 0;
    for n in 1..=100 {
        send_one(&mut tx, &pools[0], &frame(100));
        until("the frame arrives", || {
            rx.wake().unwrap();
            received += rx.receive(64, drop);
            received == n
        });
    }
    // Without a number the kernel knows no poll loop to run: on veth in copy mode, for instance.
    println!("NAPI id: {:?}", ends[1].socket.incoming_napi_id());
}

#[test]
fn a_tx_budget_is_set_or_refused_by_name() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    lab.enter(Host::A);
    let mut make = Make::default();
    make.socket.tx_budget = Some(512);
    let umem = Umem::new(&make.umem).unwrap();
    match Socket::bind(&umem, "veth0", 0, &make.socket) {
        Ok(socket) => assert_eq!(socket.options().tx_budget, Some(512)),
        Err(Error::Unsupported { why, .. }) => {
            assert!(why.contains("6.17"), "{why}");
            lab::skip("this kernel has no XDP_MAX_TX_SKB_BUDGET");
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn poll_waits_for_frames_and_for_room() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let ends = [Host::A, Host::B].map(|host| lab.end(host, "veth0", 0, &Make::default()));
    let pools = [ends[0].pool(), ends[1].pool()];
    let (_rx, mut tx) = over((&ends[0].socket, &pools[0]));
    let (_keep, _tx) = over((&ends[1].socket, &pools[1]));
    let (receive, transmit) = (Ready { rx: true, tx: false }, Ready { rx: false, tx: true });
    let socket = &ends[1].socket;
    assert_eq!(
        socket.poll(receive, Duration::from_millis(20)).unwrap(),
        Ready::default()
    );
    assert_eq!(socket.poll(transmit, Duration::from_secs(5)).unwrap(), transmit);
    send_one(&mut tx, &pools[0], &frame(100));
    assert_eq!(socket.poll(receive, Duration::from_secs(5)).unwrap(), receive);
}

#[test]
fn auto_runs_on_socket_buffers_where_the_driver_cannot_and_says_why() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    lab.ip(Host::A, "link set lo up");
    lab.enter(Host::A);
    let mut config = Make::default().program;
    let program = Program::attach("lo", &config).unwrap();
    assert_eq!(program.mode(), AttachedMode::Skb);
    assert!(
        program
            .why_not_native()
            .is_some_and(|why| why.contains("no native XDP"))
    );
    drop(program);
    config.mode = ProgramMode::Native;
    let error = Program::attach("lo", &config).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");

    // An MTU that takes several buffers, and a program that wasn't made for them.
    lab.pair("veth1", 1, 9000);
    let error = Program::attach("veth1", &config).unwrap_err();
    assert!(error.to_string().contains("MTU"), "{error}");
    config.frags = true;
    assert_eq!(Program::attach("veth1", &config).unwrap().mode(), AttachedMode::Native);
}
