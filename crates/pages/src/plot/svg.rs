//! Writes SVG: only what the picture needs.

use crate::escape::escape;
use std::fmt::Write;

/// Position of a text relative to its point.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// An SVG document being written.
pub(crate) struct Svg {
    text: String,
}

impl Svg {
    pub(crate) fn new(width: f64, height: f64) -> Self {
        let mut svg = Self { text: String::new() };
        svg.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"'DejaVu Sans', Verdana, sans-serif\">\n"
        ));
        svg.rect(0.0, 0.0, width, height, "#ffffff", 1.0);
        svg
    }

    /// Returns a document with a label that screen readers read.
    pub(crate) fn labelled(width: f64, height: f64, label: &str) -> Self {
        let mut svg = Self::new(width, height);
        let label = format!("<svg role=\"img\" aria-label=\"{}\" ", escape(label));
        svg.text = svg.text.replacen("<svg ", &label, 1);
        svg
    }

    fn put(&mut self, text: std::fmt::Arguments) {
        // Writing to a String does not fail.
        let _ = self.text.write_fmt(text);
    }

    pub(crate) fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str, opacity: f64) {
        self.put(format_args!(
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" fill=\"{fill}\" \
             fill-opacity=\"{opacity}\"/>\n"
        ));
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64) {
        self.put(format_args!(
            "<line x1=\"{:.2}\" y1=\"{:.2}\" x2=\"{:.2}\" y2=\"{:.2}\" stroke=\"{stroke}\" \
             stroke-width=\"{width}\"/>\n",
            from.0, from.1, to.0, to.1
        ));
    }

    /// Draws a path of path commands: a line, dashed or not.
    pub(crate) fn path(&mut self, commands: &str, stroke: &str, width: f64, dashed: bool) {
        if commands.is_empty() {
            return;
        }
        let dash = if dashed {
            " stroke-dasharray=\"3 4\" stroke-opacity=\"0.7\""
        } else {
            ""
        };
        self.put(format_args!(
            "<path d=\"{commands}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\"{dash}/>\n"
        ));
    }

    /// Draws a line whose dashes follow `pattern`.
    pub(crate) fn dashes(&mut self, commands: &str, stroke: &str, width: f64, pattern: &str) {
        if !commands.is_empty() {
            self.put(format_args!(
                "<path d=\"{commands}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\" \
                 stroke-dasharray=\"{pattern}\"/>\n"
            ));
        }
    }

    /// Draws a filled path.
    pub(crate) fn area(&mut self, commands: &str, fill: &str, opacity: f64) {
        if !commands.is_empty() {
            self.put(format_args!(
                "<path d=\"{commands}\" fill=\"{fill}\" fill-opacity=\"{opacity}\"/>\n"
            ));
        }
    }

    pub(crate) fn text(&mut self, at: (f64, f64), size: f64, anchor: Anchor, colour: &str, bold: bool, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if bold { " font-weight=\"bold\"" } else { "" };
        self.put(format_args!(
            "<text x=\"{:.2}\" y=\"{:.2}\" font-size=\"{size}\" text-anchor=\"{anchor}\" \
             fill=\"{colour}\"{weight}>{}</text>\n",
            at.0,
            at.1,
            escape(text)
        ));
    }

    pub(crate) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// Returns the approximate width of text in the built-in font (DejaVu's advances).
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    let advance = |c: char| match c {
        'i' | 'l' | 'j' | '.' => 0.29,
        't' | 'r' | 'f' => 0.39,
        's' => 0.52,
        'm' => 0.97,
        'w' => 0.82,
        _ => 0.62,
    };
    text.chars().map(advance).sum::<f64>() * size
}

/// Returns at most `most` characters of a text.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let start: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{start}…")
}
