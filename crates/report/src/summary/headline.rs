//! The first words of a summary, and the counts by reason with what they mean.

use super::Colour;
use super::text::{Page, sentence};
use crate::units::count;
use mpps_io::Reason;
use mpps_stats::{Summary, Workload};
use std::io::{self, Write};

/// Returns the verdict. `VALID` alone is praise only if packets arrived. A run that lost everything says so, and is no
/// success.
pub(super) fn headline(s: &Summary, colour: Colour) -> String {
    if !s.valid {
        return colour.paint("1;31", "NOT VALID");
    }
    let arrived = s.rx + s.late > 0;
    let known = s.tx > s.untagged || s.tx == 0;
    match s.workload {
        Workload::Send => colour.paint("1;32", "VALID"),
        _ if arrived => colour.paint("1;32", "VALID"),
        // Nobody knows what came.
        Workload::SendRecv if !known => colour.paint("1;32", "VALID"),
        Workload::SendRecv => colour.paint("1;33", "VALID: all packets lost"),
        _ => colour.paint("1;33", "VALID: nothing received"),
    }
}

/// Returns how the run ended, if not as requested. A run without an end of its own is ended by a signal: that is not
/// mentioned.
pub(super) fn ended(s: &Summary) -> &'static str {
    if s.interrupted && !s.open_ended {
        ", ended early"
    } else {
        ""
    }
}

/// Prints counts by reason, each with its meaning.
pub(super) fn reasons(reasons: &[(String, u64)], out: &mut Page<'_>) -> io::Result<()> {
    for (name, n) in reasons.iter().filter(|(_, n)| *n > 0) {
        let head = format!("{name} {}", count(*n));
        match Reason::named(name) {
            Some(reason) => sentence(&format!("{head}:"), reason.meaning(), "  ", out)?,
            None => writeln!(out, "{head}")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(workload: Workload, rx: u64) -> Summary {
        Summary {
            workload,
            tx: 100,
            rx,
            valid: true,
            ..Summary::default()
        }
    }

    #[test]
    fn a_run_that_lost_everything_is_not_praised() {
        for (workload, words) in [
            (Workload::SendRecv, "all packets lost"),
            (Workload::Drop, "nothing received"),
            (Workload::Reflect, "nothing received"),
            (Workload::Forward, "nothing received"),
            (Workload::Capture, "nothing received"),
        ] {
            let text = headline(&summary(workload, 0), Colour::Always);
            assert_eq!(text, format!("\x1b[1;33mVALID: {words}\x1b[0m"));
            assert_eq!(headline(&summary(workload, 1), Colour::Never), "VALID");
        }
        assert_eq!(headline(&summary(Workload::Send, 0), Colour::Never), "VALID");
        let invalid = Summary {
            valid: false,
            ..summary(Workload::SendRecv, 0)
        };
        assert_eq!(headline(&invalid, Colour::Never), "NOT VALID");
    }

    #[test]
    fn only_a_run_that_had_an_end_ends_early() {
        let mut s = summary(Workload::Reflect, 1);
        assert_eq!(ended(&s), "");
        s.interrupted = true;
        assert!(ended(&s).contains("ended early"));
        s.open_ended = true;
        assert_eq!(ended(&s), "");
    }

    #[test]
    fn every_reason_stands_with_its_count_and_its_meaning() {
        let all: Vec<_> = Reason::ALL.iter().map(|r| (r.as_str().to_owned(), 123_456)).collect();
        let mut out = Vec::new();
        let page = &mut Page {
            out: &mut out,
            columns: 80,
        };
        reasons(&all, page).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (name, meaning) in Reason::ALL.iter().map(|r| (r.as_str(), r.meaning())) {
            assert!(
                words(&text).contains(&format!("{name} 123,456: {meaning}")),
                "{name}: {text}"
            );
        }
    }
}
