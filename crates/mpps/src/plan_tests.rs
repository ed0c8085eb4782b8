//! Plans of command lines, and back.

use crate::cli::Cli;
use mpps_plan::fields::{FIELDS, Field, Kind};
use mpps_plan::json::*;
use mpps_plan::*;
use mpps_run::Run;
use proptest::prelude::*;
use serde_json::Value;
use std::ffi::OsString;

/// The plan of a command line, as it is written.
fn plan(line: &str) -> Plan {
    of_words(line.split_whitespace().map(OsString::from).collect())
}

fn of_words(words: Vec<OsString>) -> Plan {
    let whole = std::iter::once("mpps".into()).chain(words.iter().cloned());
    let cli = Cli::of(whole).unwrap_or_else(|e| panic!("{words:?}: {e}"));
    cli.command.into_run().expect("a run").run.plan
}

const RUNS: [&str; 11] = [
    "sendrecv loop:delay=1ms --rate 3.5Mpps --pacing burst=4 --duration 2s",
    "sendrecv af_packet:eth1 --src fd99::1 --dest [fd99::2]:9000-9003 --frame-size 128 --vlan 5 --tx-lanes 1 \
     --rx-lanes 2",
    "send null: --src fd99::/112 --dest [fd98::1-fd98::ff]:9000 --step together --flows 7",
    "send udp:127.0.0.1:9001 --dest localhost:9000 --rate 10% --cores 0,2-3 --busy-poll --nice -5",
    "send null: --packet eth --rate 1kpps --scale 12.5%",
    "drop xdp:eth1 --no-verify --max-flows 9 --ip 10.99.0.2 --port 53",
    "reflect af_xdp:eth1,mode=skb --lanes 2 --burst 64 --fifo 3 --seed 7",
    "forward null: loop: --mode l2fwd --dest-mac 02:00:00:00:00:01 --drain 100us --split-directions",
    "forward null: --work 1us,reads=2,memory=1MiB",
    "capture af_packet:eth1 -o - --snap-len 64 --proto arp --rotate-size 1GiB --max-files 3 --count 10",
    "drop dpdk:net_null0 --eal --no-huge --flow ingress --flow egress",
];

#[test]
fn a_plan_is_the_command_line_that_it_was_made_from() {
    for line in RUNS {
        let first = plan(line);
        assert_eq!(Plan::of_json(&first.text()).as_ref(), Ok(&first), "{line}");
        assert_eq!(of_words(first.clone().words()), first, "{line}");
    }
}

#[test]
fn a_summary_that_holds_a_plan_is_one() {
    let held = format!(r#"{{"rx_packets": 1, "plan": {}}}"#, plan(RUNS[0]).text());
    assert_eq!(Plan::of_json(&held), Ok(plan(RUNS[0])));
}

#[test]
fn the_schema_in_the_repository_is_the_programs_and_holds_what_is_printed() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plan.schema.json");
    let written = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        written == schema(),
        "docs/plan.schema.json is not the program's: mpps run --schema > docs/plan.schema.json"
    );
    let schema = serde_json::from_str(&written).expect("JSON");
    assert!(jsonschema::meta::is_valid(&schema));
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    for line in RUNS {
        let printed = serde_json::from_str(&plan(line).text()).expect("JSON");
        if let Err(error) = schema.validate(&printed) {
            panic!("{line}: {error} at {}", error.instance_path());
        }
    }
}

