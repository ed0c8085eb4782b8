//! The CSV and HDR log: whole, exact, and never in the way.

use mpps_report::{CsvSink, HdrSink, Sinks, csv_header};
use mpps_stats::{Event, Latency, Percentiles, Period, Row, RowFill, Sink, Snapshot, Start, Started, Workload};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

fn row(index: u64) -> Row {
    let latency = Latency {
        count: 10,
        min: 1_001,
        mean: 2_500.5,
        percentiles: Some(Percentiles {
            p50: 2_000,
            p90: 3_000,
            p99: 4_000,
            p999: 5_000,
        }),
        max: 6_007,
    };
    Row {
        index,
        start_ns: index * 100_000,
        length_ns: 100_000,
        tx: 100 + index % 7,
        rx: 99,
        lost: (index % 7) as i64 + 1,
        latency,
        ..Row::default()
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn sums(text: &str) -> (u64, i64, u64) {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().unwrap().clone();
    let column = |name: &str| headers.iter().position(|h| h == name).unwrap();
    let (tx, lost) = (column("tx_packets"), column("lost_packets"));
    let mut sum = (0, 0, 0);
    for record in reader.records() {
        let record = record.unwrap();
        sum.0 += record[tx].parse::<u64>().unwrap();
        sum.1 += record[lost].parse::<i64>().unwrap();
        sum.2 += 1;
    }
    sum
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn the_header_is_the_contracts_and_rows_are_golden() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.csv");
    let mut sink = CsvSink::create(&path).unwrap();
    let started = Started {
        monotonic_ns: 7,
        utc_ns: 1_790_000_000_123_456_789,
    };
    let mut first = row(12_345);
    first.latency_scheduled = Some(Latency {
        percentiles: None,
        ..first.latency
    });
    first.host_wait_ns = Some(1_500_000);
    first.host_dropped = Some(33_144);
    first.own_threads_ns = Some(30_250);
    first.blocked_ns = Some(7_125);
    first.rx_fill = Some(RowFill {
        highest_ppm: 1_000_000,
        mean_ppm: 12_345,
    });
    first.rx_by_arrival = Some(77);
    first.latency_arrival = Some(first.latency);
    first.wake_up = first.latency_scheduled;
    sink.event(&Event::Start(Start {
        workload: Workload::SendRecv,
        started,
        ..Start::default()
    }));
    sink.event(&Event::Row(&first));
    let nothing = Row {
        start_ns: 1,
        length_ns: 99_999,
        lost: -3,
        tx: 5,
        ..Row::default()
    };
    sink.event(&Event::Row(&nothing));
    assert_eq!(sink.finish(), Vec::<String>::new());
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(csv_header().starts_with("time_s,tx_packets,rx_packets,loss_ratio,latency_avg_us,interval_s,"));
    assert_eq!(lines[0], csv_header());
    assert_eq!(
        lines[1],
        "1.234500,104,99,0.048076923,2.501,0.000100000,5,0,0,0,0,0,0,1.001,2.000,3.000,4.000,5.000,6.007,\
         2.501,1.001,,,,,6.007,1500.000,33144,30.250,1790000001357956789,7.125,1.000000,0.012345,77,\
         2026-09-21T14:13:21.357956789Z,0,2.501,1.001,2.000,3.000,4.000,5.000,6.007,2.501,1.001,,,,,6.007"
    );
    assert_eq!(
        lines[2],
        "0.000000,5,0,0.000000000,,0.000099999,-3,0,0,0,0,0,0,,,,,,,,,,,,,,,,,1790000000123456790,,,,,\
         2026-09-21T14:13:20.123456790Z,0,,,,,,,,,,,,,,"
    );
    for line in &lines[1..] {
        assert_eq!(line.split(',').count(), csv_header().split(',').count());
    }
}

#[test]
fn sums_over_all_rows_are_exact_and_rows_appear_while_the_run_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.csv");
    let mut sink = CsvSink::create(&path).unwrap();
    sink.event(&Event::Row(&row(0)));
    wait_until("the first row in the file", || {
        std::fs::read_to_string(&path).unwrap().lines().count() == 2
    });
    (1..50_000).for_each(|i| sink.event(&Event::Row(&row(i))));
    assert!(sink.finish().is_empty());
    let want = (0..50_000)
        .map(row)
        .fold((0, 0, 0), |s, r| (s.0 + r.tx, s.1 + r.lost, s.2 + 1));
    assert_eq!(sums(&std::fs::read_to_string(&path).unwrap()), want);
}

#[test]
fn a_run_without_rows_leaves_a_header() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.csv");
    assert!(CsvSink::create(&path).unwrap().finish().is_empty());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", csv_header()));
}

#[test]
fn a_sink_dropped_without_finish_still_leaves_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let (path, fifo) = (dir.path().join("run.csv"), dir.path().join("fifo"));
    let mut sink = CsvSink::create(&path).unwrap();
    sink.event(&Event::Row(&row(0)));
    drop(sink);
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    // Nobody reads: nothing to wait for.
    make_fifo(&fifo);
    let mut sink = CsvSink::create(&fifo).unwrap();
    sink.event(&Event::Row(&row(0)));
    drop(sink);
}

