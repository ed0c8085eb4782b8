//! The operands: runs, plans, and results of earlier runs.

use crate::FromArgs;
use crate::author::Author;
use crate::cli::{Cli, Command};
use crate::commands::in_lab;
use crate::fail::{Failure, Result, argument_line, failed, usage};
use mpps_methods::compare::{Side, Variant, of_document};
use mpps_plan::json::object;
use mpps_plan::values::start::StartAt;
use mpps_plan::{self, Plain};
use mpps_run::Plan;
use mpps_run::draft::traffic::{Draft, sizes};
use mpps_run::privilege::as_user;
use mpps_run::request::open_default_ports;
use mpps_sys::text::of_bytes;
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Commands that are a run.
const WORKLOADS: [&str; 6] = ["sendrecv", "send", "drop", "reflect", "forward", "capture"];
/// Bytes of the longest file that is read.
const LONGEST: u64 = 16 << 20;
/// Most operands: each has a letter.
const MOST: usize = 26;
const WANT: &str = "want a run as it is typed, quoted as one word ('sendrecv PORT …'), or a file: a plan \
                    (--print-plan), or the result of a run (--json)";

/// A run that is compared, as it was typed.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    /// Words of the command line, without the program.
    pub(super) words: Vec<OsString>,
    /// `--quiet` is one of the words.
    pub(super) quiet: bool,
    pub(super) variant: Variant,
}

impl Typed {
    pub(super) fn workload(&self) -> &'static str {
        self.variant.plan.workload().name()
    }
}

/// Operands of a comparison: runs to start, or results of earlier ones.
pub(super) enum Operands {
    Runs(Vec<Typed>),
    Results(Vec<Side>),
}

/// Name of an operand.
fn letter(at: usize) -> String {
    char::from(b'A' + at as u8).to_string()
}

/// Reads the operands; nothing is opened but files.
pub(super) fn read(texts: &[String]) -> Result<Operands> {
    if texts.len() > MOST {
        return Err(usage(format!("{} operands: want {MOST} at the most", texts.len())));
    }
    let (mut runs, mut results) = (Vec::new(), Vec::new());
    for (at, text) in texts.iter().enumerate() {
        match one(&letter(at), text)? {
            One::Run(run) => runs.push(*run),
            One::Results(side) => results.push(side),
        }
    }
    match (runs.is_empty(), results.is_empty()) {
        (false, true) => Ok(Operands::Runs(runs)),
        (true, _) => Ok(Operands::Results(results)),
        (false, false) => {
            let shown = mpps_io::hide_secrets(&results[0].text);
            Err(usage(format!(
                "'{shown}': a result of earlier runs beside a run: they can't be run in turns: want runs (or plans) \
                 alone, or results alone"
            )))
        }
    }
}

enum One {
    Run(Box<Typed>),
    Results(Side),
}

fn one(name: &str, text: &str) -> Result<One> {
    let shown = mpps_io::hide_secrets(text);
    let wrong = |why: &str| usage(format!("'{shown}': {why}"));
    let mut words = split(text).map_err(wrong)?;
    if words
        .first()
        .is_some_and(|word| word == "mpps" || word.ends_with("/mpps"))
        && words.len() > 1
    {
        words.remove(0);
    }
    match words.first().map(String::as_str) {
        Some(first) if WORKLOADS.contains(&first) => {
            let words = words.into_iter().map(OsString::from).collect();
            let run = typed(name, text, words).map_err(|failure| failure.of(format!("'{shown}'")))?;
            return Ok(One::Run(Box::new(run)));
        }
        Some("run") if words.len() == 2 => return file(name, &words[1], text),
        Some("ndr" | "compare" | "rfc2544" | "overload") => {
            return Err(wrong("a method of many runs: want one run, such as 'sendrecv PORT …'"));
        }
        Some(_) => {}
        None => return Err(wrong(WANT)),
    }
    file(name, text, text)
}