#[test]
fn what_no_plan_has_is_refused_by_its_name_by_program_and_schema() {
    let schema = serde_json::from_str(&schema()).expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let sendrecv = |more: &str| format!(r#"{{"mpps_plan": 1, "workload": "sendrecv", "ports": ["loop:"]{more}}}"#);
    let cases = [
        ("[]".to_owned(), "no plan"),
        ("{".to_owned(), "no JSON"),
        ("{}".to_owned(), "mpps_plan: missing"),
        (sendrecv("").replace(": 1,", ": 2,"), "mpps_plan: 2: want 1"),
        (
            sendrecv("").replace("sendrecv", "sing"),
            "workload: \"sing\": want one of sendrecv",
        ),
        (sendrecv("").replace("[\"loop:\"]", "[]"), "ports: []: want a list"),
        (sendrecv("").replace("[\"loop:\"]", "[5]"), "ports: [5]: want a list"),
        (
            sendrecv(r#", "trafic": {}"#),
            "trafic: no such field: want mpps_plan, workload, ports, seed, traffic, load",
        ),
        (sendrecv(r#", "capture": {}"#), "capture: a sendrecv has none"),
        (
            sendrecv(r#", "load": {"rte": "1Mpps"}"#),
            "load.rte: a sendrecv has no such field: want rate, then, pacing",
        ),
        (
            sendrecv(r#", "checks": {"max_flows": 4}"#),
            "checks.max_flows: a sendrecv has no such field",
        ),
        (sendrecv(r#", "load": {"rate": 5}"#), "load.rate: 5: want a text"),
        (
            sendrecv(r#", "lanes": {"lanes": "2"}"#),
            "lanes.lanes: \"2\": want a whole number",
        ),
        (
            sendrecv(r#", "lanes": {"busy_poll": 1}"#),
            "lanes.busy_poll: 1: want true or false",
        ),
        (
            sendrecv(r#", "device": {"flow_rules": "x"}"#),
            "device.flow_rules: \"x\": want a list",
        ),
        (sendrecv(r#", "seed": -1"#), "seed: -1: want a whole number"),
        (sendrecv(r#", "times": 3"#), "times: 3: want an object of duration"),
    ];
    for (text, part) in cases {
        let refused = Plan::of_json(&text).expect_err(&text);
        assert!(refused.contains(part) && !refused.contains('\n'), "{text}: {refused}");
        if let Ok(value) = serde_json::from_str(&text) {
            assert!(!schema.is_valid(&value), "{text}");
        }
    }
    let open = r#"{"mpps_plan": 1, "workload": "send", "ports": ["loop:"], "load": {"rate": null}, "lanes": {}}"#;
    assert!(Plan::of_json(open).is_ok() && schema.is_valid(&serde_json::from_str(open).expect("JSON")));
}

#[test]
fn a_file_without_a_name_is_none() {
    let plan = r#"{"mpps_plan": 1, "workload": "capture", "ports": ["null:"], "capture": {"output": ""}}"#;
    let refused = Plan::of_json(plan).expect_err("no name");
    assert_eq!(refused, "capture.output (--output) '': want FILE");
}

#[test]
fn no_plan_holds_a_secret() {
    let plan = plan("drop dpdk:net_memif0,role=server,secret=swordfish");
    assert!(!plan.text().contains("swordfish"), "{}", plan.text());
    assert!(!format!("{plan:?}").contains("swordfish"), "{plan:?}");
    let refused = Plan::of_json(&plan.text()).expect_err("it is hidden");
    assert!(refused.contains("no plan holds a secret"), "{refused}");
    let quoted = Plan::of_json(&plan.text().replace('\u{2026}', "a;'swordfish")).expect("a plan");
    assert!(!quoted.text().contains("swordfish"), "{}", quoted.text());
    assert!(Plan::of_json(&plan.text().replace('\u{2026}', "swordfish")).is_ok());
}

#[test]
fn a_line_about_options_is_one_about_fields() {
    assert_eq!(
        in_fields(Workload::Send, "--rate '5': want a rate, or --pacing left out"),
        "load.rate (--rate) '5': want a rate, or load.pacing (--pacing) left out"
    );
    assert_eq!(
        in_fields(Workload::Send, "--rx-lanes: want --lanes N"),
        "lanes.rx_lanes (--rx-lanes): want lanes.lanes (--lanes) N"
    );
    assert_eq!(in_fields(Workload::Drop, "no option"), "no option");
    // One option, and a field in each of two sections.
    assert_eq!(
        in_fields(Workload::Send, "--dest-mac: bad"),
        "traffic.dest_mac (--dest-mac): bad"
    );
    assert_eq!(
        in_fields(Workload::Forward, "--dest-mac: bad"),
        "forward.dest_mac (--dest-mac): bad"
    );
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..6).prop_map(|all| Value::Object(all.into_iter().collect())),
        ]
    })
}

/// A name that a plan may have, or any other.
fn key() -> impl Strategy<Value = String> {
    let known = FIELDS.iter().flat_map(|field| [field.section, field.key]);
    let known: Vec<String> = known
        .chain(["plan", "mpps_plan", "workload", "ports"])
        .map(str::to_owned)
        .collect();
    prop_oneof![prop::sample::select(known), ".*"]
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".*") {
        let _ = Plan::of_json(&text);
    }

    #[test]
    fn no_json_makes_the_reader_panic_and_each_refusal_is_one_line(
        value in anything(),
        workload in prop::sample::select(Workload::ALL.map(Workload::name).to_vec()),
    ) {
        let mut value = value;
        if let Value::Object(plan) = &mut value {
            plan.insert("mpps_plan".to_owned(), VERSION.into());
            plan.insert("workload".to_owned(), workload.into());
        }
        if let Err(line) = Plan::of_json(&value.to_string()) {
            prop_assert!(!line.contains('\n'), "{line:?}");
        }
    }
}

#[test]
fn a_key_that_is_there_twice_is_refused_by_its_name_at_every_level() {
    let whole = |fields: &str| format!(r#"{{"mpps_plan": 1, "workload": "send", "ports": ["loop:"], {fields}}}"#);
    for (fields, name) in [
        (r#""seed": 1, "seed": 1"#, "seed"),
        (r#""load": {"rate": "1kpps"}, "load": {}"#, "load"),
        (r#""load": {"rate": "1kpps", "r\u0061te": "2kpps"}"#, "load.rate"),
        (r#""times": {"duration": null, "x": [{"a": 1, "a": 2}]}"#, "times.x.a"),
    ] {
        let refused = Plan::of_json(&whole(fields)).expect_err(fields);
        assert!(refused.starts_with(&format!("{name}: it is there twice")), "{refused}");
        let held = format!(r#"{{"rx_packets": 1.5, "late": -1, "plan": {}}}"#, whole(fields));
        let refused = Plan::of_json(&held).expect_err(fields);
        assert!(refused.starts_with(&format!("plan.{name}: ")), "{refused}");
    }
    assert!(Plan::of_json(&whole(r#""load": {"rate": null}, "times": {"duration": "1s"}"#)).is_ok());
}

#[test]
fn default_source_ports_of_a_plan_stay_a_default_where_no_socket_has_them() {
    let given = |line: &str| {
        let plan = Plan::of_json(&plan(line).text()).unwrap_or_else(|e| panic!("{line}: {e}"));
        Run::of(plan).plan.traffic.src_ports.is_some()
    };
    let default = "--src-port-range 10000-10063";
    for port in ["af_packet:eth1", "xdp:eth1", "loop:", "dpdk:net_af_packet0,iface=eth1"] {
        let ends = format!("send {port} --src 10.0.0.1 --dest 10.0.0.2:9000");
        assert!(!given(&format!("{ends} {default}")), "{port}");
        assert!(given(&format!("{ends} --src-port-range 10000-10062")), "{port}");
    }
    for port in ["udp:10.0.0.1", "io_uring:10.0.0.1"] {
        assert!(given(&format!("send {port} --dest 10.0.0.2:9000 {default}")), "{port}");
    }
}

#[test]
fn the_page_about_plans_has_each_field() {
    const HEAD: &str = "| field | of | option | value |";
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/use/plans.md");
    let text = std::fs::read_to_string(page).expect("the page");
    let start = text.find(HEAD).expect("the table");
    let end = start + text[start..].find("\n\n").expect("its end");
    let mut table = format!(
        "{HEAD}\n|---|---|---|---|\n\
         | `mpps_plan` | all | | {VERSION}: the version of the format |\n| `workload` | all | | \
         the command: {} |\n| `ports` | all | | a list, as on the command line |",
        Workload::ALL
            .map(|workload| format!("`{}`", workload.name()))
            .join(", ")
    );
    let mut names: Vec<String> = FIELDS.iter().map(Field::name).collect();
    names.dedup();
    for name in names {
        let all = || FIELDS.iter().filter(|field| field.name() == name);
        let Some(first) = all().next() else { continue };
        let of: Vec<_> = Workload::ALL
            .into_iter()
            .filter(|workload| all().any(|field| field.is_of(*workload)))
            .map(|workload| format!("`{}`", workload.name()))
            .collect();
        let of = if of.len() == Workload::ALL.len() {
            "all".to_owned()
        } else {
            of.join(", ")
        };
        let value = match (first.kind, first.value_name) {
            (Kind::Flag, _) => "`true` or `false`".to_owned(),
            (Kind::Texts, name) => format!("a list of {name}"),
            (Kind::Streams, _) => "a list of [streams](traffic.md#streams)".to_owned(),
            (Kind::Text, name) => format!("a text: {}", name.replace('|', " or ")),
            (Kind::Count | Kind::Integer, name) => format!("a number: {name}"),
        };
        let default = first
            .default
            .map_or_else(String::new, |text| format!("; by default `{text}`"));
        table += &format!("\n| `{name}` | {of} | `--{}` | {value}{default} |", first.option);
    }
    let made = format!("{}{table}{}", &text[..start], &text[end..]);
    if std::env::var_os("MPPS_WRITE").is_some() {
        return std::fs::write(page, made).expect("the page");
    }
    assert!(
        text == made,
        "docs/use/plans.md: MPPS_WRITE=1 cargo test -p mpps --lib the_page_about_plans"
    );
}
