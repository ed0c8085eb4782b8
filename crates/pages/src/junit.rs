//! Results as JUnit XML, which CI systems show: one test case for the validity of a run or test, one per stream if
//! there are several, and one per demand.

use crate::document::Document;
use crate::escape::escape;
use mpps_report::{rfc3339, workload_name};
use mpps_stats::{Expectation, StreamSummary, Summary, sentences};
use std::fmt::Write;

/// Contents of a test suite.
struct Suite<'a> {
    name: String,
    /// RFC 3339; empty: not known.
    started: String,
    duration_s: f64,
    /// Name of the first test case: a condition that must hold before any demand is judged.
    holds: &'static str,
    /// Reason why the condition does not hold.
    error: Option<String>,
    /// Streams, each a test case of its own.
    streams: &'a [StreamSummary],
    demands: &'a [Expectation],
    told: String,
    /// Errors of files that could not be written.
    unwritten: &'a [String],
}

/// Returns the run as a test suite of JUnit XML. If the run is not valid, its demands are not judged but skipped.
/// `unwritten` has the errors of files that could not be written; these errors are a test case beside the others.
pub fn junit(s: &Summary, unwritten: &[String]) -> String {
    suite(&Suite {
        name: format!("mpps {}", workload_name(s.workload)),
        started: match s.started.utc_ns {
            0 => String::new(),
            ns => rfc3339(ns),
        },
        duration_s: s.duration_ns as f64 / 1e9,
        holds: "valid",
        error: (!s.valid).then(|| sentences(&s.invalid_reasons).join("; ")),
        streams: match &s.streams[..] {
            [_] => &[],
            streams => streams,
        },
        demands: &s.expectations,
        told: sentences(&s.warnings).join("\n"),
        unwritten,
    })
}

/// Returns the result of a method as a test suite of JUnit XML. If it is not complete, its demands are not judged.
/// `unwritten` is as in [`junit`].
pub fn method_junit(of: &Document, demands: &[Expectation], unwritten: &[String]) -> String {
    suite(&Suite {
        name: format!("mpps {}", of.test),
        started: of.started.clone(),
        duration_s: of.took_s,
        holds: "complete",
        error: of.incomplete.clone(),
        streams: &[],
        demands,
        told: of.verdict.join("\n"),
        unwritten,
    })
}

/// Returns the test suite of a run or method without a result: its first case has the reason as an error. `command` is
/// `sendrecv`, `ndr`, ….
pub fn junit_without_result(command: &str, why: &str) -> String {
    suite(&Suite {
        name: format!("mpps {command}").trim_end().to_owned(),
        started: String::new(),
        duration_s: 0.0,
        holds: match command {
            "ndr" | "rfc2544" | "overload" => "complete",
            _ => "valid",
        },
        error: Some(why.to_owned()),
        streams: &[],
        demands: &[],
        told: String::new(),
        unwritten: &[],
    })
}

