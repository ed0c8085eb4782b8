//! Making the sockets and rings of a queue.

use crate::config::{Config, Fanout, MergedFrames};
use crate::ring::{Geometry, Mapping, max_frame};
use crate::rx::{self, RxSocket};
use crate::socket::{Socket, address};
use crate::tx::{self, TxSocket};
use mpps_io::{AddressRange, Error, ErrorKind, MAX_BURST, Result, addresses};
use mpps_netdev::NetDev;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// Slots of a receive ring when the option is not given: 27 ms of 0.3 Mpps, longer than a scheduler's slice.
pub(crate) const RX_FRAMES: usize = 8192;
/// Slots of a transmit ring when the option is not given: two bursts in flight in a device.
pub(crate) const TX_FRAMES: usize = 2 * MAX_BURST;
/// Slots of rings that carry only ARP and neighbour discovery.
const CONTROL_FRAMES: u32 = 64;
/// Memory for packets that are longer than a slot: 500 of 64 KiB. Only those that wait take any.
const LONG_BYTES: usize = 32 << 20;
/// Bytes that a socket buffer of a small packet takes beside its data (`struct sk_buff` and its shared info).
const SKB_OVERHEAD: usize = 1024;
/// Groups that are joined one by one.
const MOST_GROUPS: usize = 64;
/// EtherType for local experiments (IEEE 802), given to the kernel for packets that it need not look into.
const ETH_P_EXPERIMENT: u16 = 0x88b5;

/// State kept while queues are opened one after the other.
pub(crate) struct Opener<'a> {
    pub(crate) config: &'a Config,
    pub(crate) device: &'a NetDev,
    pub(crate) name: &'a Arc<str>,
    pub(crate) device_checksum: bool,
    pub(crate) solicited: Vec<AddressRange>,
    pub(crate) fanout: Option<u16>,
}

