//! What can't be had on the dpdk path is refused in one line that says what would be right, and DPDK's own words, of
//! which it has many, are nowhere but in that line.

use std::process::Command;

use mpps_tests::{Memif, Own, Scratch, assert_refused, listen_by, missing, mpps, no_dpdk, program, run_command, skip};
use rustix::process::Signal;

/// Adds what is wrong with the refusal of these words to the list: one line that names every part, one of these exit
/// codes, and nothing where results are expected.
fn tell(wrong: &mut Vec<String>, words: &str, codes: &[i32], parts: &[&str]) {
    // What stands behind `--eal` is one word.
    let (words, eal) = words.split_once(" --eal ").unwrap_or((words, ""));
    let mut command = mpps(words);
    if !eal.is_empty() {
        command.args(["--eal", eal]);
    }
    command.args(["--duration", "50ms", "--quiet", "--json", "-"]);
    let finished = run_command(command);
    let mut faults = Vec::new();
    if !finished.code.is_some_and(|code| codes.contains(&code)) {
        faults.push(format!("exit code {:?}", finished.code));
    }
    if finished.stderr.trim_end().lines().count() != 1 {
        faults.push("not one line".to_owned());
    }
    if !finished.stdout.is_empty() {
        faults.push(format!("{} lines of output", finished.stdout.lines().count()));
    }
    let untold = parts.iter().filter(|part| !finished.stderr.contains(**part));
    faults.extend(untold.map(|part| format!("not told '{part}'")));
    if !faults.is_empty() {
        wrong.push(format!(
            "{words}: {}: {}",
            faults.join(", "),
            finished.stderr.trim_end()
        ));
    }
}

