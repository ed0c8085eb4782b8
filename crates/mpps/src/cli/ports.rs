//! What a port takes: the devices and options of each path, for the help. The tests below hold it to what the paths'
//! parsers accept and to the tables of the documentation.

use std::fmt::Write;

/// An option of a port.
struct PortOption {
    key: &'static str,
    /// `a|b|c`, or `LEAST to MOST`, with what else must hold behind a comma.
    values: &'static str,
    default: &'static str,
    meaning: &'static str,
}

/// A path.
struct Path {
    name: &'static str,
    device: &'static str,
    options: &'static [PortOption],
    /// A further line.
    note: &'static str,
}

const fn option(key: &'static str, values: &'static str, default: &'static str, meaning: &'static str) -> PortOption {
    PortOption {
        key,
        values,
        default,
        meaning,
    }
}

const SWITCH: &str = "on|off";
const MTU: PortOption = option("mtu", "68 to 65535", "1500", "largest IP packet, bytes");
const LAYER: PortOption = option(
    "layer",
    "ethernet|payload",
    "ethernet",
    "whole frames, or UDP payloads only",
);

const PATHS: [Path; 7] = [
    Path {
        name: "udp",
        device: "[ADDRESS[:PORT]]",
        options: &[
            option(
                "rcvbuf",
                "2K to 1024M",
                "4M, less with many sockets",
                "receive buffer of a socket",
            ),
            option(
                "sndbuf",
                "2K to 1024M",
                "256K; 4M with gso=on",
                "send buffer of a socket",
            ),
            option("busy_poll", "0 to 1000000", "the system's", "SO_BUSY_POLL, µs"),
            option(
                "gso",
                SWITCH,
                "off",
                "send runs of equal datagrams as one (UDP_SEGMENT)",
            ),
            option("gro", SWITCH, "off", "receive coalesced datagrams (UDP_GRO)"),
            option("sockets", "1 to 65536", "256", "most flows of each lane"),
        ],
        note: "",
    },
    Path {
        name: "af_packet",
        device: "INTERFACE",
        options: &[
            option(
                "ring",
                "64 to 1048576",
                "8192 to receive, 512 to send",
                "slots of each ring of each lane",
            ),
            option(
                "qdisc",
                "bypass|kernel",
                "bypass",
                "straight to the driver, or through traffic control",
            ),
            option(
                "fanout",
                "hash|cpu|lb|qm|rnd",
                "hash",
                "how packets are spread over receiving lanes",
            ),
            option("csum", "auto|software|device", "auto", "who computes UDP checksums"),
            option("promisc", SWITCH, "off", "take frames for other MAC addresses, too"),
            option(
                "guard",
                "auto|on|off",
                "auto",
                "keep test packets from the host's stack",
            ),
        ],
        note: "",
    },
    Path {
        name: "af_xdp",
        device: "INTERFACE",
        options: &[
            option(
                "mode",
                "auto|zerocopy|copy|skb",
                "auto",
                "how the kernel hands packets over",
            ),
            option(
                "queues",
                "1 to 64",
                "all; send: one a lane",
                "queues used, from `first` on",
            ),
            option("first", "0 to 63", "0", "the first queue used"),
            option(
                "ring",
                "64 to 65536, a power of two",
                "2048",
                "descriptors of each ring of a queue",
            ),
            option(
                "fill",
                "64 to 131072",
                "2048",
                "buffers that wait for packets, per queue",
            ),
            option("frames", "128 to 1048576", "what the rings hold", "buffers per queue"),
            option(
                "chunk",
                "2048 to 65536, a power of two",
                "what takes the MTU",
                "bytes of a buffer",
            ),
            option("headroom", "0 to 1024", "0", "bytes in front of each packet"),
            option("unaligned", SWITCH, "off", "buffers at any address"),
            option("pages", "normal|huge", "normal", "pages of the packet memory"),
            option("need_wakeup", SWITCH, "on", "the kernel says when it must be called"),
            option(
                "busy_budget",
                "1 to 65535",
                "no busy polling",
                "packets of one busy poll",
            ),
            option(
                "tx_budget",
                "1 to 65536",
                "ring",
                "packets sent by one system call in copy mode",
            ),
            option(
                "promisc",
                SWITCH,
                "off; forward, capture: on",
                "take frames for other MAC addresses, too",
            ),
            option("rx_time", SWITCH, "off", "the XDP program notes each packet's arrival"),
        ],
        note: "",
    },
    Path {
        name: "xdp",
        device: "INTERFACE",
        options: &[
            option(
                "mode",
                "auto|native|skb",
                "auto",
                "programs run in the driver, or on socket buffers",
            ),
            option("clock", "poll|packet", "poll", "when the time of arrival is read"),
            option(
                "check",
                "all|headers",
                "all",
                "what is verified of packets that come back",
            ),
            option(
                "batch",
                "1 to 256",
                "by --rate",
                "frames that the kernel makes at a time",
            ),
            option(
                "promisc",
                SWITCH,
                "off; forward: on",
                "take frames for other MAC addresses, too",
            ),
        ],
        note: "",
    },
    Path {
        name: "dpdk",
        device: "net_DRIVERn | PCI-ADDRESS | mac=MAC",
        options: &[
            option(
                "rxd",
                "32 to 32768",
                "what the driver prefers",
                "descriptors of each receive ring",
            ),
            option(
                "txd",
                "32 to 32768",
                "what the driver prefers",
                "descriptors of each transmit ring",
            ),
            option(
                "mbufs",
                "1024 to 16777216",
                "from rings and bursts",
                "packet buffers of each lane",
            ),
            option("mtu", "68 to 65000", "the device's", "largest IP packet, bytes"),
            option(
                "rss",
                "auto|udp|ip|off",
                "auto",
                "what the device hashes to choose the queue",
            ),
            option("csum", "auto|software|device", "auto", "who computes UDP checksums"),
            option(
                "promisc",
                SWITCH,
                "off; forward, capture: on",
                "take frames for other MAC addresses, too",
            ),
            option("link_wait", "0 to 3600", "10", "s that a sender waits for the link"),
        ],
        note: "Other options go to DPDK's driver: iface=eth1 (net_af_packet, net_af_xdp, net_tap), role=server (net_memif), …",
    },
    Path {
        name: "null",
        device: "",
        options: &[
            option("layer", LAYER.values, LAYER.default, LAYER.meaning),
            option("frames", "1 to 1048576", "1024", "buffers of each lane"),
            MTU,
        ],
        note: "",
    },
    Path {
        name: "loop",
        device: "",
        options: &[
            option("delay", "0 to 60s", "0", "from departure to arrival"),
            option("loss", "0 to 1, or percent", "0", "packets that do not come back"),
            option("duplicate", "0 to 1, or percent", "0", "packets that come back twice"),
            option(
                "reorder",
                "0 to 1, or percent",
                "0",
                "packets that others of their flow overtake",
            ),
            option("corrupt", "0 to 1, or percent", "0", "packets with one bit flipped"),
            option("reorder_distance", "1 to 65536", "1", "how many others"),
            option("seed", "0 to 18446744073709551615", "1", "seed of the choice"),
            option("reflect", SWITCH, "on", "exchange addresses and ports"),
            LAYER,
            option("frames", "1 to 1048576", "16384", "buffers of each lane"),
            MTU,
        ],
        note: "",
    },
];

