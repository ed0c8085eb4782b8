//! A run's results, read back from its files, and what holds for all of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::Value;

use crate::{Background, Finished};

/// One row of the CSV: cell by column.
pub type Row = HashMap<String, String>;

/// Columns without a heading, of all tables of a test's result.
pub fn unheaded(result: &Value) -> Vec<String> {
    let tables = result["tables"].as_array().into_iter().flatten();
    let columns = tables.flat_map(|table| table["columns"].as_array().into_iter().flatten());
    let bare = columns.filter(|column| column["title"].as_str().is_none_or(|title| title.trim().is_empty()));
    bare.map(|column| column["key"].to_string()).collect()
}

/// A folder for one run's files, removed when dropped.
pub struct Scratch(tempfile::TempDir);

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    /// A new folder.
    ///
    /// # Panics
    /// When it can't be made.
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Adds CSV, JSON and histogram log in this folder to a run's arguments.
    #[must_use]
    pub fn results(&self, mut command: Command) -> Command {
        for kind in ["csv", "json", "hdr"] {
            command.arg(format!("--{kind}")).arg(self.file(&format!("run.{kind}")));
        }
        command
    }

    /// As [`results`](Self::results), with a trace.
    #[must_use]
    pub fn traced(&self, command: Command) -> Command {
        let mut command = self.results(command);
        command.arg("--trace").arg(self.file("run.pftrace.gz"));
        command
    }

    /// Rows that the CSV holds so far.
    pub fn rows_so_far(&self) -> usize {
        let text = std::fs::read_to_string(self.file("run.csv")).unwrap_or_default();
        text.matches('\n').count().saturating_sub(1)
    }

    /// Packets received, over the rows that the CSV holds so far.
    pub fn received_so_far(&self) -> u64 {
        self.sum_so_far(&["rx_packets"])
    }

    /// Packets that came at all, the test's or not, over the rows that the CSV holds so far.
    pub fn seen_so_far(&self) -> u64 {
        self.sum_so_far(&["rx_packets", "corrupt_packets", "foreign_packets"])
    }

    fn sum_so_far(&self, columns: &[&str]) -> u64 {
        let text = std::fs::read_to_string(self.file("run.csv")).unwrap_or_default();
        // The last line may be half written.
        let mut lines = text[..text.rfind('\n').unwrap_or(0)].lines();
        let header: Vec<_> = lines.next().unwrap_or_default().split(',').collect();
        let wanted = |(name, cell): (&&str, &str)| columns.contains(name).then(|| cell.parse::<u64>().ok())?;
        lines
            .map(|row| header.iter().zip(row.split(',')).filter_map(wanted).sum::<u64>())
            .sum()
    }

    /// Rows that the CSV holds so far with something sent or received in them.
    pub fn busy_rows(&self) -> usize {
        let text = std::fs::read_to_string(self.file("run.csv")).unwrap_or_default();
        let whole = &text[..text.rfind('\n').unwrap_or(0)];
        let busy = |line: &&str| line.split(',').skip(1).take(2).any(|cell| cell != "0");
        whole.lines().skip(1).filter(busy).count()
    }

    /// Runs to the end and reads the results.
    pub fn measure(&self, command: Command) -> Report {
        let finished = Background::start(self.results(command)).finish();
        self.read(finished)
    }

    /// Reads the results of a run that has ended.
    ///
    /// # Panics
    /// When they are not there or not what they should be.
    pub fn read(&self, finished: Finished) -> Report {
        let json = std::fs::read_to_string(self.file("run.json"))
            .unwrap_or_else(|e| panic!("no JSON ({e}), exit code {:?}: {}", finished.code, finished.stderr));
        let json = serde_json::from_str(&json).unwrap_or_else(|e| panic!("JSON: {e}: {json}"));
        let csv = std::fs::read(self.file("run.csv")).expect("a CSV");
        let log = std::fs::read(self.file("run.hdr")).expect("a histogram log");
        Report {
            json,
            rows: rows(&csv),
            logged: logged(&log),
            finished,
        }
    }
}

impl Scratch {
    /// Reads the results of one of two ways of a run: its place in `directions`, and the files of it.
    ///
    /// # Panics
    /// When they are not there or not what they should be.
    pub fn read_way(&self, both: &Report, way: usize) -> Report {
        let json = both.json["directions"][way].clone();
        let name = ["a-to-b", "b-to-a"][way];
        let file = |kind| std::fs::read(self.file(&format!("run.{name}.{kind}"))).expect("a file of each way");
        // The exit code is that of both.
        let code = json["valid"].as_bool().map(|valid| if valid { 0 } else { 3 });
        Report {
            json,
            rows: rows(&file("csv")),
            logged: logged(&file("hdr")),
            finished: Finished {
                code,
                stdout: String::new(),
                stderr: String::new(),
            },
        }
    }
}

/// The rows of a CSV; refuses one whose rows are not all as long as the header.
fn rows(csv: &[u8]) -> Vec<Row> {
    let mut reader = csv::Reader::from_reader(csv);
    let first = ["time_s", "tx_packets", "rx_packets", "loss_ratio", "latency_avg_us"];
    let header = reader.headers().expect("a header").clone();
    assert!(header.iter().take(5).eq(first), "{header:?}");
    reader
        .deserialize()
        .map(|row| row.expect("a row as long as the header"))
        .collect()
}

