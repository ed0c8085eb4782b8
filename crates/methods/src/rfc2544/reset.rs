//! Reset of the device (RFC 2544, 26.6, as RFC 6201 has it): how long nothing is forwarded, at the throughput of the
//! smallest frames.

use super::OfSize;
use super::choice::Choice;
use crate::bench::{Bench, MOST_VOID};
use crate::document::column;
use crate::measure::{Ask, Measured, Phase};
use crate::search::Input;
use crate::setup::{Step, Stop};
use mpps_pages::document::{Table, Unit};
use mpps_report::units;
use mpps_run::fail::{Result, failed};
use mpps_stats::{Event, Sink, Wants};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time of the reset after the start of a trial, ns; at the latest after a third of the trial.
const AFTER_NS: u64 = 3_000_000_000;
/// Time that a command may take beyond the trial.
const PATIENCE: Duration = Duration::from_secs(1);

/// Script of the shell: for each line it runs the command and prints its exit code. At the end of the lines, which is
/// the end of this program however that comes, a command that still runs has two seconds to end. Then the shell kills
/// all of its own group: this process may no longer have the right to.
const SHELL: &str = "job=; while read -r _; do { sh -c \"$1\" </dev/null >&2; echo $?; } & job=$!; done; \
                     test -n \"$job\" && kill -0 \"$job\" 2>/dev/null || exit 0; \
                     { sleep 2; kill -KILL 0; } >/dev/null 2>&1 & wait \"$job\"; kill -KILL 0";
/// Time that the shell may take for that end.
const ENDING: Duration = Duration::from_millis(2500);

/// A shell with the rights that the program began with, so that the command may be one that root is asked for by. It
/// runs the command once for each line that it is sent.
pub(super) struct Resetter {
    shell: Child,
    lines: Arc<Mutex<Option<ChildStdin>>>,
    /// Exit codes of the commands that have ended.
    ended: Receiver<String>,
}

impl Resetter {
    /// Starts the shell, while this process still has rights to hand on.
    pub(super) fn new(command: &str) -> Result<Self> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SHELL, "sh", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for the test: a device is not left half reset.
            .process_group(0)
            .spawn()
            .map_err(|e| failed(format!("--reset-cmd: start /bin/sh: {e}")))?;
        let lines = Arc::new(Mutex::new(shell.stdin.take()));
        let (told, ended) = channel();
        let codes = shell.stdout.take();
        let read = move || {
            for code in codes
                .into_iter()
                .flat_map(|codes| BufReader::new(codes).lines())
                .flatten()
            {
                let _ = told.send(code);
            }
        };
        mpps_sys::thread::spawn("mpps-reset", read)
            .map_err(|e| failed(format!("--reset-cmd: start the thread that reads its end: {e}")))?;
        Ok(Self { shell, lines, ended })
    }

    /// Whether the command of the trial that has ended did what it should.
    fn check(&self) -> Result<()> {
        match self.ended.recv_timeout(PATIENCE) {
            Ok(code) if code == "0" => Ok(()),
            Ok(code) => Err(failed(format!(
                "--reset-cmd: it ended with exit code {code}: nothing was reset"
            ))),
            Err(_) => Err(failed(
                "--reset-cmd: it had not ended at the end of the trial: want a longer --trial",
            )),
        }
    }
}

