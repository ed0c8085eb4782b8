//! DPDK's testpmd as the other end: spoken to at its prompt, its answers waited for.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::{Net, inside, missing, no_dpdk, wait_until};
use mpps_host::lab::Host;

/// Its command line in front of `--vdev`: no files, no sockets, no memory that others want; on no core of its own, as
/// others may have that for themselves; each line told at once.
pub const TESTPMD: &str = "stdbuf -oL dpdk-testpmd --lcores=(0,1)@(0,1) --no-huge -m 256 --iova-mode=va --no-shconf \
                           --no-telemetry --no-pci";

/// True, and said, where testpmd, or the path that it is the other end of, is not there.
pub fn no_testpmd() -> bool {
    no_dpdk() || missing("dpdk-testpmd", "dpdk-dev or dpdk") || missing("stdbuf", "coreutils")
}

/// A running testpmd; ended when dropped.
pub struct Testpmd {
    child: Child,
    stdin: ChildStdin,
    /// What it said at its prompt, and in its log.
    heard: Arc<Mutex<String>>,
    logged: Arc<Mutex<String>>,
}

/// Collects what comes by `from`, by the line, until that ends.
fn hear(from: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let heard = Arc::new(Mutex::new(String::new()));
    let told = Arc::clone(&heard);
    thread::spawn(move || {
        let mut reader = BufReader::new(from);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            told.lock().expect("no panic").push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
    heard
}

impl Testpmd {
    /// Starts it in a mode and waits until it forwards. `command` ends with its EAL's arguments.
    ///
    /// # Panics
    /// When it does not.
    pub fn start(command: Command, mode: &str) -> Self {
        Self::start_with(command, mode, &[])
    }

    /// The same with more arguments.
    ///
    /// # Panics
    /// When it does not forward.
    pub fn start_with(mut command: Command, mode: &str, more: &[&str]) -> Self {
        let words = "-- -i --no-flush-rx --disable-link-check --no-mlockall --total-num-mbufs=8192 --forward-mode";
        command.args(words.split_whitespace()).arg(mode).args(more);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("start {command:?}: {e}"));
        let stdin = child.stdin.take().expect("piped");
        let heard = hear(child.stdout.take().expect("piped"));
        let logged = hear(child.stderr.take().expect("piped"));
        let mut testpmd = Self {
            child,
            stdin,
            heard,
            logged,
        };
        testpmd.ask("start", "packet forwarding packets/burst");
        testpmd
    }

    /// Starts it in a mode between the two links of host b.
    ///
    /// # Panics
    /// When it does not forward.
    pub fn between(net: &Net, mode: &str) -> Self {
        let mut command = inside(&net.lab, Host::B, TESTPMD);
        // Rings that hold all packets of a run: on a busy host it is kept from them for long.
        let vdev = |n, device| format!("--vdev=net_af_packet{n},iface={device},framecnt=4096");
        command.args([vdev(0, "eth1"), vdev(1, "eth2")]);
        Self::start(command, mode)
    }

    /// Starts it as the end of a memif that connects, again until a server takes it: its driver does not try again
    /// after one whose port had not started yet has refused it.
    ///
    /// # Panics
    /// When none does.
    pub fn connected(mut command: impl FnMut() -> Command, mode: &str) -> Self {
        let mut testpmd = None;
        wait_until("a server that takes testpmd", || {
            // One before has ended first: its driver would hold the place.
            drop(testpmd.take());
            let mut command = command();
            command.arg("--log-level=pmd.net.memif:debug");
            let started = testpmd.insert(Self::start(command, mode));
            let said = |words: &str| started.logged.lock().expect("no panic").contains(words);
            wait_until("testpmd's link, or a refusal", || {
                said("Connected.") || said("Disconnected")
            });
            !said("Disconnected") || said("Connected.")
        });
        testpmd.expect("one that is connected")
    }

    /// Says something at its prompt and gives what it said since, when that holds `answer`.
    ///
    /// # Panics
    /// When it has ended, or does not answer.
    pub fn ask(&mut self, words: &str, answer: &str) -> String {
        let before = self.heard.lock().expect("no panic").len();
        writeln!(self.stdin, "{words}").expect("testpmd reads");
        let mut said = String::new();
        let mut running = true;
        wait_until(&format!("testpmd's answer to {words}"), || {
            said = self.heard.lock().expect("no panic")[before..].to_owned();
            running = self.child.try_wait().expect("a child of ours").is_none();
            said.contains(answer) || !running
        });
        assert!(running, "testpmd has ended: {}", self.heard.lock().expect("no panic"));
        said
    }

    /// Stops it forwarding; what it has received and sent since it started.
    ///
    /// # Panics
    /// When it does not say.
    pub fn stop(&mut self) -> (u64, u64) {
        let said = self.ask("stop", "Done.");
        let count = |name: &str| first_number(&said, name).unwrap_or_else(|| panic!("{name} in {said}"));
        (count("RX-packets:"), count("TX-packets:"))
    }

    /// Number of the process that was started.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Says `quit` at its prompt and waits for its end: exit code, and what it logged.
    ///
    /// # Panics
    /// When it does not end.
    pub fn quit(mut self) -> (Option<i32>, String) {
        writeln!(self.stdin, "quit").expect("testpmd reads");
        let mut code = None;
        wait_until("testpmd's end", || {
            code = self.child.try_wait().expect("a child of ours");
            code.is_some()
        });
        // What it said last may still be on its way.
        let (mut last, mut same) = (0, 0);
        wait_until("testpmd's last words", || {
            let now = self.logged.lock().expect("no panic").len();
            same = if now == last { same + 1 } else { 0 };
            last = now;
            same == 20
        });
        let logged = self.logged.lock().expect("no panic").clone();
        (code.and_then(|status| status.code()), logged)
    }

    /// What its port has received and sent so far.
    ///
    /// # Panics
    /// When it does not say.
    pub fn counts(&mut self) -> (u64, u64) {
        let said = self.ask("show port stats 0", "Tx-pps:");
        let count = |name: &str| first_number(&said, name).unwrap_or_else(|| panic!("{name} in {said}"));
        (count("RX-packets:"), count("TX-packets:"))
    }
}

fn first_number(text: &str, name: &str) -> Option<u64> {
    let (_, rest) = text.split_once(name)?;
    rest.split_whitespace().next()?.parse().ok()
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
