//! Failures of the program: one line on standard error, and the exit code that the Contract defines.

use crate::cli::{Cli, near};
use mpps_plan::json::field_of;
pub(crate) use mpps_run::fail::{Failure, Result, failed, printable, say, to_stderr, unwritable, usage};
use mpps_sys::stdio::stdout_is_closed;
use mpps_sys::text::{Harmless, Spoken, is_utf8};
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Prints the line of a failure and returns the exit code.
pub(crate) fn report(failure: &Failure) -> ExitCode {
    let mut line = printable(failure.line());
    let failed = matches!(failure, Failure::Failed(_));
    // The paths know which privileges they need, but not whether setcap helps on this host.
    let advises = failed && line.contains("with the command that `mpps doctor` prints");
    if let Some(why) = mpps_host::privilege::why_not_setcap().filter(|_| advises) {
        line += &format!(" (setcap does not help here: {why})");
    }
    match failed {
        true => tell_at_end(&line),
        // Nothing was done yet, so no results wait behind this line.
        false => to_stderr(&format!("mpps: {line}")),
    }
    ExitCode::from(code(failure))
}

/// Returns the exit code of a failure.
pub(crate) fn code(failure: &Failure) -> u8 {
    match failure {
        Failure::Usage(_) => 2,
        Failure::Failed(_) => 1,
    }
}

/// Longest wait for a terminal that takes no output (Ctrl-S), per process, for lines at the end.
const PATIENCE: Duration = Duration::from_secs(2);

/// Prints a line on standard error when the results are written, or nothing is left to be done with them. If a terminal
/// takes no output, the program does not wait for it for long: it ends without this line and those after it.
pub(crate) fn tell_at_end(line: &str) {
    static GIVEN_UP: AtomicBool = AtomicBool::new(false);
    let text = format!("mpps: {}", printable(line));
    if !io::stderr().is_terminal() {
        return to_stderr(&text);
    }
    if GIVEN_UP.load(Ordering::Relaxed) {
        return;
    }
    // A blocked write can't be cancelled, and nobody can know in advance whether a whole line will block. So another
    // thread writes and waits; it ends with the process.
    let (said, heard) = channel();
    let words = text.clone();
    let write = move || {
        to_stderr(&words);
        let _ = said.send(());
    };
    let thread = std::thread::Builder::new().name("mpps-error".to_owned()).spawn(write);
    if thread.is_err() {
        // If no thread can be started, this line is probably about that.
        return to_stderr(&text);
    }
    if heard.recv_timeout(PATIENCE).is_err() {
        GIVEN_UP.store(true, Ordering::Relaxed);
    }
}

