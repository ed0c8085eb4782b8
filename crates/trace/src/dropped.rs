//! Packets of the test that the kernel dropped, by the kernel's own reasons, and which of them are losses.

use crate::why::dropped_by;

/// Difference of drops and losses, in packets, that means nothing: the two are counted at different times.
const FEW_PACKETS: u64 = 64;

/// Packets that the kernel dropped for one reason between two looks at its count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropping {
    /// Time of the earlier look, ns.
    pub from_ns: u64,
    /// Time of the later look, ns.
    pub to_ns: u64,
    /// Name of the reason in the kernel.
    pub reason: String,
    /// Number of packets.
    pub packets: u64,
    /// Whether each was a packet of the run, and not a copy. If not, some packets of the run may be among them.
    pub sure: bool,
}

/// Drops that were seen during a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelDrops {
    /// Drops by time.
    pub list: Vec<Dropping>,
    /// Parts of the kernel whose drops were not seen, and why not.
    pub unseen: Vec<(String, String)>,
}

/// Stretches of time in which packets were lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostTimes {
    /// Start and end of the time in which the packets of each stretch may have been dropped, ns.
    pub stretches: Vec<(u64, u64)>,
    /// All packets lost.
    pub packets: u64,
    /// Packets of stretches that are not listed.
    pub more_packets: u64,
}

impl LostTimes {
    /// Returns a stretch between two times, ns, of a run that ended at `end_ns`. Its packets may have been dropped
    /// later.
    pub fn stretch(from_ns: u64, to_ns: u64, end_ns: u64) -> (u64, u64) {
        (from_ns, dropped_by(to_ns, to_ns >= end_ns))
    }

    fn holds(&self, dropping: &Dropping) -> bool {
        self.stretches.iter().any(|&stretch| within(dropping, stretch))
    }
}

/// Whether a drop may lie in the stretch: a drop between two looks may have happened at any time between them.
fn within(dropping: &Dropping, (from_ns, to_ns): (u64, u64)) -> bool {
    dropping.to_ns > from_ns && dropping.from_ns < to_ns
}

impl KernelDrops {
    /// Returns the packets that were lost because the kernel dropped them, by reason, the most first; without copies.
    pub fn losses(&self, lost: &LostTimes) -> Vec<(String, u64)> {
        let copies = self.copies(lost);
        let mut sums = sums(self.list.iter().filter(|of| of.sure && lost.holds(of)));
        sums.retain(|(reason, _)| !copies.contains(&reason.as_str()));
        sums.sort_by_key(|(_, packets)| std::cmp::Reverse(*packets));
        sums
    }

    /// As [`losses`](Self::losses), for one stretch of loss, without the reasons in `copies`.
    pub fn losses_in(&self, stretch: (u64, u64), copies: &[&str]) -> Vec<(String, u64)> {
        let within = |of: &&Dropping| of.sure && within(of, stretch) && !copies.contains(&of.reason.as_str());
        sums(self.list.iter().filter(within))
    }

    /// Returns the drops in a stretch of loss that may have been of other packets, or of copies, by reason.
    pub fn perhaps_in(&self, stretch: (u64, u64)) -> Vec<(String, u64)> {
        sums(self.list.iter().filter(|of| !of.sure && within(of, stretch)))
    }

    /// As [`perhaps_in`](Self::perhaps_in), for all stretches of loss.
    pub fn perhaps(&self, lost: &LostTimes) -> Vec<(String, u64)> {
        sums(self.list.iter().filter(|of| !of.sure && lost.holds(of)))
    }

