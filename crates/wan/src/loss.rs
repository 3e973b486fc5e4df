//! Loss on the path beside its queue: [`Loss`], at random or in bursts.
//!
//! Independent losses are kind to a protocol: two in a row are rare. Radio links and routing changes lose
//! in bursts, and a chain of two states gives those with one parameter for how often and one for how long:
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

use crate::Probability;

/// The packets that are lost after the bottleneck, for no fault of theirs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Loss {
    /// No packet is lost.
    #[default]
    None,
    /// Each with the same probability, whatever became of the others.
    Random(Probability),
    /// Packets are lost in bursts.
    GilbertElliott(GilbertElliott),
}

impl Loss {
    /// Each packet with this probability, and with this correlation to the packet before it: after a loss, the next is lost with
    /// share + correlation · (1 − share). The share stays what it is, which netem's own correlation (deprecated there) does not
    /// achieve.
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

    /// The share that is lost in the long run.
    pub fn mean(&self) -> f64 {
        match self {
            Loss::None => 0.0,
            Loss::Random(probability) => probability.as_f64(),
            Loss::GilbertElliott(chain) => chain.mean(),
        }
    }
}

/// A chain of two states. It begins in the good one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GilbertElliott {
    /// From one packet to the next, from good to bad.
    pub to_bad: Probability,
    /// And back: its inverse is how many packets a bad time lasts, in the mean.
    pub to_good: Probability,
    /// The chance of a loss in the good state.
    pub loss_good: Probability,
    /// The chance of a loss in the bad state.
    pub loss_bad: Probability,
}

impl GilbertElliott {
    /// Gilbert's simple case: nothing is lost in the good state and everything in the bad one, so bursts of
    /// losses are `1 / to_good` packets long in the mean, geometrically distributed.
    pub const fn bursts(to_bad: Probability, to_good: Probability) -> Self {
        GilbertElliott { to_bad, to_good, loss_good: Probability::NEVER, loss_bad: Probability::ALWAYS }
    }

    /// The share that is lost in the long run.
    pub fn mean(&self) -> f64 {
        let [to_bad, to_good, loss_good, loss_bad] =
            [self.to_bad, self.to_good, self.loss_good, self.loss_bad].map(Probability::as_f64);
        let bad = if to_bad == 0.0 { 0.0 } else { to_bad / (to_bad + to_good) };
        bad * loss_bad + (1.0 - bad) * loss_good
    }
}

/// The state of the chain. It outlives a change of its parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LossProcess {
    bad: bool,
    random: Random,
}

impl LossProcess {
    pub(crate) fn new(random: Random) -> Self {
        LossProcess { bad: false, random }
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
        }
    }
}
