//! Plots: any CSV of ours gives a picture, anything else one clear line.

use mpps_pages::{plot, plot_all};
use mpps_report::{CsvSink, csv_header};
use mpps_stats::{Event, Latency, Percentiles, Row, Sink, Start, Started, Workload};
use std::path::{Path, PathBuf};

/// Writes a CSV of `rows` and draws it both ways; returns the SVG. `MPPS_PLOT_DIR` keeps the pictures to look at.
fn draw(name: &str, rows: impl Iterator<Item = Row>) -> String {
    let temporary = tempfile::tempdir().unwrap();
    let dir = std::env::var_os("MPPS_PLOT_DIR").map_or(temporary.path().to_owned(), PathBuf::from);
    let csv = dir.join(format!("{name}.csv"));
    let mut sink = CsvSink::create(&csv).unwrap();
    rows.for_each(|r| sink.event(&Event::Row(&r)));
    assert!(sink.finish().is_empty());
    draw_file(&csv)
}

fn draw_file(csv: &Path) -> String {
    let (svg, png) = (csv.with_extension("svg"), csv.with_extension("png"));
    plot(csv, &svg).unwrap();
    plot(csv, &png).unwrap();
    let text = std::fs::read_to_string(&svg).unwrap();
    resvg::usvg::roxmltree::Document::parse(&text).unwrap();
    assert!(!text.contains("NaN") && !text.contains("inf"), "numbers are numbers");
    let pixels = resvg::tiny_skia::Pixmap::load_png(&png).unwrap();
    // The title is drawn in text at the top left, from the built-in font alone.
    let dark = (0..100u32).flat_map(|y| (170..900u32).map(move |x| (x, y)));
    let dark = dark
        .filter(|&(x, y)| pixels.pixel(x, y).is_some_and(|p| p.red() < 100))
        .count();
    assert!(dark > 300, "the picture has a title: {dark}");
    text
}

fn noise(seed: u64) -> f64 {
    (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f64 / (1u64 << 24) as f64
}

fn row(index: u64, length_ns: u64, percentiles: bool) -> Row {
    let tx = (length_ns as f64 * 0.0004 * (1.0 + 0.01 * noise(index))) as u64;
    let slow = 1.0 + noise(index + 77) + if index % 97 == 40 { 30.0 } else { 0.0 };
    let p = |ns: f64| (ns * slow) as u64;
    Row {
        index,
        start_ns: index * length_ns,
        length_ns,
        tx,
        rx: tx,
        latency: Latency {
            count: tx,
            min: 9_000,
            mean: 15_000.0 * slow,
            percentiles: percentiles.then(|| Percentiles {
                p50: p(14e3),
                p90: p(21e3),
                p99: p(42e3),
                p999: p(110e3),
            }),
            max: p(400e3),
        },
        ..Row::default()
    }
}

fn lossy(mut row: Row, lost: u64) -> Row {
    row.lost = lost as i64;
    row.rx -= lost;
    row
}

#[test]
fn a_run_with_loss_late_packets_and_an_outage_is_drawn() {
    let svg = draw(
        "outage",
        (0..600).map(|i| match i {
            200..=212 => lossy(row(i, 100_000_000, true), 38_000),
            300..=330 => Row {
                tx: 0,
                rx: 0,
                latency: Latency::default(),
                ..row(i, 100_000_000, true)
            },
            _ if i % 50 == 7 => Row {
                late: 40,
                ..lossy(row(i, 100_000_000, true), 12)
            },
            _ => row(i, 100_000_000, true),
        }),
    );
    for part in ["outage.csv", "sent ", "p99.9", "stroke-dasharray", "Loss", "late"] {
        assert!(svg.contains(part), "{part}");
    }
}

#[test]
fn what_this_host_dropped_has_a_curve_over_the_time_since_the_reading_before() {
    // A reflector: nothing that it counts is lost. Stopped for 0.4 s, read in the first row after.
    let svg = draw(
        "host-drops",
        (0..60).map(|i| match i {
            26..=28 => Row {
                tx: 0,
                rx: 0,
                latency: Latency::default(),
                ..row(i, 100_000_000, true)
            },
            _ => Row {
                host_dropped: Some(if i == 29 { 33_144 } else { 0 }),
                ..row(i, 100_000_000, true)
            },
        }),
    );
    assert!(!svg.contains("no packet lost"), "33,144 packets were dropped");
    assert!(svg.contains(">dropped by this host<") && svg.contains("dropped by this host 33,144"));
}

#[test]
fn a_clean_run_says_that_nothing_was_lost() {
    assert!(draw("clean", (0..100).map(|i| row(i, 100_000_000, true))).contains("no packet lost"));
}

#[test]
fn one_short_dip_among_many_rows_stays_visible() {
    let flat = draw("fine", (0..50_000).map(|i| row(i, 100_000, false)));
    let dip = draw(
        "dip",
        (0..50_000).map(|i| {
            if i == 30_864 {
                Row {
                    tx: 0,
                    ..lossy(row(i, 100_000, false), 0)
                }
            } else {
                row(i, 100_000, false)
            }
        }),
    );
    assert!(flat.contains(">mean<") && !flat.contains(">p99<"));
    // The envelope reaches the bottom of the rate panel in the second only.
    let bottom = "V318.00";
    let low = |svg: &str| svg.matches("318.00V").count() + svg.matches(bottom).count();
    assert!(low(&dip) > low(&flat), "{} {}", low(&dip), low(&flat));
}

#[test]
fn no_axis_of_loss_goes_beyond_all_of_it() {
    for (name, lost) in [("all", 40_000), ("most", 30_000), ("half", 20_000)] {
        let svg = draw(name, (0..50).map(|i| lossy(row(i, 100_000_000, true), lost)));
        for tick in ["120 %", "150 %", "200 %"] {
            assert!(!svg.contains(&format!(">{tick}<")), "{name}: {tick}");
        }
        assert!(svg.contains(" %<"), "{name}: {svg}");
    }
}

/// The CSV of a run that began at 2026-09-21 14:13:20.123456789 UTC, as `run.csv` of a folder.
fn run_of_twenty_rows() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("run.csv");
    let mut sink = CsvSink::create(&csv).unwrap();
    sink.event(&Event::Start(Start {
        workload: Workload::SendRecv,
        started: Started {
            monotonic_ns: 5,
            utc_ns: 1_790_000_000_123_456_789,
        },
        ..Start::default()
    }));
    (0..20).for_each(|i| sink.event(&Event::Row(&row(i, 100_000_000, true))));
    assert!(sink.finish().is_empty());
    (dir, csv)
}

