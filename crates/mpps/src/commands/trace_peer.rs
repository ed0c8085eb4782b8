//! `trace peer`: another DPDK program, counted by a plug-in that its EAL loads.
//!
//! The plug-in's bytes are in this program. They are written to a folder that nobody else can write to, and that DPDK
//! takes: it refuses one that everybody may write to, or that lies in one (`/tmp`). Beside it is the file that the
//! plug-in counts in. Both are removed at the end; what a killed command leaves is removed by the next.

use crate::cli::Peer as Args;
use crate::commands::compare::of_this_process;
use crate::commands::demo::stage::executable;
use crate::fail::{Result, failed, say, usage};
use mpps_host::left::{in_reach_of_others, is_of_a_running_peer, peer_places, remove_of_peers};
use mpps_report::{JsonTarget, same_file, write_trace};
use mpps_run::paths;
use mpps_run::privilege::as_user;
use mpps_sys::{clock, private, probe, signal};
use mpps_trace::Recording;
use mpps_trace::peer::{FILE, HEADER, Peer, PeerError, header, used};
use rustix::fs::{FlockOperation, StatVfsMountFlags, flock, statvfs};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

/// Environment variable in which the plug-in finds the file that it counts in.
const COUNTS: &str = "MPPS_PEER_FILE";
/// Placeholder for the plug-in among the words of a command.
const PLACE: &str = "{plugin}";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.exec {
        return become_it(&args.argv);
    }
    if paths::peer_plugin().is_empty() {
        return Err(usage(
            "trace peer: this mpps was built without DPDK: `apt-get install -y libdpdk-dev pkg-config`, and then \
             `make build` again",
        ));
    }
    let name = &args.argv[0];
    if !is_there(name) {
        return Err(usage(format!(
            "'{}': no such program: want one that DPDK is linked to, such as dpdk-testpmd",
            name.display()
        )));
    }
    let (target, trace) = targets(args)?;
    let folder = Folder::make()?;
    let status = follow(&args.argv, &folder)?;
    let code = code_of(status);
    let told = folder
        .read()
        .map_err(|e| failed(format!("read what the plug-in counted: {e}")))?;
    drop(folder);
    match &told {
        Ok(peer) if !args.quiet => crate::fail::to_stderr(peer.text().trim_end_matches('\n')),
        Ok(_) => {}
        Err(why) => say!("trace peer: {why}"),
    }
    if let Some(target) = target {
        let mut value = told
            .as_ref()
            .map_or_else(|why| json!({ "error": why.to_string() }), Peer::json);
        if let Some(map) = value.as_object_mut() {
            let words = args.argv.iter().map(|word| word.to_string_lossy().into_owned());
            map.insert("command".to_owned(), words.collect());
            map.insert("exit_code".to_owned(), json!(code));
        }
        as_user(|| target.write_text(&format!("{value:#}\n")).map_err(failed))?;
    }
    if let (Some(trace), Ok(peer)) = (trace, &told) {
        let recording = recording(peer, &args.argv);
        as_user(|| write_trace(&trace, &recording).map_err(failed))?;
    }
    // If the program did well and left no counts, that is a failure of ours.
    Ok(ExitCode::from(match told {
        Err(_) if code == 0 => 1,
        _ => code,
    }))
}

/// Prepares the files of the figures and the trace; that they can be written is known before the program starts.
fn targets(args: &Args) -> Result<(Option<JsonTarget>, Option<JsonTarget>)> {
    let (json, trace) = (args.json.as_deref(), args.trace.as_deref());
    if let (Some(json), Some(trace)) = (json, trace)
        && same_file(json, trace)
    {
        let name = json.display();
        return Err(usage(format!(
            "--json and --trace: both '{name}': want a file of its own for each"
        )));
    }
    let prepared = |option: &'static str, path: Option<&Path>| {
        let target = path.map(JsonTarget::prepare).transpose();
        target.map_err(|e| crate::fail::unwritable(option, &e))
    };
    as_user(|| Ok((prepared("--json", json)?, prepared("--trace", trace)?)))
}

/// Returns the counts as a recording: with the program, the host and the time.
fn recording(peer: &Peer, argv: &[OsString]) -> Recording {
    let mut recording = peer.recording();
    let now_ns = clock::monotonic_ns();
    let words = ["mpps", "trace", "peer", "--"].map(str::to_owned).into_iter();
    let words = words.chain(argv.iter().map(|word| mpps_io::hide_secrets(&word.to_string_lossy())));
    let meta = &mut recording.meta;
    meta.command = words.collect::<Vec<_>>().join(" ");
    meta.host = probe::host_name();
    meta.kernel = probe::kernel_release();
    meta.utc_offset_ns = clock::utc_ns(now_ns) as i64 - now_ns as i64;
    meta.boot_offset_ns = clock::suspended_ns() as i64;
    recording
}

/// Becomes the program: this process's parent ends it, however that ends itself (`end_with_parent`).
fn become_it(argv: &[OsString]) -> Result<ExitCode> {
    let error = Command::new(&argv[0]).args(&argv[1..]).env_remove("MPPS_PARENT").exec();
    Err(failed(format!("start '{}': {error}", argv[0].display())))
}