/// Packets in a histogram log, as any tool that reads such logs finds them.
fn logged(log: &[u8]) -> u64 {
    let mut deserializer = Deserializer::new();
    let mut total = 0;
    for entry in IntervalLogIterator::new(log) {
        if let LogEntry::Interval(interval) = entry.expect("an entry of a log") {
            let encoded = interval.encoded_histogram();
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(encoded)
                .expect("base64");
            let histogram: Histogram<u64> = deserializer.deserialize(&mut &bytes[..]).expect("a histogram");
            total += histogram.len();
        }
    }
    total
}

/// All that one run has reported.
#[derive(Debug)]
pub struct Report {
    /// The JSON summary.
    pub json: Value,
    /// The CSV.
    pub rows: Vec<Row>,
    /// How it ended.
    pub finished: Finished,
    /// Packets in the histogram log.
    pub logged: u64,
}

impl Report {
    /// A whole number of the summary, by key or by JSON pointer.
    ///
    /// # Panics
    /// When it is not there.
    pub fn count(&self, key: &str) -> u64 {
        let found = if key.starts_with('/') {
            self.json.pointer(key)
        } else {
            self.json.get(key)
        };
        found
            .and_then(Value::as_u64)
            .unwrap_or_else(|| panic!("{key} in {:#}", self.json))
    }

    /// How often `reflect` or `drop` gave this reason; 0 when never.
    pub fn reason(&self, name: &str) -> u64 {
        self.json["reasons"].get(name).and_then(Value::as_u64).unwrap_or(0)
    }

    /// Sum over the lanes of a whole number of theirs.
    pub fn lanes(&self, key: &str) -> u64 {
        self.each_lane(|lane| lane[key].as_u64())
    }

    /// Sum over the lanes of one of the path's own counters, which not all of them need to have.
    ///
    /// # Panics
    /// When none has it.
    pub fn path_counter(&self, name: &str) -> u64 {
        let lanes = self.json["lanes"].as_array().expect("lanes");
        let counts = lanes.iter().filter_map(|lane| lane["path_counters"][name].as_u64());
        counts
            .reduce(|a, b| a + b)
            .unwrap_or_else(|| panic!("{name} in {lanes:#?}"))
    }

    fn each_lane(&self, of: impl Fn(&Value) -> Option<u64>) -> u64 {
        let lanes = self.json["lanes"].as_array().expect("lanes");
        lanes
            .iter()
            .map(|lane| of(lane).unwrap_or_else(|| panic!("{lane:#}")))
            .sum()
    }

    /// Sum of a column of whole numbers.
    ///
    /// # Panics
    /// When a cell holds none.
    pub fn column(&self, name: &str) -> i64 {
        let cell = |row: &Row| {
            row[name]
                .parse::<i64>()
                .unwrap_or_else(|e| panic!("{name}: {e}: {row:?}"))
        };
        self.rows.iter().map(cell).sum()
    }

    /// Invalid reasons, warnings and standard error as one text.
    pub fn said(&self) -> String {
        format!(
            "{} {} {}",
            self.json["invalid_reasons"], self.json["warnings"], self.finished.stderr
        )
    }

    /// First remark of this name, if there is one.
    pub fn remark(&self, name: &str) -> Option<&Value> {
        let remarks = self.json["remarks"].as_array()?;
        remarks.iter().find(|remark| remark["name"] == name)
    }

    /// Checks that the remarks are the reasons and then the warnings, with names and values of the documentation.
    fn assert_remarks(&self) {
        let remarks = self.json["remarks"].as_array().expect("a list");
        let sentences = |invalid: bool| {
            let of = remarks.iter().filter(|remark| remark["invalid"] == invalid);
            Value::Array(of.map(|remark| remark["sentence"].clone()).collect())
        };
        assert_eq!(sentences(true), self.json["invalid_reasons"], "{remarks:#?}");
        assert_eq!(sentences(false), self.json["warnings"], "{remarks:#?}");
        assert!(
            remarks.is_sorted_by_key(|remark| remark["invalid"] == false),
            "{remarks:#?}"
        );
        let page = include_str!("../../docs/use/verdict.md");
        for remark in remarks {
            let name = remark["name"].as_str().expect("a name");
            let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
            let cells: Vec<_> = row
                .unwrap_or_else(|| panic!("no row for {name}"))
                .split(" | ")
                .collect();
            let excluded = if remark["invalid"] == true { "never" } else { "always" };
            assert_ne!(cells[1], excluded, "{remark:#}");
            for key in remark["values"].as_object().expect("values").keys() {
                assert!(
                    key == "track" || cells[2].contains(&format!("`{key}`")),
                    "{key}: {remark:#}"
                );
            }
        }
    }

