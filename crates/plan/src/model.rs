//! Plan of a run: workload, ports, traffic, load, times and lanes. The command line and JSON are two ways to write a
//! plan (see [`super::fields`]). This module knows neither of them.

use super::fields::{FIELDS, Field};
use super::values::forward::{Macs, Mode, Take};
use super::values::rate::{RateText, StepText};
use super::values::start::StartAt;
use super::values::{Cores, Factor, Sources, Target};
use mpps_io::{AddressRange, OnFull, Pacing, PortSpec, Step, Work as FrameWork};
use mpps_wire::{CaptureProtocol, MacAddr};
use std::fmt;
use std::net::IpAddr;
use std::ops::{Deref, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

/// Source ports of packets if the plan gives none.
pub const DEFAULT_SRC_PORTS: RangeInclusive<u16> = 10_000..=10_063;

/// Value with the text that it was read from.
#[derive(Clone, Default)]
pub struct Written<T> {
    value: T,
    text: String,
}

impl<T> Written<T> {
    /// Pairs `value` with the text that stands for it.
    pub fn new(text: impl Into<String>, value: T) -> Self {
        Self {
            value,
            text: text.into(),
        }
    }

    /// Returns the value, to change what it stands for and keep its text.
    pub fn value_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Text as the user wrote it.
    pub fn text(&self) -> &str {
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
pub trait Plain<T> {
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
    pub fn ns(ns: u64) -> Self {
        Self::new(format!("{}us", ns as f64 / 1e3), Duration::from_nanos(ns))
    }
}

/// Kind of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    Sendrecv,
    Send,
    Drop,
    Reflect,
    Forward,
    Capture,
}

impl Workload {
    pub const ALL: [Self; 6] = [
        Self::Sendrecv,
        Self::Send,
        Self::Drop,
        Self::Reflect,
        Self::Forward,
        Self::Capture,
    ];

    /// Name of the command.
    pub fn name(self) -> &'static str {
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
    pub fn most_ports(self) -> Option<usize> {
        match self {
            Self::Sendrecv | Self::Send => Some(2),
            Self::Drop | Self::Reflect | Self::Capture => Some(1),
            Self::Forward => None,
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|workload| workload.name() == name)
    }
}

/// Plan of a run. The path or the host chooses the value of a field that is `None`.
#[derive(Clone, PartialEq)]
pub struct Plan {
    pub workload: Workload,
    pub ports: Vec<Written<PortSpec>>,
    pub seed: u64,
    pub traffic: Traffic,
    pub load: Load,
    pub selection: Selection,
    pub forward: Forward,
    pub capture: Capture,
    pub times: Times,
    pub lanes: Lanes,
    pub checks: Checks,
    pub device: Device,
}

/// Packets to send.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Streams of packets of any headers, in place of UDP between `src` and `dest`. Their text is JSON.
    pub streams: Option<Written<mpps_traffic::Traffic>>,
    pub src: Option<Written<Sources>>,
    pub src_ports: Option<Written<RangeInclusive<u16>>>,
    pub dest: Option<Written<Target>>,
    pub dest_mac: Option<Written<MacAddr>>,
    pub gateway: Option<Written<IpAddr>>,
    pub both_ways: bool,
    pub back_dest_mac: Option<Written<MacAddr>>,
    pub back_gateway: Option<Written<IpAddr>>,
    pub vlan: Option<u16>,
    pub step: Written<Step>,
    pub flows: Option<u32>,
    /// Total number of packets.
    pub count: Option<u64>,
    /// Length of the UDP payload in bytes.
    pub payload_size: Option<usize>,
    /// Length of the frame in bytes, with FCS. Excludes `payload_size`.
    pub frame_size: Option<usize>,
    pub ttl: u8,
    pub dscp: u8,
}

/// Rate and timing of departures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    pub rate: Option<RateText>,
    pub then: Option<Written<StepText>>,
    pub pacing: Written<Pacing>,
    pub catch_up: Written<Duration>,
    /// Factor of the rates of streams, but for those that are not to be scaled.
    pub scale: Option<Written<Factor>>,
}

