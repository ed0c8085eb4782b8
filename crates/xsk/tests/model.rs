//! Both sides of a ring against a queue that can't be wrong: random sizes, batches and start indices, the wrap of the
//! indices among them.

#[path = "../src/ring.rs"]
mod ring;
#[path = "../src/sync.rs"]
mod sync;

use crate::ring::{Consumer, Producer, RingMap};
use crate::sync::{AtomicU32, Ordering, Slot};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::ptr::NonNull;

struct Memory {
    producer: AtomicU32,
    consumer: AtomicU32,
    flags: AtomicU32,
    entries: Vec<Slot<u64>>,
}

impl Memory {
    fn new(size: u32, start: u32) -> Self {
        Self {
            producer: AtomicU32::new(start),
            consumer: AtomicU32::new(start),
            flags: AtomicU32::new(0),
            entries: (0..size).map(|_| Slot::new(u64::MAX)).collect(),
        }
    }

    fn map(&self) -> RingMap<u64> {
        RingMap {
            producer: NonNull::from(&self.producer),
            consumer: NonNull::from(&self.consumer),
            flags: NonNull::from(&self.flags),
            entries: NonNull::from(self.entries.as_slice()).cast(),
            size: self.entries.len() as u32,
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Offers at most `max` entries, of which the source has `has`.
    Produce {
        max: u32,
        has: u32,
    },
    Consume {
        max: u32,
    },
    /// The side is given up and taken over at the index that is there.
    NewProducer,
    NewConsumer,
    Look {
        want: u32,
    },
}

#[cfg(not(miri))]
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u32..40, 0u32..40).prop_map(|(max, has)| Step::Produce { max, has }),
        4 => (0u32..40).prop_map(|max| Step::Consume { max }),
        1 => Just(Step::NewProducer),
        1 => Just(Step::NewConsumer),
        1 => (0u32..40).prop_map(|want| Step::Look { want }),
    ]
}

#[cfg(not(miri))]
fn start() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        (0u32..100).prop_map(|n| u32::MAX - n),
        Just(0),
        Just(1 << 31)
    ]
}

fn a_ring_is_a_queue(size: u32, start: u32, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let memory = Memory::new(size, start);
    // SAFETY: the memory outlives the sides; there is one of each (a new one takes the old one's place).
    let (mut producer, mut consumer) = unsafe { (Producer::new(memory.map()), Consumer::new(memory.map())) };
    let mut oracle: VecDeque<u64> = VecDeque::new();
    let (mut next, mut passed) = (0u64, 0u32);
    prop_assert_eq!(producer.size(), size);
    prop_assert_eq!(consumer.size(), size);
    for step in steps {
        match step {
            Step::Produce { max, has } => {
                let free = size - oracle.len() as u32;
                let mut left = has;
                let written = producer.produce(max, || {
                    left = left.checked_sub(1)?;
                    oracle.push_back(next);
                    next += 1;
                    Some(next - 1)
                });
                // An old view may see less room than there is, but then at least what was asked for.
                prop_assert_eq!(written, max.min(has).min(free));
                prop_assert_eq!(has - left, written, "nothing taken from the source without room for it");
            }
            Step::Consume { max } => {
                let expected = max.min(oracle.len() as u32);
                let mut wrong = 0;
                let read = consumer.consume(max, |entry| wrong += u32::from(oracle.pop_front() != Some(entry)));
                prop_assert_eq!((read, wrong), (expected, 0));
                passed = passed.wrapping_add(read);
            }
            // SAFETY: the old side is dropped by the assignment and has published all.
            Step::NewProducer => producer = unsafe { Producer::new(memory.map()) },
            // SAFETY: as above.
            Step::NewConsumer => consumer = unsafe { Consumer::new(memory.map()) },
            Step::Look { want } => {
                let (len, free) = (oracle.len() as u32, size - oracle.len() as u32);
                let (room, available) = (producer.room(want), consumer.available(want));
                prop_assert!(room <= free && room >= want.min(free));
                prop_assert!(available <= len && available >= want.min(len));
                prop_assert_eq!(producer.pending(), len);
            }
        }
        prop_assert_eq!(memory.consumer.load(Ordering::Relaxed), start.wrapping_add(passed));
        prop_assert_eq!(memory.producer.load(Ordering::Relaxed), start.wrapping_add(next as u32));
    }
    Ok(())
}

