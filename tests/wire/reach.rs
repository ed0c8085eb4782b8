//! What a run can reach: destinations that are nobody's, or the run's own, are refused before the first packet, and
//! ports and addresses are understood as people write them.

use std::process::Command;

use mpps_host::lab::Host;
use mpps_tests::{
    Net, Scratch, all_back, all_there, assert_refused, free_port, inside, mpps, net_of, no_dpdk, run_command,
};

/// Paths whose ports are interfaces.
const INTERFACES: [&str; 3] = ["af_packet:eth1", "af_xdp:eth1", "xdp:eth1"];
/// Paths whose ports are sockets.
const SOCKETS: [&str; 2] = ["udp:", "io_uring:"];

fn all_refused(command: impl Fn(&str) -> Command, cases: &[(&str, &[&str])]) {
    for (words, parts) in cases {
        assert_refused(command(words), 2, parts);
    }
}

#[test]
fn sockets_that_would_send_to_themselves_are_refused() {
    let port = free_port();
    let near = port + 7;
    for (words, at) in [
        (format!("sendrecv udp:127.0.0.1:{port} --dest 127.0.0.1:{port}"), port),
        (format!("send io_uring:[::1]:{port} --dest [::1]:{port}"), port),
        (format!("sendrecv udp:0.0.0.0:{port} --dest 127.0.0.5:{port}"), port),
        (format!("sendrecv udp:[::]:{port} --dest [::1]:{port}"), port),
        ("sendrecv udp: --dest localhost:10000".to_owned(), 10_000),
        ("sendrecv udp: --lanes 3 --dest 127.0.0.1:10002".to_owned(), 10_002),
        (
            format!("send udp: --src-port-range {port}-{} --dest 127.0.0.1:{near}", port + 9),
            near,
        ),
        (
            format!(
                "sendrecv io_uring: --src 127.0.0.2-127.0.0.9 --dest 127.0.0.9-127.0.0.12:{near} --step together \
                 --src-port-range {near}"
            ),
            near,
        ),
    ] {
        let at = format!(":{at}");
        // Ranges that share an address are refused as before.
        let part = if words.contains("together") {
            "127.0.0.9 is among"
        } else {
            at.as_str()
        };
        assert_refused(mpps(&format!("{words} --duration 50ms")), 2, &["--dest", part]);
    }
    // Another address of the host, or another port, is another socket.
    for words in [
        format!("send udp:127.0.0.1:{port} --dest 127.0.0.2:{port}"),
        format!("send udp:127.0.0.1:{port} --dest 127.0.0.1:{near}"),
    ] {
        let finished = run_command(mpps(&format!("{words} --rate 1kpps --duration 50ms --print-plan")));
        assert_eq!(finished.code, Some(0), "{words}: {}", finished.stderr);
    }
}

