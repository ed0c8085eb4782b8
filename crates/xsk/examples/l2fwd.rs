//! Forwards frames: on one link back to where they came from, with their MAC addresses swapped; between two links, in
//! both directions, without a copy.
//!
//! ```text
//! l2fwd eth1 [eth2] [SECONDS]
//! ```
//!
//! Frames for the host itself are left to it.

use std::error::Error;
use std::time::{Duration, Instant};

use xsk::{Filter, Frame, Pool, Program, ProgramConfig, Rx, Socket, SocketConfig, Tx, Umem, UmemConfig, device};

/// Frames moved in one go.
const BURST: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let mut devices: Vec<String> = std::env::args().skip(1).collect();
    let seconds = devices.last().and_then(|last| last.parse().ok());
    devices.truncate(devices.len() - usize::from(seconds.is_some()));
    if !(1..=2).contains(&devices.len()) {
        return Err("usage: l2fwd DEVICE [DEVICE] [SECONDS]".into());
    }
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(u64::MAX / 4));

    // One memory for all ports: a frame goes from one to the other as it is.
    let umem = Umem::new(&UmemConfig::default())?;
    let pool = Pool::new(&umem, umem.config().frames)?;
    let mut ports = Vec::new();
    for device in &devices {
        ports.push(open(&umem, device)?);
    }
    let mut halves: Vec<(Rx, Tx)> = Vec::new();
    for (socket, _) in &ports {
        let (rx, tx) = socket.split()?;
        halves.push((rx.over(&pool)?, tx.over(&pool)?));
    }

    println!("{}: ready", devices.join(", "));
    let mut burst = Vec::with_capacity(BURST);
    let mut forwarded = 0;
    while Instant::now() < end {
        let before = forwarded;
        match halves.as_mut_slice() {
            [(rx, tx)] => forwarded += forward(rx, tx, &mut burst, swap)?,
            [(rx_a, tx_a), (rx_b, tx_b)] => {
                forwarded += forward(rx_a, tx_b, &mut burst, |_| ())?;
                forwarded += forward(rx_b, tx_a, &mut burst, |_| ())?;
            }
            _ => {}
        }
        if forwarded == before {
            // Nothing to do: sleep, for as long as the other port can do without us.
            halves[0].0.wait(Duration::from_millis(1))?;
        }
    }
    println!("{forwarded} frames forwarded");
    for (socket, program) in &ports {
        println!("{} ({}): {:?}", socket.interface(), program.mode(), program.counters()?);
        println!("{}: {:?}", socket.interface(), socket.statistics()?);
    }
    Ok(())
}

/// A socket at queue 0, and the program that leads frames to it.
fn open(umem: &std::sync::Arc<Umem>, device: &str) -> xsk::Result<(Socket, Program)> {
    let socket = Socket::bind(umem, device, 0, &SocketConfig::default())?;
    let program = Program::attach(device, &ProgramConfig::new(Filter::foreign(device::addresses(device)?)))?;
    program.insert(0, &socket)?;
    Ok((socket, program))
}

/// Moves what has come, as far as there is room to send it.
fn forward<'p>(
    rx: &mut Rx<'p>,
    tx: &mut Tx<'p>,
    burst: &mut Vec<Frame<'p>>,
    change: impl Fn(&mut [u8]),
) -> xsk::Result<usize> {
    rx.receive(tx.room().min(BURST), |mut frame| {
        change(frame.bytes_mut());
        burst.push(frame);
    });
    let sent = tx.send(burst.drain(..));
    tx.kick()?;
    if rx.wakeup_needed() {
        rx.wake()?;
    }
    Ok(sent)
}

/// Destination and source change places.
fn swap(bytes: &mut [u8]) {
    if let Some((destination, rest)) = bytes.split_first_chunk_mut::<6>()
        && let Some(source) = rest.first_chunk_mut::<6>()
    {
        std::mem::swap(destination, source);
    }
}
