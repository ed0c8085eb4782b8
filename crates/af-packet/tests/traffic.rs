//! What goes in comes out: both directions, tags, sizes, checksums, rings under pressure.

mod common;

use common::{BOTH, DEADLINE, IP_B, Lab, MAC_A, MAC_B, receive, send, udp};
use mpps_io::{Burst, Frame, Port, Queue, Roles, RoomUnit, RxChecksum, Wait};
use mpps_sys::clock::monotonic_ns;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

macro_rules! lab {
    () => {
        match Lab::bare() {
            Some(lab) => lab,
            None => return,
        }
    };
}

macro_rules! queue {
    ($port:ident, $pool:ident, $queue:ident) => {
        let $pool = $port.pool(0).expect("pool");
        #[allow(unused_mut)]
        let mut $queue = $port.queue(0, &$pool).expect("queue");
    };
}

#[test]
fn frames_arrive_bit_identical_in_order_both_ways_at_every_size() {
    let lab = lab!();
    let (a, b) = lab.ports(",ring=2048");
    queue!(a, pool_a, qa);
    queue!(b, pool_b, qb);
    let frames: Vec<_> = (0..1473)
        .step_by(3)
        .map(|n| udp(MAC_B, IP_B, 1000, 2000, n, n as u64))
        .collect();
    send(&mut qa, &frames);
    let got = receive(&mut qb, frames.len(), |f| f.bytes().to_vec());
    assert_eq!(got, frames);
    send(&mut qb, &frames);
    let got = receive(&mut qa, frames.len(), |f| f.bytes().to_vec());
    assert_eq!(got, frames);
    assert_eq!(b.counters(0).rx_dropped, 0);
    assert!(
        receive(&mut qb, 0, |f| f.bytes().to_vec()).is_empty(),
        "own transmissions are not received"
    );
}

#[test]
fn a_vlan_tag_arrives_where_it_was_sent_and_full_size_frames_may_carry_one() {
    let lab = lab!();
    let (a, b) = lab.ports("");
    queue!(a, pool_a, qa);
    queue!(b, pool_b, qb);
    let tagged: Vec<Vec<u8>> = [[0x81, 0, 0xa0, 7], [0x88, 0xa8, 0, 9]]
        .iter()
        .flat_map(|tag| {
            [18, 1472].map(|n| {
                let mut f = udp(MAC_B, IP_B, 1, 2, n, 3);
                f.splice(12..12, tag.iter().copied());
                f
            })
        })
        .collect();
    send(&mut qa, &tagged);
    assert_eq!(
        receive(&mut qb, tagged.len(), |f| (f.bytes().to_vec(), f.wire_len())),
        tagged.iter().map(|f| (f.clone(), f.len())).collect::<Vec<_>>()
    );
    assert_eq!(a.counters(0).tx_failed, 0);
}

#[test]
fn a_checksum_left_to_the_device_arrives_flagged_partial_and_others_unverified() {
    let lab = lab!();
    let (a, b) = lab.ports(",csum=device");
    assert!(a.capabilities().tx_checksum);
    queue!(a, pool_a, qa);
    queue!(b, pool_b, qb);
    let mut arp = udp(MAC_B, IP_B, 1, 2, 18, 3);
    arp[12..14].copy_from_slice(&[8, 6]);
    send(&mut qa, &[udp(MAC_B, IP_B, 1, 2, 18, 3), arp]);
    assert_eq!(
        receive(&mut qb, 2, |f| f.rx_checksum()),
        [RxChecksum::Partial, RxChecksum::Unverified]
    );
}

#[test]
fn by_default_a_veth_leaves_checksums_to_software() {
    let lab = lab!();
    let (a, _b) = lab.ports("");
    assert!(!a.capabilities().tx_checksum);
    assert_eq!(a.capabilities().mac, Some(MAC_A));
    assert_eq!(a.capabilities().max_frame, 1514);
}

#[test]
fn frames_allocated_and_dropped_or_sent_out_of_order_block_nothing() {
    let lab = lab!();
    let (a, b) = lab.ports(",ring=64");
    queue!(a, pool_a, qa);
    queue!(b, pool_b, qb);
    let mut held = Burst::new(8);
    assert_eq!(qa.allocate(&mut held, 8).expect("allocate"), 8);
    for round in 0..100u64 {
        let mut burst = Burst::new(16);
        qa.allocate(&mut burst, 16).expect("allocate");
        burst.retain(|_| false);
        let frames: Vec<_> = (0..5).map(|i| udp(MAC_B, IP_B, 1, 2, 18, round * 5 + i)).collect();
        send(&mut qa, &frames);
        assert_eq!(receive(&mut qb, 5, |f| f.bytes().to_vec()), frames);
    }
    for f in held.as_mut_slice() {
        f.set_len(60);
    }
    assert_eq!(qa.transmit(&mut held).expect("transmit"), 8);
    assert_eq!(receive(&mut qb, 8, |_| ()).len(), 8);
}

