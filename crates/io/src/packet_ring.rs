//! A ring of copied packets from one lane to one other thread: a lane must not wait, so it hands packets to a thread
//! that may (a capture's writer).
//!
//! One producer, one consumer, no lock, nothing allocated after it is made; a full ring refuses, and the producer
//! counts. The memory is an array of 64-bit atomics, so all of this is safe code: a relaxed load or store of a word is
//! an ordinary one to the processor, and the positions' release and acquire order them. A record is two words (time,
//! then lengths and tag) and the bytes in whole words, and begins where the last one ended.

use crate::sync::{AtomicBool, AtomicU64, Ordering, Word};
use std::sync::Arc;

/// Words in front of a packet's bytes: time, then tag and both lengths.
const HEADER_WORDS: usize = 2;
/// Bits of a length.
const LENGTH_BITS: u32 = 24;
/// Longest packet that a record can name, bytes: longer ones are recorded as of this length.
pub const MAX_LENGTH: usize = (1 << LENGTH_BITS) - 1;

/// Direction of a frame, as pcapng's `epb_flags` has it. Tag 0 says nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The frame arrived.
    Received = 1,
    /// The frame left.
    Sent = 2,
}

/// Bits of a tag that hold the direction.
pub const DIRECTION_BITS: u32 = 2;

/// Tag of a frame that went this way at the port with this place in the run.
#[inline]
pub fn tag(place: usize, direction: Direction) -> u16 {
    (place as u16) << DIRECTION_BITS | direction as u16
}

/// Least size of a ring, bytes.
pub const MIN_PACKET_RING: usize = 4096;

/// A word that one side writes and the other reads, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Position(AtomicU64);

#[derive(Debug)]
struct Shared {
    /// A power of two of words.
    words: Box<[Word]>,
    /// Words ever written and published. Written by the producer.
    head: Position,
    /// Time in ns: no packet with an earlier time will follow. Written by the producer.
    seen_ns: Position,
    /// Words ever read. Written by the consumer.
    tail: Position,
    closed: AtomicBool,
}

/// Makes a ring of at least `bytes` (rounded up to a power of two, [`MIN_PACKET_RING`] at least). All of its memory is
/// written once, so that no lane meets a page that is not there.
pub fn packet_ring(bytes: usize) -> (PacketProducer, PacketConsumer) {
    of_words(bytes.clamp(MIN_PACKET_RING, 1 << 40).next_power_of_two() / 8)
}

/// Makes a ring of so many words, a power of two.
pub(crate) fn of_words(words: usize) -> (PacketProducer, PacketConsumer) {
    let shared = Arc::new(Shared {
        // One by one, not as zeroed memory, which would be mapped only when first touched.
        words: (0..words).map(|i| Word::new(i as u64)).collect(),
        head: Position::default(),
        seen_ns: Position::default(),
        tail: Position::default(),
        closed: AtomicBool::new(false),
    });
    let producer = PacketProducer {
        shared: Arc::clone(&shared),
        head: 0,
        free_until: words as u64,
    };
    let consumer = PacketConsumer {
        shared,
        tail: 0,
        head: 0,
    };
    (producer, consumer)
}

/// Words that a record of `len` bytes takes.
#[inline]
fn record_words(len: usize) -> usize {
    HEADER_WORDS + len.div_ceil(8)
}

/// The writing end, one lane's. Dropping it publishes what was pushed and closes the ring.
#[derive(Debug)]
pub struct PacketProducer {
    shared: Arc<Shared>,
    /// Words written, published or not.
    head: u64,
    /// The consumer is known to have freed the ring up to here.
    free_until: u64,
}

