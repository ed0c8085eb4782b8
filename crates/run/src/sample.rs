//! `--sample-pcap`: one of every N frames of each lane, in a pcapng file that other programs may read during the run.
//!
//! Lanes copy frames into rings ([`SampleOptions`]), and the thread that writes a capture writes them to the file. The
//! option is one value for the whole run: its ports provide the names of interfaces, the plan creates the rings, and
//! the output takes the reading ends of the rings.

use crate::fail::{Result, usage};
use crate::paths::Checked;
use mpps_engine::SampleOptions;
use mpps_io::Layer;
use mpps_io::packet_ring::{PacketConsumer, packet_ring};
use mpps_report::{AtBegin, CaptureHeader, CaptureOptions, CaptureTotals, CaptureWriter, Notes};
use mpps_stats::{Remark, RemarkName, Summary, count};
use std::fmt;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Default of `n=`: one of this many frames of a lane is kept.
const EVERY: u64 = 1000;
/// Default and largest number of bytes kept of a frame, as in tcpdump and Wireshark.
const SNAP_LEN: usize = 262_144;
/// Memory for a lane's frames that are not written yet, bytes.
pub(crate) const RING_BYTES: usize = 4 << 20;

/// The option, and the data made from it for the run. Clones share these data.
#[derive(Clone, Debug)]
pub struct SamplePcap {
    /// File to write.
    pub file: PathBuf,
    every: u64,
    snap_len: usize,
    /// The option's value as the user wrote it.
    text: String,
    made: Arc<Mutex<Made>>,
}

#[derive(Debug, Default)]
struct Made {
    interfaces: Vec<CaptureHeader>,
    options: Option<SampleOptions>,
    consumers: Vec<PacketConsumer>,
}

impl fmt::Display for SamplePcap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl SamplePcap {
    /// Reads `FILE[,n=N][,snap=BYTES]`.
    ///
    /// # Errors
    /// One line that says which values are right.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let bad = || {
            format!(
                "want FILE, FILE,n=N (one of N frames, from 1 on) or FILE,n=N,snap=BYTES (1 to {SNAP_LEN} of each), \
                 such as watch.pcapng,n=1000"
            )
        };
        let (mut file, mut every, mut snap_len) = (text, None, None);
        while let Some((rest, option)) = file.rsplit_once(',') {
            let Some((key, value)) = option.split_once('=').filter(|_| !option.contains('/')) else {
                break;
            };
            match key {
                "n" if every.is_none() => every = Some(value.parse().ok().filter(|n| *n > 0).ok_or_else(bad)?),
                "snap" if snap_len.is_none() => {
                    let within = |n: &usize| (1..=SNAP_LEN).contains(n);
                    snap_len = Some(value.parse().ok().filter(within).ok_or_else(bad)?);
                }
                _ => return Err(bad()),
            }
            file = rest;
        }
        // The value looks like an option instead of a file name.
        if file.is_empty() || file.starts_with('-') && file != "-" {
            return Err(bad());
        }
        Ok(Self {
            file: file.into(),
            every: every.unwrap_or(EVERY),
            snap_len: snap_len.unwrap_or(SNAP_LEN),
            text: text.to_owned(),
            made: Arc::default(),
        })
    }

    /// Returns the file that frames are written to; `-`: standard output.
    pub fn file(&self) -> &Path {
        &self.file
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the ports of the run. Called before anything is opened.
    ///
    /// # Errors
    /// If frames would be written to a terminal.
    pub fn ask(&self, ports: &[&Checked]) -> Result<()> {
        if self.file == Path::new("-") && std::io::stdout().is_terminal() {
            return Err(usage(format!(
                "--sample-pcap {self}: standard output is a terminal: want a pipe, such as | tcpdump -n -r -, or a file"
            )));
        }
        let header = |port: &&Checked| CaptureHeader {
            interface: match port.spec.device.as_str() {
                "" => port.spec.path.clone(),
                device => device.to_owned(),
            },
            description: port.spec.to_string(),
            snap_len: self.snap_len as u32,
            filter: format!("1 of {} frames that a lane receives, and that it sends", self.every),
            payload: port.traits.layer == Layer::Payload,
            application: format!("mpps {}", env!("CARGO_PKG_VERSION")),
            ..CaptureHeader::default()
        };
        self.made().interfaces = ports.iter().map(header).collect();
        Ok(())
    }

    /// Returns the options for `lanes` lanes. A plan that is made again gets the rings of the first one.
    pub(crate) fn options(&self, lanes: usize) -> SampleOptions {
        let mut made = self.made();
        if made.options.as_ref().is_none_or(|options| options.rings.len() != lanes) {
            let (producers, consumers): (Vec<_>, Vec<_>) = (0..lanes)
                .map(|_| packet_ring(RING_BYTES))
                .map(|(producer, consumer)| (Mutex::new(Some(producer)), consumer))
                .unzip();
            made.options = Some(SampleOptions {
                every: self.every,
                snap_len: self.snap_len,
                rings: producers.into(),
            });
            made.consumers = consumers;
        }
        made.options.clone().expect("made above")
    }

    /// Opens the file. Called by the thread that writes the user's files, once the run is planned.
    ///
    /// # Errors
    /// If the file can't be opened.
    pub fn open(self) -> std::result::Result<Sampling, mpps_report::ReportError> {
        let mut made = self.made();
        let options = CaptureOptions {
            interfaces: made.interfaces.clone(),
            rotation: None,
        };
        let rings = std::mem::take(&mut made.consumers);
        let notes = Notes::new();
        let writer = CaptureWriter::create(&self.file, options, rings, notes.clone())?;
        drop(made);
        Ok(Sampling {
            notes,
            writer,
            asked: self,
        })
    }
}

