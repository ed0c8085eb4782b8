//! Runs that keep a trace, and what they say of causes.

use std::path::PathBuf;

use serde_json::Value;

use crate::{Finished, Scratch, mpps, run_command};

/// A traced run that has ended.
pub struct Traced {
    /// Where its files are.
    pub folder: Scratch,
    /// Its summary.
    pub json: Value,
}

impl Traced {
    /// Runs `words` with a trace.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(words: &str) -> Self {
        let folder = Scratch::new();
        let done = run_command(folder.traced(mpps(words)));
        Self::of(folder, &done)
    }

    /// What a run that has ended left in this folder.
    ///
    /// # Panics
    /// When it failed.
    pub fn of(folder: Scratch, done: &Finished) -> Self {
        assert!(matches!(done.code, Some(0 | 3)), "{}{}", done.stdout, done.stderr);
        let text = std::fs::read_to_string(folder.file("run.json")).expect("a summary");
        let json = serde_json::from_str(&text).expect("JSON");
        Self { folder, json }
    }

    /// The trace.
    pub fn file(&self) -> PathBuf {
        self.folder.file("run.pftrace.gz")
    }

    /// What `mpps trace FILE …` prints.
    ///
    /// # Panics
    /// When it fails.
    pub fn told(&self, more: &str) -> String {
        let done = run_command(mpps(&format!("trace {} {more}", self.file().display())));
        assert_eq!(done.code, Some(0), "{more}: {}", done.stderr);
        done.stdout
    }

    /// The sentences of the summary.
    ///
    /// # Panics
    /// When it has none of them.
    pub fn why(&self) -> Vec<String> {
        let why = self.json["why"].as_array().expect("why");
        why.iter()
            .map(|cause| cause["sentence"].as_str().expect("a sentence").to_owned())
            .collect()
    }

    /// Some sentence has all of these, and the parts of each add up.
    ///
    /// # Panics
    /// When not.
    pub fn assert_says(&self, parts: &[&str]) {
        self.assert_adds_up();
        let why = self.why();
        assert!(
            why.iter()
                .any(|sentence| parts.iter().all(|part| sentence.contains(part))),
            "{parts:?} in no sentence of {why:#?}; loss {}",
            self.json["lost"]
        );
    }

    /// Parts of each sentence add up: to the time that it is about, or to the packets.
    ///
    /// # Panics
    /// When not.
    pub fn assert_adds_up(&self) {
        for cause in self.json["why"].as_array().expect("why") {
            let parts = cause["parts"].as_array().expect("parts");
            let sum: u64 = parts
                .iter()
                .map(|part| part["amount"].as_u64().expect("an amount"))
                .sum();
            let whole = match cause["subject"].as_str() {
                Some("loss" | "missed") => "packets",
                _ => "took_ns",
            };
            assert_eq!(Some(sum), cause[whole].as_u64(), "{cause:#}");
        }
    }
}
