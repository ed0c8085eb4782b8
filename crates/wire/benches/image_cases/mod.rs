//! Images and templates that write the same packets, for measurements.

use mpps_wire::image::{Data, Field, SumKind, SumOf, Values};
use mpps_wire::{ChecksumMode, FrameSize, Image, ImageSpec, MacAddr, Template, TemplateSpec};

/// Writer that is measured.
pub(crate) enum Writer {
    /// Template.
    Template(Template),
    /// Image.
    Image(Box<Image>),
}

/// Packets that are written.
pub(crate) struct Case {
    /// Name, with the bytes of a frame, FCS counted.
    pub(crate) name: String,
    /// Bytes of a frame, without FCS.
    pub(crate) len: usize,
    /// Writer.
    pub(crate) writer: Writer,
}

const FLOWS: u32 = 1024;

/// Returns all cases, each image behind the template of the same size.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    let plain = [64, 112, 128, 1518].into_iter().flat_map(|size| {
        let template = Case {
            name: format!("template/{size}"),
            len: size - 4,
            writer: Writer::Template(template(size)),
        };
        [template]
            .into_iter()
            .chain(["plain", "counter"].map(|fields| image(fields, size)))
    });
    let others = ["4-counters", "random", "table", "divided", "tos", "two-addresses"];
    let varied = others.map(|fields| image(fields, 64));
    let tunnels = [image("vxlan", 112), image("vxlan-4", 112)];
    plain.chain(varied).chain(tunnels)
}

fn template(size: usize) -> Template {
    let spec = TemplateSpec {
        src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        vlan: None,
        src: [10, 99, 0, 1].into(),
        dst: [10, 99, 0, 2].into(),
        payload_len: FrameSize::from_fcs(size).payload_len(false, false).expect("a size"),
        ttl: 64,
        dscp: 0,
        seed: 1,
        checksum: ChecksumMode::Software,
    };
    Template::new(&spec).expect("a template")
}

fn counter(byte: usize, width: u32, start: u128) -> Field {
    Field {
        bit: byte * 8,
        width,
        every: 1,
        values: Values::Counter {
            start,
            step: 1,
            count: FLOWS.into(),
        },
    }
}

fn image(name: &str, size: usize) -> Case {
    let tunnel = if name.starts_with("vxlan") { 50 } else { 0 };
    let fields = match name {
        "counter" => vec![counter(tunnel + 34, 16, 10_000)],
        "4-counters" | "vxlan-4" => vec![
            counter(tunnel + 26, 32, 0x0a00_0001),
            counter(tunnel + 30, 32, 0x0a01_0001),
            counter(tunnel + 34, 16, 10_000),
            counter(tunnel + 36, 16, 20_000),
        ],
        "two-addresses" => vec![counter(26, 32, 0x0a00_0001), counter(30, 32, 0x0a01_0001)],
        "random" => vec![Field {
            values: Values::Random {
                low: 0,
                high: u32::MAX.into(),
                period: None,
                seed: 5,
            },
            ..counter(26, 32, 0)
        }],
        "table" => vec![Field {
            values: Values::Table((0..u128::from(FLOWS)).map(|i| i * 7).collect()),
            ..counter(34, 16, 0)
        }],
        "divided" => vec![Field {
            every: 4,
            ..counter(34, 16, 0)
        }],
        "tos" => vec![Field {
            bit: 15 * 8,
            width: 6,
            ..counter(0, 6, 0)
        }],
        _ => Vec::new(),
    };
    let spec = spec(tunnel, size - 4, fields);
    Case {
        name: format!("{name}/{size}"),
        len: size - 4,
        writer: Writer::Image(Box::new(Image::new(spec).expect("an image"))),
    }
}

/// Returns the spec of UDP packets over IPv4, in VXLAN if they begin at byte 50.
fn spec(tunnel: usize, frame_len: usize, fields: Vec<Field>) -> ImageSpec {
    let mut headers = vec![0; tunnel + 42];
    let mut sums = Vec::new();
    let at = if tunnel > 0 { vec![tunnel, 0] } else { vec![0] };
    for eth in at {
        let (ip, udp) = (eth + 14, eth + 34);
        headers[eth..eth + 14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        headers[ip..ip + 20].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 99, 0, 1, 10, 99, 0, 2]);
        headers[ip + 2..ip + 4].copy_from_slice(&((frame_len - ip) as u16).to_be_bytes());
        headers[udp..udp + 4].copy_from_slice(&[0x27, 0x10, 0x12, 0xb5]);
        headers[udp + 4..udp + 6].copy_from_slice(&((frame_len - udp) as u16).to_be_bytes());
        let sum = |at: usize, covers: core::ops::Range<usize>| SumOf {
            at,
            covers,
            rest: false,
            pseudo: None,
            kind: SumKind::Internet,
            wrong: false,
        };
        // The outer UDP header of VXLAN has no checksum (RFC 7348, section 5).
        if eth == tunnel {
            sums.push(SumOf {
                rest: true,
                pseudo: Some((ip + 12..ip + 16, ip + 16..ip + 20, 17)),
                kind: SumKind::Udp,
                ..sum(udp + 6, udp..udp + 8)
            });
        }
        sums.push(sum(ip + 10, ip..ip + 20));
    }
    if tunnel > 0 {
        headers[42..50].copy_from_slice(&[8, 0, 0, 0, 0, 0, 77, 0]);
    }
    for field in &fields {
        for bit in field.bit..field.bit + field.width as usize {
            headers[bit / 8] &= !(0x80 >> (bit % 8));
        }
    }
    ImageSpec {
        headers,
        varied: 0,
        frame_len,
        fields,
        sums,
        data: Data::Verified,
        tagged: true,
        seed: 1,
        run: 1,
        flows: FLOWS,
        first_flow: 0,
    }
}
