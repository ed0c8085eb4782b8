//! Flows that a run uses on an interface, kept from other runs on it: each run holds an abstract Unix socket, whose
//! name says which.
//!
//! The kernel gives a name back when its process ends, however it ends, and a network namespace has names of its own,
//! as it has interfaces. Sockets of the kernel need this, too: the kernel refuses a second socket with the same
//! addresses, but a raw path takes their packets from the interface. A run that comes later moves its default source
//! ports, or is refused if they were given.

mod claim;

use super::traffic::{DEFAULT_SRC_PORTS, Draft, dashed};
use crate::fail::{Failure, Result, failed};
use crate::privilege::caller;
pub(crate) use claim::ANY_INTERFACE;
use claim::{Claim, PREFIX};
use mpps_netdev::abstract_names;
use rustix::process::geteuid;
use std::io;
use std::ops::RangeInclusive;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// A run that came later, and read the names after this run's name was there, gives way at once. One that is still
/// there after this time read them before.
const GIVES_WAY: Duration = Duration::from_millis(300);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Ranges of ports that are tried at the most.
const TRIES: u32 = 64;
/// Runs of other users that are named at the most: anybody can make up names, as many as he likes.
const STRANGERS_NAMED: usize = 3;

/// A run whose flows no other run on its interfaces uses, for as long as this is there.
#[derive(Debug)]
pub(crate) struct Reserved {
    /// None where the path needs none, or the kernel gave none.
    _held: Option<UnixDatagram>,
    /// The run with other source ports, or with notes on what was found.
    changed: Option<Draft>,
}

impl Reserved {
    /// The run as it is to be; `drafted` is what was reserved for.
    pub(crate) fn draft<'d>(&'d self, drafted: &'d Draft) -> &'d Draft {
        self.changed.as_ref().unwrap_or(drafted)
    }
}

/// Reserves the flows of a run.
///
/// # Errors
/// When another run uses them, and the source ports were given.
pub(crate) fn reserve(drafted: &Draft) -> Result<Reserved> {
    let Some(interfaces) = drafted.shared_interfaces() else {
        let (_held, changed) = (None, None);
        return Ok(Reserved { _held, changed });
    };
    let mut ports = drafted.flows.src_ports();
    let mut moved_for: Option<Claim> = None;
    for _ in 0..TRIES {
        let claim = claim_of(drafted, interfaces, ports.clone());
        let (held, others) = match bound(&claim.name()) {
            Ok(socket) => (Some(socket), Others::of(&claim)),
            Err(error) => (None, Err(error)),
        };
        let (first, mut notes) = match &others {
            Ok(others) => (others.before(&claim), others.of_strangers()),
            Err(error) => (None, vec![unread(error)]),
        };
        let Some(first) = first else {
            let moved = moved_for.as_ref().map(|other| {
                notes.push(moved(drafted, &ports, other));
                ports.clone()
            });
            let changed = match notes.is_empty() {
                true => None,
                false => Some(drafted.reserved(moved, notes)?),
            };
            return Ok(Reserved { _held: held, changed });
        };
        let others = others.map(|others| others.counted).unwrap_or_default();
        let free = match drafted.has_default_ports() {
            true => free_ports(&claim, &others),
            false => None,
        };
        ports = free.ok_or_else(|| taken(drafted, &first))?;
        moved_for.get_or_insert(first);
    }
    Err(failed(format!(
        "port '{}': {TRIES} times another run took the same source ports at the same moment: want --src-port-range A-B",
        drafted.args.plan.port()
    )))
}

/// What a run with these source ports uses.
fn claim_of(drafted: &Draft, (near, far): (u32, Option<u32>), src_ports: RangeInclusive<u16>) -> Claim {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    Claim {
        since_ns: since.as_nanos() as u64,
        run_id: drafted.run_id,
        near,
        far,
        vlan: drafted.args.plan.traffic.vlan,
        srcs: drafted.sources(),
        dests: drafted.destinations(),
        src_ports,
        dst_ports: drafted.flows.dst_ports(),
    }
}

fn bound(name: &str) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Other runs in this network namespace.
#[derive(Debug, Default)]
struct Others {
    /// Of the same user, and of root.
    counted: Vec<Claim>,
    /// Of other users, or of one that is not known, if they use the same flows. They could claim anything, so they stop
    /// nobody.
    strangers: Vec<(Claim, Option<u32>)>,
    /// Number of these beyond the ones that are named.
    more_strangers: usize,
}

