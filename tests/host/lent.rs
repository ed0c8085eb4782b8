//! A program with file capabilities (`setcap`), run by a user who has none: the user runs no code of their own with
//! them, opens no file of another's, and gets the paths that they were given for.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Command;

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Finished, Net, assert_refused, inside, missing, net_of, no_dpdk, program, run_command, skip,
    threads_of, wait_until,
};
use rustix::process::Signal;

const NOBODY: u32 = 65_534;
const AS_NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups";
/// Those of the quick start.
const ADVISED: &str = "cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon,cap_ipc_lock+ep";

/// A library that says in a file what its process may do, once it is loaded.
const EVIL: &str = r#"
#include <stdio.h>
#include <string.h>
__attribute__((constructor)) static void run(void)
{
	char line[256];
	FILE *in = fopen("/proc/self/status", "r"), *out = fopen(MARK, "a");

	while (in != NULL && out != NULL && fgets(line, sizeof(line), in) != NULL)
		if (strncmp(line, "CapEff", 6) == 0)
			fputs(line, out);
	if (out != NULL)
		fclose(out);
}
"#;

/// A copy of the program with capabilities, and a folder of nobody's beside it. DPDK loads nothing from below folders
/// that everybody may write to, so `/tmp` would hide what this is about.
struct Installed(tempfile::TempDir);

impl Installed {
    /// Copies it. `None`, and said, where that can't be.
    fn with(capabilities: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip("file capabilities are given by root");
            return None;
        }
        if missing("setcap", "libcap2-bin") || missing("setpriv", "util-linux") {
            return None;
        }
        let folder = tempfile::Builder::new()
            .prefix("mpps-test-")
            .tempdir_in("/var/lib")
            .ok()?;
        // Should the test be killed, nobody but nobody may use the copy.
        chown(folder.path(), Some(0), Some(NOBODY)).expect("ours");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o750)).expect("ours");
        let this = Self(folder);
        std::fs::copy(program(), this.file("mpps")).expect("a copy");
        std::fs::create_dir(this.file("w")).expect("ours");
        chown(this.file("w"), Some(NOBODY), Some(NOBODY)).expect("ours");
        let set = run_command({
            let mut command = Command::new("setcap");
            command.arg(capabilities).arg(this.file("mpps"));
            command
        });
        if set.code != Some(0) {
            skip(&format!("setcap: {}", set.stderr.trim()));
            return None;
        }
        // Mounted without (nosuid), or not to be had in this container.
        let words = format!("{AS_NOBODY} {} send af_packet:lo --duration 1ms", this.path("mpps"));
        let tried = run_command(command(&words));
        if !tried.stderr.contains("--dest") {
            skip(&format!(
                "a copy with capabilities does not start: {}",
                tried.stderr.trim()
            ));
            return None;
        }
        Some(this)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn path(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }

    /// The program with these words, as nobody would start it.
    fn words(&self, words: &str) -> String {
        format!("{AS_NOBODY} {} {words}", self.path("mpps"))
    }

    /// The library, which writes to `w/mark`. `None`, and said, without a compiler.
    fn evil(&self) -> Option<String> {
        if missing("cc", "gcc") {
            return None;
        }
        std::fs::write(self.file("evil.c"), EVIL).expect("ours");
        let built = run_command({
            let mut command = Command::new("cc");
            command.args(["-shared", "-fPIC", "-o"]).arg(self.file("evil.so"));
            command
                .arg(format!("-DMARK=\"{}\"", self.path("w/mark")))
                .arg(self.file("evil.c"));
            command
        });
        assert_eq!(built.code, Some(0), "{}", built.stderr);
        Some(self.path("evil.so"))
    }

    /// What the library or a program has said.
    fn marks(&self) -> Option<String> {
        std::fs::read_to_string(self.file("w/mark")).ok()
    }
}

fn command(words: &str) -> Command {
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words);
    command
}

/// That it was refused by name, and that nothing of the user's has run.
fn assert_nothing_ran(installed: &Installed, command: Command, parts: &[&str]) {
    let name = format!("{command:?}");
    assert_refused(command, 2, parts);
    assert_eq!(installed.marks(), None, "{name}");
}

