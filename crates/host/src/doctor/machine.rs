//! The machine as the doctor sees it: files under a root, tools that print, and probes that answer.
//!
//! The live machine's root is `/`. A sample machine is a directory: files under `proc/` and `sys/`, what tools print
//! under `tool/` (words joined by `_`), the answers of probes under `probe/`, and what drivers can do with XDP, as
//! bits, under `xdp-features/`.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mpps_netdev::{NetDev, XdpFeatures};
use mpps_sys::privilege::{self, CapabilitySet};
use mpps_sys::uring::{self, Features};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::parse;
use crate::isolate::Tree;
use crate::tool;

/// The interfaces of the network namespace in which it was mounted.
const SYS_NET: &str = "/sys/class/net";

/// Why a tool printed nothing to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoOutput {
    /// Not installed.
    Missing,
    /// It failed: the device lacks what was asked about, or the privilege is missing.
    Failed,
}

/// Something to ask the kernel for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Probe {
    /// A UDP socket on the loopback address.
    Udp,
    /// An AF_PACKET socket.
    AfPacket,
    /// `PACKET_QDISC_BYPASS` on one.
    QdiscBypass,
    /// An AF_XDP socket.
    AfXdp,
    /// An io_uring.
    IoUring,
    /// A BPF map.
    Bpf,
    /// To run BPF programs and read maps without any capability.
    BpfUnprivileged,
    /// A program whose file gives its users nothing; the error says what it gives.
    Lent,
}

/// Files, tools and probes of one machine.
pub(super) struct Machine {
    root: PathBuf,
    live: bool,
}

impl Machine {
    /// The machine this runs on.
    pub(super) fn live() -> Self {
        Self {
            root: PathBuf::from("/"),
            live: true,
        }
    }

    /// The machine whose files are in a tree.
    pub(super) fn of(tree: &Tree) -> Self {
        Self {
            root: tree.root().to_owned(),
            live: tree.is_live(),
        }
    }

    /// Its files alone.
    pub(super) fn tree(&self) -> Tree {
        match self.live {
            true => Tree::live(),
            false => Tree::fake(&self.root),
        }
    }

    /// A machine made of samples.
    #[cfg(test)]
    pub(super) fn sample(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            live: false,
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The file's text without white space at its ends; `None` when it can't be read.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        Some(
            String::from_utf8_lossy(&fs::read(self.path(path)).ok()?)
                .trim()
                .to_owned(),
        )
    }

    /// The kernel's release. A file tells it of a sample; of this host the kernel does, whatever hides `/proc`.
    pub(super) fn kernel_release(&self) -> String {
        match self.live {
            true => mpps_sys::probe::kernel_release(),
            false => self.read("/proc/sys/kernel/osrelease").unwrap_or_default(),
        }
    }

    /// Whether this process may make use of a capability (a number of `linux/capability.h`).
    pub(super) fn has_capability(&self, number: u32) -> bool {
        match self.live {
            true => privilege::held().contains(CapabilitySet::from_bits_retain(1 << number)),
            false => tool::has_capability(&self.read("/proc/self/status").unwrap_or_default(), number),
        }
    }

    /// Time between two ticks of the processor's counter, ns, where the processor says it; a sample has the ticks a
    /// second in `cntfrq`.
    pub(super) fn tick_ns(&self) -> Option<f64> {
        match self.live {
            true => mpps_sys::clock::tick_ns(),
            false => self.number("cntfrq").map(|hz| 1e9 / hz as f64),
        }
    }

    /// Cores that this process may run on; of a sample, which does not tell, all that are `online`.
    pub(super) fn allowed_cores(&self, online: &[usize]) -> Vec<usize> {
        match self.live {
            true => mpps_sys::sched::allowed_cores(),
            false => online.to_vec(),
        }
    }

    /// Of these cores those that a thread of this process can be given; a sample names them in `cores/possible`.
    pub(super) fn possible_cores(&self, wanted: &[usize]) -> Option<Vec<usize>> {
        match self.live {
            true => mpps_sys::sched::possible_cores(wanted),
            false => self.read("cores/possible").and_then(|text| parse::list(&text)),
        }
    }

    /// Whether a file system of the kernel's, or a folder of one, is hidden: not mounted, or something else in its
    /// place. A sample says so by `hidden/proc`, `hidden/sys` and the like.
    pub(super) fn hides(&self, root: &str) -> bool {
        // What every kernel has there.
        let sign = match root {
            "/proc" => "/proc/self",
            "/sys" => "/sys/devices",
            "/sys/kernel" => "/sys/kernel/mm",
            "/sys/devices/system" => "/sys/devices/system/cpu/online",
            other => other,
        };
        match self.live {
            true => !self.exists(sign),
            false => Path::new(root)
                .ancestors()
                .any(|above| self.path(&format!("/hidden{}", above.display())).is_file()),
        }
    }

    /// Whether a value can be written there by root: the file is there, and not on what is mounted to be read only.
    pub(super) fn can_be_set(&self, path: &str) -> bool {
        match self.live {
            true => !matches!(
                rustix::fs::access(path, rustix::fs::Access::WRITE_OK),
                Err(rustix::io::Errno::ROFS | rustix::io::Errno::NOENT)
            ),
            false => self
                .read("read-only")
                .is_none_or(|all| !all.split_whitespace().any(|one| one == path)),
        }
    }

