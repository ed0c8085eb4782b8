//! What may go wrong in the middle of a run: the other end dies, the link goes down, the device vanishes, a process is
//! killed. The run goes on or ends, but never loses count.

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Report, Scratch, assert_only_the_gap_is_lost, listen, missing, net_of, program, returning, run_command,
    under_way, wait_for_more, wait_until,
};
use rustix::process::Signal;

const SENDRECV: &str = "sendrecv af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 10kpps --settle 500ms \
                        --interval 20ms";

#[test]
fn a_reflector_killed_and_started_again_costs_the_packets_of_that_time_only() {
    let Some(net) = net_of(1) else { return };
    let udp = "sendrecv udp:10.99.0.1 --dest 10.99.0.2:9000 --rate 10kpps --settle 500ms --interval 20ms";
    for (sendrecv, reflect) in [
        (SENDRECV, "reflect af_packet:eth1"),
        (udp, "reflect udp:10.99.0.2:9000"),
        (udp, "reflect af_packet:eth1"),
        (&udp.replace("udp:", "io_uring:"), "reflect io_uring:10.99.0.2:9000"),
    ] {
        assert_only_the_gap_is_lost(&net, sendrecv, reflect);
    }
}

#[test]
fn an_interface_that_goes_down_and_comes_back_is_told_and_the_run_goes_on() {
    let Some(net) = net_of(1) else { return };
    let udp = "sendrecv udp:10.99.0.1 --dest 10.99.0.2:9000 --rate 10kpps --settle 500ms --interval 20ms";
    for sendrecv in [SENDRECV, udp, &udp.replace("udp:", "io_uring:")] {
        let scratch = Scratch::new();
        let (sender, mut reflector) = under_way(&net, &scratch, sendrecv, "reflect af_packet:eth1");
        net.on(Host::A, "ip link set eth1 down");
        let rows = scratch.rows_so_far();
        wait_until("rows while the link is down", || scratch.rows_so_far() >= rows + 5);
        net.on(Host::A, "ip link set eth1 up");
        wait_for_more("packets that come back again", || returning(&scratch));
        assert!(reflector.running(), "{}", reflector.stderr());
        let report = scratch.read(sender.end(Signal::INT));
        report.assert_accounted();
        let told = report.said().to_lowercase();
        let words = ["down", "unreachable", "switched off", "no carrier"];
        assert!(words.iter().any(|word| told.contains(word)), "{sendrecv}: {told}");
    }
}

/// It says so in what it prints, and in the files that are read as its state.
#[test]
fn a_search_whose_device_was_deleted_names_it_and_not_the_plan() {
    let Some(net) = net_of(1) else { return };
    let there = Scratch::new();
    let _reflector = listen(&net, &there, "reflect af_packet:eth1");
    let scratch = Scratch::new();
    let files = ["s.xml", "s.prom"].map(|name| scratch.file(name));
    let words = "ndr af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --max-rate 2kpps --quick --search-time 1h";
    let mut command = net.a(words);
    command.arg("--junit").arg(&files[0]).arg("--prom").arg(&files[1]);
    let mut search = Background::start(command);
    wait_until("a trial", || search.stderr().contains("trial 1"));
    net.on(Host::A, "ip link delete eth1");
    wait_until("the end of the search", || !search.running());
    let done = search.finish();
    assert!(matches!(done.code, Some(1 | 3)), "{:?}: {}", done.code, done.stderr);
    let [junit, prom] = files.map(|file| std::fs::read_to_string(file).expect("a file"));
    assert!(!junit.contains("opened for other trials"), "{junit}");
    assert!(junit.contains("<error") && junit.contains("eth1"), "{junit}");
    assert!(
        prom.lines()
            .any(|line| line.starts_with("mpps_run_valid{") && line.ends_with(" 0")),
        "{prom}"
    );
}

/// The report of a run whose device was deleted under it.
fn device_deleted(sendrecv: &str) -> Option<Report> {
    let net = net_of(1)?;
    let scratch = Scratch::new();
    let (mut sender, _reflector) = under_way(&net, &scratch, sendrecv, "reflect af_packet:eth1");
    net.on(Host::A, "ip link delete eth1");
    wait_until("the end of the run", || !sender.running());
    Some(scratch.read(sender.finish()))
}