#[test]
fn the_pool_hands_out_what_it_has_and_not_more() {
    let lab = lab!();
    let (a, _b) = lab.ports("");
    queue!(a, pool_a, qa);
    let mut bursts = Vec::new();
    loop {
        let mut burst = Burst::new(64);
        let n = qa.allocate(&mut burst, 64).expect("allocate");
        bursts.push(burst);
        if n < 64 {
            break;
        }
    }
    let total: usize = bursts.iter().map(Burst::len).sum();
    assert!(total >= mpps_io::MAX_BURST);
    bursts.clear();
    let mut burst = Burst::new(64);
    assert_eq!(qa.allocate(&mut burst, 64).expect("allocate"), 64);
}

#[test]
fn what_the_ring_could_not_hold_is_counted_exactly() {
    let lab = lab!();
    let (a, b) = lab.ports(",ring=64");
    queue!(a, pool_a, qa);
    queue!(b, pool_b, qb);
    let frames: Vec<_> = (0..5000).map(|i| udp(MAC_B, IP_B, 1, 2, 18, i)).collect();
    send(&mut qa, &frames);
    let first = b.counters(0).rx_dropped;
    assert!(first > 0);
    send(&mut qa, &frames);
    let mut received = 0;
    let end = Instant::now() + DEADLINE;
    while received + b.counters(0).rx_dropped < 10_000 && Instant::now() < end {
        received += receive(&mut qb, 0, |_| ()).len() as u64;
    }
    assert_eq!(received + b.counters(0).rx_dropped, 10_000);
}

#[test]
fn received_frames_may_be_held_and_dropped_in_any_order() {
    let lab = lab!();
    let (a, b) = lab.ports(",ring=64");
    queue!(a, pool_a, qa);
    queue!(b, pool_b, qb);
    let mut held: Vec<Burst<_>> = Vec::new();
    let mut expected = 0u64;
    for round in 0..200u64 {
        let frames: Vec<_> = (0..4).map(|i| udp(MAC_B, IP_B, 1, 2, 18, round * 4 + i)).collect();
        send(&mut qa, &frames);
        let mut burst = Burst::new(4);
        let end = Instant::now() + DEADLINE;
        while burst.room() > 0 && Instant::now() < end {
            qb.wait(Wait { rx: true, tx: false }, Duration::from_millis(10))
                .expect("wait");
            qb.receive(&mut burst).expect("receive");
        }
        for f in burst.as_slice() {
            assert_eq!(f.bytes()[42..50], expected.to_le_bytes());
            expected += 1;
        }
        held.push(burst);
        if held.len() > 5 {
            held.swap_remove((round as usize * 7) % held.len());
        }
    }
    assert_eq!(b.counters(0).rx_dropped, 0);
}

#[test]
fn received_frames_can_be_sent_back() {
    let lab = lab!();
    let (a, b) = lab.ports("");
    queue!(a, pool_a, qa);
    queue!(b, pool_b, qb);
    let frames: Vec<_> = (0..100).map(|i| udp(MAC_B, IP_B, 1, 2, 100, i)).collect();
    send(&mut qa, &frames);
    let mut reflected = 0;
    let mut burst = Burst::new(32);
    let end = Instant::now() + DEADLINE;
    while reflected < 100 && Instant::now() < end {
        qb.receive(&mut burst).expect("receive");
        for f in burst.as_mut_slice() {
            let bytes = f.bytes_mut();
            let (to, from) = bytes.split_at_mut(6);
            to.swap_with_slice(&mut from[..6]);
        }
        reflected += qb.transmit(&mut burst).expect("transmit");
    }
    let got = receive(&mut qa, 100, |f| f.bytes().to_vec());
    assert_eq!(got.len(), 100);
    for (got, sent) in got.iter().zip(&frames) {
        assert_eq!(
            (&got[..6], &got[6..12], &got[12..]),
            (&sent[6..12], &sent[..6], &sent[12..])
        );
    }
}

