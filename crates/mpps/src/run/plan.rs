//! A run as a value, for other programs.

use super::Error;
use crate::cli::{Cli, Command, Run};
use crate::fail::{Failure, Result, argument_line, usage};
use crate::plan::value::{self, in_fields};
use crate::plan::{capture, forward, listen::Listener, traffic};
use serde_json::Value;
use std::ffi::OsString;
use std::fmt;

/// A run: what it does, on which ports, with what traffic and load, for how long, on which lanes, and what is checked.
/// It is complete, with each default filled in, and was checked as a whole; nothing is open.
///
/// Its JSON is what `--print-plan` prints and a result's `plan` holds; `docs/plans.md` names the fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan(value::Plan);

impl Plan {
    /// From the words of a command line, without the program's name: `["sendrecv", "loop:", …]`.
    ///
    /// # Errors
    /// [`Error::Usage`] for what the command line would refuse.
    pub fn from_args<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> std::result::Result<Self, Error> {
        let words = std::iter::once("mpps".into()).chain(words.into_iter().map(Into::into));
        let cli = Cli::of(words).map_err(|e| Error::Usage(argument_line(&e)))?;
        Ok(Self(filled(cli.command)?))
    }

    /// From JSON: a plan, or a result that holds one.
    ///
    /// # Errors
    /// [`Error::Usage`] that names the field, its value and what would be right.
    pub fn from_json(text: &str) -> std::result::Result<Self, Error> {
        let (workload, command) = read(text)?;
        let named = |failure| match failure {
            Failure::Usage(line) => usage(in_fields(&workload, &line)),
            other => other,
        };
        Ok(Self(filled(command).map_err(named)?))
    }

    /// As `--print-plan` has printed it: it was checked where its ports can be seen, and they may not be here.
    pub(crate) fn of_printed(text: &str) -> Result<Self> {
        Ok(Self(value::Plan::of_text(text).map_err(usage)?))
    }

    /// That of a command line.
    pub(crate) fn of_run(run: &Run) -> Self {
        Self(run.plan.clone())
    }

    /// The plan with another value in one field, such as `("load.rate", "20kpps")` or `("traffic.flows", 8)`. Whether
    /// the fields go together is checked anew; what followed from the field's old value stays as it is written.
    ///
    /// # Errors
    /// [`Error::Usage`] as [`Plan::from_json`].
    pub fn with(&self, field: &str, value: impl Into<Value>) -> std::result::Result<Self, Error> {
        let mut changed = self.0.clone();
        let (section, key) = field.split_once('.').unwrap_or(("", field));
        let value = value.into();
        // Two ways to say one thing: the one that is given takes the other's place.
        let other = match field {
            "traffic.frame_size" => Some("payload_size"),
            "traffic.payload_size" => Some("frame_size"),
            _ => None,
        };
        if let Some(other) = other.filter(|_| !value.is_null()) {
            changed.put(section, other, Value::Null);
        }
        changed.put(section, key, value);
        Self::from_json(&changed.text())
    }

    /// The plan with another seed, which is in no other field's way: nothing is checked anew.
    pub(crate) fn with_seed(&self, seed: u64) -> Self {
        let mut changed = self.0.clone();
        changed.put("", "seed", seed.into());
        Self(changed)
    }

    /// A field's value; `None` where the plan has none such, or it is null.
    pub fn get(&self, field: &str) -> Option<&Value> {
        let (section, key) = field.split_once('.').unwrap_or(("", field));
        self.0.get(section, key)
    }

    /// The plan as JSON, one field a line.
    pub fn to_json(&self) -> String {
        self.0.text()
    }

    /// The command that it is.
    pub(crate) fn command(&self) -> Result<Command> {
        Ok(read(&self.0.text())?.1)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

/// The workload of a plan, and the command that it is.
fn read(text: &str) -> Result<(String, Command)> {
    let words = value::words(text).map_err(usage)?;
    let workload = words[1].to_string_lossy().into_owned();
    let cli = Cli::of(words).map_err(|e| usage(in_fields(&workload, &argument_line(&e))))?;
    Ok((workload, cli.command))
}

/// Checks a command that is a run, and fills in what was left open.
fn filled(command: Command) -> Result<value::Plan> {
    Ok(match command {
        Command::Sendrecv(args) => traffic::Draft::new(args, true)?.args.run.plan,
        Command::Send(args) => traffic::Draft::new(args, false)?.args.run.plan,
        Command::Drop(mut args) => {
            Listener::of_drop(&mut args)?;
            args.run.plan
        }
        Command::Reflect(mut args) => {
            Listener::of_reflect(&mut args)?;
            args.run.plan
        }
        Command::Forward(args) => forward::Draft::new(args)?.args.run.plan,
        Command::Capture(args) => capture::Draft::new(args)?.args.run.plan,
        _ => return Err(usage("no run: want sendrecv, send, drop, reflect, forward or capture")),
    })
}
