//! What may go wrong around the af_xdp path, before and in the middle of a run: it is told in one line, or the run goes
//! on or ends, but never loses count.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Net, Report, Scratch, assert_only_the_gap_is_lost, assert_refused, inside, missing, net_of, program,
    returning, run_command, skip, under_way, wait_for_more, wait_until,
};
use rustix::process::Signal;

const SENDRECV: &str = "sendrecv af_xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 10kpps --settle 500ms \
                        --interval 20ms";

/// A run of a listener on host b that packets reach, and who sends them.
fn listening(net: &Net, there: &Scratch, words: &str) -> (Background, Background) {
    let listener = Background::start(there.results(net.b(&format!("{words} --interval 20ms"))));
    wait_until("a row of the listener", || there.rows_so_far() > 0);
    let mac = Host::B.mac();
    let sender = Background::start(net.a(&format!("{SENDRECV} --dest-mac {mac} --duration 1h --quiet")));
    wait_until("packets", || there.busy_rows() >= 2);
    (listener, sender)
}

/// Two hosts whose second link, eth2, leads nowhere but to each other.
fn two_links() -> Option<Net> {
    let net = net_of(1)?;
    let b = net.lab.namespace(Host::B);
    net.on(Host::A, &format!("ip link add eth2 type veth peer name eth2 netns {b}"));
    for host in [Host::A, Host::B] {
        net.on(host, "ip link set eth2 up");
    }
    Some(net)
}

/// What was measured until the device went, which ended the run.
fn assert_vanished(report: &Report) {
    assert_eq!(report.finished.code, Some(3), "{}", report.said());
    assert!(report.count("rx_packets") > 0, "{:#}", report.json);
    assert!(report.said().contains("vanished"), "{}", report.said());
}

#[test]
fn a_device_that_vanishes_ends_the_run_with_everything_measured_until_then() {
    for sendrecv in [SENDRECV.to_owned(), format!("{SENDRECV} --tx-lanes 1 --rx-lanes 1")] {
        let Some(net) = net_of(1) else { return };
        let scratch = Scratch::new();
        let (mut sender, _reflector) = under_way(&net, &scratch, &sendrecv, "reflect af_xdp:eth1");
        net.on(Host::A, "ip link delete eth1");
        wait_until("the end of the run", || !sender.running());
        let report = scratch.read(sender.finish());
        report.assert_accounted();
        assert_vanished(&report);
    }
}

#[test]
fn listeners_whose_device_vanishes_end_with_their_results() {
    for words in [
        "reflect af_xdp:eth1",
        "drop af_xdp:eth1 --port 9000",
        "forward af_xdp:eth1 af_xdp:eth2 --take all",
    ] {
        let Some(net) = two_links() else { return };
        let there = Scratch::new();
        let (mut listener, _sender) = listening(&net, &there, words);
        net.on(Host::B, "ip link delete eth1");
        wait_until("the end of the listener", || !listener.running());
        let report = there.read(listener.finish());
        report.assert_rows_add_up();
        assert_vanished(&report);
    }
}

#[test]
fn a_forwarder_whose_second_device_vanishes_ends_with_its_results() {
    let Some(net) = two_links() else { return };
    let there = Scratch::new();
    let (mut forwarder, _sender) = listening(&net, &there, "forward af_xdp:eth1 af_xdp:eth2 --take all");
    net.on(Host::B, "ip link delete eth2");
    wait_until("the end of the forwarder", || !forwarder.running());
    let report = there.read(forwarder.finish());
    report.assert_rows_add_up();
    assert_vanished(&report);
}

