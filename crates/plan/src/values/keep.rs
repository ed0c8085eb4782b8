//! Values of the options of traces.

use super::Parsed;
use crate::values;
use std::time::Duration;

/// Values that `--trace-on` accepts.
const WANT: &str = "want a list of stall=TIME, late=TIME, loss, drop and invalid, such as stall=1ms,loss";

/// Value of `--trace-on`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Triggers {
    /// Shortest stall of a lane that is kept.
    pub stall: Option<Duration>,
    /// Shortest delay of a departure that is kept.
    pub late: Option<Duration>,
    /// Rows with losses are kept.
    pub loss: bool,
    /// Drops of this host are kept.
    pub drop: bool,
    /// The end of a run that is not valid is kept.
    pub invalid: bool,
}

/// Value of `--trace-window`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Time before the event.
    pub before: Duration,
    /// Time after it.
    pub after: Duration,
}

/// Parses `--trace-on`.
pub fn triggers(text: &str) -> Parsed<Triggers> {
    let mut triggers = Triggers { ..Triggers::default() };
    for word in text.split(',') {
        let time = |text: &str| values::catch_up(text).map_err(|why| format!("{word}: {why}"));
        match word.split_once('=') {
            Some(("stall", text)) => triggers.stall = Some(time(text)?),
            Some(("late", text)) => triggers.late = Some(time(text)?),
            None if word == "loss" => triggers.loss = true,
            None if word == "drop" => triggers.drop = true,
            None if word == "invalid" => triggers.invalid = true,
            _ => return Err(WANT.to_owned()),
        }
    }
    Ok(triggers)
}

/// Parses `--trace-window`.
pub fn window(text: &str) -> Parsed<Window> {
    let bad = || "want two times, such as 5ms:1ms, of 1 s together at the most".to_owned();
    let (before, after) = text.split_once(':').ok_or_else(bad)?;
    let [before, after] = [before, after].map(|text| values::settle(text).map_err(|_| bad()));
    let (before, after) = (before?, after?);
    if before + after > Duration::from_secs(1) {
        return Err(bad());
    }
    Ok(Window { before, after })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_and_windows_are_read_or_refused_with_what_would_be_right() {
        let all = triggers("stall=100us,late=50us,loss,drop,invalid").expect("right");
        assert_eq!(all.stall, Some(Duration::from_micros(100)));
        assert_eq!(all.late, Some(Duration::from_micros(50)));
        assert!(all.loss && all.drop && all.invalid);
        assert!(!triggers("stall=2s").expect("right").loss);
        for bad in [
            "",
            "stall",
            "stall=",
            "stall=1",
            "loss=1ms",
            "late=-1ms",
            "loss,,drop",
            "Loss",
        ] {
            assert!(triggers(bad).is_err(), "{bad}");
        }
        assert_eq!(window("5ms:1ms").expect("right").before, Duration::from_millis(5));
        for bad in ["", "5ms", "5ms:", "1s:1ms", "1:2", "5ms:1ms:1ms"] {
            assert!(window(bad).is_err(), "{bad}");
        }
    }
}
