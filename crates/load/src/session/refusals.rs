//! Refusals by a destination: reported once, at the first, and counted for the end.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Says something to people while a run goes on.
pub type Notify = fn(fmt::Arguments<'_>);

/// The refusals of a run, which its sender hears of, and whoever else reads from its socket: the kernel tells one of them.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    count: AtomicU64,
    /// Who is to be told of the first one, and of which destination.
    whom: OnceLock<(SocketAddr, Notify)>,
    told: AtomicBool,
}

impl Refusals {
    /// From now on `notify` is told of the first one.
    pub(super) fn tell(&self, destination: SocketAddr, notify: Notify) {
        // Who is told already goes on being told.
        let _ = self.whom.set((destination, notify));
    }

    /// Counts datagrams that were refused, with the error that said so, if the kernel has kept it.
    pub(super) fn heard(&self, count: u64, error: Option<&io::Error>) {
        self.add(count, error, "; sending on");
    }

    /// Counts refusals that were only counted while the run went on.
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

    /// Refusals so far.
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
