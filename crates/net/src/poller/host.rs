//! [`Host`]: the machine's clock and wake-ups, as a poller needs them; and [`Linux`].

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use softtimers::Monotonic;
use softtimers::Token;
use softtimers::epoll::{Epoll, Events, Waiting};
use softtimers::late::cpu_time;
use softtimers_core::{Clock, Timestamp};
use softtimers_linux::interrupts::{Interrupts, switches};
use softtimers_linux::sched::TimerSlack;
use softtimers_poll::SourceId;

use super::device::Device;
use super::devices::Devices;
use super::gauge::Gauge;

/// The machine that a [`Poller`](super::Poller) runs on: Linux, or a simulated one in tests.
pub trait Host<D: Device> {
    /// Returns the present time.
    fn now(&self) -> Timestamp;

    /// Returns a count of CPU time that grows while this thread works.
    fn cpu_time(&self) -> Duration;

    /// Returns the time of the interrupt that ends a sleep, which [`cpu_time`](Host::cpu_time) does not
    /// include.
    fn timer_cost(&mut self) -> Duration {
        Duration::ZERO
    }

    /// Returns how often this thread lost its CPU, if `cpu_time` leaves out the interrupts that come
    /// meanwhile.
    fn switches(&self) -> Option<u64> {
        None
    }

    /// Called when a device is added, with its wake-up disabled.
    ///
    /// # Errors
    /// If it cannot be watched.
    fn add(&mut self, id: SourceId, device: &mut D) -> io::Result<()>;

    /// Enables a device's wake-up, and returns whether its ring is still empty; if not, disables the wake-up
    /// again.
    ///
    /// # Errors
    /// The system's error.
    fn arm(&mut self, id: SourceId, device: &mut D) -> io::Result<bool>;

    /// Called when a turn used up its quota: the device will be polled for a while, and its disabled wake-up
    /// should cost nothing.
    ///
    /// # Errors
    /// The system's error.
    fn busy(&mut self, id: SourceId, device: &mut D) -> io::Result<()> {
        let _ = (id, device);
        Ok(())
    }

    /// Disables a device's wake-up.
    ///
    /// # Errors
    /// The system's error.
    fn disarm(&mut self, id: SourceId, device: &mut D) -> io::Result<()>;

    /// Called when a device is removed: it must not wake a wait any more, except under its old id, which is
    /// ignored.
    fn remove(&mut self, id: SourceId, device: &mut D);

    /// Called when a queue is attached: its gauge must wake a wait.
    ///
    /// # Errors
    /// If it cannot be watched.
    fn add_queue(&mut self, gauge: &Gauge) -> io::Result<()> {
        let _ = gauge;
        Ok(())
    }

    /// Called when a queue is detached.
    fn remove_queue(&mut self, gauge: &Gauge) {
        let _ = gauge;
    }

    /// Returns whether no other program needs a CPU, so that a share left for others would be wasted. `false`
    /// if unknown.
    fn is_idle(&mut self) -> bool {
        false
    }

    /// Sleeps until an event wakes it, or `until` (`None`: for ever; a passed time: not at all), and adds the
    /// events to `woken`. A device's wake-up disables itself when it comes.
    ///
    /// # Errors
    /// The system's error.
    fn wait(
        &mut self,
        devices: &mut Devices<D>,
        until: Option<Timestamp>,
        woken: &mut Woken,
    ) -> io::Result<()>;
}

/// The events that woke a wait.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Woken {
    /// Devices whose wake-up came.
    pub sources: Vec<SourceId>,
    /// Other descriptors that are ready.
    pub others: Vec<Token>,
    /// Whether a queue was drained to its low mark.
    pub drained: bool,
}

/// Linux: devices are descriptors, and their wake-ups one-shot events of `epoll`.
///
/// A one-shot event works like an interrupt handler that does not re-enable interrupts: it comes once, and
/// then not until the poller has run out of work (livelock §6.4). Enabling it checks the descriptor, so that
/// earlier packets are seen.
///
/// The kernel calls epoll for each packet of a watched descriptor, even if there is no wake-up. So a device
/// that uses up its quota is not watched until its wake-up is enabled again.
#[derive(Debug)]
pub struct Linux {
    epoll: Epoll,
    /// By device: whether it is watched.
    watched: Vec<bool>,
    ready: Events,
    /// `/proc/loadavg`, if it was needed and exists.
    load: Option<Option<File>>,
    /// Set once they were needed.
    interrupts: Option<Interrupts>,
    _slack: Option<TimerSlack>,
}

impl Linux {
    /// Makes a host that watches nothing. Sets this thread's timer slack to 1 ns; dropping restores it.
    ///
    /// # Errors
    /// If the kernel refuses another descriptor.
    pub fn new() -> io::Result<Self> {
        Ok(Linux {
            epoll: Epoll::new(Waiting::Pwait2)?,
            watched: Vec::new(),
            ready: Events::with_capacity(64),
            load: None,
            interrupts: None,
            _slack: TimerSlack::hold(Duration::from_nanos(1)).ok(),
        })
    }

    pub(super) fn watch(&self, source: BorrowedFd<'_>, token: Token) -> io::Result<()> {
        if token.0 >= DEVICES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "tokens are below 2^32"));
        }
        self.epoll.add(source, token.0, EventFlags::IN)
    }

    pub(super) fn unwatch(&self, source: BorrowedFd<'_>) -> io::Result<()> {
        self.epoll.delete(source)
    }
}

