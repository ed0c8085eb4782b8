//! What was injected into a traced run is what its sentences name: for each cause the sentence that it must give.
//!
//! Causes are injected with certainty, and a busy host adds its own, which are named as well: a test asks for its
//! sentence among all. How often each is named rightly, of how many, is measured by `bench/causes.py`.

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Net, Scratch, Traced, bridge, free_port, joined_twice, mpps, net_of, silent, source_ports,
    wait_for_more, wait_for_silence, wait_until,
};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

/// True, and said, where the kernel's tracepoints are out of reach.
fn no_root() -> bool {
    let absent = !rustix::process::geteuid().is_root();
    if absent {
        mpps_tests::skip("the kernel's tracepoints need root");
    }
    absent
}

/// Over the `loop` device, and short.
const LOOP_TIMES: &str = "--duration 300ms --settle 200ms";
/// Until it is ended, with rows that close soon.
const OPEN_END: &str = "--duration 1h --settle 50ms --interval 20ms --quiet";

#[test]
fn loss_on_the_path_is_told_as_such() {
    let traced = Traced::run(&format!("sendrecv loop:loss=1% --rate 20kpps {LOOP_TIMES}"));
    assert!(traced.json["lost"].as_u64() > Some(0));
    traced.assert_says(&["packets were lost between", "on the path or beyond it"]);
}

#[test]
fn loss_for_want_of_capacity_is_the_path_s() {
    let traced = Traced::run(&format!(
        "sendrecv loop:capacity=10kpps,queue=20 --rate 20kpps {LOOP_TIMES}"
    ));
    assert!(traced.json["lost"].as_u64() > Some(0));
    traced.assert_says(&["packets were lost between", "on the path or beyond it"]);
}

#[test]
fn a_delay_on_the_path_is_what_the_latest_packet_s_time_went_to() {
    // Much longer than a busy host keeps the lane from its core, which is told apart from it.
    let traced = Traced::run("sendrecv loop:delay=200ms --rate 2kpps --duration 300ms --settle 600ms");
    traced.assert_says(&["was back ", "after it was due", " path"]);
    let late = traced.json["why"].as_array().expect("why").iter();
    let path = late
        .filter(|cause| cause["subject"] == "late")
        .flat_map(|cause| cause["parts"].as_array().expect("parts"));
    let path = path.filter(|part| part["what"] == "path");
    assert!(
        path.filter_map(|part| part["amount"].as_u64())
            .any(|ns| ns >= 100_000_000),
        "{:#}",
        traced.json["why"]
    );
}

#[test]
fn a_port_that_nobody_listens_on_is_named_by_the_kernel_s_reason() {
    if no_root() {
        return;
    }
    let port = free_port();
    let traced = Traced::run(&format!(
        "sendrecv udp:127.0.0.1 --dest 127.0.0.1:{port} --rate 2kpps {LOOP_TIMES}"
    ));
    assert_eq!(traced.json["rx_packets"], 0);
    traced.assert_says(&["dropped by this host's kernel: NO_SOCKET (nobody listens on that port)"]);
}

#[test]
fn a_super_packet_that_is_dropped_is_all_of_its_packets() {
    if no_root() {
        return;
    }
    let port = free_port();
    let traced = Traced::run(&format!(
        "sendrecv udp:127.0.0.1,gso=on --dest 127.0.0.1:{port} --rate 20kpps --burst 32 {LOOP_TIMES}"
    ));
    let lost = traced.json["lost"].as_u64().expect("a count");
    let parts = traced.json["why"][0]["parts"].as_array().expect("parts");
    let closed = parts
        .iter()
        .filter(|part| part["what"].as_str().is_some_and(|what| what.contains("NO_SOCKET")));
    let closed: u64 = closed.filter_map(|part| part["amount"].as_u64()).sum();
    assert!(closed > 0 && closed == lost, "{closed} of {lost}: {parts:#?}");
}

/// A sender over the loopback device, with a reflector that has a small buffer, and packets that have come back.
fn over_loopback(folder: &Scratch) -> (Background, Background) {
    let port = free_port();
    let reflector = Background::ready(mpps(&format!("reflect udp:127.0.0.1:{port},rcvbuf=65536")));
    let words = format!(
        "sendrecv udp:127.0.0.1 --dest 127.0.0.1:{port} --rate 20kpps --catch-up 1s {OPEN_END} {}",
        source_ports(1)
    );
    let sender = Background::start(folder.traced(mpps(&words)));
    wait_until("packets that came back", || folder.busy_rows() >= 3);
    (sender, reflector)
}

