//! Memory that this process may still take, and one plain line if it gets none.

use crate::cgroup::Groups;
use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::read_to_string;
use std::io::Write;

/// Memory that may still be taken, and the source of its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// Bytes.
    pub bytes: u64,
    /// Source of the limit, as the start of a sentence: "this host has", …
    pub who: String,
}

/// Returns the least of the memory that the host has available, the memory that its control groups leave, and
/// `RLIMIT_AS` (`ulimit -v`). `None` if none of them is known.
pub fn available() -> Option<Available> {
    let of = |bytes: Option<u64>, who: &str| {
        let who = who.to_owned();
        bytes.map(|bytes| Available { bytes, who })
    };
    let group = Groups::live().memory().map(|memory| Available {
        bytes: memory.left,
        who: format!("the limit of control group {} ({}) leaves", memory.group, memory.file),
    });
    [
        of(host(), "this host has"),
        group,
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

fn address_space() -> Option<u64> {
    let most = rustix::process::getrlimit(rustix::process::Resource::As).current?;
    let text = read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(most.saturating_sub(pages * rustix::param::page_size() as u64))
}

/// The system's allocator. If there is no memory it reports that in one line and ends the program with exit code 1;
/// Rust would end it by a signal.
#[derive(Debug)]
pub struct Plain;

// SAFETY: every method passes its arguments on to the system's allocator, whose contract is the same, and returns what
// that returned; if that is null the process ends.
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

/// Reports without an allocation that memory was refused, and ends the program.
#[cold]
fn refused(size: usize) -> ! {
    let mut line = [0; 160];
    let mut rest = &mut line[..];
    // The text fits into the line.
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
    fn something_is_available_and_no_more_than_the_host_has() {
        let available = available().expect("proc is there");
        assert!(
            available.bytes > 0 && available.bytes <= host().unwrap(),
            "{available:?}"
        );
    }
}
