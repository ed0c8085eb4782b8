//! Wrong arguments are refused before the first packet, in one line that names the option, the value, and what would
//! be right.

use std::net::UdpSocket;

use mpps_tests::{Scratch, mpps, run, run_command};

/// Refused with this exit code and with one line that holds each of these words; nothing on standard output.
fn assert_refused(words: &str, code: i32, parts: &[&str]) {
    let finished = run(words);
    let context = format!("mpps {words}: exit code {:?}: {}", finished.code, finished.stderr);
    assert_eq!(finished.code, Some(code), "{context}");
    assert_eq!(finished.stderr.trim_end().lines().count(), 1, "not one line: {context}");
    assert!(finished.stderr.starts_with("mpps: "), "{context}");
    assert_eq!(finished.stdout, "", "{context}");
    for part in parts {
        assert!(finished.stderr.contains(part), "not told {part:?}: {context}");
    }
}

/// Each row: the arguments after the command, and what the message must name.
fn assert_table(command: &str, table: &[(&str, &[&str])]) {
    for (words, parts) in table {
        assert_refused(&format!("{command} {words} --duration 50ms"), 2, parts);
    }
}

#[test]
fn unknown_commands_and_options_are_named() {
    assert_refused("sendreceive null:", 2, &["sendreceive", "sendrecv"]);
    assert_refused("sendrecv loop: --ratte 5kpps", 2, &["--ratte", "--rate"]);
    assert_refused("sendrecv", 2, &["<PORT>"]);
    assert_refused("sendrecv loop: --rate", 2, &["--rate"]);
    assert_refused("lab up --queues x", 2, &["--queues", "x"]);
    assert_refused("lab exec c -- true", 2, &["c"]);
}

#[test]
fn ports_that_name_no_path_device_or_option_are_refused() {
    assert_table(
        "sendrecv",
        &[
            (
                "tcp:10.0.0.1",
                &["tcp", "udp, io_uring, af_packet, af_xdp, xdp, dpdk, null, loop"],
            ),
            ("loop", &["loop", "PATH:DEVICE"]),
            ("loop:eth1", &["eth1", "loop:"]),
            ("loop:lose=1", &["lose", "loss"]),
            ("loop:loss=1.5", &["loss=1.5", "0 to 1"]),
            ("loop:delay=5", &["delay=5", "50us"]),
            ("loop:loss=0.6,corrupt=0.6", &["loss", "corrupt", "1 at the most"]),
            ("loop:loss=0.1,loss=0.2", &["loss", "twice"]),
            ("null:frames=0", &["frames=0"]),
            ("udp:localhost --dest 127.0.0.1:9000", &["localhost", "10.99.0.1"]),
            (
                "udp:127.0.0.1,gso=maybe --dest 127.0.0.1:9000",
                &["gso=maybe", "on or off"],
            ),
            ("udp:127.0.0.1,ring=64 --dest 127.0.0.1:9000", &["ring", "rcvbuf"]),
            ("udp:224.0.0.1 --dest 127.0.0.1:9000", &["224.0.0.1", "multicast"]),
            ("io_uring:eth1 --dest 127.0.0.1:9000", &["eth1", "10.99.0.1"]),
            (
                "io_uring:127.0.0.1,buffers=100 --dest 127.0.0.1:9000",
                &["buffers=100", "a power of two"],
            ),
            (
                "io_uring:127.0.0.1,sqpoll_cpu=1 --dest 127.0.0.1:9000",
                &["sqpoll_cpu=", "sqpoll="],
            ),
            (
                "io_uring:127.0.0.1,busy_poll=50 --dest 127.0.0.1:9000",
                &["busy_poll", "buffers"],
            ),
            ("af_packet: --src 10.0.0.1 --dest 10.0.0.2:9", &["af_packet", "eth1"]),
            (
                "af_packet:lo,ring=3 --src 10.0.0.1 --dest 10.0.0.2:9",
                &["ring=3", "64"],
            ),
        ],
    );
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let words = "sendrecv af_packet:nonesuch9 --src 10.99.0.1 --dest 10.99.0.2:9000 --duration 50ms";
    assert_refused(words, 2, &["nonesuch9", "no such interface"]);
    assert_refused("reflect af_packet:nonesuch9", 2, &["nonesuch9", "no such interface"]);
    assert_refused("reflect udp:192.0.2.77:9000", 2, &["192.0.2.77:9000"]);
    assert_refused(
        "sendrecv udp:192.0.2.77 --dest 192.0.2.78:9000 --duration 50ms",
        2,
        &["192.0.2.77"],
    );
}

