//! The xdp path between two hosts: programs at both ends, and with every path at the other end, over both families,
//! with frames, flows, pacing and lanes of several shapes; and beside it the host's own traffic, which goes on.

use mpps_host::lab::Host;
use mpps_tests::{
    Background, ECHO, Report, Scratch, TALK, all_back, all_there, assert_refused, cases, inside, listen, missing,
    net_of, one_way, wait_until,
};
use rustix::process::Signal;

const SENDRECV: &str = "sendrecv xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps";
const SENDRECV6: &str = "sendrecv xdp:eth1 --src fd99::1 --dest [fd99::2]:9000 --rate 20kpps";

/// Latencies and gaps are there, and in the order that they must have.
fn assert_measured(report: &Report) {
    let context = format!("{:#}", report.json);
    for key in ["latency_ns", "latency_scheduled_ns"] {
        let values = ["min", "p50", "p90", "p99", "p999", "max"].map(|p| report.count(&format!("/{key}/{p}")));
        assert!(values[0] > 0 && values.is_sorted(), "{key} {values:?}: {context}");
        assert_eq!(
            report.count(&format!("/{key}/count")),
            report.count("rx_packets"),
            "{context}"
        );
    }
    let gaps = ["min", "p50", "p99", "max"].map(|p| report.count(&format!("/departure_gap_ns/{p}")));
    assert!(gaps.is_sorted() && gaps[3] > 0, "{gaps:?}: {context}");
}

#[test]
fn packets_of_every_size_family_and_tag_come_back_and_are_measured() {
    let Some(net) = net_of(1) else { return };
    let tagged = format!(
        "--frame-size 104 --vlan 5 --dest-mac {} --ttl 3 --dscp 46",
        Host::B.mac()
    );
    let shapes = ["--frame-size 574", "--frame-size 1518 --flows 100", &tagged];
    let mut words = vec![
        format!("{SENDRECV} --frame-size 64"),
        format!("{SENDRECV6} --frame-size 82"),
    ];
    words.extend(
        shapes
            .iter()
            .flat_map(|shape| [format!("{SENDRECV} {shape}"), format!("{SENDRECV6} {shape}")]),
    );
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (sent, reflected) = all_back(&net, "reflect xdp:eth1", &words);
    sent.iter().for_each(assert_measured);
    for report in sent.iter().chain([&reflected]) {
        assert_eq!(report.json["host"]["xdp_mode"], "native", "{:#}", report.json["host"]);
    }
}

#[test]
fn missed_departures_stand_in_the_rows_in_which_they_were_due() {
    let Some(net) = net_of(1) else { return };
    for sendrecv in [SENDRECV, SENDRECV6] {
        let (scratch, there) = (Scratch::new(), Scratch::new());
        let reflector = listen(&net, &there, "reflect xdp:eth1");
        let words = format!("{sendrecv} --interval 10ms --settle 1s --duration 1h --quiet");
        let sender = Background::start(scratch.results(net.a(&words)));
        wait_until("rows", || scratch.busy_rows() > 3);
        // Programs run in the lanes' threads: while those are stopped nothing leaves.
        sender.signal(Signal::STOP);
        let from = std::time::Instant::now();
        wait_until("a stop of many rows", || {
            from.elapsed() > std::time::Duration::from_millis(300)
        });
        sender.signal(Signal::CONT);
        let rows = scratch.rows_so_far();
        wait_until("rows after it", || scratch.rows_so_far() > rows + 150);
        let sent = scratch.read(sender.end(Signal::INT));
        there.read(reflector.end(Signal::INT));
        let missed = sent.count("missed");
        let of_rows: Vec<i64> = sent
            .rows
            .iter()
            .map(|row| row["missed_packets"].parse().expect("a count"))
            .filter(|missed| *missed > 0)
            .collect();
        assert!(
            missed > 0 && of_rows.iter().sum::<i64>() == missed as i64,
            "{of_rows:?} of {missed}"
        );
        // 200 are due in a row; the last has those that had not left at the end, too.
        let of_rows = &of_rows[..of_rows.len() - 1];
        assert!(of_rows.iter().all(|missed| *missed <= 201), "{of_rows:?}");
        assert!(
            of_rows.iter().filter(|missed| **missed >= 190).count() >= 20,
            "{of_rows:?}"
        );
    }
}

