//! `mpps trace peer`: what testpmd's threads did, as it counts itself; its terminal, its signals, its exit code.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use mpps_tests::{
    Background, Finished, IMPORT_ERRORS, Scratch, TESTPMD, Testpmd, missing, mpps, no_testpmd, processor, rival,
    run_command, skip, sql, wait_until,
};
use rustix::process::Signal;
use serde_json::Value;

/// `trace peer` of a shell's command.
fn of_shell(script: &str) -> Finished {
    let mut command = mpps("trace peer --");
    command.args(["sh", "-c", script, "{plugin}"]);
    run_command(command)
}

/// True, and said, where there is no plug-in.
fn no_plugin() -> bool {
    let built_without = of_shell("true").stderr.contains("built without DPDK");
    if built_without {
        skip("a build with DPDK");
    }
    built_without
}

/// testpmd's command line with the plug-in in its place.
fn traced_words() -> Vec<&'static str> {
    let words = TESTPMD.split_whitespace();
    let behind = |word| match word {
        "dpdk-testpmd" => vec![word, "-d", "{plugin}"],
        _ => vec![word],
    };
    words.flat_map(behind).collect()
}

/// testpmd on a port that gives as many packets as it is asked for, traced.
fn traced(scratch: &Scratch) -> Command {
    let mut command = mpps("trace peer --json");
    command.arg(scratch.file("peer.json")).arg("--");
    command.args(traced_words()).arg("--vdev=net_null0");
    command
}

