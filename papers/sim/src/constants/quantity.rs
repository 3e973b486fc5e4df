//! The types of constants, and how their values are shown.

use std::time::Duration;

use crate::engine::arrivals::Bursts;
use crate::setting::Setting;

/// A type of constants.
pub(super) trait Quantity: Copy {
    fn shown(self) -> String;

    /// The value as that of a flag, if it can be one.
    fn setting(self) -> Option<Setting>;
}

impl Quantity for u64 {
    fn shown(self) -> String {
        self.to_string()
    }

    fn setting(self) -> Option<Setting> {
        Some(Setting::Count(self))
    }
}

impl Quantity for u32 {
    fn shown(self) -> String {
        self.to_string()
    }

    fn setting(self) -> Option<Setting> {
        Some(Setting::Count(self.into()))
    }
}

impl Quantity for f64 {
    fn shown(self) -> String {
        self.to_string()
    }

    fn setting(self) -> Option<Setting> {
        Some(Setting::Real(self))
    }
}

/// Stated in microseconds.
impl Quantity for Duration {
    fn shown(self) -> String {
        (self.as_nanos() as f64 / 1e3).to_string()
    }

    fn setting(self) -> Option<Setting> {
        Some(Setting::Time(self))
    }
}

/// The seven numbers in a row.
impl Quantity for Bursts {
    fn shown(self) -> String {
        let Bursts { train, gap, gap_even, trains, pause, pause_even, alone } = self;
        let (gap, pause) = (gap.as_micros(), pause.as_micros());
        format!("{train} × {gap} ({gap_even}), {trains} × {pause} ({pause_even}), {alone}")
    }

    fn setting(self) -> Option<Setting> {
        None
    }
}
