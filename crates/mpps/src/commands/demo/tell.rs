//! Output of the demo: numbered steps, and command lines that can be copied.

use std::io::Write;

/// Columns that a line of the demo takes at most: those of the smallest usual terminal.
const COLUMNS: usize = 80;

/// Writes a line. A reader that has gone is no reason to end: the files still get everything.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{}", mpps_sys::text::spoken(line));
}

/// Numbers the steps.
pub(super) struct Teller {
    step: u32,
    bold: [&'static str; 2],
    hushed: bool,
}

impl Teller {
    pub(super) fn new() -> Self {
        let bold = match mpps_report::Colour::for_stream(&std::io::stdout()) {
            mpps_report::Colour::Always => ["\x1b[1m", "\x1b[0m"],
            mpps_report::Colour::Never => [""; 2],
        };
        Self {
            step: 0,
            bold,
            hushed: false,
        }
    }

    pub(super) fn step(&mut self, what: &str) {
        self.step += 1;
        let title = format!("{}. {what}", self.step);
        self.heading(&title);
    }

    pub(super) fn heading(&self, what: &str) {
        let [on, off] = self.bold;
        say(&format!("\n{on}{what}{off}"));
    }

    /// Keeps command lines to itself: those of a second round are known from the first.
    pub(super) fn hush(&mut self, hushed: bool) {
        self.hushed = hushed;
    }

    /// A command line as it can be typed.
    pub(super) fn command(&self, words: &[String]) {
        if self.hushed {
            return;
        }
        for line in folded(words) {
            say(&line);
        }
    }
}

/// The words, quoted where a shell needs it, in lines that a shell reads as one.
fn folded(words: &[String]) -> Vec<String> {
    let mut lines = vec!["   $".to_owned()];
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let mut piece = quoted(word);
        // An option stays with its value.
        if word.starts_with("--")
            && word != "--"
            && let Some(value) = words.next_if(|next| !next.starts_with('-'))
        {
            piece = format!("{piece} {}", quoted(value));
        }
        let line = lines.last_mut().expect("begins with one line");
        if line.chars().count() + piece.chars().count() + 3 > COLUMNS && line.trim() != "$" && !line.trim().is_empty() {
            line.push_str(" \\");
            lines.push(format!("       {piece}"));
        } else {
            line.push(' ');
            line.push_str(&piece);
        }
    }
    lines
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:,=@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_folded_command_as_the_words_it_was_made_of() {
        let mut words: Vec<String> = ["printf", r"%s\n", "--csv", "a b/it's.csv", "", "$HOME", "-q"]
            .map(String::from)
            .into();
        words.extend((0..40).map(|n| format!("--option-{n}")));
        let lines = folded(&words);
        assert!(
            lines.len() > 5 && lines.iter().all(|l| l.chars().count() <= COLUMNS),
            "{lines:#?}"
        );
        let script = lines.join("\n").replacen("   $ ", "", 1);
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .output()
            .expect("sh");
        let read: Vec<_> = std::str::from_utf8(&output.stdout)
            .expect("UTF-8")
            .lines()
            .map(String::from)
            .collect();
        assert_eq!(read, words[2..]);
    }
}