#[test]
fn frames_that_the_device_cannot_carry_are_taken_and_counted_as_failed() {
    let lab = lab!();
    let (a, b) = lab.ports("");
    queue!(a, pool_a, qa);
    queue!(b, pool_b, qb);
    let good = udp(MAC_B, IP_B, 1, 2, 18, 1);
    let long = udp(MAC_B, IP_B, 1, 2, 1473, 1);
    send(&mut qa, &[good.clone(), long, vec![0; 13], good.clone()]);
    assert_eq!(receive(&mut qb, 2, |f| f.bytes().to_vec()), [good.clone(), good]);
    assert_eq!(a.counters(0).tx_failed, 2);
}

#[test]
fn with_two_receiving_queues_each_flow_stays_on_one_and_both_are_used() {
    let lab = lab!();
    let (a, b) = lab.ports("");
    drop(b);
    let b = lab.b.open("af_packet:vb", &[BOTH, BOTH], None).expect("open");
    queue!(a, pool_a, qa);
    let pools = [b.pool(0).expect("pool"), b.pool(1).expect("pool")];
    let mut queues = [
        b.queue(0, &pools[0]).expect("queue"),
        b.queue(1, &pools[1]).expect("queue"),
    ];
    let frames: Vec<_> = (0..1280)
        .map(|i| udp(MAC_B, IP_B, 1000 + (i % 64) as u16, 2000, 18, i))
        .collect();
    send(&mut qa, &frames);
    let seen = queues
        .each_mut()
        .map(|q| receive(q, 0, |f| u16::from_be_bytes([f.bytes()[34], f.bytes()[35]])));
    assert_eq!(seen[0].len() + seen[1].len(), frames.len(), "each packet once");
    assert!(!seen[0].is_empty() && !seen[1].is_empty());
    assert!(seen[0].iter().all(|port| !seen[1].contains(port)));
}

#[test]
fn a_sender_without_receiving_queues_still_hears_arp_and_nothing_else() {
    let lab = lab!();
    let a = lab.a.open("af_packet:va", &[BOTH], None).expect("open");
    let b = lab
        .b
        .open("af_packet:vb", &[Roles { rx: false, tx: true }], None)
        .expect("open");
    queue!(a, pool_a, qa);
    queue!(b, pool_b, qb);
    let mut arp = udp(MAC_B, IP_B, 1, 2, 18, 3);
    arp[12..14].copy_from_slice(&[8, 6]);
    send(&mut qa, &[udp(MAC_B, IP_B, 1, 2, 18, 3), arp.clone()]);
    assert_eq!(receive(&mut qb, 0, |f| f.bytes().to_vec()), [arp]);
}

#[test]
fn nothing_is_received_before_the_queue_is_taken_nor_from_other_interfaces() {
    let lab = lab!();
    let (a, b) = lab.ports("");
    queue!(a, pool_a, qa);
    send(&mut qa, &[udp(MAC_B, IP_B, 1, 2, 18, 1)]);
    queue!(b, pool_b, qb);
    // Traffic on the loopback interface of the same host.
    let socket = lab.b.run(|| std::net::UdpSocket::bind("127.0.0.1:0")).expect("bind");
    socket
        .send_to(b"x", socket.local_addr().expect("address"))
        .expect("send");
    let frame = udp(MAC_B, IP_B, 1, 2, 18, 2);
    send(&mut qa, std::slice::from_ref(&frame));
    assert_eq!(receive(&mut qb, 1, |f| f.bytes().to_vec()), [frame]);
}

#[test]
fn packets_larger_than_a_slot_come_whole() {
    let lab = lab!();
    let b = lab.b.open("af_packet:vb", &[BOTH], None).expect("open");
    queue!(b, pool_b, qb);
    // The device grows after the port was opened.
    lab.a.ip("link set va mtu 9000");
    lab.b.ip("link set vb mtu 9000");
    let a = lab.a.open("af_packet:va", &[BOTH], None).expect("open");
    queue!(a, pool_a, qa);
    let frame = udp(MAC_B, IP_B, 1, 2, 8000, 1);
    send(&mut qa, std::slice::from_ref(&frame));
    let got = receive(&mut qb, 1, |f| (f.bytes().to_vec(), f.wire_len()));
    assert_eq!(got[0].1, frame.len());
    assert!(got[0].0 == frame, "{} of {} bytes", got[0].0.len(), frame.len());
    let other = b.counters(0).other;
    assert!(other.contains(&("rx_cut", 0)), "{other:?}");
}

