//! What holds for the text of every source and page: the width of its lines, and where its links lead.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Columns of a line, comments and texts in quotes too; rustfmt breaks neither.
const COLUMNS: usize = 120;

/// Folders that nobody wrote what is in: built programs, the inputs that fuzzing found.
const NOT_OURS: [&str; 4] = ["target", "corpus", "artifacts", "coverage"];

/// Pages that a program writes.
const GENERATED: [&str; 1] = ["bench/RESULTS.md"];

/// Every file of the repository with one of these extensions, by its path from the top.
fn files(extensions: &[&str]) -> Vec<(String, String)> {
    let top = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let (mut folders, mut found) = (vec![top.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        for entry in entries.flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let kind = entry.file_type().expect("a kind");
            if kind.is_dir() && !name.starts_with(['.']) && !name.starts_with("target-") {
                if !NOT_OURS.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if kind.is_file() && path.extension().is_some_and(|e| extensions.iter().any(|x| e == *x)) {
                let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                let path = path.strip_prefix(&top).expect("below the top");
                found.push((path.display().to_string(), text));
            }
        }
    }
    found.sort();
    found
}

/// Whether a line must fit: a row of a table can't be broken, nor can a line that is one word, such as an address.
fn breaks(path: &str, line: &str) -> bool {
    let line = line.trim_start();
    !(path.ends_with(".md") && line.starts_with('|')) && line.contains(' ')
}

/// The names of a page's headings, as links call them.
fn anchors(text: &str) -> Vec<String> {
    let (mut names, mut fenced, mut seen) = (Vec::new(), false, HashMap::new());
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        let title = line.trim_start_matches('#');
        if fenced || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
        let name: String = title.trim().to_lowercase().chars().filter(kept).collect();
        let name = name.replace(' ', "-");
        let before = seen.entry(name.clone()).and_modify(|n| *n += 1).or_insert(0);
        names.push(match before {
            0 => name,
            n => format!("{name}-{n}"),
        });
    }
    names
}

/// The targets of the links of a page, without those in code.
fn links(text: &str) -> Vec<String> {
    let mut fenced = false;
    let prose = text.lines().filter(|line| {
        let fence = line.starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    });
    let prose: Vec<_> = prose.collect();
    let prose = prose.join("\n");
    let targets = prose.split("](").skip(1);
    let targets = targets.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()));
    targets.filter(|target| !target.contains([' ', '\n'])).collect()
}

#[test]
fn no_line_is_wider_than_120_columns() {
    let mut wide = Vec::new();
    for (path, text) in files(&["rs", "md", "sh", "py", "c", "h"]) {
        if GENERATED.contains(&path.as_str()) {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
            let columns = line.chars().count();
            if columns > COLUMNS && breaks(&path, line) {
                wide.push(format!("{path}:{number}: {columns} columns"));
            }
        }
    }
    assert!(wide.is_empty(), "lines over {COLUMNS} columns:\n{}", wide.join("\n"));
}

#[test]
fn every_link_from_page_to_page_leads_to_a_file_and_a_heading_that_are_there() {
    let pages = files(&["md"]);
    let by_path: HashMap<_, _> = pages.iter().map(|(path, text)| (path.as_str(), text)).collect();
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut dead = Vec::new();
    for (page, text) in &pages {
        for link in links(text).iter().filter(|link| !link.contains("://")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let mut target = Path::new(page).parent().expect("a folder").to_path_buf();
            for part in Path::new(file) {
                match part.to_str() {
                    Some("..") => {
                        target.pop();
                    }
                    _ => target.push(part),
                }
            }
            if file.is_empty() {
                target = PathBuf::from(page);
            }
            let known = match by_path.get(target.to_string_lossy().as_ref()) {
                Some(text) => heading.is_empty() || anchors(text).iter().any(|name| name == heading),
                None => heading.is_empty() && top.join(&target).exists(),
            };
            if !known {
                dead.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
}