#[test]
fn the_title_says_what_ran_and_when_where_the_summary_beside_is_the_runs_own() {
    let (dir, csv) = run_of_twenty_rows();
    assert!(draw_file(&csv).contains("run.csv   ·   2026-09-21 14:13:20 UTC<"));
    let summary = |utc: &str| {
        format!(
            r#"{{"workload":"sendrecv","started_utc":"{utc}","host":{{"port":"af_xdp:eth1"}},
                "command":["mpps","sendrecv","af_xdp:eth1","--eal","a b"]}}"#
        )
    };
    std::fs::write(dir.path().join("run.json"), summary("2026-09-21T14:13:20.123456789Z")).unwrap();
    let svg = draw_file(&csv);
    assert!(
        svg.contains("sendrecv af_xdp:eth1   ·   2026-09-21 14:13:20 UTC<"),
        "{svg}"
    );
    assert!(svg.contains(">mpps sendrecv af_xdp:eth1 --eal 'a b'<"), "{svg}");
    // The rows of one of two ways have the words of that way.
    let way = csv.with_file_name("run.b-to-a.csv");
    std::fs::copy(&csv, &way).unwrap();
    let both = summary("2026-09-21T14:13:20.123456789Z").replacen(
        '{',
        r#"{"directions":[{}, {"name":"B to A","workload":"sendrecv","valid":false,"invalid_reasons":["it was slow"],
            "host":{"port":"af_xdp:eth2","arrives_at":"af_xdp:eth1"}}],"#,
        1,
    );
    std::fs::write(dir.path().join("run.json"), both).unwrap();
    let svg = draw_file(&way);
    for part in [
        "sendrecv af_xdp:eth2 af_xdp:eth1   ·   B to A",
        "NOT VALID: it was slow",
        ">mpps sendrecv",
    ] {
        assert!(svg.contains(part), "no '{part}' in {svg}");
    }
    // Of another run: an earlier one of the same name.
    std::fs::write(dir.path().join("run.json"), summary("2026-09-20T14:13:20.123456789Z")).unwrap();
    assert!(!draw_file(&csv).contains("sendrecv"));
}

