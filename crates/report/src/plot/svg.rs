//! Writes SVG: only what the picture needs.

use std::fmt::Write;

/// Where text is tied to its position.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// An SVG document being written.
pub(super) struct Svg {
    text: String,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Self {
        let mut svg = Self { text: String::new() };
        svg.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"'DejaVu Sans', Verdana, sans-serif\">\n"
        ));
        svg.rect(0.0, 0.0, width, height, "#ffffff", 1.0);
        svg
    }

    fn put(&mut self, text: std::fmt::Arguments) {
        // A String takes everything.
        let _ = self.text.write_fmt(text);
    }

    pub(super) fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str, opacity: f64) {
        self.put(format_args!(
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" fill=\"{fill}\" \
             fill-opacity=\"{opacity}\"/>\n"
        ));
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64) {
        self.put(format_args!(
            "<line x1=\"{:.2}\" y1=\"{:.2}\" x2=\"{:.2}\" y2=\"{:.2}\" stroke=\"{stroke}\" \
             stroke-width=\"{width}\"/>\n",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A path of path commands: a line, dashed or not.
    pub(super) fn path(&mut self, commands: &str, stroke: &str, width: f64, dashed: bool) {
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

    /// A filled path.
    pub(super) fn area(&mut self, commands: &str, fill: &str, opacity: f64) {
        if !commands.is_empty() {
            self.put(format_args!(
                "<path d=\"{commands}\" fill=\"{fill}\" fill-opacity=\"{opacity}\"/>\n"
            ));
        }
    }

    pub(super) fn text(&mut self, at: (f64, f64), size: f64, anchor: Anchor, colour: &str, bold: bool, text: &str) {
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

    pub(super) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// XML 1.0 can't hold control characters at all; a file name can.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
