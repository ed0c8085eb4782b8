//! Properties of written frames: they parse, verify, and can be restamped.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mpps_wire::*;
use proptest::prelude::*;

mod common;
use common::frames::naive_checksum;

fn spec() -> impl Strategy<Value = TemplateSpec> {
    let addresses = prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(s, d)| (IpAddr::from(s), IpAddr::from(d))),
        any::<([u8; 16], [u8; 16])>().prop_map(|(s, d)| (IpAddr::from(s), IpAddr::from(d))),
    ];
    let payload_len = prop_oneof![4 => 16usize..200, 2 => 200usize..1600, 1 => Just(65507)];
    let vlan = prop::option::of(0u16..4095);
    (
        any::<[[u8; 6]; 2]>(),
        vlan,
        addresses,
        payload_len,
        1u8..,
        0u8..64,
        any::<u64>(),
    )
        .prop_map(
            |([src_mac, dst_mac], vlan, (src, dst), payload_len, ttl, dscp, seed)| TemplateSpec {
                src_mac: MacAddr(src_mac),
                dst_mac: MacAddr(dst_mac),
                vlan,
                src,
                dst,
                payload_len,
                ttl,
                dscp,
                seed,
                checksum: ChecksumMode::Software,
            },
        )
}

fn written(spec: &TemplateSpec, ports: (u16, u16), stamp: Stamp) -> Vec<u8> {
    let template = Template::new(spec).unwrap();
    let mut frame = vec![0xee; template.frame_len()];
    template.write(&mut frame, ports.0, ports.1, stamp);
    frame
}

/// The pseudo-header's bytes, from the fields of the specification.
fn pseudo_header(spec: &TemplateSpec) -> Vec<u8> {
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let len = (spec.payload_len as u16 + 8).to_be_bytes();
    [octets(spec.src), octets(spec.dst), vec![0, 17], len.to_vec()].concat()
}

fn intact(frame: &[u8]) -> bool {
    parse_udp(frame).is_ok_and(|p| udp_checksum_ok(frame, &p))
}

/// The frame as somebody makes it who has the template's constant parts only.
fn rebuilt(spec: &TemplateSpec, ports: (u16, u16), stamp: Stamp) -> Vec<u8> {
    let template = Template::new(spec).unwrap();
    let mut variable = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    let mut payload = stamp.to_bytes().to_vec();
    payload.resize(spec.payload_len, 0);
    fill_data(spec.seed, stamp.seq, &mut payload[STAMP_LEN..]);
    variable.extend_from_slice(&payload);
    variable.resize(variable.len().next_multiple_of(2), 0);
    let words = variable
        .chunks_exact(2)
        .map(|w| u64::from(u16::from_le_bytes([w[0], w[1]])));
    let mut sum = words.sum::<u64>() + u64::from(template.constant_sum());
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    let field = match !(sum as u16) {
        0 => u16::MAX,
        field => field,
    };
    let mut frame = template.headers().to_vec();
    frame.extend_from_slice(&variable[..4]);
    frame.extend_from_slice(&(spec.payload_len as u16 + 8).to_be_bytes());
    frame.extend_from_slice(&field.to_le_bytes());
    frame.extend_from_slice(&payload);
    frame.resize(template.frame_len(), 0);
    frame
}

