//! Properties that hold for any input, checked by the property tests and the fuzzer.

use std::time::Duration;

use crate::assertion::Assertion;
use crate::units;

/// Each parser of quantities accepts or refuses `text`, and what it accepts as a duration is shown
/// as something it reads again.
pub fn units(text: &str) {
    if let Ok(duration) = units::duration(text) {
        assert!(duration <= Duration::from_nanos(u64::MAX));
        assert_eq!(units::duration(&units::show_duration(duration)), Ok(duration));
    }
    if let Ok(rate) = units::rate(text) {
        // A rate above zero is a rate of packets, or faster than one a nanosecond.
        assert_eq!(units::rate(&rate.to_string()), Ok(rate));
        if let Ok(rate) = rate.of_packets(1_200) {
            assert!(rate.packets_per_second() > 0.0);
        }
    }
    if let Ok(percent) = units::percent(text) {
        assert!(percent.get() <= 100);
    }
    for problem in [units::bytes(text).err(), units::positive_duration(text).err()].into_iter().flatten() {
        assert!(!problem.to_string().contains('\n'));
    }
}

/// Any text is an assertion or is refused, and what is accepted is shown as the same assertion.
pub fn assertion(text: &str) {
    match text.parse::<Assertion>() {
        Ok(assertion) => assert_eq!(assertion.to_string().parse(), Ok(assertion)),
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}
