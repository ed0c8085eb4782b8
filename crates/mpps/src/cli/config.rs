//! `--config FILE`: options from a TOML file, made words of the command line before that is read. So whatever is
//! checked of an option is checked of one from a file, which somebody else may have written. What is typed wins.

use super::Cli;
use super::serve;
use crate::author::{Author, leads_away};
use crate::fail::{Result as Checked, argument_line, usage};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};
use mpps_run::privilege::as_user;
use mpps_run::sample::SamplePcap;
use mpps_sys::near::nearest;
use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use toml::de::{DeTable, DeValue};

/// The option's name.
const OPTION: &str = "config";
/// Options that no file gives, as they run code or keep rights: a command with all rights (`reset-cmd`), plug-ins that
/// DPDK loads (`eal`), root for the whole run (`keep-privileges`), another file.
const ALWAYS_TYPED: [&str; 4] = ["reset-cmd", "eal", "keep-privileges", OPTION];
/// Bytes of the longest file that is read.
const LONGEST: u64 = 1 << 20;

/// A command line with the options of its file.
pub(super) struct Given {
    pub(super) words: Vec<OsString>,
    pub(super) origin: Origin,
}

/// Where options come from that were not typed.
#[derive(Default)]
pub(super) struct Origin {
    file: String,
    /// The line of each option, by its long name.
    lines: BTreeMap<String, usize>,
}

impl Origin {
    /// An error about an option from the file, with its place.
    pub(super) fn located(&self, error: clap::Error) -> clap::Error {
        let told = argument_line(&error);
        // An option whose values have an error of their own begins with its name.
        let about = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(arg)) => arg,
            _ => &told,
        };
        let long = about
            .strip_prefix("--")
            .and_then(|about| about.split([' ', '=', '[']).next());
        match long.and_then(|long| self.lines.get(long)) {
            Some(line) => refused(format!("{}:{line}: {told}", self.file)),
            None => error,
        }
    }
}

fn refused(line: String) -> clap::Error {
    clap::Error::raw(ErrorKind::InvalidValue, line)
}

/// A command line with the options of the file that it names, if it names one.
pub(super) fn given(command: &Command, words: Vec<OsString>) -> Result<Given, clap::Error> {
    let (line, origin) = with_file(command, words);
    let words = line.words;
    origin.map(|origin| Given { words, origin })
}

/// The command line of a program.
#[derive(Clone)]
struct Line {
    /// With the options of its file.
    words: Vec<OsString>,
    /// The file of `--config`.
    file: Option<OsString>,
}

/// This program's command line, once it is [`given_to_program`].
static OF_PROGRAM: OnceLock<Line> = OnceLock::new();

fn of_program() -> Line {
    OF_PROGRAM.get().cloned().unwrap_or_else(|| Line {
        words: std::env::args_os().collect(),
        file: None,
    })
}

/// As [`given`], of this program's command line, whose words are kept: a file in a pipe can be read only once, and what
/// becomes of a command line that is wrong goes to the files that it names.
pub(super) fn given_to_program(command: &Command, words: Vec<OsString>) -> Result<Given, clap::Error> {
    let (line, origin) = with_file(command, words);
    let words = line.words.clone();
    let _ = OF_PROGRAM.set(line);
    origin.map(|origin| Given { words, origin })
}

/// A command line with the options of its file in the place of `--config`, and where they come from or what is wrong.
/// If the file is wrong, the line has those of its options that can be read.
fn with_file(command: &Command, words: Vec<OsString>) -> (Line, Result<Origin, clap::Error>) {
    let mut line = Line { words, file: None };
    let Some(sub) = subcommand(command, &line.words).filter(|sub| named(sub, OPTION).is_some()) else {
        return (line, Ok(Origin::default()));
    };
    let typed = Typed::of(sub, &line.words);
    let is_file = |given: &&Value<'_>| given.is_of(OPTION) && !given.value.is_empty();
    let files: Vec<_> = typed.values.iter().filter(is_file).collect();
    let (place, file) = match files[..] {
        [] => return (line, Ok(Origin::default())),
        [one] => (one.place.clone(), one.value.clone()),
        _ => return (line, Err(refused(format!("--{OPTION}: there are two: want one file")))),
    };
    let read = options(sub, &typed, &file);
    line.words.drain(place);
    line.words.splice(2..2, read.words);
    line.file = Some(file);
    (line, read.wrong.map_or(Ok(read.origin), |wrong| Err(refused(wrong))))
}

fn subcommand<'c>(command: &'c Command, words: &[OsString]) -> Option<&'c Command> {
    words.get(1).and_then(|name| command.find_subcommand(name))
}

