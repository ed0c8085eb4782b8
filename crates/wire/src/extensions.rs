//! The extension headers of IPv6 (RFC 8200, section 4). Code that judges a packet and code that only looks for its
//! upper layer share this one walk over them.
//!
//! Authentication (RFC 4302) is walked over as any other header: the upper layer that it protects can be read.
//! Encryption (ESP) is an upper layer itself, and so is "no next header". IPv4 has no chain of headers: there,
//! authentication is the protocol.

use crate::bytes::chunk;

/// Most extension headers that are walked: RFC 8200, section 4.1, names fewer, and a longer chain is hostile.
pub(crate) const MOST: usize = 8;

pub(crate) const HOP_BY_HOP: u8 = 0;
pub(crate) const ROUTING: u8 = 43;
pub(crate) const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

/// Whether a header of this type is one of the chain, and not the upper layer.
#[inline]
pub(crate) const fn is_extension(protocol: u8) -> bool {
    matches!(
        protocol,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS
    )
}

/// Bytes of an extension header, as it says itself.
#[inline]
fn length(protocol: u8, head: &[u8; 8]) -> usize {
    match protocol {
        FRAGMENT => 8,
        // RFC 4302, section 2.2: in words of four bytes, less two.
        AUTHENTICATION => (usize::from(head[1]) + 2) * 4,
        _ => (usize::from(head[1]) + 1) * 8,
    }
}

/// A walk along the extension headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    /// Offset of the header that comes next.
    pub(crate) at: usize,
    /// Type of the header that comes next.
    pub(crate) protocol: u8,
    /// Headers that were walked over.
    pub(crate) walked: usize,
}

/// The bytes end before the header does, or there are more headers than anybody sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl Chain {
    /// Begins at `at` with a header of type `protocol`.
    #[inline]
    pub(crate) const fn new(at: usize, protocol: u8) -> Self {
        Self {
            at,
            protocol,
            walked: 0,
        }
    }

    /// Walks over the next extension header, and returns its first bytes; `None` if the upper layer comes next. The
    /// header may end beyond `bytes`.
    #[inline]
    pub(crate) fn step<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8; 8]>, Broken> {
        if self.walked > MOST {
            return Err(Broken);
        }
        if !is_extension(self.protocol) {
            return Ok(None);
        }
        let head: &[u8; 8] = chunk(bytes, self.at).ok_or(Broken)?;
        self.at += length(self.protocol, head);
        self.protocol = head[0];
        self.walked += 1;
        Ok(Some(head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types and second bytes of headers before UDP, and where UDP lies.
    fn walked(headers: &[(u8, u8, usize)]) -> Result<(usize, u8), Broken> {
        let mut bytes = Vec::new();
        for (i, &(_, second, length)) in headers.iter().enumerate() {
            let at = bytes.len();
            bytes.resize(at + length, 0xee);
            bytes[at] = headers.get(i + 1).map_or(17, |next| next.0);
            bytes[at + 1] = second;
        }
        let mut chain = Chain::new(0, headers.first().map_or(17, |first| first.0));
        while chain.step(&bytes)?.is_some() {}
        assert_eq!(chain.walked, headers.len());
        assert_eq!(chain.at, bytes.len());
        Ok((chain.at, chain.protocol))
    }

    #[test]
    fn each_header_says_its_length_in_units_of_its_own() {
        assert_eq!(walked(&[]), Ok((0, 17)));
        for protocol in [HOP_BY_HOP, ROUTING, DESTINATION_OPTIONS] {
            assert_eq!(walked(&[(protocol, 0, 8)]), Ok((8, 17)));
            assert_eq!(walked(&[(protocol, 3, 32)]), Ok((32, 17)));
        }
        // The second byte of a fragment header is reserved.
        assert_eq!(walked(&[(FRAGMENT, 9, 8)]), Ok((8, 17)));
        // RFC 4302: an ICV of 96 bits makes a header of 24 bytes, whose length field is 4.
        assert_eq!(walked(&[(AUTHENTICATION, 4, 24)]), Ok((24, 17)));
        assert_eq!(walked(&[(AUTHENTICATION, 255, 1028)]), Ok((1028, 17)));
        assert_eq!(walked(&[(0, 0, 8), (60, 1, 16), (51, 4, 24), (60, 0, 8)]), Ok((56, 17)));
    }

    #[test]
    fn what_is_no_extension_header_is_the_upper_layer() {
        for protocol in [6, 17, 50, 58, 59, 135, 255] {
            let mut chain = Chain::new(3, protocol);
            assert_eq!(chain.step(&[]), Ok(None));
            assert_eq!((chain.at, chain.protocol), (3, protocol));
        }
    }

    #[test]
    fn cut_and_endless_chains_are_broken() {
        assert_eq!(Chain::new(0, AUTHENTICATION).step(&[17, 4, 0, 0, 0, 0, 0]), Err(Broken));
        assert!(walked(&[(60, 0, 8); MOST]).is_ok());
        assert_eq!(walked(&[(60, 0, 8); MOST + 1]), Err(Broken));
    }
}
