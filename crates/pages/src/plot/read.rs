//! Reads a CSV into as many bins as the picture has columns of pixels.
//!
//! Two passes: the first finds the extent, the second sorts rows into bins. Memory depends on the picture only, not
//! on the run; every bin keeps minimum and maximum, so that a dip of one interval in a run of hours stays visible.

use super::about::{LONGEST_LINE, rows_of};
use super::bins::{Bin, LATENCY, P50, Run};
use mpps_report::ReportError;
use mpps_sys::text::byte_order_mark;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Most bins in the picture.
pub(crate) const BINS: usize = 900;

struct Columns {
    time: usize,
    tx: usize,
    rx: usize,
    loss_ratio: Option<usize>,
    interval: Option<usize>,
    lost: Option<usize>,
    late: Option<usize>,
    duplicates: Option<usize>,
    reordered: Option<usize>,
    corrupt: Option<usize>,
    host_dropped: Option<usize>,
    rx_by_arrival: Option<usize>,
    latency: [Option<usize>; 7],
}

/// Input of the reader.
#[derive(Clone, Copy)]
enum Source<'p> {
    File(&'p Path),
    Bytes(&'p [u8]),
}

impl<'p> Source<'p> {
    /// Returns the path that errors name.
    fn path(self) -> &'p Path {
        match self {
            Self::File(path) => path,
            Self::Bytes(_) => Path::new("-"),
        }
    }

    /// Opens the input. Returns a reader, its number of bytes, and whether its last line has no end.
    fn open(self) -> io::Result<(Box<dyn io::Read + 'p>, u64, bool)> {
        match self {
            Self::File(path) => {
                let file = File::open(path)?;
                let (length, torn) = end(&file)?;
                Ok((Box::new(file), length, torn))
            }
            Self::Bytes(bytes) => {
                let torn = bytes.last().is_some_and(|last| *last != b'\n');
                Ok((Box::new(bytes), bytes.len() as u64, torn))
            }
        }
    }
}

/// Refuses a line longer than any row: the CSV reader would keep all of it in memory.
struct Lines<R> {
    inner: R,
    /// Bytes since the last end of a line.
    since: u64,
}

impl<R: io::Read> io::Read for Lines<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buf)?;
        self.since = match buf[..read].iter().rposition(|byte| *byte == b'\n') {
            Some(at) => (read - 1 - at) as u64,
            None => self.since + read as u64,
        };
        if self.since > LONGEST_LINE {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "a line of more than {} KiB: want a CSV written by --csv",
                    LONGEST_LINE >> 10
                ),
            ));
        }
        Ok(read)
    }
}

struct Reader<'p> {
    path: &'p Path,
    csv: csv::Reader<Lines<Box<dyn io::Read + 'p>>>,
    headers: csv::StringRecord,
    columns: Columns,
    /// Bytes of the file, and whether its last line has no end.
    length: u64,
    torn: bool,
}

impl<'p> Reader<'p> {
    fn open(source: Source<'p>) -> Result<Self, ReportError> {
        let path = source.path();
        let (file, length, torn) = source.open().map_err(|e| ReportError::io("read", path, e))?;
        let lines = Lines { inner: file, since: 0 };
        let mut csv = rows_of(lines);
        let headers = csv.headers().map_err(|e| wrong(path, &e))?.clone();
        if headers.is_empty() {
            return Err(ReportError::malformed(
                path,
                "the file is empty: want a CSV written by --csv",
            ));
        }
        let find = |name: &str| headers.iter().position(|header| header == name);
        let need = |name: &str| {
            find(name).ok_or_else(|| {
                let why = separated_by(&headers).unwrap_or_default();
                ReportError::malformed(
                    path,
                    format!("line 1: no column {name}{why}: want a CSV written by --csv"),
                )
            })
        };
        let columns = Columns {
            time: need("time_s")?,
            tx: need("tx_packets")?,
            rx: need("rx_packets")?,
            loss_ratio: find("loss_ratio"),
            interval: find("interval_s"),
            lost: find("lost_packets"),
            late: find("late_packets"),
            duplicates: find("duplicate_packets"),
            reordered: find("reordered_packets"),
            corrupt: find("corrupt_packets"),
            host_dropped: find("host_dropped_packets"),
            rx_by_arrival: find("rx_by_arrival_packets"),
            latency: LATENCY.map(find),
        };
        Ok(Self {
            path,
            csv,
            headers,
            columns,
            length,
            torn,
        })
    }

