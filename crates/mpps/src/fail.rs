//! Failures of the program: one line on standard error, and the exit code that the Contract defines.

use crate::cli::{Cli, near};
use crate::plan::holders::held;
use crate::plan::json::field_of;
use mpps_netdev::NetDev;
use mpps_sys::probe::bpf_forbidden;
use mpps_sys::stdio::stdout_is_closed;
use mpps_sys::text::{Harmless, Spoken, is_utf8, spoken};
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Prints a line on standard error. Text from others in it is made [`printable`].
macro_rules! say {
    ($($words:tt)*) => {
        $crate::fail::to_stderr(&format!("mpps: {}", $crate::fail::printable(&format!($($words)*))))
    };
}
pub(crate) use say;

/// A failure, sorted by its exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Wrong arguments: exit code 2. Names the option, the value and what would be right.
    Usage(String),
    /// Anything else: exit code 1.
    Failed(String),
}

/// Result of planning and running.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Returns the line that is printed.
    pub(crate) fn line(&self) -> &str {
        let (Self::Usage(line) | Self::Failed(line)) = self;
        line
    }

    /// Puts the name of a part in front of the line, if the line does not name it.
    pub(crate) fn of(self, part: impl Display) -> Self {
        match self {
            Self::Usage(line) => Self::Usage(format!("{part}: {line}")),
            Self::Failed(line) => Self::Failed(format!("{part}: {line}")),
        }
    }

    /// Returns the exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Failed(_) => 1,
        }
    }

    /// Prints the line and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let mut line = printable(self.line());
        let failed = matches!(self, Self::Failed(_));
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
        ExitCode::from(self.code())
    }
}

/// Writes a line to standard error. A closed reader (`2>&1 | head`) does not end the run, whereas `eprintln!` would
/// panic.
pub(crate) fn to_stderr(line: &str) {
    let _ = writeln!(io::stderr(), "{}", spoken(line));
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

/// Escapes control characters in a text that may quote anything, as `\u{1b}`: a terminal would obey them.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match mpps_sys::text::is_hidden(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

/// Returns the failure for a wrong argument.
pub(crate) fn usage(line: impl Display) -> Failure {
    Failure::Usage(line.to_string())
}

/// Returns the failure of a step that was tried.
pub(crate) fn failed(line: impl Display) -> Failure {
    Failure::Failed(line.to_string())
}

impl From<mpps_io::SpecError> for Failure {
    fn from(error: mpps_io::SpecError) -> Self {
        usage(error)
    }
}

impl From<mpps_engine::RunError> for Failure {
    fn from(error: mpps_engine::RunError) -> Self {
        failed(error)
    }
}

impl From<mpps_report::ReportError> for Failure {
    fn from(error: mpps_report::ReportError) -> Self {
        match error {
            mpps_report::ReportError::Format { .. } => usage(format!("-o {error}")),
            _ => failed(error),
        }
    }
}

impl From<mpps_host::lab::LabError> for Failure {
    fn from(error: mpps_host::lab::LabError) -> Self {
        failed(error)
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

/// Converts the error of a port that could not be opened. It is a wrong argument if the port names a device or address
/// that does not exist, or asks for a feature that the device lacks.
pub(crate) fn unopened(spec: &mpps_io::PortSpec) -> impl Fn(mpps_io::Error) -> Failure + '_ {
    move |error| {
        use mpps_io::ErrorKind::{InUse, NotFound, Unsupported};
        if let (InUse, Ok(address)) = (error.kind, error.object.parse::<SocketAddr>()) {
            return failed(format!(
                "port '{spec}': {address}: UDP port {} is held by another program: stop that, or give another port",
                held(&[address.port()])
            ));
        }
        if let Some(why) = without_bpf(spec, &error) {
            return failed(format!("port '{spec}': {why}"));
        }
        match error.kind {
            // The kernel reports this in many ways, and some of them blame an argument.
            kind if kind != NotFound && went(spec) => failed(format!(
                "port '{spec}': interface {} went while it was opened ({error})",
                spec.device
            )),
            NotFound | Unsupported => usage(format!("port '{spec}': {error}")),
            _ => failed(error),
        }
    }
}

/// Returns the explanation for a port that could not be opened because BPF is forbidden here; `None`: that is not the
/// reason.
fn without_bpf(spec: &mpps_io::PortSpec, error: &mpps_io::Error) -> Option<String> {
    use mpps_io::ErrorKind::{Other, Permission, Unsupported};
    if !matches!(error.kind, Permission | Unsupported | Other) {
        return None;
    }
    let guard = error.op.contains("guard");
    if !guard && !crate::paths::needs_bpf(spec) {
        return None;
    }
    let why = bpf_forbidden()?;
    Some(match guard {
        true => format!("{why}: want guard=off, with a firewall rule that drops this host's answers, or the path udp"),
        false => format!("{why}: want the path udp, which needs no BPF"),
    })
}

/// Returns whether the interface of a port has disappeared since the plan was checked.
pub(crate) fn went(spec: &mpps_io::PortSpec) -> bool {
    crate::paths::drives_interface(spec)
        && matches!(NetDev::by_name(&spec.device), Err(e) if e.kind() == io::ErrorKind::NotFound)
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
    let field = field_of(option.split('=').next()?)?;
    Some(format!(
        "{option}: a plan says this itself: want {field} changed in the file (docs/use/plans.md)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_io::{Error, ErrorKind, PortSpec};

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

    #[test]
    fn an_interface_that_went_while_it_was_opened_is_named_and_no_wrong_argument() {
        let error = |kind| Error::new("attach the program to", "nonesuch9", "Invalid argument", kind);
        for path in ["af_packet", "af_xdp", "xdp"] {
            let spec: PortSpec = format!("{path}:nonesuch9").parse().expect("a port");
            let Failure::Failed(told) = unopened(&spec)(error(ErrorKind::Unsupported)) else {
                panic!("{path}: a wrong argument");
            };
            assert!(told.contains("interface nonesuch9 went while it was opened"), "{told}");
            // An interface that never existed.
            assert!(matches!(unopened(&spec)(error(ErrorKind::NotFound)), Failure::Usage(_)));
        }
        let there: PortSpec = "xdp:lo".parse().expect("a port");
        let refused = unopened(&there)(error(ErrorKind::Unsupported));
        assert!(matches!(refused, Failure::Usage(_)), "{refused:?}");
    }
}