impl PacketProducer {
    /// Copies a packet into the ring; false, with nothing done, if there is no room. The consumer sees it after
    /// [`PacketProducer::publish`]. Of more than [`MAX_LENGTH`] bytes only so many are kept.
    #[inline]
    pub fn push(&mut self, packet: RingPacket, bytes: &[u8]) -> bool {
        let bytes = &bytes[..bytes.len().min(MAX_LENGTH)];
        let need = record_words(bytes.len()) as u64;
        if self.free_until - self.head < need && !self.make_room(need) {
            return false;
        }
        let wire_len = u64::from(packet.wire_len).min(MAX_LENGTH as u64);
        self.put(0, packet.time_ns);
        self.put(
            1,
            u64::from(packet.tag) << (2 * LENGTH_BITS) | wire_len << LENGTH_BITS | bytes.len() as u64,
        );
        let words = &self.shared.words;
        let start = (self.head as usize + HEADER_WORDS) & (words.len() - 1);
        // Whole words up to the end of the memory, then the rest from its start.
        let (first, second) = bytes.split_at(bytes.len().min((words.len() - start) * 8));
        store(&words[start..], first);
        store(words, second);
        self.head += need;
        true
    }

    #[inline]
    fn put(&self, at: usize, word: u64) {
        let words = &self.shared.words;
        words[(self.head as usize + at) & (words.len() - 1)].store(word, Ordering::Relaxed);
    }

    /// Looks how far the consumer has come.
    #[inline(never)]
    fn make_room(&mut self, need: u64) -> bool {
        // Acquire: the consumer's reads of a place come before our writes to it.
        self.free_until = self.shared.tail.0.load(Ordering::Acquire) + self.shared.words.len() as u64;
        self.free_until - self.head >= need
    }

    /// Takes back what was pushed since it was last published, but for the first `records` packets.
    pub fn take_back_after(&mut self, records: usize) {
        let words = &self.shared.words;
        let mut at = self.shared.head.0.load(Ordering::Relaxed);
        for _ in 0..records {
            let lengths = words[(at as usize + 1) & (words.len() - 1)].load(Ordering::Relaxed);
            at += record_words(lengths as usize & MAX_LENGTH) as u64;
        }
        self.head = at;
    }

    /// Shows the consumer what was pushed, once per burst. `seen_ns`: no packet with an earlier time will be pushed; it
    /// lets the consumer order the packets of several rings.
    #[inline]
    pub fn publish(&mut self, seen_ns: u64) {
        self.shared.head.0.store(self.head, Ordering::Release);
        self.shared.seen_ns.0.store(seen_ns, Ordering::Release);
    }
}

impl Drop for PacketProducer {
    fn drop(&mut self) {
        self.publish(u64::MAX);
        self.shared.closed.store(true, Ordering::Release);
    }
}

/// Stores `bytes` in the words from the first on.
#[inline]
fn store(words: &[Word], bytes: &[u8]) {
    let chunks = bytes.chunks_exact(8);
    let tail = chunks.remainder();
    let whole = chunks.len();
    for (word, chunk) in words.iter().zip(chunks) {
        let chunk: &[u8; 8] = chunk.try_into().expect("a chunk of eight");
        word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
    }
    if let Some(word) = words.get(whole).filter(|_| !tail.is_empty()) {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        word.store(u64::from_ne_bytes(last), Ordering::Relaxed);
    }
}

/// A packet's facts; its bytes are in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPacket {
    /// When it was received or sent, ns on the lanes' clock.
    pub time_ns: u64,
    /// Length of the packet before it was cut, bytes.
    pub wire_len: u32,
    /// Port and direction ([`tag`]); 0: there is one port, and all frames are received.
    pub tag: u16,
}

/// The reading end.
#[derive(Debug)]
pub struct PacketConsumer {
    shared: Arc<Shared>,
    tail: u64,
    /// Published, as far as known.
    head: u64,
}

impl PacketConsumer {
    /// Time of the next packet, ns; `None` while there is none.
    pub fn next_time(&mut self) -> Option<u64> {
        if self.tail == self.head {
            // Acquire pairs with the producer's release: the words up to the head are whole.
            self.head = self.shared.head.0.load(Ordering::Acquire);
        }
        (self.tail != self.head).then(|| self.word(0))
    }

