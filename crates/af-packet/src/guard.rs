//! Keeps the host's own stack away from test packets: it would answer them with ICMP, or forward them.
//!
//! A small program at the interface's TCX ingress hook (Linux 6.6) drops them. Packet sockets see a packet before
//! that hook, so mpps loses nothing. The program hangs on a link descriptor: it is gone when the process is, however
//! it ends. Several guards on one interface follow each other (`TCX_NEXT`).
//!
//! There are two programs, and neither needs a compiler or libbpf. One knows UDP packets by address and port: it is
//! assembled here, for this run's addresses. The other knows packets by their tags: it is `xdp/guard.bpf.c`, compiled
//! beforehand, and finds tags by the same source as the XDP program.

mod asm;
mod tagged;

use asm::{Assembler, Label};
use mpps_io::{AddressRange, Error, ErrorKind, Selection};
use std::fmt;
use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// Packets that the host's stack must not see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardFilter {
    /// Packets to an end of the test.
    Ip(IpFilter),
    /// Frames that end with a tag of this seed, whatever their headers.
    Tagged {
        /// Key of the tag's check.
        seed: u64,
    },
}

/// Which packets are the test's: no fragment, and all that is given here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpFilter {
    /// Protocol. Only UDP and TCP have ports.
    pub protocol: u8,
    /// Destination addresses: ours. Empty: any.
    pub ips: Vec<AddressRange>,
    /// Destination ports: ours.
    pub ports: RangeInclusive<u16>,
    /// Ports within `ports` that the host keeps.
    pub excluded_ports: Vec<u16>,
    /// Source addresses: the peer's. Empty: any.
    pub source_ips: Vec<AddressRange>,
    /// Source ports: the peer's. Keeps replies to the host's own clients out of the guard.
    pub source_ports: RangeInclusive<u16>,
}

impl GuardFilter {
    /// The test packets that the host's stack must not see, a guard for each of these. None if it is not known which
    /// packets these are.
    pub fn all(selection: &Selection) -> Vec<Self> {
        let headers = match selection {
            Selection::Tagged { headers, .. } => &headers[..],
            _ => &[],
        };
        let untagged = headers.iter().map(|of| {
            Self::Ip(IpFilter {
                protocol: of.protocol,
                ips: of.to.clone(),
                ports: of.to_ports.clone(),
                excluded_ports: Vec::new(),
                source_ips: of.from.clone(),
                source_ports: of.from_ports.clone(),
            })
        });
        Self::of(selection).into_iter().chain(untagged).collect()
    }

    /// The packets that are known without the headers of streams.
    fn of(selection: &Selection) -> Option<Self> {
        let (to, ports, excluded, from) = match selection {
            Selection::Udp {
                to,
                ports,
                excluded,
                from,
            } => (to, ports, excluded, from),
            Selection::Tagged { seed, .. } => return Some(Self::Tagged { seed: *seed }),
            Selection::Nothing | Selection::Either { .. } | Selection::Foreign | Selection::All => return None,
        };
        let addresses = to.addresses();
        if addresses.is_empty() {
            return None;
        }
        let mut filter = IpFilter::new(addresses, ports.clone().unwrap_or(1..=u16::MAX));
        filter.excluded_ports.clone_from(excluded);
        if let Some(from) = from {
            filter.source_ips = vec![from.ips.clone()];
            filter.source_ports = from.ports.clone();
        }
        Some(Self::Ip(filter))
    }

    /// Our addresses, as far as the filter knows them.
    pub(crate) fn ips(&self) -> &[AddressRange] {
        match self {
            Self::Ip(filter) => &filter.ips,
            Self::Tagged { .. } => &[],
        }
    }
}

impl From<IpFilter> for GuardFilter {
    fn from(filter: IpFilter) -> Self {
        Self::Ip(filter)
    }
}

impl IpFilter {
    /// All UDP packets to these addresses and ports.
    pub fn new(ips: Vec<AddressRange>, ports: RangeInclusive<u16>) -> Self {
        Self {
            protocol: UDP,
            ips,
            ports,
            excluded_ports: Vec::new(),
            source_ips: Vec::new(),
            source_ports: 0..=u16::MAX,
        }
    }
}

/// State of the guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardStatus {
    /// The host's stack does not see the test's packets.
    On,
    /// The host's stack sees the test's packets, for this reason.
    Off(String),
}

