//! The XDP program that takes frames to the sockets.
//!
//! One program is attached to a device, and leads each of its queues to the socket that was
//! [inserted](Program::insert) for it. What its filter doesn't name goes to the host as if no program were there. It is
//! attached by a BPF link: it vanishes with the [`Program`], or with the process, however that ends.
//!
//! The program is C, compiled beforehand, and embedded here as an object; `xdp/redirect.bpf.c` is its source. It is
//! loaded by `aya`, so that no C library is needed.

mod clock;
mod config;
mod counters;
mod link;

use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex};

use aya::maps::{MapData, XskMap};
use aya::programs::Xdp;
use aya::{Ebpf, EbpfLoader};

pub use clock::kernel_clock;
pub use config::{Addresses, Filter, Match, Ports, ProgramConfig, Take};
pub use counters::{CounterReader, Counters};

use crate::{Device, Error, Socket};
use config::Config;
use link::{Flags, Link};

/// The programs, as `scripts/xdp.sh` builds them. The file is a link to the repository's `xdp/`, and a file in the
/// published crate.
static OBJECT: Object<[u8; include_bytes!("../bpf/redirect.bpf.o").len()]> =
    Object(*include_bytes!("../bpf/redirect.bpf.o"));

/// The loader reads ELF structures in place.
#[repr(align(8))]
struct Object<T>(T);

// SAFETY: `repr(C)`, nothing but `u32`: no padding, and every bit pattern is a value.
unsafe impl aya::Pod for Config {}

/// Plain data as it lies in memory.
fn bytes_of<T: aya::Pod>(value: &T) -> Vec<u8> {
    // SAFETY: `Pod` types have no padding: all bytes of `value` are set, and there are as many as it is long.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }.to_vec()
}

/// Mode in which a program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgramMode {
    /// In the driver, or on socket buffers if the driver can't; [`Program::why_not_native`] gives the reason.
    #[default]
    Auto,
    /// In the driver, before a socket buffer is made.
    Native,
    /// On socket buffers ("generic XDP"): works with every device.
    Skb,
}

/// Mode in which a program was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachedMode {
    /// In the driver.
    Native,
    /// On socket buffers.
    Skb,
}

impl std::fmt::Display for AttachedMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            AttachedMode::Native => "native",
            AttachedMode::Skb => "skb",
        })
    }
}

/// An XDP program, attached to a device until this is dropped.
#[derive(Debug)]
pub struct Program {
    device: Device,
    mode: AttachedMode,
    why_not_native: Option<String>,
    // Not on the packet path: sockets are inserted when a program starts.
    sockets: Mutex<Sockets>,
    counters: CounterReader,
    id: u32,
    link: Link,
}

struct Sockets(XskMap<MapData>);

impl std::fmt::Debug for Sockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sockets(room for {})", self.0.len())
    }
}

/// Returns the error for a program or map that the loader could not bring into the kernel, with all its causes: the
/// loader's own text names only the first. For crates that load programs of their own beside this one.
pub fn load_failure(op: &'static str, object: &Arc<str>, error: &dyn std::error::Error) -> Error {
    failure(op, object, error)
}

fn failure(op: &'static str, object: &Arc<str>, error: &dyn std::error::Error) -> Error {
    let mut why = error.to_string();
    let mut denied = false;
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            denied |= io.raw_os_error() == Some(libc::EPERM);
        }
        let more = error.to_string();
        if !why.contains(&more) {
            why.push_str(": ");
            why.push_str(&more);
        }
        cause = error.source();
    }
    let object = object.clone();
    // Without CAP_PERFMON the verifier takes pointers for secrets, and refuses any program that compares two.
    if denied || why.contains("pointer comparison prohibited") {
        let need = "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN";
        return Error::Permission { op, object, need };
    }
    // The verifier's log is meant for the program's author: its last word is enough here.
    if let Some((head, log)) = why.split_once('\n') {
        let last = log.lines().rev().map(str::trim).find(|line| {
            !line.is_empty()
                && !["processed ", "stack depth ", "verification time "]
                    .iter()
                    .any(|of| line.starts_with(of))
        });
        why = format!("{}: {}", head.trim_end_matches([':', ' ']), last.unwrap_or_default());
    }
    Error::Program { op, object, why }
}

impl Program {
    /// Loads the program with this configuration and attaches it to the device.
    ///
    /// # Errors
    /// [`Error::ProgramAttached`] when another program is attached to the device. [`Error::Unsupported`] when the
    /// driver can't run it in the mode asked for, or the kernel is older than 5.9 and has no links for XDP.
    /// [`Error::Permission`] without the privilege. [`Error::NotFound`] without the device.
    pub fn attach(device: &str, config: &ProgramConfig) -> Result<Program, Error> {
        const LOAD: &str = "load the XDP program for";
        let device = Device::named(device)?;
        let name = device.name();
        let (filter, ports) = config::encode(config)?;
        let seed = config.filter.seed();
        let queues = device.queues()?.max.max(64);
        let mut loaded = EbpfLoader::new()
            // No relocation against the kernel's types: reading them would take longer than all the rest.
            .btf(None)
            .override_global("CONFIG", &filter, true)
            .override_global("PORTS", &ports[..], true)
            .override_global("SEED", &seed.unwrap_or_default(), true)
            .map_max_entries("XSKMAP", queues)
            .load(&OBJECT.0)
            .map_err(|e| failure("make the maps of the XDP program for", name, &e))?;

        let wanted = match (seed, config.frags) {
            (None, false) => "redirect",
            (None, true) => "redirect_frags",
            (Some(_), false) => "redirect_tagged",
            (Some(_), true) => "redirect_tagged_frags",
        };
        let missing = |what: &str| Error::Program {
            op: LOAD,
            object: name.clone(),
            why: format!("the object has no {what}"),
        };
        let program = loaded.program_mut(wanted).ok_or_else(|| missing(wanted))?;
        let program: &mut Xdp = program.try_into().map_err(|e| failure(LOAD, name, &e))?;
        program.load().map_err(|e| failure(LOAD, name, &e))?;
        let id = program
            .info()
            .map_err(|e| failure("ask for the id of the XDP program for", name, &e))?
            .id();
        let descriptor = program.fd().map_err(|e| failure(LOAD, name, &e))?;
        let (link, mode, why_not_native) = attach(descriptor.as_fd(), &device, config.mode)?;

        let (sockets, counters) = maps(&mut loaded).ok_or_else(|| missing("maps"))?;
        let sockets =
            XskMap::try_from(sockets).map_err(|e| failure("open the map of the XDP program for", name, &e))?;
        let counters = CounterReader::new(name, counters)?;
        Ok(Program {
            device,
            mode,
            why_not_native,
            sockets: Mutex::new(Sockets(sockets)),
            counters,
            id,
            link,
        })
    }

