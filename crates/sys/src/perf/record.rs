//! Parses the records that the kernel puts into the ring of a sampled thread. No system call, no clock, no unsafe.
//!
//! Layouts: `enum perf_event_type` of `include/uapi/linux/perf_event.h`, for the one `sample_type` that
//! [`Sampler`](super::Sampler) asks for (`IP`, `TID`, `TIME`, `CPU`, `CALLCHAIN`). The bytes are the kernel's, and are
//! trusted for nothing all the same: whatever they are, there is no panic, and no more is read than is there.

/// `PERF_RECORD_LOST`.
const LOST: u32 = 2;
/// `PERF_RECORD_THROTTLE`.
const THROTTLE: u32 = 5;
/// `PERF_RECORD_SAMPLE`.
const SAMPLE: u32 = 9;
/// Type, misc, size.
const HEADER: usize = 8;
/// Entries of a call chain from here up are no addresses but say of what the next ones are (`PERF_CONTEXT_MAX`).
const CONTEXT: u64 = (-4095_i64) as u64;
/// `PERF_CONTEXT_KERNEL`.
const CONTEXT_KERNEL: u64 = (-128_i64) as u64;
/// `PERF_CONTEXT_USER`.
const CONTEXT_USER: u64 = (-512_i64) as u64;
/// Mask and value of `PERF_RECORD_MISC_KERNEL` in a header.
const MISC_MODE: u16 = 7;
const MISC_KERNEL: u16 = 1;

/// A thread was here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// When, ns of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Which thread.
    pub tid: u32,
    /// On which core.
    pub cpu: u32,
    /// Addresses, the innermost first. All but the first of the kernel's and the first of the program's are those that
    /// a call returns to.
    pub stack: Vec<u64>,
    /// How many of them, from the first on, are the kernel's.
    pub kernel: usize,
}

/// Content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A sample.
    Place(Place),
    /// Number of records that did not fit into the ring.
    Lost(u64),
    /// The kernel took fewer samples for a while, as they took too much time.
    Throttled,
    /// Something else.
    Other(u32),
}

/// The records of some bytes, in order. It ends at one that is cut off or whose size can't be.
#[derive(Clone, Debug)]
pub struct Records<'b>(pub &'b [u8]);

impl Iterator for Records<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let mut header = Words(self.0);
        let (kind, misc_and_size) = (header.u32()?, header.u32()?);
        let (misc, size) = (misc_and_size as u16, (misc_and_size >> 16) as usize);
        if size < HEADER || size > self.0.len() {
            self.0 = &[];
            return None;
        }
        let (record, rest) = self.0.split_at(size);
        self.0 = rest;
        let body = Words(&record[HEADER..]);
        let told = match kind {
            SAMPLE => place(body, misc).map(Record::Place),
            LOST => lost(body).map(Record::Lost),
            THROTTLE => Some(Record::Throttled),
            _ => None,
        };
        Some(told.unwrap_or(Record::Other(kind)))
    }
}

fn lost(mut body: Words<'_>) -> Option<u64> {
    let _id = body.u64()?;
    body.u64()
}

fn place(mut body: Words<'_>, misc: u16) -> Option<Place> {
    let address = body.u64()?;
    let _process = body.u32()?;
    let tid = body.u32()?;
    let at_ns = body.u64()?;
    let cpu = body.u32()?;
    let _reserved = body.u32()?;
    let entries = body.u64()?;
    let mut place = Place {
        at_ns,
        tid,
        cpu,
        ..Place::default()
    };
    let mut of_kernel = misc & MISC_MODE == MISC_KERNEL;
    for _ in 0..entries {
        // The record ends earlier than it says: what is there counts.
        let Some(entry) = body.u64() else { break };
        match entry {
            CONTEXT_KERNEL => of_kernel = true,
            CONTEXT_USER => of_kernel = false,
            // A guest or a hypervisor: none of ours.
            CONTEXT.. => break,
            // The kernel comes first; what follows the program's own is not a chain.
            _ if of_kernel && place.kernel < place.stack.len() => break,
            _ => {
                place.stack.push(entry);
                place.kernel += usize::from(of_kernel);
            }
        }
    }
    if place.stack.is_empty() {
        place.stack.push(address);
        place.kernel = usize::from(misc & MISC_MODE == MISC_KERNEL);
    }
    Some(place)
}

