//! Frames between two sockets on a veth pair, in every way that rings and memory can be made.
#![cfg(not(miri))]

mod lab;

use lab::{Host, Lab, Make, Random, hash, over, send_one, udp4, until};
use xsk::{AttachedMode, Frame, Pool, ProgramMode, Rx, Socket, Tx};

const ANY_IP: [u8; 4] = [10, 9, 0, 2];

/// One direction: what was sent and what came.
#[derive(Default)]
struct Way {
    sent: u64,
    received: u64,
    hash_sent: u64,
    hash_received: u64,
    /// Bytes of a frame that came in parts.
    part: Vec<u8>,
}

impl Way {
    /// Sends some, if not too many are on their way already.
    fn send<'p>(&mut self, tx: &mut Tx<'p>, pool: &'p Pool, count: u64, sizes: (usize, usize), r: &mut Random) {
        let window = 256_u64.saturating_sub(self.sent - self.received).min(count - self.sent);
        let mut burst: Vec<Frame> = Vec::new();
        for _ in 0..window.min(tx.room() as u64).min(32) {
            let size = sizes.0 + r.below(sizes.1 - sizes.0 + 1);
            let bytes = udp4([2, 0, 0, 0, 0, 1], ANY_IP, 9000 + r.below(100) as u16, size, r);
            let chunk = usize::try_from(pool.umem().config().frame_size).unwrap() - 512;
            let parts = bytes.len().div_ceil(chunk);
            if tx.room() < burst.len() + parts || pool.free() < parts {
                break;
            }
            for (n, part) in bytes.chunks(chunk).enumerate() {
                let mut frame = pool.allocate_one().expect("counted");
                frame.set_len(part.len());
                frame.bytes_mut().copy_from_slice(part);
                frame.set_continued(n + 1 < parts);
                burst.push(frame);
            }
            self.hash_sent = self.hash_sent.wrapping_add(hash(&bytes));
            self.sent += 1;
        }
        let expected = burst.len();
        assert_eq!(tx.send(burst.drain(..)), expected);
        tx.kick().unwrap();
    }

    fn receive(&mut self, rx: &mut Rx<'_>) {
        rx.receive(64, |frame| {
            self.part.extend_from_slice(frame.bytes());
            if !frame.is_continued() {
                self.hash_received = self.hash_received.wrapping_add(hash(&self.part));
                self.received += 1;
                self.part.clear();
            }
        });
        if rx.wakeup_needed() {
            rx.wake().unwrap();
        }
    }
}

/// Both directions at once, until `count` have come in each.
fn exchange(a: (&Socket, &Pool), b: (&Socket, &Pool), count: u64, sizes: (usize, usize)) {
    let (mut rx_a, mut tx_a) = over(a);
    let (mut rx_b, mut tx_b) = over(b);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut there, mut back) = (Way::default(), Way::default());
    until("all frames arrive", || {
        there.send(&mut tx_a, a.1, count, sizes, &mut random);
        back.send(&mut tx_b, b.1, count, sizes, &mut random);
        there.receive(&mut rx_b);
        back.receive(&mut rx_a);
        there.received == count && back.received == count
    });
    for way in [&there, &back] {
        assert_eq!((way.sent, way.hash_sent), (way.received, way.hash_received));
    }
    for socket in [a.0, b.0] {
        let lost = socket.statistics().unwrap();
        assert_eq!(
            (lost.rx_lost(), lost.rx_invalid_descs, lost.tx_invalid_descs),
            (0, 0, 0),
            "{lost:?}"
        );
    }
}

/// A whole exchange with both ends made alike; afterwards every chunk is found again.
fn exchange_with(lab: &Lab, make: &Make, count: u64, sizes: (usize, usize)) {
    let ends = [Host::A, Host::B].map(|host| lab.end(host, "veth0", 0, make));
    let umems = [ends[0].umem.clone(), ends[1].umem.clone()];
    {
        let pools = [ends[0].pool(), ends[1].pool()];
        exchange((&ends[0].socket, &pools[0]), (&ends[1].socket, &pools[1]), count, sizes);
        let counted = ends[1].program.counters().unwrap();
        assert_eq!((counted.taken, counted.no_socket), (count, 0), "{counted:?}");
    }
    drop(ends);
    for umem in umems {
        assert!(umem.audit().is_exact(), "{}", umem.audit());
    }
}

#[test]
fn frames_arrive_bit_identical_in_native_mode() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let make = Make::default().mode(ProgramMode::Native);
    exchange_with(&lab, &make, 20_000, (64, 1514));
}

#[test]
fn frames_arrive_bit_identical_in_skb_mode() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let make = Make::default().mode(ProgramMode::Skb);
    let end = lab.end(Host::A, "veth0", 0, &make);
    assert_eq!(end.program.mode(), AttachedMode::Skb);
    drop(end);
    exchange_with(&lab, &make, 20_000, (64, 1514));
}

#[test]
fn auto_is_native_copy_mode_on_veth_and_says_so() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let end = lab.end(Host::A, "veth0", 0, &Make::default());
    assert_eq!(end.program.mode(), AttachedMode::Native);
    assert_eq!(end.program.why_not_native(), None);
    let got = end.socket.options();
    assert!(
        !got.zero_copy && got.need_wakeup && !got.multi_buffer && !got.shared,
        "{got:?}"
    );
    assert_eq!((got.rings.rx, got.rings.fill), (2048, 1024));
}

#[test]
fn unaligned_chunks_work_with_headroom_and_odd_sizes() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let mut make = Make::default();
    make.umem.unaligned = true;
    make.umem.frame_size = 2500;
    make.umem.headroom = 100;
    exchange_with(&lab, &make, 5_000, (64, 1514));
}

