//! What is heard of a destination that takes nothing: said once, as soon as it is heard, and counted for the end.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

/// Says something to people while a run goes on.
pub type Notify = fn(fmt::Arguments<'_>);

/// The refusals of a run.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    count: u64,
    /// Who is to be told of the first one, and of which destination; nobody once that is done.
    untold: Option<(SocketAddr, Notify)>,
}

impl Refusals {
    /// Nothing has been refused; `notify` is told when that changes.
    pub(super) fn of(destination: SocketAddr, notify: Notify) -> Self {
        Refusals { count: 0, untold: Some((destination, notify)) }
    }

    /// Counts datagrams that were refused, with the error that said so, if the kernel has kept it.
    pub(super) fn heard(&mut self, count: u64, error: Option<&io::Error>) {
        if count == 0 {
            return;
        }
        self.count += count;
        if let Some((destination, notify)) = self.untold.take() {
            notify(format_args!("address {destination}: {}; sending on", reason(error)));
        }
    }

    /// Refusals so far.
    pub(super) fn count(&self) -> u64 {
        self.count
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
