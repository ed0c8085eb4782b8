//! What reads results beside a person: collectors, proxies, CI, rotation, spreadsheets, terminals of another locale.

use mpps_tests::{
    Background, Scratch, Served, TimeOfDay, free_port, free_ports, missing, mpps, mpps_with_files, run_by_shell,
    run_command, text_of, wait_until,
};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACED: &str = "sendrecv loop: --rate 2kpps --settle 100ms --duration";

#[test]
fn a_name_that_is_allowed_is_answered_and_others_are_told_how_they_would_be() {
    let words =
        format!("{PACED} 1h --quiet --metrics=127.0.0.1:0,host=metrics.lab --web --allow-host Bench1.lab.,192.0.2.9");
    let run = Background::start(mpps(&words)).wait_to_hear("live page: ");
    let (metrics, page) = (Served::of(&run, "metrics: "), Served::of(&run, "live page: "));
    metrics.wait_for("mpps_transmitted_packets_total", |sent| sent > 0.0);
    for host in ["localhost", "bench1.lab", "bench1.lab:80", "BENCH1.LAB.", "192.0.2.9:1"] {
        assert!(metrics.get("/metrics", host).starts_with("HTTP/1.1 200"), "{host}");
        assert!(page.get(&page.path, host).starts_with("HTTP/1.1 200"), "{host}");
    }
    assert!(metrics.get("/metrics", "metrics.lab").starts_with("HTTP/1.1 200"));
    for (served, path, host) in [
        (&page, &*page.path, "metrics.lab"),
        (&metrics, "/metrics", "bench2.lab:9469"),
        (&metrics, "/metrics", "x.bench1.lab"),
        (&metrics, "/metrics", "192.0.2.10"),
    ] {
        let told = served.get(path, host);
        let name = host.split(':').next().unwrap_or_default();
        assert!(told.starts_with("HTTP/1.1 403"), "{told}");
        assert!(told.contains(&format!("--allow-host {name} lets it in")), "{told}");
    }
    run.end(Signal::INT);
}

#[test]
fn names_of_hosts_are_checked_before_anything_is_opened() {
    for (words, told) in [
        ("--web --allow-host http://a", "want the name or address of a host"),
        ("--web --allow-host *", "want the name or address of a host"),
        ("--web=127.0.0.1:0,bench1.lab", "want host=NAME behind the address"),
        ("--allow-host a", "want --metrics or --web"),
    ] {
        let done = run_command(mpps(&format!("{PACED} 100ms {words}")));
        assert_eq!(done.code, Some(2), "{words}: {}", done.stderr);
        assert!(done.stderr.contains(told), "{words}: {}", done.stderr);
    }
}

/// Rows of files that follow one another: each begins where the one before ended.
fn assert_no_gap(texts: &[String]) {
    let header = texts[0].lines().next().expect("a header");
    let place = |name: &str| header.split(',').position(|column| column == name).expect(name);
    let (time, length) = (place("time_s"), place("interval_s"));
    let lane = header.split(',').position(|column| column == "lane");
    let rows: Vec<(f64, f64)> = texts
        .iter()
        .flat_map(|text| text.lines().skip(1))
        .map(|row| row.split(',').collect::<Vec<_>>())
        .filter(|cells| lane.is_none_or(|lane| cells[lane] == "0"))
        .map(|cells| {
            let number = |at: usize| cells[at].parse().expect("s");
            (number(time), number(length))
        })
        .collect();
    assert!(rows.len() > 3);
    for two in rows.windows(2) {
        let ((from, lasts), (next, _)) = (two[0], two[1]);
        assert!((from + lasts - next).abs() < 1e-5, "{two:?}");
    }
}

#[test]
fn a_csv_has_its_header_before_the_first_row_closes() {
    let scratch = Scratch::new();
    let csv = scratch.file("rows.csv");
    let mut command = mpps(&format!("{PACED} 1h --interval 1h"));
    command.arg("--csv").arg(&csv);
    let run = Background::start(command);
    wait_until("the header", || {
        std::fs::read_to_string(&csv).is_ok_and(|text| text.starts_with("time_s,"))
    });
    assert_eq!(text_of(&csv).lines().count(), 1);
    run.end(Signal::INT);
}

#[test]
fn a_file_of_metrics_may_be_read_by_every_collector() {
    let scratch = Scratch::new();
    let [prom, json] = ["s.prom", "s.json"].map(|name| scratch.file(name));
    let command = mpps_with_files(
        &format!("{PACED} 200ms --quiet --tolerance 100%"),
        &[("--prom", &prom), ("--json", &json)],
    );
    run_by_shell("umask 077", &command);
    let mode = |path: &Path| std::fs::metadata(path).expect("written").permissions().mode() & 0o777;
    assert_eq!((mode(&prom), mode(&json)), (0o644, 0o600));
}

