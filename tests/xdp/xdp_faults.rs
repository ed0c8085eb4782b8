//! What may go wrong around the xdp path, before and in the middle of a run: it is told in one line, or the run goes on
//! or ends, but never loses count, and no program stays in the kernel.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Net, Report, Scratch, all_back, assert_refused, inside, listen, missing, net_of, program, programs_of,
    returning, run_command, silent, still_loaded, wait_for_more, wait_until,
};
use rustix::process::Signal;

const PACED: &str = "sendrecv xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 10kpps --interval 20ms";
const SENDRECV: &str = "sendrecv xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 10kpps --interval 20ms \
                        --settle 500ms";

/// A run that is under way, with a reflector whose results go to `there`.
fn under_way(net: &Net, here: &Scratch, there: &Scratch, sendrecv: &str, reflect: &str) -> (Background, Background) {
    let reflector = listen(net, there, reflect);
    let sender = Background::start(here.results(net.a(&format!("{sendrecv} --duration 1h --quiet"))));
    wait_until("packets that come back", || returning(here) >= 3);
    (sender, reflector)
}

fn assert_bare(net: &Net, programs: &BTreeSet<u32>) {
    wait_until("no XDP program at either end", || {
        Host::ALL.iter().all(|&host| net.xdp_program(host, "eth1").is_none())
    });
    // The kernel frees what a process had a while after the process is gone.
    wait_until("no program in the kernel", || still_loaded(programs).is_empty());
}

/// What was measured until the device went, which ended the run.
fn assert_vanished(report: &Report) {
    assert_eq!(report.finished.code, Some(3), "{}", report.said());
    assert!(report.count("rx_packets") > 0, "{:#}", report.json);
    assert!(report.said().contains("vanished"), "{}", report.said());
}

#[test]
fn packets_for_an_end_that_takes_none_any_more_are_told_as_refused() {
    let Some(net) = net_of(1) else { return };
    net.on(Host::B, "ethtool -K eth1 gro off");
    let (here, there) = (Scratch::new(), Scratch::new());
    let (sender, reflector) = under_way(&net, &here, &there, SENDRECV, "reflect xdp:eth1");
    reflector.end(Signal::KILL);
    wait_for_more("rows of lost packets", || silent(&here));
    let sent = here.read(sender.end(Signal::INT));
    sent.assert_accounted();
    // Some hundred lie in the ring of the other end; all others were refused.
    let (lost, refused) = (sent.count("lost"), sent.lanes("tx_failed"));
    assert!(refused > 0 && refused <= lost, "{:#}", sent.json);
    assert_eq!(sent.finished.code, Some(3), "{}", sent.said());
    assert!(
        sent.said().contains("refused") && sent.said().contains("gro on"),
        "{}",
        sent.said()
    );
}

#[test]
fn what_the_other_end_does_not_take_from_a_reflector_is_told_as_refused() {
    let Some(net) = net_of(1) else { return };
    if missing("ethtool", "ethtool") {
        return;
    }
    net.on(Host::A, "ethtool -K eth1 gro off");
    // With a program at the other end frames go back by XDP_TX; without one they are redirected. Here it goes.
    let here = Scratch::new();
    let receiver = Background::start(here.results(net.a("drop xdp:eth1 --duration 1h --quiet")));
    wait_until("a program", || net.xdp_program(Host::A, "eth1").is_some());
    let there = Scratch::new();
    let reflector = listen(&net, &there, "reflect xdp:eth1");
    receiver.end(Signal::KILL);
    wait_until("no program", || net.xdp_program(Host::A, "eth1").is_none());
    let mac = Host::B.mac();
    let words = "--src 10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps --duration 2s --quiet";
    let sent = run_command(net.a(&format!("send af_packet:eth1 {words} --dest-mac {mac}")));
    // Whether a busy host kept the rate is no matter here.
    assert!(matches!(sent.code, Some(0 | 3)), "{}", sent.stderr);
    let reflected = there.read(reflector.end(Signal::INT));
    let (turned, refused) = (reflected.count("tx_packets"), reflected.lanes("tx_failed"));
    // Answers to the host's own questions are refused, too.
    assert!(turned > 30_000, "{:#}", reflected.json);
    assert!((turned..turned + 20).contains(&refused), "{:#}", reflected.json);
}

