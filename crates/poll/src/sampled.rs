//! [`Sampled`]: detects that packet code monopolises the CPU, without a fine clock.
//!
//! If a counter cannot be read at each turn, a clock tick can check what it interrupted (livelock §5.1).
//! Several ticks in a row that find packet code mean that it has the CPU to itself; then input is shut for a
//! few ticks.

use super::{Input, Preset};
use softtimers_core::Timestamp;

/// The number of ticks that decide, and the number for which input is then shut; both at least one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SampledConfig {
    /// Ticks in a row that find packet code.
    pub hits: u32,
    /// Ticks for which input is shut.
    pub pause: u32,
}

impl SampledConfig {
    /// The paper says "several" and "a few": 3 and 2. No measurement contradicts that.
    pub const fn preset(_: Preset) -> Self {
        SampledConfig { hits: 3, pause: 2 }
    }
}

impl Default for SampledConfig {
    fn default() -> Self {
        SampledConfig::preset(Preset::Measured)
    }
}

/// The results of the last ticks.
///
/// ```
/// use softtimers_poll::{Input, Sampled, SampledConfig};
///
/// let mut sampled = Sampled::new(SampledConfig { hits: 3, pause: 2 });
/// let open = [true, true, false, true, true, true, false, false].map(|packet_code| {
///     sampled.tick(packet_code) == Input::Open
/// });
/// assert_eq!(open, [true, true, true, true, true, false, false, true]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampled {
    config: SampledConfig,
    hits: u32,
    shut: u32,
}

impl Sampled {
    /// Makes a detector without ticks.
    pub const fn new(config: SampledConfig) -> Self {
        Sampled { config, hits: 0, shut: 0 }
    }

    /// Records a tick of the clock, and whether it interrupted packet code. Input that is shut opens at a
    /// later tick, so it is shut until [`Timestamp::MAX`].
    pub fn tick(&mut self, in_packet_code: bool) -> Input {
        if self.shut > 0 {
            self.shut -= 1;
            return self.input();
        }
        self.hits = if in_packet_code { self.hits.saturating_add(1) } else { 0 };
        if self.hits >= self.config.hits.max(1) {
            (self.hits, self.shut) = (0, self.config.pause.max(1));
        }
        self.input()
    }

    /// Returns whether input may go on.
    pub fn input(&self) -> Input {
        if self.shut > 0 { Input::Shut(Timestamp::MAX) } else { Input::Open }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ticks_in_a_row_count() {
        let mut sampled = Sampled::new(SampledConfig::default());
        for tick in 0..300 {
            assert_eq!(sampled.tick(tick % 3 != 2), Input::Open, "never three in a row");
        }
        let shut = (0..300).filter(|_| sampled.tick(true) != Input::Open).count();
        // Three hits, the last of which shuts; two ticks of pause, the last of which opens.
        assert_eq!(shut, 300 * 2 / 5);
    }
}