#[test]
fn what_cannot_be_written_is_refused_at_once() {
    for path in ["/nonexistent/run.csv", "/", "/proc/run.csv"] {
        let error = CsvSink::create(Path::new(path)).err().unwrap().to_string();
        assert!(
            error.starts_with(&format!("open for writing {path}: ")) && !error.contains("os error"),
            "{error}"
        );
        assert!(HdrSink::create(Path::new(path)).is_err());
    }
}

#[test]
fn rows_are_taken_while_the_reader_sleeps_and_none_is_lost() {
    const ROWS: u64 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    make_fifo(&path);
    let mut sink = CsvSink::create(&path).unwrap();
    let (go, wait) = mpsc::channel::<()>();
    let reader = std::thread::spawn({
        let path = path.clone();
        move || {
            let mut reader = BufReader::new(std::fs::File::open(path).unwrap());
            wait.recv().unwrap();
            let mut text = String::new();
            for _ in 0..200 {
                reader.read_line(&mut text).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
            reader.read_to_string(&mut text).unwrap();
            text
        }
    });
    // The reader reads nothing before all of this has returned.
    (0..ROWS).for_each(|i| sink.event(&Event::Row(&row(i))));
    go.send(()).unwrap();
    assert!(sink.finish().is_empty());
    let want = (0..ROWS)
        .map(row)
        .fold((0, 0, 0), |s, r| (s.0 + r.tx, s.1 + r.lost, s.2 + 1));
    let text = reader.join().unwrap();
    assert_eq!(sums(&text), want);
    let times: Vec<&str> = text.lines().skip(1).map(|l| l.split(',').next().unwrap()).collect();
    assert!(
        times
            .windows(2)
            .all(|w| w[0].parse::<f64>().unwrap() < w[1].parse::<f64>().unwrap()),
        "in order"
    );
}

#[test]
fn a_reader_that_never_reads_is_given_up_with_a_note() {
    let dir = tempfile::tempdir().unwrap();
    for opened in [false, true] {
        let path = dir.path().join(format!("fifo{opened}"));
        make_fifo(&path);
        let mut sink = CsvSink::with_patience(&path, Duration::from_millis(300)).unwrap();
        let held = opened.then(|| std::fs::File::options().read(true).write(true).open(&path).unwrap());
        (0..5_000).for_each(|i| sink.event(&Event::Row(&row(i))));
        let notes = sink.finish();
        assert_eq!(notes.len(), 1);
        assert!(
            notes[0].contains("gave up") && notes[0].contains("rows were not written"),
            "{notes:?}"
        );
        drop(held);
    }
}

#[test]
fn a_reader_that_leaves_is_told_once_and_the_run_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    make_fifo(&path);
    let mut sink = CsvSink::create(&path).unwrap();
    let reader = std::thread::spawn({
        let path = path.clone();
        move || {
            BufReader::new(std::fs::File::open(path).unwrap())
                .read_line(&mut String::new())
                .unwrap()
        }
    });
    sink.event(&Event::Row(&row(0)));
    reader.join().unwrap();
    let board = sink.notes();
    let mut i = 1;
    wait_until("the note", || {
        sink.event(&Event::Row(&row(i)));
        i += 1;
        !board.all().is_empty()
    });
    assert_eq!(board.all().len(), 1);
    assert!(board.all()[0].contains("Broken pipe after"), "{:?}", board.all());
    let notes = sink.finish();
    assert!(
        notes.len() == 1 && notes[0].contains("Broken pipe after") && notes[0].contains("the remaining"),
        "{notes:?}"
    );
}

fn of_period(start_ns: u64, length_ns: u64, buckets: &[(u64, u64)]) -> Event<'_> {
    Event::Period(Period {
        start_ns,
        length_ns,
        buckets,
        ..Period::default()
    })
}

/// Takes notes from [`Sinks`].
struct Seen(Arc<Mutex<Vec<String>>>);

impl Sink for Seen {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Note(note) = event {
            self.0.lock().unwrap().push((*note).to_owned());
        }
    }
}

#[test]
fn a_full_device_is_told_at_once_and_in_the_summary_once() {
    let csv = CsvSink::create(Path::new("/dev/full")).unwrap();
    let board = csv.notes();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut sinks = Sinks::new();
    sinks.watch(csv.notes());
    sinks.add(csv);
    sinks.add(Seen(Arc::clone(&seen)));
    (0..100).for_each(|i| sinks.event(&Event::Row(&row(i))));
    wait_until("the note", || !board.all().is_empty());
    (0..100_000).for_each(|i| sinks.event(&Event::Row(&row(i))));
    sinks.event(&Event::Live(&Snapshot::default()));
    let want = "csv: /dev/full: No space left on device after 0 rows; the run goes on without it";
    assert_eq!(*seen.lock().unwrap(), [want]);
    let want = "csv: /dev/full: No space left on device after 0 rows; \
                the run went on, the remaining 100,100 rows are not in the file";
    assert_eq!(sinks.finish(), [want]);
}

