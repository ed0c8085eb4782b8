//! `--lab`: a port that is the name of a path stands for that path's port in a lab.

use clap::{Arg, Command};
use mpps_host::lab::{Host, INTERFACE};
use mpps_run::paths;
use std::ffi::OsString;

/// The option.
pub(crate) const OPTION: &str = "--lab";

/// The device of a path on a host of a lab; `None`: no lab is for this path.
pub(crate) fn device(path: &str, host: Host) -> Option<&'static str> {
    let (_, demo) = paths::shown().find(|(name, _)| *name == path)?;
    Some(if demo.by_address { host.ipv4() } else { INTERFACE })
}

/// The words of a command line, with the port in full where it is the name of a path and `--lab` is given: `af_packet`
/// as `af_packet:eth1`, `af_xdp:mode=skb` as `af_xdp:eth1,mode=skb`. Other errors in them are reported by those
/// who read them.
pub(crate) fn named(command: &Command, mut words: Vec<OsString>) -> Vec<OsString> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    if !words[..end].iter().any(|word| word == OPTION) {
        return words;
    }
    let port = port_at(command, &words).and_then(|at| Some((at, in_full(words[at].to_str()?)?)));
    if let Some((at, port)) = port {
        words[at] = port.into();
    }
    words
}

fn in_full(word: &str) -> Option<String> {
    let (path, options) = word.split_once(':').unwrap_or((word, ""));
    let device = device(path, Host::A)?;
    match options {
        "" => Some(format!("{path}:{device}")),
        _ if options.split(',').next().is_some_and(|first| first.contains('=')) => {
            Some(format!("{path}:{device},{options}"))
        }
        _ => None,
    }
}

/// Where the first port stands among the words.
fn port_at(command: &Command, words: &[OsString]) -> Option<usize> {
    let sub = command.find_subcommand(words.get(1)?)?;
    let takes_value = |arg: &Arg| arg.get_action().takes_values();
    let named = |name: &str| {
        let is = |arg: &&Arg| arg.get_long() == Some(name);
        sub.get_arguments().chain(command.get_arguments()).find(is)
    };
    // Words such as the test of rfc2544 stand before it.
    let mut before = sub
        .get_positionals()
        .position(|arg| arg.get_id() == "port")
        .unwrap_or(0);
    let mut at = 2;
    while let Some(word) = words.get(at).and_then(|word| word.to_str()) {
        match word.strip_prefix("--") {
            Some("") => return Some(at + 1 + before).filter(|at| *at < words.len()),
            // The value is the next word, unless it is behind a sign of equality.
            Some(name) => at += 1 + usize::from(named(name).is_some_and(takes_value)),
            None if word.starts_with('-') && word.len() > 1 => at += 1,
            None if before > 0 => (before, at) = (before - 1, at + 1),
            None => return Some(at),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    fn told(line: &str) -> String {
        let words = named(&Cli::command(), line.split(' ').map(OsString::from).collect());
        words.join(&OsString::from(" ")).into_string().expect("UTF-8")
    }

    #[test]
    fn help_names_every_path_that_a_lab_has_a_port_of() {
        let command = Cli::command();
        let sendrecv = command.find_subcommand("sendrecv").expect("a command");
        let lab = sendrecv
            .get_arguments()
            .find(|arg| arg.get_long() == Some("lab"))
            .expect("an option");
        let help = lab.get_help().expect("a help").to_string();
        for (path, _) in paths::shown() {
            assert!(help.contains(path), "{path}: {help}");
        }
    }

    #[test]
    fn a_path_is_its_port_in_the_lab_wherever_it_stands() {
        for (line, port) in [
            ("mpps ndr af_packet --lab", "mpps ndr af_packet:eth1 --lab"),
            (
                "mpps ndr --lab --quick af_xdp:mode=skb",
                "mpps ndr --lab --quick af_xdp:eth1,mode=skb",
            ),
            (
                "mpps ndr --out af_packet -q --rate=1kpps xdp --lab",
                "mpps ndr --out af_packet -q --rate=1kpps xdp:eth1 --lab",
            ),
            (
                "mpps rfc2544 all --lab af_packet --quick",
                "mpps rfc2544 all --lab af_packet:eth1 --quick",
            ),
            (
                "mpps sendrecv --lab --rate 1kpps -- udp",
                "mpps sendrecv --lab --rate 1kpps -- udp:10.99.0.1",
            ),
        ] {
            assert_eq!(told(line), port);
        }
        for same in [
            "mpps ndr af_packet",
            "mpps sendrecv af_packet:eth0 --lab",
            "mpps sendrecv loop: --lab",
            "mpps sendrecv -- --lab",
            "mpps --lab",
            "mpps sendrecv --lab --rate",
        ] {
            assert_eq!(told(same), same);
        }
    }
}
