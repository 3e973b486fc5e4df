//! A progress bar on stderr, for runs of more than two seconds on a terminal.
//!
//! It has its own thread and touches no state of the run, so that the run's timing is unaffected.

use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use softtimers::{Clock, Monotonic};

/// Shows how much of a run has passed, until it is dropped.
#[derive(Debug)]
pub struct Progress {
    shown: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts to show the progress of a run of this duration, if it has one and stderr is a terminal.
    pub fn start(what: &'static str, duration: Option<Duration>) -> Self {
        let duration = duration.filter(|&duration| duration > WORTH_SHOWING);
        let begun = Monotonic.now();
        let passed = move || Monotonic.now().saturating_duration_since(begun).as_millis() as u64;
        duration.map_or(Progress { shown: None }, |duration| {
            Progress::show(what, "{msg} {bar:40} {percent}%", duration.as_millis() as u64, passed)
        })
    }

    /// Starts to show how many of `steps` steps are `done`, if stderr is a terminal.
    pub fn counted(what: &'static str, steps: usize, done: &Arc<AtomicUsize>) -> Self {
        let done = Arc::clone(done);
        let so_far = move || done.load(Ordering::Relaxed) as u64;
        Progress::show(what, "{msg} {bar:40} {pos}/{len}, {left}", steps as u64, so_far)
    }

    /// Starts to show how much of `total` is done, and the remaining time, if stderr is a terminal.
    pub fn parts(what: &'static str, total: u64, so_far: impl Fn() -> u64 + Send + 'static) -> Self {
        Progress::show(what, "{msg} {bar:40} {percent}%, {left}", total, so_far)
    }

    fn show(
        what: &'static str,
        template: &'static str,
        total: u64,
        so_far: impl Fn() -> u64 + Send + 'static,
    ) -> Self {
        let shown = std::io::stderr().is_terminal().then(|| {
            let (done, wait) = mpsc::channel::<()>();
            let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(move || {
                let bar = ProgressBar::new(total).with_message(what);
                if let Ok(style) = ProgressStyle::with_template(template) {
                    bar.set_style(style.with_key("left", left));
                }
                while wait.recv_timeout(REFRESH) == Err(RecvTimeoutError::Timeout) {
                    bar.set_position(so_far().min(total));
                }
                bar.finish_and_clear();
            });
            // Without a thread there is no bar.
            Some((done, thread.ok()?))
        });
        Progress { shown: shown.flatten() }
    }
}

/// Says how long the rest may take, once there is something to judge by: before, an estimate is nonsense.
fn left(state: &ProgressState, to: &mut dyn Write) {
    let is_known = state.pos() > 0 && state.elapsed() > WORTH_SHOWING;
    let _ = if is_known { write!(to, "{:#} left", HumanDuration(state.eta())) } else { write!(to, "…") };
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.shown.take() {
            drop(done);
            let _ = thread.join();
        }
    }
}

/// Shorter runs need no progress bar.
const WORTH_SHOWING: Duration = Duration::from_secs(2);
/// Rare enough not to disturb a measurement on the same core.
const REFRESH: Duration = Duration::from_millis(500);
