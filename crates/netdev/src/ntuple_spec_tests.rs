//! A filter's bytes, against the offsets of the kernel's header.

use super::*;

/// A filter's bytes as the kernel reads them.
fn bytes(filter: &Ntuple) -> Vec<u8> {
    let spec = FlowSpec::of(filter);
    let sides = [spec.value, spec.mask]
        .into_iter()
        .flat_map(|s| [&s.header[..], &s.ext[..]].concat());
    let mut bytes = spec.flow_type.to_ne_bytes().to_vec();
    bytes.extend(sides);
    bytes.extend(spec.padding.to_ne_bytes());
    bytes.extend(spec.ring_cookie.to_ne_bytes());
    bytes.extend(spec.location.to_ne_bytes());
    bytes
}

/// Offset of the masks, and offset of the extension within a side.
const MASKS: usize = 76;
const EXT: usize = 52;

fn exact<const N: usize>(value: [u8; N]) -> Bitmatch<[u8; N]> {
    Bitmatch { value, mask: [0xff; N] }
}

fn port(value: u16) -> Bitmatch<u16> {
    Bitmatch { value, mask: 0xffff }
}

fn to_queue(headers: Headers) -> Ntuple {
    Ntuple {
        headers,
        dst_mac: None,
        vlan_type: None,
        vlan_tci: None,
        fate: Fate::Queue(3),
    }
}

/// All bytes are zero but those at the given places.
fn assert_bytes(filter: &Ntuple, flow_type: u32, cookie: u64, places: &[(usize, &[u8])]) {
    let mut expected = vec![0; 164];
    let (flow_type, cookie) = (flow_type.to_ne_bytes(), cookie.to_ne_bytes());
    for (at, part) in [(0, &flow_type[..]), (152, &cookie[..])].iter().chain(places) {
        expected[*at..at + part.len()].copy_from_slice(part);
    }
    assert_eq!(bytes(filter), expected, "{filter:?}");
}

#[test]
fn udp_over_ipv4_lies_as_in_ethtool_tcpip4_spec() {
    let src = Bitmatch {
        value: [10, 0, 0, 0],
        mask: [255, 0, 0, 0],
    };
    let above = Above::Udp {
        src: Bitmatch::default(),
        dst: port(9000),
    };
    let headers = |above| Headers::Ipv4 {
        src,
        dst: exact([10, 99, 0, 2]),
        tos: Bitmatch {
            value: 0xb8,
            mask: 0xfc,
        },
        above,
    };
    let places: [(usize, &[u8]); 8] = [
        (4, &[10, 0, 0, 0]),
        (8, &[10, 99, 0, 2]),
        (14, &[0x23, 0x28]),
        (16, &[0xb8]),
        (MASKS, &[255, 0, 0, 0]),
        (MASKS + 4, &[255; 4]),
        (MASKS + 10, &[255; 2]),
        (MASKS + 12, &[0xfc]),
    ];
    assert_bytes(&to_queue(headers(above)), 0x02, 3, &places);
    let Above::Udp { src, dst } = above else { unreachable!() };
    assert_bytes(&to_queue(headers(Above::Tcp { src, dst })), 0x01, 3, &places);
}

#[test]
fn another_protocol_over_ipv4_lies_as_in_ethtool_usrip4_spec() {
    let headers = Headers::Ipv4 {
        src: Bitmatch::default(),
        dst: exact([10, 99, 0, 2]),
        tos: Bitmatch::default(),
        above: Above::Protocol(Bitmatch { value: 47, mask: 0xff }),
    };
    let mut filter = to_queue(headers);
    filter.fate = Fate::Discard;
    let places: [(usize, &[u8]); 4] = [
        (8, &[10, 99, 0, 2]),
        (17, &[1, 47]),
        (MASKS + 4, &[255; 4]),
        (MASKS + 14, &[255]),
    ];
    assert_bytes(&filter, 0x0d, u64::MAX, &places);
}

#[test]
fn ipv6_lies_as_in_ethtool_tcpip6_spec_and_usrip6_spec() {
    let dst = exact(std::array::from_fn(|i| i as u8 + 1));
    let headers = |above| Headers::Ipv6 {
        src: Bitmatch::default(),
        dst,
        class: Bitmatch { value: 5, mask: 0xff },
        above,
    };
    let tcp = Above::Tcp {
        src: port(80),
        dst: Bitmatch::default(),
    };
    let common: [(usize, &[u8]); 4] = [
        (20, &dst.value),
        (40, &[5]),
        (MASKS + 16, &[255; 16]),
        (MASKS + 36, &[255]),
    ];
    let ports: [(usize, &[u8]); 2] = [(36, &[0, 80]), (MASKS + 32, &[255; 2])];
    assert_bytes(&to_queue(headers(tcp)), 0x05, 3, &[&common[..], &ports].concat());
    let icmp = Above::Protocol(Bitmatch { value: 58, mask: 0xff });
    let protocol: [(usize, &[u8]); 2] = [(41, &[58]), (MASKS + 37, &[255])];
    assert_bytes(&to_queue(headers(icmp)), 0x0e, 3, &[&common[..], &protocol].concat());
}

#[test]
fn ethernet_lies_as_in_ethhdr_and_tags_in_ethtool_flow_ext() {
    let mut filter = to_queue(Headers::Ethernet {
        dst: exact([2, 0, 0, 0, 0, 1]),
        src: exact([2, 0, 0, 0, 0, 2]),
        ethertype: port(0x88f7),
    });
    let header: [(usize, &[u8]); 2] = [
        (4, &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xf7]),
        (MASKS, &[255; 14]),
    ];
    assert_bytes(&filter, 0x12, 3, &header);
    filter.vlan_type = Some(port(0x8100));
    filter.vlan_tci = Some(Bitmatch { value: 5, mask: 0xfff });
    let tag: [(usize, &[u8]); 2] = [
        (4 + EXT + 8, &[0x81, 0, 0, 5]),
        (MASKS + EXT + 8, &[255, 255, 0x0f, 0xff]),
    ];
    assert_bytes(&filter, 0x8000_0012, 3, &[&header[..], &tag].concat());
}

#[test]
fn a_mac_address_beside_ip_lies_in_ethtool_flow_ext() {
    let mut filter = to_queue(Headers::Ipv4 {
        src: Bitmatch::default(),
        dst: Bitmatch::default(),
        tos: Bitmatch::default(),
        above: Above::Udp {
            src: Bitmatch::default(),
            dst: Bitmatch::default(),
        },
    });
    filter.dst_mac = Some(exact([2, 0, 0, 0, 0, 1]));
    let places: [(usize, &[u8]); 2] = [(4 + EXT + 2, &[2, 0, 0, 0, 0, 1]), (MASKS + EXT + 2, &[255; 6])];
    assert_bytes(&filter, 0x4000_0002, 3, &places);
}
