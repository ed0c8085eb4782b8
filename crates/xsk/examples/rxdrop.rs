//! Receives UDP on every queue of a device, a thread per queue, and drops it: how much comes in.
//!
//! ```text
//! rxdrop eth1 [SECONDS]
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xsk::{Device, Filter, Pool, Program, ProgramConfig, RxHalf, Socket, SocketConfig, Umem, UmemConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let device = words.next().ok_or("usage: rxdrop DEVICE [SECONDS]")?;
    let seconds = words.next().map_or(Ok(10), |word| word.parse())?;
    let end = Instant::now() + Duration::from_secs(seconds);

    let program = Program::attach(&device, &ProgramConfig::new(Filter::udp(0..=65535, [])))?;
    let mut sockets = Vec::new();
    for queue in 0..Device::named(&device)?.queues()?.current {
        // A memory for each: threads share nothing.
        let umem = Umem::new(&UmemConfig::default())?;
        let config = SocketConfig {
            tx_ring: 0,
            fill_ring: 4096,
            ..SocketConfig::default()
        };
        let socket = Socket::bind(&umem, &device, queue, &config)?;
        program.insert(queue, &socket)?;
        sockets.push((umem, socket));
    }
    let threads: Vec<_> = sockets
        .iter()
        .map(|(umem, socket)| {
            let (umem, (rx, _)) = (umem.clone(), socket.split()?);
            Ok(std::thread::spawn(move || receive(&umem, rx, end)))
        })
        .collect::<xsk::Result<_>>()?;
    let mut total = 0;
    for (thread, (_, socket)) in threads.into_iter().zip(&sockets) {
        let frames = thread.join().map_err(|_| "a thread panicked")??;
        println!("queue {}: {frames} frames, {:?}", socket.queue(), socket.statistics()?);
        total += frames;
    }
    println!(
        "{total} frames in {seconds} s ({}); {:?}",
        program.mode(),
        program.counters()?
    );
    Ok(())
}

fn receive(umem: &Arc<Umem>, rx: RxHalf, end: Instant) -> xsk::Result<usize> {
    let pool = Pool::new(umem, umem.config().frames)?;
    let mut rx = rx.over(&pool)?;
    rx.refill();
    let mut frames = 0;
    while Instant::now() < end {
        // A frame that is dropped goes back to the pool, and from there to the fill ring.
        let got = rx.receive(64, drop);
        frames += got;
        if got == 0 {
            rx.wait(Duration::from_millis(10))?;
        }
    }
    Ok(frames)
}
