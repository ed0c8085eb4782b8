//! Findings, and the report of them.

use std::io::{self, Write};

use mpps_sys::text::Harmless;
use serde::Serialize;

/// Grade of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The checked part is in order.
    Ok,
    /// Worth knowing.
    Info,
    /// Costs speed or accuracy.
    Warn,
    /// Something does not work.
    Fail,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Info => "info",
            Status::Warn => "warn",
            Status::Fail => "fail",
        }
    }

    /// The colour's SGR parameter (ECMA-48).
    fn colour(self) -> &'static str {
        match self {
            Status::Ok => "32",
            Status::Info => "36",
            Status::Warn => "33",
            Status::Fail => "31",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Group: `paths`, `cores`, `clock`, …, `nic eth0`.
    pub area: String,
    /// Subject of the check: `af_packet`, `rmem_max`, `queues`.
    pub item: String,
    /// Grade of the finding.
    pub status: Status,
    /// Result of the check.
    pub finding: String,
    /// Reason why the result matters.
    pub why: String,
    /// The command that improves it, for a root shell.
    pub command: Option<String>,
}

/// All findings, in the order of the areas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The findings.
    pub findings: Vec<Finding>,
}

/// Number of findings of each status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Number of findings with [`Status::Ok`].
    pub ok: usize,
    /// Number of findings with [`Status::Info`].
    pub info: usize,
    /// Number of findings with [`Status::Warn`].
    pub warn: usize,
    /// Number of findings with [`Status::Fail`].
    pub fail: usize,
}

/// Item of a finding about an interface that does not exist.
pub(super) const ABSENT: &str = "interface";

/// Returns the file that a command writes, if the command does nothing else: `sysctl -w KEY=VALUE`,
/// `echo VALUE > FILE`.
fn written(command: &str) -> Option<String> {
    if let Some(setting) = command.strip_prefix("sysctl -w ") {
        let (key, _) = setting.split_once('=')?;
        return Some(format!("/proc/sys/{}", key.replace('.', "/")));
    }
    let (_, file) = command.strip_prefix("echo ")?.split_once(" > ")?;
    (!file.contains(' ')).then(|| file.to_owned())
}

/// Collects the findings of one area.
pub(super) struct Area<'a> {
    report: &'a mut Report,
    name: String,
}

impl Area<'_> {
    /// Adds a finding; an empty command means there is none.
    pub(super) fn add(&mut self, status: Status, item: &str, finding: impl Into<String>, why: &str, command: &str) {
        self.report.findings.push(Finding {
            area: self.name.clone(),
            item: item.to_owned(),
            status,
            finding: finding.into(),
            why: why.to_owned(),
            command: (!command.is_empty()).then(|| command.to_owned()),
        });
    }
}

impl Report {
    pub(super) fn area(&mut self, name: impl Into<String>) -> Area<'_> {
        Area {
            report: self,
            name: name.into(),
        }
    }

    /// Adds leftovers that were removed before the host was examined.
    pub fn removed(&mut self, lines: &[String]) {
        let mut area = self.area("left over");
        for line in lines {
            let why = "runs that are killed (kill -9) can't remove what they have made";
            area.add(Status::Info, "removed", line.as_str(), why, "");
        }
    }

    /// Removes commands that write a file which can't be written here; the finding then says so.
    pub(super) fn drop_impossible(&mut self, can_be_set: impl Fn(&str) -> bool) {
        for finding in &mut self.findings {
            let Some(path) = finding.command.as_deref().and_then(written) else {
                continue;
            };
            if !can_be_set(&path) {
                finding.command = None;
                finding.finding += &format!(" (it can't be set here: {path} is read-only or hidden)");
            }
        }
    }

    /// Returns the number of findings of each status.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for finding in &self.findings {
            match finding.status {
                Status::Ok => counts.ok += 1,
                Status::Info => counts.info += 1,
                Status::Warn => counts.warn += 1,
                Status::Fail => counts.fail += 1,
            }
        }
        counts
    }

    /// Returns the worst status; [`Status::Ok`] when there is no finding.
    pub fn worst(&self) -> Status {
        self.findings.iter().map(|f| f.status).max().unwrap_or(Status::Ok)
    }

    /// Returns the finding for a requested interface or device that does not exist.
    pub fn absent(&self) -> Option<&str> {
        let absent = |f: &&Finding| f.item == ABSENT && f.status == Status::Fail;
        self.findings.iter().find(absent).map(|f| f.finding.as_str())
    }

    /// Returns whether a check failed for one of these interfaces, devices or paths, by name; for an empty list,
    /// whether any check failed.
    pub fn failed(&self, asked: &[String]) -> bool {
        let about = |f: &Finding, name: &String| match f.area.as_str() {
            "paths" => f.item == *name,
            // `nic eth1`, `pci 0000:03:00.0`.
            area => area.split_once(' ').is_some_and(|(_, device)| device == name),
        };
        self.findings
            .iter()
            .filter(|f| asked.is_empty() || asked.iter().any(|name| about(f, name)))
            .any(|f| f.status == Status::Fail)
    }

    /// Writes the report as aligned text, grouped by area; `colour` sets ECMA-48 colours. Reasons are shown for
    /// findings that are not in order, commands wherever there are some.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn render(&self, out: &mut dyn Write, colour: bool, columns: Option<usize>) -> io::Result<()> {
        // Names of interfaces and drivers may contain anything.
        let out = &mut Harmless(out);
        let paint = |sgr: &str, text: &str| {
            if colour {
                format!("\x1b[{sgr}m{text}\x1b[0m")
            } else {
                text.to_owned()
            }
        };
        let width = self.findings.iter().map(|f| f.item.chars().count()).max().unwrap_or(0);
        let indent = " ".repeat(2 + 4 + 2 + width + 2);
        // Commands are not wrapped, because they are copied.
        let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(indent.len()).max(MIN_ROOM));
        let mut area = "";
        for f in &self.findings {
            if f.area != area {
                let gap = if area.is_empty() { "" } else { "\n" };
                writeln!(out, "{gap}{}", paint("1", &f.area))?;
                area = &f.area;
            }
            let status = paint(f.status.colour(), &format!("{:<4}", f.status.word()));
            for (i, line) in wrapped(&f.finding, room).iter().enumerate() {
                match i {
                    0 => writeln!(out, "  {status}  {:<width$}  {line}", f.item)?,
                    _ => writeln!(out, "{indent}{line}")?,
                }
            }
            if f.status >= Status::Warn && !f.why.is_empty() {
                for line in wrapped(&f.why, room) {
                    writeln!(out, "{indent}{}", paint("2", &line))?;
                }
            }
            if let Some(command) = &f.command {
                writeln!(out, "{indent}→ {command}")?;
            }
        }
        let c = self.counts();
        writeln!(
            out,
            "\n{} findings: {} ok, {} info, {} warn, {} fail",
            self.findings.len(),
            c.ok,
            c.info,
            c.warn,
            c.fail
        )
    }
}

