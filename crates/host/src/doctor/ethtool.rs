//! Parses the output of `ethtool`; pure.

/// A pair of tables, in the output of `-l` (channels) and `-g` (rings): the largest and the current values by name
/// (`RX`, `TX`, `Combined`). Values that the device does not have (`n/a`) are left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    largest: Vec<(String, u64)>,
    current: Vec<(String, u64)>,
}

impl Limits {
    /// Reads the output of `ethtool -l` or `-g`.
    pub(super) fn parse(text: &str) -> Self {
        let mut limits = Self::default();
        let mut table = None;
        for line in text.lines() {
            if line.starts_with("Pre-set maximums") {
                table = Some(&mut limits.largest);
            } else if line.starts_with("Current hardware settings") {
                table = Some(&mut limits.current);
            } else if let (Some(table), Some((key, value))) = (&mut table, line.split_once(':'))
                && let Ok(value) = value.trim().parse()
            {
                table.push((key.trim().to_owned(), value));
            }
        }
        limits
    }

    /// Current and largest value of each name that can be raised above zero, in the order printed.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.largest
            .iter()
            .filter(|(_, largest)| *largest > 0)
            .filter_map(|(key, largest)| {
                let (_, current) = self.current.iter().find(|(k, _)| k == key)?;
                Some((key.as_str(), *current, *largest))
            })
    }
}

/// One line of `ethtool -k`: whether the feature is on, and whether that can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Feature {
    pub(super) on: bool,
    pub(super) fixed: bool,
}

/// Looks a feature up in the output of `ethtool -k`.
pub(super) fn feature(text: &str, name: &str) -> Option<Feature> {
    let value = super::parse::keyed(text, name)?;
    let mut words = value.split_whitespace();
    let on = match words.next()? {
        "on" => true,
        "off" => false,
        _ => return None,
    };
    Some(Feature {
        on,
        fixed: words.any(|w| w == "[fixed]"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RINGS: &str = "Ring parameters for eth0:\nPre-set maximums:\nRX:\t\t4096\nRX Mini:\tn/a\nTX:\t\t4096\n\
                         Current hardware settings:\nRX:\t\t256\nRX Mini:\tn/a\nTX:\t\t4096\nTX Push:\toff\n";
    const CHANNELS: &str = "Channel parameters for eth0:\nPre-set maximums:\nRX:\t\t0\nTX:\t\t0\nOther:\t\tn/a\n\
                            Combined:\t8\nCurrent hardware settings:\nRX:\t\t0\nTX:\t\t0\nCombined:\t2\n";
    const FEATURES: &str = "Features for eth0:\nrx-checksumming: on\n\ttx-checksum-ipv4: off [fixed]\n\
                            large-receive-offload: off [fixed]\ngeneric-receive-offload: on\nodd: maybe\n";

    #[test]
    fn rings_and_channels_are_read_and_what_is_not_there_is_left_out() {
        assert_eq!(
            Limits::parse(RINGS).pairs().collect::<Vec<_>>(),
            [("RX", 256, 4096), ("TX", 4096, 4096)]
        );
        assert_eq!(
            Limits::parse(CHANNELS).pairs().collect::<Vec<_>>(),
            [("Combined", 2, 8)]
        );
        assert_eq!(
            Limits::parse("netlink error: Operation not supported").pairs().count(),
            0
        );
    }

    #[test]
    fn features_tell_on_from_fixed() {
        assert_eq!(
            feature(FEATURES, "generic-receive-offload"),
            Some(Feature { on: true, fixed: false })
        );
        assert_eq!(
            feature(FEATURES, "tx-checksum-ipv4"),
            Some(Feature { on: false, fixed: true })
        );
        assert_eq!(feature(FEATURES, "odd"), None);
        assert_eq!(feature(FEATURES, "absent"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "[ -~\n\t]{0,200}") {
            let _ = Limits::parse(&text).pairs().count();
            let _ = feature(&text, "a");
        }
    }
}
