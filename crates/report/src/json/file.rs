//! The JSON summary as a file.

use crate::{JsonTarget, ReportError};
use mpps_stats::{Event, Sink, Summary, Wants};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Writes the summary to `path` (`-`: standard output); an earlier file is replaced in one step.
///
/// # Errors
/// When it can't be written.
pub fn write_json(path: &Path, summary: &Summary) -> Result<(), ReportError> {
    JsonTarget::prepare(path)?.write(summary)
}

/// Writes the summary as the run ends.
pub struct JsonSink {
    target: Option<JsonTarget>,
    written: JsonWritten,
}

/// Result of a [`JsonSink`]; clones share it.
#[derive(Clone, Debug, Default)]
pub struct JsonWritten(Arc<Mutex<Outcome>>);

#[derive(Debug, Default)]
struct Outcome {
    overtaken: bool,
    failed: Option<ReportError>,
}

impl JsonSink {
    /// Checks that `path` (`-`: standard output) can be written; an earlier file stays until the run has ended.
    ///
    /// # Errors
    /// When it can't.
    pub fn create(path: &Path) -> Result<Self, ReportError> {
        Ok(Self {
            target: Some(JsonTarget::prepare(path)?),
            written: JsonWritten::default(),
        })
    }

    /// Returns a handle that shows whether the file was written.
    pub fn written(&self) -> JsonWritten {
        self.written.clone()
    }
}

impl Sink for JsonSink {
    fn wants(&self) -> Wants {
        Wants::default()
    }

    fn event(&mut self, event: &Event<'_>) {
        let Event::End(summary) = event else { return };
        let Some(target) = self.target.take() else { return };
        let overtaken = target.overtaken();
        let failed = target.write(summary).err();
        *self.written.lock() = Outcome { overtaken, failed };
    }
}

impl JsonWritten {
    fn lock(&self) -> MutexGuard<'_, Outcome> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether another program had written the file since the run began, so that its contents were replaced.
    pub fn overtaken(&self) -> bool {
        self.lock().overtaken
    }

    /// Whether the file was written.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn written(&self) -> Result<(), ReportError> {
        self.lock().failed.take().map_or(Ok(()), Err)
    }
}
