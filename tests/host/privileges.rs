//! What a run may do while packets move: nothing, but for what must be undone at its end; and under sudo the user who
//! called is who it is, and whose files it makes.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::Command;

use mpps_tests::{
    Background, Bridge, Memif, NET_ADMIN, Net, Report, Scratch, assert_refused, missing, mpps, net_of, no_dpdk, run,
    run_command, skip, threads_of, wait_until,
};
use rustix::process::Signal;

/// Somebody who is not root; nobody's programs run by it.
const NOBODY: u32 = 65_534;
const TRAFFIC: &str = "--src 10.99.0.1 --dest 10.99.0.2:9000 --rate 2kpps --duration 1h --settle 100ms --catch-up 1s";
/// What libxdp needs to take its program back: NET_ADMIN, NET_RAW, SYS_ADMIN, PERFMON, BPF.
const AF_XDP: u64 = NET_ADMIN | 1 << 13 | 1 << 21 | 1 << 38 | 1 << 39;

/// To have the kernel count what its programs take.
const SYS_ADMIN: u64 = 1 << 21;

/// Which threads of a run may hold what; all others nothing.
type Kept<'k> = &'k [(&'k str, u64)];

/// What lies between the threads' credentials and what they should be.
fn wrong(process: &Background, kept: Kept<'_>) -> Vec<String> {
    let threads = threads_of(process);
    assert!(threads.len() >= 3, "main thread, lane and a writer: {threads:?}");
    let may = |name: &str| {
        let found = kept.iter().find(|(thread, _)| *thread == name || *thread == "*");
        found.map_or(0, |(_, set)| *set)
    };
    let fine = |thread: &&mpps_tests::Thread| {
        thread.permitted == may(&thread.name)
            && thread.effective & !thread.permitted == 0
            && thread.handed_down == 0
            && thread.no_new_privs
    };
    threads
        .iter()
        .filter(|thread| !fine(thread))
        .map(|thread| format!("{thread:x?}"))
        .collect()
}

/// A program that runs, with its results.
struct Running {
    scratch: Scratch,
    process: Background,
    words: String,
}

impl Running {
    fn start(words: &str, mut command: Command) -> Self {
        let scratch = Scratch::new();
        command.args(["--interval", "20ms", "--quiet"]);
        let mut running = Self {
            process: Background::start(scratch.results(command)),
            scratch,
            words: words.to_owned(),
        };
        running.wait("a row", |scratch| scratch.rows_so_far() > 0);
        running
    }

    fn wait(&mut self, what: &str, condition: impl Fn(&Scratch) -> bool) {
        let (scratch, process) = (&self.scratch, &mut self.process);
        let mut alive = true;
        wait_until(&format!("{what} of '{}'", self.words), || {
            alive = process.running();
            condition(scratch) || !alive
        });
        assert!(alive, "'{}' has ended: {}", self.words, process.stderr());
    }

    /// Ends it once packets have moved while it held no more than this; its report.
    fn end(mut self, kept: Kept<'_>) -> Report {
        self.wait("a row with packets in it", |scratch| scratch.busy_rows() > 0);
        let wrong = wrong(&self.process, kept);
        let report = self.scratch.read(self.process.end(Signal::INT));
        assert!(wrong.is_empty(), "{}: {wrong:#?}", self.words);
        report.assert_rows_add_up();
        report
    }
}

/// Both ends of a run, of which each holds what it may while packets move, and reports all the same.
fn both_ends((there, listen, kept_there): (Command, &str, Kept<'_>), (here, send, kept): (Command, &str, Kept<'_>)) {
    let listener = Running::start(listen, there);
    let sender = Running::start(send, here);
    let (sent, received) = std::thread::scope(|scope| {
        // The listener's rows fill up while the sender runs.
        let mut listener = listener;
        listener.wait("a row with packets in it", |scratch| scratch.busy_rows() > 0);
        let wrong = wrong(&listener.process, kept_there);
        assert!(wrong.is_empty(), "{listen}: {wrong:#?}");
        let sent = scope.spawn(|| sender.end(kept)).join().expect("the sender's checks");
        (sent, listener.end(kept_there))
    });
    assert!(sent.count("tx_packets") > 0, "{:#}", sent.json);
    assert!(received.count("rx_packets") > 0, "{:#}", received.json);
}

fn on(net: &Net, listen: &str, kept_there: Kept<'_>, send: &str) {
    both_ends((net.b(listen), listen, kept_there), (net.a(send), send, &[]));
}

#[test]
fn on_the_paths_of_the_kernel_no_thread_holds_anything_while_packets_move() {
    let Some(net) = net_of(1) else { return };
    let from = |path: &str| format!("sendrecv {path} {TRAFFIC}");
    on(&net, "reflect udp:10.99.0.2:9000", &[], &from("udp:10.99.0.1"));
    let io_uring = from("io_uring:10.99.0.1");
    on(&net, "reflect io_uring:10.99.0.2:9000", &[], &io_uring);
    on(
        &net,
        "drop io_uring:10.99.0.2:9000,sqpoll=50",
        &[],
        &format!("send io_uring:10.99.0.1,zerocopy=1 {TRAFFIC}"),
    );
    on(&net, "reflect af_packet:eth1", &[], &from("af_packet:eth1"));
    on(&net, "reflect af_xdp:eth1", &[], &from("af_xdp:eth1"));
    on(&net, "drop af_packet:eth1", &[], &format!("send af_xdp:eth1 {TRAFFIC}"));
    on(&net, "drop xdp:eth1", &[], &format!("send udp:10.99.0.1 {TRAFFIC}"));
    // A forwarder takes what is for others.
    let others = from("af_packet:eth1 --dest-mac 02:00:00:00:00:99").replace("10.99.0.2:", "10.99.0.9:");
    for forward in [
        "forward af_packet:eth1 --mode 5tswap",
        "forward af_xdp:eth1 --mode 5tswap",
    ] {
        on(&net, forward, &[], &others);
    }
    let scratch = Scratch::new();
    let capture = format!("capture af_packet:eth1 -o {}", scratch.file("x.pcapng").display());
    on(&net, &capture, &[], &format!("send af_packet:eth1 {TRAFFIC}"));
}

#[test]
fn the_kernels_programs_run_on_without_and_only_a_reflector_looks_at_the_other_end() {
    let Some(net) = net_of(1) else { return };
    // The other end of a veth is in another namespace: what is attached there is told to administrators. In reserve.
    let looks: Kept<'_> = &[("lane0", NET_ADMIN)];
    on(&net, "reflect xdp:eth1", looks, &format!("sendrecv xdp:eth1 {TRAFFIC}"));
    on(
        &net,
        "forward xdp:eth1 --mode 5tswap --take all",
        looks,
        &format!("sendrecv xdp:eth1 {TRAFFIC}"),
    );
}

#[test]
fn one_thread_may_switch_the_kernels_count_of_programs_where_they_are_traced() {
    let Some(net) = net_of(1) else { return };
    let switches: Kept<'_> = &[("mpps-programs", SYS_ADMIN)];
    let scratch = Scratch::new();
    let traced = |name: &str| format!("--trace {}", scratch.file(name).display());
    let (listen, send) = (
        format!("drop xdp:eth1 {}", traced("there")),
        format!("send xdp:eth1 {TRAFFIC} {}", traced("here")),
    );
    both_ends((net.b(&listen), &listen, switches), (net.a(&send), &send, switches));
    // On other paths none does.
    let send = format!("send af_packet:eth1 {TRAFFIC} {}", traced("packet"));
    on(&net, "drop xdp:eth1", &[], &send);
}

#[test]
fn without_a_device_no_thread_holds_anything_either() {
    if !rustix::process::geteuid().is_root() {
        skip("only root has anything to give up");
        return;
    }
    for words in [
        "sendrecv loop: --rate 2kpps --duration 1h --lanes 2",
        "send null: --rate 2kpps --duration 1h",
        "drop null: --duration 1h",
    ] {
        Running::start(words, mpps(words)).end(&[]);
    }
}

#[test]
fn devices_of_dpdk_keep_what_their_drivers_undo_at_the_end() {
    if no_dpdk() || missing("ethtool", "ethtool") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    for words in [
        "reflect dpdk:net_null0,size=60",
        "send dpdk:net_null0,no-rx=1 --rate 2kpps --duration 1h",
    ] {
        Running::start(words, mpps(words)).end(&[]);
    }
    let memif = Memif::new();
    let (there, here) = (
        format!("reflect {} --ip 10.99.0.2", memif.server(0)),
        format!("sendrecv {} {TRAFFIC}", memif.client()),
    );
    both_ends((mpps(&there), &there, &[]), (mpps(&here), &here, &[]));
    let traffic = TRAFFIC
        .replace("10.99.0.1", "10.99.0.77")
        .replace("10.99.0.2", "10.99.0.88");
    for (device, kept) in [
        ("net_af_packet0", &[][..]),
        (
            "net_af_packet0,mtu=1400",
            &[("main", NET_ADMIN), ("eal-intr-thread", NET_ADMIN)],
        ),
        ("net_af_xdp0", &[("main", AF_XDP), ("eal-intr-thread", AF_XDP)]),
    ] {
        let listen = format!("reflect dpdk:{},iface=eth1 --ip 10.99.0.88", device);
        let send = format!("sendrecv af_packet:eth1 {traffic}");
        both_ends((net.b(&listen), &listen, kept), (net.a(&send), &send, &[]));
        // What it did is undone all the same.
        let link = net.on(mpps_host::lab::Host::B, "ip link show eth1").stdout;
        assert!(link.contains("mtu 1500") && !link.contains("xdp"), "{link}");
    }
    let bridge = Bridge::new(&net);
    let tap: Kept<'_> = &[("main", NET_ADMIN), ("eal-intr-thread", NET_ADMIN)];
    let reflect = "reflect dpdk:net_tap0,iface=tap0 --ip 10.99.0.88";
    let scratch = Scratch::new();
    let mut command = scratch.results(net.b(reflect));
    command.args(["--interval", "20ms"]);
    let process = bridge.join("tap0", "02:00:00:00:00:a0", command);
    net.on(mpps_host::lab::Host::B, "ip link set tap0 up");
    wait_until("a row", || scratch.rows_so_far() > 0);
    let wrong = wrong(&process, tap);
    let report = scratch.read(process.end(Signal::INT));
    assert!(wrong.is_empty(), "{wrong:#?}");
    report.assert_rows_add_up();
    let gone = run_command(mpps_tests::inside(
        &net.lab,
        mpps_host::lab::Host::B,
        "ip link show tap0",
    ));
    assert_ne!(gone.code, Some(0), "the tap is left behind: {}", gone.stdout);
}

#[test]
fn who_must_may_keep_everything() {
    if !rustix::process::geteuid().is_root() {
        skip("only root has anything to keep");
        return;
    }
    let mut command = mpps("sendrecv loop: --rate 2kpps --duration 1h --keep-privileges");
    command
        .env("SUDO_UID", NOBODY.to_string())
        .env("SUDO_GID", NOBODY.to_string());
    let mut running = Running::start("--keep-privileges", command);
    running.wait("a row with packets in it", |scratch| scratch.busy_rows() > 0);
    for thread in threads_of(&running.process) {
        assert!(
            thread.effective != 0 && thread.uids == [0; 4] && !thread.no_new_privs,
            "{thread:?}"
        );
    }
    let report = running.scratch.read(running.process.end(Signal::INT));
    let told = report.json["host"]["privileges"].as_str().unwrap_or_default();
    assert!(told.contains("--keep-privileges"), "{:#}", report.json["host"]);
}

/// A folder of its own that belongs to somebody.
fn folder_of(uid: u32, mode: u32) -> Scratch {
    let scratch = Scratch::new();
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(mode)).expect("ours");
    chown(scratch.path(), Some(uid), Some(uid)).expect("root may give away");
    scratch
}

fn by_sudo(mut command: Command) -> Command {
    command
        .env("SUDO_UID", NOBODY.to_string())
        .env("SUDO_GID", NOBODY.to_string())
        .env("SUDO_USER", "nobody");
    command
}

#[test]
fn under_sudo_a_run_becomes_the_user_and_so_do_its_files() {
    let Some(net) = net_of(1) else { return };
    let scratch = folder_of(NOBODY, 0o700);
    let (host, capture) = (net.b("reflect udp:10.99.0.2:9000"), scratch.file("x.pcapng"));
    let _reflector = Running::start("reflect", host);
    let send = format!("send af_packet:eth1 {TRAFFIC} --frame-size 1000 --quiet");
    let sender = Background::start(net.a(&send));
    let words = format!(
        "capture af_packet:eth1 -o {} --rotate-size 20kB --interval 20ms",
        capture.display()
    );
    let mut process = Background::start(scratch.results(by_sudo(net.b(&words))));
    let mut running = true;
    wait_until("a second file", || {
        running = process.running();
        scratch.file("x.1.pcapng").exists() || !running
    });
    assert!(running, "{}", process.stderr());
    let threads = threads_of(&process);
    let report = scratch.read(process.end(Signal::INT));
    drop(sender);
    assert!(threads.len() >= 5, "{threads:?}");
    for thread in &threads {
        assert_eq!(
            (&thread.uids, &thread.gids),
            (&vec![NOBODY; 4], &vec![NOBODY; 4]),
            "{thread:?}"
        );
        assert_eq!((thread.permitted, thread.handed_down), (0, 0), "{thread:?}");
    }
    assert!(report.count("/capture/written") > 0, "{:#}", report.json);
    // How long lanes were kept from running is read from files of the process, which are root's now.
    if std::path::Path::new("/proc/thread-self/schedstat").exists() {
        assert!(report.json["lanes"][0]["run_delay_ns"].is_number(), "{:#}", report.json);
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(scratch.path()).expect("ours").flatten() {
        let meta = entry.metadata().expect("there");
        assert_eq!((meta.uid(), meta.gid()), (NOBODY, NOBODY), "{entry:?}");
        names.push(entry.file_name().into_string().expect("plain"));
    }
    for name in ["run.csv", "run.json", "run.hdr", "x.pcapng", "x.1.pcapng"] {
        assert!(names.iter().any(|there| there == name), "no {name} in {names:?}");
    }
    // And so do a picture and a page.
    for (command, from, to) in [("plot", "run.csv", "run.svg"), ("report", "run.json", "run.html")] {
        let made = scratch.file(to);
        let finished = run_command(by_sudo({
            let mut command = mpps(command);
            command.arg(scratch.file(from)).arg("-o").arg(&made);
            command
        }));
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        assert_eq!(std::fs::metadata(&made).expect("made").uid(), NOBODY);
    }
}

#[test]
fn under_sudo_no_file_is_written_that_the_user_could_not_write() {
    if !rustix::process::geteuid().is_root() {
        skip("sudo makes root");
        return;
    }
    let scratch = folder_of(0, 0o755);
    std::fs::write(scratch.file("theirs"), "theirs").expect("ours");
    for option in ["--csv", "--json", "--hdr"] {
        for file in ["theirs", "new"] {
            let mut command = by_sudo(mpps("send null: --duration 100ms --quiet"));
            command.arg(option).arg(scratch.file(file));
            assert_refused(command, 2, &[option, file, "65534", "sudo", "--keep-privileges"]);
        }
    }
    assert_eq!(
        std::fs::read_to_string(scratch.file("theirs")).expect("there"),
        "theirs"
    );
    assert!(!scratch.file("new").exists());
}

#[test]
fn root_writes_into_folders_of_others_and_keeps_its_rights_over_files_with_the_thread_that_does() {
    if !rustix::process::geteuid().is_root() {
        skip("only root writes into folders of others");
        return;
    }
    let scratch = folder_of(NOBODY, 0o755);
    let mut command = scratch.results(mpps(
        "sendrecv loop: --rate 2kpps --duration 1h --interval 20ms --quiet",
    ));
    command.env_remove("SUDO_UID");
    let process = Background::start(command);
    wait_until("rows", || scratch.busy_rows() > 0);
    // CAP_DAC_OVERRIDE and CAP_FOWNER.
    let files = 1 << 1 | 1 << 3;
    let kept: Kept<'_> = &[("mpps-files", files), ("mpps-csv", files), ("mpps-hdr", files)];
    let wrong = wrong(&process, kept);
    let report = scratch.read(process.end(Signal::INT));
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(report.count("rx_packets") > 0, "{:#}", report.json);
}

#[test]
fn a_user_without_privileges_has_nothing_to_give_up_and_runs_as_before() {
    if missing("setpriv", "util-linux") || !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = folder_of(NOBODY, 0o755);
    let copy = scratch.file("mpps");
    std::fs::copy(mpps_tests::program(), &copy).expect("a copy that anybody can read");
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(copy);
    command.args("sendrecv loop: --rate 2kpps --duration 200ms --settle 100ms --catch-up 1s --quiet".split(' '));
    let report = scratch.measure(command);
    report.assert_accounted();
    assert_eq!(report.json["host"]["privileges"], serde_json::Value::Null);
    let finished = run("send null: --duration 10ms --keep-privileges --quiet");
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
}
