//! DPDK's environment: started once a process, ended when the last port is closed.

use crate::memory;
use crate::{Config, Device, EalArgs};
use dpdk_sys as sys;
use mpps_io::{Error, ErrorKind, Result};
use std::ffi::{CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard};

/// State of DPDK in this process.
#[derive(Default)]
struct State {
    running: bool,
    ended: bool,
    ports: usize,
    /// Packet memory of all ports, as addresses; freed when the last port has closed: a frame may lie in the ring of
    /// another port than it came in by.
    pools: Vec<usize>,
}

static STATE: Mutex<State> = Mutex::new(State {
    running: false,
    ended: false,
    ports: 0,
    pools: Vec::new(),
});

/// Longest transmit ring that a port of the run asks for. Apart from the state: it is read while that is locked.
static LONGEST_TX_RING: AtomicU16 = AtomicU16::new(0);
/// Set when a driver is asked to receive into memory that is not the buffers' own.
static EXTERNAL_BUFFERS: AtomicBool = AtomicBool::new(false);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Starts DPDK for the ports of a run, with the cores of its lanes over all of them, `None` for a lane that is not
/// pinned. A second call does nothing.
///
/// # Errors
/// When the EAL refuses: with what it logged. When it has been ended: DPDK can't be started twice in a process.
pub fn start(configs: &[&Config], eal: &EalArgs, cores: &[Option<usize>]) -> Result<()> {
    let mut state = state();
    if state.running {
        return Ok(());
    }
    if state.ended {
        let cause = "it was ended, and DPDK can't be started twice in one process";
        return Err(Error::new("start", "DPDK", cause, ErrorKind::Other));
    }
    let (pci, mac) = (
        |d: &Device| matches!(d, Device::Pci(_)),
        |d: &Device| matches!(d, Device::Mac(_)),
    );
    if configs.iter().any(|c| pci(&c.device)) && configs.iter().any(|c| mac(&c.device)) {
        let cause = "one port is named by its PCI address and one by its MAC address: want both by one of them";
        return Err(Error::new("start", "DPDK", cause, ErrorKind::NotFound));
    }
    let longest = configs.iter().filter_map(|c| c.tx_ring).max().unwrap_or(0);
    LONGEST_TX_RING.store(longest, Ordering::Relaxed);
    let external = |(key, value): &(String, String)| key == "mprq_en" && value != "0";
    let any = configs.iter().any(|c| c.driver_args.iter().any(external));
    EXTERNAL_BUFFERS.store(any, Ordering::Relaxed);
    let needed = memory::needed(configs, cores.len());
    remove_left_folders(|pid| !Path::new(&format!("/proc/{pid}")).exists());
    let words = arguments(configs, eal, needed, memory::free_hugepages(cores));
    if words.iter().any(|word| word == "--no-huge")
        && let Some(available) = memory::available().filter(|available| needed > *available)
    {
        let cause = format!(
            "its buffers take {} MiB, and {} MiB are available: want fewer (mbufs=N, rxd=N, txd=N) or fewer lanes",
            needed >> 20,
            available >> 20
        );
        return Err(Error::new("start", "DPDK", cause, ErrorKind::Unsupported));
    }
    let keep_log = !eal.has("--log-level");
    let owned: Vec<CString> = words.iter().map(|word| c_string(word)).collect();
    let mut argv: Vec<*mut c_char> = owned.iter().map(|word| word.as_ptr().cast_mut()).collect();
    argv.push(std::ptr::null_mut());
    // SAFETY: `argv` holds `argc` strings that end with a zero, and a null behind them. EAL permutes the array but does
    // not write to the strings; it keeps copies of what it needs, and both live until the call returns.
    let result = unsafe { sys::mpps_eal_init(owned.len() as c_int, argv.as_mut_ptr(), c_int::from(keep_log)) };
    if result < 0 {
        state.ended = true;
        // If the EAL refuses, a folder of its own stays behind.
        remove_left_folders(|pid| pid == std::process::id());
        let shown = words[1..].join(" ");
        return Err(Error::new(
            "start DPDK with",
            format!("'{shown}'"),
            cause_of(result),
            ErrorKind::Other,
        ));
    }
    state.running = true;
    Ok(())
}

