//! Keys of the JSON summary: what each is made of, and its meaning. The JSON, its schema, the tables in `docs/use` and
//! Python's attributes are made from tables of them.

pub use super::lane::{LANE, OfAll};
pub use super::run::RUN;
pub use super::stream::STREAM;

use serde_json::{Map, Value};

/// Type of a value in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole number.
    Count,
    /// Number.
    Number,
    /// `true` or `false`.
    Flag,
    /// Text.
    Text,
    /// Array of texts.
    Texts,
    /// Object: a distribution of times, `min` to `max`, and `count`.
    Times,
    /// Another object.
    Object,
    /// Another array.
    List,
}

/// One key of the object that is made of each `T`.
#[derive(Clone, Copy, Debug)]
pub struct Key<T> {
    /// Name.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Whether the value may be `null`: not measured, or not of this run.
    pub null: bool,
    /// Meaning, as Markdown without a full stop.
    pub about: &'static str,
    /// Returns the value.
    pub of: fn(&T) -> Value,
}

impl<T> Key<T> {
    /// Creates a key whose value is always there.
    pub(super) const fn new(name: &'static str, kind: Kind, about: &'static str, of: fn(&T) -> Value) -> Self {
        Self {
            name,
            kind,
            null: false,
            about,
            of,
        }
    }

    /// Creates a key whose value may be `null`.
    pub(super) const fn or_null(name: &'static str, kind: Kind, about: &'static str, of: fn(&T) -> Value) -> Self {
        Self {
            null: true,
            ..Self::new(name, kind, about, of)
        }
    }
}

/// Returns the object of all keys.
pub(super) fn object<T>(keys: &[Key<T>], of: &T) -> Map<String, Value> {
    keys.iter().map(|key| (key.name.to_owned(), (key.of)(of))).collect()
}
