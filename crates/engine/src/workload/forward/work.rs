//! Work on each frame beside forwarding it: takes the part of a heavier program.
//!
//! Accesses go to random places of a memory, as those of testpmd's mode `noisy` do: no place depends on what an earlier
//! access read, so a processor has as many of them under way as it can.

use mpps_io::Work;
use mpps_sys::clock::Clock;
use std::hint::{black_box, spin_loop};

/// Work of one direction of a lane, with the memory that it goes through.
pub(super) struct Working {
    work: Work,
    memory: Vec<u64>,
    /// State of the random numbers.
    random: u64,
}

impl Working {
    /// Takes the memory, and writes each of its pages, so that no page is made during the run. Without accesses it
    /// takes none.
    pub(super) fn new(work: Work) -> Self {
        let words = match work.reads + work.writes {
            0 => 0,
            _ => (work.memory / size_of::<u64>()).max(1),
        };
        Self {
            work,
            memory: vec![1; words],
            random: 0,
        }
    }

    /// Returns whether there is anything to do.
    pub(super) fn any(&self) -> bool {
        self.work != Work::default()
    }

    /// Does the work of `frames` frames.
    #[cold]
    #[inline(never)]
    pub(super) fn on(&mut self, frames: usize, clock: &Clock) {
        let began = clock.now_ns();
        for _ in 0..frames {
            for _ in 0..self.work.reads {
                let place = self.place();
                black_box(self.memory[place]);
            }
            for _ in 0..self.work.writes {
                let place = self.place();
                self.memory[place] = black_box(self.random);
            }
        }
        let until = began + self.work.ns * frames as u64;
        while clock.now_ns() < until {
            spin_loop();
        }
    }

    /// Returns a random place of the memory (splitmix64).
    fn place(&mut self) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = mixed ^ (mixed >> 27);
        ((u128::from(mixed) * self.memory.len() as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_sys::clock::ClockSource;

    #[test]
    fn work_takes_its_time_for_each_frame_and_changes_its_own_memory_alone() {
        let source = ClockSource::new();
        let clock = source.clock();
        let work = Work {
            ns: 10_000,
            reads: 3,
            writes: 2,
            memory: 4096,
        };
        let mut working = Working::new(work);
        assert!(working.any() && working.memory.len() == 512);
        let began = clock.now_ns();
        working.on(32, &clock);
        assert!(clock.now_ns() - began >= 320_000);
        let written = working.memory.iter().filter(|&&word| word != 1).count();
        // 64 writes to random places of 512, of which some are the same.
        assert!((32..=64).contains(&written), "{written}");
    }

    #[test]
    fn without_accesses_there_is_no_memory_and_without_work_there_is_none() {
        assert!(!Working::new(Work::default()).any());
        let timed = Working::new(Work {
            ns: 1,
            ..Work::default()
        });
        assert!(timed.any() && timed.memory.is_empty());
        let one = Work {
            reads: 1,
            ..Work::default()
        };
        let (mut smallest, source) = (Working::new(one), ClockSource::new());
        smallest.on(1, &source.clock());
        assert_eq!(smallest.memory, [1]);
    }
}
