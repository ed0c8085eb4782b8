//! Memory order of what lanes share with other threads, on processors that reorder (arm64): the very sources that the
//! crates use, with loom's atomics in place of the real ones. Loom runs every interleaving, and lets a load see every
//! value that the orders allow. An emulated or an x86 processor shows none of this.
//!
//! Each model is run as it is, and then with each kind of order in it left out (`Planted`): that must be found, or the
//! model proves nothing. The rings of AF_XDP have their own in `crates/xsk/tests/loom.rs`.

#[path = "../crates/stats/src/counter.rs"]
#[allow(dead_code, unreachable_pub, reason = "only a part of each file is explored")]
mod counter;
#[path = "../crates/sys/src/clock/line.rs"]
#[allow(dead_code, reason = "as above")]
mod line;
#[path = "../crates/io/src/packet_ring.rs"]
#[allow(dead_code, unreachable_pub, reason = "as above")]
mod packet_ring;
#[path = "../crates/engine/src/lane/ring.rs"]
#[allow(dead_code, reason = "as above")]
mod ring;
#[path = "../crates/engine/src/send/sent.rs"]
#[allow(dead_code, reason = "as above")]
mod sent;

/// The types of the crates' own modules `sync`, by loom, with an order left out if a test says so.
mod sync {
    pub(crate) use crate::counter::Counter;
    use loom::cell::UnsafeCell;
    pub(crate) use std::sync::atomic::Ordering;

    /// An order that is left out, as by mistake.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Planted {
        /// A load with acquire is relaxed.
        Load,
        /// A store with release is relaxed.
        Store,
        /// A fence with acquire is not there.
        AcquireFence,
        /// A fence with release is not there.
        ReleaseFence,
    }

    thread_local! {
        /// Loom's threads all run on that of the test.
        static PLANTED: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
    }

    pub(crate) fn plant(planted: Option<Planted>) {
        PLANTED.set(planted);
    }

    fn is_planted(what: Planted) -> bool {
        PLANTED.get() == Some(what)
    }

    pub(crate) fn fence(order: Ordering) {
        let what = match order {
            Ordering::Acquire => Planted::AcquireFence,
            _ => Planted::ReleaseFence,
        };
        if !is_planted(what) {
            loom::sync::atomic::fence(order);
        }
    }

    macro_rules! atomic {
        ($name:ident, $value:ty) => {
            #[derive(Debug)]
            pub(crate) struct $name(loom::sync::atomic::$name);

            impl $name {
                pub(crate) fn new(value: $value) -> Self {
                    Self(loom::sync::atomic::$name::new(value))
                }

                pub(crate) fn load(&self, order: Ordering) -> $value {
                    let order = if is_planted(Planted::Load) {
                        Ordering::Relaxed
                    } else {
                        order
                    };
                    self.0.load(order)
                }

                pub(crate) fn store(&self, value: $value, order: Ordering) {
                    let order = if is_planted(Planted::Store) {
                        Ordering::Relaxed
                    } else {
                        order
                    };
                    self.0.store(value, order);
                }
            }

            impl Default for $name {
                fn default() -> Self {
                    Self::new(<$value>::default())
                }
            }
        };
    }

    atomic!(AtomicBool, bool);
    atomic!(AtomicU32, u32);
    atomic!(AtomicU64, u64);

    /// A word that is never read while it is written: loom checks that.
    #[derive(Debug)]
    pub(crate) struct Word(UnsafeCell<u64>);

    // SAFETY: loom checks that no two threads are at it at a time.
    unsafe impl Sync for Word {}

    impl Word {
        pub(crate) fn new(value: u64) -> Self {
            Self(UnsafeCell::new(value))
        }

        pub(crate) fn load(&self, _: Ordering) -> u64 {
            // SAFETY: as above.
            self.0.with(|word| unsafe { *word })
        }

        pub(crate) fn store(&self, value: u64, _: Ordering) {
            // SAFETY: as above.
            self.0.with_mut(|word| unsafe { *word = value });
        }
    }

    /// A record of two words, for the eight of the real one: fewer interleavings, of the same kinds.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Round {
        pub(crate) at_ns: u64,
        pub(crate) sent_before: u64,
    }

    impl Round {
        pub(crate) const WORDS: usize = 2;

        pub(crate) fn to_words(self) -> [u64; 2] {
            [self.at_ns, self.sent_before]
        }

        pub(crate) fn from_words([at_ns, sent_before]: [u64; 2]) -> Self {
            Self { at_ns, sent_before }
        }

        pub(crate) fn end_ns(&self) -> u64 {
            self.at_ns
        }
    }
}

use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use sync::{Planted, Round, plant};

