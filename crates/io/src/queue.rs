//! A queue: one receive and transmit queue pair of a port, owned by one lane.

use crate::{Burst, Frame, Result};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Events that [`Queue::wait`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Wake when a packet can be received.
    pub rx: bool,
    /// Wake when there is room to transmit.
    pub tx: bool,
}

/// Unit in which the fill of an [`RxRoom`] is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoomUnit {
    /// Packets: places of a ring.
    #[default]
    Packets,
    /// Bytes of kernel memory, the kernel's own overhead for each packet counted.
    Bytes,
}

/// Buffer in which received packets wait for [`Queue::receive`]: a ring, or the buffer of a socket. A packet that finds
/// no room is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxRoom {
    /// Most that the buffer holds; if there are several rings or sockets, most that each holds.
    pub size: u64,
    /// How many rings or sockets there are.
    pub count: usize,
    /// Unit of `size`.
    pub unit: RoomUnit,
    /// A look ([`Queue::rx_fill`]) costs so much that there should be no more than one in this time.
    pub every: Duration,
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
    /// The same as for [`Queue::receive`].
    fn allocate(&mut self, burst: &mut Burst<Self::Frame>, n: usize) -> Result<usize>;

    /// Sends frames from the front of `burst`; returns how many were taken. Frames that were not taken stay in the
    /// burst, in order. A frame may be one that was allocated or one that was received, on this queue or another over
    /// the same pool. Taken means handed to the path: [`crate::Port::counters`] has a frame's fate after that.
    ///
    /// # Errors
    /// The same as for [`Queue::receive`]. After an error the burst still holds every frame that was not taken.
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

    /// Returns the buffer in which received packets wait, if the path knows how full it is. Asked once, before packets
    /// move.
    fn rx_room(&self) -> Option<RxRoom> {
        None
    }

    /// How much of [`Queue::rx_room`] is taken now, in its unit; of several rings or sockets, how much of the fullest
    /// that was looked at. The lane asks between two calls of [`Queue::receive`], no oftener than [`RxRoom::every`].
    fn rx_fill(&mut self) -> Option<u64> {
        None
    }

    /// Pushes out whatever the path holds back (a doorbell, a half-filled ring). Called when a lane goes idle.
    ///
    /// # Errors
    /// The same as for [`Queue::receive`].
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns the descriptor that becomes readable when something can be received: for a lane that waits for two
    /// queues at once. `None`: only [`Queue::wait`] can wait for this queue, or it receives nothing.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Sleeps until one of `what` is so or `timeout` has passed, the way the path offers (poll, need-wakeup). May
    /// return early.
    ///
    /// # Errors
    /// The same as for [`Queue::receive`].
    fn wait(&mut self, what: Wait, timeout: Duration) -> Result<()>;
}
