use super::*;
use crate::cli::{Cli, Shell};
use clap::CommandFactory;
use std::ffi::{OsStr, OsString};

/// Every command that help shows, by its words behind the program's name.
fn commands(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
    found.push((path.to_owned(), command.clone()));
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let path = format!("{path} {}", sub.get_name());
        commands(sub, path.trim_start(), found);
    }
}

fn all() -> Vec<(String, Command)> {
    let mut found = Vec::new();
    commands(&Cli::definition(), "", &mut found);
    found
}

/// The words of a line, up to what is the shell's, with a traffic file in the place of one that the line names.
fn words(line: &str, mix: &OsStr) -> Vec<OsString> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    for c in line.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take().map(OsString::from)),
            '|' | '>' if !quoted => break,
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.map(OsString::from));
    let there = |word: OsString| if word == "mix.toml" { mix.to_owned() } else { word };
    words.into_iter().map(there).collect()
}

#[test]
fn each_option_that_help_shows_is_under_a_heading() {
    for (path, command) in all() {
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let Some(long) = arg.get_long().filter(|long| !["help", "version"].contains(long)) else {
                continue;
            };
            // Two options do without.
            let few = command.get_opts().filter(|arg| !arg.is_hide_set()).count() <= 2;
            assert!(few || arg.get_help_heading().is_some(), "mpps {path}: --{long}");
        }
    }
}

#[test]
fn headings_name_options_that_there_are() {
    let all = all();
    let is = |command: &Command, long: &str| command.get_arguments().any(|arg| arg.get_long() == Some(long));
    for (heading, options) in HEADINGS {
        for long in options {
            assert!(all.iter().any(|(_, command)| is(command, long)), "{heading}: --{long}");
        }
    }
    for (name, long, _) in ELSEWHERE {
        let of = all.iter().find(|(path, _)| path == name);
        assert!(of.is_some_and(|(_, command)| is(command, long)), "{name}: --{long}");
    }
}

#[test]
fn help_of_each_command_ends_with_two_or_three_examples_that_are_read() {
    let all = all();
    let mix = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&mix, "stream = [{ packet = 'eth' }]").expect("writable");
    for (path, command) in &all {
        let examples = examples(path);
        assert!((2..=3).contains(&examples.len()), "mpps {path}: {}", examples.len());
        let help = command.clone().render_help().to_string();
        assert!(
            help.trim_end().ends_with(examples[examples.len() - 1].1),
            "mpps {path}: {help}"
        );
        for (_, line) in examples {
            let line = line
                .strip_prefix("source <(")
                .map_or(*line, |line| line.trim_end_matches(')'));
            // Where there is no terminal, a line of help has 100 columns.
            assert!(line.len() <= 96, "{line}");
            assert!(
                line.starts_with(format!("mpps {path}").trim_end()) || line.contains("help"),
                "{line}"
            );
            if line.starts_with("mpps help ") {
                continue;
            }
            if let Err(error) = Cli::of(words(line, mix.path().as_os_str())) {
                panic!("{line}: {error}");
            }
        }
    }
    for (path, _) in EXAMPLES {
        assert!(all.iter().any(|(known, _)| known == path), "{path}");
    }
}

#[test]
fn completions_of_each_shell_know_commands_options_and_values() {
    for shell in Shell::ALL {
        let text = String::from_utf8(shell.completions()).expect("UTF-8");
        for part in ["sendrecv", "busy-poll", "back-to-back"] {
            assert!(text.contains(part), "{shell:?}: {part}");
        }
    }
}

#[test]
fn what_is_defined_is_consistent() {
    Cli::command().debug_assert();
    Cli::definition().debug_assert();
}
