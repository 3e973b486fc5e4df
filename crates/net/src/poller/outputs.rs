//! Where a handler may send what it was given: [`Outputs`].

use softtimers_core::poll::SourceId;

use super::device::{Device, Transmit};
use super::devices::{Others, Tally};

/// The outputs of all devices of a poller, while one of them receives.
#[derive(Debug)]
pub struct Outputs<'a, D: Device> {
    /// The one that receives, apart from the others since its packet is borrowed.
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

    /// Queues a copy of `bytes` at the output of `device`, to `to` or where it sends to. If that has no room, or
    /// there is no such device, it is dropped and counted, and the answer is `false`.
    pub fn send(&mut self, device: SourceId, bytes: &[u8], to: Option<D::Address>) -> bool {
        self.hand_over(device, |output| output.queue(bytes, to))
    }

    /// As [`send`](Self::send), of a packet that the handler has done with: where the device can, it is not copied. What
    /// is changed in it afterwards may be sent changed.
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

    /// The packet is dropped by a rule: counts it.
    pub fn drop_by_rule(&mut self) {
        self.tally.by_rule += 1;
    }
}