/// Removes the folders that the EAL makes for each process of mpps and then does not use. `of_whom` selects the
/// processes. A folder that is not empty stays.
fn remove_left_folders(of_whom: impl Fn(u32) -> bool) {
    // The same choice as in the EAL (eal_create_runtime_dir).
    let base = match rustix::process::getuid().is_root() {
        true => PathBuf::from("/var/run"),
        false => std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from),
    };
    for entry in std::fs::read_dir(base.join("dpdk")).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("mpps")?.parse().ok());
        if pid.is_some_and(&of_whom) {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

/// The command line of the EAL for `needed` bytes of packet memory.
fn arguments(configs: &[&Config], eal: &EalArgs, needed: usize, free_hugepages: usize) -> Vec<String> {
    let mut words = vec!["mpps".to_owned()];
    // The main thread keeps every core it may run on: lanes are threads of our own, pinned by the engine.
    let cores: Vec<String> = mpps_sys::sched::allowed_cores().iter().map(usize::to_string).collect();
    words.push(format!("--lcores=0@({})", cores.join(",")));
    let mut ours = |option: &str, value: Option<String>| {
        if !eal.has(option) {
            words.push(option.to_owned());
            words.extend(value);
        }
    };
    ours("--no-telemetry", None);
    // The EAL makes a directory for files that it then does not need; removing one of a common name would take it from
    // under another program that is just starting.
    ours("--file-prefix", Some(format!("mpps{}", std::process::id())));
    let memory_given = eal.has("-m") || eal.has("--socket-mem") || eal.has("--socket-limit");
    let files = ["--file-prefix", "--huge-dir", "--legacy-mem", "--huge-unlink"];
    if eal.has("--no-huge") || (free_hugepages < needed && !memory_given) {
        // `--in-memory` is for huge pages: with ordinary ones the configuration is all that could be shared.
        ours("--no-huge", None);
        ours("--no-shconf", None);
        if !memory_given {
            ours("-m", Some((needed >> 20).max(1).to_string()));
        }
    } else if !files.iter().any(|option| eal.has(option)) {
        // A user who names files wants them: memory then stays in files.
        ours("--in-memory", None);
    }
    if !configs.iter().all(|config| config.is_virtual()) {
        for config in configs {
            if let Device::Pci(_) = config.device {
                words.extend(["-a".to_owned(), config.devargs()]);
            }
        }
    } else {
        ours("--no-pci", None);
        // Virtual devices know no physical addresses.
        ours("--iova-mode", Some("va".to_owned()));
    }
    words.extend(eal.words.iter().cloned());
    words
}

/// Longest transmit ring that a port of the run asks for, descriptors; 0: none does.
pub(crate) fn longest_tx_ring() -> u16 {
    LONGEST_TX_RING.load(Ordering::Relaxed)
}

/// Whether a buffer may be one that must not be put back as it is: then no port frees fast.
pub(crate) fn external_buffers() -> bool {
    EXTERNAL_BUFFERS.load(Ordering::Relaxed)
}

/// A port has been opened.
pub(crate) fn port_opened() {
    state().ports += 1;
}

/// Keeps packet memory until the last port has closed.
pub(crate) fn keep_pool(pool: *mut sys::RteMempool) {
    state().pools.push(pool as usize);
}

/// A port has been closed, or could not be opened after all: with the last one DPDK ends.
pub(crate) fn port_closed() {
    let mut state = state();
    state.ports -= 1;
    if state.ports > 0 || !state.running {
        return;
    }
    for pool in state.pools.drain(..) {
        // SAFETY: made by `mpps_pool_create`, kept once, freed once; no port is open, so no ring holds its buffers, and
        // frames borrow a port's pool, so none is left either.
        unsafe { sys::mpps_pool_free(pool as *mut sys::RteMempool) };
    }
    state.running = false;
    state.ended = true;
    // SAFETY: the EAL runs, and nothing of it is in use any more.
    unsafe { sys::mpps_eal_cleanup() };
}

/// Returns the meaning of a negative errno, with what DPDK logged about it.
pub(crate) fn cause_of(result: c_int) -> String {
    match (logged(), errno_text(result)) {
        (Some(log), Some(plain)) => format!("{log} ({plain})"),
        (Some(log), None) => log,
        (None, plain) => plain.unwrap_or_else(|| "DPDK does not say why".to_owned()),
    }
}

/// The text of a negative errno; `None` for -1, with which drivers mean that something went wrong.
pub(crate) fn errno_text(result: c_int) -> Option<String> {
    let text = std::io::Error::from_raw_os_error(-result).to_string();
    let plain = text.split(" (os error").next().unwrap_or(&text);
    (result != -1).then(|| plain.to_lowercase())
}

/// The lines that DPDK logged last, in one; `None` if it logged nothing.
pub(crate) fn logged() -> Option<String> {
    let mut text = vec![0u8; 8192];
    // SAFETY: at most `text.len()` bytes are written.
    let n = unsafe { sys::mpps_log_take(text.as_mut_ptr().cast(), text.len()) };
    text.truncate(n);
    last_lines(&mpps_io::hide_secrets(&String::from_utf8_lossy(&text)))
}

/// Returns the last meaningful lines of a log, joined: the user sees a single line.
fn last_lines(log: &str) -> Option<String> {
    const MOST: usize = 3;
    // Every start logs these, and they explain nothing.
    const IDLE: [&str; 9] = [
        "register mp action callback",
        "Detected CPU lcores",
        "Detected NUMA nodes",
        "Detected static linkage",
        "Detected shared linkage",
        "Selected IOVA mode",
        "VFIO support initialized",
        "Multi-process socket",
        "Static memory layout is selected",
    ];
    let told = |line: &&str| !line.is_empty() && !IDLE.iter().any(|idle| line.contains(idle));
    let mut lines: Vec<&str> = log.lines().map(str::trim).filter(told).collect();
    // A repeated attempt logs the same lines again.
    lines.dedup();
    let last = &lines[lines.len().saturating_sub(MOST)..];
    (!last.is_empty()).then(|| last.join("; "))
}

/// A string for C. A zero inside would end it early: no argument that comes from a command line has one.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        crate::check(&text.parse().expect("a port")).expect("valid")
    }

    #[test]
    fn virtual_devices_leave_the_buses_alone_and_nothing_on_disk() {
        let null = config("dpdk:net_null0");
        let words = arguments(&[&null], &EalArgs::default(), 1 << 20, usize::MAX);
        for word in ["--in-memory", "--no-telemetry", "--no-pci"] {
            assert!(words.iter().any(|w| w == word), "{word} in {words:?}");
        }
        assert!(!words.iter().any(|w| w == "--no-huge"), "{words:?}");
    }

    #[test]
    fn without_hugepages_ordinary_memory_is_sized_for_the_run() {
        let null = config("dpdk:net_null0");
        let needed = memory::needed(&[&null], 2);
        let words = arguments(&[&null], &EalArgs::default(), needed, 0);
        let at = words.iter().position(|w| w == "-m").expect("-m");
        let mib: usize = words[at + 1].parse().expect("MiB");
        assert!(mib << 20 >= needed - (1 << 20), "{words:?}");
        assert!(
            words.iter().any(|w| w == "--no-huge") && words.iter().any(|w| w == "--no-shconf"),
            "{words:?}"
        );
        assert!(!words.iter().any(|w| w == "--in-memory"), "{words:?}");
    }

    #[test]
    fn what_the_user_says_replaces_what_mpps_would_say() {
        let null = config("dpdk:net_null0");
        let eal = crate::check_eal("--no-huge -m 77 --iova-mode=pa").expect("valid");
        let words = arguments(&[&null], &eal, 1 << 20, 0);
        assert_eq!(words.iter().filter(|w| *w == "-m").count(), 1, "{words:?}");
        assert_eq!(
            words.iter().filter(|w| w.starts_with("--iova-mode")).count(),
            1,
            "{words:?}"
        );
        let files = crate::check_eal("--file-prefix=x").expect("valid");
        let words = arguments(&[&null], &files, 1 << 20, usize::MAX);
        assert!(!words.iter().any(|w| w == "--in-memory"), "{words:?}");
    }

    #[test]
    fn pci_devices_are_the_only_ones_taken_from_the_bus() {
        let nic = config("dpdk:03:00.0,mprq_en=1");
        let words = arguments(&[&nic], &EalArgs::default(), 1 << 20, usize::MAX);
        let at = words.iter().position(|w| w == "-a").expect("-a");
        assert_eq!(words[at + 1], "0000:03:00.0,mprq_en=1");
        assert!(!words.iter().any(|w| w == "--no-pci"), "{words:?}");
    }

    #[test]
    fn a_log_is_told_by_its_last_lines() {
        assert_eq!(
            last_lines("EAL: Detected CPU lcores: 2\nEAL: Detected NUMA nodes: 1\n"),
            None
        );
        assert_eq!(last_lines("a\nb\nb\nb\n").as_deref(), Some("a; b"));
        let log = "a\n\nb\nc\nd\n";
        assert_eq!(last_lines(log).as_deref(), Some("b; c; d"));
    }
}
