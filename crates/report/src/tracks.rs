//! Runs with packets in two directions at the same time: files of each direction beside those of both.

use mpps_stats::{Event, Sink, Wants};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names of the directions in file names: `run.a-to-b.csv` beside `run.csv`.
pub const WAYS: [&str; 2] = ["a-to-b", "b-to-a"];

/// Returns the file of a direction ([`WAYS`]) beside `path`; `None` if there is no place beside it: standard output, a
/// FIFO, a device.
pub fn of_way(path: &Path, way: &str) -> Option<PathBuf> {
    let elsewhere = path == Path::new("-") || std::fs::metadata(path).is_ok_and(|meta| !meta.is_file());
    let stem = path.file_stem().filter(|_| !elsewhere)?;
    let mut name = stem.to_owned();
    name.push(".");
    name.push(way);
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    Some(path.with_file_name(name))
}

/// Returns the index of the direction that `path` is a file of, and the file of both directions, which is beside it.
pub fn of_both(path: &Path) -> Option<(usize, PathBuf)> {
    let stem = path.file_stem()?.to_str()?;
    let (way, both) = WAYS.iter().enumerate().find_map(|(way, name)| {
        let both = stem.strip_suffix(name)?.strip_suffix('.')?;
        (!both.is_empty()).then_some((way, both))
    })?;
    let mut name = OsString::from(both);
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    Some((way, path.with_file_name(name)))
}

/// Gives a sink the rows and histograms of one direction, as if there were no other.
pub struct OfTrack<S> {
    /// Index of the direction.
    pub way: usize,
    /// Sink that receives them.
    pub sink: S,
}

impl<S: Sink> Sink for OfTrack<S> {
    fn wants(&self) -> Wants {
        Wants {
            snapshots: false,
            lanes: false,
            ..self.sink.wants()
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::RowOfTrack(way, row) if *way == self.way => self.sink.event(&Event::Row(row)),
            Event::PeriodOfTrack(way, period) if *way == self.way => self.sink.event(&Event::Period(*period)),
            Event::Start(_) => self.sink.event(event),
            _ => {}
        }
    }

    fn finish(&mut self) -> Vec<String> {
        self.sink.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_way_is_beside_that_of_both_and_leads_back_to_it() {
        for (both, there) in [
            ("/nowhere/run.csv", "/nowhere/run.a-to-b.csv"),
            ("/nowhere/run", "/nowhere/run.a-to-b"),
            ("/nowhere/a.b.hdr", "/nowhere/a.b.a-to-b.hdr"),
        ] {
            assert_eq!(of_way(Path::new(both), WAYS[0]).as_deref(), Some(Path::new(there)));
        }
        for path in ["-", "/dev/null", "/"] {
            assert_eq!(of_way(Path::new(path), WAYS[0]), None, "{path}");
        }
        let back = |path: &str| of_both(Path::new(path)).map(|(way, path)| (way, path.display().to_string()));
        assert_eq!(back("x/run.b-to-a.csv"), Some((1, "x/run.csv".to_owned())));
        assert_eq!(back("x/a.b.a-to-b.csv"), Some((0, "x/a.b.csv".to_owned())));
        assert_eq!((back("x/run.csv"), back("x/.a-to-b.csv")), (None, None));
    }
}
