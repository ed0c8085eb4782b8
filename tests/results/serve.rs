//! Metrics and the live page of a run: what is told while it goes on, to whom, and that nobody who asks holds it up.

use mpps_tests::{Background, Scratch, Served, mpps, net_of, run_command, skip, text_of, value, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

const PACED: &str = "sendrecv loop:loss=2% --rate 5kpps --settle 100ms --duration";

/// A file of `--prom` as `--metrics` serves it: without the labels of its run, which every sample has.
fn without_run_labels(path: &Path) -> String {
    let text = text_of(path);
    let stem = path.file_stem().expect("a name").display();
    let labels = format!(
        "run=\"{stem}\",folder=\"{}\"",
        path.parent().expect("a folder").display()
    );
    for sample in text.lines().filter(|line| !line.starts_with('#')) {
        assert!(sample.contains(&labels), "{sample}");
    }
    text.replace(&format!("{{{labels}}}"), "")
        .replace(&format!("{labels},"), "")
}

/// A run with metrics and page, that has sent something.
fn under_way(words: &str) -> (Background, Served, Served) {
    let run = Background::start(mpps(words)).wait_to_hear("live page: ");
    let (metrics, page) = (Served::of(&run, "metrics: "), Served::of(&run, "live page: "));
    metrics.wait_for("mpps_transmitted_packets_total", |sent| sent > 0.0);
    (run, metrics, page)
}

#[test]
fn metrics_are_there_while_a_run_goes_on_and_gone_with_it() {
    let (run, metrics, _) = under_way(&format!("{PACED} 1h --metrics --web"));
    assert!(metrics.at.ip().is_loopback());
    metrics.wait_for("mpps_settled_lost_packets", |lost| lost > 0.0);
    let text = metrics.body();
    assert!(
        text.contains("mpps_run_info{workload=\"sendrecv\",path=\"loop\",device=\"\",version="),
        "{text}"
    );
    assert_eq!(value(&text, "mpps_intended_packets_per_second"), Some(5000.0));
    assert_eq!(value(&text, "mpps_run_state{state=\"running\"}"), Some(1.0));
    assert_eq!(value(&text, "mpps_run_valid"), None, "that is told at the end");
    // Both are of one reading; the hypervisor's part is in the sum alone.
    let waited = value(&text, "mpps_host_wait_seconds_total").expect("seconds");
    let lanes = text
        .lines()
        .filter(|line| line.starts_with("mpps_lane_not_running_seconds_total{"));
    let lanes: f64 = lanes
        .map(|line| {
            line.rsplit(' ')
                .next()
                .and_then(|n| n.parse::<f64>().ok())
                .expect("seconds")
        })
        .sum();
    assert!(waited > lanes - 1e-6, "{waited} of the run, {lanes} of its lanes");
    let first = value(&text, "mpps_lane_transmitted_packets_total{lane=\"0\",queue=\"0\"}").expect("a lane");
    metrics.wait_for("mpps_lane_transmitted_packets_total{lane=\"0\",queue=\"0\"}", |sent| {
        sent > first
    });
    let finished = run.end(Signal::INT);
    assert!(
        finished.stderr.contains("sendrecv, ") || finished.stdout.contains("sendrecv"),
        "{}",
        finished.stderr
    );
    assert!(
        metrics.get("/metrics", "localhost").is_empty(),
        "nobody listens any more"
    );
}

#[test]
fn every_command_that_moves_packets_has_metrics() {
    for words in [
        "send null: --rate 5kpps --dest 10.0.0.2:9000 --duration 1h",
        "drop null:",
        "reflect null:",
        "forward null: null:",
        "capture null: -o /dev/null",
    ] {
        let (run, metrics, page) = under_way_or_received(&format!("{words} --metrics --web --quiet"));
        let command = words.split(' ').next().unwrap_or_default();
        assert!(metrics.body().contains(&format!("workload=\"{command}\"")), "{words}");
        assert!(page.get(&page.path, "localhost").starts_with("HTTP/1.1 200"), "{words}");
        run.end(Signal::INT);
    }
}

fn under_way_or_received(words: &str) -> (Background, Served, Served) {
    let run = Background::start(mpps(words)).wait_to_hear("live page: ");
    let (metrics, page) = (Served::of(&run, "metrics: "), Served::of(&run, "live page: "));
    metrics.wait_for("mpps_run_elapsed_seconds", |elapsed| elapsed > 0.0);
    (run, metrics, page)
}

#[test]
fn the_file_ends_as_the_summary_has_it_and_is_whole_whenever_it_is_read() {
    let scratch = Scratch::new();
    let [prom, json] = ["mpps.prom", "run.json"].map(|name| scratch.file(name));
    let mut command = mpps(&format!(
        "{PACED} 2500ms --quiet --expect loss<50% --expect received>=1Gpps"
    ));
    command.arg("--prom").arg(&prom).arg("--json").arg(&json);
    let run = Background::start(command);
    wait_until("the file", || prom.exists());
    // Renamed into place: from the first time on it is never less than whole.
    let mut run = run;
    while run.running() {
        let text = text_of(&prom);
        assert!(
            text.starts_with("# HELP mpps_run_info") && text.ends_with('\n'),
            "{text}"
        );
    }
    run.finish();
    let text = without_run_labels(&prom);
    let json: Value = serde_json::from_str(&text_of(&json)).expect("JSON");
    for (metric, key) in [
        ("mpps_transmitted_packets_total", "tx_packets"),
        ("mpps_settled_transmitted_packets_total", "tx_packets"),
        ("mpps_settled_lost_packets", "lost"),
        ("mpps_late_packets_total", "late"),
        ("mpps_reordered_packets_total", "reordered"),
        ("mpps_missed_packets_total", "missed"),
    ] {
        assert_eq!(value(&text, metric), json[key].as_f64(), "{metric}");
    }
    let received = json["rx_packets"].as_f64().expect("a number") + json["late"].as_f64().expect("a number");
    let told = value(&text, "mpps_received_packets_total").expect("a number");
    assert!(
        told >= json["rx_packets"].as_f64().expect("a number") && told <= received,
        "{told}"
    );
    let valid = json["valid"].as_bool().expect("a verdict");
    assert_eq!(value(&text, "mpps_run_valid"), Some(f64::from(u8::from(valid))));
    assert_eq!(value(&text, "mpps_run_state{state=\"ended\"}"), Some(1.0));
    assert_eq!(
        value(&text, "mpps_expectation_met{expression=\"loss<50%\"}"),
        Some(1.0),
        "{text}"
    );
    assert_eq!(
        value(&text, "mpps_expectation_met{expression=\"received>=1Gpps\"}"),
        Some(0.0),
        "{text}"
    );
    assert_eq!(
        value(&text, "mpps_latency_seconds_count"),
        json["latency_ns"]["count"].as_f64()
    );
    assert_eq!(
        value(&text, "mpps_latency_scheduled_seconds_count"),
        json["latency_ns"]["count"].as_f64()
    );
    // Nothing is left beside it.
    let left = std::fs::read_dir(prom.parent().expect("a folder"))
        .expect("a folder")
        .flatten();
    let left: Vec<_> = left
        .map(|file| file.file_name())
        .filter(|name| name.to_string_lossy().starts_with('.'))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_can_not_be_served_or_written_is_one_line_before_anything_is_opened() {
    let held = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let held = held.local_addr().expect("its address");
    let scratch = Scratch::new();
    for (words, part) in [
        ("--metrics nonsense".to_owned(), "want ADDR:PORT"),
        ("--metrics loop:".to_owned(), "want ADDR:PORT"),
        ("--web 127.0.0.1:99999".to_owned(), "want ADDR:PORT"),
        (
            format!("--metrics {held}"),
            "want an address of this host, and a port that is free",
        ),
        ("--web 192.0.2.1:80".to_owned(), "want an address of this host"),
        ("--prom -".to_owned(), "--prom"),
        ("--prom /dev/null".to_owned(), "it can't be replaced in one step"),
        ("--prom /nonesuch/x".to_owned(), "--prom"),
    ] {
        let mut command = mpps(&format!("sendrecv loop: --duration 20ms {words} --json"));
        command.arg(scratch.file("run.json"));
        let finished = run_command(command);
        assert_eq!(finished.code, Some(2), "{words}: {}", finished.stderr);
        assert_eq!(finished.stderr.lines().count(), 1, "{words}: {}", finished.stderr);
        assert!(finished.stderr.contains(part), "{words}: {}", finished.stderr);
    }
    let compared = run_command({
        let mut command = mpps("compare");
        command.args(["sendrecv loop: --metrics", "sendrecv loop:"]);
        command
    });
    assert_eq!(compared.code, Some(2), "{}", compared.stderr);
    assert!(
        compared.stderr.contains("--metrics: compare has many runs"),
        "{}",
        compared.stderr
    );
}

#[test]
fn an_address_that_others_reach_is_told_of_and_loopback_is_not() {
    let told = |words: &str| {
        let finished = run_command(mpps(&format!(
            "sendrecv loop: --rate 1kpps --duration 20ms --settle 20ms --quiet {words}"
        )));
        assert!(matches!(finished.code, Some(0 | 3)), "{words}: {}", finished.stderr);
        finished.stderr
    };
    let all = told("--metrics 0.0.0.0");
    assert!(
        all.contains("--metrics 0.0.0.0:0: whoever reaches this address"),
        "{all}"
    );
    for words in ["--metrics", "--metrics localhost", "--web 127.0.0.1", "--web=[::1]:0"] {
        assert!(!told(words).contains("whoever"), "{words}");
    }
}

#[test]
fn strangers_by_name_other_methods_and_other_paths_get_nothing() {
    let (run, metrics, page) = under_way(&format!("{PACED} 1h --metrics --web --quiet"));
    let port = metrics.at.port();
    assert!(
        metrics
            .get("/metrics", &format!("localhost:{port}"))
            .starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n")
    );
    for (served, path) in [
        (&metrics, "/metrics".to_owned()),
        (&page, page.path.clone()),
        (&page, format!("{}events", page.path)),
    ] {
        for host in ["example.com", "localhost.example.com", "169.254.169.254"] {
            assert!(served.get(&path, host).starts_with("HTTP/1.1 403 "), "{path} {host}");
        }
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let answer = served.ask(&format!(
                "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nend"
            ));
            assert!(answer.starts_with("HTTP/1.1 405 "), "{path} {method}: {answer}");
        }
    }
    // The page's address can't be guessed from that of the metrics, and the other way round.
    for path in ["/", "/t/", "/metrics", "/t/00000000000000000000000000000000/"] {
        assert!(page.get(path, "localhost").starts_with("HTTP/1.1 404 "), "{path}");
    }
    assert!(metrics.get(&page.path, "localhost").starts_with("HTTP/1.1 404 "));
    let html = page.get(&page.path, "localhost");
    for header in [
        "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Cache-Control: no-store",
    ] {
        assert!(html.contains(header), "{header}: {html}");
    }
    assert!(!html.contains("Access-Control"), "{html}");
    run.end(Signal::INT);
}

/// The events of a stream: each with its id, its name and its data.
fn event(from: &mut impl BufRead) -> Option<(Option<u64>, String, Value)> {
    let (mut id, mut name, mut data) = (None, String::new(), Value::Null);
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some(("id", text)) => id = text.parse().ok(),
            Some(("event", text)) => text.clone_into(&mut name),
            Some(("data", text)) => data = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}")),
            _ if line == "\n" && !name.is_empty() => return Some((id, name, data)),
            _ => {}
        }
    }
}

