//! The live page as a browser shows it. Its pictures are left in target/live.

use mpps_tests::{Background, Served, missing, mpps};
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn top() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Whether the page can be looked at; else says why not.
fn no_browser() -> bool {
    let chromium = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
    missing("node", "nodejs") || missing(&chromium, "chromium")
}

/// Looks at the page of a run; what was seen, and where pictures lie.
fn looked_at(words: &str, pictures: &Path) -> Value {
    std::fs::create_dir_all(pictures).expect("a folder");
    let run = Background::start(mpps(words)).wait_to_hear("live page: ");
    let page = Served::of(&run, "live page: ");
    let mut browser = Command::new("node");
    browser
        .arg(top().join("tests/browser/live.mjs"))
        .arg(page.url())
        .arg(pictures);
    let browser = Background::start(browser).wait_to_hear("live");
    run.signal(Signal::INT);
    let finished = browser.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    run.finish();
    serde_json::from_str(&finished.stdout).unwrap_or_else(|e| panic!("{e}: {}", finished.stdout))
}

#[test]
fn the_page_fills_in_a_browser_without_an_error_and_ends_with_the_result() {
    if no_browser() {
        return;
    }
    let pictures = top().join("target/live");
    let seen = looked_at(
        "sendrecv loop:loss=1%,delay=200us --rate 20kpps --duration 1h --settle 200ms --quiet --web",
        &pictures,
    );
    assert_eq!(seen["errors"], Value::Array(Vec::new()), "{seen}");
    assert_eq!(seen["violations"], Value::Array(Vec::new()), "{seen}");
    // Nothing is wider than the window: at 1280 and at 390 pixels.
    assert!(
        seen["over"].as_array().expect("widths").iter().all(|over| over == 0),
        "{seen}"
    );
    assert_eq!(seen["seen"]["intended"], "20\u{a0}kpps", "{seen}");
    assert!(
        seen["ended"]["phase"]
            .as_str()
            .is_some_and(|text| text.contains("has ended")),
        "{seen}"
    );
    assert!(
        seen["ended"]["result"]
            .as_str()
            .is_some_and(|text| text.contains("Sent ") || text.contains("Valid: sent ")),
        "{seen}"
    );
}

#[test]
fn the_page_of_a_search_shows_its_trials_and_ends_with_what_was_found() {
    if no_browser() {
        return;
    }
    let seen = looked_at(
        // Long enough for any browser, however many of its trials this host spoils.
        "ndr loop:loss=1% --goal loss=0,initial=300ms,final=300ms,sum=600s,width=1% --min-rate 10pps --max-rate 2kpps \
         --search-time 1h --quiet --web",
        &top().join("target/live/search"),
    );
    assert_eq!(seen["errors"], Value::Array(Vec::new()), "{seen}");
    assert_eq!(seen["violations"], Value::Array(Vec::new()), "{seen}");
    assert!(
        seen["over"].as_array().expect("widths").iter().all(|over| over == 0),
        "{seen}"
    );
    assert!(
        seen["seen"]["search"]
            .as_str()
            .is_some_and(|text| text.contains("frames of 64 bytes")),
        "{seen}"
    );
}
