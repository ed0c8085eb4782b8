//! `--profile`: samples of the lanes with the names of functions, as a picture and as text.

use mpps_tests::{Scratch, assert_refused, mpps, run, run_command, skip};
use std::path::PathBuf;

const SEND: &str = "send null: --src 10.0.0.1 --dest 10.0.0.2:9000 --duration 1s --settle 10ms --plain";

/// How many samples folded stacks are of.
fn samples(folded: &str) -> u64 {
    let count = |line: &str| line.rsplit_once(' ').and_then(|(_, count)| count.parse::<u64>().ok());
    folded
        .lines()
        .map(|line| count(line).unwrap_or_else(|| panic!("{line}")))
        .sum()
}

#[test]
fn samples_of_every_lane_are_drawn_and_written_with_names() {
    let scratch = Scratch::new();
    let mut command = mpps(&format!("{SEND} --lanes 2 --profile 997 --quiet"));
    command.arg("--flame").arg(scratch.file("run.svg"));
    command.arg("--folded").arg(scratch.file("run.folded"));
    let finished = run_command(command);
    assert!(matches!(finished.code, Some(0 | 3)), "{}", finished.stderr);
    if finished.stderr.contains("no samples: ") {
        return skip(&finished.stderr);
    }
    let read = |name: &str| std::fs::read_to_string(scratch.file(name)).expect("the file");
    let (svg, folded) = (read("run.svg"), read("run.folded"));
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    let total = samples(&folded);
    assert!(total > 0, "{}", finished.stderr);
    assert!(
        svg.contains(&format!("profile: {total} samples of 2 lanes, 997 a second")),
        "{svg}"
    );
    for lane in ["lane 0;", "lane 1;"] {
        let named = folded
            .lines()
            .filter(|line| line.starts_with(lane) && !line.contains("(no name)"));
        assert!(named.count() > 0, "{lane} {folded}");
    }
    // The names of the program's own functions are there in every build.
    assert!(folded.contains("mpps_engine"), "{folded}");
}

#[test]
fn how_many_samples_there_are_and_what_is_missing_is_told() {
    let scratch = Scratch::new();
    let mut command = mpps(&format!("{SEND} --profile 99"));
    command.arg("--folded").arg(scratch.file("run.folded"));
    let finished = run_command(command);
    if finished.stderr.contains("no samples: ") {
        return skip(&finished.stderr);
    }
    let total = samples(&std::fs::read_to_string(scratch.file("run.folded")).expect("the file"));
    let told = format!("mpps: profile: {total} samples of 1 lane, 99 a second of running");
    assert!(finished.stderr.contains(&told), "{}", finished.stderr);
}

#[test]
fn a_trace_with_samples_gives_the_pictures_that_its_run_gave() {
    let folder = Scratch::new();
    let [trace, folded, flame] = ["t.pftrace.gz", "run.folded", "run.svg"].map(|name| folder.file(name));
    let done = run_command(mpps(&format!(
        "{SEND} --quiet --profile 997 --trace {} --folded {} --flame {}",
        trace.display(),
        folded.display(),
        flame.display()
    )));
    assert!(matches!(done.code, Some(0 | 3)), "{}", done.stderr);
    let file = trace.display();
    if done.stderr.contains("no samples: ") {
        assert_refused(
            mpps(&format!("trace {file} --folded")),
            2,
            &["no samples in it (--profile 997)"],
        );
        return skip(&done.stderr);
    }
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("written");
    let (folded, flame) = (read(&folded), read(&flame));
    assert!(
        folded.contains("lane 0;") && flame.contains("997 a second"),
        "{folded}{flame}"
    );
    let told = |words: &str| {
        let done = run_command(mpps(&format!("trace {file} {words}")));
        assert_eq!(done.code, Some(0), "{words}: {}", done.stderr);
        done
    };
    // On standard output, and nothing else there.
    let alone = told("--folded");
    assert_eq!((alone.stdout.as_str(), alone.stderr.as_str()), (folded.as_str(), ""));
    assert_eq!(told("--svg").stdout, flame);
    let beside = told("table --svg");
    assert_eq!(beside.stdout, flame);
    assert!(beside.stderr.contains("What took the cores"), "{}", beside.stderr);
    // Two stretches of the run, which together are all of it; a lane that did not run in one has no samples there.
    let stretch = |words: &str| {
        let done = run_command(mpps(&format!("trace {file} --folded {words}")));
        match done.code {
            Some(2) if done.stderr.contains("no samples in it are from ") => 0,
            _ => samples(&done.stdout),
        }
    };
    let stretches = [stretch("--to 500ms"), stretch("--from 500ms")];
    assert_eq!(stretches.iter().sum::<u64>(), samples(&folded), "{stretches:?}");
    let svg = told("--svg --from 0 --to 1h").stdout;
    assert!(
        svg.contains("from 0.000000 s to ") && svg.contains(" of the run<"),
        "{svg}"
    );
    let tree = told("tree").stdout;
    assert!(
        tree.contains("100.00 %  lane 0\n") && tree.contains("mpps_engine"),
        "{tree}"
    );
    let tree = told("tree --to 1h").stdout;
    assert!(
        tree.starts_with("Functions, by samples (--profile) from 0.000000 s to "),
        "{tree}"
    );
    // In files: then standard output is free.
    let [a, b] = ["a.folded", "b.svg"].map(|name| folder.file(name));
    let both = format!("--folded {} --svg {}", a.display(), b.display());
    assert_eq!(told(&both).stdout, "");
    assert_eq!((read(&a), read(&b)), (folded, flame));
    assert!(told(&format!("why {both}")).stdout.contains(':'));
    // What would be written to a place where it was not meant to be.
    for (words, why) in [
        ("--folded --svg".to_owned(), "want a file of its own for each"),
        (format!("--svg {file}"), "that is the trace"),
        ("--folded table".to_owned(), "want 'table --folded'"),
        ("--folded /nonesuch/x".to_owned(), "--folded: "),
        (
            "--from 1s".to_owned(),
            "--from 1s: want --svg, --folded or tree as well",
        ),
        (
            "tree --from 1s --to 1s".to_owned(),
            "--to 1s: want a time after --from 1s",
        ),
        (
            "tree --from 100h".to_owned(),
            "no samples in it are from 360000.000000 s",
        ),
        (
            "tree --to 3".to_owned(),
            "a time since the start of the run with its unit",
        ),
    ] {
        assert_refused(mpps(&format!("trace {file} {words}")), 2, &[why]);
    }
}

