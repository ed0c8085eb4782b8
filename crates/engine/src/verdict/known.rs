//! Evidence on a run's surroundings: from counters and events to clauses with their numbers. Notes, causes, the
//! verdict, pages and the `why` all read this one list.

use super::Evidence;
use super::cause::span;
use mpps_io::around::{KernelCount, Outage, QueueDrops, Surroundings};
use mpps_io::{Obstacle, counter};
use mpps_stats::{Known, KnownKind, LaneSummary, count};

/// Bytes of a frame that are no part of the IP packet: Ethernet header and FCS.
const ETHERNET: usize = 14 + 4;

/// Collects the evidence beside the lanes' counts.
pub(super) fn known(e: &Evidence, lanes: &[LaneSummary]) -> Vec<Known> {
    let mut all = Vec::new();
    for seen in &e.around {
        of_interface(seen, e, counted(lanes, counter::TX_REFUSED), &mut all);
    }
    let no_way = Obstacle::ALL.into_iter().zip(e.no_way_ns).filter(|(_, ns)| *ns > 0);
    all.extend(no_way.map(|(obstacle, ns)| {
        let sentence = format!("{} for {}", obstacle.while_it_lasted(), span(ns));
        plain(KnownKind::NoWay, sentence)
    }));
    of_messages(e, lanes, &mut all);
    all
}

/// Sum over the lanes of one of the path's counters.
fn counted(lanes: &[LaneSummary], name: &str) -> u64 {
    let counters = lanes.iter().flat_map(|lane| &lane.path_counters);
    counters.filter(|(of, _)| of == name).map(|(_, n)| n).sum()
}

fn plain(kind: KnownKind, sentence: String) -> Known {
    Known {
        kind,
        sentence,
        packets: None,
        when_ns: None,
    }
}

/// "1 packet", "2 packets".
fn packets(n: u64) -> String {
    format!("{} packet{}", count(n), if n == 1 { "" } else { "s" })
}

fn of_interface(seen: &Surroundings, e: &Evidence, retried: u64, all: &mut Vec<Known>) {
    let name = &seen.interface;
    // A path that is told of each drop has tried those packets again.
    let mut retried = retried;
    for queue in seen.queues.iter().flatten() {
        let again = retried.min(queue.packets);
        retried -= again;
        let queue = QueueDrops {
            packets: queue.packets - again,
            ..queue.clone()
        };
        if queue.packets == 0 {
            continue;
        }
        let (kind, what) = match queue.imitates {
            true => (KnownKind::PathImitated, ", which imitates a path,"),
            false => (KnownKind::QueueDropped, ""),
        };
        all.push(Known {
            packets: Some(queue.packets),
            ..plain(
                kind,
                format!(
                    "the queue {} of {name}{what} dropped {}",
                    queue.name,
                    packets(queue.packets)
                ),
            )
        });
    }
    if let Some(dropped) = seen.device_dropped.filter(|n| *n > 0) {
        let sentence = format!("the device {name} dropped {} instead of sending them", packets(dropped));
        all.push(Known {
            packets: Some(dropped),
            ..plain(KnownKind::DeviceDropped, sentence)
        });
    }
    let outages = |kind, what: &str, outages: &[Outage], all: &mut Vec<Known>| {
        if let Some((lasted, when_ns)) = lasted(outages, e.duration_ns) {
            all.push(Known {
                when_ns,
                ..plain(kind, format!("{what} {lasted}"))
            });
        }
    };
    outages(KnownKind::LinkOff, &format!("{name} was switched off"), &seen.off, all);
    outages(
        KnownKind::NoCarrier,
        &format!("{name} had no carrier"),
        &seen.no_carrier,
        all,
    );
    let mut told = Vec::new();
    for (ip, _) in &seen.addresses {
        if told.contains(ip) {
            continue;
        }
        told.push(*ip);
        let of = seen.addresses.iter().filter(|(other, _)| other == ip);
        let gone: Vec<Outage> = of.map(|(_, outage)| *outage).collect();
        let what = format!("{name} was without its address {ip}");
        outages(KnownKind::AddressMissing, &what, &gone, all);
    }
    for change in &seen.mtu {
        let at_s = change.at_ns as f64 / 1e9;
        let sentence = format!(
            "the MTU of {name} was changed from {} to {} bytes at {at_s:.3} s",
            change.from, change.to
        );
        all.push(plain(KnownKind::MtuChanged, sentence));
    }
    let length = e.frame_size.saturating_sub(ETHERNET);
    if let Some((dst, mtu)) = seen.path_mtu.filter(|(_, mtu)| length > *mtu as usize) {
        let sentence = format!(
            "a router on the way to {dst} has reported that it passes on no packets longer than {mtu} bytes (path MTU, \
             learned by ICMP), and those of the test have {length}"
        );
        all.push(plain(KnownKind::TooLong, sentence));
    }
}

