//! Plan of a run: workload, ports, traffic, load, times and lanes. The command line and JSON are two ways to write a
//! plan (see [`super::fields`]). This module knows neither of them.

use super::fields::{FIELDS, Field};
use super::values::forward::{Macs, Mode, Take};
use super::values::rate::{RateText, StepText};
use super::values::{Cores, Sources, Target};
use mpps_engine::{OnFull, Pacing, Step, Work as FrameWork};
use mpps_io::{AddressRange, PortSpec};
use mpps_wire::{CaptureProtocol, MacAddr};
use std::fmt;
use std::net::IpAddr;
use std::ops::{Deref, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

/// Value with the text that it was read from.
#[derive(Clone, Default)]
pub(crate) struct Written<T> {
    value: T,
    text: String,
}

impl<T> Written<T> {
    /// Pairs `value` with the text that stands for it.
    pub(crate) fn new(text: impl Into<String>, value: T) -> Self {
        Self {
            value,
            text: text.into(),
        }
    }

    /// Text as the user wrote it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// Prints the value alone.
impl<T: fmt::Debug> fmt::Debug for Written<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T> Deref for Written<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> PartialEq for Written<T> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<T> fmt::Display for Written<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Access to an optional field without its text.
pub(crate) trait Plain<T> {
    /// Returns the value, if the field is given.
    fn plain(&self) -> Option<T>;
}

impl<T: Clone> Plain<T> for Option<Written<T>> {
    fn plain(&self) -> Option<T> {
        self.as_deref().cloned()
    }
}

impl Written<Duration> {
    /// Time of `ns` nanoseconds, written in µs.
    pub(crate) fn ns(ns: u64) -> Self {
        Self::new(format!("{}us", ns as f64 / 1e3), Duration::from_nanos(ns))
    }
}

/// Kind of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    Sendrecv,
    Send,
    Drop,
    Reflect,
    Forward,
    Capture,
}

impl Workload {
    pub(crate) const ALL: [Self; 6] = [
        Self::Sendrecv,
        Self::Send,
        Self::Drop,
        Self::Reflect,
        Self::Forward,
        Self::Capture,
    ];

    /// Name of the command.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sendrecv => "sendrecv",
            Self::Send => "send",
            Self::Drop => "drop",
            Self::Reflect => "reflect",
            Self::Forward => "forward",
            Self::Capture => "capture",
        }
    }

    /// Largest number of ports; `None` means no limit.
    pub(crate) fn most_ports(self) -> Option<usize> {
        match self {
            Self::Sendrecv | Self::Send => Some(2),
            Self::Drop | Self::Reflect | Self::Capture => Some(1),
            Self::Forward => None,
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|workload| workload.name() == name)
    }
}

/// Plan of a run. The path or the host chooses the value of a field that is `None`.
#[derive(Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) workload: Workload,
    pub(crate) ports: Vec<Written<PortSpec>>,
    pub(crate) seed: u64,
    pub(crate) traffic: Traffic,
    pub(crate) load: Load,
    pub(crate) selection: Selection,
    pub(crate) forward: Forward,
    pub(crate) capture: Capture,
    pub(crate) times: Times,
    pub(crate) lanes: Lanes,
    pub(crate) checks: Checks,
    pub(crate) device: Device,
}

/// Packets to send.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Traffic {
    pub(crate) src: Option<Written<Sources>>,
    pub(crate) src_ports: Option<Written<RangeInclusive<u16>>>,
    pub(crate) dest: Option<Written<Target>>,
    pub(crate) dest_mac: Option<Written<MacAddr>>,
    pub(crate) gateway: Option<Written<IpAddr>>,
    pub(crate) both_ways: bool,
    pub(crate) back_dest_mac: Option<Written<MacAddr>>,
    pub(crate) back_gateway: Option<Written<IpAddr>>,
    pub(crate) vlan: Option<u16>,
    pub(crate) step: Written<Step>,
    pub(crate) flows: Option<u32>,
    /// Total number of packets.
    pub(crate) count: Option<u64>,
    /// Length of the UDP payload in bytes.
    pub(crate) payload_size: Option<usize>,
    /// Length of the frame in bytes, with FCS. Excludes `payload_size`.
    pub(crate) frame_size: Option<usize>,
    pub(crate) ttl: u8,
    pub(crate) dscp: u8,
}

/// Rate and timing of departures.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Load {
    pub(crate) rate: Option<RateText>,
    pub(crate) then: Option<Written<StepText>>,
    pub(crate) pacing: Written<Pacing>,
    pub(crate) catch_up: Written<Duration>,
}

