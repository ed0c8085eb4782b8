#![no_main]

use mpps_flow::Rule;

// Whatever is taken is told in words that read back as the same rule; a refusal is one plain line.
libfuzzer_sys::fuzz_target!(|text: &str| {
    match text.parse::<Rule>() {
        Ok(rule) => assert_eq!(rule.to_string().parse(), Ok(rule)),
        Err(error) => assert!(!error.to_string().contains(char::is_control)),
    }
});
