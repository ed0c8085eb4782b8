//! Offsets of this process's time namespace (`time_namespaces(7)`).
//!
//! In a time namespace `CLOCK_MONOTONIC` and `CLOCK_BOOTTIME` are ahead of the host's by offsets that are fixed before
//! its first process starts. What the kernel itself stamps is never shifted: `bpf_ktime_get_ns` in XDP programs, times
//! of perf events and of tracepoints. Nor do two namespaces agree on the age of a packet. Times in `mpps` are therefore
//! the host's: readings less the offset.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

/// How far clocks of the namespace are ahead of the host's, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offsets {
    /// Offset of `CLOCK_MONOTONIC`.
    pub monotonic_ns: i64,
    /// Offset of `CLOCK_BOOTTIME`.
    pub boottime_ns: i64,
}

/// Link of the namespace that a host starts with (`PROC_TIME_INIT_INO`): it has no offsets.
const INITIAL: &str = "time:[4026531834]";

static OFFSETS: OnceLock<Result<Offsets, String>> = OnceLock::new();

/// Returns the offsets, read once from `/proc`.
///
/// # Errors
/// The reason, in one line, if they can't be read. Clocks are then taken as they are.
pub fn offsets() -> Result<Offsets, &'static str> {
    match OFFSETS.get_or_init(|| read(Path::new("/proc/self"))) {
        Ok(offsets) => Ok(*offsets),
        Err(why) => Err(why),
    }
}

/// Returns the offset of `CLOCK_MONOTONIC`; 0 if it can't be read.
#[inline]
pub(super) fn monotonic_ns() -> i64 {
    offsets().map_or(0, |offsets| offsets.monotonic_ns)
}

/// Returns the same if it was read before, else 0: reads no file, so a signal handler may call it.
pub(crate) fn known_monotonic_ns() -> i64 {
    match OFFSETS.get() {
        Some(Ok(offsets)) => offsets.monotonic_ns,
        _ => 0,
    }
}

/// Checks that a clock of the kernel, read in units of 2^20 ns modulo 2^32, agrees with [`super::monotonic_ns`]. Reads
/// it only if the offsets are not known.
///
/// # Errors
/// The reason, in one line, if the clocks differ or if that can't be found out.
pub fn agrees(kernel: impl FnOnce() -> io::Result<u32>) -> Result<(), String> {
    match offsets() {
        Ok(_) => Ok(()),
        Err(why) => differs(why, kernel, super::monotonic_ns),
    }
}

fn differs(why: &str, kernel: impl FnOnce() -> io::Result<u32>, now_ns: impl Fn() -> u64) -> Result<(), String> {
    let before = (now_ns() >> 20) as u32;
    let read = kernel().map_err(|e| format!("{why}, and the kernel's own clock can't be read: {e}"))?;
    let width = ((now_ns() >> 20) as u32).wrapping_sub(before);
    if read.wrapping_sub(before) <= width {
        return Ok(());
    }
    Err(format!(
        "this process's clock differs from the kernel's (a time namespace), and {why}"
    ))
}

/// Reads the offsets of the process whose folder in `/proc` is `process`.
fn read(process: &Path) -> Result<Offsets, String> {
    let failed = |name: &str, e: &io::Error| format!("{}: {e}", process.join(name).display());
    let own = match fs::read_link(process.join("ns/time")) {
        Ok(link) => link,
        // A kernel without time namespaces lists the others.
        Err(e) if e.kind() == io::ErrorKind::NotFound && process.join("ns/mnt").is_symlink() => {
            return Ok(Offsets::default());
        }
        Err(e) => return Err(failed("ns/time", &e)),
    };
    if own == Path::new(INITIAL) {
        return Ok(Offsets::default());
    }
    // The file has the offsets of the namespace that children start in.
    let children =
        fs::read_link(process.join("ns/time_for_children")).map_err(|e| failed("ns/time_for_children", &e))?;
    if own != children {
        let file = process.join("timens_offsets");
        return Err(format!("{} is of another time namespace", file.display()));
    }
    let text = fs::read_to_string(process.join("timens_offsets")).map_err(|e| failed("timens_offsets", &e))?;
    parse(&text).ok_or_else(|| {
        let file = process.join("timens_offsets");
        format!("{}: not two clocks with offsets", file.display())
    })
}

/// Reads lines of a clock's name (a number before Linux 5.7), seconds and nanoseconds.
fn parse(text: &str) -> Option<Offsets> {
    let of = |names: [&str; 2]| {
        let mut words = text
            .lines()
            .map(str::split_ascii_whitespace)
            .find_map(|mut words| names.contains(&words.next()?).then_some(words))?;
        let (seconds, ns) = (words.next()?.parse::<i64>().ok()?, words.next()?.parse::<i64>().ok()?);
        seconds.checked_mul(1_000_000_000)?.checked_add(ns)
    };
    Some(Offsets {
        monotonic_ns: of(["monotonic", "1"])?,
        boottime_ns: of(["boottime", "7"])?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_with_names_and_with_numbers_and_may_be_negative() {
        let offsets = |monotonic_ns, boottime_ns| {
            Some(Offsets {
                monotonic_ns,
                boottime_ns,
            })
        };
        let text = "monotonic      100000         0\nboottime           -7 250000000\n";
        assert_eq!(parse(text), offsets(100_000_000_000_000, -6_750_000_000));
        assert_eq!(parse("1 -30 5\n7 0 0\n"), offsets(-29_999_999_995, 0));
        for bad in [
            "",
            "monotonic 1 2",
            "monotonic 1\nboottime 0 0",
            "monotonic 9999999999999 0\nboottime 0 0",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_unknown_and_a_namespace_of_children_is_not_this_ones() {
        use std::os::unix::fs::symlink;
        let folder = std::env::temp_dir().join(format!("mpps-timens-{}", std::process::id()));
        let ns = folder.join("ns");
        let _ = fs::remove_dir_all(&folder);
        assert!(read(&folder).is_err(), "hidden");
        fs::create_dir_all(&ns).unwrap();
        symlink("mnt:[1]", ns.join("mnt")).unwrap();
        assert_eq!(
            read(&folder),
            Ok(Offsets::default()),
            "a kernel without time namespaces"
        );
        symlink(INITIAL, ns.join("time")).unwrap();
        assert_eq!(read(&folder), Ok(Offsets::default()), "the host's own");
        fs::remove_file(ns.join("time")).unwrap();
        symlink("time:[77]", ns.join("time")).unwrap();
        symlink("time:[78]", ns.join("time_for_children")).unwrap();
        fs::write(folder.join("timens_offsets"), "monotonic 5 0\nboottime 0 0\n").unwrap();
        assert!(read(&folder).unwrap_err().ends_with("is of another time namespace"));
        fs::remove_file(ns.join("time_for_children")).unwrap();
        symlink("time:[77]", ns.join("time_for_children")).unwrap();
        assert_eq!(read(&folder).unwrap().monotonic_ns, 5_000_000_000);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn clocks_agree_if_the_kernels_reading_lies_between_two_of_ours() {
        let ours = || 100u64 << 20;
        assert_eq!(differs("unread", || Ok(100), ours), Ok(()));
        for far in [99, 101, 5, u32::MAX] {
            let why = differs("unread", || Ok(far), ours).unwrap_err();
            assert!(why.contains("a time namespace") && why.ends_with("unread"), "{why}");
        }
        assert!(differs("unread", || Err(io::ErrorKind::PermissionDenied.into()), ours).is_err());
        assert_eq!(
            agrees(|| Err(io::ErrorKind::Other.into())),
            Ok(()),
            "known here: not asked"
        );
    }
}