#[test]
fn short_odd_and_empty_files_are_drawn_too() {
    assert!(draw("header-only", std::iter::empty()).contains("no rows"));
    draw("one-row", std::iter::once(row(0, 1_000_000_000, true)));
    draw(
        "nothing-moved",
        (0..5).map(|i| Row {
            start_ns: i,
            length_ns: 1,
            ..Row::default()
        }),
    );
    let dir = tempfile::tempdir().unwrap();
    // Columns in another order, further ones, a gap in time, a file name that XML does not like.
    let csv = dir.path().join("a<b>&\"c\u{1}.csv");
    let text = "x,rx_packets,time_s,latency_avg_us,tx_packets,loss_ratio\n\
                ?,9,0.5,,10,0.1\n?,8,1.0,3.5,10,0.2\n?,8,9.0,2,10,0.2\n";
    std::fs::write(&csv, text).unwrap();
    let svg = draw_file(&csv);
    assert!(svg.contains("a&lt;b&gt;&amp;") && svg.contains("stroke-dasharray"));
}

#[test]
fn what_is_not_a_run_is_refused_in_one_line_that_names_the_place() {
    let dir = tempfile::tempdir().unwrap();
    let (csv, svg) = (dir.path().join("bad.csv"), dir.path().join("bad.svg"));
    let error = |text: &str| {
        std::fs::write(&csv, text).unwrap();
        let error = plot(&csv, &svg).unwrap_err().to_string();
        assert!(!svg.exists() && !error.contains('\n'), "{error}");
        error
    };
    assert!(error("").ends_with("the file is empty: want a CSV written by --csv"));
    assert!(error("a,b\n1,2\n").contains("line 1: no column time_s"));
    let header = csv_header();
    let cells = header.split(',').count();
    assert!(error(&format!("{header}\n1,2\n")).contains(&format!("line 2: 2 cells, where the header has {cells}")));
    let bad = "time_s,tx_packets,rx_packets\n0,1,1\n1,many,1\n";
    assert!(error(bad).ends_with("line 3, column tx_packets: 'many' is not a number"));
    assert!(error("time_s,tx_packets,rx_packets\nNaN,1,1\n").contains("column time_s: 'NaN'"));
    assert!(
        plot(&dir.path().join("none.csv"), &svg)
            .unwrap_err()
            .to_string()
            .contains("No such file")
    );
    assert!(
        plot(&csv, &dir.path().join("x.pdf"))
            .unwrap_err()
            .to_string()
            .contains(".svg or .png")
    );
    assert!(plot(&csv, Path::new("/nonexistent/x.svg")).is_err());
}

#[test]
fn a_summary_that_is_too_long_to_be_read_is_told_in_one_line_and_the_rows_are_drawn() {
    let (dir, csv) = run_of_twenty_rows();
    let json = dir.path().join("run.json");
    let summary = r#"{"started_utc":"2026-09-21T14:13:20.123456789Z","valid":false,"invalid_reasons":["it was slow"]}"#;
    let (told, limit) = ("run.json is above 16 MiB and was not read", 16 << 20);
    // White space behind a summary is part of none: this is as long as it may be, and then a byte longer.
    for (len, long) in [(limit, false), (limit + 1, true)] {
        std::fs::write(&json, summary.to_owned() + &" ".repeat(len - summary.len())).unwrap();
        let svg = draw_file(&csv);
        assert_eq!(svg.contains(told), long, "{len}: {svg}");
        assert_eq!(svg.contains("NOT VALID: it was slow"), !long, "{len}: {svg}");
        assert!(svg.contains("20 rows<"), "{len}: {svg}");
    }
    // That of both ways, beside the rows of one.
    let way = csv.with_file_name("run.b-to-a.csv");
    std::fs::rename(&csv, &way).unwrap();
    assert!(draw_file(&way).contains(told));
    // In place of a CSV.
    let error = plot(&json, &dir.path().join("x.svg")).unwrap_err().to_string();
    assert!(
        error.ends_with("want a CSV written by --csv") && error.len() < 1000 && !error.contains('\n'),
        "{error}"
    );
}

#[test]
fn a_row_that_was_cut_is_left_out_and_told_and_a_run_that_is_not_valid_says_so() {
    let (dir, csv) = run_of_twenty_rows();
    let whole = std::fs::read(&csv).unwrap();
    let svg = draw_file(&csv);
    assert!(svg.contains("20 rows<") && !svg.contains("NOT VALID"), "{svg}");
    // In the last cell, where the number of cells is right, and in the middle of the row.
    for cut in [5, 60] {
        std::fs::write(&csv, &whole[..whole.len() - cut]).unwrap();
        let svg = draw_file(&csv);
        assert!(svg.contains("19 rows   ·   the last row is cut<"), "{cut}: {svg}");
    }
    let summary = r#"{"started_utc":"2026-09-21T14:13:20.123456789Z","valid":false,
        "invalid_reasons":["nothing was sent","the device failed"]}"#;
    std::fs::write(dir.path().join("run.json"), summary).unwrap();
    let svg = draw_file(&csv);
    assert!(
        svg.contains(">NOT VALID: nothing was sent; the device failed<"),
        "{svg}"
    );
}

