//! Commands and options near to a word that is none, and help on one option.

use clap::{Arg, Command};
use mpps_sys::near::nearest;
use std::ffi::OsString;
use std::fmt::Write as _;

/// Words of other tools for commands.
const COMMANDS: [(&str, &str); 34] = [
    ("recv", "drop"),
    ("receive", "drop"),
    ("receiver", "drop"),
    ("rx", "drop"),
    ("sink", "drop"),
    ("count", "drop"),
    ("listen", "drop"),
    ("send-recv", "sendrecv"),
    ("sendreceive", "sendrecv"),
    ("ping", "sendrecv"),
    ("latency", "sendrecv"),
    ("tx", "send"),
    ("client", "send"),
    ("gen", "send"),
    ("generate", "send"),
    ("generator", "send"),
    ("sender", "send"),
    ("echo", "reflect"),
    ("server", "reflect"),
    ("reflector", "reflect"),
    ("loopback", "reflect"),
    ("fwd", "forward"),
    ("l2fwd", "forward"),
    ("bridge", "forward"),
    ("dump", "capture"),
    ("tcpdump", "capture"),
    ("pcap", "capture"),
    ("throughput", "rfc2544"),
    ("rfc9004", "rfc2544"),
    ("rfc9971", "ndr"),
    ("pdr", "ndr"),
    ("check", "doctor"),
    ("graph", "plot"),
    ("paths", "ports"),
];

/// Words of other tools for options.
const OPTIONS: [(&str, &str); 24] = [
    ("time", "duration"),
    ("seconds", "duration"),
    ("length", "duration"),
    ("packets", "count"),
    ("num", "count"),
    ("number", "count"),
    ("npackets", "count"),
    ("pps", "rate"),
    ("bandwidth", "rate"),
    ("bitrate", "rate"),
    ("speed", "rate"),
    ("threads", "lanes"),
    ("queues", "lanes"),
    ("workers", "lanes"),
    ("cpus", "cores"),
    ("cpu", "cores"),
    ("affinity", "cores"),
    ("server", "dest"),
    ("host", "dest"),
    ("target", "dest"),
    ("source", "src"),
    ("tos", "dscp"),
    ("hop-limit", "ttl"),
    ("output", "out"),
];

/// The command that was meant, with what it does; `None` where none is near.
pub(crate) fn command(root: &Command, typed: &str) -> Option<String> {
    let of = |name: &str| {
        root.get_subcommands()
            .find(|sub| sub.get_name() == name && !sub.is_hide_set())
    };
    let known = COMMANDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(typed));
    let all = root.get_subcommands().filter(|sub| !sub.is_hide_set());
    let slip = || nearest(typed, all.map(Command::get_name));
    let meant = known.and_then(|(_, name)| of(name)).or_else(|| of(slip()?))?;
    let about = meant.get_about().map(ToString::to_string).unwrap_or_default();
    Some(format!("'{}' ({about})", meant.get_name()))
}

/// The options that were meant, as `'--rate'`; `None` where none is near. `typed` is without its hyphens.
pub(crate) fn option(sub: &Command, typed: &str) -> Option<String> {
    let shown = || {
        sub.get_arguments()
            .filter(|arg| !arg.is_hide_set())
            .filter_map(Arg::get_long)
    };
    let is = |name: &str| shown().any(|long| long == name);
    let one = OPTIONS
        .iter()
        .find(|(word, name)| word.eq_ignore_ascii_case(typed) && is(name))
        .map(|(_, name)| *name)
        .or_else(|| nearest(typed, shown()));
    if let Some(one) = one {
        return Some(format!("'--{one}'"));
    }
    // Options with the word as a part: --frame-size and --payload-size for --size.
    let whole = |long: &&str| typed.len() > 1 && long.split('-').any(|part| part == typed);
    let mut parts: Vec<_> = shown().filter(whole).map(|long| format!("'--{long}'")).collect();
    parts.sort();
    (1..=3).contains(&parts.len()).then(|| parts.join(", "))
}

/// The command that a usage line is of: `Usage: mpps lab up [OPTIONS]`.
pub(crate) fn of_usage<'c>(root: &'c Command, usage: &str) -> &'c Command {
    // Behind the program's name, whatever it was called by.
    let words = usage.split_whitespace().skip_while(|word| *word != "Usage:").skip(2);
    let mut command = root;
    for word in words {
        match command.get_subcommands().find(|sub| sub.get_name() == word) {
            Some(sub) => command = sub,
            None => break,
        }
    }
    command
}

