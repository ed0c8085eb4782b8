//! `man` and `completions`: manual pages and completions of the program that prints them.

use crate::cli::{Cli, Completions, Example, Man, examples, headed, version};
use crate::fail::{Failure, Result, failed, print, usage};
use clap::{Command, CommandFactory};
use mpps_sys::private;
use rustix::io::Errno;
use std::fmt::Write;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Exit codes that all commands share.
const EXIT_CODES: [(&str, &str); 5] = [
    ("0", "Done, and valid."),
    ("1", "Failed; what was measured before is told and written."),
    (
        "2",
        "Wrong arguments: one line names the option, the value and what would be right.",
    ),
    ("3", "Done, but the result is not valid."),
    ("4", "Done and valid, but what --expect asks for was not reached."),
];

pub(crate) fn man(args: &Man) -> Result<ExitCode> {
    let pages = pages().map_err(|e| failed(format!("make the pages: {e}")))?;
    let Some(folder) = &args.out else {
        let wanted = args.command.join(" ");
        let Some(page) = pages.iter().find(|page| page.command == wanted) else {
            let all: Vec<_> = pages
                .iter()
                .map(|page| page.command.as_str())
                .filter(|name| !name.is_empty())
                .collect();
            return Err(usage(format!(
                "man '{wanted}': no such command: want one of {}",
                all.join(", ")
            )));
        };
        print(|out| out.write_all(page.text.as_bytes()))?;
        return Ok(ExitCode::SUCCESS);
    };
    // Not as the user who called sudo: pages that root installs are root's.
    write(folder, &pages)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn completions(args: &Completions) -> Result<ExitCode> {
    let script = args.shell.completions();
    print(|out| out.write_all(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// A manual page.
struct Page {
    /// The command's words behind the program's name.
    command: String,
    text: String,
}

impl Page {
    fn file(&self) -> String {
        format!("{}.1", name_of(&self.command))
    }
}

/// The name that a page has: `mpps-lab-up`.
fn name_of(command: &str) -> String {
    format!("mpps {command}").trim_end().replace(' ', "-")
}

/// Each page is a file of its own: a link in its place, of root's too, may lead to anything.
fn write(path: &Path, pages: &[Page]) -> Result<()> {
    let unwritten = |name: &str, e: io::Error| -> Failure {
        let why = match Errno::from_io_error(&e) {
            Some(Errno::LOOP) => "it is a link".to_owned(),
            _ => e.to_string(),
        };
        usage(format!(
            "--out {}: {name}: {why}: want a folder that can be made and written, without links of these names",
            path.display()
        ))
    };
    let folder = private::open_folder(path).map_err(|e| unwritten("the folder", e))?;
    for page in pages {
        let name = page.file();
        let place = private::Place::within(&folder, &name);
        let put = place.and_then(|place| place.replace(page.text.as_bytes()));
        put.map_err(|e| unwritten(&name, e))?;
    }
    Ok(())
}

/// The pages of all commands that help shows.
fn pages() -> io::Result<Vec<Page>> {
    let mut root = without_help(headed(Cli::command()));
    root.build();
    let mut pages = Vec::new();
    add(&root, "", &mut pages)?;
    Ok(pages)
}

/// A command, and those below it, without the one that prints help.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

fn add(command: &Command, path: &str, pages: &mut Vec<Page>) -> io::Result<()> {
    pages.push(Page {
        command: path.to_owned(),
        text: page(command, path)?,
    });
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let path = format!("{path} {}", sub.get_name());
        add(sub, path.trim_start(), pages)?;
    }
    Ok(())
}

/// One page. Sections that clap knows nothing of are written here.
fn page(command: &Command, path: &str) -> io::Result<String> {
    let man = clap_mangen::Man::new(command.clone()).title(name_of(path).to_uppercase());
    let man = man
        .date(option_env!("MPPS_DATE").unwrap_or_default())
        .source(format!("mpps {}", version::short()))
        .manual("mpps");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    let mut text = tidied(&text);
    if let Some(notes) = command.get_after_help().map(ToString::to_string) {
        section(&mut text, "NOTES", &notes);
    }
    if path.is_empty() || !(command.has_subcommands() || tells_exit_codes(&text)) {
        exit_status(&mut text);
    }
    of_examples(&mut text, examples(path));
    let see = match path {
        "" => ".BR ip (8),\n.BR tc (8)\n".to_owned(),
        _ => ".BR mpps (1)\n".to_owned(),
    };
    text += &format!(".SH \"SEE ALSO\"\n{see}");
    Ok(text)
}

/// Sections as clap_mangen writes them, with their common definitions once, and as mandoc wants text: in lines of 80
/// bytes, without spaces at their ends, and without empty lines.
fn tidied(sections: &str) -> String {
    let (mut out, mut tag) = (String::new(), false);
    for line in sections.lines() {
        let defines = line.starts_with(".ie ") || line.starts_with(".el ");
        let again = line == ".br" && out.ends_with(".br\n");
        if line.trim().is_empty() || again || (defines && out.contains(line)) {
            continue;
        }
        match tag || line.starts_with('.') {
            // A tag is one line, however long.
            true => out += line.trim_end(),
            false => out += &folded(line),
        }
        out.push('\n');
        tag = line == ".TP";
    }
    out
}

/// Text in lines of 80 bytes, as far as its words let it.
fn folded(text: &str) -> String {
    const LONGEST: usize = 80;
    // What is no ASCII counts as mandoc reads it: \[u2026].
    let bytes = |word: &str| -> usize { word.chars().map(|c| if c.is_ascii() { 1 } else { 9 }).sum() };
    let (mut out, mut length) = (String::new(), 0);
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if length > 0 && length + 1 + bytes(word) > LONGEST {
            out.push('\n');
            length = 0;
        } else if length > 0 {
            out.push(' ');
            length += 1;
        }
        // At the start of a line these are the end of text.
        if length == 0 && word.starts_with(['.', '\'']) {
            out += "\\&";
        }
        out += word;
        length += bytes(word);
    }
    out
}

/// A section of a text: as it is, where it has several lines.
fn section(out: &mut String, title: &str, text: &str) {
    out.push_str(&format!(".SH {title}\n"));
    let lines: Vec<_> = text.lines().map(escaped).collect();
    match &lines[..] {
        [one] => out.push_str(&format!("{}\n", folded(one))),
        lines => out.push_str(&format!(".nf\n{}\n.fi\n", lines.join("\n"))),
    }
}

/// Whether a page's command has exit codes of its own.
fn tells_exit_codes(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(2).any(|pair| pair == ["Exit", "codes:"])
}

fn exit_status(out: &mut String) {
    out.push_str(".SH \"EXIT STATUS\"\n");
    for (code, what) in EXIT_CODES {
        // A String takes everything.
        let _ = write!(out, ".TP\n.B {code}\n{}\n", escaped(what));
    }
}

fn of_examples(out: &mut String, examples: &[Example]) {
    if examples.is_empty() {
        return;
    }
    out.push_str(".SH EXAMPLES\n");
    for (what, line) in examples {
        let _ = write!(out, ".TP\n\\fB{}\\fR\n{}\n", escaped(line), folded(&escaped(what)));
    }
}

/// Text that roff takes as it is.
fn escaped(line: &str) -> String {
    let plain = line.trim_end().replace('\\', "\\e").replace('-', "\\-");
    match plain.starts_with(['.', '\'']) {
        true => format!("\\&{plain}"),
        false => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_folded_and_stays_text() {
        let text = "a ".repeat(60) + "\u{2026} .x 'y' " + &"b".repeat(100);
        let told = folded(&text);
        let back = told.replace("\\&", "").replace('\n', " ");
        assert_eq!(back, text);
        for line in told.lines() {
            assert!(line.len() <= 82 || !line.contains(' '), "{line}");
            assert!(!line.starts_with(['.', '\'']) && !line.ends_with(' '), "{line}");
        }
        assert_eq!(escaped(".a\\b -c"), "\\&.a\\eb \\-c");
    }

    #[test]
    fn each_command_that_runs_something_tells_its_exit_codes_once() {
        for page in pages().expect("pages") {
            let own = page
                .text
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .contains("Exit codes:");
            let told = page.text.contains(".SH \"EXIT STATUS\"");
            let only_holds_others = page.text.contains(".SH SUBCOMMANDS") && !page.command.is_empty();
            assert!(
                own ^ told || only_holds_others && !told,
                "mpps {}: {own} {told}",
                page.command
            );
        }
    }

    #[test]
    fn each_command_has_one_page_and_none_is_for_help() {
        let pages = pages().expect("pages");
        let mut names: Vec<_> = pages.iter().map(Page::file).collect();
        names.sort();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(names.iter().all(|name| !name.contains("help")), "{names:?}");
    }
}