#[test]
fn dpdk_loads_no_library_or_program_of_the_users() {
    if no_dpdk() {
        return;
    }
    let Some(installed) = Installed::with(ADVISED) else {
        return;
    };
    let Some(evil) = installed.evil() else { return };
    let Some(net) = net_of(1) else { return };
    let line = |words: &str| command(&installed.words(words));
    // By an argument of the EAL.
    let mut by_eal = line("drop dpdk:net_null0 --duration 10ms --quiet --eal");
    by_eal.arg(format!("--no-huge -m 64 -d {evil}"));
    assert_nothing_ran(&installed, by_eal, &["setcap", "dpdk:net_null0"]);
    // By a device's firmware, whose file names it.
    let firmware = format!("pipeline P build lib {evil} io {} numa 0\n", installed.path("x.io"));
    std::fs::write(installed.file("fw.cli"), firmware).expect("ours");
    std::fs::write(
        installed.file("x.io"),
        "port in 0 ring RXQ0 bsz 1\nport out 0 ring TXQ0 bsz 1\n",
    )
    .expect("ours");
    let softnic = format!(
        "drop dpdk:net_softnic0,firmware={} --duration 10ms --quiet",
        installed.path("fw.cli")
    );
    assert_nothing_ran(&installed, line(&softnic), &["setcap", "net_softnic0"]);
    // By a program for the kernel.
    std::fs::copy(
        concat!(env!("CARGO_MANIFEST_DIR"), "/../xdp/redirect.bpf.o"),
        installed.file("leak.o"),
    )
    .expect("ours");
    let leak = installed.path("leak.o");
    let words = format!("drop dpdk:net_af_xdp0,iface=eth1,xdp_prog={leak} --duration 10ms --quiet");
    let in_lab = inside(&net.lab, Host::B, &installed.words(&words));
    assert_nothing_ran(&installed, in_lab, &["setcap", "net_af_xdp0"]);
    // And so with every device, in every command, and as the second port.
    for words in [
        "reflect dpdk:0000:03:00.0",
        "send dpdk:mac=02:00:00:00:00:01 --dest 10.99.0.2:9000",
        "forward null: dpdk:net_pcap0,tx_pcap=/etc/x",
        "capture dpdk:net_memif0,socket=/run/x -o -",
        "drop dpdk:",
    ] {
        assert_nothing_ran(&installed, line(words), &["setcap", "dpdk:"]);
    }
    assert_nothing_ran(&installed, line("drop null: --eal -m64"), &["--eal", "setcap"]);
    // Nor by a file of options.
    std::fs::write(
        installed.file("eal.toml"),
        format!("eal = \"--no-huge -m 64 -d {evil}\"\n"),
    )
    .expect("ours");
    let by_file = format!("drop null: --config {}", installed.path("eal.toml"));
    assert_nothing_ran(&installed, line(&by_file), &["eal: no file decides", "command line"]);
}

#[test]
fn neither_a_library_nor_a_program_that_the_environment_names_gets_any() {
    let Some(installed) = Installed::with(ADVISED) else {
        return;
    };
    let Some(evil) = installed.evil() else { return };
    // Tools that the doctor and the demo look for: the user's come first in PATH.
    std::fs::create_dir(installed.file("bin")).expect("ours");
    let tool = format!(
        "#!/bin/sh\ngrep CapEff /proc/self/status >> {}\n",
        installed.path("w/mark")
    );
    for name in ["ip", "ethtool", "zcat", "pkg-config", "sh", "tc"] {
        std::fs::write(installed.file("bin").join(name), &tool).expect("ours");
        std::fs::set_permissions(installed.file("bin").join(name), std::fs::Permissions::from_mode(0o755))
            .expect("ours");
    }
    let with = |words: &str| {
        let mut command = command(&installed.words(words));
        command.env(
            "PATH",
            format!("{}:/usr/bin:/bin:/usr/sbin:/sbin", installed.path("bin")),
        );
        // `setpriv` itself is found by the test, and is not secured: its own load of the library is not what is asked
        // about.
        command
    };
    let preloaded = |words: &str| {
        let words = format!(
            "{AS_NOBODY} env LD_PRELOAD={evil} LD_AUDIT={evil} {} {words}",
            installed.path("mpps")
        );
        run_command(command(&words))
    };
    for words in [
        "drop null: --duration 10ms --quiet",
        "doctor",
        "plot /nonexistent.csv -o /tmp/x.svg",
        "report /nonexistent.json -o /tmp/x.html",
    ] {
        let finished = preloaded(words);
        let with_some = installed.marks().unwrap_or_default();
        assert!(only_without(&with_some), "{words}: {with_some} {}", finished.stderr);
    }
    let _ = std::fs::remove_file(installed.file("w/mark"));
    let doctor = run_command(with("doctor"));
    assert!(doctor.stdout.contains("af_packet"), "{}", doctor.stderr);
    let marks = installed.marks().expect("the doctor runs tools");
    assert!(only_without(&marks), "{marks}");
    for words in [
        "lab status",
        "lab up",
        &format!("lab exec a -- {}", installed.path("bin/ip")),
    ] {
        std::fs::remove_file(installed.file("w/mark")).ok();
        assert_nothing_ran(&installed, with(words), &["lab", "setcap"]);
    }
    assert_nothing_ran(
        &installed,
        with("drop null: --keep-privileges"),
        &["--keep-privileges", "setcap"],
    );
}

