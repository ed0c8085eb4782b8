//! Test methods on ports that stay open: trials, their record, searches, and what is made of the results.

pub(crate) mod bench;
pub(crate) mod expect;
pub(crate) mod limits;
pub(crate) mod measure;
pub(crate) mod outcome;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod search;

use crate::cli::{Method, RateText};
use crate::commands::folder::FILE;
use crate::commands::serving::{Serving, Shown};
use crate::fail::unwritable;
use crate::fail::{Failure, Result, failed, usage};

use crate::commands::output::Program;
use bench::Bench;
use mpps_engine::Pacing;
use mpps_plan::Written;
use mpps_report::JsonTarget;
use mpps_run::draft::traffic::Draft;
use mpps_run::privilege::{self, Clerk};
use mpps_run::{Host, Plan, on_session};
use mpps_sys::signal;
use record::{Header, Record};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Reason why a method ended before all was done.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The user interrupted it.
    Interrupted,
    /// This host could not do what was asked of it, several times in a row: why.
    Void(String),
    /// The time of the method was up.
    OutOfTime,
    /// A trial could not take place.
    Failed(Failure),
}

/// A part of a method.
pub(crate) type Step<T> = std::result::Result<T, Stop>;

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Stop {
    /// One sentence.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Interrupted if signal::cpu_time_is_spent() => {
                "the program reached its limit of CPU time (SIGXCPU): want a higher limit (ulimit -t)".to_owned()
            }
            Self::Interrupted => "it was interrupted".to_owned(),
            Self::Void(why) => format!("this host could not do what was asked of it, three times in a row: {why}"),
            Self::OutOfTime => {
                "its time was up before the bounds were as close as asked for (--search-time)".to_owned()
            }
            Self::Failed(failure) => failure.line().to_owned(),
        }
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            _ => 3,
        }
    }
}

/// Settings of a method, from the options that all methods have.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) args: &'a Method,
    draft: Draft,
    /// The plan that trials vary.
    pub(crate) plan: Plan,
    /// Bits per second of a link that has a rate of its own.
    pub(crate) link_bps: Option<u64>,
    pub(crate) pause: Duration,
    pub(crate) settle: Duration,
    /// The device under test in the user's words.
    pub(crate) device: Option<String>,
    /// Pacing of the departures, if it was given and there is a rate: as fast as possible, there is nothing to spread.
    pacing: Option<Written<Pacing>>,
    /// Time for which learning frames are sent to the device before each trial, if any.
    pub(crate) learning: Option<Duration>,
}

impl<'a> Setup<'a> {
    /// Checks the options. `frame_size`: of the first trials, if not that of the options; `pause` and `settle`: used if
    /// the options give none; `early`: trials end before the settle time is over, once every packet is back.
    pub(crate) fn new(
        args: &'a Method,
        frame_size: Option<usize>,
        pause: Duration,
        settle: Duration,
        early: bool,
    ) -> Result<Self> {
        chosen_by_method(args)?;
        let mut run = args.traffic.args.run.clone();
        let plan = &mut run.plan;
        let settle = if args.settle_given { *plan.times.settle } else { settle };
        plan.times.settle = Written::ns(settle.as_nanos() as u64);
        plan.times.settle_early |= early;
        let pacing = std::mem::take(&mut plan.load.pacing);
        if let Some(size) = frame_size {
            plan.traffic.set_frame_size(size);
        }
        run.complete.clone_from(&run.plan);
        let mut draft = Draft::new(run.clone())?;
        if draft.port.traits.in_kernel {
            // The kernel's program is loaded once, for the highest rate, before privileges are given up.
            let Some(rate) = &args.max_rate else {
                return Err(usage(
                    "--max-rate: missing: programs in the kernel are made for a highest rate: want --max-rate RATE",
                ));
            };
            run.plan.load.rate = Some(rate.clone());
            run.complete.clone_from(&run.plan);
            draft = Draft::knowing(Some(&draft), run)?;
        }
        let link = draft.port.interface().filter(|device| !device.is_virtual);
        Ok(Self {
            args,
            plan: Plan::of_run(&draft.args),
            link_bps: link.and_then(|device| device.speed_bps),
            pause: args.pause.unwrap_or(pause),
            settle,
            learning: None,
            pacing: Some(pacing).filter(|pacing| **pacing != Pacing::Constant),
            device: args.dut_note.as_deref().map(report::note).transpose()?,
            draft,
        })
    }

