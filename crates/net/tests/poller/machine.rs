//! A machine with a mistake.

use std::io;
use std::time::Duration;

use crate::simulated::{Machine, SimulatedDevice};
use softtimers::Timestamp;
use softtimers_net::poller::{Devices, Host, Woken};
use softtimers_poll::SourceId;

/// Enables wake-ups and does not look whether packets came before.
pub(crate) struct Careless(pub(crate) Machine);

impl Host<SimulatedDevice> for Careless {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn cpu_time(&self) -> Duration {
        self.0.cpu_time()
    }

    fn add(&mut self, id: SourceId, device: &mut SimulatedDevice) -> io::Result<()> {
        self.0.add(id, device)
    }

    fn arm(&mut self, id: SourceId, device: &mut SimulatedDevice) -> io::Result<bool> {
        self.0.arm(id, device).map(|_| true)
    }

    fn disarm(&mut self, id: SourceId, device: &mut SimulatedDevice) -> io::Result<()> {
        self.0.disarm(id, device)
    }

    fn remove(&mut self, id: SourceId, device: &mut SimulatedDevice) {
        self.0.remove(id, device);
    }

    fn wait(
        &mut self,
        devices: &mut Devices<SimulatedDevice>,
        until: Option<Timestamp>,
        woken: &mut Woken,
    ) -> io::Result<()> {
        self.0.wait(devices, until, woken)
    }
}