#[test]
fn an_interface_that_goes_down_and_comes_back_is_told_and_the_run_goes_on() {
    let Some(net) = net_of(1) else { return };
    for (sendrecv, reflect) in [
        (SENDRECV, "reflect af_xdp:eth1"),
        (SENDRECV, "reflect af_packet:eth1"),
        (&SENDRECV.replace("af_xdp", "af_packet"), "reflect af_xdp:eth1"),
    ] {
        let scratch = Scratch::new();
        let (sender, mut reflector) = under_way(&net, &scratch, sendrecv, reflect);
        net.on(Host::A, "ip link set eth1 down");
        let rows = scratch.rows_so_far();
        wait_until("rows while the link is down", || scratch.rows_so_far() >= rows + 5);
        net.on(Host::A, "ip link set eth1 up");
        wait_for_more("packets that come back again", || returning(&scratch));
        assert!(reflector.running(), "{}", reflector.stderr());
        let report = scratch.read(sender.end(Signal::INT));
        report.assert_accounted();
        // A lane that was kept from its core finds it up again, its carrier not yet back.
        let told = report.said().to_lowercase();
        assert!(
            told.contains("down") || told.contains("no carrier"),
            "{reflect}: {told}"
        );
    }
}

#[test]
fn a_forwarder_outlives_a_port_that_goes_down_and_comes_back() {
    let Some(net) = two_links() else { return };
    let there = Scratch::new();
    let (mut forwarder, _sender) = listening(&net, &there, "forward af_xdp:eth1 af_xdp:eth2 --take all");
    for device in ["eth2", "eth1"] {
        net.on(Host::B, &format!("ip link set {device} down"));
        let rows = there.rows_so_far();
        wait_until("rows while the link is down", || there.rows_so_far() >= rows + 5);
        net.on(Host::B, &format!("ip link set {device} up"));
        wait_for_more("packets again", || there.busy_rows());
        assert!(forwarder.running(), "{}", forwarder.stderr());
    }
    let report = there.read(forwarder.end(Signal::INT));
    report.assert_rows_add_up();
    let reasons = report.json["reasons"].as_object().expect("reasons").values();
    let given_up: u64 = reasons.map(|n| n.as_u64().expect("a count")).sum();
    assert_eq!(
        report.count("rx_packets"),
        report.count("tx_packets") + given_up,
        "{:#}",
        report.json
    );
    assert!(report.said().contains("down"), "{}", report.said());
}

#[test]
fn a_device_of_the_same_name_can_be_opened_at_once_after_the_old_one_was_deleted() {
    let Some(net) = net_of(1) else { return };
    let there = Scratch::new();
    let (mut reflector, sender) = listening(&net, &there, "reflect af_xdp:eth1");
    net.on(Host::B, "ip link delete eth1");
    wait_until("the end of the reflector", || !reflector.running());
    drop(sender);
    let b = net.lab.namespace(Host::B);
    // `net.on` asks whether the lab is what was made, which it is again with this.
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
    let _reflector = Background::ready(net.b("reflect af_xdp:eth1"));
    let report = Scratch::new().measure(net.a(&format!("{SENDRECV} --duration 200ms --quiet")));
    report.assert_accounted();
    assert_eq!(
        report.count("rx_packets"),
        report.count("tx_packets"),
        "{:#}",
        report.json
    );
}

#[test]
fn a_change_of_the_mtu_or_of_the_number_of_queues_leaves_the_run_whole() {
    let Some(net) = net_of(2) else { return };
    if missing("ethtool", "ethtool") {
        return;
    }
    let scratch = Scratch::new();
    let sendrecv = format!("{SENDRECV} --lanes 2");
    let (mut sender, mut reflector) = under_way(&net, &scratch, &sendrecv, "reflect af_xdp:eth1");
    // What the kernel refuses while sockets are bound is refused to whoever asks; what it does must not break the run.
    let mut changed = 0;
    for change in [
        "ip link set eth1 mtu 1400",
        "ip link set eth1 mtu 1500",
        "ethtool -L eth1 rx 1 tx 1",
        "ethtool -L eth1 rx 2 tx 2",
    ] {
        for host in [Host::B, Host::A] {
            let finished = run_command(mpps_tests::inside(&net.lab, host, change));
            changed += u32::from(finished.code == Some(0));
            if finished.code != Some(0) {
                println!("{change}: refused by the kernel: {}", finished.stderr.trim());
            }
            wait_for_more("rows", || scratch.rows_so_far());
        }
    }
    assert!(changed >= 4);
    assert!(
        sender.running() && reflector.running(),
        "{} {}",
        sender.stderr(),
        reflector.stderr()
    );
    wait_for_more("packets that come back", || returning(&scratch));
    let report = scratch.read(sender.end(Signal::INT));
    report.assert_accounted();
}

