//! `forward`: a program at each of the ports, and a map that leads from one to the other.

use crate::abi::{Forward, ForwardPort, bytes_of};
use crate::encode::Constant;
use crate::error::of;
use crate::load::Which;
use crate::open::{Order, XdpDevice, check_transmit, load as load_programs};
use crate::port::XdpPort;
use crate::spec::{ForwardRewrite, ForwardSpec, ForwardTake};
use mpps_io::{Error, ErrorKind, Result};
use xsk::{Addresses, Filter, Match, Ports, Take};

const UDP: u8 = 17;
/// `forward_port.rewrite` in `xdp/forward.bpf.c`.
pub(crate) const REWRITE_NOTHING: u32 = 0;
pub(crate) const REWRITE_MACS: u32 = 1;
pub(crate) const REWRITE_FIVE_TUPLE: u32 = 2;
pub(crate) const REWRITE_L2: u32 = 3;

/// Loads and attaches.
pub(crate) fn load(devices: Vec<XdpDevice>, spec: &ForwardSpec) -> Result<XdpPort> {
    if devices.len() != spec.ports.len() || !(1..=2).contains(&devices.len()) {
        let cause = format!(
            "{} devices for {} ports: want one or two of each",
            devices.len(),
            spec.ports.len()
        );
        return Err(Error::new("forward on", "xdp", cause, ErrorKind::Other));
    }
    let macs: Vec<[u8; 6]> = devices.iter().map(|device| device.device.mac).collect();
    let indices: Vec<u32> = devices.iter().map(|device| device.device.ifindex).collect();
    let order = Order {
        which: Which::Forward,
        series: spec.series,
        complete: &|_, counts| constants(spec, &macs, counts),
        entries: &|_| Vec::new(),
        programs: &["forward_a", "forward_b"],
        lanes: 0,
        kinds: 0,
        answers: false,
    };
    let mut port = load_programs(devices, &order)?;
    port.named = true;
    for (site, wanted) in port.sites.iter_mut().zip(&spec.ports) {
        site.name = wanted.name.clone();
    }
    if indices.len() == 2 {
        for site in &port.sites {
            check_transmit(&site.device)?;
        }
        let loaded = port.loaded.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        loaded.devices("DEVICES", &indices)?;
    }
    Ok(port)
}

/// `FORWARD`, `TAKE_A`, `TAKE_B` and the bits of their ports, as in `xdp/forward.bpf.c`.
fn constants(spec: &ForwardSpec, macs: &[[u8; 6]], counts: &[u32]) -> Result<Vec<Constant>> {
    let mut forward = Forward {
        ports: spec.ports.len() as u32,
        ..Forward::default()
    };
    let mut base = 0u32;
    let macs_and_sources = macs.iter().zip(counts);
    for ((to, port), (mac, sources)) in forward.port.iter_mut().zip(&spec.ports).zip(macs_and_sources) {
        let (rewrite, destination) = match port.rewrite {
            ForwardRewrite::Io => (REWRITE_NOTHING, [0; 6]),
            ForwardRewrite::MacSwap => (REWRITE_MACS, [0; 6]),
            ForwardRewrite::FiveTupleSwap => (REWRITE_FIVE_TUPLE, [0; 6]),
            ForwardRewrite::L2Forward { destination } => (REWRITE_L2, destination),
        };
        *to = ForwardPort {
            base,
            sources: *sources,
            rewrite,
            source: *mac,
            destination,
        };
        base += sources;
    }
    let mut all = vec![("FORWARD", bytes_of(&forward))];
    let names = [("TAKE_A", "PORTS"), ("TAKE_B", "PORTS_B")];
    for (port, (take, ports)) in spec.ports.iter().zip(names) {
        let (filter, bits) = filter(&port.take).constants().map_err(of)?;
        all.push((take, filter));
        all.push((ports, bits));
    }
    Ok(all)
}

fn filter(take: &ForwardTake) -> Filter {
    match take {
        ForwardTake::All => Filter::all(),
        ForwardTake::Foreign(own) => Filter::foreign(own.iter().copied()),
        ForwardTake::Udp { ip, ports } => Take::Match(Match {
            protocol: Some(UDP),
            ports: ports.clone().map_or(Ports::Any, |ports| Ports::In(vec![ports])),
            addresses: ip.map_or(Addresses::Any, |ip| Addresses::Of(vec![ip])),
            either: true,
        })
        .into(),
    }
}
