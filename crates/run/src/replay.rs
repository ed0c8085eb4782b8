//! Capture files that runs send: opened, checked, kept in memory, and made ready.

use mpps_io::Rate;
use mpps_replay::{Capture, Facts, Frames, Matcher, NotSent, Preparation, Rewrite, Schedule, Selection};
use mpps_sys::memory::available;
use mpps_traffic::{Pcap, Wrong};
use mpps_wire::{FrameSize, Mark, Tag};
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::time::Duration;

/// Share of the available memory that a capture may take while it is read: it is there twice then.
const PART_OF_MEMORY: u64 = 3;

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
    identity_of(&mut open(path)?).map_err(|error| format!("pcap {path}: {error}"))
}

fn identity_of(file: &mut File) -> std::io::Result<(u64, String)> {
    let (mut hash, mut size, mut buffer) = (Sha256::new(), 0u64, vec![0; 1 << 18]);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => {
                hash.update(&buffer[..read]);
                size += read as u64;
            }
        }
    }
    file.rewind()?;
    let digits = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((size, digits))
}

impl Replayed {
    /// Reads a capture file, for so many lanes that send. `tag`: its frames get tags, keyed by `seed`.
    ///
    /// # Errors
    /// Says what is wrong with the file, or with a key of the stream, and what would be right.
    pub fn read(pcap: &Pcap, tag: bool, lanes: usize, seed: u64) -> Result<Self, String> {
        let path = &pcap.path;
        let wrong = |why: &dyn std::fmt::Display| format!("pcap {path}: {why}");
        let mut file = open(path)?;
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
        let capture = Capture::read(&mut file, &selection, most).map_err(|error| wrong(&error))?;
        // Afterwards: what was read is what the sum is of.
        if pcap.size.is_some() || pcap.sha256.is_some() {
            let (size, sha256) = file
                .rewind()
                .and_then(|()| identity_of(&mut file))
                .map_err(|error| wrong(&error))?;
            if pcap.size.is_some_and(|own| own != size) || pcap.sha256.as_ref().is_some_and(|own| *own != sha256) {
                return Err(wrong(&format!(
                    "another file than it was: it has {size} bytes and the SHA-256 {sha256}"
                )));
            }
        }
        if let Some(fault) = capture.fault() {
            let want = match capture.facts().read {
                0 => String::new(),
                read => format!(": want last = {read}, or a whole file"),
            };
            return Err(wrong(&format!("{fault}{want}")));
        }
        let how = Preparation {
            rewrite: rewrite.tagging(pcap.vlans).shift_ports(pcap.shift),
            tag,
            pad: pcap.pad,
            lanes,
            most,
        };
        let facts = capture.facts();
        let frames = Frames::new(&capture, &how).map_err(|why| match why {
            NotSent::Empty if facts.read > 0 => wrong(&format!(
                "none of its {} packets is sent: want other values in first, last or only",
                facts.read
            )),
            why => wrong(&why),
        })?;
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
            dues: capture.packets().map(|packet| packet.due_ns).collect(),
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
            let due = self.dues.get(at as usize).copied().unwrap_or(0);
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
