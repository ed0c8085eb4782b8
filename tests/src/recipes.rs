//! The commands that the documentation shows, taken from its text.

use std::path::{Path, PathBuf};

/// A command as a page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The page, from the top of the repository.
    pub page: String,
    /// `a#`, `b$`, `#`, or nothing.
    pub prompt: String,
    /// The command, on one line, without a comment behind it.
    pub command: String,
}

/// Programs that a line without a prompt begins with where it is a command.
const PROGRAMS: [&str; 16] = [
    "mpps",
    "make",
    "ethtool",
    "echo",
    "ip",
    "dpdk-devbind.py",
    "dpdk-testpmd",
    "driverctl",
    "dpdkproj",
    "sysctl",
    "modprobe",
    "apt-get",
    "tc",
    "sudo",
    "docker",
    "podman",
];

/// Every command in a fenced block of README.md, of docs/*.md and of docs/*/*.md, in order.
///
/// # Panics
/// When the pages can't be read.
pub fn shown() -> Vec<Shown> {
    let top = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut all = Vec::new();
    for page in std::iter::once(PathBuf::from("README.md")).chain(pages(&top)) {
        let text = std::fs::read_to_string(top.join(&page)).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        all.extend(commands(&page.display().to_string(), &text));
    }
    all
}

/// Pages of docs/ and of its folders, from the top of the repository.
fn pages(top: &Path) -> Vec<PathBuf> {
    let inside = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(top.join(folder)).expect("a folder").flatten();
        entries.map(|entry| folder.join(entry.file_name())).collect()
    };
    let (folders, mut pages): (Vec<_>, Vec<_>) = inside(Path::new("docs"))
        .into_iter()
        .partition(|path| top.join(path).is_dir());
    pages.extend(folders.iter().flat_map(|folder| inside(folder)));
    pages.retain(|page| page.extension().is_some_and(|e| e == "md"));
    pages.sort();
    pages
}

fn commands(page: &str, text: &str) -> Vec<Shown> {
    let (mut all, mut fenced, mut begun) = (Vec::new(), false, String::new());
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if !fenced {
            continue;
        }
        // A line that ends in a backslash goes on in the next.
        let line = match begun.is_empty() {
            true => line.trim_end().to_owned(),
            false => format!("{} {}", std::mem::take(&mut begun), line.trim()),
        };
        if let Some(start) = line.strip_suffix('\\') {
            begun = start.trim_end().to_owned();
            continue;
        }
        let prompt = ["a$", "a#", "b$", "b#", "$", "#"];
        let prompted = prompt
            .iter()
            .find_map(|p| Some((*p, line.strip_prefix(p)?.strip_prefix(' ')?)));
        let bare = || {
            let first = line.split_whitespace().next()?;
            (PROGRAMS.contains(&first) && !line.contains('→')).then_some(("", line.as_str()))
        };
        let Some((prompt, command)) = prompted.or_else(bare) else {
            continue;
        };
        // Two spaces and a hash: what the page says of it.
        let command = command.split("  #").next().unwrap_or(command).trim_end();
        all.push(Shown {
            page: page.to_owned(),
            prompt: prompt.to_owned(),
            command: command.to_owned(),
        });
    }
    all
}
