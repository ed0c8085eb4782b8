//! Options of the null path, and those that the loop path shares with it.

use crate::{Fact, Layer, PortSpec, SpecError, SpecOptions};

/// Bytes of an Ethernet header.
const ETHERNET_HEADER: usize = 14;
/// Bytes of an IPv4 header without options and a UDP header.
const IPV4_UDP_HEADERS: usize = 28;

/// Settings of the null path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NullConfig {
    /// Buffers a queue.
    pub frames: usize,
    /// Largest IP packet in bytes.
    pub mtu: usize,
    /// Layer at which a frame's bytes start.
    pub layer: Layer,
}

impl Default for NullConfig {
    fn default() -> Self {
        Self {
            frames: 1024,
            mtu: 1500,
            layer: Layer::Ethernet,
        }
    }
}

impl NullConfig {
    /// Largest frame in bytes: header and MTU on Ethernet, else what is left of the MTU after IPv4 and UDP headers.
    pub fn max_frame(&self) -> usize {
        match self.layer {
            Layer::Ethernet => self.mtu + ETHERNET_HEADER,
            Layer::Payload => self.mtu.saturating_sub(IPV4_UDP_HEADERS),
        }
    }

    /// Takes the options that the paths without a kernel share.
    pub(crate) fn take(options: &mut SpecOptions<'_>, default: Self) -> Result<Self, SpecError> {
        let layer = options.get("layer", "ethernet or payload", |v| match v {
            "ethernet" => Some(Layer::Ethernet),
            "payload" => Some(Layer::Payload),
            _ => None,
        })?;
        Ok(Self {
            frames: options
                .number("frames", 1..=1 << 20)?
                .map_or(default.frames, |n| n as usize),
            mtu: options.number("mtu", 68..=65535)?.map_or(default.mtu, |n| n as usize),
            layer: layer.unwrap_or(default.layer),
        })
    }

    /// The settings, for the report.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        let layer = match self.layer {
            Layer::Ethernet => "ethernet",
            Layer::Payload => "payload",
        };
        vec![
            Fact::new("frames", self.frames.to_string()),
            Fact::new("mtu_bytes", self.mtu.to_string()),
            Fact::new("layer", layer.to_owned()),
        ]
    }
}

/// Reads the options of `null:[frames=N][,mtu=BYTES][,layer=ethernet|payload]`.
///
/// # Errors
/// When a device is named, or an option is unknown or out of its range.
pub fn check(spec: &PortSpec) -> Result<NullConfig, SpecError> {
    no_device(spec, "null:")?;
    let mut options = spec.take_options();
    let config = NullConfig::take(&mut options, NullConfig::default())?;
    options.finish()?;
    Ok(config)
}

/// Refuses a device on a path that opens none.
pub(crate) fn no_device(spec: &PortSpec, right: &str) -> Result<(), SpecError> {
    if spec.device.is_empty() {
        return Ok(());
    }
    Err(SpecError(format!(
        "port '{spec}': device '{}': {} opens no device: want {right}",
        spec.device, spec.path
    )))
}
