//! Counters of a program, readable from any thread at any time.

use std::sync::Arc;

use aya::maps::{MapData, PerCpuArray};

use crate::Error;

/// Frames that a program has counted since it was attached, over all processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames given to a socket, including those that the socket had no room for, see
    /// [`Statistics`](crate::Statistics).
    pub taken: u64,
    /// Frames left to the host because the filter says so.
    pub passed: u64,
    /// Frames of the filter that were left to the host, because no socket is at their queue.
    pub no_socket: u64,
    /// Frames of the filter that were left to the host, because the driver has no room for the time of arrival.
    pub no_metadata: u64,
}

/// Counters as the program writes them, one set per processor: `struct counters` in `redirect.bpf.c`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Raw([u64; 4]);

const _: () = assert!(size_of::<Raw>() == 32);

// SAFETY: an array of integers has no padding, and every bit pattern is a value.
unsafe impl aya::Pod for Raw {}

/// Reads a program's counters; cheap to clone, and works after the program was detached.
#[derive(Clone)]
pub struct CounterReader {
    device: Arc<str>,
    map: Arc<PerCpuArray<MapData, Raw>>,
}

impl std::fmt::Debug for CounterReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CounterReader({})", self.device)
    }
}

impl CounterReader {
    pub(super) fn new(device: &Arc<str>, map: aya::maps::Map) -> Result<CounterReader, Error> {
        let map = PerCpuArray::try_from(map)
            .map_err(|e| super::failure("open the counters of the XDP program on", device, &e))?;
        Ok(CounterReader {
            device: device.clone(),
            map: Arc::new(map),
        })
    }

    /// The counters now. One system call; allocates.
    pub fn read(&self) -> Result<Counters, Error> {
        let values = self
            .map
            .get(&0, 0)
            .map_err(|e| super::failure("read the counters of the XDP program on", &self.device, &e))?;
        let mut sum = [0_u64; 4];
        for Raw(one) in values.iter() {
            for (total, value) in sum.iter_mut().zip(one) {
                *total = total.wrapping_add(*value);
            }
        }
        let [taken, passed, no_socket, no_metadata] = sum;
        Ok(Counters {
            taken,
            passed,
            no_socket,
            no_metadata,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::c_side;

    #[test]
    fn counters_are_read_in_the_order_in_which_the_program_has_them() {
        let theirs = &c_side::structs(&super::super::OBJECT.0)["counters"];
        let names: Vec<&str> = theirs.fields.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["taken", "passed", "no_socket", "no_metadata"]);
        assert!(theirs.size == 32 && theirs.fields.iter().all(|(_, _, size, _)| *size == 8));
    }
}
