//! Networks that somebody has measured, under a name: [`PROFILES`].
//!
//! Each is one network's figures as they were published, and nothing else: rate both ways and round trip. What was not
//! published, such as loss, is not set.

use std::time::Duration;

use softtimers_wan::{Bottleneck, PathConfig, Way};

/// A measured network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    down_kbit: u64,
    up_kbit: u64,
    /// `None` where the publication has none.
    rtt_us: Option<u64>,
}

/// All of them. Their sources stand in docs/wan.md.
pub(crate) const PROFILES: [Profile; 5] = [
    // Ofcom, research of October and December 2014, as reported by 4g5gworld.com.
    Profile { name: "3g", down_kbit: 5_900, up_kbit: 1_600, rtt_us: Some(63_500) },
    Profile { name: "4g", down_kbit: 14_700, up_kbit: 13_600, rtt_us: Some(53_100) },
    // Ookla, T-Mobile US, first half of 2024, as reported by rcrwireless.com; all over 5G.
    Profile { name: "5g", down_kbit: 265_800, up_kbit: 14_560, rtt_us: Some(47_000) },
    // Sundaresan et al., SIGCOMM 2011: at the gateway of one home with DSL of 6 Mbit/s.
    Profile { name: "dsl", down_kbit: 5_600, up_kbit: 460, rtt_us: None },
    // Ookla, Starlink in the United States, second quarter of 2022, as reported by teslanorth.com and, the round trip, by
    // marylandcrabbowl.com.
    Profile { name: "satellite", down_kbit: 62_500, up_kbit: 7_200, rtt_us: Some(48_000) },
];

impl Profile {
    /// The profile of this name.
    ///
    /// # Errors
    /// The names that there are.
    pub(crate) fn named(name: &str) -> Result<Profile, String> {
        PROFILES.into_iter().find(|profile| profile.name == name).ok_or_else(|| {
            let names: Vec<_> = PROFILES.iter().map(|profile| profile.name).collect();
            format!("no profile {name:?}; there are {}", names.join(", "))
        })
    }

    /// Makes one direction of a path what was measured.
    pub(crate) fn apply(self, way: Way, path: &mut PathConfig) {
        let kbit = if way == Way::Up { self.up_kbit } else { self.down_kbit };
        // Zero alone is no rate.
        path.bottleneck = Bottleneck::bits_per_second(kbit * 1_000).unwrap_or(Bottleneck::NONE);
        if let Some(rtt) = self.rtt_us {
            path.delay = Duration::from_micros(rtt / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_gets_its_own_rate() {
        let mut paths = [PathConfig::default(), PathConfig::default()];
        let profile = Profile::named("3g").unwrap();
        profile.apply(Way::Up, &mut paths[0]);
        profile.apply(Way::Down, &mut paths[1]);
        assert_eq!(paths.clone().map(|path| path.bottleneck.mean_bps()), [Some(1_600_000), Some(5_900_000)]);
        assert_eq!(paths[0].delay + paths[1].delay, Duration::from_micros(63_500));
        assert_eq!(
            Profile::named("6g").unwrap_err(),
            "no profile \"6g\"; there are 3g, 4g, 5g, dsl, satellite"
        );
    }
}