#[test]
fn the_fill_of_a_ring_is_what_waits_in_it_wherever_it_begins() {
    let lab = lab!();
    let (a, b) = lab.ports(",ring=64");
    queue!(a, pool_a, qa);
    queue!(b, pool_b, qb);
    let room = qb.rx_room().expect("it has a ring");
    assert_eq!((room.unit, room.count), (RoomUnit::Packets, 1));
    assert!(room.size >= 64, "{room:?}");
    let frames: Vec<_> = (0..200).map(|i| udp(MAC_B, IP_B, 1, 2, 18, i)).collect();
    // Round and round: a prime number at a time.
    for _ in 0..40 {
        send(&mut qa, &frames[..7]);
        let end = Instant::now() + DEADLINE;
        while qb.rx_fill() != Some(7) {
            assert!(Instant::now() < end, "{:?} wait, not 7", qb.rx_fill());
        }
        receive(&mut qb, 7, |_| ());
        assert_eq!(qb.rx_fill(), Some(0));
    }
    // What is held is not there to be received.
    send(&mut qa, &frames[..9]);
    let mut held = Burst::new(4);
    let end = Instant::now() + DEADLINE;
    while held.len() < 4 {
        assert!(Instant::now() < end, "nothing came");
        qb.receive(&mut held).expect("receive");
    }
    while qb.rx_fill() != Some(5) {
        assert!(Instant::now() < end, "{:?} wait, not 5", qb.rx_fill());
    }
    drop(held);
    receive(&mut qb, 5, |_| ());
    send(&mut qa, &frames);
    let end = Instant::now() + DEADLINE;
    while qb.rx_fill() != Some(room.size) {
        assert!(Instant::now() < end, "{:?} of {}", qb.rx_fill(), room.size);
    }
}

#[test]
fn the_kernels_times_of_arrival_are_not_those_of_taking_and_the_lane_has_none() {
    let lab = lab!();
    for (option, timed) in [(",rx_time=kernel", true), (",rx_time=lane", false)] {
        let (a, b) = lab.ports(option);
        queue!(a, pool_a, qa);
        queue!(b, pool_b, qb);
        let frames: Vec<_> = (0..10)
            .map(|n| udp(MAC_B, IP_B, 1, 2, 18 + 100 * n, n as u64))
            .collect();
        let since = monotonic_ns();
        send(&mut qa, &frames);
        std::thread::sleep(Duration::from_millis(50));
        let read = monotonic_ns();
        let times = receive(&mut qb, frames.len(), |f| f.rx_time_ns());
        let came = times
            .iter()
            .all(|at| at.is_none_or(|at| (since..read - 40_000_000).contains(&at)));
        assert!(came, "{times:?}: {since} to {read}");
        assert!(times.iter().all(|at| at.is_some() == timed), "{option}: {times:?}");
        assert!(times.is_sorted(), "{times:?}");
    }
}

#[test]
fn packets_of_a_merged_frame_and_those_longer_than_a_slot_have_the_kernels_times_too() {
    let Some(lab) = Lab::new() else { return };
    // With a socket there, its host has no reason to answer.
    let _receiver = lab.b.run(|| UdpSocket::bind("10.88.0.2:2000")).expect("bind");
    let sender = lab.a.run(|| UdpSocket::bind("10.88.0.1:0")).expect("bind");
    sender.connect("10.88.0.2:2000").expect("connect");
    // Once the other end is known, a packet leaves at once.
    sender.send(&[0; 10]).expect("send");
    std::thread::sleep(Duration::from_millis(50));
    let port = lab.b.open("af_packet:vb,rx_time=kernel", &[BOTH], None).expect("open");
    queue!(port, pool, queue);
    let segment: libc::c_int = 1000;
    // SAFETY: the kernel reads an int that outlives the call.
    let set = unsafe {
        libc::setsockopt(
            sender.as_raw_fd(),
            libc::SOL_UDP,
            103, // UDP_SEGMENT
            (&raw const segment).cast(),
            size_of_val(&segment) as libc::socklen_t,
        )
    };
    assert_eq!(set, 0, "UDP_SEGMENT");
    let since = monotonic_ns();
    sender.send(&[7; 5500]).expect("send");
    std::thread::sleep(Duration::from_millis(50));
    let read = monotonic_ns();
    let mut got = vec![];
    while got.len() < 6 {
        let of_test = receive(&mut queue, 1, |f| (f.bytes().len() > 500).then(|| f.rx_time_ns()));
        got.extend(of_test.into_iter().flatten());
        assert!(monotonic_ns() - read < DEADLINE.as_nanos() as u64, "{got:?}");
    }
    let first = got[0].expect("a time");
    assert!(
        (since..read - 40_000_000).contains(&first),
        "{first}: {since} to {read}"
    );
    assert_eq!(got, [Some(first); 6]);
    assert_eq!(
        port.counters(0).other.iter().find(|c| c.0 == "rx_timed_by_lane"),
        Some(&("rx_timed_by_lane", 0))
    );
}
