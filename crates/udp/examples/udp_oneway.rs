//! One way as fast as the path goes: how many datagrams a second are sent, and how many arrive.
//!
//! ```text
//! udp_oneway drop PORT SECONDS                       (udp:10.0.0.2:9000,gro=on)
//! udp_oneway send PORT DST_IP:DST_PORT SECONDS PAYLOAD [FLOWS] [BURST]
//! ```
//! Pin each with `taskset`. Counts what the application has in hand: a frame received, a frame taken by the path.

use mpps_io::{Burst, Frame, Port, PortSpec, Queue, Roles, Wait};
use mpps_udp::{Mode, check, open};
use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["drop", port, seconds] => receive(port, seconds.parse()?),
        ["send", port, to, seconds, payload, rest @ ..] => {
            let flows = rest.first().map_or(Ok(1), |s| s.parse())?;
            let burst = rest.get(1).map(|s| s.parse()).transpose()?;
            send(port, to.parse()?, seconds.parse()?, payload.parse()?, flows, burst)
        }
        _ => Err("usage: udp_oneway drop PORT SECONDS | send PORT DST_IP:PORT SECONDS PAYLOAD [FLOWS] [BURST]".into()),
    }
}

fn receive(port: &str, seconds: f64) -> Result<(), Box<dyn Error>> {
    let port = open(
        check(&port.parse::<PortSpec>()?)?,
        Mode::Listening,
        &[Roles { rx: true, tx: false }],
    )?;
    let pool = port.pool(0)?;
    let mut queue = port.queue(0, &pool)?;
    let mut burst = Burst::new(256);
    let (mut frames, mut bytes, mut calls, mut empty) = (0u64, 0u64, 0u64, 0u64);
    let mut first = None;
    let mut last = Instant::now();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        let n = queue.receive(&mut burst)?;
        if n == 0 {
            empty += 1;
            queue.wait(Wait { rx: true, tx: false }, Duration::from_millis(100))?;
            continue;
        }
        last = Instant::now();
        first.get_or_insert(last);
        calls += 1;
        frames += n as u64;
        bytes += burst
            .as_slice()
            .iter()
            .map(|f| u64::from(f.bytes()[0]) + f.bytes().len() as u64)
            .sum::<u64>();
        burst.clear();
    }
    let span = first.map_or(0.0, |t| (last - t).as_secs_f64());
    let mean = frames as f64 / calls.max(1) as f64;
    println!(
        "received {frames} in {span:.3} s: {:.3} Mpps, mean burst {mean:.1}, empty {empty}, sum {bytes}, {:?}",
        frames as f64 / span.max(1e-9) / 1e6,
        port.counters(0)
    );
    for fact in port.facts() {
        print!("{}={} ", fact.name, fact.value);
    }
    println!();
    Ok(())
}

fn send(
    port: &str,
    to: SocketAddr,
    seconds: f64,
    payload: usize,
    flows: u16,
    burst: Option<usize>,
) -> Result<(), Box<dyn Error>> {
    let config = check(&port.parse::<PortSpec>()?)?;
    let src = config.address.ok_or("send: the port needs an address")?;
    let flows: Vec<_> = (0..flows)
        .map(|i| (SocketAddr::new(src, 10_000 + i), to).into())
        .collect();
    let n_flows = flows.len() as u32;
    let mode = Mode::Connected(flows);
    let port = open(config, mode, &[Roles { rx: false, tx: true }])?;
    let pool = port.pool(0)?;
    let mut queue = port.queue(0, &pool)?;
    let limit = burst.unwrap_or(port.capabilities().preferred_burst);
    let mut burst = Burst::new(limit);
    let (mut frames, mut calls, mut flow, mut sequence) = (0u64, 0u64, 0u32, 0u64);
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        if burst.is_empty() {
            queue.allocate(&mut burst, limit)?;
            for frame in burst.as_mut_slice() {
                frame.set_len(payload);
                frame.set_flow(flow);
                if let Some(head) = frame.bytes_mut().first_chunk_mut::<8>() {
                    *head = sequence.to_le_bytes();
                }
                sequence += 1;
            }
            flow = (flow + 1) % n_flows;
        }
        match queue.transmit(&mut burst)? {
            0 => queue.wait(Wait { rx: false, tx: true }, Duration::from_millis(100))?,
            n => frames += n as u64,
        }
        calls += 1;
    }
    let span = start.elapsed().as_secs_f64();
    println!(
        "sent {frames} in {span:.3} s: {:.3} Mpps, {:.1} a call, {:?}",
        frames as f64 / span / 1e6,
        frames as f64 / calls.max(1) as f64,
        port.counters(0)
    );
    Ok(())
}