/// Open sample file of a run.
pub struct Sampling {
    /// Notes on the file.
    pub notes: Notes,
    writer: CaptureWriter,
    asked: SamplePcap,
}

impl Sampling {
    /// Returns the event handler that truncates the file when the run begins.
    pub fn begins(&self) -> AtBegin<impl Fn() + Send + use<>> {
        AtBegin(self.writer.begin())
    }

    /// Waits for the writer and adds its results to the summary. Returns the reason if frames are missing in the file.
    pub fn end(self, summary: &mut Summary) -> Option<String> {
        // If a lane never ran, its ring is still here: close it.
        if let Some(options) = &self.asked.made().options {
            options
                .rings
                .iter()
                .for_each(|ring| drop(ring.lock().map(|mut ring| ring.take())));
        }
        let frames = summary.lanes.iter().map(|lane| lane.rx_packets + lane.tx_packets).sum();
        let sample = summary.sample.get_or_insert_default();
        let reader_gone = self.writer.reader_gone();
        let end = self.writer.finish(CaptureTotals {
            received: frames,
            taken: sample.received + sample.sent,
            dropped: sample.dropped_ring,
        });
        sample.written = end.written;
        sample.dropped_write = end.dropped;
        sample.bytes = end.bytes;
        sample.file = self.asked.file.display().to_string();
        sample.failure = end.failure;
        if sample.dropped_ring > 0 {
            let chosen = sample.received + sample.sent;
            let text = format!(
                "{} of {} frames of --sample-pcap are not in the file because it was written more slowly than they \
                 came: a larger n= takes fewer",
                count(sample.dropped_ring),
                count(chosen),
            );
            let remark = Remark::new(RemarkName::SampleIncomplete, text)
                .with("lacking_frames", sample.dropped_ring)
                .with("frames", chosen);
            summary.warnings.push(remark);
        }
        let failure = sample.failure.as_ref()?;
        // A reader may close a pipe when it has read enough: that is no error.
        (!reader_gone.load(Ordering::Relaxed)).then(|| match sample.dropped_write {
            0 => format!("sample-pcap: {failure}"),
            n => format!("sample-pcap: {failure}; {} frames are not in the file", count(n)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_with_its_options_and_refused_with_what_would_be_right() {
        let read = |text: &str| SamplePcap::parse(text).map(|of| (of.file, of.every, of.snap_len));
        assert_eq!(read("a.pcapng"), Ok(("a.pcapng".into(), EVERY, SNAP_LEN)));
        assert_eq!(read("-,n=10"), Ok(("-".into(), 10, SNAP_LEN)));
        assert_eq!(read("a,b.pcapng,snap=96,n=1"), Ok(("a,b.pcapng".into(), 1, 96)));
        assert_eq!(read("a,x=1/b.pcapng"), Ok(("a,x=1/b.pcapng".into(), EVERY, SNAP_LEN)));
        for bad in [
            "",
            ",n=1",
            "a,n=0",
            "a,n=",
            "a,n=x",
            "a,n=1,n=2",
            "a,m=1",
            "a,snap=0",
            "a,snap=262145",
            "a,n=-1",
            "--quiet",
        ] {
            let told = read(bad).expect_err(bad);
            assert!(
                told.contains("FILE,n=N") && told.contains("watch.pcapng,n=1000"),
                "{bad}: {told}"
            );
        }
    }

    #[test]
    fn a_plan_that_is_made_again_has_the_rings_of_the_first() {
        let of = SamplePcap::parse("a").expect("right");
        let (first, again) = (of.options(2), of.clone().options(2));
        assert!(Arc::ptr_eq(&first.rings, &again.rings));
        assert_eq!(of.made().consumers.len(), 2);
    }
}
