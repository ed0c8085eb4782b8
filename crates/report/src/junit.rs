//! The result of a run as JUnit XML, which CI systems show: a test case for the run's validity, and one a demand.

use crate::escape::escape;
use crate::json::{rfc3339, workload};
use mpps_stats::Summary;
use std::fmt::Write;

/// The run as a test suite of JUnit XML. Of a run that is not valid no demand is judged: they are skipped.
pub fn junit(s: &Summary) -> String {
    let suite = format!("mpps {}", workload(s.workload));
    let unmet = s.expectations.iter().filter(|of| s.valid && !of.met).count();
    let skipped = if s.valid { 0 } else { s.expectations.len() };
    let counts = format!(
        "tests=\"{}\" failures=\"{unmet}\" errors=\"{}\" skipped=\"{skipped}\" time=\"{:.3}\"",
        s.expectations.len() + 1,
        u8::from(!s.valid),
        s.duration_ns as f64 / 1e9
    );
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string does not fail.
    let _ = writeln!(out, "<testsuites name=\"mpps\" {counts}>");
    let _ = write!(out, "  <testsuite name=\"{}\" {counts}", escape(&suite));
    if s.started.utc_ns > 0 {
        let _ = write!(out, " timestamp=\"{}\"", rfc3339(s.started.utc_ns));
    }
    out.push_str(">\n");
    let case = |out: &mut String, name: &str, inner: &str| {
        let _ = write!(
            out,
            "    <testcase classname=\"{}\" name=\"{}\"",
            escape(&suite),
            escape(name)
        );
        match inner {
            "" => out.push_str("/>\n"),
            _ => {
                let _ = writeln!(out, ">{inner}</testcase>");
            }
        }
    };
    let why = s.invalid_reasons.join("; ");
    let error = format!("<error type=\"not valid\" message=\"{}\"/>", escape(&why));
    case(&mut out, "valid", if s.valid { "" } else { &error });
    for of in &s.expectations {
        let inner = match (s.valid, of.met, &of.note) {
            (false, ..) => "<skipped message=\"the run is not valid\"/>".to_owned(),
            (true, false, _) => format!(
                "<failure type=\"not met\" message=\"{}: {}\"/>",
                escape(&of.expected),
                escape(&of.told)
            ),
            (true, true, Some(note)) => format!("<system-out>{}</system-out>", escape(note)),
            (true, true, None) => String::new(),
        };
        case(&mut out, &of.expected, &inner);
    }
    let told = s.warnings.join("\n");
    if !told.is_empty() {
        let _ = writeln!(out, "    <system-out>{}</system-out>", escape(&told));
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_stats::Expectation;

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
    fn what_is_not_met_is_a_failure_and_what_is_not_valid_an_error() {
        let mut run = Summary {
            valid: true,
            expectations: vec![of("loss<1%", false), of("p99<\"1ms", true)],
            ..Summary::default()
        };
        let text = junit(&run);
        assert!(
            text.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"0\""),
            "{text}"
        );
        assert!(text.contains("message=\"loss&lt;1%: 50.0 %\""), "{text}");
        assert!(text.contains("name=\"p99&lt;&quot;1ms\"/>"), "{text}");
        run.valid = false;
        run.invalid_reasons = vec!["a < b".to_owned()];
        let text = junit(&run);
        assert!(text.contains("failures=\"0\" errors=\"1\" skipped=\"2\""), "{text}");
        assert!(text.contains("message=\"a &lt; b\""), "{text}");
    }
}
