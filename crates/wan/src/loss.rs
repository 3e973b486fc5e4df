//! Loss on the path, apart from its queue: [`Loss`], at random or in bursts.
//!
//! Independent losses are easy on a protocol: two in a row are rare. Radio links and routing changes lose packets in
//! bursts. A chain of two states models those, with one parameter for how often and one for how long:
//!
//! ```text
//!                to_bad
//!          ┌──────────────────▶
//!       good                    bad        each packet meets a state's own loss,
//!    loss_good ◀──────────────┘ loss_bad   then the state changes or not
//!                to_good
//! ```
//!
//! Gilbert, *Capacity of a burst-noise channel*, BSTJ 39 (1960): the good state loses nothing. Elliott,
//! BSTJ 42 (1963): it may.

use softtimers_core::Random;

use crate::{PathError, Probability};

/// The packets lost behind the bottleneck.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Loss {
    /// No packet is lost.
    #[default]
    None,
    /// Each packet is lost with the same probability, independently of others.
    Random(Probability),
    /// Packets are lost in bursts.
    GilbertElliott(GilbertElliott),
    /// Packets are lost in bursts with gaps, and alone, as by netem's `loss state`.
    FourStates(FourStates),
}

impl Loss {
    /// Creates a loss with this probability, and this correlation with the packet before: after a loss, the next packet
    /// is lost with probability share + correlation · (1 − share). The share stays as configured; netem's own
    /// correlation, deprecated there, changes it.
    ///
    /// ```
    /// use softtimers_wan::{Loss, Probability};
    ///
    /// let [share, half] = [Probability::per_million(10_000)?, Probability::once_in(2)];
    /// let Loss::GilbertElliott(chain) = Loss::correlated(share, half) else { panic!("no chain") };
    /// assert_eq!([chain.to_bad.to_string(), chain.to_good.to_string()], ["0.005", "0.495"]);
    /// # Ok::<(), softtimers_wan::ProbabilityError>(())
    /// ```
    pub fn correlated(share: Probability, correlation: Probability) -> Self {
        let chance = |parts: u32| {
            let of_new = u64::from(1_000_000_000 - correlation.parts_per_billion());
            let both = u64::from(parts) * of_new / 1_000_000_000;
            Probability::per_billion(both as u32).unwrap_or(Probability::ALWAYS)
        };
        let parts = share.parts_per_billion();
        Loss::GilbertElliott(GilbertElliott::bursts(chance(parts), chance(1_000_000_000 - parts)))
    }

    /// Returns the share lost in the long run.
    pub fn mean(&self) -> f64 {
        match self {
            Loss::None => 0.0,
            Loss::Random(probability) => probability.as_f64(),
            Loss::GilbertElliott(chain) => chain.mean(),
            Loss::FourStates(chain) => chain.mean(),
        }
    }
}

/// A chain of two states, which begins in the good one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GilbertElliott {
    /// The probability of a change from good to bad, per packet.
    pub to_bad: Probability,
    /// The probability of a change back; its inverse is the mean length of a bad period in packets.
    pub to_good: Probability,
    /// The chance of a loss in the good state.
    pub loss_good: Probability,
    /// The chance of a loss in the bad state.
    pub loss_bad: Probability,
}

impl GilbertElliott {
    /// Creates Gilbert's simple case: the good state loses no packet and the bad one every packet, so bursts of losses
    /// are `1 / to_good` packets long on average, geometrically distributed.
    pub const fn bursts(to_bad: Probability, to_good: Probability) -> Self {
        GilbertElliott { to_bad, to_good, loss_good: Probability::NEVER, loss_bad: Probability::ALWAYS }
    }

    /// Returns the share lost in the long run.
    pub fn mean(&self) -> f64 {
        let [to_bad, to_good, loss_good, loss_bad] =
            [self.to_bad, self.to_good, self.loss_good, self.loss_bad].map(Probability::as_f64);
        let bad = if to_bad == 0.0 { 0.0 } else { to_bad / (to_bad + to_good) };
        bad * loss_bad + (1.0 - bad) * loss_good
    }
}

