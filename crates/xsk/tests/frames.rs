//! What frames and halves do, one property a test, over the fake kernel.

use std::sync::Arc;
use std::time::Duration;
use xsk::abi::{Desc, XDP_PKT_CONTD, XDP_TX_METADATA};
use xsk::fake::{FakeConfig, FakeQueue};
use xsk::{Error, Frame, Pool, Rx, Tx, TxRequest, Umem, UmemConfig};

fn umem(config: UmemConfig) -> Arc<Umem> {
    Umem::fake(&UmemConfig { frames: 64, ..config }).expect("a UMEM on the heap")
}

/// Runs `f` with both halves of a fake socket over one pool of all chunks, then demands an exact account.
fn with(config: UmemConfig, fake: FakeConfig, f: impl for<'p> FnOnce(&'p Pool, Rx<'p>, Tx<'p>, &FakeQueue)) {
    let umem = umem(config);
    let pool = Pool::new(&umem, 64).unwrap();
    let (rx, tx, queue) = FakeQueue::halves(&umem, &fake);
    f(&pool, rx.over(&pool).unwrap(), tx.over(&pool).unwrap(), &queue);
    drop(pool);
    drop(queue);
    let audit = umem.audit();
    assert_eq!((audit.lost, audit.duplicated, audit.in_use), (0, 0, 0), "{audit}");
}

fn small() -> FakeConfig {
    FakeConfig {
        rx_ring: 8,
        tx_ring: 8,
        fill_ring: 8,
        completion_ring: 8,
        ..FakeConfig::default()
    }
}

fn filled<'p>(pool: &'p Pool, bytes: &[u8]) -> Frame<'p> {
    let mut frame = pool.allocate_one().expect("a free frame");
    frame.set_len(bytes.len());
    frame.bytes_mut().copy_from_slice(bytes);
    frame
}

#[test]
fn the_front_of_a_frame_can_be_moved_within_the_chunk_and_no_further() {
    for unaligned in [false, true] {
        let config = UmemConfig {
            headroom: 20,
            unaligned,
            ..UmemConfig::default()
        };
        with(config, small(), |pool, _rx, mut tx, queue| {
            let mut frame = filled(pool, b"payload");
            assert_eq!((frame.headroom(), frame.capacity()), (20, 2028));
            assert!(!frame.grow_front(21) && frame.grow_front(4));
            frame.bytes_mut()[..4].copy_from_slice(b"head");
            assert_eq!(frame.bytes(), b"headpayload");
            assert!(!frame.trim_front(12) && frame.trim_front(1));
            assert_eq!((frame.bytes(), frame.headroom()), (&b"eadpayload"[..], 17));
            assert_eq!(tx.send([frame]), 1);
            assert_eq!(queue.take_tx()[0].bytes, b"eadpayload");
            let mut frame = filled(pool, b"");
            assert!(frame.grow_front(20));
            frame.set_len(usize::MAX);
            assert_eq!((frame.len(), frame.capacity()), (2048, 2048));
            frame.bytes_mut().fill(7);
            assert!(frame.trim_front(2048) && frame.is_empty() && frame.capacity() == 0);
        });
    }
}

#[test]
fn metadata_of_the_xdp_program_lies_in_front_of_the_data() {
    with(UmemConfig::default(), small(), |_pool, mut rx, _tx, queue| {
        assert!(queue.deliver_with(b"packet", &0x0123_4567_89ab_cdef_u64.to_ne_bytes()));
        let n = rx.receive(8, |frame| {
            assert_eq!(frame.bytes(), b"packet");
            assert_eq!(frame.metadata_u64(), Some(0x0123_4567_89ab_cdef));
            assert_eq!(frame.metadata(257), None, "the kernel's headroom is 256 bytes");
        });
        assert_eq!(n, 1);
    });
}

