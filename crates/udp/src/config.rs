//! The user's settings, checked: address and options. Opens nothing.

use mpps_io::{PortSpec, SpecError};
use mpps_sockets::Config;

/// Checks address and options of `udp:[ADDR[:PORT]][,options]`: those of [`Config::read`], and `busy_poll=USECS`.
///
/// # Errors
/// One line that names what was wrong and what would be right.
pub fn check(spec: &PortSpec) -> Result<Config, SpecError> {
    let mut options = spec.take_options();
    let config = Config::read(spec, &mut options)?;
    let busy_poll = options.number("busy_poll", 0..=1_000_000)?.map(|n| n as u32);
    options.finish()?;
    Ok(Config { busy_poll, ..config })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_polling_is_taken_beside_what_all_sockets_have() {
        let parse = |text: &str| check(&text.parse().expect("spec")).map_err(|e| e.0);
        let config = parse("udp:127.0.0.1,sockets=7,busy_poll=50").expect("valid");
        assert_eq!((config.sockets, config.busy_poll), (7, Some(50)));
        let refused = parse("udp:127.0.0.1,busy_poll=-1").expect_err("refused");
        assert!(refused.contains("busy_poll=-1"), "{refused}");
        let refused = parse("udp:10.0.0.1,queues=2").expect_err("refused");
        assert!(refused.contains("unknown option 'queues'"), "{refused}");
    }
}
