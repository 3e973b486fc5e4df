//! Settings of one direction of a path: [`PathConfig`].

use std::fmt;
use std::time::Duration;

use crate::{
    Ahead, Aqm, Bottleneck, Incidence, Jitter, Late, Loss, Probability, Queue, Reorder, Scenario, Slots,
    Spread,
};

/// The parameters of one direction. By default it is a perfect wire: no delay, no bottleneck, no loss.
///
/// ```
/// use std::time::Duration;
/// use softtimers_wan::{Bottleneck, GilbertElliott, Jitter, Loss, PathConfig, Probability, Queue};
///
/// let burst = GilbertElliott::bursts(Probability::once_in(500), Probability::once_in(3));
/// let radio = PathConfig::default()
///     .bottleneck(Bottleneck::bits_per_second(20_000_000)?)
///     .queue(Queue::time(Duration::from_millis(80)))
///     .delay(Duration::from_millis(25))
///     .jitter(Jitter::uniform(Duration::from_millis(4)))
///     .loss(Loss::GilbertElliott(burst));
/// assert!(radio.check().is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathConfig {
    /// The slowest link of the path: rate and queue.
    pub bottleneck: Bottleneck,
    /// Bytes that pass at once after a pause: the depth of a token bucket that fills at the bottleneck's rate. Only for
    /// a constant rate; a longer packet waits for the missing tokens.
    pub burst: u32,
    /// The queue in front of it.
    pub queue: Queue,
    /// The management of that queue.
    pub aqm: Aqm,
    /// The bytes that each packet takes on the link in addition to its offered length: 28 if that is the payload of UDP
    /// over IPv4 and the rate is the network's. At most 65,535.
    pub overhead: u32,
    /// Loses every packet that leaves the bottleneck, without drawing random numbers.
    pub outage: bool,
    /// The losses behind the bottleneck; lost packets have used their time on the link.
    pub loss: Loss,
    /// The packets that come twice. The second copy has its own delay, and no time on the link.
    pub duplicate: Incidence,
    /// The packets that have one bit flipped.
    pub corrupt: Incidence,
    /// The slots in which packets leave for the other side; with `None` each leaves at once. Packets waiting for a slot
    /// are not in the queue.
    pub slots: Option<Slots>,
    /// The delay of a packet behind the bottleneck.
    pub delay: Duration,
    /// The variation of the delay from packet to packet.
    pub jitter: Jitter,
    /// Additional reordering.
    pub reorder: Option<Reorder>,
    /// The most packets held, waiting and under way; packets beyond it are dropped and counted separately.
    pub most_packets: u32,
    /// The most bytes held.
    pub most_bytes: u64,
}

impl Default for PathConfig {
    /// Creates a perfect wire, which holds a quarter of a million packets and 256 MiB: a second at 2 Gbit/s.
    fn default() -> Self {
        PathConfig {
            bottleneck: Bottleneck::NONE,
            burst: 0,
            queue: Queue::default(),
            aqm: Aqm::DropTail,
            overhead: 0,
            outage: false,
            loss: Loss::None,
            duplicate: Incidence::NEVER,
            corrupt: Incidence::NEVER,
            slots: None,
            delay: Duration::ZERO,
            jitter: Jitter::default(),
            reorder: None,
            most_packets: 1 << 18,
            most_bytes: 1 << 28,
        }
    }
}

impl PathConfig {
    /// Sets the slowest link.
    #[must_use]
    pub fn bottleneck(mut self, bottleneck: Bottleneck) -> Self {
        self.bottleneck = bottleneck;
        self
    }

    /// Sets the bytes that pass at once after a pause.
    #[must_use]
    pub fn burst(mut self, bytes: u32) -> Self {
        self.burst = bytes;
        self
    }

    /// Sets the queue in front of the slowest link.
    #[must_use]
    pub fn queue(mut self, queue: Queue) -> Self {
        self.queue = queue;
        self
    }

