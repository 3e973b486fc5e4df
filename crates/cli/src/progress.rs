//! A progress bar on stderr, for runs of more than two seconds on a terminal.
//!
//! It lives on its own thread and touches nothing of the run, so that the run's timing is its own.

use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use softtimers::{Clock, Monotonic};

/// Shows how much of a run has passed, until it is dropped.
#[derive(Debug)]
pub struct Progress {
    shown: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts to show the progress of a run of this duration, if it has one and somebody watches.
    pub fn start(what: &'static str, duration: Option<Duration>) -> Self {
        let duration = duration.filter(|&duration| duration > WORTH_SHOWING);
        let shown = duration.filter(|_| std::io::stderr().is_terminal()).map(|duration| {
            let (done, wait) = mpsc::channel::<()>();
            let thread = std::thread::spawn(move || {
                let total = duration.as_millis() as u64;
                let style = ProgressStyle::with_template("{msg} {bar:40} {percent}%").ok();
                let bar = ProgressBar::new(total).with_message(what);
                if let Some(style) = style {
                    bar.set_style(style);
                }
                let start = Monotonic.now();
                while wait.recv_timeout(REFRESH) == Err(RecvTimeoutError::Timeout) {
                    let passed = Monotonic.now().saturating_duration_since(start);
                    bar.set_position((passed.as_millis() as u64).min(total));
                }
                bar.finish_and_clear();
            });
            (done, thread)
        });
        Progress { shown }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.shown.take() {
            drop(done);
            let _ = thread.join();
        }
    }
}

/// A shorter run is over before anybody wonders.
const WORTH_SHOWING: Duration = Duration::from_secs(2);
/// Rare enough not to disturb a measurement on the same core.
const REFRESH: Duration = Duration::from_millis(500);
