//! Capabilities by their number in `<linux/capability.h>`.

/// The effective capabilities, a bit each, in the text of a thread's `/proc/…/status`; `None` if it does not say.
pub fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_set_is_read_and_no_other() {
        let status = "Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t0000000000003000\n";
        assert_eq!(effective(status), Some(1 << 12 | 1 << 13));
        assert_eq!(effective("CapPrm:\t000001ffffffffff\n"), None);
    }
}
