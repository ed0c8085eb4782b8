//! Flow rules of a run (`--flow`): read and checked against each port before anything is opened. A port of the `dpdk`
//! path applies them itself; on the kernel's paths they become ntuple filters of the NIC for as long as the run lasts.

use super::ntuple::filter_of;
use super::{Checked, names};
use crate::fail::{Result, failed, usage};
use crate::request::Run;
use mpps_flow::Rule;
use mpps_io::Roles;
use mpps_netdev::{self as netdev, NetDev, NtupleFilter};
use mpps_stats::HostFact;
use std::ops::Range;

/// Checked flow rules of a run.
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Reads `--flow`, for a run on these ports with these lanes. Opens nothing and changes nothing.
    pub(crate) fn of<'p>(run: &Run, ports: impl IntoIterator<Item = (&'p Checked, &'p [Roles])>) -> Result<Self> {
        let rules = run.plan.device.flow_rules.iter().map(|text| {
            text.parse()
                .map_err(|e| usage(format!("--flow '{}': {e}", on_one_line(text))))
        });
        let rules = rules.collect::<Result<Vec<Rule>>>()?;
        if rules.is_empty() {
            return Ok(Self::default());
        }
        for (port, roles) in ports {
            let room = Room::of(port, roles);
            for rule in &rules {
                check(rule, port, &room).map_err(|e| usage(format!("--flow '{rule}': port '{}': {e}", port.spec)))?;
            }
        }
        Ok(Self(rules))
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn as_slice(&self) -> &[Rule] {
        &self.0
    }

    /// Returns the facts on the rules in force, for the report.
    pub(crate) fn facts(&self) -> impl Iterator<Item = HostFact> {
        let rules = self.0.iter().enumerate();
        rules.map(|(i, rule)| HostFact::new(format!("flow_rule_{i}"), rule.to_string()))
    }

    /// Applies the rules to a port of the kernel's paths, until the returned value is dropped. Does nothing on other
    /// ports.
    pub(crate) fn apply(&self, port: &Checked) -> Result<Vec<NtupleFilter>> {
        // If there is no such interface, opening the port reports that.
        let Some(device) = port.interface() else {
            return Ok(Vec::new());
        };
        let rules = self.0.iter();
        let filters = rules.map(|rule| insert(rule, &device).map_err(|e| failed(format!("--flow '{rule}': {e}"))));
        filters.collect()
    }
}

/// How flow rules are applied on the ports of a path.
#[derive(Clone, Copy, Debug)]
pub(super) enum Steering {
    /// They can't be applied: the text is the reason.
    Not(&'static str),
    /// The path applies them itself.
    Own,
    /// They become ntuple filters of the NIC.
    Ntuple {
        /// First queue that the port opens, and the one after its last; `None`: all queues.
        queues: Option<(u64, Option<u64>)>,
        /// Reason why there is no other way.
        otherwise: &'static str,
    },
}

/// Queues of a port that rules may name.
struct Room {
    queues: Range<u64>,
    who: &'static str,
}

impl Room {
    fn of(port: &Checked, roles: &[Roles]) -> Self {
        let Some(device) = port.interface() else {
            // A DPDK port has one queue for each lane that receives, in the order of the lanes.
            let receiving = roles.iter().filter(|role| role.rx).count() as u64;
            return Self {
                queues: 0..receiving,
                who: "this run's lanes receive from",
            };
        };
        let rings = netdev::receive_rings(&device.name).unwrap_or(device.queues as u64);
        match port.traits.steering {
            Steering::Ntuple {
                queues: Some((first, end)),
                ..
            } => Self {
                queues: first..end.unwrap_or(rings),
                who: "the port opens",
            },
            _ => Self {
                queues: 0..rings,
                who: "the device has",
            },
        }
    }

    fn check(&self, queue: u16) -> std::result::Result<(), String> {
        if self.queues.contains(&u64::from(queue)) {
            return Ok(());
        }
        let (first, end, who) = (self.queues.start, self.queues.end, self.who);
        Err(match end.saturating_sub(first) {
            0 => format!("queue {queue}: {who} none: want a rule that names no queue"),
            1 => format!("queue {queue}: {who} queue {first} alone: want {first}"),
            _ => format!("queue {queue}: {who} queues {first} to {}: want one of them", end - 1),
        })
    }
}

fn check(rule: &Rule, port: &Checked, room: &Room) -> std::result::Result<(), String> {
    let instead = match port.traits.steering {
        Steering::Not(why) => {
            let mut steer = names(|path| path.steers);
            let last = steer.pop().unwrap_or_default();
            return Err(format!("{why}: want {} or {last}", steer.join(", ")));
        }
        Steering::Own => return rule.queues().try_for_each(|queue| room.check(queue)),
        Steering::Ntuple { otherwise, .. } => otherwise,
    };
    filter_of(rule)?;
    let Some(device) = port.interface() else {
        return Ok(());
    };
    netdev::check_ntuple(&device.name).map_err(|e| {
        format!(
            "{} has no ntuple filters: {e}{instead}: want a NIC that has them, a dpdk port, or, where a command has \
             them, --ip and --port",
            named(&device)
        )
    })?;
    rule.queues().try_for_each(|queue| room.check(queue))
}

/// Returns a device's name with its driver.
fn named(device: &NetDev) -> String {
    match device.driver.as_str() {
        "" => format!("{} (no driver named)", device.name),
        driver => format!("{} (driver {driver})", device.name),
    }
}

fn insert(rule: &Rule, device: &NetDev) -> std::result::Result<NtupleFilter, String> {
    let filter = filter_of(rule)?;
    NtupleFilter::insert(&device.name, device.ifindex, &filter).map_err(|e| {
        let name = &device.name;
        let want = match netdev::ntuple_on(name) {
            _ if e.kind() == std::io::ErrorKind::PermissionDenied => "root, or CAP_NET_ADMIN".to_owned(),
            Some(false) => format!(
                "'ethtool -K {name} ntuple on' before, for they are off; where that is refused, the NIC has none"
            ),
            _ => "fields and actions that the driver has".to_owned(),
        };
        format!("{} refuses this ntuple filter: {e}: want {want}", named(device))
    })
}

/// Returns the user's text without line breaks and other control characters.
fn on_one_line(text: &str) -> String {
    mpps_sys::text::plain(text, ' ')
}
