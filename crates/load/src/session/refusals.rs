//! Refusals by a destination: the first is reported at once, and all are counted for the end.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Tells the user something while a run goes on.
pub type Notify = fn(fmt::Arguments<'_>);

/// The refusals of a run, shared by its sender and other readers of its socket: the kernel reports each to only one of
/// them.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    count: AtomicU64,
    /// The destination and the function to report the first one to.
    whom: OnceLock<(SocketAddr, Notify)>,
    told: AtomicBool,
}

impl Refusals {
    /// Reports the first one to `notify` from now on.
    pub(super) fn tell(&self, destination: SocketAddr, notify: Notify) {
        // An earlier function stays.
        let _ = self.whom.set((destination, notify));
    }

    /// Counts refused datagrams, with the error that said so, if the kernel has kept it.
    pub(super) fn heard(&self, count: u64, error: Option<&io::Error>) {
        self.add(count, error, "; sending on");
    }

    /// Counts refusals that went unreported while the run went on.
    pub(super) fn heard_afterwards(&self, count: u64) {
        self.add(count, None, "");
    }

    fn add(&self, count: u64, error: Option<&io::Error>, and: &str) {
        if count == 0 {
            return;
        }
        self.count.fetch_add(count, Ordering::Relaxed);
        let whom = self.whom.get().filter(|_| !self.told.swap(true, Ordering::Relaxed));
        if let Some((destination, notify)) = whom {
            notify(format_args!("address {destination}: {}{and}", reason(error)));
        }
    }

    /// Returns the number of refusals so far.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

fn reason(error: Option<&io::Error>) -> String {
    match error.map(io::Error::kind) {
        Some(ErrorKind::ConnectionRefused) => {
            "nobody listens on that port (ICMP port unreachable)".to_owned()
        }
        Some(_) => error.map(ToString::to_string).unwrap_or_default(),
        None => "datagrams are refused (ICMP)".to_owned(),
    }
}
