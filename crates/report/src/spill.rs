//! A queue of bounded memory: records that do not fit go to a temporary file, and come back in order.
//!
//! The reader of a CSV may be slower than the run for hours; memory must not grow with the run, and no row may be
//! dropped while there is any place left to keep it. The file is unlinked from the start, so that even `kill -9`
//! leaves nothing behind, and its read part is given back to the file system as it goes.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Size of a block that is read back, bytes.
const BLOCK: usize = 256 * 1024;
/// Bytes read before their space is given back to the file system.
const PUNCH: u64 = 4 * 1024 * 1024;

/// A record that can be kept in a file.
pub(crate) trait Record: Serialize + DeserializeOwned + Send + 'static {
    /// Returns the number of records of usual length that take as much memory.
    fn weight(&self) -> usize {
        1
    }
}

/// Records in memory, with the sum of their weights.
struct Held<T> {
    records: VecDeque<T>,
    weight: usize,
}

impl<T: Record> Held<T> {
    fn new() -> Self {
        Self {
            records: VecDeque::new(),
            weight: 0,
        }
    }

    fn push(&mut self, record: T) {
        self.weight += record.weight();
        self.records.push_back(record);
    }

    fn pop(&mut self) -> Option<T> {
        let record = self.records.pop_front()?;
        self.weight -= record.weight();
        Some(record)
    }

    fn clear(&mut self) {
        self.records.clear();
        self.weight = 0;
    }
}

/// First in, first out; keeps records of at most `2 * capacity` in weight (and the last one, and one block of the file)
/// in memory.
pub(crate) struct SpillQueue<T> {
    /// Oldest records.
    head: Held<T>,
    /// Next records, in the file from `read_at` to `write_at`.
    file: Option<File>,
    spilled: u64,
    read_at: u64,
    write_at: u64,
    punched: u64,
    /// Newest records.
    tail: Held<T>,
    capacity: usize,
    directory: PathBuf,
    scratch: Vec<u8>,
    /// Records lost because the temporary file could not take them or give them back.
    lost: u64,
    failure: Option<io::Error>,
}

impl<T: Record> SpillQueue<T> {
    /// Returns an empty queue that spills beyond `capacity` records to an unlinked file in `directory`.
    pub(crate) fn new(capacity: usize, directory: PathBuf) -> Self {
        Self {
            head: Held::new(),
            file: None,
            spilled: 0,
            read_at: 0,
            write_at: 0,
            punched: 0,
            tail: Held::new(),
            capacity: capacity.max(1),
            directory,
            scratch: Vec::new(),
            lost: 0,
            failure: None,
        }
    }

    /// Returns the number of records in the queue, in memory and on disk.
    pub(crate) fn len(&self) -> u64 {
        self.head.records.len() as u64 + self.spilled + self.tail.records.len() as u64
    }

    /// Returns the reason why the first record was lost, if the temporary file could not take or return it.
    pub(crate) fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Appends a record.
    pub(crate) fn push(&mut self, record: T) {
        if self.spilled == 0 && self.tail.records.is_empty() && self.head.weight < self.capacity {
            self.head.push(record);
            return;
        }
        self.tail.push(record);
        if self.tail.weight >= self.capacity
            && let Err(error) = self.spill()
        {
            self.lost += self.tail.records.len() as u64;
            self.tail.clear();
            self.failure.get_or_insert(error);
        }
    }

    /// Removes and returns the oldest record.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.head.records.is_empty() {
            if self.spilled > 0
                && let Err(error) = self.refill()
            {
                self.lost += self.spilled;
                self.failure.get_or_insert(error);
                self.reset();
            }
            if self.head.records.is_empty() {
                std::mem::swap(&mut self.head, &mut self.tail);
            }
        }
        self.head.pop()
    }

    /// Moves the tail to the file in one write. On failure the file stays as it was.
    fn spill(&mut self) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile_in(&self.directory)?),
        };
        self.scratch.clear();
        for record in &self.tail.records {
            let start = self.scratch.len();
            self.scratch.extend_from_slice(&[0; 4]);
            serde_json::to_writer(&mut self.scratch, record)?;
            let length = u32::try_from(self.scratch.len() - start - 4).map_err(io::Error::other)?;
            self.scratch[start..start + 4].copy_from_slice(&length.to_le_bytes());
        }
        file.write_all_at(&self.scratch, self.write_at)?;
        self.write_at += self.scratch.len() as u64;
        self.spilled += self.tail.records.len() as u64;
        self.tail.clear();
        Ok(())
    }

    /// Brings a block of the file back into the head.
    fn refill(&mut self) -> io::Result<()> {
        let corrupt = || io::Error::new(io::ErrorKind::InvalidData, "the temporary file was changed");
        let file = self.file.as_ref().ok_or_else(corrupt)?;
        let mut want = BLOCK;
        loop {
            let left = usize::try_from(self.write_at - self.read_at).unwrap_or(usize::MAX);
            self.scratch.resize(want.min(left), 0);
            file.read_exact_at(&mut self.scratch, self.read_at)?;
            let mut rest = &self.scratch[..];
            while let Some((length, after)) = rest.split_first_chunk::<4>() {
                let length = u32::from_le_bytes(*length) as usize;
                let Some((record, after)) = after.split_at_checked(length) else {
                    want = want.max(length + 4);
                    break;
                };
                self.head.push(serde_json::from_slice(record).map_err(|_| corrupt())?);
                self.spilled = self.spilled.checked_sub(1).ok_or_else(corrupt)?;
                rest = after;
            }
            let taken = self.scratch.len() - rest.len();
            self.read_at += taken as u64;
            if taken > 0 {
                break;
            }
            if want <= self.scratch.len() || want > left {
                return Err(corrupt());
            }
        }
        if self.spilled == 0 {
            self.reset();
        } else if self.read_at - self.punched >= PUNCH {
            // Not every file system can do this; otherwise the file just stays larger.
            use rustix::fs::FallocateFlags as F;
            let _ = rustix::fs::fallocate(
                file,
                F::PUNCH_HOLE | F::KEEP_SIZE,
                self.punched,
                self.read_at - self.punched,
            );
            self.punched = self.read_at;
        }
        Ok(())
    }

    /// Starts the file from its beginning again.
    fn reset(&mut self) {
        self.spilled = 0;
        self.read_at = 0;
        self.write_at = 0;
        self.punched = 0;
        if let Some(file) = &self.file
            && file.set_len(0).is_err()
        {
            self.file = None;
        }
    }
}

