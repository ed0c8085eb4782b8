//! Evidence on a run's surroundings: from counters and events to clauses with their numbers. Notes, causes, the
//! verdict, pages and the `why` all read this one list.

use super::Evidence;
use super::cause::{span, times};
use mpps_io::around::{KernelCount, Outage, Surroundings};
use mpps_io::{Obstacle, counter};
use mpps_stats::{Known, KnownKind, LaneSummary, count};

/// Least time without an answer of the next host that is reported, ns.
const UNANSWERED_NS: u64 = 500_000_000;

/// Collects the evidence beside the lanes' counts.
pub(super) fn known(e: &Evidence, lanes: &[LaneSummary]) -> Vec<Known> {
    let mut all = Vec::new();
    // A path that knows of each drop has sent those packets again. The interface that dropped them is not known.
    let mut retried = counted(lanes, counter::TX_REFUSED);
    for seen in &e.around {
        of_interface(seen, e, &mut retried, &mut all);
    }
    let no_way = Obstacle::ALL.into_iter().zip(e.no_way_ns).filter(|(_, ns)| *ns > 0);
    all.extend(no_way.map(|(obstacle, ns)| {
        let sentence = format!("{} for {}", obstacle.while_it_lasted(), span(ns));
        plain(KnownKind::NoWay, sentence)
    }));
    of_messages(e, lanes, &mut all);
    all
}

/// Returns the sum over the lanes of one of the path's counters.
fn counted(lanes: &[LaneSummary], name: &str) -> u64 {
    let counters = lanes.iter().flat_map(|lane| &lane.path_counters);
    counters.filter(|(of, _)| of == name).map(|(_, n)| n).sum()
}

fn plain(kind: KnownKind, sentence: String) -> Known {
    Known {
        kind,
        sentence,
        packets: None,
        of_others: false,
        when_ns: Vec::new(),
    }
}

/// Returns "1 packet", "2 packets", ….
fn packets(n: u64) -> String {
    format!("{} packet{}", count(n), if n == 1 { "" } else { "s" })
}

/// Returns a clause on dropped packets that the path knows of, and has sent again.
fn tried_again(again: u64) -> String {
    match again {
        0 => String::new(),
        again => format!(", of which {} at the most were tried again", count(again)),
    }
}

/// Makes evidence of packets that a counter of this host shows, of the test or of others.
fn dropped(kind: KnownKind, packets: u64, sentence: String) -> Known {
    Known {
        packets: Some(packets),
        of_others: true,
        ..plain(kind, sentence)
    }
}

/// Makes evidence of messages that this host received, on packets of the test or of others.
fn received(kind: KnownKind, n: u64, what: &str) -> Known {
    let plural = if n == 1 { "" } else { "s" };
    let sentence = format!(
        "this host received {} ICMP message{plural} {what}, on packets of the test or of others",
        count(n)
    );
    Known {
        of_others: true,
        ..plain(kind, sentence)
    }
}

/// Adds what an interface of the run shows.
fn of_interface(seen: &Surroundings, e: &Evidence, retried: &mut u64, all: &mut Vec<Known>) {
    of_drops(seen, retried, all);
    of_outages(seen, e, all);
    of_neighbors(seen, e, all);
    of_mtu(seen, e, all);
}

/// Adds the packets that queues and the device have dropped. `retried`: packets that the path has sent again, and that
/// no interface so far accounts for.
fn of_drops(seen: &Surroundings, retried: &mut u64, all: &mut Vec<Known>) {
    let name = &seen.interface;
    for queue in seen.queues.iter().flatten() {
        if queue.packets == 0 {
            continue;
        }
        let again = (*retried).min(queue.packets);
        *retried -= again;
        let (kind, what) = match queue.imitates {
            true => (KnownKind::PathImitated, ", which imitates a path,"),
            false => (KnownKind::QueueDropped, ""),
        };
        let (many, tried) = (packets(queue.packets), tried_again(again));
        let sentence = format!("the queue {} of {name}{what} dropped {many}{tried}", queue.name);
        all.push(dropped(kind, queue.packets - again, sentence));
    }
    if let Some(n) = seen.device_dropped.filter(|n| *n > 0) {
        let again = (*retried).min(n);
        *retried -= again;
        let tried = match again {
            0 => " instead of sending them".to_owned(),
            again => tried_again(again),
        };
        let sentence = format!("the device {name} dropped {}{tried}", packets(n));
        all.push(dropped(KnownKind::DeviceDropped, n - again, sentence));
    }
}

/// Adds times in which the interface was off, or without its carrier or addresses.
fn of_outages(seen: &Surroundings, e: &Evidence, all: &mut Vec<Known>) {
    let name = &seen.interface;
    let mut outages = |kind, what: &str, outages: &[Outage]| all.extend(outage(kind, what, outages, e));
    outages(KnownKind::LinkOff, &format!("{name} was switched off"), &seen.off);
    outages(
        KnownKind::NoCarrier,
        &format!("{name} had no carrier"),
        &seen.no_carrier,
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
        outages(KnownKind::AddressMissing, &what, &gone);
    }
}

/// Makes evidence of outages, if there were any during the run.
fn outage(kind: KnownKind, what: &str, outages: &[Outage], e: &Evidence) -> Option<Known> {
    let (lasted, when_ns) = lasted(outages, e.duration_ns)?;
    Some(Known {
        when_ns,
        ..plain(kind, format!("{what} {lasted}"))
    })
}

