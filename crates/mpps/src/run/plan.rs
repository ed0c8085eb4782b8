//! A run as a value, for other programs.

use super::Error;
use crate::cli::Cli;
use crate::fail::{Failure, Result, argument_line, usage};
use crate::plan::json::in_fields;
use crate::plan::model::{self, Workload};
use crate::plan::run::Run;
use crate::plan::{capture, forward, listen::Listener, traffic};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt;
use std::sync::OnceLock;

/// A run: what it does, on which ports, with what traffic and load, for how long, on which lanes, and what is checked.
/// It is complete, with each default filled in, and was checked as a whole; nothing is open.
///
/// Its JSON is what `--print-plan` prints and a result's `plan` holds; `docs/use/plans.md` names the fields.
#[derive(Clone, Debug)]
pub struct Plan {
    fields: model::Plan,
    /// JSON of the fields, made when a field is first asked for.
    json: OnceLock<Value>,
}

impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields
    }
}

impl From<model::Plan> for Plan {
    fn from(fields: model::Plan) -> Self {
        Self {
            fields,
            json: OnceLock::new(),
        }
    }
}

impl Plan {
    /// From the words of a command line, without the program's name: `["sendrecv", "loop:", …]`.
    ///
    /// # Errors
    /// [`Error::Usage`] for what the command line would refuse.
    pub fn from_args<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> std::result::Result<Self, Error> {
        let words = std::iter::once("mpps".into()).chain(words.into_iter().map(Into::into));
        let cli = Cli::of(words).map_err(|e| Error::Usage(argument_line(&e)))?;
        Ok(filled(cli.command.into_run()?.run)?.into())
    }

    /// From JSON: a plan, or a result that holds one.
    ///
    /// # Errors
    /// [`Error::Usage`] that names the field, its value and what would be right.
    pub fn from_json(text: &str) -> std::result::Result<Self, Error> {
        let plan = model::Plan::of_json(text).map_err(usage)?;
        let workload = plan.workload;
        let named = |failure| match failure {
            Failure::Usage(line) => usage(in_fields(workload, &line)),
            other => other,
        };
        Ok(filled(Run::of(plan)).map_err(named)?.into())
    }

    /// Reads the output of `--print-plan` without checking ports, which may be in another network namespace.
    pub(crate) fn of_printed(text: &str) -> Result<Self> {
        Ok(model::Plan::of_json(text).map_err(usage)?.into())
    }

    /// Returns the complete plan of a run.
    pub(crate) fn of_run(run: &Run) -> Self {
        run.complete.clone().into()
    }

    /// The plan with another value in one field, such as `("load.rate", "20kpps")` or `("traffic.flows", 8)`. Whether
    /// the fields go together is checked again; what followed from the field's old value stays as it is written.
    ///
    /// # Errors
    /// [`Error::Usage`] as [`Plan::from_json`].
    pub fn with(&self, field: &str, value: impl Into<Value>) -> std::result::Result<Self, Error> {
        let mut changed = self.fields.json();
        let value = value.into();
        // Two ways to say one thing: the one that is given takes the other's place.
        let other = match field {
            "traffic.frame_size" => Some("payload_size"),
            "traffic.payload_size" => Some("frame_size"),
            _ => None,
        };
        if let Some(other) = other.filter(|_| !value.is_null()) {
            changed["traffic"][other] = Value::Null;
        }
        // What is not there is refused below, by its name.
        match field.split_once('.').map(|(section, key)| (&mut changed[section], key)) {
            None => changed[field] = value,
            Some((Value::Object(fields), key)) => {
                fields.insert(key.to_owned(), value);
            }
            Some((other, key)) => *other = json!({ key: value }),
        }
        Self::from_json(&changed.to_string())
    }

    /// Returns the workload.
    pub(crate) fn workload(&self) -> Workload {
        self.fields.workload
    }

    /// Returns the fields.
    pub(crate) fn fields(&self) -> &model::Plan {
        &self.fields
    }

    /// Returns the fields to change them. The trial checks the changed plan.
    pub(crate) fn fields_mut(&mut self) -> &mut model::Plan {
        self.json = OnceLock::new();
        &mut self.fields
    }

    /// Creates a run of this plan that writes no files.
    pub(crate) fn run(&self) -> Run {
        Run::of(self.fields.clone())
    }

    /// A field's value; `None` where the plan has none such, or it is null.
    pub fn get(&self, field: &str) -> Option<&Value> {
        let plan = self.json.get_or_init(|| self.fields.json());
        let value = match field.split_once('.') {
            None => plan.get(field),
            Some((section, key)) => plan.get(section)?.get(key),
        };
        value.filter(|value| !value.is_null())
    }

    /// The plan as JSON, one field a line.
    pub fn to_json(&self) -> String {
        self.fields.text()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

/// Checks a run, and fills in what was left open.
fn filled(mut run: Run) -> Result<model::Plan> {
    Ok(match run.plan.workload {
        Workload::Sendrecv | Workload::Send => traffic::Draft::new(run)?.args.complete,
        Workload::Drop | Workload::Reflect => {
            Listener::new(&mut run)?;
            run.complete
        }
        Workload::Forward => forward::Draft::new(run)?.args.complete,
        Workload::Capture => capture::Draft::new(run)?.args.complete,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_source_ports_of_a_complete_plan_are_not_given_to_its_run() {
        let ports = |plan: &Plan| plan.get("traffic.src_ports").and_then(Value::as_str).map(str::to_owned);
        let line = ["send", "null:", "--src", "10.0.0.1", "--dest", "10.0.0.2:9000"];
        let plan = Plan::from_args(line).expect("a plan");
        for plan in [Plan::from_json(&plan.to_json()).expect("a plan"), plan] {
            assert_eq!(ports(&plan).as_deref(), Some("10000-10063"));
            assert!(plan.run().plan.traffic.src_ports.is_none(), "it may move");
        }
        let named = Plan::from_args(line.into_iter().chain(["--src-port-range", "7-9"])).expect("a plan");
        assert!(named.run().plan.traffic.src_ports.is_some());
    }

    #[test]
    fn no_field_that_is_none_makes_a_plan_panic() {
        let plan = Plan::from_args(["send", "null:", "--dest", "10.0.0.2:9000", "--src", "10.0.0.1"]).expect("a plan");
        for field in [
            "",
            ".",
            "a.",
            ".a",
            "ports",
            "ports.0",
            "traffic",
            "seed.x",
            "load.rate.x",
            "workload.x",
        ] {
            assert!(plan.with(field, "x").is_err(), "{field}");
        }
    }
}