#[test]
fn tx_metadata_goes_in_front_and_comes_back_with_the_time() {
    let config = UmemConfig {
        tx_metadata_len: 32,
        ..UmemConfig::default()
    };
    with(config, small(), |pool, _rx, mut tx, queue| {
        let mut frame = filled(pool, b"one");
        let request = TxRequest {
            checksum: Some((34, 6)),
            timestamp: true,
            launch_time: Some(99),
        };
        assert!(frame.request(&request));
        let plain = filled(pool, b"two");
        let mut withdrawn = filled(pool, b"three");
        assert!(withdrawn.request(&request) && withdrawn.request(&TxRequest::default()));
        assert_eq!(tx.send([frame, plain, withdrawn]), 3);
        let sent = queue.take_tx();
        assert_eq!(
            sent.iter().map(|s| s.options).collect::<Vec<_>>(),
            [XDP_TX_METADATA, 0, 0]
        );
        let metadata = &sent[0].metadata;
        assert_eq!(metadata.len(), 32);
        assert_eq!(metadata[..8], 7u64.to_ne_bytes());
        assert_eq!(
            (&metadata[8..10], &metadata[10..12]),
            (&34u16.to_ne_bytes()[..], &6u16.to_ne_bytes()[..])
        );
        assert_eq!(metadata[16..24], 99u64.to_ne_bytes());
        queue.complete(3);
        let mut times = Vec::new();
        assert_eq!(tx.reclaim_frames(8, |frame| times.push(frame.tx_timestamp())), 3);
        // The fake kernel doesn't tell the time: what the request left at its place is read.
        assert!(times[0].is_some());
        assert_eq!(times[1..], [None, None]);
    });
    with(UmemConfig::default(), small(), |pool, _rx, _tx, _queue| {
        let mut frame = filled(pool, b"x");
        assert!(!frame.request(&TxRequest::default()), "no room was set aside");
        assert_eq!(frame.tx_timestamp(), None);
    });
}

#[test]
fn a_packet_larger_than_a_chunk_comes_and_goes_in_several_frames() {
    let fake = FakeConfig {
        multi_buffer: true,
        ..small()
    };
    with(UmemConfig::default(), fake, |_pool, mut rx, mut tx, queue| {
        let packet: Vec<u8> = (0..5000u32).map(|i| i as u8).collect();
        assert!(queue.deliver(&packet));
        let mut frames = Vec::new();
        assert_eq!(rx.receive(8, |frame| frames.push(frame)), 3);
        assert_eq!(
            frames.iter().map(Frame::is_continued).collect::<Vec<_>>(),
            [true, true, false]
        );
        assert_eq!(frames.iter().map(Frame::bytes).collect::<Vec<_>>().concat(), packet);
        assert_eq!(tx.send(frames), 3);
        let sent = queue.take_tx();
        assert_eq!(
            sent.iter().map(|s| s.options).collect::<Vec<_>>(),
            [XDP_PKT_CONTD, XDP_PKT_CONTD, 0]
        );
        assert_eq!(sent.iter().map(|s| &s.bytes[..]).collect::<Vec<_>>().concat(), packet);
    });
}

#[test]
fn what_a_socket_cannot_send_is_refused_and_goes_back_to_its_own_pool() {
    let umem = umem(UmemConfig::default());
    let (pool, other) = (Pool::new(&umem, 32).unwrap(), Pool::new(&umem, 32).unwrap());
    let (_rx, tx, queue) = FakeQueue::halves(&umem, &small());
    let mut tx = tx.over(&pool).unwrap();
    let mut continued = filled(&pool, b"continued");
    continued.set_continued(true);
    let frames = [
        filled(&pool, b"a"),
        filled(&other, b"other"),
        filled(&pool, b""),
        continued,
        filled(&pool, b"b"),
    ];
    assert_eq!((tx.send(frames), tx.refused()), (2, 3));
    let sent: Vec<_> = queue.take_tx().into_iter().map(|s| s.bytes).collect();
    assert_eq!(sent, [b"a", b"b"]);
    assert_eq!((pool.free(), other.free()), (30, 32));
    assert_eq!(queue.counters().tx_invalid, 0);
}

#[test]
fn frames_that_there_is_no_room_for_are_not_taken() {
    with(UmemConfig::default(), small(), |pool, _rx, mut tx, queue| {
        let mut frames: Vec<_> = (0..12).map(|n| filled(pool, &[n])).collect();
        assert_eq!(tx.room(), 8);
        let mut source = frames.drain(..);
        assert_eq!(tx.send(&mut source), 8);
        assert_eq!((source.len(), tx.pending()), (4, 8));
        assert_eq!((tx.room(), tx.send(&mut source)), (0, 0));
        assert!(!tx.wait(Duration::ZERO).unwrap());
        assert_eq!(queue.take_tx().len(), 8);
        assert!(tx.wait(Duration::ZERO).unwrap());
        assert_eq!(tx.send(source), 4);
    });
}

