use super::*;
use crate::plot::about::About;
use crate::plot::{draw, overlay};
use proptest::prelude::*;

const HEADER: &str = "time_s,tx_packets,rx_packets,loss_ratio,interval_s,lost_packets,latency_p50_us";

/// Each place in the picture is a number.
fn whole(svg: &str) {
    for none in ["NaN", "inf\"", "inf,", "inf "] {
        assert!(!svg.contains(none), "{none} in {svg}");
    }
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