#[test]
fn a_side_that_is_killed_in_the_middle_leaves_no_program_and_the_other_one_reports() {
    let Some(net) = net_of(1) else { return };
    // The sender.
    let (here, there) = (Scratch::new(), Scratch::new());
    let (sender, reflector) = under_way(&net, &here, &there, SENDRECV, "reflect xdp:eth1");
    let (of_sender, of_reflector) = (programs_of(&sender), programs_of(&reflector));
    assert!(!of_sender.is_empty() && !of_reflector.is_empty());
    assert_eq!(still_loaded(&of_sender), of_sender);
    sender.end(Signal::KILL);
    wait_until("no XDP program", || net.xdp_program(Host::A, "eth1").is_none());
    wait_until("no program in the kernel", || still_loaded(&of_sender).is_empty());
    assert!(net.xdp_program(Host::B, "eth1").is_some());
    let reflected = there.read(reflector.end(Signal::INT));
    reflected.assert_rows_add_up();
    assert!(reflected.count("rx_packets") > 0, "{:#}", reflected.json);
    assert_bare(&net, &of_reflector);
    // The reflector, and another after it: loss is booked to the time of sending.
    let (here, there) = (Scratch::new(), Scratch::new());
    let (sender, reflector) = under_way(&net, &here, &there, SENDRECV, "reflect xdp:eth1");
    let mut programs = programs_of(&sender);
    programs.extend(programs_of(&reflector));
    reflector.end(Signal::KILL);
    wait_for_more("rows in which everything is lost", || silent(&here));
    let again = Scratch::new();
    let reflector = listen(&net, &again, "reflect xdp:eth1");
    programs.extend(programs_of(&reflector));
    wait_for_more("packets that come back again", || returning(&here));
    let report = here.read(sender.end(Signal::INT));
    report.assert_accounted();
    assert!(
        report.count("lost") > 0 && report.count("rx_packets") > 0,
        "{:#}",
        report.json
    );
    let lossless = |row: &&mpps_tests::Row| row["lost_packets"] == "0" && row["rx_packets"] != "0";
    assert!(report.rows.iter().filter(lossless).count() >= 3, "{:#}", report.json);
    reflector.end(Signal::KILL);
    assert_bare(&net, &programs);
}

#[test]
fn killed_at_any_moment_from_the_first_on_a_side_leaves_no_program() {
    let Some(net) = net_of(1) else { return };
    let mut programs = BTreeSet::new();
    // Where killing the other process takes as long as starting this one: between loading, attaching, sending,
    // settling.
    for step in 0..12_u32 {
        let there = Scratch::new();
        let reflector = listen(&net, &there, "reflect xdp:eth1");
        programs.extend(programs_of(&reflector));
        let sender = Background::start(net.a(&format!("{PACED} --duration 100ms --settle 1s --quiet")));
        std::thread::sleep(std::time::Duration::from_millis(u64::from(step * step * 4)));
        programs.extend(programs_of(&sender));
        let (first, second) = if step % 2 == 0 {
            (sender, reflector)
        } else {
            (reflector, sender)
        };
        drop(first);
        drop(second);
    }
    assert_bare(&net, &programs);
    all_back(&net, "reflect xdp:eth1", &[PACED]);
    assert_bare(&net, &programs);
}

#[test]
fn ctrl_c_ends_a_run_with_its_results_and_a_second_one_at_once_and_no_program_stays() {
    let Some(net) = net_of(1) else { return };
    let (here, there) = (Scratch::new(), Scratch::new());
    let (sender, _reflector) = under_way(&net, &here, &there, SENDRECV, "reflect xdp:eth1");
    let programs = programs_of(&sender);
    let report = here.read(sender.end(Signal::INT));
    report.assert_accounted();
    assert_eq!(report.json["interrupted"], true, "{:#}", report.json);
    assert_eq!(
        report.count("rx_packets"),
        report.count("tx_packets"),
        "{:#}",
        report.json
    );
    wait_until("no program in the kernel", || still_loaded(&programs).is_empty());

    // It would wait for a minute.
    let (here, words) = (Scratch::new(), format!("{PACED} --settle 1m --duration 1h --quiet"));
    let mut sender = Background::start(here.results(net.a(&words)));
    wait_until("a running sender", || {
        here.busy_rows() >= 1 || programs_of(&sender).len() > 3
    });
    let programs = programs_of(&sender);
    // Two that come at the same time are one.
    let mut signals = 0;
    wait_until("the end", || {
        if sender.running() {
            sender.signal(Signal::INT);
            signals += 1;
        }
        !sender.running()
    });
    assert!(signals >= 2, "it waited for no packet: {}", sender.stderr());
    wait_until("no program in the kernel", || still_loaded(&programs).is_empty());
    assert_eq!(net.xdp_program(Host::A, "eth1"), None);
}

#[test]
fn many_runs_in_a_row_leave_nothing() {
    let Some(net) = net_of(1) else { return };
    let mut programs = BTreeSet::new();
    for _ in 0..10 {
        let reflector = Background::ready(net.b("reflect xdp:eth1"));
        programs.extend(programs_of(&reflector));
        let words =
            "sendrecv xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --duration 20ms --settle 20ms --rate 5kpps";
        let mut sender = Background::start(net.a(&format!("{words} --catch-up 1s --tolerance 100%")));
        while sender.running() {
            programs.extend(programs_of(&sender));
            std::thread::yield_now();
        }
        let finished = sender.finish();
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        let finished = reflector.end(Signal::INT);
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        assert_eq!(net.xdp_program(Host::B, "eth1"), None);
    }
    assert!(programs.len() >= 40, "{programs:?}");
    assert_bare(&net, &programs);
}

