//! Columns and folded lines: nothing of ours is wider than the smallest usual terminal, so that no terminal folds a
//! table in the middle of a figure.

use std::io::{self, Write};

/// Columns of the smallest usual terminal.
pub(super) const COLUMNS: usize = 80;

/// Prints rows in columns, two blanks apart; `align` has `l` or `r` for each column. Columns that are empty in every
/// row are left out.
pub(super) fn table(rows: &[Vec<String>], align: &str, out: &mut dyn Write) -> io::Result<()> {
    debug_assert!(
        rows.iter().all(|row| row.len() <= align.len()),
        "more cells than columns"
    );
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|c| c.chars().count())
            .max()
    };
    let columns: Vec<_> = align
        .chars()
        .enumerate()
        .filter_map(|(i, a)| Some((i, a, width(i).filter(|w| *w > 0)?)))
        .collect();
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

/// Joins the parts by `separator`, a new line begun after it where [`COLUMNS`] would be passed; further lines are
/// indented. Parts are never cut. Escape sequences take no column.
pub(super) fn fold<S: AsRef<str>>(
    parts: impl IntoIterator<Item = S>,
    separator: &str,
    indent: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (mut line, mut used) = (String::new(), 0);
    for part in parts {
        let part = part.as_ref();
        let (width, gap) = (columns(part), columns(separator));
        if used == 0 {
            used = width;
        } else if used + gap + width + columns(separator.trim_end()) <= COLUMNS {
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
pub(super) fn sentence(head: &str, text: &str, indent: &str, out: &mut dyn Write) -> io::Result<()> {
    let words = text.split_whitespace();
    fold(
        std::iter::once(head).filter(|h| !h.is_empty()).chain(words),
        " ",
        indent,
        out,
    )
}

/// Columns that the text takes, its colours not counted.
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

    proptest! {
        #[test]
        fn folding_keeps_every_word_and_the_width(words in proptest::collection::vec("[a-zµ]{1,20}", 0..60)) {
            let mut out = Vec::new();
            sentence("-", &words.join(" "), "  ", &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            prop_assert!(text.lines().all(|l| l.chars().count() <= COLUMNS));
            prop_assert_eq!(text.split_whitespace().skip(1).collect::<Vec<_>>(), words);
        }
    }
}
