//! A round of a poller: carries out the policies' actions for each device in turn, and the wait before it.

use std::io;
use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_poll::{Action, Policy, SourceId, Stage, StageEvent};

use super::devices::Installed;
use super::{Device, Host, Left, Outputs, Packet, Poller, Received, Sent, Woken};

impl<D: Device, P: Policy, H: Host<D>> Poller<D, P, H> {
    /// Called without other work: notifies the policies, which may enable wake-ups.
    pub(super) fn rest(
        &mut self,
        handler: &mut impl FnMut(Packet<'_, D::Address>, &mut Outputs<'_, D>),
    ) -> io::Result<Option<Timestamp>> {
        let now = self.host.now();
        if self.is_at_rest(now) {
            self.rounds.idle(now);
            if !self.is_at_rest(now) {
                // Arming may find packets.
                self.round(handler)?;
            }
        }
        Ok(self.poll_at(self.host.now()))
    }

    /// Returns when to poll if no wake-up comes.
    pub(super) fn poll_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.watchdog.bound(self.rounds.poll_at(now))
    }

    /// Called before a sleep: opens input that the CPU limit shut, if no other program needs the CPU.
    pub(super) fn lift_cpu_limit_if_idle(&mut self) {
        if let Some(cpu) = &mut self.cpu {
            cpu.before_sleep(&mut self.rounds, &mut self.host);
        }
    }

    /// One visit to each device.
    pub(super) fn round(
        &mut self,
        handler: &mut impl FnMut(Packet<'_, D::Address>, &mut Outputs<'_, D>),
    ) -> io::Result<()> {
        self.stats.rounds += 1;
        let now = self.host.now();
        self.check_limits(now);
        if let Some(cpu) = &mut self.cpu {
            cpu.begin(&self.host);
        }
        self.watchdog.visit(&mut self.devices, now)?;
        loop {
            let now = self.host.now();
            match self.rounds.action(now) {
                Action::Receive { source, quota } => {
                    let packets = self.receive(source, quota, handler)?;
                    self.log(Stage::Receive, source, now, packets);
                }
                Action::Transmit { source, quota } => {
                    let packets = self.transmit(source, quota)?;
                    self.log(Stage::Transmit, source, now, packets);
                }
                Action::Arm { source } => {
                    let Some(device) = self.devices.get_mut(source) else { continue };
                    let empty = self.host.arm(source, device)?;
                    self.rounds.armed(source, self.host.now(), empty);
                    self.log(Stage::Arm, source, now, 0);
                }
                Action::Disarm { source } => {
                    let Some(device) = self.devices.get_mut(source) else { continue };
                    self.host.disarm(source, device)?;
                    self.log(Stage::Shut, source, now, 0);
                }
                Action::Rest(_) => {
                    if let Some(cpu) = &mut self.cpu {
                        cpu.charge(&mut self.rounds, &self.host);
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Logs a stage that began at `begin` and ends now.
    fn log(&mut self, stage: Stage, source: SourceId, begin: Timestamp, packets: usize) {
        if let Some(log) = &mut self.stages {
            let end = self.host.now();
            log.record(StageEvent { stage, source, begin, end, packets: packets as u32 });
        }
    }

    fn receive(
        &mut self,
        source: SourceId,
        quota: u32,
        handler: &mut impl FnMut(Packet<'_, D::Address>, &mut Outputs<'_, D>),
    ) -> io::Result<usize> {
        let Self { rounds, devices, stages, .. } = self;
        let Some((mut others, Installed { device, tally, .. })) = devices.split(source) else { return Ok(0) };
        let received = device.poll_rx(quota as usize, |packet, own| {
            if let Some(arrived) = packet.arrived {
                rounds.arrived(source, arrived);
                if let Some(log) = stages {
                    let stage = Stage::Arrival;
                    log.record(StageEvent { stage, source, begin: arrived, end: arrived, packets: 1 });
                }
            }
            handler(packet, &mut Outputs { own, from: source, tally, others: others.reborrow() });
        });
        let now = self.host.now();
        let turn = match &received {
            Ok(turn) => *turn,
            // The turn is over, and the device is polled again.
            Err(_) => Received { done: 0, more: true },
        };
        self.rounds.received(source, now, turn.done as u32, turn.more);
        let received = match received {
            Ok(turn) if turn.more => match self.devices.get_mut(source) {
                Some(device) => self.host.busy(source, device).map(|()| turn),
                None => Ok(turn),
            },
            other => other,
        };
        for place in self.devices.places() {
            if std::mem::take(&mut place.tally.wanted) {
                self.rounds.transmit_wanted(place.id);
            }
        }
        self.queues.iter_mut().for_each(|queue| _ = queue.check(now, &mut self.rounds));
        received.map(|turn| turn.done)
    }

    fn transmit(&mut self, source: SourceId, quota: u32) -> io::Result<usize> {
        let Some(device) = self.devices.get_mut(source) else { return Ok(0) };
        let sent = device.poll_tx(quota as usize);
        let now = self.host.now();
        let again = match &sent {
            Ok(Sent { left: Left::Nothing, .. }) => None,
            Ok(Sent { left: Left::More, .. }) => Some(now),
            Ok(Sent { left: Left::Blocked, .. }) | Err(_) => Some(now + RETRY),
        };
        self.rounds.transmitted(source, again);
        let Sent { done, left } = sent?;
        self.stats.sent += done as u64;
        self.stats.blocked += u64::from(left == Left::Blocked);
        Ok(done)
    }

    fn check_limits(&mut self, now: Timestamp) {
        self.queues.iter_mut().for_each(|queue| _ = queue.check(now, &mut self.rounds));
        if let Some(cpu) = &mut self.cpu {
            cpu.check(&mut self.rounds, now);
        }
    }

    /// Returns whether there is no work now.
    fn is_at_rest(&self, now: Timestamp) -> bool {
        self.rounds.poll_at(now).is_none_or(|time| time > now)
    }

    /// Collects wake-ups, sleeping until `until`.
    pub(super) fn look(&mut self, until: Option<Timestamp>) -> io::Result<()> {
        let sleeps = until.is_none_or(|until| until > self.host.now());
        if !sleeps && !self.watching && !self.rounds.any_armed() {
            return Ok(());
        }
        self.stats.sleeps += u64::from(sleeps);
        self.woken.drained = false;
        self.host.wait(&mut self.devices, until, &mut self.woken)?;
        if let Some(cpu) = self.cpu.as_mut().filter(|_| sleeps && self.woken == Woken::default()) {
            cpu.timed_out(&mut self.host);
        }
        let now = self.host.now();
        while let Some(source) = self.woken.sources.pop() {
            self.rounds.woken(source, now);
            self.log(Stage::WakeUp, source, now, 0);
        }
        Ok(())
    }
}

/// The time until a full output is tried again: a few packets later at most rates, and rarely enough to cost
/// little.
const RETRY: Duration = Duration::from_micros(100);
