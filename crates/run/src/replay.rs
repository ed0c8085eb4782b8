//! Capture files that runs send: opened, checked, kept in memory or read while they are sent, and made ready.

use mpps_io::Rate;
use mpps_replay::{
    Capture, Facts, Fault, Frames, Matcher, NotRead, NotSent, Opened, Preparation, Rewrite, Schedule, Selection,
};
use mpps_sys::memory::available;
use mpps_traffic::{Pcap, Wrong};
use mpps_wire::{FrameSize, Mark, Tag};
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Share of the available memory that a capture may take while it is read: it is there twice then.
const PART_OF_MEMORY: u64 = 3;
/// Most bytes of the packets that were read and not sent yet, of a capture that is read while it is sent.
const RINGS: u64 = 128 << 20;

/// Capture file, ready to be sent.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Frames.
    pub frames: Arc<Frames>,
    /// Their spacing, loops and speed.
    pub schedule: Schedule,
    /// Figures of the packets that were taken.
    pub facts: Facts,
    /// Times of its packets, ns after the first.
    dues: Arc<[u64]>,
    longest_untagged: usize,
    /// Arguments that it was made of.
    key: (Pcap, bool, usize, u64),
}

/// Opens a regular file.
fn open(path: &str) -> Result<File, String> {
    // A FIFO would have it wait.
    let now = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(now).open(path);
    let file = file.map_err(|error| format!("pcap {path}: {error}"))?;
    match file.metadata() {
        Ok(of) if of.is_file() => Ok(file),
        Ok(_) => Err(format!("pcap {path}: it is read more than once: want a file")),
        Err(error) => Err(format!("pcap {path}: {error}")),
    }
}

/// Returns the size of a capture file, bytes, and its SHA-256 as hexadecimal digits.
///
/// # Errors
/// Says why the file can't be read.
pub fn identity(path: &str) -> Result<(u64, String), String> {
    let hashed = Hashed::new(open(path)?);
    hashed.finish().map_err(|error| format!("pcap {path}: {error}"))
}

/// File whose size and SHA-256 are worked out as it is read.
struct Hashed {
    file: File,
    size: u64,
    hash: Sha256,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.hash.update(&buffer[..read]);
        self.size += read as u64;
        Ok(read)
    }
}

impl Hashed {
    fn new(file: File) -> Self {
        Self {
            file,
            size: 0,
            hash: Sha256::new(),
        }
    }

    /// Reads the rest of the file, and returns its size and SHA-256.
    fn finish(mut self) -> io::Result<(u64, String)> {
        let mut buffer = vec![0; 1 << 18];
        while self.read(&mut buffer)? > 0 {}
        let digits = self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok((self.size, digits))
    }
}

/// Checks size and SHA-256 of a file against those that it must have.
fn check_identity(pcap: &Pcap, file: Hashed) -> Result<(), String> {
    if pcap.size.is_none() && pcap.sha256.is_none() {
        return Ok(());
    }
    let (size, sha256) = file.finish().map_err(|error| format!("pcap {}: {error}", pcap.path))?;
    match pcap.size.is_some_and(|own| own != size) || pcap.sha256.as_ref().is_some_and(|own| *own != sha256) {
        true => Err(format!(
            "pcap {}: another file than it was: it has {size} bytes and the SHA-256 {sha256}",
            pcap.path
        )),
        false => Ok(()),
    }
}

/// File of a capture that is read again for each loop. It stays the same file, whatever happens to its name.
struct Again {
    path: String,
    file: File,
    /// Size in bytes, and when it was changed last.
    was: (u64, Option<SystemTime>),
}

/// Place in such a file.
struct AgainAt<'f>(&'f File, u64);

impl Read for AgainAt<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read_at(buffer, self.1)?;
        self.1 += read as u64;
        Ok(read)
    }
}

impl Again {
    fn new(path: &str) -> Result<Self, String> {
        let file = open(path)?;
        let was = state(&file).map_err(|error| format!("pcap {path}: {error}"))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            was,
        })
    }
}

fn state(file: &File) -> io::Result<(u64, Option<SystemTime>)> {
    let of = file.metadata()?;
    Ok((of.len(), of.modified().ok()))
}

impl Opened for Again {
    fn name(&self) -> &str {
        &self.path
    }

    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        match state(&self.file)? == self.was {
            true => Ok(Box::new(AgainAt(&self.file, 0))),
            false => Err(io::Error::other("the file changed while it was sent")),
        }
    }
}

/// Refusal of a capture.
enum NotKept {
    /// It takes more memory than it may.
    Memory(String),
    Wrong(String),
}

/// Capture that was read last, for streams that send the same packets of one file.
#[derive(Debug, Default)]
pub struct LastRead(Option<(Pcap, Arc<Capture>)>);

