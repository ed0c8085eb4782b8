//! Summary of a run with several tracks.

use mpps_stats::{Direction, Remark, Shortfall, Summary, TRACK};

/// Makes the summary of all lanes and rows, `all`, a summary of all tracks. It is valid if each is, and a sentence on
/// one way names it.
pub(crate) fn combine(mut all: Summary, directions: Vec<Direction>) -> Summary {
    let of = |list: fn(&Summary) -> &[Remark]| {
        let lists: Vec<_> = directions
            .iter()
            .map(|track| (track.name, list(&track.summary)))
            .collect();
        in_one(&lists)
    };
    all.valid = directions.iter().all(|track| track.summary.valid);
    all.shortfall = shortfall(&directions);
    let kept_off = || directions.iter().filter_map(|track| track.summary.kept_off.as_ref());
    all.kept_off = kept_off().find(|of| of.named).or_else(|| kept_off().next()).cloned();
    all.invalid_reasons = of(|summary| &summary.invalid_reasons);
    all.warnings = of(|summary| &summary.warnings);
    let sum = |rate: fn(&Summary) -> f64| directions.iter().map(|track| rate(&track.summary)).sum();
    let intended = directions.iter().map(|track| track.summary.intended_pps);
    all.intended_pps = intended.sum();
    all.due = directions.iter().map(|track| track.summary.due).sum();
    all.offered_pps = sum(|summary| summary.offered_pps);
    all.received_pps = sum(|summary| summary.received_pps);
    all.directions = directions;
    all
}

/// Returns the shortfall of the tracks that are not valid, if each of these has one. A shortfall of the lanes comes
/// before one of the path, as it is the tester's.
fn shortfall(tracks: &[Direction]) -> Option<Shortfall> {
    let invalid = tracks.iter().filter(|track| !track.summary.valid);
    let all: Option<Vec<_>> = invalid.map(|track| track.summary.shortfall).collect();
    let all = all.filter(|all| !all.is_empty())?;
    Some(match all.contains(&Shortfall::Outpaced) {
        true => Shortfall::Outpaced,
        false => Shortfall::Refused,
    })
}

/// Returns the remarks of several tracks: once if all have the same sentence, else with the name of the track.
fn in_one(tracks: &[(&'static str, &[Remark])]) -> Vec<Remark> {
    let has = |all: &[Remark], sentence: &str| all.iter().any(|remark| remark.sentence == sentence);
    let mut combined: Vec<Remark> = Vec::new();
    for (name, remarks) in tracks {
        for remark in *remarks {
            let remark = match tracks.iter().all(|(_, all)| has(all, &remark.sentence)) {
                true => remark.clone(),
                false => Remark {
                    sentence: format!("{name}: {remark}"),
                    ..remark.clone().with(TRACK, *name)
                },
            };
            if !has(&combined, &remark.sentence) {
                combined.push(remark);
            }
        }
    }
    combined
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_stats::{RemarkName, sentences};

    #[test]
    fn a_run_of_two_ways_is_valid_if_both_are_and_says_which_is_not() {
        let track = |name, valid, reasons: &[&str]| Direction {
            name,
            summary: Summary {
                valid,
                invalid_reasons: reasons.iter().map(|of| Remark::new(RemarkName::Late, *of)).collect(),
                intended_pps: Some(10.0),
                offered_pps: 9.0,
                ..Summary::default()
            },
        };
        let both = |a, b| combine(Summary::default(), vec![a, b]);
        let good = both(track("A to B", true, &[]), track("B to A", true, &[]));
        assert!(good.valid && good.invalid_reasons.is_empty());
        assert_eq!((good.intended_pps, good.offered_pps), (Some(20.0), 18.0));
        let bad = both(
            track("A to B", false, &["gone", "slow"]),
            track("B to A", false, &["gone"]),
        );
        assert!(!bad.valid);
        assert_eq!(sentences(&bad.invalid_reasons), ["gone", "A to B: slow"]);
        let tracks: Vec<_> = bad.invalid_reasons.iter().map(|remark| remark.value(TRACK)).collect();
        assert_eq!(tracks, [None, Some(&"A to B".into())]);
        assert_eq!(bad.directions.len(), 2);
    }
}
