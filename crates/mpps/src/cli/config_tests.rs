use super::*;
use crate::cli::Cli;
use proptest::prelude::*;
use std::io::Write;

/// A file that is gone with the value.
fn file(text: &str) -> (tempfile::NamedTempFile, OsString) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    let path = file.path().into();
    (file, path)
}

/// The words of a line with `FILE` in place of a file of this text, without the program's name.
fn words(line: &str, text: &str) -> Result<Vec<String>, String> {
    let (_file, path) = file(text);
    let typed = line.split(' ').map(|word| match word.strip_suffix("FILE") {
        Some(before) => [OsStr::new(before), path.as_os_str()].into_iter().collect(),
        None => OsString::from(word),
    });
    let given = given(&Cli::definition(), typed.collect()).map_err(|e| argument_line(&e))?;
    let words = given.words.into_iter().skip(1);
    Ok(words.map(|word| word.into_string().expect("UTF-8")).collect())
}

/// Returns the error about a file, from its line number on.
fn wrong(text: &str) -> String {
    let (_file, path) = file(text);
    let typed = ["mpps", "sendrecv", "loop:", "--config"].map(OsString::from);
    let error = Cli::of(typed.into_iter().chain([path.clone()])).expect_err(text);
    let (line, path) = (argument_line(&error), path.into_string().expect("UTF-8"));
    line.strip_prefix(&path).unwrap_or(&line).to_owned()
}

#[test]
fn options_of_a_file_are_words_in_front_of_those_that_were_typed() {
    let text = "rate = \"1Mpps\"\nexpect = [\"loss<0.01%\", \"p99<1ms\"]\nquiet = true\nplain = false\nflows = 1_000\n\
                tolerance = 0.01\nmetrics = true\nweb = \"127.0.0.1:81\"\nnice = -5\nseed = 0x10\n";
    for line in ["mpps sendrecv loop: --config FILE", "mpps sendrecv --config=FILE loop:"] {
        let words = words(line, text).expect("right");
        let all = "sendrecv --rate=1Mpps --expect=loss<0.01% --expect=p99<1ms --quiet --flows=1000 --tolerance=0.01 \
                   --metrics=127.0.0.1:0 --web=127.0.0.1:81 --nice=-5 --seed=16 loop:";
        assert_eq!(words.join(" "), all, "{line}");
    }
    // It is a run's option, and nothing else's; behind -- is a port.
    for same in [
        "mpps doctor --config x",
        "mpps sendrecv loop: -- --config",
        "mpps sendrecv --rate --config",
    ] {
        assert_eq!(words(same, "").expect("as it is").join(" "), same["mpps ".len()..]);
    }
}

/// The error of a wrong file is written to the files that it names.
#[test]
fn what_can_be_read_of_a_wrong_file_is_kept() {
    for (text, left) in [
        (
            "junit = \"a.xml\"\nratte = 1\nprom = \"b.prom\"\n",
            "--junit=a.xml --prom=b.prom",
        ),
        (
            "junit = \"a.xml\"\nrate = \nprom = \"b.prom\"\n",
            "--junit=a.xml --prom=b.prom",
        ),
        ("junit = \"a.xml\nprom = \"b.prom\"\n", "--prom=b.prom"),
        ("junit = \"a.xml\"\n[x\n", "--junit=a.xml"),
    ] {
        let (_file, path) = file(text);
        let typed = ["mpps", "sendrecv", "loop:", "--config"].map(OsString::from);
        let (line, origin) = with_file(&Cli::definition(), typed.into_iter().chain([path]).collect());
        assert!(origin.is_err(), "{text}");
        let words: Vec<_> = line.words.iter().map(|word| word.to_string_lossy()).collect();
        assert_eq!(words.join(" "), format!("mpps sendrecv {left} loop:"), "{text}");
    }
}

#[test]
fn what_is_typed_wins_over_the_file_and_over_what_contradicts_it() {
    let text = "rate = \"1Mpps\"\nframe-size = 512\nquiet = true\nexpect = \"loss<1%\"\nlanes = 2\n";
    for (line, left) in [
        (
            "mpps sendrecv loop: --rate 5kpps --payload-size=100 --config FILE -v",
            "--quiet --expect=loss<1% --lanes=2 loop: --rate 5kpps --payload-size=100 -v",
        ),
        (
            "mpps sendrecv --config FILE -q --expect=lost==0 --tx-lanes 1 loop:",
            "--rate=1Mpps --frame-size=512 -q --expect=lost==0 --tx-lanes 1 loop:",
        ),
        (
            "mpps sendrecv --config FILE --verbose loop:",
            "--rate=1Mpps --frame-size=512 --expect=loss<1% --lanes=2 --verbose loop:",
        ),
    ] {
        assert_eq!(
            words(line, text).expect("right").join(" "),
            format!("sendrecv {left}"),
            "{line}"
        );
    }
    // A value is no option, even where it looks like one.
    let typed = words("mpps sendrecv --eal --rate loop: --config FILE", "rate = \"1kpps\"").expect("right");
    assert_eq!(typed.join(" "), "sendrecv --rate=1kpps --eal --rate loop:");
}