#[test]
fn a_file_that_was_renamed_is_begun_anew_when_asked_and_loses_no_row() {
    let scratch = Scratch::new();
    let names = ["rows.csv", "lanes.csv", "lines.jsonl"];
    let files = names.map(|name| scratch.file(name));
    let [csv, lanes, lines] = &files;
    let run = Background::start(mpps_with_files(
        &format!("{PACED} 1h --quiet --interval 50ms"),
        &[("--csv", csv), ("--lanes-csv", lanes), ("--json-lines", lines)],
    ));
    let rows = |path: &Path| text_of(path).lines().count();
    for turn in 1..=2 {
        wait_until("rows", || files.iter().all(|path| path.exists() && rows(path) > 3));
        for path in &files {
            std::fs::rename(path, path.with_extension(turn.to_string())).expect("renamed");
        }
        run.signal(Signal::USR2);
        wait_until("the new files", || {
            files.iter().all(|path| path.exists() && rows(path) > 1)
        });
    }
    let done = run.end(Signal::INT);
    assert!(matches!(done.code, Some(0 | 3)), "{}", done.stderr);
    let parts = |path: &PathBuf| [path.with_extension("1"), path.with_extension("2"), path.clone()];
    for path in [csv, lanes] {
        let texts = parts(path).map(|part| text_of(&part));
        let header = texts[0].lines().next().expect("a header").to_owned();
        for text in &texts {
            assert_eq!(text.lines().next(), Some(&*header), "each can be read alone");
            assert_eq!(text.matches(&header).count(), 1);
        }
        assert_no_gap(&texts);
    }
    let mut rows = 0;
    for part in parts(lines) {
        let events: Vec<Value> = text_of(&part)
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(events[0]["event"], "start", "{}", part.display());
        assert_eq!(events[0]["schema"], "mpps.lines/1");
        rows += events.iter().filter(|event| event["event"] == "row").count();
    }
    let end = text_of(lines)
        .lines()
        .last()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    assert_eq!(end.expect("a line")["event"], "end");
    assert_eq!(
        rows,
        parts(csv)
            .iter()
            .map(|part| text_of(part).lines().count() - 1)
            .sum::<usize>()
    );
}

#[test]
fn a_file_that_was_copied_and_emptied_has_no_hole_and_a_header() {
    let scratch = Scratch::new();
    let (csv, copy) = (scratch.file("r.csv"), scratch.file("r.csv.1"));
    let run = Background::start(mpps_with_files(
        &format!("{PACED} 1h --quiet --interval 50ms"),
        &[("--csv", &csv)],
    ));
    wait_until("rows", || csv.exists() && text_of(&csv).lines().count() > 4);
    // As logrotate's copytruncate does.
    std::fs::copy(&csv, &copy).expect("copied");
    std::fs::File::options()
        .write(true)
        .open(&csv)
        .and_then(|file| file.set_len(0))
        .expect("emptied");
    wait_until("rows again", || text_of(&csv).lines().count() > 4);
    run.end(Signal::INT);
    let text = text_of(&csv);
    assert!(!text.contains('\0'));
    assert_eq!(text.lines().next(), text_of(&copy).lines().next());
}

#[test]
fn logrotate_with_the_file_of_the_package_loses_no_row() {
    if missing("logrotate", "logrotate") {
        return;
    }
    let scratch = Scratch::new();
    let csv = scratch.file("reflect.csv");
    let run = Background::start(mpps_with_files(
        &format!("{PACED} 1h --quiet --interval 50ms"),
        &[("--csv", &csv)],
    ));
    let config = text_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/logrotate/mpps"));
    // Of this process alone, and of the test's folder; logrotate takes no folder that others may write to.
    let config = config
        .replace("/var/log/mpps", &csv.parent().expect("a folder").display().to_string())
        .replace("pkill -USR2 -f", &format!("kill -USR2 {} #", run.id()));
    let (file, state) = (scratch.file("rotate.conf"), scratch.file("state"));
    std::fs::write(&file, format!("su root root\n{config}")).expect("a file");
    for path in [&file, &csv] {
        wait_until("the file", || path.exists());
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).expect("ours");
    }
    wait_until("rows", || text_of(&csv).lines().count() > 3);
    let mut rotate = Command::new("logrotate");
    rotate.arg("-f").arg("-s").arg(&state).arg(&file);
    let done = run_command(rotate);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let first = csv.with_extension("csv.1");
    wait_until("the new file", || csv.exists() && text_of(&csv).lines().count() > 2);
    run.end(Signal::INT);
    assert_no_gap(&[text_of(&first), text_of(&csv)]);
}

#[test]
fn times_of_rows_stand_as_texts_beside_numbers_that_programs_round() {
    let scratch = Scratch::new();
    let [csv, lines, lanes] = ["r.csv", "r.jsonl", "lanes.csv"].map(|name| scratch.file(name));
    run_command(mpps_with_files(
        &format!("{PACED} 400ms --quiet --interval 100ms"),
        &[("--csv", &csv), ("--json-lines", &lines), ("--lanes-csv", &lanes)],
    ));
    // Seconds since 1970 of a text as `date` reads it, and its nanoseconds.
    let ns = |text: &str| {
        let mut date = Command::new("date");
        date.args(["-u", "-d", text, "+%s%N"]);
        run_command(date).stdout.trim().parse::<u64>().expect("ns")
    };
    for path in [&csv, &lanes] {
        let text = text_of(path);
        let header: Vec<&str> = text.lines().next().expect("a header").split(',').collect();
        let place = |name: &str| header.iter().position(|column| *column == name).expect(name);
        for row in text.lines().skip(1) {
            let cells: Vec<&str> = row.split(',').collect();
            assert_eq!(
                ns(cells[place("start_utc")]).to_string(),
                cells[place("start_utc_ns")],
                "{row}"
            );
        }
    }
    let rows = text_of(&lines);
    let mut rows = rows
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|event| event["event"] == "row");
    assert!(rows.all(|row| Some(ns(row["start_utc"].as_str().expect("a text"))) == row["start_utc_ns"].as_u64()));
}