fn suite(of: &Suite<'_>) -> String {
    let holds = of.error.is_none();
    let unmet = of.demands.iter().filter(|of| holds && !of.met).count();
    let reasons = |stream: &StreamSummary| sentences(&stream.invalid_reasons).join("; ");
    let bad = of.streams.iter().filter(|stream| !stream.valid);
    let wrong = bad.clone().filter(|stream| !stream.invalid_reasons.is_empty()).count();
    let skipped = bad.count() - wrong + if holds { 0 } else { of.demands.len() };
    let counts = format!(
        "tests=\"{}\" failures=\"{unmet}\" errors=\"{}\" skipped=\"{skipped}\" time=\"{:.3}\"",
        of.demands.len() + of.streams.len() + 1 + usize::from(!of.unwritten.is_empty()),
        wrong + usize::from(!holds) + usize::from(!of.unwritten.is_empty()),
        of.duration_s
    );
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string does not fail.
    let _ = writeln!(out, "<testsuites name=\"mpps\" {counts}>");
    let _ = write!(out, "  <testsuite name=\"{}\" {counts}", escape(&of.name));
    if !of.started.is_empty() {
        let _ = write!(out, " timestamp=\"{}\"", escape(&of.started));
    }
    out.push_str(">\n");
    let case = |out: &mut String, name: &str, inner: &str| {
        let _ = write!(
            out,
            "    <testcase classname=\"{}\" name=\"{}\"",
            escape(&of.name),
            escape(name)
        );
        match inner {
            "" => out.push_str("/>\n"),
            _ => {
                let _ = writeln!(out, ">{inner}</testcase>");
            }
        }
    };
    let error = of.error.as_ref().map_or_else(String::new, |why| {
        format!("<error type=\"not {}\" message=\"{}\"/>", of.holds, escape(why))
    });
    case(&mut out, of.holds, &error);
    for stream in of.streams {
        let inner = match (stream.valid, stream.invalid_reasons.is_empty()) {
            (true, _) => String::new(),
            // What is wrong is wrong with the whole run.
            (false, true) => "<skipped message=\"the run is not valid\"/>".to_owned(),
            (false, false) => format!("<error type=\"not valid\" message=\"{}\"/>", escape(&reasons(stream))),
        };
        case(&mut out, &format!("stream {}", stream.name), &inner);
    }
    for demand in of.demands {
        let inner = match (holds, demand.met, &demand.note) {
            (false, ..) => format!("<skipped message=\"it is not {}\"/>", of.holds),
            (true, false, _) => format!(
                "<failure type=\"not met\" message=\"{}: {}\"/>",
                escape(&demand.expected),
                escape(&demand.told)
            ),
            (true, true, Some(note)) => format!("<system-out>{}</system-out>", escape(note)),
            (true, true, None) => String::new(),
        };
        case(&mut out, &demand.expected, &inner);
    }
    if !of.unwritten.is_empty() {
        let why = escape(&of.unwritten.join("; "));
        let error = format!("<error type=\"not written\" message=\"{why}\"/>");
        case(&mut out, "files", &error);
    }
    if !of.told.is_empty() {
        let _ = writeln!(out, "    <system-out>{}</system-out>", escape(&of.told));
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_stats::{Expectation, Remark, RemarkName};

    fn remark(sentence: &str) -> Remark {
        Remark::new(RemarkName::Output, sentence)
    }

    fn of(expected: &str, met: bool) -> Expectation {
        Expectation {
            expected: expected.to_owned(),
            measured: Some(0.5),
            told: "50.0 %".to_owned(),
            met,
            note: None,
        }
    }

    #[test]
    fn each_of_several_streams_is_a_case() {
        let stream = |name: &str, valid| StreamSummary {
            name: name.to_owned(),
            valid,
            ..StreamSummary::default()
        };
        let mut run = Summary {
            valid: false,
            invalid_reasons: vec![remark("stream b: late")],
            streams: vec![stream("a", true), stream("b", false), stream("c", false)],
            expectations: vec![of("loss(a)==0", true)],
            ..Summary::default()
        };
        run.streams[1].invalid_reasons = run.invalid_reasons.clone();
        let text = junit(&run, &[]);
        assert!(
            text.contains("tests=\"5\" failures=\"0\" errors=\"2\" skipped=\"2\""),
            "{text}"
        );
        assert!(text.contains("name=\"stream a\"/>"), "{text}");
        assert!(
            text.contains("name=\"stream b\"><error type=\"not valid\" message=\"stream b: late\"/>"),
            "{text}"
        );
        assert!(
            text.contains("name=\"stream c\"><skipped message=\"the run is not valid\"/>"),
            "{text}"
        );
        run.streams.truncate(1);
        assert!(!junit(&run, &[]).contains("stream a"), "one stream is the run");
    }

    #[test]
    fn what_is_not_met_is_a_failure_and_what_is_not_valid_an_error() {
        let mut run = Summary {
            valid: true,
            expectations: vec![of("loss<1%", false), of("p99<\"1ms", true)],
            ..Summary::default()
        };
        let text = junit(&run, &[]);
        assert!(
            text.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"0\""),
            "{text}"
        );
        assert!(text.contains("message=\"loss&lt;1%: 50.0 %\""), "{text}");
        assert!(text.contains("name=\"p99&lt;&quot;1ms\"/>"), "{text}");
        run.valid = false;
        run.invalid_reasons = vec![remark("a < b")];
        let text = junit(&run, &[]);
        assert!(text.contains("failures=\"0\" errors=\"1\" skipped=\"2\""), "{text}");
        assert!(text.contains("message=\"a &lt; b\""), "{text}");
    }

    #[test]
    fn a_method_that_is_complete_is_judged_and_one_that_is_not_is_an_error() {
        let mut method = Document {
            test: "ndr".to_owned(),
            started: "2026-01-02T03:04:05Z".to_owned(),
            took_s: 12.5,
            ..Document::default()
        };
        let demands = [of("ndr>1kpps", false), of("pdr>1kpps", true)];
        let text = method_junit(&method, &demands, &[]);
        assert!(
            text.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"0\" time=\"12.500\""),
            "{text}"
        );
        assert!(
            text.contains("<testcase classname=\"mpps ndr\" name=\"complete\"/>"),
            "{text}"
        );
        assert!(text.contains("timestamp=\"2026-01-02T03:04:05Z\""), "{text}");
        method.incomplete = Some("it was interrupted".to_owned());
        let text = method_junit(&method, &demands, &[]);
        assert!(text.contains("failures=\"0\" errors=\"1\" skipped=\"2\""), "{text}");
        assert!(
            text.contains("type=\"not complete\" message=\"it was interrupted\""),
            "{text}"
        );
    }

    /// Text that is no XML: escape codes, control characters, markup, and the characters that XML 1.0 excludes.
    const ODD: &str =
        "\u{1b}[31mred\u{1b}[0m \0 \u{7} \r <a b='c'> & &lt; &#27; \"]]>\" --> \u{fffe}\u{ffff} \u{7f}\u{85} \u{202e}";

    /// The XML with each text odd.
    fn all_odd() -> [String; 3] {
        let demand = |met, note: Option<&str>| Expectation {
            expected: ODD.to_owned(),
            told: ODD.to_owned(),
            note: note.map(str::to_owned),
            ..of("", met)
        };
        let mut run = Summary {
            valid: true,
            expectations: vec![demand(false, None), demand(true, Some(ODD))],
            warnings: vec![remark(ODD)],
            ..Summary::default()
        };
        let unwritten = [ODD.to_owned()];
        let valid = junit(&run, &unwritten);
        run.valid = false;
        run.invalid_reasons = vec![remark(ODD)];
        [valid, junit(&run, &unwritten), junit_without_result(ODD, ODD)]
    }

    #[test]
    fn escape_codes_and_what_xml_can_not_hold_are_replaced_in_every_text() {
        for text in all_odd() {
            let allowed = |c: char| matches!(c, '\n' | '\t' | ' '..='~' | '\u{fffd}');
            assert!(text.chars().all(allowed), "{text:?}");
            assert!(text.contains("\u{fffd}[31mred\u{fffd}[0m"), "{text}");
            assert!(
                text.contains("&lt;a b='c'&gt; &amp; &amp;lt; &amp;#27; &quot;]]&gt;&quot;"),
                "{text}"
            );
        }
    }

    /// By parsers of other programs: a CI system shows nothing of a file that is not well-formed.
    #[test]
    fn parsers_of_xml_read_every_odd_text_as_it_was() {
        let python = "import sys, xml.etree.ElementTree as e\nfor t in e.fromstring(sys.stdin.buffer.read()).iter():\n \
                      for v in (*t.attrib.values(), t.text or ''): print(ascii(v))";
        for (program, arguments) in [("python3", vec!["-c", python]), ("xmllint", vec!["--noout", "-"])] {
            for text in all_odd() {
                let child = std::process::Command::new(program)
                    .args(&arguments)
                    .stdin(std::process::Stdio::piped())
                    .stdout(std::process::Stdio::piped())
                    .stderr(std::process::Stdio::piped())
                    .spawn();
                let Ok(mut child) = child else {
                    eprintln!("SKIPPED: {program} is missing (apt-get install python3 libxml2-utils)");
                    break;
                };
                let mut input = child.stdin.take().expect("piped");
                std::io::Write::write_all(&mut input, text.as_bytes()).expect("read");
                drop(input);
                let done = child.wait_with_output().expect("its end");
                let told = String::from_utf8_lossy(&done.stderr);
                assert!(done.status.success(), "{program}: {told}: {text}");
                if program == "python3" {
                    let read = String::from_utf8_lossy(&done.stdout).into_owned();
                    let odd = r#"\ufffd[31mred\ufffd[0m \ufffd \ufffd \ufffd <a b=\'c\'> & &lt; &#27; "]]>" -->"#;
                    assert!(read.contains(odd), "{read}");
                }
            }
        }
    }
}
