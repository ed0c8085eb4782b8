//! A picture of a run from its CSV: rates, loss and latency over one time axis.
//!
//! The SVG is written by hand, because a picture of three fixed panels needs less code than a plotting library needs
//! configuration. The PNG is rasterised from it with a font that is built in, so that it looks the same on a server
//! without fonts.

pub(crate) mod about;
pub(crate) mod draw;
pub(crate) mod panels;
mod read;
pub(crate) mod scale;
pub(crate) mod svg;

use crate::{JsonTarget, ReportError};
use resvg::{tiny_skia, usvg};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Pixels of the PNG for each unit of the SVG.
const PNG_SCALE: f32 = 2.0;

/// Draws `csv` (as written by [`crate::CsvSink`]; columns are found by name) into `out`, an `.svg` or `.png`.
///
/// # Errors
/// When `csv` can't be read or is malformed (names line and column), or `out` has another ending or can't be written.
pub fn plot(csv: &Path, out: &Path) -> Result<(), ReportError> {
    let extension = out.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
    let png = match extension.as_deref() {
        Some("svg") => false,
        Some("png") => true,
        _ => return Err(ReportError::Format { path: out.to_owned() }),
    };
    let target = JsonTarget::prepare(out)?;
    let run = read::read(csv)?;
    let name = csv.file_name().unwrap_or(csv.as_os_str()).to_string_lossy();
    let svg = draw::draw(&about::About::of(csv, &name), &run);
    if png {
        let bytes = rasterise(&svg).map_err(|e| ReportError::io("draw", out, io::Error::other(e)))?;
        target.write_bytes(&bytes)
    } else {
        target.write_bytes(svg.as_bytes())
    }
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