/// Packets that the run accepts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selection {
    pub(crate) take: Option<Written<Take>>,
    /// Addresses. Only `drop` and `reflect` accept more than one.
    pub(crate) ip: Option<Written<AddressRange>>,
    pub(crate) ports: Option<Written<RangeInclusive<u16>>>,
    pub(crate) proto: Option<Written<CaptureProtocol>>,
}

impl Traffic {
    /// Sets the frame length in bytes, with FCS. Replaces a payload length.
    pub(crate) fn set_frame_size(&mut self, bytes: usize) {
        (self.frame_size, self.payload_size) = (Some(bytes), None);
    }
}

impl Selection {
    /// Returns the address of a workload that accepts a single one.
    pub(crate) fn one_ip(&self) -> Option<IpAddr> {
        self.ip.as_ref().map(|ips| *ips.start())
    }
}

/// Changes to frames between two ports.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Forward {
    pub(crate) mode: Option<Written<Mode>>,
    pub(crate) dest_mac: Option<Written<Macs>>,
    pub(crate) drain: Written<Duration>,
    pub(crate) work: Option<Written<FrameWork>>,
    pub(crate) split_directions: bool,
}

/// File and limits of a capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Capture {
    /// File to write; `None` only in a plan that was not checked.
    pub(crate) output: Option<PathBuf>,
    /// Largest number of bytes kept per packet.
    pub(crate) snap_len: usize,
    /// Size in bytes at which the next file begins.
    pub(crate) rotate_size: Option<Written<u64>>,
    pub(crate) max_files: Option<u64>,
    pub(crate) count: Option<u64>,
    /// Buffer per lane in bytes.
    pub(crate) buffer: Written<u64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Times {
    /// Length of the run; zero means until a signal ends it.
    pub(crate) duration: Option<Written<Duration>>,
    pub(crate) interval: Written<Duration>,
    pub(crate) settle: Written<Duration>,
    pub(crate) settle_early: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lanes {
    pub(crate) lanes: Option<usize>,
    pub(crate) tx_lanes: Option<usize>,
    pub(crate) rx_lanes: Option<usize>,
    pub(crate) cores: Option<Written<Cores>>,
    /// Largest burst in frames.
    pub(crate) burst: Option<usize>,
    pub(crate) tx_burst: Option<usize>,
    pub(crate) rx_burst: Option<usize>,
    pub(crate) on_full: Option<Written<OnFull>>,
    pub(crate) busy_poll: bool,
    pub(crate) nice: Option<i32>,
    pub(crate) fifo: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Checks {
    /// Largest allowed share of missing departures, 0 to 1.
    pub(crate) tolerance: Written<f64>,
    pub(crate) no_verify: bool,
    pub(crate) max_flows: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Device {
    pub(crate) eal: Option<String>,
    pub(crate) flow_rules: Vec<String>,
}

impl Plan {
    /// Creates a plan with default fields and without ports.
    pub(crate) fn new(workload: Workload) -> Self {
        let mut plan = Self {
            workload,
            ports: Vec::new(),
            seed: 0,
            traffic: Traffic::default(),
            load: Load::default(),
            selection: Selection::default(),
            forward: Forward::default(),
            capture: Capture::default(),
            times: Times::default(),
            lanes: Lanes::default(),
            checks: Checks::default(),
            device: Device::default(),
        };
        for field in FIELDS.iter().filter(|field| field.is_of(workload)) {
            if let Some(Err(why)) = field.default.map(|text| (field.access.read)(&mut plan, text)) {
                unreachable!("--{}: its default: {why}", field.option);
            }
        }
        plan
    }

    /// Returns the first port.
    ///
    /// # Panics
    /// When there is none. Every plan that was read has one.
    pub(crate) fn port(&self) -> &PortSpec {
        &self.ports[0]
    }

    /// Returns all ports without their texts.
    pub(crate) fn specs(&self) -> Vec<PortSpec> {
        self.ports.iter().map(|port| (**port).clone()).collect()
    }

    /// Returns the port at which packets arrive, if it is not the first one.
    pub(crate) fn far(&self) -> Option<&PortSpec> {
        self.ports.get(1).map(|port| &**port)
    }

    /// Finds a field of this workload by a name such as `load.rate`.
    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        FIELDS
            .iter()
            .find(|field| field.is_of(self.workload) && field.name() == name)
    }
}