impl Drop for Resetter {
    fn drop(&mut self) {
        // A shell that reads no more lines ends, and its command with it.
        drop(self.lines.lock().unwrap_or_else(PoisonError::into_inner).take());
        let until = Instant::now() + ENDING;
        while matches!(self.shell.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        if let Some(group) = Pid::from_raw(self.shell.id() as i32)
            && matches!(self.shell.try_wait(), Ok(None))
        {
            let _ = kill_process_group(group, Signal::KILL);
            let _ = self.shell.try_wait();
        }
    }
}

/// Resets the device in the middle of a trial, or asks the user to do it.
struct Reset {
    lines: Option<Arc<Mutex<Option<ChildStdin>>>>,
    at_ns: u64,
    say: Arc<dyn Fn(&str) + Send + Sync>,
    done: bool,
}

impl Sink for Reset {
    fn wants(&self) -> Wants {
        Wants {
            snapshots: true,
            ..Wants::default()
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        let Event::Live(now) = event else { return };
        if self.done || now.elapsed_ns < self.at_ns {
            return;
        }
        self.done = true;
        match &self.lines {
            Some(lines) => {
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                // A shell that has gone shows in the result: nothing was reset.
                let _ = lines.as_mut().map(|lines| lines.write_all(b"\n"));
            }
            None => (self.say)("reset the device now"),
        }
    }
}

/// Measures it; what is found is in `of`, however it ends.
pub(super) fn measure(
    choice: &Choice,
    bench: &mut Bench<'_, '_>,
    of: &mut OfSize,
    resetter: Option<&Resetter>,
) -> Step<()> {
    let Some(load) = of.throughput() else {
        of.skipped("reset", "no throughput is known");
        return Ok(());
    };
    let input = Input {
        load,
        duration_ns: choice.reset_ns,
    };
    let ask = Ask::of(Phase::Reset, of.frame_size, input);
    let lines = resetter.map(|resetter| Arc::clone(&resetter.lines));
    let (at_ns, say) = (AFTER_NS.min(choice.reset_ns / 3), bench.teller());
    bench.watch = Some(Box::new(move || {
        Box::new(Reset {
            lines: lines.clone(),
            at_ns,
            say: Arc::clone(&say),
            done: false,
        })
    }));
    if resetter.is_none() {
        bench.say(&format!(
            "{} bytes: reset: you are told when to reset the device, {} s after the start of a trial of {} s",
            of.frame_size,
            at_ns as f64 / 1e9,
            choice.reset_ns as f64 / 1e9
        ));
    }
    let mut done = Ok(());
    for run in 1..=choice.runs {
        match reset(bench, &ask, resetter) {
            Ok(told) => {
                let line = format!(
                    "{} bytes: reset: run {run} of {}: {}",
                    of.frame_size,
                    choice.runs,
                    words(&told)
                );
                let each = choice.reset_ns + bench.between().as_nanos() as u64;
                bench.say_left(&line, u64::from(choice.runs - run) * each);
                of.reset.push(told);
            }
            Err(stop) => {
                done = Err(stop);
                break;
            }
        }
    }
    bench.watch = None;
    done
}

/// One trial, and others while this host is in the way. A link that goes down makes it void; when packets came and when
/// not is known all the same.
fn reset(bench: &mut Bench<'_, '_>, ask: &Ask, resetter: Option<&Resetter>) -> Step<Measured> {
    loop {
        let told = bench.trial(ask)?.clone();
        if let Some(resetter) = resetter.filter(|_| !bench.replayed()) {
            resetter.check()?;
        }
        if told.counts() || told.down {
            return Ok(told);
        }
        bench.say_void();
        if bench.void_here() >= MOST_VOID {
            return Err(Stop::Void(told.reasons.join("; ")));
        }
    }
}

/// A device that forwards nothing for so long at the end of a trial has not come back, ns.
const AT_THE_END_NS: u64 = 50_000_000;

/// Whether packets came until the end.
fn came_back(told: &Measured) -> bool {
    let last = told.lost_between_ns.map_or(0, |[_, last]| last);
    let came = told.received > 0 && last + AT_THE_END_NS < told.sending_ns;
    told.lost == 0 || came
}

/// Time without traffic by the packets that are missing at a known rate, ns; `None` where not all were sent.
fn by_loss(told: &Measured) -> Option<f64> {
    (told.counts() && came_back(told)).then(|| told.loss_ratio().unwrap_or_default() * told.ask.duration_ns as f64)
}

/// Returns the outage by the times of the packets that came, ns; `None` if nothing was lost, so that there was no
/// outage.
fn by_stamps(told: &Measured) -> Option<f64> {
    let [from, to] = told.outage_ns?;
    let lost = told.lost > 0 || !told.counts();
    (lost && came_back(told)).then(|| to.saturating_sub(from) as f64)
}

fn words(told: &Measured) -> String {
    let by = |ns: Option<f64>| ns.map_or_else(|| "not known".to_owned(), units::time);
    match told.counts() && told.loss().1 == 0 {
        true => "no loss".to_owned(),
        false if !came_back(told) => "the device did not come back within the trial".to_owned(),
        false => format!("{} by loss, {} by time stamps", by(by_loss(told)), by(by_stamps(told))),
    }
}

fn mean(of: &OfSize, value: fn(&Measured) -> Option<f64>) -> Option<f64> {
    let all: Vec<_> = of.reset.iter().filter_map(value).collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

/// Returns in words how the device was reset.
fn kind(choice: &Choice) -> String {
    match &choice.reset_cmd {
        Some(command) => format!("by command: {command}"),
        None => "by hand".to_owned(),
    }
}

/// One sentence: RFC 2544 wants one for each kind of reset.
pub(super) fn verdict(choice: &Choice, of: &OfSize) -> Option<String> {
    let first = of.reset.first()?;
    let lost_nothing = |told: &Measured| told.counts() && told.loss().1 == 0;
    let gone = of.reset.iter().filter(|told| !came_back(told)).count();
    let told = match (mean(of, by_loss), mean(of, by_stamps)) {
        _ if of.reset.iter().all(lost_nothing) => "no loss".to_owned(),
        _ if gone > 0 => format!("it did not come back within {gone} of the trials: want a longer --trial"),
        (None, None) => "not known".to_owned(),
        (Some(loss), Some(stamps)) => {
            format!("{} by loss, {} by time stamps", units::time(loss), units::time(stamps))
        }
        (Some(loss), None) => format!("{} by loss", units::time(loss)),
        (None, Some(stamps)) => format!("{} by time stamps", units::time(stamps)),
    };
    Some(format!(
        "{} bytes: reset {} at {} pps: {told} (mean of {} trials)",
        of.frame_size,
        kind(choice),
        mpps_stats::count(first.trial.input.load),
        of.reset.len()
    ))
}

/// For programs.
pub(super) fn json(choice: &Choice, of: &OfSize) -> Value {
    if of.reset.is_empty() {
        return Value::Null;
    }
    let all = |value: fn(&Measured) -> Option<f64>| of.reset.iter().map(value).collect::<Vec<_>>();
    json!({
        "kind": kind(choice),
        "load_pps": of.throughput(),
        "lost": of.reset.iter().map(|told| told.lost).collect::<Vec<_>>(),
        "by_loss_ns": all(by_loss),
        "by_stamps_ns": all(by_stamps),
        "mean_by_loss_ns": mean(of, by_loss),
        "mean_by_stamps_ns": mean(of, by_stamps),
    })
}

/// Reset times as a table.
pub(super) fn table(choice: &Choice, sizes: &[OfSize]) -> Table {
    let row = |of: &OfSize, (run, told): (usize, &Measured)| -> Vec<Value> {
        vec![
            of.frame_size.into(),
            kind(choice).into(),
            (run + 1).into(),
            told.trial.input.load.into(),
            told.lost.into(),
            by_loss(told).into(),
            by_stamps(told).into(),
            match told.counts() {
                _ if !came_back(told) => Value::from("did not come back"),
                true => Value::from(""),
                false => told.void_in_short().into(),
            },
        ]
    };
    let rows = sizes
        .iter()
        .flat_map(|of| of.reset.iter().enumerate().map(move |told| row(of, told)));
    Table {
        name: "reset".to_owned(),
        caption: "Reset of the device: time without traffic".to_owned(),
        columns: vec![
            column("frame_size_bytes", "frame", Unit::Bytes),
            column("kind", "reset", Unit::Plain),
            column("trial", "trial", Unit::Count),
            column("load_pps", "load", Unit::Pps),
            column("lost", "lost", Unit::Count),
            column("by_loss_ns", "by loss", Unit::Ns),
            column("by_stamps_ns", "by time stamps", Unit::Ns),
            column("note", "remark", Unit::Plain),
        ],
        rows: rows.collect(),
    }
}
