//! Opening of all that a run writes and shows, before its first packet.

use super::super::run_folder as folder;
use super::super::serving::{Serving, Shown};
use super::Output;
use super::files::{check_apart, files_of, files_of_tracks, named, takes_stdout};
use super::forms::{forms_of, pictures_of};
use crate::cli::RunArgs;
use crate::fail::{Result, unwritable};
use mpps_report::{Detail, JsonTarget, Notes, Sinks};
use mpps_run::host::Opens;
use mpps_run::privilege::Clerk;
use mpps_run::record::{Rows, RowsSink};
use mpps_run::sample::Sampling;
use mpps_sys::sched;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

impl Output {
    pub(super) fn open(args: &RunArgs, opens: Opens<'_>) -> Result<(Sinks, Self)> {
        let own = opens.file;
        let mut args = args.clone();
        args.tell = folder::placed(&args, opens.lanes);
        let of_tracks = if opens.both_ways {
            files_of_tracks(&args)
        } else {
            Vec::new()
        };
        let files = named(
            &args,
            own.as_ref().map(|(option, path, _)| (*option, *path)),
            &of_tracks,
        );
        let stdout_taken = takes_stdout(&files)?;
        check_apart(&files)?;
        let opened: Vec<PathBuf> = files.iter().filter_map(|(_, file)| Some((*file)?.to_owned())).collect();
        let of_workload = own.iter().map(|(_, path, _)| *path);
        let more = of_workload.chain(of_tracks.iter().map(|file| file.path.as_path()));
        let mut more: Vec<PathBuf> = more.map(Path::to_path_buf).collect();
        more.extend(args.tell.files());
        // The threads that write files inherit it.
        let beside_lanes = sched::keep_off(args.run.plan.lanes.cores.as_ref().map_or(&[], |cores| &cores.0));
        let clerk = Clerk::hire(&args.run, &more)?;
        let made = match args.tell.out.clone() {
            Some(folder) => Some(clerk.does(move || folder::make(&folder, &opened))??),
            None => None,
        };
        let notes = own.map(|(_, _, notes)| notes);
        let rows = Arc::new(Mutex::new(Rows::default()));
        let shown = Shown::of(&args, stdout_taken);
        let style = shown.style();
        let given = args.clone();
        let (mut sinks, mut boards, json) = clerk.does(move || files_of(&given, style, notes, &of_tracks))??;
        let trace = open_trace(&args, &clerk, &rows, &mut sinks)?;
        let sample = open_sample(&args, &clerk, &mut sinks, &mut boards)?;
        let given = args.clone();
        let pictures = clerk.does(move || pictures_of(&given))??;
        let given = args.clone();
        let forms = clerk.does(move || forms_of(&given))??;
        let serving = Serving::start(&args, None, Some(&clerk), shown)?;
        if let Some(serving) = &serving {
            sinks.add(serving.sink());
            if let Some(notes) = serving.notes() {
                sinks.watch(notes.clone());
                boards.push(notes);
            }
        }
        // The last to be dropped: what writes the files has ended.
        if let Some(made) = made {
            sinks.add(made);
        }
        let output = Self {
            run: args.run,
            quiet: args.tell.quiet,
            boards,
            json,
            trace,
            rows,
            pictures,
            sample,
            forms,
            serving,
            expect: args.tell.expect,
            detail: if args.tell.verbose { Detail::Full } else { Detail::Brief },
            stdout_taken,
            clerk,
            _beside_lanes: beside_lanes,
        };
        Ok((sinks, output))
    }
}

/// Opens the file of `--trace`, for which the counts of each row are kept.
fn open_trace(args: &RunArgs, clerk: &Clerk, rows: &Arc<Mutex<Rows>>, sinks: &mut Sinks) -> Result<Option<JsonTarget>> {
    let file = args.tell.keep.trace.clone();
    let trace = clerk.does(move || file.as_deref().map(JsonTarget::prepare).transpose())?;
    let trace = trace.map_err(|e| unwritable("--trace", &e))?;
    if trace.is_some() {
        sinks.add(RowsSink(Arc::clone(rows)));
    }
    Ok(trace)
}

/// Opens the file of `--sample-pcap`.
fn open_sample(args: &RunArgs, clerk: &Clerk, sinks: &mut Sinks, boards: &mut Vec<Notes>) -> Result<Option<Sampling>> {
    let Some(sample) = args.tell.sample_pcap.clone() else {
        return Ok(None);
    };
    let opened = clerk.does(move || sample.open())?;
    let sample = opened.map_err(|e| unwritable("--sample-pcap", &e))?;
    sinks.add(sample.begins());
    sinks.watch(sample.notes.clone());
    boards.push(sample.notes.clone());
    Ok(Some(sample))
}
