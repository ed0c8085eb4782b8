//! From words to a rule.

use crate::Rule;
use std::str::FromStr;

/// A rule that can't be understood: one line that names the word and says what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(pub String);

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(_text: &str) -> Result<Self, RuleError> {
        Err(RuleError("not yet".into()))
    }
}