#[test]
fn a_socket_s_buffer_that_is_too_small_is_named() {
    if no_root() {
        return;
    }
    let folder = Scratch::new();
    let (sender, reflector) = over_loopback(&folder);
    reflector.signal(Signal::STOP);
    wait_until("a buffer that is full", || silent(&folder) >= 3);
    reflector.signal(Signal::CONT);
    let rows = folder.rows_so_far();
    wait_until("rows after it", || folder.rows_so_far() > rows + 5);
    let done = sender.end(Signal::INT);
    drop(reflector);
    let traced = Traced::of(folder, &done);
    traced.assert_says(&[
        "packets were lost",
        "dropped by this host's kernel: SOCKET_RCVBUFF (a socket's receive buffer was full)",
    ]);
}

#[test]
fn a_reflector_that_is_killed_is_a_port_that_nobody_listens_on_any_more() {
    if no_root() {
        return;
    }
    let folder = Scratch::new();
    let (sender, reflector) = over_loopback(&folder);
    reflector.end(Signal::KILL);
    wait_for_silence(&folder);
    let traced = Traced::of(folder, &sender.end(Signal::INT));
    traced.assert_says(&[
        "packets were lost",
        "dropped by this host's kernel: NO_SOCKET (nobody listens on that port any more)",
    ]);
}

/// A sender whose packets go through a bridge on another host, from one port to another.
fn through_a_bridge() -> Option<Net> {
    let net = joined_twice()?;
    bridge(&net);
    Some(net)
}

#[test]
fn a_bridge_that_drops_is_named_and_another_run_s_closed_port_is_not() {
    if no_root() {
        return;
    }
    let (Some(net), Some(other)) = (through_a_bridge(), net_of(1)) else {
        return;
    };
    // The same ports on another host, and nobody listens there.
    let to_nobody =
        "send udp:10.99.0.1 --dest 10.99.0.2:9000 --src-port-range 10000-10000 --rate 5kpps --duration 1h --quiet";
    let stranger = Background::start(other.a(to_nobody));
    let folder = Scratch::new();
    let words = format!(
        "sendrecv af_packet:eth1 af_packet:eth2 --src-port-range 10000-10000 --rate 5kpps --catch-up 1s {OPEN_END}"
    );
    let sender = Background::start(folder.traced(net.a(&words)));
    wait_until("packets that came back", || folder.busy_rows() >= 3);
    for how in ["on", "off"] {
        for port in ["eth1", "eth2"] {
            net.on(Host::B, &format!("ip link set {port} type bridge_slave isolated {how}"));
        }
        if how == "on" {
            wait_for_more("rows in which everything is lost", || silent(&folder));
        }
    }
    let rows = folder.rows_so_far();
    wait_until("rows after it", || folder.rows_so_far() > rows + 5);
    let traced = Traced::of(folder, &sender.end(Signal::INT));
    drop(stranger);
    traced.assert_says(&["packets were lost", "dropped by this host's kernel: ", "(a bridge"]);
    let why = traced.why();
    assert!(why.iter().all(|sentence| !sentence.contains("NO_SOCKET")), "{why:#?}");
}

#[test]
fn a_queueing_discipline_of_a_bridge_that_drops_is_named() {
    if no_root() || mpps_tests::missing("tc", "iproute2") {
        return;
    }
    let Some(net) = through_a_bridge() else { return };
    net.on(
        Host::B,
        "tc qdisc replace dev eth2 root tbf rate 256kbit burst 4k limit 8k",
    );
    let folder = Scratch::new();
    let words = format!("sendrecv af_packet:eth1 af_packet:eth2 --rate 5kpps --catch-up 1s {OPEN_END}");
    let sender = Background::start(folder.traced(net.a(&words)));
    wait_until("rows", || folder.rows_so_far() > 10);
    let traced = Traced::of(folder, &sender.end(Signal::INT));
    traced.assert_says(&[
        "packets were lost",
        "dropped by this host's kernel: ",
        "(a queueing discipline",
    ]);
}

