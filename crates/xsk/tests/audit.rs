//! Every chunk is in exactly one place, whatever is done and in whatever order it ends; packets pass unchanged; and
//! what a kernel that errs says reaches no memory but the UMEM's.

use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use xsk::fake::{FakeConfig, FakeQueue};
use xsk::{Audit, Frame, Pool, Umem, UmemConfig};

fn umem(frames: u32, unaligned: bool) -> Arc<Umem> {
    let config = UmemConfig {
        frames,
        frame_size: if unaligned { 2304 } else { 2048 },
        unaligned,
        headroom: 32,
        ..UmemConfig::default()
    };
    Umem::fake(&config).expect("a UMEM on the heap")
}

fn rings(size: u32, start: u32) -> FakeConfig {
    FakeConfig {
        rx_ring: size,
        tx_ring: size,
        fill_ring: size,
        completion_ring: size,
        start,
        ..FakeConfig::default()
    }
}

/// The account adds up.
fn sum(audit: &Audit) -> u64 {
    let Audit {
        unused,
        free,
        fill,
        rx,
        tx,
        completion,
        kernel,
        in_use,
        lost,
        ..
    } = *audit;
    unused + free + fill + rx + tx + completion + kernel + in_use + lost
}

fn packet(n: u32) -> Vec<u8> {
    // (Under Miri each byte counts.)
    let len = 1 + (n as usize * 211) % if cfg!(miri) { 40 } else { 1600 };
    (0..len)
        .map(|i| (i as u32).wrapping_mul(31).wrapping_add(n * 7) as u8)
        .collect()
}

#[derive(Clone, Debug)]
enum Step {
    Deliver(u8),
    Receive(u8),
    Drop(u8),
    Send(u8),
    Allocate(u8),
    TakeTx,
    Complete(u8),
    Reclaim,
    ReclaimFrames(u8),
    FillLimit(u8),
    Again,
}

#[cfg(not(miri))]
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u8..20).prop_map(Step::Deliver),
        4 => (0u8..20).prop_map(Step::Receive),
        2 => (0u8..20).prop_map(Step::Drop),
        4 => (0u8..20).prop_map(Step::Send),
        1 => (0u8..20).prop_map(Step::Allocate),
        3 => Just(Step::TakeTx),
        3 => (0u8..20).prop_map(Step::Complete),
        1 => Just(Step::Reclaim),
        1 => (0u8..5).prop_map(Step::ReclaimFrames),
        1 => (0u8..40).prop_map(Step::FillLimit),
        1 => Just(Step::Again),
    ]
}

/// What a run of the account's test is drawn with.
#[derive(Clone, Debug)]
struct Run {
    frames: u32,
    share: u32,
    unaligned: bool,
    zero_copy: bool,
    start: u32,
    ring: u32,
    steps: Vec<Step>,
    ending: u64,
}

