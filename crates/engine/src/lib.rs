//! Lanes, pacing and the workloads: send, receive, reflect, drop.

#![forbid(unsafe_code)]
