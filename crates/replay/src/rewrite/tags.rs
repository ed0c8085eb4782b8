//! VLAN tags that are put on, taken off, or kept.

use super::NotRewritten;
use mpps_traffic::Vlans;
use mpps_wire::eth;

/// Offset of the outermost tag: behind the MAC addresses.
const FIRST: usize = 12;
/// Priority and identifier of a tag of whose fields none is written, as in packets that are made.
const PLAIN: [u8; 2] = [0, 1];

/// Treats the tags of a frame of `len` bytes in `buffer`, an Ethernet header at least, and returns its new length.
///
/// # Errors
/// [`NotRewritten::NoRoom`], with nothing changed.
pub(super) fn apply(buffer: &mut [u8], mut len: usize, tags: &[u16], tagging: Vlans) -> Result<usize, NotRewritten> {
    let there = match tagging {
        Vlans::Push => 0,
        _ => (0..).take_while(|at| is_tag(&buffer[..len], *at)).count(),
    };
    // Tags of the frame that stand for the first ones of the text, in order.
    let kept = |buffer: &[u8], at: usize, kept: usize, tag: u16| {
        tagging == Vlans::Set && kept < there && kind(buffer, at) == Some(tag)
    };
    let mut same = 0;
    for tag in tags {
        same += usize::from(kept(buffer, same, same, *tag));
    }
    let off = if tagging == Vlans::Replace { there } else { 0 };
    let wanted = len + (tags.len() - same) * eth::TAG_LEN - off * eth::TAG_LEN;
    if wanted > buffer.len() {
        return Err(NotRewritten::NoRoom(wanted));
    }
    buffer.copy_within(FIRST + off * eth::TAG_LEN..len, FIRST);
    len -= off * eth::TAG_LEN;
    let mut same = 0;
    for (at, tag) in tags.iter().enumerate() {
        if kept(buffer, at, same, *tag) {
            same += 1;
            continue;
        }
        let from = FIRST + at * eth::TAG_LEN;
        buffer.copy_within(from..len, from + eth::TAG_LEN);
        buffer[from..from + 2].copy_from_slice(&tag.to_be_bytes());
        buffer[from + 2..from + 4].copy_from_slice(&PLAIN);
        len += eth::TAG_LEN;
    }
    Ok(len)
}

/// Returns the type in front of tag `at`, or of what follows the tags before it.
fn kind(frame: &[u8], at: usize) -> Option<u16> {
    let two = frame.get(FIRST + at * eth::TAG_LEN..)?.first_chunk()?;
    Some(u16::from_be_bytes(*two))
}

/// Returns whether a whole tag is there, with the type behind it.
fn is_tag(frame: &[u8], at: usize) -> bool {
    matches!(kind(frame, at), Some(eth::TYPE_CTAG | eth::TYPE_STAG)) && kind(frame, at + 1).is_some()
}
