//! Combinations of settings of one run.

use super::operand::{Typed, split, typed};
use crate::cli::Cli;
use crate::fail::{Result, usage};
use clap::CommandFactory;
use mpps_io::PortSpec;
use mpps_methods::compare::Setting;
use std::ffi::OsString;

/// Most combinations: each is run in every round.
const MOST: usize = 64;

/// Target of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// An option of the command that has a value.
    Option,
    /// An option of the command that is there or not.
    Flag,
    /// An option of its ports.
    Port,
}

impl Of {
    /// Returns the target that has the key in this workload. The command comes first.
    pub(super) fn find(key: &str, workload: &str) -> Self {
        let command = Cli::command();
        let command = command.find_subcommand(workload);
        let arg = command.and_then(|command| command.get_arguments().find(|arg| arg.get_long() == Some(key)));
        match arg.map(|arg| arg.get_action().takes_values()) {
            Some(true) => Self::Option,
            Some(false) => Self::Flag,
            None => Self::Port,
        }
    }

    /// Returns the words for people.
    pub(super) fn words(self, key: &str) -> String {
        match self {
            Self::Option | Self::Flag => format!("option --{key}"),
            Self::Port => format!("option {key} of the port"),
        }
    }
}

/// All combinations, as runs; the first has the first value of each setting.
pub(super) fn combinations(base: &Typed, settings: &[Setting]) -> Result<Vec<Typed>> {
    for (at, setting) in settings.iter().enumerate() {
        if settings[..at].iter().any(|other| other.key == setting.key) {
            let key = &setting.key;
            return Err(usage(format!(
                "--settings {key}=: it is given twice: want all its values in one, {key}=1|2"
            )));
        }
    }
    let count = settings.iter().map(|setting| setting.values.len()).product::<usize>();
    if count > MOST {
        return Err(usage(format!(
            "--settings: {count} combinations: want {MOST} at the most; try settings that have nothing to do with each \
             other one after another"
        )));
    }
    let mut all = vec![(base.words.clone(), Vec::new())];
    for setting in settings {
        let of = Of::find(&setting.key, base.workload());
        let mut more = Vec::new();
        for (words, chosen) in &all {
            for value in &setting.values {
                let text = format!("{}={value}", setting.key);
                let words = with(words, base, of, &setting.key, value)
                    .map_err(|why| usage(format!("--settings '{text}': {why}")))?;
                let chosen: Vec<String> = chosen.iter().cloned().chain([value.clone()]).collect();
                more.push((words, chosen));
            }
        }
        all = more;
    }
    let named = |(words, chosen): (Vec<OsString>, Vec<String>)| {
        let pairs = settings.iter().zip(&chosen);
        let name = pairs.map(|(setting, value)| format!("{}={value}", setting.key));
        let name = name.collect::<Vec<_>>().join(" ");
        let text = words
            .iter()
            .map(|word| quoted(&word.to_string_lossy()))
            .collect::<Vec<_>>();
        let made = typed(&name, &text.join(" "), words);
        let mut made = made.map_err(|failure| failure.of(format!("--settings '{name}'")))?;
        made.variant.chosen = chosen;
        Ok(made)
    };
    all.into_iter().map(named).collect()
}

