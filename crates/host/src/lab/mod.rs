//! The lab: two hosts on one machine, joined by a cable.
//!
//! Two network namespaces `NAME-a` and `NAME-b`, each with an interface `eth1`, the two ends of a veth pair, so that a
//! first packet needs neither a second machine nor a spare NIC.
//!
//! All state of the lab is in the kernel, and only there. It is found by looking, never by remembering, so a lab half
//! made or half removed by a killed run is an ordinary case. [`Lab::up`] looks, and does the missing steps;
//! [`Lab::down`] looks, and removes the parts that exist. Objects that the lab did not make lack its mark (see
//! [`names`]), and are left alone.

mod device;
mod ending;
mod error;
mod kernel;
mod lock;
mod names;
mod scratch;
mod status;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::ffi::OsStr;
use std::process::Command;
use std::time::{Duration, Instant};

use device::Device;
pub use error::{LabError, Result};
use kernel::{Entry, Kernel};
pub(crate) use lock::process_that_holds;
pub use lock::tell_of_waiting;
pub use names::Host;
pub use scratch::ScratchLab;
pub(crate) use scratch::is_there;
pub use status::{HostStatus, LabState, LabStatus};

/// Name of the lab when none is given.
pub const DEFAULT_NAME: &str = "mpps-lab";
/// The interface of each host.
pub const INTERFACE: &str = "eth1";
/// Longest wait for the link to come up.
const LINK_LIMIT: Duration = Duration::from_secs(10);

/// Returns the lab and the host on which this process runs, as in `lab exec` and `ip netns exec`; `None`: on none.
pub fn of_this_namespace() -> Option<(String, Host)> {
    let mark = std::fs::read_to_string("/sys/class/net/lo/ifalias").ok()?;
    names::of_mark(&mark)
}

/// Options of the lab's interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabOptions {
    /// Receive and transmit queues of each interface, 1 to 256. `None`: 1, or those that the lab has.
    pub queues: Option<u32>,
    /// MTU in bytes, 1280 (IPv6's minimum) to 65535. `None`: 1500, or that of the lab.
    pub mtu: Option<u32>,
}

/// A lab by its name; the lab itself need not exist.
pub struct Lab {
    name: String,
    options: LabOptions,
    /// Steps until a simulated `kill -9`.
    steps_left: Cell<Option<u32>>,
}

impl Lab {
    /// Returns a handle on the lab of this name; touches nothing.
    ///
    /// # Errors
    /// A name or option that can't be used.
    pub fn new(name: &str, options: LabOptions) -> Result<Self> {
        names::check(name)?;
        let check = |option, value: Option<u32>, least, most, range| match value {
            Some(value) if !(least..=most).contains(&value) => Err(LabError::BadOption { option, value, range }),
            _ => Ok(()),
        };
        check("queues", options.queues, 1, 256, "1 to 256")?;
        check("mtu", options.mtu, 1280, 65535, "1280 to 65535 bytes")?;
        Ok(Self {
            name: name.to_owned(),
            options,
            steps_left: Cell::new(None),
        })
    }

    /// Returns the lab's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the namespace of one host, in the form that `ip netns` uses.
    pub fn namespace(&self, host: Host) -> String {
        names::namespace(&self.name, host)
    }

    /// Makes the lab, or its missing parts, and waits until its link is up. Returns one line for each step; none when
    /// the lab was complete.
    ///
    /// # Errors
    /// No privilege, no `ip`, something of the name that is not the lab's (then nothing was changed), or a step that
    /// failed (the next `up` or `down` goes on from there).
    pub fn up(&self) -> Result<Vec<String>> {
        let kernel = Kernel::open("up")?;
        let mut done = Vec::new();
        let owned = self.survey(&kernel)?;
        self.remove_leftovers(&kernel, &mut done)?;
        for (host, owned) in Host::ALL.into_iter().zip(owned) {
            let ns = self.namespace(host);
            if !owned {
                self.make_namespace(&kernel, host)?;
                done.push(format!("made namespace {ns}"));
            }
            self.step()?;
            let changed = kernel::inside(&ns, || kernel::quiet_ipv6("default"))??;
            if changed > 0 && owned {
                done.push(format!("quietened IPv6 in {ns}"));
            }
        }
        self.join(&kernel, &mut done)?;
        for host in Host::ALL {
            self.configure(&kernel, host, &mut done)?;
            self.admit_xdp_frames(host, &mut done)?;
        }
        self.await_link(&kernel)?;
        Ok(done)
    }