#[test]
fn a_locale_without_utf_8_gets_words_in_ascii() {
    let scratch = Scratch::new();
    let csv = scratch.file("é.csv");
    for words in [
        "sendrecv loop:delay=1ms --rate 2kpps --duration 300ms --verbose --tolerance 100%",
        "sendrecv loop: --rate 2kpps --duration 300ms --plain --tolerance 100%",
        "ndr loop: --max-rate 2kpps --min-rate 1kpps --search-time 3s",
        "help",
        "sendrecv --help",
        "help rate",
        "doctor",
        "ports",
        "sendrecv loop: --rate 3µs",
        "plot nothing.csv -o µ.png",
    ] {
        let command = mpps(words);
        for locale in [
            "LC_ALL=C",
            "LC_ALL= LC_CTYPE=POSIX LANG=C.UTF-8",
            "LC_ALL= LC_CTYPE= LANG=de_DE",
        ] {
            let done = run_by_shell(&format!("export {locale}"), &command);
            for text in [&done.stdout, &done.stderr] {
                assert!(text.is_ascii(), "{locale} {words}: {text}");
            }
        }
    }
    let command = mpps_with_files(&format!("{PACED} 100ms"), &[("--csv", &csv), ("--json", &csv)]);
    let done = run_by_shell("export LC_ALL=C", &command);
    assert!(done.stderr.contains("\\u{e9}.csv"), "{}", done.stderr);
    // Data is no word: it stays as it is.
    let named = scratch.file("µ.csv");
    let json = mpps_with_files(
        "sendrecv loop: --rate 2kpps --duration 200ms --json - --quiet --tolerance 100%",
        &[("--csv", &named)],
    );
    let (c, utf8) = (
        run_by_shell("export LC_ALL=C", &json),
        run_by_shell("export LC_ALL=C.UTF-8", &json),
    );
    assert!(c.stdout.contains('µ') && utf8.stdout.contains('µ'));
    let told = run_by_shell(
        "export LC_ALL=C.UTF-8",
        &mpps("sendrecv loop:delay=100us --rate 2kpps --duration 300ms --tolerance 100%"),
    );
    assert!(told.stdout.contains('µ'), "{}", told.stdout);
}

/// nginx before a page, in the foreground: under a path, by the address of `proxy_pass`; and at a second port with the
/// name that it was asked by. With its configuration and ports.
fn nginx(scratch: &Scratch, page: &Served) -> (Background, [Served; 2]) {
    let first = free_ports(2);
    let folder = scratch.file("nginx");
    std::fs::create_dir(&folder).expect("a folder");
    let at = page.at;
    // The words of docs/use/live.md, with this run's port.
    let doc = text_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/use/live.md"));
    let location = doc
        .split("```")
        .find(|part| part.trim_start().starts_with("location /bench1/"))
        .expect("the recipe")
        .replace("127.0.0.1:9470", &at.to_string());
    let folder = folder.display();
    let text = format!(
        "daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1; events {{}}\n\
         http {{ access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b;\n\
         fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;\n\
         server {{ listen 127.0.0.1:{first}; {location} }}\n\
         server {{ listen 127.0.0.1:{}; location / {{ proxy_pass http://{at}; proxy_set_header Host $host; }} }} }}\n",
        first + 1
    );
    let config = scratch.file("nginx.conf");
    std::fs::write(&config, text).expect("a file");
    let mut command = Command::new("nginx");
    command
        .arg("-c")
        .arg(&config)
        .args(["-e", &format!("{folder}/first.log")]);
    let server = Background::start(command);
    let there = |port: u16| Served {
        at: ([127, 0, 0, 1], port).into(),
        path: "/".to_owned(),
    };
    let ports = [there(first), there(first + 1)];
    wait_until("nginx", || {
        ports.iter().all(|port| std::net::TcpStream::connect(port.at).is_ok())
    });
    (server, ports)
}