#[test]
fn a_device_that_vanishes_ends_the_run_with_everything_measured_until_then() {
    for (words, sides) in [("reflect xdp:eth1", 2), ("drop xdp:eth1 --port 9000", 1)] {
        let Some(net) = net_of(1) else { return };
        let (here, there) = (Scratch::new(), Scratch::new());
        let mut listener = listen(&net, &there, words);
        let mac = Host::B.mac();
        let sender = net.a(&format!("{SENDRECV} --dest-mac {mac} --duration 1h --quiet"));
        let mut sender = Background::start(here.results(sender));
        wait_until("packets", || there.busy_rows() >= 3 && here.busy_rows() >= 3);
        let mut programs = programs_of(&sender);
        programs.extend(programs_of(&listener));
        // Both ends of a veth vanish together.
        net.on(Host::B, "ip link delete eth1");
        wait_until("the end of both", || !sender.running() && !listener.running());
        let report = there.read(listener.finish());
        report.assert_rows_add_up();
        assert_vanished(&report);
        let report = here.read(sender.finish());
        report.assert_accounted();
        if sides == 2 {
            assert_vanished(&report);
        }
        wait_until("no program in the kernel", || still_loaded(&programs).is_empty());

        // A device of the same name can be used at once.
        let b = net.lab.namespace(Host::B);
        let (mac, peer) = (Host::A.mac(), Host::B.mac());
        let words = format!("link add eth1 address {mac} type veth peer name eth1 address {peer} netns {b}");
        let mut add = Command::new("ip");
        add.args(["-n", &net.lab.namespace(Host::A)])
            .args(words.split_whitespace());
        assert_eq!(run_command(add).code, Some(0));
        for (host, address) in [(Host::A, "10.99.0.1/24"), (Host::B, "10.99.0.2/24")] {
            net.on(host, "ip link set eth1 up");
            net.on(host, &format!("ip address add {address} dev eth1"));
        }
        all_back(&net, "reflect xdp:eth1", &[PACED]);
    }
}

#[test]
fn an_interface_that_goes_down_and_comes_back_is_told_and_the_run_goes_on() {
    let Some(net) = net_of(1) else { return };
    for side in Host::ALL {
        let (here, there) = (Scratch::new(), Scratch::new());
        let (sender, mut reflector) = under_way(&net, &here, &there, SENDRECV, "reflect xdp:eth1");
        net.on(side, "ip link set eth1 down");
        let rows = here.rows_so_far();
        wait_until("rows while the link is down", || here.rows_so_far() >= rows + 5);
        net.on(side, "ip link set eth1 up");
        wait_for_more("packets that come back again", || returning(&here));
        assert!(reflector.running(), "{}", reflector.stderr());
        let report = here.read(sender.end(Signal::INT));
        report.assert_accounted();
        // What is down at one end has no carrier at the other.
        let word = if side == Host::A { "down" } else { "no carrier" };
        assert!(report.said().contains(word), "{side:?}: {}", report.said());
        let reflected = there.read(reflector.end(Signal::INT));
        reflected.assert_rows_add_up();
    }
}

#[test]
fn an_interface_that_gets_another_name_is_the_same_one_and_the_run_goes_on() {
    for path in ["xdp", "af_xdp", "af_packet"] {
        let Some(net) = net_of(1) else { return };
        let (here, there) = (Scratch::new(), Scratch::new());
        let sendrecv = SENDRECV.replace("xdp:", &format!("{path}:"));
        let (mut sender, mut reflector) = under_way(&net, &here, &there, &sendrecv, &format!("reflect {path}:eth1"));
        for side in Host::ALL {
            // Before Linux 6.2 only what is down can be renamed.
            let live = run_command(inside(&net.lab, side, "ip link set eth1 name eth7"));
            if live.code != Some(0) {
                net.on(side, "ip link set eth1 down");
                net.on(side, "ip link set eth1 name eth7");
                net.on(side, "ip link set eth7 up");
            }
        }
        let rows = here.rows_so_far();
        wait_until("further rows", || {
            here.rows_so_far() >= rows + 25 || !sender.running() || !reflector.running()
        });
        assert!(sender.running(), "{path}: {}", sender.stderr());
        assert!(reflector.running(), "{path}: {}", reflector.stderr());
        wait_for_more("packets that come back", || returning(&here));
        let report = here.read(sender.end(Signal::INT));
        report.assert_accounted();
        assert!(!report.said().contains("removed"), "{path}: {}", report.said());
        let reflected = there.read(reflector.end(Signal::INT));
        reflected.assert_rows_add_up();
        assert!(!reflected.said().contains("removed"), "{path}: {}", reflected.said());
    }
}

