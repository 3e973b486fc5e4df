//! A number of packets and their bytes: [`Volume`].

use std::iter::Sum;
use std::ops::Sub;

use serde::Serialize;
use softtimers_measure::sums;

/// A number of packets and their bytes: of frames from Ethernet's header on, of datagrams the payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
pub(crate) struct Volume {
    /// The number of packets.
    pub(crate) packets: u64,
    /// The length of all of them in bytes.
    pub(crate) bytes: u64,
}

impl Volume {
    /// Counts one packet more, of `bytes` bytes.
    #[inline]
    pub(crate) fn count(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }

    /// The part of this that exceeds the other, if any.
    pub(crate) fn saturating_sub(self, other: Volume) -> Volume {
        Volume {
            packets: self.packets.saturating_sub(other.packets),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

sums!(Volume: packets, bytes);

impl Sub for Volume {
    type Output = Volume;

    fn sub(self, other: Volume) -> Volume {
        Volume { packets: self.packets - other.packets, bytes: self.bytes - other.bytes }
    }
}

impl<'a> Sum<&'a Volume> for Volume {
    fn sum<I: Iterator<Item = &'a Volume>>(all: I) -> Volume {
        all.fold(Volume::default(), |mut sum, volume| {
            sum += volume;
            sum
        })
    }
}