#[test]
fn the_page_and_its_events_pass_through_nginx_under_a_path_and_by_an_allowed_name() {
    if missing("nginx", "nginx-light") {
        return;
    }
    let scratch = Scratch::new();
    let run = Background::start(mpps(&format!(
        "{PACED} 1h --quiet --web=127.0.0.1:0,host=www.example.com"
    )))
    .wait_to_hear("live page: ");
    let page = Served::of(&run, "live page: ");
    let (server, [by_path, by_name]) = nginx(&scratch, &page);
    let under = format!("/bench1{}", page.path);
    assert!(by_path.get(&under, "any.host").starts_with("HTTP/1.1 200"));
    // Events come while the run goes on: nothing is held back.
    let mut events = by_path.connect();
    let request = format!("GET {under}events HTTP/1.1\r\nHost: any.host\r\n\r\n");
    events.write_all(request.as_bytes()).expect("sent");
    let mut told = String::new();
    let mut bytes = [0; 4096];
    while told.matches("\ndata: ").count() < 5 {
        let read = events.read(&mut bytes).expect("events");
        assert!(read > 0, "{told}");
        told += &String::from_utf8_lossy(&bytes[..read]);
    }
    assert!(told.contains("Content-Type: text/event-stream"), "{told}");
    assert!(by_name.get(&page.path, "www.example.com").starts_with("HTTP/1.1 200"));
    let refused = by_name.get(&page.path, "evil.example.net");
    assert!(
        refused.starts_with("HTTP/1.1 403") && refused.contains("--allow-host evil.example.net"),
        "{refused}"
    );
    run.end(Signal::INT);
    server.end(Signal::TERM);
}

#[test]
fn with_nothing_received_no_file_has_a_number_that_is_none() {
    let scratch = Scratch::new();
    let folder = scratch.file("out");
    let prom = scratch.file("s.prom");
    for (at, words) in [
        &*format!("reflect udp:127.0.0.1:{} --duration 300ms", free_port()),
        "drop null: --duration 300ms",
        "sendrecv loop:loss=100% --rate 1kpps --duration 300ms --settle 50ms",
    ]
    .into_iter()
    .enumerate()
    {
        let out = folder.with_extension(at.to_string());
        let done = run_command(mpps_with_files(
            &format!("{words} --quiet"),
            &[("--out", &out), ("--prom", &prom)],
        ));
        assert!(
            matches!(done.code, Some(0 | 3)),
            "{words}: {:?} {}",
            done.code,
            done.stderr
        );
        let files = std::fs::read_dir(&out)
            .expect("a folder")
            .map(|file| file.expect("a file").path());
        for file in files.chain([prom.clone()]).filter(|file| file.is_file()) {
            let text = String::from_utf8_lossy(&std::fs::read(&file).expect("a file")).into_owned();
            let word = |text: &str| {
                text.split(|c: char| !c.is_ascii_alphabetic())
                    .any(|w| ["NaN", "inf", "Infinity"].contains(&w))
            };
            let own = file.extension().is_some_and(|e| e != "html");
            assert!(!own || !word(&text), "{words}: {}", file.display());
        }
    }
}

#[test]
fn times_are_those_of_utc_wherever_the_reader_lives() {
    let utc = |zone: &str| {
        let command = mpps("sendrecv loop: --rate 1kpps --duration 100ms --settle 50ms --json - --quiet");
        let done = run_by_shell(&format!("export TZ={zone}"), &command);
        let json: Value = serde_json::from_str(&done.stdout).expect("JSON");
        json["started_utc"].as_str().expect("a time").to_owned()
    };
    let (east, west) = (utc("Pacific/Kiritimati"), utc("Pacific/Pago_Pago"));
    // A day apart by the clock on the wall.
    let hour = |time: &str| {
        let mut date = Command::new("date");
        date.args(["-u", "-d", time, "+%s"]);
        run_command(date).stdout.trim().parse::<i64>().expect("s")
    };
    assert!(east.ends_with('Z') && west.ends_with('Z'));
    assert!((0..3600).contains(&(hour(&west) - hour(&east))), "{east} {west}");
}

/// Starts, in ns since 1970 and as texts, and times within the run, ns, of the rows so far.
fn starts(csv: &Path) -> Vec<(u64, String, u64)> {
    let text = std::fs::read_to_string(csv).unwrap_or_default();
    let whole = &text[..text.rfind('\n').unwrap_or(0)];
    let mut read = csv::Reader::from_reader(whole.as_bytes());
    let rows = read.deserialize().map(|row| row.expect("a row"));
    rows.map(|row: std::collections::HashMap<String, String>| {
        let time: f64 = row["time_s"].parse().expect("s");
        let start = row["start_utc_ns"].parse().expect("ns");
        (start, row["start_utc"].clone(), (time * 1e9).round() as u64)
    })
    .collect()
}

/// Every row starts as long after the first one as the run's own clock says, and texts are in order.
fn assert_in_order(rows: &[(u64, String, u64)]) {
    for two in rows.windows(2) {
        assert!(two[0].1 < two[1].1, "{two:?}");
    }
    for row in rows {
        // Times within a run have six digits.
        assert!(
            (row.0 - rows[0].0).abs_diff(row.2 - rows[0].2) < 2_000,
            "{row:?} {:?}",
            rows[0]
        );
    }
}

