//! `run`: the run of a plan.

use crate::author::Author;
use crate::cli::{Again, Command, RunArgs};
use crate::fail::{Failure, Result, failed, print, usage};
use mpps_plan::Plan;
use mpps_plan::json::{in_fields, object, schema};
use mpps_run::privilege::as_user;
use mpps_sys::text::of_bytes;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

/// Bytes of the longest file that is read: a summary with thousands of rows' notes is far shorter.
const LONGEST: u64 = 16 << 20;

pub(crate) fn run(args: &Again) -> Result<ExitCode> {
    let Some(path) = args.file.as_deref().filter(|_| !args.schema) else {
        print(|out| out.write_all(schema().as_bytes()))?;
        return Ok(ExitCode::SUCCESS);
    };
    let file = path.display();
    let (text, author) = as_user(|| read(path))?;
    let wrong = |line: String| usage(format!("{file}: {line}"));
    let plan = object(&text).map_err(wrong)?;
    author.check(&plan).map_err(|failure| failure.of(&file))?;
    let plan = Plan::of_object(&plan).map_err(wrong)?;
    let workload = plan.workload;
    let run = RunArgs::of(plan, args.tell.clone(), args.print_plan);
    match super::run(Command::of(run)) {
        Err(Failure::Usage(line)) => Err(usage(format!("{file}: {}", in_fields(workload, &line)))),
        other => other,
    }
}

fn read(path: &Path) -> Result<(String, Author)> {
    let mut bytes = Vec::new();
    let mut author = Author::default();
    let mut open = || -> std::io::Result<usize> {
        if path == Path::new("-") {
            author = Author::of_stdin()?;
            return std::io::stdin().take(LONGEST + 1).read_to_end(&mut bytes);
        }
        let file = File::open(path)?;
        author = Author::of(&file, path)?;
        file.take(LONGEST + 1).read_to_end(&mut bytes)
    };
    let read = open();
    let name = path.display();
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(usage(format!(
            "{name}: no such file: want a plan (--print-plan), or a result that holds one"
        ))),
        Err(error) if error.kind() == std::io::ErrorKind::IsADirectory => Err(usage(format!(
            "{name}: a folder: want a file with a plan (--print-plan), or a result that holds one"
        ))),
        Err(error) => Err(failed(format!("read {name}: {error}"))),
        Ok(n) if n as u64 > LONGEST => Err(usage(format!(
            "{name}: above {LONGEST} bytes: want a plan (--print-plan)"
        ))),
        Ok(_) => match of_bytes(bytes) {
            Ok(text) => Ok((text, author)),
            Err(why) => Err(usage(format!(
                "{name}: {why}: want a plan (--print-plan), or a result that holds one"
            ))),
        },
    }
}
