//! A run knows its own packets: what another run or another host sends is in none of its counts, and is reported.

use mpps_host::lab::Host;
use mpps_tests::{
    Answer, Background, Call, Finished, Net, Report, Scratch, answered, cases, inside, missing, mpps, net_of, no_dpdk,
    program, run_command, wait_until,
};
use rustix::process::Signal;
use serde_json::Value;

/// Reflects UDP packets by the interface `argv[1]` (on VLAN `argv[2]`; 0: untagged), and treats one in so many
/// (`argv[4]`) as `argv[3]` says: `lose`: it is not sent back. `early`, `later`: sent back with another send time, 889
/// ms before or 40 s after its own. `number`: lost, and in its place comes number 4 of flow 44, 45, …, where 10000 is
/// the first source port. Prints what it did as JSON when it is ended.
const REFLECTOR: &str = r#"
import json, signal, socket, struct, sys
device, vlan, mode, every = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
link.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)
link.bind((device, 3))
done = {"came": 0, "lost": 0, "forged": 0}
def end(*_):
    print(json.dumps(done), flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
M = 2**64 - 1
def payload(seed, seq, time, length):
    z = (seed + (seq + 1) * 0x9e3779b97f4a7c15) & M
    z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & M
    z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & M
    word, out = z ^ (z >> 31), struct.pack("<QQ", seq, time)
    while len(out) < length:
        word = (word + 0xd1342543de82ef95) & M
        out += struct.pack("<Q", word)
    return out[:length]
def total(data):
    data += b"\0" * (len(data) % 2)
    return sum(struct.unpack(">%dH" % (len(data) // 2), data))
def back(macs, kind, ip, ends, ports, body):
    udp = struct.pack(">HHHH", ports[1], ports[0], 8 + len(body), 0) + body
    check = total(ends[1] + ends[0] + struct.pack(">HH", 17, len(udp)) + udp)
    while check >> 16: check = (check & 0xffff) + (check >> 16)
    udp = udp[:6] + struct.pack(">H", (0xffff - check) or 0xffff) + udp[8:]
    tag = struct.pack(">HH", 0x8100, vlan) if vlan else b""
    link.send(macs[6:] + macs[:6] + tag + kind + ip + ends[1] + ends[0] + udp)
sys.stderr.write("the reflector is open\n")
sys.stderr.flush()
flow = 44
while True:
    frame, where = link.recvfrom(2048)
    kind = frame[12:14]
    ip, size = {b"\x08\x00": (12, 4), b"\x86\xdd": (8, 16)}.get(kind, (0, 0))
    if where[2] == 4 or not size or frame[14 + (9 if size == 4 else 6)] != 17: continue
    at = 14 + ip + 2 * size
    ends = frame[14 + ip:][:size], frame[14 + ip + size:][:size]
    ports = struct.unpack(">HH", frame[at:at + 4])
    if ports[1] != 9000: continue
    length = struct.unpack(">H", frame[at + 4:at + 6])[0]
    body = frame[at + 8:at + length]
    seq, time = struct.unpack("<QQ", body[:16])
    done["came"] += 1
    whole = frame[:12], kind, frame[14:14 + ip], ends
    if done["came"] <= 260 or done["came"] % every:
        back(*whole, ports, body)
    elif mode == "lose":
        done["lost"] += 1
    elif mode == "number":
        done["lost"] += 1
        if flow < 64:
            back(*whole, (10000 + flow, ports[1]), payload(1, 4, time, len(body)))
            done["forged"] += 1
            flow += 1
    else:
        moved = time - 889_000_000 if mode == "early" else time + 40_000_000_000
        back(*whole, ports, payload(1, seq, moved, len(body)))
        done["forged"] += 1
"#;

/// What the reflector did.
#[derive(Debug)]
struct Done {
    came: u64,
    lost: u64,
    forged: u64,
}

/// The reflector on host b.
struct Reflector(Background);

impl Reflector {
    /// `None`, and said, without Python.
    fn start(net: &Net, vlan: u16, mode: &str, every: u64) -> Option<Self> {
        if missing("python3", "python3") {
            return None;
        }
        let mut command = inside(&net.lab, Host::B, "python3 -c");
        command.args([REFLECTOR, "eth1", &vlan.to_string(), mode, &every.to_string()]);
        Some(Self(Background::start(command).wait_to_hear("the reflector is open")))
    }

    fn end(self) -> Done {
        let finished = self.0.end(Signal::TERM);
        let told: Value = serde_json::from_str(&finished.stdout).expect("JSON");
        let count = |name: &str| told[name].as_u64().expect("a count");
        Done {
            came: count("came"),
            lost: count("lost"),
            forged: count("forged"),
        }
    }
}

/// Paths whose packets others can forge, and options of runs: over IPv4, IPv6 and a VLAN.
const PORTS: [&str; 4] = ["af_packet:eth1", "af_xdp:eth1", "xdp:eth1", "xdp:eth1,mode=skb"];
const WAYS: [(&str, u16); 3] = [
    ("--src 10.99.0.1 --dest 10.99.0.2:9000", 0),
    ("--src fd99::1 --dest [fd99::2]:9000 --payload-size 40", 0),
    ("--src 10.99.0.1 --dest 10.99.0.2:9000 --vlan 5 --payload-size 33", 5),
];
/// Nothing is missed on a busy host, and nothing is late.
const PATIENT: &str = "--lanes 1 --catch-up 10s --settle 3s --quiet";

/// Runs `sendrecv` on a path, by its place in [`PORTS`], against a reflector that forges answers.
fn forged(path: usize, mode: &str, every: u64, load: &str, check: impl Fn(&Report, &Done, &str)) {
    let Some(net) = net_of(1) else { return };
    let port = PORTS[path];
    // Each path goes two of the ways, and each way is gone on two paths at the least.
    for (ends, vlan) in [WAYS[path % 3], WAYS[(path + 1) % 3]] {
        let Some(reflector) = Reflector::start(&net, vlan, mode, every) else {
            return;
        };
        let words = format!("sendrecv {port} {ends} --dest-mac {} {load} {PATIENT}", Host::B.mac());
        let report = Scratch::new().measure(net.a(&words));
        let done = reflector.end();
        let context = format!("{words}: {done:?} {:#}", report.json);
        report.assert_accounted();
        assert_eq!(report.count("tx_packets"), done.came, "{context}");
        assert_eq!(report.reason("foreign_other_run"), done.forged, "{context}");
        assert_eq!(
            (report.count("duplicates"), report.count("corrupt")),
            (0, 0),
            "{context}"
        );
        let warnings = report.json["warnings"].as_array().expect("a list");
        let lines = warnings
            .iter()
            .filter(|line| line.to_string().contains("foreign_other_run"));
        assert_eq!(lines.count(), usize::from(done.forged > 0), "{context}");
        check(&report, &done, &context);
    }
}

fn an_answer_with_a_number_that_only_other_flows_have_used_hides_no_loss(path: usize) {
    // 300 packets in 64 flows: 44 of them have used number 4.
    forged(
        path,
        "number",
        2,
        "--rate 1kpps --duration 300ms",
        |report, done, context| {
            assert_eq!((done.came, done.lost, done.forged), (300, 20, 20), "{context}");
            assert_eq!(
                (report.count("rx_packets"), report.count("lost")),
                (280, 20),
                "{context}"
            );
        },
    );
}

cases!(
    an_answer_with_a_number_that_only_other_flows_have_used_hides_no_loss:
    af_packet = 0,
    af_xdp = 1,
    xdp = 2,
    xdp_skb = 3,
);

fn an_answer_with_an_earlier_send_time_is_not_believed(path: usize) {
    forged(
        path,
        "early",
        50,
        "--rate 500pps --duration 2500ms",
        |report, done, context| {
            assert_eq!((done.came, done.forged), (1250, 20), "{context}");
            assert_eq!(report.count("rx_packets"), 1230, "{context}");
            assert_eq!((report.count("late"), report.count("lost")), (0, 20), "{context}");
        },
    );
}

cases!(
    an_answer_with_an_earlier_send_time_is_not_believed:
    af_packet = 0,
    af_xdp = 1,
    xdp = 2,
    xdp_skb = 3,
);

fn an_answer_with_a_send_time_that_is_yet_to_come_is_not_believed(path: usize) {
    forged(
        path,
        "later",
        7,
        "--rate 1kpps --duration 400ms --flows 3",
        |report, done, context| {
            assert!(done.forged >= 19, "{context}");
            assert_eq!(
                (report.count("late"), report.count("lost")),
                (0, done.forged),
                "{context}"
            );
        },
    );
}

cases!(
    an_answer_with_a_send_time_that_is_yet_to_come_is_not_believed:
    af_packet = 0,
    af_xdp = 1,
    xdp = 2,
    xdp_skb = 3,
);

/// A run on host a that goes on until it is ended, once it has reserved its flows.
fn under_way(net: &Net, scratch: &Scratch, words: &str) -> Background {
    let words = format!("{words} --rate 500pps --duration 60s --interval 20ms {PATIENT}");
    let run = Background::start(scratch.results(net.a(&words)));
    wait_until("a row", || scratch.rows_so_far() > 0);
    run
}

fn source(report: &Report) -> String {
    report.json["host"]["source"].as_str().unwrap_or_default().to_owned()
}

fn warned(report: &Report, text: &str) -> bool {
    report.json["warnings"].to_string().contains(text)
}

fn two_runs_with_default_ports_on_one_interface_count_their_own_packets((ends, vlan): (&str, u16)) {
    let Some(net) = net_of(1) else { return };
    let Some(reflector) = Reflector::start(&net, vlan, "lose", 20) else {
        return;
    };
    let words = format!("sendrecv af_packet:eth1 {ends} --dest-mac {}", Host::B.mac());
    let (first, second) = (Scratch::new(), Scratch::new());
    let runs = [&first, &second].map(|scratch| under_way(&net, scratch, &words));
    wait_until("packets of both", || {
        [&first, &second].iter().all(|s| s.received_so_far() > 500)
    });
    let mut reports: Vec<_> = [&first, &second]
        .into_iter()
        .zip(runs)
        .map(|(scratch, run)| scratch.read(run.end(Signal::INT)))
        .collect();
    let done = reflector.end();
    let context = format!("{done:?} {:#} {:#}", reports[0].json, reports[1].json);
    for report in &reports {
        report.assert_accounted();
        assert_eq!(report.count("duplicates"), 0, "{context}");
        assert_eq!(report.reason("foreign_other_run"), 0, "{context}");
    }
    let total = |key: &str| reports.iter().map(|report| report.count(key)).sum::<u64>();
    assert_eq!(
        (total("tx_packets"), total("lost")),
        (done.came, done.lost),
        "{context}"
    );
    assert!(source(&reports[0]).ends_with("ports 10000-10063"), "{context}");
    assert!(source(&reports[1]).ends_with("ports 10064-10127"), "{context}");
    assert!(warned(&reports[1], "10064-10127 in place of 10000-10063"), "{context}");
    assert!(!warned(&reports[0], "another run"), "{context}");
    let ids: Vec<_> = reports
        .iter()
        .map(|r| r.json["run_id"].as_str().expect("a text").to_owned())
        .collect();
    assert!(ids[0] != ids[1] && ids.iter().all(|id| id.len() == 16), "{ids:?}");
    assert!(warned(&reports[1], &ids[0]), "{context}");
    // The plan keeps the default: the second run again, alone, has the default ports.
    let second = reports.remove(1);
    assert_eq!(second.json["plan"]["traffic"]["src_ports"], "10000-10063", "{context}");
}

cases!(
    two_runs_with_default_ports_on_one_interface_count_their_own_packets:
    v4 = super::WAYS[0],
    v6 = super::WAYS[1],
    vlan = super::WAYS[2],
);

/// Runs a short `send` on host a beside others.
fn beside(net: &Net, words: &str) -> Finished {
    let mac = Host::B.mac();
    run_command(net.a(&format!(
        "{words} --dest-mac {mac} --rate 1kpps --duration 20ms {PATIENT}"
    )))
}

#[test]
fn a_run_whose_ports_were_given_is_refused_if_another_uses_them_and_only_then() {
    let Some(net) = net_of(1) else { return };
    let v6 = WAYS[1].0;
    for (taken, ends, free) in [
        (
            "af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000",
            "--src 10.99.0.1 --dest 10.99.0.2:9000",
            [
                "--src 10.99.0.1 --dest 10.99.0.2:9001 --src-port-range 10010-10020",
                "--src 10.99.0.3 --dest 10.99.0.2:9000 --src-port-range 10010-10020",
                "--src 10.99.0.1 --dest 10.99.0.2:9000 --src-port-range 10010-10020 --vlan 7",
                "--src 10.99.0.1 --dest 10.99.0.2:9000 --src-port-range 10064-10070",
            ],
        ),
        (
            "af_xdp:eth1 --src fd99::1 --dest [fd99::2]:9000",
            v6,
            [
                "--src fd99::1 --dest [fd99::2]:9001 --src-port-range 10010-10020",
                "--src fd99::3 --dest [fd99::2]:9000 --src-port-range 10010-10020",
                "--src fd99::1 --dest [fd99::2]:9000 --src-port-range 10010-10020 --vlan 7",
                "--src 10.99.0.1 --dest 10.99.0.2:9000 --src-port-range 10010-10020",
            ],
        ),
    ] {
        let scratch = Scratch::new();
        let run = under_way(
            &net,
            &scratch,
            &format!("sendrecv {taken} --dest-mac {}", Host::B.mac()),
        );
        let mut ports = vec!["af_packet:eth1"];
        if !no_dpdk() {
            // Its virtual device is on an interface of the kernel.
            ports.insert(0, "dpdk:net_af_packet0,iface=eth1");
        }
        let mut refused = None;
        for port in ports {
            let one = beside(&net, &format!("send {port} {ends} --src-port-range 10060-10080"));
            assert_eq!(one.code, Some(1), "{port}: {}", one.stderr);
            assert_eq!(one.stderr.trim_end().lines().count(), 1, "{port}: {}", one.stderr);
            let named = one.stderr.contains("--src-port-range 10060-10080: another run of mpps");
            assert!(named, "{port}: {}", one.stderr);
            refused = Some(one);
        }
        let refused = refused.expect("at least one");
        for words in free {
            let sent = beside(&net, &format!("send af_packet:eth1 {words}"));
            assert!(matches!(sent.code, Some(0 | 3)), "{words}: {}", sent.stderr);
        }
        let report = scratch.read(run.end(Signal::INT));
        let id = report.json["run_id"].as_str().expect("a text");
        assert!(refused.stderr.contains(id), "{id}: {}", refused.stderr);
        // The kernel has given the name back.
        let sent = beside(
            &net,
            &format!("send af_packet:eth1 {ends} --src-port-range 10060-10080"),
        );
        assert!(matches!(sent.code, Some(0 | 3)), "{}", sent.stderr);
    }
}

#[test]
fn sockets_and_raw_paths_keep_off_each_others_flows() {
    let Some(net) = net_of(1) else { return };
    let v4 = ("udp:10.99.0.1", "--src 10.99.0.1 --dest 10.99.0.2:9000");
    let v6 = ("io_uring:fd99::1", "--src fd99::1 --dest [fd99::2]:9000");
    for ((sockets, ends), raw) in [(v4, "af_packet:eth1"), (v6, "xdp:eth1")] {
        let (host, dest) = (
            sockets.split_once(':').expect("a path").1,
            ends.rsplit_once(' ').expect("an option").1,
        );
        let reflector = Background::ready(net.b(&format!("reflect {}", sockets.replace(host, dest))));
        let of_sockets = format!("sendrecv {sockets} --dest {dest}");
        let of_raw = format!("sendrecv {raw} {ends}");
        for (first, second) in [(&of_sockets, &of_raw), (&of_raw, &of_sockets)] {
            let (early, late) = (Scratch::new(), Scratch::new());
            let run = under_way(&net, &early, first);
            wait_until("answers", || early.received_so_far() > 20);
            let second = late.measure(net.a(&format!("{second} --rate 500pps --duration 200ms {PATIENT}")));
            wait_until("more answers", || early.received_so_far() > 200);
            let first = early.read(run.end(Signal::INT));
            let context = format!("{:#} {:#}", first.json, second.json);
            for report in [&first, &second] {
                assert_eq!(report.count("lost"), 0, "{context}");
                assert_eq!(report.reason("foreign_other_run"), 0, "{context}");
            }
            assert!(warned(&second, "in place of 10000"), "{context}");
            assert!(
                warned(&second, first.json["run_id"].as_str().expect("a text")),
                "{context}"
            );
        }
        // Of a port that was named the later run is refused.
        let scratch = Scratch::new();
        let run = under_way(&net, &scratch, &of_raw);
        let path = sockets.split_once(':').expect("a path").0;
        let named = format!(
            "{path}:{}:10005",
            if host.contains(':') {
                format!("[{host}]")
            } else {
                host.to_owned()
            }
        );
        let refused = run_command(net.a(&format!(
            "send {named} --dest {dest} --rate 1kpps --duration 20ms {PATIENT}"
        )));
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("another run of mpps on this host"),
            "{}",
            refused.stderr
        );
        scratch.read(run.end(Signal::INT));
        reflector.end(Signal::INT);
    }
}

/// Holds the abstract name `argv[1]` as another user until it is ended.
const HOLDER: &str = r#"
import os, signal, socket, sys
os.setgid(65534)
os.setuid(65534)
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind("\0" + sys.argv[1])
sys.stderr.write("the name is held\n")
sys.stderr.flush()
signal.pause()
"#;

#[test]
fn what_another_user_says_that_it_uses_is_reported_and_stops_nobody() {
    let Some(net) = net_of(1) else { return };
    if missing("python3", "python3") {
        return;
    }
    let ends = "--src 10.99.0.1 --dest 10.99.0.2:9000 --src-port-range 10000-10063";
    let scratch = Scratch::new();
    let run = under_way(
        &net,
        &scratch,
        &format!("send af_packet:eth1 {ends} --dest-mac {}", Host::B.mac()),
    );
    let names = net.on(Host::A, "cat /proc/net/unix").stdout;
    let name = names.lines().find_map(|line| {
        line.rsplit(' ')
            .next()?
            .strip_prefix('@')
            .filter(|n| n.starts_with("mpps"))
    });
    let name = name.expect("the run holds a name").to_owned();
    assert!(name.len() <= 107, "{name}");
    run.end(Signal::INT);
    let mut holder = inside(&net.lab, Host::A, "python3 -c");
    holder.args([HOLDER, &name]);
    let holder = Background::start(holder).wait_to_hear("the name is held");
    let words = format!(
        "send af_packet:eth1 {ends} --dest-mac {} --rate 1kpps --duration 20ms {PATIENT}",
        Host::B.mac()
    );
    let report = Scratch::new().measure(net.a(&words));
    holder.end(Signal::TERM);
    assert!(source(&report).ends_with("ports 10000-10063"), "{:#}", report.json);
    assert!(
        warned(&report, "another run of mpps of user 65534"),
        "{:#}",
        report.json
    );
}

#[test]
fn what_arrives_at_the_second_of_two_ports_is_reserved_there() {
    let Some(net) = net_of(1) else { return };
    for (flag, port) in [("", "af_packet"), ("--both-ways", "af_packet")] {
        // A second link between the hosts would do as well: what leaves by eth1 need not arrive.
        net.on(Host::A, "ip link add ids0 type veth peer name ids1");
        net.on(Host::A, "ip link set ids0 up");
        net.on(Host::A, "ip link set ids1 up");
        let scratch = Scratch::new();
        let ends = "--src 198.18.0.1 --dest 198.18.0.2:9000 --src-port-range 500-504";
        let run = under_way(
            &net,
            &scratch,
            &format!("sendrecv {port}:ids0 {port}:ids1 {flag} {ends}"),
        );
        let back = "--src 198.18.0.2 --src-port-range 9000-9000 --dest 198.18.0.1:504";
        let refused = beside(&net, &format!("send af_packet:ids1 {back}"));
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
        let sent = beside(&net, &format!("send af_packet:ids1 {ends}"));
        assert!(matches!(sent.code, Some(0 | 3)), "{}", sent.stderr);
        run.end(Signal::INT);
        net.on(Host::A, "ip link del ids0");
    }
}

#[test]
fn a_method_and_every_path_keep_off_the_flows_of_a_run() {
    let Some(net) = net_of(1) else { return };
    for (i, (ends, _)) in WAYS.iter().enumerate() {
        let scratch = Scratch::new();
        let mac = Host::B.mac();
        let run = under_way(&net, &scratch, &format!("send {} {ends} --dest-mac {mac}", PORTS[i]));
        let given = "--src-port-range 10060-10080";
        for port in PORTS {
            let search = "--min-rate 1kpps --max-rate 2kpps --goal loss=0,initial=20ms,final=20ms,sum=40ms,width=50%";
            let ndr = run_command(net.a(&format!("ndr {port} {ends} {given} --dest-mac {mac} {search} --quiet")));
            let send = beside(&net, &format!("send {port} {ends} {given}"));
            for refused in [ndr, send] {
                let said = &refused.stderr;
                assert_eq!(refused.code, Some(1), "{port} {ends}: {said}");
                assert!(
                    said.contains(&format!("{given}: another run of mpps")),
                    "{port} {ends}: {said}"
                );
            }
        }
        // Default ports move. Two of those that take the queue can't be side by side.
        let others = [
            &["xdp:eth1", "af_xdp:eth1"][..],
            &["af_packet:eth1"],
            &["af_packet:eth1"],
        ][i];
        for port in others {
            let words = format!("send {port} {ends} --dest-mac {mac} --rate 1kpps --duration 20ms {PATIENT}");
            let report = Scratch::new().measure(net.a(&words));
            let source = source(&report);
            assert!(source.ends_with("ports 10064-10127"), "{words}: {:#}", report.json);
        }
        run.end(Signal::INT);
    }
}

#[test]
fn trials_of_a_method_have_the_source_ports_that_it_has_moved_to() {
    let Some(net) = net_of(1) else { return };
    let ends = "--src 10.99.0.1 --dest 10.99.0.2:9000";
    let scratch = Scratch::new();
    let other = under_way(
        &net,
        &scratch,
        &format!("send af_packet:eth1 {ends} --dest-mac {}", Host::B.mac()),
    );
    let reflector = Background::start(net.b("reflect af_packet:eth1 --quiet --duration 60s"));
    let search = "--min-rate 1kpps --max-rate 2kpps --goal loss=0,initial=20ms,final=20ms,sum=40ms,width=50%";
    let out = Scratch::new();
    let record = out.path().join("out");
    let mut ndr = net.a(&format!("ndr af_packet:eth1 {ends} {search} --quiet --out"));
    ndr.arg(&record);
    let found = run_command(ndr);
    let trials = std::fs::read_to_string(record.join("trials.jsonl")).expect("a record");
    // A trial on the ports of the other run would hear nothing, on a quiet host and on a busy one.
    assert!(trials.contains("ports 10064-10127"), "{}: {trials}", found.stderr);
    let heard = trials
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let heard = heard
        .filter_map(|line| line["received_pps"].as_f64())
        .fold(0.0, f64::max);
    assert!(heard > 0.0, "{}: {trials}", found.stderr);
    reflector.end(Signal::INT);
    other.end(Signal::INT);
}

#[test]
fn devices_of_dpdks_own_reserve_nothing() {
    if no_dpdk() {
        return;
    }
    let ends = "--src 10.99.0.1 --dest 10.99.0.2:9000 --src-port-range 10000-10063";
    let words = |n: u32| format!("send dpdk:net_null{n} {ends} --rate 1kpps --interval 20ms {PATIENT} --duration");
    let scratch = Scratch::new();
    let run = Background::start(scratch.results(mpps(&format!("{} 60s", words(0)))));
    wait_until("a row", || scratch.rows_so_far() > 0);
    let report = Scratch::new().measure(mpps(&format!("{} 20ms", words(1))));
    run.end(Signal::INT);
    assert!(!warned(&report, "another run"), "{:#}", report.json);
}

#[test]
fn names_without_users_and_names_that_can_not_be_read_stop_nobody_and_are_reported() {
    let Some(net) = net_of(1) else { return };
    let ends = "--src fd99::1 --dest [fd99::2]:9000 --src-port-range 10000-10063";
    let words = |more: &str| format!("send af_packet:eth1 {ends} --dest-mac {} {more}", Host::B.mac());
    let scratch = Scratch::new();
    let run = under_way(&net, &scratch, &words(""));
    let short = net.a(&words(&format!("--rate 1kpps --duration 20ms {PATIENT}")));
    let Some(listed) = answered(Call::SocketDiagnosis, Answer::NotPermitted, &short) else {
        return;
    };
    let report = Scratch::new().measure(listed);
    assert!(
        warned(&report, "another run of mpps of a user that this host does not report"),
        "{:#}",
        report.json
    );
    // Without the list in /proc, too.
    let mut hidden = inside(&net.lab, Host::A, "unshare --mount sh -c");
    hidden
        .arg("mount -t tmpfs none /proc/$$/task/$$/net || exit 77; exec \"$@\"")
        .arg("sh");
    hidden
        .arg(program())
        .args(words(&format!("--rate 1kpps --duration 20ms {PATIENT}")).split_whitespace());
    let hidden = answered(Call::SocketDiagnosis, Answer::NotPermitted, &hidden).expect("python");
    let report = Scratch::new().measure(hidden);
    assert!(
        warned(&report, "other runs of mpps on the interface could not be looked for"),
        "{:#}",
        report.json
    );
    run.end(Signal::INT);
}
