//! Checks that like is compared with like.

use super::{Side, Variant};
use mpps_run::fail::{Result, usage};
use serde_json::Value;
use std::collections::BTreeMap;

/// Facts in a result on the host and software of a run.
const FACTS: [&str; 8] = [
    "mpps_version",
    "kernel",
    "cpu",
    "cores_allowed",
    "clock",
    "clock_tick_ns",
    "path",
    "mtu_bytes",
];
/// Fields of a plan in which runs of one kind may differ: they name the peer, or do not change what is measured.
const OWN: [&str; 8] = [
    "mpps_plan",
    "seed",
    "traffic.src",
    "traffic.dest",
    "traffic.dest_mac",
    "traffic.gateway",
    "times.interval",
    "capture.output",
];

/// Name of a trait that differs, and its values.
pub(super) type Difference = (String, Vec<String>);

/// Returns the difference in words for people.
pub(super) fn words((name, values): &Difference) -> String {
    format!("{name} ({})", values.join(", "))
}

/// A run by what matters: names and values.
type Traits = BTreeMap<String, String>;

/// Returns the traits that differ, with the values of each.
fn differences(all: &[Traits]) -> Vec<Difference> {
    let mut names: Vec<&String> = all.iter().flat_map(BTreeMap::keys).collect();
    names.sort();
    names.dedup();
    let values = |name: &String| {
        let of = |traits: &Traits| traits.get(name).cloned().unwrap_or_else(|| "none".to_owned());
        all.iter().map(of).collect::<Vec<_>>()
    };
    let all = names.into_iter().map(|name| (name.clone(), values(name)));
    all.filter(|(_, values)| values.windows(2).any(|pair| pair[0] != pair[1]))
        .collect()
}