    /// Reads the next row; false after the last complete one. A run that was killed leaves a row without its end.
    fn next(&mut self, record: &mut csv::StringRecord) -> Result<bool, ReportError> {
        match self.csv.read_record(record) {
            Ok(false) => Ok(false),
            _ if self.torn && self.csv.position().byte() >= self.length => Ok(false),
            result => result.map_err(|e| wrong(self.path, &e)),
        }
    }

    /// Returns the cell of `column`; `None` if it is empty or the column is missing.
    fn cell(&self, record: &csv::StringRecord, column: Option<usize>) -> Result<Option<f64>, ReportError> {
        let Some(column) = column else { return Ok(None) };
        let text = record.get(column).unwrap_or_default();
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Some(value)),
            _ => {
                let line = record.position().map_or(0, csv::Position::line);
                let name = self.headers.get(column).unwrap_or_default();
                let decimal = text.replacen(',', ".", 1).parse::<f64>().is_ok();
                let why = if decimal {
                    " (a decimal comma: want a point)"
                } else {
                    ""
                };
                Err(ReportError::malformed(
                    self.path,
                    format!("line {line}, column {name}: '{text}' is not a number{why}"),
                ))
            }
        }
    }
}

/// Returns the separator of a header that does not use commas: spreadsheets of many countries write semicolons.
fn separated_by(headers: &csv::StringRecord) -> Option<&'static str> {
    let first = headers.get(0)?;
    [
        (';', " (columns are separated by semicolons: want commas)"),
        ('\t', " (columns are separated by tabs: want commas)"),
    ]
    .into_iter()
    .filter(|(separator, _)| first.contains(*separator))
    .find_map(|(separator, why)| first.split(separator).any(|name| name == "time_s").then_some(why))
}

/// Returns the bytes of a file, and whether its last line has no end.
fn end(file: &File) -> io::Result<(u64, bool)> {
    let length = file.metadata()?.len();
    let mut last = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    Ok((length, last != [b'\n']))
}

/// Returns the byte order mark at the start of a file, if any.
fn mark(file: &File) -> Option<&'static str> {
    let mut first = [0; 3];
    let read = file.read_at(&mut first, 0).ok()?;
    byte_order_mark(&first[..read])
}

fn wrong(path: &Path, error: &csv::Error) -> ReportError {
    let line = error.position().map_or(0, csv::Position::line);
    let message = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("line {line}: {len} cells, where the header has {expected_len}")
        }
        csv::ErrorKind::Utf8 { .. } => match File::open(path).ok().and_then(|file| mark(&file)) {
            Some(mark) => format!("it begins with {mark}: want UTF-8"),
            None => format!("line {line}: not text"),
        },
        _ => error.to_string(),
    };
    ReportError::malformed(path, message)
}

struct Extent {
    rows: u64,
    from: f64,
    to: f64,
    /// Length of a row if the CSV does not contain it, s.
    interval: f64,
}

fn extent(source: Source<'_>) -> Result<Extent, ReportError> {
    let mut reader = Reader::open(source)?;
    let mut record = csv::StringRecord::new();
    let mut extent = Extent {
        rows: 0,
        from: f64::INFINITY,
        to: 0.0,
        interval: 0.0,
    };
    let mut before = None;
    while reader.next(&mut record)? {
        let time = reader.cell(&record, Some(reader.columns.time))?.unwrap_or(0.0);
        if let Some(before) = before
            && extent.interval == 0.0
        {
            extent.interval = f64::max(time - before, 0.0);
        }
        before = Some(time);
        let length = reader
            .cell(&record, reader.columns.interval)?
            .unwrap_or(extent.interval);
        extent.rows += 1;
        extent.from = extent.from.min(time);
        extent.to = extent.to.max(time + length.max(0.0));
    }
    if extent.rows == 0 {
        extent.from = 0.0;
    }
    if extent.interval == 0.0 {
        extent.interval = 1.0;
    }
    if extent.to <= extent.from {
        extent.to = extent.from + extent.interval;
    }
    Ok(extent)
}

/// Rows since the last reading of this host's drops: a cell contains all drops since the cell before.
#[derive(Default)]
struct Unread {
    /// The bin of the first of these rows.
    from: Option<usize>,
    rx: f64,
}

impl Unread {
    fn row(&mut self, bins: &mut [Bin], index: usize, rx: f64, dropped: Option<f64>) {
        let from = *self.from.get_or_insert(index);
        self.rx += rx;
        let Some(dropped) = dropped else { return };
        let reached = self.rx + dropped;
        // Times may go back from row to row.
        for bin in &mut bins[from.min(index)..=index] {
            bin.drop_ratio.add((reached > 0.0).then(|| dropped / reached));
        }
        *self = Self::default();
    }
}

