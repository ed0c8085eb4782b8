//! Traffic files, as `--traffic` and `mpps traffic` read them. A run has their streams, and no file.

use crate::fail::{Failure, Result, usage};
use mpps_run::privilege::as_user;
use mpps_traffic::{LONGEST, Traffic, Wrong};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Text of a traffic file, with the name that refusals begin with.
pub(crate) struct TrafficText {
    name: String,
    text: String,
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
        let set = set.iter().map(|pair| match pair.split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(usage(format!("--set {pair}: want NAME=VALUE"))),
        });
        let set = set.collect::<Result<Vec<_>>>()?;
        Traffic::parse(&self.text, &set).map_err(|wrong| self.refused(&wrong))
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
        let traffic = self.traffic(set)?;
        traffic.forms(seed).map_err(|wrong| self.refused(&wrong))?;
        let streams = traffic.json().to_string();
        // Variables may make a text of a file that would be refused.
        match mpps_plan::values::streams(&streams) {
            Ok(_) => Ok(streams),
            Err(why) => Err(usage(format!("{}: with its variables: {why}", self.name))),
        }
    }
}

fn read(file: &Path) -> Result<TrafficText> {
    let stdin = file == Path::new("-");
    let name = match stdin {
        true => "standard input".to_owned(),
        false => file.display().to_string(),
    };
    let mut text = Vec::new();
    let most = LONGEST as u64 + 1;
    let read = match stdin {
        true => io::stdin().lock().take(most).read_to_end(&mut text),
        false => File::open(file).and_then(|file| file.take(most).read_to_end(&mut text)),
    };
    read.map_err(|error| usage(format!("{name}: {error}")))?;
    if text.len() > LONGEST {
        return Err(usage(format!("{name}: longer than {LONGEST} bytes")));
    }
    match String::from_utf8(text) {
        Ok(text) => Ok(TrafficText { name, text }),
        Err(_) => Err(usage(format!("{name}: want a text in UTF-8"))),
    }
}
