//! A file of rules that may change while it is in use: [`RuleFile`], and the [`RuleWatch`] that keeps the rulebook up
//! to date.
//!
//! Some editors rewrite a file, some replace it, and a ConfigMap changes a link two directories above: all of these
//! change the result of `stat` on the path. So that is compared a few times a second, without a watch that could be
//! lost. A file is read once it has been unchanged for one check, since half a file may be a valid file, too.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use crate::forwarder::{Purpose, Quoting, Rulebook, Rules, parse_quoting};
use rustix::fs::OFlags;
use softtimers_measure::failure::{Failure, one_line};

use crate::run::output::say;
use crate::run::privileges::user::{as_caller, exceeds_caller, stay_caller};

/// Keeps a rulebook up to date with its file, from [`begin`](RuleWatch::begin) until it is dropped.
#[derive(Debug)]
pub(super) struct RuleWatch {
    book: Arc<Rulebook>,
    /// The file, until it is begun.
    file: Option<RuleFile>,
}

impl RuleWatch {
    /// Reads the rules of a file, and follows its changes.
    ///
    /// # Errors
    /// `FILE:LINE: what is wrong`, or why it cannot be read.
    pub(super) fn open(path: &Path, purpose: Purpose) -> Result<Self, String> {
        let (file, rules) = RuleFile::open(path, purpose)?;
        Ok(RuleWatch { book: Arc::new(Rulebook::new(rules, purpose, say)), file: Some(file) })
    }

    pub(super) fn book(&self) -> &Arc<Rulebook> {
        &self.book
    }

    /// Checks the file from now on, in a thread of its own.
    ///
    /// # Errors
    /// A check failure if the system has no thread left.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        let book = Arc::downgrade(&self.book);
        let watch = move || {
            // If that fails, each check tries again, and reports why a file cannot be read.
            let _ = stay_caller();
            loop {
                thread::park_timeout(RuleFile::LOOK);
                let Some(book) = Weak::upgrade(&book) else { return };
                match file.look() {
                    None => {}
                    Some(Ok(rules)) => book.change(rules),
                    Some(Err(problem)) => book.refuse(&one_line(&problem)),
                }
            }
        };
        let started = thread::Builder::new().name("rules".to_owned()).spawn(watch);
        started.map(drop).map_err(|error| Failure::broke_off("starting a thread", &error))
    }
}

/// A file, and the state of it that was read.
#[derive(Debug)]
struct RuleFile {
    path: PathBuf,
    purpose: Purpose,
    /// The last state that was read.
    read: Option<State>,
    /// The state at the last check.
    looked: Option<State>,
}

/// The state whose change shows a changed file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    file: (u64, u64),
    length: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl RuleFile {
    /// The time between two checks.
    const LOOK: Duration = Duration::from_millis(200);

    /// Reads the rules, and the file's state.
    ///
    /// # Errors
    /// `FILE:LINE: what is wrong`, or why it cannot be read.
    fn open(path: &Path, purpose: Purpose) -> Result<(Self, Rules), String> {
        let (rules, state) = read(path, purpose)?;
        let state = Some(state);
        Ok((RuleFile { path: path.to_owned(), purpose, read: state, looked: state }, rules))
    }

    /// Checks whether it has changed: returns its new rules, or why they are invalid, once per change.
    fn look(&mut self) -> Option<Result<Rules, String>> {
        let state =
            as_caller(|| std::fs::metadata(&self.path)).ok().map(|metadata| State::from_metadata(&metadata));
        let still = std::mem::replace(&mut self.looked, state) == state;
        if state == self.read || !still {
            return None;
        }
        self.read = state;
        Some(read(&self.path, self.purpose).map(|(rules, state)| {
            // A change since then is another change.
            self.read = Some(state);
            rules
        }))
    }
}

