//! How much memory this process may still take, and one plain line where it gets none.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::read_to_string;
use std::io::Write;
use std::path::Path;

/// Memory that may still be taken, and by what it is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Available {
    /// Bytes.
    pub bytes: u64,
    /// What says so: "this host has", …
    pub who: &'static str,
}

/// The least of what the host has available, what its control groups leave, and `RLIMIT_AS` (`ulimit -v`). `None` where
/// nothing tells.
pub fn available() -> Option<Available> {
    let of = |bytes: Option<u64>, who| bytes.map(|bytes| Available { bytes, who });
    [
        of(host(), "this host has"),
        of(control_groups(), "this control group has"),
        of(address_space(), "ulimit -v leaves"),
    ]
    .into_iter()
    .flatten()
    .min_by_key(|a| a.bytes)
}

/// `MemAvailable` of proc_meminfo(5).
fn host() -> Option<u64> {
    let text = read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// What `memory.max` leaves over what is in use, in the group of this process and in those above it (cgroup v2).
fn control_groups() -> Option<u64> {
    let text = read_to_string("/proc/self/cgroup").ok()?;
    let group = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let number = |file: &Path| read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let own = root.join(group);
    let groups = own.ancestors().take_while(|folder| folder.starts_with(root));
    groups
        .filter_map(|folder| {
            let most = number(&folder.join("memory.max"))?;
            let current = number(&folder.join("memory.current")).unwrap_or(0);
            let stat = read_to_string(folder.join("memory.stat")).unwrap_or_default();
            Some(most.saturating_sub(in_use(current, &stat)))
        })
        .min()
}

/// Bytes of a group that are not given back on demand: `memory.current` counts files that were read or written once,
/// which the kernel drops when memory is wanted (`inactive_file` of `memory.stat`).
fn in_use(current: u64, stat: &str) -> u64 {
    let cached = stat.lines().find_map(|line| line.strip_prefix("inactive_file "));
    current.saturating_sub(cached.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0))
}

fn address_space() -> Option<u64> {
    let most = rustix::process::getrlimit(rustix::process::Resource::As).current?;
    let text = read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(most.saturating_sub(pages * rustix::param::page_size() as u64))
}

/// The system's allocator, which says in one line that there is no memory and ends the program with exit code 1, where
/// Rust would end it by a signal.
#[derive(Debug)]
pub struct Plain;

// SAFETY: every method passes its arguments on to the system's allocator, whose contract is the same, and returns what
// that returned; where that is null the process ends.
unsafe impl GlobalAlloc for Plain {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds GlobalAlloc's contract.
        given(unsafe { System.alloc(layout) }, layout.size())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as in `alloc`.
        given(unsafe { System.realloc(memory, layout, size) }, size)
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as in `alloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[inline]
fn given(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() {
        refused(size);
    }
    memory
}

/// Says so without an allocation, and ends the program.
#[cold]
fn refused(size: usize) -> ! {
    let mut line = [0; 160];
    let mut rest = &mut line[..];
    // It fits.
    let _ = writeln!(
        rest,
        "mpps: out of memory: {size} bytes more were refused: want fewer flows, lanes or buffers, or a higher limit"
    );
    let left = rest.len();
    let _ = rustix::io::write(std::io::stderr(), &line[..line.len() - left]);
    // SAFETY: it ends the process and returns nowhere. Destructors of others might ask for memory again.
    unsafe { libc::_exit(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_the_kernel_keeps_on_trust_are_not_memory_in_use() {
        let stat = "anon 4096\nfile 900\ninactive_anon 7\nactive_file 300\ninactive_file 600\n";
        assert_eq!(in_use(5000, stat), 4400);
        assert_eq!((in_use(5000, ""), in_use(100, stat)), (5000, 0));
    }

    #[test]
    fn something_is_available_and_no_more_than_the_host_has() {
        let available = available().expect("proc is there");
        assert!(
            available.bytes > 0 && available.bytes <= host().unwrap(),
            "{available:?}"
        );
    }
}
