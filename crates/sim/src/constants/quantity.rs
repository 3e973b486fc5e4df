//! What a constant can be.

use std::time::Duration;

use softtimers_poll::Factor;

use crate::arrivals::Bursts;
use crate::parameter::Setting;

/// A type of constants: shown, changed, and as a flag's value.
pub(super) trait Quantity: Copy {
    fn shown(self) -> String;

    /// So many percent more.
    #[must_use]
    fn changed(self, percent: u32) -> Self;

    fn setting(self) -> Option<Setting> {
        None
    }
}

impl Quantity for u64 {
    fn shown(self) -> String {
        self.to_string()
    }

    fn changed(self, percent: u32) -> Self {
        self + (self * u64::from(percent) / 100).max(1)
    }

    fn setting(self) -> Option<Setting> {
        Some(Setting::Count(self))
    }
}

impl Quantity for u32 {
    fn shown(self) -> String {
        self.to_string()
    }

    fn changed(self, percent: u32) -> Self {
        self + (self * percent / 100).max(1)
    }

    fn setting(self) -> Option<Setting> {
        Some(Setting::Count(self.into()))
    }
}

impl Quantity for f64 {
    fn shown(self) -> String {
        self.to_string()
    }

    fn changed(self, percent: u32) -> Self {
        self * (1.0 + f64::from(percent) / 100.0)
    }

    fn setting(self) -> Option<Setting> {
        Some(Setting::Real(self))
    }
}

/// In microseconds.
impl Quantity for Duration {
    fn shown(self) -> String {
        (self.as_nanos() as f64 / 1e3).to_string()
    }

    fn changed(self, percent: u32) -> Self {
        self + (self * percent / 100).max(Duration::from_nanos(1))
    }

    fn setting(self) -> Option<Setting> {
        Some(Setting::Time(self))
    }
}

/// The seven numbers in a row; longer trains are a change.
impl Quantity for Bursts {
    fn shown(self) -> String {
        let Bursts { train, gap, gap_even, trains, pause, pause_even, alone } = self;
        let (gap, pause) = (gap.as_micros(), pause.as_micros());
        format!("{train} × {gap} ({gap_even}), {trains} × {pause} ({pause_even}), {alone}")
    }

    fn changed(self, percent: u32) -> Self {
        Bursts { train: Factor::thousandths(self.train.get() + self.train.get() * percent / 100), ..self }
    }
}