/// The words of this program's command line with those of its file in the place of `--config`; as they are typed where
/// it can't be read, and in a program that uses the library.
pub(crate) fn words_of_program() -> Vec<OsString> {
    of_program().words
}

/// Files that this program reads by its command line: options, a plan, traffic, a note.
pub(crate) fn read_by_program() -> Vec<(&'static str, PathBuf)> {
    let runs_plan = of_program().words.get(1).is_some_and(|command| command == "run");
    let name = |word: &Word| match word.option.as_deref() {
        Some(OPTION) => Some("--config"),
        Some("dut-note") => Some("--dut-note"),
        Some("traffic") => Some("--traffic"),
        Some("pcap") => Some("--pcap"),
        None if runs_plan => Some("PLAN"),
        _ => None,
    };
    let words = values_of_program().into_iter();
    words
        .filter_map(|word| Some((name(&word)?, word.value.into())))
        .collect()
}

/// A value in a command line.
pub(crate) struct Word {
    /// Long name of the option that it is of; `None`: of none.
    pub(crate) option: Option<String>,
    pub(crate) value: OsString,
    /// It may name a file.
    pub(crate) may_be_file: bool,
}

/// Values in this program's command line, which may be wrong. Options are those that the command has.
pub(crate) fn values_of_program() -> Vec<Word> {
    let (line, command) = (of_program(), Cli::definition());
    let typed = subcommand(&command, &line.words).map(|sub| Typed::of(sub, &line.words));
    let values = typed.into_iter().flat_map(|typed| typed.values);
    let words = values.map(|given| Word {
        option: given.arg.map(|arg| long_of(arg).to_owned()),
        value: given.value,
        may_be_file: given.arg.is_none_or(names_file),
    });
    let of_file = line.file.map(|file| Word {
        option: Some(OPTION.to_owned()),
        value: file,
        may_be_file: true,
    });
    words.chain(of_file).collect()
}

/// The same as a result records them: they make the same run again without the file.
pub(crate) fn recorded_command() -> Vec<String> {
    let words = words_of_program();
    let texts = words.iter().map(|word| mpps_io::hide_secrets(&word.to_string_lossy()));
    texts.collect()
}

fn named<'c>(command: &'c Command, long: &str) -> Option<&'c Arg> {
    let is_called =
        |arg: &&Arg| arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|a| a.contains(&long));
    command.get_arguments().find(is_called)
}

/// Options and values of a command line, without those of its file.
struct Typed<'c> {
    options: Vec<&'c Arg>,
    values: Vec<Value<'c>>,
}

/// A word that is a value, or has one.
struct Value<'c> {
    /// The option that it belongs to; `None`: it stands alone.
    arg: Option<&'c Arg>,
    /// Where that stands, with its value.
    place: std::ops::Range<usize>,
    value: OsString,
}

impl Value<'_> {
    fn is_of(&self, long: &str) -> bool {
        self.arg.is_some_and(|arg| arg.get_long() == Some(long))
    }
}

impl<'c> Typed<'c> {
    /// Splits the words as clap will. Clap reports what is wrong.
    fn of(sub: &'c Command, words: &[OsString]) -> Self {
        let mut typed = Self {
            options: Vec::new(),
            values: Vec::new(),
        };
        let mut at = 2;
        while let Some(word) = words.get(at) {
            let start = at;
            at += 1;
            let (arg, value) = match word.as_bytes() {
                b"--" => {
                    // Words of no option, whatever they look like.
                    let rest = words.iter().enumerate().skip(at);
                    typed.values.extend(rest.map(|(place, word)| Value {
                        arg: None,
                        place: place..place + 1,
                        value: word.clone(),
                    }));
                    break;
                }
                [b'-', b'-', rest @ ..] => {
                    let (name, value) = match rest.iter().position(|byte| *byte == b'=') {
                        Some(end) => (&rest[..end], Some(&rest[end + 1..])),
                        None => (rest, None),
                    };
                    let Some(arg) = std::str::from_utf8(name).ok().and_then(|name| named(sub, name)) else {
                        continue;
                    };
                    typed.options.push(arg);
                    (arg, value)
                }
                [b'-', letters @ ..] if !letters.is_empty() => {
                    let mut last = None;
                    for (i, letter) in letters.iter().enumerate() {
                        let short = |arg: &&Arg| arg.get_short() == Some(char::from(*letter));
                        let Some(arg) = sub.get_arguments().find(short) else {
                            break;
                        };
                        typed.options.push(arg);
                        if wants_value(arg) {
                            let rest = &letters[i + 1..];
                            let value = rest.strip_prefix(b"=").unwrap_or(rest);
                            last = Some((arg, (!rest.is_empty()).then_some(value)));
                            break;
                        }
                    }
                    let Some(last) = last else { continue };
                    last
                }
                _ => {
                    typed.values.push(Value {
                        arg: None,
                        place: start..at,
                        value: word.clone(),
                    });
                    continue;
                }
            };
            let mut value = value.map(|bytes| OsStr::from_bytes(bytes).to_owned());
            if value.is_none() && takes_value(arg) {
                value = words.get(at).filter(|word| may_be_value(arg, word)).cloned();
                at += usize::from(value.is_some());
            }
            typed.values.extend(value.map(|value| Value {
                arg: Some(arg),
                place: start..at,
                value,
            }));
        }
        typed
    }

