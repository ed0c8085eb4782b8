//! Parses values in the kernel's text; pure.

/// Expands a list of CPUs or nodes (`0-3,8,10-11`); `None` when it is not one. The kernel's lists stay far below
/// the limit of 65,536.
pub(super) fn list(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.trim().split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= 65_536 {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

/// Returns whether a CPU mask (`00000000,0000000f`) has any bit set.
pub(super) fn mask_is_set(text: &str) -> bool {
    text.chars().any(|c| c.is_ascii_hexdigit() && c != '0')
}

/// Returns the value of the first line with this key before its `:`.
pub(super) fn keyed<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (k, v) = line.split_once(':')?;
        (k.trim() == key).then(|| v.trim())
    })
}

/// Returns major and minor number of a kernel release (`6.18.44-fc`).
pub(crate) fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Returns the choice in brackets (`always [madvise] never`).
pub(super) fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

/// Returns the soft limit in a line of `/proc/self/limits`; `u64::MAX` for unlimited.
pub(super) fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    let rest = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match rest.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        n => n.parse().ok(),
    }
}

/// Returns the share of the time since boot that the hypervisor gave to others, from `/proc/stat`'s first line: 0 to 1.
pub(super) fn steal_share(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|l| l.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal; guest times after them are part of user.
    let times: Vec<u64> = line
        .split_whitespace()
        .take(8)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let total: u64 = times.iter().sum();
    (times.len() == 8 && total > 0).then(|| times[7] as f64 / total as f64)
}

/// Returns the number of threads that ran, or waited for a core or a disk, on average over the last minute: the first
/// number of `/proc/loadavg`.
pub(super) fn load(text: &str) -> Option<f64> {
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    (load.is_finite() && load >= 0.0).then_some(load)
}

/// Returns number and name of each interrupt in `/proc/interrupts` that has a number.
pub(super) fn interrupts(text: &str) -> Vec<(u32, String)> {
    let numbered = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        Some((number.trim().parse().ok()?, rest.split_whitespace().last()?.to_owned()))
    };
    text.lines().filter_map(numbered).collect()
}

/// Returns bytes in the unit that reads best.
pub(super) fn bytes(n: u64) -> String {
    match n {
        u64::MAX => "unlimited".into(),
        n if n >= 1 << 30 && n % (1 << 30) == 0 => format!("{} GiB", n >> 30),
        n if n >= 1 << 20 && n % (1 << 20) == 0 => format!("{} MiB", n >> 20),
        n if n >= 1 << 10 => format!("{} KiB", n >> 10),
        n => format!("{n} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_expand_and_nonsense_is_refused() {
        assert_eq!(list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(list(""), Some(vec![]));
        for bad in ["2-1", "a", "0-99999999", "1-", "-"] {
            assert_eq!(list(bad), None, "{bad}");
        }
    }

    #[test]
    fn lines_of_proc_are_read() {
        assert_eq!(keyed("a : 1\nab: 2", "ab"), Some("2"));
        assert_eq!(kernel_version("6.18.44-fc-v595"), Some((6, 18)));
        assert_eq!(kernel_version("x"), None);
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        let limits = "Max locked memory         8388608              unlimited            bytes";
        assert_eq!(soft_limit(limits, "Max locked memory"), Some(8_388_608));
        assert_eq!(
            soft_limit("Max open files   unlimited  unlimited  files", "Max open files"),
            Some(u64::MAX)
        );
        assert_eq!(steal_share("cpu  50 0 20 20 0 0 0 10 0 0\ncpu0 1"), Some(0.1));
        assert_eq!(steal_share("cpu  0 0 0 0 0 0 0 0 0 0"), None);
        assert_eq!(load("2.50 1.00 0.75 3/412 9001"), Some(2.5));
        assert_eq!((load(""), load("nan 1"), load("-1 1")), (None, None, None));
        assert!(mask_is_set("00000000,00000003") && !mask_is_set("0,00"));
        let text = "      CPU0 CPU1\n 38:  0  4190 PCI-MSIX-0000:00:03.0 1-edge virtio2-input.0\nNMI: 0 0 Non-maskable";
        assert_eq!(interrupts(text), [(38, "virtio2-input.0".to_owned())]);
        assert_eq!(
            (bytes(8 << 20), bytes(212_992), bytes(u64::MAX)),
            ("8 MiB".into(), "208 KiB".into(), "unlimited".into())
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "[ -~\n]{0,200}") {
            let _ = (list(&text), mask_is_set(&text), keyed(&text, "a"), kernel_version(&text), chosen(&text));
            let _ = (soft_limit(&text, "M"), steal_share(&text), interrupts(&text));
        }

        #[test]
        fn a_list_of_ranges_is_what_it_says(ranges in prop::collection::vec((0usize..500, 0usize..20), 0..6)) {
            let text = ranges.iter().map(|(a, n)| format!("{a}-{}", a + n)).collect::<Vec<_>>().join(",");
            let all: Vec<usize> = ranges.iter().flat_map(|&(a, n)| a..=a + n).collect();
            prop_assert_eq!(list(&text), Some(all));
        }
    }
}