#[test]
fn flows_pacing_and_options_of_every_kind_lose_none() {
    let Some(net) = net_of(1) else { return };
    let words = [
        "--flows 500 --src-port-range 10000-10099",
        "--flows 1 --payload-size 16",
        "--pacing poisson --flows 3",
        "--pacing burst=32",
        "--interval 1ms",
        "--seed 77 --payload-size 1001",
    ]
    .map(|words| format!("{SENDRECV} {words}"));
    let (sent, _) = all_back(&net, "reflect xdp:eth1", &words.each_ref().map(String::as_str));
    for report in &sent {
        assert_measured(report);
        report.assert_departures(2000);
    }
    let ports = format!("{} --flows 64", SENDRECV.replace(":9000 ", ":9000-9007 "));
    // A batch stays below the 256 places of a veth's ring: after a stall of the host whole ones are caught up.
    let options = [",mode=native,clock=packet,batch=1", ",check=headers,batch=64"]
        .map(|options| SENDRECV.replace("eth1", &format!("eth1{options}")));
    let reflect = "reflect xdp:eth1,clock=packet --port 9000-9007";
    let (sent, reflected) = all_back(&net, reflect, &[&ports, &options[0], &options[1]]);
    assert_eq!(reflected.reason("wrong_port"), 0, "{:#}", reflected.json);
    for (report, unchecked) in sent.iter().zip([false, false, true]) {
        assert_measured(report);
        let told = report.json["host"]["payload"].as_str().expect("a fact");
        assert_eq!(told.contains("unchecked"), unchecked, "{told}");
    }
}

#[test]
fn two_lanes_on_two_cores_and_queues_lose_none_and_each_sends_its_half() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return mpps_tests::skip("two lanes need two cores");
    }
    let Some(net) = net_of(2) else { return };
    let words = [
        "--lanes 2 --flows 8",
        "--lanes 2 --flows 3 --pacing poisson",
        "--tx-lanes 2 --cores 1,0",
    ]
    .map(|words| format!("{SENDRECV} {words}"));
    let (sent, reflected) = all_back(&net, "reflect xdp:eth1", &words.each_ref().map(String::as_str));
    assert_eq!(
        reflected.json["host"]["sources"], "2 receive queues",
        "{:#}",
        reflected.json
    );
    for report in &sent {
        assert_measured(report);
        report.assert_departures(2000);
        let lanes = report.json["lanes"].as_array().expect("lanes").iter();
        let sending = lanes.filter(|lane| lane["tx_packets"].as_u64() > Some(600)).count();
        assert_eq!(sending, 2, "{:#}", report.json["lanes"]);
    }
}

fn a_paced_sender_finds_every_packet_with_any_reflector((reflect, sendrecv): (&str, &[&str])) {
    let Some(net) = net_of(1) else { return };
    let (sent, _) = all_back(&net, &format!("reflect {reflect}"), sendrecv);
    sent.iter().for_each(assert_measured);
}

cases!(
    a_paced_sender_finds_every_packet_with_any_reflector:
    udp = ("udp:10.99.0.2:9000", &[super::SENDRECV]),
    udp_v6 = ("udp:[fd99::2]:9000", &[super::SENDRECV6]),
    af_packet = ("af_packet:eth1", &[super::SENDRECV, super::SENDRECV6]),
    af_xdp = ("af_xdp:eth1", &[super::SENDRECV, super::SENDRECV6]),
    af_xdp_skb = ("af_xdp:eth1,mode=skb", &[super::SENDRECV, super::SENDRECV6]),
    xdp_skb = ("xdp:eth1,mode=skb", &[super::SENDRECV, super::SENDRECV6]),
);

