//! `mpps report`: the page of files that are there.

use super::{Document, Found, RESULT, find, redact, runs};
use crate::page::{self, Source};
use crate::{JsonTarget, ReportError, plot};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes of the longest result that is read.
const LONGEST: u64 = 64 << 20;
/// Rows of a run, in its folder.
const ROWS: &str = "rows.csv";
const ENDINGS: &str = ".html, .md or .json";

/// Writes the page (`.html`), the text (`.md`) or the record (`.json`) of these files: `result.json` of a test, or JSON
/// summaries of runs, each with the CSV of its run if that is given too. `hidden`: without names and addresses.
///
/// # Errors
/// When a file can't be read or is malformed, files don't belong together, or `out` has another ending or can't be
/// written.
pub fn report(files: &[PathBuf], out: &Path, hidden: bool) -> Result<(), ReportError> {
    let ending = out.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
    let ending = ending.filter(|e| ["html", "md", "json"].contains(&e.as_str()));
    let Some(ending) = ending else {
        return Err(ReportError::Format {
            path: out.to_owned(),
            want: ENDINGS,
        });
    };
    let target = JsonTarget::prepare(out)?;
    let files = files
        .iter()
        .map(|file| of_folder(file))
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    let (mut document, mut sources) = read(&files)?;
    if hidden {
        let mut redactor = redact::Redactor::of(&document);
        document = redactor.document(&document);
        for source in &mut sources {
            source.name = redactor.text(&source.name);
        }
    }
    let text = match ending.as_str() {
        "html" => page::html(&document, &sources),
        "md" => page::markdown(&document, &sources),
        _ => document.text(),
    };
    target.write_bytes(text.as_bytes())
}

/// The results in the folder of a test or a run (`--out DIR`); a file is itself.
fn of_folder(path: &Path) -> Result<Vec<PathBuf>, ReportError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let result = path.join(RESULT);
    if !result.exists() {
        let want = format!("no {RESULT} is in this folder: want one that --out DIR made, or a file of results");
        return Err(ReportError::malformed(path, want));
    }
    // A run has its rows beside it; of a test the result is all.
    let is_run = contents(&result).is_ok_and(|bytes| matches!(find(&bytes), Ok(Found::Run(_))));
    let rows = Some(path.join(ROWS)).filter(|rows| is_run && rows.is_file());
    Ok([result].into_iter().chain(rows).collect())
}

fn read(files: &[PathBuf]) -> Result<(Document, Vec<Source>), ReportError> {
    let mut sources = Vec::new();
    let mut all: Vec<runs::Run> = Vec::new();
    let is_csv = |file: &&PathBuf| file.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"));
    let names = plot::names(files);
    for (file, name) in files.iter().zip(&names).filter(|(file, _)| !is_csv(file)) {
        let bytes = contents(file)?;
        sources.push(Source::of(name, &bytes));
        match find(&bytes).map_err(|why| ReportError::malformed(file, why))? {
            Found::Run(summary) => all.push(runs::Run::new(name, summary)),
            Found::Test(document) if files.len() == 1 => return Ok((*document, sources)),
            Found::Test(_) => {
                let why = "it is the result of a test: want it alone, or only JSON summaries of runs with their CSVs";
                return Err(ReportError::malformed(file, why));
            }
        }
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

/// The contents of a file: a regular one, and not without end.
fn contents(path: &Path) -> Result<Vec<u8>, ReportError> {
    let failed = |e: io::Error| ReportError::io("read", path, e);
    // What is no file keeps nobody waiting.
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
