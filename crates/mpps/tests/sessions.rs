//! Sessions on each path: trials on ports that are opened once account for every packet of their own, and hold nothing
//! afterwards. The example `trials` runs them, in a process of its own: this one again, called by another name.

#[allow(dead_code, reason = "the example has a main function")]
#[path = "../examples/trials.rs"]
mod trials;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MPPS: &str = env!("CARGO_BIN_EXE_mpps");

/// Words for the example, where this process is to be it.
const WORDS: &str = "MPPS_TEST_TRIALS";

/// The example, in a process of its own: in the others this tests nothing.
#[test]
fn trials_in_a_process_of_its_own() {
    if let Ok(words) = std::env::var(WORDS) {
        trials::run(words.split(' ').map(str::to_owned)).expect("trials");
    }
}

/// Has a command run the example, whose program stands at its end.
fn example(mut command: Command, words: &[&str]) -> Command {
    command.args(["--exact", "trials_in_a_process_of_its_own", "--nocapture"]);
    command.env(WORDS, words.join(" "));
    command
}

/// This program.
fn own() -> PathBuf {
    std::env::current_exe().expect("this program")
}

/// Two hosts on a veth pair, until it is dropped.
struct Lab(String);

impl Lab {
    /// `None`, with the reason printed, where none can be made.
    fn up(path: &str) -> Option<Self> {
        let lab = Self(format!("trials-{path}-{}", std::process::id()));
        let made = Command::new(MPPS).args(["lab", "up", "--name", &lab.0]).output();
        let made = made.expect("the program");
        if !made.status.success() {
            println!("SKIPPED: no lab: {}", String::from_utf8_lossy(&made.stderr));
            return None;
        }
        Some(lab)
    }

    /// A command on a host of the lab.
    fn on(&self, host: &str, program: &str) -> Command {
        let mut command = Command::new(MPPS);
        command.args(["lab", "exec", "--name", &self.0, host, "--", program]);
        command
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = Command::new(MPPS).args(["lab", "down", "--name", &self.0]).output();
    }
}

/// A reflector that answers; it goes with this.
struct Reflector {
    child: Child,
    json: PathBuf,
}

impl Reflector {
    fn start(mut command: Command, port: &str) -> Self {
        let json = std::env::temp_dir().join(format!(
            "mpps-trials-{}-{}.csv",
            std::process::id(),
            port.replace(':', "-")
        ));
        let child = command
            .args(["reflect", port, "--quiet", "--csv"])
            .arg(&json)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the reflector");
        let mut this = Self { child, json };
        // Its file has rows once its lanes receive.
        let until = Instant::now() + Duration::from_secs(60);
        while std::fs::read_to_string(&this.json).unwrap_or_default().lines().count() < 2 {
            assert!(
                this.child.try_wait().expect("a child").is_none(),
                "the reflector on {port} has ended"
            );
            assert!(Instant::now() < until, "no reflector on {port}");
            std::thread::sleep(Duration::from_millis(20));
        }
        this
    }
}

impl Drop for Reflector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.json);
    }
}

/// The number of `key` in a line of `key=value` words.
fn number(line: &str, key: &str) -> i64 {
    let word = line
        .split(' ')
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    word.and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("{key} in {line}"))
}

/// The two numbers of `key`.
fn pair(line: &str, key: &str) -> (i64, i64) {
    let word = line
        .split(' ')
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let (a, b) = word
        .and_then(|text| text.split_once(','))
        .unwrap_or_else(|| panic!("{key} in {line}"));
    (a.parse().expect("a number"), b.parse().expect("a number"))
}

/// `SESSION_TRIALS`, or 100.
fn number_of_trials() -> usize {
    let given = std::env::var("SESSION_TRIALS").ok();
    given.map_or(100, |number| number.parse().expect("SESSION_TRIALS: a number"))
}

/// Runs trials from a port; what they told adds up, and the process ends with what it had after a tenth of them.
fn account(command: Command, port: &str, more: &[&str]) {
    let number_of = number_of_trials();
    let trials = number_of.to_string();
    let line = ["--rate", "5kpps", "--duration", "20ms", "--settle", "100ms"];
    let words = [&[&trials, "sendrecv", port], more, &line].concat();
    let done = example(command, &words).output().expect("the example");
    let said = String::from_utf8_lossy(&done.stdout);
    let complaint = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{port}: {complaint}{said}");
    let lines = said.lines().filter_map(|line| line.find("trial").map(|at| &line[at..]));
    let lines: Vec<_> = lines.filter(|line| line.contains('=')).collect();
    let (last, all) = lines.split_last().expect("lines");
    assert_eq!(all.len(), number_of, "{said}");
    let mut back = 0;
    for line in all {
        let of = |key| number(line, key);
        // Of 100 departures those are missing that a busy host kept from leaving.
        assert!((0..=100).contains(&of("tx")), "{port}: {line}");
        assert_eq!(of("tx"), of("rx") + of("lost") + of("late"), "{port}: {line}");
        // Foreign is what else the hosts say to each other.
        assert_eq!(of("corrupt"), 0, "{port}: {line}");
        back += of("rx");
    }
    assert!(back > 0, "{port}: nothing came back: {said}");
    println!("{port}: {last}");
    for key in ["descriptors", "threads"] {
        let (early, late) = pair(last, key);
        // What an earlier trial held a little longer is gone by then.
        assert!(late <= early, "{port}: {last}");
    }
    let (early, late) = pair(last, "resident_kb");
    // What loading takes goes back to the allocator, which keeps some of it.
    let most = if port.starts_with("xdp:") { 32 << 10 } else { 4 << 10 };
    assert!(late - early < most, "{port}: {last}");
}

