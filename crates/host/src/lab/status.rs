//! The state of a lab.

use super::device::Device;
use super::error::Result;
use super::kernel::{self, Entry, Kernel};
use super::names;
use super::{DEFAULT_NAME, Host, INTERFACE, Lab, foreign, joined};

/// The state of a lab.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LabStatus {
    /// The lab's name.
    pub name: String,
    /// State of the whole lab.
    pub state: LabState,
    /// State of each host, a before b.
    pub hosts: Vec<HostStatus>,
    /// Missing parts and obstacles, one line each.
    pub problems: Vec<String>,
}

/// State of a whole lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LabState {
    /// The lab is complete.
    Up,
    /// No part of the lab exists.
    Down,
    /// The lab is half made or damaged: `up` repairs it, `down` removes it.
    Partial,
    /// An object with a name of the lab is not the lab's.
    Foreign,
}

/// The state of one host.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct HostStatus {
    /// The host: a or b.
    pub host: Host,
    /// Namespace of the host.
    pub namespace: String,
    /// Whether the namespace exists and is the lab's.
    pub present: bool,
    /// MAC address of the host's `eth1`, when that exists.
    pub mac: Option<String>,
    /// MTU in bytes.
    pub mtu: Option<u32>,
    /// Receive and transmit queues.
    pub queues: Option<u32>,
    /// Operational state of RFC 2863.
    pub link: Option<String>,
    /// Addresses with prefix lengths.
    pub addresses: Vec<String>,
}

/// State of one host, and what the state of the whole lab is made from.
struct Seen {
    status: HostStatus,
    /// The host's `eth1`, if the namespace is the lab's.
    eth1: Option<Device>,
    /// Whether an object with the host's name exists that a lab could have made: a namespace or only its name.
    exists: bool,
    /// Whether the namespace exists and is not the lab's.
    is_foreign: bool,
}

/// Looks at both hosts of a lab, and at what an interrupted run may have left.
pub(super) fn look(lab: &Lab, kernel: &Kernel) -> Result<LabStatus> {
    let mut problems = Vec::new();
    let mut hosts = Vec::new();
    let mut interfaces = Vec::new();
    let (mut any, mut is_foreign) = (false, false);
    for host in Host::ALL {
        let seen = look_at(lab, host, kernel, &mut problems)?;
        any |= seen.exists;
        is_foreign |= seen.is_foreign;
        hosts.push(seen.status);
        interfaces.extend(seen.eth1);
    }
    if let [a, b] = &interfaces[..]
        && !joined(a, b, None)
    {
        problems.push(format!("the two {INTERFACE} are not the ends of one pair"));
    }
    for name in kernel::names().iter().filter(|n| names::is_working(lab.name(), n)) {
        any = true;
        problems.push(format!("{name}: left by a run that was killed"));
    }
    if any {
        problems.extend(
            hosts
                .iter()
                .filter(|h| !h.present)
                .map(|h| format!("{}: missing", h.namespace)),
        );
    }
    let state = match (is_foreign, any, problems.is_empty()) {
        (true, ..) => LabState::Foreign,
        (false, false, _) => LabState::Down,
        (false, true, true) => LabState::Up,
        (false, true, false) => LabState::Partial,
    };
    Ok(LabStatus {
        name: lab.name().to_owned(),
        state,
        hosts,
        problems,
    })
}

/// Looks at one host, and adds what is wrong with it to the problems.
fn look_at(lab: &Lab, host: Host, kernel: &Kernel, problems: &mut Vec<String>) -> Result<Seen> {
    let namespace = lab.namespace(host);
    let entry = kernel::entry(&namespace)?;
    let devices = match entry {
        Entry::Live => Some(kernel.devices(&namespace)?),
        Entry::Dead => {
            problems.push(format!("{namespace}: a name without a namespace"));
            None
        }
        Entry::Absent => None,
    };
    let why_not = devices.as_ref().and_then(|d| foreign(lab.name(), host, d));
    let present = devices.is_some() && why_not.is_none();
    if let Some(why) = &why_not {
        problems.push(format!("{namespace}: not made by mpps lab ({why})"));
    }
    let eth1 = devices
        .filter(|_| present)
        .and_then(|d| d.into_iter().find(|d| d.name == INTERFACE));
    match &eth1 {
        Some(eth1) => check_interface(lab, host, eth1, problems),
        None if present => problems.push(format!("{namespace}: no {INTERFACE}")),
        None => {}
    }
    Ok(Seen {
        status: HostStatus {
            host,
            namespace,
            present,
            mac: eth1.as_ref().map(|d| d.mac.clone()),
            mtu: eth1.as_ref().map(|d| d.mtu),
            queues: eth1.as_ref().map(|d| d.tx_queues),
            link: eth1.as_ref().map(|d| d.operstate.clone()),
            addresses: eth1.as_ref().map(|d| d.addresses.clone()).unwrap_or_default(),
        },
        eth1,
        exists: present || matches!(entry, Entry::Dead),
        is_foreign: why_not.is_some(),
    })
}

/// Adds what a host's `eth1` lacks to the problems: addresses, link, mark and MAC address.
fn check_interface(lab: &Lab, host: Host, eth1: &Device, problems: &mut Vec<String>) {
    let namespace = lab.namespace(host);
    for want in [format!("{}/24", host.ipv4()), format!("{}/64", host.ipv6())] {
        if !eth1.addresses.contains(&want) && (kernel::has_ipv6() || !want.contains(':')) {
            problems.push(format!("{namespace}: {INTERFACE} lacks {want}"));
        }
    }
    if eth1.operstate != "UP" {
        problems.push(format!("{namespace}: {INTERFACE} is {}", eth1.operstate));
    }
    if eth1.alias != names::mark(lab.name(), host) || eth1.mac != host.mac() {
        problems.push(format!("{namespace}: {INTERFACE} lacks its mark or MAC"));
    }
}

impl LabStatus {
    /// Writes the status as text.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn render(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        let lab = match self.name.as_str() {
            DEFAULT_NAME => "mpps lab".to_owned(),
            name => format!("mpps lab --name {name}"),
        };
        let state = match self.state {
            LabState::Up => "up".to_owned(),
            LabState::Down => "down".to_owned(),
            LabState::Partial => format!("partial: `{lab} up` repairs it, `{lab} down` removes it"),
            LabState::Foreign => "foreign: something of its name was not made by mpps lab".to_owned(),
        };
        writeln!(out, "lab {}: {state}", self.name)?;
        for h in self.hosts.iter().filter(|h| h.present) {
            let Some(link) = h.link.as_deref() else {
                writeln!(out, "  {}  {INTERFACE} missing", h.namespace)?;
                continue;
            };
            let mac = h.mac.as_deref().unwrap_or("-");
            let (mtu, queues) = (h.mtu.unwrap_or(0), h.queues.unwrap_or(0));
            let addresses = h.addresses.join(" ");
            writeln!(
                out,
                "  {}  {INTERFACE} {link}  {mac}  mtu {mtu}  queues {queues}  {addresses}",
                h.namespace
            )?;
        }
        for problem in &self.problems {
            writeln!(out, "  ! {problem}")?;
        }
        Ok(())
    }
}
