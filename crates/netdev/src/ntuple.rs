//! Ntuple filters: actions of a NIC on packets before the kernel sees them, set by `SIOCETHTOOL` as `ethtool -N` does.
//!
//! The device keeps a filter until somebody removes it, no matter who set it. An [`NtupleFilter`] removes its own
//! filter when it is dropped.

use crate::ethtool::{Ethtool, EthtoolValue, ethtool, set_ethtool};
use crate::netlink::{Request, attributes};
use crate::ntuple_spec::{FlowSpec, Ntuple};
use crate::{IFINFOMSG, text};
use mpps_sys::privilege::{CapabilitySet, with_reserve};
use std::io;
use std::mem::{offset_of, size_of};

// include/uapi/linux/ethtool.h
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GRXRINGS: u32 = 0x2d;
const ETHTOOL_GRXCLSRLCNT: u32 = 0x2e;
const ETHTOOL_GRXCLSRLALL: u32 = 0x30;
const ETHTOOL_SRXCLSRLDEL: u32 = 0x31;
const ETHTOOL_SRXCLSRLINS: u32 = 0x32;
const ETH_FLAG_NTUPLE: u32 = 1 << 27;
const RX_CLS_LOC_SPECIAL: u64 = 0x8000_0000;
const RX_CLS_LOC_ANY: u32 = u32::MAX;

/// Most filters that a device may have beside ours if it does not choose the place itself.
const MOST: usize = 4096;

/// `struct ethtool_rxnfc` with room for `N` locations; one of them lies in what is its padding.
#[repr(C)]
#[derive(Clone, Copy)]
struct RxNfc<const N: usize> {
    cmd: u32,
    flow_type: u32,
    data: u64,
    fs: FlowSpec,
    rule_cnt: u32,
    rule_locs: [u32; N],
}

const _: () = assert!(size_of::<RxNfc<1>>() == 192);
const _: () = assert!(offset_of!(RxNfc<1>, data) == 8 && offset_of!(RxNfc<1>, fs) == 16);
const _: () = assert!(offset_of!(RxNfc<1>, rule_cnt) == 184 && offset_of!(RxNfc<1>, rule_locs) == 188);

// SAFETY: layout asserted above for one location, more of them lie behind it; integers only.
unsafe impl<const N: usize> Ethtool for RxNfc<N> {}

impl<const N: usize> RxNfc<N> {
    fn new(cmd: u32) -> Self {
        Self {
            cmd,
            flow_type: 0,
            data: 0,
            fs: FlowSpec::ANY,
            rule_cnt: 0,
            rule_locs: [0; N],
        }
    }
}

/// Carries commands out: the kernel, or a stand-in in tests.
trait Commands {
    fn call<const N: usize>(&self, device: &str, command: RxNfc<N>) -> io::Result<RxNfc<N>>;
    /// The name that an interface has now.
    fn name_of(&self, ifindex: u32) -> io::Result<String>;
}

#[derive(Debug)]
struct Kernel;

impl Commands for Kernel {
    fn call<const N: usize>(&self, device: &str, command: RxNfc<N>) -> io::Result<RxNfc<N>> {
        set_ethtool(device, command)
    }