#[test]
fn broadcast_addresses_are_refused_by_name_on_every_path() {
    let Some(net) = net_of(1) else { return };
    for words in [
        "ip addr add 10.77.4.1/22 brd 10.77.9.9 dev eth1",
        "ip addr add 10.88.0.1/31 dev eth1",
    ] {
        assert_eq!(run_command(inside(&net.lab, Host::A, words)).code, Some(0), "{words}");
    }
    // The interface beneath a virtual device of DPDK has subnets, too.
    let dpdk = ["dpdk:net_af_packet0,iface=eth1"];
    let beneath = if no_dpdk() { &[][..] } else { &dpdk };
    for port in INTERFACES.iter().chain(&SOCKETS).chain(beneath) {
        for (ends, parts) in [
            (
                "--dest 10.99.0.255:9000",
                ["--dest 10.99.0.255", "broadcast address of a subnet of eth1"],
            ),
            (
                "--dest 10.77.7.255:9",
                ["--dest 10.77.7.255", "broadcast address of a subnet of eth1"],
            ),
            (
                "--dest 10.77.9.9:9",
                ["--dest 10.77.9.9", "broadcast address of a subnet of eth1"],
            ),
            (
                "--dest 10.99.0.250-10.99.1.3:9000",
                ["10.99.0.250-10.99.1.3", "10.99.0.255 among them"],
            ),
            (
                "--dest 10.99.0.2:9 --src 10.99.0.255",
                ["--src 10.99.0.255", "broadcast"],
            ),
        ] {
            // A socket's source is an address of the host.
            if SOCKETS.contains(port) && ends.contains("--src") {
                continue;
            }
            assert_refused(net.a(&format!("send {port} {ends} --duration 50ms")), 2, &parts);
        }
    }
    let hop = "sendrecv af_packet:eth1 --dest 198.18.0.2:9 --gateway 10.99.0.255 --duration 50ms";
    assert_refused(net.a(hop), 2, &["--gateway 10.99.0.255", "broadcast"]);
    // The ends of a subnet of two addresses are hosts, and another network's broadcast address may be one here.
    for dest in ["10.88.0.0", "10.11.0.255"] {
        let words =
            format!("send af_packet:eth1 --dest {dest}:9 --dest-mac 02:00:00:00:00:02 --rate 1kpps --duration 50ms");
        let finished = run_command(net.a(&format!("{words} --quiet")));
        assert!(
            matches!(finished.code, Some(0 | 3)),
            "{dest}: {:?} {}",
            finished.code,
            finished.stderr
        );
    }
}

#[test]
fn destinations_that_no_packet_leaves_the_host_for_are_refused_at_once() {
    let Some(net) = net_of(1) else { return };
    for path in ["af_packet", "af_xdp", "xdp"] {
        let lo = format!("send {path}:lo --dest 127.0.0.1:9000");
        let parts = [
            &format!("port '{path}:lo'")[..],
            "this host's way to itself",
            &format!("--lab {path}"),
            "udp:127.0.0.1",
        ];
        assert_refused(net.a(&lo), 2, &parts);
        for (dest, parts) in [
            ("127.0.0.1:9000", ["--dest 127.0.0.1", "loopback addresses"]),
            ("[::1]:9000", ["--dest ::1", "loopback addresses"]),
            ("10.99.0.1:9000", ["--dest 10.99.0.1", "the address of eth1 itself"]),
            ("[fd99::1]:9", ["--dest fd99::1", "the address of eth1 itself"]),
        ] {
            // What sends from an address that it is to reach is refused before, or as here.
            let src = if dest.starts_with('[') { "fd99::9" } else { "10.99.0.9" };
            assert_refused(net.a(&format!("send {path}:eth1 --src {src} --dest {dest}")), 2, &parts);
        }
    }
}

#[test]
fn nobody_s_answer_names_the_route_that_is_missing() {
    let Some(net) = net_of(1) else { return };
    for (path, dest, ip) in [
        ("af_packet", "203.0.113.9:9", "203.0.113.9"),
        ("af_xdp", "203.0.113.9:9", "203.0.113.9"),
        ("xdp", "198.51.100.7:9", "198.51.100.7"),
        ("af_packet", "[2001:db8::9]:9", "2001:db8::9"),
    ] {
        let words = format!("send {path}:eth1 --dest {dest} --duration 50ms");
        let told = [
            format!("nobody answered for {ip}"),
            format!("this host has no route to {ip} by eth1"),
        ];
        assert_refused(net.a(&words), 1, &[&told[0], &told[1]]);
    }
    // With a route, or on the link, none is missing.
    let finished = run_command(net.a("send af_packet:eth1 --dest 10.99.0.77:9 --duration 50ms"));
    assert!(
        finished.stderr.contains("nobody answered for 10.99.0.77"),
        "{}",
        finished.stderr
    );
    assert!(!finished.stderr.contains("no route"), "{}", finished.stderr);
}

