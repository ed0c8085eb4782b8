//! Facts of a report about the host, the port and the plan.

/// One fact about the surroundings of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFact {
    /// Short snake_case name, unit in the name (`rcvbuf_bytes`).
    pub name: String,
    /// Value, as text.
    pub value: String,
    /// Whether the screen shows the fact, too, when it shows a summary in full. The JSON has every fact.
    pub shown: bool,
}

impl HostFact {
    /// Creates a fact for the JSON only.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
            shown: false,
        }
    }

    /// Creates a fact for the screen, too.
    pub fn shown(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            shown: true,
            ..Self::new(name, value)
        }
    }
}
