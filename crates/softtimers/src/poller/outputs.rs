//! Where a handler may send what it was given: [`Outputs`].

use softtimers_core::poll::SourceId;

use super::device::{Device, Transmit};

/// The outputs of all devices of a poller, while one of them receives.
#[derive(Debug)]
pub struct Outputs<'a, D: Device> {
    /// The one that receives, apart from the others since its packet is borrowed.
    pub(super) own: &'a mut D::Transmitter,
    pub(super) from: usize,
    pub(super) before: &'a mut [D],
    pub(super) after: &'a mut [D],
    pub(super) tally: &'a mut Tally,
}

/// What handlers did with their packets, by device.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Something waits to be sent.
    pub(super) wanted: Vec<bool>,
    pub(super) refused: Vec<u64>,
    pub(super) by_rule: Vec<u64>,
}

impl<D: Device> Outputs<'_, D> {
    /// The device that the packet came from.
    pub fn from(&self) -> SourceId {
        SourceId::from_index(self.from as u32)
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
        let index = device.index();
        let output = match index.checked_sub(self.from) {
            Some(0) => Some(&mut *self.own),
            Some(beyond) => self.after.get_mut(beyond - 1).map(D::transmitter),
            None => self.before.get_mut(index).map(D::transmitter),
        };
        let taken = output.is_some_and(hand);
        if taken {
            self.tally.wanted[index] = true;
        } else {
            self.tally.refused[self.from] += 1;
        }
        taken
    }

    /// The packet is dropped by a rule: counts it.
    pub fn drop_by_rule(&mut self) {
        self.tally.by_rule[self.from] += 1;
    }
}

impl Tally {
    pub(super) fn add(&mut self) {
        self.wanted.push(false);
        self.refused.push(0);
        self.by_rule.push(0);
    }
}
