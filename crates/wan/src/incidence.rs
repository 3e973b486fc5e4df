//! How often something happens to packets, independently or in runs: [`Incidence`].

use softtimers_core::Random;

use crate::Probability;

/// A share of packets, and their correlation.
///
/// ```
/// use softtimers_wan::{Incidence, Probability};
///
/// let [share, half] = [Probability::per_million(1_000)?, Probability::once_in(2)];
/// assert_eq!(Incidence::from(share), Incidence { share, correlation: Probability::NEVER });
/// assert_eq!(Incidence::from(share).correlated(half).correlation, half);
/// # Ok::<(), softtimers_wan::ProbabilityError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Incidence {
    /// The share of affected packets in the long run.
    pub share: Probability,
    /// The correlation with the packet before: after an affected one, the next is affected with probability share +
    /// correlation · (1 − share). The share stays as configured; netem's formula changes it.
    pub correlation: Probability,
}

impl Incidence {
    /// Affects no packet.
    pub const NEVER: Incidence = Incidence { share: Probability::NEVER, correlation: Probability::NEVER };

    /// Returns the same share with this correlation.
    #[must_use]
    pub const fn correlated(self, correlation: Probability) -> Self {
        Incidence { correlation, ..self }
    }

    /// Returns the probability for the next packet, given the one before.
    fn chance(&self, before: Option<bool>) -> Probability {
        const BILLION: u64 = 1_000_000_000;
        match (before, self.share, self.correlation) {
            (None, ..) | (_, Probability::NEVER | Probability::ALWAYS, _) | (.., Probability::NEVER) => {
                self.share
            }
            (Some(before), share, correlation) => {
                let [share, like] = [share, correlation].map(|part| u64::from(part.parts_per_billion()));
                let parts = share * (BILLION - like) / BILLION + if before { like } else { 0 };
                Probability::per_billion(parts as u32).unwrap_or(Probability::ALWAYS)
            }
        }
    }
}

impl From<Probability> for Incidence {
    fn from(share: Probability) -> Self {
        Incidence { share, correlation: Probability::NEVER }
    }
}

/// Decides which packets are affected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct IncidenceProcess {
    before: Option<bool>,
    /// Also used for the effect itself.
    pub(crate) random: Random,
}

impl IncidenceProcess {
    pub(crate) fn new(random: Random) -> Self {
        IncidenceProcess { before: None, random }
    }

    /// Says whether the next packet is affected.
    pub(crate) fn next(&mut self, incidence: &Incidence) -> bool {
        let happens = incidence.chance(self.before).happens(&mut self.random);
        self.before = Some(happens);
        happens
    }
}