impl State {
    fn from_metadata(metadata: &Metadata) -> Self {
        State {
            file: (metadata.dev(), metadata.ino()),
            length: metadata.len(),
            written: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

fn read(path: &Path, purpose: Purpose) -> Result<(Rules, State), String> {
    let shown = path.display();
    let told = |error: std::io::Error| format!("{shown}: {error}");
    // A FIFO must not make the relay wait for a writer.
    let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32;
    let opened = as_caller(|| OpenOptions::new().read(true).custom_flags(flags).open(path));
    let file: File = opened.map_err(told)?;
    let metadata = file.metadata().map_err(told)?;
    if !metadata.is_file() {
        return Err(format!("{shown}: not a regular file"));
    }
    let mut text = Vec::new();
    file.take(LONGEST_RULE_FILE + 1).read_to_end(&mut text).map_err(told)?;
    if text.len() as u64 > LONGEST_RULE_FILE {
        return Err(format!("{shown}: longer than {LONGEST_RULE_FILE} bytes"));
    }
    let quoting = if exceeds_caller() { Quoting::Nothing } else { Quoting::Words };
    let rules = parse_quoting(&text, quoting).and_then(|rules| rules.check(purpose).map(|()| rules));
    let rules = rules.map_err(|problem| format!("{shown}:{problem}"))?;
    Ok((rules, State::from_metadata(&metadata)))
}

/// Twice the size of the largest number of rules.
const LONGEST_RULE_FILE: u64 = 2 << 20;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ONE: Purpose = Purpose { pollers: 1, frames: false };

    #[test]
    fn a_change_is_read_once_when_it_has_kept_still() {
        let path = std::env::temp_dir().join(format!("softtimers-{}-rules", std::process::id()));
        fs::write(&path, "accept").unwrap();
        let (mut file, _) = RuleFile::open(&path, ONE).unwrap();
        assert!(file.look().is_none() && file.look().is_none());

        fs::write(&path, "rate 9pps accept\nreject").unwrap();
        assert!(
            RuleFile::open(&path, Purpose { pollers: 2, ..ONE })
                .unwrap_err()
                .ends_with("-rules:1: a rate, which --pollers 1 can count and more cannot")
        );
        // A relay may lead from one family to the other; a packet has only one.
        fs::write(&path, "from 10.0.0.1 to ::1 accept\nreject").unwrap();
        assert!(RuleFile::open(&path, ONE).is_ok());
        let problem = RuleFile::open(&path, Purpose { frames: true, ..ONE }).unwrap_err();
        assert!(problem.contains("-rules:1: 'from 10.0.0.1/32' and 'to ::1/128' never hold"), "{problem}");

        fs::write(&path, "port 1 accept\nreject").unwrap();
        assert!(file.look().is_none(), "it may still be written");
        assert_eq!(file.look().unwrap().unwrap().len(), 2);
        assert!(file.look().is_none());

        let wrong = path.with_extension("new");
        fs::write(&wrong, "accept\nreject").unwrap();
        fs::rename(&wrong, &path).unwrap();
        assert!(file.look().is_none());
        let problem = file.look().unwrap().unwrap_err();
        assert!(problem.ends_with("-rules:2: never reached: line 1 decides about everything"), "{problem}");
        assert!(file.look().is_none());

        fs::remove_file(&path).unwrap();
        assert!(file.look().is_none());
        assert!(file.look().unwrap().unwrap_err().contains("No such file"));
        assert!(file.look().is_none());
    }

    #[test]
    fn what_is_no_file_or_too_long_is_refused() {
        assert!(RuleFile::open(Path::new("/dev/zero"), ONE).unwrap_err().ends_with("not a regular file"));
        let path = std::env::temp_dir().join(format!("softtimers-{}-long", std::process::id()));
        fs::write(&path, "#".repeat(LONGEST_RULE_FILE as usize + 1)).unwrap();
        assert!(RuleFile::open(&path, ONE).unwrap_err().ends_with("longer than 2097152 bytes"));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_thread_looks_while_somebody_wants_it() {
        let path = std::env::temp_dir().join(format!("softtimers-{}-rulebook", std::process::id()));
        fs::write(&path, "accept").unwrap();
        let mut watch = RuleWatch::open(&path, ONE).unwrap();
        let book = Arc::downgrade(watch.book());
        watch.begin().unwrap();
        watch.begin().unwrap();
        drop(watch);
        fs::remove_file(&path).unwrap();
        // It holds the book during each check.
        let gone = || {
            book.upgrade().is_none() || {
                thread::park_timeout(Duration::from_millis(1));
                false
            }
        };
        assert!((0..30_000).any(|_| gone()));
    }
}