/// A file with a plan, or results.
fn file(name: &str, path: &str, text: &str) -> Result<One> {
    let shown = mpps_io::hide_secrets(text);
    let files = as_user(|| files(path).map_err(|why| usage(format!("'{shown}': {why}"))))?;
    let single = files.len() == 1 && !Path::new(path).is_dir();
    let mut results = Vec::new();
    for file in files {
        let at = file.display().to_string();
        let (content, author) = read_text(&file)?;
        let wrong = |why: &str| usage(format!("{at}: {why}"));
        let no_json = |e| wrong(&format!("{}: {WANT}", mpps_pages::no_json(content.as_bytes(), &e)));
        let json: Value = serde_json::from_str(&content).map_err(no_json)?;
        if json.get("mpps_plan").is_some() && single {
            let plan = object(&content).map_err(|line| wrong(&line))?;
            author.check(&plan).map_err(|failure| failure.of(&at))?;
            let mut plan = mpps_plan::Plan::of_object(&plan).map_err(|line| wrong(&line))?;
            open_default_ports(&mut plan);
            let run = typed(name, text, plan.words()).map_err(|failure| failure.of(&at))?;
            return Ok(One::Run(Box::new(run)));
        }
        let workload = json.get("workload").and_then(Value::as_str);
        let of_run = workload.is_some_and(|workload| WORKLOADS.contains(&workload));
        if of_run && json.get("valid").is_some_and(Value::is_boolean) {
            results.push((file, json));
        } else if let Some(searches) = of_document(&json) {
            results.push((file, searches));
        } else if single
            && json
                .get("schema")
                .is_some_and(|schema| schema == mpps_pages::document::SCHEMA)
        {
            return Err(wrong(
                "the result of a test that searches for no rate: compare reads results of ndr and rfc2544, and of \
                 single runs (--json)",
            ));
        } else if single {
            return Err(wrong(&format!("neither a plan nor the result of a run: {WANT}")));
        }
    }
    if results.is_empty() {
        return Err(usage(format!("'{shown}': no results of runs (--json) in it: {WANT}")));
    }
    Ok(One::Results(Side {
        name: name.to_owned(),
        text: shown,
        results,
    }))
}

/// The files that an operand names.
fn files(path: &str) -> std::result::Result<Vec<PathBuf>, String> {
    let there = Path::new(path);
    if there.is_dir() {
        let listed = std::fs::read_dir(there).map_err(|e| format!("{e}: want a folder of results"))?;
        let mut files: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|file| file.extension().is_some_and(|ending| ending == "json") && file.is_file());
        files.sort();
        return Ok(files);
    }
    if there.exists() || !path.contains(',') {
        return match there.exists() {
            true => Ok(vec![there.to_owned()]),
            false => Err(format!("no such command and no such file: {WANT}")),
        };
    }
    let parts = path.split(',').map(PathBuf::from);
    let parts: Vec<PathBuf> = parts.filter(|part| !part.as_os_str().is_empty()).collect();
    match parts.iter().find(|part| !part.is_file()) {
        Some(missing) => Err(format!("{}: no such file: {WANT}", missing.display())),
        None => Ok(parts),
    }
}

fn read_text(path: &Path) -> Result<(String, Author)> {
    let name = path.display();
    let mut bytes = Vec::new();
    let read = |bytes: &mut Vec<u8>| -> std::io::Result<Author> {
        let file = File::open(path)?;
        let author = Author::of(&file, path)?;
        file.take(LONGEST + 1).read_to_end(bytes)?;
        Ok(author)
    };
    let author = as_user(|| read(&mut bytes).map_err(|e| failed(format!("read {name}: {e}"))))?;
    if bytes.len() as u64 > LONGEST {
        return Err(usage(format!("{name}: above {LONGEST} bytes: {WANT}")));
    }
    match of_bytes(bytes) {
        Ok(text) => Ok((text, author)),
        Err(why) => Err(usage(format!("{name}: {why}: {WANT}"))),
    }
}