impl fmt::Display for GuardStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On => f.write_str("on (tcx ingress)"),
            Self::Off(why) => write!(f, "off ({why})"),
        }
    }
}

/// An attached guard; dropping it detaches it.
pub struct Guard {
    _link: OwnedFd,
}

/// Protocol numbers.
const TCP: u8 = 6;
const UDP: u8 = 17;

// include/uapi/linux/bpf.h
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_TCX_INGRESS: u32 = 46;
/// `TCX_NEXT`: leave the packet to the next program, or to the stack.
const TCX_NEXT: i32 = -1;
/// `TCX_DROP` (`TC_ACT_SHOT`).
const TCX_DROP: i32 = 2;

const LOAD: &str = "load the guard for";
/// Longest program: keeps every jump within its 16 bits, and within what old verifiers take (`BPF_MAXINSNS`).
const PROGRAM_MAX: usize = 4096;

/// `union bpf_attr` for `BPF_PROG_LOAD`, as far as `prog_ifindex`.
#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
}

/// `union bpf_attr` for `BPF_LINK_CREATE` with the `tcx` part.
#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
    relative_fd: u32,
    pad: u32,
    expected_revision: u64,
}

const _: () = assert!(size_of::<ProgLoad>() == 64 && std::mem::offset_of!(ProgLoad, log_buf) == 32);
const _: () = assert!(size_of::<LinkCreate>() == 32 && std::mem::offset_of!(LinkCreate, expected_revision) == 24);

impl Guard {
    /// Attaches a guard to interface `ifindex`; `name` is for errors.
    ///
    /// # Errors
    /// When the kernel is older than Linux 6.6, or `CAP_BPF` and `CAP_NET_ADMIN` are missing.
    pub fn attach(ifindex: u32, name: &str, filter: &GuardFilter) -> Result<Self, Error> {
        let object: Arc<str> = name.into();
        let failed = |op: &'static str, error: io::Error| {
            let (cause, kind) = match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => (
                    "needs CAP_BPF and CAP_NET_ADMIN: run as root, or use guard=off".to_owned(),
                    ErrorKind::Permission,
                ),
                Some(libc::EINVAL) if op == LOAD => {
                    (format!("the kernel's verifier refused it ({error})"), ErrorKind::Other)
                }
                Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => (
                    format!(
                        "needs tcx of Linux 6.6 or later ({error}); without it block the host's answers with a \
                         firewall rule, and use guard=off"
                    ),
                    ErrorKind::Unsupported,
                ),
                _ => (error.to_string(), ErrorKind::Other),
            };
            Error::new(op, object.clone(), cause, kind)
        };
        let program = match filter {
            GuardFilter::Tagged { seed } => tagged::load(*seed),
            GuardFilter::Ip(filter) => {
                let program = assemble(filter);
                if program.len() > PROGRAM_MAX {
                    let cause =
                        "too many addresses or excluded ports for one program: hundreds are possible, not thousands";
                    return Err(Error::new(LOAD, object, cause, ErrorKind::Unsupported));
                }
                load(&program)
            }
        };
        let program = program.map_err(|e| failed(LOAD, e))?;
        let link = LinkCreate {
            prog_fd: program.as_raw_fd() as u32,
            target_ifindex: ifindex,
            attach_type: BPF_TCX_INGRESS,
            ..LinkCreate::default()
        };
        // SAFETY: the attribute has the kernel's layout (asserted) and holds no pointers.
        let link = unsafe { bpf(BPF_LINK_CREATE, &link) }.map_err(|e| failed("attach the guard to", e))?;
        Ok(Self { _link: link })
    }
}

/// Loads an assembled program.
fn load(program: &[asm::Insn]) -> io::Result<OwnedFd> {
    let mut prog_name = [0; 16];
    prog_name[..10].copy_from_slice(b"mpps_guard");
    let load = ProgLoad {
        prog_type: BPF_PROG_TYPE_SCHED_CLS,
        insn_cnt: program.len() as u32,
        insns: program.as_ptr() as u64,
        license: c"MIT".as_ptr() as u64,
        prog_name,
        ..ProgLoad::default()
    };
    // SAFETY: the attribute has the kernel's layout (asserted); `program` and the licence live through the call.
    unsafe { bpf(BPF_PROG_LOAD, &load) }
}

