//! Places in a text, and refusals that name them.

use std::ops::Range;

/// Place in a text: bytes.
pub type Span = Range<usize>;

/// Refusal of what a user wrote: one line on what is wrong and what would be right, and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}")]
pub struct Wrong {
    /// Place in the text that was read.
    pub at: Span,
    /// Line without the place.
    pub line: String,
}

/// Result of reading.
pub(crate) type Read<T> = Result<T, Wrong>;

impl Wrong {
    pub(crate) fn new(at: Span, line: impl Into<String>) -> Self {
        Self { at, line: line.into() }
    }

    /// Returns the line and column of the place, each from 1; a column counts characters.
    pub fn position(&self, text: &str) -> (usize, usize) {
        let before = text.get(..self.at.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        (line, before[start..].chars().count() + 1)
    }

    /// Returns the line behind the place in a file: `FILE:LINE:COLUMN: …`.
    pub fn in_file(&self, name: &str, text: &str) -> String {
        let (line, column) = self.position(text);
        format!("{name}:{line}:{column}: {}", self.line)
    }
}

/// Returns a word as messages show it: on one line, and not longer than one.
pub(crate) fn quoted(word: &str) -> String {
    const MOST: usize = 48;
    let shown: String = word.chars().take(MOST).flat_map(char::escape_debug).collect();
    let more = if word.chars().nth(MOST).is_some() { "…" } else { "" };
    format!("'{shown}{more}'")
}

/// Returns the word that is nearest to `given`, if one is near.
pub(crate) fn nearest<'w>(given: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let near = words.into_iter().map(|word| (distance(given, word), word));
    // A third of a word may be wrong.
    near.min_by_key(|(distance, _)| *distance)
        .filter(|(distance, word)| *distance <= word.len().max(3) / 3)
        .map(|(_, word)| word)
}

/// Returns the number of letters to insert, remove, change or exchange with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(32).collect(), b.chars().take(32).collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        rows[i][0] = i;
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

/// Returns `; did you mean 'WORD'?`, or nothing.
pub(crate) fn did_you_mean<'w>(given: &str, words: impl IntoIterator<Item = &'w str>) -> String {
    nearest(given, words).map_or_else(String::new, |word| format!("; did you mean '{word}'?"))
}
