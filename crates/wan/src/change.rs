//! One new value of one parameter: [`Change`], which flags, the control socket and a [scenario](crate::Scenario) share.

use std::time::Duration;

use crate::{Aqm, Bottleneck, Jitter, Late, Limit, Loss, PathConfig, Probability};

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
    Duplicate(Probability),
    /// [`PathConfig::corrupt`]
    Corrupt(Probability),
    /// [`PathConfig::delay`]
    Delay(Duration),
    /// [`PathConfig::jitter`]
    Jitter(Jitter),
    /// [`PathConfig::late`]
    Late(Option<Late>),
}

impl Change {
    /// Gives a path this value.
    pub fn apply(&self, path: &mut PathConfig) {
        match self.clone() {
            Change::Bottleneck(bottleneck) => path.bottleneck = bottleneck,
            Change::Queue(limit) => path.queue.limit = limit,
            Change::Mark(mark) => path.queue.mark = mark,
            Change::Aqm(aqm) => path.aqm = aqm,
            Change::Overhead(bytes) => path.overhead = bytes,
            Change::Outage(outage) => path.outage = outage,
            Change::Loss(loss) => path.loss = loss,
            Change::Duplicate(share) => path.duplicate = share,
            Change::Corrupt(share) => path.corrupt = share,
            Change::Delay(delay) => path.delay = delay,
            Change::Jitter(jitter) => path.jitter = jitter,
            Change::Late(late) => path.late = late,
        }
    }
}
