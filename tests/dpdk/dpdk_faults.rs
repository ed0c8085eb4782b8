//! What may go wrong around the dpdk path, before and in the middle of a run: it is told in one line, or the run goes
//! on or ends with all that it measured; and nothing is left behind.

use std::time::{Duration, Instant};

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Bridge, Finished, Memif, Report, Scratch, inside, listen_by, missing, mpps, net_of, no_dpdk, program,
    returning, run_command, silent, skip, skip_disturbed, wait_for_more, wait_until,
};
use rustix::process::Signal;

const SENDRECV: &str = "--src 10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps --settle 200ms --interval 20ms";

/// How lanes pass the time when nothing comes: in naps, or never.
const IDLE: [&str; 2] = ["", "--busy-poll"];

/// A run that is under way, over a memif, whose lanes idle as `idle` says.
fn under_way(memif: &Memif, here: &Scratch, there: &Scratch, idle: &str) -> (Background, Background) {
    let words = format!("reflect {} --ip 10.99.0.2 {idle}", memif.server(0));
    let reflector = listen_by(there, mpps(&words));
    (sender(memif, here, idle), reflector)
}

fn sender(memif: &Memif, here: &Scratch, idle: &str) -> Background {
    let words = format!("sendrecv {} {SENDRECV} {idle} --duration 1h", memif.client());
    let sender = Background::start(here.results(mpps(&words)));
    wait_until("packets that come back", || returning(here) >= 3);
    sender
}

/// A listener that says what it notes, as `listen_by`'s do not.
fn listen_aloud(there: &Scratch, words: &str) -> Background {
    Background::ready(there.results(mpps(&format!("{words} --interval 20ms"))))
}

/// Until a lane has seen that the other end has gone: it looks when it has a core, which may be after the next end has
/// come. Not for a program that is quiet.
fn wait_until_told_of_the_link(run: &mut Background) {
    wait_until("a word about the link, or the end", || {
        run.stderr().contains("link is down") || !run.running()
    });
}

fn assert_told_of_the_link(report: &Report) {
    report.assert_rows_add_up();
    assert!(report.count("rx_packets") > 0, "{:#}", report.json);
    assert!(report.said().contains("link is down"), "{}", report.said());
}

/// It has ended by itself or as it was told, not by a signal or a panic.
fn assert_ended_well(finished: &Finished) {
    assert!(
        matches!(finished.code, Some(0 | 1 | 3)),
        "{:?}: {}",
        finished.code,
        finished.stderr
    );
}

#[test]
fn a_reflector_that_is_killed_costs_its_sender_no_more_than_packets() {
    if no_dpdk() {
        return;
    }
    for moment in 0..6 {
        let (memif, here, there) = (Memif::new(), Scratch::new(), Scratch::new());
        let (mut sender, reflector) = under_way(&memif, &here, &there, IDLE[moment as usize % 2]);
        // Somewhere else in the lane's loop each time.
        std::thread::sleep(Duration::from_micros(3_700 * moment));
        reflector.end(Signal::KILL);
        wait_until_told_of_the_link(&mut sender);
        let rows = here.rows_so_far();
        wait_until("rows after it, or the end", || {
            here.rows_so_far() >= rows + 15 || !sender.running()
        });
        let finished = if sender.running() {
            sender.end(Signal::INT)
        } else {
            sender.finish()
        };
        assert!(
            matches!(finished.code, Some(0 | 1 | 3)),
            "ended by {:?}: {}",
            finished.code,
            finished.stderr
        );
        let report = here.read(finished);
        report.assert_accounted();
        assert_told_of_the_link(&report);
    }
}

