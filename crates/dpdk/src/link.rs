//! The link: waited for before a sender starts, then watched.
//!
//! The collector reads the link of a NIC, whose registers are not for several threads at once. Lanes read those of
//! virtual devices as well, while they have nothing to do.

use crate::beneath::Beneath;
use dpdk_sys as sys;
use mpps_io::around::{Outages, Surroundings, Watch};
use mpps_io::{Error, ErrorKind, Result};
use std::ffi::{CStr, c_char};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time between two looks at the link, while a lane has nothing else to do.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Time between two looks of the collector's.
const READ_EVERY_NS: u64 = 50_000_000;
/// Said of a device that vfio asks back.
const WANTED_BACK: &str = "the device is being removed from this host";
/// Time between two tries to connect.
const TRY_EVERY: Duration = Duration::from_millis(500);
/// Looks at the link to one at the interface beneath, which is a request to the kernel.
const LOOKS: u64 = 20;

/// A constant string of the shim; `None`: null.
fn constant(text: *const c_char) -> Option<&'static str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null; a string literal of the shim, which ends with a zero and is never freed.
    let text = unsafe { CStr::from_ptr::<'static>(text) };
    Some(text.to_str().unwrap_or("something unknown"))
}

/// The link of a port, as its lanes last saw it.
pub(crate) struct Link {
    port: u16,
    name: Arc<str>,
    beneath: Option<Beneath>,
    /// The device is not virtual.
    nic: bool,
    /// Error text for a link that was up and is down.
    lost: &'static str,
    opened: Instant,
    /// A link that was never up is not lost: the other end has yet to come.
    seen_up: AtomicBool,
    /// Time of the last look at the link, ns since `opened`, and number of looks.
    looked_ns: AtomicU64,
    looks: AtomicU64,
    down: AtomicBool,
    gone: AtomicBool,
}

impl Link {
    /// The link of a started port. `for_good`: once lost, its driver does not connect again.
    pub(crate) fn new(port: u16, name: Arc<str>, beneath: Option<Beneath>, nic: bool, for_good: bool) -> Self {
        if nic {
            // SAFETY: the port is open.
            unsafe { sys::mpps_watch_removal(port) };
        }
        Self {
            port,
            name,
            beneath,
            nic,
            lost: match for_good {
                true => "its link is down (has the other end gone?), and its driver does not connect again",
                false => "its link is down (has the other end gone?)",
            },
            opened: Instant::now(),
            seen_up: AtomicBool::new(false),
            looked_ns: AtomicU64::new(0),
            looks: AtomicU64::new(0),
            down: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        }
    }

    /// The kernel's interface beneath the device.
    pub(crate) fn beneath(&self) -> Option<&Beneath> {
        self.beneath.as_ref()
    }

    /// Returns whether the link is up, and its speed in bit/s if the device reports it.
    pub(crate) fn look(&self) -> (bool, Option<u64>) {
        let mut mbps = 0;
        // SAFETY: the port is open while its link is looked at.
        let up = unsafe { sys::mpps_link(self.port, &mut mbps) } == 1;
        if up {
            self.seen_up.store(true, Ordering::Relaxed);
        }
        self.down.store(!up, Ordering::Relaxed);
        (up, (mbps > 0).then_some(u64::from(mbps) * 1_000_000))
    }

    /// For a lane that has nothing to do or can't send: an error when the link was up and is down, or when the
    /// interface beneath has vanished.
    #[cold]
    pub(crate) fn check(&self) -> Result<()> {
        if self.wanted_back() {
            return Err(Error::new("use", self.name.clone(), WANTED_BACK, ErrorKind::Gone));
        }
        let now = self.opened.elapsed();
        let then = Duration::from_nanos(self.looked_ns.load(Ordering::Relaxed));
        if !self.nic && now.saturating_sub(then) >= LOOK_EVERY {
            self.looked_ns.store(now.as_nanos() as u64, Ordering::Relaxed);
            self.look();
            let looks = self.looks.fetch_add(1, Ordering::Relaxed);
            if looks.is_multiple_of(LOOKS) && self.beneath.as_ref().is_some_and(Beneath::gone) {
                self.gone.store(true, Ordering::Relaxed);
            }
        }
        if let Some(fault) = self.fault() {
            let cause = format!("the other end of the memif broke its rules: {fault}");
            return Err(Error::new("use", self.name.clone(), cause, ErrorKind::Gone));
        }
        if self.gone.load(Ordering::Relaxed) {
            let interface = self
                .beneath
                .as_ref()
                .map(|beneath| beneath.name.as_str())
                .unwrap_or_default();
            let cause = format!("the interface {interface} has vanished");
            return Err(Error::new("use", self.name.clone(), cause, ErrorKind::Gone));
        }
        if self.down.load(Ordering::Relaxed) && self.seen_up.load(Ordering::Relaxed) {
            return Err(Error::new("run on", self.name.clone(), self.lost, ErrorKind::LinkDown));
        }
        Ok(())
    }