/// Whether there is such a program.
fn is_there(name: &OsStr) -> bool {
    if name.as_encoded_bytes().contains(&b'/') {
        return Path::new(name).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Runs the command to its end, with this process's terminal and signals.
fn follow(argv: &[OsString], folder: &Folder) -> Result<ExitStatus> {
    let plugin = folder.plugin();
    let mut command = Command::new(executable());
    command.args(["trace", "peer", "--exec", "--"]);
    match argv.iter().any(|word| word == PLACE) {
        true => command.args(
            argv.iter()
                .map(|word| if word == PLACE { plugin.as_os_str() } else { word }),
        ),
        false => command.arg(&argv[0]).arg("-d").arg(&plugin).args(&argv[1..]),
    };
    command.env(COUNTS, folder.counts());
    of_this_process(&mut command);
    let unable = |e: io::Error| failed(format!("start '{}': {e}", argv[0].display()));
    let mut child = command.spawn().map_err(unable)?;
    let pid = Pid::from_child(&child);
    signal::pass_on(pid.as_raw_nonzero().get());
    // The child keeps its number until it has been waited for below, so no signal goes to another process.
    while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {}
    signal::pass_none();
    child.wait().map_err(unable)
}

/// Returns the exit code as a shell does: 128 + the signal's number after a signal.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// A folder with the plug-in and the file that it counts in; removed when dropped.
struct Folder {
    path: PathBuf,
    /// Locked as long as this process lives.
    _lock: File,
    /// File that the plug-in counts in. Its name may lead elsewhere once the program has run: to a FIFO, say.
    counts: File,
}

impl Folder {
    fn make() -> Result<Self> {
        let above = above()?;
        let _ = remove_of_peers(&above);
        let named = |prefix: &str| above.join(format!("{prefix}-{}", std::process::id()));
        let (draft, path) = (named("new"), named("peer"));
        let unable = |what: &str, e: io::Error| failed(format!("{what} {}: {e}", path.display()));
        if is_of_a_running_peer(&path) {
            return Err(failed(format!(
                "trace peer: {} belongs to a command that runs with this process's number, {}, in another PID \
                 namespace: start it again, with another number",
                path.display(),
                std::process::id()
            )));
        }
        // Folders left by earlier processes of this number.
        for left in [&draft, &path] {
            let _ = fs::remove_dir_all(left);
        }
        let make = |folder: &Path, name: &str| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(0o600);
            options.open(folder.join(name)).map_err(|e| unable("write to", e))
        };
        // The folder is locked before it has the name that other commands look for.
        private::folder(&draft).map_err(|e| unable("make", e))?;
        let lock = make(&draft, "lock")?;
        let _ = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        fs::rename(&draft, &path).map_err(|e| unable("make", e))?;
        let filled = || -> Result<File> {
            make(&path, "mpps_peer.so")?
                .write_all(paths::peer_plugin())
                .map_err(|e| unable("write to", e))?;
            let mut counts = make(&path, "counts")?;
            let written = counts.write_all(&header()).and_then(|()| counts.set_len(FILE as u64));
            written.map_err(|e| unable("write to", e))?;
            Ok(counts)
        };
        let counts = filled().inspect_err(|_| _ = fs::remove_dir_all(&path))?;
        Ok(Self {
            path,
            _lock: lock,
            counts,
        })
    }

    fn plugin(&self) -> PathBuf {
        self.path.join("mpps_peer.so")
    }

    fn counts(&self) -> PathBuf {
        self.path.join("counts")
    }

    /// Returns the plug-in's counts.
    fn read(&self) -> io::Result<std::result::Result<Peer, PeerError>> {
        let mut file = &self.counts;
        file.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::new();
        file.take(HEADER as u64).read_to_end(&mut bytes)?;
        let all = used(&bytes);
        bytes.clear();
        file.seek(SeekFrom::Start(0))?;
        file.take(all as u64).read_to_end(&mut bytes)?;
        Ok(Peer::read(&bytes))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The folder to make it in: of this user's alone, where programs may be loaded from, and below no folder that others
/// may write to.
fn above() -> Result<PathBuf> {
    let mut why = Vec::new();
    for place in peer_places() {
        // Files that root makes there must stay there: nobody else may lead the path elsewhere, or replace the plug-in.
        if let Some(reason) = place.parent().and_then(in_reach_of_others) {
            why.push(format!("{} {reason}", place.display()));
            continue;
        }
        let made = place.parent().map_or(Ok(()), fs::create_dir_all);
        match made.and_then(|()| private::folder(&place)).map(|_| unfit(&place)) {
            Ok(None) => return Ok(place),
            Ok(Some(reason)) => why.push(format!("{} {reason}", place.display())),
            Err(e) => why.push(format!("{}: {e}", place.display())),
        }
    }
    Err(failed(format!(
        "trace peer: there is no folder that DPDK loads a plug-in from ({}): want HOME set to a folder of yours",
        why.join("; ")
    )))
}

/// Returns the reason why DPDK would load nothing from there.
fn unfit(place: &Path) -> Option<String> {
    if statvfs(place).is_ok_and(|there| there.f_flag.contains(StatVfsMountFlags::NOEXEC)) {
        return Some("is mounted noexec".to_owned());
    }
    in_reach_of_others(place)
}