#[test]
fn addresses_ports_and_macs_that_do_not_parse_are_refused() {
    assert_table(
        "sendrecv",
        &[
            ("udp:127.0.0.1", &["--dest", "IP:PORT"]),
            ("udp:127.0.0.1 --dest 127.0.0.1", &["--dest", "127.0.0.1", "IP:PORT"]),
            ("udp:127.0.0.1 --dest 127.0.0.1:70000", &["--dest", "70000", "65535"]),
            (
                "udp:127.0.0.1 --dest ::1:9000",
                &["--dest", "::1:9000", "want [::1]:9000"],
            ),
            (
                "udp:127.0.0.1 --dest 127.0.1:9000",
                &["--dest", "127.0.1:9000", "IP:PORT"],
            ),
            ("udp:127.0.0.1 --dest a..b:9000", &["--dest", "a..b:9000", "NAME:PORT"]),
            ("udp:127.0.0.1 --dest 0.0.0.0:9000", &["--dest", "0.0.0.0", "one host"]),
            (
                "udp:127.0.0.1 --dest 127.0.0.1:9001-9000",
                &["--dest", "9001-9000", "9000-9001"],
            ),
            ("loop: --src 10.0.0 ", &["--src", "10.0.0", "IP address"]),
            ("loop: --src 224.0.0.5", &["--src", "224.0.0.5", "one host"]),
            ("loop: --src-port-range 0-5", &["--src-port-range", "0-5", "1 to 65535"]),
            (
                "loop: --src-port-range 9-5",
                &["--src-port-range", "9-5", "reversed", "5-9"],
            ),
            (
                "loop: --src-port-range 1-70000",
                &["--src-port-range", "70000", "65535"],
            ),
            (
                "loop: --dest-mac 02:00:00:00:00",
                &["--dest-mac", "02:00:00:00:00", "02:00:00:00:00:01"],
            ),
            (
                "loop: --dest-mac ff:ff:ff:ff:ff:ff",
                &["--dest-mac", "ff:ff", "one station"],
            ),
            ("loop: --dest-mac 0g:00:00:00:00:01", &["--dest-mac", "0g:", "MAC"]),
            ("loop: --gateway here", &["--gateway", "here", "IP address"]),
            ("loop: --vlan 4095", &["--vlan", "4095", "4094"]),
        ],
    );
}

#[test]
fn arguments_that_contradict_each_other_are_refused() {
    assert_table(
        "sendrecv",
        &[
            (
                "loop: --src 10.0.0.1 --dest [fd99::2]:9000",
                &["--dest", "fd99::2", "IPv6", "IPv4", "one family"],
            ),
            ("udp:::1 --dest 127.0.0.1:9000", &["--dest", "127.0.0.1", "one family"]),
            (
                "udp:127.0.0.1 --src 127.0.0.2 --dest 127.0.0.1:9000",
                &["--src", "127.0.0.2", "127.0.0.1"],
            ),
            (
                "udp:127.0.0.1 --dest 127.0.0.1:9000 --dest-mac 02:00:00:00:00:01",
                &["--dest-mac", "udp"],
            ),
            ("udp:127.0.0.1 --dest 127.0.0.1:9000 --vlan 5", &["--vlan", "udp"]),
            (
                "udp:127.0.0.1 --dest 127.0.0.1:9000-9004",
                &["--dest", "9000-9004", "one port"],
            ),
            (
                "loop: --payload-size 64 --frame-size 64",
                &["--payload-size", "--frame-size"],
            ),
            ("null: --rx-lanes 1", &["--rx-lanes", "--tx-lanes"]),
            ("null: --tx-lanes 1", &["--tx-lanes", "--rx-lanes"]),
            ("null: --tx-lanes 1 --rx-lanes 1 --lanes 2", &["--tx-lanes", "--lanes"]),
            ("loop: --tx-lanes 1 --rx-lanes 1", &["--tx-lanes", "loop", "--lanes"]),
            ("loop: --lanes 3 --src-port-range 5000-5001", &["2 flows", "3"]),
            ("loop: --lanes 2 --flows 1", &["1 flow", "2"]),
            ("loop: --csv - --json -", &["--csv", "--json", "'-'"]),
        ],
    );
    assert_table("send", &[("null: --rx-lanes 1", &["--rx-lanes", "--tx-lanes"])]);
    assert_refused(
        "reflect udp:127.0.0.1:9000 --ip 127.0.0.1",
        2,
        &["--ip", "udp:127.0.0.1:9000"],
    );
    assert_refused(
        "drop udp:127.0.0.1:9000 --port 9000",
        2,
        &["--port", "udp:127.0.0.1:9000"],
    );
    assert_refused(
        "reflect af_packet:lo --ip 224.0.0.1",
        2,
        &["--ip", "224.0.0.1", "one host"],
    );
}

