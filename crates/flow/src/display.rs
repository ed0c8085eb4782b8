//! Writes a rule as words, in one way, which reads back as the same rule.

use crate::bits::ones;
use crate::fields::fields_of;
use crate::{Action, Attributes, Item, Rule};
use std::fmt::{Display, Formatter, Result};

impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}pattern", self.attributes)?;
        for item in &self.pattern {
            write!(f, " {item} /")?;
        }
        f.write_str(" end actions")?;
        for action in &self.actions {
            write!(f, " {action} /")?;
        }
        f.write_str(" end")
    }
}

impl Display for Attributes {
    /// The words, each with a space behind it.
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (given, word) in [
            (self.ingress, "ingress "),
            (self.egress, "egress "),
            (self.transfer, "transfer "),
        ] {
            f.write_str(if given { word } else { "" })?;
        }
        for (value, word) in [(self.group, "group"), (self.priority, "priority")] {
            if value != 0 {
                write!(f, "{word} {value} ")?;
            }
        }
        Ok(())
    }
}

impl Display for Item {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(self.name())?;
        let fields = fields_of(self.name()).unwrap_or_default();
        for (field, value) in fields.iter().zip(self.values()) {
            let Some(value) = value else { continue };
            let name = field.name;
            let spec = field.tell(value.spec);
            if value.mask == ones(field.width) {
                write!(f, " {name} is {spec}")?;
            } else {
                write!(f, " {name} spec {spec} {name} mask {}", field.tell_mask(value.mask))?;
            }
            if value.last != value.spec {
                write!(f, " {name} last {}", field.tell(value.last))?;
            }
        }
        Ok(())
    }
}

impl Display for Action {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Queue(index) => write!(f, "queue index {index}"),
            Self::Rss(queues) if queues.is_empty() => f.write_str("rss"),
            Self::Rss(queues) => {
                f.write_str("rss queues")?;
                for queue in queues {
                    write!(f, " {queue}")?;
                }
                f.write_str(" end")
            }
            Self::Drop => f.write_str("drop"),
            Self::Mark(id) => write!(f, "mark id {id}"),
            Self::Count => f.write_str("count"),
            Self::Passthru => f.write_str("passthru"),
        }
    }
}
