//! Events around a port during a run: its link, its addresses, the queues and the counters of this host's kernel.
//!
//! A path that drives an interface of the host makes a [`Watch`] per port. The collector asks it, off the packet path.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// Records what happens around a port while it is used.
pub trait Watch {
    /// Name of the interface.
    fn interface(&self) -> &str;

    /// A descriptor that can be read once something has changed; `None` if the kernel reports nothing.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Reads what has changed by `now_ns`. Returns false while the port's link is down and its path would not notice:
    /// packets that are sent then are lost silently.
    fn look(&mut self, now_ns: u64) -> bool;

    /// Why the port can be used no more, as the last look found; `None` while it can.
    fn gone(&self) -> Option<String> {
        None
    }

    /// Ends the watch, and returns what it has seen.
    fn end(self: Box<Self>, now_ns: u64) -> Surroundings;
}

/// A time in which an interface could not move packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Begin, ns of `CLOCK_MONOTONIC`: when it was first seen.
    pub from_ns: u64,
    /// End, ns.
    pub to_ns: u64,
    /// The outage began before the watch did.
    pub from_start: bool,
    /// The outage had not ended when the watch did.
    pub to_end: bool,
}

/// Most outages of one kind that are kept.
const MOST: usize = 64;

/// Outages of one kind, noted as they begin and end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outages {
    /// Begin of the present outage, ns, and whether it began before the watch did.
    since: Option<(u64, bool)>,
    over: Vec<Outage>,
}

impl Outages {
    /// Notes that an outage had begun before the watch began, at `now_ns`.
    pub fn from_start(&mut self, now_ns: u64) {
        self.since = Some((now_ns, true));
    }

    /// Notes whether there is an outage at `now_ns`.
    pub fn follow(&mut self, lasts: bool, now_ns: u64) {
        match (self.since, lasts) {
            (None, true) => self.since = Some((now_ns, false)),
            (Some(_), false) => self.close(now_ns, false),
            _ => {}
        }
    }

    /// Whether there is an outage now.
    pub fn lasts(&self) -> bool {
        self.since.is_some()
    }

    /// Returns all outages, by time, as the watch ends at `now_ns`.
    pub fn end(&mut self, now_ns: u64) -> Vec<Outage> {
        self.close(now_ns, true);
        std::mem::take(&mut self.over)
    }

    fn close(&mut self, to_ns: u64, to_end: bool) {
        if let Some((from_ns, from_start)) = self.since.take()
            && (self.over.len() < MOST || to_end)
        {
            self.over.push(Outage {
                from_ns,
                to_ns,
                from_start,
                to_end,
            });
        }
    }
}

/// Packets that a queueing discipline dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDrops {
    /// Kind and handle of the discipline, as `tc qdisc` has them: `tbf 8001:`.
    pub name: String,
    /// Packets, of the test or of others.
    pub packets: u64,
    /// The discipline imitates a path on purpose (`netem`): its drops are drops of that path.
    pub imitates: bool,
}

/// A change of an interface's largest packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuChange {
    /// When it was seen, ns.
    pub at_ns: u64,
    /// Bytes before.
    pub from: u32,
    /// Bytes since.
    pub to: u32,
}

/// A counter of the kernel for the whole network namespace: packets of all programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelCount {
    /// Packets dropped by the reverse path filter (`IPReversePathFilter`).
    ReversePathFilter,
    /// ICMP time exceeded received.
    TimeExceeded,
    /// ICMP destination unreachable received, port unreachable and too long packets (IPv4) among it.
    Unreachable,
    /// ICMPv6 packet too big received.
    TooBig,
}

/// Events around one interface in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Name of the interface.
    pub interface: String,
    /// Times in which the interface was switched off (`ip link set down`).
    pub off: Vec<Outage>,
    /// Times in which the interface was on and had no carrier: the other end was down.
    pub no_carrier: Vec<Outage>,
    /// Addresses that the interface had at the start and lost, with the time for which each was missing.
    pub addresses: Vec<(IpAddr, Outage)>,
    /// Changes of its MTU.
    pub mtu: Vec<MtuChange>,
    /// Next host on the way of the test's packets, and times in which it answered no request for its MAC address (ARP,
    /// neighbour discovery): the kernel keeps a few packets and drops the others.
    pub no_neighbor: Option<(IpAddr, Vec<Outage>)>,
    /// Other hosts on the link that had not answered such a request as the run ended, asked for by the test or by
    /// others.
    pub unanswered: Vec<IpAddr>,
    /// Largest packet on the way to a destination that this host has learned from a router (ICMP), bytes.
    pub path_mtu: Option<(IpAddr, u32)>,
    /// Drops of its queueing disciplines; `None`: not read, or packets of the test do not go through them.
    pub queues: Option<Vec<QueueDrops>>,
    /// Packets that the device itself dropped instead of sending them, of the test or of others; `None`: not read.
    pub device_dropped: Option<u64>,
    /// Packets that the interface counted as received, of the test or of others; `None`: not read, or the path does not
    /// depend on them.
    pub arrived: Option<u64>,
    /// The kernel's counters, as far as they changed; empty if packets of the test bypass the kernel's stack.
    pub kernel: Vec<(KernelCount, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_follow_one_another_and_the_last_may_still_last() {
        let outage = |from_ns, to_ns, from_start, to_end| Outage {
            from_ns,
            to_ns,
            from_start,
            to_end,
        };
        let mut outages = Outages::default();
        outages.from_start(5);
        for (lasts, now_ns) in [(true, 7), (false, 9), (false, 11), (true, 20)] {
            outages.follow(lasts, now_ns);
        }
        assert!(outages.lasts());
        assert_eq!(
            outages.end(30),
            [outage(5, 9, true, false), outage(20, 30, false, true)]
        );
    }
}
