//! The user's settings, checked: address and options. Opens nothing.

use mpps_io::{PortSpec, SpecError};

/// Way in which completions of later events (a packet comes) get to the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRun {
    /// When the lane asks (`IORING_SETUP_DEFER_TASKRUN`).
    Defer,
    /// When the lane calls the system next (`IORING_SETUP_COOP_TASKRUN`).
    Coop,
    /// At once: the lane is interrupted.
    Interrupt,
}

impl TaskRun {
    /// Returns the value as a user writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Defer => "defer",
            Self::Coop => "coop",
            Self::Interrupt => "interrupt",
        }
    }
}

/// A checked `io_uring:` port, ready to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Settings that all paths over sockets have.
    pub sockets: mpps_sockets::Config,
    /// Buffers provided to the kernel for receiving, each lane; a power of two. `None`: 512, with `gro=on` 64.
    pub buffers: Option<u16>,
    /// Most sends of a lane under way.
    pub sends: Option<u16>,
    /// Entries of the completion queue, at least; `None`: as many as completions can be there at a time.
    pub cq: Option<u32>,
    /// One receive request brings packet after packet; `None`: if the kernel has it.
    pub multishot: Option<bool>,
    /// Sockets are registered with the ring.
    pub direct: bool,
    /// `None`: the best that the kernel has.
    pub taskrun: Option<TaskRun>,
    /// A kernel thread takes submissions, and sleeps after so many ms without; `None`: there is no such thread.
    pub sqpoll: Option<u32>,
    /// The CPU that it is bound to.
    pub sqpoll_cpu: Option<u32>,
    /// Sends of this many bytes and more are by zero copy; `None`: none.
    pub zerocopy: Option<usize>,
    /// Zero-copy receive is asked for.
    pub zerocopy_rx: bool,
}

/// Checks address and options of `io_uring:[ADDR[:PORT]][,options]`: those of [`mpps_sockets::Config::read`] and those
/// of [`Config`].
///
/// # Errors
/// One line that names what was wrong and what would be right.
pub fn check(spec: &PortSpec) -> Result<Config, SpecError> {
    let mut options = spec.take_options();
    let sockets = mpps_sockets::Config::read(spec, &mut options)?;
    let power = |text: &str| {
        text.parse()
            .ok()
            .filter(|n: &u16| (16..=32_768).contains(n) && n.is_power_of_two())
    };
    let some = |n: u64| (n > 0).then_some(n);
    let config = Config {
        sockets,
        buffers: options.get("buffers", "a power of two from 16 to 32768", power)?,
        sends: options.number("sends", 1..=4096)?.map(|n| n as u16),
        cq: options.number("cq", 16..=65_536)?.map(|n| n as u32),
        multishot: options.switch("multishot")?,
        direct: options.switch("direct")?.unwrap_or(true),
        taskrun: options.get("taskrun", "defer, coop or interrupt", |text| {
            [TaskRun::Defer, TaskRun::Coop, TaskRun::Interrupt]
                .into_iter()
                .find(|way| way.name() == text)
        })?,
        sqpoll: options.number("sqpoll", 0..=60_000)?.and_then(some).map(|ms| ms as u32),
        sqpoll_cpu: options.number("sqpoll_cpu", 0..=4095)?.map(|cpu| cpu as u32),
        zerocopy: options
            .number("zerocopy", 0..=65_507)?
            .and_then(some)
            .map(|n| n as usize),
        zerocopy_rx: options.switch("zerocopy_rx")?.unwrap_or(false),
    };
    options.finish()?;
    if config.sqpoll.is_none() && config.sqpoll_cpu.is_some() {
        let text = "sqpoll_cpu= is of no use without sqpoll=: want both";
        return Err(SpecError(format!("port '{spec}': {text}")));
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        check(&text.parse().expect("spec")).map_err(|e| e.0)
    }

    #[test]
    fn options_are_taken() {
        let plain = parse("io_uring:").expect("valid");
        assert_eq!((plain.buffers, plain.multishot, plain.direct), (None, None, true));
        assert_eq!((plain.sqpoll, plain.zerocopy, plain.taskrun), (None, None, None));
        let text = "io_uring:10.0.0.1:9001,buffers=64,sends=8,cq=32,multishot=off,direct=off,taskrun=coop,sqpoll=100,\
                    sqpoll_cpu=1,zerocopy=1000,gso=on,sockets=4";
        let all = parse(text).expect("valid");
        assert_eq!((all.buffers, all.sends, all.cq), (Some(64), Some(8), Some(32)));
        assert_eq!(
            (all.multishot, all.direct, all.taskrun),
            (Some(false), false, Some(TaskRun::Coop))
        );
        assert_eq!(
            (all.sqpoll, all.sqpoll_cpu, all.zerocopy),
            (Some(100), Some(1), Some(1000))
        );
        assert!(all.sockets.gso && all.sockets.sockets == 4 && all.sockets.port == Some(9001));
        // Nought is none.
        let none = parse("io_uring:sqpoll=0,zerocopy=0").expect("valid");
        assert_eq!((none.sqpoll, none.zerocopy), (None, None));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("io_uring:eth1", "want an IP address"),
            (
                "io_uring:buffers=100",
                "buffers=100: want a power of two from 16 to 32768",
            ),
            ("io_uring:buffers=65536", "want a power of two"),
            ("io_uring:sends=0", "sends=0"),
            ("io_uring:taskrun=now", "taskrun=now: want defer, coop or interrupt"),
            ("io_uring:zerocopy=65508", "zerocopy=65508"),
            ("io_uring:sqpoll=on", "sqpoll=on"),
            ("io_uring:sqpoll_cpu=1", "sqpoll_cpu= is of no use without sqpoll="),
            ("io_uring:busy_poll=50", "unknown option 'busy_poll'"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(named), "{text}: {error}");
            assert!(!error.contains('\n'));
        }
    }
}
