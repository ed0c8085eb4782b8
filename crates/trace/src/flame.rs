//! Samples as a flame graph: a picture (SVG) and folded stacks (text).
//!
//! Each box is a function, on top of the one that called it, as wide as the share of samples in which it was running.
//! Functions of one caller are in the order of their names: left to right does not mean time. The same samples make the
//! same bytes.

use crate::{Frame, Sample, Sampling};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Width of the picture, its margins, height of a row of boxes, height of the lines above and below, px.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
const ROW: f64 = 19.0;
const ABOVE: f64 = 64.0;
const BELOW: f64 = 30.0;
/// Width of a letter of the text in boxes, and room beside the text, px.
const LETTER: f64 = 7.0;
const PADDING: f64 = 4.0;
/// Narrowest box that is drawn, px; the picture states how many samples are in narrower ones.
const NARROWEST: f64 = 0.3;
/// Most boxes on top of each other: deeper ones are cut off.
const DEEPEST: usize = 256;

/// Texts of a picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caption {
    /// Title in large letters: the thing that was sampled.
    pub title: String,
    /// Lines below the title: how it was sampled, and what is missing.
    pub notes: Vec<String>,
}

impl Caption {
    /// Returns the caption for a run: its command line, the number of samples, and what is missing.
    pub fn of_run(command: &str, samples: &[Sample], sampling: &Sampling) -> Self {
        let missing = sampling.missing();
        let count = sampling.failed.is_none().then(|| sampling.told(samples.len()));
        Self {
            title: "Where the lanes were".to_owned(),
            notes: [command.to_owned()].into_iter().chain(count).chain(missing).collect(),
        }
    }
}

/// Origin of a function's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Lane,
    Own,
    Kernel,
    Driver,
    Library,
    Unknown,
}

/// Class in the style sheet, meaning, colours of box and text: first on white, then on black.
const KINDS: [(Kind, &str, &str, [&str; 4]); 6] = [
    (Kind::Lane, "l", "lane", ["#5a6472", "#ffffff", "#aab4c2", "#111111"]),
    (Kind::Own, "o", "program", ["#1f66a8", "#ffffff", "#84bdf2", "#111111"]),
    (
        Kind::Kernel,
        "k",
        "kernel",
        ["#b03a2a", "#ffffff", "#f2a08c", "#111111"],
    ),
    (Kind::Driver, "d", "DPDK", ["#2b6e46", "#ffffff", "#8bd6a8", "#111111"]),
    (
        Kind::Library,
        "b",
        "library",
        ["#7450a0", "#ffffff", "#c9b0ee", "#111111"],
    ),
    (
        Kind::Unknown,
        "u",
        "no name",
        ["#6a6a55", "#ffffff", "#c6c5a2", "#111111"],
    ),
];
/// Colours of the background, and of text on it: first light, then dark.
const PAPER: [&str; 4] = ["#ffffff", "#1a1a1a", "#16181b", "#eaeaea"];

impl Kind {
    fn of(frame: &Frame) -> Self {
        let module = frame.module.as_str();
        match module {
            "[kernel]" => Self::Kernel,
            _ if is_address(&frame.name) => Self::Unknown,
            _ if module.starts_with("librte_") => Self::Driver,
            _ if module.contains(".so") || module.starts_with('[') || module.starts_with("ld-") => Self::Library,
            _ => Self::Own,
        }
    }

    fn class(self) -> &'static str {
        let found = KINDS.iter().find(|(kind, ..)| *kind == self);
        found.map_or("u", |(_, class, ..)| class)
    }
}

/// Whether a name is only the function's address.
fn is_address(name: &str) -> bool {
    let digits = name.strip_prefix("0x").unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Name of a box: functions with one name in two files are two.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name<'f> {
    pub(crate) text: String,
    module: &'f str,
    kind: Kind,
}

impl<'f> Name<'f> {
    /// Returns the name of a frame. All functions of a file whose names are not known share one name.
    fn of(frame: &'f Frame) -> Self {
        let text = match is_address(&frame.name) {
            true => format!("{} (no name)", frame.module),
            false => frame.name.clone(),
        };
        Self {
            text,
            module: &frame.module,
            kind: Kind::of(frame),
        }
    }
}

/// Names of all boxes: of functions as their frames are numbered, and of lanes.
pub(crate) struct Names<'f> {
    frames: Vec<Name<'f>>,
    lanes: BTreeMap<u32, Name<'f>>,
}

impl<'f> Names<'f> {
    pub(crate) fn new(samples: &[Sample], frames: &'f [Frame]) -> Self {
        let lane = |number: u32| Name {
            text: format!("lane {number}"),
            module: "",
            kind: Kind::Lane,
        };
        Self {
            frames: frames.iter().map(Name::of).collect(),
            lanes: samples.iter().map(|sample| (sample.lane, lane(sample.lane))).collect(),
        }
    }