#[test]
fn options_that_mean_nothing_where_the_kernel_runs_the_workload_are_refused() {
    let sending: &[(&str, &[&str])] = &[
        ("--burst 32", &["--burst 32", "batch=N"]),
        ("--busy-poll", &["--busy-poll", "left out"]),
        ("--rx-lanes 1 --tx-lanes 1", &["--rx-lanes 1", "left out"]),
    ];
    for command in ["sendrecv", "send"] {
        for (words, parts) in sending {
            let line = format!("{command} xdp:none0 --src 10.99.0.1 --dest 10.99.0.2:9000 {words}");
            assert_refused(&line, 2, parts);
        }
    }
    for (words, parts) in [
        ("--lanes 2", &["--lanes 2", "ethtool -L"][..]),
        ("--cores 0", &["--cores 0", "affinity"]),
        ("--burst 8", &["--burst 8", "xdp:none0"]),
        ("--busy-poll", &["--busy-poll", "xdp:none0"]),
    ] {
        for command in ["reflect xdp:none0", "drop xdp:none0", "forward xdp:none0"] {
            assert_refused(&format!("{command} {words} --duration 50ms"), 2, parts);
        }
    }
    for (words, parts) in [
        (
            "forward xdp:none0 xdp:none1 --split-directions",
            &["--split-directions", "left out"][..],
        ),
        (
            "forward xdp:none0 xdp:none1 --drain 1ms",
            &["--drain 1ms", "xdp:none0", "left out"],
        ),
        (
            "forward xdp:none0 xdp:none1 xdp:none2",
            &["xdp:none2", "two ports at the most"],
        ),
        (
            "forward xdp:none0 af_xdp:none1",
            &["af_xdp:none1", "devmap", "xdp:none1"],
        ),
        ("forward null: xdp:none1", &["null:", "devmap"]),
        (
            "capture xdp:none0 -o none.pcapng",
            &["xdp:none0", "af_xdp:none0", "af_packet:none0"],
        ),
        ("reflect xdp:", &["xdp", "eth1"]),
        ("reflect xdp:none0", &["none0", "no such interface"]),
        ("reflect xdp:none0,mode=offload", &["mode=offload", "native", "skb"]),
        ("reflect xdp:none0,clock=tsc", &["clock=tsc", "poll", "packet"]),
        ("drop xdp:none0,check=some", &["check=some", "all", "headers"]),
        ("drop xdp:none0,batch=257", &["batch=257", "256"]),
        ("drop xdp:none0,ring=64", &["ring", "mode", "batch"]),
        ("drop xdp:none0,mode=skb,mode=skb", &["mode", "twice"]),
    ] {
        assert_refused(&format!("{words} --duration 50ms"), 2, parts);
    }
}

#[test]
fn sizes_outside_stamp_and_mtu_are_refused() {
    assert_table(
        "sendrecv",
        &[
            ("loop: --payload-size 15", &["--payload-size", "15", "16"]),
            ("loop: --payload-size 0", &["--payload-size", "0", "16"]),
            ("loop: --payload-size -5", &["--payload-size", "-5", "16"]),
            ("loop: --payload-size 1473", &["--payload-size", "1473", "MTU", "1472"]),
            (
                "loop: --payload-size 1453 --dest [fd99::2]:9",
                &["--payload-size", "1453", "1452"],
            ),
            ("loop: --frame-size 1519", &["--frame-size", "1519", "1518"]),
            ("loop: --frame-size 63", &["--frame-size", "63", "64"]),
            (
                "loop: --frame-size 64 --dest [fd99::2]:9",
                &["--frame-size", "64", "82"],
            ),
            (
                "udp:127.0.0.1 --dest 127.0.0.1:9000 --payload-size 65508",
                &["--payload-size", "65508", "65507"],
            ),
            ("loop: --burst 0", &["--burst", "0", "256"]),
            ("loop: --burst 257", &["--burst", "257", "256"]),
            ("loop: --lanes 0", &["--lanes", "0", "128"]),
            ("loop: --flows 0", &["--flows", "0"]),
            ("loop: --cores 9999", &["--cores", "9999"]),
            ("loop: --cores 1000", &["--cores", "1000"]),
            ("loop: --ttl 0", &["--ttl", "0"]),
            ("loop: --dscp 64", &["--dscp", "64"]),
        ],
    );
}

