//! Hosts made of files.

use super::tree::Tree;
use std::fs;

/// A host made of files, in a folder that is removed at the end.
pub(super) struct Fake(tempfile::TempDir);

impl Fake {
    pub(super) fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir(root.path().join("run")).expect("a folder");
        Self(root)
    }

    pub(super) fn tree(&self) -> Tree {
        Tree::fake(self.0.path())
    }

    pub(super) fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, format!("{text}\n")).expect("a file");
    }

    pub(super) fn get(&self, path: &str) -> String {
        self.tree().read(path).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    pub(super) fn remove(&self, path: &str) {
        fs::remove_file(self.0.path().join(path)).expect("a file");
    }

    /// Returns the writes so far, in order, as `PATH VALUE`.
    pub(super) fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.0.path().join("log")).unwrap_or_default();
        text.lines()
            .map(|line| line.trim_start_matches("write ").to_owned())
            .collect()
    }

    /// Returns all files except the log and the journals, with their contents.
    pub(super) fn all(&self) -> Vec<(String, String)> {
        fn walk(at: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
            for entry in fs::read_dir(at).expect("a folder").flatten() {
                match entry.path() {
                    path if path.is_dir() => walk(&path, found),
                    path => found.push(path),
                }
            }
        }
        let mut found = Vec::new();
        walk(self.0.path(), &mut found);
        found.sort();
        let name = |path: &std::path::PathBuf| path.strip_prefix(self.0.path()).expect("below").display().to_string();
        let files = found
            .iter()
            .map(|path| (name(path), fs::read_to_string(path).expect("text")));
        files
            .filter(|(name, _)| name != "log" && !name.starts_with("run/"))
            .collect()
    }
}
