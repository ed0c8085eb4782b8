//! `--lab`: a lab for one command. It is made, a reflector runs on its host b, the command itself on its host a with
//! the user's terminal, files and exit code; and it is removed whatever happens, by the values that own it going out
//! of scope. After a `kill -9` the next command that makes a lab removes it, with what still runs in it. The plan of
//! such a command names what is in its lab, so it is made in one, too ([`planned`]).

use super::compare::{last_words, of_this_process};
use super::demo::child::{Reflector, answered, interrupted};
use super::demo::stage::executable;
use super::serving::NAMESPACE;
use crate::cli::{Traffic, lab};
use crate::fail::{Result, failed, say, usage};
use mpps_host::lab::{Host, Lab, LabError, LabOptions, ScratchLab};
use mpps_run::Plan;
use mpps_run::paths;
use mpps_run::privilege::as_user;
use mpps_run::replay::{LastRead, Replayed};
use mpps_run::streams::check_expect;
use mpps_sys::{sched, signal};
use std::ffi::{OsStr, OsString};
use std::process::{Command, ExitCode, Stdio};

/// The UDP port of the reflector.
const PORT: u16 = 9000;
/// From this many cores on a command would use two lanes by itself: here each end has one core.
const SPLIT_CORES: usize = 4;

pub(crate) fn run(args: &Traffic) -> Result<ExitCode> {
    check(args)?;
    let made = lab_for(args)?;
    let own = Own::of(args);
    let reflect = own.reflect();
    if !args.args.tell.quiet {
        let typed = reflect.join(OsStr::new(" "));
        let typed = typed.display();
        say!("lab {}, removed at the end; on its host b: mpps {typed}", made.name());
    }
    let mut reflector = Reflector::of(own.command(&made, Host::B, reflect)?)?;
    let mut command = own.command(&made, Host::A, own.words())?;
    // The reader of the run's output is not in the lab.
    command.env(NAMESPACE, format!("/proc/{}/ns/net", std::process::id()));
    answered(command, &mut reflector, *args.args.run.plan.times.settle)
}

/// The plan of a command, which its own process prints in a lab that is made for this alone: interfaces and routes of
/// its host a are nowhere else. Must be called by the main thread, as the process ends with its thread.
pub(super) fn planned(args: &Traffic) -> Result<Plan> {
    check(args)?;
    let made = lab_for(args)?;
    let own = Own::of(args);
    let mut words = own.words();
    words.insert(1, "--print-plan".into());
    let mut command = own.command(&made, Host::A, words)?;
    let told = command.stdin(Stdio::null()).output();
    let told = told.map_err(|e| failed(format!("--lab: start a process that prints the plan: {e}")))?;
    if interrupted() {
        return Err(failed("--lab: interrupted before the plan was made"));
    }
    match told.status.code() {
        Some(0) => Plan::of_printed(&String::from_utf8_lossy(&told.stdout)),
        Some(2) => Err(usage(last_words(&told.stderr))),
        _ => Err(failed(last_words(&told.stderr))),
    }
}

/// A lab for the command.
fn lab_for(args: &Traffic) -> Result<ScratchLab> {
    signal::catch_interrupts();
    let options = LabOptions {
        queues: Some(lanes(args).clamp(1, 256) as u32),
        mtu: None,
    };
    mpps_host::lab::tell_of_waiting(|line| say!("{line}"));
    ScratchLab::new(options).map_err(|error| match error {
        _ if interrupted() => failed("--lab: interrupted before the lab was made"),
        LabError::NeedsRoot { .. } => {
            failed("--lab: a lab needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN): run it with sudo")
        }
        other => failed(format!("--lab: {other}")),
    })
}