#[test]
fn udp_trials_account_for_their_packets_and_leave_nothing_open() {
    let reflector = "udp:127.0.0.1:39017";
    let _reflector = Reflector::start(Command::new(MPPS), reflector);
    let dest = ["--dest", "127.0.0.1:39017"];
    account(Command::new(own()), "udp:127.0.0.1", &dest);
}

#[test]
fn io_uring_trials_account_for_their_packets_and_leave_nothing_open() {
    let reflector = "io_uring:127.0.0.1:39018";
    let _reflector = Reflector::start(Command::new(MPPS), reflector);
    let dest = ["--dest", "127.0.0.1:39018"];
    account(Command::new(own()), "io_uring:127.0.0.1", &dest);
}

/// The same on a path over an interface.
fn over_an_interface(path: &str, port: &str) {
    let Some(lab) = Lab::up(path) else { return };
    let reflector = if path == "dpdk" { "af_packet:eth1" } else { port };
    let _reflector = Reflector::start(lab.on("b", MPPS), reflector);
    let program = own();
    let own = lab.on("a", program.to_str().expect("a plain path"));
    let more = ["--src", "10.99.0.1", "--dest", "10.99.0.2:9000"];
    account(own, port, &more);
}

#[test]
fn af_packet_trials_account_for_their_packets_and_leave_nothing_open() {
    over_an_interface("af_packet", "af_packet:eth1");
}

#[test]
fn af_xdp_trials_account_for_their_packets_and_leave_nothing_open() {
    over_an_interface("af_xdp", "af_xdp:eth1");
}

#[test]
fn dpdk_trials_account_for_their_packets_and_leave_nothing_open() {
    over_an_interface("dpdk", "dpdk:net_af_packet0,iface=eth1");
}

/// Keeps what it gets until a sequence number comes again: another trial has begun. Then it returns all that it has
/// kept, and from then on what comes.
const HOLD: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
# SO_RCVBUFFORCE: a frame of the kernel's programs takes a page, and this may be kept from running for all of a trial.
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 22)
s.bind(("10.99.0.2", 9000))
print("ready", flush=True)
kept, seen = [], set()
while True:
    data, peer = s.recvfrom(2048)
    number = data[:8]
    if kept is not None and number in seen:
        for packet in kept:
            s.sendto(*packet)
        print("returned", len(kept), flush=True)
        kept = None
    if kept is None:
        s.sendto(data, peer)
    else:
        kept.append((data, peer))
        seen.add(number)
"#;

#[test]
fn late_packets_of_an_earlier_trial_in_the_kernel_are_foreign_in_the_later_one_and_nothing_else() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("SKIPPED: no python3");
        return;
    }
    let Some(lab) = Lab::up("late") else { return };
    let mut holder = lab.on("b", "python3");
    holder
        .args(["-u", "-c", HOLD])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut holder = holder.spawn().expect("python3");
    let mut said = std::io::BufReader::new(holder.stdout.take().expect("a pipe"));
    let mut line = String::new();
    let _ = std::io::BufRead::read_line(&mut said, &mut line);
    assert_eq!(line, "ready\n");
    // Patient: all departures are made, whatever else runs here; and with one flow each number is sent once.
    let words = "3 sendrecv xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --src-port-range 10000-10000 --rate 1kpps \
                 --duration 100ms --catch-up 10s --settle 3s";
    let program = own();
    let command = lab.on("a", program.to_str().expect("a plain path"));
    let done = example(command, &words.split(' ').collect::<Vec<_>>()).output();
    line.clear();
    let _ = std::io::BufRead::read_line(&mut said, &mut line);
    let _ = holder.kill();
    let _ = holder.wait();
    let done = done.expect("the example");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{}{said}", String::from_utf8_lossy(&done.stderr));
    let lines = said
        .lines()
        .filter_map(|line| line.find("trial=").map(|at| &line[at..]));
    let counts = lines.map(|line| {
        [
            "tx",
            "rx",
            "lost",
            "late",
            "other_run",
            "foreign",
            "corrupt",
            "duplicates",
        ]
        .map(|key| number(line, key))
    });
    let counts: Vec<_> = counts.collect();
    assert_eq!(counts[0], [100, 0, 100, 0, 0, 0, 0, 0], "{said}");
    assert_eq!(line, "returned 100\n", "{said}");
    assert_eq!(counts[1], [100, 100, 0, 0, 100, 100, 0, 0], "{said}");
    assert_eq!(counts[2], [100, 100, 0, 0, 0, 0, 0, 0], "{said}");
    // The programs served all of them.
    assert_eq!(said.matches("loaded=true").count(), 1, "{said}");
}

#[test]
fn xdp_trials_account_for_their_packets_and_leave_no_program_behind() {
    over_an_interface("xdp", "xdp:eth1");
}
