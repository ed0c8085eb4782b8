//! The plan of `capture`.

use super::traffic::dashed;
use super::{lanes, memory};
use crate::fail::{Result, usage};
use crate::paths::{self, Checked, Rules};
use crate::request::Run;
use mpps_engine::CapturePlan;
use mpps_io::packet_ring::{PacketConsumer, packet_ring};
use mpps_io::{Capabilities, Layer, Request, Roles, Selection, Task};
use mpps_plan::Plain;
use mpps_plan::values::forward::Take as TakeOption;
use mpps_report::{CaptureHeader, CaptureOptions, Rotation};
use mpps_stats::HostFact;
use mpps_wire::{CaptureFilter, CaptureProtocol};
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// Arguments, checked as far as possible without opening anything.
#[derive(Debug)]
pub struct Draft {
    pub args: Run,
    pub port: Checked,
    pub(crate) roles: Vec<Roles>,
    filter: CaptureFilter,
    pub(crate) rules: Rules,
}

impl Draft {
    pub(crate) fn new(mut args: Run) -> Result<Self> {
        let port = Checked::new(args.plan.port(), Task::Capture)?;
        check_options(&args, &port)?;
        let filter = filter(&args)?;
        let roles = lanes::listening(&args, false);
        paths::check_run(&args, &[&port])?;
        let rules = Rules::of(&args, [(&port, &roles[..])])?;
        check_memory(&args, &port, &roles)?;
        lanes::fill(&mut args, &roles, "0");
        Ok(Self {
            rules,
            args,
            port,
            roles,
            filter,
        })
    }

    /// Returns the run's request to its port.
    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            spec: self.args.plan.port(),
            task: Task::Capture,
            roles: &self.roles,
            cores: lanes::cores_of(&self.args, 0, self.roles.len()),
            selection: self.selection(),
            answer: Vec::new(),
            flows: None,
            seed: self.args.plan.seed,
        }
    }

    /// Returns the selection of packets to take from the host, on paths that take them. Packets get into the file in no
    /// other way. The selection is as narrow as the user asked for.
    fn selection(&self) -> Selection {
        let args = &self.args;
        let of = &args.plan.selection;
        match (of.take.plain(), of.proto.plain()) {
            (Some(TakeOption::All), _) => Selection::All,
            // The program knows neither ARP nor the two protocols of ICMP: the lane sorts them out.
            (Some(TakeOption::Foreign), _) | (_, Some(CaptureProtocol::Arp | CaptureProtocol::Icmp)) => {
                Selection::Foreign
            }
            (None, None) if of.ip.is_none() && of.ports.is_none() => Selection::Foreign,
            (udp, proto) => Selection::Either {
                protocol: match proto {
                    Some(CaptureProtocol::Ip(protocol)) => Some(protocol),
                    _ => udp.map(|_| 17),
                },
                ip: of.one_ip(),
                ports: of.ports.plain(),
            },
        }
    }

    /// Returns the packets that the user asked to keep, in the words of the options; empty for all.
    fn wanted(&self) -> String {
        let mut parts = Vec::new();
        if let Some(ip) = self.args.plan.selection.one_ip() {
            parts.push(format!("--ip {ip}"));
        }
        if let Some(ports) = &self.args.plan.selection.ports {
            parts.push(format!("--port {}", dashed(ports)));
        }
        match self.args.plan.selection.proto.plain() {
            None => {}
            Some(CaptureProtocol::Ip(17)) => parts.push("--proto udp".to_owned()),
            Some(CaptureProtocol::Ip(6)) => parts.push("--proto tcp".to_owned()),
            Some(CaptureProtocol::Ip(n)) => parts.push(format!("--proto {n}")),
            Some(CaptureProtocol::Icmp) => parts.push("--proto icmp".to_owned()),
            Some(CaptureProtocol::Arp) => parts.push("--proto arp".to_owned()),
        }
        parts.join(" ")
    }

    /// Returns the file that packets are written to.
    pub(crate) fn output(&self) -> &Path {
        // A checked plan has a file.
        self.args.plan.capture.output.as_deref().unwrap_or(Path::new("-"))
    }

    /// Returns the size of a lane's ring, bytes.
    fn ring_bytes(&self) -> u64 {
        (*self.args.plan.capture.buffer).min(fillable(self.args.plan.times.duration.plain()))
    }

    /// Returns the plan, once the port is open, and the writer's ends of the lanes' rings.
    pub(crate) fn plan(&self, capabilities: &Capabilities) -> Result<(CapturePlan, Vec<PacketConsumer>)> {
        let args = &self.args;
        let mut common = lanes::common(args, &self.roles, None, capabilities.preferred_burst)?;
        let wanted = self.wanted();
        let filter = if wanted.is_empty() { "all".to_owned() } else { wanted };
        common.host.extend([
            HostFact::shown("port", args.plan.port().to_string()),
            HostFact::shown("takes", filter),
            HostFact::new("output", self.output().display().to_string()),
            HostFact::new("buffer_bytes", self.ring_bytes().next_power_of_two().to_string()),
        ]);
        common.host.extend(self.rules.facts());
        let (producers, consumers): (Vec<_>, Vec<_>) = self
            .roles
            .iter()
            .map(|_| packet_ring(self.ring_bytes() as usize))
            .map(|(producer, consumer)| (Mutex::new(Some(producer)), consumer))
            .unzip();
        let plan = CapturePlan {
            common,
            filter: self.filter.clone(),
            snap_len: args.plan.capture.snap_len,
            count: args.plan.capture.count,
            rings: producers,
        };
        Ok((plan, consumers))
    }

    /// Returns the options of the file: the description in its header, and when the next file begins.
    pub(crate) fn options(&self, capabilities: &Capabilities) -> CaptureOptions {
        let args = &self.args;
        let interface = match args.plan.port().device.as_str() {
            "" => &args.plan.port().path,
            device => device,
        };
        CaptureOptions {
            interfaces: vec![CaptureHeader {
                interface: interface.to_owned(),
                description: args.plan.port().to_string(),
                mac: capabilities.mac,
                link_bps: capabilities.link_bps,
                snap_len: args.plan.capture.snap_len as u32,
                filter: self.wanted(),
                payload: false,
                application: format!("mpps {}", env!("CARGO_PKG_VERSION")),
            }],
            rotation: args.plan.capture.rotate_size.plain().map(|bytes| Rotation {
                bytes,
                keep: args.plan.capture.max_files,
            }),
        }
    }
}

