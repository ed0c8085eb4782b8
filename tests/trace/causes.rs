//! What a run says of the cause when something went wrong: the one that the test has brought about, and no other.

use std::time::{Duration, Instant};

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Scratch, free_port, listen, missing, mpps, net_of, silent, skip_disturbed, source_ports, wait_until,
};
use rustix::process::Signal;

/// Stops the program, keeps it so until `condition` holds, and has it go on.
fn stop(program: &Background, condition: impl FnMut() -> bool) {
    program.signal(Signal::STOP);
    let stat = format!("/proc/{}/stat", program.id());
    wait_until("the program to be stopped", || {
        std::fs::read_to_string(&stat)
            .is_ok_and(|text| text.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T")))
    });
    wait_until("the end of the stop", condition);
    program.signal(Signal::CONT);
}

#[test]
fn a_sender_that_was_stopped_says_so_and_blames_no_generator() {
    let scratch = Scratch::new();
    let words = "sendrecv loop:delay=1ms --rate 1kpps --duration 1h --settle 100ms --interval 20ms --quiet";
    let sender = Background::start(scratch.results(mpps(words)));
    wait_until("packets that came back", || scratch.busy_rows() >= 3);
    // From when it is stopped, which may take its time; and for longer than all else takes that a loaded host misses.
    let mut began = None;
    stop(&sender, || {
        began.get_or_insert_with(Instant::now).elapsed() > Duration::from_secs(2)
    });
    let rows = scratch.rows_so_far();
    wait_until("rows after the stop", || scratch.rows_so_far() > rows + 10);
    let report = scratch.read(sender.end(Signal::INT));
    report.assert_accounted();
    let reasons = report.json["invalid_reasons"].to_string();
    assert!(reasons.contains("the process was stopped for"), "{reasons}");
    for other in ["could not keep up", "add lanes", "other threads kept", "stood still"] {
        assert!(!reasons.contains(other), "{other}: {reasons}");
    }
    let away = &report.json["lanes"][0]["away"];
    assert!(away["longest_ns"].as_u64() >= Some(400_000_000), "{away}");
    // Each departure is missed when it was due, and not when the sender came back: 20 in each row of the stop.
    let missed: Vec<u64> = report
        .rows
        .iter()
        .filter_map(|row| row["missed_packets"].parse().ok())
        .collect();
    assert!(missed.iter().all(|n| *n <= 21), "{missed:?}");
    assert!(missed.iter().filter(|n| **n >= 19).count() >= 50, "{missed:?}");
}

#[test]
fn a_program_that_ran_and_ended_meanwhile_is_not_blamed_on_others() {
    let scratch = Scratch::new();
    let words = "send null: --rate 1kpps --duration 1h --cores 0 --busy-poll --quiet --interval 20ms";
    let sender = Background::start(scratch.results(mpps(words)));
    wait_until("rows", || scratch.rows_so_far() >= 3);
    let spinner = mpps_tests::spinner(0);
    let from = Instant::now();
    wait_until("the spinner to have had the core", || {
        from.elapsed() > Duration::from_secs(2)
    });
    drop(spinner);
    let rows = scratch.rows_so_far();
    wait_until("rows after it", || scratch.rows_so_far() > rows + 5);
    let said = scratch.read(sender.end(Signal::INT)).said();
    // Others that go on running may account for the most of it on a busy host.
    match said.contains("is accounted for at most") {
        true => assert!(said.contains("--trace FILE names it"), "{said}"),
        false => assert!(runnable() > 2, "{said}"),
    }
}

#[test]
fn what_a_stopped_reflector_dropped_is_in_rows_lines_and_summary_with_its_cause() {
    let (here, there) = (Scratch::new(), Scratch::new());
    let port = free_port();
    let words = format!("reflect udp:127.0.0.1:{port},rcvbuf=65536 --plain --interval 20ms");
    let reflector = Background::ready(there.results(mpps(&words)));
    // Rows of the sender are closed soon after: it tells while the reflector is stopped that nothing comes back.
    let words = format!(
        "sendrecv udp:127.0.0.1 --dest 127.0.0.1:{port} --rate 20kpps --duration 1h --settle 50ms --interval 20ms \
         --catch-up 1s --quiet {}",
        source_ports(1)
    );
    let sender = Background::start(here.results(mpps(&words)));
    wait_until("packets that came back", || here.busy_rows() >= 3);
    stop(&reflector, || silent(&here) >= 10);
    let rows = here.rows_so_far();
    wait_until("rows after the stop", || here.rows_so_far() > rows + 10);
    let sent = here.read(sender.end(Signal::INT));
    let reflected = there.read(reflector.end(Signal::INT));
    sent.assert_accounted();
    // That rows, lanes and summary agree on the drops is checked here, too.
    reflected.assert_rows_add_up();
    assert!(reflected.count("host_dropped") > 0, "{:#}", reflected.json);
    assert!(
        reflected.finished.stderr.contains("dropped by this host"),
        "not in the plain lines: {}",
        reflected.finished.stderr
    );
    let warnings = reflected.json["warnings"].to_string();
    assert!(
        warnings.contains("dropped by this host before mpps saw them: the process was stopped for"),
        "{warnings}"
    );
    assert!(!warnings.contains("faster than"), "{warnings}");
    // The sender can't know why, but when.
    let stretches = sent.json["loss_stretches"].as_array().expect("a list");
    let named: u64 = stretches.iter().filter_map(|s| s["lost"].as_u64()).sum();
    let others = &sent.json["loss_outside_stretches"];
    assert_eq!(
        named + others["lost"].as_u64().expect("a number"),
        sent.count("lost") + others["found_later"].as_u64().expect("a number"),
        "{:#}",
        sent.json
    );
}

/// Threads of this machine that run or wait for a core.
fn runnable() -> usize {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let field = text.split_whitespace().nth(3).and_then(|field| field.split('/').next());
    field.and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[test]
fn two_ends_on_one_core_name_each_other() {
    let port = free_port();
    let words = format!("reflect udp:127.0.0.1:{port} --cores 0 --busy-poll");
    let reflector = Background::ready(mpps(&words));
    let rival = format!("another mpps (process {}) has a lane on core 0, too", reflector.id());
    // Those are named that ran for a good part of the wait: where the core is others' for the most part, it may be
    // none.
    let mut crowded = 0;
    let named = (0..20).any(|_| {
        let words = format!(
            "sendrecv udp:127.0.0.1 --dest 127.0.0.1:{port} --rate 2kpps --duration 500ms --settle 100ms --cores 0 \
             --busy-poll --quiet {}",
            source_ports(1)
        );
        let said = Scratch::new().measure(mpps(&words)).said();
        println!("{said}");
        // Beside this thread and the reflector's lane.
        crowded += usize::from(runnable() > 2);
        said.contains("other threads kept the lanes") && said.contains(&rival)
    });
    if !named {
        assert!(crowded >= 10, "the machine is idle, and the rival was never named");
        skip_disturbed("core 0 is busy with others than this test's two ends");
    }
    reflector.end(Signal::INT);
}

#[test]
fn a_reflector_that_waits_for_room_to_send_says_so_and_for_how_long() {
    if missing("tc", "iproute2") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    // Some hundred packets a second leave, the others wait in the socket's buffer: there is hardly ever room.
    net.on(
        Host::B,
        "tc qdisc replace dev eth1 root tbf rate 64kbit burst 4k limit 20m",
    );
    let (here, there) = (Scratch::new(), Scratch::new());
    let reflector = listen(&net, &there, "reflect udp:10.99.0.2:9000,rcvbuf=65536");
    let words = "sendrecv udp:10.99.0.1 --dest 10.99.0.2:9000 --rate 30kpps --duration 500ms --settle 10ms --quiet";
    here.measure(net.a(words));
    let rows = there.rows_so_far();
    wait_until("further rows", || there.rows_so_far() > rows + 5);
    let reflected = there.read(reflector.end(Signal::INT));
    reflected.assert_rows_add_up();
    let warnings = reflected.json["warnings"].to_string();
    assert!(
        warnings.contains("dropped by this host before mpps saw them: lanes waited for room to send for"),
        "{:#}",
        reflected.json
    );
    let us: f64 = reflected
        .rows
        .iter()
        .filter_map(|row| row["blocked_us"].parse::<f64>().ok())
        .sum();
    let ns = reflected.lanes("blocked_ns");
    assert!(
        ns > 0 && (us * 1e3 - ns as f64).abs() < 1e3,
        "{us} us in rows, {ns} ns of lanes"
    );
}
