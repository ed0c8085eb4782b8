//! What holds for the text of every source and page: the width of its lines, and where its links lead.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Columns of a line, comments and texts in quotes too; rustfmt breaks neither.
const COLUMNS: usize = 120;

/// Folders that nobody wrote what is in: built programs, the inputs that fuzzing found.
const NOT_OURS: [&str; 4] = ["target", "corpus", "artifacts", "coverage"];

/// Pages that a program writes.
const GENERATED: [&str; 1] = ["bench/RESULTS.md"];

/// Every file of the repository with one of these extensions, by its path from the top. Results that somebody keeps in
/// the folder, as `make demo` does, are not the repository's: where git answers, only the files that it tracks count.
fn files(extensions: &[&str]) -> Vec<(String, String)> {
    let top = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let all = tracked(&top).unwrap_or_else(|| walked(&top));
    let ours = all.into_iter().filter(|path| {
        let folders = path.parent().into_iter().flat_map(Path::components);
        let ours = |part: std::path::Component| !NOT_OURS.iter().any(|name| part.as_os_str() == *name);
        folders.into_iter().all(ours) && path.extension().is_some_and(|e| extensions.iter().any(|x| e == *x))
    });
    let mut found: Vec<_> = ours
        // A file that was removed and is not committed yet is still tracked; a link is read where it leads.
        .filter(|path| top.join(path).symlink_metadata().is_ok_and(|about| about.is_file()))
        .map(|path| {
            let text = std::fs::read_to_string(top.join(&path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            (path.display().to_string(), text)
        })
        .collect();
    found.sort();
    found
}

/// The files that git tracks below `top`, from there; `None` without git, or where `top` has no repository of its own.
fn tracked(top: &Path) -> Option<Vec<PathBuf>> {
    top.join(".git").exists().then_some(())?;
    let listed = Command::new("git").arg("-C").arg(top).args(["ls-files", "-z"]).output();
    let listed = listed
        .ok()
        .filter(|done| done.status.success() && !done.stdout.is_empty())?;
    let names = listed.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Some(names.map(|name| OsStr::from_bytes(name).into()).collect())
}

/// All files below `top`, from there: the sources as an archive has them.
fn walked(top: &Path) -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![PathBuf::new()], Vec::new());
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(top.join(&folder)).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        for entry in entries.flatten() {
            let (path, name) = (folder.join(entry.file_name()), entry.file_name());
            let name = name.to_string_lossy();
            let kind = entry.file_type().expect("a kind");
            if kind.is_dir() && !name.starts_with(['.']) && !name.starts_with("target-") {
                if !NOT_OURS.contains(&&*name) {
                    folders.push(path);
                }
            } else if kind.is_file() {
                found.push(path);
            }
        }
    }
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

/// First words of a doc comment that names no noun.
const NO_NOUN: [&str; 7] = ["What", "Who", "Whose", "Those", "Whoever", "Whatever", "Nothing that"];

/// Words that have a plainer one.
const ODD: [&str; 4] = ["told", "anew", "whoever", "whosever"];

#[test]
fn doc_comments_begin_with_the_noun_or_the_verb() {
    let mut found = Vec::new();
    for (path, text) in files(&["rs"]) {
        if !path.starts_with("crates/") || !path.contains("/src/") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix("//") else {
                continue;
            };
            let doc = comment.strip_prefix(['/', '!']).unwrap_or_default().trim_start();
            let no_noun = NO_NOUN.into_iter().find(|word| doc.starts_with(&format!("{word} ")));
            let words: Vec<&str> = comment.split(|c: char| !c.is_alphanumeric()).collect();
            if let Some(word) = no_noun.or(ODD.into_iter().find(|word| words.contains(word))) {
                found.push(format!("{path}:{}: {word}", number + 1));
            }
        }
    }
    assert!(
        found.is_empty(),
        "comments that want another word:\n{}",
        found.join("\n")
    );
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

/// Packages that every Debian has.
const REQUIRED: [&str; 4] = ["bsdutils", "coreutils", "dash", "util-linux"];

