//! A run as a value: what it does, on which ports, with which traffic and load, for how long, on which lanes. The
//! command line and JSON are two ways to write it (see [`super::fields`]); nothing here knows either.

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

/// A value, and the text that it was read from.
#[derive(Clone, Default)]
pub(crate) struct Written<T> {
    value: T,
    text: String,
}

impl<T> Written<T> {
    /// The value that this text stands for.
    pub(crate) fn new(text: impl Into<String>, value: T) -> Self {
        Self {
            value,
            text: text.into(),
        }
    }

    /// As it is written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// As the value's.
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

/// A field that may be left out, without its text.
pub(crate) trait Plain<T> {
    /// The value, where there is one.
    fn plain(&self) -> Option<T>;
}

impl<T: Clone> Plain<T> for Option<Written<T>> {
    fn plain(&self) -> Option<T> {
        self.as_deref().cloned()
    }
}

impl Written<Duration> {
    /// A time in whole ns.
    pub(crate) fn ns(ns: u64) -> Self {
        Self::new(format!("{}us", ns as f64 / 1e3), Duration::from_nanos(ns))
    }
}

/// What a run does.
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

    /// Its command.
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

    /// Most ports that it takes; `None`: any number.
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

/// A run as a value. Fields that are `None` are left to the path or to the host.
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

/// Packets that are sent.
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
    /// Packets in all.
    pub(crate) count: Option<u64>,
    /// Bytes of UDP payload.
    pub(crate) payload_size: Option<usize>,
    /// Bytes with FCS; one of the two at the most.
    pub(crate) frame_size: Option<usize>,
    pub(crate) ttl: u8,
    pub(crate) dscp: u8,
}

/// How many packets are sent, and when.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Load {
    pub(crate) rate: Option<RateText>,
    pub(crate) then: Option<Written<StepText>>,
    pub(crate) pacing: Written<Pacing>,
    pub(crate) catch_up: Written<Duration>,
}

/// Packets that are taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selection {
    pub(crate) take: Option<Written<Take>>,
    /// One address, but of `drop` and `reflect`.
    pub(crate) ip: Option<Written<AddressRange>>,
    pub(crate) ports: Option<Written<RangeInclusive<u16>>>,
    pub(crate) proto: Option<Written<CaptureProtocol>>,
}

impl Traffic {
    /// Frames of this size, with FCS, whatever the size was.
    pub(crate) fn set_frame_size(&mut self, bytes: usize) {
        (self.frame_size, self.payload_size) = (Some(bytes), None);
    }
}

impl Selection {
    /// The address, of a workload that takes packets from or to one.
    pub(crate) fn one_ip(&self) -> Option<IpAddr> {
        self.ip.as_ref().map(|ips| *ips.start())
    }
}

/// What is done to frames between two ports.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Forward {
    pub(crate) mode: Option<Written<Mode>>,
    pub(crate) dest_mac: Option<Written<Macs>>,
    pub(crate) drain: Written<Duration>,
    pub(crate) work: Option<Written<FrameWork>>,
    pub(crate) split_directions: bool,
}

/// Packets that are kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Capture {
    /// Given, but in a plan that was not checked.
    pub(crate) output: Option<PathBuf>,
    /// Bytes of each packet at the most.
    pub(crate) snap_len: usize,
    /// Bytes.
    pub(crate) rotate_size: Option<Written<u64>>,
    pub(crate) max_files: Option<u64>,
    pub(crate) count: Option<u64>,
    /// Bytes for each lane.
    pub(crate) buffer: Written<u64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Times {
    /// Zero: until it is interrupted.
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
    /// Frames.
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
    /// Share of the packets that were due.
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
    /// A run of this workload, on no port so far, with the defaults of its fields.
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

    /// The first port: there is one in a plan that was read.
    pub(crate) fn port(&self) -> &PortSpec {
        &self.ports[0]
    }

    /// All ports, without their texts.
    pub(crate) fn specs(&self) -> Vec<PortSpec> {
        self.ports.iter().map(|port| (**port).clone()).collect()
    }

    /// The port that packets arrive at, if that is another.
    pub(crate) fn far(&self) -> Option<&PortSpec> {
        self.ports.get(1).map(|port| &**port)
    }

    /// A field by its name, as `load.rate`, of those that the workload has.
    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        FIELDS
            .iter()
            .find(|field| field.is_of(self.workload) && field.name() == name)
    }
}
