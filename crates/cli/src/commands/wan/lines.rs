//! `--json-stream` of an emulator, or its columns on a terminal: one line a second, printed by a thread that may block.
//!
//! Every line of JSON has all figures of the run so far. So for a slow reader, lines are left out rather than delayed,
//! and no packet waits for them.

use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};

use serde_json::Value;
use softtimers_measure::failure::Failure;

use crate::run::output::{is_unread, print_line};

/// Returns a report so far as a line of the stream.
pub(super) fn of_stream(mut report: Value) -> String {
    report["schema"] = SCHEMA.into();
    report.to_string()
}

/// The schema of a line; the last one is the object of `--json`.
const SCHEMA: &str = "softtimers.wan.stream/1";

/// A thread that prints lines.
#[derive(Debug)]
pub(super) struct Lines {
    to: SyncSender<String>,
    writer: JoinHandle<Result<(), Failure>>,
}

impl Lines {
    /// # Errors
    /// If the system has no thread left.
    pub(super) fn start() -> Result<Self, Failure> {
        let (to, from) = mpsc::sync_channel::<String>(1);
        let writer = thread::Builder::new().name("stream".to_owned()).spawn(move || {
            for line in from {
                match print_line(&line) {
                    Ok(()) => {}
                    Err(error) if is_unread(&error) => break,
                    Err(error) => return Err(Failure::broke_off("writing to stdout", &error)),
                }
            }
            Ok(())
        });
        let writer = writer
            .map_err(|error| Failure::broke_off("starting the thread that writes the stream", &error))?;
        Ok(Lines { to, writer })
    }

    /// Passes a line to the thread. `false` if the reader is gone.
    pub(super) fn hand_over(&self, line: String) -> bool {
        !matches!(self.to.try_send(line), Err(TrySendError::Disconnected(_)))
    }

    /// Waits until all passed lines have been written.
    ///
    /// # Errors
    /// The error of a write, except that its reader has gone.
    pub(super) fn finish(self) -> Result<(), Failure> {
        drop(self.to);
        self.writer
            .join()
            .unwrap_or_else(|_| Err(Failure::check("the thread that writes the stream panicked")))
    }
}
