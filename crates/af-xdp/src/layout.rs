//! How packet memory and queues are shared out: pure arithmetic, checked before anything is opened.

use crate::config::{Config, Mode};
use mpps_io::{Error, ErrorKind, MAX_BURST, Result, Roles};
use mpps_netdev::NetDev;

/// Bytes that the kernel keeps in front of each received packet, for the XDP program (`XDP_PACKET_HEADROOM`).
const XDP_HEADROOM: u32 = 256;
/// Ethernet header and a VLAN tag.
const LINK_HEADER: u32 = 14 + 4;
/// Bursts that a lane may hold while the rings are full: received, pending, answers, and some.
const HELD: u32 = 6 * MAX_BURST as u32;
/// Chunks that wait for packets: at a million packets a second, what comes in while a virtual machine is off its core
/// for 2 ms. The kernel uses them in turn, so that more of them cost cache and address translation: 4096 a few per
/// cent.
const FILL: u32 = 2048;

/// Drivers whose devices fill zero-copy buffers in whole KiB (SRRCTL.BSIZEPKT): the rest of a chunk stays unused. A
/// longer packet arrives in two pieces (igb) or is dropped (ixgbe on the 82599).
const WHOLE_KIB: [&str; 3] = ["igb", "igc", "ixgbe"];

/// Shape of the packet memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunks {
    pub(crate) size: u32,
    pub(crate) unaligned: bool,
    /// In zero-copy mode the device would fill too little of a chunk for the longest packet.
    pub(crate) copies: bool,
}

/// The chunks that packets of `mtu` bytes above the Ethernet header fit in, on a device of this driver.
pub(crate) fn chunks(config: &Config, mtu: usize, driver: &str, page: u32) -> Result<Chunks> {
    let front = XDP_HEADROOM + config.headroom;
    let need = mtu as u32 + LINK_HEADER + front;
    let most = page;
    let frame = mtu as u32 + LINK_HEADER;
    let whole = WHOLE_KIB.contains(&driver) && matches!(config.mode, Mode::Auto | Mode::ZeroCopy);
    let filled = |size: u32| size.saturating_sub(front) / 1024 * 1024;
    let size = config.chunk.unwrap_or_else(|| {
        let size = need.next_power_of_two().max(2048);
        if whole && filled(size) < frame && size < most {
            2 * size
        } else {
            size
        }
    });
    let holds = size >= need && size <= most;
    let copies = whole && filled(size) < frame;
    if !holds || copies && config.mode == Mode::ZeroCopy {
        let cause = if holds {
            format!(
                "chunk={size}: zero copy by {driver} fills {} bytes of it, and packets of MTU {mtu} need {frame}: \
                 want a larger chunk up to {most}, a smaller MTU, or mode=copy",
                filled(size)
            )
        } else if config.chunk.is_some() {
            format!(
                "chunk={size}: packets of MTU {mtu} need {need} bytes, and the kernel takes {most} at the most, a page"
            )
        } else {
            format!(
                "packets of MTU {mtu} need chunks of {need} bytes, and the kernel takes {most} at the most: lower the \
                 MTU to {}",
                most - (need - mtu as u32)
            )
        };
        return Err(Error::new(
            "make packet memory for",
            config.device.as_str(),
            cause,
            ErrorKind::Unsupported,
        ));
    }
    Ok(Chunks {
        size,
        unaligned: config.unaligned,
        copies,
    })
}

/// Packet memory that a port would have ([`frames`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Number of chunks of a queue that receives, of one that sends, and of one that does both.
    pub of: [usize; 3],
    /// Least value of `frames=`.
    pub least: usize,
    /// Bytes of a chunk, for an MTU of 1500 if the interface does not exist.
    pub chunk_bytes: usize,
    /// Number of queues that the receiving lanes share.
    pub queues: usize,
}

/// Computes the packet memory of a port from its options and its interface.
pub fn frames(config: &Config) -> Frames {
    let depth = Depth::of(config);
    let of = |rx, tx| depth.frames(config, rx, tx) as usize;
    let device = NetDev::by_name(&config.device).ok();
    let (mtu, driver) = device
        .as_ref()
        .map_or((1500, ""), |device| (device.mtu, device.driver.as_str()));
    let there = device
        .as_ref()
        .map_or(1, |device| device.queues)
        .saturating_sub(config.first as usize);
    let chunks = chunks(config, mtu, driver, rustix::param::page_size() as u32);
    Frames {
        of: [of(1, 0), of(0, 1), of(1, 1)],
        least: (depth.fill_ring + HELD) as usize,
        // An MTU that no chunk holds is refused later.
        chunk_bytes: chunks.map_or(4096, |chunks| chunks.size as usize),
        queues: config.queues.map_or(there.max(1), |queues| queues as usize),
    }
}