/// Runs a model as it is, and with each of these left out, which it must find.
fn explore(model: fn(), finds: &[Planted]) {
    let explored = || {
        let mut explorer = loom::model::Builder::new();
        explorer.preemption_bound = Some(3);
        explorer.check(model);
    };
    explored();
    for &planted in finds {
        plant(Some(planted));
        let found = catch_unwind(AssertUnwindSafe(explored)).is_err();
        plant(None);
        assert!(found, "{planted:?} left out, and nothing is found");
    }
}

/// A capture's ring: packets come out as they went in, and no place is written before it was read.
#[test]
fn packets_pass_a_ring_whole_and_no_place_is_written_before_it_was_read() {
    explore(
        || {
            // Room for one packet of eight bytes, so that the second waits for the first, and wraps.
            let (mut producer, mut consumer) = packet_ring::of_words(4);
            let packet = |time_ns| packet_ring::RingPacket {
                time_ns,
                wire_len: 8,
                tag: 0,
            };
            let writer = thread::spawn(move || {
                for i in 1..=2 {
                    while !producer.push(packet(i), &[i as u8; 8]) {
                        thread::yield_now();
                    }
                    producer.publish(i);
                }
                producer
            });
            let (mut bytes, mut all) = (Vec::new(), Vec::new());
            while all.len() < 2 {
                match consumer.pop(&mut bytes) {
                    Some(packet) => all.push((packet.time_ns, packet.wire_len, bytes.clone())),
                    None => thread::yield_now(),
                }
            }
            let producer = writer.join().unwrap();
            assert_eq!(all, [(1, 8, vec![1; 8]), (2, 8, vec![2; 8])]);
            drop(producer);
            assert!(consumer.closed());
        },
        &[Planted::Load, Planted::Store],
    );
}

/// A lane's flight recorder: a record is whole, or counted as lost.
#[test]
fn a_record_that_is_overwritten_as_it_is_read_is_lost_and_never_half_of_another() {
    explore(
        || {
            let of = |number: u64| Round {
                at_ns: 10 + number,
                sent_before: number,
            };
            let ring = Arc::new(ring::LaneRing::of_places(1));
            ring.push(&of(0));
            let read = ring.clone();
            let reader = thread::spawn(move || {
                let mut out = Vec::new();
                let (next, lost) = read.since(0, usize::MAX, &mut out);
                (next, lost, out)
            });
            ring.push(&of(1));
            ring.push(&of(2));
            let (next, lost, out) = reader.join().unwrap();
            assert_eq!(out.len() as u64 + lost, next);
            // The records that are there are the last before `next`.
            for (number, record) in (lost..).zip(out) {
                assert_eq!(record, of(number), "an earlier one, or half of another");
            }
        },
        &[
            Planted::Load,
            Planted::Store,
            Planted::AcquireFence,
            Planted::ReleaseFence,
        ],
    );
}

/// The clock's line, a sequence lock: all of one line, or none.
#[test]
fn a_line_of_the_clock_is_read_whole() {
    explore(
        || {
            let of = |n: u64| line::Line {
                tsc0: n,
                ns0: n,
                scale: n,
            };
            let published = Arc::new(line::Published::new(of(1)));
            let writer = published.clone();
            let writer = thread::spawn(move || {
                writer.publish(of(2));
                writer.publish(of(3));
            });
            let read = published.read();
            writer.join().unwrap();
            if let Some((version, line)) = read {
                assert_eq!(line, of(version / 2), "parts of two lines");
            }
        },
        &[
            Planted::Load,
            Planted::Store,
            Planted::AcquireFence,
            Planted::ReleaseFence,
        ],
    );
}

/// Numbers that a lane has sent, and when, by counters that it publishes: a packet that is known as sent has its own
/// time, or the run's beginning where its time was overwritten, never that of a later packet.
#[test]
fn a_packet_is_never_given_the_send_time_of_a_later_one() {
    const START: u64 = 1;
    explore(
        || {
            // Blocks of a burst, of which four are kept: the fifth takes the place of the first.
            const BURST: u64 = mpps_io::MAX_BURST as u64;
            let log = Arc::new(sent::SentLog::of_blocks(1, BURST.ilog2()));
            let note = |log: &sent::SentLog, block| log.note(0, block * BURST..(block + 1) * BURST, 100 + block);
            (0..2).for_each(|block| note(&log, block));
            let lane = log.clone();
            let lane = thread::spawn(move || (2..5).for_each(|block| note(&lane, block)));
            let first = log.around(0, 0, START, 1000);
            let newest = log.around(0, 4 * BURST, START, 1000);
            lane.join().unwrap();
            let from_ns = first.expect("it was sent before").from_ns;
            assert!([START, 100].contains(&from_ns), "sent at {from_ns}");
            if let Some(newest) = newest {
                assert_eq!(newest.from_ns, 104);
            }
        },
        &[
            Planted::Load,
            Planted::Store,
            Planted::AcquireFence,
            Planted::ReleaseFence,
        ],
    );
}
