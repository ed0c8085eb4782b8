//! Finds the device of a port, or makes it.

use super::Half;
use crate::config::Device;
use crate::{counters, eal, told};
use dpdk_sys as sys;
use mpps_io::{ErrorKind, Result};
use std::ffi::c_char;

impl Half<'_> {
    /// Makes the virtual device, or finds the one that the bus has.
    pub(super) fn find(&mut self) -> Result<u16> {
        let mut port = 0;
        match &self.config.device {
            Device::Vdev(name) => {
                let mut devargs = self.config.devargs();
                if let Some(socket) = &self.socket {
                    socket
                        .remove_stale()
                        .map_err(|(cause, kind)| self.error("open", cause, kind))?;
                    devargs = socket.devargs(devargs);
                }
                let devargs = eal::c_string(&devargs);
                // SAFETY: the EAL runs (a port counts as open), and the string ends with a zero.
                let result = unsafe { sys::mpps_probe(devargs.as_ptr()) };
                if result < 0 {
                    let (hint, kind) = told::hint(self.config, eal::cause_of(result));
                    return Err(self.error("make", hint, kind));
                }
                self.plugged = true;
                if let Some(socket) = &self.socket {
                    self.served = socket.serve();
                    socket.close_to_others();
                }
                let name = eal::c_string(name);
                // SAFETY: as above.
                if unsafe { sys::mpps_port_by_name(name.as_ptr(), &mut port) } < 0 {
                    return Err(self.error("find the port of", eal::cause_of(-19), ErrorKind::NotFound));
                }
            }
            Device::Pci(address) => {
                let name = eal::c_string(address);
                // SAFETY: as above.
                if unsafe { sys::mpps_port_by_name(name.as_ptr(), &mut port) } < 0 {
                    let log = eal::logged().map(|log| format!(" ({log})")).unwrap_or_default();
                    let cause = format!(
                        "no DPDK driver has taken {address}{log}: is it there, and bound to vfio-pci? `mpps doctor` \
                         says"
                    );
                    return Err(self.error("open", cause, ErrorKind::NotFound));
                }
            }
            Device::Mac(mac) => {
                // SAFETY: six bytes.
                if unsafe { sys::mpps_port_by_mac(mac.as_ptr(), &mut port) } < 0 {
                    let cause = match macs() {
                        there if there.is_empty() => {
                            "DPDK has found no device at all: `mpps doctor` says why".to_owned()
                        }
                        there => format!("no device has this MAC address; there are: {there}"),
                    };
                    return Err(self.error("open", cause, ErrorKind::NotFound));
                }
            }
        }
        Ok(port)
    }
}

/// Returns the MAC addresses of all devices that DPDK has found, as a text.
fn macs() -> String {
    let mut bytes: Vec<c_char> = vec![0; 2048];
    // SAFETY: at most as many bytes are written, with a zero at the end.
    unsafe { sys::mpps_port_macs(bytes.as_mut_ptr(), bytes.len()) };
    counters::text(&bytes)
}