fn an_index_that_lies(start: u32, lie: u32) -> Result<(), TestCaseError> {
    let memory = Memory::new(8, start);
    // SAFETY: the memory outlives the sides; there is one of each.
    let (mut producer, mut consumer) = unsafe { (Producer::new(memory.map()), Consumer::new(memory.map())) };
    memory.producer.store(lie, Ordering::Relaxed);
    prop_assert!(consumer.available(u32::MAX) <= 8);
    prop_assert!(consumer.consume(u32::MAX, |_| ()) <= 8);
    memory.consumer.store(lie, Ordering::Relaxed);
    prop_assert!(producer.room(u32::MAX) <= 8);
    prop_assert!(producer.produce(u32::MAX, || Some(0)) <= 8);
    Ok(())
}

// Under Miri, drawing and describing the cases takes minutes: the test below that takes fixed ones serves it.
#[cfg(not(miri))]
proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn a_ring_is_a_bounded_queue(order in 0u32..6, start in start(), steps in prop::collection::vec(step(), 1..200)) {
        a_ring_is_a_queue(1 << order, start, steps)?;
    }

    /// Whatever the other side's index says: no more than the ring's size, and no panic.
    #[test]
    fn an_index_that_lies_gives_no_more_than_the_size(start in start(), lie in any::<u32>()) {
        an_index_that_lies(start, lie)?;
    }
}

#[test]
fn rings_of_one_and_of_eight_are_queues_over_the_wrap_of_the_indices() {
    use Step::*;
    let round = [
        Produce { max: 5, has: 3 },
        Look { want: 4 },
        Consume { max: 2 },
        Produce { max: 9, has: 9 },
        NewProducer,
        Produce { max: 1, has: 1 },
        Consume { max: 5 },
        NewConsumer,
        Look { want: 40 },
        Consume { max: 40 },
    ];
    for size in [1, 8] {
        for start in [0, u32::MAX - 5] {
            a_ring_is_a_queue(size, start, round.iter().cycle().take(25).cloned().collect()).unwrap();
        }
    }
    for lie in [u32::MAX - 6, u32::MAX - 5, u32::MAX, 0, 2, 3, 1 << 31] {
        an_index_that_lies(u32::MAX - 5, lie).unwrap();
    }
}

#[test]
fn a_panic_in_the_middle_of_a_batch_loses_no_entry_and_repeats_none() {
    let memory = Memory::new(8, u32::MAX - 2);
    // SAFETY: the memory outlives the sides; there is one of each.
    let (mut producer, mut consumer) = unsafe { (Producer::new(memory.map()), Consumer::new(memory.map())) };
    let mut next = 0;
    let mut source = || {
        next += 1;
        assert!(next != 4, "the fourth");
        Some(next)
    };
    let batch = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| producer.produce(8, &mut source)));
    assert!(batch.is_err());
    assert_eq!(consumer.available(1), 0, "nothing published yet");
    producer.publish();
    let mut seen = Vec::new();
    let batch = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        consumer.consume(8, |entry| {
            seen.push(entry);
            assert!(entry != 2, "the second");
        })
    }));
    assert!(batch.is_err());
    consumer.consume(8, |entry| seen.push(entry));
    assert_eq!(seen, [1, 2, 3]);
    assert_eq!(producer.pending(), 0);
}

#[test]
fn the_wakeup_flag_is_read_as_it_is() {
    let memory = Memory::new(8, 0);
    // SAFETY: the memory outlives the side; there is one.
    let producer = unsafe { Producer::new(memory.map()) };
    assert!(!producer.wakeup_needed());
    memory.flags.store(1, Ordering::Relaxed);
    assert!(producer.wakeup_needed());
}
