//! A run as a value, for other programs.

use super::Error;
use crate::fail::{Failure, Result, usage};
use crate::measure::Drafted;
use crate::request::Run;
use mpps_plan::Workload;
use mpps_plan::json::in_fields;
use serde_json::{Value, json};
use std::fmt;
use std::sync::OnceLock;

/// A run: what it does, on which ports, with what traffic and load, for how long, on which lanes, and what is checked.
/// It is complete, with each default filled in, and was checked as a whole; nothing is open.
///
/// Its JSON is what `--print-plan` prints and a result's `plan` holds; `docs/use/plans.md` names the fields.
#[derive(Clone, Debug)]
pub struct Plan {
    fields: mpps_plan::Plan,
    /// JSON of the fields, made when a field is first asked for.
    json: OnceLock<Value>,
}

impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields
    }
}

impl From<mpps_plan::Plan> for Plan {
    fn from(fields: mpps_plan::Plan) -> Self {
        Self {
            fields,
            json: OnceLock::new(),
        }
    }
}

impl Plan {
    /// Checks a run, and fills in what its plan leaves open.
    ///
    /// # Errors
    /// [`Error::Usage`] that names the option, its value and what would be right.
    pub fn of_request(run: Run) -> std::result::Result<Self, Error> {
        Ok(filled(run)?.into())
    }

    /// From JSON: a plan, or a result that holds one.
    ///
    /// # Errors
    /// [`Error::Usage`] that names the field, its value and what would be right.
    pub fn from_json(text: &str) -> std::result::Result<Self, Error> {
        let plan = mpps_plan::Plan::of_json(text).map_err(usage)?;
        let workload = plan.workload;
        let named = |failure| match failure {
            Failure::Usage(line) => usage(in_fields(workload, &line)),
            other => other,
        };
        Ok(filled(Run::of(plan)).map_err(named)?.into())
    }

    /// Reads the output of `--print-plan` without checking ports, which may be in another network namespace.
    pub fn of_printed(text: &str) -> Result<Self> {
        Ok(mpps_plan::Plan::of_json(text).map_err(usage)?.into())
    }

    /// Returns the complete plan of a run.
    pub fn of_run(run: &Run) -> Self {
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
    pub fn workload(&self) -> Workload {
        self.fields.workload
    }

    /// Returns the fields.
    pub fn fields(&self) -> &mpps_plan::Plan {
        &self.fields
    }

    /// Returns the fields to change them. The trial checks the changed plan.
    pub fn fields_mut(&mut self) -> &mut mpps_plan::Plan {
        self.json = OnceLock::new();
        &mut self.fields
    }

    /// Creates a run of this plan that writes no files.
    pub fn run(&self) -> Run {
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
fn filled(run: Run) -> Result<mpps_plan::Plan> {
    Ok(Drafted::new(run)?.run().complete.clone())
}