/// Reads the CSV at `path`.
pub(crate) fn read(path: &Path) -> Result<Run, ReportError> {
    read_from(Source::File(path))
}

/// Reads a CSV that is in memory.
pub(crate) fn read_bytes(bytes: &[u8]) -> Result<Run, ReportError> {
    read_from(Source::Bytes(bytes))
}

fn read_from(source: Source<'_>) -> Result<Run, ReportError> {
    let extent = extent(source)?;
    let mut run = Run {
        rows: extent.rows,
        from: extent.from,
        to: extent.to,
        ..Run::default()
    };
    run.folded = extent.rows > BINS as u64;
    let width = (extent.to - extent.from) / BINS as f64;
    if run.folded {
        run.bins = equal_bins(&extent, width);
    }
    let mut reader = Reader::open(source)?;
    let mut record = csv::StringRecord::new();
    run.torn = reader.torn;
    let mut unread = Unread::default();
    let mut seen = 0;
    while reader.next(&mut record)? {
        let columns = &reader.columns;
        let get = |column| reader.cell(&record, column);
        let time = get(Some(columns.time))?.unwrap_or(0.0);
        let length = get(columns.interval)?.filter(|l| *l > 0.0).unwrap_or(extent.interval);
        let index = if run.folded {
            (((time - extent.from) / width) as usize).min(BINS - 1)
        } else {
            add_bin(&mut run.bins, time, length)
        };
        let tx = get(Some(columns.tx))?.unwrap_or(0.0);
        let rx = get(Some(columns.rx))?.unwrap_or(0.0);
        let arrived = get(columns.rx_by_arrival)?;
        let ratio = get(columns.loss_ratio)?;
        let lost = get(columns.lost)?.unwrap_or(ratio.unwrap_or(0.0) * tx);
        let late = get(columns.late)?.unwrap_or(0.0);
        run.tx += tx;
        run.rx += rx;
        run.lost += lost;
        run.late += late;
        run.duplicates += get(columns.duplicates)?.unwrap_or(0.0);
        run.reordered += get(columns.reordered)?.unwrap_or(0.0);
        run.corrupt += get(columns.corrupt)?.unwrap_or(0.0);
        // A receiver's rows have no tx: its loss is relative to the packets that should have arrived.
        let base = if tx > 0.0 { tx } else { rx + lost.max(0.0) };
        let bin = &mut run.bins[index];
        bin.rows += 1;
        bin.tx += tx;
        bin.rx += rx;
        bin.lost += lost;
        bin.late += late;
        bin.tx_rate.add(Some(tx / length));
        bin.rx_rate.add(Some(rx / length));
        run.arrivals |= arrived.is_some_and(|packets| packets != rx);
        // The last row also contains the arrivals of the settle time: they would give no true rate.
        seen += 1;
        let ends = seen == run.rows && seen > 1 && arrived != Some(rx);
        bin.arrival_rate
            .add(arrived.filter(|_| !ends).map(|packets| packets / length));
        bin.loss_ratio.add((base > 0.0).then(|| lost.max(0.0) / base));
        bin.late_ratio.add((base > 0.0).then(|| late / base));
        for (band, column) in bin.latency.iter_mut().zip(columns.latency) {
            band.add(reader.cell(&record, column)?.map(|us| us * 1000.0));
        }
        let dropped = reader.cell(&record, reader.columns.host_dropped)?;
        run.host_dropped += dropped.unwrap_or(0.0);
        run.percentiles |= bin.latency[P50].mean().is_some();
        unread.row(&mut run.bins, index, rx, dropped);
    }
    Ok(run)
}

/// Returns empty bins of one width for all of the run.
fn equal_bins(extent: &Extent, width: f64) -> Vec<Bin> {
    let edge = |i: usize| extent.from + width * i as f64;
    (0..BINS)
        .map(|i| Bin {
            from: edge(i),
            to: edge(i + 1),
            ..Bin::default()
        })
        .collect()
}

/// Adds a bin for one row, and returns its position.
fn add_bin(bins: &mut Vec<Bin>, time: f64, length: f64) -> usize {
    // A step back or a gap in time gets its own bin, without rows.
    if let Some(last) = bins.last().map(|bin| bin.to)
        && time - last > length * 0.5
    {
        bins.push(Bin {
            from: last,
            to: time,
            ..Bin::default()
        });
    }
    bins.push(Bin {
        from: time,
        to: time + length,
        ..Bin::default()
    });
    bins.len() - 1
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
