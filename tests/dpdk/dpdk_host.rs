//! What a dpdk port changes on the host it runs on: nothing stays, even when it is killed; and an interface that it
//! makes works where it is put.

use std::path::{Path, PathBuf};
use std::process::Command;

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Bridge, Net, Scratch, inside, listen_by, mpps, net_of, no_dpdk, run_command, skip, wait_until,
};
use rustix::process::Signal;

fn mtu(net: &Net, host: Host) -> String {
    net.on(host, "cat /sys/class/net/eth1/mtu").stdout.trim().to_owned()
}

#[test]
fn an_mtu_that_a_run_has_set_is_set_back_when_it_ends_and_by_the_next_when_it_was_killed() {
    if no_dpdk() {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let reflect = "reflect dpdk:net_af_packet0,iface=eth1,mtu=1400 --ip 10.99.0.88";
    let start = || {
        let there = Scratch::new();
        let reflector = listen_by(&there, net.b(reflect));
        assert_eq!(mtu(&net, Host::B), "1400");
        reflector
    };
    start().end(Signal::INT);
    assert_eq!(mtu(&net, Host::B), "1500");

    for mend in ["doctor", "drop udp:127.0.0.1:9000 --duration 10ms --quiet", reflect] {
        start().end(Signal::KILL);
        assert_eq!(mtu(&net, Host::B), "1400");
        let line = "eth1: MTU set back to 1500: a run that was killed left it at 1400";
        if mend == reflect {
            let again = Background::ready(net.b(&format!("{reflect} --plain")));
            assert!(again.stderr().contains(line), "{}", again.stderr());
            again.end(Signal::INT);
        } else {
            let mended = run_command(net.b(mend));
            assert_eq!(mended.stderr.matches(line).count(), 1, "{mend}: {}", mended.stderr);
        }
        assert_eq!(mtu(&net, Host::B), "1500", "{mend}");
        let quiet = run_command(net.b("drop udp:127.0.0.1:9000 --duration 10ms --quiet"));
        assert!(!quiet.stderr.contains("MTU"), "{}", quiet.stderr);
    }

    // One that lives is left alone, and so is what somebody has set since.
    let living = start();
    run_command(net.b("doctor"));
    assert_eq!(mtu(&net, Host::B), "1400");
    living.end(Signal::KILL);
    net.on(Host::B, "ip link set eth1 mtu 1300");
    let after = run_command(net.b("doctor"));
    assert!(!after.stderr.contains("MTU"), "{}", after.stderr);
    assert_eq!(mtu(&net, Host::B), "1300");
}

#[test]
fn an_interface_of_another_namespace_whose_inode_has_the_same_number_is_left_alone() {
    if no_dpdk() || !rustix::process::geteuid().is_root() {
        return;
    }
    let Some(net) = net_of(1) else { return };
    let number = |words: &str| net.on(Host::B, words).stdout.trim().to_owned();
    let inode = number("stat -Lc %i /proc/self/ns/net");
    let index = number("cat /sys/class/net/eth1/ifindex");
    net.on(Host::B, "ip link set eth1 mtu 1400");
    // As a run would have left it in a namespace that is gone, whose number this one got.
    let folder = Path::new("/run/mpps");
    run_command(mpps("drop null: --duration 1ms --quiet"));
    if !folder.is_dir() {
        return skip("no run has made root's folder yet");
    }
    let left = folder.join(format!("undo-test-{}", std::process::id()));
    std::fs::write(&left, format!("mtu {inode} {index} 1500 1400 eth1\n")).expect("a file");
    let finished = run_command(net.b("doctor"));
    let stays = mtu(&net, Host::B);
    let _ = std::fs::remove_file(&left);
    assert_eq!(stays, "1400", "{}", finished.stderr);
}

/// Where the EAL of this user makes a folder for each process.
fn eal_folder() -> PathBuf {
    let base = match rustix::process::getuid().is_root() {
        true => PathBuf::from("/var/run"),
        false => std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from),
    };
    base.join("dpdk")
}

#[test]
fn a_folder_of_the_eals_stays_neither_where_it_refuses_nor_after_a_run_that_was_killed() {
    if no_dpdk() {
        return;
    }
    // An argument that there is not, and more memory than can be addressed.
    for eal in ["--no-such-argument", "--no-huge -m 1000000000"] {
        let mut command = mpps("drop dpdk:net_null0 --quiet --eal");
        command.arg(eal);
        let refused = Background::start(command);
        let own = eal_folder().join(format!("mpps{}", refused.id()));
        let finished = refused.finish();
        assert!(
            matches!(finished.code, Some(1 | 2)),
            "{:?} {}",
            finished.code,
            finished.stderr
        );
        assert!(!own.exists(), "{eal}: {}", own.display());
    }

    // As after a kill in the middle of the start: of a process that there is no more, and of one that lives.
    let mut dead = Command::new("true").spawn().expect("a process");
    let left = eal_folder().join(format!("mpps{}", dead.id()));
    let living = eal_folder().join(format!("mpps{}", std::process::id()));
    dead.wait().expect("our process");
    for folder in [&left, &living] {
        std::fs::create_dir_all(folder).expect("a folder");
    }
    let finished = run_command(mpps("drop dpdk:net_null0 --eal=--no-huge --duration 10ms --quiet"));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let found = (left.exists(), living.exists());
    let _ = std::fs::remove_dir(&living);
    assert_eq!(found, (false, true));
}

#[test]
fn two_taps_that_are_put_on_a_bridge_as_they_are_reach_each_other() {
    if no_dpdk() {
        return;
    }
    if !Path::new("/dev/net/tun").exists() {
        return skip("there is no /dev/net/tun");
    }
    let Some(net) = net_of(1) else { return };
    let _bridge = Bridge::new(&net);
    let enslave = |name: &str| net.on(Host::B, &format!("ip link set {name} master br0"));
    let there = Scratch::new();
    let reflector = listen_by(&there, net.b("reflect dpdk:net_tap0,iface=tap0 --ip 10.99.1.2"));
    enslave("tap0");
    // The bridge forwards for nobody in its first seconds; a sender that asks for the address waits for that, too.
    let here = Scratch::new();
    let words = "drop dpdk:net_tap0,iface=tap1 --no-verify";
    let probe = listen_by(&here, net.b(words));
    enslave("tap1");
    wait_until("a bridge that forwards", || {
        let state = inside(&net.lab, Host::B, "cat /sys/class/net/tap0/brport/state");
        run_command(state).stdout.trim() == "3"
    });
    probe.end(Signal::INT);
    let sent = Scratch::new();
    let words = "sendrecv dpdk:net_tap0,iface=tap1 --src 10.99.1.1 --dest 10.99.1.2:9000 --rate 2kpps --duration 500ms \
                 --settle 500ms --quiet";
    let sender = Background::start(sent.results(net.b(words)));
    let mut sender = sender;
    wait_until("the second tap", || {
        let joined = inside(&net.lab, Host::B, "ip link set tap1 master br0");
        run_command(joined).code == Some(0) || !sender.running()
    });
    let report = sent.read(sender.finish());
    report.assert_accounted();
    assert!(report.count("rx_packets") > 0, "{}", report.said());
    let reflected = there.read(reflector.end(Signal::INT));
    assert!(reflected.count("tx_packets") > 0, "{:#}", reflected.json);
}
