//! Stage of the demo: two hosts of a lab, or loopback sockets if no lab can be made.

use super::child::interrupted;
use super::tell::{Teller, say};
use crate::fail::{Result, failed};
use mpps_host::lab::{Host, INTERFACE, LabError, LabOptions, ScratchLab};
use mpps_run::paths::{Demo, shown};
use mpps_sys::sched;
use std::net::UdpSocket;
use std::ops::Add;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Port that the reflector of a lab's udp path is bound to.
const LAB_PORT: u16 = 9000;
/// From this many cores on, `sendrecv` would use two lanes by itself: the demo asks for the one that it pins.
const SPLIT_CORES: usize = 4;

/// Words of a command line.
#[derive(Clone)]
pub(super) struct Words(pub(super) Vec<String>);

/// Words from strings.
pub(super) fn words<const N: usize>(words: [&str; N]) -> Words {
    Words(words.map(str::to_owned).into())
}

impl Add for Words {
    type Output = Self;

    fn add(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }
}

/// The two ends of a run, as the commands take them.
pub(super) struct Ends {
    pub(super) reflect: String,
    send: String,
    src: String,
    dest: String,
    /// Source port, where several demos share the address.
    src_port: Option<u16>,
    /// The kernel runs both ends: a sender finds itself a core, and a reflector has none.
    pinned: bool,
}

impl Ends {
    /// The words of a `sendrecv` between the ends.
    pub(super) fn sendrecv(&self, stage: &Stage, rate: Option<&str>, duration: Duration) -> Words {
        let mut all = words(["sendrecv", &self.send, "--src", &self.src]);
        if let Some(port) = self.src_port {
            all = all + words(["--src-port-range", &port.to_string()]);
        }
        all = all + words(["--dest", &self.dest]);
        if let Some(rate) = rate {
            all = all + words(["--rate", rate]);
        }
        all + words(["--duration", &super::seconds(duration)]) + self.core(stage, Host::A)
    }

    /// Returns the words of a short search for the highest rate without loss, up to `most` if it is known.
    pub(super) fn search(&self, stage: &Stage, most: Option<&str>, limits: Words) -> Words {
        let mut all = words(["ndr", &self.send, "--src", &self.src]);
        if let Some(port) = self.src_port {
            all = all + words(["--src-port-range", &port.to_string()]);
        }
        all = all + words(["--dest", &self.dest]);
        if let Some(most) = most {
            all = all + words(["--max-rate", most]);
        }
        all + limits + self.core(stage, Host::A)
    }

    /// `--cores` of a host's end.
    pub(super) fn core(&self, stage: &Stage, host: Host) -> Words {
        if self.pinned { stage.core(host) } else { words([]) }
    }
}

