//! A lane's queue pair: one call into the driver a burst.

use crate::counters::LaneCounts;
use crate::frame::DpdkFrame;
use crate::link::Link;
use crate::pool::DpdkPool;
use dpdk_sys::{self as sys, RteMbuf};
use mpps_io::{Burst, MAX_BURST, Queue, Result, Wait};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest sleep of a lane that waits: poll-mode drivers wake nobody.
const NAP: Duration = Duration::from_micros(20);

/// One receive and transmit queue pair.
pub struct DpdkQueue<'p> {
    pub(crate) port: u16,
    /// `None`: this lane receives nothing.
    pub(crate) rx: Option<u16>,
    pub(crate) tx: u16,
    /// The device computes UDP checksums of what is allocated here.
    pub(crate) device_checksum: bool,
    pub(crate) pool: &'p DpdkPool,
    pub(crate) counts: &'p LaneCounts,
    pub(crate) link: &'p Link,
    pub(crate) taken: &'p AtomicBool,
    pub(crate) mbufs: Box<[*mut RteMbuf; MAX_BURST]>,
}

impl<'p> DpdkQueue<'p> {
    /// Moves the first `n` mbufs of the scratch array into the burst.
    ///
    /// # Safety
    /// They must be valid and nobody else's.
    #[inline]
    unsafe fn hand_over(&self, n: usize, burst: &mut Burst<DpdkFrame<'p>>) {
        burst.fill(self.mbufs[..n].iter().map(|&mbuf| {
            // SAFETY: the contract of this function; DPDK never hands out null.
            unsafe { DpdkFrame::of(NonNull::new_unchecked(mbuf)) }
        }));
    }
}

impl<'p> Queue for DpdkQueue<'p> {
    type Frame = DpdkFrame<'p>;

    #[inline]
    fn receive(&mut self, burst: &mut Burst<DpdkFrame<'p>>) -> Result<usize> {
        let Some(queue) = self.rx else { return Ok(0) };
        let room = burst.room().min(MAX_BURST) as u16;
        // SAFETY: the port is started, the queue is this lane's alone (`taken`), and the array holds `room` pointers.
        let n = unsafe { sys::mpps_rx_burst(self.port, queue, self.mbufs.as_mut_ptr(), room) };
        let n = usize::from(n);
        if n > 0 {
            // SAFETY: the driver has just given these mbufs to us; they are of pools that outlive the port.
            unsafe { self.hand_over(n, burst) };
            LaneCounts::add(&self.counts.rx, n as u64);
        }
        Ok(n)
    }

    #[inline]
    fn allocate(&mut self, burst: &mut Burst<DpdkFrame<'p>>, n: usize) -> Result<usize> {
        let n = n.min(burst.room()).min(MAX_BURST) as u16;
        // SAFETY: the pool lives for 'p, this thread is registered for it, and the array holds `n` pointers.
        let n = unsafe { sys::mpps_alloc_bulk(self.pool.mempool(), self.mbufs.as_mut_ptr(), n) };
        let n = usize::from(n);
        let before = burst.len();
        // SAFETY: just allocated, from a pool that lives for 'p.
        unsafe { self.hand_over(n, burst) };
        if self.device_checksum {
            burst.as_mut_slice()[before..].iter_mut().for_each(DpdkFrame::leave_checksum);
        }
        Ok(n)
    }

    #[inline]
    fn transmit(&mut self, burst: &mut Burst<DpdkFrame<'p>>) -> Result<usize> {
        let offered = burst.len() as u16;
        if offered == 0 {
            return Ok(0);
        }
        // A frame is a pointer to its mbuf and nothing more (`repr(transparent)`).
        let mbufs = burst.as_mut_slice().as_mut_ptr().cast::<*mut RteMbuf>();
        let taken = if self.device_checksum {
            let mut refused = 0;
            // SAFETY: `offered` mbufs of our own; those that are taken are forgotten below. The queue is this lane's.
            let taken = unsafe { sys::mpps_tx_burst_offload(self.port, self.tx, mbufs, offered, &mut refused) };
            LaneCounts::add(&self.counts.refused, refused);
            taken
        } else {
            // SAFETY: as above.
            unsafe { sys::mpps_tx_burst(self.port, self.tx, mbufs, offered) }
        };
        if taken == 0 {
            self.link.check()?;
        }
        // They are the driver's now: not to be freed by us.
        burst.drain(usize::from(taken)).for_each(std::mem::forget);
        Ok(usize::from(taken))
    }

    #[inline]
    fn discard(&mut self, burst: &mut Burst<DpdkFrame<'p>>) {
        let n = burst.len();
        let mbufs = burst.as_mut_slice().as_mut_ptr().cast::<*mut RteMbuf>();
        // SAFETY: `n` mbufs of our own, forgotten below.
        unsafe { sys::mpps_free_bulk(mbufs, n as u16) };
        burst.drain(n).for_each(std::mem::forget);
    }

    fn wait(&mut self, _what: Wait, timeout: Duration) -> Result<()> {
        self.link.check()?;
        std::thread::sleep(timeout.min(NAP));
        Ok(())
    }
}

impl Drop for DpdkQueue<'_> {
    fn drop(&mut self) {
        self.taken.store(false, Ordering::Release);
    }
}

/// The scratch array of a queue.
pub(crate) fn scratch() -> Box<[*mut RteMbuf; MAX_BURST]> {
    Box::new([null_mut(); MAX_BURST])
}