#[test]
fn wakeups_go_to_the_kernel_only_when_it_wants_them() {
    with(UmemConfig::default(), small(), |pool, _rx, mut tx, queue| {
        assert!(tx.kick().unwrap());
        assert_eq!(queue.wakes(), 0, "nothing to send");
        tx.send([filled(pool, b"x")]);
        assert!(tx.kick().unwrap());
        assert_eq!(queue.wakes(), 1);
    });
    let fake = FakeConfig {
        need_wakeup: true,
        ..small()
    };
    with(UmemConfig::default(), fake, |pool, mut rx, mut tx, queue| {
        tx.send([filled(pool, b"x")]);
        assert!(tx.kick().unwrap() && !rx.wakeup_needed());
        assert_eq!(queue.wakes(), 0, "awake");
        queue.set_need_wakeup(true, true);
        assert!(tx.kick().unwrap() && rx.wakeup_needed() && rx.wake().unwrap());
        assert_eq!(queue.wakes(), 2);
    });
}

#[test]
fn errors_of_a_wakeup_are_told_apart() {
    with(UmemConfig::default(), small(), |pool, mut rx, mut tx, queue| {
        tx.send([filled(pool, b"x")]);
        for errno in [libc::EAGAIN, libc::EBUSY, libc::ENOBUFS, libc::EINTR] {
            queue.fail_wake_tx(errno);
            queue.fail_wake_rx(errno);
            assert!(!tx.kick().unwrap() && !rx.wake().unwrap(), "{errno}: try again");
        }
        queue.fail_wake_tx(libc::ENETDOWN);
        assert!(matches!(tx.kick(), Err(Error::Down { .. })));
        queue.fail_wake_rx(libc::ENXIO);
        assert!(matches!(rx.wake(), Err(Error::Gone { .. })));
        queue.fail_wake_rx(libc::EINVAL);
        let error = rx.wake().unwrap_err().to_string();
        assert!(
            error.starts_with("receive on fake queue 0: Invalid argument"),
            "{error}"
        );
    });
}

#[test]
fn packets_pass_from_peer_to_peer_and_back_again() {
    let umem = umem(UmemConfig::default());
    let (left, right) = (Pool::new(&umem, 32).unwrap(), Pool::new(&umem, 32).unwrap());
    let (rx, tx, a) = FakeQueue::halves(&umem, &small());
    let (mut rx_left, mut tx_left) = (rx.over(&left).unwrap(), tx.over(&left).unwrap());
    let (rx, tx, b) = FakeQueue::halves(&umem, &small());
    let (mut rx_right, mut tx_right) = (rx.over(&right).unwrap(), tx.over(&right).unwrap());
    a.connect(&b);
    b.connect(&a);
    for round in 0..if cfg!(miri) { 10 } else { 100u8 } {
        assert_eq!(
            tx_left.send([filled(&left, &[round, 1]), filled(&left, &[round, 2])]),
            2
        );
        assert!(tx_left.kick().unwrap() && rx_right.wait(Duration::ZERO).unwrap());
        rx_right.receive(8, |frame| assert_eq!(tx_right.send([frame]), 1));
        assert!(tx_right.kick().unwrap());
        let mut seen = Vec::new();
        rx_left.receive(8, |frame| seen.push(frame.bytes().to_vec()));
        assert_eq!(seen, [[round, 1], [round, 2]]);
    }
}

#[test]
fn a_fill_limit_leaves_chunks_for_sending() {
    let umem = umem(UmemConfig::default());
    let pool = Pool::new(&umem, 8).unwrap();
    let (rx, _tx, queue) = FakeQueue::halves(&umem, &small());
    let mut rx = rx.over(&pool).unwrap();
    assert_eq!((rx.fill_level(), pool.free()), (8, 0));
    rx.set_fill_limit(3);
    (0..8).for_each(|n| assert!(queue.deliver(&[n])));
    assert_eq!((rx.available(), rx.receive(100, drop)), (8, 8));
    assert_eq!(rx.refill(), 0, "receive has refilled");
    assert_eq!((rx.fill_level(), pool.free()), (3, 5));
    assert!(!rx.wait(Duration::ZERO).unwrap());
}

#[test]
fn a_fill_limit_set_before_holds_from_the_first_filling_on() {
    let umem = umem(UmemConfig::default());
    for (limit, filled) in [(0, 1), (3, 3), (usize::MAX, 8)] {
        let pool = Pool::new(&umem, 8).unwrap();
        let (rx, _tx, _queue) = FakeQueue::halves(&umem, &small());
        let mut rx = rx.with_fill_limit(limit).over(&pool).unwrap();
        assert_eq!((rx.fill_level(), pool.free()), (filled, 8 - filled));
    }
}