#[test]
fn wrong_words_are_refused_in_one_line_before_anything_is_opened() {
    if no_dpdk() {
        return;
    }
    let mut wrong = Vec::new();
    for (words, parts) in [
        ("reflect dpdk:", &["device ''", "net_memif0"][..]),
        ("reflect dpdk:eth1", &["device 'eth1'", "PCI address", "mac=MAC"]),
        ("reflect dpdk:net_null0,rxd=31", &["rxd=31", "32 to 32768"]),
        ("reflect dpdk:net_null0,mbufs=7", &["mbufs=7", "1024"]),
        ("reflect dpdk:net_memif0,rsize=0", &["rsize=0", "from 1 to 14"]),
        ("reflect dpdk:net_memif0,bsize=0", &["bsize=0", "from 1 to 65535"]),
        ("reflect dpdk:net_null0,rss=yes", &["rss=yes", "auto, udp, ip or off"]),
        ("reflect dpdk:net_null0,csum=on", &["csum=on", "software"]),
        ("reflect dpdk:net_null0,promisc=maybe", &["promisc=maybe", "on"]),
        ("reflect dpdk:net_null0,link_wait=never", &["link_wait=never", "3600"]),
        ("reflect dpdk:mac=02:00:00:00:00", &["mac=02:00:00:00:00", "six pairs"]),
        ("reflect dpdk:net_null0,csum=device", &["csum=device", "software"]),
        ("reflect dpdk:net_af_packet0,iface=lo,rss=udp", &["rss", "off or auto"]),
        (
            "reflect dpdk:net_null0 --eal --vdev=net_null1",
            &["--eal", "--vdev", "as the port"],
        ),
        ("reflect dpdk:net_null0 --eal -l 0", &["--eal", "-l", "--cores"]),
        ("reflect dpdk:net_null0 --eal nonsense", &["--eal", "nonsense"]),
        ("reflect null: --eal --no-huge", &["--eal", "dpdk"]),
        (
            "reflect dpdk:net_af_packet0,iface=lo --lanes 2",
            &["2 lanes", "--lanes 1", "qpairs"],
        ),
        ("forward dpdk:net_null0 dpdk:net_null0", &["net_null0", "first port"]),
        (
            "reflect dpdk:net_foo0",
            &["net_foo0", "no driver of this name", "mpps doctor"],
        ),
        ("reflect dpdk:net_af_packet0", &["iface=NAME"]),
        ("reflect dpdk:0000:7f:1f.7", &["0000:7f:1f.7", "mpps doctor"]),
        (
            "reflect dpdk:mac=02:00:00:00:00:99",
            &["02:00:00:00:00:99", "mpps doctor"],
        ),
        (
            "send dpdk:net_memif0 --dest 10.99.0.2:9000 --dest-mac 02:00:00:00:00:02",
            &["--src"],
        ),
    ] {
        if words.contains("iface=lo") && !rustix::process::geteuid().is_root() {
            skip("packet sockets need root");
            continue;
        }
        tell(&mut wrong, words, &[2], parts);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_a_driver_refuses_is_told_in_one_line_that_says_what_to_do() {
    if no_dpdk() {
        return;
    }
    let folder = Scratch::new();
    let mut wrong = Vec::new();
    let nowhere = folder.file("no/such/folder/memif").display().to_string();
    for (words, parts) in [
        (
            "reflect dpdk:net_null0,bogus=1".to_owned(),
            &["bogus=1", "no such option"][..],
        ),
        (
            "reflect dpdk:net_af_packet0,iface=none9".to_owned(),
            &["none9", "no such interface"],
        ),
        (
            "reflect dpdk:net_af_xdp0,iface=none9".to_owned(),
            &["none9", "no such interface"],
        ),
        (
            "reflect dpdk:net_pcap0".to_owned(),
            &["net_pcap0", "No rx or tx queues"],
        ),
        (
            "drop dpdk:net_pcap0,rx_pcap=/no/such.pcap".to_owned(),
            &["rx_pcap=/no/such.pcap: there is no such file"],
        ),
        (
            "drop dpdk:net_tap0,iface=a_very_long_name0".to_owned(),
            &["iface=a_very_long_name0", "at most 15 bytes"],
        ),
        (
            "drop dpdk:net_tap0,remote=none9".to_owned(),
            &["remote=none9: there is no such interface"],
        ),
        (
            format!("reflect dpdk:net_memif0,role=server,socket={nowhere},socket-abstract=no"),
            &[&nowhere, "there is no directory"],
        ),
        (
            format!("send dpdk:net_memif0,link_wait=0,socket={nowhere} --src 10.99.0.1 --dest 10.99.0.2:9000"),
            &[&nowhere, "server is not there"],
        ),
        (
            format!(
                "send dpdk:net_memif0,role=server,link_wait=0,socket={nowhere} --src 10.99.0.1 --dest 10.99.0.2:9000"
            ),
            &["link is still down", "link_wait"],
        ),
        ("reflect dpdk:net_null0 --eal --bogus".to_owned(), &["--bogus"]),
        (
            "reflect dpdk:net_null0,mbufs=100000 --eal --no-huge -m 64".to_owned(),
            &["100000 buffers", "mbufs=N"],
        ),
        // Too little for anything.
        ("reflect dpdk:net_null0 --eal --no-huge -m 1".to_owned(), &["net_null0"]),
    ] {
        tell(&mut wrong, &words, &[1, 2], parts);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Why no test here sees a rule that a driver has accepted: docs/research/published-works.md.
#[test]
fn no_driver_of_a_software_device_takes_a_flow_rule_and_each_is_named() {
    if no_dpdk() {
        return;
    }
    let folder = Scratch::new();
    // A soft NIC needs its script, which may say nothing.
    let script = folder.file("firmware.cli");
    std::fs::write(&script, "").expect("writable");
    for device in ["null", "ring", "memif", "softnic"] {
        let options = match device {
            "memif" => ",role=server".to_owned(),
            "softnic" => format!(",firmware={}", script.display()),
            _ => String::new(),
        };
        let mut command = mpps(&format!("drop dpdk:net_{device}0{options} --duration 50ms --quiet"));
        command.args([
            "--flow",
            "ingress pattern eth / ipv4 / udp / end actions queue index 0 / end",
        ]);
        let named = format!("net_{device} takes no flow rules at all");
        assert_refused(command, 2, &[&named, "want a device whose driver does"]);
    }
}

#[test]
fn a_socket_that_a_killed_server_has_left_is_in_nobodys_way_and_one_in_use_is_left_alone() {
    if no_dpdk() {
        return;
    }
    let (memif, there) = (Memif::new(), Scratch::new());
    let words = format!("reflect {},socket-abstract=no", memif.server(0));
    listen_by(&there, mpps(&words)).end(Signal::KILL);
    // Its rows are in a place of their own, so that those of the first are not taken for them.
    let later = Scratch::new();
    let next = listen_by(&later, mpps(&words));
    assert_refused(
        mpps(&format!("{words} --duration 50ms --quiet")),
        1,
        &[&memif.name(), "another process listens there"],
    );
    assert_eq!(next.end(Signal::INT).code, Some(0));
}

#[test]
fn without_the_privilege_that_a_device_needs_the_refusal_names_it() {
    if no_dpdk() || missing("setpriv", "util-linux") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return skip("only root can give up privileges");
    }
    let mut wrong = Vec::new();
    for (port, needed) in [
        ("dpdk:net_af_packet0,iface=lo", "CAP_NET_RAW"),
        ("dpdk:net_tap0,iface=tap9", "CAP_NET_ADMIN"),
    ] {
        let mut command = Command::new("setpriv");
        let caps = "--bounding-set=-net_raw,-net_admin --inh-caps=-net_raw,-net_admin --";
        command.args(caps.split(' ')).arg(program());
        command.args(["reflect", port, "--duration", "50ms", "--quiet"]);
        let finished = run_command(command);
        let context = format!("{port}: {:?} {}", finished.code, finished.stderr);
        assert_eq!(finished.code, Some(1), "{context}");
        assert_eq!(finished.stderr.trim_end().lines().count(), 1, "{context}");
        if !finished.stderr.contains(needed) {
            wrong.push(context);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_interface_of_this_network_namespace_is_found_where_sys_shows_another() {
    if no_dpdk() || missing("unshare", "util-linux") || missing("ip", "iproute2") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return skip("only root can make a network namespace");
    }
    let drop = format!(
        "ip link add v0 type veth peer name v1 && exec {} drop dpdk:net_af_packet0,iface=v0 --duration 50ms --quiet",
        program().display()
    );
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", &drop]);
    let finished = run_command(command);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""));
}

#[test]
fn nobody_at_the_other_end_of_a_memif_answers_without_an_address_and_the_refusal_names_the_option() {
    if no_dpdk() {
        return;
    }
    let memif = Own::new();
    let scratch = Scratch::new();
    let reflector = listen_by(&scratch, mpps(&format!("reflect {}", memif.port(0, "server"))));
    for (ends, asked) in [
        ("--src 10.0.0.1 --dest 10.0.0.2:9000", "10.0.0.2"),
        ("--src fd01::1 --dest [fd01::2]:9000", "fd01::2"),
    ] {
        let words = format!("sendrecv {} {ends} --duration 50ms --quiet", memif.port(0, "client"));
        let answer = format!("mpps reflect --ip {asked}");
        assert_refused(mpps(&words), 1, &[&format!("nobody answered for {asked}"), &answer]);
    }
    reflector.end(Signal::INT);
}