proptest! {
    #[test]
    fn a_frame_between_other_addresses_is_the_one_that_a_template_of_theirs_writes(
        spec in spec(), others in any::<([u8; 16], [u8; 16])>(), device: bool, ports: (u16, u16), seq: u64,
        time_ns: u64,
    ) {
        let checksum = if device { ChecksumMode::Device } else { ChecksumMode::Software };
        let family = |octets: [u8; 16]| match spec.src {
            IpAddr::V4(_) => IpAddr::from([octets[0], octets[1], octets[2], octets[3]]),
            IpAddr::V6(_) => IpAddr::from(octets),
        };
        let (src, dst) = (family(others.0), family(others.1));
        let spec = TemplateSpec { checksum, ..spec };
        let stamp = Stamp { seq, time_ns };
        let template = Template::new(&spec).unwrap();
        let mut frame = vec![0xee; template.frame_len()];
        template.write_between(&mut frame, (src, dst), ports, stamp);
        let theirs = TemplateSpec { src, dst, ..spec };
        prop_assert_eq!(&frame, &written(&theirs, ports, stamp));
        if !device {
            // And from scratch: the header's bytes, and pseudo-header and datagram, sum up to nothing.
            let l3 = template.payload_offset() - 8 - if src.is_ipv4() { 20 } else { 40 };
            if src.is_ipv4() {
                prop_assert_eq!(naive_checksum(&[&frame[l3..l3 + 20]]), 0);
            }
            let datagram = &frame[template.payload_offset() - 8..template.payload_offset() + spec.payload_len];
            prop_assert_eq!(naive_checksum(&[&pseudo_header(&theirs), datagram]), 0);
        }
    }

    #[test]
    fn frames_that_are_written_together_are_those_that_are_written_one_by_one(
        spec in spec(), short in 16usize..120, other: bool, device: bool, ports: (u16, u16), first in 0..u64::MAX - 9,
        time_ns: u64,
    ) {
        let checksum = if device { ChecksumMode::Device } else { ChecksumMode::Software };
        let payload_len = if other { spec.payload_len } else { short };
        let spec = TemplateSpec { checksum, payload_len, ..spec };
        let template = Template::new(&spec).unwrap();
        let mut frames = vec![vec![0xee; template.frame_len()]; 9];
        let blanks = (first..).zip(&mut frames).map(|(seq, bytes)| {
            let (flow, ports) = (7, (ports.0.wrapping_add(seq as u16), ports.1));
            Blank { bytes, flow, ports, seq }
        });
        template.write_all(blanks, time_ns);
        for (seq, frame) in (first..).zip(&frames) {
            let ports = (ports.0.wrapping_add(seq as u16), ports.1);
            prop_assert_eq!(frame, &written(&spec, ports, Stamp { seq, time_ns }));
        }
    }

    #[test]
    fn headers_and_constant_sum_are_all_that_a_frame_needs(spec in spec(), ports: (u16, u16), seq: u64, time_ns: u64) {
        let stamp = Stamp { seq, time_ns };
        prop_assert_eq!(rebuilt(&spec, ports, stamp), written(&spec, ports, stamp));
    }

    #[test]
    fn written_frame_is_read_back(spec in spec(), ports: (u16, u16), seq: u64, time_ns: u64) {
        let stamp = Stamp { seq, time_ns };
        let frame = written(&spec, ports, stamp);
        let template = Template::new(&spec).unwrap();
        let p = parse_udp(&frame).unwrap();
        prop_assert_eq!((p.src_port, p.dst_port), ports);
        prop_assert_eq!((p.src_ip(&frame), p.dst_ip(&frame)), (spec.src, spec.dst));
        prop_assert_eq!(usize::from(p.payload), template.payload_offset());
        prop_assert_eq!(usize::from(p.payload_len), spec.payload_len);
        prop_assert_eq!((eth::destination(&frame), eth::source(&frame)), (spec.dst_mac, spec.src_mac));
        prop_assert_eq!(eth::vlan_id(&frame), spec.vlan);
        prop_assert_eq!(Stamp::read(p.payload(&frame)), Some(stamp));
        prop_assert!(verify_data(spec.seed, seq, &p.payload(&frame)[STAMP_LEN..]));
        prop_assert!(udp_checksum_ok(&frame, &p));
        let checked = Checked { packet: p, stamp: Some(stamp), checksum_ok: true, data_ok: true };
        prop_assert_eq!(check_udp(&frame, spec.seed, true), Ok(checked));
        let size = FrameSize::from_payload(spec.payload_len, p.v6, spec.vlan.is_some());
        prop_assert_eq!(size.without_fcs(), frame.len());
        prop_assert!(frame[template.payload_offset() + spec.payload_len..].iter().all(|b| *b == 0));
    }

    #[test]
    fn checksums_equal_the_naive_ones(spec in spec(), ports: (u16, u16), seq: u64, time_ns: u64) {
        let frame = written(&spec, ports, Stamp { seq, time_ns });
        let p = parse_udp(&frame).unwrap();
        let end = usize::from(p.payload) + usize::from(p.payload_len);
        prop_assert_eq!(naive_checksum(&[&pseudo_header(&spec), &frame[p.l4.into()..end]]), 0);
        if !p.v6 {
            prop_assert_eq!(naive_checksum(&[&frame[p.l3.into()..p.l4.into()]]), 0);
        }
    }

    #[test]
    fn restamped_frame_equals_one_written_anew(
        spec in spec(),
        ports: (u16, u16),
        seq: u64,
        old: u64,
        new: u64,
        device: bool,
    ) {
        let checksum = if device { ChecksumMode::Device } else { ChecksumMode::Software };
        let spec = TemplateSpec { checksum, ..spec };
        let mut frame = written(&spec, ports, Stamp { seq, time_ns: old });
        Template::new(&spec).unwrap().restamp(&mut frame, new);
        prop_assert_eq!(frame, written(&spec, ports, Stamp { seq, time_ns: new }));
    }

    #[test]
    fn device_completes_to_the_software_checksum(spec in spec(), ports: (u16, u16), seq: u64, time_ns: u64) {
        let stamp = Stamp { seq, time_ns };
        let mut frame = written(&TemplateSpec { checksum: ChecksumMode::Device, ..spec }, ports, stamp);
        // What a device does: the sum from the UDP header on, the field's content included, complemented.
        let p = parse_udp(&frame).unwrap();
        let (at, end) = (usize::from(p.l4), usize::from(p.payload) + usize::from(p.payload_len));
        let sum = match naive_checksum(&[&frame[at..end]]) { 0 => 0xffff, sum => sum };
        let software = written(&spec, ports, stamp);
        let mut completed = frame.clone();
        completed[at + 6..at + 8].copy_from_slice(&sum.to_be_bytes());
        prop_assert_eq!(&completed, &software);
        complete_udp_checksum(&mut frame, &p);
        prop_assert_eq!(&frame, &software);
    }

    #[test]
    fn any_flipped_bit_under_a_checksum_is_noticed(
        spec in spec(),
        ports: (u16, u16),
        seq: u64,
        at: prop::sample::Index,
        bit in 0u8..8,
    ) {
        let mut frame = written(&spec, ports, Stamp { seq, time_ns: 1 });
        let p = parse_udp(&frame).unwrap();
        let (l3, l4) = (usize::from(p.l3), usize::from(p.l4));
        let end = usize::from(p.payload) + usize::from(p.payload_len);
        // IPv6 has no header checksum: only its addresses are covered, by UDP's.
        let start = if p.v6 { l3 + 8 } else { l3 };
        let at = start + at.index(end - start);
        // Lengths say what is summed: a wrong one is found with the odds of the checksum, not for certain.
        prop_assume!(at != l4 + 4 && at != l4 + 5 && (p.v6 || at != l3));
        frame[at] ^= 1 << bit;
        // The one bit of a checksum may have been its last: then there is none.
        prop_assume!(p.v6 || frame[l4 + 6..l4 + 8] != [0, 0]);
        prop_assert!(!intact(&frame), "byte {} bit {}", at, bit);
    }

    #[test]
    fn payload_template_writes_what_the_frame_holds(spec in spec(), seq: u64, old: u64, time_ns: u64) {
        let frame = written(&spec, (1, 2), Stamp { seq, time_ns });
        let template = PayloadTemplate::new(spec.payload_len, spec.seed).unwrap();
        let mut payload = vec![0xee; template.payload_len()];
        template.write(&mut payload, Stamp { seq, time_ns: old });
        template.restamp(&mut payload, time_ns);
        prop_assert_eq!(parse_udp(&frame).unwrap().payload(&frame), &payload);
    }

    #[test]
    fn parsing_arbitrary_bytes_keeps_the_promises(frame in prop::collection::vec(any::<u8>(), 0..200)) {
        common::checks::parse_udp_holds(&frame);
        common::checks::reflect_holds(&frame);
        common::checks::slow_path_holds(&frame);
    }
}