/// NTP, a person or a resumed machine sets the clock: rows keep the time of day that the run began by.
#[test]
fn a_clock_that_is_set_by_hours_during_a_run_changes_no_time_of_it() {
    let scratch = Scratch::new();
    let Some(time) = TimeOfDay::new(&scratch) else { return };
    let out = scratch.file("out");
    let prom = scratch.file("s.prom");
    let run = mpps_with_files(
        "sendrecv loop:delay=1ms --rate 2kpps --settle 100ms --duration 1h --interval 50ms --quiet --tolerance 100%",
        &[("--out", &out), ("--prom", &prom)],
    );
    let run = Background::start(time.of(&run));
    let csv = out.join("rows.csv");
    for hours in [0, 3, -30, 9_000] {
        time.set(hours * 3600);
        let before = starts(&csv).len();
        wait_until("rows", || starts(&csv).len() > before + 5);
    }
    let done = run.end(Signal::INT);
    assert!(matches!(done.code, Some(0 | 3)), "{}", done.stderr);
    let rows = starts(&csv);
    assert!(rows.len() > 20);
    assert_in_order(&rows);
    let json: Value = serde_json::from_str(&text_of(&out.join("result.json"))).expect("JSON");
    assert_eq!(json["started_utc"], *rows[0].1, "{json:#}");
    assert!(json["duration_s"].as_f64().is_some_and(|s| s < 600.0), "{json:#}");
    let count = |key: &str| json[key].as_u64().expect("a count");
    assert_eq!(count("tx_packets"), count("rx_packets") + count("lost") + count("late"));
    let latency = &json["latency_ns"];
    assert!(latency["min"].as_u64() >= Some(1_000_000), "{latency:#}");
    assert!(latency["max"].as_u64() < Some(600_000_000_000), "{latency:#}");
    // A run of that length ends by its own clock, too.
    let run = mpps_with_files(
        "sendrecv loop: --rate 2kpps --settle 100ms --duration 2s --interval 50ms --quiet --tolerance 100%",
        &[
            ("--csv", &scratch.file("short.csv")),
            ("--json", &scratch.file("short.json")),
        ],
    );
    let run = Background::start(time.of(&run));
    wait_until("rows", || starts(&scratch.file("short.csv")).len() > 3);
    time.set(-9_000 * 3600);
    let done = run.finish();
    assert!(matches!(done.code, Some(0 | 3)), "{}", done.stderr);
    let json: Value = serde_json::from_str(&text_of(&scratch.file("short.json"))).expect("JSON");
    assert_eq!(json["duration_s"], 2.0, "{json:#}");
}

/// The hour that comes twice, and the one that is left out, where the zone of the reader has them.
#[test]
fn times_go_on_where_summer_time_begins_or_ends_during_a_run() {
    for (change, before, after) in [
        (1_792_890_000, "2026-10-25T00:59:", "2026-10-25T01:00:"),
        (1_806_195_600, "2027-03-28T00:59:", "2027-03-28T01:00:"),
    ] {
        // A start takes longer on a loaded host: then it is begun again, longer before.
        let rows = [8, 30, 90].into_iter().find_map(|lead| {
            let scratch = Scratch::new();
            let time = TimeOfDay::new(&scratch)?;
            let csv = scratch.file("r.csv");
            let run = mpps_with_files(&format!("{PACED} 1h --quiet --interval 50ms"), &[("--csv", &csv)]);
            let mut run = time.of(&run);
            run.env("TZ", "Europe/Berlin");
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let now = now.expect("after 1970").as_secs();
            time.set(change - lead - now.cast_signed());
            let run = Background::start(run);
            wait_until("rows after the change", || {
                starts(&csv).iter().filter(|row| row.1.starts_with(after)).count() > 5
            });
            run.end(Signal::INT);
            Some(starts(&csv)).filter(|rows| lead == 90 || rows[0].1.starts_with(before))
        });
        let Some(rows) = rows else { return };
        assert!(rows[0].1.starts_with(before), "{:?}", rows[0]);
        assert_in_order(&rows);
    }
}

#[test]
fn a_search_took_as_long_as_it_did_whatever_the_clock_was_set_to() {
    let scratch = Scratch::new();
    let Some(time) = TimeOfDay::new(&scratch) else { return };
    let out = scratch.file("found");
    let search = mpps_with_files(
        "ndr loop:loss=1% --goal loss=0,initial=300ms,final=300ms,sum=600s,width=1% --min-rate 10pps --max-rate 2kpps \
         --search-time 1h",
        &[("--out", &out)],
    );
    let search = Background::start(time.of(&search));
    let trials = || search.stderr().matches("mpps: trial ").count();
    for hours in [0, 3] {
        time.set(hours * 3600);
        let before = trials();
        wait_until("trials", || trials() > before + 2);
    }
    search.end(Signal::INT);
    let json: Value = serde_json::from_str(&text_of(&out.join("result.json"))).expect("JSON");
    let took = json["took_s"].as_f64().expect("s");
    assert!(took < 600.0, "took {took} s");
}

#[test]
fn a_reader_who_wants_the_first_line_only_is_no_failure() {
    for words in [
        "help",
        "sendrecv --help",
        "ports",
        "doctor",
        "doctor --json",
        "man sendrecv",
        "completions bash",
        "sendrecv loop: --rate 1kpps --duration 300ms --csv - --quiet",
        "sendrecv loop: --rate 1kpps --duration 300ms --json-lines - --quiet",
        "sendrecv loop: --rate 1kpps --duration 300ms --json - --quiet",
        "sendrecv loop: --rate 1kpps --duration 300ms",
        "ndr loop: --max-rate 2kpps --min-rate 1kpps --search-time 1s",
    ] {
        let command = mpps(words);
        let mut shell = Command::new("bash");
        shell.args([
            "-o",
            "pipefail",
            "-c",
            "\"$@\" | head -1; echo \"${PIPESTATUS[0]}\"",
            "bash",
        ]);
        shell.arg(command.get_program()).args(command.get_args());
        let done = run_command(shell);
        assert!(!done.stderr.contains("panicked"), "{words}: {}", done.stderr);
        let code = done.stdout.lines().last().and_then(|line| line.parse::<i32>().ok());
        assert!(matches!(code, Some(0 | 1 | 3)), "{words}: {code:?} {}", done.stderr);
    }
}

