//! Output of a run while it is running: metrics for Prometheus, a live page, and a full-screen view on the terminal.
//!
//! A [`Watcher`] reads the run's events on the collector's thread and publishes the state (a [`Board`]) four times a
//! second. It never waits for a reader. One thread serves all connections ([`Server`]) from the newest published state,
//! and sleeps in between; another thread draws that state ([`Screen`]). Neither of them asks a lane anything, so no
//! request and no terminal can hold up the run.
//!
//! Input may be hostile: [`request`] reads it, and checks the host name in it before anything else.

#![forbid(unsafe_code)]

mod board;
mod buckets;
mod history;
mod metrics;
mod page;
mod prom_file;
pub mod request;
mod response;
mod screen;
mod server;
mod site;
mod spread;
mod state;
mod streams;
mod watcher;

pub use board::Board;
pub use metrics::{metrics, text as metrics_text};
pub use prom_file::PromFile;
pub use request::HostName;
pub use screen::{Held, SMALLEST, Screen, terminal_size};
pub use server::{LIMITS, Limits, Listener, Server};
pub use site::{MetricsSite, PageSite, Token};
pub use state::{About, Goal, State, TrialAbout};
pub use watcher::{Watcher, WatcherSink};
