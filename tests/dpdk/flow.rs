//! Flow rules (`--flow`) are refused before the first packet where the port has nothing to apply them with: in one line
//! that names the rule, the port and the reason. A driver's own rules, and what they do, are tests of the dpdk path.

use std::process::Command;

use mpps_tests::{mpps, net_of, run_command};

/// UDP to one port.
const UDP: &str = "pattern eth / ipv4 / udp dst is 9000 / end";

fn to_queue(queue: u32) -> String {
    format!("ingress {UDP} actions queue index {queue} / end")
}

/// Refused as a wrong argument, in one line that holds each of these words; nothing on standard output.
fn assert_refused(mut command: Command, rule: &str, parts: &[&str]) {
    command.args(["--flow", rule, "--duration", "50ms"]);
    let name = format!("{command:?}");
    let finished = run_command(command);
    let context = format!("{name}: exit code {:?}: {}", finished.code, finished.stderr);
    assert_eq!(finished.code, Some(2), "{context}");
    assert_eq!(finished.stderr.trim_end().lines().count(), 1, "not one line: {context}");
    assert!(finished.stderr.starts_with("mpps: --flow '"), "{context}");
    assert_eq!(finished.stdout, "", "{context}");
    for part in parts {
        assert!(finished.stderr.contains(part), "not told {part:?}: {context}");
    }
}

#[test]
fn words_that_are_no_rule_are_refused_whatever_the_port() {
    for (rule, parts) in [
        ("", &["no words"][..]),
        ("pattern eth / end actions drop / end", &["want ingress"]),
        (
            "ingress pattern eth / any / end actions drop / end",
            &["'any'", "eth, vlan, ipv4"],
        ),
        (
            "ingress pattern eth / udp / end actions drop / end",
            &["'udp' after 'eth'"],
        ),
        (
            "ingress pattern eth / end actions jump / end",
            &["'jump'", "queue, rss, drop"],
        ),
        ("ingress\npattern\tx\u{1b}[0m", &["'x"]),
    ] {
        for command in [
            "sendrecv loop:",
            "send null:",
            "reflect null:",
            "drop null:",
            "capture null: -o -",
            "forward null:",
        ] {
            assert_refused(mpps(command), rule, parts);
        }
    }
}

#[test]
fn ports_without_a_device_refuse_rules() {
    for path in ["null", "loop"] {
        let port = format!("{path}:");
        for command in ["drop", "reflect", "forward"] {
            let parts = [&port, "no device", "af_packet, af_xdp, xdp or dpdk", &to_queue(0)];
            assert_refused(mpps(&format!("{command} {port}")), &to_queue(0), &parts);
        }
    }
}

#[test]
fn sockets_refuse_rules() {
    let parts = [
        "udp:127.0.0.1",
        "the kernel chooses the socket",
        "want af_packet, af_xdp, xdp or dpdk",
    ];
    assert_refused(mpps("drop udp:127.0.0.1"), &to_queue(0), &parts);
    assert_refused(
        mpps("sendrecv udp:127.0.0.1 --dest 127.0.0.1:9000"),
        &to_queue(0),
        &parts,
    );
}

#[test]
fn a_driver_without_ntuple_filters_is_named_with_the_kernels_reason() {
    let Some(net) = net_of(1) else { return };
    let drop = format!("ingress {UDP} actions drop / end");
    for path in ["af_packet", "af_xdp", "xdp"] {
        for rule in [&drop, &to_queue(0)] {
            let parts = [
                "eth1",
                "veth",
                "ntuple filters",
                "Operation not supported",
                "want",
                rule.as_str(),
            ];
            for command in ["drop", "reflect", "forward"] {
                assert_refused(net.b(&format!("{command} {path}:eth1")), rule, &parts);
            }
            let traffic = "--src 10.99.0.1 --dest 10.99.0.2:9000";
            assert_refused(net.a(&format!("sendrecv {path}:eth1 {traffic}")), rule, &parts);
        }
    }
    let parts = ["af_packet:eth1", "Operation not supported"];
    assert_refused(net.b("capture af_packet:eth1 -o /dev/null"), &drop, &parts);
}

#[test]
fn what_no_ntuple_filter_can_say_is_refused_for_any_device() {
    let to = |actions: &str| format!("ingress {UDP} actions {actions} / end");
    for (rule, parts) in [
        (to("count / drop"), ["'count'", "no counters"]),
        (to("mark id 5 / queue index 0"), ["'mark id 5'", "mark nothing"]),
        (to("rss queues 0 1 end"), ["'rss queues 0 1 end'", "one queue each"]),
        (format!("egress {UDP} actions drop / end"), ["'egress'", "want ingress"]),
        (
            "ingress pattern ipv4 / udp dst is 1 dst last 9 / end actions drop / end".to_owned(),
            ["'udp dst last'", "no ranges"],
        ),
    ] {
        assert_refused(mpps("drop af_packet:lo"), &rule, &parts);
    }
}

#[test]
fn every_port_of_a_forwarder_is_checked() {
    let parts = ["port 'null:'", "no device"];
    assert_refused(mpps("forward af_packet:nonesuch9 null:"), &to_queue(0), &parts);
}

#[test]
fn a_queue_that_no_lane_receives_from_is_refused() {
    let command = |words: &str| mpps(&format!("{words} --lanes 2"));
    let parts = ["queue 2", "queues 0 to 1", "want one of them"];
    assert_refused(command("drop dpdk:net_null0"), &to_queue(2), &parts);
    let spread = format!("ingress {UDP} actions rss queues 0 1 2 end / end");
    assert_refused(command("forward dpdk:net_null0"), &spread, &parts);
    let send = "send dpdk:net_null0 --src 10.99.0.1 --dest 10.99.0.2:9000";
    assert_refused(mpps(send), &to_queue(0), &["queue 0", "names no queue"]);
}
