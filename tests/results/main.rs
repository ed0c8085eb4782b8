//! Files, streams of rows, pages and the terminal: everything that a run writes and shows.

mod colour;
mod expect;
mod files;
mod json_lines;
mod live;
mod live_page;
mod prometheus;
mod readers;
mod run_folder;
mod safe_files;
mod screen;
mod serve;
mod state_files;
