//! Reserves the flows that a run uses on an interface, so that no other run uses them. Each run holds an abstract Unix
//! socket whose name contains its flows.
//!
//! The kernel releases a name when its process ends, however it ends. A network namespace has names of its own, as it
//! has interfaces. Sockets of the kernel need a reservation, too: the kernel refuses a second socket with the same
//! addresses, but a raw path takes their packets from the interface. A run that comes later moves its default source
//! ports. If its source ports were given, it is refused.

mod claim;

use super::traffic::{Draft, dashed};
use crate::fail::{Failure, Result, failed};
use crate::privilege::caller;
pub(crate) use claim::ANY_INTERFACE;
use claim::{Claim, PREFIX};
use mpps_netdev::abstract_names;
use mpps_plan::DEFAULT_SRC_PORTS;
use mpps_stats::{Remark, RemarkName};
use rustix::process::geteuid;
use std::io;
use std::ops::RangeInclusive;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Time that a later run has to give way. A run that came later, and read the names after this run's name was there,
/// gives way at once. A run that is still there after this time read the names earlier.
const GIVES_WAY: Duration = Duration::from_millis(300);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Most ranges of ports that are tried.
const TRIES: u32 = 64;
/// Most runs of other users that are named: anybody can make up any number of names.
const STRANGERS_NAMED: usize = 3;

/// Reservation of a run's flows. As long as this value exists, no other run on the run's interfaces uses them.
#[derive(Debug)]
pub(crate) struct Reserved {
    /// None if the path needs no reservation, or the kernel gave none.
    _held: Option<UnixDatagram>,
    /// The run with other source ports, or with notes on what happened during the reservation.
    changed: Option<Draft>,
}

impl Reserved {
    /// Returns the run to execute; `drafted` is the run for which flows were reserved.
    pub(crate) fn draft<'d>(&'d self, drafted: &'d Draft) -> &'d Draft {
        self.changed.as_ref().unwrap_or(drafted)
    }
}

/// Reserves the flows of a run.
///
/// # Errors
/// If another run uses them, and the source ports were given.
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

/// Returns the flows that a run with these source ports uses.
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
    /// Runs of the same user, and of root.
    counted: Vec<Claim>,
    /// Runs of other or unknown users that use the same flows. Such a run can claim any flows, so it does not make this
    /// run give way.
    strangers: Vec<(Claim, Option<u32>)>,
    /// Number of such runs beyond those that are named.
    more_strangers: usize,
}

impl Others {
    /// Reads all runs except the one of this claim.
    fn of(claim: &Claim) -> io::Result<Self> {
        let me = geteuid().as_raw();
        // The user who called sudo counts as the same user, because the run continues as that user.
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

    /// Returns notes on runs of other users.
    fn of_strangers(&self) -> Vec<Remark> {
        let more = (self.more_strangers > 0).then(|| {
            let n = self.more_strangers;
            let text = format!("{n} more names of other users' runs say so, too");
            Remark::new(RemarkName::StrangersRun, text).with("runs", n)
        });
        self.strangers.iter().map(stranger).chain(more).collect()
    }

    /// Returns a run with the same flows to which this run gives way.
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

/// Returns a range of as many source ports as the claim's, near the default ports, that no other run uses with the same
/// addresses.
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

/// Returns the error for a run that is refused.
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

/// Returns the name of the place that both runs share.
fn place(drafted: &Draft) -> &str {
    match drafted.shared_interfaces() {
        Some((ANY_INTERFACE, _)) => "this host",
        _ => &drafted.args.plan.port().device,
    }
}

/// Returns the note that the source ports of a run were moved.
fn moved(drafted: &Draft, ports: &RangeInclusive<u16>, other: &Claim) -> Remark {
    let text = format!(
        "source ports {} in place of {}: another run of mpps on {} (run_id {:016x}) uses those",
        dashed(ports),
        dashed(&drafted.flows.src_ports()),
        place(drafted),
        other.run_id
    );
    Remark::new(RemarkName::SourcePortsMoved, text)
        .with("source_ports", dashed(ports))
        .with("other_run_id", format!("{:016x}", other.run_id))
}

/// Returns the note on a run of another user.
fn stranger((other, uid): &(Claim, Option<u32>)) -> Remark {
    let whose = match uid {
        Some(uid) => format!("of user {uid}"),
        None => "of a user that this host does not report".to_owned(),
    };
    let text = format!(
        "another run of mpps {whose} (run_id {:016x}) says that it uses {}: if so, packets of both mix",
        other.run_id,
        other.told()
    );
    Remark::new(RemarkName::StrangersRun, text).with("other_run_id", format!("{:016x}", other.run_id))
}

/// Returns the note that names could not be read, or this run's name could not be bound.
fn unread(error: &io::Error) -> Remark {
    let text = format!(
        "other runs of mpps on the interface could not be looked for ({error}): one with the same addresses and ports \
         would mix its packets with those of this run"
    );
    Remark::new(RemarkName::OtherRunsUnread, text)
}
