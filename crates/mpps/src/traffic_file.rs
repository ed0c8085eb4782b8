//! Traffic files, as `--traffic` and `mpps traffic` read them. A run has their streams, and no file.

use crate::author::{Author, leads_away};
use crate::fail::{Failure, Result, printable, usage};
use mpps_run::privilege::as_user;
use mpps_run::replay;
use mpps_traffic::{LONGEST, Traffic, Wrong};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Text of a traffic file, with the name that refusals begin with.
pub(crate) struct TrafficText {
    name: String,
    text: String,
    author: Author,
}

impl TrafficText {
    /// Reads a file as the user, `-` as standard input.
    ///
    /// # Errors
    /// The file, and why it can't be read, or that it is longer than traffic may be.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        as_user(|| read(file))
    }

    /// Reads the traffic with these variables, each NAME=VALUE.
    ///
    /// # Errors
    /// The place in the file and what would be right there, or the variable.
    pub(crate) fn traffic(&self, set: &[String]) -> Result<Traffic> {
        Traffic::parse(&self.text, &pairs(set)?).map_err(|wrong| self.refused(&wrong))
    }

    /// Returns the refusal of what was read: `FILE:LINE:COLUMN: …`, or `FILE: …` if it is about no place.
    pub(crate) fn refused(&self, wrong: &Wrong) -> Failure {
        match wrong.at.is_empty() && wrong.at.start == 0 {
            true => usage(format!("{}: {}", self.name, wrong.line)),
            false => usage(wrong.in_file(&self.name, &self.text)),
        }
    }

    /// Returns the streams as a plan has them, as JSON, with each variable's value in its place. Their packets are
    /// checked.
    ///
    /// # Errors
    /// As [`TrafficText::traffic`].
    pub(crate) fn streams(&self, set: &[String], seed: u64) -> Result<String> {
        let mut traffic = self.traffic(set)?;
        traffic.forms(seed).map_err(|wrong| self.refused(&wrong))?;
        traffic.check_run().map_err(|wrong| self.refused(&wrong))?;
        self.check_captures(&traffic)?;
        identify(&mut traffic).map_err(|why| usage(format!("{}: {why}", self.name)))?;
        let streams = traffic.json().to_string();
        // Variables may make a text of a file that would be refused.
        match mpps_plan::values::streams(&streams) {
            Ok(_) => Ok(streams),
            Err(why) => Err(usage(format!("{}: with its variables: {why}", self.name))),
        }
    }
}

impl TrafficText {
    /// Refuses captures outside of the current folder if another user may have named them: what is sent leaves the
    /// host.
    pub(crate) fn check_captures(&self, traffic: &Traffic) -> Result<()> {
        let mut captures = traffic.streams.iter().filter_map(|stream| stream.pcap.as_ref());
        let Some(away) = captures.find(|pcap| leads_away(Path::new(&pcap.path))) else {
            return Ok(());
        };
        let what = format!("pcap '{}' is outside of this folder", printable(&away.path));
        match self.author.refuses(&what) {
            Some(line) => Err(usage(format!("{}: {line}", self.name))),
            None => Ok(()),
        }
    }
}

/// Returns the stream of a capture file as a plan has it, as JSON; `set`: keys of the stream, each KEY=VALUE.
///
/// # Errors
/// Names the key and what would be right, or says why the file can't be read.
pub(crate) fn capture(file: &Path, set: &[String]) -> Result<String> {
    let Some(path) = file.to_str() else {
        return Err(usage(format!("--pcap {}: want a name in UTF-8", file.display())));
    };
    let mut traffic =
        Traffic::of_capture(path, &pairs(set)?).map_err(|wrong| usage(format!("--set {}", wrong.line)))?;
    identify(&mut traffic).map_err(|why| usage(format!("--{why}")))?;
    Ok(traffic.json().to_string())
}

/// Notes size and SHA-256 of the captures, so that the same plan never sends another file.
fn identify(traffic: &mut Traffic) -> std::result::Result<(), String> {
    // Streams may send one file.
    let mut known = HashMap::new();
    for pcap in traffic.streams.iter_mut().filter_map(|stream| stream.pcap.as_mut()) {
        if pcap.size.is_some() && pcap.sha256.is_some() {
            continue;
        }
        let path = pcap.path.clone();
        let (size, sha256) = match known.entry(path) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(new) => {
                let found = as_user(|| Ok(replay::identity(new.key())));
                let found = found.map_err(|failure| failure.line().to_owned())??;
                new.insert(found)
            }
        };
        pcap.size.get_or_insert(*size);
        pcap.sha256.get_or_insert_with(|| sha256.clone());
    }
    Ok(())
}

fn pairs(set: &[String]) -> Result<Vec<(String, String)>> {
    let pair = |pair: &String| match pair.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(usage(format!("--set {pair}: want NAME=VALUE"))),
    };
    set.iter().map(pair).collect()
}

fn read(path: &Path) -> Result<TrafficText> {
    let stdin = path == Path::new("-");
    let name = match stdin {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    };
    let mut text = Vec::new();
    let mut author = Author::default();
    let most = LONGEST as u64 + 1;
    let read = match stdin {
        true => Author::of_stdin().and_then(|of| {
            author = of;
            io::stdin().lock().take(most).read_to_end(&mut text)
        }),
        false => File::open(path).and_then(|file| {
            author = Author::of(&file, path)?;
            file.take(most).read_to_end(&mut text)
        }),
    };
    read.map_err(|error| usage(format!("{name}: {error}")))?;
    if text.len() > LONGEST {
        return Err(usage(format!("{name}: longer than {LONGEST} bytes")));
    }
    match String::from_utf8(text) {
        Ok(text) => Ok(TrafficText { name, text, author }),
        Err(_) => Err(usage(format!("{name}: want a text in UTF-8"))),
    }
}
