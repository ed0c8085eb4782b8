//! The process that undoes everything when this one can't.

use crate::cli::Isolate;
use crate::commands::demo::stage::executable;
use crate::fail::{Result, failed};
use mpps_host::isolate::{Others, Tree, mend, others};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the kernel may take to let go of a journal whose process is no more.
const LIMIT: Duration = Duration::from_secs(10);

/// A guardian that stands.
pub(super) struct Guardian {
    child: Child,
    /// It reads the other end: the end of file is our end.
    thread: Option<ChildStdin>,
}

impl Guardian {
    /// Starts it, in a process group of its own: no key of the terminal reaches it.
    pub(super) fn start(args: &Isolate) -> Result<Self> {
        let mut command = Command::new(executable());
        command.args(["isolate", "--undo", "--guard"]);
        if let Some(root) = &args.root {
            command.arg("--root").arg(root);
        }
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command
            .spawn()
            .map_err(|e| failed(format!("isolate: start the guardian: {e}")))?;
        let thread = child.stdin.take();
        Ok(Self { child, thread })
    }

    /// Sends it home: everything is undone.
    pub(super) fn end(&mut self) {
        self.thread = None;
        let _ = self.child.wait();
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.end();
    }
}

/// A guardian's life: sleeps until its standard input ends, then undoes what is left. What it has to tell.
pub(super) fn stand(tree: &Tree) -> Vec<String> {
    // Whoever closes the terminal does not mean it.
    let _ = rustix::process::setsid();
    let mut one = [0; 1];
    while matches!(std::io::stdin().read(&mut one), Ok(n) if n > 0) {}
    let deadline = Instant::now() + LIMIT;
    loop {
        let told = mend(tree);
        if !told.is_empty() || others(tree) == Others(0) || Instant::now() > deadline {
            return told;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
