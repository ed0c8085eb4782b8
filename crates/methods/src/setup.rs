//! Preparation of a method: its settings are checked, and ports, record and views are opened.

use crate::bench::Bench;
use crate::document::note;
use crate::expect::{self, Reached};
use crate::folder::FILE;
use crate::record::{self, Header, Record};
use crate::view::View;
use crate::{Common, document};
use mpps_engine::Pacing;
use mpps_pages::document::Document;
use mpps_plan::Written;
use mpps_plan::values::rate::RateText;
use mpps_report::JsonTarget;
use mpps_run::draft::traffic::Draft;
use mpps_run::fail::{Failure, Result, unwritable, usage};
use mpps_run::privilege::{self, Clerk};
use mpps_run::streams::check_stream;
use mpps_run::{Host, Plan, on_session};
use mpps_sys::signal;
use mpps_traffic::Traffic;
use serde_json::Value;
use std::cell::RefCell;
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

/// A method, checked, with the settings that all methods have.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) common: &'a Common,
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
    pub(crate) pacing: Option<Written<Pacing>>,
    /// Time for which learning frames are sent to the device before each trial, if any.
    pub(crate) learning: Option<Duration>,
}

/// Result of a method, before its demands are judged.
pub(crate) struct Ended {
    pub(crate) document: Document,
    /// Values that a demand can name.
    pub(crate) reached: Vec<Reached>,
    /// Lines that are printed before the verdict.
    pub(crate) table: Vec<String>,
    /// Lines that are printed after the verdict.
    pub(crate) last: Vec<String>,
    /// The exit code.
    pub(crate) code: u8,
}