    fn name_of(&self, ifindex: u32) -> io::Result<String> {
        let mut head = [0; IFINFOMSG];
        head[4..8].copy_from_slice(&ifindex.to_ne_bytes());
        let mut name = None;
        Request::new(libc::RTM_GETLINK, 0, &head).run(|_, body| {
            let mut all = attributes(body, IFINFOMSG);
            name = all.find(|(kind, _)| *kind == libc::IFLA_IFNAME).map(|(_, v)| text(v));
        })?;
        name.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Asks whether the device's driver has ntuple filters; changes nothing.
///
/// # Errors
/// The kernel's, if it has none (`EOPNOTSUPP`) or there is no such interface.
pub fn check_ntuple(device: &str) -> io::Result<()> {
    count(&Kernel, device).map(|_| ())
}

/// Whether ntuple filters are switched on; `None` if the driver does not say.
pub fn ntuple_on(device: &str) -> Option<bool> {
    ethtool::<EthtoolValue>(device, ETHTOOL_GFLAGS).map(|flags| flags.data & ETH_FLAG_NTUPLE != 0)
}

/// Receive queues that filters can name; `None` if the driver does not say.
pub fn receive_rings(device: &str) -> Option<u64> {
    let rings = set_ethtool(device, RxNfc::<1>::new(ETHTOOL_GRXRINGS)).ok()?;
    Some(rings.data)
}

/// Filters there are, and whether the driver chooses a place for one more.
fn count(commands: &impl Commands, device: &str) -> io::Result<(usize, bool)> {
    let told = commands.call(device, RxNfc::<1>::new(ETHTOOL_GRXCLSRLCNT))?;
    Ok((told.rule_cnt as usize, told.data & RX_CLS_LOC_SPECIAL != 0))
}

/// The last place that none of `used` has, in a table of `size` places: earlier ones come first, and are left to
/// others.
fn free_place(used: &[u32], size: u64) -> Option<u32> {
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    (0..size).rev().find(|place| !used.contains(place))
}

/// Returns the place of a new filter in the device's table.
fn place(commands: &impl Commands, device: &str) -> io::Result<u32> {
    let full = |what| io::Error::new(io::ErrorKind::StorageFull, what);
    let (filters, driver_chooses) = count(commands, device)?;
    if driver_chooses {
        return Ok(RX_CLS_LOC_ANY);
    }
    if filters > MOST {
        return Err(full("the device has too many filters"));
    }
    let mut all = RxNfc::<MOST>::new(ETHTOOL_GRXCLSRLALL);
    all.rule_cnt = MOST as u32;
    let all = commands.call(device, all)?;
    let used = &all.rule_locs[..MOST.min(all.rule_cnt as usize)];
    free_place(used, all.data).ok_or_else(|| full("no room for a filter is left"))
}

/// A filter in force for as long as this lives.
#[derive(Debug)]
pub struct NtupleFilter {
    _held: Held<Kernel>,
}

impl NtupleFilter {
    /// Gives the device a filter. `ifindex` must be the device's.
    ///
    /// # Errors
    /// The kernel's: `EOPNOTSUPP` if the driver has no such filters, `EINVAL` and others if it lacks this one,
    /// `EPERM` without `CAP_NET_ADMIN`; [`io::ErrorKind::StorageFull`] without room.
    pub fn insert(device: &str, ifindex: u32, filter: &Ntuple) -> io::Result<Self> {
        let held = Held::insert(Kernel, device, ifindex, filter)?;
        Ok(Self { _held: held })
    }
}

#[derive(Debug)]
struct Held<C: Commands> {
    commands: C,
    ifindex: u32,
    location: u32,
}

impl<C: Commands> Held<C> {
    fn insert(commands: C, device: &str, ifindex: u32, filter: &Ntuple) -> io::Result<Self> {
        let mut command = RxNfc::<1>::new(ETHTOOL_SRXCLSRLINS);
        command.fs = FlowSpec::of(filter);
        command.fs.location = place(&commands, device)?;
        let inserted = commands.call(device, command)?;
        Ok(Self {
            commands,
            ifindex,
            location: inserted.fs.location,
        })
    }
}

impl<C: Commands> Drop for Held<C> {
    fn drop(&mut self) {
        // The interface may have another name by now; one that is gone took its filters along.
        let Ok(device) = self.commands.name_of(self.ifindex) else {
            return;
        };
        let mut command = RxNfc::<1>::new(ETHTOOL_SRXCLSRLDEL);
        command.fs.location = self.location;
        // A failure is not reported: somebody else has removed the filter, most likely.
        let _ = with_reserve(CapabilitySet::NET_ADMIN, || self.commands.call(&device, command));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bitmatch, Fate, Headers};
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    /// A device of eight places.
    #[derive(Default)]
    struct Device {
        filters: BTreeMap<u32, u64>,
        /// The device finds a place itself: the first that is free.
        chooses: bool,
        /// Name of the device now.
        name: &'static str,
    }

    const SIZE: u32 = 8;

    impl Commands for &RefCell<Device> {
        fn call<const N: usize>(&self, device: &str, mut command: RxNfc<N>) -> io::Result<RxNfc<N>> {
            let mut this = self.borrow_mut();
            assert_eq!(device, this.name);
            let location = command.fs.location;
            match command.cmd {
                ETHTOOL_GRXCLSRLCNT => {
                    command.rule_cnt = this.filters.len() as u32;
                    command.data = u64::from(SIZE) | if this.chooses { RX_CLS_LOC_SPECIAL } else { 0 };
                }
                ETHTOOL_GRXCLSRLALL => {
                    assert!(command.rule_cnt as usize == N && !this.chooses);
                    command.rule_cnt = this.filters.len() as u32;
                    command.data = SIZE.into();
                    for (to, from) in command.rule_locs.iter_mut().zip(this.filters.keys()) {
                        *to = *from;
                    }
                }
                ETHTOOL_SRXCLSRLINS => {
                    if this.chooses {
                        assert_eq!(location, RX_CLS_LOC_ANY);
                        let free = (0..SIZE).find(|place| !this.filters.contains_key(place));
                        command.fs.location = free.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOSPC))?;
                    } else {
                        assert!(location < SIZE && !this.filters.contains_key(&location));
                    }
                    this.filters.insert(command.fs.location, command.fs.ring_cookie);
                }
                ETHTOOL_SRXCLSRLDEL => {
                    let removed = this.filters.remove(&location);
                    removed.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
                }
                other => panic!("command {other:#x}"),
            }
            Ok(command)
        }

        fn name_of(&self, ifindex: u32) -> io::Result<String> {
            assert_eq!(ifindex, 7);
            Ok(self.borrow().name.to_owned())
        }
    }

