//! The packet memory of one lane: a mempool, and the lane's registration with the EAL, which makes its cache the
//! lane's.

use dpdk_sys as sys;
use mpps_io::{Error, ErrorKind, Result};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Packet memory of one lane's queue. Belongs to the lane's thread (`!Send`, `!Sync`): that thread is the registered
/// one.
pub struct DpdkPool {
    mempool: NonNull<sys::RteMempool>,
    registered: bool,
    _thread: PhantomData<*mut ()>,
}

impl DpdkPool {
    /// Registers the calling thread, and takes `mempool` for it.
    ///
    /// # Safety
    /// `mempool` must live until every port of the process is closed.
    ///
    /// # Errors
    /// When the EAL has no lcore id left (it has 128).
    pub(crate) unsafe fn new(mempool: NonNull<sys::RteMempool>, name: &str) -> Result<Self> {
        // SAFETY: the EAL runs: a port is open.
        let result = unsafe { sys::mpps_thread_register() };
        if result < 0 {
            let cause = crate::eal::cause_of(result);
            return Err(Error::new("register a lane of", name, cause, ErrorKind::Other));
        }
        Ok(Self {
            mempool,
            registered: result == 1,
            _thread: PhantomData,
        })
    }

    #[inline]
    pub(crate) fn mempool(&self) -> *mut sys::RteMempool {
        self.mempool.as_ptr()
    }
}

impl Drop for DpdkPool {
    fn drop(&mut self) {
        if self.registered {
            // SAFETY: registered by `new` on this thread: a pool does not leave it.
            unsafe { sys::mpps_thread_unregister() };
        }
    }
}
