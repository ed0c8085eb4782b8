//! Counters that the kernel keeps for a whole network namespace (`/proc/net/snmp`, `snmp6`, `netstat`).

use mpps_io::around::KernelCount;

/// One reading; what can't be read is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelCounts(Vec<(KernelCount, u64)>);

impl KernelCounts {
    /// Reads them.
    pub fn now() -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
        Self::of(&read("snmp"), &read("snmp6"), &read("netstat"))
    }

    fn of(snmp: &str, snmp6: &str, netstat: &str) -> Self {
        let all = [
            (
                KernelCount::ReversePathFilter,
                in_table(netstat, "TcpExt", "IPReversePathFilter"),
            ),
            (KernelCount::TimeExceeded, in_table(snmp, "Icmp", "InTimeExcds")),
            (KernelCount::TimeExceeded, in_list(snmp6, "Icmp6InTimeExcds")),
            (KernelCount::Unreachable, in_table(snmp, "Icmp", "InDestUnreachs")),
            (KernelCount::Unreachable, in_list(snmp6, "Icmp6InDestUnreachs")),
            (KernelCount::TooBig, in_list(snmp6, "Icmp6InPktTooBigs")),
        ];
        Self(
            all.into_iter()
                .filter_map(|(count, value)| Some((count, value?)))
                .collect(),
        )
    }

    /// Returns the counters that rose since `before`, each with its increase. Nothing is known of a counter that was
    /// read only once.
    pub fn since(&self, before: &Self) -> Vec<(KernelCount, u64)> {
        let mut rose: Vec<(KernelCount, u64)> = Vec::new();
        if self.0.len() != before.0.len() {
            return rose;
        }
        for ((count, now), (_, then)) in self.0.iter().zip(&before.0) {
            let more = now.saturating_sub(*then);
            match rose.iter_mut().find(|(known, _)| known == count) {
                _ if more == 0 => {}
                Some((_, n)) => *n += more,
                None => rose.push((*count, more)),
            }
        }
        rose
    }
}

/// A counter of `snmp` and `netstat`: a line of names, then one of values, each led by the protocol.
fn in_table(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text
        .lines()
        .filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(": "));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split(' ').position(|of| of == name)?;
    values.split(' ').nth(place)?.parse().ok()
}

/// A counter of `snmp6`: a name and a value on each line.
fn in_list(text: &str, name: &str) -> Option<u64> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    pairs.find(|(of, _)| *of == name)?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name_and_unread_ones_are_unknown() {
        let snmp = |n: u64| format!("Ip: A B\nIp: 1 2\nIcmp: InMsgs InDestUnreachs InTimeExcds\nIcmp: 9 4 {n}\n");
        let snmp6 = "Icmp6InDestUnreachs             \t1\nIcmp6InPktTooBigs \t5\nIcmp6InTimeExcds \t7\n";
        let netstat = "TcpExt: X IPReversePathFilter\nTcpExt: 3 8\nIpExt: Y\nIpExt: 1\n";
        let before = KernelCounts::of(&snmp(10), snmp6, netstat);
        assert_eq!(before.0.len(), 6);
        let now = KernelCounts::of(&snmp(13), snmp6, netstat);
        assert_eq!(now.since(&before), [(KernelCount::TimeExceeded, 3)]);
        assert_eq!(now.since(&KernelCounts::of("", snmp6, netstat)), []);
        assert_eq!(
            KernelCounts::of("Icmp: InTimeExcds\nIcmp: x", "Icmp6InTimeExcds", "").0,
            []
        );
    }
}