    /// Takes the next packet; its bytes replace the contents of `bytes`.
    pub fn pop(&mut self, bytes: &mut Vec<u8>) -> Option<RingPacket> {
        let time_ns = self.next_time()?;
        let lengths = self.word(1);
        let len = lengths as usize & MAX_LENGTH;
        bytes.clear();
        bytes.reserve(len + 8);
        let words = &self.shared.words;
        let start = (self.tail as usize + HEADER_WORDS) & (words.len() - 1);
        let count = len.div_ceil(8);
        let (second, first) = words.split_at(start);
        for word in first.iter().chain(second).take(count) {
            bytes.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        bytes.truncate(len);
        self.tail += record_words(len) as u64;
        // Release: our reads come before the producer's next writes to the place.
        self.shared.tail.0.store(self.tail, Ordering::Release);
        Some(RingPacket {
            time_ns,
            wire_len: (lengths >> LENGTH_BITS) as u32 & MAX_LENGTH as u32,
            tag: (lengths >> (2 * LENGTH_BITS)) as u16,
        })
    }

    /// No packet earlier than this, ns, will appear that is not there already. Ask before
    /// [`PacketConsumer::next_time`].
    pub fn seen_ns(&self) -> u64 {
        self.shared.seen_ns.0.load(Ordering::Acquire)
    }

    /// Whether the producer is gone. What it has pushed may still be there; ask before [`PacketConsumer::next_time`].
    pub fn closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// Whether less than half of the ring is free.
    pub fn half_full(&self) -> bool {
        let head = self.shared.head.0.load(Ordering::Relaxed);
        (head - self.tail) as usize > self.shared.words.len() / 2
    }

    /// Size, bytes.
    pub fn capacity(&self) -> usize {
        self.shared.words.len() * 8
    }

    fn word(&self, at: usize) -> u64 {
        let words = &self.shared.words;
        words[(self.tail as usize + at) & (words.len() - 1)].load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// Moves both ends of an empty ring to `at`, so that tests begin anywhere.
    fn ring_at(at: u64) -> (PacketProducer, PacketConsumer) {
        let (mut producer, mut consumer) = packet_ring(MIN_PACKET_RING);
        let shared = &producer.shared;
        shared.head.0.store(at, Ordering::Relaxed);
        shared.tail.0.store(at, Ordering::Relaxed);
        (producer.head, producer.free_until) = (at, at + shared.words.len() as u64);
        (consumer.head, consumer.tail) = (at, at);
        (producer, consumer)
    }

    /// The `i`-th packet.
    fn nth(i: u64) -> RingPacket {
        RingPacket {
            time_ns: i,
            wire_len: i as u32 + 9,
            tag: i as u16 ^ 0x8001,
        }
    }

    proptest! {
        #[test]
        fn packets_come_out_as_they_went_in_or_are_refused_for_want_of_room(
            start in 0u64..10_000,
            steps in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..700)), 0..200),
        ) {
            let (mut producer, mut consumer) = ring_at(start);
            let mut oracle: VecDeque<(RingPacket, Vec<u8>)> = VecDeque::new();
            let mut used = 0;
            let mut out = Vec::new();
            for (i, (push, bytes)) in steps.into_iter().enumerate() {
                if push {
                    let words = record_words(bytes.len());
                    let fits = used + words <= MIN_PACKET_RING / 8;
                    prop_assert_eq!(producer.push(nth(i as u64), &bytes), fits);
                    producer.publish(i as u64);
                    prop_assert_eq!(consumer.seen_ns(), i as u64);
                    if fits {
                        used += words;
                        oracle.push_back((nth(i as u64), bytes));
                    }
                } else {
                    let got = consumer.pop(&mut out).map(|p| (p, out.clone()));
                    if let Some(got) = &got {
                        used -= record_words(got.1.len());
                    }
                    prop_assert_eq!(got, oracle.pop_front());
                }
            }
            drop(producer);
            prop_assert!(consumer.closed());
            while let Some(want) = oracle.pop_front() {
                let got = consumer.pop(&mut out).map(|p| (p, out.clone()));
                prop_assert_eq!(got, Some(want));
            }
            prop_assert_eq!(consumer.pop(&mut out), None);
        }
    }

    #[test]
    fn nothing_is_seen_before_it_is_published() {
        let (mut producer, mut consumer) = packet_ring(0);
        assert!(producer.push(nth(1), b"hello"));
        assert_eq!(consumer.next_time(), None);
        producer.publish(2);
        assert_eq!(consumer.next_time(), Some(1));
        assert_eq!(consumer.capacity(), MIN_PACKET_RING);
    }

    #[test]
    fn what_is_taken_back_is_never_seen_and_its_room_is_free_again() {
        for start in [0, 490, 509] {
            let (mut producer, mut consumer) = ring_at(start);
            assert!(producer.push(nth(0), &[0; 20]));
            producer.publish(0);
            let contents = |i: u64| vec![i as u8; 100 * i as usize];
            (1..=4).for_each(|i| assert!(producer.push(nth(i), &contents(i))));
            producer.take_back_after(2);
            assert!(producer.push(nth(5), &contents(5)));
            producer.publish(5);
            let mut out = Vec::new();
            let mut got: Vec<_> = std::iter::from_fn(|| Some((consumer.pop(&mut out)?, out.clone()))).collect();
            assert_eq!(got.remove(0), (nth(0), vec![0; 20]));
            assert_eq!(got, [1, 2, 5].map(|i| (nth(i), contents(i))));
            producer.take_back_after(0);
            assert!(producer.push(nth(6), &[6; MIN_PACKET_RING - 16]), "all room is free");
        }
    }

    #[test]
    fn a_packet_that_is_longer_than_a_record_can_say_is_cut() {
        let (mut producer, mut consumer) = packet_ring(64 << 20);
        let long = RingPacket {
            wire_len: u32::MAX,
            ..nth(1)
        };
        assert!(producer.push(long, &vec![7; MAX_LENGTH + 9]));
        producer.publish(1);
        let mut out = Vec::new();
        let got = consumer.pop(&mut out).expect("there");
        assert_eq!(
            (got.tag, got.wire_len as usize, out.len()),
            (long.tag, MAX_LENGTH, MAX_LENGTH)
        );
    }

    #[test]
    fn two_threads_pass_every_packet_whole_and_in_order() {
        // Miri takes long, and tries many schedules.
        const PACKETS: u64 = if cfg!(miri) { 20 } else { 10_000 };
        const LONGEST: u64 = if cfg!(miri) { 20 } else { 300 };
        let (mut producer, mut consumer) = of_words(if cfg!(miri) { 16 } else { MIN_PACKET_RING / 8 });
        let contents = |i: u64| (0..i % LONGEST).map(|b| (b ^ i) as u8).collect::<Vec<u8>>();
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let (mut next, mut bytes) = (0, Vec::new());
                loop {
                    let closed = consumer.closed();
                    match consumer.pop(&mut bytes) {
                        Some(packet) => {
                            assert_eq!((packet, &bytes), (nth(next), &contents(next)));
                            next += 1;
                        }
                        None if closed => break next,
                        None => std::thread::yield_now(),
                    }
                }
            });
            for i in 0..PACKETS {
                let bytes = contents(i);
                // A reader that has failed makes no room.
                while !producer.push(nth(i), &bytes) && !reader.is_finished() {
                    producer.publish(i);
                    std::thread::yield_now();
                }
                if i % 7 == 0 {
                    producer.publish(i);
                }
            }
            drop(producer);
            assert_eq!(reader.join().expect("whole and in order"), PACKETS);
        });
    }
}
