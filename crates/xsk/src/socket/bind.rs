//! Making a socket: register or share the UMEM, size and map the rings, bind.
//!
//! The steps and their order are the kernel's (`net/xdp/xsk.c`, `Documentation/networking/af_xdp.rst`): the first
//! socket over a UMEM registers it and brings a fill and a completion ring; others name a socket to share with. Those
//! at another queue or device bring rings of their own, those at the same queue use the ones that are there.

mod refusal;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::config::{BusyPoll, Options, RingSizes, SocketConfig, SocketMode};
use super::raw::{self, LinuxSocket};
use crate::abi::{self, Desc, MmapOffsets, RawOptions, RingOffset, SockaddrXdp, UmemReg};
use crate::handle::{Handle, Kernel, Rings, Traits};
use crate::mapping::Mapping;
use crate::ring::RingMap;
use crate::{Device, Error, Result, Umem};
use refusal::memlock_limit;

/// A closed socket leaves its queue a little later, when the kernel gets to it. Until then, binding to the queue fails
/// as if another socket had it. On a busy host that takes more than a second.
const LEAVES_WITHIN: Duration = Duration::from_secs(3);

/// A socket that shares its UMEM with the new one.
struct Peer {
    handle: Arc<Handle>,
    /// The peer is at the same queue, and its fill and completion rings serve both.
    same_queue: bool,
}

/// A socket in the making.
struct Maker<'a> {
    umem: &'a Umem,
    device: &'a Device,
    queue: u32,
    config: &'a SocketConfig,
    name: &'a Arc<str>,
}

pub(super) fn make(umem: &Arc<Umem>, device: &str, queue: u32, config: &SocketConfig) -> Result<Arc<Handle>> {
    config.check()?;
    let device = Device::named(device)?;
    let name: Arc<str> = format!("{} queue {queue}", device.name()).into();
    let maker = Maker {
        umem,
        device: &device,
        queue,
        config,
        name: &name,
    };

    let mut open = umem.registration().lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|socket| socket.strong_count() > 0);
    let alive: Vec<Arc<Handle>> = open.iter().filter_map(std::sync::Weak::upgrade).collect();
    let peer = maker.peer(&alive)?;
    maker.check_size(&alive, peer.as_ref())?;
    let (socket, rings) = maker.socket(peer.as_ref())?;

    let traits = Traits {
        zero_copy: socket.options.zero_copy,
        need_wakeup: socket.options.need_wakeup,
        multi_buffer: socket.options.multi_buffer,
    };
    // SAFETY: the rings are laid out as the kernel reported, in mappings that the socket owns; they were just made, or
    // (shared queue) are left out, so nobody else uses our side of them.
    let handle = unsafe { Handle::new(umem.clone(), rings, Kernel::Linux(socket), traits, name.clone()) };
    open.push(Arc::downgrade(&handle));
    Ok(handle)
}

