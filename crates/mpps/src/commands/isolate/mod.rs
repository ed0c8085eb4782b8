//! `isolate`: cores for one command alone, with the noise of before and of then.
//!
//! In this order: the arguments are checked, the run takes its turn, what an earlier run has left is undone, the noise
//! is measured, a guardian is started, the host is changed, the noise is measured from where the command will run, the
//! command runs, everything is undone, the noise is measured once more. The guardian is this program again: it sleeps
//! until this process is no more, however it ended, and undoes what it finds in the journal then. So even `kill -9`
//! leaves nothing behind.
//!
//! The gain of isolation is the difference of the first two measurements. The third is their control. It should be like
//! the first; otherwise the host has changed by itself, and the gain may not be isolation's.

mod child;
mod guardian;
mod result;

use crate::cli::Isolate;
use crate::fail::{Result, failed, print, say, usage};
use child::{Ended, Ran, Runner};
use mpps_host::isolate::noise::{self, Noise};
use mpps_host::isolate::{
    Applied, Boot, Cpus, Options, Plan, Restored, Share, Tree, Turn, apply, check, counted, mend, nice_trap, notes,
    outcomes, plan, script, table,
};
use mpps_run::draft::lanes::{asked, ranks_first};
use mpps_sys::child::Place;
use mpps_sys::sched::{Heirs, KeptOff, Priority, denied_core, keep_off, lacks_for, set_priority};
use result::{Outlet, Told};
use std::fs::File;
use std::process::ExitCode;
use std::time::Duration;

/// Timer slack of the command, ns: its sleeps end late by at most this. The default of Linux is 50 µs.
const TIMER_SLACK_NS: u64 = 1;