#[test]
fn a_stream_gives_each_row_once_resumes_and_ends_with_the_result() {
    let (run, _, page) = under_way(&format!("{PACED} 1h --metrics --web --quiet"));
    let open = |more: &str| {
        let mut socket = page.connect();
        let request = format!("GET {}events HTTP/1.1\r\nHost: localhost\r\n{more}\r\n", page.path);
        socket.write_all(request.as_bytes()).expect("sent");
        let mut reader = BufReader::new(socket);
        let mut status = String::new();
        reader.read_line(&mut status).expect("a status");
        assert!(status.starts_with("HTTP/1.1 200"), "{status}");
        reader
    };
    let mut stream = open("");
    let mut rows: Vec<u64> = Vec::new();
    while rows.len() < 12 {
        let (id, name, data) = event(&mut stream).expect("an event");
        if name == "rows" {
            rows.extend(
                data.as_array()
                    .expect("rows")
                    .iter()
                    .map(|row| row[1].as_u64().expect("a number")),
            );
            assert_eq!(id, rows.last().copied());
        }
    }
    assert_eq!(rows, (1..=rows.len() as u64).collect::<Vec<_>>());
    // Another goes on where this one was some rows ago.
    let from = rows[rows.len() - 4];
    let mut again = open(&format!("Last-Event-ID: {from}\r\n"));
    let first = loop {
        let (_, name, data) = event(&mut again).expect("an event");
        if name == "rows" {
            break data[0][0].as_u64();
        }
    };
    assert_eq!(first, Some(from + 1));
    drop(again);
    run.signal(Signal::INT);
    let (mut last, mut lost) = (None, 0);
    while let Some((_, name, data)) = event(&mut stream) {
        if name == "rows" {
            lost += data
                .as_array()
                .expect("rows")
                .iter()
                .map(|row| row[7].as_i64().expect("a number"))
                .sum::<i64>();
        }
        last = Some((name, data));
    }
    let (name, end) = last.expect("an end");
    assert_eq!(name, "end", "{end}");
    assert!(
        end["valid"].is_boolean() && end["document"]["verdict"].is_array(),
        "{end}"
    );
    assert!(lost >= 0, "{lost}");
    run.finish();
}