impl Maker<'_> {
    /// Finds a socket to share the UMEM with: one at the same queue if there is one.
    fn peer(&self, alive: &[Arc<Handle>]) -> Result<Option<Peer>> {
        let mut peer = None;
        for handle in alive {
            // One of the fake kernel's can't be shared with.
            let Some(other) = handle.kernel.linux() else { continue };
            let same_queue = other.device.index() == self.device.index() && other.queue == self.queue;
            // One that uses another's rings would leave them without an owner when that one goes.
            if other.options.shared_queue {
                continue;
            }
            if same_queue || peer.is_none() {
                let handle = handle.clone();
                peer = Some(Peer { handle, same_queue });
            }
            if same_queue {
                break;
            }
        }
        if let Some(peer) = &peer {
            self.agree(peer)?;
        }
        Ok(peer)
    }

    /// The kernel takes no flags from a socket that shares: it gets what the other has.
    fn agree(&self, peer: &Peer) -> Result<()> {
        let (has, wants) = (&peer.handle.traits, self.config);
        let differs = match wants.mode {
            SocketMode::ZeroCopy if !has.zero_copy => "zero-copy mode",
            SocketMode::Copy if has.zero_copy => "copy mode",
            _ if wants.need_wakeup != has.need_wakeup => "another choice of need-wakeup",
            _ if wants.multi_buffer != has.multi_buffer => "another choice of multi-buffer",
            _ => return Ok(()),
        };
        Err(Error::Unsupported {
            what: differs,
            object: self.name.clone(),
            why: format!(
                "it shares its UMEM with {}, and the kernel gives both the same",
                peer.handle.name
            ),
        })
    }

    /// With as many chunks in fill rings as there are at all, none would ever be left to send or to work on.
    fn check_size(&self, alive: &[Arc<Handle>], peer: Option<&Peer>) -> Result<()> {
        let others = alive
            .iter()
            .filter(|h| h.rings.rx.is_some())
            .filter_map(|h| h.rings.fill);
        let mut need: u64 = others.map(|ring| u64::from(ring.size)).sum();
        if self.config.rx_ring > 0 && !peer.is_some_and(|p| p.same_queue) {
            need += u64::from(self.config.fill_ring);
        }
        // One more, so that something can be sent while the fill rings are full.
        need += u64::from(self.config.tx_ring > 0);
        let have = u64::from(self.umem.config().frames);
        if have < need {
            return Err(Error::TooSmall {
                what: "UMEM frames for the fill rings of its sockets, and one to send",
                have,
                need,
            });
        }
        Ok(())
    }

    fn socket(&self, peer: Option<&Peer>) -> Result<(LinuxSocket, Rings)> {
        let config = self.config;
        let descriptor = raw::open().map_err(|e| match e.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => self.unsupported("AF_XDP", "this kernel was built without it"),
            _ => self.failure("open an AF_XDP socket for", e),
        })?;
        let fd = descriptor.as_fd();
        let own_queue = !peer.is_some_and(|p| p.same_queue);

        if peer.is_none() {
            self.register(fd)?;
        }
        if own_queue {
            self.size(fd, "fill ring", abi::XDP_UMEM_FILL_RING, config.fill_ring)?;
            self.size(
                fd,
                "completion ring",
                abi::XDP_UMEM_COMPLETION_RING,
                config.completion_ring,
            )?;
        }
        self.size(fd, "RX ring", abi::XDP_RX_RING, config.rx_ring)?;
        self.size(fd, "TX ring", abi::XDP_TX_RING, config.tx_ring)?;
        if let Some(budget) = config.tx_budget {
            self.tx_budget(fd, budget)?;
        }
        if let Some(busy) = config.busy_poll {
            self.busy_poll(fd, busy)?;
        }

        let mut mappings = Vec::new();
        let rings = self.map(fd, own_queue, &mut mappings)?;
        self.bind(fd, peer)?;

        let (got, _): (RawOptions, _) =
            raw::get(fd, libc::SOL_XDP, abi::XDP_OPTIONS).map_err(|e| self.failure("read the options of", e))?;
        let inherited = peer.map(|p| p.handle.traits);
        let options = Options {
            zero_copy: got.flags & abi::XDP_OPTIONS_ZEROCOPY != 0,
            need_wakeup: inherited.map_or(config.need_wakeup, |t| t.need_wakeup),
            multi_buffer: inherited.map_or(config.multi_buffer, |t| t.multi_buffer),
            shared: peer.is_some(),
            shared_queue: !own_queue,
            tx_budget: config.tx_budget,
            rings: RingSizes {
                rx: config.rx_ring,
                tx: config.tx_ring,
                fill: if own_queue { config.fill_ring } else { 0 },
                completion: if own_queue { config.completion_ring } else { 0 },
            },
        };
        let socket = LinuxSocket {
            descriptor,
            device: self.device.clone(),
            queue: self.queue,
            options,
            tx_dropped: AtomicU64::new(0),
            _mappings: mappings,
        };
        Ok((socket, rings))
    }

    /// Gives the UMEM to the kernel. The whole of the newest structure: older kernels read as much as they know, and
    /// refuse flags that they don't.
    fn register(&self, fd: BorrowedFd<'_>) -> Result<()> {
        let (start, len) = self.umem.area();
        let shape = self.umem.config();
        let mut flags = 0;
        let mut needs = "";
        if shape.unaligned {
            flags |= abi::XDP_UMEM_UNALIGNED_CHUNK_FLAG;
            needs = "unaligned chunks need Linux 5.4";
        }
        if shape.tx_software_checksum {
            flags |= abi::XDP_UMEM_TX_SW_CSUM;
            needs = "checksums in software need Linux 6.8";
        }
        if shape.tx_metadata_len > 0 {
            flags |= abi::XDP_UMEM_TX_METADATA_LEN;
            needs = "TX metadata needs Linux 6.11";
        }
        let request = UmemReg {
            addr: start.as_ptr().expose_provenance() as u64,
            len: len as u64,
            chunk_size: shape.frame_size,
            headroom: shape.headroom,
            flags,
            tx_metadata_len: shape.tx_metadata_len,
        };
        raw::set(fd, libc::SOL_XDP, abi::XDP_UMEM_REG, request).map_err(|e| match e.raw_os_error() {
            // Counted over all that the user has locked, so that less than the limit may be too much.
            Some(libc::ENOBUFS) => Error::Memlock {
                op: "register the UMEM",
                need: self.umem.size() as u64,
                limit: memlock_limit(),
            },
            Some(libc::EINVAL) if flags != 0 => self.unsupported("registering the UMEM", needs),
            _ => self.failure("register the UMEM for", e),
        })
    }

    fn size(&self, fd: BorrowedFd<'_>, what: &'static str, option: i32, entries: u32) -> Result<()> {
        if entries == 0 {
            return Ok(());
        }
        raw::set(fd, libc::SOL_XDP, option, entries).map_err(|e| match e.raw_os_error() {
            Some(libc::ENOMEM | libc::EINVAL) => Error::Invalid {
                what,
                value: entries.into(),
                want: format!("fewer entries: the kernel refused ({e})"),
            },
            _ => self.failure("set the ring sizes of", e),
        })
    }

    fn tx_budget(&self, fd: BorrowedFd<'_>, budget: u32) -> Result<()> {
        raw::set(fd, libc::SOL_XDP, abi::XDP_MAX_TX_SKB_BUDGET, budget).map_err(|e| match e.raw_os_error() {
            Some(libc::ENOPROTOOPT) => self.unsupported("a TX budget", "it needs Linux 6.17"),
            _ => self.failure("set the TX budget of", e),
        })
    }

    fn busy_poll(&self, fd: BorrowedFd<'_>, busy: BusyPoll) -> Result<()> {
        let settings = [
            (
                libc::SO_PREFER_BUSY_POLL,
                i32::from(busy.prefer),
                "preferred busy polling needs Linux 5.11",
            ),
            (
                libc::SO_BUSY_POLL,
                busy.usecs.min(i32::MAX as u32) as i32,
                "the kernel was built without it",
            ),
            (
                libc::SO_BUSY_POLL_BUDGET,
                busy.budget.into(),
                "a budget needs Linux 5.11",
            ),
        ];
        for (option, value, needs) in settings {
            raw::set(fd, libc::SOL_SOCKET, option, value).map_err(|e| match e.raw_os_error() {
                Some(libc::ENOPROTOOPT) => self.unsupported("busy polling", needs),
                Some(libc::EPERM) => Error::Permission {
                    op: "set up busy polling for",
                    object: self.name.clone(),
                    need: "CAP_NET_ADMIN",
                },
                _ => self.failure("set up busy polling for", e),
            })?;
        }
        Ok(())
    }

    fn map(&self, fd: BorrowedFd<'_>, own_queue: bool, mappings: &mut Vec<Mapping>) -> Result<Rings> {
        let (at, told): (MmapOffsets, usize) =
            raw::get(fd, libc::SOL_XDP, abi::XDP_MMAP_OFFSETS).map_err(|e| self.failure("ask for the rings of", e))?;
        if told < size_of::<MmapOffsets>() {
            // Before Linux 5.4 rings had no flags.
            return Err(self.unsupported("AF_XDP rings with flags", "they need Linux 5.4"));
        }
        let config = self.config;
        let own = |entries| if own_queue { entries } else { 0 };
        Ok(Rings {
            fill: self.ring(
                fd,
                at.fr,
                abi::XDP_UMEM_PGOFF_FILL_RING,
                own(config.fill_ring),
                mappings,
            )?,
            completion: {
                let offset = abi::XDP_UMEM_PGOFF_COMPLETION_RING;
                self.ring(fd, at.cr, offset, own(config.completion_ring), mappings)?
            },
            rx: self.ring::<Desc>(fd, at.rx, abi::XDP_PGOFF_RX_RING, config.rx_ring, mappings)?,
            tx: self.ring::<Desc>(fd, at.tx, abi::XDP_PGOFF_TX_RING, config.tx_ring, mappings)?,
        })
    }

    fn ring<T>(
        &self,
        fd: BorrowedFd<'_>,
        at: RingOffset,
        offset: i64,
        entries: u32,
        mappings: &mut Vec<Mapping>,
    ) -> Result<Option<RingMap<T>>> {
        if entries == 0 {
            return Ok(None);
        }
        let len = at.desc as usize + entries as usize * size_of::<T>();
        let mapping = Mapping::ring(fd, offset, len).map_err(|e| self.failure("map the rings of", e))?;
        let start = mapping.start();
        // SAFETY: the kernel's offsets lie within the mapping, whose length was computed from the last of them: each
        // word in front of the entries.
        let ring = unsafe {
            RingMap {
                producer: start.add(at.producer as usize).cast(),
                consumer: start.add(at.consumer as usize).cast(),
                flags: start.add(at.flags as usize).cast(),
                entries: start.add(at.desc as usize).cast(),
                size: entries,
            }
        };
        mappings.push(mapping);
        Ok(Some(ring))
    }

    fn bind(&self, fd: BorrowedFd<'_>, peer: Option<&Peer>) -> Result<()> {
        let config = self.config;
        let (flags, shared) = match peer.and_then(|p| p.handle.kernel.linux()) {
            Some(other) => (abi::XDP_SHARED_UMEM, other.descriptor.as_raw_fd() as u32),
            None => {
                // Without a flag for the mode the kernel tries zero-copy first, then copy.
                let mode = match config.mode {
                    SocketMode::Auto => 0,
                    SocketMode::ZeroCopy => abi::XDP_ZEROCOPY,
                    SocketMode::Copy => abi::XDP_COPY,
                };
                let wakeup = if config.need_wakeup {
                    abi::XDP_USE_NEED_WAKEUP
                } else {
                    0
                };
                let several = if config.multi_buffer { abi::XDP_USE_SG } else { 0 };
                (mode | wakeup | several, 0)
            }
        };
        let address = SockaddrXdp {
            family: libc::AF_XDP as u16,
            flags,
            ifindex: self.device.index(),
            queue_id: self.queue,
            shared_umem_fd: shared,
        };
        let start = Instant::now();
        let mut pause = Duration::from_micros(50);
        loop {
            match raw::bind(fd, address) {
                Ok(()) => return Ok(()),
                Err(e) if e.raw_os_error() == Some(libc::EBUSY) && start.elapsed() < LEAVES_WITHIN => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(5));
                }
                Err(e) => {
                    let copy = SockaddrXdp {
                        flags: flags & !abi::XDP_ZEROCOPY | abi::XDP_COPY,
                        ..address
                    };
                    // A socket that was refused may ask again; if copy mode is taken, the driver minds zero-copy only.
                    let minds = flags & abi::XDP_ZEROCOPY != 0 && raw::bind(fd, copy).is_ok();
                    return Err(if minds {
                        self.not_zero_copy(&e)
                    } else {
                        self.not_bound(e, peer)
                    });
                }
            }
        }
    }
}
