//! Load of a run that sends: its length, its rate and its frames.

use crate::fail::{Failure, Result, usage};
use crate::request::Run;
use mpps_engine::Pacing;
use mpps_plan::Plain;
use mpps_plan::values::rate::{RateText, StepText};
use mpps_wire::FrameSize;
use std::time::Duration;

/// Payload bytes of a frame of 64 bytes over IPv4.
const DEFAULT_PAYLOAD: usize = 18;
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Returns the length of a run. By default, a run with a number of packets lasts until they are sent; `finite`: all its
/// streams have one.
pub(super) fn lasts(args: &Run, finite: bool) -> Option<Duration> {
    let finite = finite || args.plan.traffic.count.is_some();
    let default = (!finite).then_some(DEFAULT_DURATION);
    args.plan.times.duration.plain().or(default)
}

/// Checks rate and pacing. Returns the highest rate, packets/s: 0 if it is not known yet, `None` without a rate.
pub(super) fn highest_pps(args: &Run, frame_size: usize) -> Result<Option<f64>> {
    // A share of the link becomes a rate once the port is open and reports its speed.
    let asked = args.plan.load.rate.as_ref();
    let rate = asked.map(|rate| rate.known(frame_size).map_err(|want| no_rate(rate, &want)));
    let pps = rate.transpose()?.map(|rate| rate.map_or(0.0, |rate| rate.pps()));
    let pps = match (&args.plan.load.then, pps) {
        (Some(step), pps) => Some(check_step(args, step, pps, frame_size)?),
        (None, pps) => pps,
    };
    if args.plan.load.rate.is_none() && *args.plan.load.pacing != Pacing::Constant {
        return Err(usage(
            "--pacing: without --rate there is nothing to pace: want --rate RATE as well",
        ));
    }
    Ok(pps)
}

/// Checks a step of the rate. Returns the higher of the two rates, as far as they are known.
fn check_step(args: &Run, step: &StepText, pps: Option<f64>, frame_size: usize) -> Result<f64> {
    let Some(pps) = pps else {
        return Err(usage(format!(
            "--then {step}: without --rate there is no rate before it: want --rate RATE as well"
        )));
    };
    let lasts = lasts(args, false).unwrap_or_default();
    if !lasts.is_zero() && step.after >= lasts {
        return Err(usage(format!(
            "--then {step}: the run ends before, after {lasts:?} (--duration): want an earlier time"
        )));
    }
    let then = step.rate.known(frame_size).map_err(|want| no_step(step, &want))?;
    Ok(then.map_or(0.0, |rate| rate.pps()).max(pps))
}

pub(super) fn no_step(step: &StepText, want: &str) -> Failure {
    usage(format!("--then {step}: want {want}"))
}

pub(super) fn no_rate(rate: &RateText, want: &str) -> Failure {
    usage(format!("--rate '{rate}': want {want}"))
}

/// Returns the bytes of a packet's payload, and of its frame with FCS.
pub fn sizes(args: &Run, v6: bool) -> Result<(usize, usize)> {
    let vlan = args.plan.traffic.vlan.is_some();
    let headers = FrameSize::header_len(v6, vlan);
    if let Some(size) = args.plan.traffic.frame_size {
        let least = headers + 16 + FrameSize::FCS_LEN;
        let payload = size.checked_sub(headers + FrameSize::FCS_LEN).filter(|&p| p >= 16);
        let payload = payload.ok_or_else(|| {
            usage(format!(
                "--frame-size {size}: no room for the stamp of 16 bytes: want {} at least",
                least.max(64)
            ))
        })?;
        return Ok((payload, size));
    }
    let payload = args.plan.traffic.payload_size.unwrap_or(DEFAULT_PAYLOAD);
    Ok((payload, FrameSize::from_payload(payload, v6, vlan).with_fcs()))
}