#[test]
fn garbage_crowds_and_readers_that_stop_do_not_hold_up_the_run() {
    let scratch = Scratch::new();
    let command = mpps("sendrecv loop: --rate 5kpps --duration 3s --settle 100ms --metrics --web --quiet");
    let run = Background::start(scratch.results(command)).wait_to_hear("live page: ");
    let (metrics, page) = (Served::of(&run, "metrics: "), Served::of(&run, "live page: "));
    metrics.wait_for("mpps_transmitted_packets_total", |sent| sent > 0.0);
    // Streams that nobody reads, silent clients, more than there is room for, and noise.
    let mut idle = Vec::new();
    for n in 0..60 {
        let Ok(mut socket) = std::net::TcpStream::connect(page.at) else {
            break;
        };
        let _ = match n % 3 {
            0 => socket.write_all(format!("GET {}events HTTP/1.1\r\nHost: localhost\r\n\r\n", page.path).as_bytes()),
            1 => socket.write_all(b"GET / HT"),
            _ => socket.write_all(&[0x16, 3, 1, 0, 255, 10, 10]),
        };
        idle.push(socket);
        let _ = metrics.ask("\u{0}\u{1}\n\n");
    }
    let finished = run.finish();
    assert!(matches!(finished.code, Some(0 | 3)), "{}", finished.stderr);
    let report = scratch.read(finished);
    // Whatever the host was busy with: it ended by itself, with all packets accounted for.
    report.assert_accounted();
    let housekeeping = &report.json["housekeeping"]["threads"];
    assert!(
        housekeeping.is_null() || housekeeping["mpps-serve"].is_number(),
        "{housekeeping}"
    );
    drop(idle);
}

