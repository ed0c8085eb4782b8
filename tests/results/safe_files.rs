//! Root writes its results where others have a hand: through no link and into no file of theirs.

use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use mpps_tests::{Scratch, mpps, run_command, skip};

const NOBODY: u32 = 65534;

/// A run of no consequence that writes `option` to `path`.
fn writing(option: &str, path: &Path) -> Command {
    let mut command = mpps("send null: --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 1kpps --duration 20ms --quiet");
    command.arg(option).arg(path).env_remove("SUDO_UID");
    command
}

#[test]
fn root_is_led_by_nobody_elses_link_and_empties_nobody_elses_file() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root can make files of somebody else");
    }
    let place = Scratch::new();
    let victim = place.file("victim");
    // They get as far as here.
    std::fs::set_permissions(place.file("."), std::fs::Permissions::from_mode(0o755)).expect("chmod");
    // A home of theirs, and a folder where everybody may make files.
    for (owner, mode) in [(NOBODY, 0o755), (0, 0o1777)] {
        let home = place.file(&format!("home{owner}"));
        std::fs::create_dir(&home).expect("a folder");
        chown(&home, Some(owner), None).expect("chown");
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(mode)).expect("chmod");
        for (name, target) in [("link", "../victim"), ("dangling", "../none"), ("folder", "..")] {
            symlink(target, home.join(name)).expect("a link");
            lchown(home.join(name), Some(NOBODY), None).expect("lchown");
        }
        std::fs::write(home.join("theirs"), "kept").expect("a file");
        chown(home.join("theirs"), Some(NOBODY), None).expect("chown");
        for option in ["--csv", "--json", "--hdr"] {
            for name in ["link", "dangling", "folder/victim", "theirs"] {
                std::fs::write(&victim, "kept").expect("a file");
                let finished = run_command(writing(option, &home.join(name)));
                let context = format!("{option} {name} in {mode:o}: {}", finished.stderr);
                assert_eq!(finished.code, Some(2), "{context}");
                assert!(finished.stderr.contains("user 65534"), "{context}");
                assert_eq!(finished.stderr.trim_end().lines().count(), 1, "{context}");
                assert_eq!(std::fs::read(&victim).expect("a file"), b"kept", "{context}");
                assert_eq!(
                    std::fs::read(home.join("theirs")).expect("a file"),
                    b"kept",
                    "{context}"
                );
                assert!(!place.file("none").exists(), "{context}");
            }
            // A picture is a file like any other, and so is a page.
            if option == "--csv" {
                let rows = place.file("rows.csv");
                assert!(matches!(run_command(writing("--csv", &rows)).code, Some(0 | 3)));
                symlink("../victim", home.join("link.svg")).expect("a link");
                lchown(home.join("link.svg"), Some(NOBODY), None).expect("lchown");
                symlink("../victim", home.join("link.html")).expect("a link");
                lchown(home.join("link.html"), Some(NOBODY), None).expect("lchown");
                for (command, link) in [("plot", "link.svg"), ("report", "link.html")] {
                    let mut command = mpps(command);
                    command.arg(&rows).arg("-o").arg(home.join(link)).env_remove("SUDO_UID");
                    let finished = run_command(command);
                    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
                    let line = finished.stderr.trim_end();
                    let told = format!("{link} is a link of user 65534");
                    assert!(line.starts_with("mpps: -o: ") && line.contains(&told), "{line}");
                    assert!(line.matches("want").count() == 1 && !line.contains('\n'), "{line}");
                }
                assert_eq!(std::fs::read(&victim).expect("a file"), b"kept");
            }
            // Called by them with sudo: the run is theirs, and gets no further than they do.
            for (name, good) in [("theirs", true), ("link", false)] {
                let mut command = writing(option, &home.join(name));
                command
                    .env("SUDO_UID", NOBODY.to_string())
                    .env("SUDO_GID", NOBODY.to_string());
                let code = run_command(command).code;
                assert_eq!(
                    matches!(code, Some(0 | 3)),
                    good,
                    "{option} {name} in {mode:o}: {code:?}"
                );
            }
            assert_eq!(std::fs::read(&victim).expect("a file"), b"kept");
            let _ = std::fs::remove_file(home.join("theirs"));
            std::fs::write(home.join("theirs"), "kept").expect("a file");
            chown(home.join("theirs"), Some(NOBODY), None).expect("chown");
            // A file of its own among them, twice.
            for _ in 0..2 {
                let finished = run_command(writing(option, &home.join("own")));
                assert!(matches!(finished.code, Some(0 | 3)), "{option}: {}", finished.stderr);
            }
            assert!(std::fs::metadata(home.join("own")).expect("a file").len() > 0);
        }
    }
}