    fn to_queue(queue: u16) -> Ntuple {
        Ntuple {
            headers: Headers::Ethernet {
                dst: Bitmatch::default(),
                src: Bitmatch::default(),
                ethertype: Bitmatch::default(),
            },
            dst_mac: None,
            vlan_type: None,
            vlan_tci: None,
            fate: Fate::Queue(queue),
        }
    }

    #[test]
    fn filters_leave_others_alone_and_are_gone_after_their_time_whatever_the_devices_name() {
        for chooses in [false, true] {
            let device = RefCell::new(Device {
                filters: BTreeMap::from([(7, 70), (0, 0)]),
                chooses,
                name: "eth1",
            });
            let before = device.borrow().filters.clone();
            let first = Held::insert(&device, "eth1", 7, &to_queue(2)).expect("room");
            let second = Held::insert(&device, "eth1", 7, &to_queue(3)).expect("room");
            assert_eq!(device.borrow().filters.get(&first.location), Some(&2));
            assert_eq!(device.borrow().filters.get(&second.location), Some(&3));
            device.borrow_mut().name = "wan0";
            drop(first);
            assert_eq!(device.borrow().filters.get(&second.location), Some(&3));
            drop(second);
            assert_eq!(device.borrow().filters, before, "the driver chooses: {chooses}");
        }
    }

    #[test]
    fn a_full_table_is_told_and_stays_as_it_is() {
        for chooses in [false, true] {
            let device = RefCell::new(Device {
                filters: (0..SIZE).map(|place| (place, 0)).collect(),
                chooses,
                name: "eth1",
            });
            let refused = Held::insert(&device, "eth1", 7, &to_queue(2)).err().expect("no room");
            assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
            assert_eq!(device.borrow().filters.len(), SIZE as usize);
        }
    }

    #[test]
    fn a_filter_goes_to_the_last_place_that_is_free() {
        assert_eq!(free_place(&[], 8), Some(7));
        assert_eq!(free_place(&[7, 5], 8), Some(6));
        assert_eq!(free_place(&[0, 1], 2), None);
        assert_eq!(free_place(&[], 0), None);
    }

    #[test]
    fn loopback_has_no_filters_and_says_so() {
        let refused = check_ntuple("lo").expect_err("a loopback interface filters nothing");
        assert_eq!(refused.raw_os_error(), Some(libc::EOPNOTSUPP));
        assert_eq!(ntuple_on("lo"), Some(false));
        let lo = crate::NetDev::by_name("lo").expect("every host has one");
        assert_eq!(Kernel.name_of(lo.ifindex).ok().as_deref(), Some("lo"));
    }
}