    /// Returns all samples as a tree: lanes, then their functions. Numbers of frames that do not exist are left out.
    pub(crate) fn tree(&self, samples: &[Sample]) -> Node<'_> {
        let mut root = Node::default();
        for sample in samples {
            let places = sample.stack.iter().filter_map(|&place| self.frames.get(place as usize));
            root.all += 1;
            let mut node = &mut root;
            for name in self.lanes.get(&sample.lane).into_iter().chain(places.take(DEEPEST)) {
                node = node.called.entry(name).or_default();
                node.all += 1;
            }
            node.own += 1;
        }
        root
    }
}

/// A function and the functions that it called.
#[derive(Default)]
pub(crate) struct Node<'n> {
    /// Samples in the function and in the functions that it called; then samples in itself.
    pub(crate) all: u64,
    pub(crate) own: u64,
    pub(crate) called: BTreeMap<&'n Name<'n>, Node<'n>>,
}

/// Returns stacks with the number of their samples, one per line: `lane 0;outer;inner 12`, as flamegraph.pl, inferno
/// and speedscope read them. In the order of the text.
pub fn folded(samples: &[Sample], frames: &[Frame]) -> String {
    fn walk(node: &Node<'_>, above: &str, stacks: &mut BTreeMap<String, u64>) {
        for (name, called) in &node.called {
            // A name must not contain characters that separate parts of the text.
            let name: String = name
                .text
                .chars()
                .map(|c| if c == ';' || c.is_control() { ':' } else { c })
                .collect();
            let stack = match above {
                "" => name,
                above => format!("{above};{name}"),
            };
            walk(called, &stack, stacks);
            if called.own > 0 {
                *stacks.entry(stack).or_default() += called.own;
            }
        }
    }
    let mut stacks = BTreeMap::new();
    walk(&Names::new(samples, frames).tree(samples), "", &mut stacks);
    stacks.iter().fold(String::new(), |mut text, (stack, count)| {
        let _ = writeln!(text, "{stack} {count}");
        text
    })
}

/// State of drawing the picture.
struct Drawing {
    boxes: String,
    /// Width of a sample, px.
    scale: f64,
    /// Rows of boxes.
    rows: usize,
    /// Samples in boxes that are too narrow to be drawn.
    narrow: u64,
}

impl Drawing {
    /// Draws the functions that `node` called, from `x` on in row `row`; `all`: samples of the whole picture.
    fn draw(&mut self, node: &Node<'_>, mut x: f64, row: usize, all: u64, top: &dyn Fn(usize) -> f64) {
        for (name, called) in &node.called {
            let width = called.all as f64 * self.scale;
            if width < NARROWEST {
                self.narrow += called.all;
            } else {
                self.boxed(name, called, (x, width, top(row)), all);
                self.draw(called, x, row + 1, all, top);
            }
            x += width;
        }
    }

    fn boxed(&mut self, name: &Name<'_>, node: &Node<'_>, (x, width, y): (f64, f64, f64), all: u64) {
        let share = |part: u64| 100.0 * part as f64 / all.max(1) as f64;
        let module = match name.module {
            "" => String::new(),
            module => format!(" in {module}"),
        };
        let own = match node.own {
            0 => String::new(),
            own => format!(", {own} of them in itself"),
        };
        // One pixel of background between two boxes.
        let drawn = (width - 1.0).max(width / 2.0);
        let _ = write!(
            self.boxes,
            "<g><title>{}{}: {} samples, {:.2} %{own}</title><rect class=\"{}\" x=\"{x:.2}\" y=\"{y:.0}\" \
             width=\"{drawn:.2}\" height=\"{:.0}\" rx=\"2\"/>",
            escaped(&name.text),
            escaped(&module),
            node.all,
            share(node.all),
            name.kind.class(),
            ROW - 1.0,
        );
        let room = ((width - 2.0 * PADDING) / LETTER) as usize;
        if let Some(text) = cut(&name.text, room) {
            let _ = write!(
                self.boxes,
                "<text class=\"{}t\" x=\"{:.2}\" y=\"{:.0}\">{}</text>",
                name.kind.class(),
                x + PADDING,
                y + ROW - 6.0,
                escaped(&text),
            );
        }
        self.boxes.push_str("</g>\n");
    }
}

/// Returns as much of a name as fits into `room` letters: the end of a path (`Way::serve` of
/// `mpps_engine::way::Way::serve`), else the beginning of that; `None` if that would be too short to read.
fn cut(name: &str, room: usize) -> Option<String> {
    let letters = |text: &str| text.chars().count();
    if letters(name) <= room {
        return Some(name.to_owned());
    }
    let mut short = without_generics(name);
    while letters(&short) > room {
        let Some((_, rest)) = short.split_once("::") else { break };
        short = rest.to_owned();
    }
    if letters(&short) <= room {
        return Some(short);
    }
    (room >= 4).then(|| short.chars().take(room - 1).chain(['…']).collect())
}

/// Returns a name without the text between `<` and `>`, unless the name begins with `<`.
fn without_generics(name: &str) -> String {
    let (mut depth, mut short) = (0_u32, String::new());
    for c in name.chars() {
        match c {
            '<' if !short.is_empty() => depth += 1,
            '>' if depth > 0 => depth -= 1,
            c if depth == 0 => short.push(c),
            _ => {}
        }
    }
    short
}

