//! [`Outputs`]: the outputs that a handler can use.

use softtimers_poll::SourceId;

use super::device::{Device, Transmit};
use super::devices::{Others, Tally};

/// The outputs of all devices of a poller, while one of them receives.
#[derive(Debug)]
pub struct Outputs<'a, D: Device> {
    /// The receiving device's, apart from the others because its packet is borrowed.
    pub(super) own: &'a mut D::Transmitter,
    pub(super) from: SourceId,
    pub(super) tally: &'a mut Tally,
    pub(super) others: Others<'a, D>,
}

impl<D: Device> Outputs<'_, D> {
    /// The device that the packet came from.
    pub fn from(&self) -> SourceId {
        self.from
    }

    /// Queues a copy of `bytes` at the output of `device`, to `to` or its default destination. If that has no
    /// room, or there is no such device, it is dropped and counted; returns `false` then.
    pub fn send(&mut self, device: SourceId, bytes: &[u8], to: Option<D::Address>) -> bool {
        let taken = if device == self.from {
            let taken = self.own.queue(bytes, to);
            self.tally.wanted |= taken;
            taken
        } else if let Some(place) = self.others.place(device) {
            let taken = place.device.transmitter().queue(bytes, to);
            place.tally.wanted |= taken;
            taken
        } else {
            false
        };
        self.tally.refused += u64::from(!taken);
        taken
    }

    /// Counts the packet as dropped by a rule.
    pub fn drop_by_rule(&mut self) {
        self.tally.by_rule += 1;
    }
}