/// For how long and when; `None` where it was after the run.
fn lasted(outages: &[Outage], run_ns: u64) -> Option<(String, Option<(u64, u64)>)> {
    let seconds = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
    let within: Vec<Outage> = outages.iter().filter(|of| of.from_ns < run_ns).copied().collect();
    let ns = |of: &Outage| of.to_ns.saturating_sub(of.from_ns);
    let longest = within.iter().max_by_key(|of| ns(of))?;
    let when = match (longest.from_start, longest.to_end) {
        (true, true) => "from the start to the end".to_owned(),
        (true, false) => format!("from the start to {} s", seconds(longest.to_ns)),
        (false, true) => format!("from {} s to the end", seconds(longest.from_ns)),
        (false, false) => format!("from {} to {} s", seconds(longest.from_ns), seconds(longest.to_ns)),
    };
    Some(match within.len() {
        1 => (
            format!("for {}, {when}", span(ns(longest))),
            Some((longest.from_ns, longest.to_ns)),
        ),
        n => {
            let all: u64 = within.iter().map(ns).sum();
            (format!("{n} times, for {} in all, the longest {when}", span(all)), None)
        }
    })
}

/// Adds reports of other hosts (ICMP), and packets that the kernel refused as they came in.
fn of_messages(e: &Evidence, lanes: &[LaneSummary], all: &mut Vec<Known>) {
    let sum = |name: &str| counted(lanes, name);
    let times = |n: u64| match n {
        1 => "once".to_owned(),
        n => format!("{} times", count(n)),
    };
    let refused = sum(counter::REFUSED) + e.icmp.port_unreachable;
    if refused > 0 {
        let sentence = format!(
            "the destination reported {} that nobody listens on the port (ICMP)",
            times(refused)
        );
        all.push(plain(KnownKind::NobodyListens, sentence));
    }
    let mut message = |kind, n: u64, what: &str| {
        if n > 0 {
            all.push(plain(kind, format!("{what} {} (ICMP)", times(n))));
        }
    };
    // Messages that quote packets of the test, which only a path that takes whole frames sees.
    message(
        KnownKind::TimeExceeded,
        e.icmp.time_exceeded,
        "a router reported that packets of the test had gone through too many routers (--ttl),",
    );
    message(
        KnownKind::TooLong,
        e.icmp.too_long,
        "a router reported that packets of the test are too long for its next link,",
    );
    message(
        KnownKind::Unreachable,
        e.icmp.unreachable + sum("icmp_errors"),
        "a host or router reported that the destination of the test's packets can't be reached,",
    );
    // Counters of the whole namespace: the messages may be about packets of others.
    let kernel = |of: KernelCount| -> u64 {
        let counts = e.around.iter().flat_map(|seen| &seen.kernel);
        counts.filter(|(which, _)| *which == of).map(|(_, n)| n).sum()
    };
    let received = |n: u64, what: &str| {
        format!(
            "this host received {} ICMP message{} {what}, on packets of the test or of others",
            count(n),
            if n == 1 { "" } else { "s" }
        )
    };
    let exceeded = kernel(KernelCount::TimeExceeded);
    if exceeded > 0 {
        let sentence = received(exceeded, "of type time exceeded (too many routers on the way: --ttl)");
        all.push(plain(KnownKind::TimeExceeded, sentence));
    }
    let unreachable = kernel(KernelCount::Unreachable);
    if unreachable > refused + sum("icmp_errors") {
        let sentence = received(unreachable, "of type destination unreachable");
        all.push(plain(KnownKind::Unreachable, sentence));
    }
    let too_big = kernel(KernelCount::TooBig);
    if too_big > 0 && e.around.iter().all(|seen| seen.path_mtu.is_none()) {
        all.push(plain(KnownKind::TooLong, received(too_big, "of type packet too big")));
    }
    let filtered = kernel(KernelCount::ReversePathFilter);
    if filtered > 0 {
        let sentence = format!(
            "the reverse path filter of this host dropped {} that came in (net.ipv4.conf.*.rp_filter)",
            packets(filtered)
        );
        all.push(Known {
            packets: Some(filtered),
            ..plain(KnownKind::ReversePathFilter, sentence)
        });
    }
}

#[cfg(test)]
#[path = "known_tests.rs"]
mod tests;