/// That every process that said what it may do may do nothing.
fn only_without(marks: &str) -> bool {
    marks.lines().all(|line| {
        line.trim_start_matches("CapEff:")
            .trim()
            .bytes()
            .all(|digit| digit == b'0')
    })
}

#[test]
fn its_users_open_files_as_themselves_whatever_it_was_given() {
    let Some(installed) = Installed::with("cap_dac_override,cap_fowner,cap_sys_admin,cap_net_raw+ep") else {
        return;
    };
    std::fs::write(installed.file("theirs"), "theirs").expect("ours");
    for option in ["--csv", "--json", "--hdr"] {
        for file in ["theirs", "new"] {
            let words = format!("send null: --duration 10ms --quiet {option} {}", installed.path(file));
            assert_refused(
                command(&installed.words(&words)),
                2,
                &[option, file, "ermission denied"],
            );
        }
    }
    let words = format!("capture null: --duration 10ms --quiet -o {}", installed.path("new"));
    assert_refused(command(&installed.words(&words)), 2, &["-o", "ermission denied"]);
    let words = format!("plot {} -o {}", installed.path("none.csv"), installed.path("new.svg"));
    assert_eq!(run_command(command(&installed.words(&words))).code, Some(2));
    assert_eq!(
        std::fs::read_to_string(installed.file("theirs")).expect("there"),
        "theirs"
    );
    assert!(!installed.file("new").exists() && !installed.file("new.svg").exists());
    // What may not be read is not read either.
    std::fs::write(installed.file("secret.csv"), "time_s,tx_packets\n").expect("ours");
    std::fs::set_permissions(installed.file("secret.csv"), std::fs::Permissions::from_mode(0o600)).expect("ours");
    let words = format!("plot {} -o {}", installed.path("secret.csv"), installed.path("w/x.svg"));
    let finished = run_command(command(&installed.words(&words)));
    assert!(finished.stderr.contains("ermission denied"), "{}", finished.stderr);
}

/// Runs a reflector with privileges of its own on host b, and the installed program on host a.
fn measured(net: &Net, installed: &Installed, path: &str) -> Finished {
    let reflector = Background::ready(net.b(&format!("reflect {path}:eth1")));
    let (csv, json) = (installed.path("w/run.csv"), installed.path("w/run.json"));
    let words = format!(
        "sendrecv {path}:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 2kpps --duration 1h --settle 100ms \
         --interval 20ms --csv {csv} --json {json}"
    );
    let mut process = Background::start(inside(&net.lab, Host::A, &installed.words(&words)));
    let mut running = true;
    wait_until("rows", || {
        running = process.running();
        let rows = std::fs::read_to_string(&csv).unwrap_or_default();
        rows.lines()
            .skip(1)
            .any(|row| row.split(',').nth(2).is_some_and(|n| n != "0"))
            || !running
    });
    assert!(running, "{path}: {}", process.stderr());
    let threads = threads_of(&process);
    let files = format!("/proc/{}/environ", process.id());
    let owner = std::fs::metadata(files).expect("it runs").uid();
    let finished = process.end(Signal::INT);
    drop(reflector);
    for thread in &threads {
        assert_eq!(
            (thread.permitted, thread.handed_down, thread.no_new_privs),
            (0, 0, true),
            "{path}: {thread:?}"
        );
        assert_eq!(thread.uids, [NOBODY; 4], "{path}: {thread:?}");
    }
    // Its user can't attach a debugger and take over the sockets that it holds.
    assert_eq!(owner, 0, "{path}: it can be dumped");
    assert_eq!(std::fs::metadata(&csv).expect("written").uid(), NOBODY);
    assert_eq!(std::fs::metadata(&json).expect("written").uid(), NOBODY);
    let summary: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).expect("written")).expect("JSON");
    assert!(summary["rx_packets"].as_u64() > Some(0), "{path}: {summary:#}");
    for file in [csv, json] {
        std::fs::remove_file(file).expect("ours");
    }
    finished
}

#[test]
fn the_paths_that_it_was_given_for_work_and_hold_nothing_while_packets_move() {
    let Some(installed) = Installed::with(ADVISED) else {
        return;
    };
    let Some(net) = net_of(1) else { return };
    for path in ["af_packet", "af_xdp", "xdp"] {
        let finished = measured(&net, &installed, path);
        assert!(matches!(finished.code, Some(0 | 3)), "{path}: {}", finished.stderr);
    }
}

#[test]
fn a_set_user_id_program_refuses_to_run() {
    let Some(installed) = Installed::with(ADVISED) else {
        return;
    };
    for mode in [0o4755, 0o2755] {
        std::fs::set_permissions(installed.file("mpps"), std::fs::Permissions::from_mode(mode)).expect("ours");
        for words in ["doctor", "drop null: --duration 10ms", "--version"] {
            assert_refused(command(&installed.words(words)), 2, &["set-user-ID", "setcap"]);
        }
    }
}
