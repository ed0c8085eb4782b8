//! The options of an `af_packet` port, parsed before anything is opened.

use mpps_io::{PortSpec, RxTime, SpecError};

/// Taker of times of arrival if the option says nothing. The kernel notes them in any case, but a lane pays some 60 ns
/// for each packet's: two more histograms.
pub const DEFAULT_RX_TIME: RxTime = RxTime::Lane;

/// How packets are spread over the sockets of several receiving queues (`PACKET_FANOUT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fanout {
    /// By flow hash: each flow stays on one queue.
    Hash,
    /// By the CPU that the packet arrived on.
    Cpu,
    /// Round robin.
    RoundRobin,
    /// At random.
    Random,
    /// By the device's receive queue.
    QueueMapping,
}

impl Fanout {
    /// Name as written in the option.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Cpu => "cpu",
            Self::RoundRobin => "lb",
            Self::Random => "rnd",
            Self::QueueMapping => "qm",
        }
    }
}

/// Place where UDP checksums of generated packets are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The device if it is hardware with transmit checksums switched on, else mpps.
    Auto,
    /// mpps.
    Software,
    /// The device, by `PACKET_VNET_HDR`.
    Device,
}

/// Treatment of merged frames: several packets that travel as one (GSO, TSO, GRO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergedFrames {
    /// UDP datagrams come one by one, as on a wire.
    Split,
    /// Merged frames come as they are, whole.
    Whole,
}

/// Whether the host's own stack is kept from answering test packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardMode {
    /// If the kernel can do it; else go on and say so.
    Auto,
    /// Refuse to open if the kernel can't.
    On,
    /// Never.
    Off,
}

/// A parsed `af_packet:IFACE[,options]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The interface's name.
    pub device: String,
    /// `ring=`: frames in each queue's ring, each direction; `None`: 8192 to receive and 512 to send.
    pub ring: Option<u32>,
    /// `qdisc=bypass` (default): straight to the driver; `qdisc=kernel` goes through traffic control.
    pub qdisc_bypass: bool,
    /// `fanout=`.
    pub fanout: Fanout,
    /// `csum=`.
    pub checksum: Checksum,
    /// `promisc=`: receive frames for other MAC addresses too; `None`: as the task needs.
    pub promisc: Option<bool>,
    /// `guard=`.
    pub guard: GuardMode,
    /// `rx_time=`.
    pub rx_time: RxTime,
    /// Treatment of merged frames, by the task: there is no option for it.
    pub merged: MergedFrames,
}

impl Config {
    /// Whether the kernel takes times of arrival.
    pub fn timed(&self) -> bool {
        self.rx_time == RxTime::Kernel
    }
}

/// Parses the specification; opens nothing.
///
/// # Errors
/// When the interface is missing or not a possible name, or an option or its value is unknown.
pub fn check(spec: &PortSpec) -> Result<Config, SpecError> {
    let device = spec.interface()?;
    let mut options = spec.take_options();
    let ring = options.number("ring", 64..=1 << 20)?.map(|n| n as u32);
    let qdisc_bypass = options.get("qdisc", "bypass or kernel", |v| match v {
        "bypass" => Some(true),
        "kernel" => Some(false),
        _ => None,
    })?;
    let fanout = options.get("fanout", "hash, cpu, lb, qm or rnd", |v| {
        [
            Fanout::Hash,
            Fanout::Cpu,
            Fanout::RoundRobin,
            Fanout::Random,
            Fanout::QueueMapping,
        ]
        .into_iter()
        .find(|f| f.name() == v)
    })?;
    let checksum = options.get("csum", "auto, software or device", |v| match v {
        "auto" => Some(Checksum::Auto),
        "software" => Some(Checksum::Software),
        "device" => Some(Checksum::Device),
        _ => None,
    })?;
    let promisc = options.switch("promisc")?;
    let guard = options.get("guard", "on, off or auto", |v| match v {
        "auto" => Some(GuardMode::Auto),
        "on" => Some(GuardMode::On),
        "off" => Some(GuardMode::Off),
        _ => None,
    })?;
    let rx_time = options.rx_time()?;
    options.finish()?;
    Ok(Config {
        device,
        ring,
        qdisc_bypass: qdisc_bypass.unwrap_or(true),
        fanout: fanout.unwrap_or(Fanout::Hash),
        checksum: checksum.unwrap_or(Checksum::Auto),
        promisc,
        guard: guard.unwrap_or(GuardMode::Auto),
        rx_time: rx_time.unwrap_or(DEFAULT_RX_TIME),
        merged: MergedFrames::Split,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, SpecError> {
        check(&text.parse()?)
    }

    #[test]
    fn defaults_are_bypass_hash_auto_and_not_promiscuous() {
        let config = parse("af_packet:eth1").expect("valid");
        assert_eq!(config.device, "eth1");
        assert_eq!(config.ring, None);
        assert!(config.qdisc_bypass && config.promisc.is_none());
        assert_eq!(config.rx_time, DEFAULT_RX_TIME);
        assert_eq!(
            (config.fanout, config.checksum, config.guard),
            (Fanout::Hash, Checksum::Auto, GuardMode::Auto)
        );
    }

    #[test]
    fn every_option_is_taken() {
        let config =
            parse("af_packet:eth1,ring=4096,qdisc=kernel,fanout=qm,csum=device,promisc=on,guard=off,rx_time=kernel")
                .expect("valid");
        assert_eq!(config.ring, Some(4096));
        assert!(!config.qdisc_bypass && config.promisc == Some(true));
        assert_eq!(
            (config.fanout, config.checksum, config.guard),
            (Fanout::QueueMapping, Checksum::Device, GuardMode::Off)
        );
        assert_eq!(config.rx_time, RxTime::Kernel);
        assert_eq!(
            parse("af_packet:eth1,rx_time=on").expect("valid").rx_time,
            RxTime::Kernel
        );
    }

    #[test]
    fn refusals_name_the_option_the_value_and_what_would_be_right() {
        for (text, parts) in [
            ("af_packet:eth1,ring=12", ["ring=12", "64"]),
            ("af_packet:eth1,qdisc=none", ["qdisc=none", "bypass or kernel"]),
            ("af_packet:eth1,fanout=roll", ["fanout=roll", "hash"]),
            ("af_packet:eth1,csum=yes", ["csum=yes", "software"]),
            ("af_packet:eth1,guard=maybe", ["guard=maybe", "on, off or auto"]),
            ("af_packet:eth1,rx_time=card", ["rx_time=card", "lane or kernel"]),
            (
                "af_packet:eth1,rx_time=hardware",
                ["rx_time=hardware", "want kernel or lane"],
            ),
            ("af_packet:eth1,rings=64", ["rings", "ring, qdisc"]),
            ("af_packet:", ["interface ''", "af_packet:eth1"]),
            ("af_packet:../eth1", ["../eth1", "name of a network interface"]),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(
                parts.iter().all(|p| error.contains(p)) && !error.contains('\n'),
                "{text}: {error}"
            );
        }
    }
}
