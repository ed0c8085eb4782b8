//! Files that Wireshark's tools make and read: this reader has the same packets, lengths and times.

mod common;

use common::checks::{capture_holds, read};
use common::files::{MODIFIED, NANOS, Order, Pcap, Pcapng, frame};
use mpps_replay::Selection;
use std::path::Path;
use std::process::Command;

/// Runs a tool; `None`, with a line that says so, if it is not installed.
fn tool(program: &str, arguments: &[&str]) -> Option<String> {
    // Without a home no settings of the user's come into play.
    let folder = tempfile::tempdir().unwrap();
    let Ok(done) = Command::new(program)
        .env("HOME", folder.path())
        .args(arguments)
        .output()
    else {
        println!("SKIPPED: no {program}");
        return None;
    };
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{program} {arguments:?}: {said}");
    Some(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Lengths and due times of a file as tshark has them; `None` without tshark.
fn by_tshark(path: &Path) -> Option<Vec<(usize, u32, u64)>> {
    let fields = ["frame.cap_len", "frame.len", "frame.time_epoch"]
        .map(|field| ["-e", field])
        .concat();
    let path = path.to_str()?;
    let said = tool("tshark", &[&["-r", path, "-T", "fields"][..], &fields].concat())?;
    let (mut first, mut latest, mut all) = (None, 0, Vec::new());
    for line in said.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        if let Some((seconds, part)) = words[2].split_once('.') {
            let ns = seconds.parse::<i64>().unwrap() * 1_000_000_000 + part.parse::<i64>().unwrap();
            latest = latest.max(ns - *first.get_or_insert(ns));
        }
        all.push((words[0].parse().unwrap(), words[1].parse().unwrap(), latest as u64));
    }
    Some(all)
}

/// Compares a file with what tshark has of it; false without tshark.
fn same_as_tshark(path: &Path) -> bool {
    let bytes = std::fs::read(path).unwrap();
    capture_holds(&bytes);
    let (kept, _, error) = read(&bytes[..], &Selection::default());
    assert!(error.is_none(), "{}: {error:?}", path.display());
    let Some(want) = by_tshark(path) else { return false };
    let got: Vec<_> = kept.iter().map(|packet| (packet.0.len(), packet.1, packet.2)).collect();
    assert_eq!(got, want, "{}", path.display());
    true
}

/// A file of many kinds of blocks; its times have a step backwards.
fn many_kinds() -> Vec<u8> {
    let mut file = Pcapng::new(Order::Big);
    let offset = 1000i64.to_be_bytes();
    file.interface(1, 0, &[(9, &[9])])
        .interface(1, 0, &[(9, &[0x94]), (14, &offset)])
        .interface(1, 0, &[]);
    for i in 0..100u64 {
        let ns = 1_700_000_000_000_000_000 + i * 1_234_567 - if i == 50 { 9_000_000 } else { 0 };
        let bytes = frame(60 + i as usize * 7, i as u8);
        let original = bytes.len() as u32 + if i % 9 == 0 { 100 } else { 0 };
        match i % 3 {
            0 => file.packet(i % 2 == 0, 0, ns, &bytes, original),
            1 => file.packet(
                false,
                1,
                ((u128::from(ns - 1_000_000_000_000) << 20) / 1_000_000_000) as u64,
                &bytes,
                original,
            ),
            _ => file.packet(true, 2, ns / 1000, &bytes, original),
        };
        if i == 60 {
            file.section(Order::Little);
            file.interface(1, 0, &[(9, &[9])])
                .interface(1, 0, &[(9, &[0x94]), (14, &1000i64.to_le_bytes())]);
            file.interface(1, 0, &[]);
        }
    }
    file.bytes
}

#[test]
fn what_is_made_by_hand_is_what_tshark_reads() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        same_as_tshark(&path)
    };
    for (order, magic) in [(Order::Big, NANOS), (Order::Little, MODIFIED), (Order::Big, MODIFIED)] {
        let mut file = Pcap::new(order, magic);
        for i in 0..50 {
            file.packet(1_700_000_000 + i / 9, i * 7, &frame(60 + i as usize, 1), 60 + i + i % 2);
        }
        if !put("by hand.pcap", &file.bytes) {
            return;
        }
    }
    put("by hand.pcapng", &many_kinds());
}

#[test]
fn what_editcap_and_mergecap_write_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let first = path("first.pcapng");
    std::fs::write(&first, many_kinds()).unwrap();
    for format in ["pcap", "nsecpcap", "modpcap", "pcapng"] {
        for more in [&[][..], &["-s", "70"], &["-t", "-1000.5"]] {
            let made = path(&format!("{format}{}", more.len()));
            let arguments = [more, &["-F", format, &first, &made]].concat();
            if tool("editcap", &arguments).is_none() || !same_as_tshark(Path::new(&made)) {
                return;
            }
        }
    }
    let (other, merged) = (path("nsecpcap0"), path("merged"));
    for mode in ["all", "none"] {
        if tool("mergecap", &["-I", mode, "-w", &merged, &first, &other]).is_none() {
            return;
        }
        same_as_tshark(Path::new(&merged));
    }
}
