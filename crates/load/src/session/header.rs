//! The header of a run's datagrams: [`Header`].

use std::time::Duration;

use softtimers::Timestamp;

use crate::handshake::Agreement;
use crate::wire::Datagram;

/// Writes the headers of a run: with the numbers and the token of the receiver's agreement, if there is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// Stated without an agreement; otherwise the receiver knows it.
    interval: Duration,
    agreement: Option<Agreement>,
}

impl Header {
    pub(super) fn new(interval: Duration, agreement: Option<Agreement>) -> Self {
        Header { interval: if agreement.is_some() { Duration::ZERO } else { interval }, agreement }
    }

    /// Returns the header of a datagram of the run's flow with this number.
    #[inline]
    pub(super) fn data(&self, flow: u32, sequence: u64, scheduled: Timestamp) -> Datagram {
        let token = self.agreement.map(|agreement| agreement.token());
        Datagram::Data { flow: self.number(flow), sequence, scheduled, interval: self.interval, token }
    }

    /// Returns the goodbye of a flow.
    pub(super) fn bye(&self, flow: u32, sent: u64) -> Datagram {
        let token = self.agreement.map(|agreement| agreement.token());
        Datagram::Bye { flow: self.number(flow), sent, token }
    }

    #[inline]
    fn number(&self, flow: u32) -> u32 {
        self.agreement.map_or(flow, |agreement| agreement.flow(flow))
    }
}
