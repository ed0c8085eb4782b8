//! How ports are written.

use mpps_io::{PortSpec, RxTime, hide_secrets};
use proptest::prelude::*;

fn parse(text: &str) -> PortSpec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

proptest! {
    #[test]
    fn what_is_written_out_reads_back_the_same(
        path in "[a-z_]{1,10}",
        device in r"[\[\]a-zA-Z0-9.:_/-]{0,20}",
        options in prop::collection::btree_map("[a-z_]{1,8}", "[a-zA-Z0-9.:%/=-]{1,8}", 0..5),
    ) {
        let spec = PortSpec { path, device, options: options.into_iter().collect() };
        prop_assert_eq!(spec.to_string().parse::<PortSpec>(), Ok(spec));
    }

    #[test]
    fn no_text_is_parsed_into_something_that_reads_back_otherwise(text in "[a-z=,:0-9 ]{0,24}") {
        if let Ok(spec) = text.parse::<PortSpec>() {
            prop_assert_eq!(spec.to_string().parse::<PortSpec>(), Ok(spec));
        }
    }

    #[test]
    fn an_option_given_twice_is_refused(
        key in "[a-z]{1,8}",
        device in "[a-z]{0,4}",
        a in "[0-9]{1,3}",
        b in "[0-9]{1,3}",
    ) {
        let error = format!("af_packet:{device},{key}={a},{key}={b}").parse::<PortSpec>().expect_err("twice");
        let named = format!("'{key}' is given twice");
        prop_assert!(error.to_string().contains(&named));
    }
}

#[test]
fn the_forms_in_the_manual_are_read() {
    let option = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        parse("null:"),
        PortSpec {
            path: "null".into(),
            device: String::new(),
            options: vec![]
        }
    );
    let spec = parse("loop:delay=1ms,loss=0.01");
    assert_eq!(spec.device, "");
    assert_eq!(spec.options, [option("delay", "1ms"), option("loss", "0.01")]);
    assert_eq!(parse("loop:,delay=1ms").options, [option("delay", "1ms")]);
    assert_eq!(parse("udp:[fd00::1]:9").device, "[fd00::1]:9");
    assert_eq!(parse("udp:10.99.0.1").device, "10.99.0.1");
    assert_eq!(parse("dpdk:0000:03:00.0").device, "0000:03:00.0");
    let spec = parse("dpdk:net_memif0,role=client");
    assert_eq!(
        (spec.device.as_str(), &spec.options[..]),
        ("net_memif0", &[option("role", "client")][..])
    );
}

#[test]
fn what_is_not_of_the_form_is_refused_and_named() {
    for (wrong, named) in [
        ("", "want PATH:DEVICE"),
        ("eth1", "want PATH:DEVICE"),
        (":eth1", "want PATH:DEVICE"),
        ("loop:=1ms", "option '=1ms'"),
        ("loop:delay=", "option 'delay='"),
        ("loop:,delay", "option 'delay'"),
        ("loop:delay=1ms,", "option ''"),
        ("null:,", "option ''"),
        ("af_packet:eth1,,queues=2", "option ''"),
        ("loop:delay=1ms,delay=2ms", "'delay' is given twice"),
    ] {
        let error = wrong.parse::<PortSpec>().expect_err(wrong).to_string();
        assert!(error.contains(named), "{wrong}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn who_takes_times_of_arrival_is_a_word_or_a_switch_and_a_cards_clock_is_refused() {
    for (value, taken_by) in [
        ("lane", RxTime::Lane),
        ("off", RxTime::Lane),
        ("0", RxTime::Lane),
        ("kernel", RxTime::Kernel),
        ("on", RxTime::Kernel),
        ("yes", RxTime::Kernel),
    ] {
        let spec = parse(&format!("udp:,rx_time={value}"));
        let mut options = spec.take_options();
        assert_eq!(options.rx_time(), Ok(Some(taken_by)), "{value}");
        assert_eq!(options.finish(), Ok(()));
    }
    assert_eq!(parse("udp:").take_options().rx_time(), Ok(None));
    assert_eq!(RxTime::default().name(), "lane");
    for (value, want) in [("Kernel", "want lane or kernel"), ("hardware", "want kernel or lane")] {
        let spec = parse(&format!("udp:,rx_time={value}"));
        let error = spec.take_options().rx_time().expect_err(value).to_string();
        assert!(
            error.contains(&format!("rx_time={value}: ")) && error.ends_with(want),
            "{error}"
        );
    }
}

#[test]
fn options_are_typed_and_what_no_path_asks_for_is_refused() {
    let spec = parse("udp:10.0.0.1,gso=on,batch=64,color=red");
    let mut options = spec.take_options();
    assert_eq!(options.switch("gso"), Ok(Some(true)));
    assert_eq!(options.number("batch", 1..=64), Ok(Some(64)));
    assert_eq!(options.number("absent", 1..=64), Ok(None));
    assert!(options.number("batch", 1..=63).is_err());
    assert!(options.switch("batch").is_err());
    let error = options.finish().expect_err("color").to_string();
    assert!(
        error.contains("unknown option 'color': udp: takes gso, batch"),
        "{error}"
    );
    let error = parse("null:a=1")
        .take_options()
        .finish()
        .expect_err("takes none")
        .to_string();
    assert!(error.contains("takes none"), "{error}");
}

#[test]
fn what_was_meant_to_be_a_secret_is_shown_no_more_than_one() {
    let keys = [
        "secret",
        "Secret",
        "SECRET",
        "secrt",
        "secet",
        "ecret",
        "secre",
        "sercet",
        "secrat",
        "secrets",
        "ssecret",
        "my_secret",
        "password",
    ];
    for key in keys {
        let shown = parse(&format!("dpdk:net_memif0,{key}=swordfish,role=client")).to_string();
        assert_eq!(shown, format!("dpdk:net_memif0,{key}=\u{2026},role=client"));
        let hidden = hide_secrets(&format!("'a:b,{key}=sword=fish,id=1' and {key}=swordfish"));
        assert_eq!(hidden, format!("'a:b,{key}=\u{2026},id=1' and {key}=\u{2026}"));
        for wrong in [
            "=sword,fish",
            "=swordfish,id",
            "=swordfish,id=",
            "=swordfish,id=1,id=2",
            ":swordfish",
        ] {
            let refused = format!("dpdk:net_memif0,{key}{wrong}")
                .parse::<PortSpec>()
                .expect_err(wrong);
            assert!(!refused.to_string().contains("fish"), "{key}{wrong}: {refused}");
        }
    }
    let plain = "dpdk:net_memif0,socket=/run/s,role=server,id=5";
    assert_eq!(parse(plain).to_string(), plain);
    assert_eq!(hide_secrets(plain), plain);
    let spec = parse("dpdk:net_memif0,socket=/run/s,rolle=server");
    let known = spec.with_values_of(&|key| key == "socket");
    assert_eq!(known, "dpdk:net_memif0,socket=/run/s,rolle=\u{2026}");
}