#[test]
fn packets_of_a_queue_that_came_later_are_left_to_the_host_and_the_queue_is_told() {
    let Some(net) = net_of(2) else { return };
    if missing("ethtool", "ethtool") {
        return;
    }
    let change = |host, what: &str| net.on(host, &format!("ethtool -L eth1 {what}"));
    change(Host::A, "rx 1 tx 1");
    change(Host::B, "rx 1 tx 1");
    let (here, there) = (Scratch::new(), Scratch::new());
    let reflector = Background::start(there.results(net.b("reflect af_xdp:eth1")));
    wait_until("a row of the reflector", || there.rows_so_far() > 0);
    // Where an XDP program is, there must be no fewer receive queues than the peer has transmit queues.
    change(Host::B, "rx 2");
    change(Host::A, "tx 2");
    // The kernel spreads flows over the queues.
    let sendrecv = "sendrecv udp:10.99.0.1,sockets=16 --src-port-range 10000-10015 --dest 10.99.0.2:9000 --rate 10kpps \
                    --settle 500ms --duration 300ms --quiet";
    let sent = here.measure(net.a(sendrecv));
    let reflected = there.read(reflector.end(Signal::INT));
    sent.assert_accounted();
    // veth runs the program on the queues of its beginning only: what comes by others is the host's.
    let ours = sent.count("rx_packets");
    assert!(
        ours > 0 && ours < sent.count("tx_packets"),
        "{:#} {:#}",
        sent.json,
        reflected.json
    );
    assert_eq!(reflected.count("tx_packets"), ours, "{:#}", reflected.json);
    assert_eq!(reflected.path_counter("queues_added"), 1, "{:#}", reflected.json);
    assert!(reflected.said().contains("1 more queue"), "{}", reflected.said());
}

#[test]
fn a_queue_that_another_socket_has_and_a_program_that_is_there_already_are_named() {
    let Some(net) = net_of(2) else { return };
    let _reflector = Background::ready(net.b("reflect af_xdp:eth1,queues=1"));
    assert_refused(
        net.b("reflect af_xdp:eth1 --duration 50ms"),
        1,
        &["eth1 queue 0", "another AF_XDP socket"],
    );
    // The other queue is free, but one program is all that a device has.
    assert_refused(
        net.b("reflect af_xdp:eth1,first=1 --duration 50ms"),
        1,
        &["eth1", "another XDP program is attached", "redirect"],
    );
    // Who only sends from an address of the host's own needs none.
    let words = "send af_xdp:eth1,first=1 --src 10.99.0.2 --dest 10.99.0.1:9000 --rate 1kpps --duration 50ms --quiet";
    // A busy host may keep it from its rate.
    let finished = run_command(net.b(words));
    assert!(matches!(finished.code, Some(0 | 3)), "{}", finished.stderr);
}