pub(crate) fn run(args: &Isolate) -> Result<ExitCode> {
    let tree = args.root.as_ref().map_or_else(Tree::live, Tree::fake);
    if args.undo {
        return undo(args, &tree);
    }
    let cores: Cpus = args.cores.iter().flat_map(|cores| cores.0.iter().copied()).collect();
    if args.probe {
        let noise = noise::measure(&Tree::live(), &cores, args.measure).map_err(failed)?;
        let text = serde_json::to_string(&noise).map_err(failed)?;
        print(|out| writeln!(out, "{text}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    check(&tree, &cores).map_err(|why| usage(format!("isolate: CORES {why}")))?;
    if let Some((program, why)) = args.command.first().and_then(|p| Some((p, mpps_host::why_not(p)?))) {
        return Err(usage(format!(
            "isolate: COMMAND {program:?}: {why}: want a program that can be started"
        )));
    }
    let options = Options {
        cores,
        without: args.without.clone(),
        move_threads: args.move_threads,
    };
    if args.dry_run {
        // Or the plan would lack what is changed already.
        tell(&mend(&tree).told);
        let plan = plan(&tree, &options);
        let words: Vec<String> = args
            .command
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let text = script(&plan, &Boot::of(&tree, &plan), &words);
        print(|out| out.write_all(text.as_bytes()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.root.is_none() {
        possible(&options.cores)?;
    }
    let outlet = args.json.as_deref().map(Outlet::open).transpose()?;
    let unable = |why: String| failed(format!("isolate: {why}"));
    // Until all is undone.
    let turn = Turn::take(&tree).map_err(unable)?;
    let (told, ready) = turn.clear(&tree);
    tell(&told);
    ready.map_err(unable)?;
    let mut told = Told::of(args, &options.cores);
    let runner = Runner::new()?;
    let ended = Isolation::of(args, &tree, &options, &runner).and_then(|it| it.run(&mut told));
    // The file of `--json` is written whatever happened; the first error is reported.
    let written = outlet.map_or(Ok(()), |outlet| outlet.write(&told));
    let ended = ended?;
    written?;
    Ok(ended.exit_code())
}

/// Refuses cores that the kernel gives this process no thread on: their noise can't be measured, nor its end seen.
fn possible(cores: &Cpus) -> Result<()> {
    match denied_core(&cores.iter().collect::<Vec<_>>()) {
        Some((core, possible)) => Err(usage(format!(
            "isolate: CORES {}: the control group of this process (cpuset) does not allow core {core}: want some of \
             {possible:?}, or another control group",
            cores.list(),
        ))),
        None => Ok(()),
    }
}

fn tell(lines: &[String]) {
    lines.iter().for_each(|line| say!("{line}"));
}

/// `--undo`.
fn undo(args: &Isolate, tree: &Tree) -> Result<ExitCode> {
    let mended = match args.guard {
        true => guardian::stand(tree)?,
        false => mend(tree),
    };
    tell(&mended.told);
    match mended.stay {
        0 if mended.told.is_empty() && !args.quiet && !args.guard => {
            say!("isolate: nothing is left of earlier runs: nothing to undo");
            Ok(ExitCode::SUCCESS)
        }
        0 => Ok(ExitCode::SUCCESS),
        n => Err(failed(format!("isolate: not undone, and still noted: {n}: {AGAIN}"))),
    }
}

/// Hint that changes which could not be undone are tried again.
const AGAIN: &str = "`mpps isolate --undo` tries again, as does the next start of mpps";

/// One run.
struct Isolation<'a> {
    args: &'a Isolate,
    tree: &'a Tree,
    options: &'a Options,
    runner: &'a Runner,
    list: String,
    /// This process, and those that it starts without a place of their own, stay off the cores.
    _beside: KeptOff,
}

impl<'a> Isolation<'a> {
    fn of(args: &'a Isolate, tree: &'a Tree, options: &'a Options, runner: &'a Runner) -> Result<Self> {
        let cores: Vec<usize> = options.cores.iter().collect();
        Ok(Self {
            args,
            tree,
            options,
            runner,
            list: options.cores.list(),
            _beside: keep_off(&cores),
        })
    }

    fn say(&self, text: &str) {
        if !self.args.quiet {
            say!("{text}");
        }
    }

    /// A table, or a list.
    fn show(&self, text: &str) {
        if !self.args.quiet {
            crate::fail::to_stderr(text.trim_end_matches('\n'));
        }
    }

    fn run(&self, told: &mut Told) -> Result<Ended> {
        match self.measure("before anything is changed", self.untouched())? {
            Measured::Noise(noise) => told.before = noise,
            Measured::Interrupted(ended) => return Ok(ended),
        }
        let ended = match self.isolated(told)? {
            Ran::Through(ended) => ended,
            Ran::Not(ended) => return Ok(ended),
        };
        told.exit_code = Some(ended.number());
        match self.measure("as it is again", self.untouched())? {
            Measured::Noise(noise) => told.after = noise,
            // The command's end is what counts.
            Measured::Interrupted(_) => self.say("isolate: not measured after the end: a signal came"),
        }
        if !told.after.is_empty() {
            let all = [
                ("before", &*told.before),
                ("isolated", &told.isolated),
                ("after", &told.after),
            ];
            self.show(&table(&all));
            self.show(&counted(&all[2..]));
        }
        Ok(ended)
    }

    /// Returns the place in which the noise of the host is measured without isolation.
    fn untouched(&self) -> Place {
        Place {
            cores: self.options.cores.iter().collect(),
            ends_with_us: true,
            ..Place::default()
        }
    }

    /// Changes the host, runs the command, and undoes everything.
    fn isolated(&self, told: &mut Told) -> Result<Ran> {
        let plan = plan(self.tree, self.options);
        told.boot = Some(Boot::of(self.tree, &plan));
        let mut guardian = guardian::Guardian::start(self.args)?;
        if let Some(ended) = self.runner.interrupted() {
            return Ok(Ran::Not(ended));
        }
        let applied = apply(self.tree, &plan).map_err(|e| {
            failed(format!(
                "isolate: write the journal of changes: {e}: nothing is changed without it"
            ))
        })?;
        told.parts = applied.outcomes.clone();
        let all = &applied.outcomes;
        let nothing = !all.iter().any(|of| of.applied) && all.iter().any(|of| !of.refused.is_empty());
        let ran = match nothing {
            // The noise would not be that of isolated cores, and the command would not run on isolated cores.
            true => {
                self.show(&outcomes(all));
                let why = "isolate: nothing can be isolated here, for the reasons above: COMMAND was not started";
                Err(failed(why))
            }
            false => self.within(&plan, &applied, told),
        };
        let Restored { count, left, stay } = applied.end();
        guardian.end();
        if !nothing {
            self.say(&format!("isolate: {count} changes are undone"));
        }
        // A failure to undo is an error, and is printed in any case.
        left.iter().for_each(|why| say!("isolate: not undone: {why}"));
        if stay > 0 {
            say!("isolate: still noted: {stay}: {AGAIN}");
        }
        (told.undone, told.not_undone) = (count, left);
        ran
    }

    /// Measures, and runs the command, while the cores are isolated.
    fn within(&self, plan: &Plan, applied: &Applied, told: &mut Told) -> Result<Ran> {
        let mut remarks = notes(self.tree, plan);
        let priority = self.priority(&mut remarks);
        told.place(priority, TIMER_SLACK_NS);
        if !self.args.measure.is_zero() {
            match self.measure("isolated", self.place(applied, priority)?)? {
                Measured::Noise(noise) => told.isolated = noise,
                Measured::Interrupted(ended) => return Ok(Ran::Not(ended)),
            }
        }
        self.show(&outcomes(&applied.outcomes));
        let rank = priority.map_or_else(String::new, |priority| format!(", {priority}"));
        let cores = self.options.cores.named();
        self.show(&format!(
            "command      applied      on {cores}, timer slack 1 ns{rank}\n"
        ));
        remarks.iter().for_each(|remark| self.say(&format!("note: {remark}")));
        told.notes = remarks;
        if !told.before.is_empty() {
            let both = [("before", &*told.before), ("isolated", &told.isolated)];
            self.show(&table(&both));
            self.show(&counted(&both));
        }
        self.runner.run(&self.args.command, self.place(applied, priority)?)
    }

    /// Returns the priority that the command gets: the one that is asked for, if the host gives it.
    fn priority(&self, remarks: &mut Vec<String>) -> Option<Priority> {
        let priority = self
            .args
            .fifo
            .map(Priority::Fifo)
            .or(self.args.nice.map(Priority::Nice))?;
        let option = asked(priority);
        if let (Priority::Fifo(_), Some(trap)) = (priority, Share::of(self.tree).told()) {
            remarks.push(format!("{option}: {trap}"));
        }
        if let Some(trap) = nice_trap(self.tree).filter(|_| ranks_first(&priority)) {
            remarks.push(format!("{option}: {trap}"));
        }
        // On a thread that ends: this process stays as it is.
        match mpps_sys::thread::apart(|| set_priority(priority, Heirs::Same)).and_then(|done| done) {
            Ok(()) => Some(priority),
            Err(error) => {
                remarks.push(format!("{option}: not applied: {error}{}", lacks_for(priority, &error)));
                None
            }
        }
    }

    /// Returns the place in which the command runs.
    fn place(&self, applied: &Applied, priority: Option<Priority>) -> Result<Place> {
        let open = |path: &String| {
            let opened = File::options().write(true).open(self.tree.path(path));
            opened.map_err(|e| failed(format!("isolate: open /{path}: {e}")))
        };
        // The groups of a host made of files are no groups.
        let joins = applied.joins.iter().filter(|_| self.tree.is_live());
        Ok(Place {
            groups: joins.map(open).collect::<Result<_>>()?,
            cores: self.options.cores.iter().collect(),
            priority,
            timer_slack_ns: TIMER_SLACK_NS,
            ends_with_us: true,
        })
    }

    fn measure(&self, how: &str, place: Place) -> Result<Measured> {
        let length: Duration = self.args.measure;
        if length.is_zero() {
            return Ok(Measured::Noise(Vec::new()));
        }
        self.say(&format!(
            "isolate: measuring the noise of {}, {how}, for {length:?}",
            self.options.cores.named()
        ));
        let (ended, text) = self.runner.probe(&self.list, length, place)?;
        match ended {
            Ended::Code(0) => {
                let noise: Vec<Noise> = serde_json::from_slice(&text)
                    .map_err(|e| failed(format!("isolate: read what was measured: {e}")))?;
                Ok(Measured::Noise(noise))
            }
            Ended::Code(code) => Err(failed(format!("isolate: the measurement failed (exit code {code})"))),
            ended => Ok(Measured::Interrupted(ended)),
        }
    }
}

/// Outcome of a measurement.
enum Measured {
    Noise(Vec<Noise>),
    /// A signal ended it, and with it the run.
    Interrupted(Ended),
}