impl Others {
    /// All of them, beside the run of this claim.
    fn of(claim: &Claim) -> io::Result<Self> {
        let me = geteuid().as_raw();
        // Who called sudo is the same user: the run goes on as that one.
        let called = caller().map(|user| user.uid());
        let same = |uid: u32| uid == me || uid == 0 || Some(uid) == called;
        let mut others = Self::default();
        for name in abstract_names(PREFIX.as_bytes())? {
            let other = Claim::of_name(&name.name).filter(|other| other.run_id != claim.run_id);
            match (other, name.uid) {
                (Some(other), Some(uid)) if same(uid) => others.counted.push(other),
                (Some(other), uid) if other.collides(claim) => match others.strangers.len() {
                    0..STRANGERS_NAMED => others.strangers.push((other, uid)),
                    _ => others.more_strangers += 1,
                },
                _ => {}
            }
        }
        Ok(others)
    }

    /// Notes on runs of other users.
    fn of_strangers(&self) -> Vec<String> {
        let more = (self.more_strangers > 0).then(|| {
            let n = self.more_strangers;
            format!("{n} more names of other users' runs say so, too")
        });
        self.strangers.iter().map(stranger).chain(more).collect()
    }

    /// A run with the same flows that this one gives way to.
    fn before(&self, claim: &Claim) -> Option<Claim> {
        let same = |others: &Self| {
            others
                .counted
                .iter()
                .filter(|other| other.collides(claim))
                .cloned()
                .collect()
        };
        let mut same: Vec<Claim> = same(self);
        let until = Instant::now() + GIVES_WAY;
        loop {
            let earlier = same.iter().find(|other| claim.is_later_than(other));
            if earlier.is_some() || same.is_empty() || Instant::now() >= until {
                return earlier.or(same.first()).cloned();
            }
            thread::sleep(LOOK_AGAIN);
            let now = Self::of(claim).unwrap_or_default();
            same = now.counted.into_iter().filter(|other| other.collides(claim)).collect();
        }
    }
}

/// As many source ports as the claim's that none of the others uses with the same addresses, near the default ones.
fn free_ports(claim: &Claim, others: &[Claim]) -> Option<RangeInclusive<u16>> {
    let length = claim.src_ports.len() as u16;
    let first = *DEFAULT_SRC_PORTS.start();
    let starts = (first..=u16::MAX - (length - 1)).step_by(usize::from(length));
    starts.map(|start| start..=start + (length - 1)).find(|ports| {
        let src_ports = ports.clone();
        let claim = Claim {
            src_ports,
            ..claim.clone()
        };
        !others.iter().any(|other| other.collides(&claim))
    })
}

/// Why a run is refused.
fn taken(drafted: &Draft, other: &Claim) -> Failure {
    let given = match drafted.args.plan.traffic.src_ports {
        Some(_) => format!("--src-port-range {}", dashed(&drafted.flows.src_ports())),
        None => format!("port '{}'", drafted.args.plan.port()),
    };
    failed(format!(
        "{given}: another run of mpps on {} (run_id {:016x}) uses {}: want other source ports, or to wait until that \
         run has ended",
        place(drafted),
        other.run_id,
        other.told()
    ))
}

/// What both runs share.
fn place(drafted: &Draft) -> &str {
    match drafted.shared_interfaces() {
        Some((ANY_INTERFACE, _)) => "this host",
        _ => &drafted.args.plan.port().device,
    }
}

/// The ports of a run were moved.
fn moved(drafted: &Draft, ports: &RangeInclusive<u16>, other: &Claim) -> String {
    format!(
        "source ports {} in place of {}: another run of mpps on {} (run_id {:016x}) uses those",
        dashed(ports),
        dashed(&drafted.flows.src_ports()),
        place(drafted),
        other.run_id
    )
}

/// A run that does not count.
fn stranger((other, uid): &(Claim, Option<u32>)) -> String {
    let whose = match uid {
        Some(uid) => format!("of user {uid}"),
        None => "of a user that this host does not report".to_owned(),
    };
    format!(
        "another run of mpps {whose} (run_id {:016x}) says that it uses {}: if so, packets of both mix",
        other.run_id,
        other.told()
    )
}

/// Names can't be read, or none be had.
fn unread(error: &io::Error) -> String {
    format!(
        "other runs of mpps on the interface could not be looked for ({error}): one with the same addresses and ports \
         would mix its packets with those of this run"
    )
}
