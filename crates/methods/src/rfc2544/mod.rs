//! `rfc2544`: the tests of RFC 2544 and RFC 9004, by frame size, on ports that stay open.

mod burst;
mod choice;
mod latency;
mod loss;
mod recovery;
mod reset;
mod result;
mod throughput;

pub use choice::{Choice, Manner, Test};

use crate::bench::Bench;
use crate::document::{self, last};
use crate::expect;
use crate::found::Found;
use crate::limits::LimitedBy;
use crate::measure::Measured;
use crate::search::Limits;
use crate::setup::{Ended, Setup, Step, Stop};
use crate::{Common, View};
use mpps_pages::document::{Axis, Scale, Unit};
use mpps_report::units;
use mpps_run::Host;
use mpps_run::fail::{Failure, Result, usage};
use std::time::Instant;

/// Results at one frame size.
struct OfSize {
    /// Frame size with FCS, bytes.
    frame_size: usize,
    /// Highest rate of the link, packets per second.
    theoretical: Option<f64>,
    /// Reason why the port can't send such frames.
    unfit: Option<String>,
    limits: Option<(Limits, LimitedBy)>,
    found: Option<Found>,
    /// Results of the same search for frames in bursts, by their number.
    in_bursts: Vec<Found>,
    latency: Vec<Measured>,
    loss: Vec<Measured>,
    bursts: Option<burst::Bursts>,
    recovery: Vec<Measured>,
    reset: Vec<Measured>,
    /// Tests that were not run or not to their end, and why.
    notes: Vec<String>,
}