/// Checks a command line; the error lacks the operand's name. Of one with `--lab` the plan is made in a lab.
pub(super) fn typed(name: &str, text: &str, words: Vec<OsString>) -> Result<Typed> {
    let whole = std::iter::once("mpps".into()).chain(words.iter().cloned());
    let mut cli = Cli::of(whole).map_err(|e| usage(argument_line(&e)))?;
    let tell = cli.command.run_mut().map(|run| (run.tell.clone(), run.print_plan));
    let (tell, print_plan) =
        tell.ok_or_else(|| usage("no run: want sendrecv, send, drop, reflect, forward or capture"))?;
    for (option, given) in [
        ("--out", tell.out.is_some()),
        ("--json", tell.json.is_some()),
        ("--csv", tell.csv.is_some()),
        ("--streams-csv", tell.streams_csv.is_some()),
        ("--hdr", tell.hdr.is_some()),
        ("--trace", tell.keep.trace.is_some()),
        ("--profile", tell.profile.is_some()),
        ("--verbose", tell.verbose),
        ("--print-plan", print_plan),
    ] {
        if given {
            return Err(usage(format!(
                "{option}: compare reads the result itself: want it left out, and --out DIR of compare"
            )));
        }
    }
    let serve = &tell.serve;
    for (option, given) in [
        ("--prom", serve.prom.is_some()),
        ("--metrics", serve.metrics.is_some()),
        ("--web", serve.web.is_some()),
        ("--allow-host", !serve.allow_host.is_empty()),
        ("--sample-pcap", tell.sample_pcap.is_some()),
    ] {
        if given {
            return Err(usage(format!(
                "{option}: compare has many runs, one after another: want it left out"
            )));
        }
    }
    let of_plan = |args| Plan::from_args(args).map_err(Failure::from);
    let (words, plan, frame_size) = match cli.command {
        Command::Sendrecv(args) | Command::Send(args) if args.lab => {
            let plan = in_lab::planned(&args)?;
            // A lab's network is one of IPv4.
            let (_, frame_size) = sizes(&args.args.run, false)?;
            // Its own words have the port in full, as the plan has it: settings find it by that.
            let words = args.words.into_iter().skip(1).collect();
            (words, plan, Some(frame_size))
        }
        Command::Sendrecv(args) | Command::Send(args) => {
            let plan = of_plan(words.clone())?;
            (words, plan, Some(Draft::new(args.args.run)?.frame_size))
        }
        _ => {
            let plan = of_plan(words.clone())?;
            (words, plan, None)
        }
    };
    let times = &plan.fields().times;
    if let Some(start) = times
        .start_at
        .as_ref()
        .filter(|start| matches!(***start, StartAt::At(_)))
    {
        return Err(usage(format!(
            "--start-at {}: compare has many runs, one after another: want a time from the start of each, such as \
             +1s, or it left out",
            start.text()
        )));
    }
    let (duration, settle) = (times.duration.plain(), *times.settle);
    let duration = duration.filter(|time| !time.is_zero());
    let duration = duration.ok_or_else(|| usage("a run without an end: want --duration TIME"))?;
    Ok(Typed {
        words,
        quiet: tell.quiet,
        variant: Variant {
            name: name.to_owned(),
            text: mpps_io::hide_secrets(text),
            plan,
            frame_size,
            takes: duration + settle,
            chosen: Vec::new(),
        },
    })
}

/// The words of a text, as a shell splits them: by blanks, but for those in quotes and after a backslash.
pub(super) fn split(text: &str) -> std::result::Result<Vec<String>, &'static str> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (Some(open), _) if letter == open => quote = None,
            (None | Some('"'), '\\') => {
                let next = letters
                    .next()
                    .ok_or("a backslash at the end: want what it stands before")?;
                word.get_or_insert_default().push(next);
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err("a quote is open: want it closed");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn words_are_split_as_a_shell_does() {
        let split = |text| split(text).map(|words| words.join("|"));
        assert_eq!(
            split("sendrecv  loop: --rate 1kpps\n"),
            Ok("sendrecv|loop:|--rate|1kpps".to_owned())
        );
        assert_eq!(
            split(r#"a 'b c' "d \"e" f\ g '' h"i"j"#),
            Ok("a|b c|d \"e|f g||hij".to_owned())
        );
        assert_eq!(split(""), Ok(String::new()));
        assert!(split("a 'b").is_err() && split("a\\").is_err());
    }

    #[test]
    fn operands_are_runs_or_files() {
        let read = |text: &str| match one("A", text) {
            Ok(One::Run(typed)) => Ok(*typed),
            Ok(One::Results(side)) => panic!("{side:?}"),
            Err(failure) => Err(failure.line().to_owned()),
        };
        let run = read("mpps sendrecv loop: --rate 1kpps --duration 2s --settle 100ms").unwrap();
        assert_eq!((run.workload(), run.variant.frame_size), ("sendrecv", Some(64)));
        assert_eq!(run.variant.takes, Duration::from_millis(2100));
        for (text, part) in [
            ("", "want a run as it is typed"),
            ("nonesuch.json", "no such command and no such file"),
            ("a.json,b.json", "a.json: no such file"),
            ("ndr loop:", "a method of many runs"),
            ("sendrecv loop: --json x", "--json: compare reads the result itself"),
            ("sendrecv loop: --duration 0", "a run without an end"),
            ("reflect loop:", "want --duration TIME"),
            ("sendrecv loop: --rat 5", "--rat"),
            ("sendrecv loop:nonesuch=1", "nonesuch"),
        ] {
            let refused = read(text).unwrap_err();
            assert!(refused.contains(part) && refused.contains('\''), "{text}: {refused}");
        }
    }
}