fn every_chunk_is_in_one_place(run: Run) -> Result<(), TestCaseError> {
    let Run {
        frames,
        share,
        unaligned,
        zero_copy,
        start,
        ring,
        steps,
        ending,
    } = run;
    let umem = umem(frames, unaligned);
    let pool = Pool::new(&umem, share.min(frames)).expect("a share");
    let config = FakeConfig {
        zero_copy,
        ..rings(ring, start)
    };
    let (rx, tx, queue) = FakeQueue::halves(&umem, &config);
    {
        let (mut rx, mut tx) = (rx.over(&pool).unwrap(), tx.over(&pool).unwrap());
        let mut held: VecDeque<Frame<'_>> = VecDeque::new();
        let (mut arriving, mut leaving) = (VecDeque::new(), VecDeque::new());
        let mut n = 0;
        for step in steps {
            match step {
                Step::Deliver(count) => {
                    for _ in 0..count {
                        if queue.deliver(&packet(n)) {
                            arriving.push_back(packet(n));
                        }
                        n += 1;
                    }
                }
                Step::Receive(max) => {
                    let expected = arriving.len().min(max.into());
                    let mut equal = true;
                    let received = rx.receive(max.into(), |frame| {
                        equal &= arriving.pop_front().is_some_and(|packet| packet == frame.bytes());
                        held.push_back(frame);
                    });
                    prop_assert_eq!((received, equal), (expected, true));
                }
                Step::Drop(count) => drop(held.drain(..held.len().min(count.into()))),
                Step::Send(count) => {
                    let before = held.len();
                    let bytes: Vec<_> = held.iter().map(|frame| frame.bytes().to_vec()).collect();
                    let sent = tx.send(std::iter::from_fn(|| held.pop_front()).take(count.into()));
                    prop_assert_eq!(sent + held.len(), before);
                    leaving.extend(bytes.into_iter().take(sent));
                }
                Step::Allocate(count) => {
                    let free = pool.free();
                    let got = pool.allocate(count.into(), |mut frame| {
                        frame.set_len(packet(n).len());
                        frame.bytes_mut().copy_from_slice(&packet(n));
                        n += 1;
                        held.push_back(frame);
                    });
                    prop_assert_eq!(got, free.min(count.into()));
                }
                Step::TakeTx => {
                    for sent in queue.take_tx() {
                        prop_assert_eq!(Some(sent.bytes), leaving.pop_front());
                    }
                }
                Step::Complete(max) => {
                    queue.complete(max.into());
                }
                Step::Reclaim => {
                    tx.reclaim();
                }
                Step::ReclaimFrames(max) => {
                    tx.reclaim_frames(max.into(), drop);
                }
                Step::FillLimit(limit) => rx.set_fill_limit(limit.into()),
                Step::Again => {
                    rx = rx.into_half().over(&pool).unwrap();
                    tx = tx.into_half().over(&pool).unwrap();
                }
            }
            let audit = umem.audit();
            prop_assert_eq!(sum(&audit), u64::from(frames));
            prop_assert_eq!(audit.in_use, u64::from(share.min(frames)));
        }
        prop_assert_eq!(rx.bad_descriptors() + tx.bad_descriptors() + tx.refused(), 0);
        // Frames go first, last or not at all on their own: each order is drawn.
        if ending & 1 == 0 {
            drop(held);
            drop(tx);
            drop(rx);
        } else {
            drop(rx);
            drop(tx);
            drop(held);
        }
    }
    if ending & 2 == 0 {
        drop(pool);
        drop(queue);
    } else {
        drop(queue);
        drop(pool);
    }
    let audit = umem.audit();
    prop_assert!(audit.is_exact(), "{}", audit);
    prop_assert_eq!(sum(&audit), u64::from(frames));
    // What was found can be had again, but for what a device may still work on.
    let retired = audit.kernel + if zero_copy { audit.fill + audit.tx } else { 0 };
    let again = Pool::new(&umem, frames - retired as u32);
    prop_assert!(again.is_ok());
    prop_assert!(Pool::new(&umem, 1).is_err());
    Ok(())
}

/// What is handed out lies within the UMEM, one chunk each; the rest is counted.
fn a_bad_descriptor_is_counted(unaligned: bool, addresses: Vec<u64>, len: u32) -> Result<(), TestCaseError> {
    let umem = umem(16, unaligned);
    let pool = Pool::new(&umem, 8).unwrap();
    let (rx, tx, queue) = FakeQueue::halves(&umem, &rings(64, 5));
    let (mut rx, mut tx) = (rx.over(&pool).unwrap(), tx.over(&pool).unwrap());
    for &addr in &addresses {
        queue.deliver_raw(xsk::abi::Desc { addr, len, options: 0 });
        queue.complete_raw(addr);
    }
    let size = umem.config().frame_size;
    let mut good = 0;
    let mut ok = true;
    let given = rx.receive(usize::MAX, |frame| {
        ok &= frame.len() == len as usize && frame.len() <= frame.capacity() && frame.capacity() <= size as usize;
        std::hint::black_box(frame.bytes().iter().map(|&b| u32::from(b)).sum::<u32>());
        good += 1;
        // A chunk that we never gave for receiving must not come into the free list, too.
        std::mem::forget(frame);
    });
    prop_assert!(ok);
    prop_assert_eq!(given, good);
    prop_assert_eq!(rx.bad_descriptors() + good as u64, addresses.len() as u64);
    let completed = tx.reclaim_frames(usize::MAX, std::mem::forget);
    prop_assert_eq!(completed, addresses.len());
    if cfg!(debug_assertions) {
        // The owner table knows that none of them had been sent.
        prop_assert_eq!(tx.bad_descriptors(), addresses.len() as u64);
    }
    Ok(())
}

