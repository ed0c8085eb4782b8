#![no_main]

use mpps_traffic::{Moment, Packet, Traffic, in_order};

// What is taken as a file or as a packet makes packets, and its JSON is the same traffic; a refusal is one plain line
// at a place within the text.
libfuzzer_sys::fuzz_target!(|text: &str| {
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
    let json = serde_json::json!({ "stream": traffic.json() }).to_string();
    let again = Traffic::parse(&json, &[]).expect("what was read before");
    assert_eq!(again.json(), traffic.json());
    if let Ok(forms) = traffic.forms(1) {
        for due in in_order(&traffic, &forms).take(20) {
            let (smallest, largest) = forms[due.stream].sizes();
            let frame = forms[due.stream].packet(due.n, Moment::default());
            assert!((smallest..=largest).contains(&(frame.len() as u64 + 4)));
            forms[due.stream].line(due.n);
        }
    }
});
