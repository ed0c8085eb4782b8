//! Names for the numbers and addresses that the kernel reports.

use crate::abi::{REDIRECT, SOCKET_COPY, SOCKET_FULL};
use crate::btf::Types;
use mpps_sys::proc_stat::shown;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};

/// A packet socket had no room, and no other socket took the packet; the kernel's own name.
const PACKET_SOCKET: &str = "PACKET_SOCK_ERROR";
/// A packet socket had no room for its copy: the packet itself went on.
pub const PACKET_SOCKET_COPY: &str = "PACKET_SOCK_COPY";
/// An XDP program could not hand a packet on. It is not known whose packet it was.
pub const XDP_REDIRECT: &str = "XDP_REDIRECT";

/// Returns the name of a soft interrupt: `include/linux/interrupt.h`.
pub(crate) fn softirq(vector: u32) -> String {
    const NAMES: [&str; 10] = [
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
    ];
    let name = NAMES.get(vector as usize);
    name.map_or_else(|| format!("softirq {vector}"), |&name| name.to_owned())
}

/// Returns the name of an interrupt of the processor's own, as `bpf/watch.h` numbers them.
pub(crate) fn vector(number: u32) -> String {
    const NAMES: [&str; 5] = [
        "local_timer",
        "reschedule",
        "call_function",
        "call_function_single",
        "irq_work",
    ];
    let name = NAMES.get(number as usize);
    name.map_or_else(|| format!("vector {number}"), |&name| name.to_owned())
}

/// Returns text of the kernel that ends with a zero byte or fills its room. Other programs choose the names of their
/// threads, so the text is made safe to show.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    shown(&bytes[..end])
}

/// Names that are looked up once.
#[derive(Debug, Default)]
pub(crate) struct Names {
    irqs: HashMap<u32, String>,
    reasons: HashMap<u32, String>,
    symbols: Symbols,
}

impl Names {
    /// Reads the reasons of drops as this kernel numbers them. With `symbols` it also reads the names of the kernel's
    /// functions, if the process may read them.
    pub(crate) fn new(types: &Types<'_>, symbols: bool) -> Self {
        let short = |(number, name): (u32, String)| {
            let name = name
                .strip_prefix("SKB_DROP_REASON_")
                .or(name.strip_prefix("SKB_"))
                .unwrap_or(&name)
                .to_owned();
            (number, name)
        };
        Self {
            irqs: HashMap::new(),
            reasons: types.enumeration("skb_drop_reason").into_iter().map(short).collect(),
            symbols: if symbols { Symbols::read() } else { Symbols::default() },
        }
    }

    /// Returns the name of an interrupt: the driver of its device, else its number.
    pub(crate) fn irq(&mut self, number: u32) -> &str {
        self.irqs.entry(number).or_insert_with(|| {
            let file = std::fs::read_to_string(format!("/sys/kernel/irq/{number}/actions"));
            let name = file.map(|text| text.trim().to_owned()).unwrap_or_default();
            if name.is_empty() { format!("irq {number}") } else { name }
        })
    }

    /// Returns the name of a reason for a drop. The upper half of the number is the part of the kernel that defines the
    /// lower half.
    pub(crate) fn reason(&self, number: u32) -> String {
        match self.reasons.get(&number) {
            _ if number == SOCKET_FULL as u32 => PACKET_SOCKET.to_owned(),
            _ if number == SOCKET_COPY as u32 => PACKET_SOCKET_COPY.to_owned(),
            _ if number == REDIRECT as u32 => XDP_REDIRECT.to_owned(),
            Some(name) => name.clone(),
            None if number >> 16 != 0 => format!("{}:{}", number >> 16, number & 0xffff),
            None if number == 0 => "NOT_SPECIFIED".to_owned(),
            None => format!("reason {number}"),
        }
    }

    /// Returns the name of a place in the kernel: the function, else the address. If the kernel hides both, returns
    /// `[kernel]`.
    pub(crate) fn place(&self, address: u64) -> String {
        let hidden = self.symbols.at.is_empty().then_some("[kernel]");
        let name = self.symbols.name(address).or(hidden);
        name.map_or_else(|| format!("{address:#x}"), str::to_owned)
    }
}

/// Functions of the kernel.
#[derive(Debug, Default)]
struct Symbols {
    /// Address of each function, and the start of its name, in order.
    at: Vec<(u64, u32)>,
    names: String,
}

impl Symbols {
    /// Reads `/proc/kallsyms`; empty if it shows no addresses (it needs `CAP_SYSLOG`).
    fn read() -> Self {
        std::fs::File::open("/proc/kallsyms").map_or_else(|_| Self::default(), |file| Self::parse(BufReader::new(file)))
    }

    fn parse(text: impl BufRead) -> Self {
        let mut all = Self::default();
        for line in text.lines().map_while(Result::ok) {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else {
                continue;
            };
            if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
                continue;
            }
            let Ok(start) = u32::try_from(all.names.len()) else {
                break;
            };
            all.at.push((address, start));
            all.names.push_str(name);
            all.names.push('\n');
        }
        all.at.sort_by_key(|&(address, _)| address);
        all
    }

    fn name(&self, address: u64) -> Option<&str> {
        let after = self.at.partition_point(|&(at, _)| at <= address);
        let &(_, start) = self.at.get(after.checked_sub(1)?)?;
        self.names.get(start as usize..)?.lines().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_by_the_function_that_holds_it() {
        let text = "0000 T nobody\nffff00 T second\nff0000 t first\nff8000 D data\nffff00 x\nbroken\n\n";
        let symbols = Symbols::parse(text.as_bytes());
        assert_eq!(symbols.name(0xff0000), Some("first"));
        assert_eq!(symbols.name(0xff9000), Some("first"));
        assert_eq!(symbols.name(0xffff10), Some("second"));
        assert_eq!(symbols.name(1), None);
    }

    #[test]
    fn what_has_no_name_is_shown_by_number() {
        let mut names = Names::default();
        assert_eq!(names.irq(99_999), "irq 99999");
        assert_eq!(names.reason(3 << 16 | 7), "3:7");
        assert_eq!(names.reason(900), "reason 900");
        assert_eq!(names.place(0xabc), "[kernel]");
        names.symbols = Symbols::parse("ff0000 t first\n".as_bytes());
        assert_eq!(names.place(0xabc), "0xabc");
        assert_eq!(
            (softirq(3), vector(0), softirq(77)),
            ("NET_RX".into(), "local_timer".into(), "softirq 77".into())
        );
        assert_eq!(text(b"udp\0\0\0"), "udp");
        assert_eq!(text(b"full"), "full");
        assert_eq!(text(b"\x1b[2Jx\n\0"), "\u{fffd}[2Jx");
    }
}
