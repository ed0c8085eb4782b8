//! Joins the runs of a sender and of its other end, to find out in which direction packets were lost.

use super::Run;
use super::tables::{column, table};
use crate::document::{Table, Unit};
use mpps_report::units::{count, percent};
use serde_json::Value;

/// Places where a sender's packets were lost, from the counts of both ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Joined {
    /// Names of the sender and of the other end.
    names: (String, String),
    sent: u64,
    /// Places in the order in which packets pass them, and the packets that ended there. The sum is the sender's loss.
    places: Vec<(&'static str, u64)>,
}

/// Joins two runs if one is a sender and the other answered it or received from it.
///
/// # Errors
/// The reason, if the runs are such a pair but their counts can't belong to the same packets. `Ok(None)` if they are
/// not such a pair.
pub(super) fn join(runs: &[Run]) -> Result<Option<Joined>, String> {
    let [a, b] = runs else { return Ok(None) };
    let Some((sender, end)) = pair(a, b).or_else(|| pair(b, a)) else {
        return Ok(None);
    };
    let names = (sender.name.clone(), end.name.clone());
    let count_of = |run: &Run, key: &str| run.whole(key).unwrap_or(0);
    let sent = count_of(sender, "tx_packets");
    let lanes = sender.summary.get("lanes").and_then(Value::as_array);
    let failed = |lane: &Value| lane.get("tx_failed").and_then(Value::as_u64);
    let refused = lanes
        .into_iter()
        .flatten()
        .filter_map(failed)
        .fold(0, u64::saturating_add);
    let taken = count_of(end, "rx_packets");
    let cannot = |why: String| Err(format!("{} and {} can't be put together: {why}", names.0, names.1));
    if taken > sent {
        return cannot(format!(
            "{} took {} packets, {} sent {}: it took others', too, or in several runs",
            names.1,
            count(taken),
            names.0,
            count(sent)
        ));
    }
    let there = sent - taken;
    let refused = refused.min(there);
    let at_end = count_of(end, "host_dropped").min(there - refused);
    let mut places = vec![
        ("refused by the sender's device after they counted as sent", refused),
        ("on the way there", there - refused - at_end),
        ("dropped by the host at the other end", at_end),
    ];
    if sender.text("/workload") == Some("sendrecv") {
        let back = count_of(sender, "rx_packets") + count_of(sender, "late");
        let answered = count_of(end, "tx_packets").min(taken);
        if back > answered {
            return cannot(format!(
                "{} sent {} back, {} received {}",
                names.1,
                count(answered),
                names.0,
                count(back)
            ));
        }
        let corrupt = count_of(sender, "corrupt").min(answered - back);
        let dropped = count_of(sender, "host_dropped").min(answered - back - corrupt);
        places.extend([
            ("not sent back: the other end's device took no more", taken - answered),
            ("on the way back", answered - back - corrupt - dropped),
            ("came back changed", corrupt),
            ("dropped by the sender's own host", dropped),
        ]);
    }
    Ok(Some(Joined { names, sent, places }))
}

/// Returns the sender and its other end.
fn pair<'r>(a: &'r Run, b: &'r Run) -> Option<(&'r Run, &'r Run)> {
    let one_way = |run: &Run| run.ways().is_empty() && run.text("/host/arrives_at").is_none();
    let fits = matches!(
        (a.text("/workload")?, b.text("/workload")?),
        ("sendrecv", "reflect") | ("send", "drop")
    );
    (fits && one_way(a) && one_way(b)).then_some((a, b))
}

impl Joined {
    /// Returns a sentence on the places of loss.
    pub(super) fn told(&self) -> String {
        let lost: u64 = self.places.iter().map(|(_, n)| n).sum();
        if lost == 0 {
            return format!("Of {} packets none was lost on either way.", count(self.sent));
        }
        let places: Vec<_> = self.places.iter().filter(|(_, n)| *n > 0).collect();
        let named: Vec<String> = places
            .iter()
            .map(|(place, n)| format!("{} {place}", count(*n)))
            .collect();
        format!(
            "Of {} packets {} were lost ({}): {}.",
            count(self.sent),
            count(lost),
            percent(lost as f64 / self.sent.max(1) as f64),
            named.join(", ")
        )
    }

    /// Returns a table that also has the places without loss.
    pub(super) fn table(&self) -> Table {
        let share = |n: u64| Value::from(n as f64 / self.sent.max(1) as f64);
        let rows = self
            .places
            .iter()
            .map(|&(place, n)| vec![place.into(), n.into(), share(n)]);
        table(
            "lost-where",
            &format!(
                "Where the packets of {} were lost, by the counts of {}",
                self.names.0, self.names.1
            ),
            vec![
                column("where", "Where", Unit::Plain),
                column("packets", "Packets", Unit::Count),
                column("ratio", "Of those sent", Unit::Ratio),
            ],
            rows.collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn runs(sender: Value, end: Value) -> [Run; 2] {
        [Run::new("a", sender), Run::new("b", end)]
    }

    #[test]
    fn loss_is_told_by_the_way_on_which_it_was() {
        let sender = json!({
            "workload": "sendrecv", "tx_packets": 1000, "rx_packets": 900, "late": 3, "lost": 97, "host_dropped": 4,
            "lanes": [{ "tx_failed": 2 }],
        });
        let end = json!({ "workload": "reflect", "rx_packets": 950, "tx_packets": 940, "host_dropped": 20 });
        let joined = join(&runs(end.clone(), sender.clone()))
            .expect("they fit")
            .expect("a pair");
        assert_eq!(
            joined.told(),
            "Of 1,000 packets 97 were lost (9.700 %): 2 refused by the sender's device after they counted as sent, 28 \
             on the way there, 20 dropped by the host at the other end, 10 not sent back: the other end's device took \
             no more, 33 on the way back, 4 dropped by the sender's own host."
        );
        assert_eq!(joined.table().rows.len(), 7);
        // A reflector that served another sender as well.
        let busy = json!({ "workload": "reflect", "rx_packets": 2000, "tx_packets": 2000 });
        assert!(join(&runs(sender.clone(), busy)).is_err());
        assert_eq!(join(&runs(sender.clone(), sender)), Ok(None));
    }

    proptest! {
        #[test]
        fn the_places_add_up_to_what_was_not_received(values in any::<[u16; 8]>(), both: bool) {
            let [tx, rx, late, failed, dropped, taken, answered, corrupt] = values;
            let (send, end) = if both { ("sendrecv", "reflect") } else { ("send", "drop") };
            let sender = json!({
                "workload": send, "tx_packets": tx, "rx_packets": rx, "late": late, "host_dropped": dropped,
                "corrupt": corrupt, "lanes": [{ "tx_failed": failed }],
            });
            let other = json!({
                "workload": end, "rx_packets": taken, "tx_packets": answered, "host_dropped": dropped,
            });
            if let Ok(Some(joined)) = join(&runs(sender, other)) {
                let lost: u64 = joined.places.iter().map(|(_, n)| n).sum();
                let received = if both { u64::from(rx) + u64::from(late) } else { u64::from(taken) };
                prop_assert_eq!(lost, u64::from(tx) - received);
            }
        }
    }
}
