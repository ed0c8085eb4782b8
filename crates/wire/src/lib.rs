//! Headers, checksums, stamps and packet templates: pure functions over bytes.
//!
//! Everything here works on slices that somebody else owns, so that the same code builds and checks a packet on every
//! path, in tests and in fuzz targets. Nothing in this crate knows an operating system, nothing panics on bytes that
//! came from a wire, and no function that runs once per packet allocates.
//!
//! Two halves:
//! - the packet path: [`Template`] writes whole frames, [`check_udp`] (or its parts
//!   [`parse_udp`], [`udp_checksum_ok`], [`Stamp`] and [`verify_data`]) checks them, [`reflect_in_place`] turns them
//!   round;
//! - the slow path: [`parse_slow_path`] and the `build_` functions speak enough ARP, neighbour discovery and ICMP echo
//!   for test addresses that the host does not own.
//!
//! `docs/wire-format.md` describes the payload for other programs.
#![forbid(unsafe_code)]

pub mod arp;
pub mod bits;
pub mod capture;
pub mod changes;
pub mod check;
mod checker;
pub mod checksum;
pub mod data;
pub mod eth;
mod extensions;
pub mod forward;
pub mod headers;
pub mod icmp;
pub mod image;
pub mod ipv4;
pub mod ipv6;
pub mod loops;
pub mod mac;
pub mod ndp;
pub mod packet;
pub mod quoted;
pub mod reflect;
mod reflector;
pub mod segment;
pub mod size;
pub mod slow_path;
pub mod stamp;
pub mod tag;
pub mod tagged;
pub mod template;
pub mod udp;
pub mod vary;

mod bytes;

pub use arp::{build_arp_reply, build_arp_request};
pub use capture::{CaptureFilter, CaptureProtocol};
pub use check::{Checked, check_udp};
pub use checker::{Checker, Known};
pub use data::{base as random, fill_back, fill_data, verify_back, verify_data};
pub use forward::{Rewrite, ShortFrame, TakeFilter, complete_checksum, complete_open_checksum};
pub use icmp::answer_echo_in_place;
pub use image::{Image, ImageSpec};
pub use loops::{Look, Loops, PROBE_LEN, Source, make_probe_in_place};
pub use mac::{MacAddr, MacParseError};
pub use ndp::{build_neighbor_advert, build_neighbor_solicit, solicited_node_multicast};
pub use packet::{Reject, UdpPacket, parse_udp};
pub use quoted::{IcmpError, Quoted, parse_quoted};
pub use reflect::{Left, ReflectFilter, Untagged, reflect_closing_in_place, reflect_in_place};
pub use reflector::{Finish, Reflector};
pub use segment::Merged;
pub use size::FrameSize;
pub use slow_path::{MAX_SLOW_PATH_LEN, SlowPath, parse_slow_path};
pub use stamp::{STAMP_LEN, Stamp};
pub use tag::{Mark, TAG_FLOWS, TAG_LEN, Tag};
pub use template::{Blank, ChecksumMode, PayloadTemplate, Template, TemplateError, TemplateSpec};
pub use udp::{complete_udp_checksum, udp_checksum_ok, udp_checksum_open};
