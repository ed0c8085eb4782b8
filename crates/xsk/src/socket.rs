//! The socket: bound to one queue of one device, with its rings mapped.
//!
//! Binding a socket is the only way to let the kernel read and write a [`Umem`]. Afterwards the socket's two halves
//! move frames; the [`Socket`] itself only reports its options and the kernel's counters. All three keep the rings in
//! memory, and may be dropped in any order.

mod bind;
mod config;
mod raw;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub use config::{BusyPoll, Options, RingSizes, SocketConfig, SocketMode, Statistics};
pub(crate) use raw::LinuxSocket;

use crate::abi::{self, RawStatistics};
use crate::handle::{Handle, Ready};
use crate::{Error, Result, RxHalf, TxHalf, Umem};

/// An AF_XDP socket, bound to one queue of a device.
#[derive(Clone, Debug)]
pub struct Socket {
    pub(crate) handle: Arc<Handle>,
}

impl Socket {
    /// Binds a socket over the UMEM to a queue of a device. The first socket registers the UMEM with the kernel,
    /// further ones share it, at other queues and other devices as well. At the same queue a second one shares the fill
    /// and completion rings of the first, whose halves then serve both: use one pool for them.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a configuration that no kernel takes. [`Error::TooSmall`] when the fill rings of all its
    /// sockets would take the whole UMEM. [`Error::NotFound`] without such a device or queue. [`Error::Busy`] when
    /// another socket has the queue. [`Error::Unsupported`] for what the kernel or the driver can't.
    /// [`Error::Permission`] without `CAP_NET_RAW`. [`Error::Memlock`] when the UMEM exceeds the limit of locked
    /// memory.
    pub fn bind(umem: &Arc<Umem>, device: &str, queue: u32, config: &SocketConfig) -> Result<Socket> {
        let handle = bind::make(umem, device, queue, config)?;
        Ok(Socket { handle })
    }

    /// The two halves, which may go to two threads. They exist once.
    ///
    /// # Errors
    /// [`Error::Taken`] when they were taken before.
    pub fn split(&self) -> Result<(RxHalf, TxHalf)> {
        self.handle.split().ok_or_else(|| Error::Taken {
            object: self.handle.name.clone(),
        })
    }

    /// The options that the kernel granted.
    pub fn options(&self) -> Options {
        let traits = &self.handle.traits;
        self.handle.kernel.linux().map_or_else(
            || Options {
                zero_copy: traits.zero_copy,
                need_wakeup: traits.need_wakeup,
                multi_buffer: traits.multi_buffer,
                ..Options::default()
            },
            |socket| socket.options,
        )
    }

    /// Returns the kernel's counters since the socket was bound. One system call. The fake kernel counts nothing.
    ///
    /// # Errors
    /// When the kernel refuses, which it doesn't for a bound socket.
    pub fn statistics(&self) -> Result<Statistics> {
        let Some(descriptor) = self.descriptor() else {
            return Ok(Statistics::default());
        };
        let (counted, _): (RawStatistics, _) = raw::get(descriptor, libc::SOL_XDP, abi::XDP_STATISTICS)
            .map_err(|e| Error::os("read the statistics of", self.handle.name.clone(), e))?;
        Ok(Statistics {
            rx_dropped: counted.rx_dropped,
            rx_invalid_descs: counted.rx_invalid_descs,
            tx_invalid_descs: counted.tx_invalid_descs,
            rx_ring_full: counted.rx_ring_full,
            rx_fill_ring_empty_descs: counted.rx_fill_ring_empty_descs,
            tx_ring_empty_descs: counted.tx_ring_empty_descs,
            tx_dropped: self
                .handle
                .kernel
                .linux()
                .map_or(0, |socket| socket.tx_dropped.load(Ordering::Relaxed)),
        })
    }

    /// The number of the poll loop (NAPI instance) that frames come from (`SO_INCOMING_NAPI_ID`), if the kernel knows
    /// it: without one it has no loop to run for a socket that busy-polls. On Linux 6.18 a veth device in copy mode has
    /// none.
    pub fn incoming_napi_id(&self) -> Option<u32> {
        let (id, _): (u32, _) = raw::get(self.descriptor()?, libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID).ok()?;
        (id != 0).then_some(id)
    }

    /// Sleeps until the socket is ready for what is asked for, or the time is over: then it is ready for neither. A
    /// signal ends it as well.
    ///
    /// # Errors
    /// [`Error::Gone`] and [`Error::Down`], each noticed within 0.1 s.
    pub fn poll(&self, want: Ready, timeout: Duration) -> Result<Ready> {
        self.handle
            .kernel
            .poll(want, timeout)
            .or_else(|e| Error::wakeup("wait for", &self.handle.name, e).map_or(Ok(Ready::default()), Err))
    }

    /// The memory that its frames lie in.
    pub fn umem(&self) -> &Arc<Umem> {
        &self.handle.umem
    }

    /// The device's name when the socket was bound.
    pub fn interface(&self) -> &str {
        self.handle
            .kernel
            .linux()
            .map_or(&self.handle.name, |socket| socket.device.name())
    }

    /// The device's queue that it is bound to.
    pub fn queue(&self) -> u32 {
        self.handle.kernel.linux().map_or(0, |socket| socket.queue)
    }

    /// Its descriptor, for an event loop or a map of sockets of one's own; sockets of the fake kernel have none.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.handle.kernel.linux().map(AsFd::as_fd)
    }
}