    /// Checks what must hold for every run that sends, whatever happened to its packets: each of them is accounted
    /// for once, in the summary, in the rows and in the histograms.
    ///
    /// # Panics
    /// When something does not add up.
    pub fn assert_accounted(&self) {
        self.assert_rows_add_up();
        let (tx, rx) = (self.count("tx_packets"), self.count("rx_packets"));
        let (lost, late) = (self.count("lost"), self.count("late"));
        if self.json["workload"] != "send" {
            let known = tx - self.count("untagged_packets");
            assert_eq!(known, rx + lost + late, "known = rx + lost + late: {:#}", self.json);
        }
        assert_eq!(tx, self.lanes("tx_packets"), "the lanes' packets: {:#}", self.json);
    }

    /// Checks that every departure of the schedule was sent or counts as missed. For a run that was not ended early.
    ///
    /// # Panics
    /// When one is unaccounted for.
    pub fn assert_departures(&self, planned: u64) {
        assert_eq!(
            self.count("tx_packets") + self.count("missed"),
            planned,
            "departures: {:#}",
            self.json
        );
    }

    /// Checks that the rows follow each other without a gap and sum up to the summary, that the histograms hold every
    /// packet received, and that verdict and exit code agree.
    ///
    /// # Panics
    /// When something does not add up.
    pub fn assert_rows_add_up(&self) {
        for (column, key) in [
            ("tx_packets", "tx_packets"),
            ("rx_packets", "rx_packets"),
            ("lost_packets", "lost"),
            ("late_packets", "late"),
            ("duplicate_packets", "duplicates"),
            ("reordered_packets", "reordered"),
            ("corrupt_packets", "corrupt"),
            ("foreign_packets", "foreign"),
            ("missed_packets", "missed"),
            ("untagged_packets", "untagged_packets"),
        ] {
            assert_eq!(
                self.column(column),
                self.count(key) as i64,
                "sum of {column}: {:#}",
                self.json
            );
        }
        // Empty where nothing is received, and in short rows where the kernel counts.
        let arrived = |row: &Row| row["rx_by_arrival_packets"].parse::<u64>().ok();
        if self.rows.iter().any(|row| arrived(row).is_some()) {
            let arrived: u64 = self.rows.iter().filter_map(arrived).sum();
            assert_eq!(arrived, self.count("rx_packets"), "arrivals: {:#}", self.json);
        }
        // A cell is empty where the counters were not read.
        let dropped = self
            .rows
            .iter()
            .filter_map(|row| row["host_dropped_packets"].parse::<u64>().ok());
        let dropped: u64 = dropped.sum();
        assert_eq!(dropped, self.lanes("rx_dropped"), "drops by the host: {:#}", self.json);
        assert_eq!(
            dropped,
            self.json["host_dropped"].as_u64().unwrap_or(0),
            "{:#}",
            self.json
        );
        let seconds = |row: &Row, name: &str| row[name].parse::<f64>().expect("seconds");
        for pair in self.rows.windows(2) {
            let end = seconds(&pair[0], "time_s") + seconds(&pair[0], "interval_s");
            assert!(
                (end - seconds(&pair[1], "time_s")).abs() < 2e-6,
                "a gap between {pair:?}"
            );
        }
        // A collector that was kept from its rows (deleting a device holds it up) keeps counts exact, not the moments
        // or the histograms of the rows that it stepped over; it says so.
        let (measured, said) = (self.count("/latency_ns/count"), self.said());
        match said.contains("the collector was kept from running") {
            true => {
                let fewer = said.contains("latency percentiles rest on");
                assert_eq!(
                    self.logged < measured,
                    fewer,
                    "{} {measured}: {:#}",
                    self.logged,
                    self.json
                );
            }
            false => assert_eq!(self.logged, measured, "histogram log: {:#}", self.json),
        }
        self.assert_remarks();
        let valid = self.json["valid"].as_bool().expect("a verdict");
        assert_eq!(
            self.json["invalid_reasons"].as_array().expect("a list").is_empty(),
            valid,
            "{:#}",
            self.json
        );
        let code = self.finished.code;
        assert_eq!(
            code,
            Some(if valid { 0 } else { 3 }),
            "{:#} {}",
            self.json,
            self.finished.stderr
        );
    }
}

/// Counts that each way of a run has, and their sum.
pub const COUNTS: [&str; 9] = [
    "tx_packets",
    "rx_packets",
    "lost",
    "late",
    "duplicates",
    "reordered",
    "corrupt",
    "foreign",
    "missed",
];

/// The report of both ways, that of the first and that of the second: every packet is accounted for in each, and they
/// add up.
pub fn accounted_by_way(scratch: &Scratch, both: Report) -> [Report; 3] {
    both.assert_accounted();
    let [there, back] = [0, 1].map(|way| scratch.read_way(&both, way));
    for (way, name) in [(&there, "A to B"), (&back, "B to A")] {
        assert_eq!(way.json["name"], name);
        way.assert_accounted();
    }
    for key in COUNTS.into_iter().chain(["/latency_ns/count"]) {
        let of_ways = there.count(key) + back.count(key);
        assert_eq!(both.count(key), of_ways, "{key}: {:#}", both.json);
    }
    [both, there, back]
}
