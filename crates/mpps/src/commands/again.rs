//! `run`: the run of a plan. A plan is the command line in other clothes, so whatever is checked there is checked here.

use crate::cli::{Again, Cli};
use crate::fail::{Failure, Result, argument_line, failed, print, usage};
use crate::plan::author::Author;
use crate::plan::value::{in_fields, schema, words};
use crate::privilege::as_user;
use mpps_sys::text::of_bytes;
use std::ffi::OsString;
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
    let mut words = words(&text).map_err(|line| usage(format!("{file}: {line}")))?;
    author.check(&words).map_err(|failure| failure.of(&file))?;
    let workload = words[1].to_string_lossy().into_owned();
    let named = |line: &str| usage(format!("{file}: {}", in_fields(&workload, line)));
    // In front of the ports, which are the last.
    let tell: Vec<OsString> = told(args);
    words.splice(2..2, tell);
    let cli = Cli::of(words).map_err(|e| named(&argument_line(&e)))?;
    match super::run(cli.command) {
        Err(Failure::Usage(line)) => Err(named(&line)),
        other => other,
    }
}

/// The options that say what becomes of the results.
fn told(args: &Again) -> Vec<OsString> {
    let tell = &args.tell;
    let mut words = Vec::new();
    for (option, path) in [
        ("--out=", &tell.out),
        ("--csv=", &tell.csv),
        ("--lanes-csv=", &tell.lanes_csv),
        ("--json=", &tell.json),
        ("--json-lines=", &tell.json_lines),
        ("--junit=", &tell.junit),
        ("--markdown=", &tell.markdown),
        ("--hdr=", &tell.hdr),
        ("--flame=", &tell.flame),
        ("--folded=", &tell.folded),
    ] {
        if let Some(path) = path {
            let mut word = OsString::from(option);
            word.push(path);
            words.push(word);
        }
    }
    let expected = tell.expect.iter().map(|expect| format!("--expect={expect}").into());
    words.extend(expected);
    words.extend(
        tell.sample_pcap
            .as_ref()
            .map(|of| OsString::from(format!("--sample-pcap={of}"))),
    );
    words.extend(tell.serve.words());
    words.extend(tell.keep.words());
    words.extend(tell.profile.map(|hz| OsString::from(format!("--profile={hz}"))));
    for (option, given) in [
        ("--quiet", tell.quiet),
        ("--verbose", tell.verbose),
        ("--plain", tell.plain),
        ("--keep-privileges", tell.keep_privileges),
        ("--print-plan", args.print_plan),
    ] {
        words.extend(given.then(|| OsString::from(option)));
    }
    words
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