#[test]
fn root_has_no_library_write_through_somebody_elses_link() {
    if mpps_tests::no_dpdk() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return skip("only root can make files of somebody else");
    }
    let place = Scratch::new();
    let home = place.file("home");
    std::fs::create_dir(&home).expect("a folder");
    std::fs::write(place.file("victim"), "kept").expect("a file");
    symlink("../victim", home.join("link")).expect("a link");
    lchown(home.join("link"), Some(NOBODY), None).expect("lchown");
    chown(&home, Some(NOBODY), None).expect("chown");
    let words =
        "--src 10.99.0.1 --dest 10.99.0.2:9000 --dest-mac 02:00:00:00:00:02 --rate 1kpps --duration 20ms --quiet";
    let port = format!("dpdk:net_pcap0,tx_pcap={}", home.join("link").display());
    let finished = run_command(mpps(&format!("send {port} {words}")));
    assert!(
        matches!(finished.code, Some(1 | 2)),
        "{:?} {}",
        finished.code,
        finished.stderr
    );
    assert!(finished.stderr.contains("link of user 65534"), "{}", finished.stderr);
    assert_eq!(std::fs::read(place.file("victim")).expect("a file"), b"kept");
}

#[test]
fn ones_own_links_pipes_and_devices_are_written_as_ever() {
    let place = Scratch::new();
    std::fs::write(place.file("real"), "before").expect("a file");
    symlink("real", place.file("link")).expect("a link");
    for option in ["--csv", "--json", "--hdr"] {
        let finished = run_command(writing(option, &place.file("link")));
        assert!(matches!(finished.code, Some(0 | 3)), "{option}: {}", finished.stderr);
        assert_ne!(std::fs::read(place.file("real")).expect("a file"), b"before");
        assert!(
            std::fs::symlink_metadata(place.file("link"))
                .expect("a link")
                .is_symlink()
        );
        for path in ["/dev/stdout", "/dev/fd/1", "-"] {
            let finished = run_command(writing(option, Path::new(path)));
            assert!(
                matches!(finished.code, Some(0 | 3)),
                "{option} {path}: {}",
                finished.stderr
            );
            assert!(!finished.stdout.is_empty(), "{option} {path}");
        }
        let finished = run_command(writing(option, Path::new("/dev/null")));
        assert!(
            matches!(finished.code, Some(0 | 3)),
            "{option} /dev/null: {}",
            finished.stderr
        );
        let fifo = place.file(&format!("fifo{option}"));
        let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
        assert!(made.success());
        let reader = Command::new("cat")
            .arg(&fifo)
            .stdout(Stdio::piped())
            .spawn()
            .expect("cat");
        let finished = run_command(writing(option, &fifo));
        assert!(
            matches!(finished.code, Some(0 | 3)),
            "{option} FIFO: {}",
            finished.stderr
        );
        assert!(!reader.wait_with_output().expect("our child").stdout.is_empty());
    }
}

/// What somebody else has written decides no file outside of the folder, by a link neither.
#[test]
fn a_file_of_options_of_somebody_elses_names_no_file_behind_a_link() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root can give a file to somebody else");
    }
    let (scratch, away) = (Scratch::new(), Scratch::new());
    for (target, is_there) in [("old", true), ("new", false)] {
        let target = away.file(target);
        if is_there {
            std::fs::write(&target, "theirs").expect("a file");
        }
        let (link, options) = (scratch.file("link"), scratch.file("o.toml"));
        let _ = std::fs::remove_file(&link);
        symlink(&target, &link).expect("a link");
        for option in [
            "csv = \"link\"",
            "junit = \"link\"\nrate = ",
            "prom = \"link\"\nratte = 1",
        ] {
            let _ = std::fs::remove_file(&options);
            std::fs::write(&options, option).expect("a file");
            chown(&options, Some(NOBODY), None).expect("chown");
            let mut command = mpps("sendrecv loop: --duration 100ms --config o.toml");
            command.current_dir(scratch.path());
            let done = run_command(command);
            assert_eq!(done.code, Some(2), "{option}: {}", done.stderr);
            let now = std::fs::read_to_string(&target).ok();
            assert_eq!(now.as_deref(), is_there.then_some("theirs"), "{option}");
        }
    }
}