impl<'a> Setup<'a> {
    /// Checks the options. `frame_size`: of the first trials, if not that of the options; `pause` and `settle`: used if
    /// the options give none; `early`: trials end before the settle time is over, once every packet is back.
    pub(crate) fn new(
        common: &'a Common,
        frame_size: Option<usize>,
        pause: Duration,
        settle: Duration,
        early: bool,
    ) -> Result<Self> {
        chosen_by_method(common)?;
        let mut run = common.run.clone();
        let plan = &mut run.plan;
        let settle = common.settle.unwrap_or(settle);
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
            let Some(rate) = &common.max_rate else {
                return Err(usage(
                    "--max-rate: missing: programs in the kernel are made for a highest rate: want --max-rate RATE",
                ));
            };
            run.plan.load.rate = Some(rate.clone());
            // The streams have that rate together, as in a trial.
            if let Some(streams) = draft.weighted(false, None) {
                run.plan.traffic.streams = Some(Written::new(streams.json().to_string(), streams));
            }
            run.complete.clone_from(&run.plan);
            draft = Draft::knowing(Some(&draft), run)?;
        }
        if let Some((pcap, _)) = draft.captures().find(|(pcap, _)| pcap.loops.is_some()) {
            return Err(usage(format!(
                "pcap {}: a trial lasts as long as its method has it: want loops = 0",
                pcap.path
            )));
        }
        if draft.counts_nothing_of("") {
            return Err(usage(
                "--traffic: no stream has a tag: nobody knows what comes, by which a method searches: want tag = tail \
                 or tcp in one",
            ));
        }
        let link = draft.port.interface().filter(|device| !device.is_virtual);
        Ok(Self {
            common,
            plan: Plan::of_run(&draft.args),
            link_bps: link.and_then(|device| device.speed_bps),
            pause: common.pause.unwrap_or(pause),
            settle,
            learning: None,
            pacing: Some(pacing).filter(|pacing| **pacing != Pacing::Constant),
            device: common.device_note.as_deref().map(note).transpose()?,
            draft,
        })
    }

    /// Refuses a stream or group that trials have no results of.
    pub(crate) fn check_stream(&self, name: &str) -> std::result::Result<(), String> {
        check_stream(&self.common.run.plan, name, false)?;
        match self.draft.counts_nothing_of(name) {
            true => Err(format!(
                "{name}: its packets have no tag: nobody knows which of them come: want tag = tail or tcp"
            )),
            false => Ok(()),
        }
    }

    /// Returns the streams of a trial with a rate for those that may be scaled together, or (`all`) without one;
    /// `None`: no stream has a rate of its own.
    pub(crate) fn weighted(&self, all: bool) -> Option<Traffic> {
        self.draft.weighted(all, self.link_bps)
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
        if let Some((pcap, tagged)) = self.draft.captures().next() {
            let what = match tagged {
                true => {
                    "as captured, but for the last 18 bytes of the innermost payload: a tag of number, run, flow \
                         and send time, and what makes up for it in checksums"
                }
                false => "as captured, unchanged",
            };
            let sum = pcap.sha256.as_deref().unwrap_or("not known");
            let format = format!("{what}; {} has the SHA-256 {sum}", pcap.path);
            let protocol = self.draft.packet().unwrap_or_default();
            return [("medium", medium), ("protocol", protocol), ("data_format", format)];
        }
        if let Some(packet) = self.draft.packet() {
            let format = "the last 16 bytes of the innermost payload are a tag of number, run, flow and send time, the \
                          bytes before it pseudo-random";
            return [
                ("medium", medium),
                ("protocol", packet),
                (
                    "data_format",
                    format!("{format} by seed {}, flow and number", self.common.run.plan.seed),
                ),
            ];
        }
        let version = if self.draft.src.is_ipv6() { "IPv6" } else { "IPv4" };
        let vlan = self
            .draft
            .args
            .plan
            .traffic
            .vlan
            .map_or_else(String::new, |id| format!(", VLAN {id}"));
        let seed = self.common.run.plan.seed;
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

    /// Opens the ports and the record, gives up privileges, goes through `body`, and hands out its result. Returns the
    /// exit code.
    pub(crate) fn on_bench(
        &self,
        test: &'static str,
        mut params: Value,
        (host, view): (&Host<'_>, &dyn View),
        body: &mut dyn FnMut(&mut Bench<'_, '_>) -> Ended,
    ) -> Result<u8> {
        if let Some(pacing) = &self.pacing {
            params["pacing"] = pacing.text().into();
        }
        let common = self.common;
        // Another start is no other test: a method that was ended goes on later.
        let mut plan = self.plan.clone();
        plan.fields_mut().times.start_at = None;
        let header = Header {
            test,
            params,
            plan: plan.to_json(),
            version: common.version,
        };
        // The thread that writes files can get nothing more either.
        privilege::check_run(&common.run)?;
        let folder = common.folder.as_deref();
        let mut files = common.files.clone();
        files.extend(folder.map(|folder| folder.join(FILE)));
        let clerk = (!files.is_empty())
            .then(|| Clerk::hire(&common.run, &files))
            .transpose()?;
        let out = clerk.as_ref().zip(folder);
        let earlier = match out {
            Some((clerk, folder)) => record::find(clerk, folder, common.resume, &header)?,
            None => None,
        };
        let opened_record = RefCell::new(None);
        let opened_junit = RefCell::new(None);
        let mut opened = || {
            view.start(test, clerk.as_ref())?;
            if let Some((clerk, folder)) = out {
                *opened_record.borrow_mut() = Some(Record::open(clerk, folder, &header, earlier.as_ref())?);
            }
            if let Some((clerk, file)) = clerk.as_ref().zip(common.junit.clone()) {
                let target =
                    clerk.does(move || JsonTarget::prepare(&file).map_err(|e| unwritable("--junit", &e)))??;
                *opened_junit.borrow_mut() = Some((clerk, target));
            }
            Ok(())
        };
        let mut code = 0;
        on_session(&self.draft, &self.plan, host, &mut opened, &mut |session| {
            let earlier = earlier.clone().unwrap_or_default();
            let mut bench = Bench::new(self, view, session, opened_record.borrow_mut().take(), earlier);
            match bench.left_of_record() {
                0 => {}
                trials => bench.say(&format!("going on after {trials} trials")),
            }
            let mut ended = body(&mut bench);
            let judged = expect::judged(&common.expect, &ended.reached);
            code = expect::add_to(&mut ended.document, &judged, ended.code);
            let lines = [ended.table, ended.document.verdict.clone(), ended.last].concat();
            let printed = view.result(&lines, &ended.document);
            let unwritten = document::write(
                bench.record.as_ref(),
                opened_junit.borrow_mut().take(),
                printed,
                &ended.document,
                &judged,
            );
            if !unwritten.is_empty() {
                code = 1;
            }
            view.end(&unwritten)
        })?;
        Ok(code)
    }
}

/// Refuses what a method chooses itself.
fn chosen_by_method(common: &Common) -> Result<()> {
    let plan = &common.run.plan;
    let given = [
        (
            "--rate",
            plan.load.rate.is_some(),
            "the method chooses it: want --max-rate and --min-rate",
        ),
        (
            "--scale",
            plan.load.scale.is_some(),
            "the method chooses it: want --max-rate and --min-rate",
        ),
        (
            "--then",
            plan.load.then.is_some(),
            "the method chooses it: want sendrecv … --rate RATE --then RATE@TIME",
        ),
        (
            "--count",
            plan.traffic.count.is_some(),
            "a trial is of a time, and its packets are the method's: want sendrecv … --count N",
        ),
        (
            "--duration",
            plan.times.duration.is_some(),
            "the method has times of its own: see its --help",
        ),
        (
            "--resume",
            common.resume && common.folder.is_none(),
            "it goes on with the test in a folder: want --out DIR as well",
        ),
    ];
    match given.into_iter().find(|(_, given, _)| *given) {
        Some((option, _, why)) => Err(usage(format!("{option}: {why}"))),
        None => Ok(()),
    }
}

/// Rates as they are written, for the record.
pub(crate) fn rates_json(common: &Common) -> [Option<String>; 2] {
    [&common.min_rate, &common.max_rate].map(|rate| rate.as_ref().map(RateText::to_string))
}
