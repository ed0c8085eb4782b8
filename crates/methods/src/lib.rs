//! Test methods.
//!
//! [`search`] finds rates from the trials so far. [`statistics`] finds which of two things is better by their trials,
//! and whether the trials are enough for an answer.

#![forbid(unsafe_code)]

pub mod search;
pub mod statistics;
