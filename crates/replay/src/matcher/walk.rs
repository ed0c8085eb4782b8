//! Headers of a frame: where each ends, and what is in it at no fixed place.

use mpps_traffic::HeaderKind;

/// Returns the bytes of the header of this kind with which `header` begins, `raw` of a raw one; `None` if it is not
/// whole or cannot be one.
pub(super) fn len(kind: HeaderKind, header: &[u8], raw: usize) -> Option<usize> {
    let least = kind.least_len();
    let byte = |at: usize| header.get(at).copied().map(usize::from);
    let len = match kind {
        HeaderKind::Raw => raw,
        HeaderKind::Arp => header.starts_with(&[0, 1, 8, 0, 6, 4]).then_some(least)?,
        HeaderKind::Ipv4 => (byte(0)? & 15) * 4,
        HeaderKind::Tcp => (byte(12)? >> 4) * 4,
        HeaderKind::HopOpts | HeaderKind::DstOpts | HeaderKind::Srh => (byte(1)? + 1) * 8,
        HeaderKind::Gre => gre(byte(0)?, byte(1)?)?,
        HeaderKind::Geneve => least + (byte(0)? & 0x3f) * 4,
        HeaderKind::Gtpu => gtpu(header)?,
        // Other chunks than DATA are shorter.
        HeaderKind::Sctp if header.len() >= 12 => return Some(least.min(header.len())),
        _ => least,
    };
    (len >= least && len <= header.len()).then_some(len)
}

/// Returns the bytes of a GRE header; `None` with source routes, which have a length of their own (RFC 1701).
fn gre(flags: usize, version: usize) -> Option<usize> {
    let words = (flags & 0xb0).count_ones() as usize;
    // Version 1 acknowledges in another word (RFC 2637).
    let acknowledged = version & 7 == 1 && version & 0x80 != 0;
    (flags & 0x40 == 0).then_some(4 + 4 * (words + usize::from(acknowledged)))
}

/// Returns the bytes of a GTP-U header with its extension headers.
fn gtpu(header: &[u8]) -> Option<usize> {
    let mut end = if header.first()? & 7 == 0 { 8 } else { 12 };
    for (_, extension) in Extensions::of(header) {
        end += extension.len();
    }
    Some(end)
}

/// Extension headers of GTP-U (3GPP TS 29.281, section 5.2): type, and bytes from the length on.
struct Extensions<'f> {
    rest: &'f [u8],
    kind: u8,
}

impl<'f> Extensions<'f> {
    fn of(header: &'f [u8]) -> Self {
        let extended = header.first().is_some_and(|flags| flags & 4 != 0);
        let kind = header.get(11).copied().filter(|_| extended).unwrap_or(0);
        let rest = header.get(12..).unwrap_or_default();
        Self { rest, kind }
    }
}

impl<'f> Iterator for Extensions<'f> {
    type Item = (u8, &'f [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let words = usize::from(*self.rest.first()?);
        if self.kind == 0 || words == 0 {
            return None;
        }
        let (extension, rest) = self.rest.split_at_checked(words * 4)?;
        let kind = std::mem::replace(&mut self.kind, *extension.last()?);
        self.rest = rest;
        Some((kind, extension))
    }
}

/// Returns the bytes of a container of a PDU session from that on that has its QFI (3GPP TS 38.415).
pub(super) fn pdu_session(header: &[u8]) -> Option<&[u8]> {
    const CONTAINER: u8 = 0x85;
    let (_, extension) = Extensions::of(header).find(|(kind, _)| *kind == CONTAINER)?;
    extension.get(2..)
}

/// Returns the value of an option of a TCP header.
pub(super) fn tcp_option(header: &[u8], wanted: u8) -> Option<&[u8]> {
    let end = usize::from(header.get(12)? >> 4) * 4;
    let mut options = header.get(options_at(HeaderKind::Tcp)..end)?;
    loop {
        match *options.first()? {
            0 => return None,
            1 => options = &options[1..],
            kind => {
                let len = usize::from(*options.get(1)?);
                let value = options.get(2..len)?;
                if kind == wanted {
                    return Some(value);
                }
                options = &options[len..];
            }
        }
    }
}

/// Returns the offset of the options in a header.
pub(super) fn options_at(kind: HeaderKind) -> usize {
    kind.least_len()
}

/// Returns the bytes of the packet that a header of `len` bytes begins, as it says itself; `None` if it does not.
pub(super) fn packet_len(kind: HeaderKind, header: &[u8], len: usize) -> Option<usize> {
    let number = |at: usize| Some(usize::from(u16::from_be_bytes(*header.get(at..)?.first_chunk()?)));
    match kind {
        // A length of 0 is that of a packet that a device was to divide.
        HeaderKind::Ipv4 => number(2).filter(|packet| *packet >= len),
        HeaderKind::Ipv6 => number(4).filter(|payload| *payload > 0).map(|payload| payload + len),
        _ => None,
    }
}

/// Returns whether a header is not that of a fragment other than the first.
pub(super) fn is_first(kind: HeaderKind, header: &[u8]) -> bool {
    let number = |at: usize| {
        header
            .get(at..)
            .and_then(|bytes| bytes.first_chunk())
            .map(|two| u16::from_be_bytes(*two))
    };
    match kind {
        HeaderKind::Ipv4 => number(6).is_some_and(|fragment| fragment & 0x1fff == 0),
        HeaderKind::Frag => number(2).is_some_and(|fragment| fragment >> 3 == 0),
        _ => true,
    }
}