/// Packets that the run accepts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Streams whose packets are known by their tags, in place of UDP to addresses and ports.
    pub streams: Option<Written<mpps_traffic::Traffic>>,
    pub take: Option<Written<Take>>,
    /// Addresses. Only `drop` and `reflect` accept more than one.
    pub ip: Option<Written<AddressRange>>,
    pub ports: Option<Written<RangeInclusive<u16>>>,
    pub proto: Option<Written<CaptureProtocol>>,
}

impl Traffic {
    /// Returns whether packets also leave by the second port: the same as by the first, or streams of their own.
    pub fn goes_back(&self) -> bool {
        let streams = self.streams.iter().flat_map(|streams| &streams.streams);
        self.both_ways || streams.map(|stream| stream.from).any(|from| from == Some(1))
    }

    /// Sets the frame length in bytes, with FCS. Replaces a payload length.
    pub fn set_frame_size(&mut self, bytes: usize) {
        (self.frame_size, self.payload_size) = (Some(bytes), None);
    }
}

impl Selection {
    /// Returns the address of a workload that accepts a single one.
    pub fn one_ip(&self) -> Option<IpAddr> {
        self.ip.as_ref().map(|ips| *ips.start())
    }
}

/// Changes to frames between two ports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forward {
    pub mode: Option<Written<Mode>>,
    pub dest_mac: Option<Written<Macs>>,
    pub drain: Written<Duration>,
    pub work: Option<Written<FrameWork>>,
    pub split_directions: bool,
}

/// File and limits of a capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capture {
    /// File to write; `None` only in a plan that was not checked.
    pub output: Option<PathBuf>,
    /// Largest number of bytes kept per packet.
    pub snap_len: usize,
    /// Size in bytes at which the next file begins.
    pub rotate_size: Option<Written<u64>>,
    pub max_files: Option<u64>,
    pub count: Option<u64>,
    /// Buffer per lane in bytes.
    pub buffer: Written<u64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// Length of the run; zero means until a signal ends it.
    pub duration: Option<Written<Duration>>,
    pub start_at: Option<Written<StartAt>>,
    pub interval: Written<Duration>,
    pub settle: Written<Duration>,
    pub settle_early: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lanes {
    pub lanes: Option<usize>,
    pub tx_lanes: Option<usize>,
    pub rx_lanes: Option<usize>,
    pub cores: Option<Written<Cores>>,
    /// Largest burst in frames.
    pub burst: Option<usize>,
    pub tx_burst: Option<usize>,
    pub rx_burst: Option<usize>,
    pub on_full: Option<Written<OnFull>>,
    pub busy_poll: bool,
    pub nice: Option<i32>,
    pub fifo: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checks {
    /// Largest allowed share of missing departures, 0 to 1.
    pub tolerance: Written<f64>,
    pub no_verify: bool,
    pub max_flows: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    pub eal: Option<String>,
    pub flow_rules: Vec<String>,
}

impl Plan {
    /// Creates a plan with default fields and without ports.
    pub fn new(workload: Workload) -> Self {
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
    pub fn port(&self) -> &PortSpec {
        &self.ports[0]
    }

    /// Returns all ports without their texts.
    pub fn specs(&self) -> Vec<PortSpec> {
        self.ports.iter().map(|port| (**port).clone()).collect()
    }

    /// Returns the port at which packets arrive, if it is not the first one.
    pub fn far(&self) -> Option<&PortSpec> {
        self.ports.get(1).map(|port| &**port)
    }

    /// Finds a field of this workload by a name such as `load.rate`.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        FIELDS
            .iter()
            .find(|field| field.is_of(self.workload) && field.name() == name)
    }
}
