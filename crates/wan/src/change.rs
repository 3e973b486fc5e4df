//! A new value of one parameter: [`Change`], shared by flags, the control socket and a [scenario](crate::Scenario).

use std::time::Duration;

use crate::{Aqm, Bottleneck, Incidence, Jitter, Limit, Loss, PathConfig, Reorder, Slots};

/// A new value of a parameter of a [`PathConfig`].
///
/// ```
/// use std::time::Duration;
/// use softtimers_wan::{Change, PathConfig};
///
/// let mut path = PathConfig::default();
/// Change::Delay(Duration::from_millis(20)).apply(&mut path);
/// assert_eq!(path, PathConfig::default().delay(Duration::from_millis(20)));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Change {
    /// [`PathConfig::bottleneck`]
    Bottleneck(Bottleneck),
    /// [`PathConfig::burst`]
    Burst(u32),
    /// The limit of [`PathConfig::queue`].
    Queue(Limit),
    /// The mark of [`PathConfig::queue`].
    Mark(Option<Limit>),
    /// [`PathConfig::aqm`]
    Aqm(Aqm),
    /// [`PathConfig::overhead`]
    Overhead(u32),
    /// [`PathConfig::outage`]
    Outage(bool),
    /// [`PathConfig::loss`]
    Loss(Loss),
    /// [`PathConfig::duplicate`]
    Duplicate(Incidence),
    /// [`PathConfig::corrupt`]
    Corrupt(Incidence),
    /// [`PathConfig::slots`]
    Slots(Option<Slots>),
    /// [`PathConfig::delay`]
    Delay(Duration),
    /// [`PathConfig::jitter`]
    Jitter(Jitter),
    /// [`PathConfig::reorder`]
    Reorder(Option<Reorder>),
}

impl Change {
    /// Sets this value in a path.
    pub fn apply(&self, path: &mut PathConfig) {
        match self.clone() {
            Change::Bottleneck(bottleneck) => path.bottleneck = bottleneck,
            Change::Burst(bytes) => path.burst = bytes,
            Change::Queue(limit) => path.queue.limit = limit,
            Change::Mark(mark) => path.queue.mark = mark,
            Change::Aqm(aqm) => path.aqm = aqm,
            Change::Overhead(bytes) => path.overhead = bytes,
            Change::Outage(outage) => path.outage = outage,
            Change::Loss(loss) => path.loss = loss,
            Change::Duplicate(share) => path.duplicate = share,
            Change::Corrupt(share) => path.corrupt = share,
            Change::Slots(slots) => path.slots = slots,
            Change::Delay(delay) => path.delay = delay,
            Change::Jitter(jitter) => path.jitter = jitter,
            Change::Reorder(reorder) => path.reorder = reorder,
        }
    }
}
