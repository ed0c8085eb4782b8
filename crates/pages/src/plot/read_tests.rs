use super::*;
use crate::plot::about::About;
use crate::plot::{draw, overlay};
use proptest::prelude::*;

const HEADER: &str = "time_s,tx_packets,rx_packets,loss_ratio,interval_s,lost_packets,latency_p50_us";

/// Each place in the picture is a number.
fn whole(svg: &str) {
    let infinite = |(at, _)| !svg[at + 3..].starts_with(|next: char| next.is_ascii_lowercase());
    assert!(!svg.contains("NaN") && !svg.match_indices("inf").any(infinite), "{svg}");
}

fn used(bytes: &[u8]) {
    match read_bytes(bytes) {
        Ok(run) => {
            let about = About {
                title: String::new(),
                command: None,
                warning: None,
            };
            whole(&draw::draw(&about, &run));
            let charts = overlay::charts(&[("a".to_owned(), run.clone()), ("b".to_owned(), run)]);
            assert!(!charts.is_empty());
            for chart in charts {
                whole(&crate::chart::svg(&chart));
            }
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

#[test]
fn a_line_without_an_end_is_refused_before_it_fills_the_memory() {
    struct Endless;
    impl std::io::Read for Endless {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            buf.fill(b'1');
            Ok(buf.len())
        }
    }
    let lines = Lines {
        inner: Endless,
        since: 0,
    };
    let error = csv::Reader::from_reader(lines).headers().cloned().unwrap_err();
    assert!(error.to_string().contains("more than 64 KiB"), "{error}");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        used(&bytes);
        used(&[HEADER.as_bytes(), b"\n", &bytes].concat());
    }

    #[test]
    fn any_numbers_are_drawn(
        rows in prop::collection::vec(prop::collection::vec(prop::option::of(any::<f64>()), 7), 0..20),
    ) {
        let cell = |cell: &Option<f64>| cell.map(|n| n.to_string()).unwrap_or_default();
        let row = |row: &Vec<Option<f64>>| row.iter().map(cell).collect::<Vec<_>>().join(",");
        let rows: Vec<_> = rows.iter().map(row).collect();
        used(format!("{HEADER}\n{}\n", rows.join("\n")).as_bytes());
    }
}
