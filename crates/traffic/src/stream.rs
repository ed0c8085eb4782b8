//! One stream: a packet and what varies in it, its sizes, its load.

use crate::grammar::Packet;
use crate::pcap::Pcap;
use crate::size::Size;
use crate::text::{Read, Span, Wrong, quoted};
use crate::value::bytes;
use std::time::Duration;

/// Name of the stream of one packet, which nobody has named.
pub(crate) const PACKET: &str = "stream";
/// Name of the stream of one capture file, which nobody has named.
pub(crate) const CAPTURE: &str = "pcap";
/// Spacing of a capture's packets, at another rate.
pub(crate) const CAPTURED: &str = "captured";

/// Several fields that vary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    /// All go on with each flow, each in its own period.
    #[default]
    Together,
    /// Each combination is a flow; the last field goes on fastest.
    Combine,
}

/// Tag in the packets of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tag {
    /// Number, run, flow and time in the last 16 bytes of the innermost payload.
    #[default]
    Tail,
    /// Number in the sequence number of TCP.
    Tcp,
    /// None: packets are counted where they are sent.
    None,
}

/// Bytes of the payload before the tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fill {
    /// Function of seed, flow and number, which a receiver verifies.
    #[default]
    Data,
    /// These bytes again and again.
    Pattern(Vec<u8>),
}

/// Load of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Load {
    /// As much as goes.
    #[default]
    Most,
    /// Rate, as written.
    Rate(String),
    /// Share of the total rate, by weight.
    Weight(u32),
}

/// Packets in bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Packets of a burst.
    pub packets: u32,
    /// Time from the start of a burst to the start of the next.
    pub gap: Duration,
    /// Number of bursts; `None`: without end.
    pub count: Option<u32>,
}

/// Start of a stream after others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct After {
    /// Name of the stream that must have ended.
    pub stream: String,
}

/// Stream: packets of one form, with one load.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// Name, unique in its traffic.
    pub name: String,
    /// Packet; without headers if [`Stream::pcap`] is there.
    pub packet: Packet,
    /// Capture file whose packets are sent, in place of one packet.
    pub pcap: Option<Box<Pcap>>,
    /// Sizes of the frames; `None`: the smallest that holds headers and tag.
    pub size: Option<Size>,
    /// Bytes of the payload.
    pub fill: Fill,
    /// Tag.
    pub tag: Tag,
    /// How fields go on together.
    pub step: Step,
    /// Number of flows, if only the first are wanted.
    pub flows: Option<u32>,
    /// Load.
    pub load: Load,
    /// Whether a factor of all rates holds for this one.
    pub scale: bool,
    /// Number of packets.
    pub packets: Option<u64>,
    /// Start after the start of the run.
    pub start: Duration,
    /// Start after another stream.
    pub after: Option<After>,
    /// Packets in bursts.
    pub burst: Option<Burst>,
    /// Times that the stream runs.
    pub repeat: u32,
    /// Spacing of the packets: `constant`, `poisson`, `burst`, or, of a capture, `captured`.
    pub pacing: Option<String>,
    /// Group whose results are added up.
    pub group: Option<String>,
    /// Lanes that send it; empty: all.
    pub lanes: Vec<usize>,
    /// Percentiles of its own, also among many streams.
    pub track: bool,
    /// Port that it leaves by, and port that it arrives at; `None`: the first, and the other one of two.
    pub from: Option<usize>,
    /// Port that it arrives at.
    pub to: Option<usize>,
    /// Place of the packet's text, or of the stream.
    pub(crate) at: Span,
    /// Offset of the packet's first byte in the file, if it stands there as it is.
    pub(crate) text_at: Option<usize>,
}

impl Stream {
    /// Returns a stream of one packet, with the defaults of everything else.
    pub fn of(packet: Packet) -> Self {
        Self {
            name: PACKET.into(),
            packet,
            pcap: None,
            size: None,
            fill: Fill::Data,
            tag: Tag::Tail,
            step: Step::Together,
            flows: None,
            load: Load::Most,
            scale: true,
            packets: None,
            start: Duration::ZERO,
            after: None,
            burst: None,
            repeat: 1,
            pacing: None,
            group: None,
            lanes: Vec::new(),
            track: false,
            from: None,
            to: None,
            at: 0..0,
            text_at: None,
        }
    }
}

impl Stream {
    /// Returns whether packets of a capture leave in its spacing.
    pub fn is_timed(&self) -> bool {
        let as_captured = |pcap: &Pcap| self.load == Load::Most && self.pacing.is_none() && !pcap.flat_out;
        self.pacing.as_deref() == Some(CAPTURED) || self.pcap.as_deref().is_some_and(as_captured)
    }
}

impl Fill {
    /// Reads `data`, `zeros`, `ones`, `hex:0aff`, `text:abc`.
    pub(crate) fn read(text: &str, at: &Span) -> Read<Self> {
        let pattern = match text.split_once(':') {
            None if text == "data" => return Ok(Self::Data),
            None if text == "zeros" => vec![0],
            None if text == "ones" => vec![0xff],
            Some(("hex", hex)) => bytes(hex, at)?,
            Some(("text", text)) if !text.is_empty() => text.as_bytes().to_vec(),
            _ => {
                let line = format!(
                    "fill {}: want data, zeros, ones, hex:DIGITS or text:WORDS",
                    quoted(text)
                );
                return Err(Wrong::new(at.clone(), line));
            }
        };
        Ok(Self::Pattern(pattern))
    }
}
