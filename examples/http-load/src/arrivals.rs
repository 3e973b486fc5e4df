//! When requests leave: with the constant gaps of a rate, or those of a Poisson process.

use std::iter::successors;
use std::str::FromStr;
use std::time::Duration;

use softtimers_core::Random;

pub(crate) const CONNECTIONS: u32 = 64;

/// The distribution of requests over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrivals {
    Poisson,
    Constant,
}

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "poisson" => Ok(Arrivals::Poisson),
            "constant" => Ok(Arrivals::Constant),
            _ => Err(format!("{name}: arrivals are constant or poisson")),
        }
    }
}

/// A load of requests for a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Requests a second, of all connections together.
    pub(crate) rate: u32,
    pub(crate) arrivals: Arrivals,
    pub(crate) time: Duration,
}

impl Load {
    /// Returns the times at which a connection's requests should leave, relative to the start.
    pub(crate) fn places(self, number: u32) -> impl Iterator<Item = Duration> {
        let mean = Duration::from_secs(1) * CONNECTIONS / self.rate;
        let mut random = Random::stream(1999, number.into());
        let mut gap = move || match self.arrivals {
            Arrivals::Constant => mean,
            Arrivals::Poisson => {
                let share = random.next_u64() as f64 / u64::MAX as f64;
                mean.mul_f64(-(1.0 - share).max(1e-12).ln())
            }
        };
        // At a constant rate the connections take turns.
        let first = if self.arrivals == Arrivals::Constant { mean * number / CONNECTIONS } else { gap() };
        successors(Some(first), move |place| Some(*place + gap())).take_while(move |place| *place < self.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The connections take turns: together they send one request per gap of the rate. A Poisson process has other
    /// gaps.
    #[test]
    fn a_constant_rate_is_constant_over_all_connections() {
        let places = |arrivals| {
            let asked = Load { rate: 1_000, arrivals, time: Duration::from_secs(1) };
            let mut places: Vec<_> = (0..CONNECTIONS).flat_map(|number| asked.places(number)).collect();
            places.sort_unstable();
            places
        };
        let gap = Duration::from_millis(1);
        let constant = places(Arrivals::Constant);
        assert_eq!(constant.len(), 1_000);
        assert!(constant.windows(2).all(|two| two[1] - two[0] == gap));
        assert!(places(Arrivals::Poisson).windows(2).any(|two| two[1] - two[0] < gap / 2));
        assert!("bursts".parse::<Arrivals>().is_err());
    }
}