/// Adds next hosts that did not answer.
fn of_neighbors(seen: &Surroundings, e: &Evidence, all: &mut Vec<Known>) {
    let name = &seen.interface;
    if let Some((ip, silent)) = &seen.no_neighbor {
        // An answer takes a moment; the kernel asks once a second.
        let long = |of: &&Outage| {
            let ns = of.to_ns.min(e.duration_ns).saturating_sub(of.from_ns);
            ns >= UNANSWERED_NS || ns * 2 >= e.duration_ns
        };
        let silent: Vec<Outage> = silent.iter().filter(long).copied().collect();
        let what = format!("no neighbour answered for {ip} on {name}");
        all.extend(outage(KnownKind::NoNeighbor, &what, &silent, e));
    }
    if !seen.unanswered.is_empty() {
        let ips: Vec<_> = seen.unanswered.iter().map(|ip| ip.to_string()).collect();
        let sentence = format!(
            "no neighbour answered for {} on {name} as the run ended, asked for by the test or by others",
            ips.join(", ")
        );
        all.push(plain(KnownKind::NoNeighbor, sentence));
    }
}

/// Adds changes of the interface's MTU, and a path MTU that the test's packets exceed.
fn of_mtu(seen: &Surroundings, e: &Evidence, all: &mut Vec<Known>) {
    let name = &seen.interface;
    let length = e.packet_len;
    for (place, change) in seen.mtu.iter().enumerate() {
        let at_s = change.at_ns as f64 / 1e9;
        let mut sentence = format!(
            "the MTU of {name} was changed from {} to {} bytes at {at_s:.3} s",
            change.from, change.to
        );
        let mut when_ns = Vec::new();
        if length > change.to as usize {
            sentence += &format!(" (packets of the test have {length})");
            let next = seen.mtu.get(place + 1).map_or(e.duration_ns, |next| next.at_ns);
            when_ns.push((change.at_ns, next.max(change.at_ns)));
        }
        all.push(Known {
            when_ns,
            ..plain(KnownKind::MtuChanged, sentence)
        });
    }
    if let Some((dst, mtu)) = seen.path_mtu.filter(|(_, mtu)| length > *mtu as usize) {
        let sentence = format!(
            "a router on the way to {dst} has reported that it passes on no packets longer than {mtu} bytes (path MTU, \
             learned by ICMP), and those of the test have {length}"
        );
        all.push(plain(KnownKind::TooLong, sentence));
    }
}

/// Returns how long and when outages lasted within the run; `None`: all came after the run. The settle time is no part
/// of it.
fn lasted(outages: &[Outage], run_ns: u64) -> Option<(String, Vec<(u64, u64)>)> {
    let seconds = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
    let within = outages.iter().filter(|of| of.from_ns < run_ns).map(|of| Outage {
        to_ns: of.to_ns.min(run_ns),
        to_end: of.to_end || of.to_ns >= run_ns,
        ..*of
    });
    let within: Vec<Outage> = within.collect();
    let ns = |of: &Outage| of.to_ns.saturating_sub(of.from_ns);
    let longest = within.iter().max_by_key(|of| ns(of))?;
    let when = match (longest.from_start, longest.to_end) {
        (true, true) => "from the start to the end".to_owned(),
        (true, false) => format!("from the start to {} s", seconds(longest.to_ns)),
        (false, true) => format!("from {} s to the end", seconds(longest.from_ns)),
        (false, false) => format!("from {} to {} s", seconds(longest.from_ns), seconds(longest.to_ns)),
    };
    let lasted = match within.len() {
        1 => format!("for {}, {when}", span(ns(longest))),
        n => {
            let all: u64 = within.iter().map(ns).sum();
            format!("{n} times, for {} in all, the longest {when}", span(all))
        }
    };
    Some((lasted, within.iter().map(|of| (of.from_ns, of.to_ns)).collect()))
}

/// Adds reports of other hosts (ICMP), and packets that the kernel refused as they came in.
fn of_messages(e: &Evidence, lanes: &[LaneSummary], all: &mut Vec<Known>) {
    let sum = |name: &str| counted(lanes, name);
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
    // Counters of the whole namespace: the messages may be about other packets.
    let kernel = |of: KernelCount| -> u64 {
        let counts = e.around.iter().flat_map(|seen| &seen.kernel);
        counts.filter(|(which, _)| *which == of).map(|(_, n)| n).sum()
    };
    let exceeded = kernel(KernelCount::TimeExceeded);
    if exceeded > 0 {
        let what = "of type time exceeded (too many routers on the way: --ttl)";
        all.push(received(KnownKind::TimeExceeded, exceeded, what));
    }
    let unreachable = kernel(KernelCount::Unreachable);
    // If a neighbour does not answer, this host reports to itself that the neighbour can't be reached.
    let by_itself = all.iter().any(|known| known.kind == KnownKind::NoNeighbor);
    if unreachable > refused + sum("icmp_errors") && !by_itself {
        let what = "of type destination unreachable";
        all.push(received(KnownKind::Unreachable, unreachable, what));
    }
    let too_big = kernel(KernelCount::TooBig);
    if too_big > 0 && e.around.iter().all(|seen| seen.path_mtu.is_none()) {
        all.push(received(KnownKind::TooLong, too_big, "of type packet too big"));
    }
    let filtered = kernel(KernelCount::ReversePathFilter);
    if filtered > 0 {
        let sentence = format!(
            "the reverse path filter of this host dropped {} that came in (net.ipv4.conf.*.rp_filter)",
            packets(filtered)
        );
        all.push(dropped(KnownKind::ReversePathFilter, filtered, sentence));
    }
}

#[cfg(test)]
#[path = "known_tests.rs"]
mod tests;
