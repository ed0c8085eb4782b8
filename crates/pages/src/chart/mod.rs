//! Charts as static SVG: what standards ask for can be read on paper, in a mail and without scripts.

mod draw;
mod mark;
mod place;
mod thin;

pub use draw::VOID;
pub(crate) use draw::{Look, drawn, rank, stacked, style};
pub(crate) use mark::shapes;
pub(crate) use place::Placed;
pub(crate) use thin::thin;

use crate::document::Chart;

/// Returns the chart as an SVG file of its own, on white.
pub fn svg(chart: &Chart) -> String {
    drawn(chart, &Look::FILE)
}

/// Returns the chart as a PNG of twice the SVG's size, with a built-in font.
///
/// # Errors
/// When there is not enough memory.
pub fn png(chart: &Chart) -> Result<Vec<u8>, String> {
    crate::plot::rasterise(&svg(chart))
}