#[test]
fn rates_and_times_without_sense_are_refused() {
    for rate in [
        "0", "0kpps", "-5kpps", "NaN", "NaNpps", "infpps", "5", "5kfps", "kpps", "1e999pps", "10%",
    ] {
        assert_refused(&format!("sendrecv loop: --rate {rate}"), 2, &["--rate", rate, "want"]);
    }
    // A share of the link, too, is read before the port is opened: this one could not be.
    let held = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = format!("udp:{}", held.local_addr().expect("an address"));
    for rate in ["x%", "0%", "101%", "1e1%", "-5%", "99Gpps"] {
        let words = format!("sendrecv {port} --dest 127.0.0.1:9 --rate {rate}");
        assert_refused(&words, 2, &[&format!("mpps: --rate '{rate}': want ")]);
        assert_refused(
            &format!("demo --rate {rate}"),
            2,
            &[&format!("mpps: --rate '{rate}': want ")],
        );
    }
    // What was meant is asked where only the case is another.
    for (rate, meant) in [("5Kpps", "5kpps"), ("5mpps", "5Mpps"), ("1GBPS", "1Gbps")] {
        let asked = format!("did you mean {meant}?");
        assert_refused(&format!("sendrecv loop: --rate {rate}"), 2, &["--rate", rate, &asked]);
    }
    assert_refused("sendrecv loop: --duration 5S", 2, &["--duration", "did you mean 5s?"]);
    for (option, value) in [
        ("--duration", "10"),
        ("--duration", "-1s"),
        ("--duration", "0.1us"),
        ("--duration", "ten seconds"),
        ("--interval", "99us"),
        ("--interval", "2h"),
        ("--interval", "0"),
        ("--settle", "1x"),
        ("--settle", "11m"),
        ("--catch-up", "0s"),
        ("--tolerance", "NaN"),
        ("--tolerance", "200%"),
        ("--pacing", "burst=0"),
        ("--pacing", "exponential"),
        ("--seed", "-1"),
    ] {
        let mut command = mpps("sendrecv loop:");
        command.args([option, value]);
        let finished = run_command(command);
        let told = &finished.stderr;
        assert_eq!(
            (finished.code, told.trim_end().lines().count()),
            (Some(2), 1),
            "{option} {value}: {told}"
        );
        assert!(
            told.contains(option) && told.contains(value),
            "{option} {value}: {told}"
        );
    }
}

