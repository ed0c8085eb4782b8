//! `mpps report`: makes a page from existing files.

use super::{Document, Found, RESULT, beside, files_from, find, redact, runs};
use crate::page::{self, Source};
use crate::plot;
use mpps_report::{JsonTarget, ReportError};
use mpps_sys::private;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes of the longest result that is read.
const LONGEST: u64 = 64 << 20;
/// Name of the file with the rows of a run, in the folder of the run.
const ROWS: &str = "rows.csv";
const ENDINGS: &str = ".html, .md or .json, or in none: a folder for all files";

/// Writes the page (`.html`), the text (`.md`) or the record (`.json`). To a name without an ending it writes a folder
/// with all of these, a CSV per table and an SVG per chart. `files` are `result.json` of tests, or JSON summaries of
/// runs, each with the CSV of its run if that is given too. A folder stands for the files in it. `hidden` leaves out
/// names and addresses.
///
/// # Errors
/// When a file can't be read or is malformed, files don't belong together, or `out` has another ending, is a folder
/// that is there already, or can't be written.
pub fn report(files: &[PathBuf], out: &Path, hidden: bool) -> Result<(), ReportError> {
    let ending = out.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    let target = match ending.as_deref() {
        Some("html" | "md" | "json") => Some(JsonTarget::prepare(out)?),
        None if out != Path::new("-") => None,
        _ => {
            return Err(ReportError::Format {
                path: out.to_owned(),
                want: ENDINGS,
            });
        }
    };
    let (mut document, mut sources) = read(files)?;
    if hidden {
        let mut redactor = redact::Redactor::of(&document);
        document = redactor.document(&document);
        for source in &mut sources {
            source.name = redactor.text(&source.name);
        }
    }
    let Some(target) = target else {
        let files = files_from(&document, &sources)?;
        private::new_folder(out).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                let why = "it is there already: want the name of a folder to make, or of a file";
                ReportError::io("make the folder", out, io::Error::other(why))
            }
            _ => ReportError::io("make the folder", out, e),
        })?;
        let write = |(name, bytes): &(String, Vec<u8>)| JsonTarget::prepare(&out.join(name))?.write_bytes(bytes);
        return files.iter().try_for_each(write);
    };
    let text = match ending.as_deref() {
        Some("html") => page::html(&document, &sources),
        Some("md") => page::markdown(&document, &sources),
        _ => document.text(),
    };
    target.write_bytes(text.as_bytes())
}

/// Input of `mpps plot`.
pub(crate) enum Drawn {
    /// Files with rows of runs.
    Rows(Vec<PathBuf>),
    /// Charts of one or several tests.
    Charts(Box<Document>),
}

/// Finds the input: rows of runs, `result.json` of tests, or folders with either.
///
/// # Errors
/// When a file can't be read, or both are given.
pub(crate) fn drawn(given: &[PathBuf]) -> Result<Drawn, ReportError> {
    let is_csv = |file: &PathBuf| has_ending(file, "csv");
    let is_test = |file: &Path| {
        let test = |bytes: Vec<u8>| matches!(find(&bytes), Ok(Found::Test(_)));
        has_ending(file, "json") && contents(file).is_ok_and(test)
    };
    let mut rows = Vec::new();
    let mut tests = Vec::new();
    for path in given {
        let found = of_folder(path)?;
        match found.iter().find(|file| path.is_dir() && is_csv(file)) {
            Some(file) => rows.push(file.clone()),
            None if is_test(&found[0]) => tests.push(path.clone()),
            None => rows.extend(found),
        }
    }
    let Some(path) = tests.first() else {
        return Ok(Drawn::Rows(rows));
    };
    if !rows.is_empty() {
        let why = "the result of a test beside rows of a run: want results of one test, or rows of runs";
        return Err(ReportError::malformed(path, why));
    }
    Ok(Drawn::Charts(Box::new(read(&tests)?.0)))
}

fn has_ending(file: &Path, ending: &str) -> bool {
    file.extension().is_some_and(|e| e.eq_ignore_ascii_case(ending))
}

