//! Four ports beside each other, whose streams are started, paused and stopped while they run.
//!
//! ```text
//! cargo run --release --example streams
//! ```
//!
//! The second port loses 1 % of its packets, and its stream is stopped first: its counts are final while the others
//! run on. Prints a line for each stream.

use mpps::{At, Do, Error, FromArgs, Plan, Rate, StreamId, Streams, Summary, session_beside};
use std::time::Duration;

/// Plan of one of the ports. A duration of 0 leaves the end to the orders.
fn plan(port: u32, faults: &str) -> Result<Plan, Error> {
    let line = format!(
        "sendrecv loop:{faults} --src 10.0.{port}.1 --dest 10.0.{port}.2:9000 --rate 10kpps --duration 0 \
         --interval 10ms --settle 20ms"
    );
    Plan::from_args(line.split_whitespace())
}

fn main() -> Result<(), Error> {
    run().map(drop)
}

/// Runs the four streams, and returns their result.
pub(crate) fn run() -> Result<Summary, Error> {
    let plans = [plan(0, "")?, plan(1, "loss=1%")?, plan(2, "")?, plan(3, "")?];
    let streams = Streams::new();
    let half_the_rate = Rate::new(5_000, 1).expect("packets in a second");
    for (stream, what, ms) in [
        (1, Do::Stop, 100),
        (2, Do::Pause, 0),
        (2, Do::Start, 50),
        (3, Do::Rate(half_the_rate), 50),
    ] {
        let at = At::AfterStart(Duration::from_millis(ms));
        streams.order(&[(StreamId(stream), what)], at)?;
    }
    let summary = session_beside(&plans, &|| 0, |session| {
        std::thread::scope(|scope| {
            let directs = scope.spawn(|| direct(&streams));
            let summary = session.directed(&plans, &streams, &mut [])?;
            directs.join().expect("no panic").map(|()| summary)
        })
    })?;
    for of in &summary.directions {
        let (name, of) = (of.name, &of.summary);
        println!(
            "{name}: sent {} missed {} lost {} valid {}",
            of.tx, of.missed, of.lost, of.valid
        );
    }
    Ok(summary)
}

/// Waits until the packets of the second stream are back or lost, prints their counts, and stops all others.
fn direct(streams: &Streams) -> Result<(), Error> {
    loop {
        match streams.counts(StreamId(1)) {
            _ if streams.is_over() => return Ok(()),
            Some(counts) if counts.is_final => {
                println!("stream 1 has settled: sent {} lost {}", counts.sent, counts.lost);
                break;
            }
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    let stop = [0, 2, 3].map(|stream| (StreamId(stream), Do::Stop));
    streams.order(&stop, At::Soonest)?;
    Ok(())
}
