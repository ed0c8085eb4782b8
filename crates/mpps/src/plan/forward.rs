//! The plan of `forward`.

use super::dpdk::Rules;
use super::path::PathConfig;
use super::traffic::dashed;
use super::{lanes, xdp};
use crate::cli::{Forward, ForwardMode as Mode, Take};
use crate::fail::{Result, usage};
use mpps_af_packet::Checksum;
use mpps_af_xdp::Taken;
use mpps_engine::{ForwardPlan, ForwardPort};
use mpps_io::{Capabilities, Layer, PortSpec, Roles};
use mpps_wire::{MacAddr, Rewrite, TakeFilter};
use mpps_xdp::ForwardTake;
use std::net::IpAddr;

/// Protocol number of UDP.
const UDP: u8 = 17;

/// Arguments checked as far as that goes without opening anything.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) args: Forward,
    /// One, or two.
    pub(crate) ports: Vec<DraftPort>,
    mode: Mode,
    take: Take,
    pub(crate) rules: Rules,
}

/// A port of a draft.
#[derive(Debug)]
pub(crate) struct DraftPort {
    pub(crate) spec: PortSpec,
    pub(crate) path: PathConfig,
    /// One entry a lane.
    pub(crate) roles: Vec<Roles>,
}

impl Draft {
    pub(crate) fn new(args: Forward) -> Result<Self> {
        let specs: Vec<_> = std::iter::once(&args.port).chain(&args.second).cloned().collect();
        if let [a, b] = &specs[..]
            && a.path == b.path
            && a.device == b.device
            && !a.device.is_empty()
        {
            return Err(usage(format!(
                "port '{b}': it is the first port, too: want another, or none to send back out of '{a}'"
            )));
        }
        xdp::check_forward(&args)?;
        let mode = check_mode(&args, specs.len())?;
        let take = check_take(&args)?;
        let ports = specs.into_iter().enumerate();
        let ports = ports
            .map(|(i, spec)| DraftPort::new(spec, i, &args))
            .collect::<Result<_>>()?;
        let rules = Rules::of(&args.run)?;
        Ok(Self {
            rules,
            args,
            ports,
            mode,
            take,
        })
    }

    pub(crate) fn plan(&self, capabilities: &[&Capabilities]) -> Result<ForwardPlan> {
        // What a lane does with each port is in the ports' roles.
        let lanes = vec![Roles { rx: true, tx: true }; self.ports[0].roles.len()];
        let burst = capabilities.iter().map(|c| c.preferred_burst).max().unwrap_or(1);
        let mut common = if xdp::is_xdp(&self.ports[0].path) {
            xdp::common(&self.args.run, &[], None)?
        } else {
            lanes::common(&self.args.run, &lanes, None, burst)?
        };
        let names: Vec<_> = self.ports.iter().map(|port| port.spec.to_string()).collect();
        let mut tell = |name: &str, value: String| common.host.push((name.to_owned(), value));
        tell("port", names.join(", "));
        tell("forward_mode", self.mode.name().to_owned());
        tell("takes", self.takes());
        if self.args.split_directions {
            tell("directions", "a lane each".to_owned());
        }
        let ports = names.into_iter().zip(capabilities).enumerate();
        let ports = ports.map(|(i, (name, capabilities))| ForwardPort {
            name,
            take: self.filter(i),
            rewrite: self.rewrite(i, capabilities),
        });
        Ok(ForwardPlan {
            ports: ports.collect(),
            common,
            split_directions: self.args.split_directions,
        })
    }

    /// What is taken, as the user would ask for it.
    fn takes(&self) -> String {
        let mut text = self.take.name().to_owned();
        if let Some(ip) = self.args.ip {
            text += &format!(" --ip {ip}");
        }
        if let Some(ports) = &self.args.ports {
            text += &format!(" --port {}", dashed(ports));
        }
        text
    }

    /// What an XDP program takes from the host.
    pub(crate) fn taken(&self) -> Taken {
        let take = match self.take {
            Take::All => mpps_af_xdp::Take::All,
            Take::Foreign => mpps_af_xdp::Take::Foreign,
            Take::Udp => mpps_af_xdp::Take::Either {
                protocol: Some(UDP),
                addresses: self.args.ip.into_iter().collect(),
                ports: self.args.ports.clone(),
            },
        };
        Taken {
            take,
            answer: Vec::new(),
        }
    }

    /// What the program of the xdp path takes at each port, and remarks.
    ///
    /// # Errors
    /// When an interface has more addresses than its program has room for.
    pub(crate) fn takes_in_kernel(&self) -> Result<(Vec<ForwardTake>, Vec<String>)> {
        let (mut takes, mut remarks) = (Vec::new(), Vec::new());
        for port in &self.ports {
            takes.push(match (self.take, port.path.interface()) {
                (Take::Foreign, Some(device)) => {
                    let (left, remark) = xdp::left_to_host(&device, &port.spec)?;
                    remarks.extend(remark);
                    ForwardTake::Foreign(left)
                }
                (Take::Foreign, None) => ForwardTake::Foreign(Vec::new()),
                (Take::All, _) => ForwardTake::All,
                (Take::Udp, _) => ForwardTake::Udp {
                    ip: self.args.ip,
                    ports: self.args.ports.clone(),
                },
            });
        }
        Ok((takes, remarks))
    }

