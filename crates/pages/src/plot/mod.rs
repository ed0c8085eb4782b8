//! A picture of a run from its CSV: rates, loss and latency over one time axis.
//!
//! The SVG is written by hand, because a picture of three fixed panels needs less code than a plotting library needs
//! configuration. The PNG is rasterised from it with a font that is built in, so that it looks the same on a server
//! without fonts.

pub(crate) mod about;
mod bins;
pub(crate) mod draw;
pub(crate) mod overlay;
pub(crate) mod panels;
pub(crate) mod read;
pub(crate) mod scale;
pub(crate) mod svg;

use crate::document::{Chart, Document, Drawn, drawn};
use mpps_report::{JsonTarget, ReportError, rfc3339};
use resvg::{tiny_skia, usvg};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Pixels of the PNG for each unit of the SVG.
const PNG_SCALE: f32 = 2.0;

/// Most lines of a test's answer above its charts.
const LINES: usize = 10;

/// Rows of a run, as pictures need them.
#[derive(Clone, Debug)]
pub struct Rows(pub(crate) bins::Run);

/// Reads a CSV as written by [`mpps_report::CsvSink`]; columns are found by name.
///
/// # Errors
/// When it can't be read or is malformed (names line and column).
pub fn rows(csv: &Path) -> Result<Rows, ReportError> {
    Ok(Rows(read::read(csv)?))
}

/// Reads such a CSV from memory.
///
/// # Errors
/// When it is malformed (names line and column).
pub fn rows_of(csv: &[u8]) -> Result<Rows, ReportError> {
    Ok(Rows(read::read_bytes(csv)?))
}

/// Returns the start of a CSV's run, RFC 3339 to the µs; `None` if its rows don't contain it.
pub(crate) fn started(csv: &Path) -> Option<String> {
    about::started(csv).map(|ns| rfc3339(ns)[..about::SAME].to_owned())
}

/// Draws a run as [`plot_all`] does.
///
/// # Errors
/// Same as [`plot_all`].
pub fn plot(csv: &Path, out: &Path) -> Result<(), ReportError> {
    plot_all(&[csv.to_owned()], out)
}

/// Draws files into `out`, an `.svg` or `.png`. Runs are given as CSV, as [`rows`] reads it: one run is drawn with its
/// totals and both directions, several over one another. Results of tests (`result.json`) are drawn with all charts,
/// several results over one another. A folder stands for the file in it.
///
/// # Errors
/// When a file can't be read or is malformed (names line and column of a CSV), files don't belong together, or `out`
/// has another ending or can't be written.
pub fn plot_all(files: &[PathBuf], out: &Path) -> Result<(), ReportError> {
    let extension = out.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
    let png = match extension.as_deref() {
        Some("svg") => false,
        Some("png") => true,
        _ => {
            return Err(ReportError::Format {
                path: out.to_owned(),
                want: ".svg or .png",
            });
        }
    };
    let target = JsonTarget::prepare(out)?;
    let svg = match drawn(files)? {
        Drawn::Charts(document) => of_test(&document),
        Drawn::Rows(csvs) => match &csvs[..] {
            [csv] => {
                let run = read::read(csv)?;
                draw::draw(&about::About::of(csv, &file_name(csv)), &run)
            }
            csvs => overlaid(csvs)?,
        },
    };
    if png {
        let bytes = rasterise(&svg).map_err(|e| ReportError::io("draw", out, io::Error::other(e)))?;
        target.write_bytes(&bytes)
    } else {
        target.write_bytes(svg.as_bytes())
    }
}

/// Draws the charts of a test; those of its searches only if there are no others.
fn of_test(document: &Document) -> String {
    let (searches, mut charts): (Vec<_>, Vec<_>) =
        (document.charts.iter().cloned()).partition(|chart: &Chart| chart.is_of_search());
    if charts.is_empty() {
        charts = searches;
    }
    let lines: Vec<_> = document
        .incomplete
        .iter()
        .chain(&document.verdict)
        .take(LINES)
        .cloned()
        .collect();
    crate::chart::stacked(&document.title, &lines, &charts)
}

/// Draws several runs over one another.
fn overlaid(csvs: &[PathBuf]) -> Result<String, ReportError> {
    let names = names(csvs);
    let mut lines = Vec::new();
    let mut runs = Vec::new();
    for (csv, name) in csvs.iter().zip(&names) {
        let run = read::read(csv)?;
        let about = about::About::of(csv, name);
        let warning = about
            .warning
            .map(|warning| format!("   ·   {warning}"))
            .unwrap_or_default();
        lines.push(format!("{}   ·   {}{warning}", about.title, draw::totals(&run)));
        runs.push((name.clone(), run));
    }
    let title = format!("{} runs, each from its own start", runs.len());
    Ok(crate::chart::stacked(&title, &lines, &overlay::charts(&runs)))
}

/// Returns the names of files in legends: file names, or paths if two files have the same name.
pub(crate) fn names(files: &[PathBuf]) -> Vec<String> {
    let short: Vec<_> = files.iter().map(|file| file_name(file)).collect();
    let distinct = short.iter().collect::<std::collections::HashSet<_>>().len() == short.len();
    match distinct {
        true => short,
        false => files.iter().map(|file| file.display().to_string()).collect(),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

pub(crate) fn rasterise(svg: &str) -> Result<Vec<u8>, String> {
    let mut options = usvg::Options {
        font_family: "DejaVu Sans".to_owned(),
        ..usvg::Options::default()
    };
    for font in [dejavu::sans::regular(), dejavu::sans::bold()] {
        options
            .fontdb_mut()
            .load_font_source(usvg::fontdb::Source::Binary(Arc::new(font)));
    }
    let tree = usvg::Tree::from_str(svg, &options).map_err(|e| e.to_string())?;
    let size = tree.size().to_int_size().scale_by(PNG_SCALE).ok_or("no size")?;
    let mut pixels = tiny_skia::Pixmap::new(size.width(), size.height()).ok_or("out of memory")?;
    resvg::render(
        &tree,
        tiny_skia::Transform::from_scale(PNG_SCALE, PNG_SCALE),
        &mut pixels.as_mut(),
    );
    pixels.encode_png().map_err(|e| e.to_string())
}
