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
        self.hand_over(device, |output| output.queue(bytes, to))
    }

    /// As [`send`](Self::send), for a packet that the handler has finished with: not copied if the device
    /// supports that. Later changes to it may be sent.
    pub fn pass(&mut self, device: SourceId, bytes: &mut [u8], to: Option<D::Address>) -> bool {
        self.hand_over(device, |output| output.pass(bytes, to))
    }

    fn hand_over(&mut self, device: SourceId, hand: impl FnOnce(&mut D::Transmitter) -> bool) -> bool {
        let taken = if device == self.from {
            let taken = hand(self.own);
            self.tally.wanted |= taken;
            taken
        } else if let Some(place) = self.others.place(device) {
            let taken = hand(place.device.transmitter());
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