    /// What is taken at port `port`.
    fn filter(&self, port: usize) -> TakeFilter {
        match self.take {
            // Whatever comes in there, the XDP program has chosen already.
            _ if matches!(self.ports[port].path, PathConfig::AfXdp(_) | PathConfig::Xdp(_)) => TakeFilter::All,
            Take::All => TakeFilter::All,
            Take::Foreign => TakeFilter::Foreign(self.ports[port].own_addresses().into()),
            Take::Udp => TakeFilter::Udp {
                ip: self.args.ip,
                ports: self.args.ports.clone(),
            },
        }
    }

    /// What is done to frames that leave by port `port`.
    fn rewrite(&self, port: usize, capabilities: &Capabilities) -> Rewrite {
        match self.mode {
            Mode::Io => Rewrite::Io,
            Mode::MacSwap => Rewrite::MacSwap,
            Mode::FiveTupleSwap => Rewrite::FiveTupleSwap,
            Mode::L2Forward => {
                let macs = self
                    .args
                    .dest_mac
                    .as_ref()
                    .map(|macs| macs.0.as_slice())
                    .unwrap_or_default();
                Rewrite::L2Forward {
                    source: MacAddr(capabilities.mac.unwrap_or_default()),
                    // Checked: there is one at least.
                    destination: macs.get(port).or(macs.first()).copied().unwrap_or_default(),
                }
            }
        }
    }
}

impl DraftPort {
    /// The port number `place`, 0 or 1.
    fn new(spec: PortSpec, place: usize, args: &Forward) -> Result<Self> {
        let mut path = PathConfig::of(&spec)?;
        if path.layer() == Layer::Payload {
            return Err(usage(format!(
                "port '{spec}': it carries payloads, not frames: want an Ethernet path, such as af_packet:eth1"
            )));
        }
        if args.split_directions && !path.split_lanes() {
            return Err(usage(format!(
                "--split-directions: each queue of '{spec}' is a loop of its own: want it left out"
            )));
        }
        if let PathConfig::AfPacket(config) = &mut path {
            // What a forwarder is for is not for its own MAC address. Who says promisc=off means it.
            config.promisc |= !spec.options.iter().any(|(key, _)| key == "promisc");
            // Frames come with their sums, which a device would take for the pseudo-header's.
            if config.checksum == Checksum::Device {
                return Err(usage(format!(
                    "port '{spec}': csum=device: what is forwarded has its checksums already: want csum left out"
                )));
            }
            config.checksum = Checksum::Software;
        }
        if let PathConfig::AfXdp(config) = &mut path {
            config.promisc |= !spec.options.iter().any(|(key, _)| key == "promisc");
        }
        let lanes = args.run.lanes.unwrap_or(1);
        let (receives, sends) = (Roles { rx: true, tx: false }, Roles { rx: false, tx: true });
        let roles = match (args.split_directions, place) {
            (false, _) => vec![Roles { rx: true, tx: true }; lanes],
            (true, 0) => [receives, sends].repeat(lanes),
            (true, _) => [sends, receives].repeat(lanes),
        };
        Ok(Self { spec, path, roles })
    }

    /// The host's own addresses, which `--take foreign` leaves to it.
    pub(crate) fn own_addresses(&self) -> Vec<IpAddr> {
        let device = self.path.interface();
        device
            .map(|device| mpps_netdev::host_addresses(&device))
            .unwrap_or_default()
    }
}

fn check_mode(args: &Forward, ports: usize) -> Result<Mode> {
    let mode = args.mode.unwrap_or(if ports == 1 { Mode::MacSwap } else { Mode::Io });
    match (&args.dest_mac, mode) {
        (None, Mode::L2Forward) => {
            return Err(usage(
                "--mode l2fwd: want --dest-mac MAC[,MAC], the MAC address that each port sends to",
            ));
        }
        (Some(macs), Mode::L2Forward) if macs.0.len() > ports => {
            return Err(usage("--dest-mac: two addresses for one port: want one"));
        }
        (Some(_), mode) if mode != Mode::L2Forward => {
            return Err(usage(format!(
                "--dest-mac: mode {} sets no MAC address: want --mode l2fwd",
                mode.name()
            )));
        }
        _ => {}
    }
    if args.split_directions && ports == 1 {
        return Err(usage(
            "--split-directions: one port has one direction: want two ports, or --lanes N",
        ));
    }
    Ok(mode)
}

fn check_take(args: &Forward) -> Result<Take> {
    let which = args.ip.is_some() || args.ports.is_some();
    if let Some(ip) = args.ip.filter(|ip| ip.is_unspecified()) {
        return Err(usage(format!("--ip {ip}: want the address of one host or group")));
    }
    match args.take {
        None if which => Ok(Take::Udp),
        None => Ok(Take::default()),
        Some(take) if which && take != Take::Udp => Err(usage(format!(
            "--take {}: --ip and --port choose UDP packets: want --take udp, or neither of them",
            take.name()
        ))),
        Some(take) => Ok(take),
    }
}