/// The fields of a plan, by their names.
fn fields(plan: &Value, into: &mut Traits) {
    let mut put = |name: String, value: &Value| {
        if !OWN.contains(&name.as_str()) && !value.is_null() {
            let texts = value
                .as_array()
                .map(|all| all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "));
            let text = value.as_str().map(str::to_owned).or(texts);
            let text = text.unwrap_or_else(|| value.to_string());
            // Anybody may have written it.
            let shown = |text: &str| mpps_sys::text::plain(text, '?');
            into.insert(shown(&name), shown(&text));
        }
    };
    for (name, value) in plan.as_object().into_iter().flatten() {
        match value.as_object() {
            Some(section) => section
                .iter()
                .for_each(|(key, value)| put(format!("{name}.{key}"), value)),
            None => put(name.clone(), value),
        }
    }
}

/// Returns the fields in which the runs' plans differ. Another workload or frame size makes any rate and latency
/// another, so that is refused without `force`.
pub(super) fn of_runs(variants: &[Variant], force: bool) -> Result<Vec<Difference>> {
    let must: Vec<Traits> = variants
        .iter()
        .map(|variant| {
            let mut traits = Traits::from([("workload".to_owned(), variant.plan.workload().name().to_owned())]);
            traits.extend(
                variant
                    .frame_size
                    .map(|size| ("frame size".to_owned(), format!("{size} bytes"))),
            );
            traits
        })
        .collect();
    let wrong = differences(&must);
    let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
    refuse(&wrong, &names, force)?;
    let plans = variants.iter().map(|variant| {
        let mut traits = Traits::new();
        fields(
            &serde_json::from_str(&variant.plan.to_json()).unwrap_or_default(),
            &mut traits,
        );
        traits
    });
    Ok(differences(&plans.collect::<Vec<_>>()))
}

/// Returns the traits in which earlier results differ. Nobody has named the intended differences on the command line,
/// so any difference is refused without `force`.
pub(super) fn of_results(sides: &[Side], force: bool) -> Result<Vec<Difference>> {
    let traits = |result: &Value| {
        let mut traits = Traits::new();
        for name in FACTS {
            if let Some(fact) = result["host"][name].as_str() {
                traits.insert(name.to_owned(), mpps_sys::text::plain(fact, '?'));
            }
        }
        let size = &result["frame_size_bytes"];
        if !size.is_null() {
            traits.insert("frame size".to_owned(), format!("{size} bytes"));
        }
        traits.insert(
            "workload".to_owned(),
            result["workload"].as_str().unwrap_or("none").to_owned(),
        );
        fields(&result["plan"], &mut traits);
        traits
    };
    for side in sides {
        let all: Vec<Traits> = side.results.iter().map(|(_, result)| traits(result)).collect();
        let differ = differences(&all);
        if let Some((name, values)) = differ.first().filter(|_| !force) {
            let other = values.iter().position(|value| *value != values[0]).unwrap_or_default();
            return Err(usage(format!(
                "results of {}: {} and {} differ in {name} ({} and {}): want results of one kind on a side, or --force",
                side.name,
                side.results[0].0.display(),
                side.results[other].0.display(),
                values[0],
                values[other]
            )));
        }
    }
    let first: Vec<Traits> = sides.iter().map(|side| traits(&side.results[0].1)).collect();
    let differ = differences(&first);
    let names: Vec<&str> = sides.iter().map(|side| side.name.as_str()).collect();
    refuse(&differ, &names, force)?;
    Ok(differ)
}

/// Refuses to compare what differs.
fn refuse(differ: &[Difference], names: &[&str], force: bool) -> Result<()> {
    if differ.is_empty() || force {
        return Ok(());
    }
    let all: Vec<_> = differ.iter().map(words).collect();
    Err(usage(format!(
        "{} differ in {}: want --force to compare them all the same",
        names.join(", "),
        all.join("; ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_run::Plan;
    use serde_json::json;
    use std::path::PathBuf;
    use std::time::Duration;

    fn run(name: &str, frame_size: usize, plan: Value) -> Variant {
        let plan = Plan::of_printed(&plan.to_string()).unwrap();
        Variant {
            name: name.to_owned(),
            text: String::new(),
            frame_size: Some(frame_size),
            takes: Duration::ZERO,
            chosen: Vec::new(),
            plan,
        }
    }

    #[test]
    fn runs_may_differ_in_what_was_typed_but_for_the_frame_size() {
        let plan = |workload: &str, port: &str, more: Value| {
            let mut plan = json!({ "mpps_plan": 1, "workload": workload, "ports": [port] });
            plan.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            plan
        };
        let a = run(
            "A",
            64,
            plan("sendrecv", "loop:delay=1ms", json!({ "load": { "rate": "1kpps" } })),
        );
        let of = |b: Variant| of_runs(&[a.clone(), b], false).map_err(|failure| failure.line().to_owned());
        let more = json!({ "load": { "rate": "2kpps" }, "lanes": { "burst": 8 } });
        let names: Vec<_> = of(run("B", 64, plan("sendrecv", "loop:", more))).unwrap();
        let names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["lanes.burst", "load.rate", "ports"]);
        let refused = of(run("B", 128, plan("sendrecv", "loop:", json!({})))).unwrap_err();
        assert!(
            refused.contains("A, B differ in frame size (64 bytes, 128 bytes)"),
            "{refused}"
        );
        let other = of(run("B", 64, plan("send", "loop:", json!({})))).unwrap_err();
        assert!(other.contains("workload (sendrecv, send)"), "{other}");
    }

    #[test]
    fn results_differ_in_whatever_they_do() {
        let result = |kernel: &str, rate: &str| {
            let plan = json!({ "seed": 5, "load": { "rate": rate }, "ports": ["loop:"] });
            let host = json!({ "kernel": kernel, "steal_ms": kernel });
            let result = json!({ "host": host, "plan": plan, "workload": "sendrecv", "frame_size_bytes": 64 });
            (PathBuf::from(format!("{kernel}.json")), result)
        };
        let side = |name: &str, results| Side {
            name: name.to_owned(),
            text: String::new(),
            results,
        };
        let check = |a, b, force| of_results(&[side("A", a), side("B", b)], force).map_err(|f| f.line().to_owned());
        assert_eq!(
            check(vec![result("6", "1k")], vec![result("6", "1k")], false),
            Ok(vec![])
        );
        let refused = check(vec![result("6", "1k")], vec![result("7", "2k")], false).unwrap_err();
        assert!(
            refused.contains("kernel (6, 7); load.rate (1k, 2k): want --force"),
            "{refused}"
        );
        let forced = check(vec![result("6", "1k")], vec![result("7", "1k")], true);
        let values = vec!["6".to_owned(), "7".to_owned()];
        assert_eq!(forced, Ok(vec![("kernel".to_owned(), values)]));
        let mixed = check(
            vec![result("6", "1k"), result("7", "1k")],
            vec![result("6", "1k")],
            false,
        )
        .unwrap_err();
        assert!(
            mixed.contains("results of A: 6.json and 7.json differ in kernel (6 and 7)"),
            "{mixed}"
        );
    }
}