#[test]
fn a_file_that_can_t_be_written_takes_no_other_with_it() {
    let folder = Scratch::new();
    let [folded, json] = ["run.folded", "run.json"].map(|name| folder.file(name));
    let done = run_command(mpps(&format!(
        "{SEND} --quiet --profile 99 --trace /dev/full --flame /dev/full --folded {} --json {}",
        folded.display(),
        json.display()
    )));
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(done.stderr.matches("write /dev/full").count() == 2, "{}", done.stderr);
    assert!(folded.is_file() && json.is_file());
}

#[test]
fn whoever_may_not_see_the_kernel_gets_the_rest_and_is_told_what_is_missing() {
    if mpps_tests::missing("setpriv", "util-linux") {
        return;
    }
    let scratch = Scratch::new();
    let folded = scratch.file("run.folded");
    let words = "setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all";
    let mut words = words.split(' ').chain(["sh", "-c"]);
    let mut command = std::process::Command::new(words.next().expect("a word"));
    let script = format!("\"$0\" {SEND} --profile 997 --folded - --quiet");
    command.args(words).arg(script).arg(mpps_tests::program());
    let finished = run_command(command);
    let nobody = finished.stderr.contains("not permitted") || finished.stderr.contains("Permission denied");
    if nobody && finished.stdout.is_empty() {
        return skip(&format!("nobody may not run the program: {}", finished.stderr));
    }
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    match paranoid.trim().parse::<i32>() {
        Ok(3..) => assert!(
            finished.stderr.contains("no samples: kernel.perf_event_paranoid is"),
            "{}",
            finished.stderr
        ),
        Ok(2) => {
            let want = "without samples in the kernel: kernel.perf_event_paranoid is 2: want CAP_PERFMON";
            assert!(finished.stderr.contains(want), "{}", finished.stderr);
            assert!(samples(&finished.stdout) > 0);
        }
        _ => {}
    }
    drop(folded);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_opened() {
    let refused = |words: &str, told: &str| {
        let finished = run(&format!("{SEND} {words}"));
        assert_eq!(finished.code, Some(2), "{words}: {}", finished.stderr);
        assert!(finished.stderr.contains(told), "{words}: {}", finished.stderr);
    };
    refused("--profile 0 --flame x.svg", "--profile");
    refused("--profile 20001 --flame x.svg", "1 to 20000");
    refused("--flame x.svg", "--profile");
    refused(
        "--profile 997",
        "want --flame FILE, --folded FILE or --trace FILE as well",
    );
    refused(
        "--profile 997 --flame same --folded same",
        "want a file of its own for each",
    );
    refused("--profile 997 --flame /nonesuch/x.svg", "--flame");
}
