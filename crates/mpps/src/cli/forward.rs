//! The arguments of `forward`.

use super::{PORT_HELP, Run, values};
use clap::Args;
use mpps_io::PortSpec;
use mpps_wire::MacAddr;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// `forward`.
#[derive(Args, Debug, Clone)]
pub(crate) struct Forward {
    #[arg(value_name = "PORT", help = PORT_HELP)]
    pub(crate) port: PortSpec,
    /// Second port: frames go from each to the other [default: back out of the first]
    #[arg(value_name = "PORT2")]
    pub(crate) second: Option<PortSpec>,
    /// What is done to a frame: io (nothing), macswap (MAC addresses change places), 5tswap (MAC and IP addresses, UDP
    /// or TCP ports), l2fwd (source: the sending port's own; destination: --dest-mac) [default: io between two ports,
    /// macswap on one]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub(crate) mode: Option<Mode>,
    /// Destination MAC address of what is sent, for both ports or MAC,MAC: out of the first, out of the second (l2fwd)
    #[arg(long, value_name = "MAC[,MAC]", value_parser = macs)]
    pub(crate) dest_mac: Option<Macs>,
    /// A lane for each direction: --lanes N are N a direction
    #[arg(long)]
    pub(crate) split_directions: bool,
    /// Which frames: foreign (all but those for this host's own addresses), udp (by --ip and --port), all
    /// [default: foreign; udp with --ip or --port]
    #[arg(long, value_name = "WHICH", value_parser = take)]
    pub(crate) take: Option<Take>,
    /// Only UDP packets from or to this address
    #[arg(long, value_name = "IP", value_parser = values::ip)]
    pub(crate) ip: Option<IpAddr>,
    /// Only UDP packets from or to these ports
    #[arg(long = "port", id = "udp_ports", value_name = "A-B", value_parser = values::ports)]
    pub(crate) ports: Option<RangeInclusive<u16>>,
    #[command(flatten)]
    pub(crate) run: Run,
}

/// What is done to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Io,
    MacSwap,
    FiveTupleSwap,
    L2Forward,
}

impl Mode {
    pub(crate) const ALL: [Self; 4] = [Self::Io, Self::MacSwap, Self::FiveTupleSwap, Self::L2Forward];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::MacSwap => "macswap",
            Self::FiveTupleSwap => "5tswap",
            Self::L2Forward => "l2fwd",
        }
    }
}

/// Which frames are taken from the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Take {
    /// All but those for the host's own addresses.
    #[default]
    Foreign,
    /// UDP, by address and port.
    Udp,
    /// Every frame.
    All,
}

impl Take {
    pub(crate) const ALL: [Self; 3] = [Self::Foreign, Self::Udp, Self::All];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::Udp => "udp",
            Self::All => "all",
        }
    }
}

/// One MAC address or two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Macs(pub(crate) Vec<MacAddr>);

fn mode(text: &str) -> Result<Mode, String> {
    let found = Mode::ALL.into_iter().find(|mode| mode.name() == text);
    found.ok_or_else(|| format!("want one of {}", Mode::ALL.map(Mode::name).join(", ")))
}

pub(crate) fn take(text: &str) -> Result<Take, String> {
    let found = Take::ALL.into_iter().find(|take| take.name() == text);
    found.ok_or_else(|| format!("want one of {}", Take::ALL.map(Take::name).join(", ")))
}

fn macs(text: &str) -> Result<Macs, String> {
    let macs: Vec<_> = text.split(',').map(values::mac).collect::<Result<_, _>>()?;
    match macs.len() {
        1 | 2 => Ok(Macs(macs)),
        n => Err(format!("{n} addresses: want one, or one for each of two ports")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_refused() {
        for known in Mode::ALL {
            assert_eq!(mode(known.name()), Ok(known));
        }
        for known in Take::ALL {
            assert_eq!(take(known.name()), Ok(known));
        }
        assert!(mode("mac").unwrap_err().contains("io, macswap, 5tswap, l2fwd"));
        assert!(take("").unwrap_err().contains("foreign, udp, all"));
    }

    #[test]
    fn one_mac_address_or_two_are_read() {
        assert_eq!(macs("02:00:00:00:00:01").unwrap().0.len(), 1);
        assert_eq!(macs("02:00:00:00:00:01,02:00:00:00:00:02").unwrap().0.len(), 2);
        for bad in [
            "",
            "02:00:00:00:00:01,",
            "ff:ff:ff:ff:ff:ff",
            "02:00:00:00:00:01,02:00:00:00:00:02,02:00:00:00:00:03",
        ] {
            assert!(macs(bad).is_err(), "{bad}");
        }
    }
}
