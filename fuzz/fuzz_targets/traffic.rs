#![no_main]

use mpps_traffic::{Moment, Packet, Traffic, in_order};

// What is taken as a file, as a packet or as the keys of a capture makes packets, and its JSON is the same traffic; a
// refusal is one plain line at a place within the text.
libfuzzer_sys::fuzz_target!(|text: &str| {
    let keys = text.lines().filter_map(|line| line.split_once('='));
    let keys: Vec<(String, String)> = keys.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    match Traffic::of_capture("a.pcap", &keys) {
        Ok(traffic) => same(&traffic),
        Err(wrong) => assert!(!wrong.line.contains('\n')),
    }
    let traffic = match (Traffic::parse(text, &[]), Packet::parse(text)) {
        (Ok(traffic), _) => traffic,
        (Err(wrong), Ok(packet)) => {
            assert!(wrong.at.start <= text.len());
            Traffic::of_packet(packet)
        }
        (Err(wrong), Err(other)) => {
            for wrong in [wrong, other] {
                assert!(wrong.at.start <= text.len() && !wrong.line.contains('\n'));
                wrong.position(text);
            }
            return;
        }
    };
    same(&traffic);
    if let Ok(forms) = traffic.forms(1) {
        let traffic = traffic.without_captures();
        assert_eq!(forms.len(), traffic.streams.len());
        for due in in_order(&traffic, &forms).take(20) {
            let (smallest, largest) = forms[due.stream].sizes();
            let frame = forms[due.stream].packet(due.n, Moment::default());
            assert!((smallest..=largest).contains(&(frame.len() as u64 + 4)));
            forms[due.stream].line(due.n);
        }
    }
});

fn same(traffic: &Traffic) {
    let json = serde_json::json!({ "stream": traffic.json() }).to_string();
    let again = Traffic::parse(&json, &[]).expect("what was read before");
    assert_eq!(again.json(), traffic.json());
}
