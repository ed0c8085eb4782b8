//! Work of the device's lanes in each trial, if the device is `mpps` on this host: the rows of its `--lanes-csv` that
//! lie in the trial.

use mpps_run::fail::{Result, usage};
use mpps_run::privilege::as_user;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest wait for the last rows: they are written some 200 ms after their end.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of the longest line that is read.
const LONGEST: u64 = 4096;

/// The columns that are read.
const COLUMNS: [&str; 12] = [
    "start_utc_ns",
    "interval_s",
    "lane",
    "rx_packets",
    "rx_bursts",
    "empty_polls",
    "tx_packets",
    "tx_full_packets",
    "busy_us",
    "loop_us",
    "blocked_us",
    "rx_dropped_packets",
];

/// Work of one lane, or of several lanes together, in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Did {
    /// s.
    pub(super) seconds: f64,
    rx: f64,
    bursts: f64,
    empty: f64,
    tx: f64,
    tx_full: f64,
    busy_us: f64,
    loop_us: f64,
    blocked_us: f64,
    /// `None` if the device's path can't know.
    rx_dropped: Option<f64>,
}

/// Part of a whole; `None` of nothing.
fn part(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

impl Did {
    fn per_second(&self, packets: f64) -> Option<f64> {
        part(packets, self.seconds)
    }

    pub(super) fn rx_pps(&self) -> Option<f64> {
        self.per_second(self.rx)
    }

    pub(super) fn tx_pps(&self) -> Option<f64> {
        self.per_second(self.tx)
    }

    /// Dropped by the host before the lane could take them.
    pub(super) fn rx_dropped_pps(&self) -> Option<f64> {
        self.per_second(self.rx_dropped?)
    }

    /// Dropped because the port had no room.
    pub(super) fn tx_full_pps(&self) -> Option<f64> {
        self.per_second(self.tx_full)
    }

    pub(super) fn busy_ratio(&self) -> Option<f64> {
        part(self.busy_us, self.loop_us)
    }

    pub(super) fn blocked_ratio(&self) -> Option<f64> {
        part(self.blocked_us, self.loop_us)
    }

    pub(super) fn empty_poll_share(&self) -> Option<f64> {
        part(self.empty, self.bursts + self.empty)
    }

    /// Packets a receive call that brought any.
    pub(super) fn mean_burst(&self) -> Option<f64> {
        part(self.rx, self.bursts)
    }

    /// Packets a receive call.
    pub(super) fn mean_burst_all_polls(&self) -> Option<f64> {
        part(self.rx, self.bursts + self.empty)
    }

    fn add_counts(&mut self, other: &Self) {
        self.rx += other.rx;
        self.bursts += other.bursts;
        self.empty += other.empty;
        self.tx += other.tx;
        self.tx_full += other.tx_full;
        self.busy_us += other.busy_us;
        self.loop_us += other.loop_us;
        self.blocked_us += other.blocked_us;
        self.rx_dropped = match (self.rx_dropped, other.rx_dropped) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }

    /// Adds another time of the same lane.
    pub(super) fn add_time(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.add_counts(other);
    }

    /// Adds another lane in the same time.
    pub(super) fn add_lane(&mut self, other: &Self) {
        self.seconds = self.seconds.max(other.seconds);
        self.add_counts(other);
    }
}

/// Work of each lane, by its number.
pub(super) type ByLane = BTreeMap<u64, Did>;

/// The file.
#[derive(Debug)]
pub(super) struct Lanes {
    file: File,
}

impl Lanes {
    /// Opens the file, before privileges are given up.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let name = path.display();
        let want = "want the file that mpps forward or mpps reflect, already running, writes by --lanes-csv";
        let opened = as_user(|| {
            let open = || -> io::Result<(File, bool, String)> {
                let mut file = File::open(path)?;
                let regular = file.metadata()?.is_file();
                let mut first = String::new();
                if regular {
                    BufReader::new((&mut file).take(LONGEST)).read_line(&mut first)?;
                }
                Ok((file, regular, first))
            };
            Ok(open())
        })?;
        let (file, regular, first) = opened.map_err(|e| usage(format!("--device {name}: {e}: {want}")))?;
        let columns: Vec<_> = first.trim_end().split(',').collect();
        let missing = COLUMNS.iter().find(|column| !columns.contains(column));
        match missing {
            _ if !regular => Err(usage(format!("--device {name}: no regular file: {want}"))),
            _ if columns.first() == Some(&"time_s") => Err(usage(format!(
                "--device {name}: rows of all lanes together (--csv): {want}"
            ))),
            Some(column) => Err(usage(format!("--device {name}: it has no column {column}: {want}"))),
            None => Ok(Self { file }),
        }
    }

    /// Returns the work of the lanes in each of these times, from and to in ns since 1970, in ascending order. Waits a
    /// little (`PATIENCE`) for rows of the last.
    pub(super) fn during(&self, times: &[(u64, u64)]) -> io::Result<Vec<ByLane>> {
        let until = Instant::now() + PATIENCE;
        let last = times.iter().map(|(_, to)| *to).max().unwrap_or(0);
        loop {
            let mut file = &self.file;
            file.rewind()?;
            let (found, newest) = during(BufReader::new(file.take(LARGEST)), times)?;
            if newest >= last || Instant::now() >= until {
                return Ok(found);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Bytes of a file that are looked at: rows of days.
const LARGEST: u64 = 256 << 20;
/// Number of lanes that are counted separately.
const MOST_LANES: usize = 4096;

/// Reads rows; returns what lanes did in each of the times, and the end of the newest row, ns since 1970. A row that
/// can't be read, as one that is being written, is left out.
fn during(mut rows: impl BufRead, times: &[(u64, u64)]) -> io::Result<(Vec<ByLane>, u64)> {
    let (mut found, mut newest) = (vec![ByLane::new(); times.len()], 0);
    let mut places: Option<Vec<usize>> = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut rows).take(LONGEST).read_until(b'\n', &mut line)? == 0 {
            return Ok((found, newest));
        }
        // The last line may be half written.
        let Some(text) = line.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok()) else {
            continue;
        };
        let cells: Vec<&str> = text.split(',').collect();
        let Some(places) = &places else {
            let place = |column: &&str| cells.iter().position(|cell| cell == column);
            places = COLUMNS.iter().map(place).collect();
            if places.is_none() {
                return Err(io::Error::other(
                    "its first line has no more the columns of --lanes-csv",
                ));
            }
            continue;
        };
        let Some((from, lane, did)) = row(places, &cells) else {
            continue;
        };
        let to = from.saturating_add((did.seconds * 1e9) as u64);
        newest = newest.max(to);
        // Times are of one after another: the first that has not ended is the only one it can lie in.
        let at = times.partition_point(|(_, end)| *end < to);
        let is_in = times.get(at).is_some_and(|(begin, _)| *begin <= from);
        if is_in && (found[at].len() < MOST_LANES || found[at].contains_key(&lane)) {
            found[at].entry(lane).or_default().add_time(&did);
        }
    }
}

/// Start, lane, and what it did.
fn row(places: &[usize], cells: &[&str]) -> Option<(u64, u64, Did)> {
    let cell = |column: usize| cells.get(places[column]).copied();
    let number = |column: usize| {
        let number = cell(column)?.parse::<f64>().ok()?;
        (number.is_finite() && number >= 0.0).then_some(number)
    };
    let did = Did {
        seconds: number(1)?,
        rx: number(3)?,
        bursts: number(4)?,
        empty: number(5)?,
        tx: number(6)?,
        tx_full: number(7)?,
        busy_us: number(8)?,
        loop_us: number(9)?,
        blocked_us: number(10)?,
        rx_dropped: number(11),
    };
    Some((cell(0)?.parse().ok()?, cell(2)?.parse().ok()?, did))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: &str = "start_utc_ns,time_s,interval_s,lane,rx_packets,rx_bursts,empty_polls,taken_packets,\
                          tx_packets,tx_bursts,tx_full,tx_full_packets,busy_us,loop_us,blocked_us,link_down_us,waits,\
                          rx_dropped_packets\n";

    fn line(start: u64, lane: u64, rx: u64, dropped: &str) -> String {
        format!("{start},0.0,0.100000000,{lane},{rx},10,30,{rx},60,9,1,30,50000.000,100000.000,0,0,0,{dropped}\n")
    }

    #[test]
    fn rows_are_of_the_time_that_they_lie_in_and_of_no_other() {
        const TENTH: u64 = 100_000_000;
        let mut text = HEADER.to_owned();
        for at in 0..10 {
            text += &line(at * TENTH, 0, 100, "5");
            text += &line(at * TENTH, 1, 200, "");
        }
        text += "1000000000,0.0,0.1,0,half";
        // In the second time lie only the rows from 0.6 to 0.8 s.
        let times = [(0, 2 * TENTH), (5 * TENTH + 1, 8 * TENTH + 1)];
        let (found, newest) = during(text.as_bytes(), &times).unwrap();
        assert_eq!(newest, 10 * TENTH);
        let rx = |time: usize, lane| found[time][&lane].rx;
        assert_eq!([rx(0, 0), rx(0, 1), rx(1, 0), rx(1, 1)], [200.0, 400.0, 200.0, 400.0]);
        let did = found[0][&0];
        assert!((did.seconds - 0.2).abs() < 1e-9);
        assert_eq!((did.rx_pps(), did.busy_ratio()), (Some(1000.0), Some(0.5)));
        assert_eq!((did.mean_burst(), did.mean_burst_all_polls()), (Some(10.0), Some(2.5)));
        assert_eq!((did.empty_poll_share(), did.rx_dropped_pps()), (Some(0.75), Some(50.0)));
        assert_eq!((did.tx_pps(), did.tx_full_pps()), (Some(600.0), Some(300.0)));
        assert_eq!(found[0][&1].rx_dropped_pps(), None);
        let mut both = did;
        both.add_lane(&found[0][&1]);
        assert_eq!((both.rx_pps(), both.rx_dropped_pps()), (Some(3000.0), Some(50.0)));
    }

    #[test]
    fn another_header_is_told_and_no_rows_are_none() {
        assert!(during("a,b\n1,2\n".as_bytes(), &[(0, 1)]).is_err());
        assert_eq!(during(HEADER.as_bytes(), &[(0, 1)]).unwrap(), (vec![ByLane::new()], 0));
        assert_eq!(Did::default().busy_ratio(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_left_out(junk in prop::collection::vec(any::<u8>(), 0..300), at in 0usize..600) {
            let mut text = format!("{HEADER}{}{}", line(0, 0, 1, ""), line(1, 0, 1, "7")).into_bytes();
            let at = at.min(text.len());
            text.splice(at..at, junk);
            let _ = during(&text[..], &[(0, u64::MAX)]);
        }
    }
}