impl LastRead {
    /// Returns the packets of a file.
    fn read(&mut self, pcap: &Pcap, selection: &Selection, most: u64) -> Result<Arc<Capture>, NotKept> {
        // Keys that say which packets are read, of which file.
        let of = |pcap: &Pcap| Pcap {
            path: pcap.path.clone(),
            size: pcap.size,
            sha256: pcap.sha256.clone(),
            first: pcap.first,
            last: pcap.last,
            only: pcap.only.clone(),
            ..Pcap::default()
        };
        let key = of(pcap);
        if let Some((_, capture)) = self.0.as_ref().filter(|(read, _)| *read == key) {
            return Ok(Arc::clone(capture));
        }
        // The one before need not be there beside it.
        self.0 = None;
        let mut file = Hashed::new(open(&pcap.path).map_err(NotKept::Wrong)?);
        let capture = Capture::read(&mut file, selection, most).map_err(|error| {
            let line = format!("pcap {}: {error}", pcap.path);
            match error.fault {
                Fault::Memory(..) | Fault::NoMemory(_) => NotKept::Memory(line),
                _ => NotKept::Wrong(line),
            }
        })?;
        check_identity(pcap, file).map_err(NotKept::Wrong)?;
        let capture = Arc::new(capture);
        self.0 = Some((key, Arc::clone(&capture)));
        Ok(capture)
    }
}

/// Frames, figures of the file, and times of its packets, ns after the first.
type Kept = (Frames, Facts, Arc<[u64]>);

/// Makes frames of a capture in memory.
fn kept(capture: Result<Arc<Capture>, NotKept>, how: &Preparation, path: &str) -> Result<Kept, NotKept> {
    let capture = capture?;
    let facts = capture.facts();
    let wrong = |why: &dyn std::fmt::Display| NotKept::Wrong(format!("pcap {path}: {why}"));
    if let Some(fault) = capture.fault() {
        return Err(wrong(&format!("{fault}{}", want_last(facts.read))));
    }
    let frames = Frames::new(&capture, how).map_err(|why| match why {
        NotSent::Empty if facts.read > 0 => wrong(&format!(
            "none of its {} packets is sent: want other values in first, last or only",
            facts.read
        )),
        NotSent::Memory(..) => NotKept::Memory(format!("pcap {path}: {why}")),
        why => wrong(&why),
    })?;
    let dues = capture.packets().map(|packet| packet.due_ns).collect();
    Ok((frames, facts, dues))
}

/// Returns what would be right for a file with a fault behind so many packets.
fn want_last(packets: u64) -> String {
    match packets {
        0 => String::new(),
        read => format!(": want last = {read}, or a whole file"),
    }
}

/// Makes frames of a capture that is read while it is sent.
fn ahead(pcap: &Pcap, selection: &Selection, how: &Preparation) -> Result<(Frames, Facts), String> {
    let wrong = |why: &dyn std::fmt::Display| format!("pcap {}: {why}", pcap.path);
    let file = Again::new(&pcap.path)?;
    let same = file.file.try_clone().map_err(|error| wrong(&error))?;
    check_identity(pcap, Hashed::new(same))?;
    let how = Preparation {
        most: how.most.min(RINGS),
        ..how.clone()
    };
    Frames::ahead(Box::new(file), selection, &how).map_err(|why| match why {
        NotRead::File(error) => {
            let want = want_last(error.packet.saturating_sub(1));
            wrong(&format!("{error}{want}"))
        }
        why => wrong(&why),
    })
}