/// Returns `text` for XML content: without control characters, and without characters that turn the direction of
/// writing.
fn escaped(text: &str) -> String {
    let mut told = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => told.push_str("&amp;"),
            '<' => told.push_str("&lt;"),
            '>' => told.push_str("&gt;"),
            '"' => told.push_str("&quot;"),
            c if c.is_control() => told.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' | '\u{61c}' | '\u{200e}' | '\u{200f}' => told.push('\u{fffd}'),
            '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => told.push('\u{fffd}'),
            c => told.push(c),
        }
    }
    told
}

/// Returns the largest number of boxes on top of each other, among boxes that are wide enough.
fn depth(node: &Node<'_>, scale: f64) -> usize {
    let wide = node
        .called
        .values()
        .filter(|called| called.all as f64 * scale >= NARROWEST);
    wide.map(|called| 1 + depth(called, scale)).max().unwrap_or(0)
}

/// Returns the flame graph as one SVG file, without scripts. The full name, samples and share are shown when the
/// pointer rests on a box. Light or dark, as the reader's screen is.
pub fn flame_svg(samples: &[Sample], frames: &[Frame], caption: &Caption) -> String {
    let names = Names::new(samples, frames);
    let root = names.tree(samples);
    let scale = (WIDTH - 2.0 * MARGIN) / root.all.max(1) as f64;
    let rows = depth(&root, scale);
    let above = ABOVE + 16.0 * caption.notes.len() as f64;
    let height = above + ROW * rows.max(1) as f64 + BELOW;
    let mut drawing = Drawing {
        boxes: String::new(),
        scale,
        rows,
        narrow: 0,
    };
    let bottom = above + ROW * drawing.rows as f64;
    drawing.draw(&root, MARGIN, 0, root.all, &|row| bottom - ROW * (row + 1) as f64);

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\">\n<title>{}</title>\n{}",
        escaped(&caption.title),
        style(),
    );
    let _ = writeln!(svg, "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>");
    let _ = writeln!(
        svg,
        "<text class=\"h\" x=\"{MARGIN}\" y=\"24\">{}</text>",
        escaped(&caption.title)
    );
    let mut notes = caption.notes.clone();
    if drawing.narrow > 0 {
        notes.push(format!(
            "{} samples are in boxes too narrow to be drawn",
            drawing.narrow
        ));
    }
    let mut y = 43.0;
    for (place, note) in notes.iter().enumerate() {
        // The last line is below the picture.
        let at = if place < caption.notes.len() { y } else { height - 10.0 };
        let _ = writeln!(
            svg,
            "<text class=\"n\" x=\"{MARGIN}\" y=\"{at:.0}\">{}</text>",
            escaped(note)
        );
        y += 16.0;
    }
    legend(&mut svg, &root, above - 18.0);
    if root.all == 0 {
        let _ = writeln!(
            svg,
            "<text class=\"n\" x=\"{MARGIN}\" y=\"{:.0}\">no samples</text>",
            above + 14.0
        );
    }
    svg.push_str(&drawing.boxes);
    svg.push_str("</svg>\n");
    svg
}

fn style() -> String {
    let rules = |first: usize| {
        let mut rules = format!(".paper{{fill:{}}}.h,.n{{fill:{}}}", PAPER[first], PAPER[first + 1]);
        for (_, class, _, colours) in KINDS {
            let _ = write!(
                rules,
                ".{class}{{fill:{}}}.{class}t{{fill:{}}}",
                colours[first],
                colours[first + 1]
            );
        }
        rules
    };
    format!(
        "<style>text{{font:11.5px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}}\n\
         .h{{font:600 17px system-ui,sans-serif}}.n{{font:12px system-ui,sans-serif}}\n\
         g:hover rect{{stroke:#888;stroke-width:1.5}}\n\
         {}\n@media (prefers-color-scheme:dark){{{}}}</style>\n",
        rules(0),
        rules(2)
    )
}

/// Draws the meaning of the colours that occur.
fn legend(svg: &mut String, root: &Node<'_>, y: f64) {
    fn kinds(node: &Node<'_>, found: &mut Vec<Kind>) {
        for (name, called) in &node.called {
            found.extend(Some(name.kind).filter(|kind| !found.contains(kind)));
            kinds(called, found);
        }
    }
    let mut found = Vec::new();
    kinds(root, &mut found);
    let mut x = MARGIN;
    for (kind, class, meaning, _) in KINDS {
        if found.contains(&kind) {
            let _ = writeln!(
                svg,
                "<rect class=\"{class}\" x=\"{x:.0}\" y=\"{:.0}\" width=\"12\" height=\"12\" rx=\"2\"/>\
                 <text class=\"n\" x=\"{:.0}\" y=\"{y:.0}\">{meaning}</text>",
                y - 10.0,
                x + 17.0,
            );
            x += 36.0 + 7.0 * meaning.len() as f64;
        }
    }
}

#[cfg(test)]
mod tests;
