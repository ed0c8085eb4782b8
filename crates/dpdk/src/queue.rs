//! A lane's queue pair: one call into the driver per burst.

use crate::counters::LaneCounts;
use crate::frame::DpdkFrame;
use crate::link::Link;
use crate::pool::DpdkPool;
use dpdk_sys::{self as sys, Entry, RteMbuf};
use mpps_io::{Burst, Frame, Mailbox, Queue, Result, RoomUnit, RxRoom, Wait};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest sleep of a lane that waits: poll-mode drivers wake nobody.
const NAP: Duration = Duration::from_micros(20);
/// How often the fill of a ring is looked at, at most: drivers go through its descriptors, which takes some µs if it
/// is full.
const LOOK_AT_FILL: Duration = Duration::from_millis(1);

type Receive = unsafe extern "C" fn(u16, u16, *mut *mut RteMbuf, u16) -> u16;
type Transmit = unsafe extern "C" fn(u16, u16, *mut *mut RteMbuf, u16, *mut u64) -> u16;

/// The functions that move bursts, chosen once.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    receive: ReceiveBy,
    transmit: TransmitBy,
    /// Received packets have one segment and a finished checksum.
    plain: bool,
}

/// How bursts are received.
#[derive(Clone, Copy)]
enum ReceiveBy {
    /// The driver's function: there is nothing else to do.
    Driver(Entry),
    Shim(Receive),
}

/// How they are sent.
#[derive(Clone, Copy)]
enum TransmitBy {
    Driver(Entry),
    Shim(Transmit),
}

/// Drivers that make packets up, or give what ports of ours have sent.
const PLAIN: [&str; 2] = ["net_null", "net_ring"];

/// Drivers whose packets have one segment, so nobody looks for more: they copy each packet into one buffer, refuse it,
/// or hand over what one of our ports has sent.
const ONE_SEGMENT: [&str; 4] = ["net_null", "net_ring", "net_af_packet", "net_af_xdp"];

impl Calls {
    /// Returns the calls for an open port's driver. `device_checksum`: the device computes checksums on transmit.
    /// `unmarked`: received frames may have unfinished checksums. `checked`: a memif whose other end is trusted in
    /// nothing.
    pub(crate) fn of(driver: &str, port: u16, device_checksum: bool, unmarked: bool, checked: bool) -> Self {
        // SAFETY: both only return addresses from DPDK's table of ports.
        let (rx, tx) = unsafe { (sys::mpps_rx_entry(port), sys::mpps_tx_entry(port)) };
        let receive = match driver {
            "net_memif" if checked => ReceiveBy::Shim(sys::mpps_memif_rx),
            "net_memif" => ReceiveBy::Shim(sys::mpps_rx_burst_guarded),
            _ if unmarked => ReceiveBy::Shim(sys::mpps_rx_burst_unmarked),
            _ if ONE_SEGMENT.contains(&driver) => ReceiveBy::Driver(rx),
            _ => ReceiveBy::Shim(sys::mpps_rx_burst),
        };
        let transmit = match driver {
            "net_memif" if checked => TransmitBy::Shim(sys::mpps_memif_tx),
            "net_memif" => TransmitBy::Shim(sys::mpps_tx_burst_guarded),
            _ if device_checksum => TransmitBy::Shim(sys::mpps_tx_burst_offload),
            _ => TransmitBy::Driver(tx),
        };
        if driver == "net_memif" && !checked {
            // SAFETY: a signal handler that changes nothing but where a guarded burst goes on.
            unsafe { sys::mpps_guard_install() };
        }
        let plain = PLAIN.contains(&driver) && !unmarked;
        Self {
            receive,
            transmit,
            plain,
        }
    }

    /// # Safety
    /// The port is started, the queue is the calling thread's alone, and `n` pointers fit at `mbufs`.
    #[inline(always)]
    unsafe fn receive(&self, port: u16, queue: u16, mbufs: *mut *mut RteMbuf, n: u16) -> u16 {
        // SAFETY: the contract of this function.
        unsafe {
            match self.receive {
                ReceiveBy::Driver(entry) => entry.burst(queue, mbufs, n),
                ReceiveBy::Shim(receive) => receive(port, queue, mbufs, n),
            }
        }
    }