    /// Sets the management of the queue.
    #[must_use]
    pub fn aqm(mut self, aqm: Aqm) -> Self {
        self.aqm = aqm;
        self
    }

    /// Adds `bytes` to each packet on the link.
    #[must_use]
    pub fn overhead(mut self, bytes: u32) -> Self {
        self.overhead = bytes;
        self
    }

    /// Sets whether nothing gets through.
    #[must_use]
    pub fn outage(mut self, outage: bool) -> Self {
        self.outage = outage;
        self
    }

    /// Sets the loss.
    #[must_use]
    pub fn loss(mut self, loss: Loss) -> Self {
        self.loss = loss;
        self
    }

    /// Sets the share of packets that arrive twice.
    #[must_use]
    pub fn duplicate(mut self, share: impl Into<Incidence>) -> Self {
        self.duplicate = share.into();
        self
    }

    /// Sets the share of packets that are damaged.
    #[must_use]
    pub fn corrupt(mut self, share: impl Into<Incidence>) -> Self {
        self.corrupt = share.into();
        self
    }

    /// Has packets leave in these slots.
    #[must_use]
    pub fn slots(mut self, slots: Slots) -> Self {
        self.slots = Some(slots);
        self
    }

    /// Sets the delay.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets the jitter of the delay.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Delays a `share` of the packets by another `by`.
    #[must_use]
    pub fn late(mut self, share: Probability, by: Duration) -> Self {
        self.reorder = Some(Reorder::Late(Late { share, by }));
        self
    }

    /// Lets packets skip the delay, at least `gap` packets apart, each with this probability when it may be its turn.
    #[must_use]
    pub fn ahead(mut self, share: Probability, gap: u32) -> Self {
        self.reorder = Some(Reorder::Ahead(Ahead { share, gap }));
        self
    }

    /// Sets the room for packets and bytes, waiting and under way.
    #[must_use]
    pub fn hold(mut self, packets: u32, bytes: u64) -> Self {
        (self.most_packets, self.most_bytes) = (packets, bytes);
        self
    }

    /// Says whether any setting treats packets individually. If none does, merged packets may stay merged: a delay
    /// without jitter is the same for all.
    pub(crate) fn looks_at_packets(&self) -> bool {
        let wire = PathConfig {
            delay: self.delay,
            queue: self.queue,
            aqm: self.aqm,
            burst: self.burst,
            overhead: self.overhead,
            most_packets: self.most_packets,
            most_bytes: self.most_bytes,
            ..PathConfig::default()
        };
        *self != wire
    }

    /// Checks that the parameters are consistent.
    ///
    /// # Errors
    /// [`PathError`], which names the values.
    pub fn check(&self) -> Result<(), PathError> {
        let Jitter { size, spread, .. } = &self.jitter;
        if *spread == Spread::Uniform && *size > self.delay {
            return Err(PathError::LongJitter { jitter: *size, delay: self.delay });
        }
        if self.overhead > MOST_OVERHEAD {
            return Err(PathError::Overhead { bytes: self.overhead });
        }
        if let Some(Slots { least, most, .. }) = self.slots.filter(|slots| slots.most < slots.least) {
            return Err(PathError::Slots { least, most });
        }
        if let Loss::FourStates(chain) = self.loss { chain.check() } else { Ok(()) }
    }

    /// Checks that a stream of bytes can cross the path. Its bytes have been acknowledged, so they can only be late and
    /// slow: those that are lost come later.
    ///
    /// # Errors
    /// [`PathError::Stream`], which names the impairment; otherwise as [`check`](Self::check).
    pub fn check_stream(&self) -> Result<(), PathError> {
        let unfit = [
            (self.jitter.reorders, "jitter that reorders"),
            (self.reorder.is_some(), "reordering"),
            (self.duplicate.share != Probability::NEVER, "duplicates"),
            (self.corrupt.share != Probability::NEVER, "corruption"),
            (self.queue.mark.is_some(), "marks"),
            (self.aqm != Aqm::DropTail, "a managed queue"),
        ];
        match unfit.into_iter().find(|&(is_set, _)| is_set) {
            Some((_, what)) => Err(PathError::Stream { what }),
            None => self.check(),
        }
    }

