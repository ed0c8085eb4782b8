//! Traffic as data: which packets, in which mix, by which schedule. A text for one packet ([`Packet`]), a file for many
//! streams ([`Traffic`]), both read with positions, then checked.
//!
//! Every field of a packet is a pure function of stream, flow number and packet number: [`Form::packet`] makes any
//! packet of a stream by itself, byte by byte. It is the slow and plain form, by which `mpps traffic show` and `pcap`
//! make packets and against which faster writers are tested.
//!
//! Nothing here asks the operating system, and nothing panics on what a user wrote.

#![forbid(unsafe_code)]

mod checks;
mod file;
mod form;
mod grammar;
mod headers;
mod node;
mod oracle;
mod order;
mod parts;
mod pcap;
mod rate;
mod schema;
mod show;
mod size;
mod stream;
mod text;
mod time;
mod value;

pub use file::{LONGEST, Traffic};
pub use form::{Form, Moment, OuterIp, Ranges, Vary, VlanTag};
pub use grammar::{Header, Packet};
pub use headers::HeaderKind;
pub use order::{Due, in_order};
pub use parts::{Carries, Part, PartPlace, PartValues};
pub use pcap::{Pcap, Speed, SpeedError, Vlans};
pub use rate::RateText;
pub use schema::schema;
pub use size::Size;
pub use stream::{After, Burst, Fill, Load, Step, Stream, Tag};
pub use text::{Span, Wrong};
pub use time::{no_time, time_ns};
pub use value::Source;

#[cfg(test)]
mod docs_tests;