/// Fewest columns of a finding, on the narrowest terminals.
const MIN_ROOM: usize = 20;

/// Wraps text between words to lines of at most `room` columns; a longer word has a line of its own. Returns at least
/// one line.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let len = word.chars().count();
        let line = lines.len() - 1;
        if used > 0 && used + 1 + len > room {
            lines.push(word.to_owned());
            used = len;
        } else {
            let gap = if lines[line].is_empty() { "" } else { " " };
            lines[line] += &format!("{gap}{word}");
            used += gap.len() + len;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Report {
        let mut report = Report::default();
        report.area("one").add(Status::Ok, "x", "good", "reason", "");
        report.area("two").add(Status::Warn, "longer", "bad", "slow", "fix it");
        report
    }

    #[test]
    fn text_is_grouped_aligned_and_ends_in_the_counts() {
        let mut out = Vec::new();
        sample().render(&mut out, false, None).unwrap();
        let expected = "one\n  ok    x       good\n\ntwo\n  warn  longer  bad\n                slow\n                \
                        → fix it\n\n2 findings: 1 ok, 0 info, 1 warn, 0 fail\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn on_a_terminal_lines_break_between_words_and_commands_stay_whole() {
        let mut report = Report::default();
        let finding = "one two three four five six seven eight nine ten";
        let command = "a command that is longer than the line is wide";
        report
            .area("one")
            .add(Status::Warn, "item", finding, "because of this and that", command);
        let mut out = Vec::new();
        report.render(&mut out, false, Some(40)).unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = "one\n  warn  item  one two three four five\n              six seven eight nine ten\n\
                        \x20             because of this and that\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains(&format!("→ {command}\n")), "{text}");
    }

    #[test]
    fn colour_is_only_there_when_asked_for() {
        let mut out = Vec::new();
        sample().render(&mut out, true, None).unwrap();
        assert!(out.contains(&0x1b));
        out.clear();
        sample().render(&mut out, false, None).unwrap();
        assert!(!out.contains(&0x1b));
    }

    #[test]
    fn a_check_that_failed_counts_for_what_was_asked_about() {
        let mut report = sample();
        report.area("paths").add(Status::Ok, "udp", "works", "", "");
        assert!(!report.failed(&[]));
        report.area("paths").add(Status::Fail, "xdp", "does not", "", "");
        report.area("nic eth1").add(Status::Warn, "state", "down", "", "");
        let failed = |asked: &[&str]| report.failed(&asked.iter().map(|&a| a.to_owned()).collect::<Vec<_>>());
        assert!(failed(&[]) && failed(&["xdp"]) && failed(&["udp", "xdp"]));
        assert!(!failed(&["udp"]) && !failed(&["eth1"]));
        assert_eq!(report.absent(), None);
    }

    #[test]
    fn a_command_that_writes_what_is_read_only_is_taken_back() {
        let mut report = Report::default();
        let mut area = report.area("memory");
        for (item, command) in [
            ("a", "sysctl -w net.core.rmem_max=67108864"),
            ("b", "echo 1024 > /proc/sys/vm/nr_hugepages"),
            ("c", "echo max > /sys/fs/cgroup/x/cpu.max"),
            ("d", "cpupower frequency-set -g performance"),
        ] {
            area.add(Status::Warn, item, "so much", "", command);
        }
        report.drop_impossible(|path| !path.starts_with("/proc/sys/"));
        let has: Vec<_> = report
            .findings
            .iter()
            .map(|finding| finding.command.is_some())
            .collect();
        assert_eq!(has, [false, false, true, true]);
        let told = &report.findings[0].finding;
        assert_eq!(
            told,
            "so much (it can't be set here: /proc/sys/net/core/rmem_max is read-only or hidden)"
        );
        assert_eq!(report.findings[3].finding, "so much");
    }

    #[test]
    fn json_has_every_field() {
        let json = serde_json::to_value(sample()).unwrap();
        let keys: Vec<_> = json["findings"][1].as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, ["area", "item", "status", "finding", "why", "command"]);
        assert_eq!(json["findings"][1]["status"], "warn");
        assert_eq!(sample().worst(), Status::Warn);
    }
}
