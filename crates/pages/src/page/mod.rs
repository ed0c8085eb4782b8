//! One page that contains a whole result and needs nothing else: no network, no fonts, no other file. The answer comes
//! first, then its deviations, then pictures and tables, and at the end everything that others need to repeat the test.
//!
//! All text from elsewhere goes through [`escape`] or, for scripts, through [`script_safe`].

mod csv;
mod data;
mod markdown;
mod parts;

pub use self::csv::csv;
pub use markdown::markdown;

use crate::document::Document;
use crate::document::show::headed;
use crate::escape::escape;
use base64::Engine;
use mpps_report::units::elapsed;
use parts::Part;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// uPlot 1.6.32 by Leon Sorokin, MIT: `uplot/LICENSE`.
pub const UPLOT: &str = include_str!("uplot/uPlot.iife.min.js");
/// Style of uPlot.
pub const UPLOT_STYLE: &str = include_str!("uplot/uPlot.min.css");
/// Licence of uPlot.
pub const UPLOT_LICENCE: &str = include_str!("uplot/LICENSE");
const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("style.css");

/// Largest size of a page in bytes, with some room: trackers take 500 kB.
const LARGEST: usize = 480_000;

/// A file that a page was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Name of the file.
    pub name: String,
    /// SHA-256 of its contents, in hexadecimal digits.
    pub sha256: String,
}

impl Source {
    /// Returns the source of a file with these contents.
    pub fn of(name: &str, contents: &[u8]) -> Self {
        Self {
            name: name.to_owned(),
            sha256: hex(&Sha256::digest(contents)),
        }
    }
}

/// Limits on the parts of a document that are shown on its page.
#[derive(Clone, Copy, Debug)]
struct Much {
    /// Most points of a series.
    points: usize,
    /// Most rows of a table.
    rows: usize,
    /// Most characters of a text.
    text: usize,
    /// Most tables, charts, series and list entries.
    parts: usize,
}

/// Limits in the order in which they are tried: from all that a reader would look at, down to what always fits.
const MUCH: [Much; 6] = [
    Much {
        points: 2000,
        rows: 1000,
        text: 20_000,
        parts: 200,
    },
    Much {
        points: 1000,
        rows: 500,
        text: 20_000,
        parts: 200,
    },
    Much {
        points: 500,
        rows: 250,
        text: 10_000,
        parts: 100,
    },
    Much {
        points: 200,
        rows: 100,
        text: 5_000,
        parts: 50,
    },
    Much {
        points: 100,
        rows: 40,
        text: 2_000,
        parts: 20,
    },
    Much {
        points: 40,
        rows: 10,
        text: 300,
        parts: 8,
    },
];

/// Returns the page of a document that was read from, or written to, these files.
pub fn html(document: &Document, sources: &[Source]) -> String {
    let mut page = String::new();
    for much in MUCH {
        page = composed(document, sources, much);
        if page.len() <= LARGEST {
            break;
        }
    }
    page
}

fn composed(document: &Document, sources: &[Source], much: Much) -> String {
    let data = data::charts(document, much);
    let style = format!("{UPLOT_STYLE}\n{STYLE}");
    let script = data.is_some().then(|| format!("{UPLOT}\n{SCRIPT}"));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src {}; img-src data:; base-uri 'none'; form-action 'none'",
        base64_hash(&style),
        match &script {
            Some(script) => format!("'sha256-{}'", base64_hash(script)),
            None => "'none'".to_owned(),
        }
    );
    let mut part = Part::new(much);
    part.put(format_args!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n",
        escape(&part.short(title(document)))
    ));
    answer(&mut part, document);
    let live = |name: &str| data.as_ref().is_some_and(|data| data.has(name));
    part.findings(document, &live);
    circumstances(&mut part, document, sources);
    let made = format!("Made by mpps {} ({}).", document.version, document.schema);
    part.put(format_args!("<footer>{}", escape(&part.short(&made))));
    if let (Some(data), Some(script)) = (&data, &script) {
        let licence = UPLOT_LICENCE.split_whitespace().collect::<Vec<_>>().join(" ");
        part.put(format_args!(
            " Charts can be zoomed by uPlot 1.6.32.\n<details class=\"values\"><summary>Licence of uPlot</summary>\
             <p>{}</p></details>\n\
             </footer>\n</main>\n<script type=\"application/json\" id=\"charts\">{}</script>\n\
             <script>{script}</script>\n",
            escape(&licence),
            script_safe(&data.value)
        ));
    } else {
        part.put(format_args!("</footer>\n</main>\n"));
    }
    part.put(format_args!("</body>\n</html>\n"));
    part.text
}

/// Returns JSON that can be put into a script element: no text in it ends that element or begins a comment.
fn script_safe(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e")
}