    /// Whether an option of the file gives way to what was typed.
    fn overrides(&self, sub: &Command, arg: &Arg) -> bool {
        let conflict = |a: &Arg, b: &Arg| {
            sub.get_arg_conflicts_with(a)
                .iter()
                .any(|other| other.get_id() == b.get_id())
        };
        let mut typed = self.options.iter();
        typed.any(|typed| typed.get_id() == arg.get_id() || conflict(typed, arg) || conflict(arg, typed))
    }
}

/// Whether an option has no meaning without a value.
fn wants_value(arg: &Arg) -> bool {
    takes_value(arg) && !may_stand_alone(arg)
}

/// Whether the word behind an option that takes a value is that, or another option.
fn may_be_value(arg: &Arg, word: &OsStr) -> bool {
    let looks_like_option = word.len() > 1 && word.as_bytes().starts_with(b"-");
    arg.is_allow_hyphen_values_set() || !looks_like_option
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// Whether an option that takes a value may have none.
fn may_stand_alone(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|values| values.min_values() == 0)
}

/// A file as it was read.
#[derive(Default)]
struct FromFile {
    words: Vec<OsString>,
    origin: Origin,
    /// The first thing that is wrong with it.
    wrong: Option<String>,
}

/// The file's options as words.
fn options(sub: &Command, typed: &Typed<'_>, file: &OsStr) -> FromFile {
    let name = shown(&file.to_string_lossy());
    let (text, author) = match as_user(|| read(Path::new(file))) {
        Ok(read) => read,
        Err(failure) => {
            return FromFile {
                wrong: Some(failure.line().to_owned()),
                ..FromFile::default()
            };
        }
    };
    let line = |at: usize| text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    let (table, errors) = DeTable::parse_recoverable(&text);
    let place = |error: &toml::de::Error| line(error.span().map_or(0, |span| span.start));
    let mut read = FromFile {
        wrong: errors.first().map(|error| {
            let (line, what) = (place(error), shown(error.message()));
            format!("{name}:{line}: no TOML: {what}: want lines such as rate = \"1Mpps\"")
        }),
        ..FromFile::default()
    };
    let broken: Vec<usize> = errors.iter().map(place).collect();
    // In the order of the file: the first error is reported.
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let (long, end) = (key.get_ref().as_ref(), line(value.span().end));
        let line = line(key.span().start);
        // A text without its end is no path.
        if broken.iter().any(|at| (line..=end).contains(at)) {
            continue;
        }
        match option(sub, typed, &author, long, value.get_ref()) {
            Ok(words) if words.is_empty() => {}
            Ok(words) => {
                read.origin.lines.insert(long.to_owned(), line);
                read.words.extend(words);
            }
            Err(why) => {
                let told = || format!("{name}:{line}: {}: {why}", shown(long));
                read.wrong.get_or_insert_with(told);
            }
        }
    }
    read.origin.file = name;
    read
}

/// An option of a file as words; none where it gives way to what was typed, or is a flag that is not to be.
fn option(
    sub: &Command,
    typed: &Typed<'_>,
    author: &Author,
    long: &str,
    value: &DeValue<'_>,
) -> Result<Vec<OsString>, String> {
    let arg = named(sub, long).ok_or_else(|| unknown(sub, long, value))?;
    // Somebody else may have written the file.
    if ALWAYS_TYPED.contains(&long) {
        return Err("no file decides which code runs, and with which rights: want it on the command line".to_owned());
    }
    let texts = texts(arg, value)?;
    if typed.overrides(sub, arg) {
        return Ok(Vec::new());
    }
    let files = texts.iter().flatten().filter_map(|text| file_of(arg, text));
    let away = files.into_iter().any(|file| leads_away(&file));
    let refused = || author.refuses("it names a file outside of this folder");
    if let Some(why) = away.then(refused).flatten() {
        return Err(why);
    }
    let words = texts.into_iter().map(|text| match text {
        Some(text) => OsString::from(format!("--{long}={text}")),
        None => format!("--{long}").into(),
    });
    Ok(words.collect())
}

