//! When devices are looked after whose rings can stop without a word: [`Watchdog`].
//!
//! A wake-up says that something came. A ring that takes nothing any more has none to send, and a poller that sleeps until
//! one comes would sleep for ever. So such devices are asked now and then, and a sleep ends in time for that.

use std::io;
use std::time::Duration;

use softtimers_core::Timestamp;

use super::device::Device;
use super::devices::Devices;

/// One deadline for all devices that want it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watchdog {
    /// The shortest period that was asked for, and when it is over next.
    next: Option<(Duration, Timestamp)>,
}

impl Watchdog {
    /// A device was added.
    pub(super) fn add<D: Device>(&mut self, device: &D, now: Timestamp) {
        let Some(period) = device.watchdog_period() else { return };
        let period = self.next.map_or(period, |(other, _)| period.min(other));
        self.next = Some((period, now + period));
    }

    /// Returns when devices are to be looked after next.
    pub(super) fn at(&self) -> Option<Timestamp> {
        self.next.map(|(_, at)| at)
    }

    /// A sleep until then, or until this is due.
    pub(super) fn bound(&self, until: Option<Timestamp>) -> Option<Timestamp> {
        until.into_iter().chain(self.at()).min()
    }

    /// Looks after all devices if it is time; when none of them wants it any more, never again.
    ///
    /// # Errors
    /// The first of a device; the others were looked after, too.
    pub(super) fn visit<D: Device>(&mut self, devices: &mut Devices<D>, now: Timestamp) -> io::Result<()> {
        if self.at().is_none_or(|at| now < at) {
            return Ok(());
        }
        let (mut period, mut found): (Option<Duration>, _) = (None, Ok(()));
        for (_, device) in devices.iter_mut() {
            let Some(wanted) = device.watchdog_period() else { continue };
            period = Some(period.map_or(wanted, |other| wanted.min(other)));
            found = found.and(device.watchdog());
        }
        self.next = period.map(|period| (period, now + period));
        found
    }
}

/// The period that devices of interfaces want: packets that come within one or two of these may be lost, and a wake-up
/// in each costs nothing that can be measured.
#[cfg(feature = "packet")]
pub(super) const PERIOD: Duration = Duration::from_secs(1);
