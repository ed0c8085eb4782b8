//! The XDP program that the crate `xdp` leaves to its user: redirect everything to the queue's socket. Six
//! instruction slots by hand, so that this peer needs neither a BPF compiler nor a loader.

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

// linux/bpf.h
const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// `union bpf_attr` as far as it is used here, in units of its alignment.
type Attributes = [u64; 18];

/// Two neighbouring 32-bit fields.
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn bpf(command: libc::c_long, attributes: &Attributes) -> Result<libc::c_int> {
    // SAFETY: `attributes` is zero where not filled in, and every address in it is of memory that the caller holds.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of::<Attributes>()) };
    if result < 0 {
        Err(Error::last_os_error())
    } else {
        Ok(result as libc::c_int)
    }
}

fn descriptor(command: libc::c_long, attributes: &Attributes) -> Result<OwnedFd> {
    // SAFETY: these commands return a descriptor of our own.
    bpf(command, attributes).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The program's map and its link to the interface: it goes when this does.
pub struct Redirect {
    _map: OwnedFd,
    _program: OwnedFd,
    _link: OwnedFd,
}

impl Redirect {
    /// Attaches the program to an interface and enters the socket of one queue.
    pub fn attach(interface: u32, queue: u32, socket: RawFd, skb: bool) -> Result<Self> {
        let mut attributes: Attributes = [0; 18];
        attributes[0] = pair(BPF_MAP_TYPE_XSKMAP, 4); // map_type, key_size
        attributes[1] = pair(4, 64); // value_size, max_entries
        let map = descriptor(BPF_MAP_CREATE, &attributes)?;

        let code: [u64; 6] = [
            0x0010_1261,                          // r2 = *(u32 *)(r1 + 16): rx_queue_index
            pair(0x1118, map.as_raw_fd() as u32), // r1 = map (BPF_PSEUDO_MAP_FD) …
            0,                                    // … its upper half
            pair(0x03b7, 2),                      // r3 = XDP_PASS
            pair(0x0085, 51),                     // r0 = bpf_redirect_map(r1, r2, r3)
            0x0095,                               // exit
        ];
        let license = c"Dual MIT/GPL";
        attributes = [0; 18];
        attributes[0] = pair(BPF_PROG_TYPE_XDP, code.len() as u32); // prog_type, insn_cnt
        attributes[1] = code.as_ptr() as u64;
        attributes[2] = license.as_ptr() as u64;
        let program = descriptor(BPF_PROG_LOAD, &attributes)?;

        let value = socket;
        attributes = [0; 18];
        attributes[0] = pair(map.as_raw_fd() as u32, 0); // map_fd
        attributes[1] = &raw const queue as u64;
        attributes[2] = &raw const value as u64;
        bpf(BPF_MAP_UPDATE_ELEM, &attributes)?;

        attributes = [0; 18];
        attributes[0] = pair(program.as_raw_fd() as u32, interface); // prog_fd, target_ifindex
        attributes[1] = pair(BPF_XDP, if skb { XDP_FLAGS_SKB_MODE } else { XDP_FLAGS_DRV_MODE });
        let link = descriptor(BPF_LINK_CREATE, &attributes)?;
        Ok(Self {
            _map: map,
            _program: program,
            _link: link,
        })
    }
}