impl Replayed {
    /// Reads a capture file, for so many lanes that send. `tag`: its frames get tags, keyed by `seed`. `last`: the one
    /// that was read before. `sends`: nothing comes back, so that packets may be read while they are sent.
    ///
    /// # Errors
    /// Says what is wrong with the file, or with a key of the stream, and what would be right.
    pub fn read(
        pcap: &Pcap,
        (tag, sends): (bool, bool),
        lanes: usize,
        seed: u64,
        last: &mut LastRead,
    ) -> Result<Self, String> {
        let path = &pcap.path;
        let at = |key: &str, wrong: &Wrong| format!("{key}: {}", wrong.line);
        let only = pcap.only.as_ref().map(Matcher::of).transpose();
        let selection = Selection {
            numbers: pcap.first..=pcap.last.unwrap_or(u64::MAX),
            only: only.map_err(|wrong| at("only", &wrong))?,
        };
        let rewrite = match &pcap.rewrite {
            None => Rewrite::default(),
            Some(packet) => Rewrite::of(packet, seed).map_err(|wrong| at("rewrite", &wrong))?,
        };
        let most = available().map_or(u64::MAX, |memory| memory.bytes / PART_OF_MEMORY);
        let how = Preparation {
            rewrite: rewrite.tagging(pcap.vlans).shift_ports(pcap.shift),
            tag,
            pad: pcap.pad,
            lanes,
            most,
        };
        let kept = match pcap.ahead {
            true => Err(NotKept::Memory(
                "ahead: what comes back is compared with packets in memory: want send, or it left out".to_owned(),
            )),
            false => kept(last.read(pcap, &selection, most), &how, path),
        };
        let (frames, facts, dues) = match kept {
            Ok(kept) => kept,
            Err(NotKept::Memory(_)) if sends => {
                let (frames, facts) = ahead(pcap, &selection, &how)?;
                (frames, facts, Arc::default())
            }
            Err(NotKept::Memory(line) | NotKept::Wrong(line)) => return Err(line),
        };
        let longest_untagged = frames.longest_untagged();
        let schedule = Schedule::new(&facts, pcap.loops, pcap.speed);
        let schedule = match pcap.gap {
            Some(gap) => schedule.with_gap(u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX)),
            None => schedule,
        };
        Ok(Self {
            frames: Arc::new(frames),
            schedule,
            facts,
            longest_untagged,
            dues,
            key: (pcap.clone(), tag, lanes, seed),
        })
    }

    /// Returns whether [`Replayed::read`] with these arguments returned this.
    pub fn is_of(&self, pcap: &Pcap, tag: bool, lanes: usize, seed: u64) -> bool {
        let (own, own_tag, own_lanes, own_seed) = &self.key;
        (own, *own_tag, *own_lanes, *own_seed) == (pcap, tag, lanes, seed)
    }

    /// Returns the mean rate in its spacing; `None`: its packets have no time between them.
    pub fn rate(&self) -> Option<Rate> {
        let (num, den) = self.schedule.rate()?;
        Rate::new(num, den)
    }

    /// Returns the highest rate over `settle`, as a multiple of the mean rate.
    pub fn peak(&self, settle: Duration) -> f64 {
        let Some(rate) = self.rate() else { return 1.0 };
        let settle = settle.as_secs_f64().max(1e-3);
        // The speed of the replay over that of the capture.
        let own = self.facts.packets as f64 * 1e9 / self.schedule.period_ns().max(1) as f64;
        let window_ns = (settle * 1e9 * rate.pps() / own) as u64;
        let (mut from, mut most) = (0, 0);
        for to in 0..self.dues.len() {
            while self.dues[to] - self.dues[from] > window_ns {
                from += 1;
            }
            most = most.max(to + 1 - from);
        }
        (most as f64 / (rate.pps() * settle)).max(1.0)
    }

    /// Returns its smallest and its largest frame, bytes with FCS.
    pub fn sizes(&self) -> (usize, usize) {
        let lens = self.frames.lens();
        let with_fcs = |len: Option<&usize>| len.map_or(0, |len| len + FrameSize::FCS_LEN);
        (with_fcs(lens.first()), with_fcs(lens.last()))
    }

    /// Returns the mean size of its frames, bytes with FCS.
    pub fn mean_size(&self) -> f64 {
        self.frames.mean_len() + FrameSize::FCS_LEN as f64
    }

    /// Returns the bytes of the longest frame, without one VLAN tag of each, which an MTU does not count.
    pub fn longest_untagged(&self) -> usize {
        self.longest_untagged
    }

    /// Returns when so many packets have left in their spacing, at `num / den` packets per second on average: ns after
    /// the first.
    pub fn ends_ns(&self, packets: u64, (num, den): (u64, u64)) -> u64 {
        let schedule = self.schedule.at_rate(num, den);
        let last = packets.checked_sub(1).and_then(|last| schedule.place(last));
        last.map_or(0, |(lap, at)| {
            let due = match at + 1 == self.facts.packets {
                true => self.facts.span_ns,
                false => self.dues.get(at as usize).copied().unwrap_or(0),
            };
            schedule.due_ns(lap, due).saturating_add(1)
        })
    }

    /// Returns packet `n` of the replay as one lane sends it, and when it is due after the first, ns; `None` behind the
    /// last. Its tag has this run and the time at which it is due.
    pub fn packet(&self, n: u64, run: u8) -> Option<(u64, Vec<u8>)> {
        let (lap, at) = self.schedule.place(n)?;
        let due_ns = self.schedule.due_ns(lap, self.dues.get(at as usize).copied()?);
        let sent = self.frames.sent(0, n);
        let mut frame = vec![0; self.frames.lens()[self.frames.size(sent)]];
        self.frames.write(sent, &mut frame);
        if let Some((number, end)) = self.frames.tag_number(0, sent).zip(self.frames.tag_end(sent)) {
            let tag = Tag {
                number: number as u32,
                run,
                flow: 0,
                time_ns: due_ns,
                mark: Mark::Sent,
            };
            Frames::write_tag(&mut frame, end, &tag.bytes(self.key.3));
        }
        Some((due_ns, frame))
    }

    /// Returns the number of packets of all loops; `None`: they have no end.
    pub fn packets(&self) -> Option<u64> {
        self.schedule.packets()
    }
}
