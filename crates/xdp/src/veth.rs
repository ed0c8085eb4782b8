//! Effect of a veth's other end on frames that programs send into the veth.
//!
//! The other end takes frames if it has a poll loop: with an XDP program, or with GRO. Without a program at the other
//! end, frames sent by XDP_TX lie in its ring and nobody wakes the loop, while redirected frames arrive. With one,
//! XDP_TX is the faster way.

use crate::abi::flag;
use crate::load::Which;
use crate::port::XdpPort;
use mpps_io::kernel::KernelPort;
use mpps_io::{Error, ErrorKind, Result};
use std::sync::atomic::Ordering::Relaxed;

impl XdpPort {
    fn is_veth(&self) -> bool {
        self.plan.flags & flag::VETH != 0
    }

    /// Chooses how frames go back, by the present state of the other end: see `send_back` in `xdp/run.h`. If that state
    /// can't be found out, frames are redirected, which always arrives. Programs that send back nothing but answers
    /// redirect them, too: looking would take a capability (`CAP_NET_ADMIN`, if the other end is in another namespace)
    /// for the whole run.
    pub(crate) fn choose_way_back(&self) {
        if self.is_veth() {
            let sends_back = matches!(self.which, Which::Reflect | Which::Forward);
            let program = sends_back.then(|| mpps_netdev::veth_peer_has_program(self.sites[0].device.ifindex));
            let transmit = matches!(program, Some(Ok(true)));
            self.run[0].redirect.store(u64::from(!transmit), Relaxed);
        }
    }

    /// Checks that sent frames arrive; called while packets go.
    ///
    /// # Errors
    /// `LinkDown`: nothing arrives, as long as the other end takes nothing from programs.
    pub(crate) fn check_other_end(&self) -> Result<()> {
        let from = self.sending.as_ref().map(|sending| &sending.from);
        let veth = from.map_or(self.is_veth(), |from| from.device.driver == "veth");
        if !veth {
            return Ok(());
        }
        let sent = match self.which {
            Which::Traffic => (0..self.lanes()).map(|lane| self.lane_totals(lane).packets).sum(),
            Which::Reflect | Which::Forward => self.sources.iter().map(|source| source.test.load(Relaxed)).sum(),
            Which::Drop => return Ok(()),
        };
        if self.looked_at.swap(sent, Relaxed) == sent {
            return Ok(());
        }
        let sites = self.sites.iter().map(|site| (&site.device, &site.name));
        let ends = match from {
            Some(from) => vec![(&from.device, &from.name)],
            None => sites.collect(),
        };
        for (device, name) in ends {
            let features = mpps_netdev::xdp_features(device.ifindex);
            if matches!(features, Ok(Some(features)) if !features.transmit) {
                let cause = "the other end of this veth takes no frames from XDP programs, as it has no poll loop for \
                             them, so what is sent there is lost: want an XDP program in the driver there, or `ethtool \
                             -K IFACE gro on` in its namespace";
                let name = name.as_str();
                return Err(Error::new("send from the kernel on", name, cause, ErrorKind::LinkDown));
            }
        }
        Ok(())
    }
}