// Under Miri, drawing and describing the cases takes minutes: the tests below that take fixed ones serve it.
#[cfg(not(miri))]
proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn every_chunk_is_in_one_place_and_packets_pass_unchanged(
        frames in 8u32..100, share in 1u32..100, unaligned in any::<bool>(), zero_copy in any::<bool>(),
        start in prop_oneof![any::<u32>(), (0u32..100).prop_map(|n| u32::MAX - n)], order in 0u32..6,
        steps in prop::collection::vec(step(), 1..100), ending in any::<u64>(),
    ) {
        let ring = 1 << order;
        every_chunk_is_in_one_place(Run { frames, share, unaligned, zero_copy, start, ring, steps, ending })?;
    }

    #[test]
    fn a_bad_descriptor_is_counted_and_reaches_no_memory_outside(
        unaligned in any::<bool>(),
        addresses in prop::collection::vec(
            prop_oneof![any::<u64>(), 0u64..40_000, (0u64..40_000).prop_map(|n| n << 48 | n)],
            1..50,
        ),
        len in prop_oneof![any::<u32>(), 0u32..3000],
    ) {
        a_bad_descriptor_is_counted(unaligned, addresses, len)?;
    }
}

#[test]
fn one_sequence_of_everything_keeps_each_chunk_in_one_place() {
    use Step::*;
    let round = [
        Deliver(6),
        Receive(3),
        Send(2),
        TakeTx,
        Allocate(4),
        Complete(1),
        Send(9),
        Reclaim,
        FillLimit(3),
        Receive(9),
        Drop(2),
        TakeTx,
        Complete(9),
        ReclaimFrames(2),
        Again,
        FillLimit(8),
        Deliver(2),
        Send(1),
    ];
    for (unaligned, ending) in [(false, 0), (true, 3)] {
        every_chunk_is_in_one_place(Run {
            frames: 24,
            share: 20,
            unaligned,
            zero_copy: unaligned,
            start: u32::MAX - 4,
            ring: 8,
            steps: round.iter().cycle().take(round.len() + 9).cloned().collect(),
            ending,
        })
        .unwrap();
    }
}

#[test]
fn bad_descriptors_at_every_border_reach_no_memory_outside() {
    let addresses = |size: u64| {
        let borders = [0, size, 15 * size, 16 * size, 1 << 48, 1 << 63, u64::MAX];
        let near = borders
            .iter()
            .flat_map(|&border| [border.wrapping_sub(1), border, border.wrapping_add(1)]);
        near.chain([
            size << 48,
            (size + 1) << 48 | size,
            1 << 48 | (15 * size),
            u64::MAX << 48,
        ])
        .collect()
    };
    for (unaligned, size) in [(false, 2048), (true, 2304)] {
        for len in [0, 1, size, u32::MAX] {
            a_bad_descriptor_is_counted(unaligned, addresses(size.into()), len).unwrap();
        }
    }
}

#[test]
fn a_leaked_frame_is_reported_as_lost() {
    let umem = umem(16, false);
    let pool = Pool::new(&umem, 16).unwrap();
    std::mem::forget(pool.allocate_one());
    std::mem::forget(pool.allocate_one());
    drop(pool);
    let audit = umem.audit();
    assert_eq!((audit.free, audit.lost), (14, 2));
    assert!(!audit.is_exact());
}

