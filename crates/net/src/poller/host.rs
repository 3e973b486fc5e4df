//! The machine as a poller needs it: time, and wake-ups. [`Host`], and [`Linux`].

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use softtimers::Token;
use softtimers::clock::Monotonic;
use softtimers::epoll::{Epoll, Events, Waiting};
use softtimers::late::cpu_time;
use softtimers_core::{Clock, Timestamp};
use softtimers_linux::interrupts::{Interrupts, switches};
use softtimers_linux::sched::TimerSlack;
use softtimers_poll::SourceId;

use super::device::Device;
use super::devices::Devices;
use super::gauge::Gauge;

/// The machine that a [`Poller`](super::Poller) runs on: Linux, or a [simulated](super::simulated) one.
pub trait Host<D: Device> {
    /// Returns the present time.
    fn now(&self) -> Timestamp;

    /// A count of CPU time that grows while this thread works.
    fn cpu_time(&self) -> Duration;

    /// The time that the interrupt takes by which a sleep ends, of which [`cpu_time`](Host::cpu_time) does not know.
    fn timer_cost(&mut self) -> Duration {
        Duration::ZERO
    }

    /// Times that this thread lost its CPU, if `cpu_time` leaves out the interrupts that come meanwhile.
    fn switches(&self) -> Option<u64> {
        None
    }

    /// A device was added. Its wake-up is disabled.
    ///
    /// # Errors
    /// If it cannot be watched.
    fn add(&mut self, id: SourceId, device: &mut D) -> io::Result<()>;

    /// Enables a device's wake-up, and says whether its ring is still empty; if not, the wake-up is disabled again.
    ///
    /// # Errors
    /// The system's error.
    fn arm(&mut self, id: SourceId, device: &mut D) -> io::Result<bool>;

    /// A turn used up its quota: the device will be looked at for a while, and wake-ups that are disabled should cost
    /// nothing.
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

    /// A device is removed: nothing of it may wake a wait any more, or only under its name, which is then nobody's.
    fn remove(&mut self, id: SourceId, device: &mut D);

    /// A queue behind some device was attached: its gauge is to wake a wait.
    ///
    /// # Errors
    /// If it cannot be watched.
    fn add_queue(&mut self, gauge: &Gauge) -> io::Result<()> {
        let _ = gauge;
        Ok(())
    }

    /// A queue was detached.
    fn remove_queue(&mut self, gauge: &Gauge) {
        let _ = gauge;
    }

    /// Returns whether nothing else wants a CPU, so that a share left to others would be nobody's. `false` if that is
    /// not known.
    fn is_idle(&mut self) -> bool {
        false
    }

    /// Sleeps until something wakes it, or `until` (`None`: for ever; a time that has passed: not at all), and
    /// adds what woke it to `woken`. A device's wake-up is disabled by coming.
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
    /// A queue was drained to its low mark.
    pub drained: bool,
}

/// Linux: devices are descriptors, and their wake-ups one-shot events of `epoll`.
///
/// A one-shot event is what an interrupt handler leaves that does not enable interrupts again: it comes once, and
/// then the poller is left alone until it has found nothing more to do (livelock §6.4). Enabling it looks at the
/// descriptor, so that what came before is seen.
///
/// The kernel calls epoll for each packet of a descriptor that it watches, though nobody is to be woken up. So a device
/// that uses up its quota is not watched until its wake-up is enabled again.
#[derive(Debug)]
pub struct Linux {
    epoll: Epoll,
    /// By device: whether it is watched.
    watched: Vec<bool>,
    ready: Events,
    /// `/proc/loadavg`, if it was wanted and is there.
    load: Option<Option<File>>,
    /// Since they were wanted.
    interrupts: Option<Interrupts>,
    _slack: Option<TimerSlack>,
}

impl Linux {
    /// Nothing is watched yet. Sets this thread's timer slack to 1 ns; dropping restores it.
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

    /// Measured when it is asked for first: 1 ms.
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

    /// The descriptor may be gone already; an event that is left has a name that is nobody's.
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

    /// Nothing runs but this thread, on any CPU. Others that run may have CPUs of their own, or be bound to
    /// this one; that is not told apart.
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

/// The fourth figure of `/proc/loadavg`: how many threads run or could run, this one among them, on all CPUs.
fn is_alone(loadavg: &File) -> bool {
    let mut text = [0; 96];
    let read = loadavg.read_at(&mut text, 0).unwrap_or(0);
    let mut figures = text[..read].split(|&byte| byte == b' ');
    figures.nth(3).is_some_and(|running| running.starts_with(b"1/"))
}

/// Tokens from here on name devices.
const DEVICES: u64 = 1 << 32;
/// All queues: which one it was is seen by looking at their gauges. No source has this number: there are fewer.
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
        // Whatever this machine says: it says something, or nothing is assumed.
        let mut linux = Linux::new().unwrap();
        let _ = <Linux as Host<crate::poller::UdpDevice>>::is_idle(&mut linux);
        assert!(linux.load.is_some());
    }
}