/// A test that wants a program which the set-up forgot is skipped on a fresh machine, and nowhere else.
#[test]
fn every_package_that_a_test_wants_is_one_that_the_set_up_installs() {
    let setup = include_str!("../../scripts/setup.sh");
    let installs: BTreeSet<&str> = setup
        .lines()
        .filter_map(|line| line.rsplit_once(" | ").or_else(|| line.rsplit_once("| ")))
        .flat_map(|(_, packages)| packages.split_whitespace())
        .chain(REQUIRED)
        .collect();
    let (mut wanted, mut lacking) = (0, Vec::new());
    for (file, text) in files(&["rs"]) {
        for call in text.split("missing(\"").skip(1) {
            let mut quoted = call.split('"');
            let (Some(program), Some(", "), Some(packages)) = (quoted.next(), quoted.next(), quoted.next()) else {
                continue;
            };
            wanted += 1;
            if !packages.split(" or ").any(|package| installs.contains(package)) {
                lacking.push(format!("{file}: {program} of {packages}"));
            }
        }
    }
    assert!(wanted > 50, "{wanted} calls of `missing`");
    assert!(lacking.is_empty(), "scripts/setup.sh lacks:\n{}", lacking.join("\n"));
}

/// Folders of one machine: where somebody lives, and where work is done for a while.
const OF_A_MACHINE: [&str; 7] = ["home", "root", "work", "Users", "mnt", "srv", "scratch"];

