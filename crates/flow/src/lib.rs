//! Flow rules in testpmd's words: `ingress pattern eth / ipv4 / udp dst is 9000 / end actions queue index 1 / end`.
//!
//! The rule is data: parsed and checked here, applied by code that can (a poll-mode driver's rte_flow, an ntuple
//! filter). No OS and no device is known here.

#![forbid(unsafe_code)]

mod actions;
mod bits;
mod display;
mod fields;
mod layers;
mod parse;
mod rule;
mod value;

pub use bits::Bits;
pub use parse::RuleError;
pub use rule::{Action, Attributes, EthMatch, Ipv4Match, Ipv6Match, Item, Masked, PortMatch, Rule, VlanMatch};
