//! Which buffers the kernel has to fill, and where all others are. Pure book-keeping: it knows no ring.

use std::fmt;

/// Buffers that are provided to the kernel and have not come back.
#[derive(Debug)]
pub(crate) struct Ledger {
    posted: Box<[bool]>,
    count: usize,
    strange: u64,
}

impl Ledger {
    /// For `buffers` buffers, none of them provided.
    pub(crate) fn new(buffers: u32) -> Self {
        Self {
            posted: vec![false; buffers as usize].into_boxed_slice(),
            count: 0,
            strange: 0,
        }
    }

    /// Buffers that the kernel has.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The buffer is provided now.
    #[inline]
    pub(crate) fn post(&mut self, buffer: u32) {
        debug_assert!(!self.posted[buffer as usize], "buffer {buffer} is provided already");
        self.posted[buffer as usize] = true;
        self.count += 1;
    }

    /// The kernel says that it has filled this buffer. False: it never had it, which is counted; nobody may touch it.
    #[inline]
    pub(crate) fn take(&mut self, buffer: u32) -> bool {
        match self.posted.get_mut(buffer as usize) {
            Some(posted @ true) => {
                *posted = false;
                self.count -= 1;
                true
            }
            _ => {
                self.strange += 1;
                false
            }
        }
    }

    /// Takes back all that the kernel has, when its ring of buffers is gone.
    pub(crate) fn take_all(&mut self, mut taken: impl FnMut(u32)) {
        for (buffer, posted) in (0..).zip(&mut self.posted) {
            if std::mem::take(posted) {
                taken(buffer);
            }
        }
        self.count = 0;
    }

    /// Counts where each buffer is, from the records of the parts that hold buffers. `free` and `sending` are numbers
    /// of buffers, one for each hold; `holders` returns how often a buffer is held in all.
    pub(crate) fn audit(
        &self,
        free: impl Iterator<Item = u32>,
        sending: impl Iterator<Item = u32>,
        received: impl Iterator<Item = u32>,
        holders: impl Fn(u32) -> u32,
    ) -> Audit {
        let buffers = self.posted.len();
        let mut found = vec![(0u32, false); buffers];
        let mut audit = Audit {
            buffers: buffers as u64,
            strange: self.strange,
            ..Audit::default()
        };
        for buffer in free {
            audit.free += 1;
            let seen = &mut found[buffer as usize];
            audit.duplicated += u64::from(seen.1);
            seen.1 = true;
        }
        for (buffer, _) in (0..).zip(&self.posted).filter(|(_, posted)| **posted) {
            audit.posted += 1;
            found[buffer as usize].0 += 1;
        }
        for buffer in sending {
            audit.sending += 1;
            found[buffer as usize].0 += 1;
        }
        for buffer in received {
            audit.received += 1;
            found[buffer as usize].0 += 1;
        }
        for (buffer, (holds, is_free)) in (0..).zip(&found) {
            let all = holders(buffer);
            if *is_free {
                audit.duplicated += u64::from(*holds > 0 || all > 0);
            } else if all == 0 {
                audit.lost += 1;
            } else if *holds > all {
                audit.duplicated += 1;
            } else {
                audit.frames += u64::from(all - holds);
            }
        }
        audit
    }
}

/// Number of a lane's buffers in each place: [`crate::UringQueue::audit`]. A buffer of one packet is in one place; a
/// buffer that the kernel has filled with many packets (`gro=on`) counts once for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// All buffers of the lane's pool.
    pub buffers: u64,
    /// In the pool's free list.
    pub free: u64,
    /// Provided to the kernel, to be filled.
    pub posted: u64,
    /// Received, and not yet handed out.
    pub received: u64,
    /// With sends that the kernel has not finished.
    pub sending: u64,
    /// With frames that the lane holds.
    pub frames: u64,
    /// Nowhere.
    pub lost: u64,
    /// In two places.
    pub duplicated: u64,
    /// Completions that named a buffer which the kernel did not have.
    pub strange: u64,
}

impl Audit {
    /// True when every buffer was found, in one place each.
    pub fn is_exact(&self) -> bool {
        self.lost == 0 && self.duplicated == 0 && self.strange == 0
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            buffers,
            free,
            posted,
            received,
            sending,
            frames,
            lost,
            duplicated,
            strange,
        } = self;
        write!(
            f,
            "{buffers} buffers: {free} free, {posted} posted, {received} received, {sending} sending, {frames} frames, \
             {lost} lost, {duplicated} duplicated; {strange} strange completions"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_the_kernel_has_is_what_was_posted_and_not_taken(
            steps in prop::collection::vec((any::<bool>(), 0u32..16), 0..200),
        ) {
            let mut ledger = Ledger::new(16);
            let mut oracle = [false; 16];
            let mut strange = 0;
            for (post, buffer) in steps {
                let had = &mut oracle[buffer as usize];
                if post && !*had {
                    ledger.post(buffer);
                    *had = true;
                } else if !post {
                    prop_assert_eq!(ledger.take(buffer), *had);
                    strange += u64::from(!*had);
                    *had = false;
                }
                prop_assert_eq!(ledger.count(), oracle.iter().filter(|had| **had).count());
            }
            let free: Vec<u32> = (0..16).filter(|&b| !oracle[b as usize]).collect();
            let holds = |b: u32| u32::from(oracle[b as usize]);
            let audit = ledger.audit(free.into_iter(), [].into_iter(), [].into_iter(), holds);
            prop_assert_eq!((audit.lost, audit.duplicated, audit.strange), (0, 0, strange));
            let mut back = Vec::new();
            ledger.take_all(|buffer| back.push(buffer));
            prop_assert_eq!(back, (0..16).filter(|&b| oracle[b as usize]).collect::<Vec<_>>());
            prop_assert_eq!(ledger.count(), 0);
        }
    }

    #[test]
    fn a_buffer_that_is_nowhere_and_one_in_two_places_are_found() {
        let mut ledger = Ledger::new(4);
        ledger.post(0);
        // 1 is free, 2 is being sent, 3 is nowhere.
        let holds = |b: u32| u32::from(b == 0 || b == 2);
        let audit = ledger.audit([1].into_iter(), [2].into_iter(), [].into_iter(), holds);
        assert_eq!((audit.posted, audit.free, audit.sending, audit.lost), (1, 1, 1, 1));
        assert!(!audit.is_exact());
        // 0 is posted, and free, too.
        let audit = ledger.audit([0, 1, 3].into_iter(), [2].into_iter(), [].into_iter(), holds);
        assert_eq!((audit.lost, audit.duplicated), (0, 1));
        // A frame is what is held and is none of the others.
        let audit = ledger.audit([1, 3].into_iter(), [].into_iter(), [].into_iter(), holds);
        assert_eq!(audit.frames, 1);
        assert!(audit.is_exact(), "{audit}");
        assert!(!ledger.take(9) && !ledger.take(1));
    }
}
