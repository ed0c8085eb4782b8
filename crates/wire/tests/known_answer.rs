//! The worked example of `docs/wire-format.md`, byte for byte.

use std::fs;
use std::path::Path;

use mpps_wire::*;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/wire-format.md");
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("read {}: {e}", path.display()))
}

fn documented_frame() -> Vec<u8> {
    let page = page();
    let (_, after) = page.split_once("```hex\n").expect("no block of hex");
    let (dump, _) = after.split_once("```").expect("the block does not end");
    let bytes = dump.lines().flat_map(|line| line.split_whitespace().skip(1));
    bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

const STAMP: Stamp = Stamp {
    seq: 2,
    time_ns: 1_000_000_007,
};

#[test]
fn documented_frame_is_what_is_written() {
    let template = Template::new(&TemplateSpec {
        src_mac: "02:00:00:00:00:01".parse().unwrap(),
        dst_mac: "02:00:00:00:00:02".parse().unwrap(),
        vlan: None,
        src: "10.99.0.1".parse().unwrap(),
        dst: "10.99.0.2".parse().unwrap(),
        payload_len: 36,
        ttl: 64,
        dscp: 0,
        seed: 1,
        checksum: ChecksumMode::Software,
    })
    .unwrap();
    let mut frame = vec![0; template.frame_len()];
    template.write(&mut frame, 10_000, 9_000, STAMP);
    assert_eq!(frame, documented_frame());
}

#[test]
fn documented_frame_is_accepted() {
    let frame = documented_frame();
    let p = parse_udp(&frame).unwrap();
    assert_eq!((p.src_port, p.dst_port, p.payload_len), (10_000, 9_000, 36));
    assert!(udp_checksum_ok(&frame, &p));
    assert_eq!(Stamp::read(p.payload(&frame)), Some(STAMP));
    assert!(verify_data(1, STAMP.seq, &p.payload(&frame)[STAMP_LEN..]));
    assert_eq!(data::base(1, 2), 0xf893_a2ee_fb32_555e);
}

#[test]
fn documented_tag_is_what_is_written() {
    let tag = Tag {
        number: 2,
        run: 77,
        flow: 300_000,
        time_ns: STAMP.time_ns,
        mark: Mark::Sent,
    };
    let bytes = tag.bytes(1).map(|byte| format!("{byte:02x}")).join(" ");
    assert!(page().contains(&format!("`{bytes}`")), "{bytes}");
}