/// Writes to standard output. A closed reader (`| head`) is no error: it had all that it wanted.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    if stdout_is_closed() {
        return Err(failed("write to standard output: it is closed"));
    }
    let mut out = Harmless(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(failed(format!("write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes text to standard output, as [`print`] writes data. In ASCII if the locale is not UTF-8.
pub(crate) fn print_words(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    print(|out| write(&mut Spoken(out)))
}

/// Prints the output of the argument parser: help and version unchanged, errors as one line.
pub(crate) fn of_arguments(error: &clap::Error) -> Result<ExitCode> {
    use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    if matches!(
        error.kind(),
        DisplayHelp | DisplayVersion | DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        let plain = (!is_utf8()).then(|| error.render().to_string());
        match (error.use_stderr(), plain) {
            (true, Some(text)) => to_stderr(text.trim_end_matches('\n')),
            (false, Some(text)) => print_words(|out| out.write_all(text.as_bytes()))?,
            (true, None) => error.print().unwrap_or_default(),
            (false, None) => print(|_| error.print())?,
        }
        return Ok(ExitCode::from(match error.kind() {
            DisplayHelpOnMissingArgumentOrSubcommand => 2,
            _ => 0,
        }));
    }
    Err(usage(argument_line(error)))
}

/// Returns the error of the argument parser as one line.
pub(crate) fn argument_line(error: &clap::Error) -> String {
    if let Some(line) = of_the_plan(error) {
        return line;
    }
    let text = error.render().to_string();
    let first = text.split("\n\nUsage:").next().unwrap_or(&text);
    let first = first.split("\n\nFor more information").next().unwrap_or(first);
    // clap's tips compare letters only, and offer `--junit` for `--count`.
    let first = first.split("\n\n  tip:").next().unwrap_or(first);
    let tip = tip(error).map_or_else(String::new, |tip| format!("; tip: {tip}"));
    let first = format!("{first}{tip}");
    let line = printable(&first.replace('\n', " "));
    let line = line
        .trim_start_matches("error: ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    // The line quotes the user's input.
    mpps_io::hide_secrets(&line)
}

/// Returns a text from an error of the argument parser.
fn context(error: &clap::Error, kind: clap::error::ContextKind) -> Option<String> {
    use clap::error::ContextValue;
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::StyledStr(text)) => Some(text.to_string()),
        _ => None,
    }
}

/// Returns a tip with the command or option that was likely meant; `None` if none is similar.
fn tip(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let root = Cli::definition();
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let typed = context(error, ContextKind::InvalidSubcommand)?;
            Some(match near::command(&root, &typed) {
                Some(meant) => format!("there is {meant}"),
                None => "`mpps help` lists the commands".to_owned(),
            })
        }
        ErrorKind::UnknownArgument => {
            let typed = context(error, ContextKind::InvalidArg)?;
            let sub = near::of_usage(&root, &context(error, ContextKind::Usage).unwrap_or_default());
            let name = typed.split('=').next()?.strip_prefix("--")?;
            let meant = near::option(sub, name)?;
            Some(format!("a similar argument exists: {meant}"))
        }
        // clap knows all values of such an option, and suggests only similar ones.
        ErrorKind::InvalidValue => match error.get(ContextKind::SuggestedValue)? {
            ContextValue::String(near) => Some(format!("a similar value exists: '{near}'")),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the answer if `mpps run` is given an option of the run itself, which belongs into the plan.
fn of_the_plan(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ErrorKind};
    let text = |kind| context(error, kind);
    let of_run = || text(ContextKind::Usage).is_some_and(|usage| usage.contains("mpps run "));
    let option = text(ContextKind::InvalidArg).filter(|_| error.kind() == ErrorKind::UnknownArgument && of_run())?;
    let field = field_of(match option.split('=').next()? {
        // What these make is the field of the packet.
        "--traffic" | "--pcap" | "--set" => "--packet",
        other => other,
    })?;
    Some(format!(
        "{option}: a plan says this itself: want {field} changed in the file (docs/use/plans.md)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_the_run_beside_a_plan_is_answered_with_the_field_that_it_is() {
        let line = |text: &str| {
            let words = text.split(' ').map(std::ffi::OsString::from);
            argument_line(&crate::cli::Cli::of(words).expect_err(text))
        };
        for text in ["mpps run plan.json --rate 5", "mpps run --rate=5 plan.json"] {
            let told = line(text);
            assert!(
                told.starts_with("--rate: a plan says this itself: want load.rate"),
                "{told}"
            );
        }
        assert!(line("mpps run plan.json --seed 5").contains("want seed changed in the file"));
        assert!(line("mpps run plan.json --traffic mix.toml").contains("want traffic.streams changed in the file"));
        for text in ["mpps run plan.json --nonesuch", "mpps sendrecv loop: --rotate-size 5"] {
            assert!(!line(text).contains("a plan says this"), "{}", line(text));
        }
    }

    #[test]
    fn what_was_typed_is_quoted_without_what_a_terminal_obeys_and_tips_stand_apart() {
        let line = |words: &[&str]| {
            let words = std::iter::once("mpps")
                .chain(words.iter().copied())
                .map(std::ffi::OsString::from);
            argument_line(&crate::cli::Cli::of(words).expect_err("wrong"))
        };
        for words in [
            &["sendrecv", "\x1b[31mred"][..],
            &["sendrecv", "\x1b]0;title\x07"],
            &["sendrecv", "loop:", "--rate", "\x1b[2J"],
            &["\x1b[31m"],
        ] {
            let told = line(words);
            assert!(!told.contains(char::is_control), "{told:?}");
        }
        let told = line(&["sendrecv", "loop:", "--ratte", "5"]);
        assert!(
            told.contains("'--ratte' found; tip: a similar argument exists: '--rate'"),
            "{told}"
        );
        for (words, tip) in [
            (&["sendrecv", "loop:", "--juni", "x"][..], "exists: '--junit'"),
            (&["sendrecv", "loop:", "--time", "5s"], "exists: '--duration'"),
            (
                &["sendrecv", "loop:", "--size=64"],
                "exists: '--frame-size', '--payload-size'",
            ),
            (&["recv", "udp:"], "tip: there is 'drop' (Receive"),
            (&["help", "recv"], "tip: there is 'drop' (Receive"),
            (&["rfc2544", "troughput", "loop:"], "exists: 'throughput'"),
        ] {
            assert!(line(words).contains(tip), "{words:?}: {}", line(words));
        }
        for words in [
            &["drop", "loop:", "--foobar"][..],
            &["sendrecv", "loop:", "--nonesuch=1"],
        ] {
            assert!(!line(words).contains("tip:"), "{words:?}: {}", line(words));
        }
        assert!(printable("a\u{1b}b\u{9b}").eq("a\\u{1b}b\\u{9b}"));
    }
}
