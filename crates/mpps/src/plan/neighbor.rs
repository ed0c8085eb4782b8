//! The next hop's MAC address, asked of the host: where the source address is the host's own, the answers to questions
//! of ours would go to the host.

use crate::fail::{Result, failed, usage};
use mpps_netdev::{NetDev, neighbor_lookup, neighbor_solicit};
use mpps_sys::signal;
use mpps_wire::MacAddr;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How long the next hop may take to answer the host.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(5);
const ASK_EVERY: Duration = Duration::from_millis(500);

/// Has the host find the MAC address of `hop`.
pub(crate) fn resolve(hop: IpAddr, device: &NetDev, vlan: Option<u16>) -> Result<MacAddr> {
    if let Some(id) = vlan {
        return Err(usage(format!(
            "--vlan {id}: the host's own address is not in the VLAN, so mpps can't ask for {hop} there: want \
             --dest-mac MAC as well, or a --src that is not the host's"
        )));
    }
    let begun = Instant::now();
    let mut asked: Option<Instant> = None;
    loop {
        let known = neighbor_lookup(hop, device.ifindex)
            .map_err(|e| failed(format!("look up the neighbour {hop} on {}: {e}", device.name)))?;
        if let Some(mac) = known {
            return Ok(MacAddr(mac));
        }
        if signal::interruptions() > 0 {
            return Err(failed("interrupted before the first packet"));
        }
        if begun.elapsed() >= PATIENCE {
            return Err(failed(format!(
                "nobody answered for {hop} within {} s: is the peer up and on this link? (--dest-mac MAC skips the \
                 question; --gateway IP asks a router instead)",
                PATIENCE.as_secs()
            )));
        }
        if asked.is_none_or(|at| at.elapsed() >= ASK_EVERY) {
            neighbor_solicit(hop, device.ifindex)
                .map_err(|e| failed(format!("have the host ask for {hop} on {}: {e}", device.name)))?;
            asked = Some(Instant::now());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