#[test]
fn a_report_shows_each_chart_once_where_a_policy_forbids_styles() {
    let scratch = Scratch::new();
    let out = scratch.file("out");
    run_command(mpps_with_files(
        &format!("{PACED} 500ms --quiet --tolerance 100% --interval 100ms"),
        &[("--out", &out)],
    ));
    let page = text_of(&out.join("report.html"));
    let charts = page.matches("<figure id=\"chart-").count();
    assert!(charts > 0);
    // The attributes say so, which a stylesheet overrides.
    let shown = page.matches("<div class=\"wide\"><svg class=\"chart\" role").count();
    let hidden = page
        .matches("<div class=\"narrow\"><svg class=\"chart\" display=\"none\"")
        .count();
    assert_eq!((shown, hidden), (charts, charts));
    assert!(page.contains("svg.chart { display: block;"));
}

#[test]
fn prometheus_scrapes_by_a_name_and_the_node_exporter_reads_the_file_of_another_user() {
    if missing("prometheus", "prometheus") || missing("prometheus-node-exporter", "prometheus-node-exporter") {
        return;
    }
    let scratch = Scratch::new();
    let folder = scratch.file("textfiles");
    std::fs::create_dir(&folder).expect("a folder");
    let first = free_ports(3);
    let (page, exporter, api) = (first, first + 1, first + 2);
    let config = scratch.file("prometheus.yml");
    let targets = |job: &str, at: &str| format!("  - job_name: {job}\n    static_configs: [{{targets: [\"{at}\"]}}]\n");
    let text = format!(
        "global: {{scrape_interval: 250ms, scrape_timeout: 250ms}}\nscrape_configs:\n{}{}{}",
        targets("named", &format!("bench1.lab:{page}")),
        targets("unnamed", &format!("bench2.lab:{page}")),
        targets("node", &format!("127.0.0.1:{exporter}"))
    );
    std::fs::write(&config, text).expect("a file");
    // The names lead here, in a mount namespace of its own.
    let script = "cp /etc/hosts \"$1/hosts\" && echo '127.0.0.1 bench1.lab bench2.lab' >>\"$1/hosts\" && \
                  mount --bind \"$1/hosts\" /etc/hosts && exec prometheus --config.file=\"$1/prometheus.yml\" \
                  --storage.tsdb.path=\"$1/data\" --web.listen-address=127.0.0.1:$2";
    let mut prometheus = Command::new("unshare");
    prometheus.args(["--mount", "sh", "-c", script, "sh"]);
    prometheus.arg(config.parent().expect("a folder")).arg(api.to_string());
    let run = mpps_with_files(
        &format!("{PACED} 1h --quiet --metrics=127.0.0.1:{page},host=bench1.lab"),
        &[("--prom", &folder.join("run.prom"))],
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 077; exec \"$@\"", "sh"]);
    shell.arg(run.get_program()).args(run.get_args());
    let run = Background::start(shell).wait_to_hear("metrics: ");
    let mut node = Command::new("setpriv");
    node.args(["--reuid", "65534", "--clear-groups", "prometheus-node-exporter"]);
    node.arg(format!("--web.listen-address=127.0.0.1:{exporter}"));
    node.args(["--collector.disable-defaults", "--collector.textfile"]);
    // A folder that everybody may look into.
    for above in folder.ancestors().take(2) {
        std::fs::set_permissions(above, std::fs::Permissions::from_mode(0o755)).expect("ours");
    }
    node.arg(format!("--collector.textfile.directory={}", folder.display()));
    let mut node = Background::start(node);
    let mut prometheus = Background::start(prometheus);
    let served = Served {
        at: ([127, 0, 0, 1], api).into(),
        path: "/".to_owned(),
    };
    // What a query gives: jobs and values.
    let query = |of: &str| -> Vec<(String, String)> {
        let told = served.get(&format!("/api/v1/query?query={of}"), "127.0.0.1");
        let body = told.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let start = body.find('{').unwrap_or(0);
        let end = body.rfind('}').map_or(0, |at| at + 1);
        let json: Value = serde_json::from_str(body.get(start..end).unwrap_or("null")).unwrap_or_default();
        let results = json["data"]["result"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        results
            .iter()
            .map(|one| (text(&one["metric"]["job"]), text(&one["value"][1])))
            .collect()
    };
    let has = |of: &str, job: &str, wanted: &dyn Fn(&str) -> bool| {
        query(of).iter().any(|(named, value)| named == job && wanted(value))
    };
    let sent = |value: &str| value.parse::<f64>().is_ok_and(|sent| sent > 0.0);
    wait_until("scrapes", || {
        assert!(prometheus.running(), "{}", prometheus.stderr());
        assert!(node.running(), "{}", node.stderr());
        has("mpps_transmitted_packets_total", "named", &sent)
            && has("mpps_transmitted_packets_total", "node", &sent)
            && has("up", "unnamed", &|up| up == "0")
    });
    assert!(!has("mpps_transmitted_packets_total", "unnamed", &|_| true));
    prometheus.end(Signal::TERM);
    node.end(Signal::TERM);
    run.end(Signal::INT);
}

