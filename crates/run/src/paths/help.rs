//! Help on ports: the devices and options of each path, from the list. The tests below check the help against the
//! paths' parsers and the tables of the documentation.

use super::LIST;
use mpps_io::RxTime;
use std::fmt::Write;

/// Option of a port.
pub(super) struct PortOption {
    key: &'static str,
    /// `a|b|c`, or `LEAST to MOST`. Further conditions follow after a comma.
    values: &'static str,
    default: &'static str,
    meaning: &'static str,
}

/// Help text of a path.
pub(super) struct Help {
    pub(super) device: &'static str,
    /// Examples of ports, as they are written.
    pub(super) examples: &'static [&'static str],
    pub(super) options: &'static [PortOption],
    /// Further line of help; may be empty.
    pub(super) note: &'static str,
}

pub(super) const fn option(
    key: &'static str,
    values: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> PortOption {
    PortOption {
        key,
        values,
        default,
        meaning,
    }
}

pub(super) const SWITCH: &str = "on|off";
/// Option of paths whose ports take frames for other MAC addresses if the task needs these
/// ([`mpps_io::Task::promiscuous`]).
pub(super) const PROMISC: PortOption = option(
    "promisc",
    SWITCH,
    "off; forward, capture, two ports: on",
    "take frames for other MAC addresses, too",
);
pub(super) const MTU: PortOption = option("mtu", "68 to 65535", "1500", "largest IP packet, bytes");
pub(super) const LAYER: PortOption = option(
    "layer",
    "ethernet|payload",
    "ethernet",
    "whole frames, or UDP payloads only",
);

/// Option of paths on which packets can have a time of arrival that is not the lane's ([`mpps_io::Frame::rx_time_ns`]).
/// `hardware` is a word of it, and refused by all of them so far.
pub(super) const fn rx_time(default: RxTime, meaning: &'static str) -> PortOption {
    option("rx_time", "lane|kernel", default.name(), meaning)
}

/// Returns the help of an argument that is a port.
pub fn port_help() -> String {
    let examples: Vec<_> = LIST.iter().flat_map(|path| path.help.examples).copied().collect();
    format!("Port to use, PATH:DEVICE[,key=value…]: {}", examples.join(", "))
}

/// Columns of the text. A usual terminal has at least as many, so no terminal wraps the text again.
const COLUMNS: usize = 79;
/// Columns in front of the descriptions.
const LEFT: usize = 26;

/// Returns the whole help on ports, as text.
pub fn text() -> String {
    let mut out = String::from("A port is written PATH:DEVICE[,key=value…]. Each path has these options:\n");
    for path in LIST {
        // Writing to a String can't fail.
        let _ = writeln!(out, "\n{}:{}", path.name, path.help.device);
        for o in path.help.options {
            let line = format!("  {}={}", o.key, o.values.replace(" to ", ".."));
            let told = format!("{} [default: {}]", o.meaning, o.default);
            // After a long option, its description begins on the next line.
            let line = match line.chars().count() {
                n if n + 2 > LEFT => format!("{line}\n{:LEFT$}", ""),
                _ => format!("{line:<LEFT$}"),
            };
            let _ = writeln!(out, "{line}{}", folded(told.split(' '), LEFT, LEFT));
        }
        if !path.help.note.is_empty() {
            let _ = writeln!(out, "  {}", folded(path.help.note.split(' '), 2, 2));
        }
    }
    out.push_str("\ndocs/paths/README.md says which path suits what.");
    out
}

/// Returns the options and values of each path, in a few lines each, for the help of commands that take ports.
pub fn summary() -> String {
    const INDENT: usize = 12;
    let mut out = String::from("Options of ports (`mpps help ports` says what each does):");
    for path in LIST {
        let words = path.help.options.iter().enumerate().map(|(i, o)| {
            let comma = if i + 1 < path.help.options.len() { "," } else { "" };
            format!("{}={}{comma}", o.key, short(o.values))
        });
        let words: Vec<_> = words.collect();
        let words = folded(words.iter().map(String::as_str), INDENT, INDENT);
        let _ = write!(out, "\n  {:<9} {words}", path.name);
    }
    out
}

/// Wraps words into lines. The first line begins in column `at`, the others in column `indent`.
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

/// Shortens `64 to 65536, a power of two` to `64..65536`.
fn short(values: &str) -> String {
    let first = values.split(',').next().unwrap_or(values);
    first.replace(" to ", "..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fail::Failure;
    use crate::paths::Checked;
    use mpps_io::Task;

    /// Returns the answer of a path's parser to these options.
    fn parsed(path: &str, options: &str) -> Result<(), String> {
        let device = match path {
            // This option is refused without another one.
            "io_uring" if options.starts_with("sqpoll_cpu=") => "127.0.0.1,sqpoll=100,",
            "udp" | "io_uring" => "127.0.0.1,",
            "dpdk" => "mac=02:00:00:00:00:01,",
            // These options are refused without another one.
            "loop" if options.starts_with("queue=") => "capacity=1Mpps,",
            "loop" if options.starts_with("jitter_reorder=") => "jitter=1ms,",
            "null" | "loop" | "mirror" => "",
            _ => "lo,",
        };
        let spec = format!("{path}:{device}{options}")
            .parse()
            .expect("of the form of a port");
        match Checked::new(&spec, Task::Send) {
            Ok(_) => Ok(()),
            Err(Failure::Usage(line) | Failure::Failed(line)) => Err(line),
        }
    }

    #[test]
    fn the_help_names_just_the_options_that_the_paths_parsers_take() {
        for path in LIST {
            let refusal = parsed(path.name, "nonesuch=1").expect_err(path.name);
            let (_, takes) = refusal.rsplit_once("takes ").expect("the options that there are");
            let mut takes: Vec<_> = takes.split(", ").collect();
            let mut told: Vec<_> = path.help.options.iter().map(|o| o.key).collect();
            takes.sort_unstable();
            told.sort_unstable();
            assert_eq!(told, takes, "{}", path.name);
        }
    }

    #[test]
    fn the_values_in_the_help_are_those_that_the_parsers_take() {
        for path in LIST {
            for PortOption { key, values, .. } in path.help.options {
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
        for path in LIST {
            // The options are on a page of their own, or in a section of one.
            let (page, section) = match path.name {
                "null" | "loop" => ("paths/loop.md".to_owned(), Some(format!("\n## {}\n", path.name))),
                "mirror" => ("design/adding-a-path.md".to_owned(), Some("\n## mirror\n".to_owned())),
                name => (format!("paths/{name}.md"), None),
            };
            let text = read(&page);
            let section = match &section {
                None => text.as_str(),
                Some(heading) => {
                    let (_, from) = text.split_once(heading).unwrap_or_else(|| panic!("{page}: {heading}"));
                    from.split("\n## ").next().expect("one at least")
                }
            };
            let table = section
                .split_once("| option | values | default | meaning |")
                .expect("a table")
                .1;
            let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
            let keys = rows.flat_map(|row| row.split('|').nth(1).expect("a cell").split(','));
            let mut told: Vec<_> = keys.map(|key| key.trim().trim_matches('`').to_owned()).collect();
            let mut known: Vec<_> = path.help.options.iter().map(|o| o.key.to_owned()).collect();
            told.sort();
            known.sort();
            assert_eq!(told, known, "{}", path.name);
        }
    }
}