/// The values of an option, `None` for a flag that is set; none at all where it is not to be.
fn texts(arg: &Arg, value: &DeValue<'_>) -> Result<Vec<Option<String>>, String> {
    let is = value.type_str();
    if !takes_value(arg) {
        return match value.as_bool() {
            Some(true) => Ok(vec![None]),
            Some(false) => Ok(Vec::new()),
            None => Err(format!("{} is no value of a flag: want true or false", article(is))),
        };
    }
    // What `--metrics` and `--web` without an address say.
    if matches!(long_of(arg), "metrics" | "web")
        && let Some(given) = value.as_bool()
    {
        return Ok(given.then(|| Some(serve::ANYWHERE.to_owned())).into_iter().collect());
    }
    let several = matches!(arg.get_action(), ArgAction::Append);
    let want = || match several {
        true => "want a text as on the command line, a number, or a list of them",
        false => "want a text as on the command line, or a number",
    };
    match value {
        DeValue::Array(all) if several => {
            let one = |value: &toml::Spanned<DeValue<'_>>| scalar(value.get_ref()).map(Some);
            let texts: Option<Vec<_>> = all.iter().map(one).collect();
            texts.ok_or_else(|| format!("an entry of the list is neither: {}", want()))
        }
        value => match scalar(value) {
            Some(text) => Ok(vec![Some(text)]),
            None if matches!(value, DeValue::String(_)) => {
                Err("control characters: want a text of one line".to_owned())
            }
            None => Err(format!("{} is no value of --{}: {}", article(is), long_of(arg), want())),
        },
    }
}

/// Whether an option's value is the path of a file.
fn names_file(arg: &Arg) -> bool {
    let of = arg.get_value_parser().type_id();
    of == TypeId::of::<PathBuf>() || of == TypeId::of::<SamplePcap>()
}

/// The file that a value of an option names, if it names one.
fn file_of(arg: &Arg, value: &str) -> Option<PathBuf> {
    let sample = arg.get_value_parser().type_id() == TypeId::of::<SamplePcap>();
    let file = || SamplePcap::parse(value).map_or_else(|_| value.into(), |sample| sample.file().to_owned());
    names_file(arg).then(|| if sample { file() } else { value.into() })
}

fn long_of(arg: &Arg) -> &str {
    arg.get_long().unwrap_or_default()
}

fn article(noun: &str) -> String {
    let an = noun.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {noun}", if an { "an" } else { "a" })
}

/// A text or a number as it would be typed.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()).filter(|text| !text.contains(char::is_control)),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            i64::from_str_radix(&digits, number.radix()).ok().map(|n| n.to_string())
        }
        DeValue::Float(number) => {
            let number: f64 = number.as_str().replace('_', "").parse().ok()?;
            number.is_finite().then(|| number.to_string())
        }
        _ => None,
    }
}

/// Returns the error about a key that is no option.
fn unknown(sub: &Command, key: &str, value: &DeValue<'_>) -> String {
    let command = sub.get_name();
    if value.is_table() {
        return format!("a table: want options of {command} alone, each a line KEY = VALUE");
    }
    let shown = sub.get_arguments().filter(|arg| !arg.is_hide_set());
    let longs: BTreeSet<_> = shown
        .filter_map(Arg::get_long)
        .filter(|long| !ALWAYS_TYPED.contains(long))
        .collect();
    // What was broken off, or written with a slip.
    let begun = longs.iter().find(|long| key.len() > 2 && long.starts_with(key));
    match begun.copied().or_else(|| nearest(key, longs.iter().copied())) {
        Some(long) => format!("no option of {command}: did you mean {long}?"),
        None => format!("no option of {command}: want a long option without its hyphens (mpps {command} --help)"),
    }
}

/// A text of the file, short and on one line; what else it hides is escaped as it is printed
/// ([`mpps_sys::text::Harmless`]).
fn shown(text: &str) -> String {
    let short: String = text.chars().take(120).collect();
    mpps_io::hide_secrets(&short.replace(['\n', '\t'], " "))
}

fn read(path: &Path) -> Checked<(String, Author)> {
    let name = shown(&path.display().to_string());
    let wrong = |why: &str| usage(format!("--{OPTION} {name}: {why}: want a TOML file with options"));
    let mut bytes = Vec::new();
    let mut read = || -> io::Result<Author> {
        let file = File::open(path)?;
        let author = Author::of(&file, path)?;
        file.take(LONGEST + 1).read_to_end(&mut bytes)?;
        Ok(author)
    };
    let author = read().map_err(|error| {
        let told = error.to_string();
        wrong(told.split(" (os error").next().unwrap_or_default())
    })?;
    if bytes.len() as u64 > LONGEST {
        return Err(wrong("it is longer than 1 MiB"));
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is no UTF-8 text"))?;
    Ok((text, author))
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