impl AsFd for Linux {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl<D: Device + AsFd> Host<D> for Linux {
    fn now(&self) -> Timestamp {
        Monotonic.now()
    }

    fn cpu_time(&self) -> Duration {
        cpu_time()
    }

    /// Measured at the first call, which takes 1 ms.
    fn timer_cost(&mut self) -> Duration {
        self.interrupts.get_or_insert_with(|| Interrupts::measure().unwrap_or_default()).timer
    }

    fn switches(&self) -> Option<u64> {
        self.interrupts.filter(|interrupts| interrupts.left_out).map(|_| switches())
    }

    fn add(&mut self, id: SourceId, device: &mut D) -> io::Result<()> {
        self.epoll.add(device.as_fd(), id.to_bits(), EventFlags::ONESHOT)?;
        self.watched.resize(self.watched.len().max(id.index() + 1), false);
        self.watched[id.index()] = true;
        Ok(())
    }

    fn arm(&mut self, id: SourceId, device: &mut D) -> io::Result<bool> {
        let (fd, armed) = (device.as_fd(), EventFlags::IN | EventFlags::ONESHOT);
        if self.watched[id.index()] {
            self.epoll.modify(fd, id.to_bits(), armed)?;
        } else {
            self.epoll.add(fd, id.to_bits(), armed)?;
            self.watched[id.index()] = true;
        }
        let empty = device.arm()?;
        if !empty {
            <Self as Host<D>>::disarm(self, id, device)?;
        }
        Ok(empty)
    }

    fn busy(&mut self, id: SourceId, device: &mut D) -> io::Result<()> {
        if std::mem::replace(&mut self.watched[id.index()], false) {
            self.epoll.delete(device.as_fd())?;
        }
        Ok(())
    }

    fn disarm(&mut self, id: SourceId, device: &mut D) -> io::Result<()> {
        if self.watched[id.index()] {
            self.epoll.modify(device.as_fd(), id.to_bits(), EventFlags::ONESHOT)?;
        }
        Ok(())
    }

    /// The descriptor may be gone already; an event that is left has a dead id.
    fn remove(&mut self, id: SourceId, device: &mut D) {
        if std::mem::replace(&mut self.watched[id.index()], false) {
            let _ = self.epoll.delete(device.as_fd());
        }
    }

    fn add_queue(&mut self, gauge: &Gauge) -> io::Result<()> {
        self.epoll.add(gauge.as_fd(), QUEUES, EventFlags::IN | EventFlags::ET)
    }

    fn remove_queue(&mut self, gauge: &Gauge) {
        let _ = self.epoll.delete(gauge.as_fd());
    }

    /// Returns whether no other thread runs, on any CPU. It does not distinguish threads with CPUs of their
    /// own from those bound to this one.
    ///
    /// # Cost
    /// Reads `/proc/loadavg`: some microseconds.
    fn is_idle(&mut self) -> bool {
        self.load.get_or_insert_with(|| File::open("/proc/loadavg").ok()).as_ref().is_some_and(is_alone)
    }

    fn wait(&mut self, _: &mut Devices<D>, until: Option<Timestamp>, woken: &mut Woken) -> io::Result<()> {
        let timeout = until.map(|until| until.saturating_duration_since(Monotonic.now()));
        self.epoll.wait(&mut self.ready, timeout)?;
        for event in self.ready.iter() {
            match SourceId::from_bits(event.token) {
                _ if event.token == QUEUES => woken.drained = true,
                None => woken.others.push(Token(event.token)),
                Some(source) => woken.sources.push(source),
            }
        }
        Ok(())
    }
}

/// Reads the fourth figure of `/proc/loadavg`: the number of runnable threads on all CPUs, including this
/// one.
fn is_alone(loadavg: &File) -> bool {
    let mut text = [0; 96];
    let read = loadavg.read_at(&mut text, 0).unwrap_or(0);
    let mut figures = text[..read].split(|&byte| byte == b' ');
    figures.nth(3).is_some_and(|running| running.starts_with(b"1/"))
}

/// Tokens from here on name devices.
const DEVICES: u64 = 1 << 32;
/// The token of all queues: their gauges show which one it was. No source has this number: there are fewer.
const QUEUES: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_idle_if_one_thread_runs_and_that_is_this_one() {
        let path = std::env::temp_dir().join(format!("softtimers-loadavg-{}", std::process::id()));
        let said = |text: &str| {
            std::fs::write(&path, text).unwrap();
            is_alone(&File::open(&path).unwrap())
        };
        assert!(said("0.08 0.03 0.05 1/94 22188\n"));
        for text in
            ["1.08 0.03 0.05 2/94 22188\n", "9.00 9.00 9.00 11/94 1\n", "1/94", "", "1/1 1/1 1/1 0/1 1/1"]
        {
            assert!(!said(text), "{text}");
        }
        std::fs::remove_file(&path).unwrap();
        // Any result of this machine is fine; without one, it is assumed not idle.
        let mut linux = Linux::new().unwrap();
        let _ = <Linux as Host<crate::poller::UdpDevice>>::is_idle(&mut linux);
        assert!(linux.load.is_some());
    }
}