/// The answer to `mpps help rate`: an option's help, with the commands that have it. `None` where the words ask for
/// something else.
pub(crate) fn help(root: &Command, words: &[OsString]) -> Option<String> {
    let [_, help, name] = words else { return None };
    let name = name.to_str().filter(|_| help == "help")?.trim_start_matches('-');
    if root.get_subcommands().any(|sub| sub.get_name() == name) {
        return None;
    }
    // An option may mean something else in another command.
    let mut meanings: Vec<(String, String, Vec<&str>)> = Vec::new();
    for sub in root.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let called = |arg: &&Arg| {
            let alias = arg.get_visible_aliases().is_some_and(|all| all.contains(&name));
            (arg.get_long() == Some(name) || alias) && !arg.is_hide_set()
        };
        let Some(arg) = sub.get_arguments().find(called) else {
            continue;
        };
        let value = arg.get_value_names().filter(|_| arg.get_action().takes_values());
        let value = value
            .map(|names| format!(" <{}>", names.join("> <")))
            .unwrap_or_default();
        let head = format!("--{}{value}", arg.get_long().unwrap_or(name));
        let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let default = arg
            .get_default_values()
            .first()
            .filter(|_| arg.get_action().takes_values());
        if let Some(default) = default
            .and_then(|text| text.to_str())
            .filter(|_| !arg.is_hide_default_value_set())
        {
            let _ = write!(help, " [default: {default}]");
        }
        match meanings.iter_mut().find(|(_, known, _)| *known == help) {
            Some((.., of)) => of.push(sub.get_name()),
            None => meanings.push((head, help, vec![sub.get_name()])),
        }
    }
    let text = meanings.iter().map(|(head, help, of)| {
        let of = format!("Option of {}.", of.join(", "));
        format!("{head}\n{}\n{}\n", folded(help), folded(&of))
    });
    let text: Vec<_> = text.collect();
    (!text.is_empty()).then(|| text.join("\n"))
}

/// Text in lines of 100 columns, indented.
fn folded(text: &str) -> String {
    const COLUMNS: usize = 100;
    let mut lines = vec!["   ".to_owned()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("begins with one line");
        if last.chars().count() + 1 + word.chars().count() > COLUMNS && last.trim() != "" {
            lines.push(format!("    {word}"));
        } else {
            last.push(' ');
            last.push_str(word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;

    #[test]
    fn what_is_not_near_is_not_offered() {
        let root = Cli::definition();
        let sub = |name: &str| root.find_subcommand(name).unwrap();
        for (of, typed, meant) in [
            ("sendrecv", "ratte", Some("'--rate'")),
            ("sendrecv", "cuont", Some("'--count'")),
            ("send", "burts", Some("'--burst'")),
            ("sendrecv", "dst", Some("'--dest'")),
            ("sendrecv", "Rate", Some("'--rate'")),
            ("sendrecv", "time", Some("'--duration'")),
            ("sendrecv", "size", Some("'--frame-size', '--payload-size'")),
            ("drop", "packets", Some("'--packet'")),
            ("drop", "colour", None),
            ("drop", "junitt", Some("'--junit'")),
            ("drop", "foobar", None),
            ("lab", "x", None),
        ] {
            assert_eq!(option(sub(of), typed).as_deref(), meant, "{of} --{typed}");
        }
        for (typed, meant) in [
            ("recv", Some("'drop' (Receive")),
            ("Listen", Some("'drop' (Receive")),
            ("server", Some("'reflect' (Send every")),
            ("sedrecv", Some("'sendrecv' (")),
            ("throughput", Some("'rfc2544' (")),
            ("xyzzy", None),
            ("rate", None),
            ("", None),
        ] {
            let told = command(&root, typed);
            assert_eq!(told.is_some(), meant.is_some(), "{typed}: {told:?}");
            assert!(
                told.unwrap_or_default().starts_with(meant.unwrap_or_default()),
                "{typed}"
            );
        }
    }

    #[test]
    fn every_word_of_another_tool_leads_to_a_command_or_an_option_that_there_is() {
        let root = Cli::definition();
        for (word, name) in COMMANDS {
            assert!(root.find_subcommand(name).is_some(), "{word}: {name}");
            assert!(root.find_subcommand(word).is_none(), "{word} is a command");
        }
        for (word, name) in OPTIONS {
            let has = |sub: &Command| sub.get_arguments().any(|arg| arg.get_long() == Some(name));
            assert!(root.get_subcommands().any(has), "{word}: {name}");
        }
    }

    #[test]
    fn help_on_an_option_says_what_it_is_and_where() {
        let root = Cli::definition();
        let told = |name: &str| help(&root, &["mpps", "help", name].map(OsString::from));
        let rate = told("rate").expect("an option");
        assert!(rate.starts_with("--rate <RATE>\n    Packets or layer-1 bits"), "{rate}");
        assert!(rate.contains("Option of sendrecv, send."), "{rate}");
        assert!(rate.lines().all(|line| line.chars().count() <= 100), "{rate}");
        assert_eq!(told("--rate"), told("rate"));
        assert!(told("sizes").expect("an alias").starts_with("--frame-sizes <BYTES"));
        for name in ["sendrecv", "xyzzy", "--"] {
            assert_eq!(told(name), None, "{name}");
        }
    }
}
