//! The port's options, checked.

use mpps_io::{PortSpec, SpecError};

/// Mode in which the programs run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, or on socket buffers if the driver can't (shown in the report).
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
    /// Once per poll loop of the driver, and again after 16 packets of it; of a reflector, after 64.
    #[default]
    Poll,
    /// For each packet.
    Packet,
}

/// Checks made on a packet that comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Checksum and every byte of the data.
    #[default]
    All,
    /// Headers and stamp only: the report says that payloads are unchecked.
    Headers,
}

/// A checked port specification: `xdp:INTERFACE[,mode=…][,clock=…][,check=…][,batch=N][,promisc=…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The interface.
    pub device: String,
    /// Mode in which the programs run.
    pub mode: Mode,
    /// How often the time of arrival is read.
    pub clock: Clock,
    /// Checks made on packets that come back.
    pub check: Check,
    /// Frames that the kernel makes at a time, 1 to 256; `None`: chosen from the rate.
    pub batch: Option<u32>,
    /// Take frames for other MAC addresses, too; `None`: as the task needs.
    pub promisc: Option<bool>,
}

/// Checks a port specification. Opens nothing.
///
/// # Errors
/// A message that names the option, the value and what would be right.
pub fn check(spec: &PortSpec) -> Result<Config, SpecError> {
    let device = spec.interface()?;
    let mut options = spec.take_options();
    if let Some((_, mode)) = spec
        .options
        .iter()
        .find(|(key, value)| key == "mode" && value == "offload")
    {
        return Err(SpecError(format!(
            "port '{spec}': mode={mode}: programs on the device itself have no clock, no live frames, and no maps that \
             a process could have in its memory: want auto, native or skb"
        )));
    }
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
    let promisc = options.switch("promisc")?;
    options.finish()?;
    Ok(Config {
        device,
        mode: mode.unwrap_or_default(),
        clock: clock.unwrap_or_default(),
        check: check.unwrap_or_default(),
        batch,
        promisc,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, SpecError> {
        check(&text.parse()?)
    }

    #[test]
    fn every_option_is_taken_and_has_a_default() {
        let config = parse("xdp:eth1").expect("valid");
        assert_eq!(
            (config.mode, config.clock, config.check),
            (Mode::Auto, Clock::Poll, Check::All)
        );
        assert_eq!((config.batch, config.promisc), (None, None));
        let config = parse("xdp:eth1,mode=skb,clock=packet,check=headers,batch=8,promisc=on").expect("valid");
        assert_eq!(
            (config.mode, config.clock, config.check),
            (Mode::Skb, Clock::Packet, Check::Headers)
        );
        assert_eq!((config.batch, config.promisc), (Some(8), Some(true)));
    }

    #[test]
    fn refusals_name_the_option_the_value_and_what_would_be_right() {
        for (text, parts) in [
            (
                "xdp:eth1,mode=offload",
                [
                    "mode=offload: programs on the device itself have no clock",
                    "want auto, native or skb",
                ],
            ),
            ("xdp:eth1,clock=tsc", ["clock=tsc", "poll or packet"]),
            ("xdp:eth1,check=none", ["check=none", "all or headers"]),
            ("xdp:eth1,batch=257", ["batch=257", "256"]),
            ("xdp:eth1,promisc=maybe", ["promisc=maybe", "on or off"]),
            ("xdp:eth1,queues=2", ["queues", "mode"]),
            ("xdp:", ["interface ''", "xdp"]),
        ] {
            let error = parse(text).expect_err(text).to_string();
            let told = parts.iter().all(|part| error.contains(part)) && !error.contains('\n');
            assert!(told, "{text}: {error}");
        }
    }
}