fn told(scratch: &Scratch) -> Value {
    let text = std::fs::read_to_string(scratch.file("peer.json")).expect("the figures");
    serde_json::from_str(&text).expect("JSON")
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Involuntary context switches of each thread of a process's child.
fn switches(parent: u32) -> BTreeMap<u64, u64> {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    let child = read(format!("/proc/{parent}/task/{parent}/children"));
    let child = child.split_whitespace().next().expect("a child").to_owned();
    let threads = std::fs::read_dir(format!("/proc/{child}/task")).expect("its threads");
    let ids = threads.map(|entry| entry.expect("a thread").file_name().to_string_lossy().into_owned());
    let counts = ids.filter_map(|tid| {
        let status = read(format!("/proc/{child}/task/{tid}/status"));
        let count = status.split_once("nonvoluntary_ctxt_switches:")?.1.trim();
        Some((tid.parse().ok()?, count.parse().ok()?))
    });
    counts.collect()
}

/// A number of every lane, added up.
fn sum(told: &Value, of: impl Fn(&Value) -> &Value) -> u64 {
    let lanes = told["lanes"].as_array().expect("lanes");
    lanes.iter().map(|lane| of(lane).as_u64().expect("a number")).sum()
}

#[test]
fn a_command_of_the_same_number_in_another_pid_namespace_keeps_its_folder() {
    if no_plugin() || missing("unshare", "util-linux") {
        return;
    }
    let mut probe = Command::new("unshare");
    probe.args(["--pid", "--fork", "true"]);
    if run_command(probe).code != Some(0) {
        return skip("PID namespaces");
    }
    // Both are process 1, one namespace within the other.
    let mpps = mpps("trace peer --");
    let mpps = mpps.get_program();
    let mut command = Command::new("unshare");
    command
        .args(["--pid", "--fork"])
        .arg(mpps)
        .args(["trace", "peer", "--"]);
    command.args([
        "sh",
        "-c",
        "unshare --pid --fork \"$0\" trace peer -- true; test -e \"$1\" || echo gone",
    ]);
    command.arg(mpps).arg("{plugin}");
    let told = run_command(command);
    assert!(
        told.stderr
            .contains("with this process's number, 1, in another PID namespace"),
        "{}",
        told.stderr
    );
    assert!(!told.stdout.contains("gone"), "{}", told.stdout);
}

#[test]
fn every_packet_that_testpmd_counts_is_counted_once_its_port_is_found() {
    if no_testpmd() || no_plugin() {
        return;
    }
    let scratch = Scratch::new();
    let mut testpmd = Testpmd::start(traced(&scratch), "io");
    wait_until("a lane that is counted", || counting(testpmd.id()));
    let (received_before, sent_before) = testpmd.stop();
    // From here on the plug-in is in place.
    testpmd.ask("start", "packet forwarding packets/burst");
    let first = testpmd.counts().0;
    wait_until("packets", || testpmd.counts().0 > first + 10_000);
    // Busy programs on every core: each turn that one takes is an involuntary switch of testpmd.
    let others: Vec<_> = (0..=cores()).map(|_| rival()).collect();
    let threads = switches(testpmd.id());
    let (mut tid, mut taken) = (0, 0);
    wait_until("turns taken from testpmd", || {
        let now = switches(testpmd.id());
        let grown = now.iter().map(|(tid, n)| (n - threads.get(tid).unwrap_or(n), *tid));
        (taken, tid) = grown.max().expect("a thread");
        taken > 3
    });
    drop(others);
    let (received, sent) = testpmd.stop();
    let (code, said) = testpmd.quit();
    assert_eq!(code, Some(0), "{said}");
    let told = told(&scratch);
    // What passed before the plug-in had found the port is in none of its counts.
    let counted = sum(&told, |lane| &lane["receive"]["packets"]);
    assert!(
        (received..=received + received_before).contains(&counted),
        "{received_before} + {received}: {told:#}"
    );
    let counted = sum(&told, |lane| &lane["transmit"]["packets"]);
    assert!(
        (sent..=sent + sent_before).contains(&counted),
        "{sent_before} + {sent}: {told:#}"
    );
    let lane = &told["lanes"][0];
    assert_eq!(lane["offered"], lane["transmit"]["packets"], "it takes all: {told:#}");
    assert_eq!(told["exit_code"], 0);
    // Both lanes are of one thread, which polls and so does not sleep.
    let threads = told["threads"].as_array().expect("threads");
    assert_eq!(threads.len(), 1, "{told:#}");
    assert_eq!(threads[0]["tid"], lane["tid"]);
    assert_eq!(threads[0]["tid"], tid, "{told:#}");
    assert!(
        threads[0]["involuntary_switches"].as_u64() >= Some(taken),
        "{taken}: {told:#}"
    );
    if std::path::Path::new("/proc/self/schedstat").exists() {
        assert!(threads[0]["ran_ns"].as_u64() > Some(0), "{told:#}");
    }
    for lane in told["lanes"].as_array().expect("lanes") {
        assert_eq!(lane["device"], "net_null0");
        let shares = lane["stages"].as_array().expect("rows").iter();
        let shares: f64 = shares.map(|row| row["share"].as_f64().expect("a share")).sum();
        assert!((shares - 1.0).abs() < 1e-6, "{lane:#}");
        let by_packets = lane["polls_by_packets"].as_array().expect("a histogram");
        let polls: u64 = by_packets.iter().map(|count| count.as_u64().expect("a count")).sum();
        assert_eq!(
            polls + lane["empty_polls"].as_u64().expect("a count"),
            lane["polls"],
            "{lane:#}"
        );
    }
    for text in [
        "stage",
        "receive",
        "empty polls",
        "transmit",
        "rest",
        "polls were empty",
        "the plug-in read the clock",
        "involuntary context switches",
    ] {
        assert!(said.contains(text), "{text}: {said}");
    }
}

#[test]
fn a_signal_reaches_the_program_and_its_figures_are_told() {
    if no_testpmd() || no_plugin() {
        return;
    }
    let scratch = Scratch::new();
    let mut command = traced(&scratch);
    // It forwards until it is told to end.
    command.args("-- --no-mlockall --total-num-mbufs=8192 --auto-start --stats-period 1".split(' '));
    let mut running = Background::start(command);
    wait_until("a lane that is counted", || {
        assert!(running.running(), "{}", running.stderr());
        counting(running.id())
    });
    let finished = running.end(Signal::TERM);
    let told = told(&scratch);
    assert!(sum(&told, |lane| &lane["polls"]) > 0, "{told:#}\n{}", finished.stderr);
    assert_eq!(
        told["exit_code"].as_i64(),
        finished.code.map(i64::from),
        "{}",
        finished.stderr
    );
}

#[test]
fn its_lanes_are_in_a_file_that_perfetto_and_mpps_read() {
    if no_testpmd() || no_plugin() {
        return;
    }
    let scratch = Scratch::new();
    let trace = scratch.file("peer.pftrace.gz");
    let mut command = mpps("trace peer --json");
    command
        .arg(scratch.file("peer.json"))
        .arg("--trace")
        .arg(&trace)
        .arg("--");
    command
        .args(traced_words())
        .args(["--vdev=net_null0", "--vdev=net_null1"]);
    let mut testpmd = Testpmd::start(command, "io");
    wait_until("lanes that are counted", || lanes(testpmd.id()) >= 2);
    let first = testpmd.counts().0;
    wait_until("packets", || testpmd.counts().0 > first + 10_000);
    testpmd.stop();
    let (code, said) = testpmd.quit();
    assert_eq!(code, Some(0), "{said}");
    let told = told(&scratch);
    let count = told["lanes"].as_array().expect("lanes").len();
    assert!(count >= 2, "{told:#}");

    // The same table, with who and where.
    let read = run_command(mpps(&format!("trace {} table", trace.display())));
    assert_eq!(read.code, Some(0), "{}", read.stderr);
    let stages = told["lanes"][0]["stages"].as_array().expect("rows");
    for row in stages.iter().filter(|row| row["calls"].as_u64() > Some(0)) {
        let stage = row["stage"].as_str().expect("a stage").replace('_', " ");
        assert!(read.stdout.contains(&stage), "{stage}: {}", read.stdout);
    }
    assert!(
        read.stdout.contains("Not in the trace: what took the cores"),
        "{}",
        read.stdout
    );
    // Lanes of one thread stand below it.
    let tree = run_command(mpps(&format!("trace {} tree", trace.display())));
    let thread = format!("thread {} on core ", told["lanes"][0]["tid"]);
    let text = &tree.stdout;
    assert!(
        text.matches(&thread).count() == 1 && text.contains("    transmit\n"),
        "{text}"
    );
    assert!(text.matches("  lane ").count() == count, "{text}");
    assert!(read.stdout.contains("Rounds per ms"), "{}", read.stdout);
    let whole = run_command(mpps(&format!("trace {}", trace.display())));
    assert!(
        whole.stdout.starts_with("mpps trace peer -- stdbuf -oL dpdk-testpmd "),
        "{}",
        whole.stdout
    );

    let Some(module) = processor() else { return };
    let answers = sql(
        &module,
        &trace,
        &[
            IMPORT_ERRORS,
            "select count(*) as n, min(dur) as shortest from slice",
            "select sum(extract_arg(arg_set_id, 'debug.rx')) as rx, sum(extract_arg(arg_set_id, 'debug.tx')) as tx, \
             count(*) as calls from slice where name = 'burst'",
            "select t.name as name, count(*) as n from slice s join track t on s.track_id = t.id group by t.id",
            "select count(distinct tid) as n from thread where tid in (select tid from thread where name like \
             'thread %' or name like '%net_null%')",
        ],
    );
    assert!(answers[0].is_empty(), "errors of the import: {:?}", answers[0]);
    assert!(answers[1][0]["n"].as_u64() > Some(0), "{:?}", answers[1]);
    assert!(answers[1][0]["shortest"].as_i64() >= Some(0), "{:?}", answers[1]);
    // Of each call that was kept its packets, and of a lane no more than it had.
    let kept = sum(&told, |lane| &lane["records"]);
    let calls = answers[2][0]["calls"].as_u64().expect("a count");
    assert!(calls > 0 && calls <= kept, "{calls} of {kept}");
    let all = sum(&told, |lane| &lane["receive"]["packets"]);
    let rx = answers[2][0]["rx"].as_u64().expect("a sum");
    assert!(rx > 0 && rx <= all, "{rx} of {all}");
    // Each lane has a track of its own, under its name.
    let tracks: Vec<_> = answers[3]
        .iter()
        .map(|row| row["name"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(tracks.len(), count, "{tracks:?}");
    for lane in told["lanes"].as_array().expect("lanes") {
        let queue = format!("port {} queue {}", lane["port"], lane["queue"]);
        assert!(tracks.iter().any(|name| name.contains(&queue)), "{queue}: {tracks:?}");
    }
    assert_eq!(answers[4][0]["n"], 1, "one thread has all lanes: {:?}", answers[4]);
}

#[test]
fn queues_of_one_port_are_lanes_of_their_own() {
    if no_testpmd() || no_plugin() {
        return;
    }
    let scratch = Scratch::new();
    let mut testpmd = Testpmd::start_with(traced(&scratch), "io", &["--rxq=4", "--txq=4"]);
    wait_until("four lanes that are counted", || lanes(testpmd.id()) >= 4);
    testpmd.stop();
    let (code, said) = testpmd.quit();
    assert_eq!(code, Some(0), "{said}");
    let told = told(&scratch);
    let all = told["lanes"].as_array().expect("lanes");
    let mut queues: Vec<_> = all
        .iter()
        .map(|lane| lane["queue"].as_u64().expect("a number"))
        .collect();
    queues.sort_unstable();
    assert_eq!(queues, [0, 1, 2, 3], "{told:#}");
}

/// The folder of a running command.
fn folder(pid: u32) -> Option<PathBuf> {
    let home = std::env::var("HOME").unwrap_or_default();
    let places = [
        "/run/mpps".to_owned(),
        std::env::var("XDG_RUNTIME_DIR").map_or_else(|_| String::new(), |dir| format!("{dir}/mpps")),
        std::env::var("XDG_CACHE_HOME").map_or_else(|_| format!("{home}/.cache/mpps"), |dir| format!("{dir}/mpps")),
        "/var/cache/mpps".to_owned(),
    ];
    let found = places
        .iter()
        .map(|place| PathBuf::from(place).join(format!("peer-{pid}")));
    found.into_iter().find(|path| path.is_dir())
}

/// How many lanes are counted already.
fn lanes(pid: u32) -> u32 {
    use std::os::unix::fs::FileExt;
    let mut claimed = [0; 4];
    let file = folder(pid).and_then(|folder| std::fs::File::open(folder.join("counts")).ok());
    match file.is_some_and(|file| file.read_exact_at(&mut claimed, 24).is_ok()) {
        true => u32::from_ne_bytes(claimed),
        false => 0,
    }
}

/// Whether a lane is counted already.
fn counting(pid: u32) -> bool {
    lanes(pid) > 0
}

#[test]
fn a_killed_command_ends_the_program_and_leaves_a_folder_that_the_next_one_clears() {
    if no_plugin() {
        return;
    }
    let mut command = mpps("trace peer --");
    command.args(["sh", "-c", "echo $$ >&2; exec sleep 1000", "{plugin}"]);
    let running = Background::start(command).wait_to_hear("\n");
    let child: u32 = running.stderr().trim().parse().expect("a number");
    let folder = folder(running.id()).expect("a folder");
    let ended = running.end(Signal::KILL);
    assert_eq!(ended.code, None);
    wait_until("the end of the program", || {
        // Of one that has ended and that nobody has waited for, as where this namespace's first process does not, it is
        // empty.
        let line = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        !line.starts_with(b"sleep")
    });
    // Another test's command may have removed it already.
    of_shell("true");
    assert!(!folder.exists(), "{}", folder.display());
}

#[test]
fn the_exit_code_is_the_programs_and_what_was_wrong_is_told() {
    if no_plugin() {
        return;
    }
    for (script, code) in [("exit 7", 7), ("exit 0", 1), ("kill -9 $$", 137)] {
        let finished = of_shell(script);
        assert_eq!(finished.code, Some(code), "{script}: {}", finished.stderr);
        assert!(
            finished.stderr.contains("has not loaded the plug-in"),
            "{}",
            finished.stderr
        );
    }
    let mut command = mpps("trace peer -- nonesuch-program -l 0");
    command.arg("x");
    let finished = run_command(command);
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert!(
        finished.stderr.contains("'nonesuch-program': no such program"),
        "{}",
        finished.stderr
    );
}

#[test]
fn what_the_program_puts_in_place_of_the_counts_holds_nobody_up() {
    if no_plugin() {
        return;
    }
    // The file is read that was made, not what has its name by now.
    for put in ["mkfifo", "ln -s /dev/zero", "mkdir", "true"] {
        let script = format!("rm -f $MPPS_PEER_FILE; {put} $MPPS_PEER_FILE");
        let mut command = mpps("trace peer --");
        command.args(["sh", "-c", &script, "{plugin}"]);
        let mut running = Background::start(command);
        wait_until("the end of the command", || !running.running());
        let finished = running.finish();
        assert_eq!(finished.code, Some(1), "{put}: {}", finished.stderr);
        assert!(
            finished.stderr.contains("has not loaded the plug-in"),
            "{put}: {}",
            finished.stderr
        );
    }
}

#[test]
fn root_puts_the_plug_in_below_no_folder_of_somebody_elses() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root can make folders of somebody else");
    }
    if no_plugin() || mpps_tests::missing("unshare", "util-linux") {
        return;
    }
    // Not in /tmp, which everybody may write to: DPDK loads nothing from there.
    let home = tempfile::Builder::new().prefix("mpps-test-").tempdir_in("/var/lib");
    let home = home.expect("a folder");
    std::os::unix::fs::chown(home.path(), Some(65_534), Some(65_534)).expect("ours");
    let target = home.path().join("target");
    std::fs::create_dir(&target).expect("a folder");
    // Neither in it nor where a link in it leads to.
    std::os::unix::fs::symlink(&target, home.path().join("link")).expect("a link");
    let tried = |cache: &str| {
        // Folders of root's own are mounted so that no plug-in can be loaded from them.
        let script = "mkdir -p /run/mpps /var/cache/mpps && mount -t tmpfs -o noexec,mode=700 none /run/mpps && \
                      mount -t tmpfs -o noexec,mode=700 none /var/cache/mpps && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]);
        command.arg(mpps_tests::program()).args(["trace", "peer", "--", "true"]);
        command.env("XDG_CACHE_HOME", home.path().join(cache));
        run_command(command)
    };
    for cache in ["cache", "link/cache"] {
        let finished = tried(cache);
        assert_eq!(finished.code, Some(1), "{}", finished.stderr);
        assert!(
            finished.stderr.contains("which belongs to user 65534"),
            "{}",
            finished.stderr
        );
        assert!(!home.path().join(cache).exists(), "root made a folder there");
    }
    // Whoever is in the group could put another folder in the place of root's.
    std::os::unix::fs::chown(home.path(), Some(0), Some(65_534)).expect("ours");
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o775)).expect("ours");
    let finished = tried("of-group");
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    let told = format!(
        "lies in {}, which others than its owner may write to",
        home.path().display()
    );
    assert!(finished.stderr.contains(&told), "{}", finished.stderr);
}