/// Columns of the text: those of the smallest usual terminal, so that nobody wraps it again.
const COLUMNS: usize = 79;
/// Columns in front of the meanings.
const LEFT: usize = 26;

/// All of it, as text.
pub(crate) fn text() -> String {
    let mut out = String::from("A port is written PATH:DEVICE[,key=value…]. Each path has these options:\n");
    for path in &PATHS {
        // A String takes everything.
        let _ = writeln!(out, "\n{}:{}", path.name, path.device);
        for o in path.options {
            let line = format!("  {}={}", o.key, o.values.replace(" to ", ".."));
            let told = format!("{} [default: {}]", o.meaning, o.default);
            // A long line ends before its meaning, which has the next for itself.
            let line = match line.chars().count() {
                n if n + 2 > LEFT => format!("{line}\n{:LEFT$}", ""),
                _ => format!("{line:<LEFT$}"),
            };
            let _ = writeln!(out, "{line}{}", folded(told.split(' '), LEFT, LEFT));
        }
        if !path.note.is_empty() {
            let _ = writeln!(out, "  {}", folded(path.note.split(' '), 2, 2));
        }
    }
    out.push_str("\ndocs/paths.md says more.");
    out
}

/// The keys and values of each path, in a few lines each, for the help of the commands that take ports.
pub(crate) fn summary() -> String {
    const INDENT: usize = 12;
    let mut out = String::from("Options of ports (`mpps help ports` says what each does):");
    for path in &PATHS {
        let words = path.options.iter().enumerate().map(|(i, o)| {
            let comma = if i + 1 < path.options.len() { "," } else { "" };
            format!("{}={}{comma}", o.key, short(o.values))
        });
        let words: Vec<_> = words.collect();
        let words = folded(words.iter().map(String::as_str), INDENT, INDENT);
        let _ = write!(out, "\n  {:<9} {words}", path.name);
    }
    out
}

