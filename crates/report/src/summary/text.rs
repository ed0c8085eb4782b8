//! Columns and folded lines. No line is wider than the terminal, or than the smallest usual one, so that no terminal
//! breaks a table in the middle of a number.

use mpps_sys::text::Harmless;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

/// Returns whether a terminal does not know its width (a serial line, or a pseudo-terminal whose owner has not set it):
/// lines that it folds could not be drawn over.
pub(crate) fn is_of_no_width(stream: &impl AsFd) -> bool {
    rustix::termios::tcgetwinsize(stream).is_ok_and(|size| size.ws_col == 0)
}

/// Columns of the smallest usual terminal.
pub(super) const COLUMNS: usize = 80;
/// Fewest columns that text is made to fit.
const FEWEST: usize = 20;

/// Returns the columns that text for a stream may take: 80, or those of a terminal that has fewer.
pub fn columns_of(stream: &impl IsTerminal) -> usize {
    let terminal = stream.is_terminal().then(crossterm::terminal::size);
    let columns = terminal
        .and_then(Result::ok)
        .map_or(0, |(columns, _)| usize::from(columns));
    if columns == 0 {
        COLUMNS
    } else {
        columns.clamp(FEWEST, COLUMNS)
    }
}

/// Destination and width of a text.
pub(super) struct Page<'o> {
    pub(super) out: &'o mut dyn Write,
    pub(super) columns: usize,
}

impl Write for Page<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        // Names of devices and files may contain anything.
        Harmless(&mut *self.out).write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Prints rows in columns, two blanks apart; `align` has `l` or `r` for each column. Columns that are empty in every
