//! Published networks, under a name: [`PROFILES`].
//!
//! Each has one network's published figures and nothing else: rate in both directions, round trip and loss. Unpublished
//! values are not set. Those of Wi-Fi are presets of other tools, all others were measured.

use std::time::Duration;

use softtimers_wan::{Bottleneck, Loss, PathConfig, Probability, Way};

/// A published network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    down_kbit: u64,
    up_kbit: u64,
    /// The round-trip time; `None` if it was not published.
    rtt_us: Option<u64>,
    /// Loss in each direction, in parts per million; zero if it was not published.
    lost_ppm: u32,
}

/// All profiles, each with its source.
pub(crate) const PROFILES: [Profile; 7] = [
    // Ofcom, research of October and December 2014, as reported by 4g5gworld.com.
    Profile { name: "3g", down_kbit: 5_900, up_kbit: 1_600, rtt_us: Some(63_500), lost_ppm: 0 },
    Profile { name: "4g", down_kbit: 14_700, up_kbit: 13_600, rtt_us: Some(53_100), lost_ppm: 0 },
    // Ookla, T-Mobile US, first half of 2024, as reported by rcrwireless.com; all over 5G.
    Profile { name: "5g", down_kbit: 265_800, up_kbit: 14_560, rtt_us: Some(47_000), lost_ppm: 0 },
    // Sundaresan et al., SIGCOMM 2011: at the gateway of one home with DSL of 6 Mbit/s.
    Profile { name: "dsl", down_kbit: 5_600, up_kbit: 460, rtt_us: None, lost_ppm: 0 },
    // Ookla, Starlink in the United States, second quarter of 2022, as reported by teslanorth.com and, the round trip, by
    // marylandcrabbowl.com.
    Profile { name: "satellite", down_kbit: 62_500, up_kbit: 7_200, rtt_us: Some(48_000), lost_ppm: 0 },
    // The preset "Wi-Fi" of Firefox's network monitor, according to its documentation.
    Profile { name: "wifi", down_kbit: 30_000, up_kbit: 15_000, rtt_us: Some(2_000), lost_ppm: 0 },
    // The preset "WIFI (good)" of Comcast, a wrapper of tc, according to its README: one figure for both directions.
    Profile { name: "lossy-wifi", down_kbit: 30_000, up_kbit: 30_000, rtt_us: Some(40_000), lost_ppm: 2_000 },
];

impl Profile {
    /// Returns the profile of this name.
    ///
    /// # Errors
    /// The known names.
    pub(crate) fn named(name: &str) -> Result<Profile, String> {
        PROFILES.into_iter().find(|profile| profile.name == name).ok_or_else(|| {
            let names: Vec<_> = PROFILES.iter().map(|profile| profile.name).collect();
            format!("no profile {name:?}; there are {}", names.join(", "))
        })
    }

    /// Sets one direction of a path to the published figures.
    pub(crate) fn apply(self, way: Way, path: &mut PathConfig) {
        let kbit = if way == Way::Up { self.up_kbit } else { self.down_kbit };
        // Only zero is an invalid rate.
        path.bottleneck = Bottleneck::bits_per_second(kbit * 1_000).unwrap_or(Bottleneck::NONE);
        if let Some(rtt) = self.rtt_us {
            path.delay = Duration::from_micros(rtt / 2);
        }
        if let Some(lost) = Probability::per_million(self.lost_ppm).ok().filter(|_| self.lost_ppm > 0) {
            path.loss = Loss::Random(lost);
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
        assert!(paths.iter().all(|path| path.loss == Loss::None));
        Profile::named("lossy-wifi").unwrap().apply(Way::Up, &mut paths[0]);
        assert_eq!(paths[0].loss, Loss::Random(Probability::per_million(2_000).unwrap()));
        assert_eq!(
            Profile::named("6g").unwrap_err(),
            "no profile \"6g\"; there are 3g, 4g, 5g, dsl, satellite, wifi, lossy-wifi"
        );
    }
}