/// Numbers in the order of bytes of the host, one after another.
struct Words<'b>(&'b [u8]);

impl Words<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*word))
    }

    fn u64(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A record as the kernel writes it.
    fn written(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let size = (HEADER + body.len()) as u16;
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(misc.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend(body);
        bytes
    }

    fn sample(place: &Place, chain: &[u64]) -> Vec<u8> {
        let mut body = place.stack[0].to_ne_bytes().to_vec();
        for number in [1, place.tid] {
            body.extend(number.to_ne_bytes());
        }
        body.extend(place.at_ns.to_ne_bytes());
        for number in [place.cpu, 0] {
            body.extend(number.to_ne_bytes());
        }
        body.extend((chain.len() as u64).to_ne_bytes());
        chain.iter().for_each(|entry| body.extend(entry.to_ne_bytes()));
        written(SAMPLE, if place.kernel > 0 { 1 } else { 2 }, &body)
    }

    #[test]
    fn a_chain_through_the_kernel_is_told_apart() {
        let place = Place {
            at_ns: 77,
            tid: 5,
            cpu: 3,
            stack: vec![0xffff_ffff_8100_0010, 0xffff_ffff_8100_0020, 0x5555, 0x6666],
            kernel: 2,
        };
        let s = &place.stack;
        let bytes = sample(&place, &[CONTEXT_KERNEL, s[0], s[1], CONTEXT_USER, s[2], s[3]]);
        assert_eq!(Records(&bytes).collect::<Vec<_>>(), [Record::Place(place)]);
    }

    #[test]
    fn a_sample_without_a_chain_has_the_address_where_it_was() {
        let place = Place {
            stack: vec![0x1234],
            ..Place::default()
        };
        assert_eq!(Records(&sample(&place, &[])).next(), Some(Record::Place(place)));
    }

    #[test]
    fn what_was_lost_is_counted() {
        let mut body = 9_u64.to_ne_bytes().to_vec();
        body.extend(4_u64.to_ne_bytes());
        let mut bytes = written(LOST, 0, &body);
        bytes.extend(written(THROTTLE, 0, &[0; 24]));
        bytes.extend(written(77, 0, &[]));
        let told: Vec<_> = Records(&bytes).collect();
        assert_eq!(told, [Record::Lost(4), Record::Throttled, Record::Other(77)]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_go_on_for_ever(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert!(Records(&bytes).count() <= bytes.len() / HEADER);
        }

        #[test]
        fn nor_do_records_whose_bodies_are_anything(
            kind in prop_oneof![Just(LOST), Just(THROTTLE), Just(SAMPLE), any::<u32>()],
            misc in any::<u16>(),
            body in prop::collection::vec(any::<u8>(), 0..400),
            cut in 0_usize..500,
        ) {
            let bytes = written(kind, misc, &body);
            prop_assert_eq!(Records(&bytes).count(), 1);
            for record in Records(&bytes[..cut.min(bytes.len())]) {
                if let Record::Place(place) = record {
                    prop_assert!(place.kernel <= place.stack.len() && place.stack.len() <= body.len() / 8);
                }
            }
        }

        #[test]
        fn every_chain_comes_back(
            stack in prop::collection::vec(0..CONTEXT, 1..100),
            kernel in 0_usize..100,
            numbers in any::<(u64, u32, u32)>(),
        ) {
            let kernel = kernel.min(stack.len());
            let (at_ns, tid, cpu) = numbers;
            let place = Place { at_ns, tid, cpu, stack, kernel };
            let mut chain = vec![CONTEXT_KERNEL];
            chain.extend(&place.stack[..kernel]);
            chain.push(CONTEXT_USER);
            chain.extend(&place.stack[kernel..]);
            let bytes = sample(&place, &chain);
            prop_assert_eq!(Records(&bytes).collect::<Vec<_>>(), [Record::Place(place)]);
        }
    }
}
