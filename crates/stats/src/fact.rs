//! What a report says of the host, the port and the plan.

/// One line of what was measured on what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFact {
    /// Short snake_case name, unit in the name (`rcvbuf_bytes`).
    pub name: String,
    /// Value, as text.
    pub value: String,
    /// The screen has it, too, when it shows a summary in full; the JSON has every fact.
    pub shown: bool,
}

impl HostFact {
    /// A fact for the JSON.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
            shown: false,
        }
    }

    /// A fact for the screen, too.
    pub fn shown(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            shown: true,
            ..Self::new(name, value)
        }
    }
}
