//! Facts about a network device that are needed before a socket or a program is put on it.
//!
//! All are asked of the kernel for the network namespace of the calling thread.

use std::ffi::CString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use crate::{Error, netlink};

/// `ETHTOOL_GCHANNELS` and `ETHTOOL_GDRVINFO` in `include/uapi/linux/ethtool.h`.
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    cmd: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_drvinfo`, of which the driver's name is read.
#[repr(C)]
struct DriverInfo {
    cmd: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// `struct ifreq` with the largest of its variants.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: Data,
}

#[repr(C)]
union Data {
    pointer: *mut libc::c_void,
    number: libc::c_int,
    address: libc::sockaddr,
    room: [u64; 3],
}

const _: () = {
    assert!(size_of::<Channels>() == 36);
    assert!(size_of::<DriverInfo>() == 196);
    assert!(size_of::<Request>() == size_of::<libc::ifreq>());
    assert!(std::mem::offset_of!(Request, data) == libc::IFNAMSIZ);
};

/// Receive queues of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// Number of queues that the device has now.
    pub current: u32,
    /// Largest number of queues that the device can have.
    pub max: u32,
}

/// A network device, by the index that it keeps while it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    name: Arc<str>,
    index: u32,
}

impl Device {
    /// The device of this name in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub fn named(name: &str) -> Result<Device, Error> {
        let none = || Error::NotFound {
            object: name.into(),
            why: "no such device in this network namespace".into(),
        };
        let c_name = CString::new(name).map_err(|_| none())?;
        // SAFETY: a string that ends with a zero byte and outlives the call.
        match unsafe { libc::if_nametoindex(c_name.as_ptr()) } {
            0 => Err(none()),
            index => Ok(Device {
                name: name.into(),
                index,
            }),
        }
    }

    /// Returns the name that the device had when it was looked up.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the device's index in the namespace.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the device's receive queues: one AF_XDP socket can be bound to each.
    pub fn queues(&self) -> Result<Queues, Error> {
        let mut channels = Channels {
            cmd: ETHTOOL_GCHANNELS,
            ..Channels::default()
        };
        // SAFETY: `channels` is what this command reads and writes.
        let answered = unsafe { self.ethtool((&raw mut channels).cast()) }.is_ok();
        let made = match netlink::link(self.index) {
            Ok(link) => link.rx_queues,
            Err(_) if answered => None,
            Err(e) => return Err(self.failure("ask for the queues of", e)),
        };
        let (current, max) = match answered {
            true => (channels.rx + channels.combined, channels.max_rx + channels.max_combined),
            // Drivers with one queue, or without this command.
            false => [made.unwrap_or(1); 2].into(),
        };
        // The veth of Linux 5.14 reports each queue twice, as one that receives and as a combined one.
        let made = made.unwrap_or(max).max(1);
        Ok(Queues {
            current: current.clamp(1, made),
            max: max.clamp(1, made),
        })
    }

    /// Returns the name of the driver: "veth", "ixgbe"; empty if the kernel does not report it.
    pub fn driver(&self) -> String {
        let mut info = DriverInfo {
            cmd: ETHTOOL_GDRVINFO,
            driver: [0; 32],
            rest: [0; 160],
        };
        // SAFETY: `info` is what this command reads and writes.
        match unsafe { self.ethtool((&raw mut info).cast()) } {
            Ok(()) => info
                .driver
                .split(|&b| b == 0)
                .next()
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    /// The features without which `virtio_net` refuses zero-copy mode (`virtnet_xsk_pool_enable`) and that the device
    /// has not, in a sentence with the remedy. `None` if it has all, or its features can't be read.
    pub(crate) fn virtio_lacks(&self) -> Option<&'static str> {
        // Bits of `include/uapi/linux/virtio_config.h`.
        const ACCESS_PLATFORM: usize = 33;
        const RING_RESET: usize = 40;
        let read = |file: &str| std::fs::read_to_string(format!("/sys/class/net/{}/{file}", self.name)).ok();
        // The files may be of another namespace, with another device of this name.
        let mac: Vec<String> = self.mac().ok()?.iter().map(|byte| format!("{byte:02x}")).collect();
        if read("address")?.trim() != mac.join(":") {
            return None;
        }
        let features = read("device/features")?;
        let lacks = |bit: usize| features.as_bytes().get(bit) == Some(&b'0');
        match (lacks(ACCESS_PLATFORM), lacks(RING_RESET)) {
            (true, true) => Some(
                "it wants a device with VIRTIO_F_ACCESS_PLATFORM and VIRTIO_F_RING_RESET, which the host of this guest \
                 gives (QEMU: iommu_platform=on,disable-legacy=on,queue_reset=on)",
            ),
            (true, false) => Some(
                "it wants a device with VIRTIO_F_ACCESS_PLATFORM, which the host of this guest gives (QEMU: \
                 iommu_platform=on,disable-legacy=on)",
            ),
            (false, true) => Some(
                "it wants a device with VIRTIO_F_RING_RESET, which the host of this guest gives (QEMU: queue_reset=on)",
            ),
            (false, false) => None,
        }
    }

    /// The largest IP packet that it carries, in bytes.
    pub fn mtu(&self) -> Result<u32, Error> {
        let request = self.ioctl(libc::SIOCGIFMTU as libc::c_ulong, "ask for the MTU of")?;
        // SAFETY: SIOCGIFMTU wrote the number.
        Ok(unsafe { request.data.number }.max(0) as u32)
    }

    /// Returns the device's MAC address.
    pub fn mac(&self) -> Result<[u8; 6], Error> {
        let request = self.ioctl(libc::SIOCGIFHWADDR as libc::c_ulong, "ask for the MAC address of")?;
        // SAFETY: SIOCGIFHWADDR wrote the address.
        let address = unsafe { request.data.address };
        let mut mac = [0; 6];
        for (to, from) in mac.iter_mut().zip(address.sa_data) {
            *to = from as u8;
        }
        Ok(mac)
    }

    /// XDP programs attached to it, by id.
    pub fn programs(&self) -> Result<Vec<u32>, Error> {
        let info = netlink::link(self.index).map_err(|e| self.failure("ask for the XDP programs of", e))?;
        Ok(info.programs)
    }

    fn request(&self, data: Data) -> Request {
        let mut name = [0; libc::IFNAMSIZ];
        let bytes = self.name.as_bytes();
        // A name that exists is shorter, as it ends with a zero byte.
        let length = bytes.len().min(libc::IFNAMSIZ - 1);
        name[..length].copy_from_slice(&bytes[..length]);
        Request { name, data }
    }

    fn ioctl(&self, command: libc::c_ulong, doing: &'static str) -> Result<Request, Error> {
        let mut request = self.request(Data { room: [0; 3] });
        // SAFETY: both commands read the name and write the union, of `struct ifreq`'s size.
        unsafe { control(command, &mut request) }.map_err(|e| self.failure(doing, e))?;
        Ok(request)
    }

    /// # Safety
    /// `command` points to the struct of the command whose number it begins with.
    unsafe fn ethtool(&self, command: *mut libc::c_void) -> io::Result<()> {
        let mut request = self.request(Data { pointer: command });
        // SAFETY: the caller's promise for what the pointer leads to; the request itself is ours.
        unsafe { control(SIOCETHTOOL, &mut request) }
    }

    fn failure(&self, doing: &'static str, source: io::Error) -> Error {
        match source.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => Error::Gone {
                object: self.name.clone(),
            },
            _ => Error::os(doing, self.name.clone(), source),
        }
    }
}

/// # Safety
/// `request` is what `command` reads and writes.
unsafe fn control(command: libc::c_ulong, request: &mut Request) -> io::Result<()> {
    // SAFETY: socket(2) takes no pointers.
    let raw = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else knows.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    // SAFETY: the caller's promise.
    match unsafe { libc::ioctl(socket.as_raw_fd(), command as _, &raw mut *request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the IP addresses of a device, for a filter that leaves the host its own.
///
/// # Errors
/// When the kernel does not report them.
pub fn addresses(device: &str) -> Result<Vec<IpAddr>, Error> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: writes one pointer to `first`.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(Error::os(
            "ask for the addresses of",
            device,
            io::Error::last_os_error(),
        ));
    }
    let mut found = Vec::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: an element of the list, which is alive until freeifaddrs(3) below.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        // SAFETY: a name that ends with a zero byte, as alive as its element.
        let name = unsafe { std::ffi::CStr::from_ptr(entry.ifa_name) };
        if entry.ifa_addr.is_null() || name.to_bytes() != device.as_bytes() {
            continue;
        }
        // SAFETY: not null, and every address begins with its family.
        match i32::from(unsafe { (*entry.ifa_addr).sa_family }) {
            libc::AF_INET => {
                // SAFETY: an address of this family is one of this type.
                let address = unsafe { (*entry.ifa_addr.cast::<libc::sockaddr_in>()).sin_addr };
                found.push(IpAddr::V4(Ipv4Addr::from(address.s_addr.to_ne_bytes())));
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let address = unsafe { (*entry.ifa_addr.cast::<libc::sockaddr_in6>()).sin6_addr };
                found.push(IpAddr::V6(Ipv6Addr::from(address.s6_addr)));
            }
            _ => {}
        }
    }
    // SAFETY: the list that getifaddrs(3) gave, freed once; nothing of it is kept.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_is_known() {
        let lo = Device::named("lo").unwrap();
        assert_eq!(lo.index(), 1);
        assert_eq!(lo.queues().unwrap(), Queues { current: 1, max: 1 });
        assert!(lo.mtu().unwrap() >= 1500);
        assert_eq!(lo.mac().unwrap(), [0; 6]);
        assert!(addresses("lo").unwrap().iter().all(IpAddr::is_loopback));
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        for name in ["nosuchdevice0", "with\0zero", "a-name-that-is-much-too-long"] {
            let error = Device::named(name).unwrap_err();
            assert!(matches!(error, Error::NotFound { .. }), "{error}");
        }
    }
}
