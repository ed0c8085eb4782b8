//! The charts of the test: forwarding rate and loss by load, latency, and how loaded each lane of the device was.

use super::device::{ByLane, Did};
use super::points::{Point, Sum};
use super::tell::Told;
use mpps_pages::document::{Axis, Chart, Kind, Scale, Series, Unit};
use std::collections::BTreeSet;

fn axis(label: &str, unit: Unit) -> Axis {
    Axis {
        label: label.to_owned(),
        unit,
        ..Axis::default()
    }
}

/// Returns an axis from 0 to 100 %.
fn percent(label: &str) -> Axis {
    Axis {
        min: Some(0.0),
        max: Some(1.0),
        ..axis(label, Unit::Ratio)
    }
}

fn line(name: String, kind: Kind, points: Vec<(f64, Option<f64>)>) -> Series {
    Series { name, kind, points }
}

impl Told<'_> {
    /// Returns the charts that have at least one point.
    pub(super) fn charts(&self) -> Vec<Chart> {
        let Some(mol) = self.mol() else { return Vec::new() };
        let mut charts = vec![self.rates(mol), self.loss(mol)];
        charts.extend(self.lane_charts());
        charts.push(self.delay());
        charts.retain(|chart| chart.series.iter().any(|series| !series.points.is_empty()));
        charts
    }

    /// A line for rising loads and one for falling.
    fn both(&self, x: impl Fn(&Sum) -> Option<f64>, y: impl Fn(&Sum) -> Option<f64>) -> Vec<Series> {
        let of = |name: &str, which: fn(&Point) -> &Sum| {
            let points = self.points.iter().map(which);
            let points = points.filter_map(|sum| Some((x(sum)?, Some(y(sum)?)))).collect();
            line(name.to_owned(), Kind::Line, points)
        };
        vec![of("rising", |p| &p.rising), of("falling", |p| &p.falling)]
    }

    fn rates(&self, mol: f64) -> Chart {
        let reference = self.reference();
        let mut series = self.both(Sum::oload, Sum::fr);
        series.push(line(
            "all that is offered".to_owned(),
            Kind::Reference,
            vec![(0.0, Some(0.0)), (mol, Some(mol))],
        ));
        series.push(line(
            "reference, 100 %".to_owned(),
            Kind::Reference,
            vec![(0.0, Some(reference)), (mol, Some(reference))],
        ));
        Chart {
            name: "overload".to_owned(),
            title: "Forwarding rate by offered load".to_owned(),
            x: Axis {
                min: Some(0.0),
                ..axis("offered load", Unit::Pps)
            },
            y: Axis {
                min: Some(0.0),
                ..axis("forwarding rate", Unit::Pps)
            },
            series,
        }
    }

    fn loss(&self, mol: f64) -> Chart {
        Chart {
            name: "overload-loss".to_owned(),
            title: "Loss by load".to_owned(),
            x: percent("offered load, of the highest"),
            y: percent("lost"),
            series: self.both(|sum| Some(sum.oload()? / mol), Sum::loss),
        }
    }

    fn delay(&self) -> Chart {
        let y = |sum: &Sum| sum.latency(1).map(|ns| ns as f64);
        Chart {
            name: "overload-latency".to_owned(),
            title: "99th percentile of the latency by offered load".to_owned(),
            x: Axis {
                min: Some(0.0),
                ..axis("offered load", Unit::Pps)
            },
            y: Axis {
                scale: Scale::Log,
                ..axis("latency, p99", Unit::Ns)
            },
            series: self.both(Sum::oload, y),
        }
    }

    /// A line per lane of the device.
    fn by_lane(&self, name: &str, what: fn(&Did) -> Option<f64>) -> Vec<Series> {
        let lanes: BTreeSet<u64> = self.lanes.iter().flat_map(ByLane::keys).copied().collect();
        let of = |lane: u64| {
            let loads = self.points.iter().zip(&self.lanes);
            let points = loads.filter_map(|(point, lanes)| Some((point.all.oload()?, Some(what(lanes.get(&lane)?)?))));
            line(format!("lane {lane}{name}"), Kind::Line, points.collect())
        };
        lanes.into_iter().map(of).collect()
    }

    fn lane_charts(&self) -> Vec<Chart> {
        let x = || Axis {
            min: Some(0.0),
            ..axis("offered load", Unit::Pps)
        };
        let device = |name: &str, what: fn(&Did) -> Option<f64>| {
            let loads = self.points.iter().enumerate();
            let points = loads.filter_map(|(at, point)| Some((point.all.oload()?, Some(what(&self.device(at)?)?))));
            line(name.to_owned(), Kind::Line, points.collect())
        };
        let mut bursts = self.by_lane("", Did::mean_burst);
        bursts.extend(self.by_lane(", over all polls", Did::mean_burst_all_polls));
        vec![
            Chart {
                name: "overload-device".to_owned(),
                title: "What the device took, sent and dropped".to_owned(),
                x: x(),
                y: Axis {
                    min: Some(0.0),
                    ..axis("rate", Unit::Pps)
                },
                series: vec![
                    device("taken", Did::rx_pps),
                    device("sent", Did::tx_pps),
                    device("dropped: port full", Did::tx_full_pps),
                    device("dropped before it", Did::rx_dropped_pps),
                ],
            },
            Chart {
                name: "overload-lanes".to_owned(),
                title: "Share of its time that each lane of the device was busy".to_owned(),
                x: x(),
                y: percent("busy"),
                series: self.by_lane("", Did::busy_ratio),
            },
            Chart {
                name: "overload-burst".to_owned(),
                title: "Mean burst of each lane of the device".to_owned(),
                x: x(),
                y: Axis {
                    min: Some(0.0),
                    ..axis("packets a receive call", Unit::Plain)
                },
                series: bursts,
            },
        ]
    }
}