#[test]
fn a_peer_without_a_poll_loop_is_refused_with_what_gives_it_one() {
    let Some(net) = net_of(1) else { return };
    if missing("ethtool", "ethtool") {
        return;
    }
    net.on(Host::B, "ethtool -K eth1 gro off");
    let mac = Host::B.mac();
    let words = "--src 10.99.0.1 --dest 10.99.0.2:9000 --rate 1kpps --duration 50ms";
    for send in ["send", "sendrecv"] {
        let command = net.a(&format!("{send} xdp:eth1 {words} --dest-mac {mac}"));
        assert_refused(command, 1, &["eth1", "ethtool -K", "gro on"]);
    }
    assert_eq!(net.xdp_program(Host::A, "eth1"), None);
}

#[test]
fn a_program_that_is_there_already_is_named_whoever_came_first() {
    let Some(net) = net_of(1) else { return };
    for (first, second) in [
        ("reflect af_xdp:eth1", "reflect xdp:eth1"),
        ("reflect xdp:eth1", "drop xdp:eth1 --port 9"),
        ("drop xdp:eth1,mode=skb --port 9", "reflect af_xdp:eth1"),
    ] {
        let listener = Background::ready(net.b(first));
        let was = net.xdp_program(Host::B, "eth1");
        let command = net.b(&format!("{second} --duration 50ms"));
        assert_refused(command, 1, &["eth1", "another XDP program is attached"]);
        assert_eq!(net.xdp_program(Host::B, "eth1"), was);
        assert_eq!(listener.end(Signal::INT).code, Some(0));
    }
}

#[test]
fn without_the_privilege_the_refusal_names_the_capabilities() {
    let Some(net) = net_of(1) else { return };
    if missing("setpriv", "util-linux") {
        return;
    }
    // Where a copy of the program is within anybody's reach.
    let folder = Scratch::new();
    let copy = folder.file("mpps");
    std::fs::copy(program(), &copy).expect("a copy of the program");
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("our folder");
    let with = |capabilities: &str, words: &str| {
        let who = format!("--reuid 65534 --regid 65534 --clear-groups --bounding-set={capabilities}");
        let rights = format!("--inh-caps={capabilities} --ambient-caps={capabilities}");
        inside(
            &net.lab,
            Host::A,
            &format!("setpriv {who} {rights} {} {words}", copy.display()),
        )
    };
    let run = "reflect xdp:eth1 --duration 50ms";
    for (capabilities, needed) in [
        ("-all", "cap_bpf"),
        ("-all,+net_admin", "cap_bpf"),
        ("-all,+bpf,+perfmon", "cap_net_admin"),
    ] {
        let finished = run_command(with(capabilities, run));
        let context = format!("{capabilities}: {:?} {}", finished.code, finished.stderr);
        assert_eq!(finished.code, Some(1), "{context}");
        assert_eq!(finished.stderr.trim_end().lines().count(), 1, "{context}");
        assert!(finished.stderr.to_lowercase().contains(needed), "{context}");
        assert!(finished.stderr.contains("eth1"), "{context}");
    }
    let finished = run_command(with("-all,+net_admin,+bpf,+perfmon", run));
    assert_eq!(
        finished.code,
        Some(0),
        "what the refusals name is enough: {}",
        finished.stderr
    );
}

#[test]
fn what_can_not_be_had_is_refused_in_one_line_before_the_first_packet() {
    let Some(net) = net_of(1) else { return };
    let ends = "--src 10.99.0.1 --dest 10.99.0.2:9000";
    for (words, code, parts) in [
        ("reflect xdp:eth9".to_owned(), 2, &["xdp:eth9", "eth1"][..]),
        ("reflect xdp:".to_owned(), 2, &["xdp:eth1"]),
        (
            format!("sendrecv xdp:eth1 {ends} --payload-size 1473"),
            2,
            &["--payload-size", "MTU"],
        ),
        (
            format!("sendrecv xdp:eth1 {ends} --flows 2 --lanes 9999"),
            2,
            &["--lanes"],
        ),
        (
            "capture xdp:eth1 -o /tmp/none".to_owned(),
            2,
            &["xdp:eth1", "af_xdp:eth1"],
        ),
        ("forward xdp:eth1 af_xdp:eth1".to_owned(), 2, &["af_xdp:eth1", "devmap"]),
    ] {
        assert_refused(net.a(&format!("{words} --duration 50ms")), code, parts);
    }
    assert_eq!(net.xdp_program(Host::A, "eth1"), None);
}