/// Refuses what contradicts a lab, and ports that are not in it.
fn check(args: &Traffic) -> Result<()> {
    let of = &args.args.run.plan.traffic;
    let given = [
        ("--src", of.src.is_some()),
        ("--dest", of.dest.is_some()),
        ("--dest-mac", of.dest_mac.is_some()),
        ("--gateway", of.gateway.is_some()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
        return Err(usage(format!(
            "{option}: a lab has a network of its own (--lab), from {} to {}: want one of the two left out",
            Host::A.ipv4(),
            Host::B.ipv4()
        )));
    }
    // A method finds other things, and checks by itself.
    if args.words.get(1).is_some_and(|name| name == "sendrecv") {
        check_expect(&args.args.run.plan, &args.args.tell.expect)?;
    }
    if let Some(far) = args.args.run.plan.far() {
        return Err(usage(format!(
            "port '{far}': on the other host of a lab (--lab) is a reflector: want one port"
        )));
    }
    if args.args.print_plan {
        return Err(usage(
            "--print-plan: a plan names what is there when it is run: want --lab left out (mpps lab up makes a lab \
             that stays)",
        ));
    }
    if args.words.get(1).is_some_and(|name| name == "send") {
        return Err(usage("--lab: its other host sends packets back: want sendrecv"));
    }
    let streams = args.args.run.plan.traffic.streams.as_ref();
    let untagged = |stream: &&mpps_traffic::Stream| stream.pcap.is_some() && stream.tag != mpps_traffic::Tag::Tail;
    if let Some(stream) = streams.and_then(|of| of.streams.iter().find(untagged)) {
        return Err(usage(format!(
            "stream {}: pcap beside --lab, whose reflector returns packets by their tags: want tag = tail",
            stream.name
        )));
    }
    let mut last = LastRead::default();
    for stream in streams.into_iter().flat_map(|of| &of.streams) {
        let Some(pcap) = stream.pcap.as_deref() else { continue };
        let read = as_user(|| {
            Ok(Replayed::read(
                pcap,
                (true, false),
                1,
                args.args.run.plan.seed,
                &mut last,
            ))
        })?;
        let frames = read
            .map_err(|why| usage(format!("stream {}: {why}", stream.name)))?
            .frames;
        let untagged = frames.len() as u64 - frames.tagged();
        if untagged > 0 {
            return Err(usage(format!(
                "stream {}: {untagged} of {} packets have no room for a tag, by which the reflector of --lab returns \
                 packets: want only = packets that have",
                stream.name,
                frames.len()
            )));
        }
    }
    let device = lab::device(&args.args.run.plan.port().path, Host::A);
    if device != Some(&args.args.run.plan.port().device) {
        let paths: Vec<_> = paths::shown().map(|(path, _)| path).collect();
        return Err(usage(format!(
            "port '{}': a lab has ports of its own (--lab): want the name of a path, one of {}",
            args.args.run.plan.port(),
            paths.join(", ")
        )));
    }
    Ok(())
}

/// Lanes that the command was asked for.
fn lanes(args: &Traffic) -> usize {
    let split = args.args.run.plan.lanes.tx_lanes.unwrap_or(0) + args.args.run.plan.lanes.rx_lanes.unwrap_or(0);
    args.args.run.plan.lanes.lanes.unwrap_or(1).max(split)
}

/// The command, and what it needs of the lab.
struct Own<'a> {
    args: &'a Traffic,
    /// Core of each end, if there are two and the user did not choose.
    cores: Option<[usize; 2]>,
    split: bool,
}

impl<'a> Own<'a> {
    fn of(args: &'a Traffic) -> Self {
        let allowed = sched::allowed_cores();
        let chosen = args.args.run.plan.lanes.cores.is_some()
            || args.args.run.plan.lanes.lanes.is_some()
            || args.args.run.plan.lanes.tx_lanes.is_some();
        let pinned = paths::shown().any(|(path, demo)| path == args.args.run.plan.port().path && demo.pinned);
        let cores = match allowed[..] {
            [a, b, ..] if pinned && !chosen => Some([a, b]),
            _ => None,
        };
        Self {
            args,
            cores,
            split: allowed.len() >= SPLIT_CORES,
        }
    }

    /// The words of the reflector.
    fn reflect(&self) -> Vec<OsString> {
        let mut port = self.args.args.run.plan.port().clone();
        port.device = lab::device(&port.path, Host::B).unwrap_or_default().to_owned();
        let shown = paths::shown().find(|(path, _)| *path == port.path);
        let (by_address, pinned) = shown.map_or((false, false), |(_, demo)| (demo.by_address, demo.pinned));
        if by_address {
            port.device = format!("{}:{PORT}", port.device);
        }
        let mut words = vec!["reflect".to_owned(), port.to_string()];
        let lanes = lanes(self.args);
        if lanes > 1 && pinned && !by_address && self.args.args.run.plan.lanes.lanes.is_some() {
            words.extend(["--lanes".to_owned(), lanes.to_string()]);
        }
        if let Some([_, core]) = self.cores {
            words.extend(["--cores".to_owned(), core.to_string()]);
        }
        let mut words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        let run = &self.args.args.run;
        if let Some(streams) = &run.plan.traffic.streams {
            // The streams of a file may be longer than a word may be.
            let captured = streams.streams.iter().any(|stream| stream.pcap.is_some());
            words.extend(match self.args.args.traffic_file() {
                // It knows them by their tags.
                _ if captured => vec!["--packet=eth".into()],
                Some(file) => file.words(),
                None => vec![format!("--packet={}", streams.text()).into()],
            });
            words.push(format!("--seed={}", run.plan.seed).into());
        }
        words
    }

    /// The words of the command, with its ends.
    fn words(&self) -> Vec<OsString> {
        let mut ends = match self.args.args.run.plan.traffic.streams {
            // The packet has ends of its own.
            Some(_) => Vec::new(),
            None => vec![
                format!("--src={}", Host::A.ipv4()),
                format!("--dest={}:{PORT}", Host::B.ipv4()),
            ],
        };
        if let Some([core, _]) = self.cores {
            ends.push(format!("--cores={core}"));
            if self.split {
                ends.push("--lanes=1".to_owned());
            }
        }
        let mut words = self.args.words.iter().skip(1);
        let mut all: Vec<OsString> = words.next().cloned().into_iter().collect();
        all.extend(ends.into_iter().map(OsString::from));
        let mut options = true;
        for word in words {
            options &= word != "--";
            if !options || word != lab::OPTION {
                all.push(word.clone());
            }
        }
        all
    }

    /// This program with such words, on a host of the lab.
    fn command(&self, lab: &Lab, host: Host, words: impl IntoIterator<Item = OsString>) -> Result<Command> {
        let mut argv = vec![executable().into_os_string()];
        argv.extend(words);
        let mut command = lab.command(host, &argv)?;
        of_this_process(&mut command);
        Ok(command)
    }
}
