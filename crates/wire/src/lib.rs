//! Headers, checksums, stamps and packet templates: pure functions over bytes.

#![forbid(unsafe_code)]
