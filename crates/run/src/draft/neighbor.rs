//! Asks the host for the next hop's MAC address. This is needed if the source address is the host's own, because
//! answers to mpps's questions would go to the host.

use super::traffic::One;
use crate::fail::{Failure, Result, failed, say, usage};
use mpps_netdev::{NetDev, has_route, neighbor_lookup, neighbor_solicit};
use mpps_wire::MacAddr;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Longest time that the next hop may take to answer the host.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longest time that a link which had a carrier may be without one. The carrier may have gone because a program was
/// attached, to this interface or to the one at the other end, which takes some drivers seconds.
const CARRIER_RETURNS: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);
const ASK_EVERY: Duration = Duration::from_millis(500);

/// Next hop, and index of the interface.
type Asking = (IpAddr, u32);

/// Next hops that the host was asked for. Each is asked for once, however many trials follow.
pub(crate) struct Asked<'a> {
    /// Returns how often the end of the run has been requested.
    interruptions: &'a dyn Fn() -> u32,
    known: RefCell<BTreeMap<Asking, MacAddr>>,
}

impl<'a> Asked<'a> {
    /// Returns an empty list. `interruptions` ends the wait for an answer.
    pub(crate) fn new(interruptions: &'a dyn Fn() -> u32) -> Self {
        Self {
            interruptions,
            known: RefCell::default(),
        }
    }

    /// Returns the MAC address of `hop`, as the host finds it. `skip`: as in [`advice`].
    pub(crate) fn resolve(&self, hop: IpAddr, device: &NetDev, skip: &str) -> Result<MacAddr> {
        let key = (hop, device.ifindex);
        let known = self.known.borrow().get(&key).copied();
        match known {
            Some(mac) => Ok(mac),
            None => {
                let mac = resolve(hop, device, skip, self.interruptions)?;
                self.known.borrow_mut().insert(key, mac);
                Ok(mac)
            }
        }
    }
}

/// Returns the end of a sentence on an address that nobody answers for: `skip` gives the MAC address, so that nobody is
/// asked; and the host may have no route to the address by this interface.
pub(super) fn advice(ip: IpAddr, device: &NetDev, skip: &str) -> String {
    skipped(skip) + &no_route(ip, device)
}

/// Returns the part of [`advice`] that does not depend on the host.
pub(super) fn skipped(skip: &str) -> String {
    format!(" ({skip} skips the question; --gateway IP asks a router instead)")
}

/// Returns the end of a sentence on an address that the host has no route to by this interface. Empty if it has a
/// route, or if this is not known.
fn no_route(ip: IpAddr, device: &NetDev) -> String {
    match has_route(ip, device.ifindex) {
        Ok(false) => format!(
            "; this host has no route to {ip} by {}, so it was asked for as a neighbour on the link",
            device.name
        ),
        _ => String::new(),
    }
}

/// Returns a refusal: the host can't ask for a next hop in a VLAN. `of`: the stream whose packets go there.
pub(super) fn not_asked_in_vlan(id: u16, hop: IpAddr, of: Option<&One>) -> Failure {
    let why = format!("the host's own address is not in the VLAN, so mpps can't ask for {hop} there");
    match of {
        Some(one) => one.wrong(format!(
            "vlan vid={id}: {why}: want dst=MAC in eth, or a src= that is not the host's"
        )),
        None => usage(format!(
            "--vlan {id}: {why}: want --dest-mac MAC as well, or a --src that is not the host's"
        )),
    }
}

/// Makes the host find the MAC address of `hop`.
fn resolve(hop: IpAddr, device: &NetDev, skip: &str, interruptions: &dyn Fn() -> u32) -> Result<MacAddr> {
    let begun = Instant::now();
    // Time from which an answer could come.
    let mut open = begun;
    let mut asked: Option<Instant> = None;
    loop {
        let known = neighbor_lookup(hop, device.ifindex)
            .map_err(|e| failed(format!("look up the neighbour {hop} on {}: {e}", device.name)))?;
        if let Some(mac) = known {
            return Ok(MacAddr(mac));
        }
        if interruptions() > 0 {
            return Err(failed("interrupted before the first packet"));
        }
        if open.elapsed() >= PATIENCE {
            // The link may have gone since the port was opened, so its state is read again.
            match NetDev::by_index(device.ifindex) {
                Ok(now) if !now.up => return Err(failed(format!("{} is switched off: no packet can leave", now.name))),
                Ok(now) if !now.running => {
                    return Err(failed(format!("{} has no carrier: is the other end up?", now.name)));
                }
                _ => {}
            }
            return Err(failed(format!(
                "nobody answered for {hop} within {} s: is the peer up and on this link?{}",
                PATIENCE.as_secs(),
                advice(hop, device, skip)
            )));
        }
        if asked.is_none_or(|at| at.elapsed() >= ASK_EVERY) {
            let gone = || NetDev::by_index(device.ifindex).is_ok_and(|now| now.up && !now.running);
            if device.running && begun.elapsed() < CARRIER_RETURNS && gone() {
                if open == begun {
                    let most = CARRIER_RETURNS.as_secs();
                    say!("{}: the carrier is gone: waits for it, up to {most} s", device.name);
                }
                open = Instant::now();
            }
            neighbor_solicit(hop, device.ifindex)
                .map_err(|e| failed(format!("have the host ask for {hop} on {}: {e}", device.name)))?;
            asked = Some(Instant::now());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn who_waits_for_an_answer_ends_as_the_caller_says_and_one_that_is_known_is_not_asked_for() {
        let asked_for_the_end = Cell::new(0);
        let interruptions = || {
            asked_for_the_end.set(asked_for_the_end.get() + 1);
            1
        };
        let asked = Asked::new(&interruptions);
        let mut device = NetDev::by_name("lo").expect("every namespace has it");
        // No interface has this index, so no address can be resolved on it.
        device.ifindex = 0x7fff_fff0;
        let hop: IpAddr = "198.51.100.7".parse().expect("an address");
        let Err(failure) = asked.resolve(hop, &device, "--dest-mac MAC") else {
            panic!("nobody is there");
        };
        assert!(format!("{failure:?}").contains("interrupted"), "{failure:?}");
        assert_eq!(asked_for_the_end.get(), 1);
        let mac = MacAddr([2, 0, 0, 0, 0, 7]);
        asked.known.borrow_mut().insert((hop, device.ifindex), mac);
        assert_eq!(asked.resolve(hop, &device, "--dest-mac MAC").ok(), Some(mac));
        assert_eq!(asked_for_the_end.get(), 1);
    }
}
