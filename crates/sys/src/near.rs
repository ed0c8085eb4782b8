//! Words near to one that was typed: names of options, commands, streams.

/// Returns the number of letters to insert, leave out or exchange, or of neighbours to swap (optimal string alignment).
/// A word may be as long as a file.
fn distance(a: &str, b: &str) -> usize {
    if a.len() > 2 * b.len() + 8 {
        return usize::MAX;
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    let mut above = row.clone();
    for i in 0..a.len() {
        let mut next = vec![i + 1; b.len() + 1];
        for j in 0..b.len() {
            let changed = row[j] + usize::from(a[i] != b[j]);
            next[j + 1] = changed.min(next[j] + 1).min(row[j + 1] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                next[j + 1] = next[j + 1].min(above[j - 1] + 1);
            }
        }
        (above, row) = (row, next);
    }
    row[b.len()]
}

/// Returns whether one word is likely a slip of the other: one letter may differ, two in a longer word.
fn is_slip(typed: &str, meant: &str) -> bool {
    let most = if typed.chars().count() < 6 { 1 } else { 2 };
    let letters = |text: &str| text.to_ascii_lowercase();
    let differ = distance(&letters(typed), &letters(meant));
    differ <= most && differ < meant.len().min(typed.len())
}

/// Returns the nearest of these words that the typed one is likely a slip of; `None` if none is near.
pub fn nearest<'n>(typed: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let near = names.filter(|name| is_slip(typed, name));
    near.min_by_key(|name| distance(typed, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_leads_to_the_nearest_word_and_another_word_to_none() {
        let words = ["gold", "probe", "users-of-the-network"];
        for (typed, near) in [
            ("gold", Some("gold")),
            ("gols", Some("gold")),
            ("GOLD", Some("gold")),
            ("prbe", Some("probe")),
            ("users-of-teh-netwrk", Some("users-of-the-network")),
            ("silver", None),
            ("go", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, words.into_iter()), near, "{typed}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), words.into_iter()), None);
    }
}