#[test]
fn a_disk_that_fills_up_keeps_whole_rows_only() {
    let dir = tempfile::tempdir().unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "mpps-test"])
        .arg(dir.path())
        .output();
    if !mount.as_ref().is_ok_and(|m| m.status.success()) {
        println!("SKIPPED: needs the privilege to mount a tmpfs: {mount:?}");
        return;
    }
    // Detached at once: what is left hangs on this descriptor and goes with it, however the test ends.
    let root = std::fs::File::open(dir.path()).unwrap();
    assert!(
        Command::new("umount")
            .arg("-l")
            .arg(dir.path())
            .status()
            .unwrap()
            .success()
    );
    let path = Path::new("/proc/self/fd")
        .join(root.as_raw_fd().to_string())
        .join("run.csv");
    let mut sink = CsvSink::create(&path).unwrap();
    (0..2_000).for_each(|i| sink.event(&Event::Row(&row(i))));
    let notes = sink.finish();
    assert!(
        notes.len() == 1 && notes[0].contains("No space left on device after "),
        "{notes:?}"
    );
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.ends_with('\n'));
    let (_, _, rows) = sums(&text);
    assert!(
        rows > 100 && notes[0].contains(&format!("after {rows} rows")),
        "{rows} {notes:?}"
    );
    assert!(notes[0].contains("the remaining 1,"), "{notes:?}");
}

#[test]
fn standard_tools_read_the_hdr_log() {
    use base64::Engine;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.hdr");
    let mut sink = HdrSink::create(&path).unwrap();
    sink.event(&Event::Start(Start {
        started: Started {
            utc_ns: 1_700_000_000_123_000_000,
            monotonic_ns: 7,
        },
        ..Start::default()
    }));
    for period in 0..300u64 {
        let buckets = [(1_000 + period, 5), (20_000, 3), (7_000_000_000, 1)];
        sink.event(&of_period(period * 100_000_000, 100_000_000, &buckets));
    }
    sink.event(&of_period(30_000_000_000, 50_000_000, &[]));
    assert!(sink.finish().is_empty());
    let log = std::fs::read(&path).unwrap();
    let text = String::from_utf8(log.clone()).unwrap();
    assert!(text.contains("#[Histogram log format version 1.3]\n#[StartTime: "));
    assert!(
        text.contains("\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n")
    );
    let (mut n, mut start) = (0, None);
    for entry in IntervalLogIterator::new(&log) {
        match entry.unwrap() {
            LogEntry::StartTime(time) => start = Some(time),
            LogEntry::Interval(interval) => {
                assert_eq!(interval.start_timestamp(), Duration::from_millis(100 * n));
                let bytes = base64::engine::general_purpose::STANDARD
                    .decode(interval.encoded_histogram())
                    .unwrap();
                let histogram: hdrhistogram::Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
                if n == 300 {
                    assert_eq!((histogram.len(), interval.duration()), (0, Duration::from_millis(50)));
                } else {
                    assert_eq!(histogram.len(), 9);
                    assert!(histogram.value_at_quantile(0.5).abs_diff(1_000 + n) <= 1);
                    assert!(histogram.max().abs_diff(7_000_000_000) <= 7_000_000);
                }
                n += 1;
            }
            LogEntry::BaseTime(_) => panic!("no base time was written"),
        }
    }
    assert_eq!(n, 301);
    // The run's start, whenever the first period closed: that is a settle time later.
    let off = start.unwrap().abs_diff(Duration::from_millis(1_700_000_000_123));
    assert!(off < Duration::from_millis(1), "{start:?}");
}

#[test]
fn a_run_that_never_begins_leaves_no_file_that_was_not_there_and_those_that_were_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let [new, old, other] = ["new", "old", "other"].map(|name| folder.path().join(name));
    std::fs::write(&old, "an earlier run's").unwrap();
    for path in [&new, &old] {
        drop(CsvSink::create(path).unwrap());
        drop(HdrSink::create(path).unwrap());
        assert_eq!(path.exists(), path == &old);
    }
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "an earlier run's");
    std::fs::write(&old, "").unwrap();
    drop(CsvSink::create(&old).unwrap());
    assert!(old.exists(), "an empty file that was there");
    // What somebody else has put there meanwhile is theirs.
    let sink = CsvSink::create(&new).unwrap();
    std::fs::write(&new, "somebody's").unwrap();
    std::fs::rename(&new, &other).unwrap();
    std::fs::write(&new, "").unwrap();
    drop(sink);
    assert!(new.exists() && other.exists());
    std::fs::remove_file(&new).unwrap();
    // One that begins has a file, rows or not.
    let mut sink = CsvSink::create(&new).unwrap();
    assert!(sink.finish().is_empty());
    drop(sink);
    assert!(std::fs::read_to_string(&new).unwrap().starts_with("time_s,"));
}