/// The command line with a setting, in place of what it had.
fn with(
    words: &[OsString],
    base: &Typed,
    of: Of,
    key: &str,
    value: &str,
) -> std::result::Result<Vec<OsString>, String> {
    let option = format!("--{key}");
    let assigned = format!("{option}=");
    match of {
        Of::Option | Of::Flag => {
            let mut all = Vec::new();
            let mut rest = words.iter();
            while let Some(word) = rest.next() {
                let text = word.to_string_lossy();
                if text == "--" {
                    all.push(word.clone());
                    all.extend(rest.cloned());
                    break;
                }
                if text == option && of == Of::Option {
                    rest.next();
                } else if text != option && !text.starts_with(&assigned) {
                    all.push(word.clone());
                }
            }
            let word = match (of, value) {
                (Of::Option, _) => Some(format!("{assigned}{value}")),
                (_, "on" | "true" | "yes") => Some(option),
                (_, "off" | "false" | "no") => None,
                _ => return Err("it has no values: want on or off".to_owned()),
            };
            // Behind the workload: the ports of a plan are the last, after `--`.
            if let Some(word) = word {
                all.insert(1, word.into());
            }
            Ok(all)
        }
        Of::Port => {
            let ports = base.variant.plan.fields().specs();
            let mut all = words.to_vec();
            let mut found = false;
            for word in &mut all {
                let text = word.to_string_lossy().into_owned();
                let Ok(mut port) = text.parse::<PortSpec>() else {
                    continue;
                };
                // Settings before this one have changed the ports, not what they open.
                let is_port = |known: &PortSpec| known.path == port.path && known.device == port.device;
                if !ports.iter().any(is_port) {
                    continue;
                }
                found = true;
                port.options.retain(|(name, _)| name != key);
                port.options.push((key.to_owned(), value.to_owned()));
                let options: Vec<_> = port
                    .options
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                let comma = if port.device.is_empty() { "" } else { "," };
                *word = format!("{}:{}{comma}{}", port.path, port.device, options.join(",")).into();
            }
            match found {
                true => Ok(all),
                false => Err("no option of the command, and no port was found to give it to".to_owned()),
            }
        }
    }
}

/// A word as it is typed.
fn quoted(word: &str) -> String {
    match split(word) {
        Ok(same) if same == [word] && !word.contains(['$', '`', '*', '?', ';', '&', '|', '<', '>', '(', '#', '~']) => {
            word.to_owned()
        }
        _ => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(text: &str) -> Typed {
        let words = split(text).unwrap().into_iter().map(OsString::from).collect();
        typed("A", text, words).unwrap()
    }

    fn setting(key: &str, values: &[&str]) -> Setting {
        Setting {
            key: key.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        }
    }

    #[test]
    fn each_combination_is_a_command_line() {
        let base = base("sendrecv loop:queue=10,capacity=1Mpps --burst 8 --rate 1kpps");
        let settings = [setting("queue", &["20", "30"]), setting("burst", &["16", "32"])];
        let all = combinations(&base, &settings).unwrap();
        let texts: Vec<_> = all.iter().map(|typed| typed.variant.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "sendrecv --burst=16 loop:capacity=1Mpps,queue=20 --rate 1kpps",
                "sendrecv --burst=32 loop:capacity=1Mpps,queue=20 --rate 1kpps",
                "sendrecv --burst=16 loop:capacity=1Mpps,queue=30 --rate 1kpps",
                "sendrecv --burst=32 loop:capacity=1Mpps,queue=30 --rate 1kpps",
            ]
        );
        assert_eq!(all[1].variant.name, "queue=20 burst=32");
        assert_eq!(all[2].variant.chosen, ["30", "16"]);
    }

    #[test]
    fn flags_are_on_or_off_and_nonsense_is_refused_by_name() {
        let base = base("sendrecv loop: --rate 1kpps --busy-poll");
        let all = combinations(&base, &[setting("busy-poll", &["off", "on"])]).unwrap();
        assert_eq!(all[0].variant.text, "sendrecv loop: --rate 1kpps");
        assert_eq!(all[1].variant.text, "sendrecv --busy-poll loop: --rate 1kpps");
        let refused = |settings: &[Setting]| {
            let failure = combinations(&base, settings).expect_err("refused");
            failure.line().to_owned()
        };
        assert!(refused(&[setting("busy-poll", &["1", "2"])]).contains("want on or off"));
        assert!(refused(&[setting("nonesuch", &["1", "2"])]).contains("nonesuch"));
        assert!(refused(&[setting("burst", &["1", "none"])]).contains("burst=none"));
        let twice = [setting("burst", &["1", "2"]), setting("burst", &["3", "4"])];
        assert!(refused(&twice).contains("given twice"));
        let many: Vec<_> = ["burst", "flows", "seed", "ttl"]
            .map(|key| setting(key, &["1", "2", "3"]))
            .into();
        assert!(refused(&many).contains("81 combinations"));
    }
}
