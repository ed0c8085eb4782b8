//! Waiting for two descriptors at once.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Sleeps until one of two descriptors can be read from, until `timeout` has passed, or until a signal. Returns which
/// of the two report an error.
///
/// # Errors
/// When the kernel can't wait.
pub fn readable(fds: [BorrowedFd<'_>; 2], timeout: Duration) -> io::Result<[bool; 2]> {
    let mut polled = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let timeout = Timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let broken = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
    Ok(polled.map(|fd| fd.revents().intersects(broken)))
}
