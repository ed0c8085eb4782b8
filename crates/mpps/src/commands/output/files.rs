//! Files that a run writes row by row or at its end, as its options name them.

use super::super::state_files::lines_are_open;
use crate::cli::{RunArgs, read_by_program, recorded_command};
use crate::fail::{Result, unwritable, usage};
use mpps_report::{
    CsvSink, HdrSink, JsonLines, JsonSink, JsonWritten, LanesCsvSink, LiveSink, LiveStyle, Notes, OfTrack, Sinks,
    StreamsCsvSink, WAYS, of_way,
};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// An option with its file.
pub(super) type Named<'a> = (&'static str, Option<&'a Path>);

/// Returns the options that name files to write. `own`: that of the workload.
pub(super) fn named<'a>(
    args: &'a RunArgs,
    own: Option<(&'static str, &'a Path)>,
    of_tracks: &'a [FileOfTrack],
) -> Vec<Named<'a>> {
    own.into_iter()
        .map(|(option, path)| (option, Some(path)))
        .chain([
            ("--csv", args.tell.csv.as_deref()),
            ("--lanes-csv", args.tell.lanes_csv.as_deref()),
            ("--streams-csv", args.tell.streams_csv.as_deref()),
            ("--json", args.tell.json.as_deref()),
            ("--json-lines", args.tell.json_lines.as_deref()),
            ("--junit", args.tell.junit.as_deref()),
            ("--markdown", args.tell.markdown.as_deref()),
            ("--hdr", args.tell.hdr.as_deref()),
            (
                "--sample-pcap",
                args.tell.sample_pcap.as_ref().map(|of| of.file.as_path()),
            ),
            ("--trace", args.tell.keep.trace.as_deref()),
            ("--flame", args.tell.flame.as_deref()),
            ("--folded", args.tell.folded.as_deref()),
            ("--prom", args.tell.serve.prom.as_deref()),
        ])
        .chain(of_tracks.iter().map(|file| (file.option, Some(file.path.as_path()))))
        .collect()
}

/// Returns whether one of the files is standard output.
///
/// # Errors
/// If several are.
pub(super) fn takes_stdout(files: &[Named<'_>]) -> Result<bool> {
    let stdout = files.iter().filter(|(_, f)| *f == Some(Path::new("-"))).count();
    if stdout > 1 {
        let to_stdout = files.iter().filter(|(_, file)| *file == Some(Path::new("-")));
        let options: Vec<_> = to_stdout.map(|(option, _)| *option).collect();
        return Err(usage(format!(
            "{}: '-' for more than one: want standard output for one at the most",
            options.join(", ")
        )));
    }
    Ok(stdout > 0)
}

/// Refuses files that are named twice, or that the program reads.
pub(super) fn check_apart(files: &[Named<'_>]) -> Result<()> {
    let read = read_by_program();
    let read: Vec<_> = read.iter().map(|(name, file)| (*name, Some(file.as_path()))).collect();
    for (i, (a, first)) in files.iter().enumerate() {
        for (b, second) in files[i + 1..].iter().chain(&read) {
            if let (Some(first), Some(second)) = (first, second)
                && mpps_report::same_file(first, second)
            {
                let name = second.display();
                return Err(usage(format!(
                    "{a} and {b}: both '{name}': want a file of its own for each"
                )));
            }
        }
    }
    Ok(())
}

/// A file of one of two ways.
pub(super) struct FileOfTrack {
    pub(super) option: &'static str,
    pub(super) path: PathBuf,
    way: usize,
}

/// Files of each way, beside the files of both ways.
pub(super) fn files_of_tracks(args: &RunArgs) -> Vec<FileOfTrack> {
    let of_both = [("--csv", &args.tell.csv), ("--hdr", &args.tell.hdr)];
    let files = of_both
        .into_iter()
        .filter_map(|(option, path)| Some((option, path.as_deref()?)));
    let of_tracks = files.flat_map(|(option, both)| {
        let file = move |(way, name): (usize, &&str)| {
            let path = of_way(both, name)?;
            Some(FileOfTrack { option, path, way })
        };
        WAYS.iter().enumerate().filter_map(file)
    });
    of_tracks.collect()
}

/// Opens the files of a run, and starts what writes them.
pub(super) fn files_of(
    args: &RunArgs,
    style: LiveStyle,
    own: Option<Notes>,
    of_tracks: &[FileOfTrack],
) -> Result<(Sinks, Vec<Notes>, Option<JsonWritten>)> {
    let mut sinks = Sinks::new();
    sinks.add(LiveSink::new(style));
    let mut boards = Vec::from_iter(own);
    if let Some(path) = &args.tell.csv {
        let csv = CsvSink::create(path).map_err(|e| unwritable("--csv", &e))?;
        boards.push(csv.notes());
        sinks.add(csv);
    }
    if let Some(path) = &args.tell.hdr {
        let hdr = HdrSink::create(path).map_err(|e| unwritable("--hdr", &e))?;
        boards.push(hdr.notes());
        sinks.add(hdr);
    }
    if let Some(path) = &args.tell.lanes_csv {
        let lanes = LanesCsvSink::create(path).map_err(|e| unwritable("--lanes-csv", &e))?;
        boards.push(lanes.notes());
        sinks.add(lanes);
    }
    if let Some(path) = &args.tell.streams_csv {
        let streams = StreamsCsvSink::create(path).map_err(|e| unwritable("--streams-csv", &e))?;
        boards.push(streams.notes());
        sinks.add(streams);
    }
    for FileOfTrack { option, path, way } in of_tracks {
        let (way, failed) = (*way, |e| unwritable(option, &e));
        if *option == "--csv" {
            let sink = CsvSink::create(path).map_err(failed)?;
            boards.push(sink.notes());
            sinks.add(OfTrack { way, sink });
        } else {
            let sink = HdrSink::create(path).map_err(failed)?;
            boards.push(sink.notes());
            sinks.add(OfTrack { way, sink });
        }
    }
    if let Some(path) = &args.tell.json_lines {
        let lines = JsonLines::create(path, head(args)).map_err(|e| unwritable("--json-lines", &e))?;
        boards.push(lines.notes());
        sinks.add(lines.sink());
        lines_are_open(lines);
    }
    boards.iter().for_each(|board| sinks.watch(board.clone()));
    let json = args.tell.json.as_deref().map(JsonSink::create).transpose();
    let written = json.map_err(|e| unwritable("--json", &e))?.map(|json| {
        let written = json.written();
        sinks.add(json);
        written
    });
    Ok((sinks, boards, written))
}

/// Returns the first of the JSON Lines, which describes the run.
fn head(args: &RunArgs) -> Map<String, Value> {
    Map::from_iter([
        ("version".to_owned(), env!("CARGO_PKG_VERSION").into()),
        ("command".to_owned(), recorded_command().into()),
        ("plan".to_owned(), args.run.recorded().json()),
    ])
}