#[test]
fn jq_reads_the_times_of_rows_as_they_are_written() {
    if missing("jq", "jq") {
        return;
    }
    let scratch = Scratch::new();
    let lines = scratch.file("r.jsonl");
    run_command(mpps_with_files(
        &format!("{PACED} 300ms --quiet --interval 100ms"),
        &[("--json-lines", &lines)],
    ));
    let mut jq = Command::new("jq");
    jq.args(["-r", "select(.event == \"row\") | .start_utc"]).arg(&lines);
    let told = run_command(jq);
    let text = text_of(&lines);
    assert!(told.stdout.lines().count() > 1, "{}", told.stderr);
    for time in told.stdout.lines() {
        assert!(text.contains(&format!("\"start_utc\":\"{time}\"")), "{time}");
    }
}

/// The forms that spreadsheets and programs of other systems give a CSV: by name and bytes.
fn rewritten(text: &str) -> [(&'static str, String); 4] {
    let crlf = text.replace('\n', "\r\n");
    let quoted: String = text
        .lines()
        .map(|line| format!("\"{}\"\n", line.replace(',', "\",\"")))
        .collect();
    [
        ("a mark", format!("\u{feff}{text}")),
        ("both", format!("\u{feff}{crlf}")),
        ("CRLF", crlf),
        ("quotes", quoted),
    ]
}

/// A run's CSV and JSON in a folder; the JSON says that the run is not valid.
fn run_that_is_not_valid(scratch: &Scratch) -> [PathBuf; 2] {
    let files = ["run.csv", "run.json"].map(|name| scratch.file(name));
    let [csv, json] = &files;
    run_command(mpps_with_files(
        &format!("{PACED} 500ms --quiet --interval 50ms"),
        &[("--csv", csv), ("--json", json)],
    ));
    let mut result: Value = serde_json::from_str(&text_of(json)).expect("JSON");
    result["valid"] = false.into();
    result["invalid_reasons"] = serde_json::json!(["the test says so"]);
    std::fs::write(json, result.to_string()).expect("a file");
    files
}

/// The picture that `mpps plot` makes of a CSV.
fn picture(scratch: &Scratch, csv: &Path) -> String {
    let svg = scratch.file("run.svg");
    let _ = std::fs::remove_file(&svg);
    let mut plot = mpps("plot");
    plot.arg(csv).arg("-o").arg(&svg);
    let done = run_command(plot);
    assert_eq!((done.code, &*done.stderr), (Some(0), ""));
    text_of(&svg)
}

#[test]
fn a_csv_with_crlf_a_byte_order_mark_or_quotes_is_drawn_as_it_was_written() {
    let scratch = Scratch::new();
    let [csv, json] = run_that_is_not_valid(&scratch);
    std::fs::remove_file(json).expect("ours");
    let text = text_of(&csv);
    let first = picture(&scratch, &csv);
    let drawn = |svg: &str| -> Vec<String> {
        let shapes = svg
            .lines()
            .filter(|line| line.contains("<path") || line.contains("<polyline"));
        shapes.map(str::to_owned).collect()
    };
    assert!(drawn(&first).len() > 3);
    for (form, bytes) in rewritten(&text) {
        std::fs::write(&csv, bytes).expect("a file");
        assert_eq!(drawn(&picture(&scratch, &csv)), drawn(&first), "{form}");
    }
}

/// The summary beside a CSV is found by the time of its first row, in quotes or not.
#[test]
fn a_run_that_is_not_valid_is_marked_in_pictures_and_pages_of_a_csv_in_each_form() {
    let scratch = Scratch::new();
    let [csv, json] = run_that_is_not_valid(&scratch);
    let text = text_of(&csv);
    let first = picture(&scratch, &csv);
    assert!(first.contains("NOT VALID: the test says so"), "{first}");
    for (form, bytes) in rewritten(&text) {
        std::fs::write(&csv, bytes).expect("a file");
        let mut report = mpps("report");
        let page = scratch.file("run.html");
        report.args([&json, &csv]).arg("-o").arg(&page);
        let done = run_command(report);
        assert_eq!(done.code, Some(0), "{form}: {}", done.stderr);
        assert!(text_of(&page).contains("the test says so"), "{form}");
        assert_eq!(picture(&scratch, &csv), first, "{form}");
    }
}

#[test]
fn a_report_is_printed_with_its_verdict_and_whole_charts() {
    let chromium = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
    if missing(&chromium, "chromium") || missing("pdftotext", "poppler-utils") {
        return;
    }
    let scratch = Scratch::new();
    let out = scratch.file("out");
    let pdf = scratch.file("report.pdf");
    run_command(mpps_with_files(
        "sendrecv loop:delay=1ms,loss=1% --rate 2kpps --duration 3s --settle 100ms --interval 50ms --quiet",
        &[("--out", &out)],
    ));
    let mut print = Command::new(chromium);
    print.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]);
    print.arg(format!("--user-data-dir={}", scratch.file("profile").display()));
    print.arg(format!("--print-to-pdf={}", pdf.display()));
    print.arg(format!("file://{}", out.join("report.html").display()));
    let done = run_command(print);
    assert!(pdf.exists(), "{}", done.stderr);
    let mut text = Command::new("pdftotext");
    text.arg(&pdf).arg("-");
    let text = run_command(text).stdout;
    let pages: Vec<_> = text.split('\u{c}').filter(|page| !page.trim().is_empty()).collect();
    assert!((2..20).contains(&pages.len()), "{} pages: {text}", pages.len());
    let json: Value = serde_json::from_str(&text_of(&out.join("result.json"))).expect("JSON");
    let verdict = if json["valid"] == true {
        // A busy host may be too late for a few.
        "Valid: sent "
    } else {
        "Not valid: "
    };
    assert!(pages[0].contains(verdict), "{}", pages[0]);
    assert!(pages[0].contains("sendrecv loop:delay=1ms,loss=1%"), "{}", pages[0]);
    // A chart that is cut in two has its title and the name of its axis on two pages.
    let time = "Time since the start of the run (s)";
    let charts = [
        ("Latency by percentile", "Part of the packets that took no longer (%)"),
        ("Packets sent and received over time", time),
        ("Loss by time of sending", time),
        ("Latency over time", time),
    ];
    for (title, _) in charts {
        let line = |page: &&&str| page.lines().any(|line| line == title);
        assert_eq!(pages.iter().filter(line).count(), 1, "{title}: {text}");
    }
    for page in &pages {
        for axis in ["Part of the packets that took no longer (%)", time] {
            let titled = |title: &str| page.lines().any(|line| line == title);
            let titles = charts.iter().filter(|(title, of)| *of == axis && titled(title));
            assert_eq!(titles.count(), page.matches(axis).count(), "{page}");
        }
        // A chart that is cut off at its right lacks the last number of its axis.
        let ends = page.split_whitespace().filter(|word| *word == "3.0").count();
        assert!(ends >= page.matches(time).count(), "{page}");
    }
}