#[test]
fn ports_and_addresses_are_understood_as_people_write_them() {
    for (words, port) in [
        ("send NULL: --rate 1kpps", "null:"),
        ("reflect Udp:127.0.0.1:PORT", "udp:127.0.0.1:PORT"),
        ("drop IO-URING:127.0.0.1:PORT", "io_uring:127.0.0.1:PORT"),
    ] {
        let (free, here) = (free_port().to_string(), Scratch::new());
        let report = here.measure(mpps(&format!("{words} --duration 50ms --quiet").replace("PORT", &free)));
        assert_eq!(
            report.json["host"]["port"],
            port.replace("PORT", &free),
            "{words}: {:#}",
            report.json
        );
    }
    for path in ["AF_PACKET", "af-packet", "AF_XDP", "XDP"] {
        let known = path.to_lowercase().replace('-', "_");
        let parts = [&format!("port '{known}:nosuch9'")[..], "no such interface"];
        assert_refused(mpps(&format!("drop {path}:nosuch9 --duration 50ms")), 2, &parts);
    }
    all_refused(
        mpps,
        &[
            ("send afpacket:eth1", &["'afpacket'", "did you mean af_packet?"]),
            ("reflect iouring:127.0.0.1", &["'iouring'", "did you mean io_uring?"]),
            (
                "send udp: --dest fd99::2:9000",
                &["--dest", "want [fd99::2]:9000", "brackets"],
            ),
            (
                "send udp: --dest fd99::1-fd99::9:9000",
                &["--dest", "want [fd99::1-fd99::9]:9000"],
            ),
            (
                "send udp: --dest fd99::/120:9000",
                &["--dest", "want [fd99::/120]:9000"],
            ),
            (
                "send udp: --dest fd99::2",
                &["--dest", "the port is missing", "such as [fd99::2]:9000"],
            ),
            (
                "send udp: --dest [fd99::2]",
                &["--dest", "the port is missing", "such as [fd99::2]:9000"],
            ),
            (
                "send udp: --dest 10.99.0.2",
                &["--dest", "the port is missing", "such as 10.99.0.2:9000"],
            ),
            (
                "send udp: --dest localhost",
                &["--dest", "the port is missing", "such as localhost:9000"],
            ),
            (
                "reflect udp:9001",
                &["'9001'", "10.99.0.1:9001", "0.0.0.0:9001", "[::]:9001"],
            ),
            ("reflect udp::9002", &["':9002'", "0.0.0.0:9002"]),
            ("drop io_uring:*:9003", &["'*:9003'", "0.0.0.0:9003", "[::]:9003"]),
        ],
    );
    assert_refused(
        mpps("reflect udp:fd98:7::1:9000 --duration 50ms"),
        2,
        &["fd98:7::1:9000", "no interface of this host", "[fd98:7::1]:9000"],
    );
}

#[test]
fn ipv4_addresses_that_are_written_as_ipv6_ones_are_ipv4() {
    for (words, parts) in [
        (
            "--src ::ffff:198.18.0.1 --dest [::ffff:198.18.0.2]:9",
            ["198.18.0.1", "198.18.0.2:9"],
        ),
        (
            "--src 198.18.0.1 --dest [::ffff:198.18.0.2-::ffff:198.18.0.9]:9",
            ["198.18.0.1", "198.18.0.2-198.18.0.9:9"],
        ),
        (
            "--src ::ffff:198.18.0.0/126 --dest 198.18.1.2:9",
            ["198.18.0.1-198.18.0.2", "198.18.1.2:9"],
        ),
    ] {
        let finished = run_command(mpps(&format!("send null: {words} --duration 20ms --json -")));
        let told = finished.stdout + &finished.stderr;
        for part in parts {
            let end = part.split(':').next().unwrap_or(part);
            assert!(told.contains(&format!("{end} ports")), "{words}: {told}");
        }
    }
    let port = free_port();
    let finished = run_command(mpps(&format!(
        "reflect udp:[::ffff:127.0.0.1]:{port} --duration 50ms --json -"
    )));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(
        finished.stdout.contains(&format!("\"127.0.0.1:{port}\"")),
        "{}",
        finished.stdout
    );
}