impl OfSize {
    fn new(frame_size: usize, theoretical: Option<f64>) -> Self {
        Self {
            frame_size,
            theoretical,
            unfit: None,
            limits: None,
            found: None,
            in_bursts: Vec::new(),
            latency: Vec::new(),
            loss: Vec::new(),
            bursts: None,
            recovery: Vec::new(),
            reset: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Returns the lowest and the highest rate to test; measured once.
    fn limits(&mut self, bench: &mut Bench<'_, '_>) -> Step<(Limits, LimitedBy)> {
        let limits = match self.limits {
            Some(limits) => limits,
            None => bench.limits(self.frame_size)?,
        };
        self.limits = Some(limits);
        Ok(limits)
    }

    /// The highest rate that has passed, packets per second.
    fn throughput(&self) -> Option<u64> {
        self.found.as_ref()?.outcomes().first()?.bounds.lower
    }

    fn skipped(&mut self, test: &str, why: &str) {
        self.notes
            .push(format!("{} bytes: {test} was not measured: {why}", self.frame_size));
    }
}

/// The axis of charts by frame size.
fn by_size() -> Axis {
    Axis {
        label: "frame size".to_owned(),
        unit: Unit::Bytes,
        scale: Scale::Category,
        ..Axis::default()
    }
}

/// Runs the tests and returns the exit code.
///
/// # Errors
/// If the settings are wrong, or the tests could not begin.
pub fn run(common: &Common, mut choice: Choice, caller: (&Host<'_>, &dyn View)) -> Result<u8> {
    let early = choice.manner == Manner::Quick;
    let streams = common.run.plan.traffic.streams.as_ref();
    let of_file = streams.is_some_and(|streams| !streams.is_one_packet());
    if of_file && choice.sizes != Choice::new(choice.manner, Vec::new()).sizes {
        return Err(usage(
            "--frame-sizes: beside --traffic: want size in the streams, whose mean is the row's",
        ));
    }
    let first = choice.sizes.first().copied().filter(|_| !of_file);
    let mut setup = Setup::new(common, first, choice.pause, choice.settle, early)?;
    if of_file {
        choice.sizes = vec![setup.frame_size()];
    }
    setup.learning = choice.learning;
    let left_out = without_recovery(&mut choice, &setup)?;
    let finds: Vec<_> = result::finds(&choice).into_iter().map(|what| (what, None)).collect();
    expect::check(&common.expect, "rfc2544", &finds)?;
    in_kernel(&choice, &setup)?;
    for size in &choice.sizes {
        setup.rates(*size, None)?;
    }
    let mut params = document::params(&setup);
    params.extend(choice.params());
    let mut sizes: Vec<_> = choice
        .sizes
        .iter()
        .map(|size| OfSize::new(*size, setup.theoretical(*size)))
        .collect();
    if let Some(why) = left_out {
        for size in &mut sizes {
            size.skipped("recovery", why);
        }
    }
    let began = Instant::now();
    // Before no_new_privs is set, which would be handed down.
    let resetter = choice.reset_cmd.as_deref().map(reset::Resetter::new).transpose()?;
    setup.on_bench("rfc2544", params.clone().into(), caller, &mut |bench| {
        bench.say(&format!(
            "{} frame size{}; about {} if the device is steady",
            sizes.len(),
            if sizes.len() == 1 { "" } else { "s" },
            units::elapsed(choice.estimate(setup.between()))
        ));
        let stop = measure(&choice, bench, &mut sizes, resetter.as_ref()).err();
        let document = result::document(&result::Told {
            setup: &setup,
            choice: &choice,
            bench,
            sizes: &sizes,
            params: params.clone().into(),
            took: began.elapsed(),
            stop: stop.as_ref(),
        });
        Ended {
            reached: result::reached(&choice, &sizes),
            table: Vec::new(),
            last: last(&document),
            code: stop.as_ref().map_or(0, Stop::code),
            document,
        }
    })
}

/// Recovery takes a rate that changes within a run, and the times of losses: where these can't be had, it is refused,
/// or left out of all tests for the reason given.
fn without_recovery(choice: &mut Choice, setup: &Setup<'_>) -> Result<Option<&'static str>> {
    let plan = &setup.common.run.plan.traffic;
    let of_file = plan.streams.as_ref().is_some_and(|streams| !streams.is_one_packet());
    if of_file && choice.has(Test::Reset) {
        return Err(usage(
            "reset: beside --traffic: when packets of several streams were lost is not known: want --packet, or \
             another test",
        ));
    }
    let why = match (setup.in_kernel(), plan.both_ways) {
        _ if !choice.has(Test::Recovery) => return Ok(None),
        _ if of_file => "when packets of several streams were lost is not known",
        (true, _) => "programs in the kernel keep one rate within a run",
        (_, true) => "when packets of two ways were lost is not known",
        _ => return Ok(None),
    };
    // The throughput is what it goes by.
    if choice.tests == [Test::Throughput, Test::Recovery] {
        return Err(usage(format!(
            "recovery: {why}: want one way on another path, or another test"
        )));
    }
    choice.tests.retain(|test| *test != Test::Recovery);
    Ok(Some(why))
}

/// Refuses what programs in the kernel can't do: they are made once, for one frame size and settle time, before
/// privileges are given up.
fn in_kernel(choice: &Choice, setup: &Setup<'_>) -> Result<()> {
    if !setup.in_kernel() || setup.common.run.beside.keep_privileges {
        return Ok(());
    }
    let why = if choice.sizes.len() > 1 {
        format!("--frame-sizes: {} of them", choice.sizes.len())
    } else if choice.has(Test::BackToBack) || choice.has(Test::Recovery) {
        "this test".to_owned()
    } else {
        return Ok(());
    };
    Err(usage(format!(
        "{why}: on this path programs are loaded for one frame size and settle time, and more take privileges: want \
         one of --frame-sizes and throughput, loss or latency, or --keep-privileges"
    )))
}

/// Notes what ended a test early, where the next one can begin all the same.
fn go_on(bench: &Bench<'_, '_>, of: &mut OfSize, test: Test, done: Step<()>) -> Step<Option<Stop>> {
    match done {
        Ok(()) => Ok(None),
        Err(stop @ (Stop::Void(_) | Stop::OutOfTime)) => {
            let why = format!("{} bytes: {}: {}", of.frame_size, test.name(), stop.why());
            bench.say(&why);
            of.notes.push(why);
            Ok(Some(stop))
        }
        Err(stop) => Err(stop),
    }
}

/// Goes through the tests, size by size. What this host's fault or the time ends is noted, and the next test begun.
fn measure(
    choice: &Choice,
    bench: &mut Bench<'_, '_>,
    sizes: &mut [OfSize],
    resetter: Option<&reset::Resetter>,
) -> Step<()> {
    let mut cut = None;
    let all = sizes.len();
    for (at, of) in sizes.iter_mut().enumerate() {
        if let Err(failure) = bench.check_size(of.frame_size) {
            let Failure::Usage(why) = failure else {
                return Err(failure.into());
            };
            bench.say(&format!("{} bytes: {why}", of.frame_size));
            of.unfit = Some(why);
            continue;
        }
        for (place, test) in choice.tests.iter().enumerate() {
            bench.later_ns = choice.later(&choice.tests[place + 1..], all - at - 1, bench.between());
            let done = match test {
                Test::Throughput => throughput::measure(choice, bench, of),
                Test::Latency => latency::measure(choice, bench, of),
                Test::Loss => loss::measure(choice, bench, of),
                Test::BackToBack => burst::measure(choice, bench, of),
                Test::Recovery => recovery::measure(choice, bench, of),
                // Run for the smallest size alone, at the end.
                Test::Reset => Ok(()),
            };
            cut = go_on(bench, of, *test, done)?.or(cut);
        }
    }
    let known = sizes.iter().position(|of| of.throughput().is_some());
    if let Some(of) = sizes.get_mut(known.unwrap_or(0)).filter(|_| choice.has(Test::Reset)) {
        bench.later_ns = 0;
        let done = reset::measure(choice, bench, of, resetter);
        cut = go_on(bench, of, Test::Reset, done)?.or(cut);
    }
    match cut {
        Some(stop) => Err(stop),
        None => Ok(()),
    }
}
