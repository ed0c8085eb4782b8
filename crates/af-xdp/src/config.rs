//! The options of an `af_xdp` port, parsed before anything is opened.

use mpps_io::{PortSpec, RxTime, SpecError};

/// How the kernel hands packets over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The best there is: zero-copy, else the driver's XDP with a copy, else skb mode. What was got is in the report.
    Auto,
    /// The device reads and writes the packet memory itself.
    ZeroCopy,
    /// The driver's XDP, packets copied by the kernel.
    Copy,
    /// Generic XDP: after the kernel has made a socket buffer of each packet. Works with every driver.
    Skb,
}

impl Mode {
    /// Name as written in the option.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::ZeroCopy => "zerocopy",
            Self::Copy => "copy",
            Self::Skb => "skb",
        }
    }
}

/// Pages that the packet memory is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Normal ones, with the advice to use transparent huge pages.
    Normal,
    /// Reserved huge pages of 2 MiB.
    Huge,
    /// Reserved huge pages of 1 GiB.
    Huge1G,
}

/// A parsed `af_xdp:IFACE[,options]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The interface's name.
    pub device: String,
    /// `queues=`: queues of the device that are used, from `first` on; `None`: all there are.
    pub queues: Option<u32>,
    /// `first=`: the first queue.
    pub first: u32,
    /// `mode=`.
    pub mode: Mode,
    /// `ring=`: descriptors in the RX and the TX ring, a power of two.
    pub ring: u32,
    /// `fill=`: chunks that wait for packets in each queue, at the most; `None`: 2048.
    pub fill: Option<u32>,
    /// `frames=`: chunks of packet memory for each queue; `None`: as many as the rings can hold, and some.
    pub frames: Option<u32>,
    /// `chunk=`: bytes of one chunk; `None`: the smallest that takes the MTU.
    pub chunk: Option<u32>,
    /// `headroom=`: bytes in front of each packet, beside the kernel's own 256.
    pub headroom: u32,
    /// `unaligned=`: chunks packed at any address rather than at multiples of a power of two.
    pub unaligned: bool,
    /// `pages=`.
    pub pages: Pages,
    /// `need_wakeup=`.
    pub need_wakeup: bool,
    /// `busy_budget=`: packets of one busy poll (`SO_PREFER_BUSY_POLL`, `SO_BUSY_POLL_BUDGET`); `None`: none.
    pub busy_budget: Option<u16>,
    /// `tx_budget=`: packets that one system call sends in copy mode (`XDP_MAX_TX_SKB_BUDGET`, Linux 6.17);
    /// `None`: the most that the kernel allows, if it can be set at all.
    pub tx_budget: Option<u32>,
    /// `promisc=`: receive frames for other MAC addresses too; `None`: as the task needs.
    pub promisc: Option<bool>,
    /// `rx_time=`; of the kernel it is the XDP program that notes each packet's time of arrival.
    pub rx_time: RxTime,
}

impl Config {
    /// Whether the XDP program notes times of arrival.
    pub fn timed(&self) -> bool {
        self.rx_time == RxTime::Kernel
    }
}