    /// Whether trials may end before the settle time is over.
    pub(crate) fn early(&self) -> bool {
        self.draft.args.plan.times.settle_early
    }

    /// Returns the time between two trials: the settle time, the pause, and learning.
    pub(crate) fn between(&self) -> Duration {
        let learning = self.learning.map_or(Duration::ZERO, |time| time + self.settle);
        self.pause + self.settle + learning
    }

    /// Media type, protocol and format of the data, which RFC 2544 (26.1) wants beside a rate.
    pub(crate) fn stream(&self) -> [(&'static str, String); 3] {
        let medium = match self.draft.port.interface() {
            Some(device) => {
                let driver = Some(device.driver.as_str()).filter(|driver| !driver.is_empty());
                let driver = driver.map_or_else(String::new, |driver| format!(" ({driver})"));
                match (device.is_virtual, device.speed_bps) {
                    (true, _) => format!("virtual Ethernet{driver}"),
                    (false, Some(bps)) => format!("Ethernet, {}{driver}", mpps_report::units::bps(bps as f64)),
                    (false, None) => format!("Ethernet of unknown rate{driver}"),
                }
            }
            None => format!("not known: the path {} names no interface", self.draft.port.spec.path),
        };
        let version = if self.draft.src.is_ipv6() { "IPv6" } else { "IPv4" };
        let vlan = self
            .draft
            .args
            .plan
            .traffic
            .vlan
            .map_or_else(String::new, |id| format!(", VLAN {id}"));
        let seed = self.args.traffic.args.run.plan.seed;
        [
            ("medium", medium),
            ("protocol", format!("UDP over {version}{vlan}")),
            (
                "data_format",
                format!(
                    "in each UDP payload 16 bytes of sequence number and send time, then pseudo-random bytes by seed \
                     {seed} and sequence number"
                ),
            ),
        ]
    }

    /// Bytes of a frame of the plan, with FCS.
    pub(crate) fn frame_size(&self) -> usize {
        self.draft.frame_size
    }

    /// Programs in the kernel run the trials.
    pub(crate) fn in_kernel(&self) -> bool {
        self.draft.port.traits.in_kernel
    }

    /// Whether nothing is shown while the method goes on.
    pub(crate) fn quiet(&self) -> bool {
        self.args.traffic.args.tell.quiet
    }

    /// Opens the ports and the record, gives up privileges, and goes through `body`. `before` is called in between,
    /// with the ports open and privileges still there.
    pub(crate) fn on_bench(
        &self,
        test: &'static str,
        mut params: Value,
        before: &mut dyn FnMut() -> Result<()>,
        body: &mut dyn FnMut(&mut Bench<'_, '_>) -> Result<()>,
    ) -> Result<()> {
        if let Some(pacing) = &self.pacing {
            params["pacing"] = pacing.text().into();
        }
        let header = Header {
            test,
            params,
            plan: self.plan.to_json(),
        };
        let args = &self.args.traffic.args;
        // The thread that writes files can get nothing more either.
        privilege::check_run(&args.run)?;
        let folder = args.tell.out.as_deref();
        let record = folder.map(|folder| folder.join(FILE));
        let mut files = args.tell.files();
        files.extend(record.clone());
        let clerk = (record.is_some() || args.tell.serve.prom.is_some() || args.tell.junit.is_some())
            .then(|| Clerk::hire(&args.run, &files))
            .transpose()?;
        let out = clerk.as_ref().zip(folder);
        let earlier = match out {
            Some((clerk, folder)) => record::find(clerk, folder, self.args.resume, &header)?,
            None => None,
        };
        let opened_record = std::cell::RefCell::new(None);
        let opened_junit = std::cell::RefCell::new(None);
        let serving = std::cell::RefCell::new(None);
        let mut opened = || {
            *serving.borrow_mut() = Serving::start(args, Some(test), clerk.as_ref(), Shown::of(args, false))?;
            if let Some((clerk, folder)) = out {
                *opened_record.borrow_mut() = Some(Record::open(clerk, folder, &header, earlier.as_ref())?);
            }
            if let Some((clerk, file)) = clerk.as_ref().zip(args.tell.junit.clone()) {
                let target =
                    clerk.does(move || JsonTarget::prepare(&file).map_err(|e| unwritable("--junit", &e)))??;
                *opened_junit.borrow_mut() = Some((clerk, target));
            }
            before()
        };
        let program = Program::new(args);
        let host = Host {
            interruptions: &signal::interruptions,
            steps: &program,
        };
        on_session(&self.draft, &self.plan, &host, &mut opened, &mut |session| {
            let earlier = earlier.clone().unwrap_or_default();
            let mut bench = Bench::new(self, session, opened_record.borrow_mut().take(), earlier);
            match bench.left_of_record() {
                0 => {}
                trials => bench.say(&format!("going on after {trials} trials")),
            }
            bench.serving = serving.borrow_mut().take();
            bench.junit = opened_junit.borrow_mut().take();
            body(&mut bench)?;
            match bench.serving.take().and_then(Serving::finish) {
                Some(unwritten) => Err(failed(unwritten)),
                None => Ok(()),
            }
        })
    }
}

/// Errors: a method takes no option for rows, and none for one file of results.
const NO_ROWS: &str = "a method has trials, not rows: want --out DIR in its place";
const A_FOLDER: &str = "a method has a folder of results: want --out DIR in its place";

/// Refuses what a method chooses itself.
fn chosen_by_method(args: &Method) -> Result<()> {
    let run = &args.traffic.args;
    let given = [
        (
            "--rate",
            args.traffic.args.run.plan.load.rate.is_some(),
            "the method chooses it: want --max-rate and --min-rate",
        ),
        (
            "--then",
            args.traffic.args.run.plan.load.then.is_some(),
            "the method chooses it: want sendrecv … --rate RATE --then RATE@TIME",
        ),
        (
            "--count",
            args.traffic.args.run.plan.traffic.count.is_some(),
            "a trial is of a time, and its packets are the method's: want sendrecv … --count N",
        ),
        (
            "--duration",
            run.run.plan.times.duration.is_some(),
            "the method has times of its own: see its --help",
        ),
        ("--csv", run.tell.csv.is_some(), NO_ROWS),
        ("--lanes-csv", run.tell.lanes_csv.is_some(), NO_ROWS),
        ("--json", run.tell.json.is_some(), A_FOLDER),
        (
            "--json-lines",
            run.tell.json_lines.is_some(),
            "a method writes a line of trials.jsonl in the folder of --out for each trial: want --out DIR in its place",
        ),
        (
            "--junit",
            run.tell.junit.as_deref() == Some(Path::new("-")),
            "standard output has the lines of the method: want a file",
        ),
        ("--markdown", run.tell.markdown.is_some(), A_FOLDER),
        ("--hdr", run.tell.hdr.is_some(), NO_ROWS),
        (
            "--profile",
            run.tell.profile.is_some(),
            "a method has many trials: want sendrecv … --profile HZ",
        ),
        (
            "--trace",
            run.tell.keep.trace.is_some(),
            "a method has many trials: want sendrecv … --trace FILE",
        ),
        (
            "--sample-pcap",
            run.tell.sample_pcap.is_some(),
            "a method has many trials: want sendrecv … --sample-pcap FILE",
        ),
        (
            "--print-plan",
            run.print_plan,
            "a method varies a plan: want sendrecv … --print-plan",
        ),
        (
            "--resume",
            args.resume && run.tell.out.is_none(),
            "it goes on with the test in a folder: want --out DIR as well",
        ),
    ];
    match given.into_iter().find(|(_, given, _)| *given) {
        Some((option, _, why)) => Err(usage(format!("{option}: {why}"))),
        None => Ok(()),
    }
}

/// Refuses to search among trials that were not sent as asked: what was never sent is not lost, and passes.
pub(crate) fn no_tolerance(args: &Method) -> Result<()> {
    match args.tolerance_given {
        true => Err(usage(
            "--tolerance: a trial that is not sent as asked decides nothing: want it left out",
        )),
        false => Ok(()),
    }
}

/// Rates as they are written, for the record.
pub(crate) fn rates_json(args: &Method) -> [Option<String>; 2] {
    [&args.min_rate, &args.max_rate].map(|rate| rate.as_ref().map(RateText::to_string))
}