#[test]
fn chunks_are_found_in_the_place_where_they_were_left() {
    let umem = umem(32, false);
    let pool = Pool::new(&umem, 24).unwrap();
    let (rx, tx, queue) = FakeQueue::halves(&umem, &rings(8, u32::MAX - 3));
    let (rx, mut tx) = (rx.over(&pool).unwrap(), tx.over(&pool).unwrap());
    for n in 0..3 {
        assert!(queue.deliver(&packet(n)));
    }
    let mut frames = Vec::new();
    pool.allocate(6, |mut frame| {
        frame.set_len(60);
        frames.push(frame);
    });
    assert_eq!(tx.send(frames.drain(..5)), 5);
    assert_eq!(queue.take_tx().len(), 5);
    assert_eq!(tx.send(frames.drain(..)), 1);
    assert_eq!(queue.complete(2), 2);
    assert_eq!(umem.audit().in_use, 24);
    drop((rx, tx, queue));
    drop(frames);
    drop(pool);
    let audit = umem.audit();
    let expected = Audit {
        frames: 32,
        unused: 8,
        free: 10,
        fill: 5,
        rx: 3,
        tx: 1,
        completion: 2,
        kernel: 3,
        ..Audit::default()
    };
    assert_eq!(audit, expected, "{audit}");
    assert!(audit.is_exact());
}

#[test]
fn every_order_of_dropping_is_safe_and_exact() {
    // All 120 orders of RX half, TX half, pool, UMEM and the kernel's end, with packets in all rings.
    // (Miri takes its time: a few of them.)
    for code in (0..120usize).step_by(if cfg!(miri) { 17 } else { 1 }) {
        let umem = umem(32, code % 2 == 1);
        let pool = Pool::new(&umem, 24).unwrap();
        let (rx, tx, queue) = FakeQueue::halves(&umem, &rings(8, 0));
        let (rx, tx) = {
            let (mut rx, mut tx) = (rx.over(&pool).unwrap(), tx.over(&pool).unwrap());
            (0..6).for_each(|n| assert!(queue.deliver(&packet(n))));
            let mut held = Vec::new();
            rx.receive(4, |frame| held.push(frame));
            assert_eq!(tx.send(held), 4);
            queue.take_tx();
            queue.complete(2);
            (rx.into_half(), tx.into_half())
        };
        let witness = umem.clone();
        let (mut rx, mut tx, mut pool, mut umem, mut queue) = (Some(rx), Some(tx), Some(pool), Some(umem), Some(queue));
        let mut left = vec![0, 1, 2, 3, 4];
        let mut code = code;
        while !left.is_empty() {
            let n = left.len();
            match left.remove(code % n) {
                0 => drop(rx.take()),
                1 => drop(tx.take()),
                2 => drop(pool.take()),
                3 => drop(umem.take()),
                _ => drop(queue.take()),
            }
            code /= n;
        }
        let audit = witness.audit();
        assert!(audit.is_exact(), "{audit}");
        assert_eq!(
            (audit.fill, audit.rx, audit.completion, audit.kernel),
            (8, 2, 2, 2),
            "{audit}"
        );
    }
}

#[test]
fn a_socket_that_is_closed_is_not_written_to() {
    let umem = umem(16, false);
    let pool = Pool::new(&umem, 16).unwrap();
    let (rx, tx, queue) = FakeQueue::halves(&umem, &rings(8, 0));
    drop(tx);
    drop(rx.over(&pool).unwrap());
    assert!(!queue.deliver(&[1; 60]));
    assert_eq!(queue.complete(1), 0);
    drop(pool);
    assert_eq!(umem.audit().fill, 8);
    assert_eq!(Pool::new(&umem, 16).unwrap().free(), 16);
}
