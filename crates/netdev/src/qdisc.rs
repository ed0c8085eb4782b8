//! Queueing disciplines of an interface and the packets that they dropped.

use crate::netlink::{Request, attributes, u32_at};
use crate::text;
use std::io;

/// Length of `struct tcmsg`.
const TCMSG: usize = 20;
const ROOT: u32 = 0xffff_ffff;
// include/uapi/linux/rtnetlink.h and gen_stats.h
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;

/// A queueing discipline through which packets leave an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// `fq_codel`, `tbf`, …
    pub kind: String,
    handle: u32,
    parent: u32,
    /// Packets dropped by it or by those below it since it was made; wraps at 2^32.
    drops: u32,
}

impl Qdisc {
    /// Kind and handle, as `tc qdisc` prints them.
    pub fn name(&self) -> String {
        match self.handle >> 16 {
            0 => self.kind.clone(),
            major => format!("{} {major:x}:", self.kind),
        }
    }
}

/// The queueing disciplines of an interface on the way out. Those on the way in (`ingress`, `clsact`) are left out:
/// they only run filters.
///
/// # Errors
/// When the kernel does not answer.
pub fn qdiscs(ifindex: u32) -> io::Result<Vec<Qdisc>> {
    let mut all = Vec::new();
    let mut head = [0; TCMSG];
    head[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    Request::new(libc::RTM_GETQDISC, libc::NLM_F_DUMP, &head).run(|_, body| {
        all.extend(of_message(body, ifindex));
    })?;
    Ok(all)
}

fn of_message(body: &[u8], ifindex: u32) -> Option<Qdisc> {
    if u32_at(body, 4)? != ifindex {
        return None;
    }
    let find = |kind| {
        attributes(body, TCMSG)
            .find(|(k, _)| *k == kind)
            .map(|(_, value)| value)
    };
    let kind = text(find(TCA_KIND)?);
    let mut stats = attributes(find(TCA_STATS2)?, 0);
    // struct gnet_stats_queue: qlen, backlog, drops, …
    let drops = u32_at(stats.find(|(k, _)| *k == TCA_STATS_QUEUE)?.1, 8)?;
    let (handle, parent) = (u32_at(body, 8)?, u32_at(body, 12)?);
    let outward = !matches!(kind.as_str(), "ingress" | "clsact");
    outward.then_some(Qdisc {
        kind,
        handle,
        parent,
        drops,
    })
}

/// Packets that each discipline itself dropped between two readings: a parent's count includes its children's. One that
/// was made in between counts from its making.
pub fn dropped_between(before: &[Qdisc], now: &[Qdisc]) -> Vec<(Qdisc, u64)> {
    let since = |of: &Qdisc| {
        let same = |then: &&Qdisc| (&then.kind, then.handle, then.parent) == (&of.kind, of.handle, of.parent);
        let then = before.iter().find(same).map_or(0, |then| then.drops);
        u64::from(of.drops.wrapping_sub(then))
    };
    let own = |of: &Qdisc| {
        let child =
            |other: &&Qdisc| other.parent != ROOT && of.handle >> 16 != 0 && other.parent >> 16 == of.handle >> 16;
        let children: u64 = now.iter().filter(child).map(since).sum();
        (of.clone(), since(of).saturating_sub(children))
    };
    now.iter().map(own).filter(|(_, dropped)| *dropped > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn qdisc(kind: &str, major: u32, parent: u32, drops: u32) -> Qdisc {
        Qdisc {
            kind: kind.to_owned(),
            handle: major << 16,
            parent,
            drops,
        }
    }

    #[test]
    fn drops_are_those_of_the_discipline_that_dropped_and_not_its_parents_again() {
        let before = [
            qdisc("htb", 1, ROOT, u32::MAX),
            qdisc("fq_codel", 0x8001, 1 << 16 | 5, 3),
        ];
        let now = [
            qdisc("htb", 1, ROOT, 11),
            qdisc("fq_codel", 0x8001, 1 << 16 | 5, 10),
            qdisc("tbf", 0x8002, 1 << 16 | 6, 4),
        ];
        let told: Vec<_> = dropped_between(&before, &now)
            .into_iter()
            .map(|(qdisc, n)| (qdisc.name(), n))
            .collect();
        let expected = [("htb 1:", 1), ("fq_codel 8001:", 7), ("tbf 8002:", 4)];
        assert_eq!(told, expected.map(|(name, n)| (name.to_owned(), n)));
        assert_eq!(dropped_between(&now, &now), []);
        assert_eq!(qdisc("pfifo_fast", 0, ROOT, 0).name(), "pfifo_fast");
    }

    proptest! {
        #[test]
        fn any_message_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = of_message(&bytes, 0);
        }
    }
}