#[test]
fn a_listener_says_where_it_listens() {
    for (words, at) in [
        (
            "reflect udp:127.0.0.3 --duration 50ms",
            "udp:127.0.0.3 (127.0.0.3:9000: this host only)",
        ),
        (
            "reflect io_uring:0.0.0.0 --duration 50ms",
            "io_uring:0.0.0.0 (0.0.0.0:9000)",
        ),
    ] {
        let finished = run_command(mpps(words));
        // Another test, or a program, may have the default port.
        assert!(
            finished.stderr.contains(&format!("is ready on {at}")) || finished.stderr.contains("in use"),
            "{words}: {}",
            finished.stderr
        );
    }
}

/// Link-local address of eth1 on a host.
fn link_local(net: &Net, host: Host) -> String {
    let shown = net.on(host, "ip -6 -o addr show dev eth1 scope link").stdout;
    let address = shown.split_whitespace().find(|word| word.starts_with("fe80::"));
    let address = address.unwrap_or_else(|| panic!("no link-local address: {shown}"));
    address.split('/').next().unwrap_or_default().to_owned()
}

#[test]
fn a_socket_on_all_addresses_hears_both_families_and_answers_each() {
    let Some(net) = net_of(1) else { return };
    for reflector in ["udp:[::]:9000", "io_uring:[::]:9000", "udp:[::]:9000,gro=on,gso=on"] {
        let (sent, reflected) = all_back(
            &net,
            &format!("reflect {reflector} --lanes 2"),
            &[
                "sendrecv udp: --dest 10.99.0.2:9000 --rate 5kpps",
                "sendrecv udp: --dest [fd99::2]:9000 --rate 5kpps",
                // What comes with a time to live of 1 has been round, in either family.
                "sendrecv af_packet:eth1 --dest 10.99.0.2:9000 --rate 5kpps --ttl 9",
            ],
        );
        assert_eq!(sent.len(), 3);
        assert_eq!(reflected.reason("ttl_expired"), 0, "{:#}", reflected.json);
    }
    // Only one address: only its family.
    let received = all_there(
        &net,
        "drop udp:[::]:9000",
        "send udp:10.99.0.1 --dest 10.99.0.2:9000 --rate 5kpps",
    )
    .1;
    assert_eq!(received.reason("flows"), 1, "{:#}", received.json);
}

