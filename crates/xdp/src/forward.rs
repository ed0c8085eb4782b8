//! `forward`.

use crate::open::XdpDevice;
use crate::port::XdpPort;
use crate::spec::ForwardSpec;
use mpps_io::Result;

pub(crate) fn load(_devices: Vec<XdpDevice>, _spec: &ForwardSpec) -> Result<XdpPort> {
    unimplemented!()
}
