//! The configuration of a run: [`Config`].

use std::time::Duration;

use softtimers_poll::{CpuLimitConfig, FeedbackConfig, Quota};

use super::costs::Costs;
use super::generator::Spacing;
use crate::RunError;
use crate::choice::choices;
use crate::constants::Livelock;
use crate::machine::{Hardware, Priorities};

choices! {
    /// The kernel of the router.
    pub(crate) enum Kernel {
        /// Digital UNIX V3.2 as it was (figure 2, 6-1).
        Unmodified = "unmodified",
        /// The modified kernel configured to act like it (figure 5, 6-3).
        NoPolling = "no-polling",
        /// The modified kernel (§6.4).
        Polled = "polled",
        /// The earlier prototype: everything runs at the device's priority and blocks all other work (§5.3).
        HighIpl = "high-ipl",
        /// Polling only by the clock: clocked interrupts (§10).
        Clocked = "clocked",
    }
}

impl Kernel {
    /// Returns whether packets are taken by a polling loop.
    pub(crate) fn polls(self) -> bool {
        matches!(self, Kernel::Polled | Kernel::HighIpl | Kernel::Clocked)
    }
}

choices! {
    /// The destination of packets.
    pub(crate) enum Consumer {
        /// The kernel forwards it.
        Kernel = "kernel",
        /// A process decides whether it may be forwarded (§6.2).
        Screend = "screend",
        /// A process writes it down (§9).
        Monitor = "monitor",
    }
}

choices! {
    /// The priority of the transmit interrupt, relative to the receive interrupt (§4.4).
    pub(crate) enum TransmitPriority {
        /// Both have the same priority, and the driver looks for received packets first.
        Equal = "equal",
        /// It waits until no received packet is left.
        Lower = "lower",
        /// It interrupts receiving.
        Higher = "higher",
    }
}

/// The machine, its kernel and its load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Config {
    /// The constants of the machine.
    pub(crate) machine: Livelock,
    /// Its interrupt priorities.
    pub(crate) priorities: Priorities,
    pub(crate) kernel: Kernel,
    /// The destination of packets.
    pub(crate) consumer: Consumer,
    /// Packets in one turn of the polled kernels.
    pub(crate) quota: Quota,
    /// The quota is set by [`AutoQuota`](softtimers_poll::AutoQuota), starting from `quota`.
    pub(crate) auto_quota: bool,
    /// A turn takes its quota also if input is shut meanwhile.
    pub(crate) runs_on: bool,
    /// Input is closed by the queue to the process.
    pub(crate) feedback: Option<FeedbackConfig>,
    /// Input is closed by the CPU time it takes.
    pub(crate) limit: Option<CpuLimitConfig>,
    /// The period of the clocked kernel.
    pub(crate) period: Duration,
    /// A process computes without end.
    pub(crate) user: bool,
    /// The driver of the interrupt-driven kernels takes all waiting packets in one interrupt.
    pub(crate) batching: bool,
    /// The priority of their transmit interrupt (§4.4).
    pub(crate) transmit: TransmitPriority,
    /// Their receive interrupt does all of IP, instead of queueing packets for a thread below it (§4.4).
    pub(crate) to_completion: bool,
    /// Packets are handed to the transmitter while it is active (§8.2).
    pub(crate) eager: bool,
    /// The cost of each step, in % of the paper's.
    pub(crate) percent: u32,
    /// The cost of queueing a packet for the process, and of the packet in it, if that is not screend.
    pub(crate) process: Option<(Duration, Duration)>,
    /// The rate in packets a second.
    pub(crate) rate: u64,
    /// The spacing of packets.
    pub(crate) spacing: Spacing,
    /// Room in the interface.
    pub(crate) ring: u32,
    /// Room in the queue to the process.
    pub(crate) queue: u32,
    /// The time before the measurement, in which queues fill and an automatic quota settles.
    pub(crate) warm_up: Duration,
    /// The measured time.
    pub(crate) duration: Duration,
}

impl Config {
    /// Creates the configuration of a kernel at a rate, with the paper's values for the rest.
    pub(crate) fn new(kernel: Kernel, rate: u64) -> Self {
        let Hardware { constants, priorities, .. } = Hardware::PAPERS;
        let machine = constants.livelock;
        Config {
            machine,
            priorities,
            kernel,
            consumer: Consumer::Kernel,
            quota: Quota::new(5, 5),
            runs_on: false,
            auto_quota: false,
            feedback: None,
            limit: None,
            period: Duration::from_millis(1),
            user: false,
            batching: true,
            transmit: TransmitPriority::Equal,
            to_completion: false,
            eager: false,
            percent: 100,
            process: None,
            rate,
            spacing: Spacing::Varied,
            ring: machine.ring,
            queue: machine.process_queue,
            warm_up: WARM_UP,
            duration: Duration::from_secs(2),
        }
    }

    /// Returns the same on another machine, with its ring and queue sizes.
    #[must_use]
    pub(crate) fn on(self, hardware: &Hardware) -> Self {
        let (machine, priorities) = (hardware.constants.livelock, hardware.priorities);
        Config { machine, priorities, ring: machine.ring, queue: machine.process_queue, ..self }
    }

    /// Returns the packets per second that fit on its wire.
    pub(crate) fn most(&self) -> u64 {
        (1_000_000_000 / self.machine.wire.as_nanos().max(1)) as u64
    }

    /// Rejects a higher rate than that.
    pub(crate) fn checked(self) -> Result<Self, RunError> {
        let (rate, most) = (self.rate, self.most());
        if rate > most {
            return Err(RunError::new(format_args!(
                "rate {rate}: from 0 to {most} packets a second fit on the wire"
            )));
        }
        Ok(self)
    }

    /// The costs of its steps.
    pub(crate) fn costs(&self) -> Costs {
        let costs = match self.kernel {
            Kernel::Unmodified => Costs::unmodified(&self.machine),
            Kernel::NoPolling => Costs::no_polling(&self.machine),
            Kernel::Polled | Kernel::HighIpl | Kernel::Clocked => Costs::polling(&self.machine),
        };
        let (queue, process) = self.process.unwrap_or((costs.queue, costs.process));
        Costs { queue, process, ..costs }.times(self.percent)
    }
}

/// The warm-up of every run but those of recordings, which are measured from their first packet on.
pub(crate) const WARM_UP: Duration = Duration::from_millis(200);
