//! Parts of a port: its devices, and the state of a sender.

use crate::abi::{FlowPorts, FlowWindow, Lane, Slip, WideOctave, WindowWord};
use crate::spec::TrafficSpec;
use mpps_netdev::{NetDev, Promiscuous};
use mpps_sys::map::Mapping;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};
use xsk::Attachment;

/// A device that the programs are at.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) device: NetDev,
    pub(crate) queues: u32,
    pub(crate) _promiscuous: Option<Promiscuous>,
    /// Packets of all senders that the device had dropped on transmit before the run. Set only if no tracepoint counts
    /// the run's own drops, or if the run sends nothing.
    pub(crate) drops_then: Option<u64>,
    /// Frames sent back that the device had refused before the run, by its driver's count. `None` if tracepoints count
    /// them.
    pub(crate) errors_then: Option<u64>,
    /// Frames refused since `errors_then` was read, at the last reading.
    pub(crate) errors: AtomicU64,
    /// Sources of this device.
    pub(crate) sources: u32,
    pub(crate) name: String,
    /// Detaches when it is dropped.
    pub(crate) _attachment: Attachment,
}

impl Site {
    /// Returns the refused frames that the driver has counted since the run began; for a device that is gone, the last
    /// count.
    pub(super) fn refused(&self) -> u64 {
        let Some(then) = self.errors_then else { return 0 };
        let device = NetDev::by_index(self.device.ifindex).ok();
        let now = device.and_then(|device| mpps_netdev::veth_transmit_errors(&device).ok()?);
        let since = now.map_or(0, |now| now.saturating_sub(then));
        self.errors.fetch_max(since, Relaxed).max(since)
    }
}

/// The device that packets leave by.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(crate) device: NetDev,
    pub(crate) name: String,
}

/// State that only a sender has.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) from: Departure,
    pub(crate) send: OwnedFd,
    pub(crate) inject: OwnedFd,
    pub(crate) cores: Vec<usize>,
    /// By CPU.
    pub(crate) lanes: Mapping<Lane>,
    pub(crate) gaps: Mapping<WideOctave>,
    pub(crate) ports: Mapping<FlowPorts>,
    /// Threads that are in the kernel now, by lane; 0: none.
    pub(crate) threads: Vec<AtomicI32>,
    pub(crate) batch: AtomicU32,
    /// The user has said how many frames are made at a time.
    pub(crate) fixed_batch: bool,
    /// Specification that the programs were made for.
    pub(crate) spec: TrafficSpec,
    pub(crate) windows: Windows,
}

impl Sending {
    /// Returns the lane of a core; of several streams that of one, or (`None`) the one that keeps the time.
    pub(crate) fn lane(&self, core: usize, stream: Option<usize>) -> Option<&Lane> {
        let streams = self.spec.streams.len();
        let key = match streams {
            0 => core,
            _ => core * (streams + 1) + stream.map_or(0, |stream| stream + 1),
        };
        self.lanes.get(key)
    }
}

/// Maps that only the programs of a sender use.
#[derive(Debug)]
pub(crate) struct Windows {
    pub(crate) flows: Mapping<FlowWindow>,
    pub(crate) words: Mapping<WindowWord>,
    pub(crate) slips: Mapping<Slip>,
}
