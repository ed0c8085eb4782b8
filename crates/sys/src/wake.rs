//! Ending another thread's sleep: a descriptor that it sleeps on, which any thread or signal handler may write to.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Wakes one sleeper (`eventfd(2)`). A wake before the sleep ends it at once.
#[derive(Debug)]
pub struct Wake(OwnedFd);

impl Wake {
    /// # Errors
    /// When the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Ends the sleep, or the next one. Never waits.
    pub fn wake(&self) {
        // It fails only after 2^64 wakes that nobody took note of.
        let _ = write(&self.0, &1u64.to_ne_bytes());
    }

    /// Takes note: the next sleep lasts until the next wake.
    pub fn clear(&self) {
        let _ = read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ready::readable;
    use std::time::Duration;

    #[test]
    fn a_wake_before_the_sleep_ends_it_and_a_cleared_one_does_not() {
        let (wake, other) = (Wake::new().expect("eventfd"), Wake::new().expect("eventfd"));
        let asleep = |timeout| readable([wake.as_fd(), other.as_fd()], timeout).expect("poll");
        wake.wake();
        wake.wake();
        // With the wake lost this would be a test that never ends.
        asleep(Duration::from_secs(100_000));
        wake.clear();
        std::thread::scope(|scope| {
            scope.spawn(|| asleep(Duration::from_secs(100_000)));
            wake.wake();
        });
        wake.clear();
        let before = crate::clock::monotonic_ns();
        asleep(Duration::from_millis(2));
        assert!(
            crate::clock::monotonic_ns() - before >= 2_000_000,
            "a cleared wake woke"
        );
    }
}