#[test]
fn outputs_that_can_not_be_written_are_found_before_the_first_packet() {
    let port = mpps_tests::free_port();
    let peer = UdpSocket::bind(("127.0.0.1", port)).expect("a free port");
    peer.set_nonblocking(true).expect("a socket");
    for option in ["--csv", "--json", "--hdr"] {
        for path in ["/nonexistent/dir/out", "/proc/self/nothing", "/"] {
            let words = format!("send udp:127.0.0.1 --dest 127.0.0.1:{port} --rate 10kpps --duration 50ms");
            assert_refused(&format!("{words} {option} {path}"), 2, &[option, path, "written"]);
        }
    }
    let nothing = peer.recv(&mut [0; 64]).expect_err("nothing was sent");
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_refused_run_leaves_earlier_results_alone() {
    let scratch = Scratch::new();
    std::fs::write(scratch.file("run.csv"), "precious").expect("a file");
    let finished = run_command(scratch.results(mpps("sendrecv loop: --payload-size 9000")));
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert_eq!(
        std::fs::read_to_string(scratch.file("run.csv")).expect("still there"),
        "precious"
    );
}

#[test]
fn a_listener_runs_on_whichever_allowed_core_it_is_given() {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    // The first and the last: with its threads beside the lane it must not lose sight of either.
    for core in [
        list.and_then(|l| l.split(['-', ',']).next()),
        list.and_then(|l| l.rsplit(['-', ',']).next()),
    ] {
        let core = core.expect("a core").trim();
        let finished = run(&format!("drop null: --cores {core} --duration 50ms"));
        assert_ne!(finished.code, Some(2), "core {core}: {}", finished.stderr);
    }
}

#[test]
fn more_lanes_than_cores_are_allowed_and_warned_about() {
    let lanes = std::thread::available_parallelism().map_or(1, usize::from) + 1;
    let words = format!("sendrecv loop: --lanes {lanes} --rate 5kpps --duration 100ms --settle 50ms --quiet");
    let report = Scratch::new().measure(mpps(&words));
    report.assert_accounted();
    assert!(
        report.said().contains(&format!("{lanes} lanes share")),
        "{}",
        report.said()
    );
}

#[test]
fn cores_that_no_lane_runs_on_are_named() {
    let words = "drop null: --cores 0,0,0 --lanes 1 --duration 50ms --quiet";
    let report = Scratch::new().measure(mpps(words));
    assert!(
        report.said().contains("--cores: no lane runs on 0,0"),
        "{}",
        report.said()
    );
}

#[test]
fn commas_semicolons_and_byte_order_marks_of_other_programs_are_named() {
    let comma = "a comma in a number: decimals have a point";
    for (words, option) in [
        ("sendrecv loop: --rate 3,5Mpps", "--rate"),
        ("send null: --rate 0,5%", "--rate"),
        ("sendrecv loop: --duration 0,5s", "--duration"),
        ("sendrecv loop: --settle 1,25ms", "--settle"),
        ("sendrecv loop: --expect loss<0,1%", "--expect"),
        ("sendrecv loop: --expect p99<1,5us", "--expect"),
    ] {
        assert_refused(words, 2, &[option, comma]);
    }
    assert_refused(
        "sendrecv loop:delay=1,5ms",
        2,
        &["'5ms'", "a comma ends an option: decimals have a point"],
    );

    let scratch = Scratch::new();
    let plan = run_command(mpps("send null: --rate 1kpps --duration 10ms --print-plan")).stdout;
    let report = scratch.measure(mpps(
        "sendrecv loop: --rate 2kpps --duration 200ms --settle 50ms --quiet",
    ));
    report.assert_accounted();
    let [json, csv] = ["run.json", "run.csv"].map(|name| std::fs::read_to_string(scratch.file(name)).expect("text"));
    let utf16 = |text: &str| -> Vec<u8> {
        let units = text.encode_utf16().flat_map(u16::to_le_bytes);
        [0xff, 0xfe].into_iter().chain(units).collect()
    };
    let marked = |text: &str| format!("\u{feff}{text}").into_bytes();
    let put = |name: &str, bytes: &[u8]| {
        std::fs::write(scratch.file(name), bytes).expect("written");
        scratch.file(name).display().to_string()
    };
    let svg = scratch.file("x.svg").display().to_string();
    let html = scratch.file("x.html").display().to_string();
    // As a spreadsheet of a country with decimal commas writes it.
    let german = csv.replace(',', ";").replace('.', ",");
    let quoted: Vec<String> = csv
        .lines()
        .map(|line| {
            line.split(',')
                .map(|cell| format!("\"{}\"", cell.replace('.', ",")))
                .collect::<Vec<_>>()
                .join(",")
        })
        .collect();
    let tabs = csv.replace(',', "\t");
    for (name, bytes, words, code, part) in [
        ("a.json", marked(&plan), "run FILE", 2, "a byte order mark (EF BB BF)"),
        (
            "b.json",
            utf16(&plan),
            "run FILE",
            2,
            "the byte order mark of UTF-16 (FF FE)",
        ),
        (
            "c.json",
            plan.replacen("1,", "1;", 1).into_bytes(),
            "run FILE",
            2,
            "a semicolon: want a comma",
        ),
        (
            "d.json",
            plan.replacen("\"seed\": 1", "\"seed\": 1,5", 1).into_bytes(),
            "run FILE",
            2,
            "a decimal comma",
        ),
        (
            "e.json",
            marked(&json),
            "report FILE -o HTML",
            2,
            "a byte order mark (EF BB BF)",
        ),
        (
            "f.json",
            marked(&json),
            "compare FILE FILE",
            2,
            "a byte order mark (EF BB BF)",
        ),
        (
            "g.csv",
            german.into_bytes(),
            "plot FILE -o SVG",
            2,
            "separated by semicolons: want commas",
        ),
        (
            // Commas are what it has: nothing else is named.
            "j.csv",
            b"time_s,tx_packets\n0.1,5\n".to_vec(),
            "plot FILE -o SVG",
            2,
            "no column rx_packets: want a CSV",
        ),
        (
            "h.csv",
            tabs.into_bytes(),
            "plot FILE -o SVG",
            2,
            "separated by tabs: want commas",
        ),
        (
            "i.csv",
            (quoted.join("\n") + "\n").into_bytes(),
            "plot FILE -o SVG",
            2,
            "a decimal comma: want a point",
        ),
        (
            "j.csv",
            utf16(&csv),
            "plot FILE -o SVG",
            2,
            "the byte order mark of UTF-16 (FF FE)",
        ),
    ] {
        let file = put(name, &bytes);
        let words = words.replace("FILE", &file).replace("SVG", &svg).replace("HTML", &html);
        let finished = run_command(mpps(&words));
        assert_eq!(finished.code, Some(code), "{name}: {}", finished.stderr);
        assert_eq!(
            finished.stderr.trim_end().lines().count(),
            1,
            "{name}: {}",
            finished.stderr
        );
        assert!(
            finished.stderr.contains(part) && finished.stderr.contains(name),
            "{name}: {}",
            finished.stderr
        );
    }
}

#[test]
fn plots_of_nothing_and_to_nowhere_are_refused() {
    let scratch = Scratch::new();
    let file = |name: &str| scratch.file(name).display().to_string();
    assert_refused(
        &format!("plot /nonexistent.csv -o {}", file("a.svg")),
        2,
        &["/nonexistent.csv"],
    );
    std::fs::write(scratch.file("bad.csv"), "this,is\nno,run\n").expect("a file");
    assert_refused(
        &format!("plot {} -o {}", file("bad.csv"), file("a.svg")),
        2,
        &["bad.csv"],
    );
    let good = scratch.measure(mpps(
        "sendrecv loop: --rate 5kpps --duration 200ms --settle 50ms --quiet",
    ));
    good.assert_accounted();
    assert_refused(
        &format!("plot {} -o {}", file("run.csv"), file("a.gif")),
        2,
        &["-o", "a.gif", "svg"],
    );
    assert_refused(
        &format!("plot {} -o /nonexistent/a.svg", file("run.csv")),
        2,
        &["-o", "/nonexistent/a.svg"],
    );
}

#[test]
fn reports_of_nothing_and_to_nowhere_are_refused_and_of_a_run_are_made() {
    let scratch = Scratch::new();
    let file = |name: &str| scratch.file(name).display().to_string();
    std::fs::write(scratch.file("bad.json"), "{}").expect("a file");
    for (words, code, parts) in [
        (format!("report -o {}", file("a.html")), 2, vec!["FILE"]),
        (
            format!("report {} -o {}", file("none.json"), file("a.html")),
            2,
            vec!["none.json"],
        ),
        (
            format!("report {} -o {}", file("bad.json"), file("a.html")),
            2,
            vec!["bad.json", "no result", "mpps.test/1", "--json"],
        ),
        (
            format!("report {} -o {}", file("bad.json"), file("a.pdf")),
            2,
            vec!["-o", "a.pdf", ".html"],
        ),
        (
            format!("report {} -o /nonexistent/a.md", file("bad.json")),
            2,
            vec!["-o", "/nonexistent/a.md"],
        ),
    ] {
        assert_refused(&words, code, &parts);
    }
    let good = scratch.measure(mpps(
        "sendrecv loop: --rate 5kpps --duration 200ms --settle 50ms --quiet --src 10.1.2.3 --dest 10.1.2.4:9000",
    ));
    good.assert_accounted();
    let (json, csv) = (file("run.json"), file("run.csv"));
    for (words, name, there, absent) in [
        (
            format!("report {json} {csv} -o {}", file("a.html")),
            "a.html",
            "10.1.2.4",
            "<script src",
        ),
        (
            format!("report {json} --redact -o {}", file("b.html")),
            "b.html",
            "ip-1",
            "10.1.2.",
        ),
        (
            format!("report {json} -o {}", file("c.md")),
            "c.md",
            "# sendrecv loop:",
            "<svg",
        ),
        (
            format!("plot {csv} {csv} -o {}", file("d.svg")),
            "d.svg",
            "2 runs",
            "no value",
        ),
    ] {
        let finished = mpps_tests::run_command(mpps(&words));
        assert_eq!(finished.code, Some(0), "{words}: {}", finished.stderr);
        let text = std::fs::read_to_string(scratch.file(name)).expect("a file");
        assert!(text.contains(there) && !text.contains(absent), "{words}");
    }
}

#[test]
fn plot_report_and_trace_refuse_the_same_mistakes_with_the_same_code() {
    let scratch = Scratch::new();
    let file = |name: &str, text: &str| {
        std::fs::write(scratch.file(name), text).expect("a file");
        scratch.file(name).display().to_string()
    };
    let mistakes = [
        scratch.file("none").display().to_string(),
        file("empty", ""),
        file("garbage", "\u{1}\u{2} neither a run\nnor a trace\n"),
        file("json", "[1, 2]"),
        // Nobody can read it from the start, not even root.
        "/proc/self/mem".to_owned(),
        "/dev/null/x".to_owned(),
        format!("{} --nonesuch", file("other", "")),
        String::new(),
    ];
    let out = |name: &str| scratch.file(name).display().to_string();
    for mistake in &mistakes {
        for command in [
            format!("plot {mistake} -o {}", out("a.svg")),
            format!("report {mistake} -o {}", out("a.html")),
            format!("trace {mistake}"),
        ] {
            let named = mistake.split(' ').next_back().filter(|word| !word.is_empty());
            assert_refused(command.trim_end(), 2, named.as_slice());
        }
    }
    for name in ["a.svg", "a.html"] {
        assert!(!scratch.file(name).exists(), "{name}");
    }
}

#[test]
fn a_run_that_has_no_room_in_memory_is_refused_by_name_before_it_takes_any() {
    // A limit of its own, so that the test neither depends on the host's memory nor could take it.
    let limited = |kilobytes: u32, words: &str| {
        let mut command = std::process::Command::new("sh");
        let script = r#"ulimit -v "$1"; shift; exec "$@""#;
        command.args(["-c", script, "sh", &kilobytes.to_string()]);
        command.arg(mpps_tests::program()).args(words.split_whitespace());
        command.args(["--duration", "20ms", "--quiet"]);
        run_command(command)
    };
    for (words, parts) in [
        (
            "send null: --src-port-range 1-65535 --dest 10.99.0.2:1-65535",
            [
                "--src-port-range 1-65535 by --dest ports 1-65535: 4,294,836,225 flows",
                "--flows N",
            ],
        ),
        (
            "sendrecv loop: --rate 1kpps --src-port-range 1-65535 --dest 10.99.0.2:1-9999",
            ["655,284,465 flows", "--flows N"],
        ),
        (
            "sendrecv loop: --lanes 4 --rate 1kpps --flows 4000000 --src-port-range 1-65535 --dest 10.99.0.2:1-99",
            ["--flows 4000000", "at most"],
        ),
        ("drop null: --max-flows 4000000", ["--max-flows 4000000", "at most"]),
        (
            "drop null: --max-flows 9000 --lanes 128",
            ["--lanes 128", "fewer --lanes"],
        ),
        (
            "sendrecv loop: --lanes 4 --interval 100us --settle 60s",
            ["--interval 100µs", "--settle"],
        ),
        ("send null:frames=1048576,mtu=60000", ["frames=1048576", "frames="]),
        (
            "drop af_packet:lo,ring=1048576",
            ["port option ring=1048576 with --lanes 1", "ring="],
        ),
        (
            "capture null: -o /nonexistent/x --buffer 16GiB",
            ["--buffer 17179869184", "at most"],
        ),
    ] {
        let finished = limited(500_000, words);
        let context = format!("{words}: {:?}: {}", finished.code, finished.stderr);
        assert_eq!(finished.code, Some(2), "{context}");
        assert_eq!(finished.stderr.lines().count(), 1, "{context}");
        assert!(finished.stderr.contains("ulimit -v leaves"), "{context}");
        assert!(parts.iter().all(|part| finished.stderr.contains(part)), "{context}");
    }
    // Too little for anything: one line all the same, and no signal.
    for kilobytes in [40_000, 60_000, 80_000, 100_000] {
        let finished = limited(kilobytes, "sendrecv loop: --rate 1kpps --settle 10ms");
        let context = format!("{kilobytes}: {:?}: {}", finished.code, finished.stderr);
        assert!(matches!(finished.code, Some(0..=3)), "{context}");
        assert!(
            finished.stderr.lines().count() <= 1 || finished.code == Some(3),
            "{context}"
        );
    }
}

#[test]
fn a_million_flows_work() {
    let finished = run(
        "sendrecv loop: --src-port-range 1-65535 --dest 10.99.0.2:1-16 --flows 1000000 --rate 10kpps --duration 100ms \
         --catch-up 10s --settle 100ms --quiet",
    );
    // On a busy host it may have missed departures.
    assert!(matches!(finished.code, Some(0 | 3)), "{}", finished.stderr);
    assert!(!finished.stderr.contains("memory"), "{}", finished.stderr);
}

#[test]
fn a_run_that_is_refused_leaves_no_new_file_and_an_earlier_one_as_it_was() {
    // The second of two runs on one UDP port finds it taken; a run with the files of two ways, two of one name.
    let held = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = held.local_addr().expect("an address").port();
    let scratch = Scratch::new();
    std::fs::write(scratch.file("old.csv"), "earlier").expect("a file");
    let taken = format!("drop udp:127.0.0.1:{port} --duration 10ms");
    for (words, code) in [
        (taken.as_str(), 1),
        ("send null: --duration 10ms --hdr /nonexistent/run.hdr", 2),
    ] {
        for name in ["new.csv", "old.csv"] {
            let mut command = mpps(words);
            command
                .arg("--csv")
                .arg(scratch.file(name))
                .arg("--json")
                .arg(scratch.file("new.json"));
            let finished = run_command(command);
            assert_eq!(finished.code, Some(code), "{words}: {}", finished.stderr);
        }
        assert_eq!(std::fs::read(scratch.file("old.csv")).expect("a file"), b"earlier");
        for name in ["new.csv", "new.json"] {
            assert!(!scratch.file(name).exists(), "{words}: {name}");
        }
    }
}

#[test]
fn a_folder_is_no_plan_and_an_option_of_the_run_is_told_as_a_field() {
    let scratch = Scratch::new();
    let folder = scratch.file(".").display().to_string();
    assert_refused(&format!("run {folder}"), 2, &["a folder", "--print-plan"]);
    assert_refused("run plan.json --rate 5", 2, &["--rate", "load.rate", "in the file"]);
}

#[test]
fn a_file_of_options_is_as_if_they_were_typed_and_what_is_wrong_in_it_has_its_place() {
    let scratch = Scratch::new();
    let file = scratch.file("o.toml");
    let path = file.display().to_string();
    let lines = scratch.file("lines.jsonl").display().to_string();
    let options = "rate = \"5kpps\"\nduration = \"200ms\"\nsettle = \"10ms\"\nexpect = [\"lost==0\"]\n";
    std::fs::write(&file, format!("{options}json-lines = \"{lines}\"\n")).expect("written");
    let plan = |words: &str| run(&format!("sendrecv loop: {words} --print-plan")).stdout;
    assert_eq!(
        plan(&format!("--config {path}")),
        plan("--rate 5kpps --duration 200ms --settle 10ms")
    );
    let finished = run(&format!(
        "sendrecv loop: --config {path} --catch-up 5s --quiet --json -"
    ));
    let json: serde_json::Value = serde_json::from_str(&finished.stdout).expect("JSON");
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_eq!(json["plan"]["load"]["rate"], "5kpps");
    assert_eq!(json["expectations"][0]["expected"], "lost==0");
    // The result can be had again without the file.
    let command: Vec<&str> = json["command"]
        .as_array()
        .expect("words")
        .iter()
        .filter_map(|word| word.as_str())
        .collect();
    assert!(
        command.contains(&"--rate=5kpps") && command.contains(&"--catch-up"),
        "{command:?}"
    );
    assert!(!command.contains(&"--config"), "{command:?}");
    // An error is a line of its JSON Lines, too.
    let told = run(&format!("sendrecv loop: --config {path} --frame-size 70000"));
    let last = std::fs::read_to_string(&lines).expect("lines");
    assert_eq!(told.code, Some(2));
    assert!(
        last.contains("\"event\":\"error\"") && last.contains("--frame-size"),
        "{last}"
    );
    // A pipe gives it once.
    std::fs::remove_file(&lines).expect("lines");
    let piped =
        format!("printf 'frame-size = 70000\njson-lines = \"{lines}\"\n' | \"$0\" sendrecv loop: --config /dev/stdin");
    let told = std::process::Command::new("sh")
        .args(["-c", &piped])
        .arg(mpps_tests::program())
        .output()
        .expect("a shell");
    assert_eq!(told.status.code(), Some(2));
    assert!(std::fs::read_to_string(&lines).expect("lines").contains("--frame-size"));
    for (text, part) in [
        ("\nrates = 1\n", ":2: rates: no option of sendrecv: did you mean rate?"),
        ("rate = \"5x\"\n", ":1: --rate '5x': want "),
        ("reset-cmd = \"true\"\n", ":1: reset-cmd: no option of sendrecv"),
    ] {
        std::fs::write(&file, text).expect("written");
        assert_refused(&format!("sendrecv loop: --config {path}"), 2, &[part]);
    }
    assert_refused(
        "sendrecv loop: --config /nonesuch",
        2,
        &["--config /nonesuch", "want a TOML file"],
    );
    assert_refused("sendrecv loop: --config", 2, &["--config <FILE>"]);
    assert_refused("doctor --config x", 2, &["--config"]);
}
