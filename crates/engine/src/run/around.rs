//! Events around the ports of a trial.

use crate::error::RunError;
use crate::run::collect::Watches;
use crate::run::job::Job;
use mpps_io::around::{Outage, Surroundings};
use mpps_sys::clock::monotonic_ns;

/// Ends the watches of a trial. Their times become ns since its start.
pub(crate) fn end(watches: Watches, ended_ns: u64, start_ns: u64) -> Vec<(usize, Surroundings)> {
    let seen = |(place, watch): (usize, Box<dyn mpps_io::around::Watch>)| {
        let mut seen = watch.end(ended_ns);
        let addresses = seen.addresses.iter_mut().map(|(_, outage)| outage);
        let silent = seen.no_neighbor.iter_mut().flat_map(|(_, times)| times);
        let outages = seen
            .off
            .iter_mut()
            .chain(&mut seen.no_carrier)
            .chain(addresses)
            .chain(silent);
        outages.for_each(|outage| since(outage, start_ns));
        let changes = seen.mtu.iter_mut();
        changes.for_each(|change| change.at_ns = change.at_ns.saturating_sub(start_ns));
        (place, seen)
    };
    watches.into_iter().map(seen).collect()
}

fn since(outage: &mut Outage, start_ns: u64) {
    outage.from_ns = outage.from_ns.saturating_sub(start_ns);
    outage.to_ns = outage.to_ns.saturating_sub(start_ns);
}

/// Replaces "nobody answered" by the state of the link if the link is down.
pub(crate) fn why_unresolved(error: RunError, job: &dyn Job) -> RunError {
    let RunError::Unresolved(text) = error else {
        return error;
    };
    let now_ns = monotonic_ns();
    let down = job.watches().into_iter().find_map(|(_, mut watch)| {
        watch.look(now_ns);
        let seen = watch.end(now_ns + 1);
        match (seen.off.is_empty(), seen.no_carrier.is_empty()) {
            (false, _) => Some(format!("{} is switched off: no packet can leave", seen.interface)),
            (_, false) => Some(format!("{} has no carrier: is the other end up?", seen.interface)),
            _ => None,
        }
    });
    RunError::Unresolved(down.unwrap_or(text))
}

/// Returns the events around the port that a track leaves by; without a track, the events of all ports.
pub(crate) fn of_track(all: &[(usize, Surroundings)], track: Option<usize>) -> Vec<Surroundings> {
    let of = all
        .iter()
        .filter(|(place, _)| track.is_none_or(|track| track == *place));
    of.map(|(_, seen)| seen.clone()).collect()
}