#[test]
fn files_may_have_any_name_that_the_kernel_allows_and_are_read_by_it_again() {
    use std::os::unix::ffi::OsStrExt;
    let names: [&[u8]; 7] = [
        b"a b",
        b"-x",
        b"quote\"'<&>$(id)",
        b"two\nlines",
        b"\x1b[31mred",
        b"\xff\xfe no UTF-8",
        "\u{202e}\u{1f980}\u{e9}".as_bytes(),
    ];
    for name in names {
        let scratch = Scratch::new();
        // In the folder itself, so that a name may begin with a dash.
        let file = |ending: &str| std::ffi::OsStr::from_bytes(&[name, ending.as_bytes()].concat()).to_owned();
        let option = |name: &str, ending: &str| {
            let mut word = std::ffi::OsString::from(format!("--{name}="));
            word.push(file(ending));
            word
        };
        let mut run = mpps(&format!("{PACED} 300ms --quiet --tolerance 100% --interval 50ms"));
        run.current_dir(scratch.path());
        let files = [
            ("csv", ".csv"),
            ("json", ".json"),
            ("json-lines", ".l"),
            ("prom", ".prom"),
            ("junit", ".xml"),
        ];
        for (name, ending) in files {
            run.arg(option(name, ending));
        }
        let done = run_command(run);
        assert!(matches!(done.code, Some(0 | 3)), "{name:?}: {}", done.stderr);
        for (_, ending) in files {
            let bytes = std::fs::read(scratch.path().join(file(ending))).unwrap_or_default();
            assert!(!bytes.is_empty(), "{name:?}{ending}");
        }
        for (words, inputs, ending) in [("plot", &[".csv"][..], ".svg"), ("report", &[".json", ".csv"], ".html")] {
            let mut again = mpps(words);
            again
                .current_dir(scratch.path())
                .arg(option("output", ending))
                .arg("--");
            again.args(inputs.iter().map(|ending| file(ending)));
            let done = run_command(again);
            assert_eq!(done.code, Some(0), "{words} {name:?}: {}", done.stderr);
            let text = text_of(&scratch.path().join(file(ending)));
            assert!(!text.contains("<&>") && !text.contains('\u{1b}'), "{words} {name:?}");
        }
        // An error about it is one line, without its codes.
        let mut refused = mpps("plot");
        refused
            .current_dir(scratch.path())
            .arg("--output=x.svg")
            .arg("--")
            .arg(file(".none"));
        let done = run_command(refused);
        assert_eq!(
            (done.code, done.stderr.lines().count()),
            (Some(2), 1),
            "{name:?}: {}",
            done.stderr
        );
        assert!(
            !done.stderr.contains('\u{1b}') && !done.stderr.contains('\u{202e}'),
            "{name:?}: {}",
            done.stderr
        );
    }
}
