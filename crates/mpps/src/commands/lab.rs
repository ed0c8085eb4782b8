//! `lab`.

use crate::cli::{Lab as Args, LabAction};
use crate::fail::{Result, failed};
use mpps_host::lab::{DEFAULT_NAME, Host, Lab, LabOptions};
use std::process::ExitCode;

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let options = match args.action {
        LabAction::Up { queues, mtu } => LabOptions { queues, mtu },
        _ => LabOptions::default(),
    };
    mpps_host::lab::tell_of_waiting(|line| eprintln!("mpps: {line}"));
    let lab = Lab::new(&args.name, options).map_err(crate::fail::usage)?;
    match args.action {
        LabAction::Up { .. } => {
            told(&lab.up()?, "the lab is up");
            let name = match lab.name() {
                DEFAULT_NAME => String::new(),
                name => format!(" --name {name}"),
            };
            for host in Host::ALL {
                println!(
                    "host {}: namespace {}, {} {}: mpps lab{name} exec {} -- COMMAND",
                    host.letter(),
                    lab.namespace(host),
                    host.ipv4(),
                    host.ipv6(),
                    host.letter()
                );
            }
        }
        LabAction::Down => told(&lab.down()?, "there is no lab"),
        LabAction::Status => lab.status()?.render(&mut std::io::stdout()).map_err(failed)?,
        LabAction::Exec { host, argv } => return Err(lab.become_command(host, &argv).into()),
    }
    Ok(ExitCode::SUCCESS)
}

fn told(done: &[String], nothing: &str) {
    if done.is_empty() {
        println!("{nothing}: nothing to do");
    }
    for line in done {
        println!("{line}");
    }
}
