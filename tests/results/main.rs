//! What a run writes and shows: files, streams of rows, pages, the terminal.

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