    /// Returns the reasons for which the kernel drops packets that are not lost: it has a copy of each packet that a
    /// packet socket took, or that a bridge has sent everywhere. Such a reason has drops while nothing is lost, or more
    /// drops than losses.
    pub fn copies(&self, lost: &LostTimes) -> Vec<&str> {
        // Packets dropped for each reason while some were lost, and while none were.
        let mut by_reason: Vec<(&str, [u64; 2])> = Vec::new();
        for dropping in self.list.iter().filter(|of| of.sure) {
            let elsewhere = usize::from(!lost.holds(dropping));
            match by_reason.iter_mut().find(|(reason, _)| *reason == dropping.reason) {
                Some((_, packets)) => packets[elsewhere] += dropping.packets,
                None => {
                    let mut packets = [0; 2];
                    packets[elsewhere] = dropping.packets;
                    by_reason.push((&dropping.reason, packets));
                }
            }
        }
        let is_copy = |[during, elsewhere]: [u64; 2]| {
            // Stretches that are not listed count as elsewhere.
            elsewhere.saturating_sub(lost.more_packets) > during / 4 + FEW_PACKETS
                || during > 2 * lost.packets + FEW_PACKETS
        };
        let copies = by_reason.into_iter().filter(|(_, packets)| is_copy(*packets));
        copies.map(|(reason, _)| reason).collect()
    }
}

fn sums<'d>(drops: impl Iterator<Item = &'d Dropping>) -> Vec<(String, u64)> {
    let mut sums: Vec<(String, u64)> = Vec::new();
    for dropping in drops {
        match sums.iter_mut().find(|(reason, _)| *reason == dropping.reason) {
            Some((_, packets)) => *packets += dropping.packets,
            None => sums.push((dropping.reason.clone(), dropping.packets)),
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn dropping(at_ms: u64, reason: &str, packets: u64, sure: bool) -> Dropping {
        Dropping {
            from_ns: at_ms * MS,
            to_ns: (at_ms + 20) * MS,
            reason: reason.to_owned(),
            packets,
            sure,
        }
    }

    fn lost(packets: u64) -> LostTimes {
        LostTimes {
            stretches: vec![LostTimes::stretch(100 * MS, 400 * MS, 1_000 * MS)],
            packets,
            more_packets: 0,
        }
    }

    #[test]
    fn losses_are_what_was_dropped_while_packets_were_lost_and_no_copies() {
        let drops = KernelDrops {
            list: vec![
                dropping(20, "TC_INGRESS", 9_000, true),
                dropping(120, "TC_INGRESS", 800, true),
                dropping(140, "PACKET_SOCK_ERROR", 700, true),
                dropping(160, "PACKET_SOCK_ERROR", 800, true),
                dropping(160, "PACKET_SOCK_COPY", 50, false),
                dropping(600, "PACKET_SOCK_COPY", 50, false),
                dropping(180, "QDISC_DROP", 2_000, true),
            ],
            unseen: Vec::new(),
        };
        let lost = lost(3_500);
        assert_eq!(drops.copies(&lost), ["TC_INGRESS"]);
        let losses = [
            ("QDISC_DROP".to_owned(), 2_000),
            ("PACKET_SOCK_ERROR".to_owned(), 1_500),
        ];
        assert_eq!(drops.losses(&lost), losses);
        assert_eq!(
            drops.perhaps_in(lost.stretches[0]),
            [("PACKET_SOCK_COPY".to_owned(), 50)]
        );
        assert_eq!(drops.perhaps(&lost), [("PACKET_SOCK_COPY".to_owned(), 50)]);
        assert_eq!(drops.losses_in((0, 30 * MS), &[]), [("TC_INGRESS".to_owned(), 9_000)]);
    }

    #[test]
    fn what_is_dropped_after_the_last_stretch_is_of_it() {
        let drops = KernelDrops {
            list: vec![dropping(5_000, "NO_SOCKET", 10, true)],
            unseen: Vec::new(),
        };
        let of = |to_ms: u64| LostTimes {
            stretches: vec![LostTimes::stretch(0, to_ms * MS, 1_000 * MS)],
            packets: 10,
            more_packets: 0,
        };
        assert_eq!(drops.losses(&of(1_000)).len(), 1);
        assert_eq!(drops.losses(&of(900)), []);
    }
}
