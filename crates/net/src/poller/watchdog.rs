//! [`Watchdog`]: periodic checks of devices whose rings can stop silently.
//!
//! A wake-up means that a packet came. A stopped ring sends none, and a poller that sleeps until one comes
//! would sleep for ever. So such devices are checked from time to time, and a sleep ends in time for that.

use std::io;
use std::time::Duration;

use softtimers_core::Timestamp;

use super::device::Device;
use super::devices::Devices;

/// One deadline for all devices that need it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watchdog {
    /// The shortest requested period, and when it ends next.
    next: Option<(Duration, Timestamp)>,
}

impl Watchdog {
    /// Notes that a device was added.
    pub(super) fn add<D: Device>(&mut self, device: &D, now: Timestamp) {
        let Some(period) = device.watchdog_period() else { return };
        let period = self.next.map_or(period, |(other, _)| period.min(other));
        self.next = Some((period, now + period));
    }

    /// Returns when to check the devices next.
    pub(super) fn at(&self) -> Option<Timestamp> {
        self.next.map(|(_, at)| at)
    }

    /// Bounds a sleep by the next check.
    pub(super) fn bound(&self, until: Option<Timestamp>) -> Option<Timestamp> {
        until.into_iter().chain(self.at()).min()
    }

    /// Checks all devices if it is time; stops when no device needs it any more.
    ///
    /// # Errors
    /// The first error of a device; the others were checked, too.
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

/// The period of interface devices: packets of one or two periods may be lost, and a wake-up per period has
/// no measurable cost.
#[cfg(feature = "packet")]
pub(super) const PERIOD: Duration = Duration::from_secs(1);
