use super::*;
use crate::document::{Axis, Chart, Column, Definition, Kind, Series, Table, Unit};
use proptest::prelude::*;
use serde_json::json;

const HOSTILE: &str = "</script><script>alert(1)</script><!--<img src=x onerror=\"y\">'&\u{202e}\u{0}\u{1b}";

/// A document whose every text is this one.
fn of(text: &str, points: usize, series: usize) -> Document {
    let texts = vec![text.to_owned(); 3];
    let axis = |unit| Axis {
        label: text.to_owned(),
        unit,
        ..Axis::default()
    };
    let line = |i: usize| Series {
        name: format!("{text}{i}"),
        kind: [Kind::Line, Kind::Points, Kind::Reference][i % 3],
        points: (0..points)
            .map(|n| (n as f64, (n % 7 != 3).then_some((n * i) as f64 * 1.234_567)))
            .collect(),
    };
    let column = |key: &str| Column {
        key: key.to_owned(),
        title: text.to_owned(),
        unit: Unit::Plain,
    };
    let table = |name: &str, rows: usize| Table {
        name: name.to_owned(),
        caption: text.to_owned(),
        columns: vec![column("a"), column("b")],
        rows: vec![vec![json!(text), json!(1.5)]; rows],
    };
    Document {
        schema: text.to_owned(),
        test: text.to_owned(),
        title: text.to_owned(),
        version: text.to_owned(),
        command: texts.clone(),
        started: text.to_owned(),
        took_s: f64::INFINITY,
        incomplete: Some(text.to_owned()),
        compliance: Some(text.to_owned()),
        verdict: texts.clone(),
        deviations: texts,
        params: json!({ text: { text: [text, 1] } }),
        tables: vec![table("one", points), table("trials", points)],
        charts: ["one", "two"]
            .map(|name| Chart {
                name: name.to_owned(),
                title: text.to_owned(),
                x: axis(Unit::S),
                y: axis(Unit::Pps),
                series: (0..series).map(line).collect(),
            })
            .to_vec(),
        definitions: vec![Definition {
            term: text.to_owned(),
            text: text.to_owned(),
        }],
        device: Some(text.to_owned()),
        tester: json!({ text: text }),
        plan: json!({ text: text }),
        ..Document::default()
    }
}

fn page_of(document: &Document) -> String {
    html(document, &[Source::of(HOSTILE, b"")])
}

/// Returns the text between the first `from` and the next `to`; empty if either is missing.
fn between<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    text.split_once(from)
        .and_then(|(_, rest)| rest.split_once(to))
        .map_or("", |(inside, _)| inside)
}

#[test]
fn the_parts_of_others_are_those_that_were_looked_at() {
    let hash = |text: &str| hex(&Sha256::digest(text.as_bytes()));
    assert_eq!(
        hash(UPLOT),
        "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"
    );
    assert_eq!(
        hash(UPLOT_STYLE),
        "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"
    );
    assert_eq!(
        hash(UPLOT_LICENCE),
        "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd"
    );
}

#[test]
fn the_policy_names_the_scripts_and_styles_that_are_there_and_nothing_else_runs() {
    let page = html(&of("x", 50, 2), &[]);
    let policy = between(&page, "http-equiv=\"Content-Security-Policy\" content=\"", "\"");
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let script = between(&page, "<script>", "</script>");
    let style = between(&page, "<style>", "</style>");
    assert!(
        policy.contains(&format!("script-src 'sha256-{}'", base64_hash(script))),
        "{policy}"
    );
    assert!(
        policy.contains(&format!("style-src 'sha256-{}'", base64_hash(style))),
        "{policy}"
    );
    // Markup and styles that the policy would stop are not there either.
    for tag in ["style=\"", " src=", " href=", "@import", "url(", "onload="] {
        let body = page
            .replace(script, "")
            .replace("default-src", "")
            .replace("http-equiv", "");
        assert!(!body.contains(tag), "{tag}");
    }
    assert!(!SCRIPT.contains("</") && !UPLOT.contains("</script") && !UPLOT.contains("<!--"));
}

#[test]
fn no_text_is_markup() {
    let page = page_of(&of(HOSTILE, 20, 3));
    assert!(!page.contains("<img") && !page.contains("alert(1)</script>"), "markup");
    assert!(!page.contains(['\u{202e}', '\u{0}', '\u{1b}']));
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
    let data: Value = serde_json::from_str(between(&page, "id=\"charts\">", "</script>")).expect("JSON");
    assert_eq!(
        data["charts"][0]["series"][1]["name"],
        format!("{}1", HOSTILE.replace(['\u{202e}', '\u{0}', '\u{1b}'], "\u{fffd}"))
    );
    let text = markdown(&of(HOSTILE, 20, 3), &[]);
    let outside: String = text.split("```").step_by(2).collect();
    assert!(!outside.replace("\\<", "").contains('<'), "{outside}");
}

