//! Values of the options of `forward`.

use super::capture;
use crate::values;
use mpps_io::Work;
use mpps_wire::MacAddr;

/// Most ports of a run.
pub const MOST_PORTS: usize = 16;

/// Change to a forwarded frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// None.
    Io,
    /// Source and destination MAC addresses change places.
    MacSwap,
    /// MAC addresses, IP addresses and ports change places.
    FiveTupleSwap,
    /// Source and destination MAC addresses are replaced.
    L2Forward,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Io, Self::MacSwap, Self::FiveTupleSwap, Self::L2Forward];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::MacSwap => "macswap",
            Self::FiveTupleSwap => "5tswap",
            Self::L2Forward => "l2fwd",
        }
    }
}

/// Frames that are taken from the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Take {
    /// All frames except those for the host's own addresses.
    #[default]
    Foreign,
    /// UDP frames, by address and port.
    Udp,
    /// Every frame.
    All,
}

impl Take {
    /// All choices.
    pub const ALL: [Self; 3] = [Self::Foreign, Self::Udp, Self::All];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::Udp => "udp",
            Self::All => "all",
        }
    }
}

/// MAC addresses: one for all ports, or one per port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Macs(pub Vec<MacAddr>);

/// Parses the name of a mode.
pub fn mode(text: &str) -> Result<Mode, String> {
    let found = Mode::ALL.into_iter().find(|mode| mode.name() == text);
    found.ok_or_else(|| format!("want one of {}", Mode::ALL.map(Mode::name).join(", ")))
}

/// Parses the choice of packets to take.
pub fn take(text: &str) -> Result<Take, String> {
    let found = Take::ALL.into_iter().find(|take| take.name() == text);
    found.ok_or_else(|| format!("want one of {}", Take::ALL.map(Take::name).join(", ")))
}

/// Longest time of work on a frame, ns: work on the largest bursts then takes 26 ms.
const LONGEST_WORK: u64 = 100_000;
/// Most words that are read, and most that are written, per frame.
const MOST_WORDS: u32 = 1000;
const WORK_MEMORY: u64 = 64 << 20;
const MOST_WORK_MEMORY: u64 = 4 << 30;

/// Parses the work on each frame.
pub fn work(text: &str) -> Result<Work, String> {
    let mut words = text.split(',');
    let mut work = Work {
        ns: work_ns(words.next().unwrap_or_default())?,
        ..Work::default()
    };
    let mut memory = None;
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let count = || value.parse().ok().filter(|n| *n <= MOST_WORDS);
        let many = || format!("{word}: want a number up to {MOST_WORDS}, such as {key}=4");
        match key {
            "reads" => work.reads = count().ok_or_else(many)?,
            "writes" => work.writes = count().ok_or_else(many)?,
            "memory" => {
                let bytes = capture::bytes(value).filter(|n| (1..=MOST_WORK_MEMORY).contains(n));
                memory = Some(bytes.ok_or_else(|| format!("{word}: want a size up to 4GiB, such as memory=64MiB"))?);
            }
            _ => return Err(format!("'{word}': want reads=N, writes=N or memory=SIZE")),
        }
    }
    match memory {
        Some(_) if work.reads + work.writes == 0 => {
            Err("memory= is for reads and writes: want reads=N or writes=N as well".to_owned())
        }
        _ if work == Work::default() => Err("that is none: want a time above 0, reads=N or writes=N".to_owned()),
        memory => {
            if work.reads + work.writes > 0 {
                work.memory = memory.unwrap_or(WORK_MEMORY) as usize;
            }
            Ok(work)
        }
    }
}

fn work_ns(text: &str) -> Result<u64, String> {
    let ns = match text.strip_suffix("ns") {
        Some(number) => number.parse().ok(),
        None => values::time_ns(text).or((text == "0").then_some(0)),
    };
    ns.filter(|ns| *ns <= LONGEST_WORK)
        .ok_or_else(|| format!("'{text}': want a time from 0 to 100us with its unit (ns, us), such as 200ns"))
}

/// Parses a list of MAC addresses.
pub fn macs(text: &str) -> Result<Macs, String> {
    let macs: Vec<_> = text.split(',').map(values::mac).collect::<Result<_, _>>()?;
    match macs.len() {
        1..=MOST_PORTS => Ok(Macs(macs)),
        n => Err(format!(
            "{n} addresses: want one, or one for each port ({MOST_PORTS} at the most)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_refused() {
        for known in Mode::ALL {
            assert_eq!(mode(known.name()), Ok(known));
        }
        for known in Take::ALL {
            assert_eq!(take(known.name()), Ok(known));
        }
        assert!(mode("mac").unwrap_err().contains("io, macswap, 5tswap, l2fwd"));
        assert!(take("").unwrap_err().contains("foreign, udp, all"));
    }

    #[test]
    fn work_is_a_time_and_accesses_to_a_memory() {
        let of = |ns, reads, writes, memory| {
            Ok(Work {
                ns,
                reads,
                writes,
                memory,
            })
        };
        assert_eq!(work("200ns"), of(200, 0, 0, 0));
        assert_eq!(work("1.5us"), of(1500, 0, 0, 0));
        assert_eq!(work("0,reads=4"), of(0, 4, 0, 64 << 20));
        assert_eq!(
            work("100us,writes=1000,reads=2,memory=1GiB"),
            of(100_000, 2, 1000, 1 << 30)
        );
        for (bad, part) in [
            ("200", "'200'"),
            ("0", "none"),
            ("0ns,reads=0", "none"),
            ("101us", "100us"),
            ("-1ns", "'-1ns'"),
            ("1us,reads=1001", "reads=1001: want a number up to 1000"),
            ("1us,reads", "reads: want a number"),
            ("1us,memory=1MB", "reads=N or writes=N as well"),
            ("1us,reads=1,memory=5GiB", "up to 4GiB"),
            ("1us,reads=1,memory=0", "want a size"),
            ("1us,loops=3", "'loops=3'"),
            ("reads=3", "'reads=3': want a time"),
        ] {
            let said = work(bad).expect_err(bad);
            assert!(said.contains(part), "{bad}: {said}");
        }
    }

    #[test]
    fn mac_addresses_are_read_up_to_one_for_each_port() {
        let list = |n: usize| vec!["02:00:00:00:00:01"; n].join(",");
        for n in [1, 2, MOST_PORTS] {
            assert_eq!(macs(&list(n)).unwrap().0.len(), n);
        }
        for bad in ["", "02:00:00:00:00:01,", "ff:ff:ff:ff:ff:ff", &list(MOST_PORTS + 1)] {
            assert!(macs(bad).is_err(), "{bad}");
        }
    }
}
