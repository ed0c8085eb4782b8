//! Ending another thread's sleep: a descriptor that it sleeps on, which any thread or signal handler may write to.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

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
        // Writing fails only after 2^64 wakes that nobody has cleared.
        let _ = write(&self.0, &1u64.to_ne_bytes());
    }

    /// Takes note: the next sleep lasts until the next wake.
    pub fn clear(&self) {
        let _ = read(&self.0, &mut [0; 8]);
    }
}

/// A wake can be polled beside other descriptors: it can be read once it was woken.
impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Other descriptors that end a sleep, at the most.
const OTHERS: usize = 8;

/// Sleeps until one of two wakes comes, and takes note of it, or until `timeout` has passed.
///
/// # Errors
/// When the kernel can't wait.
pub fn sleep(wakes: [&Wake; 2], timeout: Duration) -> io::Result<()> {
    sleep_beside(wakes, std::iter::empty(), timeout)
}

/// Sleeps like [`sleep`], or until one of the first eight of `others` can be read.
///
/// # Errors
/// When the kernel can't wait.
pub fn sleep_beside<'f>(
    wakes: [&'f Wake; 2],
    others: impl Iterator<Item = BorrowedFd<'f>>,
    timeout: Duration,
) -> io::Result<()> {
    // Slots that nobody fills stand for a wake that is polled anyway.
    let mut polled: [PollFd<'_>; 2 + OTHERS] =
        std::array::from_fn(|slot| PollFd::new(&wakes[slot.min(1)].0, PollFlags::IN));
    let mut filled = 2;
    for (slot, fd) in polled[2..].iter_mut().zip(others) {
        *slot = PollFd::from_borrowed_fd(fd, PollFlags::IN);
        filled += 1;
    }
    let timeout = Timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    match poll(&mut polled[..filled], Some(&timeout)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    wakes
        .iter()
        .zip(&polled)
        .filter(|(_, fd)| !fd.revents().is_empty())
        .for_each(|(wake, _)| wake.clear());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_before_the_sleep_ends_it_once() {
        let (wake, other) = (Wake::new().expect("eventfd"), Wake::new().expect("eventfd"));
        let asleep = |timeout| sleep([&wake, &other], timeout).expect("poll");
        let forever = Duration::from_secs(100_000);
        wake.wake();
        wake.wake();
        // With a wake lost this would be a test that never ends.
        asleep(forever);
        std::thread::scope(|scope| {
            scope.spawn(|| asleep(forever));
            other.wake();
        });
        let before = crate::clock::monotonic_ns();
        asleep(Duration::from_millis(2));
        assert!(
            crate::clock::monotonic_ns() - before >= 2_000_000,
            "a wake that was taken note of woke again"
        );
    }
}
