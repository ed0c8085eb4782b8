//! The machine that the doctor examines: files under a root, output of tools, and answers of probes.
//!
//! The live machine's root is `/`. A sample machine is a directory: files under `proc/` and `sys/`, output of tools
//! under `tool/` (words joined by `_`), answers of probes under `probe/`, and the XDP features of drivers, as bits,
//! under `xdp-features/`.

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

/// Folder of interfaces. It shows the network namespace in which it was mounted.
const SYS_NET: &str = "/sys/class/net";

/// Reason why a tool printed nothing to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoOutput {
    /// The tool is not installed.
    Missing,
    /// The tool failed: the device lacks the requested feature, or the privilege is missing.
    Failed,
}

/// Request to the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Probe {
    /// A UDP socket on the loopback address.
    Udp,
    /// An AF_PACKET socket.
    AfPacket,
    /// `PACKET_QDISC_BYPASS` on an AF_PACKET socket.
    QdiscBypass,
    /// An AF_XDP socket.
    AfXdp,
    /// An io_uring.
    IoUring,
    /// A BPF map.
    Bpf,
    /// Permission to run BPF programs and read maps without any capability.
    BpfUnprivileged,
    /// A program whose file gives no rights to its users; the error names the rights that it gives.
    Lent,
}

/// Files, tools and probes of one machine.
pub(super) struct Machine {
    root: PathBuf,
    live: bool,
}

impl Machine {
    /// Returns the machine that this process runs on.
    pub(super) fn live() -> Self {
        Self {
            root: PathBuf::from("/"),
            live: true,
        }
    }

    /// Returns the machine whose files are in a tree.
    pub(super) fn of(tree: &Tree) -> Self {
        Self {
            root: tree.root().to_owned(),
            live: tree.is_live(),
        }
    }

    /// Returns only its files.
    pub(super) fn tree(&self) -> Tree {
        match self.live {
            true => Tree::live(),
            false => Tree::fake(&self.root),
        }
    }

    /// Returns a machine made of samples.
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

    /// Returns the file's text without white space at its ends; `None` when it can't be read.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        Some(
            String::from_utf8_lossy(&fs::read(self.path(path)).ok()?)
                .trim()
                .to_owned(),
        )
    }

    /// Returns the kernel's release. On a sample it comes from a file; on this host from the kernel, even if `/proc` is
    /// hidden.
    pub(super) fn kernel_release(&self) -> String {
        match self.live {
            true => mpps_sys::probe::kernel_release(),
            false => self.read("/proc/sys/kernel/osrelease").unwrap_or_default(),
        }
    }

    /// Returns whether this process may use a capability (a number of `linux/capability.h`).
    pub(super) fn has_capability(&self, number: u32) -> bool {
        match self.live {
            true => privilege::held().contains(CapabilitySet::from_bits_retain(1 << number)),
            false => tool::has_capability(&self.read("/proc/self/status").unwrap_or_default(), number),
        }
    }

    /// Returns the time between two ticks of the processor's counter, ns, if the processor reports it. A sample has the
    /// ticks per second in `cntfrq`.
    pub(super) fn tick_ns(&self) -> Option<f64> {
        match self.live {
            true => mpps_sys::clock::tick_ns(),
            false => self.number("cntfrq").map(|hz| 1e9 / hz as f64),
        }
    }

    /// Returns the cores that this process may run on. A sample does not contain that, so all `online` cores are
    /// returned.
    pub(super) fn allowed_cores(&self, online: &[usize]) -> Vec<usize> {
        match self.live {
            true => mpps_sys::sched::allowed_cores(),
            false => online.to_vec(),
        }
    }

    /// Returns the wanted cores that a thread of this process can be given; a sample names them in `cores/possible`.
    pub(super) fn possible_cores(&self, wanted: &[usize]) -> Option<Vec<usize>> {
        match self.live {
            true => mpps_sys::sched::possible_cores(wanted),
            false => self.read("cores/possible").and_then(|text| parse::list(&text)),
        }
    }

    /// Returns whether a kernel file system, or a folder of one, is hidden: not mounted, or covered by something else.
    /// A sample shows this by `hidden/proc`, `hidden/sys` and the like.
    pub(super) fn hides(&self, root: &str) -> bool {
        // A file that every kernel has there.
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

    /// Returns whether root can write a value there: the file exists, and is not on a read-only mount.
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

    /// Returns the one number in a file.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// Returns the names in a directory, sorted; none when it can't be read.
    pub(super) fn list(&self, path: &str) -> Vec<String> {
        let Ok(dir) = fs::read_dir(self.path(path)) else {
            return Vec::new();
        };
        let mut names: Vec<_> = dir.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Returns whether the path exists.
    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Returns whether this is a container: its kernel command line, boot loader and hardware are then those of its
    /// host.
    pub(super) fn is_container(&self) -> bool {
        let cgroup = self.read("/proc/1/cgroup").unwrap_or_default();
        crate::privilege::is_container(|path| self.exists(path), &cgroup)
    }

    /// Returns the last part of a symbolic link's target.
    pub(super) fn link_name(&self, path: &str) -> Option<String> {
        Some(
            fs::read_link(self.path(path))
                .ok()?
                .file_name()?
                .to_string_lossy()
                .into_owned(),
        )
    }

    /// Runs a tool and returns its output.
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

    /// Returns whether a tool is installed; on a sample machine, whether `tool/NAME` exists.
    pub(super) fn has_tool(&self, name: &str) -> bool {
        if self.live {
            tool::find(name).is_some()
        } else {
            self.exists(&format!("tool/{name}"))
        }
    }

    /// Returns the names of the interfaces of this network namespace, sorted.
    pub(super) fn interfaces(&self) -> Vec<String> {
        if !self.live {
            return self.list(SYS_NET);
        }
        let mut names = mpps_netdev::interface_names();
        names.sort();
        names
    }

    /// Returns the kernel's data about an interface of this network namespace; `None` on a sample machine.
    pub(super) fn device(&self, interface: &str) -> Option<NetDev> {
        NetDev::by_name(interface).ok().filter(|_| self.live)
    }

    /// Returns the interface's folder in `/sys`. `None` if the mounted `/sys` shows another network namespace, as in a
    /// namespace that was entered without a mount of its own: an interface of that name there is a different one.
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

    /// Returns the XDP features of the interface's driver; `None` if the kernel does not report them (before Linux
    /// 6.3).
    pub(super) fn xdp_features(&self, interface: &str) -> Option<XdpFeatures> {
        if !self.live {
            return self
                .number(&format!("xdp-features/{interface}"))
                .map(XdpFeatures::from_bits);
        }
        let device = NetDev::by_name(interface).ok()?;
        mpps_netdev::xdp_features(device.ifindex).ok().flatten()
    }

    /// Returns the features of the kernel's io_uring. The error is the call that the kernel denied, and its answer. A
    /// sample has all features except those that `io_uring/lacks` names.
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

    /// Returns the reason why BPF is forbidden here whatever this process's capabilities are; a sample has it in
    /// `bpf/forbidden`.
    pub(super) fn bpf_forbidden(&self) -> Option<String> {
        match self.live {
            true => mpps_sys::probe::bpf_forbidden(),
            false => self.read("bpf/forbidden"),
        }
    }

    /// Asks the kernel; the error is the kernel's answer.
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
