//! The process that undoes everything when this one can't.

use super::child::Runner;
use crate::cli::Isolate;
use crate::commands::demo::stage::executable;
use crate::fail::{Result, failed};
use mpps_host::isolate::{Mended, Tree, mend_when_free};
use mpps_sys::child::own_session;
use std::io::Read;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

/// Time that the kernel may take to release the lock of a journal whose process is no more.
const LIMIT: Duration = Duration::from_secs(10);

/// A guardian that stands.
pub(super) struct Guardian {
    child: Child,
    /// Write end of the guardian's standard input. It closes when it is dropped or this process ends; then the guardian
    /// undoes what is left.
    thread: Option<ChildStdin>,
}

impl Guardian {
    /// Starts the guardian, in a session of its own: no key of the terminal reaches it, nor does the terminal's end.
    pub(super) fn start(args: &Isolate) -> Result<Self> {
        let mut command = Command::new(executable());
        command.args(["isolate", "--undo", "--guard"]);
        if let Some(root) = &args.root {
            command.arg("--root").arg(root);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        own_session(&mut command);
        let mut child = command
            .spawn()
            .map_err(|e| failed(format!("isolate: start the guardian: {e}")))?;
        let thread = child.stdin.take();
        Ok(Self { child, thread })
    }

    /// Ends the guardian: everything is undone.
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

/// A guardian's life: sleeps until its standard input ends, then undoes what is left.
///
/// # Errors
/// When signals could end it before that.
pub(super) fn stand(tree: &Tree) -> Result<Mended> {
    // A program that stops a service, or all of a user's processes, signals each of them: the other one has to end
    // first.
    let _deaf = Runner::new()?;
    let mut one = [0; 1];
    while matches!(std::io::stdin().read(&mut one), Ok(n) if n > 0) {}
    Ok(mend_when_free(tree, LIMIT))
}