#[test]
fn the_threads_that_serve_have_no_privileges() {
    if !rustix::process::geteuid().is_root() {
        skip("what root's threads keep is root's to see");
        return;
    }
    let scratch = Scratch::new();
    let mut command = mpps(&format!("{PACED} 1h --metrics --web --quiet --keep-privileges --prom"));
    command.arg(scratch.file("mpps.prom"));
    let run = Background::start(command).wait_to_hear("live page: ");
    Served::of(&run, "metrics: ").wait_for("mpps_transmitted_packets_total", |sent| sent > 0.0);
    let serving: Vec<_> = mpps_tests::threads_of(&run)
        .into_iter()
        .filter(|thread| thread.name == "mpps-serve")
        .collect();
    assert_eq!(serving.len(), 1);
    assert_eq!(serving[0].permitted, 0, "with --keep-privileges, too");
    run.end(Signal::INT);
}

#[test]
fn a_run_in_a_lab_is_seen_from_outside_of_it() {
    if !rustix::process::geteuid().is_root() {
        return skip("a lab needs root");
    }
    let words = "sendrecv af_packet --lab --rate 5kpps --duration 1h --settle 100ms --quiet --metrics --web";
    let run = Background::start(mpps(words)).wait_to_hear("live page: ");
    let metrics = Served::of(&run, "metrics: ");
    metrics.wait_for("mpps_received_packets_total", |received| received > 0.0);
    let page = Served::of(&run, "live page: ");
    assert!(page.get(&page.path, "localhost").starts_with("HTTP/1.1 200"));
    run.end(Signal::INT);
}