#[test]
fn a_device_that_vanishes_ends_the_run_with_everything_measured_until_then() {
    let Some(report) = device_deleted(SENDRECV) else { return };
    report.assert_accounted();
    assert_eq!(report.finished.code, Some(3), "{}", report.said());
    assert!(report.count("rx_packets") > 0, "{:#}", report.json);
    assert!(report.said().contains("vanished"), "{}", report.said());
}

#[test]
fn a_reflector_whose_device_vanishes_ends_with_its_results() {
    let Some(net) = net_of(1) else { return };
    let (here, there) = (Scratch::new(), Scratch::new());
    let mut reflector = Background::start(there.results(net.b("reflect af_packet:eth1")));
    wait_until("a row of the reflector", || there.rows_so_far() > 0);
    let sender = Background::start(here.results(net.a(&format!("{SENDRECV} --duration 1h"))));
    wait_until("packets", || there.busy_rows() >= 2);
    net.on(Host::B, "ip link delete eth1");
    wait_until("the end of the reflector", || !reflector.running());
    drop(sender);
    let report = there.read(reflector.finish());
    report.assert_rows_add_up();
    assert!(report.count("rx_packets") > 0, "{:#}", report.json);
    assert_eq!(report.finished.code, Some(3), "{}", report.said());
}

#[test]
fn what_a_killed_run_leaves_behind_does_not_disturb_the_next() {
    let Some(net) = net_of(1) else { return };
    for (sendrecv, reflect) in [
        (SENDRECV, "reflect af_packet:eth1"),
        (
            "sendrecv udp:10.99.0.1 --dest 10.99.0.2:9000 --rate 10kpps --settle 500ms",
            "reflect udp:10.99.0.2:9000",
        ),
        (
            "sendrecv io_uring:10.99.0.1 --dest 10.99.0.2:9000 --rate 10kpps --settle 500ms",
            "reflect io_uring:10.99.0.2:9000",
        ),
    ] {
        for _ in 0..2 {
            let scratch = Scratch::new();
            let (sender, reflector) = under_way(&net, &scratch, sendrecv, reflect);
            sender.end(Signal::KILL);
            reflector.end(Signal::KILL);
        }
        // The hosts are as they were: their own stacks talk to each other on the test's very ports.
        let udp = "sendrecv udp:10.99.0.1 --dest 10.99.0.2:9000 --src-port-range 10000-10063 --rate 10kpps \
                   --duration 300ms --settle 300ms --quiet";
        for (sendrecv, reflect) in [
            (udp, "reflect udp:10.99.0.2:9000"),
            (&format!("{SENDRECV} --duration 300ms"), "reflect af_packet:eth1"),
        ] {
            let reflector = Background::ready(net.b(reflect));
            let report = Scratch::new().measure(net.a(sendrecv));
            drop(reflector);
            report.assert_accounted();
            assert_eq!(
                report.count("rx_packets"),
                report.count("tx_packets"),
                "{reflect}: {:#}",
                report.json
            );
        }
    }
}

#[test]
fn without_the_privilege_the_refusal_names_the_capability() {
    let Some(net) = net_of(1) else { return };
    if missing("setpriv", "util-linux") {
        return;
    }
    // Where a copy of the program is within anybody's reach.
    let folder = Scratch::new();
    let copy = folder.file("mpps");
    std::fs::copy(program(), &copy).expect("a copy of the program");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("our folder");
    let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all --inh-caps=-all";
    let run = |words: &str| {
        let words = format!("{nobody} {} {words}", copy.display());
        run_command(mpps_tests::inside(&net.lab, Host::A, &words))
    };
    for words in [
        "reflect af_packet:eth1 --duration 50ms",
        &format!("{SENDRECV} --duration 50ms"),
    ] {
        let finished = run(words);
        assert_eq!(finished.code, Some(1), "{words}: {}", finished.stderr);
        assert_eq!(finished.stderr.trim_end().lines().count(), 1, "{}", finished.stderr);
        assert!(finished.stderr.contains("CAP_NET_RAW"), "{}", finished.stderr);
    }
    let finished = run("lab up --name mpps-test-nobody");
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert!(finished.stderr.contains("root"), "{}", finished.stderr);
    // What needs no privilege works without.
    let finished = run("reflect udp:10.99.0.1:9000 --duration 50ms");
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
}
