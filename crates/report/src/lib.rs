//! What a run leaves behind: live view, CSV, JSON, HDR log, plots.

#![forbid(unsafe_code)]