#[test]
fn a_sender_that_is_killed_is_told_by_its_reflector_which_takes_the_next() {
    if no_dpdk() {
        return;
    }
    for idle in IDLE {
        let (memif, there) = (Memif::new(), Scratch::new());
        let words = format!("reflect {} --ip 10.99.0.2 {idle}", memif.server(0));
        let mut reflector = listen_aloud(&there, &words);
        for moment in 0..3 {
            let here = Scratch::new();
            let sender = sender(&memif, &here, idle);
            std::thread::sleep(Duration::from_micros(3_700 * moment));
            sender.end(Signal::KILL);
            wait_for_more("rows of the reflector", || there.rows_so_far());
            assert!(reflector.running(), "{}", reflector.stderr());
        }
        let before = there.busy_rows();
        let words = format!("sendrecv {} {SENDRECV} --duration 200ms --quiet", memif.client());
        let report = Scratch::new().measure(mpps(&words));
        report.assert_accounted();
        assert_eq!(
            report.count("rx_packets"),
            report.count("tx_packets"),
            "{:#}",
            report.json
        );
        wait_until("rows with the next sender's packets", || there.busy_rows() > before);
        wait_until_told_of_the_link(&mut reflector);
        let reflected = there.read(reflector.end(Signal::INT));
        assert_eq!(reflected.finished.code, Some(0), "{}", reflected.said());
        assert_told_of_the_link(&reflected);
    }
}

#[test]
fn a_forwarder_outlives_both_its_neighbours() {
    if no_dpdk() {
        return;
    }
    let (left, right, there) = (Memif::new(), Memif::new(), Scratch::new());
    let words = format!("forward {} {}", left.server(0), right.server(1));
    let mut forwarder = listen_aloud(&there, &words);
    for (first, second) in [(Signal::KILL, Signal::INT), (Signal::INT, Signal::KILL)] {
        let (here, beyond) = (Scratch::new(), Scratch::new());
        let reflector = listen_by(&beyond, mpps(&format!("reflect {}", right.client())));
        let words = format!(
            "sendrecv {} {SENDRECV} --dest-mac 02:00:00:00:00:02 --duration 1h --quiet",
            left.client()
        );
        let sender = Background::start(here.results(mpps(&words)));
        wait_until("packets that come back", || returning(&here) >= 3);
        reflector.end(first);
        wait_for_more("rows in which all is lost", || silent(&here));
        sender.end(second);
        wait_for_more("rows of the forwarder", || there.rows_so_far());
        assert!(forwarder.running(), "{}", forwarder.stderr());
    }
    wait_until_told_of_the_link(&mut forwarder);
    let report = there.read(forwarder.end(Signal::INT));
    assert_told_of_the_link(&report);
    let reasons = report.json["reasons"].as_object().expect("reasons").values();
    let given_up: u64 = reasons.map(|n| n.as_u64().expect("a count")).sum();
    assert_eq!(
        report.count("rx_packets"),
        report.count("tx_packets") + given_up,
        "{:#}",
        report.json
    );
}