/// Parses the specification; opens nothing.
///
/// # Errors
/// When the interface is missing or not a possible name, or an option or its value is unknown.
pub fn check(spec: &PortSpec) -> Result<Config, SpecError> {
    let device = spec.interface()?;
    let mut options = spec.take_options();
    let queues = options.number("queues", 1..=64)?.map(|n| n as u32);
    let first = options.number("first", 0..=63)?.unwrap_or(0) as u32;
    let mode = options.get("mode", "auto, zerocopy, copy or skb", |v| {
        [Mode::Auto, Mode::ZeroCopy, Mode::Copy, Mode::Skb]
            .into_iter()
            .find(|m| m.name() == v)
    })?;
    let power = |v: &str, least: u32, most: u32| {
        v.parse::<u32>()
            .ok()
            .filter(|n| n.is_power_of_two() && (least..=most).contains(n))
    };
    let ring = options.get("ring", "a power of two from 64 to 65536", |v| power(v, 64, 65_536))?;
    let fill = options.number("fill", 64..=131_072)?.map(|n| n as u32);
    let frames = options.number("frames", 128..=1 << 20)?.map(|n| n as u32);
    let chunk = options.number("chunk", 2048..=65_536)?.map(|n| n as u32);
    let headroom = options.number("headroom", 0..=1024)?.unwrap_or(0) as u32;
    let unaligned = options.switch("unaligned")?.unwrap_or(false);
    let pages = options.get("pages", "normal, huge or huge-1g", |v| match v {
        "normal" => Some(Pages::Normal),
        "huge" => Some(Pages::Huge),
        "huge-1g" => Some(Pages::Huge1G),
        _ => None,
    })?;
    let need_wakeup = options.switch("need_wakeup")?;
    let busy_budget = options.number("busy_budget", 1..=65_535)?.map(|n| n as u16);
    let tx_budget = options.number("tx_budget", 1..=65_536)?.map(|n| n as u32);
    let promisc = options.switch("promisc")?;
    let rx_time = options.rx_time()?;
    options.finish()?;
    if let Some(chunk) = chunk
        && !unaligned
        && !chunk.is_power_of_two()
    {
        return Err(SpecError(format!(
            "port '{spec}': chunk={chunk}: want a power of two, or unaligned=on as well"
        )));
    }
    if mode == Some(Mode::Skb) && busy_budget.is_some() {
        return Err(SpecError(format!(
            "port '{spec}': busy_budget: generic XDP (mode=skb) is not fed by the driver's poll loop: want mode=copy \
             or zerocopy"
        )));
    }
    Ok(Config {
        device,
        queues,
        first,
        mode: mode.unwrap_or(Mode::Auto),
        ring: ring.unwrap_or(2048),
        fill,
        frames,
        chunk,
        headroom,
        unaligned,
        pages: pages.unwrap_or(Pages::Normal),
        need_wakeup: need_wakeup.unwrap_or(true),
        busy_budget,
        tx_budget,
        promisc,
        rx_time: rx_time.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, SpecError> {
        check(&text.parse()?)
    }

    #[test]
    fn defaults_take_all_queues_and_the_best_mode() {
        let config = parse("af_xdp:eth1").expect("valid");
        assert_eq!((config.device.as_str(), config.queues, config.first), ("eth1", None, 0));
        assert_eq!((config.mode, config.ring, config.need_wakeup), (Mode::Auto, 2048, true));
        assert_eq!(config.rx_time, RxTime::Lane);
    }

    #[test]
    fn every_option_is_taken() {
        let config = parse(
            "af_xdp:eth1,queues=2,first=1,mode=copy,ring=1024,fill=512,frames=4096,chunk=2176,headroom=64,unaligned=on,\
             pages=huge,need_wakeup=off,busy_budget=64,tx_budget=256,rx_time=on",
        )
        .expect("valid");
        assert_eq!((config.queues, config.first, config.mode), (Some(2), 1, Mode::Copy));
        assert_eq!((config.ring, config.fill, config.frames), (1024, Some(512), Some(4096)));
        assert_eq!(
            (config.chunk, config.headroom, config.unaligned),
            (Some(2176), 64, true)
        );
        assert_eq!((config.pages, config.need_wakeup), (Pages::Huge, false));
        assert_eq!(
            (config.busy_budget, config.tx_budget, config.rx_time),
            (Some(64), Some(256), RxTime::Kernel)
        );
        for (word, taken_by) in [
            ("lane", RxTime::Lane),
            ("off", RxTime::Lane),
            ("kernel", RxTime::Kernel),
        ] {
            let config = parse(&format!("af_xdp:eth1,rx_time={word}")).expect(word);
            assert_eq!(config.rx_time, taken_by, "{word}");
        }
    }

    #[test]
    fn packet_memory_is_of_the_pages_that_are_named() {
        for (name, pages) in [
            ("normal", Pages::Normal),
            ("huge", Pages::Huge),
            ("huge-1g", Pages::Huge1G),
        ] {
            assert_eq!(parse(&format!("af_xdp:eth1,pages={name}")).expect("valid").pages, pages);
        }
    }

    #[test]
    fn refusals_name_the_option_the_value_and_what_would_be_right() {
        for (text, parts) in [
            ("af_xdp:eth1,queues=0", ["queues=0", "1"]),
            ("af_xdp:eth1,mode=fast", ["mode=fast", "auto, zerocopy, copy or skb"]),
            ("af_xdp:eth1,ring=1000", ["ring=1000", "power of two"]),
            ("af_xdp:eth1,chunk=3000", ["chunk=3000", "unaligned=on"]),
            ("af_xdp:eth1,pages=big", ["pages=big", "normal, huge or huge-1g"]),
            ("af_xdp:eth1,mode=skb,busy_budget=64", ["busy_budget", "mode=copy"]),
            ("af_xdp:eth1,rx_time=card", ["rx_time=card", "lane or kernel"]),
            (
                "af_xdp:eth1,rx_time=hardware",
                ["rx_time=hardware", "want kernel or lane"],
            ),
            ("af_xdp:eth1,rings=64", ["rings", "ring"]),
            ("af_xdp:", ["interface ''", "af_xdp:eth1"]),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(
                parts.iter().all(|p| error.contains(p)) && !error.contains('\n'),
                "{text}: {error}"
            );
        }
    }
}