#[test]
fn a_program_of_xdp_loader_is_named_and_takes_the_place_of_none_of_ours() {
    let object = "bpf/xdpfilt_alw_all.o";
    let folders = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
    ];
    let found = folders.iter().map(|folder| format!("{folder}/{object}"));
    let Some(object) = found.into_iter().find(|file| std::path::Path::new(file).is_file()) else {
        return skip(&format!("xdp-loader is not installed (package xdp-tools): no {object}"));
    };
    let Some(net) = net_of(1) else { return };
    let loader = |words: &str| run_command(inside(&net.lab, Host::B, words));
    let load = format!("xdp-loader load -m native eth1 {object}");
    let first = loader(&load);
    if first.code != Some(0) {
        return skip(&format!("xdp-loader attaches no program here: {}", first.stderr.trim()));
    }
    for path in ["af_xdp:eth1", "af_xdp:eth1,mode=skb", "xdp:eth1"] {
        // Under a dispatcher, which libxdp attaches where it can, the program has no name of its own.
        assert_refused(
            net.b(&format!("reflect {path} --duration 50ms")),
            1,
            &["eth1", "XDP program is attached: \"xdp"],
        );
    }
    assert_eq!(loader("xdp-loader unload eth1 --all").code, Some(0));
    for path in ["af_xdp:eth1", "xdp:eth1"] {
        let reflector = Background::ready(net.b(&format!("reflect {path}")));
        for words in [
            load.as_str(),
            "xdp-loader unload eth1 --all",
            "ip link set dev eth1 xdp off",
        ] {
            let refused = loader(words);
            assert!(
                refused.code != Some(0),
                "{words}: {} {}",
                refused.stdout,
                refused.stderr
            );
        }
        assert!(net.on(Host::B, "ip -d link show eth1").stdout.contains("xdp"), "{path}");
        reflector.end(Signal::INT);
    }
}

#[test]
fn a_link_that_goes_as_the_run_begins_is_waited_for_by_who_asks_for_the_next_hop() {
    let Some(net) = net_of(1) else { return };
    let send = "send af_xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --count 20 --rate 1kpps";
    // The link has to go before the question is given up, and to be back soon: a busy host may miss that.
    for _ in 0..5 {
        net.on(Host::B, "ip addr flush dev eth1 scope global");
        net.on(Host::A, "ip neigh flush dev eth1");
        let mut sender = Background::start(net.a(send));
        wait_until("a question", || {
            let entry = net.on(Host::A, "ip neigh show 10.99.0.2 dev eth1").stdout;
            entry.contains("INCOMPLETE") || entry.contains("FAILED") || !sender.running()
        });
        net.on(Host::B, "ip link set eth1 down");
        wait_until("the note", || {
            sender.stderr().contains("the carrier is gone") || !sender.running()
        });
        net.on(Host::B, "ip link set eth1 up");
        net.on(Host::B, "ip addr add 10.99.0.2/24 dev eth1");
        let finished = sender.finish();
        if finished.code == Some(1) {
            assert!(
                finished.stderr.contains("nobody answered") || finished.stderr.contains("no carrier"),
                "{}",
                finished.stderr
            );
            continue;
        }
        assert!(matches!(finished.code, Some(0 | 3)), "{}", finished.stderr);
        assert!(
            finished.stderr.contains("eth1: the carrier is gone"),
            "{}",
            finished.stderr
        );
        return;
    }
    panic!("given up each time");
}

/// Packets that XDP programs of the second host's link have seen, by the driver's counts.
fn programs_saw(net: &Net) -> u64 {
    let counts = net.on(Host::B, "ethtool -S eth1").stdout;
    let seen = counts.lines().filter(|line| line.contains("xdp_packets"));
    let count = seen.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    count.sum()
}

#[test]
fn a_run_that_receives_nothing_says_how_far_packets_came() {
    let Some(net) = net_of(1) else { return };
    for path in ["af_xdp:eth1", "xdp:eth1"] {
        let there = Scratch::new();
        let reflector = Background::ready(there.results(net.b(&format!("reflect {path} --port 9000"))));
        let send = "send af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.2:9001 --count 50 --rate 1kpps --quiet";
        run_command(net.a(&format!("{send} --catch-up 10s --dest-mac {}", Host::B.mac())));
        wait_until("the programs to have seen all packets", || programs_saw(&net) >= 50);
        let report = there.read(reflector.end(Signal::INT));
        // `xdp` knows why it did not take each of them.
        if path.starts_with("xdp:") {
            assert_eq!(report.json["reasons"]["wrong_port"], 50, "{}", report.json);
            continue;
        }
        let said = report.said();
        assert!(
            said.contains("nothing was received: meanwhile eth1 counted"),
            "{path}: {said}"
        );
        assert!(said.contains("the XDP program left"), "{path}: {said}");
    }
}

