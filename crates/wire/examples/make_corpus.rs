//! Writes the seed corpus of the fuzz targets: `cargo run -p mpps-wire --example make_corpus`.

use std::fs;
use std::path::Path;

use mpps_wire::{MacAddr, build_arp_reply, build_arp_request, build_neighbor_advert, build_neighbor_solicit};

#[path = "../tests/common/mod.rs"]
mod common;
use common::frames::*;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in ["parse_udp", "reflect"] {
        for (name, frame) in all_udp(&[0x5a; 33]).into_iter().chain(rejected()) {
            save(&corpus.join(target), &name, &frame)?;
        }
    }
    for (name, frame) in slow_path() {
        save(&corpus.join("slow_path"), &name, &frame)?;
    }
    Ok(())
}

fn save(dir: &Path, name: &str, frame: &[u8]) -> std::io::Result<()> {
    fs::create_dir_all(dir)?;
    fs::write(dir.join(name), frame)
}

/// One frame for each way to be refused.
fn rejected() -> Vec<(String, Vec<u8>)> {
    let good = udp_v4(&[], &[], &[0; 18]);
    let mut fragment = good.clone();
    fragment[20..22].copy_from_slice(&[0x20, 0]);
    fragment[24..26].fill(0);
    let sum = naive_checksum(&[&fragment[14..34]]);
    fragment[24..26].copy_from_slice(&sum.to_be_bytes());
    let mut padded = udp_v4(&[], &[], b"");
    padded.resize(60, 0);
    let mut group = good.clone();
    group[..6].fill(0xff);
    let mut no_checksum = good.clone();
    no_checksum[40..42].fill(0);
    let all: [(&str, Vec<u8>); 10] = [
        ("truncated", good[..40].to_vec()),
        ("fragment_v4", fragment),
        (
            "fragment_v6",
            ipv6(&[], &[(44, &[0, 0, 1, 0, 0, 0, 1])], 17, 64, &[0; 26]),
        ),
        (
            "segments_left_v6",
            ipv6(&[], &[(43, &[0, 4, 1, 0, 0, 0, 0])], 17, 64, &[0; 26]),
        ),
        ("source_route_v4", ipv4(&[], &[131, 7, 4, 10, 0, 0, 9, 0], 17, &[0; 26])),
        ("not_udp", ipv4(&[], &[], 6, &[0; 20])),
        ("bad_udp_length", ipv4(&[], &[], 17, &[0, 1, 0, 2, 0, 99, 0, 0])),
        ("padding", padded),
        ("group", group),
        ("no_checksum", no_checksum),
    ];
    all.into_iter().map(|(name, frame)| (name.to_owned(), frame)).collect()
}

fn slow_path() -> Vec<(String, Vec<u8>)> {
    let (own, peer) = (MacAddr(SRC_MAC), MacAddr(DST_MAC));
    let mut all = Vec::new();
    for (name, vlan) in [("", None), ("_vlan", Some(100))] {
        let tags: &[u16] = if vlan.is_some() { &[0x8100] } else { &[] };
        let mut add = |kind: &str, build: &dyn Fn(&mut [u8]) -> usize| {
            let mut out = [0; 128];
            let len = build(&mut out);
            all.push((format!("{kind}{name}"), out[..len].to_vec()));
        };
        add("arp_request", &|out| build_arp_request(out, own, SRC_V4, DST_V4, vlan));
        add("arp_reply", &|out| {
            build_arp_reply(out, own, SRC_V4, peer, DST_V4, vlan)
        });
        add("neighbor_solicit", &|out| {
            build_neighbor_solicit(out, own, SRC_V6, DST_V6, vlan)
        });
        add("neighbor_advert", &|out| {
            build_neighbor_advert(out, own, SRC_V6, Some((peer, DST_V6)), true, vlan)
        });
        add("neighbor_advert_all", &|out| {
            build_neighbor_advert(out, own, SRC_V6, None, true, vlan)
        });
        all.push((format!("echo_v4{name}"), echo_v4(tags, &[], b"ping")));
        all.push((format!("echo_v4_options{name}"), echo_v4(tags, OPTIONS[1], b"ping!")));
        all.push((format!("echo_v6{name}"), echo_v6(tags, &[], b"ping")));
        all.push((
            format!("echo_v6_extension{name}"),
            echo_v6(tags, EXTENSIONS[1], b"ping!"),
        ));
    }
    all
}
