//! Prometheus and Grafana beside a run: what they are given is what they take.

use mpps_tests::{Background, Scratch, Served, missing, mpps, run_command, text_of, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

fn top() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
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
    let dashboard: Value = serde_json::from_str(&text_of(&folder.join("grafana/mpps.json"))).expect("JSON");
    let alerts = text_of(&folder.join("prometheus/mpps-alerts.yml"));
    let scratch = Scratch::new();
    let prom = scratch.file("mpps.prom");
    let mut command = mpps("sendrecv loop: --rate 2kpps --duration 1s --settle 100ms --quiet --prom");
    command.arg(&prom);
    run_command(command);
    let text = text_of(&prom);
    let there = |name: &str| {
        let name = name.strip_suffix("_bucket").unwrap_or(name);
        text.contains(&format!("# TYPE {name} "))
            || text_of(&top().join("docs/use/live.md")).contains(&format!("`{name}"))
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
fn files_of_runs_in_one_folder_or_several_can_be_read_together() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.file("more")).expect("a folder");
    let samples = |name: &str, words: &str| {
        let file = scratch.file(name);
        let mut command = mpps(&format!(
            "{words} --rate 2kpps --duration 200ms --settle 50ms --quiet --prom"
        ));
        command.arg(&file);
        run_command(command);
        let text = text_of(&file);
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        // All but the value.
        samples
            .map(|line| line.rsplit_once(' ').expect("a value").0.to_owned())
            .collect::<Vec<_>>()
    };
    let same = "sendrecv loop:";
    let all = [
        samples("a.prom", same),
        samples("b.prom", same),
        samples("c d\u{e9}.prom", "send null:"),
        samples("x\u{202e}y.prom", same),
        samples("more/a.prom", same),
    ];
    let each: std::collections::HashSet<_> = all.iter().flatten().collect();
    assert_eq!(each.len(), all.iter().map(Vec::len).sum::<usize>(), "{all:#?}");
    for (of, run) in all.iter().zip(["a", "b", "c d\u{e9}", "x\u{fffd}y", "a"]) {
        assert!(
            of.len() > 15 && of.iter().all(|line| line.contains(&format!("{{run=\"{run}\""))),
            "{of:#?}"
        );
    }
}

#[test]
fn a_prometheus_scrapes_a_run() {
    if missing("prometheus", "prometheus") {
        return;
    }
    let run = Background::start(mpps(
        "sendrecv loop:loss=2% --rate 5kpps --settle 100ms --duration 1h --metrics --quiet",
    ))
    .wait_to_hear("metrics: ");
    let metrics = Served::of(&run, "metrics: ");
    let scratch = Scratch::new();
    let config = format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: mpps\n    static_configs:\n      \
         - targets: ['{}']\n",
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

/// As part of an address.
fn percent(query: &str) -> String {
    query.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn every_query_of_the_dashboard_has_values_and_every_alert_is_evaluated() {
    if missing("prometheus", "prometheus") {
        return;
    }
    let run = Background::start(mpps(
        "sendrecv loop:loss=2% --rate 5kpps --settle 100ms --duration 1h --metrics --quiet",
    ))
    .wait_to_hear("metrics: ");
    let metrics = Served::of(&run, "metrics: ");
    let scratch = Scratch::new();
    let packaging = top().join("packaging");
    let config = format!(
        "global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}}\nrule_files: ['{}']\n\
         scrape_configs:\n  - job_name: mpps\n    static_configs: [{{targets: ['{}']}}]\n",
        packaging.join("prometheus/mpps-alerts.yml").display(),
        metrics.at
    );
    std::fs::write(scratch.file("prometheus.yml"), config).expect("written");
    let at = Served {
        at: ([127, 0, 0, 1], mpps_tests::free_port()).into(),
        path: String::new(),
    };
    let mut command = Command::new("prometheus");
    command
        .arg(format!("--config.file={}", scratch.file("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", scratch.file("tsdb").display()))
        .arg(format!("--web.listen-address={}", at.at));
    let mut prometheus = Background::start(command);
    let ask = |path: &str| -> Value {
        let answer = at.get(path, "localhost");
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        // A long body comes in chunks, each behind its length: a query's is short.
        let json = body
            .find('{')
            .zip(body.rfind('}'))
            .and_then(|(from, to)| body.get(from..=to));
        serde_json::from_str(json.unwrap_or_default()).unwrap_or_default()
    };
    let dashboard: Value = serde_json::from_str(&text_of(&packaging.join("grafana/mpps.json"))).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let mut queries = 0;
    for target in targets {
        let query = target["expr"].as_str().expect("a query");
        // Known at the end only, of which the file of metrics is.
        if query.starts_with("mpps_run_valid{") {
            continue;
        }
        let filled = query
            .replace("$job", ".*")
            .replace("$instance", ".*")
            .replace("$__rate_interval", "1m");
        assert!(!filled.contains('$'), "{filled}");
        wait_until(query, || {
            assert!(prometheus.running(), "{}", prometheus.stderr());
            // Counted, as the answer may be long.
            let answer = ask(&format!("/api/v1/query?query={}", percent(&format!("count({filled})"))));
            let count = answer["data"]["result"][0]["value"][1].as_str();
            count
                .and_then(|count| count.parse::<u32>().ok())
                .is_some_and(|count| count > 0)
        });
        queries += 1;
    }
    assert_eq!(queries, 13);
    let alerts = text_of(&packaging.join("prometheus/mpps-alerts.yml"));
    for name in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        // Two packets of a hundred are lost.
        let pending = name == "MppsLoss";
        wait_until(name, || {
            let told = at.get("/api/v1/rules?type=alert", "localhost").replace(' ', "");
            let rule = told
                .split("{\"state\":\"")
                .find(|rule| rule.contains(&format!("\"name\":\"{name}\"")));
            rule.is_some_and(|rule| rule.contains("\"health\":\"ok\"") && (!pending || !rule.starts_with("inactive")))
        });
    }
    run.end(Signal::INT);
}