impl Opener<'_> {
    fn failed(&self, op: &'static str) -> impl Fn(io::Error) -> Error {
        let name = self.name.clone();
        move |error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                let cause = "af_packet needs CAP_NET_RAW: run as root, or give the program capabilities with the \
                             command that `mpps doctor` prints";
                Error::new(op, name.clone(), cause, ErrorKind::Permission)
            }
            Some(libc::ENOMEM) => Error::new(
                op,
                name.clone(),
                "not enough memory: ask for fewer frames with ring=",
                ErrorKind::Other,
            ),
            _ => Error::os(op, name.clone(), &error),
        }
    }

    pub(crate) fn receiver(&mut self, control_only: bool, share: bool) -> Result<RxSocket> {
        let socket = Socket::new().map_err(self.failed("make a packet socket for"))?;
        let packet = libc::SOL_PACKET;
        let set = |name, value: libc::c_int| socket.set(packet, name, value);
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)
            .map_err(self.failed("set PACKET_VERSION on"))?;
        set(libc::PACKET_IGNORE_OUTGOING, 1).map_err(self.failed("set PACKET_IGNORE_OUTGOING (Linux 4.20) on"))?;
        // Nothing passes until the lane takes its queue: a socket receives from bind on, and can join its fanout
        // group only after.
        socket
            .attach_filter(&REFUSE_ALL)
            .map_err(self.failed("attach a filter to the socket on"))?;
        let wanted = if control_only {
            Some(CONTROL_FRAMES)
        } else {
            self.config.ring
        };
        let split = !control_only && self.config.merged == MergedFrames::Split;
        if split {
            set(libc::PACKET_VNET_HDR, 1).map_err(self.failed("set PACKET_VNET_HDR on"))?;
        }
        if !control_only {
            // Packets longer than a slot wait in the socket's own queue as well.
            set(libc::PACKET_COPY_THRESH, 1).map_err(self.failed("set PACKET_COPY_THRESH on"))?;
            socket.raise_receive_buffer(LONG_BYTES);
        }
        let geometry = Geometry::new(rx::slot_bytes(max_frame(self.device.mtu), split), wanted, RX_FRAMES);
        socket
            .set(packet, libc::PACKET_RX_RING, geometry.request())
            .map_err(self.failed("set PACKET_RX_RING on"))?;
        let ring = Mapping::of_ring(socket.fd(), geometry.bytes()).map_err(self.failed("map the receive ring of"))?;
        for membership in self.memberships() {
            socket
                .set(packet, libc::PACKET_ADD_MEMBERSHIP, membership)
                .map_err(self.failed("set PACKET_ADD_MEMBERSHIP on"))?;
        }
        socket
            .bind(self.device.ifindex, libc::ETH_P_ALL as u16)
            .map_err(self.failed("bind a packet socket to"))?;
        // Binding to an interface that is down reports so here; the lane finds out by itself.
        let _ = socket.get::<libc::c_int>(libc::SOL_SOCKET, libc::SO_ERROR);
        if share {
            let hint = (std::process::id() ^ self.device.ifindex << 8) as u16;
            let mode = fanout_mode(self.config.fanout);
            let id = socket
                .join_fanout(mode, self.fanout, hint)
                .map_err(self.failed("join a PACKET_FANOUT group on"))?;
            self.fanout = Some(id);
        }
        if control_only {
            socket
                .attach_filter(&CONTROL_ONLY)
                .map_err(self.failed("attach a filter to the socket on"))?;
        }
        Ok(RxSocket {
            ring,
            socket,
            geometry,
            control_only,
            split,
            timed: !control_only && self.config.timed(),
        })
    }

    /// Returns the groups that the device must let in beside its own address and broadcast: the solicited-node groups
    /// of our IPv6 addresses (RFC 4291, 2.7.1), or all groups when it is not known which addresses are ours, or when
    /// they are many.
    fn memberships(&self) -> Vec<libc::packet_mreq> {
        let entry = |kind: libc::c_int, address: &[u8]| {
            let mut mr_address = [0; 8];
            mr_address[..address.len()].copy_from_slice(address);
            libc::packet_mreq {
                mr_ifindex: self.device.ifindex as i32,
                mr_type: kind as u16,
                mr_alen: address.len() as u16,
                mr_address,
            }
        };
        let v6 = self.solicited.iter().filter(|range| range.start().is_ipv6());
        let groups: usize = v6.clone().map(|range| addresses::count(range) as usize).sum();
        let all = self.solicited.is_empty() || groups > MOST_GROUPS;
        let each = v6.flat_map(|range| (0..addresses::count(range)).map(|place| addresses::at(*range.start(), place)));
        let mut list: Vec<_> = each
            .take(if all { 0 } else { MOST_GROUPS })
            .filter_map(|ip| match ip {
                IpAddr::V4(_) => None,
                IpAddr::V6(ip) => {
                    let o = ip.octets();
                    Some(entry(
                        libc::PACKET_MR_MULTICAST,
                        &[0x33, 0x33, 0xff, o[13], o[14], o[15]],
                    ))
                }
            })
            .collect();
        if all {
            list.push(entry(libc::PACKET_MR_ALLMULTI, &[]));
        }
        if self.config.promisc == Some(true) {
            list.push(entry(libc::PACKET_MR_PROMISC, &[]));
        }
        list
    }

    pub(crate) fn sender(&self, transmits: bool) -> Result<TxSocket> {
        let socket = Socket::new().map_err(self.failed("make a packet socket for"))?;
        let set = |name, value: libc::c_int| socket.set(libc::SOL_PACKET, name, value);
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)
            .map_err(self.failed("set PACKET_VERSION on"))?;
        set(libc::PACKET_VNET_HDR, 1).map_err(self.failed("set PACKET_VNET_HDR on"))?;
        if self.config.qdisc_bypass {
            set(libc::PACKET_QDISC_BYPASS, 1).map_err(self.failed("set PACKET_QDISC_BYPASS on"))?;
        }
        let frame = max_frame(self.device.mtu);
        let wanted = if transmits {
            self.config.ring
        } else {
            Some(CONTROL_FRAMES)
        };
        let geometry = Geometry::new(tx::slot_bytes(frame), wanted, TX_FRAMES);
        socket.raise_send_buffer(geometry.frames() * (frame + SKB_OVERHEAD));
        socket
            .set(libc::SOL_PACKET, libc::PACKET_TX_RING, geometry.request())
            .map_err(self.failed("set PACKET_TX_RING on"))?;
        let ring = Mapping::of_ring(socket.fd(), geometry.bytes()).map_err(self.failed("map the transmit ring of"))?;
        socket
            .bind(self.device.ifindex, 0)
            .map_err(self.failed("bind a packet socket to"))?;
        let _ = socket.get::<libc::c_int>(libc::SOL_SOCKET, libc::SO_ERROR);
        // With protocol 0 the kernel dissects each packet to find its transport header, which costs a tenth of the
        // whole way. Nobody between here and a veth's other end needs that header, and that end reads the EtherType
        // again.
        let blind = self.config.qdisc_bypass && !self.device_checksum && self.device.driver == "veth";
        let to = address(self.device.ifindex, if blind { ETH_P_EXPERIMENT } else { 0 });
        Ok(TxSocket {
            ring,
            socket,
            geometry,
            to,
            device_checksum: self.device_checksum,
            mtu: self.device.mtu,
        })
    }
}

fn fanout_mode(fanout: Fanout) -> u32 {
    match fanout {
        Fanout::Hash => libc::PACKET_FANOUT_HASH,
        Fanout::RoundRobin => libc::PACKET_FANOUT_LB,
        Fanout::Cpu => libc::PACKET_FANOUT_CPU,
        Fanout::Random => libc::PACKET_FANOUT_RND,
        Fanout::QueueMapping => libc::PACKET_FANOUT_QM,
    }
}

const fn insn(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

/// Classic BPF: accept nothing.
const REFUSE_ALL: [libc::sock_filter; 1] = [insn(libc::BPF_RET | libc::BPF_K, 0, 0, 0)];

/// Classic BPF: accept ARP and ICMPv6. A VLAN tag is not in the way: the kernel has stripped it.
const CONTROL_ONLY: [libc::sock_filter; 7] = [
    insn(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, 12),
    insn(
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        3,
        0,
        libc::ETH_P_ARP as u32,
    ),
    insn(
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        0,
        3,
        libc::ETH_P_IPV6 as u32,
    ),
    insn(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, 20),
    insn(
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        0,
        1,
        libc::IPPROTO_ICMPV6 as u32,
    ),
    insn(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    insn(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
];
