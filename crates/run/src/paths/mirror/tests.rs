//! The sample path is in the list like any other: a command's own plan is run on it, and the page shows its sources.

use crate::draft::neighbor::Asked;
use crate::draft::traffic::Draft;
use crate::fail::{Failure, Result};
use crate::paths::{Opened, Opening, open};
use crate::request::run_of;
use mpps_engine::run_traffic;
use mpps_stats::Summary;

/// Runs `sendrecv` without signals and files.
fn sendrecv(port: &str, options: &str) -> Result<Summary> {
    let line = format!("sendrecv {port} --src 10.99.0.1 --dest 10.99.0.2:9000 {options}");
    let draft = Draft::new(run_of(&line))?;
    let opening = Opening {
        run: &draft.args,
        rules: &draft.rules,
        interruptions: &|| 0,
    };
    let Opened::Lanes(ports) = open(draft.requests(), &opening)? else {
        panic!("frames come to this program");
    };
    let plan = draft.plan(ports[0].port().capabilities(), &Asked::new(&|| 0))?;
    Ok(run_traffic(&[&*ports[0]], &plan, &mut [], &|| 0)?)
}

#[test]
fn every_packet_of_a_run_on_the_sample_comes_back_and_is_accounted_for() {
    let run = |_| {
        sendrecv(
            "mirror:frames=64",
            "--lanes 2 --rate 40kpps --duration 50ms --settle 1s",
        )
        .expect("a run")
    };
    // More than the buffers of both lanes: they go round. A host may keep the lanes off its cores for all of a run.
    let summary = (0..40)
        .map(run)
        .find(|summary| summary.tx > 2 * 64)
        .expect("lanes that got their cores");
    assert_eq!((summary.rx + summary.late, summary.lost), (summary.tx, 0));
    assert_eq!((summary.duplicates, summary.reordered, summary.corrupt), (0, 0, 0));
    let mirrored: u64 = summary
        .lanes
        .iter()
        .flat_map(|lane| &lane.path_counters)
        .map(|(_, n)| n)
        .sum();
    assert_eq!(mirrored, summary.tx);
    let frames = summary
        .host
        .iter()
        .find(|fact| fact.name == "mirror_frames")
        .expect("the port's fact");
    assert!(frames.shown && frames.value == "64", "{frames:?}");
}

#[test]
fn what_the_sample_can_not_do_is_refused_before_it_is_opened() {
    for (port, options, parts) in [
        ("mirror:x", "", ["mirror:x", "want mirror:"]),
        ("mirror:frames=0", "", ["frames=0", "1 to 65536"]),
        ("mirror:", "--tx-lanes 1 --rx-lanes 1", ["--tx-lanes", "--lanes"]),
        ("mirror:", "--vlan 5", ["--vlan", "mirror:"]),
    ] {
        match sendrecv(port, options) {
            Err(Failure::Usage(line)) => assert!(parts.iter().all(|part| line.contains(part)), "{line}"),
            other => panic!("{port} {options}: {:?}", other.map(|summary| summary.tx)),
        }
    }
}

#[test]
fn the_page_shows_the_sample_as_it_is_compiled() {
    let page = include_str!("../../../../../docs/design/adding-a-path.md");
    for source in [include_str!("port.rs"), include_str!("../mirror.rs")] {
        assert!(
            page.contains(&format!("```rust\n{source}```\n")),
            "docs/design/adding-a-path.md differs from:\n{source}"
        );
    }
}