#[test]
fn a_reflector_in_the_kernel_serves_any_sender() {
    let Some(net) = net_of(1) else { return };
    let serve = |reflect: &str, senders: &[&str]| {
        let ends = |sender: &&str| {
            let (first, second) = match *sender {
                "udp" | "io_uring" => (format!("{sender}:10.99.0.1"), format!("{sender}:[fd99::1]")),
                other => (format!("{other} --src 10.99.0.1"), format!("{other} --src fd99::1")),
            };
            [(first, "10.99.0.2"), (second, "[fd99::2]")]
                .map(|(port, dest)| format!("sendrecv {port} --dest {dest}:9000 --rate 10kpps --payload-size 99"))
        };
        let words: Vec<String> = senders.iter().flat_map(ends).collect();
        all_back(&net, reflect, &words.iter().map(String::as_str).collect::<Vec<_>>());
    };
    // The kernel leaves checksums of `udp` open on a veth, for the device to complete.
    serve(
        "reflect xdp:eth1,mode=skb",
        &[
            "udp",
            "io_uring",
            "af_packet:eth1",
            "af_xdp:eth1,mode=skb",
            "xdp:eth1,mode=skb",
        ],
    );
    // In the driver: to an end with a program, and to one that has none, but GRO, as the lab sets it.
    serve(
        "reflect xdp:eth1",
        &[
            "af_xdp:eth1",
            "udp",
            "io_uring",
            "af_packet:eth1",
            "af_xdp:eth1,mode=skb",
        ],
    );
}

#[test]
fn a_reflector_whose_packets_the_other_end_does_not_take_says_so() {
    let Some(net) = net_of(1) else { return };
    let (here, there) = (Scratch::new(), Scratch::new());
    net.on(Host::A, "ethtool -K eth1 gro off");
    let reflector = listen(&net, &there, "reflect xdp:eth1");
    let sender = "sendrecv udp:10.99.0.1 --dest 10.99.0.2:9000 --rate 5kpps --duration 500ms --settle 100ms --quiet";
    let sent = here.measure(net.a(&format!("{sender} --catch-up 1s")));
    assert_eq!((sent.count("rx_packets"), sent.count("tx_packets") > 0), (0, true));
    let reflected = there.read(reflector.end(Signal::INT));
    let warnings = reflected.json["warnings"].to_string();
    assert!(
        warnings.contains("gro on") && warnings.contains("eth1"),
        "{:#}",
        reflected.json
    );
}

#[test]
fn the_receiving_end_of_a_one_way_run_expects_what_was_sent() {
    let Some(net) = net_of(1) else { return };
    let (v4, v6) = (["10.99.0.1", "10.99.0.2"], ["fd99::1", "[fd99::2]"]);
    let listener = "--ip 10.99.0.2 --port 9000";
    for (send, drop, [src, dest]) in [
        ("xdp:eth1", format!("xdp:eth1 {listener}"), v4),
        ("xdp:eth1", "xdp:eth1 --ip fd99::2 --port 9000".to_owned(), v6),
        ("xdp:eth1", format!("xdp:eth1,mode=skb,clock=packet {listener}"), v4),
        ("xdp:eth1", "udp:[fd99::2]:9000".to_owned(), v6),
        ("xdp:eth1", "io_uring:[fd99::2]:9000".to_owned(), v6),
        ("xdp:eth1", format!("af_packet:eth1 {listener}"), v4),
        ("xdp:eth1", format!("af_xdp:eth1 {listener}"), v4),
        ("udp", format!("xdp:eth1 {listener}"), v4),
        ("io_uring", format!("xdp:eth1 {listener}"), v4),
        ("udp", "xdp:eth1 --port 9000".to_owned(), v6),
        ("af_packet:eth1", format!("xdp:eth1 {listener}"), v4),
        ("af_xdp:eth1", "xdp:eth1 --ip fd99::2 --port 9000".to_owned(), v6),
    ] {
        let port = match send {
            "udp" | "io_uring" if src.contains(':') => format!("{send}:[{src}]"),
            "udp" | "io_uring" => format!("{send}:{src}"),
            _ => format!("{send} --src {src}"),
        };
        let send = format!("send {port} --dest {dest}:9000 --rate 20kpps --flows 7 --seed 5");
        let (sent, received) = all_there(&net, &format!("drop {drop} --seed 5"), &send);
        let (sent, context) = (sent.count("tx_packets"), format!("{send} / {drop} {:#}", received.json));
        assert_eq!(received.count("/latency_ns/count"), sent, "{context}");
        assert!(
            received.count("/latency_ns/p50") <= received.count("/latency_ns/p99"),
            "{context}"
        );
    }
}