/// netem's chain of four states, by the probabilities of its changes, per packet. Each packet meets the new state's fate.
///
/// ```text
///                  p13                    p23
///   ┌─▶ 1 received ───▶ 3 lost in a burst ◀─── 2 received in a burst
///   │   │  ▲  ◀─────────       │      └───────────────▲
///   │   │p14    p31            └──────────── p32 ─────┘
///   └── 4 lost alone: the next one is received
/// ```
///
/// Salsano, Ludovici, Ordine, *Definition of a general and intuitive loss model for packet networks* (2012).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FourStates {
    /// A burst begins.
    pub p13: Probability,
    /// A burst ends.
    pub p31: Probability,
    /// A packet is received within a burst.
    pub p32: Probability,
    /// Packets of the burst are lost again.
    pub p23: Probability,
    /// A packet is lost alone.
    pub p14: Probability,
}

impl FourStates {
    /// Creates netem's chain of `loss state` with one value: independent losses. Set the others as needed.
    pub fn new(p13: Probability) -> Self {
        let rest = Probability::per_billion(BILLION - p13.parts_per_billion());
        FourStates {
            p13,
            p31: rest.unwrap_or(Probability::ALWAYS),
            p32: Probability::NEVER,
            p23: Probability::ALWAYS,
            p14: Probability::NEVER,
        }
    }

    /// Checks that the changes from each state add up to at most one.
    ///
    /// # Errors
    /// [`PathError::Chances`], which names the state's two.
    pub fn check(&self) -> Result<(), PathError> {
        for (names, [one, other]) in
            [("P13 and P14", [self.p13, self.p14]), ("P31 and P32", [self.p31, self.p32])]
        {
            if one.parts_per_billion() + other.parts_per_billion() > BILLION {
                return Err(PathError::Chances { names, one, other });
            }
        }
        Ok(())
    }

    /// Returns the share lost in the long run.
    pub fn mean(&self) -> f64 {
        let [p13, p31, p32, p23, p14] =
            [self.p13, self.p31, self.p32, self.p23, self.p14].map(Probability::as_f64);
        // Relative to the state of reception, the time in the others; a burst that never ends is all there is.
        let pauses = |lost: f64| match (lost * p32, p23) {
            (0.0, _) => 0.0,
            (_, 0.0) => f64::INFINITY,
            (begun, again) => begun / again,
        };
        match (p13, p31) {
            (0.0, _) => p14 / (1.0 + p14),
            (_, 0.0) => 1.0 / (1.0 + pauses(1.0)),
            _ => {
                let lost = p13 / p31;
                (lost + p14) / (1.0 + lost + pauses(lost) + p14)
            }
        }
    }

    /// Returns the state of the next packet, by a number below a billion.
    fn after(&self, state: State, drawn: u32) -> State {
        let first = |one: Probability| drawn < one.parts_per_billion();
        let second = |one: Probability, other: Probability| {
            drawn < one.parts_per_billion().saturating_add(other.parts_per_billion())
        };
        match state {
            State::Received if first(self.p14) => State::LostAlone,
            State::Received if second(self.p14, self.p13) => State::Lost,
            State::ReceivedInBurst if !first(self.p23) => State::ReceivedInBurst,
            State::ReceivedInBurst => State::Lost,
            State::Lost if first(self.p32) => State::ReceivedInBurst,
            State::Lost if !second(self.p32, self.p31) => State::Lost,
            State::Received | State::Lost | State::LostAlone => State::Received,
        }
    }
}

/// A state of [`FourStates`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Received,
    ReceivedInBurst,
    Lost,
    LostAlone,
}

const BILLION: u32 = 1_000_000_000;

/// The states of both chains. They outlive a change of parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LossProcess {
    bad: bool,
    state: State,
    random: Random,
}

impl LossProcess {
    pub(crate) fn new(random: Random) -> Self {
        LossProcess { bad: false, state: State::Received, random }
    }

    /// Says whether the next packet is lost.
    pub(crate) fn next(&mut self, loss: &Loss) -> bool {
        match loss {
            Loss::None => false,
            Loss::Random(probability) => probability.happens(&mut self.random),
            Loss::GilbertElliott(chain) => {
                let (loss, leave) = match self.bad {
                    false => (chain.loss_good, chain.to_bad),
                    true => (chain.loss_bad, chain.to_good),
                };
                let lost = loss.happens(&mut self.random);
                self.bad ^= leave.happens(&mut self.random);
                lost
            }
            Loss::FourStates(chain) => {
                self.state = chain.after(self.state, self.random.below(BILLION.into()) as u32);
                matches!(self.state, State::Lost | State::LostAlone)
            }
        }
    }
}