/// A path that the demo shows.
pub(super) type Shown = (&'static str, Demo);

/// The path by which anything can be shown: its ports are addresses of the host (`true`); or the first that a lab is
/// for.
fn first(by_address: bool) -> Result<Shown> {
    let found = shown().find(|(_, demo)| demo.by_address == by_address);
    found.ok_or_else(|| failed("demo: no path of this build can be shown"))
}

/// The place, and this program as it is started and as it was typed.
pub(super) struct Stage {
    lab: Option<ScratchLab>,
    path: Shown,
    executable: PathBuf,
    typed: String,
    cores: Vec<usize>,
}

impl Stage {
    /// Makes a lab, or says in one line why it is loopback sockets instead.
    pub(super) fn set(tell: &mut Teller, path: Option<&str>) -> Result<Self> {
        let mut stage = Self {
            lab: None,
            path: first(true)?,
            executable: executable(),
            typed: std::env::args()
                .next()
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| "mpps".to_owned()),
            cores: sched::allowed_cores(),
        };
        tell.step("Make a lab: two hosts, a (10.99.0.1) and b (10.99.0.2), joined by a cable");
        match ScratchLab::new(LabOptions::default()) {
            Ok(lab) => {
                tell.command(&stage.typed_here(&words(["lab", "up"])));
                say(&format!(
                    "   made as {}, the demo's own; removed at the end",
                    lab.name()
                ));
                stage.lab = Some(lab);
                stage.path = match shown().find(|(known, _)| path == Some(known)) {
                    Some(wanted) => wanted,
                    None => first(false)?,
                };
                Ok(stage)
            }
            Err(_) if interrupted() => Err(failed("demo: interrupted before the measurement")),
            Err(error) if path.is_some_and(|path| path != stage.path.0) => {
                let path = path.unwrap_or_default();
                Err(failed(format!("--path {path}: it needs a lab: {error}")))
            }
            Err(error) => {
                say(&format!("   {}: loopback sockets instead", stage.why_not(&error)));
                Ok(stage)
            }
        }
    }

    fn why_not(&self, error: &LabError) -> String {
        match error {
            LabError::NeedsRoot { .. } if rustix::process::geteuid().is_root() => {
                "a lab needs CAP_SYS_ADMIN and CAP_NET_ADMIN, which root has not got here (a container?)".to_owned()
            }
            LabError::NeedsRoot { .. } => format!("a lab needs root (`sudo {} demo` shows it)", self.typed),
            other => format!("no lab can be made here ({other})"),
        }
    }

    pub(super) fn has_lab(&self) -> bool {
        self.lab.is_some()
    }

    /// The path of the main run.
    pub(super) fn path(&self) -> Shown {
        self.path
    }

    /// This program, as it was typed.
    pub(super) fn program(&self) -> &str {
        &self.typed
    }

    /// The ends of a run on a path.
    pub(super) fn ends(&self, (path, demo): Shown) -> Result<Ends> {
        if self.lab.is_none() {
            let (to, from) = free_ports().map_err(|e| failed(format!("find a free UDP port on 127.0.0.1: {e}")))?;
            let loopback = "127.0.0.1".to_owned();
            return Ok(Ends {
                reflect: format!("{path}:{loopback}:{to}"),
                send: format!("{path}:{loopback}"),
                dest: format!("{loopback}:{to}"),
                src: loopback,
                src_port: Some(from),
                pinned: demo.pinned,
            });
        }
        let (a, b) = (Host::A.ipv4(), Host::B.ipv4());
        let (reflect, send) = match demo.by_address {
            true => (format!("{path}:{b}:{LAB_PORT}"), format!("{path}:{a}")),
            false => (format!("{path}:{INTERFACE}"), format!("{path}:{INTERFACE}")),
        };
        Ok(Ends {
            reflect,
            send,
            src: a.to_owned(),
            dest: format!("{b}:{LAB_PORT}"),
            src_port: None,
            pinned: demo.pinned,
        })
    }

    /// Returns `--cores` of a host's end: a core for each, if there are two.
    fn core(&self, host: Host) -> Words {
        let Some(core) = self.cores.get(host as usize).filter(|_| self.cores.len() > 1) else {
            return words([]);
        };
        let pinned = words(["--cores", &core.to_string()]);
        if host == Host::A && self.cores.len() >= SPLIT_CORES {
            words(["--lanes", "1"]) + pinned
        } else {
            pinned
        }
    }

    /// This program with the given words, ready to start on a host of the stage.
    pub(super) fn command(&self, host: Host, words: &Words) -> Result<Command> {
        let Some(lab) = &self.lab else {
            let mut command = Command::new(&self.executable);
            command.args(&words.0);
            return Ok(command);
        };
        let mut argv = vec![self.executable.clone().into_os_string()];
        argv.extend(words.0.iter().map(Into::into));
        Ok(lab.command(host, &argv)?)
    }

    /// Returns the same command line as a user types it.
    pub(super) fn typed(&self, host: Host, words: &Words) -> Vec<String> {
        if self.lab.is_none() {
            return self.typed_here(words);
        }
        let lab = ["lab", "exec", &host.to_string(), "--", &self.typed].map(str::to_owned);
        self.typed_here(&(Words(lab.into()) + words.clone()))
    }

    /// A command outside of the lab as a user types it.
    pub(super) fn typed_here(&self, words: &Words) -> Vec<String> {
        std::iter::once(&self.typed).chain(&words.0).cloned().collect()
    }
}

/// This program's file. Through this process where its file was replaced or removed meanwhile.
pub(in crate::commands) fn executable() -> PathBuf {
    let own = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    std::env::current_exe().ok().filter(|path| path.exists()).unwrap_or(own)
}

/// Two UDP ports of 127.0.0.1 that nobody has.
fn free_ports() -> std::io::Result<(u16, u16)> {
    let (one, two) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    Ok((one.local_addr()?.port(), two.local_addr()?.port()))
}