#[test]
fn an_address_inside_a_namespace_is_printed_with_the_way_to_it() {
    let Some(lab) = mpps_tests::lab(1) else { return };
    let words = format!(
        "lab --name {} exec a -- {}",
        lab.name(),
        mpps_tests::program().display()
    );
    let mut command = mpps(&words);
    command.args("sendrecv loop: --rate 1kpps --duration 1h --quiet --metrics --web".split(' '));
    let run = Background::start(command).wait_to_hear("from outside: ");
    let metrics = Served::of(&run, "metrics: ");
    let told = run.stderr();
    let way = format!("mpps lab --name {} exec a -- curl {}", lab.name(), metrics.url());
    assert!(
        told.contains(&format!("this is inside network namespace {}-a; ", lab.name())) && told.contains(&way),
        "{told}"
    );
    run.end(Signal::INT);
}

#[test]
fn an_address_of_what_is_tested_is_refused() {
    let Some(net) = net_of(1) else { return };
    let refused = |words: &str| {
        let finished = run_command(net.a(words));
        assert_eq!(finished.code, Some(2), "{words}: {}", finished.stderr);
        assert!(
            finished.stderr.contains("which is tested: want 127.0.0.1"),
            "{words}: {}",
            finished.stderr
        );
        assert_eq!(finished.stderr.lines().count(), 1, "{words}: {}", finished.stderr);
    };
    let ends = "--src 10.99.0.1 --dest 10.99.0.2:9000 --duration 20ms";
    for port in ["af_packet:eth1", "udp:10.99.0.1"] {
        for option in ["--metrics=10.99.0.1:9100", "--web=10.99.0.1", "--metrics=0.0.0.0:9100"] {
            refused(&format!("sendrecv {port} {ends} {option}"));
        }
    }
}

#[test]
fn a_search_tells_its_trials_and_bounds_while_it_goes_on() {
    let scratch = Scratch::new();
    let prom = scratch.file("ndr.prom");
    let mut command = mpps(
        "ndr loop: --goal loss=0,initial=200ms,final=200ms,sum=200ms,width=50% --min-rate 1kpps --max-rate 4kpps \
         --search-time 2m --quiet --metrics --web --prom",
    );
    command.arg(&prom);
    let run = Background::start(command).wait_to_hear("live page: ");
    let metrics = Served::of(&run, "metrics: ");
    let bound = "mpps_search_bound_packets_per_second{goal=\"loss 0 %\",frame_size=\"64\",bound=\"lower\"}";
    let mut known = false;
    let mut run = run;
    while run.running() {
        let text = metrics.get("/metrics", "localhost");
        known |= value(&text, "mpps_run_trials").is_some_and(|trials| trials >= 1.0);
    }
    let finished = run.finish();
    assert!(known, "{}", finished.stderr);
    let text = without_run_labels(&prom);
    assert!(
        value(&text, "mpps_run_trials").is_some_and(|trials| trials >= 2.0),
        "{text}"
    );
    assert!(finished.code != Some(0) || value(&text, bound).is_some(), "{text}");
    assert_eq!(value(&text, "mpps_run_state{state=\"ended\"}"), Some(1.0));
}