#[test]
fn functions_of_a_build_that_says_when_they_begin_are_counted_by_place_and_thread() {
    if missing("gcc", "gcc") || missing("nm", "binutils") || missing("python3", "python3") {
        return;
    }
    let scratch = Scratch::new();
    let bench = concat!(env!("CARGO_MANIFEST_DIR"), "/../bench");
    let [source, program, hook, calls] =
        ["calls.c", "calls", "functions.so", "calls.tsv"].map(|name| scratch.file(name));
    let text = "#include <pthread.h>\n#include <signal.h>\n\
                static void handler(int signal) { (void)signal; }\n\
                static int inner(int x) { return x + 1; }\n\
                static int outer(int x) { return inner(inner(x)); }\n\
                static void *work(void *unused) { for (int i = 0; i < 1000; i++) outer(i); return unused; }\n\
                int main(void) { pthread_t t; signal(SIGUSR1, handler); pthread_create(&t, 0, work, 0);\n\
                pthread_join(t, 0); for (int i = 0; i < 7; i++) { raise(SIGUSR1); inner(i); } return 0; }\n";
    std::fs::write(&source, text).expect("a file");
    let compiled = |flags: &str, from: &std::path::Path, to: &std::path::Path| {
        let mut gcc = Command::new("gcc");
        gcc.args(flags.split(' '))
            .arg(from)
            .arg("-o")
            .arg(to)
            .args(["-lm", "-lpthread"]);
        let done = run_command(gcc);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    };
    compiled("-finstrument-functions", &source, &program);
    compiled(
        "-O2 -Wall -Wextra -Werror -shared -fPIC",
        std::path::Path::new(&format!("{bench}/peers/functions.c")),
        &hook,
    );
    let mut run = Command::new(&program);
    run.env("LD_PRELOAD", &hook).env("FUNCTIONS", &calls);
    assert_eq!(run_command(run).code, Some(0));
    let shown = |words: &[&str]| {
        let mut show = Command::new("python3");
        show.arg(format!("{bench}/functions.py")).arg(&calls).args(words);
        let done = run_command(show);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        done.stdout
    };
    let all = shown(&["0"]);
    for row in [
        ("1000", "    outer"),
        ("2000", "      inner"),
        ("7", "    inner"),
        ("7", "    handler"),
    ] {
        let has = |line: &str| line.trim_start().starts_with(&format!("{} ", row.0)) && line.ends_with(row.1);
        assert!(all.lines().any(has), "{row:?} in {all}");
    }
    assert_eq!(all.matches("thread calls (").count(), 2, "{all}");
    let one = shown(&["0", "outer"]);
    assert!(
        one.contains("3000 calls of 2 functions") && one.contains("  outer\n") && !one.contains("main"),
        "{one}"
    );
}