    /// Whether the host wants to remove the device.
    fn wanted_back(&self) -> bool {
        // SAFETY: a number of a port that was opened.
        self.nic && unsafe { sys::mpps_wanted_back(self.port) }
    }

    /// Returns the fault of a memif's other end that ended the traffic.
    fn fault(&self) -> Option<&'static str> {
        // SAFETY: a number of a port; what comes back is null or a constant string of the shim.
        let text = unsafe { sys::mpps_memif_fault(self.port) };
        constant(text)
    }

    /// Connections to a memif that were refused, and why the last was.
    pub(crate) fn refused(&self) -> Option<(u64, &'static str)> {
        let mut why = std::ptr::null();
        // SAFETY: a number of a port; `why` is ours, and becomes a constant string of the shim or stays null.
        let refused = unsafe { sys::mpps_memif_refused(self.port, &mut why) };
        constant(why).map(|why| (refused, why))
    }

    /// Waits until the link is up; `more` is a further question to ask if it does not come up. Now and then `again` is
    /// called: a memif's server that is not ready yet refuses a client, whose driver does not try again.
    ///
    /// # Errors
    /// When the link is not up within `limit`, the wait is interrupted, or `again` has failed.
    pub(crate) fn wait(
        &self,
        limit: Duration,
        more: &str,
        interrupted: &dyn Fn() -> bool,
        again: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let begun = Instant::now();
        let mut tried = begun;
        while !self.look().0 {
            if self.wanted_back() {
                return Err(Error::new("wait for", self.name.clone(), WANTED_BACK, ErrorKind::Gone));
            }
            if interrupted() {
                let cause = "interrupted while its link was down";
                return Err(Error::new("wait for", self.name.clone(), cause, ErrorKind::LinkDown));
            }
            if begun.elapsed() >= limit {
                let seconds = limit.as_secs();
                let cause = match self.refused() {
                    Some((_, why)) => format!("its link is still down after {seconds} s: the other end sent {why}"),
                    None => format!(
                        "its link is still down after {seconds} s: is the other end there{more}? \
                         (link_wait=SECONDS waits longer)"
                    ),
                };
                return Err(Error::new("wait for", self.name.clone(), cause, ErrorKind::LinkDown));
            }
            std::thread::sleep(Duration::from_millis(5));
            if tried.elapsed() >= TRY_EVERY {
                again()?;
                tried = Instant::now();
            }
        }
        Ok(())
    }
}

/// Notes when the link of a NIC goes and comes while a trial runs, and whether the device is to be removed.
pub(crate) struct LinkWatch {
    link: Arc<Link>,
    down: Outages,
    /// Time of the last look, ns; 0: there was none.
    read_ns: u64,
}

impl LinkWatch {
    /// A watch of a NIC's link; `None` for a virtual device.
    pub(crate) fn of(link: &Arc<Link>) -> Option<Box<dyn Watch>> {
        let watch = || Self {
            link: Arc::clone(link),
            down: Outages::default(),
            read_ns: 0,
        };
        link.nic.then(|| Box::new(watch()) as Box<dyn Watch>)
    }
}

impl Watch for LinkWatch {
    fn interface(&self) -> &str {
        &self.link.name
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn look(&mut self, now_ns: u64) -> bool {
        if now_ns >= self.read_ns + READ_EVERY_NS {
            let was_up = self.link.seen_up.load(Ordering::Relaxed);
            let (up, _) = self.link.look();
            if !up && self.read_ns == 0 {
                self.down.from_start(now_ns);
            } else if up && !was_up {
                // A listener's link comes up after it has started. One that does not come is an outage.
                self.down = Outages::default();
            }
            self.down.follow(!up, now_ns);
            self.read_ns = now_ns;
        }
        // The rings of a NIC take packets that never leave.
        !self.down.lasts()
    }

    fn gone(&self) -> Option<String> {
        let gone = self.link.wanted_back();
        gone.then(|| format!("use {}: {WANTED_BACK}", self.link.name))
    }

    fn end(mut self: Box<Self>, now_ns: u64) -> Surroundings {
        self.look(now_ns);
        Surroundings {
            interface: self.link.name.to_string(),
            no_carrier: self.down.end(now_ns),
            ..Surroundings::default()
        }
    }
}
