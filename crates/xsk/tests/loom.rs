//! Every interleaving of a ring's two sides: the very file that the crate uses, with loom's atomics and cells in place
//! of the real ones. Loom finds a missing release or acquire, and a slot that both sides touch at a time.

#[path = "../src/ring.rs"]
#[allow(dead_code, reason = "only a part of the rings is explored")]
mod ring;

/// What `src/sync.rs` gives, by loom.
mod sync {
    use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::Ordering;
    use std::cell::Cell;

    thread_local! {
        /// The order that is relaxed, as by mistake. Loom's threads all run on that of the test.
        static LEFT_OUT: Cell<Option<Ordering>> = const { Cell::new(None) };
    }

    /// Has every access and fence of this order relaxed from now on.
    pub(crate) fn leave_out(order: Option<Ordering>) {
        LEFT_OUT.set(order);
    }

    fn kept(order: Ordering) -> Ordering {
        if LEFT_OUT.get() == Some(order) {
            Ordering::Relaxed
        } else {
            order
        }
    }

    pub(crate) fn fence(order: Ordering) {
        if kept(order) == order {
            loom::sync::atomic::fence(order);
        }
    }

    pub(crate) struct AtomicU32(loom::sync::atomic::AtomicU32);

    impl AtomicU32 {
        pub(crate) fn new(value: u32) -> Self {
            Self(loom::sync::atomic::AtomicU32::new(value))
        }

        pub(crate) fn load(&self, order: Ordering) -> u32 {
            self.0.load(kept(order))
        }

        pub(crate) fn store(&self, value: u32, order: Ordering) {
            self.0.store(value, kept(order));
        }
    }

    impl std::fmt::Debug for AtomicU32 {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.fmt(f)
        }
    }

    pub(crate) struct Slot<T>(UnsafeCell<T>);

    impl<T: Copy> Slot<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(UnsafeCell::new(value))
        }

        /// # Safety
        /// As in `src/sync.rs`; loom checks it.
        pub(crate) unsafe fn read(this: *const Self) -> T {
            // SAFETY: the test keeps the slots; loom checks that nobody writes meanwhile.
            unsafe { (*this).0.with(|slot| *slot) }
        }

        /// # Safety
        /// As in `src/sync.rs`; loom checks it.
        pub(crate) unsafe fn write(this: *const Self, value: T) {
            // SAFETY: the test keeps the slots; loom checks that nobody reads or writes meanwhile.
            unsafe { (*this).0.with_mut(|slot| *slot = value) }
        }
    }
}

#[cfg(not(miri))]
mod tests {
    use crate::ring::{Consumer, Producer, RingMap};
    use crate::sync::{AtomicU32, Ordering, Slot, leave_out};
    use loom::sync::Arc;
    use loom::thread;
    use std::ptr::NonNull;

    struct Memory {
        producer: AtomicU32,
        consumer: AtomicU32,
        flags: AtomicU32,
        entries: Vec<Slot<u32>>,
    }

    impl Memory {
        fn new(size: u32, start: u32) -> Arc<Self> {
            Arc::new(Self {
                producer: AtomicU32::new(start),
                consumer: AtomicU32::new(start),
                flags: AtomicU32::new(0),
                entries: (0..size).map(|_| Slot::new(u32::MAX)).collect(),
            })
        }

        fn map(&self) -> RingMap<u32> {
            RingMap {
                producer: NonNull::from(&self.producer),
                consumer: NonNull::from(&self.consumer),
                flags: NonNull::from(&self.flags),
                entries: NonNull::from(self.entries.as_slice()).cast(),
                size: self.entries.len() as u32,
            }
        }
    }

    /// `total` entries through a ring of `size`, in batches of `batch`, indices from `start`.
    fn pass(size: u32, start: u32, total: u32, batch: u32) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let memory = Memory::new(size, start);
            let theirs = memory.clone();
            let writer = thread::spawn(move || {
                // SAFETY: the memory is held; this is the only producer.
                let mut ring = unsafe { Producer::new(theirs.map()) };
                let mut next = 0;
                while next < total {
                    let most = batch.min(total - next);
                    let written = ring.produce(most, || {
                        next += 1;
                        Some(next - 1)
                    });
                    if written == 0 {
                        thread::yield_now();
                    }
                }
            });
            // SAFETY: the memory is held; this is the only consumer.
            let mut ring = unsafe { Consumer::new(memory.map()) };
            let mut seen = 0;
            while seen < total {
                let n = ring.consume(batch, |entry| {
                    assert_eq!(entry, seen, "in order, each once");
                    seen += 1;
                });
                if n == 0 {
                    thread::yield_now();
                }
            }
            writer.join().unwrap();
            assert_eq!(ring.available(1), 0, "nothing left over");
            assert_eq!(memory.producer.load(Ordering::Relaxed), start.wrapping_add(total));
            assert_eq!(memory.consumer.load(Ordering::Relaxed), start.wrapping_add(total));
        });
    }

    #[test]
    fn every_entry_arrives_once_and_in_order_one_at_a_time() {
        pass(2, 0, 4, 1);
    }

    #[test]
    fn every_entry_arrives_once_and_in_order_in_batches_over_the_wrap_of_the_indices() {
        pass(2, u32::MAX - 1, 5, 2);
    }

    #[test]
    fn every_entry_arrives_once_and_in_order_in_a_ring_of_four() {
        pass(4, u32::MAX - 2, 6, 3);
    }

    /// A consumer that sets the flag, looks once more and sleeps, against a producer that publishes and then looks at
    /// the flag: one of them must see the other.
    #[test]
    fn no_wakeup_is_missed() {
        loom::model(sleep_and_wake);
    }

    fn sleep_and_wake() {
        let memory = Memory::new(2, 0);
        let theirs = memory.clone();
        let kernel = thread::spawn(move || {
            theirs.flags.store(1, Ordering::Relaxed);
            loom::sync::atomic::fence(Ordering::SeqCst);
            // SAFETY: the memory is held; this is the only consumer.
            let mut ring = unsafe { Consumer::new(theirs.map()) };
            ring.available(1) == 0
        });
        // SAFETY: the memory is held; this is the only producer.
        let mut ring = unsafe { Producer::new(memory.map()) };
        assert_eq!(ring.produce(1, || Some(7)), 1);
        let wakes = ring.wakeup_needed();
        let sleeps = kernel.join().unwrap();
        assert!(wakes || !sleeps, "the kernel sleeps over an entry and nobody wakes it");
    }

    /// The models are no proof unless they find a ring whose order is wrong.
    #[test]
    fn an_order_that_is_left_out_is_found() {
        for (order, model) in [
            (Ordering::Acquire, (|| pass(2, 0, 4, 1)) as fn()),
            (Ordering::Release, || pass(2, 0, 4, 1)),
            (Ordering::SeqCst, || loom::model(sleep_and_wake)),
        ] {
            leave_out(Some(order));
            let found = std::panic::catch_unwind(model).is_err();
            leave_out(None);
            assert!(found, "{order:?} left out, and nothing is found");
        }
    }
}