#[test]
fn link_local_addresses_are_taken_with_their_interface_and_refused_without() {
    let Some(net) = net_of(1) else { return };
    let (a, b) = (link_local(&net, Host::A), link_local(&net, Host::B));
    for path in SOCKETS {
        let path = path.trim_end_matches(':');
        let reflect = format!("reflect {path}:[{b}%eth1]:9000");
        let send = format!("sendrecv {path}: --dest [{b}%eth1]:9000 --rate 5kpps");
        let from = format!("sendrecv {path}:[{a}%eth1] --dest [{b}%eth1]:9000 --rate 5kpps");
        let src = format!("sendrecv {path}: --src {a}%eth1 --dest [{b}]:9000 --rate 5kpps");
        let src_of_both = format!("sendrecv {path}: --src [{a}%eth1] --dest [{b}%eth1]:9000 --rate 5kpps");
        all_back(&net, &reflect, &[&send, &from, &src, &src_of_both]);
    }
    all_back(
        &net,
        "reflect udp:[fd99::2]:9000",
        &[&format!(
            "sendrecv af_packet:eth1 --src {a}%eth1 --dest [fd99::2]:9000 --rate 5kpps"
        )],
    );
    for (words, parts) in [
        (
            format!("udp: --src {a}%eth9 --dest [{b}]:9000"),
            ["--src fe80::", "no such interface 'eth9'"],
        ),
        (
            format!("udp: --src {a}%eth1 --dest [{b}%lo]:9000"),
            ["--src fe80::", "another interface"],
        ),
        (
            format!("xdp:eth1 --src {a}%lo --dest [{b}]:9000"),
            ["--src fe80::", "want both of one interface"],
        ),
        (
            "udp: --src fd99::1%eth1 --dest [fd99::2]:9000".to_owned(),
            ["--src", "only link-local addresses"],
        ),
    ] {
        assert_refused(net.a(&format!("send {words}")), 2, &parts);
    }
    let reflect = format!("reflect udp:[{b}%eth1]:9000");
    all_back(
        &net,
        &reflect,
        &[&format!("sendrecv af_packet:eth1 --dest [{b}%eth1]:9000 --rate 5kpps")],
    );
    let unnamed = format!("sendrecv udp: --dest [{b}]:9000");
    assert_refused(
        net.a(&unnamed),
        2,
        &["--dest fe80::", "one link only", &format!("[{b}%eth1]:9000")],
    );
    let bare = format!("sendrecv udp: --dest {b}%eth1:9000");
    assert_refused(net.a(&bare), 2, &["brackets", &format!("[{b}%eth1]:9000")]);
    let nowhere = format!("sendrecv udp: --dest [{b}%eth9]:9000");
    assert_refused(net.a(&nowhere), 2, &["no such interface 'eth9'", "eth1"]);
    let other = format!("send xdp:eth1 --dest [{b}%lo]:9000");
    assert_refused(
        net.a(&other),
        2,
        &["packets leave by eth1", "want both of one interface"],
    );
    assert_refused(
        net.a("send udp: --dest [fd99::2%eth1]:9"),
        2,
        &["only link-local addresses"],
    );
    assert_refused(
        net.b("reflect udp:[fe80::1%eth9]:9000"),
        2,
        &["no such interface 'eth9'"],
    );
    // One that two interfaces have is of neither before it is said.
    for words in [
        "ip link add d0 type veth peer name d1",
        "ip link set d0 up",
        "ip addr add fe80::77/64 dev d0 nodad",
        "ip addr add fe80::77/64 dev eth1 nodad",
    ] {
        assert_eq!(net.on(Host::B, words).code, Some(0), "{words}");
    }
    let twice = "reflect udp:[fe80::77]:9000 --duration 50ms";
    assert_refused(net.b(twice), 2, &["d0", "eth1", " and ", "[fe80::77%"]);
    let meant = run_command(net.b("reflect udp:[fe80::77%d0]:9000 --duration 50ms --quiet"));
    assert_eq!(meant.code, Some(0), "{}", meant.stderr);
}

#[test]
fn an_interface_is_found_by_its_alternative_names_and_reported_by_its_own() {
    let Some(net) = net_of(1) else { return };
    let long = "an-alternative-name-that-is-much-longer-than-fifteen-characters";
    let words = format!("ip link property add dev eth1 altname {long} altname short0");
    assert_eq!(net.on(Host::A, &words).code, Some(0), "{words}");
    for (path, name) in [
        ("af_packet", long),
        ("af_packet", "short0"),
        ("af_xdp", long),
        ("xdp", "short0"),
    ] {
        let here = Scratch::new();
        let report = here.measure(net.a(&format!("drop {path}:{name} --duration 100ms --quiet")));
        assert_eq!(report.json["host"]["port"], format!("{path}:eth1"), "{:#}", report.json);
    }
    assert_refused(
        net.a(&format!("drop af_packet:x{long} --duration 50ms")),
        2,
        &[&format!("x{long}"), "no such interface", "eth1"],
    );
    let endless = "n".repeat(200);
    assert_refused(net.a(&format!("drop af_packet:{endless}")), 2, &["1 to 127 characters"]);
}