    /// The file's one number.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// Names in a directory, sorted; none when it can't be read.
    pub(super) fn list(&self, path: &str) -> Vec<String> {
        let Ok(dir) = fs::read_dir(self.path(path)) else {
            return Vec::new();
        };
        let mut names: Vec<_> = dir.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Whether the path is there.
    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Whether it is a container: the kernel's command line, its boot loader and its hardware are its host's.
    pub(super) fn is_container(&self) -> bool {
        let cgroup = self.read("/proc/1/cgroup").unwrap_or_default();
        crate::privilege::is_container(|path| self.exists(path), &cgroup)
    }

    /// Last part of a symbolic link's target.
    pub(super) fn link_name(&self, path: &str) -> Option<String> {
        Some(
            fs::read_link(self.path(path))
                .ok()?
                .file_name()?
                .to_string_lossy()
                .into_owned(),
        )
    }

    /// What a tool prints.
    pub(super) fn run(&self, words: &[&str]) -> Result<String, NoOutput> {
        if !self.live {
            return self.read(&format!("tool/{}", words.join("_"))).ok_or(NoOutput::Missing);
        }
        let [name, arguments @ ..] = words else {
            return Err(NoOutput::Missing);
        };
        let file = tool::find(name).ok_or(NoOutput::Missing)?;
        let output = Command::new(file)
            .args(arguments)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output();
        match output {
            Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            _ => Err(NoOutput::Failed),
        }
    }

    /// Whether a tool is installed; on a sample machine: whether there is `tool/NAME`.
    pub(super) fn has_tool(&self, name: &str) -> bool {
        if self.live {
            tool::find(name).is_some()
        } else {
            self.exists(&format!("tool/{name}"))
        }
    }

    /// Names of the interfaces of this network namespace, sorted.
    pub(super) fn interfaces(&self) -> Vec<String> {
        if !self.live {
            return self.list(SYS_NET);
        }
        let mut names = mpps_netdev::interface_names();
        names.sort();
        names
    }

    /// What the kernel tells of an interface of this network namespace; `None` on a sample machine.
    pub(super) fn device(&self, interface: &str) -> Option<NetDev> {
        NetDev::by_name(interface).ok().filter(|_| self.live)
    }

    /// The interface's folder in `/sys`. `None` where what is mounted there shows another network namespace, as it does
    /// in one that was entered without a mount of its own: an interface of that name there is another.
    pub(super) fn sys_net(&self, interface: &str) -> Option<String> {
        let folder = format!("{SYS_NET}/{interface}");
        let same = match self.live {
            true => {
                let index = self.number(&format!("{folder}/ifindex"));
                index.is_some() && index == self.device(interface).map(|device| device.ifindex.into())
            }
            false => true,
        };
        same.then_some(folder)
    }

    /// What the interface's driver can do with XDP; `None` where the kernel does not tell (before Linux 6.3).
    pub(super) fn xdp_features(&self, interface: &str) -> Option<XdpFeatures> {
        if !self.live {
            return self
                .number(&format!("xdp-features/{interface}"))
                .map(XdpFeatures::from_bits);
        }
        let device = NetDev::by_name(interface).ok()?;
        mpps_netdev::xdp_features(device.ifindex).ok().flatten()
    }

    /// What the kernel's io_uring has; the error is the call that it denied, and its answer.
    /// A sample has all but what `io_uring/lacks` names.
    pub(super) fn io_uring(&self) -> Result<Features, String> {
        if self.live {
            let call = || uring::denied().map_or("io_uring_setup", |(call, _)| call);
            return Features::probe().map_err(|e| format!("{}: {e}", call()));
        }
        self.probe(Probe::IoUring).map_err(|e| format!("io_uring_setup: {e}"))?;
        let lacks = self.read("io_uring/lacks").unwrap_or_default();
        let has = |name| !lacks.split_whitespace().any(|word| word == name);
        Ok(Features {
            nodrop: true,
            timeout: true,
            buffer_rings: has("buffer_rings"),
            multishot_receive: has("multishot_receive"),
            defer_taskrun: has("defer_taskrun"),
            send_zc: has("send_zc"),
            sendmsg_zc: has("send_zc"),
            sqpoll: has("sqpoll"),
            ..Features::default()
        })
    }

    /// Why BPF is forbidden here, whatever this process holds; a sample says it in `bpf/forbidden`.
    pub(super) fn bpf_forbidden(&self) -> Option<String> {
        match self.live {
            true => mpps_sys::probe::bpf_forbidden(),
            false => self.read("bpf/forbidden"),
        }
    }

    /// Asks the kernel; the error is what it answered.
    pub(super) fn probe(&self, probe: Probe) -> Result<(), String> {
        if !self.live {
            return match self.read(&format!("probe/{probe:?}")) {
                Some(answer) if answer != "ok" => Err(answer),
                _ => Ok(()),
            };
        }
        ask(probe).map_err(|e| e.to_string())
    }
}

/// Makes the smallest object of its kind and drops it. Protocol 0 on AF_PACKET: no packet is ever queued on it.
fn ask(probe: Probe) -> std::io::Result<()> {
    let raw = |family| rustix::net::socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None);
    match probe {
        Probe::Udp => std::net::UdpSocket::bind("127.0.0.1:0").map(drop),
        Probe::AfPacket => raw(AddressFamily::PACKET).map(drop).map_err(Into::into),
        Probe::QdiscBypass => mpps_sys::probe::packet_qdisc_bypass(raw(AddressFamily::PACKET)?.as_fd()),
        Probe::AfXdp => raw(AddressFamily::XDP).map(drop).map_err(Into::into),
        Probe::IoUring => Features::probe().map(drop),
        Probe::Bpf => mpps_sys::probe::bpf_map(),
        Probe::BpfUnprivileged => match privilege::bpf_needs_none()? {
            true => Ok(()),
            false => Err(std::io::ErrorKind::PermissionDenied.into()),
        },
        Probe::Lent if !privilege::is_lent() => Ok(()),
        Probe::Lent => Err(std::io::Error::other(format!(
            "the program's file has capabilities ({}) that its user does not have",
            privilege::names(privilege::held())
        ))),
    }
}