fn base64_hash(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn title(document: &Document) -> &str {
    match document.title.trim() {
        "" => "Result of a test",
        title => title,
    }
}

/// Returns the line below the title: name, time and duration of the test.
fn when(document: &Document) -> String {
    let mut parts = vec![document.test.clone()];
    let (date, time) = (document.started.get(..10), document.started.get(11..19));
    match date.zip(time) {
        Some((date, time)) => parts.push(format!("{date} {time} UTC")),
        None => parts.push(document.started.clone()),
    }
    if document.took_s > 0.0 && document.took_s < 1e9 {
        parts.push(format!("took {}", elapsed((document.took_s * 1e9) as u64)));
    }
    parts.push(format!("mpps {}", document.version));
    parts.retain(|part| !part.trim().is_empty());
    parts.join(" · ")
}

/// Returns the reason why a result is not complete, if it is not.
fn incomplete(document: &Document) -> Option<String> {
    let why = document.incomplete.as_deref().unwrap_or("no reason is given");
    // A complete run may still not be valid: its reason says which of the two it is.
    let mut letters = why.chars();
    let sentence = match (document.test.as_str(), letters.next()) {
        ("run", Some(first)) if why.starts_with("not valid") || why.starts_with("interrupted") => {
            format!("{}{}", first.to_ascii_uppercase(), letters.as_str())
        }
        ("run", Some(_)) => why.to_owned(),
        _ => format!("Not complete: {why}"),
    };
    (!document.complete).then_some(sentence)
}

/// Splits the reasons of several frame sizes, `64 bytes: …; 512 bytes: …`: nobody reads them in one paragraph.
fn by_size(why: &str) -> Vec<&str> {
    let of_a_size = |text: &str| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        digits > 0 && text[digits..].starts_with(" bytes: ")
    };
    let (mut lines, mut from) = (Vec::new(), 0);
    for (at, between) in why.match_indices("; ") {
        if of_a_size(&why[at + between.len()..]) {
            lines.push(&why[from..=at]);
            from = at + between.len();
        }
    }
    lines.push(&why[from..]);
    lines
}

/// Returns a text in which no line breaks between a number and its unit.
fn kept_together(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    let mut digit = false;
    for (i, c) in text.char_indices() {
        let unit = || {
            text[i + 1..]
                .split([' ', ',', '.', ';', ')'])
                .next()
                .unwrap_or_default()
        };
        let joins =
            c == ' ' && digit && (UNITS.contains(&unit()) || unit().ends_with("pps") || unit().ends_with("bps"));
        all.push(if joins { '\u{a0}' } else { c });
        digit = c.is_ascii_digit();
    }
    all
}

const UNITS: [&str; 7] = ["%", "ns", "µs", "ms", "s", "bytes", "packets"];

/// Returns whether the reason comes before the numbers: the numbers of a run that is not valid can't be trusted.
fn reason_first(document: &Document) -> bool {
    document.test == "run"
}

/// Writes the result of the test, and the limits of that result.
fn answer(part: &mut Part, document: &Document) {
    part.put(format_args!(
        "<h1>{}</h1>\n<p class=\"sub\">{}</p>\n",
        escape(&part.short(title(document))),
        escape(&part.short(&when(document)))
    ));
    let bad = |part: &mut Part| {
        if let Some(why) = incomplete(document) {
            let lines: Vec<String> = by_size(&part.short(&why)).into_iter().map(escape).collect();
            part.put(format_args!("<p class=\"bad\">{}</p>\n", lines.join("<br>")));
        }
    };
    if reason_first(document) {
        bad(part);
    }
    part.put(format_args!("<section class=\"verdict\" aria-label=\"Verdict\">\n"));
    if document.verdict.is_empty() {
        part.put(format_args!("<p>No verdict.</p>\n"));
    }
    for line in document.verdict.iter().take(part.much.parts) {
        part.put(format_args!(
            "<p>{}</p>\n",
            escape(&kept_together(&headed(&part.short(line))))
        ));
    }
    part.put(format_args!("</section>\n"));
    if !reason_first(document) {
        bad(part);
    }
    if let Some(compliance) = &document.compliance {
        part.put(format_args!(
            "<p class=\"warn\">{}</p>\n",
            escape(&headed(&part.short(compliance)))
        ));
    }
    part.list("Deviations", &document.deviations);
}

/// Writes the circumstances of the measurement.
fn circumstances(part: &mut Part, document: &Document, sources: &[Source]) {
    part.definitions(&document.definitions);
    part.heading("Device under test");
    match document.device.as_deref().filter(|text| !text.trim().is_empty()) {
        Some(text) => part.put(format_args!("<p class=\"plain\">{}</p>\n", escape(&part.short(text)))),
        None => part.put(format_args!("<p>{}</p>\n", no_device(document))),
    }
    part.facts("Tester", &document.tester);
    part.facts("Parameters", &document.params);
    if !document.command.is_empty() {
        part.heading("Command line");
        let words = command_line(&document.command);
        part.put(format_args!("<pre>{}</pre>\n", escape(&part.short(&words))));
    }
    if !document.plan.is_null() {
        let plan = format!("{:#}", document.plan);
        part.put(format_args!(
            "<details><summary>Plan that the trials vary</summary>\n<pre>{}</pre></details>\n",
            escape(&part.short(&plan))
        ));
    }
    if !sources.is_empty() {
        part.heading("Record");
        part.put(format_args!("<ul>\n"));
        for source in sources.iter().take(part.much.parts) {
            let Source { name, sha256 } = source;
            let name = escape(&part.short(name));
            part.put(format_args!(
                "<li>SHA-256 of {name}: <code>{}</code></li>\n",
                escape(sha256)
            ));
        }
        part.put(format_args!("</ul>\n"));
    }
}

/// Returns the text that replaces a missing description of the device.
fn no_device(document: &Document) -> &'static str {
    match document.test.as_str() {
        "run" | "compare" => "Not given.",
        _ => "Not given. RFC 2544 section 7 asks for the device's software version and configuration.",
    }
}

/// Returns a command line in a form that can be typed.
fn command_line(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| crate::plot::about::quoted(word)).collect();
    words.join(" ")
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