fn data_of_another_seed_is_no_test_packet_unless_it_is_not_looked_at((port, options, taken): (&str, &str, bool)) {
    let Some(net) = net_of(1) else { return };
    let send = "send xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps --seed 1 --payload-size 64";
    let (sent, received) = one_way(&net, &format!("drop {port} --port 9000 --seed 2 {options}"), send);
    let (tx, context) = (
        sent.count("tx_packets"),
        format!("{port} {options}: {:#}", received.json),
    );
    assert!(tx > 0, "{:#}", sent.json);
    // None of these flows ever had a packet of ours, so none is a packet of ours that was spoilt.
    let expected = if taken { (tx, 0, 0) } else { (0, tx, 0) };
    let counts = (
        received.count("rx_packets"),
        received.reason("foreign_not_stamped"),
        received.count("corrupt"),
    );
    assert_eq!(counts, expected, "{context}");
}

cases!(
    data_of_another_seed_is_no_test_packet_unless_it_is_not_looked_at:
    af_xdp = ("af_xdp:eth1", "", false),
    xdp = ("xdp:eth1", "", false),
    headers = ("xdp:eth1,check=headers", "", true),
    no_verify = ("xdp:eth1", "--no-verify", true),
);

fn addresses_that_no_interface_has_are_resolved_and_answered_by_the_programs(
    (src, ip, [dest, far, stack]): (&str, &str, [&str; 3]),
) {
    let Some(net) = net_of(1) else { return };
    let to = |dest: &str| format!("sendrecv xdp:eth1 --src {src} --dest {dest}:9000 --rate 10kpps");
    let (sent, reflected) = all_back(&net, &format!("reflect xdp:eth1 --ip {ip}"), &[&to(far)]);
    assert_eq!(
        sent[0].json["host"]["source_address"], "answered by mpps",
        "{:#}",
        sent[0].json
    );
    assert!(reflected.reason("neighbor_service") > 0, "{:#}", reflected.json);
    all_back(&net, &format!("reflect af_xdp:eth1 --ip {ip}"), &[&to(far)]);
    // The other host's stack asks who has the source address.
    all_back(&net, &format!("reflect udp:{dest}:9000"), &[&to(dest)]);
    // And this one's who has the destination's, which echoes, too.
    let reflect = format!("reflect xdp:eth1,mode=skb --ip {ip}");
    let words = format!("sendrecv udp:{stack} --dest {far}:9000 --rate 10kpps");
    let there = Scratch::new();
    let reflector = listen(&net, &there, &reflect);
    let sent = Scratch::new().measure(net.a(&format!("{words} --duration 100ms --catch-up 1s --quiet")));
    assert_eq!(sent.count("rx_packets"), sent.count("tx_packets"), "{:#}", sent.json);
    if !missing("ping", "iputils-ping") {
        net.on(Host::A, &format!("ping -c 3 -i 0.02 -W 20 -s 700 {ip}"));
    }
    there.read(reflector.end(Signal::INT)).assert_rows_add_up();
}

cases!(
    addresses_that_no_interface_has_are_resolved_and_answered_by_the_programs:
    v4 = ("10.99.0.77", "10.99.0.88", ["10.99.0.2", "10.99.0.88", "10.99.0.1"]),
    v6 = ("fd99::77", "fd99::88", ["[fd99::2]", "[fd99::88]", "[fd99::1]"]),
);