/// The paths in a text that are those of one machine. Names that only explain (`/home/user-1`, `/home/ada`) are none.
fn machine_paths(text: &str) -> Vec<&str> {
    let inside = |c: char| c.is_ascii_alphanumeric() || "._-~$}*<>".contains(c);
    let mut found = Vec::new();
    for (at, _) in text.match_indices('/') {
        // In the middle of a path, or of an address.
        if text[..at].ends_with(|c: char| inside(c) || c == '/' || c == ']') {
            continue;
        }
        let end = text[at..]
            .find(|c: char| !inside(c) && c != '/')
            .map_or(text.len(), |len| at + len);
        let path = &text[at..end];
        let mut parts = path[1..].split('/');
        let (first, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let temporary = first == "tmp" && parts.next().is_some();
        let somebody = ["user", "ada", "you", "me", "NAME"]
            .iter()
            .any(|name| second.starts_with(name));
        if (OF_A_MACHINE.contains(&first) && !second.is_empty() && !somebody) || temporary {
            found.push(path);
        }
    }
    found
}

#[test]
fn no_page_and_no_result_names_a_path_of_the_machine_that_it_was_made_on() {
    let mut named = Vec::new();
    let extensions = [
        "md", "json", "jsonl", "csv", "txt", "html", "svg", "ipynb", "toml", "yml", "yaml", "sh", "py", "tex", "bib",
    ];
    for (file, text) in files(&extensions) {
        let found = machine_paths(&text).into_iter();
        named.extend(found.map(|path| format!("{file}: {path}")));
    }
    assert!(named.is_empty(), "paths of a machine:\n{}", named.join("\n"));
}

#[test]
fn a_path_of_a_machine_is_told_from_one_that_every_machine_has() {
    for (text, want) in [
        (
            "cc -o xsk /root/.cache/bench/xsk_links x.c",
            "/root/.cache/bench/xsk_links",
        ),
        ("(`/home/grace/mpps/target`)", "/home/grace/mpps/target"),
        ("in \"/srv/mpps\"", "/srv/mpps"),
        ("/tmp/y/x/run.csv", "/tmp/y/x/run.csv"),
        ("cd /Users/x", "/Users/x"),
    ] {
        assert_eq!(machine_paths(text), [want], "{text}");
    }
    for text in [
        "/usr/lib/x /proc/self/mem /sys/fs/bpf /dev/shm /etc/os-release",
        "/tmp/package.deb, /home/ada/x.json and /home/user-1/x",
        "https://example.org/home/page, docs/srv/mpps, ~/work/x, $HOME/root/x, ../root/x",
        "one/two, 10.0.0.0/8, /",
    ] {
        assert_eq!(machine_paths(text), Vec::<&str>::new(), "{text}");
    }
}

#[test]
fn what_git_does_not_track_is_nobodys_text() {
    let top = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let Some(all) = tracked(&top) else {
        return println!("SKIPPED: the sources are in no repository of git's");
    };
    for name in ["README.md", "tests/src/text.rs", "bench/RESULTS.md"] {
        assert!(all.iter().any(|path| path == Path::new(name)), "{name}");
    }
    let results = top.join(format!("demo-results-of-a-test-{}", std::process::id()));
    std::fs::create_dir(&results).expect("a folder");
    std::fs::write(results.join("report.md"), "x ".repeat(100)).expect("a file");
    let found = files(&["md"]);
    let walked = walked(&top);
    let _ = std::fs::remove_dir_all(&results);
    let is_there = |path: &str| path.contains("demo-results-of-a-test");
    assert!(!found.iter().any(|(path, _)| is_there(path)));
    assert!(
        walked.iter().any(|path| is_there(&path.display().to_string())),
        "the walk sees all"
    );
}

/// Crates whose modules use each other in one direction: what a module needs stands below it.
const LAYERED: [&str; 5] = ["engine", "io", "serve", "sys", "watch"];

/// Returns the modules of a crate by name, each with those that it uses; only modules that stand beside `lib.rs`.
fn uses(sources: &[(String, String)], krate: &str) -> HashMap<String, BTreeSet<String>> {
    let of_crate = format!("crates/{krate}/src/");
    let mut uses: HashMap<String, BTreeSet<String>> = HashMap::new();
    for (path, text) in sources {
        let Some(inside) = path.strip_prefix(&of_crate).filter(|path| !path.contains("test")) else {
            continue;
        };
        let module = inside.split(['/', '.']).next().unwrap_or_default();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = code.lines().map(|line| line.split("//").next().unwrap_or_default());
        let code = code.collect::<Vec<_>>().join(" ");
        let own = uses.entry(module.to_owned()).or_default();
        for used in code.split("crate::").skip(1) {
            let group = used.strip_prefix('{').and_then(|used| used.split("};").next());
            let words = group.unwrap_or_else(|| {
                used.split(|c: char| !c.is_alphanumeric() && c != '_')
                    .next()
                    .unwrap_or_default()
            });
            let words = words.split(|c: char| !c.is_alphanumeric() && c != '_');
            own.extend(words.map(str::to_owned).filter(|word| word != module));
        }
    }
    uses.remove("lib");
    uses
}

/// Returns whether `from` uses `to`, itself or by others.
fn reaches(uses: &HashMap<String, BTreeSet<String>>, from: &str, to: &str, seen: &mut BTreeSet<String>) -> bool {
    uses.get(from)
        .into_iter()
        .flatten()
        .any(|next| next == to || uses.contains_key(next) && seen.insert(next.clone()) && reaches(uses, next, to, seen))
}

#[test]
fn modules_of_a_layered_crate_are_in_no_circle() {
    let sources = files(&["rs"]);
    for krate in LAYERED {
        let uses = uses(&sources, krate);
        assert!(
            uses.values().any(|used| !used.is_empty()),
            "{krate}: no module uses another"
        );
        let circle: Vec<_> = uses
            .keys()
            .filter(|name| reaches(&uses, name, name, &mut BTreeSet::new()))
            .collect();
        assert!(circle.is_empty(), "{krate}: in a circle: {circle:?}");
    }
}

#[test]
fn two_modules_that_use_each_other_are_a_circle() {
    let source = |path: &str, text: &str| (format!("crates/x/src/{path}"), text.to_owned());
    let sources = [
        source("a.rs", "use crate::b::B;"),
        source("b/deep.rs", "use crate::{c, z::Z};\nuse crate::d;"),
        source("c.rs", "// crate::b\nuse std::fmt;\n#[cfg(test)] use crate::a;"),
        source("d.rs", "fn f() { crate::a::f(); }"),
    ];
    let uses = uses(&sources, "x");
    let in_circle = |name: &str| reaches(&uses, name, name, &mut BTreeSet::new());
    assert_eq!(["a", "b", "c", "d"].map(in_circle), [true, true, false, true]);
}
