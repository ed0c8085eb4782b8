//! Capture files made by hand, byte by byte.

/// Order of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Big,
    Little,
}

impl Order {
    pub fn two(self, number: u16) -> [u8; 2] {
        match self {
            Self::Big => number.to_be_bytes(),
            Self::Little => number.to_le_bytes(),
        }
    }

    pub fn four(self, number: u32) -> [u8; 4] {
        match self {
            Self::Big => number.to_be_bytes(),
            Self::Little => number.to_le_bytes(),
        }
    }
}

pub const MICROS: u32 = 0xa1b2_c3d4;
pub const NANOS: u32 = 0xa1b2_3c4d;
pub const MODIFIED: u32 = 0xa1b2_cd34;

/// A pcap file.
pub struct Pcap {
    pub order: Order,
    pub magic: u32,
    pub bytes: Vec<u8>,
}

impl Pcap {
    pub fn new(order: Order, magic: u32) -> Self {
        Self::of_link(order, magic, 1)
    }

    pub fn of_link(order: Order, magic: u32, link: u32) -> Self {
        let mut bytes = Vec::new();
        bytes.extend(order.four(magic));
        bytes.extend([2, 4].map(|number| order.two(number)).concat());
        bytes.extend([0, 0, 262_144, link].map(|number| order.four(number)).concat());
        Self { order, magic, bytes }
    }

    /// Appends a packet: seconds, part of a second, captured bytes, original length.
    pub fn packet(&mut self, seconds: u32, part: u32, bytes: &[u8], original: u32) -> &mut Self {
        self.head(seconds, part, bytes.len() as u32, original);
        self.bytes.extend(bytes);
        self
    }

    /// Appends the head of a packet that says it has so many bytes.
    pub fn head(&mut self, seconds: u32, part: u32, captured: u32, original: u32) -> &mut Self {
        let numbers = [seconds, part, captured, original].map(|number| self.order.four(number));
        self.bytes.extend(numbers.concat());
        if self.magic == MODIFIED {
            self.bytes.extend([9; 8]);
        }
        self
    }
}

/// A pcapng file.
pub struct Pcapng {
    pub order: Order,
    pub bytes: Vec<u8>,
}

impl Pcapng {
    pub fn new(order: Order) -> Self {
        let mut file = Self {
            order,
            bytes: Vec::new(),
        };
        file.section(order);
        file
    }

    /// Appends a block.
    pub fn block(&mut self, kind: u32, body: &[u8]) -> &mut Self {
        let padded = body.len().next_multiple_of(4);
        let len = self.order.four(padded as u32 + 12);
        self.bytes.extend(self.order.four(kind));
        self.bytes.extend(len);
        self.bytes.extend(body);
        self.bytes.resize(self.bytes.len() + padded - body.len(), 0);
        self.bytes.extend(len);
        self
    }

    /// Begins a section.
    pub fn section(&mut self, order: Order) -> &mut Self {
        self.order = order;
        let mut body = Vec::new();
        body.extend(order.four(0x1a2b_3c4d));
        body.extend([1, 0].map(|number| order.two(number)).concat());
        body.extend([0xff; 8]);
        body.extend(self.option(4, b"by hand"));
        body.extend(self.option(0, &[]));
        self.block(0x0a0d_0d0a, &body)
    }

    /// Returns an option.
    pub fn option(&self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = Vec::new();
        option.extend([code, value.len() as u16].map(|number| self.order.two(number)).concat());
        option.extend(value);
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    /// Appends an interface.
    pub fn interface(&mut self, link: u16, snap: u32, options: &[(u16, &[u8])]) -> &mut Self {
        let mut body = Vec::new();
        body.extend(self.order.two(link));
        body.extend([0; 2]);
        body.extend(self.order.four(snap));
        for (code, value) in options {
            body.extend(self.option(*code, value));
        }
        self.block(1, &body)
    }

    /// Appends an enhanced packet, or one of the old kind.
    pub fn packet(&mut self, old: bool, interface: u32, units: u64, bytes: &[u8], original: u32) -> &mut Self {
        let mut body = Vec::new();
        match old {
            true => body.extend([interface as u16, 7].map(|number| self.order.two(number)).concat()),
            false => body.extend(self.order.four(interface)),
        }
        let numbers = [(units >> 32) as u32, units as u32, bytes.len() as u32, original];
        body.extend(numbers.map(|number| self.order.four(number)).concat());
        body.extend(bytes);
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(self.option(1, b"a packet with a comment"));
        self.block(if old { 2 } else { 6 }, &body)
    }

    /// Appends a simple packet.
    pub fn simple(&mut self, bytes: &[u8], original: u32) -> &mut Self {
        let body = [&self.order.four(original)[..], bytes].concat();
        self.block(3, &body)
    }
}

/// Returns a frame of so many bytes, which tell it from others.
pub fn frame(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed))
        .collect()
}