#[test]
fn an_address_that_nobody_has_is_told_and_what_is_given_goes_round_it() {
    let Some(net) = net_of(1) else { return };
    let dest = "sendrecv xdp:eth1 --src 10.99.0.1 --dest 10.99.0.99:9000 --rate 10kpps";
    {
        let there = Scratch::new();
        let _reflector = listen(&net, &there, "reflect xdp:eth1");
        assert_refused(
            net.a(&format!("{dest} --duration 100ms")),
            1,
            &["10.99.0.99", "--dest-mac"],
        );
    }
    let given = format!("{dest} --dest-mac {}", Host::B.mac());
    all_back(&net, "reflect xdp:eth1 --ip 10.99.0.99", &[&given]);
    let routed = "sendrecv xdp:eth1 --src 10.99.0.1 --dest 192.0.2.9:9000 --rate 10kpps --gateway 10.99.0.2";
    all_back(&net, "reflect xdp:eth1 --ip 192.0.2.9", &[routed]);
}

#[test]
fn only_packets_that_are_asked_for_are_taken_and_the_others_counted_by_reason() {
    let Some(net) = net_of(1) else { return };
    let mac = Host::B.mac();
    for (reflect, sendrecv, reason) in [
        ("--port 9000", "--dest 10.99.0.2:9001", "wrong_port"),
        ("--ip 10.99.0.98", "--dest 10.99.0.99:9000", "wrong_address"),
    ] {
        let (here, there) = (Scratch::new(), Scratch::new());
        let reflector = listen(&net, &there, &format!("reflect xdp:eth1 {reflect}"));
        let words = format!(
            "sendrecv xdp:eth1 --src 10.99.0.1 {sendrecv} --dest-mac {mac} --rate 10kpps --duration 100ms --settle \
             50ms --catch-up 1s --quiet"
        );
        let sent = here.measure(net.a(&words));
        sent.assert_accounted();
        let tx = sent.count("tx_packets");
        assert_eq!(sent.count("lost"), tx, "{:#}", sent.json);
        let reflected = there.read(reflector.end(Signal::INT));
        reflected.assert_rows_add_up();
        let context = format!("{:#}", reflected.json);
        assert_eq!(
            (reflected.count("rx_packets"), reflected.reason(reason)),
            (0, tx),
            "{context}"
        );
        assert!(reflected.path_counter("left_to_host") >= tx, "{context}");
    }
}

#[test]
fn the_hosts_own_connections_go_on_beside_the_test_and_no_program_stays() {
    if missing("python3", "python3") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    for mode in ["native", "skb"] {
        let mut echo = inside(&net.lab, Host::B, "python3 -c");
        echo.arg(ECHO);
        let echo = Background::start(echo).wait_to_hear("echo is open");
        // All of the host's ports are asked for but those that its programs have open already.
        let (here, there) = (Scratch::new(), Scratch::new());
        let reflector = listen(&net, &there, &format!("reflect xdp:eth1,mode={mode}"));
        let words = format!(
            "{} --duration 1h --catch-up 1s --quiet",
            SENDRECV.replace("20kpps", "5kpps")
        );
        let sender = Background::start(here.results(net.a(&words)));
        wait_until("packets", || here.busy_rows() >= 1);
        assert!(net.xdp_program(Host::A, "eth1").is_some() && net.xdp_program(Host::B, "eth1").is_some());
        assert!(net.python(Host::A, TALK, &[]));
        let sent = here.read(sender.end(Signal::INT));
        drop(echo);
        sent.assert_accounted();
        assert_eq!(sent.count("rx_packets"), sent.count("tx_packets"), "{:#}", sent.json);
        let reflected = there.read(reflector.end(Signal::INT));
        let context = format!("{:#}", reflected.json);
        assert!(reflected.path_counter("left_to_host") > 50, "{context}");
        assert!(
            reflected.reason("not_udp") > 0 && reflected.reason("host_port") >= 50,
            "{context}"
        );
        assert_eq!(reflected.count("rx_packets"), sent.count("tx_packets"), "{context}");
        wait_until("no XDP program on either side", || {
            net.xdp_program(Host::A, "eth1").is_none() && net.xdp_program(Host::B, "eth1").is_none()
        });
    }
}