#[test]
fn what_is_wrong_in_a_file_is_one_line_with_its_place() {
    for (text, part) in [
        (
            "\nratte = \"1Mpps\"",
            ":2: ratte: no option of sendrecv: did you mean rate?",
        ),
        (
            "frame_size = 64",
            ":1: frame_size: no option of sendrecv: did you mean frame-size?",
        ),
        (
            "durat = \"1s\"",
            ":1: durat: no option of sendrecv: did you mean duration?",
        ),
        (
            "zzzzzzzzz = 1",
            ":1: zzzzzzzzz: no option of sendrecv: want a long option",
        ),
        (
            "# x\n\nquiet = 1",
            ":3: quiet: an integer is no value of a flag: want true or false",
        ),
        ("rate = true", ":1: rate: a boolean is no value of --rate: want a text"),
        (
            "rate = [\"1Mpps\"]",
            ":1: rate: an array is no value of --rate: want a text",
        ),
        ("rate = 2020-01-01", ":1: rate: a datetime is no value"),
        (
            "expect = [\"loss<1%\", true]",
            ":1: expect: an entry of the list is neither: want a text",
        ),
        ("rate = \"a\\nb\"", ":1: rate: control characters"),
        ("flows = 99999999999999999999", ":1: "),
        ("tolerance = inf", ":1: tolerance: a float is no value"),
        (
            "[sendrecv]\nrate = \"1Mpps\"",
            ":1: sendrecv: a table: want options of sendrecv alone",
        ),
        ("rate = \"1Mpps\"\nrate = \"2Mpps\"", ":2: no TOML"),
        ("rate = 1Mpps", ":1: no TOML"),
        ("rate =", ":1: no TOML"),
        // By the option's own words.
        ("\n\nrate = \"fast\"", ":3: --rate 'fast': want a number above 0"),
        ("expect = \"loss<0.1\"", ":1: invalid value 'loss<0.1' for '--expect"),
        (
            "lanes = 0",
            ":1: invalid value '0' for '--lanes <N>': want a whole number",
        ),
        ("metrics = \"::1:9100\"", ":1: invalid value '::1:9100' for '--metrics"),
    ] {
        let told = wrong(text);
        assert!(told.contains(part) && !told.contains('\n'), "{text}: {told}");
    }
    let missing = words("mpps send null: --config /nonesuch/x.toml", "").expect_err("no file");
    assert!(missing.contains("--config /nonesuch/x.toml: No such file"), "{missing}");
    assert!(
        words("mpps send null: --config FILE --config FILE", "")
            .expect_err("two")
            .contains("want one file")
    );
    assert!(wrong(&"#".repeat(LONGEST as usize + 1)).contains("longer than 1 MiB"));
}

#[test]
fn no_command_comes_from_a_file() {
    for (option, value) in [
        ("reset-cmd", "\"touch x\""),
        ("eal", "\"-d /tmp/x.so\""),
        ("keep-privileges", "true"),
        ("config", "\"other.toml\""),
    ] {
        // Nor where the same is typed, and not a flag that is off either: nobody is to think that it may stand there.
        for line in [
            "mpps rfc2544 reset loop: --config FILE",
            "mpps rfc2544 --config=FILE --eal x reset loop:",
        ] {
            let told = words(line, &format!("quiet = true\n{option} = {value}")).expect_err(option);
            let want = format!(":2: {option}: no file decides which code runs, and with which rights: want it on");
            assert!(told.contains(&want), "{told}");
        }
    }
}

#[test]
fn somebody_elses_file_names_no_file_outside_of_this_folder() {
    if !rustix::process::geteuid().is_root() {
        return println!("SKIPPED: only root can make files of somebody else");
    }
    let read = |text: &str, owner: u32| {
        let (_file, path) = file(text);
        std::os::unix::fs::chown(&path, Some(owner), None).expect("chown");
        let words = ["mpps", "send", "null:", "--config"].map(OsString::from).into_iter();
        let given = given(&Cli::definition(), words.chain([path]).collect());
        given.map(|given| given.words.len()).map_err(|e| argument_line(&e))
    };
    for option in ["csv", "json", "out", "hdr", "sample-pcap", "trace", "prom"] {
        for away in ["/etc/shadow", "../x", "a/../../x"] {
            let text = format!("rate = \"1kpps\"\n{option} = \"{away}\"");
            let told = read(&text, 65534).expect_err(away);
            let want = format!(":2: {option}: it names a file outside of this folder, and user 65534 owns this file");
            assert!(told.contains(&want), "{told}");
            assert_eq!(read(&text, 0), Ok(5), "{text}");
        }
        for here in ["x", "a/x", "-"] {
            assert_eq!(read(&format!("{option} = \"{here}\""), 65534), Ok(4), "{option} {here}");
        }
    }
}

#[test]
fn a_plan_is_the_same_from_a_file_and_typed() {
    let text = "rate = \"5kpps\"\nduration = \"2s\"\nsettle = \"10ms\"\nframe-size = 128\nbusy-poll = true\n";
    let (_file, path) = file(text);
    let plan = |words: Vec<OsString>| {
        <crate::Plan as crate::FromArgs>::from_args(words)
            .expect("right")
            .to_json()
    };
    let line = "sendrecv loop: --rate 5kpps --duration 2s --settle 10ms --frame-size 128 --busy-poll";
    let typed = plan(line.split(' ').map(OsString::from).collect());
    let filed = plan(vec!["sendrecv".into(), "loop:".into(), "--config".into(), path]);
    assert_eq!(typed, filed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_is_read_or_refused_in_one_line(text in prop_oneof![
        "\\PC{0,60}",
        "[a-z-]{1,12} = (\"[^\"]{0,9}\"|[0-9._+exni-]{1,9}|true|\\[[0-9, ]{0,9}\\]|\\{[a-z]=1\\})\n?",
        "(\\[){0,200}[a-z.]{0,8}(\\]){0,200}",
    ]) {
        if let Err(line) = words("mpps sendrecv loop: --config FILE", &text) {
            prop_assert!(!line.contains('\n'), "{}", line);
        }
    }
}
