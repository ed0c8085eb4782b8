//! The lab on a real kernel. Each test makes namespaces under names of its own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal};

use super::*;

/// Removes the test's namespaces whatever happens.
struct Guard(Vec<String>);

impl Drop for Guard {
    fn drop(&mut self) {
        for name in kernel::names()
            .iter()
            .filter(|n| self.0.iter().any(|prefix| n.starts_with(prefix.as_str())))
        {
            let _ = Command::new("ip")
                .args(["netns", "delete", name])
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// A handle on a lab that nobody else has, or `None` (said aloud) where labs can't be made.
fn fresh(options: LabOptions) -> Option<(Lab, Guard)> {
    let name = format!("mppst-{:016x}", token());
    let lab = Lab::new(&name, options).unwrap();
    match lab.status() {
        Ok(_) => Some((lab, Guard(vec![name]))),
        Err(error @ (LabError::NeedsRoot { .. } | LabError::Missing { .. })) => {
            println!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Another handle on the same lab.
fn again(lab: &Lab, options: LabOptions) -> Lab {
    Lab::new(lab.name(), options).unwrap()
}

fn ip(words: &[&str]) -> String {
    let output = Command::new("ip").args(words).output().unwrap();
    assert!(
        output.status.success(),
        "ip {words:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn names_of(lab: &Lab) -> Vec<String> {
    kernel::names()
        .into_iter()
        .filter(|n| n.starts_with(lab.name()))
        .collect()
}

#[test]
fn up_twice_is_up_and_the_second_changes_nothing() {
    let Some((lab, _guard)) = fresh(LabOptions::default()) else {
        return;
    };
    assert!(!lab.up().unwrap().is_empty());
    assert_eq!(lab.up().unwrap(), Vec::<String>::new());
    let status = lab.status().unwrap();
    assert_eq!((status.state, &status.problems[..]), (LabState::Up, &[][..]));
    assert_eq!(status.hosts[0].mac.as_deref(), Some("02:6d:70:70:73:01"));
    assert_eq!(status.hosts[1].addresses, ["10.99.0.2/24", "fd99::2/64"]);
    lab.down().unwrap();
}

#[test]
fn down_twice_is_down_and_leaves_nothing() {
    let Some((lab, _guard)) = fresh(LabOptions::default()) else {
        return;
    };
    assert_eq!(lab.down().unwrap(), Vec::<String>::new());
    lab.up().unwrap();
    assert_eq!(lab.down().unwrap().len(), 2);
    assert_eq!(lab.down().unwrap(), Vec::<String>::new());
    assert_eq!(lab.status().unwrap().state, LabState::Down);
    assert_eq!(names_of(&lab), Vec::<String>::new());
}

#[test]
fn the_hosts_reach_each_other_and_queues_and_mtu_are_as_asked() {
    let Some((lab, _guard)) = fresh(LabOptions {
        queues: Some(3),
        mtu: Some(9000),
    }) else {
        return;
    };
    lab.up().unwrap();
    let listing = lab
        .command(Host::B, &["ls", "/sys/class/net/eth1/queues"])
        .unwrap()
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(listing.stdout).unwrap().split_whitespace().count(), 6);
    for (bind, to) in [("10.99.0.1:0", "10.99.0.2:9"), ("[fd99::1]:0", "[fd99::2]:9")] {
        let received = kernel::inside(&lab.namespace(Host::B), || std::net::UdpSocket::bind(to).unwrap()).unwrap();
        received.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let sent = kernel::inside(&lab.namespace(Host::A), || std::net::UdpSocket::bind(bind).unwrap()).unwrap();
        sent.send_to(&[7; 8900], to).unwrap();
        assert_eq!(received.recv(&mut [0; 9000]).unwrap(), 8900);
    }
    // Other options on the next `up` apply; none leave the lab as it is.
    again(&lab, LabOptions::default()).up().unwrap();
    assert_eq!(lab.status().unwrap().hosts[0].queues, Some(3));
    again(
        &lab,
        LabOptions {
            queues: Some(2),
            mtu: None,
        },
    )
    .up()
    .unwrap();
    let status = lab.status().unwrap();
    assert_eq!((status.hosts[1].queues, status.hosts[1].mtu), (Some(2), Some(9000)));
    assert_eq!(status.state, LabState::Up);
}

#[test]
fn frames_of_xdp_programs_are_admitted_at_both_ends_and_again_after_someone_switched_that_off() {
    let Some((lab, _guard)) = fresh(LabOptions::default()) else {
        return;
    };
    lab.up().unwrap();
    for host in Host::ALL {
        let was_off = kernel::inside(&lab.namespace(host), || kernel::switch_gro_on(INTERFACE).unwrap()).unwrap();
        assert!(!was_off, "{host}");
        // The XDP features that the kernel reports for one end depend on the other end.
        let told = kernel::inside(&lab.namespace(host), || {
            mpps_netdev::xdp_features(mpps_netdev::NetDev::by_name(INTERFACE).unwrap().ifindex).unwrap()
        });
        match told.unwrap() {
            Some(features) => assert!(features.transmit, "{features:?}"),
            None => println!("SKIPPED: this kernel does not tell XDP features"),
        }
    }
    if crate::tool::find("ethtool").is_none() {
        return println!("SKIPPED: ethtool is not installed, so nobody switches GRO off");
    }
    lab.exec(Host::B, &["ethtool", "-K", INTERFACE, "gro", "off"]).unwrap();
    assert_eq!(lab.up().unwrap(), [format!("{}: set GRO on", lab.namespace(Host::B))]);
    assert_eq!(lab.up().unwrap(), Vec::<String>::new());
}

#[test]
fn a_foreign_namespace_of_the_same_name_is_refused_and_untouched() {
    for host in Host::ALL {
        let Some((lab, _guard)) = fresh(LabOptions::default()) else {
            return;
        };
        let ns = lab.namespace(host);
        ip(&["netns", "add", &ns]);
        ip(&[
            "-n", &ns, "link", "add", "eth1", "type", "veth", "peer", "name", "other",
        ]);
        let before = ip(&["-n", &ns, "-details", "address", "show"]);
        for result in [lab.up(), lab.down()] {
            let Err(LabError::Foreign { object, .. }) = result else {
                panic!("{result:?}")
            };
            assert!(object.contains(&ns), "{object}");
        }
        assert!(matches!(lab.command(host, &["true"]), Err(LabError::Foreign { .. })));
        assert_eq!(lab.status().unwrap().state, LabState::Foreign);
        assert_eq!(names_of(&lab), [ns.as_str()], "nothing was made beside it");
        assert_eq!(ip(&["-n", &ns, "-details", "address", "show"]), before);
    }
}

#[test]
fn an_eth1_that_somebody_put_into_the_lab_is_refused_and_untouched() {
    let Some((lab, _guard)) = fresh(LabOptions::default()) else {
        return;
    };
    lab.up().unwrap();
    let ns = lab.namespace(Host::A);
    ip(&["-n", &ns, "link", "delete", "eth1"]);
    ip(&[
        "-n", &ns, "link", "add", "eth1", "type", "veth", "peer", "name", "other",
    ]);
    for result in [lab.up(), lab.down()] {
        assert!(matches!(result, Err(LabError::Foreign { .. })), "{result:?}");
    }
    assert!(ip(&["-n", &ns, "-details", "link", "show", "eth1"]).contains("other"));
    ip(&["-n", &ns, "link", "delete", "eth1"]);
    assert!(!lab.up().unwrap().is_empty(), "without it the lab is repaired");
    assert_eq!(lab.status().unwrap().state, LabState::Up);
}

#[test]
fn a_run_killed_between_any_two_steps_of_up_is_repaired_by_up_and_removed_by_down() {
    let Some((lab, _guard)) = fresh(LabOptions::default()) else {
        return;
    };
    let mut step = 0;
    loop {
        let killed = again(&lab, LabOptions::default());
        killed.steps_left.set(Some(step));
        let whole = killed.up().is_ok();
        lab.down().unwrap();
        assert_eq!(names_of(&lab), Vec::<String>::new(), "down after {step} steps");
        if whole {
            break;
        }
        killed.steps_left.set(Some(step));
        assert!(killed.up().is_err());
        lab.up().unwrap();
        let status = lab.status().unwrap();
        assert_eq!(status.state, LabState::Up, "up after {step} steps: {status:?}");
        assert_eq!(names_of(&lab).len(), 2, "no working name is left after {step} steps");
        lab.down().unwrap();
        step += 1;
    }
    assert!(step > 10, "only {step} steps were tried");
}

#[test]
fn a_run_killed_between_any_two_steps_of_down_is_finished_by_down_and_undone_by_up() {
    let Some((lab, _guard)) = fresh(LabOptions::default()) else {
        return;
    };
    let mut step = 0;
    loop {
        lab.up().unwrap();
        let killed = again(&lab, LabOptions::default());
        killed.steps_left.set(Some(step));
        if killed.down().is_ok() {
            break;
        }
        if step % 2 == 0 {
            lab.up().unwrap();
            assert_eq!(lab.status().unwrap().state, LabState::Up, "after {step} steps");
        } else {
            lab.down().unwrap();
            assert_eq!(names_of(&lab), Vec::<String>::new(), "after {step} steps");
        }
        step += 1;
    }
    assert!(step >= 3, "only {step} steps were tried");
}

/// Not a test: what the next one runs in a process of its own.
#[test]
fn helper_makes_and_removes_a_lab_until_killed() {
    let Ok(name) = std::env::var("MPPS_TEST_LAB_TO_KILL") else {
        return;
    };
    let lab = Lab::new(&name, LabOptions::default()).unwrap();
    loop {
        lab.up().unwrap();
        lab.down().unwrap();
    }
}

#[test]
fn kill_9_at_any_time_leaves_what_the_next_up_repairs() {
    let Some((lab, _guard)) = fresh(LabOptions::default()) else {
        return;
    };
    for round in 0..8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "lab::tests::helper_makes_and_removes_a_lab_until_killed"])
            .env("MPPS_TEST_LAB_TO_KILL", lab.name())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Strikes somewhere in the middle; where does not matter.
        std::thread::sleep(Duration::from_millis(30 + 23 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        lab.up().unwrap();
        let status = lab.status().unwrap();
        assert_eq!(status.state, LabState::Up, "{status:?}");
    }
}

#[test]
fn a_name_without_a_namespace_is_replaced() {
    let Some((lab, _guard)) = fresh(LabOptions::default()) else {
        return;
    };
    // The file that `ip netns add` leaves if it is killed before its mount. The directory is there after any first
    // `add`.
    lab.up().unwrap();
    lab.down().unwrap();
    std::fs::write(format!("/run/netns/{}", lab.namespace(Host::B)), "").unwrap();
    assert_eq!(lab.status().unwrap().state, LabState::Partial);
    lab.up().unwrap();
    assert_eq!(lab.status().unwrap().state, LabState::Up);
}

#[test]
fn down_ends_what_runs_inside_before_the_link_goes_and_tells() {
    let Some((lab, _guard)) = fresh(LabOptions::default()) else {
        return;
    };
    lab.up().unwrap();
    // Each says on its way out whether it still had its interface. One of them is stopped meanwhile.
    let script =
        "trap 'test -e /sys/class/net/eth1 && echo linked; exit 0' TERM; echo up; while :; do sleep 0.01; done";
    let mut children = Host::ALL.map(|host| {
        let mut command = lab.command(host, &["sh", "-c", script]).unwrap();
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        (child, out)
    });
    kill(&children[1].0, Signal::STOP);
    let done = lab.down().unwrap();
    for (host, (child, out)) in Host::ALL.iter().zip(&mut children) {
        let told = format!("ended sh (process {}) in {}", child.id(), lab.namespace(*host));
        assert!(done.contains(&told), "{done:?}");
        assert!(child.wait().unwrap().success());
        let mut said = String::new();
        out.read_to_string(&mut said).unwrap();
        assert_eq!(said, "linked\n", "{host}");
    }
    assert_eq!(lab.status().unwrap().state, LabState::Down);
}

fn kill(child: &std::process::Child, signal: Signal) {
    rustix::process::kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn the_repair_that_is_advised_names_the_lab() {
    let Some((lab, _guard)) = fresh(LabOptions::default()) else {
        return;
    };
    lab.up().unwrap();
    ip(&["netns", "delete", &lab.namespace(Host::B)]);
    let status = lab.status().unwrap();
    assert_eq!(status.state, LabState::Partial);
    let mut text = Vec::new();
    status.render(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for command in ["up", "down"] {
        assert!(
            text.contains(&format!("`mpps lab --name {} {command}`", lab.name())),
            "{text}"
        );
    }
}

#[test]
fn exec_passes_output_and_exit_code_and_runs_on_the_right_host() {
    let Some((lab, _guard)) = fresh(LabOptions::default()) else {
        return;
    };
    assert!(matches!(lab.exec(Host::A, &["true"]), Err(LabError::NotUp { .. })));
    lab.up().unwrap();
    assert_eq!(lab.exec(Host::A, &["true"]).unwrap(), 0);
    assert_eq!(lab.exec(Host::A, &["sh", "-c", "exit 42"]).unwrap(), 42);
    assert_eq!(lab.exec(Host::B, &["sh", "-c", "kill -TERM $$"]).unwrap(), 128 + 15);
    let out = lab
        .command(Host::B, &["ip", "-4", "address", "show", "eth1"])
        .unwrap()
        .output()
        .unwrap();
    assert!(String::from_utf8(out.stdout).unwrap().contains("10.99.0.2/24"));
}

#[test]
fn a_signal_to_the_child_reaches_the_program() {
    let Some((lab, _guard)) = fresh(LabOptions::default()) else {
        return;
    };
    lab.up().unwrap();
    let script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = lab
        .command(Host::A, &["sh", "-c", script])
        .unwrap()
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

#[test]
fn scratch_labs_do_not_meet_and_go_when_dropped_with_what_runs_inside() {
    let (one, two) = match (
        ScratchLab::new(LabOptions::default()),
        ScratchLab::new(LabOptions::default()),
    ) {
        (Ok(one), Ok(two)) => (one, two),
        (Err(error), _) | (_, Err(error)) if error.is_permission() => return println!("SKIPPED: {error}"),
        (Err(error), _) | (_, Err(error)) => panic!("{error}"),
    };
    assert_ne!(one.name(), two.name());
    let mut child = one.command(Host::A, &["sleep", "600"]).unwrap().spawn().unwrap();
    // Inside when the namespace lists it.
    let deadline = Instant::now() + Duration::from_secs(10);
    while ip(&["netns", "pids", &one.namespace(Host::A)]).trim().is_empty() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
    let name = one.name().to_owned();
    drop(one);
    assert!(!child.wait().unwrap().success());
    assert!(!kernel::names().iter().any(|n| n.starts_with(&name)));
    assert_eq!(two.status().unwrap().state, LabState::Up);
}

#[test]
fn the_scratch_lab_of_a_dead_owner_is_removed_and_that_of_a_living_one_kept() {
    let Some((_lab, mut guard)) = fresh(LabOptions::default()) else {
        return;
    };
    // No process has this start time: it is the owner's id used again.
    let owner = names::Owner {
        started: 1,
        ..scratch::this_process().unwrap()
    };
    let dead = Lab::new(&names::scratch(owner, 77), LabOptions::default()).unwrap();
    guard.0.push(dead.name().to_owned());
    dead.up().unwrap();
    // In another PID namespace the id is another process's, so nobody here can know whether it lives.
    let elsewhere = names::Owner {
        pid_namespace: owner.pid_namespace.wrapping_add(1),
        ..owner
    };
    let elsewhere = Lab::new(&names::scratch(elsewhere, 78), LabOptions::default()).unwrap();
    guard.0.push(elsewhere.name().to_owned());
    elsewhere.up().unwrap();
    let living = ScratchLab::new(LabOptions::default()).unwrap();
    assert!(names_of(&dead).is_empty());
    assert_eq!(elsewhere.status().unwrap().state, LabState::Up);
    ScratchLab::remove_stale().unwrap();
    assert_eq!(living.status().unwrap().state, LabState::Up);
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    for options in [
        LabOptions {
            queues: Some(0),
            mtu: None,
        },
        LabOptions {
            queues: None,
            mtu: Some(1279),
        },
    ] {
        let error = Lab::new("x", options).err().unwrap().to_string();
        assert!(error.contains("--queues 0") || error.contains("--mtu 1279"), "{error}");
    }
    assert!("c".parse::<Host>().unwrap_err().to_string().contains("must be a or b"));
}
