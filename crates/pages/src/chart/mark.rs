//! Markers and colours of series: each series has its own.

use std::fmt::Write;

/// Colours that differ from white and from the dark background of a page by 3:1 or more.
pub(crate) const COLOURS: [&str; 8] = [
    "#1f77d0", "#d9600b", "#1b9455", "#c8459a", "#0f8ea0", "#a06a2c", "#9b5fd0", "#d43d51",
];
/// Colour of reference lines.
pub(crate) const NEUTRAL: &str = "#7c8794";
/// Dashes of reference lines, a different pattern for each.
pub(crate) const DASHES: [&str; 4] = ["7 4", "2 3", "10 3 2 3", "14 4"];

/// Number of marker shapes.
const SHAPES: usize = 8;

/// Corners of each shape around (0, 0), at a radius of about 1; an empty list is a circle.
#[rustfmt::skip]
const CORNERS: [&[(f64, f64)]; SHAPES] = [
    &[],
    &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    &[(0.0, -1.2), (1.15, 0.85), (-1.15, 0.85)],
    &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
    &[(0.0, 1.2), (1.15, -0.85), (-1.15, -0.85)],
    &[
        (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4), (0.4, 1.2), (-0.4, 1.2),
        (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4),
    ],
    &[
        (-1.1, -0.6), (-0.6, -1.1), (0.0, -0.5), (0.6, -1.1), (1.1, -0.6), (0.5, 0.0), (1.1, 0.6), (0.6, 1.1),
        (0.0, 0.5), (-0.6, 1.1), (-1.1, 0.6), (-0.5, 0.0),
    ],
    &[(0.0, -1.2), (1.14, -0.37), (0.7, 0.97), (-0.7, 0.97), (-1.14, -0.37)],
];

/// Returns the shapes in the form that scripts draw.
pub(crate) fn shapes() -> serde_json::Value {
    serde_json::json!(CORNERS)
}

/// Appends the marker of series `number` around a place.
pub(crate) fn marker(path: &mut String, number: usize, x: f64, y: f64, r: f64) {
    // When a colour is used again, the shape differs.
    let corners = CORNERS[(number + number / SHAPES) % SHAPES];
    if corners.is_empty() {
        // Writing to a String does not fail.
        let (left, two) = (x - r, 2.0 * r);
        let _ = write!(path, "M{left:.1} {y:.1}a{r} {r} 0 1 0 {two} 0a{r} {r} 0 1 0 -{two} 0Z");
        return;
    }
    for (i, (dx, dy)) in corners.iter().enumerate() {
        let letter = if i == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{letter}{:.1} {:.1}", x + dx * r, y + dy * r);
    }
    path.push('Z');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WCAG 2.2: relative luminance.
    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn colours_stand_out_from_both_backgrounds() {
        for colour in COLOURS.into_iter().chain([NEUTRAL]) {
            for background in ["#ffffff", crate::plot::draw::PAPER, "#14171c", "#1a1e24"] {
                let (a, b) = (luminance(colour) + 0.05, luminance(background) + 0.05);
                assert!(a.max(b) / a.min(b) >= 3.0, "{colour} on {background}");
            }
        }
    }

    #[test]
    fn no_two_series_look_alike_for_long() {
        let look = |number: usize| {
            let mut path = String::new();
            marker(&mut path, number, 0.0, 0.0, 4.0);
            (COLOURS[number % COLOURS.len()], path)
        };
        let looks: std::collections::HashSet<_> = (0..56).map(look).collect();
        assert_eq!(looks.len(), 56);
    }
}
