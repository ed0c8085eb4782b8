//! Configuration of a socket, and its options and counters once it is bound.

use crate::{Error, Result};

/// How a socket is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketConfig {
    /// Entries of the RX ring: a power of two, or 0 for a socket that only sends.
    pub rx_ring: u32,
    /// Entries of the TX ring: a power of two, or 0 for a socket that only receives.
    pub tx_ring: u32,
    /// Entries of the fill ring, a power of two. So many frames wait in the kernel to be received into.
    pub fill_ring: u32,
    /// Entries of the completion ring, a power of two, and no fewer than of the TX ring.
    pub completion_ring: u32,
    /// Whether the device shall read and write the UMEM itself. A socket that shares a UMEM has the mode of the one
    /// that it shares with.
    pub mode: SocketMode,
    /// Lets the kernel say when it wants to be woken (`XDP_USE_NEED_WAKEUP`, Linux 5.4). Shared like the mode.
    pub need_wakeup: bool,
    /// Frames may span several descriptors (`XDP_USE_SG`, Linux 6.6). Shared like the mode.
    pub multi_buffer: bool,
    /// Runs the device's poll loop within our own system calls.
    pub busy_poll: Option<BusyPoll>,
    /// Frames that one system call sends in copy mode (`XDP_MAX_TX_SKB_BUDGET`, Linux 6.17): 32, the kernel's own
    /// choice, up to the entries of the TX ring.
    pub tx_budget: Option<u32>,
}

impl Default for SocketConfig {
    /// Rings of 2048 entries, zero-copy if the driver can, need-wakeup, frames of one buffer.
    fn default() -> Self {
        Self {
            rx_ring: 2048,
            tx_ring: 2048,
            fill_ring: 2048,
            completion_ring: 2048,
            mode: SocketMode::Auto,
            need_wakeup: true,
            multi_buffer: false,
            busy_poll: None,
            tx_budget: None,
        }
    }
}

/// Whether the device shall read and write the UMEM itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SocketMode {
    /// Zero-copy if the driver can, else copy. [`Socket::options`](crate::Socket::options) shows the mode in use.
    #[default]
    Auto,
    /// The device does, or binding fails.
    ZeroCopy,
    /// The kernel copies.
    Copy,
}

/// Busy polling: the device's poll loop runs in our system calls rather than in interrupts
/// (`Documentation/networking/napi.rst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// Frames handled in one go (`SO_BUSY_POLL_BUDGET`). More than 64 need `CAP_NET_ADMIN`.
    pub budget: u16,
    /// How long one call polls, µs (`SO_BUSY_POLL`).
    pub usecs: u32,
    /// Keeps interrupts off while we poll (`SO_PREFER_BUSY_POLL`, Linux 5.11). Takes effect if the device's
    /// `napi_defer_hard_irqs` and `gro_flush_timeout` are set.
    pub prefer: bool,
}

/// Options in force, read after binding (`XDP_OPTIONS` and the flags that the kernel accepted).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The device reads and writes the UMEM itself.
    pub zero_copy: bool,
    /// The kernel says when it wants to be woken.
    pub need_wakeup: bool,
    /// Frames may span several descriptors.
    pub multi_buffer: bool,
    /// The UMEM was registered by another socket.
    pub shared: bool,
    /// The fill and completion rings are those of another socket at the same queue.
    pub shared_queue: bool,
    /// Frames that one system call sends in copy mode, if that was asked for; else the kernel's own choice holds.
    pub tx_budget: Option<u32>,
    /// Entries of the rings.
    pub rings: RingSizes,
}

/// Entries of a socket's rings; 0 for one that isn't there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingSizes {
    /// RX ring.
    pub rx: u32,
    /// TX ring.
    pub tx: u32,
    /// Fill ring.
    pub fill: u32,
    /// Completion ring.
    pub completion: u32,
}

/// Counters of a socket: the kernel's (`XDP_STATISTICS`), and the errors of its wake-ups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames dropped for other reasons than a full RX ring: too long for a chunk, for instance, and in copy mode those
    /// for which no chunk was in the fill ring.
    pub rx_dropped: u64,
    /// Fill entries that the kernel refused.
    pub rx_invalid_descs: u64,
    /// TX descriptors that the kernel refused.
    pub tx_invalid_descs: u64,
    /// Frames dropped because the RX ring was full: we were too slow.
    pub rx_ring_full: u64,
    /// Times that no chunk was in the fill ring: in copy mode a dropped frame each, counted in `rx_dropped` as well; in
    /// zero-copy mode looks of the driver, of which a frame may have been dropped or not.
    pub rx_fill_ring_empty_descs: u64,
    /// Times that the kernel found nothing to send.
    pub tx_ring_empty_descs: u64,
    /// Frames that left the TX ring and were completed, but dropped by the driver: its queue was full, or the link has
    /// no carrier. In copy mode only; counted from the errors of the wake-ups.
    pub tx_dropped: u64,
}

impl Statistics {
    /// Frames that came to the socket and were lost, for whatever reason. (What a device in zero-copy mode had no chunk
    /// for never came: it is in the device's own statistics.)
    pub fn rx_lost(&self) -> u64 {
        self.rx_dropped + self.rx_ring_full
    }
}

impl SocketConfig {
    /// Refuses values that no kernel takes, before anything is opened.
    pub(super) fn check(&self) -> Result<()> {
        for (what, entries, optional) in [
            ("RX ring", self.rx_ring, true),
            ("TX ring", self.tx_ring, true),
            ("fill ring", self.fill_ring, false),
            ("completion ring", self.completion_ring, false),
        ] {
            if !(entries.is_power_of_two() || optional && entries == 0) {
                return Err(Error::Invalid {
                    what,
                    value: entries.into(),
                    want: "a power of two".into(),
                });
            }
        }
        if self.rx_ring == 0 && self.tx_ring == 0 {
            return Err(Error::Invalid {
                what: "RX and TX ring",
                value: 0,
                want: "at least one of them".into(),
            });
        }
        if self.completion_ring < self.tx_ring {
            return Err(Error::Invalid {
                what: "completion ring",
                value: self.completion_ring.into(),
                want: format!("no fewer entries than the TX ring's {}", self.tx_ring),
            });
        }
        match self.tx_budget {
            Some(budget) if self.tx_ring < 32 || !(32..=self.tx_ring).contains(&budget) => Err(Error::Invalid {
                what: "TX budget",
                value: budget.into(),
                want: format!("32 to the TX ring's {} entries", self.tx_ring),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl Fn(&mut SocketConfig)) -> String {
        let mut config = SocketConfig::default();
        change(&mut config);
        config.check().unwrap_err().to_string()
    }

    #[test]
    fn what_no_kernel_takes_is_refused_with_its_name_and_value() {
        assert!(SocketConfig::default().check().is_ok());
        for (message, words) in [
            (refusal(|c| c.rx_ring = 3000), ["RX ring", "3000"]),
            (refusal(|c| c.fill_ring = 0), ["fill ring", "0"]),
            (
                refusal(|c| (c.rx_ring, c.tx_ring) = (0, 0)),
                ["RX and TX", "at least one"],
            ),
            (refusal(|c| c.completion_ring = 64), ["completion ring", "2048"]),
            (refusal(|c| c.tx_budget = Some(4096)), ["TX budget", "4096"]),
            (
                refusal(|c| (c.tx_ring, c.tx_budget) = (0, Some(32))),
                ["TX budget", "32"],
            ),
        ] {
            assert!(words.iter().all(|word| message.contains(word)), "{message}");
        }
    }
}
