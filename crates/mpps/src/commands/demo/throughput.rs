//! The end of the demo: a short search for the highest rate without loss.

use super::child::{Reflector, interrupted, quietly};
use super::figures::rate_text;
use super::folder::Folder;
use super::stage::{Stage, Words, words};
use super::tell::{Teller, say};
use crate::fail::{Result, failed};
use mpps_host::lab::Host;
use serde_json::Value;

/// Goal of the search: an estimate, as the step's title says.
const GOAL: &str = "loss=0,initial=200ms,final=300ms,sum=900ms,width=5%";
/// Time limit of all trials together.
const SEARCH_TIME: &str = "8s";

/// Searches on the path of the main run. If `flat_out` is known (packets/s that came back as fast as the path goes),
/// the highest rate tried is above it. A host that can't do it is reported, and is no failure of the demo.
pub(super) fn search(tell: &mut Teller, stage: &Stage, folder: &Folder, flat_out: Option<f64>) -> Result<()> {
    let path = stage.path();
    tell.step("Search for the highest rate without loss (an estimate, not RFC 2544)");
    let ends = stage.ends(path)?;
    let reflect = reflector(&ends.reflect) + ends.core(stage, Host::B);
    let reflect = reflect + words(["--json", &folder.file("throughput-reflect.json")]);
    let _reflector = Reflector::start(tell, stage, &reflect)?;
    let most = flat_out.filter(|pps| *pps >= 1000.0).map(|pps| rate_text(bracket(pps)));
    // Close to what a lane can do, each of the host's own threads that comes by would void a trial.
    let limits = words([
        "--goal",
        GOAL,
        "--search-time",
        SEARCH_TIME,
        "--settle",
        "100ms",
        "--catch-up",
        "50ms",
    ]);
    let limits = limits + words(["--out", &folder.name(), "--quiet"]);
    let (code, last) = match quietly(tell, stage, &ends.search(stage, most.as_deref(), limits)) {
        // The measurement is done; what is missing is beside it.
        Err(_) if interrupted() => return Ok(()),
        other => other?,
    };
    match code {
        Some(0 | 3) => {}
        _ => return Err(failed(format!("ndr failed: {last}"))),
    }
    let file = folder.file("result.json");
    match std::fs::read_to_string(&file)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
    {
        Some(result) => {
            let lines = in_words(&result);
            let folded = lines.iter().flat_map(|line| folded(line));
            folded.for_each(|line| say(&format!("   {line}")));
        }
        // Broken off before there was anything to report.
        None => say(&format!("   no rate was found: {last}")),
    }
    Ok(())
}

/// The words of the reflector, which has no `--duration`: void trials lengthen a search beyond any that would be given.
/// The reflector ends when it is dropped, or with this process.
fn reflector(port: &str) -> Words {
    words(["reflect", port])
}

/// A line in pieces that have room on the usual terminal.
fn folded(line: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.last_mut().expect("begins with one line");
        match last.chars().count() + word.chars().count() {
            _ if last.is_empty() => last.push_str(word),
            ..75 => last.extend([" ", word]),
            _ => lines.push(format!("  {word}")),
        }
    }
    lines
}

/// Up to which rate is searched: clearly above what came back flat out, so that the answer lies between two rates that
/// were tried. Rounded up to two significant digits.
fn bracket(flat_out_pps: f64) -> u64 {
    let pps = (flat_out_pps * 1.5) as u64;
    let scale = 10u64.pow(pps.checked_ilog10().unwrap_or(0).saturating_sub(1));
    pps.div_ceil(scale) * scale
}

/// Returns the first sentence of the search's page, and how many trials there were.
fn in_words(result: &Value) -> Vec<String> {
    let headline = result["verdict"][0].as_str().unwrap_or("no rate is known");
    let trials = result["trials"].as_array().map_or(&[][..], Vec::as_slice);
    let void = trials.iter().filter(|trial| trial["outcome"] == "void").count();
    let void = match void {
        0 => String::new(),
        void => format!(", {void} of them void: this host was in the way"),
    };
    let mut lines = vec![
        mpps_pages::document::headed(headline),
        format!("({} trials{void})", trials.len()),
    ];
    if let Some(why) = result["incomplete"].as_str() {
        // The whole reason is in the report.
        let why = why.split(" (").next().unwrap_or(why);
        lines.push(format!("not complete: {why}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_search_is_told_by_the_first_sentence_of_its_page_and_void_trials_are_named() {
        let mut result = json!({
            "incomplete": null,
            "verdict": ["highest rate without loss: 190,000 pps (64 bytes)", "loss 0 %  190,000 pps"],
            "trials": [{ "outcome": "void" }, { "outcome": "counted" }],
        });
        let told = in_words(&result);
        assert_eq!(
            told,
            [
                "Highest rate without loss: 190,000 pps (64 bytes)",
                "(2 trials, 1 of them void: this host was in the way)"
            ]
        );
        result["incomplete"] = "this host could not: it slept (a lot)".into();
        let told = in_words(&result);
        assert_eq!(told[2], "not complete: this host could not: it slept");
        assert!(
            folded(&"word ".repeat(60))
                .iter()
                .all(|line| line.chars().count() <= 77)
        );
    }

    #[test]
    fn a_search_goes_clearly_above_what_came_back_flat_out() {
        for (flat_out, most) in [(640_000.0, 960_000), (545_473.0, 820_000), (1_000.0, 1_500), (7.0, 10)] {
            assert_eq!(bracket(flat_out), most, "{flat_out}");
        }
    }
}