    /// Says whether everything passes at once.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_wire(&self) -> bool {
        self.delay.is_zero() && !self.looks_at_packets()
    }

    /// Returns the longest piece of a stream: a packet, where packets take time on the link or meet fates of their own.
    #[cfg(any(target_os = "linux", feature = "tokio"))]
    pub(crate) fn longest_piece(&self) -> usize {
        let is_free =
            PathConfig { bottleneck: Bottleneck::NONE, loss: Loss::None, outage: false, ..self.clone() }
                == *self
                && self.check_stream().is_ok();
        let most = if is_free { LONGEST_PIECE } else { SEGMENT };
        most.min(usize::try_from(self.most_bytes).unwrap_or(most)).max(1)
    }

    /// Returns the shortest delay.
    pub(crate) fn least_delay(&self) -> Duration {
        least_delay(self.delay, &self.jitter, self.reorder)
    }
}

/// Returns the shortest delay with these parameters.
pub(crate) fn least_delay(delay: Duration, jitter: &Jitter, reorder: Option<Reorder>) -> Duration {
    match reorder {
        Some(Reorder::Ahead(_)) => Duration::ZERO,
        _ => jitter.least(delay),
    }
}

/// Why a path was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PathError {
    /// Some packets would have to arrive before they are sent.
    LongJitter {
        /// The variation that was asked for.
        jitter: Duration,
        /// The delay, which it may not exceed.
        delay: Duration,
    },
    /// A stream of bytes can only be late and slow.
    Stream {
        /// The impairment that was asked for.
        what: &'static str,
    },
    /// A round of a [`Scenario`] is too short for its changes.
    Round {
        /// The length of the round.
        period: Duration,
        /// The time of the last change.
        last: Duration,
    },
    /// The longest time between slots is below the shortest.
    Slots {
        /// The shortest time that was asked for.
        least: Duration,
        /// The longest, which may not be below.
        most: Duration,
    },
    /// The changes from one state of [`FourStates`](crate::FourStates) add up to more than one.
    Chances {
        /// The names of both.
        names: &'static str,
        /// The first.
        one: Probability,
        /// The other.
        other: Probability,
    },
    /// The overhead is larger than any header.
    Overhead {
        /// The number that was asked for.
        bytes: u32,
    },
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathError::LongJitter { jitter, delay } => {
                write!(f, "a uniform jitter of {jitter:?} is longer than the delay of {delay:?}")
            }
            PathError::Stream { what } => {
                write!(
                    f,
                    "a TCP stream cannot have {what}: delay, jitter in order, slots, rate, queue and loss are what it can have"
                )
            }
            PathError::Round { period, last } => {
                let shortest = Scenario::SHORTEST_ROUND;
                write!(
                    f,
                    "a round of {period:?}, in which something changes at {last:?}; a round is longer than that, and at least {shortest:?}"
                )
            }
            PathError::Slots { least, most } => {
                write!(
                    f,
                    "slots from {least:?} to {most:?} apart; the longest time is not below the shortest"
                )
            }
            PathError::Chances { names, one, other } => {
                write!(f, "{names} are {one} and {other}; together they are at most 1")
            }
            PathError::Overhead { bytes } => {
                write!(f, "an overhead of {bytes} bytes; a packet's is at most {MOST_OVERHEAD}")
            }
        }
    }
}

impl std::error::Error for PathError {}

const MOST_OVERHEAD: u32 = 65_535;
/// The bytes of a piece on a limited path: TCP's segment over Ethernet.
#[cfg(any(target_os = "linux", feature = "tokio"))]
const SEGMENT: usize = 1_448;
/// The bytes of a piece on an unlimited one.
#[cfg(any(target_os = "linux", feature = "tokio"))]
const LONGEST_PIECE: usize = 64 << 10;