/// Both ends lose their interface in the middle of a run.
fn assert_told_of_a_vanished_interface(driver: &str) {
    if no_dpdk() {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let (here, there) = (Scratch::new(), Scratch::new());
    let port = format!("dpdk:{driver}0,iface=eth1");
    let reflector = listen_by(&there, net.b(&format!("reflect {port} --ip 10.99.0.102")));
    let words = format!("sendrecv {port} --src 10.99.0.101 --dest 10.99.0.102:9000 --rate 5kpps --settle 200ms");
    let mut sender = Background::start(here.results(net.a(&format!("{words} --interval 20ms --duration 1h --quiet"))));
    wait_until("packets that come back", || returning(&here) >= 3);
    net.on(Host::A, "ip link delete eth1");
    let mut reflector = reflector;
    wait_until("both to end by themselves", || {
        !sender.running() && !reflector.running()
    });
    let mut silent = Vec::new();
    for (scratch, run) in [(&here, sender), (&there, reflector)] {
        let finished = run.finish();
        assert_ended_well(&finished);
        let report = scratch.read(finished);
        report.assert_rows_add_up();
        assert!(report.count("rx_packets") > 0, "{:#}", report.json);
        let said = report.said().to_lowercase();
        if !["down", "vanished", "gone"].iter().any(|word| said.contains(word)) {
            silent.push(format!("{}: {said}", report.json["workload"]));
        }
    }
    assert!(silent.is_empty(), "not told: {silent:#?}");
}

#[test]
fn an_interface_that_vanishes_under_a_packet_socket_is_told_and_what_was_measured_kept() {
    assert_told_of_a_vanished_interface("net_af_packet");
}

#[test]
fn an_interface_that_vanishes_under_an_af_xdp_socket_is_told_and_what_was_measured_kept() {
    assert_told_of_a_vanished_interface("net_af_xdp");
}

#[test]
fn a_tap_that_is_deleted_or_whose_peer_is_killed_leaves_the_other_whole() {
    if no_dpdk() {
        return;
    }
    for deleted in [false, true] {
        let Some(net) = net_of(1) else { return };
        let bridge = Bridge::new(&net);
        let (here, there) = (Scratch::new(), Scratch::new());
        let words = "reflect dpdk:net_tap0,iface=tap0 --ip 10.99.1.2 --quiet";
        let reflector = bridge.join("tap0", "02:00:00:00:00:a0", there.results(net.b(words)));
        wait_until("a row of the reflector", || there.rows_so_far() > 0);
        let words = "sendrecv dpdk:net_tap0,iface=tap1 --src 10.99.1.1 --dest 10.99.1.2:9000 --rate 2kpps --settle \
                     200ms --interval 20ms --duration 1h --quiet";
        let mut sender = bridge.join("tap1", "02:00:00:00:00:a1", here.results(net.b(words)));
        wait_until("packets that come back", || returning(&here) >= 3);
        if deleted {
            net.on(Host::B, "ip link delete tap1");
            let rows = here.rows_so_far();
            wait_until("rows after it, or the end", || {
                here.rows_so_far() >= rows + 20 || !sender.running()
            });
        } else {
            reflector.end(Signal::KILL);
            wait_for_more("rows in which all is lost", || silent(&here));
        }
        let finished = if sender.running() {
            sender.end(Signal::INT)
        } else {
            sender.finish()
        };
        assert_ended_well(&finished);
        let report = here.read(finished);
        report.assert_accounted();
        assert!(report.count("rx_packets") > 0, "{:#}", report.json);
        if deleted {
            let said = report.said().to_lowercase();
            assert!(
                ["down", "vanished", "gone"].iter().any(|word| said.contains(word)),
                "{said}"
            );
        }
    }
}

/// Ten starts and stops of each device, the devices side by side, one of them by a kill, and then what is left, in a
/// mount namespace whose folders of shared files are empty at first. `$0`: the program; `$1`: a scratch folder.
const CYCLES: &str = r#"
mount --make-rprivate /
for folder in /run /dev/shm; do mount -t tmpfs none $folder || exit 77; done
mpps=$0
ten() { for i in 1 2 3 4 5 6 7 8 9 10; do "$@"; done; }
run() { "$mpps" "$@" --duration 30ms --quiet || echo "$*: $?"; }
killed() {
    "$mpps" drop dpdk:net_null1,no-rx=1 --duration 1h --quiet &
    until [ "$(ls /proc/$!/task | wc -l)" -gt 2 ]; do sleep 0.01; done
    kill -9 $!; wait $! 2>/dev/null
}
ten run drop dpdk:net_null0,size=60 --no-verify &
ten run reflect dpdk:net_memif0,role=server,socket=$1/memif,socket-abstract=no &
ten run drop dpdk:net_tap0,iface=tap7 &
ten run drop dpdk:net_af_packet0,iface=eth1 &
ten run drop dpdk:net_ring0 &
ten killed &
wait
# The last one: nobody who comes after it mends what it leaves.
killed
# The empty folder is made by DPDK, and by mount the other.
find /run /dev/shm $1 -mindepth 1 ! -path /run/dpdk ! -path /run/mount
ip -br link | grep tap
ls /dev/hugepages 2>/dev/null
exit 0
"#;

fn free_huge_pages() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("/proc/meminfo");
    let line = text.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    line.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

/// Whether some other process on this machine has huge pages mapped.
fn others_use_huge_pages() -> bool {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    processes
        .filter_map(|process| std::fs::read_to_string(process.path().join("status")).ok())
        .filter_map(|status| {
            status
                .lines()
                .find_map(|line| line.strip_prefix("HugetlbPages:").map(str::to_owned))
        })
        .any(|size| !size.trim().starts_with("0 "))
}

#[test]
fn ten_starts_and_stops_leave_no_file_no_interface_no_socket_and_no_huge_page() {
    if no_dpdk() || missing("unshare", "util-linux") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let folder = Scratch::new();
    let before = free_huge_pages();
    let mut command = inside(&net.lab, Host::B, "unshare --mount sh -c");
    command.arg(CYCLES).arg(program()).arg(folder.path());
    let finished = run_command(command);
    if finished.code == Some(77) {
        return skip(&format!("no file system can be mounted here: {}", finished.stderr));
    }
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let killed = finished.stderr.lines().filter(|line| !line.contains("Killed")).count();
    assert_eq!((finished.stdout.as_str(), killed), ("", 0), "{}", finished.stderr);
    let deadline = Instant::now() + Duration::from_secs(5);
    while free_huge_pages() < before {
        if Instant::now() > deadline {
            // Another program's, or ours?
            assert!(
                others_use_huge_pages(),
                "{} of {before} huge pages are free",
                free_huge_pages()
            );
            return skip_disturbed("another program took huge pages meanwhile");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn ctrl_c_ends_a_run_with_its_results_and_twice_ends_it_at_once() {
    if no_dpdk() {
        return;
    }
    for signal in [Signal::INT, Signal::TERM] {
        let (memif, there) = (Memif::new(), Scratch::new());
        let reflector = listen_by(&there, mpps(&format!("reflect {}", memif.server(0))));
        let report = there.read(reflector.end(signal));
        report.assert_rows_add_up();
        assert_eq!(report.finished.code, Some(0), "{}", report.said());
    }
    let (memif, here, there) = (Memif::new(), Scratch::new(), Scratch::new());
    let (mut sender, reflector) = under_way(&memif, &here, &there, "");
    sender.signal(Signal::INT);
    // It may have ended by the first already.
    if sender.running() {
        sender.signal(Signal::INT);
    }
    let report = here.read(sender.finish());
    report.assert_accounted();
    assert_eq!(report.json["interrupted"], true, "{:#}", report.json);
    assert_eq!(there.read(reflector.end(Signal::INT)).finished.code, Some(0));
}

#[test]
fn somebody_who_waits_for_a_link_is_let_go_in_one_line() {
    if no_dpdk() {
        return;
    }
    for port in [
        Memif::new().server(0) + ",link_wait=600",
        Memif::new().client() + ",link_wait=600",
    ] {
        for signal in [Signal::TERM, Signal::INT] {
            let words = "--src 10.99.0.1 --dest 10.99.0.2:9000 --dest-mac 02:00:00:00:00:02 --quiet";
            let mut sender = Background::start(mpps(&format!("sendrecv {port} {words}")));
            // DPDK's thread for interrupts is there: the signals have their handlers, and the port is being opened.
            let tasks = format!("/proc/{}/task", sender.id());
            wait_until("DPDK in it", || {
                std::fs::read_dir(&tasks).is_ok_and(|all| all.count() > 1) || !sender.running()
            });
            assert!(sender.running(), "{port}: {}", sender.stderr());
            let finished = sender.end(signal);
            let context = format!("{port} {signal:?}: {:?} {}", finished.code, finished.stderr);
            assert!(finished.code.is_some(), "{context}");
            assert_eq!(finished.stderr.trim_end().lines().count(), 1, "{context}");
        }
    }
}