/// Entries of the rings of one queue, and chunks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Depth {
    /// RX and TX ring.
    pub(crate) ring: u32,
    /// Chunks that wait for packets.
    pub(crate) fill: u32,
    /// Fill ring: a power of two.
    pub(crate) fill_ring: u32,
}

impl Depth {
    pub(crate) fn of(config: &Config) -> Self {
        let fill = config.fill.unwrap_or(FILL);
        Self {
            ring: config.ring,
            fill,
            fill_ring: fill.next_power_of_two(),
        }
    }

    /// Chunks that a lane needs for `rx` receiving and `tx` sending halves of queues.
    pub(crate) fn frames(&self, config: &Config, rx: usize, tx: usize) -> u32 {
        let queues = rx.max(tx) as u32;
        match config.frames {
            Some(frames) => frames * queues,
            None => (self.fill_ring + self.ring) * rx as u32 + self.ring * tx as u32 + HELD,
        }
    }

    /// Refuses packet memory that the rings would swallow whole.
    pub(crate) fn check(&self, config: &Config) -> Result<()> {
        let need = self.fill_ring + HELD;
        match config.frames {
            Some(frames) if frames < need => {
                let cause = format!(
                    "frames={frames}: {} wait in the fill ring and up to {HELD} are in the lane's hands: want {need} \
                     at the least, or fill=N with a smaller N",
                    self.fill_ring
                );
                Err(Error::new(
                    "make packet memory for",
                    config.device.as_str(),
                    cause,
                    ErrorKind::Unsupported,
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Shares of the queues: for each lane, the positions of its receiving and of its sending queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) rx: Vec<Vec<u32>>,
    pub(crate) tx: Vec<Vec<u32>>,
}

/// Deals `queues` out to lanes of these roles: queue *q* to the receiving lane *q* mod their number, and likewise to
/// the sending lanes. A lane that receives, and could answer, sends on its queues if no other lane does.
pub(crate) fn deal(roles: &[Roles], queues: u32) -> Shares {
    let lanes_with = |wanted: fn(&Roles) -> bool| -> Vec<usize> {
        roles
            .iter()
            .enumerate()
            .filter(|(_, r)| wanted(r))
            .map(|(i, _)| i)
            .collect()
    };
    let receivers = lanes_with(|r| r.rx);
    let mut senders = lanes_with(|r| r.tx);
    if senders.is_empty() {
        senders.clone_from(&receivers);
    }
    let share = |lanes: &[usize]| {
        let mut shares = vec![Vec::new(); roles.len()];
        for queue in (0..queues).filter(|_| !lanes.is_empty()) {
            shares[lanes[queue as usize % lanes.len()]].push(queue);
        }
        shares
    };
    let mut shares = Shares {
        rx: share(&receivers),
        tx: share(&senders),
    };
    if receivers.is_empty() {
        // A lane that only sends still hears who answers its questions.
        shares.rx.clone_from(&shares.tx);
    }
    shares
}

/// Returns the number of queues that are used: as many as asked for; else all of the device's if something is received
/// (`listens`: at least answers to our questions), or one for each sender.
pub(crate) fn queue_count(config: &Config, roles: &[Roles], listens: bool, device: u32) -> Result<u32> {
    let refuse = |cause: String| {
        Err(Error::new(
            "open",
            config.device.as_str(),
            cause,
            ErrorKind::Unsupported,
        ))
    };
    let (receivers, senders) = (
        roles.iter().filter(|r| r.rx).count() as u32,
        roles.iter().filter(|r| r.tx).count() as u32,
    );
    let there = device.saturating_sub(config.first);
    if there == 0 {
        return refuse(format!(
            "first={}: the device has {device} queue{}, counted from 0",
            config.first,
            s(device)
        ));
    }
    let wanted = match config.queues {
        Some(n) if n > there => {
            return refuse(format!(
                "queues={n}: the device has {device} queue{} (ethtool -L {} combined N makes more where the driver \
                 can)",
                s(device),
                config.device
            ));
        }
        Some(n) => n,
        None if receivers > 0 || listens => there.min(crate::port::MAX_QUEUES as u32),
        None => senders.min(there),
    };
    let lanes = receivers.max(senders);
    if lanes > wanted {
        return refuse(format!(
            "{lanes} lanes for {wanted} queue{}: a queue belongs to one lane: want --lanes {wanted} at the most, or \
             more queues (ethtool -L {} combined N)",
            s(wanted),
            config.device
        ));
    }
    Ok(wanted)
}

fn s(n: u32) -> &'static str {
    if n == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Roles = Roles { rx: true, tx: true };
    const RX: Roles = Roles { rx: true, tx: false };
    const TX: Roles = Roles { rx: false, tx: true };

    fn config(text: &str) -> Config {
        crate::config::check(&text.parse().expect("spec")).expect("valid")
    }

    #[test]
    fn every_half_of_every_queue_has_one_lane() {
        for (roles, queues) in [
            (vec![BOTH], 1),
            (vec![BOTH], 4),
            (vec![BOTH, BOTH], 5),
            (vec![TX, RX], 1),
            (vec![RX, RX], 3),
            (vec![TX, TX], 2),
        ] {
            let shares = deal(&roles, queues);
            for halves in [&shares.rx, &shares.tx] {
                let mut all: Vec<u32> = halves.iter().flatten().copied().collect();
                all.sort_unstable();
                assert_eq!(all, (0..queues).collect::<Vec<_>>(), "{roles:?}");
            }
            for (lane, role) in roles.iter().enumerate() {
                assert!(!role.rx || !shares.rx[lane].is_empty());
                assert!(!role.tx || !shares.tx[lane].is_empty());
            }
        }
    }

    #[test]
    fn more_lanes_than_queues_are_refused_with_the_number_there_is() {
        let error = queue_count(&config("af_xdp:eth1"), &[BOTH, BOTH, BOTH], true, 2).expect_err("three on two");
        assert!(error.to_string().contains("--lanes 2"), "{error}");
        let error = queue_count(&config("af_xdp:eth1,queues=4"), &[BOTH], true, 2).expect_err("four of two");
        assert!(error.to_string().contains("queues=4"), "{error}");
        assert_eq!(queue_count(&config("af_xdp:eth1"), &[BOTH], true, 4).expect("all"), 4);
        assert_eq!(
            queue_count(&config("af_xdp:eth1"), &[TX], false, 4).expect("one a sender"),
            1
        );
        assert_eq!(
            queue_count(&config("af_xdp:eth1"), &[TX], true, 4).expect("an answer may come by any"),
            4
        );
    }

    #[test]
    fn a_chunk_holds_the_largest_packet_or_is_refused() {
        let made = chunks(&config("af_xdp:eth1"), 1500, "veth", 4096).expect("fits");
        assert!(!made.unaligned && made.size == 2048);
        for (driver, mode, size) in [("igb", "", 4096), ("igb", ",mode=copy", 2048), ("ice", "", 2048)] {
            let config = config(&format!("af_xdp:eth1{mode}"));
            assert_eq!(
                chunks(&config, 1500, driver, 4096).expect("fits").size,
                size,
                "{driver}"
            );
            assert_eq!(
                chunks(&config, 1000, driver, 4096).expect("fits").size,
                2048,
                "{driver}"
            );
        }
        let packed = config("af_xdp:eth1,chunk=2176,unaligned=on");
        assert_eq!(
            chunks(&packed, 1500, "veth", 4096).expect("fits"),
            Chunks {
                size: 2176,
                unaligned: true,
                copies: false,
            }
        );
        assert_eq!(
            chunks(&config("af_xdp:eth1"), 3000, "veth", 4096).expect("fits").size,
            4096
        );
        let error = chunks(&config("af_xdp:eth1"), 9000, "veth", 4096).expect_err("too large");
        assert!(error.to_string().contains("lower the MTU to 3822"), "{error}");
        assert!(chunks(&config("af_xdp:eth1,chunk=2048"), 1900, "veth", 4096).is_err());
        // igb fills one KiB of two.
        let halves = |mode: &str, mtu| chunks(&config(&format!("af_xdp:eth1,chunk=2048{mode}")), mtu, "igb", 4096);
        let error = halves(",mode=zerocopy", 1500).expect_err("too short").to_string();
        assert!(
            error.contains("fills 1024 bytes") && error.contains("mode=copy"),
            "{error}"
        );
        assert!(halves("", 1500).expect("by copy").copies);
        assert!(!halves("", 1000).expect("fits").copies && !halves(",mode=copy", 1500).expect("fits").copies);
    }

    #[test]
    fn packet_memory_that_the_rings_would_swallow_is_refused() {
        let small = config("af_xdp:eth1,frames=1024");
        let error = Depth::of(&small).check(&small).expect_err("too few").to_string();
        assert!(error.contains("frames=1024") && error.contains("fill"), "{error}");
        let fits = config("af_xdp:eth1,frames=4096,fill=1024");
        assert!(Depth::of(&fits).check(&fits).is_ok());
    }
}