fn small() -> TemplateSpec {
    TemplateSpec {
        src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        vlan: None,
        src: Ipv4Addr::new(10, 99, 0, 1).into(),
        dst: Ipv4Addr::new(10, 99, 0, 2).into(),
        payload_len: 18,
        ttl: 64,
        dscp: 0,
        seed: 1,
        checksum: ChecksumMode::Software,
    }
}

#[test]
fn each_writer_of_several_frames_writes_what_the_one_of_one_frame_does() {
    let v6 = TemplateSpec {
        src: Ipv6Addr::LOCALHOST.into(),
        dst: Ipv6Addr::UNSPECIFIED.into(),
        ..small()
    };
    let vlan = Some(7);
    for spec in [
        small(),
        TemplateSpec { vlan, ..small() },
        v6,
        TemplateSpec { vlan, ..v6 },
    ] {
        for (payload_len, checksum) in
            (16..=90).flat_map(|len| [ChecksumMode::Software, ChecksumMode::Device].map(|mode| (len, mode)))
        {
            let spec = TemplateSpec {
                payload_len,
                checksum,
                ..spec
            };
            let template = Template::new(&spec).unwrap();
            let mut frames = vec![vec![0xee; template.frame_len()]; 3];
            let blanks = (5..).zip(&mut frames).map(|(seq, bytes)| Blank {
                bytes,
                flow: 0,
                ports: (seq as u16, 9),
                seq,
            });
            template.write_all(blanks, 11);
            for (seq, frame) in (5..).zip(&frames) {
                let stamp = Stamp { seq, time_ns: 11 };
                assert_eq!(frame, &written(&spec, (seq as u16, 9), stamp), "{spec:?}");
            }
        }
    }
}