#[test]
fn a_panic_while_receiving_or_sending_loses_nothing_and_repeats_nothing() {
    with(UmemConfig::default(), small(), |pool, mut rx, mut tx, queue| {
        (0..4).for_each(|n| assert!(queue.deliver(&[n])));
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            rx.receive(4, |frame| assert!(frame.bytes() != [1], "the second packet"))
        }));
        assert!(panic.is_err());
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            tx.send((0..4).map(|n| {
                if n == 2 {
                    panic!("the third frame")
                } else {
                    filled(pool, &[n])
                }
            }))
        }));
        assert!(panic.is_err());
        // Both halves are dropped with the batches half done; `with` demands the account.
    });
}

#[test]
fn halves_demand_a_pool_of_their_own_umem() {
    let (umem, other) = (umem(UmemConfig::default()), umem(UmemConfig::default()));
    let pool = Pool::new(&other, 8).unwrap();
    let (rx, tx, _queue) = FakeQueue::halves(&umem, &small());
    assert!(matches!(rx.over(&pool), Err(Error::OtherUmem { .. })));
    assert!(matches!(tx.over(&pool), Err(Error::OtherUmem { .. })));
}

#[test]
fn halves_move_to_threads_of_their_own() {
    let umem = umem(UmemConfig::default());
    let (rx, tx, queue) = FakeQueue::halves(&umem, &small());
    queue.connect(&queue);
    let (sending, receiving) = (umem.clone(), umem.clone());
    let total = if cfg!(miri) { 20 } else { 2000 };
    let sender = std::thread::spawn(move || {
        let pool = Pool::new(&sending, 32).unwrap();
        let mut tx = tx.over(&pool).unwrap();
        let mut next = 0u32;
        while next < total {
            let room = tx.room().min((total - next) as usize);
            // No more than the other side has chunks for: nothing may be dropped.
            let Some(mut frame) = pool.allocate_one().filter(|_| room > 0) else {
                continue;
            };
            frame.set_len(4);
            frame.bytes_mut().copy_from_slice(&next.to_ne_bytes());
            next += tx.send([frame]) as u32;
            tx.kick().unwrap();
            std::thread::yield_now();
        }
    });
    let pool = Pool::new(&receiving, 32).unwrap();
    let mut rx = rx.over(&pool).unwrap();
    let mut last = None;
    let mut received = 0;
    while !sender.is_finished() || rx.available() > 0 {
        received += rx.receive(8, |frame| {
            let n = u32::from_ne_bytes(frame.bytes().try_into().unwrap());
            assert!(last.is_none_or(|last| last < n), "in order");
            last = Some(n);
        });
        std::thread::yield_now();
    }
    sender.join().unwrap();
    let counters = queue.counters();
    assert_eq!(
        received as u64 + counters.rx_dropped + counters.rx_ring_full,
        u64::from(total)
    );
    drop(rx);
    drop(pool);
    drop(queue);
    assert!(umem.audit().is_exact(), "{}", umem.audit());
}

#[test]
fn shapes_that_no_kernel_takes_are_refused() {
    let refused = |change: fn(&mut UmemConfig)| {
        let mut config = UmemConfig::default();
        change(&mut config);
        matches!(Umem::fake(&config), Err(Error::Invalid { .. }))
    };
    assert!(refused(|c| c.frames = 0));
    assert!(refused(|c| c.frame_size = 1024));
    assert!(refused(|c| c.frame_size = 1 << 20));
    assert!(refused(|c| c.frame_size = 3000));
    assert!(refused(|c| c.headroom = 1792));
    assert!(refused(|c| c.tx_metadata_len = 16));
    assert!(refused(|c| c.tx_metadata_len = 256));
    assert!(!refused(|c| c.headroom = 1791));
    assert!(!refused(|c| (c.frame_size, c.unaligned) = (3000, true)));
    let umem = umem(UmemConfig::default());
    assert!(matches!(
        Pool::new(&umem, 65),
        Err(Error::TooSmall { have: 64, need: 65, .. })
    ));
}

#[test]
fn a_descriptor_that_reaches_beyond_its_chunk_is_refused() {
    with(UmemConfig::default(), small(), |_pool, mut rx, _tx, queue| {
        // The last byte of a chunk and the one behind it.
        assert!(queue.deliver_raw(Desc {
            addr: 2047,
            len: 2,
            options: 0
        }));
        assert!(queue.deliver_raw(Desc {
            addr: 64 * 2048,
            len: 1,
            options: 0
        }));
        assert!(queue.deliver_raw(Desc {
            addr: u64::MAX,
            len: u32::MAX,
            options: 0
        }));
        assert_eq!((rx.receive(8, drop), rx.bad_descriptors()), (0, 3));
    });
}