    /// Returns how many were taken, which are the driver's then, and how many of those it refused.
    ///
    /// # Safety
    /// The port is started, the queue is the calling thread's alone, and there are `n` mbufs of its own at `mbufs`.
    #[inline(always)]
    unsafe fn transmit(&self, port: u16, queue: u16, mbufs: *mut *mut RteMbuf, n: u16) -> (u16, u64) {
        let mut refused = 0;
        // SAFETY: the contract of this function.
        let taken = unsafe {
            match self.transmit {
                TransmitBy::Driver(entry) => entry.burst(queue, mbufs, n),
                TransmitBy::Shim(transmit) => transmit(port, queue, mbufs, n, &mut refused),
            }
        };
        (taken, refused)
    }
}

/// One receive and transmit queue pair.
pub struct DpdkQueue<'p> {
    pub(crate) port: u16,
    /// `None`: this lane receives nothing.
    pub(crate) rx: Option<u16>,
    /// `None`: its answers go by the mailbox.
    pub(crate) tx: Option<u16>,
    pub(crate) mailbox: &'p Mailbox,
    /// This lane sends what is in the mailbox.
    pub(crate) carries: bool,
    /// Calls that moved nothing since the link was looked at.
    pub(crate) idle: u32,
    /// The device computes UDP checksums of what is allocated here.
    pub(crate) device_checksum: bool,
    pub(crate) pool: &'p DpdkPool,
    pub(crate) counts: &'p LaneCounts,
    pub(crate) link: &'p Link,
    pub(crate) taken: &'p AtomicBool,
    pub(crate) calls: Calls,
    /// Descriptors of its receive ring.
    pub(crate) rx_ring: u16,
    /// The driver may be asked how many packets wait there.
    pub(crate) counts_fill: bool,
}

/// The free end of a burst, as DPDK's calls take it, and how many frames fit there.
#[inline]
fn free_end(burst: &mut Burst<DpdkFrame<'_>>) -> (*mut *mut RteMbuf, usize) {
    let (len, room) = (burst.len(), burst.room());
    // SAFETY: `room` frames lie behind the `len` that there are, within the array. A frame is a pointer to its mbuf and
    // nothing more (`repr(transparent)`).
    (unsafe { burst.array_mut().as_mut_ptr().add(len) }.cast(), room)
}

/// Takes `n` frames into the burst that were written to its free end.
///
/// # Safety
/// The first `n` pointers there must be mbufs that are nobody else's, of pools that live as long as the frames.
#[inline]
unsafe fn grow(burst: &mut Burst<DpdkFrame<'_>>, n: usize) {
    let len = burst.len();
    // SAFETY: the contract of this function; the caller offered no more than the room there was.
    unsafe { burst.array_mut().set_len(len + n) };
}

/// Forgets the first `n` frames of a burst: they are somebody else's now, and not to be freed by us.
#[inline]
fn forget(burst: &mut Burst<DpdkFrame<'_>>, n: usize) {
    let frames = burst.array_mut();
    let left = frames.len().saturating_sub(n);
    // SAFETY: the frames behind the first `n` move to the front, within the array; those that were there are not
    // dropped. With none left nothing moves.
    unsafe {
        frames.set_len(left);
        if left > 0 {
            let first = frames.as_mut_ptr();
            std::ptr::copy(first.add(n), first, left);
        }
    }
}

/// Calls without packets to one look at the link, for lanes that never sleep.
const LOOK_AFTER: u32 = 4_096;

impl<'p> DpdkQueue<'p> {
    /// Packets that wait to be received, if the driver counts them.
    fn filled(&self) -> Option<u64> {
        let queue = self.rx.filter(|_| self.counts_fill)?;
        // SAFETY: the port is started, and the queue is this lane's alone (`taken`).
        u64::try_from(unsafe { sys::mpps_rx_fill(self.port, queue) }).ok()
    }

    /// A call that moved nothing.
    #[inline]
    fn nothing(&mut self) -> Result<()> {
        self.idle += 1;
        if self.idle < LOOK_AFTER {
            return Ok(());
        }
        self.idle = 0;
        self.link.check()
    }

    /// Leaves the frames to the lane that has a transmit queue; returns how many.
    #[cold]
    fn post(&mut self, burst: &mut Burst<DpdkFrame<'p>>) -> usize {
        let frames = burst.len();
        for frame in burst.as_slice() {
            self.mailbox.post(frame.bytes());
        }
        burst.clear();
        frames
    }

