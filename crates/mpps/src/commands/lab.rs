//! `lab`.

use crate::cli::{Lab as Args, LabAction};
use crate::fail::{Result, print_words, say};
use mpps_host::lab::{DEFAULT_NAME, Host, Lab, LabOptions, LabState};
use std::process::ExitCode;

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let options = match args.action {
        LabAction::Up { queues, mtu } => LabOptions { queues, mtu },
        _ => LabOptions::default(),
    };
    mpps_host::lab::tell_of_waiting(|line| say!("{line}"));
    let lab = Lab::new(&args.name, options).map_err(crate::fail::usage)?;
    match args.action {
        LabAction::Up { .. } => {
            let mut lines = done(lab.up()?, "the lab is up");
            let name = match lab.name() {
                DEFAULT_NAME => String::new(),
                name => format!(" --name {name}"),
            };
            lines.extend(Host::ALL.map(|host| {
                format!(
                    "host {}: namespace {}, {} {}: mpps lab{name} exec {} -- COMMAND",
                    host.letter(),
                    lab.namespace(host),
                    host.ipv4(),
                    host.ipv6(),
                    host.letter()
                )
            }));
            say(&lines)?;
        }
        LabAction::Down => {
            let mut lines = lab.down()?;
            lines.extend(mpps_host::left::remove());
            say(&done(lines, "there is no lab"))?;
        }
        LabAction::Status => {
            let status = lab.status()?;
            print_words(|out| status.render(out))?;
            if status.state != LabState::Up {
                return Ok(ExitCode::FAILURE);
            }
        }
        LabAction::Exec { host, argv } => return Err(lab.become_command(host, &argv).into()),
    }
    Ok(ExitCode::SUCCESS)
}

fn say(lines: &[String]) -> Result<()> {
    print_words(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}")))
}

fn done(done: Vec<String>, nothing: &str) -> Vec<String> {
    match done.is_empty() {
        true => vec![format!("{nothing}: nothing to do")],
        false => done,
    }
}
