//! Metrics and the live page of a run: what is told while it goes on, to whom, and that nobody who asks holds it up.

use mpps_tests::{Background, Scratch, Served, missing, mpps, program, run_command, skip, value, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

const PACED: &str = "sendrecv loop:loss=2% --rate 5kpps --settle 100ms --duration";

fn top() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
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
        let text = read(&prom);
        assert!(
            text.starts_with("# HELP mpps_run_info") && text.ends_with('\n'),
            "{text}"
        );
    }
    run.finish();
    let (text, json): (String, Value) = (read(&prom), serde_json::from_str(&read(&json)).expect("JSON"));
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
        "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
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
    let text = read(&prom);
    assert!(
        value(&text, "mpps_run_trials").is_some_and(|trials| trials >= 2.0),
        "{text}"
    );
    assert!(finished.code != Some(0) || value(&text, bound).is_some(), "{text}");
    assert_eq!(value(&text, "mpps_run_state{state=\"ended\"}"), Some(1.0));
}

/// The names of metrics in a text of queries.
fn names(text: &str) -> Vec<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let all = text.split(|c| !word(c)).filter(|word| word.starts_with("mpps_"));
    all.map(str::to_owned).collect()
}

#[test]
fn dashboard_and_alerts_name_only_metrics_that_there_are() {
    let folder = top().join("packaging");
    let dashboard: Value = serde_json::from_str(&read(&folder.join("grafana/mpps.json"))).expect("JSON");
    let alerts = read(&folder.join("prometheus/mpps-alerts.yml"));
    let scratch = Scratch::new();
    let prom = scratch.file("mpps.prom");
    let mut command = mpps("sendrecv loop: --rate 2kpps --duration 1s --settle 100ms --quiet --prom");
    command.arg(&prom);
    run_command(command);
    let text = read(&prom);
    let there = |name: &str| {
        let name = name.strip_suffix("_bucket").unwrap_or(name);
        text.contains(&format!("# TYPE {name} ")) || read(&top().join("docs/live.md")).contains(&format!("`{name}"))
    };
    let mut queries = String::new();
    let panels = dashboard["panels"].as_array().expect("panels");
    for target in panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("targets"))
    {
        queries += target["expr"].as_str().expect("a query");
        queries.push('\n');
    }
    let used = names(&format!("{queries}{alerts}"));
    assert!(used.len() > 15, "{used:?}");
    for name in used {
        assert!(there(&name), "{name}");
    }
    if missing("promtool", "prometheus") {
        return;
    }
    let promtool = |words: &[&str], input: &str| {
        let mut child = Command::new("promtool")
            .args(words)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("promtool");
        child
            .stdin
            .take()
            .expect("piped")
            .write_all(input.as_bytes())
            .expect("read");
        let done = child.wait_with_output().expect("its end");
        let told = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        assert!(done.status.success(), "{words:?}: {told}");
        told
    };
    assert_eq!(promtool(&["check", "metrics"], &text), "", "no complaints");
    let rules = folder.join("prometheus/mpps-alerts.yml");
    promtool(&["check", "rules", &rules.to_string_lossy()], "");
    promtool(
        &["check", "config", &folder.join("prometheus/mpps.yml").to_string_lossy()],
        "",
    );
}

#[test]
fn a_prometheus_scrapes_a_run() {
    if missing("prometheus", "prometheus") {
        return;
    }
    let run = Background::start(mpps(&format!("{PACED} 1h --metrics --quiet"))).wait_to_hear("metrics: ");
    let metrics = Served::of(&run, "metrics: ");
    let scratch = Scratch::new();
    let config = format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: mpps\n    static_configs:\n      - targets: ['{}']\n",
        metrics.at
    );
    std::fs::write(scratch.file("prometheus.yml"), config).expect("written");
    let port = {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        socket.local_addr().expect("its address").port()
    };
    let mut command = Command::new("prometheus");
    command
        .arg(format!("--config.file={}", scratch.file("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", scratch.file("tsdb").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let mut prometheus = Background::start(command);
    let at = Served {
        at: ([127, 0, 0, 1], port).into(),
        path: String::new(),
    };
    let ask = |query: &str| {
        let answer = at.get(&format!("/api/v1/query?query={query}"), "localhost");
        let body = answer
            .split_once("\r\n\r\n")
            .map(|(_, body)| body.to_owned())
            .unwrap_or_default();
        // It may come in pieces, each behind its length.
        let from = body.find('{')?;
        let value: Value = serde_json::from_str(body.get(from..=body.rfind('}')?)?).ok()?;
        value["data"]["result"][0]["value"][1].as_str()?.parse::<f64>().ok()
    };
    let query = |query: &str, holds: &dyn Fn(f64) -> bool| {
        wait_until(query, || {
            assert!(prometheus.running(), "{}", prometheus.stderr());
            // It answers one request of a connection and keeps it open otherwise.
            ask(query).is_some_and(holds)
        });
    };
    let mut query = query;
    query("up%7Bjob=%22mpps%22%7D", &|up| up == 1.0);
    query("mpps_transmitted_packets_total", &|sent| sent > 0.0);
    query("mpps_settled_lost_packets", &|lost| lost > 0.0);
    query("rate(mpps_transmitted_packets_total%5B1m%5D)", &|rate| rate > 0.0);
    query("mpps_latency_seconds_count", &|count| count > 0.0);
    run.end(Signal::INT);
}

/// Whether the page can be looked at; else says why not.
fn no_browser() -> bool {
    let chromium = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
    missing("node", "nodejs") || missing(&chromium, "chromium")
}

/// Looks at the page of a run; what was seen, and where pictures lie.
fn looked_at(words: &str, pictures: &Path) -> Value {
    std::fs::create_dir_all(pictures).expect("a folder");
    let mut command = Command::new(program());
    command.args(words.split(' '));
    let run = Background::start(command).wait_to_hear("live page: ");
    let page = Served::of(&run, "live page: ");
    let mut browser = Command::new("node");
    browser
        .arg(top().join("tests/browser/live.mjs"))
        .arg(page.url())
        .arg(pictures);
    let browser = Background::start(browser).wait_to_hear("live");
    run.signal(Signal::INT);
    let finished = browser.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    run.finish();
    serde_json::from_str(&finished.stdout).unwrap_or_else(|e| panic!("{e}: {}", finished.stdout))
}

#[test]
fn the_page_fills_in_a_browser_without_an_error_and_ends_with_the_result() {
    if no_browser() {
        return;
    }
    let pictures = top().join("target/live");
    let seen = looked_at(
        "sendrecv loop:loss=1%,delay=200us --rate 20kpps --duration 1h --settle 200ms --quiet --web",
        &pictures,
    );
    assert_eq!(seen["errors"], Value::Array(Vec::new()), "{seen}");
    assert_eq!(seen["violations"], Value::Array(Vec::new()), "{seen}");
    // Nothing is wider than the window: at 1280 and at 390 pixels.
    assert!(
        seen["over"].as_array().expect("widths").iter().all(|over| over == 0),
        "{seen}"
    );
    assert_eq!(seen["seen"]["intended"], "20\u{a0}kpps", "{seen}");
    assert!(
        seen["ended"]["phase"]
            .as_str()
            .is_some_and(|text| text.contains("has ended")),
        "{seen}"
    );
    assert!(
        seen["ended"]["result"]
            .as_str()
            .is_some_and(|text| text.contains("Sent ")),
        "{seen}"
    );
}