/// The system call, for commands that return a descriptor.
///
/// # Safety
/// `attr` must have the layout that the kernel expects for `command`, and its pointers must be valid.
unsafe fn bpf<T>(command: libc::c_int, attr: &T) -> io::Result<OwnedFd> {
    // SAFETY: by the caller's promise; the kernel reads `size_of::<T>()` bytes and takes the rest as zero.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<T>() as u32) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, owned from here on.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Assembles the program. At TCX ingress the packet's data begins at the Ethernet header and its VLAN tag is stripped.
/// Nothing unreachable may be left in it: the verifier refuses that.
fn assemble(filter: &IpFilter) -> Vec<asm::Insn> {
    let mut a = Assembler::new();
    let next = a.label();
    let possible = |v6: bool| {
        [&filter.ips, &filter.source_ips]
            .iter()
            .all(|l| l.is_empty() || l.iter().any(|ips| ips.start().is_ipv6() == v6))
    };
    let (v4, v6) = (possible(false), possible(true));
    if v4 || v6 {
        let (not_v4, ports) = (a.label(), a.label());
        a.load_u16(12);
        if v4 {
            a.jump_if_ne(0x0800, if v6 { not_v4 } else { next });
            a.load_u8(23);
            a.jump_if_ne(filter.protocol.into(), next);
            a.load_u16(20);
            a.jump_if_set(0x3fff, next); // a fragment: offset, or more to come (RFC 791)
            match_addresses(&mut a, &filter.ips, false, 30, next);
            match_addresses(&mut a, &filter.source_ips, false, 26, next);
            a.ihl_to_index(14);
            a.jump(ports);
        }
        a.bind(not_v4);
        if v6 {
            a.jump_if_ne(0x86dd, next);
            a.load_u8(20);
            a.jump_if_ne(filter.protocol.into(), next);
            match_addresses(&mut a, &filter.ips, true, 38, next);
            match_addresses(&mut a, &filter.source_ips, true, 22, next);
            a.set_index(40);
        }
        a.bind(ports); // index: length of the IP header
        if matches!(filter.protocol, TCP | UDP) {
            a.load_u16_indexed(14);
            a.jump_if_outside(&filter.source_ports, next);
            a.load_u16_indexed(16);
            a.jump_if_outside(&filter.ports, next);
            for port in &filter.excluded_ports {
                a.jump_if_eq(i32::from(*port), next);
            }
        }
        a.exit(TCX_DROP);
    }
    a.bind(next);
    a.exit(TCX_NEXT);
    a.finish()
}

/// Goes on when the address at `at` is one of `ips`, or when there are none; else to `next`.
fn match_addresses(a: &mut Assembler, ips: &[AddressRange], v6: bool, at: i32, next: Label) {
    if ips.is_empty() {
        return;
    }
    let found = a.label();
    for range in ips {
        match (range.start(), range.end()) {
            (IpAddr::V4(first), IpAddr::V4(last)) if !v6 => {
                a.load_u32(at);
                if first == last {
                    a.jump_if_eq32(first.to_bits(), found);
                    continue;
                }
                let other = a.label();
                a.jump_if_lt32(first.to_bits(), other);
                a.jump_if_gt32(last.to_bits(), other);
                a.jump(found);
                a.bind(other);
            }
            (IpAddr::V6(first), IpAddr::V6(last)) if v6 => {
                let other = a.label();
                if first == last {
                    for (i, word) in words(*first).into_iter().enumerate() {
                        a.load_u32(at + 4 * i as i32);
                        a.jump_if_ne32(word, other);
                    }
                } else {
                    // The first word that differs from the range's end decides.
                    let above = a.label();
                    for (i, word) in words(*first).into_iter().enumerate() {
                        a.load_u32(at + 4 * i as i32);
                        a.jump_if_gt32(word, above);
                        a.jump_if_lt32(word, other);
                    }
                    a.bind(above);
                    for (i, word) in words(*last).into_iter().enumerate() {
                        a.load_u32(at + 4 * i as i32);
                        a.jump_if_lt32(word, found);
                        a.jump_if_gt32(word, other);
                    }
                }
                a.jump(found);
                a.bind(other);
            }
            _ => {}
        }
    }
    a.jump(next);
    a.bind(found);
}

/// An address as the packet's words are loaded.
fn words(ip: Ipv6Addr) -> [u32; 4] {
    let bits = ip.to_bits();
    [96, 64, 32, 0].map(|shift| (bits >> shift) as u32)
}
