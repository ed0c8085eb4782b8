//! A queue: one receive and transmit queue pair of a port, owned by one lane.

use crate::{Burst, Frame, Result};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What [`Queue::wait`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Wake when a packet can be received.
    pub rx: bool,
    /// Wake when there is room to transmit.
    pub tx: bool,
}

/// One receive/transmit queue pair. Not shared: every method takes `&mut self` and none blocks but [`Queue::wait`].
pub trait Queue {
    /// The buffer type; borrows the pool that the queue was made with.
    type Frame: Frame;

    /// Appends received frames to `burst`, up to its room; returns how many (0: nothing there).
    ///
    /// # Errors
    /// [`crate::ErrorKind::LinkDown`] while the device is down (try again later), [`crate::ErrorKind::Gone`] when it
    /// has vanished, else a failure of the path.
    fn receive(&mut self, burst: &mut Burst<Self::Frame>) -> Result<usize>;

    /// Appends up to `n` empty frames to `burst`, up to its room; returns how many (fewer when the pool or the
    /// transmit ring is exhausted). Their length and contents are whatever was there: set the length, then write.
    ///
    /// # Errors
    /// As [`Queue::receive`].
    fn allocate(&mut self, burst: &mut Burst<Self::Frame>, n: usize) -> Result<usize>;

    /// Sends frames from the front of `burst`; returns how many were taken. What was not taken stays in the burst,
    /// in order. A frame may be one that was allocated or one that was received, on this queue or another over the
    /// same pool. Taken means handed to the path: what becomes of it after is in [`crate::Port::counters`].
    ///
    /// # Errors
    /// As [`Queue::receive`]. After an error the burst still holds every frame that was not taken.
    fn transmit(&mut self, burst: &mut Burst<Self::Frame>) -> Result<usize>;

    /// Gives every frame of the burst back to its pool: paths that can do so in one step override it. The frames are
    /// those of this queue, or of another over the same pool.
    #[inline]
    fn discard(&mut self, burst: &mut Burst<Self::Frame>) {
        burst.clear();
    }

    /// Whether every frame that this queue gives is plain ([`Frame::is_plain`]), so that nobody needs to ask each.
    fn gives_plain(&self) -> bool {
        false
    }

    /// Pushes out whatever the path holds back (a doorbell, a half-filled ring). Called when a lane goes idle.
    ///
    /// # Errors
    /// As [`Queue::receive`].
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// What becomes readable when something can be received: for a lane that waits for two queues at once. `None`: only
    /// [`Queue::wait`] can wait for this queue, or it receives nothing.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Sleeps until one of `what` is so or `timeout` has passed, the way the path offers (poll, need-wakeup). May
    /// return early.
    ///
    /// # Errors
    /// As [`Queue::receive`].
    fn wait(&mut self, what: Wait, timeout: Duration) -> Result<()>;
}