/// Reserved pages of so many KiB that nobody has taken.
fn free_pages(kib: u32) -> std::io::Result<Result<u64, std::num::ParseIntError>> {
    let free = std::fs::read_to_string(format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB/free_hugepages"));
    free.map(|text| text.trim().parse())
}

#[test]
fn packet_memory_is_of_1_gib_pages_where_they_are_reserved_and_refused_where_not() {
    let Some(net) = net_of(1) else { return };
    let reflect = net.a("reflect af_xdp:eth1,pages=huge-1g --duration 50ms");
    match free_pages(1 << 20) {
        Ok(Ok(0)) => assert_refused(reflect, 1, &["huge pages", "hugepages-1048576kB/nr_hugepages"]),
        Ok(_) => {
            let finished = run_command(reflect);
            assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        }
        Err(e) => skip(&format!("this kernel has no huge pages of 1 GiB ({e})")),
    }
}

#[test]
fn packet_memory_that_can_not_be_had_is_refused_in_one_line() {
    let Some(net) = net_of(1) else { return };
    match free_pages(2048) {
        // The packet memory asked for is beyond 2 GiB.
        Ok(Ok(free)) if free <= 1024 => assert_refused(
            net.a("reflect af_xdp:eth1,pages=huge,frames=1048576 --duration 50ms"),
            1,
            &["huge pages", "nr_hugepages"],
        ),
        Ok(free) => skip(&format!("huge pages are reserved on this host: {free:?}")),
        Err(e) => skip(&format!("this kernel has no huge pages of 2 MiB ({e})")),
    }
    if missing("setpriv", "util-linux") || missing("prlimit", "util-linux") {
        return;
    }
    // All that the path needs, but not the right to go beyond the limit of locked memory.
    let words = "prlimit --memlock=65536:65536 setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock --";
    let mut command = mpps_tests::inside(&net.lab, Host::A, words);
    command
        .arg(program())
        .args(["reflect", "af_xdp:eth1", "--duration", "50ms"]);
    assert_refused(command, 1, &["locked memory", "ulimit -l", "CAP_IPC_LOCK"]);
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
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("our folder");
    for (capabilities, needed) in [
        ("-all", "CAP_NET_RAW"),
        ("-all,+net_raw,+ipc_lock", "CAP_BPF"),
        ("-all,+net_raw,+ipc_lock,+bpf", "CAP_NET_ADMIN"),
    ] {
        let who = format!("--reuid 65534 --regid 65534 --clear-groups --bounding-set={capabilities}");
        let rights = format!("--inh-caps={capabilities} --ambient-caps={capabilities}");
        let words = format!(
            "setpriv {who} {rights} {} reflect af_xdp:eth1 --duration 50ms",
            copy.display()
        );
        assert_refused(mpps_tests::inside(&net.lab, Host::A, &words), 1, &[needed, "eth1"]);
    }
}

#[test]
fn a_reflector_killed_and_started_again_costs_the_packets_of_that_time_only() {
    let Some(net) = net_of(1) else { return };
    let reflect = "reflect af_xdp:eth1";
    let udp = "sendrecv udp:10.99.0.1 --dest 10.99.0.2:9000 --rate 10kpps --settle 500ms --interval 20ms";
    for sendrecv in [SENDRECV, udp] {
        assert_only_the_gap_is_lost(&net, sendrecv, reflect);
    }
}

#[test]
fn a_sender_killed_and_started_again_finds_the_device_as_it_was() {
    let Some(net) = net_of(1) else { return };
    let _reflector = Background::ready(net.b("reflect af_xdp:eth1"));
    for _ in 0..3 {
        let scratch = Scratch::new();
        let sender = Background::start(scratch.results(net.a(&format!("{SENDRECV} --duration 1h"))));
        wait_until("packets that come back", || returning(&scratch) >= 2);
        sender.end(Signal::KILL);
    }
    let report = Scratch::new().measure(net.a(&format!("{SENDRECV} --duration 200ms --quiet")));
    report.assert_accounted();
    assert_eq!(
        report.count("rx_packets"),
        report.count("tx_packets"),
        "{:#}",
        report.json
    );
}