/// What a traced sender says of a reflector on another host that was stopped until its packet socket was full.
fn beside_a_full_packet_socket(sender: &str, reflector: &str) -> Option<Traced> {
    let net = net_of(1)?;
    let reflector = Background::ready(net.b(reflector));
    let folder = Scratch::new();
    let sender = format!("{sender} --rate 5kpps --catch-up 1s {OPEN_END} {}", source_ports(1));
    let sender = Background::start(folder.traced(net.a(&sender)));
    wait_until("packets that came back", || folder.busy_rows() >= 3);
    reflector.signal(Signal::STOP);
    wait_until("a ring that is full", || silent(&folder) >= 5);
    reflector.signal(Signal::CONT);
    let rows = folder.rows_so_far();
    wait_until("rows after it", || folder.rows_so_far() > rows + 5);
    let traced = Traced::of(folder, &sender.end(Signal::INT));
    drop(reflector);
    let warnings = traced.json["warnings"].to_string();
    assert!(traced.json["lost"].as_u64() > Some(0), "{:#}", traced.json);
    println!("{warnings}\n{:#?}", traced.why());
    Some(traced)
}

#[test]
fn a_packet_socket_on_another_host_that_has_no_room_is_named() {
    if no_root() {
        return;
    }
    for (sender, reflector) in [
        (
            "sendrecv af_packet:eth1 --dest 10.99.0.2:9000",
            "reflect af_packet:eth1,ring=64",
        ),
        (
            "sendrecv udp:[fd99::1] --dest [fd99::7]:9000",
            "reflect af_packet:eth1,ring=128 --ip fd99::7",
        ),
        (
            "sendrecv udp:10.99.0.1 --dest 10.99.0.2:9000",
            "reflect af_packet:eth1,ring=64,fanout=hash --lanes 2",
        ),
    ] {
        let Some(traced) = beside_a_full_packet_socket(sender, reflector) else {
            return;
        };
        traced.assert_says(&[
            "packets were lost",
            "dropped by this host's kernel: PACKET_SOCK_ERROR (a packet socket's ring was full)",
        ]);
        let warnings = traced.json["warnings"].to_string();
        assert!(
            warnings.contains("PACKET_SOCK_ERROR") && !warnings.contains("none of the"),
            "{warnings}"
        );
        let drops = traced.json["kernel_drops"].as_array().expect("drops");
        let full = drops
            .iter()
            .find(|of| of["reason"] == "PACKET_SOCK_ERROR")
            .expect("drops of the socket");
        let lost = traced.json["lost"].as_u64().expect("a count");
        // A busy host, or a trace that lost records, may leave others without a name.
        assert!(full["packets"].as_u64() >= Some(lost / 10), "{full} of {lost}");
    }
}

#[test]
fn a_packet_socket_that_may_have_had_a_copy_is_not_ruled_out() {
    if no_root() {
        return;
    }
    let Some(traced) = beside_a_full_packet_socket(
        "sendrecv af_packet:eth1 --dest 10.99.0.2:9000",
        "reflect af_packet:eth1,ring=64,guard=off",
    ) else {
        return;
    };
    traced.assert_says(&[
        "packets were lost",
        "for which a packet socket of this host had no room",
    ]);
    let why = traced.why();
    assert!(
        why.iter().all(|sentence| !sentence.contains("nothing on this host")),
        "{why:#?}"
    );
    let warnings = traced.json["warnings"].to_string();
    assert!(
        warnings.contains("for which a packet socket of this host had no room") && !warnings.contains("none of the"),
        "{warnings}"
    );
}

#[test]
fn no_note_denies_what_a_trace_has_seen_a_queue_drop() {
    if no_root() || mpps_tests::missing("tc", "iproute2") {
        return;
    }
    // The sender's own queue, and the reflector's on another host of this machine.
    for (of, port, dest) in [
        (Host::A, "udp:10.99.0.1", "10.99.0.2:9000"),
        (Host::B, "udp:[fd99::1]", "[fd99::2]:9000"),
    ] {
        let Some(net) = net_of(1) else { return };
        net.on(
            of,
            "tc qdisc replace dev eth1 root tbf rate 1mbit burst 3000 limit 3000",
        );
        let reflector = Background::ready(net.b(&format!("reflect udp:{dest}")));
        let folder = Scratch::new();
        let words = format!("sendrecv {port} --dest {dest} --rate 5kpps --payload-size 200 --catch-up 1s {OPEN_END}");
        let sender = Background::start(folder.traced(net.a(&words)));
        wait_until("rows", || folder.busy_rows() > 10);
        let traced = Traced::of(folder, &sender.end(Signal::INT));
        drop(reflector);
        let warnings = traced.json["warnings"].to_string();
        assert!(traced.json["lost"].as_u64() > Some(0), "{:#}", traced.json);
        assert!(
            warnings.contains("QDISC_DROP") && !warnings.contains("none of the"),
            "{warnings}"
        );
        traced.assert_says(&["packets were lost", "dropped by this host's kernel: QDISC_DROP"]);
    }
}

