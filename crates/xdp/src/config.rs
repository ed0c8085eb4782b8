//! The port's options, checked.

use mpps_io::{PortSpec, SpecError};

/// Where the programs run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, or on socket buffers where the driver can't (told in the report).
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// On socket buffers.
    Skb,
}

/// How often the time of arrival is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Once a poll loop of the driver, and anew after 16 packets of it.
    #[default]
    Poll,
    /// For each packet.
    Packet,
}

/// What is verified of a packet that comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Checksum and every byte of the data.
    #[default]
    All,
    /// Headers and stamp only: the report says that payloads are unchecked.
    Headers,
}

/// A checked port specification: `xdp:INTERFACE[,mode=…][,clock=…][,check=…][,batch=N]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The interface.
    pub device: String,
    /// Where the programs run.
    pub mode: Mode,
    /// How often the time of arrival is read.
    pub clock: Clock,
    /// What is verified of packets that come back.
    pub check: Check,
    /// Frames that the kernel makes at a time, 1 to 256; `None`: chosen from the rate.
    pub batch: Option<u32>,
}

/// Checks a port specification. Opens nothing.
///
/// # Errors
/// A message that names the option, the value and what would be right.
pub fn check(spec: &PortSpec) -> Result<Config, SpecError> {
    let device = spec.interface()?;
    let mut options = spec.take_options();
    let mode = options.get("mode", "auto, native or skb", |v| match v {
        "auto" => Some(Mode::Auto),
        "native" => Some(Mode::Native),
        "skb" => Some(Mode::Skb),
        _ => None,
    })?;
    let clock = options.get("clock", "poll or packet", |v| match v {
        "poll" => Some(Clock::Poll),
        "packet" => Some(Clock::Packet),
        _ => None,
    })?;
    let check = options.get("check", "all or headers", |v| match v {
        "all" => Some(Check::All),
        "headers" => Some(Check::Headers),
        _ => None,
    })?;
    let batch = options.number("batch", 1..=256)?.map(|n| n as u32);
    options.finish()?;
    Ok(Config {
        device,
        mode: mode.unwrap_or_default(),
        clock: clock.unwrap_or_default(),
        check: check.unwrap_or_default(),
        batch,
    })
}