#[test]
fn a_page_stays_small_whatever_it_is_made_of() {
    for (points, series, times) in [(20_000, 6, 1), (1000, 100, 1), (20, 5, 200), (0, 0, 50_000)] {
        let mut document = of(&"wide & <long>".repeat(times), points, series);
        document.charts = vec![document.charts; if points == 20 { 40 } else { 1 }].concat();
        let page = page_of(&document);
        assert!(
            page.len() <= 500_000,
            "{points} points of {series} series: {}",
            page.len()
        );
        assert!(page.ends_with("</html>\n"));
    }
}

#[test]
fn the_answer_comes_first_and_a_chart_before_its_table() {
    let mut document = of("x", 20, 2);
    document.verdict = vec!["the verdict".to_owned()];
    document.incomplete = Some("a reason".to_owned());
    document.deviations = vec!["a deviation".to_owned()];
    document.device = None;
    let page = page_of(&document);
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
    let order = [
        "The verdict",
        "Not complete: a reason",
        "A deviation",
        "id=\"chart-one\"",
        "<table",
        "id=\"chart-two\"",
        "All trials (20)",
        "Definitions",
        "RFC 2544 section 7",
        "SHA-256",
    ];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])));
    let text = markdown(&document, &[]);
    let (_, below) = text.split_once("**The verdict**").expect("a verdict");
    assert!(below.contains("**Not complete: a reason**"), "{text}");
    assert_eq!(
        page.matches("role=\"img\" aria-label").count(),
        6,
        "two sizes and a live one of each chart"
    );
    assert_eq!(page.matches("<caption>").count(), page.matches("<thead>").count());
    let bare = html(&Document::default(), &[]);
    assert!(bare.contains("script-src 'none'") && !bare.contains("<script"));
}

#[test]
fn of_a_run_that_it_is_not_valid_comes_before_its_numbers_and_warnings() {
    let mut document = of("x", 20, 2);
    document.test = "run".to_owned();
    document.verdict = vec!["sent something.".to_owned(), "Note: a warning.".to_owned()];
    document.incomplete = Some("not valid: a reason".to_owned());
    for text in [page_of(&document), markdown(&document, &[])] {
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("no {words}: {text}"));
        assert!(at("Not valid: a reason") < at("Sent something."), "{text}");
        assert!(at("Sent something.") < at("Note: a warning."), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_text_becomes_a_page(text in "\\PC{0,30}", points in 0usize..30, series in 0usize..4) {
        let document = of(&text, points, series);
        let page = page_of(&document);
        let (tags, ends) = (page.matches("<table").count(), page.matches("</table>").count());
        prop_assert_eq!(tags, ends);
        let rows = csv(&document.tables[0]);
        let mut read = ::csv::Reader::from_reader(rows.as_bytes());
        prop_assert_eq!(read.records().filter(Result::is_ok).count(), points);
        markdown(&document, &[]);
    }
}

#[test]
fn what_is_missing_of_several_frame_sizes_stands_one_below_the_other() {
    let why = "64 bytes: throughput: <b>; 3 times; 64 bytes: recovery was not measured; 1518 bytes: no burst";
    let document = Document {
        test: "rfc2544".to_owned(),
        incomplete: Some(why.to_owned()),
        ..Document::default()
    };
    let text = markdown(&document, &[]);
    assert!(
        text.contains("**64 bytes: recovery was not measured;**\n\n**1518 bytes: no burst**"),
        "{text}"
    );
    let page = page_of(&document);
    assert_eq!(
        between(&page, "<p class=\"bad\">", "</p>")
            .split("<br>")
            .collect::<Vec<_>>(),
        [
            "Not complete: 64 bytes: throughput: &lt;b&gt;; 3 times;",
            "64 bytes: recovery was not measured;",
            "1518 bytes: no burst"
        ]
    );
}

#[test]
fn goals_are_words() {
    let document = Document {
        params: json!({ "goals": [
            { "loss_ratio": 0.0, "sum_s": 21.0, "width": 0.005 },
            { "loss_ratio": 0.005, "sum_s": 5.5, "width": 0.02 },
        ] }),
        ..Document::default()
    };
    let words = "loss 0 %, sum 21 s, width 0.005; loss 0.5";
    let (page, text) = (page_of(&document), markdown(&document, &[]));
    assert!(
        page.contains(words) && !page.contains("loss_ratio"),
        "{}",
        between(&page, "Parameters", "</table>")
    );
    assert!(text.contains(words), "{text}");
}