#[test]
fn a_run_that_only_sends_has_no_loss_to_show() {
    let only_sent = |i: u64| Row {
        start_ns: i * 100_000_000,
        length_ns: 100_000_000,
        tx: 1000,
        ..Row::default()
    };
    let svg = draw("send", (0..20).map(only_sent));
    assert!(svg.contains("not measured: packets were only sent"), "{svg}");
    assert!(!svg.contains("no packet lost") && !svg.contains("lost 0"), "{svg}");
}

/// Rows of packets that arrive a row after they were sent; the last has what was under way.
fn a_row_later(i: u64) -> Row {
    let sent = row(i, 100_000_000, true);
    let arrived = match i {
        0 => 0,
        19 => 2 * sent.rx,
        _ => row(i - 1, 100_000_000, true).rx,
    };
    Row {
        rx_by_arrival: Some(arrived),
        ..sent
    }
}

#[test]
fn packets_by_arrival_have_a_line_where_it_is_another_than_that_by_sending() {
    let svg = draw("arrivals", (0..20).map(a_row_later));
    assert!(
        svg.contains(">received, by arrival<") && svg.contains(">received<"),
        "{svg}"
    );
    // The last row is no rate: it would double the axis.
    assert!(!svg.contains(">80 000<") && svg.contains("Rate (kpps)"), "{svg}");
    let same = |i| Row {
        rx_by_arrival: Some(row(i, 100_000_000, true).rx),
        ..row(i, 100_000_000, true)
    };
    // One line hides the other; an earlier version's rows have no arrivals.
    for svg in [
        draw("at-once", (0..20).map(same)),
        draw("no-arrivals", (0..20).map(|i| row(i, 100_000_000, true))),
    ] {
        assert!(!svg.contains("by arrival") && svg.contains(">received<"), "{svg}");
    }
    // Several rows in a column of the picture.
    let many = |i| Row {
        rx_by_arrival: Some(if i == 0 { 0 } else { row(i - 1, 100_000, false).rx }),
        ..row(i, 100_000, false)
    };
    assert!(draw("many-arrivals", (0..5_000).map(many)).contains(">received, by arrival<"));
}

#[test]
fn several_runs_lie_over_one_another_by_arrival_and_one_without_by_sending() {
    let dir = tempfile::tempdir().unwrap();
    let csv = |name: &str, rows: &dyn Fn(u64) -> Row| {
        let path = dir.path().join(name);
        let mut sink = CsvSink::create(&path).unwrap();
        (0..20).for_each(|i| sink.event(&Event::Row(&rows(i))));
        assert!(sink.finish().is_empty());
        path
    };
    let new = csv("new.csv", &a_row_later);
    let old = csv("old.csv", &|i| row(i, 100_000_000, true));
    // As an earlier version wrote it: without the column, and those after it.
    let text = std::fs::read_to_string(&old).unwrap();
    let columns = text.lines().next().map(|header| header.split(',')).unwrap();
    let kept = columns.take_while(|name| *name != "rx_by_arrival_packets").count();
    let cut = |line: &str| line.split(',').take(kept).collect::<Vec<_>>().join(",") + "\n";
    std::fs::write(&old, text.lines().map(cut).collect::<String>()).unwrap();
    let picture = |csvs: &[&PathBuf]| {
        let svg = dir.path().join("both.svg");
        let csvs: Vec<PathBuf> = csvs.iter().map(|csv| (*csv).clone()).collect();
        plot_all(&csvs, &svg).unwrap();
        std::fs::read_to_string(&svg).unwrap()
    };
    let (both, twice) = (picture(&[&new, &old]), picture(&[&new, &new]));
    let olds = picture(&[&old, &old]);
    assert!(
        both.contains(">Packets received over time, by arrival where the rows have that<"),
        "{both}"
    );
    assert!(twice.contains(">Packets received over time, by arrival<"), "{twice}");
    assert!(olds.contains(">Packets received over time<"), "{olds}");
    draw_file(&old);
}