    /// Sends what other lanes have left. What the driver does not take is dropped, as an answer may be.
    #[cold]
    fn carry(&mut self, queue: u16) {
        for letter in self.mailbox.take() {
            let mut burst = Burst::new(1);
            if !matches!(self.allocate(&mut burst, 1), Ok(1)) {
                return;
            }
            let frame = &mut burst.as_mut_slice()[0];
            frame.set_len(letter.len());
            if frame.bytes().len() != letter.len() {
                continue;
            }
            frame.bytes_mut().copy_from_slice(&letter);
            let mbufs = burst.array_mut().as_mut_ptr().cast::<*mut RteMbuf>();
            // SAFETY: one mbuf of our own, forgotten below if it is taken. The queue is this lane's.
            let (taken, _) = unsafe { self.calls.transmit(self.port, queue, mbufs, 1) };
            forget(&mut burst, usize::from(taken));
        }
    }
}

impl<'p> Queue for DpdkQueue<'p> {
    type Frame = DpdkFrame<'p>;

    #[inline]
    fn receive(&mut self, burst: &mut Burst<DpdkFrame<'p>>) -> Result<usize> {
        let Some(queue) = self.rx else { return Ok(0) };
        let (end, room) = free_end(burst);
        // SAFETY: the port is started, the queue is this lane's alone (`taken`), and `room` pointers fit at `end`.
        let n = usize::from(unsafe { self.calls.receive(self.port, queue, end, room as u16) });
        if n == 0 {
            self.nothing()?;
        } else {
            // SAFETY: the driver has just given these mbufs to us; they are of pools that outlive the port.
            unsafe { grow(burst, n) };
            LaneCounts::add(&self.counts.rx, n as u64);
        }
        Ok(n)
    }

    #[inline]
    fn allocate(&mut self, burst: &mut Burst<DpdkFrame<'p>>, n: usize) -> Result<usize> {
        let (end, room) = free_end(burst);
        // SAFETY: the pool lives for 'p, this thread is registered for it, and `room` pointers fit at `end`.
        let n = usize::from(unsafe { sys::mpps_alloc_bulk(self.pool.mempool(), end, n.min(room) as u16) });
        let before = burst.len();
        // SAFETY: just allocated, from a pool that lives for 'p.
        unsafe { grow(burst, n) };
        if self.device_checksum {
            burst.as_mut_slice()[before..]
                .iter_mut()
                .for_each(DpdkFrame::leave_checksum);
        }
        Ok(n)
    }

    #[inline]
    fn transmit(&mut self, burst: &mut Burst<DpdkFrame<'p>>) -> Result<usize> {
        let offered = burst.len() as u16;
        if offered == 0 {
            return Ok(0);
        }
        let Some(queue) = self.tx else {
            return Ok(self.post(burst));
        };
        if self.carries && self.mailbox.waiting() {
            self.carry(queue);
        }
        let mbufs = burst.array_mut().as_mut_ptr().cast::<*mut RteMbuf>();
        // SAFETY: `offered` mbufs of our own; those that are taken are forgotten below. The queue is this lane's.
        let (taken, refused) = unsafe { self.calls.transmit(self.port, queue, mbufs, offered) };
        if refused > 0 {
            LaneCounts::add(&self.counts.refused, refused);
        }
        if taken == 0 {
            self.link.check()?;
        }
        forget(burst, usize::from(taken));
        Ok(usize::from(taken))
    }

    #[inline]
    fn discard(&mut self, burst: &mut Burst<DpdkFrame<'p>>) {
        let n = burst.len();
        let mbufs = burst.array_mut().as_mut_ptr().cast::<*mut RteMbuf>();
        // SAFETY: `n` mbufs of our own, forgotten below; this thread is registered for the pool.
        unsafe { sys::mpps_free_bulk(self.pool.mempool(), mbufs, n as u16) };
        forget(burst, n);
    }

    fn gives_plain(&self) -> bool {
        self.calls.plain
    }

    fn rx_room(&self) -> Option<RxRoom> {
        let size = u64::from(self.rx_ring);
        self.filled().filter(|_| size > 0).map(|_| RxRoom {
            size,
            count: 1,
            unit: RoomUnit::Packets,
            every: LOOK_AT_FILL,
        })
    }

    fn rx_fill(&mut self) -> Option<u64> {
        self.filled()
    }

    fn wait(&mut self, _what: Wait, timeout: Duration) -> Result<()> {
        self.link.check()?;
        self.flush()?;
        std::thread::sleep(timeout.min(NAP));
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if let Some(queue) = self.tx.filter(|_| self.carries && self.mailbox.waiting()) {
            self.carry(queue);
        }
        Ok(())
    }
}

impl Drop for DpdkQueue<'_> {
    fn drop(&mut self) {
        self.taken.store(false, Ordering::Release);
    }
}
