//! Where time went: stages, profiles, traces and the causes that they name.

mod causes;
mod profile;
mod stages;
mod trace;
mod trace_causes;