#[test]
fn an_outage_that_holds_most_of_the_loss_is_named_with_its_length() {
    for (faults, whole) in [("outage=100ms-200ms", true), ("outage=150ms-300ms,loss=0.2%", false)] {
        let traced = Traced::run(&format!(
            "sendrecv loop:{faults} --rate 20kpps --duration 500ms --settle 200ms --interval 20ms"
        ));
        let text = traced.json["warnings"].to_string();
        assert!(
            text.contains("in an outage") && (!whole || !text.contains("at random")),
            "{text}"
        );
        traced.assert_says(&["packets were lost between", " of them in an outage of "]);
        let outage = &traced.json["longest_outage"];
        assert!(outage["length_ns"].as_u64() >= Some(100_000_000), "{outage}");
    }
}

/// Stops a program that sends over the `loop` device for this long, and says what it tells.
fn stopped_for(length: Duration) -> Traced {
    let folder = Scratch::new();
    let words = format!("sendrecv loop: --rate 5kpps {OPEN_END}");
    let run = Background::start(folder.traced(mpps(&words)));
    wait_until("rows", || folder.busy_rows() >= 3);
    let stat = format!("/proc/{}/stat", run.id());
    run.signal(Signal::STOP);
    wait_until("the program to be stopped", || {
        std::fs::read_to_string(&stat)
            .is_ok_and(|text| text.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T")))
    });
    let from = Instant::now();
    while from.elapsed() < length {
        std::thread::yield_now();
    }
    run.signal(Signal::CONT);
    let rows = folder.rows_so_far();
    wait_until("rows after the stop", || folder.rows_so_far() > rows + 5);
    Traced::of(folder, &run.end(Signal::INT))
}

#[test]
fn a_program_that_was_stopped_is_named() {
    if no_root() {
        return;
    }
    for length in [Duration::from_millis(3), Duration::from_millis(300)] {
        let traced = stopped_for(length);
        traced.assert_says(&["stopped by a signal"]);
        // Of the packets that were late by it, or the burst that was slow, it is a part of that length; of departures
        // that were missed, of that many.
        let longest = |missed: bool| {
            let why = traced.json["why"].as_array().expect("why").iter();
            let of_these = why.filter(|cause| (cause["subject"] == "missed") == missed);
            let parts = of_these.flat_map(|cause| cause["parts"].as_array().expect("parts"));
            let stops = parts.filter(|part| {
                part["what"]
                    .as_str()
                    .is_some_and(|what| what.contains("stopped by a signal"))
            });
            stops.filter_map(|part| part["amount"].as_u64()).max().unwrap_or(0)
        };
        // A sender catches up with so much at the most, and leaves out the rest; and where it has its core later than
        // it was let go on, that time is another's, all that it catches up with on a busy host.
        let most = length.min(Duration::from_millis(3));
        let departures = (length.as_secs_f64() * 5_000.0) as u64;
        assert!(
            longest(false) >= most.as_nanos() as u64 / 2 || longest(true) >= departures.max(2) / 2,
            "{} ns, {} departures of {length:?}",
            longest(false),
            longest(true)
        );
    }
}

/// Starts a program that keeps core 0 busy. There is one at a time, or the runs get nothing. Each test may be a process
/// of its own, so the lock is on the file of their binary, until the returned file is closed.
fn spinner() -> (Background, File) {
    let binary = std::env::current_exe().and_then(File::open).expect("this binary");
    flock(&binary, FlockOperation::LockExclusive).expect("a lock");
    (mpps_tests::spinner(0), binary)
}

/// A run on the spinner's core. The scheduler gives a core away for 3 ms or more, and a departure is missed after 1 ms.
const BESIDE_SPINNER: &str =
    "sendrecv loop: --rate 5kpps --catch-up 1ms --duration 1s --settle 200ms --cores 0 --busy-poll";

#[test]
fn a_thread_that_has_the_lane_s_core_is_named_with_its_id() {
    if no_root() {
        return;
    }
    let (spinner, _one) = spinner();
    let traced = Traced::run(BESIDE_SPINNER);
    let tid = spinner.id();
    drop(spinner);
    traced.assert_says(&[&format!("sh (thread {tid}) had the core")]);
    let table = traced.told("table");
    assert!(table.contains(&format!("sh ({tid})")), "{table}");
}

#[test]
fn departures_that_were_missed_are_told_by_who_had_the_core_and_lay_no_stage_to_account() {
    if no_root() {
        return;
    }
    let (spinner, _one) = spinner();
    let traced = Traced::run(BESIDE_SPINNER);
    let untraced = Scratch::new().measure(mpps(&format!("{BESIDE_SPINNER} --quiet")));
    let tid = spinner.id();
    drop(spinner);
    let sentence = format!("while sh (thread {tid}) had the core");
    traced.assert_says(&["departures were missed between", &sentence]);
    let why = untraced.json["why"].as_array().expect("why");
    let missed = why
        .iter()
        .find(|cause| cause["subject"] == "missed")
        .expect("departures");
    let sentence = missed["sentence"].as_str().expect("a sentence");
    // Without a trace it is not known who.
    assert!(sentence.contains(" while the lane "), "{sentence}");
    let parts = missed["parts"].as_array().expect("parts").iter();
    let sum: u64 = parts.filter_map(|part| part["amount"].as_u64()).sum();
    assert_eq!(Some(sum), missed["packets"].as_u64(), "{missed:#}");
}

#[test]
fn who_took_the_core_stands_beside_the_verdict_with_a_trace_and_without() {
    if no_root() {
        return;
    }
    let (spinner, _one) = spinner();
    let warnings = |json: &serde_json::Value| json["warnings"].to_string() + &json["invalid_reasons"].to_string();
    let traced = warnings(&Traced::run(BESIDE_SPINNER).json);
    let untraced = Scratch::new().measure(mpps(&format!("{BESIDE_SPINNER} --quiet")));
    let tid = spinner.id();
    drop(spinner);
    let taken = traced.split_once("the lanes' cores were taken by ").expect(&traced).1;
    // Threads of one name are one to be told: another test's shell may be with it.
    let alone = format!("sh (thread {tid}) on core 0 for ");
    assert!(
        taken.contains(&alone) || taken.contains(" threads) on core 0 for "),
        "{traced}"
    );
    let said = warnings(&untraced.json);
    let alone = format!("sh (thread {tid}) ran for ");
    assert!(said.contains(&alone) || said.contains(" threads) ran for "), "{said}");
    assert!(said.contains(" meanwhile, last on core"), "{said}");
    // A trace is worth its while where somebody unseen had the core.
    let unseen = said.contains("is accounted for at most") || said.contains("may have been there");
    assert_eq!(said.contains("--trace FILE"), unseen, "{said}");
}

#[test]
fn in_a_container_threads_of_the_host_are_told_from_own_ones_of_the_same_number() {
    if no_root() || mpps_tests::missing("unshare", "util-linux") {
        return;
    }
    let (outside, _one) = spinner();
    let folder = Scratch::new();
    let traced = folder.traced(mpps(&BESIDE_SPINNER.replace("1s", "2s")));
    // In the namespace a spinner of its own, and mpps' threads with numbers around the one that the other has outside.
    let script = format!(
        "setsid nice -n -10 taskset -c 0 yes >/dev/null & echo {} >/proc/sys/kernel/ns_last_pid; exec \"$0\" \"$@\"",
        outside.id().saturating_sub(4)
    );
    let mut inside = Command::new("unshare");
    inside.args(["-p", "-f", "--mount-proc", "sh", "-c", &script]);
    inside.arg(traced.get_program()).args(traced.get_args());
    inside.envs(traced.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let done = mpps_tests::run_command(inside);
    let traced = Traced::of(folder, &done);
    let number = outside.id();
    drop(outside);
    let table = traced.told("table");
    assert!(table.contains(&format!("sh ({number} of the host)")), "{table}");
    // The shell was the first there.
    assert!(table.contains("yes (2)"), "{table}");
    traced.assert_says(&[&format!("sh (thread {number} of the host) had the core")]);
}