    /// Removes the lab, or the remaining parts. Returns one line for each step; none when there was no lab.
    ///
    /// Programs that still run inside are ended first: SIGTERM asks them to end, and after 15 s they are killed.
    ///
    /// # Errors
    /// Same as [`Lab::up`].
    pub fn down(&self) -> Result<Vec<String>> {
        let kernel = Kernel::open("down")?;
        self.remove(&kernel, false)
    }

    fn remove(&self, kernel: &Kernel, kill: bool) -> Result<Vec<String>> {
        let mut done = Vec::new();
        let owned = self.survey(kernel)?;
        self.remove_leftovers(kernel, &mut done)?;
        // Programs on both hosts end before either host loses its interface, which also removes the other one's. Those
        // on host a, where senders usually run, end before the programs on host b that answer them.
        for (host, owned) in Host::ALL.into_iter().zip(owned) {
            let ns = self.namespace(host);
            match (owned, kill) {
                (true, true) => kernel.kill_processes(&ns)?,
                (true, false) => ending::end_processes(kernel, &ns, &mut done)?,
                (false, _) => {}
            }
        }
        for (host, owned) in Host::ALL.into_iter().zip(owned) {
            if !owned {
                continue;
            }
            let ns = self.namespace(host);
            // The interface is removed first: a program still inside would keep the namespace without a name, and its
            // interface, alive.
            if kernel.devices(&ns)?.iter().any(|d| is_ours(&self.name, host, d)) {
                self.step()?;
                kernel.ip(&ns, &["-n", &ns, "link", "delete", INTERFACE])?;
            }
            self.step()?;
            kernel.ip(&ns, &["netns", "delete", &ns])?;
            done.push(format!("removed namespace {ns}"));
        }
        Ok(done)
    }

    /// Returns a command that runs `argv` on the host; the caller sets its stdio and starts it. Signals sent to the
    /// child reach the program itself. `/sys` inside is the host's own.
    ///
    /// # Errors
    /// Same as [`Lab::up`], or the lab is not up.
    pub fn command<S: AsRef<OsStr>>(&self, host: Host, argv: &[S]) -> Result<Command> {
        let kernel = Kernel::open("exec")?;
        if !self.survey(&kernel)?[host as usize] {
            return Err(LabError::NotUp {
                name: self.name.clone(),
            });
        }
        kernel::command(&self.namespace(host), argv)
    }

    /// Runs `argv` on the host with this process's stdio and waits for it. Returns its exit code, 128 + N when signal
    /// N ended it, and `ip`'s own (1 or 255) when the program could not be started (`ip` says why).
    ///
    /// # Errors
    /// Same as [`Lab::command`].
    pub fn exec<S: AsRef<OsStr>>(&self, host: Host, argv: &[S]) -> Result<i32> {
        use std::os::unix::process::ExitStatusExt;
        let status = self
            .command(host, argv)?
            .status()
            .map_err(|e| LabError::io("start", "ip netns exec", e))?;
        Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
    }

    /// Becomes `argv` on the host: this process is replaced, so stdio, signals and the exit code are the program's
    /// own. Returns only when that fails.
    pub fn become_command<S: AsRef<OsStr>>(&self, host: Host, argv: &[S]) -> LabError {
        use std::os::unix::process::CommandExt;
        let mut command = match self.command(host, argv) {
            Ok(command) => command,
            Err(error) => return error,
        };
        // Checked here, because `ip` would report it in words of its own.
        if let Some((program, why)) = argv
            .first()
            .and_then(|p| Some((p.as_ref(), crate::tool::why_not(p.as_ref())?)))
        {
            let object = format!("{program:?} on host {}", host.letter());
            return LabError::io("start", object, std::io::Error::new(std::io::ErrorKind::NotFound, why));
        }
        LabError::io("start", "ip netns exec", command.exec())
    }

    /// Returns the state of the lab. Changes nothing.
    ///
    /// # Errors
    /// No privilege (needed to look into namespaces), no `ip`.
    pub fn status(&self) -> Result<LabStatus> {
        status::look(self, &Kernel::open("status")?)
    }

    /// Returns for each host whether its namespace exists and is the lab's. Changes nothing.
    ///
    /// # Errors
    /// [`LabError::Foreign`] when a namespace, or its `eth1`, is not the lab's.
    fn survey(&self, kernel: &Kernel) -> Result<[bool; 2]> {
        let mut owned = [false; 2];
        for host in Host::ALL {
            let ns = self.namespace(host);
            if kernel::entry(&ns)? != Entry::Live {
                continue;
            }
            let devices = kernel.devices(&ns)?;
            if let Some(why) = foreign(&self.name, host, &devices) {
                return Err(LabError::Foreign {
                    object: format!("namespace {ns}"),
                    why,
                });
            }
            owned[host as usize] = true;
        }
        Ok(owned)
    }