#[test]
fn a_frame_of_another_length_is_written_by_no_writer() {
    let device = TemplateSpec {
        checksum: ChecksumMode::Device,
        ..small()
    };
    for spec in [18, 19, 60, 200]
        .map(|payload_len| TemplateSpec { payload_len, ..small() })
        .iter()
        .chain([&device])
    {
        let template = Template::new(spec).unwrap();
        for len in [0, template.frame_len() - 1, template.frame_len() + 1] {
            let write = || template.write(&mut vec![0; len], 1, 2, Stamp::default());
            let write_all = || {
                let (flow, ports, seq) = (0, (1, 2), 0);
                let bytes = &mut *vec![0; len];
                template.write_all(
                    [Blank {
                        bytes,
                        flow,
                        ports,
                        seq,
                    }]
                    .into_iter(),
                    0,
                );
            };
            let whole = template.frame_len();
            assert!(std::panic::catch_unwind(write).is_err(), "{len} of {whole}");
            assert!(std::panic::catch_unwind(write_all).is_err(), "{len} of {whole}");
        }
    }
}

#[test]
fn smallest_frame_is_64_bytes_with_fcs() {
    for (payload_len, frame_len) in [(16, 60), (17, 60), (18, 60), (19, 61)] {
        let frame = written(&TemplateSpec { payload_len, ..small() }, (1, 2), Stamp::default());
        assert_eq!(frame.len(), frame_len);
        assert!(intact(&frame));
        // Every flipped bit behind the IP header but the UDP length's is noticed by the fused check too.
        for bit in (34 * 8..(42 + payload_len) * 8).filter(|bit| !(38 * 8..40 * 8).contains(bit)) {
            let mut flipped = frame.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            common::checks::parse_udp_holds(&flipped);
            assert!(check_udp(&flipped, 1, true).is_ok_and(|c| !c.checksum_ok), "bit {bit}");
        }
    }
}

#[test]
fn zero_checksum_is_sent_as_all_ones() {
    // With 2^16 consecutive send times the sum takes every value, zero included.
    let template = Template::new(&small()).unwrap();
    let mut frame = vec![0; template.frame_len()];
    let mut seen = 0;
    for time_ns in 0..65_536 {
        template.write(&mut frame, 1, 2, Stamp { seq: 0, time_ns });
        assert_ne!(frame[40..42], [0, 0]);
        seen += usize::from(frame[40..42] == [0xff, 0xff]);
        assert!(intact(&frame));
    }
    assert!(seen >= 1);
}

#[test]
fn missing_checksum_is_right_over_v4_and_wrong_over_v6() {
    for (src, dst, ok) in [
        (small().src, small().dst, true),
        (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), false),
    ] {
        let mut frame = written(&TemplateSpec { src, dst, ..small() }, (1, 2), Stamp::default());
        let p = parse_udp(&frame).unwrap();
        frame[usize::from(p.l4) + 6..][..2].fill(0);
        assert_eq!(udp_checksum_ok(&frame, &p), ok);
    }
}

#[test]
fn destination_mac_can_be_set_later() {
    let mut template = Template::new(&small()).unwrap();
    template.set_dst_mac(MacAddr([2, 0, 0, 0, 0, 7]));
    let mut frame = vec![0; template.frame_len()];
    template.write(&mut frame, 1, 2, Stamp::default());
    assert_eq!(eth::destination(&frame), MacAddr([2, 0, 0, 0, 0, 7]));
}

#[test]
fn impossible_specifications_are_refused() {
    let v6 = IpAddr::from(Ipv6Addr::LOCALHOST);
    let error = |spec: TemplateSpec| Template::new(&spec).unwrap_err();
    assert_eq!(
        error(TemplateSpec { dst: v6, ..small() }),
        TemplateError::FamilyMismatch {
            src: small().src,
            dst: v6
        }
    );
    for (src, dst, max) in [(small().src, small().dst, 65507), (v6, v6, 65527)] {
        for len in [0, 15, max + 1, usize::MAX] {
            let spec = TemplateSpec {
                src,
                dst,
                payload_len: len,
                ..small()
            };
            assert_eq!(error(spec), TemplateError::PayloadLength { len, max });
        }
        assert!(
            Template::new(&TemplateSpec {
                src,
                dst,
                payload_len: max,
                ..small()
            })
            .is_ok()
        );
    }
    assert_eq!(
        error(TemplateSpec {
            vlan: Some(4095),
            ..small()
        }),
        TemplateError::Vlan(4095)
    );
    assert_eq!(error(TemplateSpec { dscp: 64, ..small() }), TemplateError::Dscp(64));
    assert_eq!(error(TemplateSpec { ttl: 0, ..small() }), TemplateError::Ttl);
    assert!(PayloadTemplate::new(15, 0).is_err());
}