#[test]
fn headroom_is_kept_in_front_of_received_frames() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let mut make = Make::default();
    make.umem.headroom = 192;
    let ends = [Host::A, Host::B].map(|host| lab.end(host, "veth0", 0, &make));
    let pools = [ends[0].pool(), ends[1].pool()];
    let (_rx, mut tx) = over((&ends[0].socket, &pools[0]));
    let (mut rx, _tx) = over((&ends[1].socket, &pools[1]));
    send_one(
        &mut tx,
        &pools[0],
        &udp4([2, 0, 0, 0, 0, 1], ANY_IP, 9000, 100, &mut Random(1)),
    );
    let mut headroom = 0;
    until("the frame arrives", || {
        rx.receive(1, |frame| headroom = frame.headroom()) == 1
    });
    // The kernel's own and ours.
    assert_eq!(headroom, 256 + 192);
}

#[test]
fn frames_of_several_buffers_arrive_with_an_mtu_of_9000() {
    let Some(lab) = Lab::new(1, 9000) else { return };
    let mut make = Make::default();
    make.socket.multi_buffer = true;
    make.program.frags = true;
    exchange_with(&lab, &make, 5_000, (64, 9014));
}

#[test]
fn rings_without_need_wakeup_work() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let mut make = Make::default();
    make.socket.need_wakeup = false;
    exchange_with(&lab, &make, 5_000, (64, 1514));
}

#[test]
fn a_umem_of_transparent_huge_pages_works() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let mut make = Make::default();
    make.umem.pages = xsk::Pages::Transparent;
    exchange_with(&lab, &make, 2_000, (64, 1514));
}

#[test]
fn chunks_of_4096_bytes_work() {
    let Some(lab) = Lab::new(1, 3000) else { return };
    let mut make = Make::default();
    make.umem.frame_size = 4096;
    exchange_with(&lab, &make, 2_000, (64, 3014));
}

#[test]
fn two_queues_share_a_umem_and_both_carry_traffic() {
    let Some(lab) = Lab::new(2, 1500) else { return };
    let make = Make::default();
    let ends = [Host::A, Host::B].map(|host| lab.end(host, "veth0", 0, &make));
    let seconds = [Host::A, Host::B].map(|host| {
        let end = &ends[usize::from(host == Host::B)];
        lab.enter(host);
        let second = Socket::bind(&end.umem, "veth0", 1, &make.socket).unwrap();
        end.program.insert(1, &second).unwrap();
        assert!(second.options().shared && !second.options().shared_queue);
        second
    });
    let pools = [ends[0].pool(), ends[1].pool()];
    // What a socket sends comes out at the peer's queue of the same number.
    exchange(
        (&ends[0].socket, &pools[0]),
        (&ends[1].socket, &pools[1]),
        3000,
        (64, 1514),
    );
    exchange((&seconds[0], &pools[0]), (&seconds[1], &pools[1]), 3000, (64, 1514));
    assert_eq!(ends[1].program.counters().unwrap().taken, 6000);
}

#[test]
fn a_second_socket_at_a_queue_shares_its_rings() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let ends = [Host::A, Host::B].map(|host| lab.end(host, "veth0", 0, &Make::default()));
    lab.enter(Host::A);
    let second = Socket::bind(&ends[0].umem, "veth0", 0, &Make::default().socket).unwrap();
    assert!(second.options().shared_queue);
    let pools = [ends[0].pool(), ends[1].pool()];
    let (mut rx, mut tx) = over((&second, &pools[0]));
    let (mut rx_first, mut tx_first) = over((&ends[0].socket, &pools[0]));
    let (mut rx_b, _tx_b) = over((&ends[1].socket, &pools[1]));
    let (mut way, mut random) = (Way::default(), Random(7));
    until("all frames come", || {
        way.send(&mut tx, &pools[0], 1000, (64, 1514), &mut random);
        // The completions of both come back here.
        tx_first.reclaim();
        way.receive(&mut rx_b);
        way.received == 1000
    });
    assert_eq!(way.hash_sent, way.hash_received);
    assert_eq!((rx.available(), rx_first.available()), (0, 0));
}

#[test]
fn two_devices_share_a_umem_and_forward_without_a_copy() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    lab.pair("veth1", 1, 1500);
    let make = Make::default();
    let outside = ["veth0", "veth1"].map(|device| lab.end(Host::A, device, 0, &make));
    let inside = lab.end(Host::B, "veth0", 0, &make);
    let second = lab.end_over(&inside.umem, Host::B, "veth1", 0, &make);
    assert!(!inside.socket.options().shared && second.socket.options().shared);

    let pools = [outside[0].pool(), outside[1].pool(), inside.pool()];
    let (_rx, mut tx_a) = over((&outside[0].socket, &pools[0]));
    let (mut rx_a, _tx) = over((&outside[1].socket, &pools[1]));
    let (mut rx_b, _tx) = over((&inside.socket, &pools[2]));
    let (_rx, mut tx_b) = over((&second.socket, &pools[2]));
    let (mut way, mut random) = (Way::default(), Random(7));
    until("all frames come through", || {
        way.send(&mut tx_a, &pools[0], 2000, (64, 1514), &mut random);
        let mut burst: Vec<Frame> = Vec::new();
        rx_b.receive(tx_b.room().min(64), |frame| burst.push(frame));
        tx_b.send(burst.drain(..));
        tx_b.kick().unwrap();
        way.receive(&mut rx_a);
        way.received == 2000
    });
    assert_eq!(way.hash_sent, way.hash_received);
}