/// Returns the names of test results in tables and legends: their folders, if the files have the usual name of results.
fn labels(given: &[PathBuf]) -> Vec<String> {
    let short = |path: &PathBuf| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.filter(|_| path.file_name().is_some_and(|name| name == RESULT));
        folder.unwrap_or(path).to_owned()
    };
    let names = plot::names(&given.iter().map(short).collect::<Vec<_>>());
    let numbered = |(at, name): (usize, &String)| match names[..at].iter().filter(|earlier| *earlier == name).count() {
        0 => name.clone(),
        before => format!("{name} ({})", before + 1),
    };
    names.iter().enumerate().map(numbered).collect()
}

/// Returns the results in the folder of a test or a run (`--out DIR`); for a file the file itself.
fn of_folder(path: &Path) -> Result<Vec<PathBuf>, ReportError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let result = path.join(RESULT);
    if !result.exists() {
        let want = format!("no {RESULT} is in this folder: want one that --out DIR made, or a file of results");
        return Err(ReportError::malformed(path, want));
    }
    // A run has its rows beside it; the result of a test is complete.
    let is_run = contents(&result).is_ok_and(|bytes| matches!(find(&bytes), Ok(Found::Run(_))));
    let rows = Some(path.join(ROWS)).filter(|rows| is_run && rows.is_file());
    Ok([result].into_iter().chain(rows).collect())
}

fn read(given: &[PathBuf]) -> Result<(Document, Vec<Source>), ReportError> {
    let mut sources = Vec::new();
    let mut all: Vec<runs::Run> = Vec::new();
    let mut tests: Vec<(&PathBuf, beside::Named)> = Vec::new();
    let found = given
        .iter()
        .map(|path| of_folder(path))
        .collect::<Result<Vec<_>, _>>()?;
    let files = found.concat();
    let is_csv = |file: &&PathBuf| has_ending(file, "csv");
    let names = plot::names(&files);
    let of = given.iter().zip(labels(given)).zip(&found);
    let of: Vec<_> = of
        .flat_map(|(of, found)| found.iter().map(move |_| of.clone()))
        .collect();
    for ((file, name), (path, label)) in files.iter().zip(&names).zip(of).filter(|((file, _), _)| !is_csv(file)) {
        let bytes = contents(file)?;
        match find(&bytes).map_err(|why| ReportError::malformed(file, why))? {
            Found::Run(summary) => all.push(runs::Run::new(name, summary)),
            Found::Test(document) => tests.push((path, (label, *document))),
        }
        sources.push(Source::of(name, &bytes));
    }
    if let Some((path, _)) = tests.first().filter(|_| tests.len() < files.len()) {
        let why = "it is the result of a test: want such results alone, or only JSON summaries of runs with their CSVs";
        return Err(ReportError::malformed(path, why));
    }
    if let [(_, (_, document))] = &mut tests[..] {
        return Ok((std::mem::take(document), sources));
    }
    if !tests.is_empty() {
        let (paths, tests): (Vec<_>, Vec<_>) = tests.into_iter().unzip();
        let document = beside::document(&tests).map_err(|(at, why)| ReportError::malformed(paths[at], why))?;
        return Ok((document, sources));
    }
    for (file, name) in files.iter().zip(&names).filter(|(file, _)| is_csv(file)) {
        let started = plot::started(file);
        let same = |run: &runs::Run| {
            started
                .as_ref()
                .is_some_and(|started| run.started().starts_with(started))
        };
        let rows = plot::rows(file)?;
        let Some(at) = all.iter().position(same) else {
            let why = "no JSON summary of the same run is given: want its --json file beside it";
            return Err(ReportError::malformed(file, why));
        };
        let run = all.remove(at);
        all.insert(at, run.with_rows(rows));
        sources.push(Source::of(name, &contents(file)?));
    }
    Ok((runs::document(&all), sources))
}

/// Returns the contents of a regular file of limited length.
fn contents(path: &Path) -> Result<Vec<u8>, ReportError> {
    let failed = |e: io::Error| ReportError::io("read", path, e);
    // Checked first: opening a FIFO would wait.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(ReportError::malformed(path, "no regular file: want a file of results"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LONGEST {
        let why = format!("longer than {} MiB: want a file of results", LONGEST >> 20);
        return Err(ReportError::malformed(path, why));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_file_given_thrice_has_three_labels() {
        let three = vec![PathBuf::from("a/result.json"); 3];
        let labels = labels(&three);
        assert_eq!(
            labels.iter().collect::<std::collections::BTreeSet<_>>().len(),
            3,
            "{labels:?}"
        );
    }
}
