//! Order in which the packets of several streams are due, for those who look at traffic without sending it.

use crate::file::Traffic;
use crate::form::Form;
use crate::rate::RateText;
use crate::stream::{Load, Stream};

/// Bytes of a packet on layer 1 beyond its frame: preamble and gap (IEEE 802.3).
const OVERHEAD: f64 = 20.0;

/// Packet that is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Due {
    /// Time after the start, ns. Streams without a rate send a packet each µs here.
    pub at_ns: u64,
    /// Stream.
    pub stream: usize,
    /// Number in the stream.
    pub n: u64,
}

/// When the packets of a stream are due.
struct Schedule {
    /// Time of the first packet, ns; `None`: it never begins.
    start_ns: Option<f64>,
    pps: f64,
    /// Packets of a burst and its length in ns, for streams that send bursts.
    burst: Option<(u64, f64)>,
    /// Packets of all, if they end.
    packets: Option<u64>,
    next: u64,
}

impl Schedule {
    fn due_ns(&self) -> Option<f64> {
        let start = self
            .start_ns
            .filter(|_| self.packets.is_none_or(|packets| self.next < packets))?;
        Some(start + self.offset_ns(self.next))
    }

    fn offset_ns(&self, n: u64) -> f64 {
        match self.burst {
            // A burst leaves at once.
            Some((packets, gap_ns)) => (n / packets) as f64 * gap_ns,
            None => n as f64 * 1e9 / self.pps,
        }
    }
}

/// Returns the packets of all streams in the order in which they are due. `forms` are the streams' forms.
pub fn in_order<'t>(traffic: &'t Traffic, forms: &'t [Form]) -> impl Iterator<Item = Due> + use<'t> {
    let streams = traffic.streams.iter().zip(forms);
    let mut schedules: Vec<Schedule> = streams.map(|(stream, form)| schedule(stream, form)).collect();
    begin(traffic, &mut schedules);
    std::iter::from_fn(move || {
        let due = schedules
            .iter()
            .enumerate()
            .filter_map(|(stream, schedule)| Some((stream, schedule.due_ns()?)));
        let (stream, at_ns) = due.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
        let n = schedules[stream].next;
        schedules[stream].next += 1;
        Some(Due {
            at_ns: at_ns as u64,
            stream,
            n,
        })
    })
}

fn schedule(stream: &Stream, form: &Form) -> Schedule {
    const EACH_US: f64 = 1e6;
    let pps = match &stream.load {
        Load::Most => EACH_US,
        Load::Weight(weight) => EACH_US * f64::from(*weight),
        Load::Rate(text) => RateText::parse(text)
            .ok()
            .and_then(|rate| rate.packets_per_second(form.mean_size() + OVERHEAD))
            .unwrap_or(EACH_US),
    };
    let burst = stream
        .burst
        .map(|burst| (u64::from(burst.packets), burst.gap.as_nanos() as f64));
    let bursts = stream
        .burst
        .and_then(|burst| Some(u64::from(burst.count?) * u64::from(burst.packets)));
    let once = match (stream.packets, bursts) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    Schedule {
        start_ns: None,
        pps,
        burst,
        packets: once.map(|packets| packets.saturating_mul(stream.repeat.into())),
        next: 0,
    }
}

/// Works out when each stream begins: after the last packet of the one before it. Chains of them have no circle.
fn begin(traffic: &Traffic, schedules: &mut [Schedule]) {
    let of = traffic.before();
    let before = |at: usize| of[at];
    for first in 0..schedules.len() {
        let mut path = vec![first];
        while let Some(at) = path
            .last()
            .copied()
            .and_then(before)
            .filter(|at| schedules[*at].start_ns.is_none())
        {
            if path.len() > schedules.len() {
                break;
            }
            path.push(at);
        }
        for at in path.into_iter().rev() {
            let own = traffic.streams[at].start.as_nanos() as f64;
            let after = match before(at) {
                None => Some(0.0),
                Some(before) => {
                    let schedule = &schedules[before];
                    schedule
                        .start_ns
                        .zip(schedule.packets)
                        .map(|(start, packets)| start + schedule.offset_ns(packets))
                }
            };
            schedules[at].start_ns = after.map(|after| own + after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(text: &str, n: usize) -> Vec<(usize, u64, u64)> {
        let traffic = Traffic::parse(text, &[]).unwrap();
        let forms = traffic.forms(1).unwrap();
        in_order(&traffic, &forms)
            .take(n)
            .map(|due| (due.stream, due.n, due.at_ns))
            .collect()
    }

    #[test]
    fn streams_take_turns_by_their_rates() {
        let text = "[[stream]]\npacket = 'eth / ipv4 / udp'\nrate = '2kpps'\n\
                    [[stream]]\npacket = 'eth / ipv4 / udp'\nrate = '1kpps'\nstart = '1ms'\n";
        let all = order(text, 6);
        assert_eq!(
            all,
            [
                (0, 0, 0),
                (0, 1, 500_000),
                (0, 2, 1_000_000),
                (1, 0, 1_000_000),
                (0, 3, 1_500_000),
                (0, 4, 2_000_000)
            ]
        );
    }

    #[test]
    fn a_stream_begins_when_the_one_before_it_has_ended() {
        let text = "[[stream]]\nname = 'a'\npacket = 'eth / ipv4 / udp'\n\
                    burst = { packets = 2, gap = '1ms', count = 2 }\n\
                    [[stream]]\npacket = 'eth / ipv4 / udp'\nafter = 'a'\npackets = 1\nrate = '1kpps'\n";
        assert_eq!(
            order(text, 9),
            [
                (0, 0, 0),
                (0, 1, 0),
                (0, 2, 1_000_000),
                (0, 3, 1_000_000),
                (1, 0, 2_000_000)
            ]
        );
    }
}