/// Returns the directory to spill to: `TMPDIR`, else `/var/tmp`, which unlike `/tmp` is seldom memory itself.
pub(crate) fn directory() -> PathBuf {
    match std::env::var_os("TMPDIR") {
        Some(directory) if !directory.is_empty() => directory.into(),
        _ if std::path::Path::new("/var/tmp").is_dir() => "/var/tmp".into(),
        _ => std::env::temp_dir(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, PartialEq, Clone, Serialize, serde::Deserialize)]
    struct Blob(Vec<u8>);

    impl Record for Blob {
        fn weight(&self) -> usize {
            1 + self.0.len() / 8
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn order_is_kept_and_nothing_lost_with_any_interleaving(
            capacity in 1usize..20,
            steps in proptest::collection::vec((any::<bool>(), 0usize..60), 1..60),
        ) {
            let mut queue = SpillQueue::new(capacity, std::env::temp_dir());
            let mut oracle = VecDeque::new();
            let mut next = 0u64;
            for (push, n) in steps {
                for _ in 0..n {
                    if push {
                        // Lengths vary, 0 included.
                        let blob = Blob(next.to_le_bytes().repeat((next % 5) as usize));
                        oracle.push_back(blob.clone());
                        queue.push(blob);
                        next += 1;
                    } else {
                        prop_assert_eq!(queue.pop(), oracle.pop_front());
                    }
                    prop_assert_eq!(queue.len(), oracle.len() as u64);
                    prop_assert!(queue.tail.weight < capacity);
                    prop_assert_eq!(queue.head.weight, queue.head.records.iter().map(Blob::weight).sum::<usize>());
                }
            }
            while let Some(blob) = oracle.pop_front() {
                prop_assert_eq!(queue.pop(), Some(blob));
            }
            prop_assert_eq!(queue.pop(), None);
            prop_assert_eq!(queue.lost, 0);
        }
    }

    proptest! {
        #[test]
        fn a_row_comes_back_as_it_was(
            w in any::<[u64; 4]>(), lost: i64, mean in -1e18..1e18f64, percentiles: Option<[u64; 4]>,
            host_dropped: Option<u64>, fill: Option<(u64, u64)>,
        ) {
            use mpps_stats::{Latency, Percentiles, RowFill};
            let percentiles = percentiles.map(|[p50, p90, p99, p999]| Percentiles { p50, p90, p99, p999 });
            let latency = Latency { count: w[2], min: w[3], mean, percentiles, max: w[0] };
            let row = mpps_stats::Row {
                index: w[0],
                tx: w[1],
                lost,
                latency,
                latency_scheduled: percentiles.map(|_| latency),
                wake_up: percentiles.map(|_| latency),
                host_dropped,
                rx_fill: fill.map(|(highest_ppm, mean_ppm)| RowFill { highest_ppm, mean_ppm }),
                ..mpps_stats::Row::default()
            };
            let mut queue = SpillQueue::new(1, std::env::temp_dir());
            (0..3).for_each(|_| queue.push(row.clone()));
            for _ in 0..3 {
                prop_assert_eq!(queue.pop(), Some(row.clone()));
            }
            prop_assert_eq!(queue.lost, 0);
        }
    }

    #[test]
    fn memory_is_bounded_whatever_the_backlog() {
        let mut queue = SpillQueue::new(16, std::env::temp_dir());
        for i in 0..100_000u64 {
            queue.push(Blob(i.to_le_bytes().repeat(8)));
            assert!(queue.head.weight < 16 + 9 && queue.tail.weight < 16);
        }
        for i in 0..100_000u64 {
            assert_eq!(queue.pop(), Some(Blob(i.to_le_bytes().repeat(8))));
            assert!(queue.head.records.len() * 68 <= BLOCK && queue.tail.weight < 16);
        }
        assert!(queue.punched <= queue.read_at);
    }

    #[test]
    fn a_record_larger_than_a_block_comes_back_whole() {
        let mut queue = SpillQueue::new(1, std::env::temp_dir());
        let blobs: Vec<Blob> = (0..4).map(|i| Blob(vec![i; BLOCK + 100 * usize::from(i)])).collect();
        blobs.iter().for_each(|b| queue.push(b.clone()));
        for blob in blobs {
            assert_eq!(queue.pop(), Some(blob));
        }
    }

    #[test]
    fn records_that_find_no_place_are_counted() {
        let mut queue = SpillQueue::new(4, "/nonexistent-directory".into());
        for i in 0..12u8 {
            queue.push(Blob(vec![i]));
        }
        let mut kept = 0;
        while queue.pop().is_some() {
            kept += 1;
        }
        assert_eq!(kept + queue.lost, 12);
        assert!(queue.lost > 0 && queue.failure().is_some());
    }
}
