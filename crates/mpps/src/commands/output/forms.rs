//! Forms of the result beside the JSON, and files of the samples.

use super::super::run_folder::{self as folder, Sources};
use crate::cli::RunArgs;
use crate::fail::{Result, unwritable};
use mpps_pages::document::{Document, runs};
use mpps_pages::{junit, page};
use mpps_report::{JsonTarget, ReportError, json_value};
use mpps_run::profile::Picture;
use mpps_stats::Summary;

/// A form of the result, beside the JSON.
#[derive(Clone, Debug)]
pub(super) enum Form {
    Junit,
    Markdown,
    /// HTML, with charts if the run's rows are in a file.
    Html(Sources),
}

impl Form {
    /// `unwritten`: errors of files that could not be written.
    fn of(&self, summary: &Summary, unwritten: &[String]) -> std::result::Result<String, ReportError> {
        Ok(match self {
            Self::Junit => junit(summary, unwritten),
            Self::Html(of) => runs::html(summary, of.json.as_deref(), of.rows.as_deref())?,
            Self::Markdown => {
                let run = runs::Run::new("this one", json_value(summary));
                let document = Document {
                    // There is one file, and no pictures beside it.
                    charts: Vec::new(),
                    ..runs::document(&[run])
                };
                page::markdown(&document, &[])
            }
        })
    }
}

/// Writes the result in other forms; what could not be written. `known`: errors of other files.
pub(super) fn write_forms(forms: &[(Form, JsonTarget)], summary: &Summary, known: &[String]) -> Vec<ReportError> {
    let written = forms.iter().map(|(form, target)| {
        let text = form.of(summary, known)?;
        match form {
            Form::Junit => target.write_state(&text),
            _ => target.write_text(&text),
        }
    });
    written.filter_map(|written| written.err()).collect()
}

/// Checks the files that the result goes to in other forms.
pub(super) fn forms_of(args: &RunArgs) -> Result<Vec<(Form, JsonTarget)>> {
    let all = [
        (Form::Junit, "--junit", &args.tell.junit),
        (Form::Markdown, "--markdown", &args.tell.markdown),
    ];
    let given = all
        .into_iter()
        .filter_map(|(form, option, path)| Some((form, option, path.as_deref()?)));
    let page = folder::page(args).map(|(path, of)| (Form::Html(of), "--out", path));
    let page = page
        .as_ref()
        .map(|(form, option, path)| (form.clone(), *option, path.as_path()));
    let prepared = given
        .chain(page)
        .map(|(form, option, path)| match JsonTarget::prepare(path) {
            Ok(target) => Ok((form, target)),
            Err(e) => Err(unwritable(option, &e)),
        });
    prepared.collect()
}

/// Checks the files that samples go to.
pub(super) fn pictures_of(args: &RunArgs) -> Result<Vec<(Picture, JsonTarget)>> {
    let all = [
        (Picture::Flame, "--flame", &args.tell.flame),
        (Picture::Folded, "--folded", &args.tell.folded),
    ];
    let mut targets = Vec::new();
    for (picture, option, path) in all {
        if let Some(path) = path {
            targets.push((picture, JsonTarget::prepare(path).map_err(|e| unwritable(option, &e))?));
        }
    }
    Ok(targets)
}
