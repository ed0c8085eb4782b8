//! What is peculiar to `net_tap`: it applies flow rules by the kernel's `tc flower`.

use std::io::Read;

/// Whether this kernel has the classifier that `net_tap` needs, in words for the end of a refusal.
pub(crate) fn flower() -> String {
    let what = "net_tap applies flow rules by the kernel's tc flower";
    match configured() {
        Some(false) => format!("{what}, which this kernel lacks (CONFIG_NET_CLS_FLOWER is not set)"),
        Some(true) => format!("{what}, which this kernel has: is the rule one that it can apply?"),
        None => format!("{what}: does `tc filter add dev IFACE ingress flower` work on this host?"),
    }
}

/// Whether the kernel was configured with it. Source: `/proc/config.gz` or `/boot/config-RELEASE`; `None` where neither
/// can be read.
fn configured() -> Option<bool> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let boot = std::fs::read_to_string(format!("/boot/config-{}", release.trim())).ok();
    let text = boot.or_else(|| {
        // The kernel's copy is compressed; zcat is on every system that has it.
        let mut child = std::process::Command::new("zcat")
            .arg("/proc/config.gz")
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .ok()?;
        let mut text = String::new();
        child.stdout.take()?.read_to_string(&mut text).ok()?;
        child.wait().ok().filter(std::process::ExitStatus::success)?;
        Some(text)
    })?;
    Some(has_flower(&text))
}

fn has_flower(config: &str) -> bool {
    config
        .lines()
        .any(|line| matches!(line, "CONFIG_NET_CLS_FLOWER=y" | "CONFIG_NET_CLS_FLOWER=m"))
}

#[cfg(test)]
mod tests {
    use super::has_flower;

    #[test]
    fn a_kernel_has_flower_if_it_was_built_in_or_as_a_module() {
        assert!(has_flower("CONFIG_NET_CLS=y\nCONFIG_NET_CLS_FLOWER=m\n"));
        assert!(!has_flower("# CONFIG_NET_CLS_FLOWER is not set\n"));
    }
}
