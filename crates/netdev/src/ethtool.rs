//! Properties of an interface that only its driver knows, by ioctl `SIOCETHTOOL`.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

// include/uapi/linux/ethtool.h
pub(crate) const ETHTOOL_GSET: u32 = 0x01;
pub(crate) const ETHTOOL_GDRVINFO: u32 = 0x03;
pub(crate) const ETHTOOL_GTXCSUM: u32 = 0x16;
pub(crate) const ETHTOOL_GSTRINGS: u32 = 0x1b;
pub(crate) const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_SGRO: u32 = 0x2c;

/// A structure that `SIOCETHTOOL` fills in.
///
/// # Safety
/// The type must be `repr(C)`, start with the command, be valid for every bit pattern, and have the kernel's layout.
pub(crate) unsafe trait Ethtool: Copy {}

/// `struct ethtool_drvinfo`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DrvInfo {
    cmd: u32,
    pub(crate) driver: [u8; 32],
    version: [u8; 32],
    fw_version: [u8; 32],
    pub(crate) bus_info: [u8; 32],
    erom_version: [u8; 32],
    reserved2: [u8; 12],
    counts: [u32; 5],
}

/// `struct ethtool_value`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EthtoolValue {
    pub(crate) cmd: u32,
    pub(crate) data: u32,
}

/// `struct ethtool_cmd`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EthtoolCmd {
    cmd: u32,
    supported: u32,
    advertising: u32,
    pub(crate) speed: u16,
    modes: [u8; 6],
    limits: [u32; 2],
    pub(crate) speed_hi: u16,
    more: [u8; 2],
    rest: [u32; 3],
}

const _: () = assert!(size_of::<DrvInfo>() == 196 && size_of::<EthtoolValue>() == 8 && size_of::<EthtoolCmd>() == 44);
const _: () =
    assert!(std::mem::offset_of!(EthtoolCmd, speed) == 12 && std::mem::offset_of!(EthtoolCmd, speed_hi) == 28);
const _: () = assert!(std::mem::offset_of!(DrvInfo, bus_info) == 100);

// SAFETY: layout asserted above; integers only.
unsafe impl Ethtool for DrvInfo {}
// SAFETY: layout asserted above; integers only.
unsafe impl Ethtool for EthtoolValue {}
// SAFETY: layout asserted above; integers only.
unsafe impl Ethtool for EthtoolCmd {}

/// Switches generic receive offload on, as `ethtool -K NAME gro on` does. True if it was off.
///
/// # Errors
/// Without `CAP_NET_ADMIN`, or if there is no such interface.
pub fn switch_gro_on(name: &str) -> io::Result<bool> {
    let was_on = ethtool::<EthtoolValue>(name, ETHTOOL_GGRO).is_some_and(|value| value.data != 0);
    // Set in any case: an XDP program in the driver shows GRO as on for as long as it is there.
    set_ethtool(
        name,
        EthtoolValue {
            cmd: ETHTOOL_SGRO,
            data: 1,
        },
    )?;
    Ok(!was_on)
}

/// Asks the driver of an interface; `None` if it does not answer.
pub(crate) fn ethtool<T: Ethtool>(name: &str, command: u32) -> Option<T> {
    // SAFETY: Ethtool types are plain data, valid when zeroed.
    let mut value: T = unsafe { zeroed() };
    // SAFETY: every Ethtool type starts with the command word.
    unsafe { (&raw mut value).cast::<u32>().write(command) };
    set_ethtool(name, value).ok()
}

/// Gives `value`, command included, to the driver, and returns the answer.
pub(crate) fn set_ethtool<T: Ethtool>(name: &str, mut value: T) -> io::Result<T> {
    // SAFETY: the kernel reads or fills `value`, whose size is that of the command's structure.
    unsafe { with_driver(name, (&raw mut value).cast()) }.map(|()| value)
}

/// Gives what is at `value`, which begins with a command, to the driver of an interface, which may answer there.
///
/// # Safety
/// `value` must be as long as what the driver reads and writes on this command.
pub(crate) unsafe fn with_driver(name: &str, value: *mut libc::c_char) -> io::Result<()> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and owned from here on.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: ifreq is plain data, valid when zeroed.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = value;
    // SAFETY: the kernel reads the name; the rest is promised by the caller.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