/// Refuses options that do not go with a capture, with this port or with the output.
fn check_options(args: &Run, port: &Checked) -> Result<()> {
    if port.traits.layer == Layer::Payload {
        return Err(usage(format!(
            "port '{}': it carries payloads, not frames: want an Ethernet path, such as af_packet:eth1",
            args.plan.port()
        )));
    }
    if let Some(sample) = &args.beside.sample {
        return Err(usage(format!(
            "--sample-pcap {sample}: capture keeps frames itself: want it left out"
        )));
    }
    if args.plan.capture.output.as_deref() == Some(Path::new("-")) {
        if args.plan.capture.rotate_size.is_some() {
            return Err(usage(
                "--rotate-size: standard output is not a file: want -o FILE, or --rotate-size left out",
            ));
        }
        if std::io::stdout().is_terminal() {
            return Err(usage(
                "-o -: standard output is a terminal: want a pipe, such as | tshark -r -, or -o FILE",
            ));
        }
    }
    if let Some(take) = args
        .plan
        .selection
        .take
        .plain()
        .filter(|_| !port.traits.takes_from_host)
    {
        return Err(usage(format!(
            "--take {}: only af_xdp takes packets from the host; '{}' copies them: want --take left out",
            take.name(),
            args.plan.port()
        )));
    }
    Ok(())
}

/// Returns the filter that the options make.
fn filter(args: &Run) -> Result<CaptureFilter> {
    let filter = CaptureFilter {
        ip: args.plan.selection.one_ip(),
        ports: args.plan.selection.ports.plain(),
        protocol: args.plan.selection.proto.plain(),
    };
    if filter.ports.is_some()
        && !matches!(
            args.plan.selection.proto.plain(),
            None | Some(CaptureProtocol::Ip(6 | 17))
        )
    {
        return Err(usage(
            "--port: only UDP and TCP have ports: want --proto udp or tcp, or one of the two left out",
        ));
    }
    Ok(filter)
}

/// Refuses buffers that have no room in memory.
fn check_memory(args: &Run, port: &Checked, roles: &[Roles]) -> Result<()> {
    let (buffer, lanes) = (*args.plan.capture.buffer, roles.len() as u64);
    let mut parts = memory::of_run(args, Duration::ZERO, (roles, memory::lane_count(roles, [])), [port]);
    parts.push(memory::Part::new(
        format!("--buffer {buffer} with --lanes {lanes}: they take"),
        buffer
            .next_power_of_two()
            .min(fillable(args.plan.times.duration.plain()))
            * lanes,
        move |left| {
            // A buffer takes the next power of two, from 1 MiB on.
            let bits = (left / lanes.max(1)).checked_ilog2().filter(|bits| *bits >= 20);
            memory::advice(bits.map(|bits| (1u64 << bits).to_string()), lanes as usize)
        },
    ));
    memory::check(&parts)
}

/// Returns a number of bytes that a lane can't fill within the run's duration: it is more than memory takes from one
/// core. The ring is written once before the run, so that no lane meets a page that is not allocated. For a buffer of
/// gigabytes that takes seconds.
fn fillable(duration: Option<Duration>) -> u64 {
    const BYTES_PER_MS: u64 = 64 << 20;
    const LEAST: u64 = 64 << 20;
    match duration.filter(|duration| !duration.is_zero()) {
        None => u64::MAX,
        Some(duration) => {
            let ms = duration.as_millis().try_into().unwrap_or(u64::MAX);
            BYTES_PER_MS
                .saturating_mul(ms)
                .saturating_add(LEAST)
                .checked_next_power_of_two()
                .unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_no_larger_than_a_short_run_can_fill() {
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(fillable(ms(1)), 128 << 20);
        assert_eq!(fillable(ms(10)), 1 << 30);
        assert_eq!(fillable(ms(1000)), 64 << 30);
        // The run lasts until it is interrupted, by default or on request.
        assert_eq!((fillable(None), fillable(Some(Duration::ZERO))), (u64::MAX, u64::MAX));
        assert_eq!(fillable(Some(Duration::MAX)), u64::MAX);
    }
}