    /// Leads a queue's frames to a socket, from now on. The socket must be bound to this queue of this device: the
    /// kernel drops frames that are led to any other.
    ///
    /// # Errors
    /// When the socket is bound elsewhere, or its device is gone.
    pub fn insert(&self, queue: u32, socket: &Socket) -> Result<(), Error> {
        let descriptor = match socket.descriptor() {
            Some(descriptor) if (socket.interface(), socket.queue()) == (self.device.name(), queue) => descriptor,
            _ => {
                return Err(Error::Program {
                    op: "lead frames to a socket on",
                    object: self.device.name().clone(),
                    why: format!("of queue {queue}, and the socket is bound to {}", socket.handle.name),
                });
            }
        };
        self.lock()
            .0
            .set(queue, descriptor.as_raw_fd(), 0)
            .map_err(|e| failure("lead frames to a socket on", self.device.name(), &e))
    }

    /// Leaves a queue's frames to the host again. A socket that is closed is removed by the kernel.
    pub fn remove(&self, queue: u32) -> Result<(), Error> {
        match self.lock().0.unset(queue) {
            Ok(()) => Ok(()),
            Err(aya::maps::MapError::SyscallError(e)) if e.io_error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            Err(e) => Err(failure("leave frames to the host on", self.device.name(), &e)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Sockets> {
        // A panic can't leave the map in between: each change is one system call.
        self.sockets.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the mode in which the program was attached.
    pub fn mode(&self) -> AttachedMode {
        self.mode
    }

    /// Why [`ProgramMode::Auto`] came to run it on socket buffers.
    pub fn why_not_native(&self) -> Option<&str> {
        self.why_not_native.as_deref()
    }

    /// Reads the program's counters.
    pub fn counters(&self) -> Result<Counters, Error> {
        self.counters.read()
    }

    /// A reader of its counters, for another thread.
    pub fn counter_reader(&self) -> CounterReader {
        self.counters.clone()
    }

    /// The kernel's number for it, as `bpftool prog` shows.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The device that it is attached to.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl AsFd for Program {
    /// The link's descriptor.
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.link.as_fd()
    }
}

fn maps(loaded: &mut Ebpf) -> Option<(aya::maps::Map, aya::maps::Map)> {
    Some((loaded.take_map("XSKMAP")?, loaded.take_map("COUNTERS")?))
}

/// Any loaded XDP program, attached to a device until this is dropped.
///
/// [`Program`] attaches its own. This is for programs that a crate has loaded itself and wants attached in the same
/// way: by a link, so that it is gone with the process.
#[derive(Debug)]
pub struct Attachment {
    link: Link,
    mode: AttachedMode,
    why_not_native: Option<String>,
}

impl Attachment {
    /// Attaches the program behind this descriptor.
    ///
    /// # Errors
    /// As [`Program::attach`].
    pub fn new(program: std::os::fd::BorrowedFd<'_>, device: &Device, mode: ProgramMode) -> Result<Attachment, Error> {
        let (link, mode, why_not_native) = attach(program, device, mode)?;
        Ok(Attachment {
            link,
            mode,
            why_not_native,
        })
    }

    /// Returns the mode in which the program was attached.
    pub fn mode(&self) -> AttachedMode {
        self.mode
    }

    /// Why [`ProgramMode::Auto`] came to run it on socket buffers.
    pub fn why_not_native(&self) -> Option<&str> {
        self.why_not_native.as_deref()
    }
}

impl AsFd for Attachment {
    /// The link's descriptor.
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.link.as_fd()
    }
}

type Attached = (Link, AttachedMode, Option<String>);

fn attach(program: std::os::fd::BorrowedFd<'_>, device: &Device, mode: ProgramMode) -> Result<Attached, Error> {
    let skb = |why| match Link::create(program, device.index(), Flags::Skb) {
        Ok(link) => Ok((link, AttachedMode::Skb, why)),
        Err(e) => Err(link::refused(device, AttachedMode::Skb, &e)),
    };
    if mode == ProgramMode::Skb {
        return skb(None);
    }
    match Link::create(program, device.index(), Flags::Native) {
        Ok(link) => Ok((link, AttachedMode::Native, None)),
        Err(e) if mode == ProgramMode::Auto && link::driver_cannot(&e) => skb(Some(link::why(&e))),
        Err(e) => Err(link::refused(device, AttachedMode::Native, &e)),
    }
}