/// row are left out. If the columns do not fit beside each other, each row is folded. If the first row has the columns'
/// names (`Heads::Named`), each cell of a folded row then has its name before it.
pub(super) fn table(rows: &[Vec<String>], align: &str, heads: Heads, out: &mut Page<'_>) -> io::Result<()> {
    debug_assert!(
        rows.iter().all(|row| row.len() <= align.len()),
        "more cells than columns"
    );
    let columns: Vec<_> = align
        .chars()
        .enumerate()
        .filter_map(|(i, a)| Some((i, a, width_of(rows, i)?)))
        .collect();
    if width(rows) > out.columns && out.columns < COLUMNS {
        return folded(rows, heads, out);
    }
    for row in rows {
        let mut line = String::new();
        for (position, &(i, align, width)) in columns.iter().enumerate() {
            let cell = row.get(i).map_or("", String::as_str);
            let gap = if position == 0 { "" } else { "  " };
            line += gap;
            line += &if align == 'l' {
                format!("{cell:<width$}")
            } else {
                format!("{cell:>width$}")
            };
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Returns the characters that a table takes in a line.
pub(super) fn width(rows: &[Vec<String>]) -> usize {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths = (0..columns).filter_map(|column| width_of(rows, column));
    widths.map(|width| width + 2).sum::<usize>().saturating_sub(2)
}

/// Returns the characters of the widest cell of a column; `None` if all are empty.
fn width_of(rows: &[Vec<String>], column: usize) -> Option<usize> {
    let cells = rows.iter().filter_map(|row| row.get(column));
    cells.map(|cell| cell.chars().count()).max().filter(|width| *width > 0)
}

/// Whether the first row of a table has the names of its columns.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Heads {
    Named,
    None,
}

fn folded(rows: &[Vec<String>], heads: Heads, out: &mut Page<'_>) -> io::Result<()> {
    let (names, rows) = match (heads, rows.split_first()) {
        (Heads::Named, Some((names, rows))) => (Some(names), rows),
        _ => (None, rows),
    };
    for row in rows {
        let cell = |(i, cell): (usize, &String)| match names.map(|names| names[i].as_str()) {
            None | Some("") => cell.clone(),
            Some(name) => format!("{name} {cell}"),
        };
        let parts = row.iter().enumerate().filter(|(_, cell)| !cell.is_empty()).map(cell);
        fold(parts, "  ", "  ", out)?;
    }
    Ok(())
}

/// Prints the parts with `separator` between them, and begins a new line after it if the width would be exceeded.
/// Further lines are indented. A part that fits on a line is never split; others are split between words. Escape
/// sequences take no column.
pub(super) fn fold<S: AsRef<str>>(
    parts: impl IntoIterator<Item = S>,
    separator: &str,
    indent: &str,
    out: &mut Page<'_>,
) -> io::Result<()> {
    let (mut line, mut used) = (String::new(), 0);
    // Each piece with the separator between it and the piece before.
    let mut pieces: Vec<(String, &str)> = Vec::new();
    for part in parts {
        let part = part.as_ref();
        if columns(part) + columns(separator.trim_end()) + columns(indent) * usize::from(!pieces.is_empty())
            <= out.columns
        {
            pieces.push((part.to_owned(), separator));
        } else {
            let blanks = part.len() - part.trim_start().len();
            let mut from = separator;
            for word in part[blanks..].split(' ') {
                let lead = if from == separator && pieces.is_empty() {
                    &part[..blanks]
                } else {
                    ""
                };
                pieces.push((format!("{lead}{word}"), from));
                from = " ";
            }
        }
    }
    for (i, (part, separator)) in pieces.iter().enumerate() {
        let (width, gap) = (columns(part), columns(separator));
        // The first part of the separator before the next piece is on this line.
        let after = pieces.get(i + 1).map_or(0, |(_, next)| columns(next.trim_end()));
        if used == 0 {
            used = width;
        } else if used + gap + width + after <= out.columns {
            line += separator;
            used += gap + width;
        } else {
            writeln!(out, "{line}{}", separator.trim_end())?;
            line = indent.to_owned();
            used = columns(indent) + width;
        }
        line += part;
    }
    writeln!(out, "{line}")
}

/// Prints a sentence, folded between words.
pub(super) fn sentence(head: &str, text: &str, indent: &str, out: &mut Page<'_>) -> io::Result<()> {
    let words = text.split_whitespace();
    fold(
        std::iter::once(head).filter(|h| !h.is_empty()).chain(words),
        " ",
        indent,
        out,
    )
}

/// Returns a sentence as lines of at most this many columns, folded between words.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut out = Vec::new();
    // Writing to a Vec does not fail.
    let _ = sentence("", text, "  ", &mut Page { out: &mut out, columns });
    String::from_utf8_lossy(&out).lines().map(str::to_owned).collect()
}

/// Returns the columns that the text takes, its colours not counted.
fn columns(text: &str) -> usize {
    let mut escaped = false;
    text.chars()
        .filter(|&c| match (escaped, c) {
            (false, '\x1b') => {
                escaped = true;
                false
            }
            (true, _) => {
                escaped = c != 'm';
                false
            }
            _ => true,
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn colours_take_no_column() {
        assert_eq!(columns("\x1b[1;31mNOT VALID\x1b[0m x"), 11);
    }

    #[test]
    fn a_table_without_room_is_folded_with_the_names_at_the_cells() {
        let cells = |row: &[&str]| row.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let rows = [
            cells(&["", "p50", "p99", "max"]),
            cells(&["latency", "12.35 µs", "1.234 ms", "2.500 s"]),
        ];
        let mut out = Vec::new();
        let page = &mut Page {
            out: &mut out,
            columns: 30,
        };
        table(&rows, "lrrr", Heads::Named, page).unwrap();
        table(&rows[1..], "lrrr", Heads::None, page).unwrap();
        fold(["a part that is longer than the line has room for"], "   ", "  ", page).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "latency  p50 12.35 µs\n  p99 1.234 ms  max 2.500 s\nlatency  12.35 µs  1.234 ms\n  2.500 s\n\
             a part that is longer than the\n  line has room for\n"
        );
        // The first keeps its indent, and is not cut where it has just room.
        let mut out = Vec::new();
        let page = &mut Page {
            out: &mut out,
            columns: 30,
        };
        fold(["  1,000 lost between 1 and 2.0 s", "and 5"], ", ", "  ", page).unwrap();
        fold(["  1,000 lost between 1 and 2 s"], ", ", "  ", page).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "  1,000 lost between 1 and 2.0\n  s, and 5\n  1,000 lost between 1 and 2 s\n"
        );
    }

    proptest! {
        #[test]
        fn folding_keeps_every_word_and_the_width(
            words in proptest::collection::vec("[a-zµ]{1,18}", 0..60), columns in FEWEST..=COLUMNS,
        ) {
            let mut out = Vec::new();
            sentence("-", &words.join(" "), "  ", &mut Page { out: &mut out, columns }).unwrap();
            let text = String::from_utf8(out).unwrap();
            prop_assert!(text.lines().all(|l| l.chars().count() <= columns));
            prop_assert_eq!(text.split_whitespace().skip(1).collect::<Vec<_>>(), words);
        }
    }
}