/// Words in lines; the first begins in column `at`, the others in column `indent`.
fn folded<'w>(words: impl Iterator<Item = &'w str>, mut at: usize, indent: usize) -> String {
    let mut out = String::new();
    for word in words {
        let length = word.chars().count();
        if out.is_empty() {
            at += length;
        } else if at + 1 + length > COLUMNS {
            let _ = write!(out, "\n{:indent$}", "");
            at = indent + length;
        } else {
            out.push(' ');
            at += 1 + length;
        }
        out.push_str(word);
    }
    out
}

/// `64..65536` of `64 to 65536, a power of two`.
fn short(values: &str) -> String {
    let first = values.split(',').next().unwrap_or(values);
    first.replace(" to ", "..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fail::Failure;
    use crate::plan::path::{PATHS as BUILT, PathConfig};

    /// What a path's parser says of these options.
    fn parsed(path: &str, options: &str) -> Result<(), String> {
        let device = match path {
            "udp" => "127.0.0.1,",
            "dpdk" => "mac=02:00:00:00:00:01,",
            "null" | "loop" => "",
            _ => "lo,",
        };
        let spec = format!("{path}:{device}{options}")
            .parse()
            .expect("of the form of a port");
        match PathConfig::of(&spec) {
            Ok(_) => Ok(()),
            Err(Failure::Usage(line) | Failure::Failed(line)) => Err(line),
        }
    }

    #[test]
    fn the_help_names_each_path_and_just_the_options_that_its_parser_takes() {
        assert_eq!(PATHS.map(|path| path.name), BUILT);
        for path in &PATHS {
            let refusal = parsed(path.name, "nonesuch=1").expect_err(path.name);
            let (_, takes) = refusal.rsplit_once("takes ").expect("the options that there are");
            let mut takes: Vec<_> = takes.split(", ").collect();
            let mut told: Vec<_> = path.options.iter().map(|o| o.key).collect();
            takes.sort_unstable();
            told.sort_unstable();
            assert_eq!(told, takes, "{}", path.name);
        }
    }

    #[test]
    fn the_values_in_the_help_are_those_that_the_parsers_take() {
        for path in &PATHS {
            for PortOption { key, values, .. } in path.options {
                let accepted = |value: &str| parsed(path.name, &format!("{key}={value}"));
                let values = values.split(',').next().expect("one at least");
                if let Some((least, most)) = values.split_once(" to ") {
                    for end in [least, most] {
                        assert_eq!(accepted(end), Ok(()), "{}: {key}={end}", path.name);
                    }
                    if let Some(beyond) = most.parse::<u64>().ok().and_then(|most| most.checked_add(1)) {
                        assert!(accepted(&beyond.to_string()).is_err(), "{}: {key}={beyond}", path.name);
                    }
                } else {
                    for value in values.split('|') {
                        assert_eq!(accepted(value), Ok(()), "{}: {key}={value}", path.name);
                    }
                    assert!(accepted("nonesuch").is_err(), "{}: {key}", path.name);
                }
            }
        }
    }

    #[test]
    fn the_documentation_describes_the_same_options() {
        let read = |page: &str| {
            let file = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"))
        };
        let (paths, dpdk) = (read("paths.md"), read("dpdk.md"));
        for path in &PATHS {
            let heading = format!("\n## {}\n", path.name);
            let (page, from) = match path.name {
                "dpdk" => (&dpdk, "\n"),
                _ => (&paths, heading.as_str()),
            };
            let section = page.split_once(from).unwrap_or_else(|| panic!("{heading}")).1;
            let section = match path.name {
                "dpdk" => section,
                _ => section.split("\n## ").next().expect("one at least"),
            };
            let table = section
                .split_once("| option | values | default | meaning |")
                .expect("a table")
                .1;
            let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
            let keys = rows.flat_map(|row| row.split('|').nth(1).expect("a cell").split(','));
            let mut told: Vec<_> = keys.map(|key| key.trim().trim_matches('`').to_owned()).collect();
            let mut known: Vec<_> = path.options.iter().map(|o| o.key.to_owned()).collect();
            told.sort();
            known.sort();
            assert_eq!(told, known, "{}", path.name);
        }
    }
}