    /// Removes what a killed run left under working names, and names without a namespace.
    fn remove_leftovers(&self, kernel: &Kernel, done: &mut Vec<String>) -> Result<()> {
        for name in kernel::names() {
            let working = names::is_working(&self.name, &name);
            if working || (Host::ALL.iter().any(|&h| name == self.namespace(h)) && is_dead(&name)?) {
                self.step()?;
                // A name without a namespace makes `ip` complain of the missing mount, but it removes the name.
                if let Err(error) = kernel.ip(&name, &["netns", "delete", &name])
                    && kernel::entry(&name)? != Entry::Absent
                {
                    return Err(error);
                }
                done.push(format!("removed {name}, left by a run that was killed"));
            }
        }
        Ok(())
    }

    /// Makes, marks and only then names a namespace (see [`names`]).
    fn make_namespace(&self, kernel: &Kernel, host: Host) -> Result<()> {
        let (ns, token) = (self.namespace(host), token());
        let working = names::working(&self.name, host, token);
        self.step()?;
        kernel.ip(&working, &["netns", "add", &working])?;
        self.step()?;
        kernel.ip(
            &working,
            &[
                "-n",
                &working,
                "link",
                "set",
                "dev",
                "lo",
                "alias",
                &names::mark(&self.name, host),
            ],
        )?;
        self.step()?;
        kernel.link_name(&working, &ns)?;
        self.step()?;
        kernel.ip(&working, &["netns", "delete", &working]).map(drop)
    }

    /// Makes the veth pair unless it exists and is as requested.
    fn join(&self, kernel: &Kernel, done: &mut Vec<String>) -> Result<()> {
        let [a, b] = [self.interface(kernel, Host::A)?, self.interface(kernel, Host::B)?];
        if let (Some(a), Some(b)) = (&a, &b)
            && joined(a, b, self.options.queues)
        {
            return Ok(());
        }
        let known = a.as_ref().or(b.as_ref());
        let queues = self
            .options
            .queues
            .or(known.map(|d| d.tx_queues))
            .unwrap_or(1)
            .to_string();
        let mtu = self.options.mtu.or(known.map(|d| d.mtu)).unwrap_or(1500).to_string();
        let (ns_a, ns_b) = (self.namespace(Host::A), self.namespace(Host::B));
        for (ns, host) in [(&ns_a, Host::A), (&ns_b, Host::B)] {
            // Removing one end removes the other: look again.
            if self.interface(kernel, host)?.is_some() {
                self.step()?;
                kernel.ip(ns, &["-n", ns, "link", "delete", INTERFACE])?;
            }
        }
        self.step()?;
        let shape = ["numtxqueues", &queues, "numrxqueues", &queues, "mtu", &mtu];
        let mut words = vec!["-n", &ns_a, "link", "add", "name", INTERFACE, "address", Host::A.mac()];
        words.extend(shape);
        words.extend(["type", "veth", "peer", "name", INTERFACE, "address", Host::B.mac()]);
        words.extend(shape);
        words.extend(["netns", &ns_b]);
        kernel.ip(&self.name, &words)?;
        done.push(format!("joined {ns_a} and {ns_b} by {INTERFACE}"));
        Ok(())
    }

    /// Sets the options of one host's interfaces that differ.
    fn configure(&self, kernel: &Kernel, host: Host, done: &mut Vec<String>) -> Result<()> {
        let ns = self.namespace(host);
        let devices = kernel.devices(&ns)?;
        let mut set = |what: String, words: &[&str]| -> Result<()> {
            self.step()?;
            let mut all = vec!["-n", ns.as_str()];
            all.extend(words);
            kernel.ip(&ns, &all)?;
            done.push(format!("{ns}: {what}"));
            Ok(())
        };
        if !devices.iter().any(|d| d.name == "lo" && d.admin_up) {
            set("set lo up".into(), &["link", "set", "dev", "lo", "up"])?;
        }
        let Some(eth1) = devices.iter().find(|d| d.name == INTERFACE) else {
            let condition = "the interface just made";
            return Err(LabError::Timeout {
                object: format!("{INTERFACE} in {ns}"),
                condition,
                limit: Duration::ZERO,
            });
        };
        let mark = names::mark(&self.name, host);
        if eth1.alias != mark {
            set(
                format!("marked {INTERFACE}"),
                &["link", "set", "dev", INTERFACE, "alias", &mark],
            )?;
        }
        if eth1.mac != host.mac() {
            set(
                format!("set {INTERFACE}'s MAC"),
                &["link", "set", "dev", INTERFACE, "address", host.mac()],
            )?;
        }
        if let Some(mtu) = self.options.mtu.filter(|&mtu| mtu != eth1.mtu) {
            set(
                format!("set MTU {mtu}"),
                &["link", "set", "dev", INTERFACE, "mtu", &mtu.to_string()],
            )?;
        }
        self.step()?;
        kernel::inside(&ns, || kernel::quiet_ipv6(INTERFACE))??;
        if !eth1.admin_up {
            set(format!("set {INTERFACE} up"), &["link", "set", "dev", INTERFACE, "up"])?;
        }
        let v4 = format!("{}/24", host.ipv4());
        if !eth1.addresses.contains(&v4) {
            set(format!("gave {v4}"), &["address", "replace", &v4, "dev", INTERFACE])?;
        }
        let v6 = format!("{}/64", host.ipv6());
        if kernel::has_ipv6() && !eth1.addresses.contains(&v6) {
            set(
                format!("gave {v6}"),
                &["address", "replace", &v6, "dev", INTERFACE, "nodad"],
            )?;
        }
        Ok(())
    }

