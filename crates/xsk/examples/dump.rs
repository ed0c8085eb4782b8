//! Prints the frames that reach a device's queue 0, with their times of arrival. The host doesn't see them.
//!
//! ```text
//! dump eth1 [COUNT]
//! ```
//!
//! Frames for the host itself are left to it.

use std::error::Error;
use std::time::Duration;

use xsk::{Filter, Pool, Program, ProgramConfig, Socket, SocketConfig, Umem, UmemConfig, device};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let device = words.next().ok_or("usage: dump DEVICE [COUNT]")?;
    let count: usize = words.next().map_or(Ok(usize::MAX), |word| word.parse())?;

    let umem = Umem::new(&UmemConfig::default())?;
    let config = SocketConfig {
        tx_ring: 0,
        ..SocketConfig::default()
    };
    let socket = Socket::bind(&umem, &device, 0, &config)?;
    let mut config = ProgramConfig::new(Filter::foreign(device::addresses(&device)?));
    config.rx_timestamp = true;
    let program = Program::attach(&device, &config)?;
    program.insert(0, &socket)?;

    let pool = Pool::new(&umem, 4096)?;
    let (rx, _) = socket.split()?;
    let mut rx = rx.over(&pool)?;
    rx.refill();
    let mut shown = 0;
    while shown < count {
        rx.wait(Duration::from_millis(100))?;
        shown += rx.receive((count - shown).min(64), |frame| {
            let time = frame.metadata_u64().unwrap_or_default();
            let start: Vec<String> = frame
                .bytes()
                .iter()
                .take(34)
                .map(|byte| format!("{byte:02x}"))
                .collect();
            println!(
                "{}.{:09} {} bytes: {}",
                time / 1_000_000_000,
                time % 1_000_000_000,
                frame.len(),
                start.join(" ")
            );
        });
    }
    Ok(())
}