    /// Makes the host's interface accept frames that XDP programs send to it (the xdp path, `xdp-trafficgen`, a
    /// redirect), for any receiver. Such frames reach a veth only if its NAPI runs: a program must be attached to the
    /// driver, or GRO be on. Packets of sockets bypass NAPI as before, unless TSO is switched off.
    fn admit_xdp_frames(&self, host: Host, done: &mut Vec<String>) -> Result<()> {
        self.step()?;
        let ns = self.namespace(host);
        if kernel::inside(&ns, || kernel::switch_gro_on(INTERFACE))?? {
            done.push(format!("{ns}: set GRO on"));
        }
        Ok(())
    }

    fn await_link(&self, kernel: &Kernel) -> Result<()> {
        let deadline = Instant::now() + LINK_LIMIT;
        for host in Host::ALL {
            while self.interface(kernel, host)?.is_none_or(|d| d.operstate != "UP") {
                if Instant::now() > deadline {
                    let object = format!("{INTERFACE} in {}", self.namespace(host));
                    return Err(LabError::Timeout {
                        object,
                        condition: "carrier",
                        limit: LINK_LIMIT,
                    });
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }

    fn interface(&self, kernel: &Kernel, host: Host) -> Result<Option<Device>> {
        Ok(kernel
            .devices(&self.namespace(host))?
            .into_iter()
            .find(|d| d.name == INTERFACE))
    }

    /// Called between any two changes: the tests' `kill -9` strikes here.
    fn step(&self) -> Result<()> {
        match self.steps_left.get() {
            Some(0) => Err(LabError::io("simulated", "kill", std::io::ErrorKind::Interrupted)),
            left => {
                self.steps_left.set(left.map(|n| n - 1));
                Ok(())
            }
        }
    }
}

/// Returns whether the two are the ends of one pair with the requested number of queues.
fn joined(a: &Device, b: &Device, queues: Option<u32>) -> bool {
    let ends = |x: &Device, y: &Device| x.kind == "veth" && x.peer_elsewhere && x.peer_index == Some(y.index);
    let shape = |d: &Device| queues.is_none_or(|q| d.tx_queues == q && d.rx_queues == q);
    ends(a, b) && ends(b, a) && shape(a) && shape(b)
}

/// Returns whether `eth1` is the lab's: it has the mark, or the lab made it and has not marked it yet.
fn is_ours(name: &str, host: Host, d: &Device) -> bool {
    d.name == INTERFACE && (d.alias == names::mark(name, host) || d.kind == "veth" && d.mac == host.mac())
}

/// Returns the reason why the namespace with these interfaces is not the lab's; `None` when it is.
fn foreign(name: &str, host: Host, devices: &[Device]) -> Option<String> {
    let mark = names::mark(name, host);
    if !devices.iter().any(|d| d.name == "lo" && d.alias == mark) {
        return Some(format!("its lo lacks the alias {mark:?}"));
    }
    let other = devices
        .iter()
        .find(|d| d.name == INTERFACE && !is_ours(name, host, d))?;
    Some(format!(
        "the namespace is, but its {INTERFACE} ({}, {}) is not",
        other.kind, other.mac
    ))
}

/// Returns true when no namespace is mounted on the name, and none gets mounted in the time that another program would
/// need to do so.
fn is_dead(namespace: &str) -> Result<bool> {
    let deadline = Instant::now() + Duration::from_millis(200);
    while kernel::entry(namespace)? == Entry::Dead {
        if Instant::now() > deadline {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(false)
}

/// Returns a number that no other run has: from the standard library's seed for hash maps, which the kernel fills.
fn token() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}
