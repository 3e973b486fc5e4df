//! What the router's steps cost: [`Costs`], from the paper's traces of one packet (§8.1).
//!
//! The paper traced the forwarding of one packet through both kernels, instrumented, on the machine that it measured:
//!
//! ```text
//!   polling disabled   0 ─19─ lnintr ─29─ lnread ─ 142 ‖ 191 ipinput ─ 264 ip_output ─ 327 lnput ─ 444 ‖ 522 lntint ─ 633
//!   polling            0 ───── lnintr ── 53 ‖ 97 poll ─ 112 lnread ─ 166 ipinput ─ 235 ip_output ─ 294 lnput ─ 407 ─ 430
//!                      454 ─ lnintr ─ 492 ─ poll ─ 544 lntintpoll ─ 586 ─ enable ─ 597
//! ```
//!
//! Instrumentation added 1.5 µs for each call and return, several hundred in all, so the differences of these times are
//! the steps' shares of the true costs, which are [`TRACE`] of them. That is one number for all steps; it is chosen so
//! that a packet alone takes the 330 µs that the user's share falls by in figure 10 (7-1 of the earlier version: 94% at
//! rest, 54% at 1,198 packets/s). What the traces do not show is named below with what it was taken from.

use std::time::Duration;

/// The steps of a packet's way through a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// A receive interrupt, without what it does for packets.
    pub interrupt: Duration,
    /// A transmit interrupt, likewise.
    pub transmit_interrupt: Duration,
    /// Switching to the network's thread.
    pub switch_network: Duration,
    /// Switching to any other.
    pub switch: Duration,
    /// What it costs a thread to have been interrupted.
    pub pollution: Duration,
    /// The driver, for each packet received.
    pub receive: Duration,
    /// IP until it knows where to.
    pub input: Duration,
    /// From there to the device, or its queue.
    pub output: Duration,
    /// From there until the thread is free again.
    pub finish: Duration,
    /// Each transmission that is finished.
    pub transmit: Duration,
    /// A turn of receiving, whatever it finds.
    pub turn: Duration,
    /// A turn of transmitting.
    pub transmit_turn: Duration,
    /// Enabling an interrupt.
    pub arm: Duration,
    /// Putting a packet into the queue of a process, and waking that.
    pub queue: Duration,
    /// A packet in that process: its system call and what it does.
    pub process: Duration,
    /// A clock interrupt.
    pub tick: Duration,
}

impl Costs {
    /// Those of the kernel that polls.
    pub const fn polling() -> Self {
        Costs {
            interrupt: traced(53),
            transmit_interrupt: traced(492 - 454),
            switch_network: traced(97 - 53),
            switch: traced(97 - 53),
            pollution: POLLUTION,
            receive: traced(166 - 112),
            input: traced(235 - 166),
            output: traced(294 - 235),
            finish: traced(407 - 294),
            transmit: traced(586 - 544),
            turn: traced(112 - 97),
            transmit_turn: traced(544 - 492 + 597 - 586),
            arm: traced(430 - 407),
            queue: QUEUE,
            process: SCREEND,
            tick: TICK,
        }
    }

    /// Those of the same kernel configured to act as an unmodified one.
    pub const fn no_polling() -> Self {
        Costs {
            interrupt: traced(29),
            transmit_interrupt: traced(544 - 522),
            switch_network: traced(191 - 142),
            switch: traced(191 - 142),
            receive: traced(142 - 29),
            input: traced(264 - 191),
            output: traced(327 - 264),
            finish: traced(444 - 327),
            transmit: traced(633 - 544),
            turn: Duration::ZERO,
            transmit_turn: Duration::ZERO,
            arm: Duration::ZERO,
            ..Costs::polling()
        }
    }

    /// Those of the unmodified kernel, whose code is somewhat shorter: in figure 5 (6-3) it forwards 4,330 packets/s
    /// where the modified one without polling forwards 3,620, both by the line through what they forward under
    /// overload.
    pub fn unmodified() -> Self {
        let Costs { queue, process, tick, pollution, .. } = Costs::polling();
        Costs { queue, process, tick, pollution, ..Costs::no_polling().times(UNMODIFIED) }
    }

    /// All of them, in so many hundredths.
    #[must_use]
    pub fn times(self, percent: u32) -> Self {
        let of = |cost: Duration| cost * percent / 100;
        Costs {
            interrupt: of(self.interrupt),
            transmit_interrupt: of(self.transmit_interrupt),
            switch_network: of(self.switch_network),
            switch: of(self.switch),
            pollution: of(self.pollution),
            receive: of(self.receive),
            input: of(self.input),
            output: of(self.output),
            finish: of(self.finish),
            transmit: of(self.transmit),
            turn: of(self.turn),
            transmit_turn: of(self.transmit_turn),
            arm: of(self.arm),
            queue: of(self.queue),
            process: of(self.process),
            tick: of(self.tick),
        }
    }

    /// A packet through the whole of IP.
    pub fn forward(&self) -> Duration {
        self.input + self.output + self.finish
    }
}

/// True time of a step whose trace took so many microseconds.
const fn traced(micros: u64) -> Duration {
    Duration::from_nanos(micros * TRACE)
}

/// Thousandths of a traced time: 324 µs of 573, the processor's time for a packet alone; see above.
pub const TRACE: u64 = 565;
/// Percent of the modified kernel's.
const UNMODIFIED: u32 = 84;
/// With two switches back to the user for each packet, what is left of the 330 µs.
const POLLUTION: Duration = Duration::from_micros(3);
/// The unmodified kernel with screend livelocks at about 6,000 packets/s (§6.2): 164 µs for a packet that is then
/// dropped, of which driver and IP take 99.
const QUEUE: Duration = Duration::from_micros(50);
/// With feedback 2,830 packets/s come through (figure 6, 6-4): 350 µs for a packet, of which 270 are spent elsewhere.
const SCREEND: Duration = Duration::from_micros(14);
/// A clock interrupt, 1,024 of them a second (Table I): one percent. The 6% that are missing with no load at all (§7)
/// are this and [`BACKGROUND`].
const TICK: Duration = Duration::from_micros(10);

/// Between two clock interrupts.
pub const TICKS: Duration = Duration::from_nanos(1_000_000_000 / 1_024);
/// System processes: so much of every 10 ms, if nothing more important runs (§7: 94% with no input).
pub const BACKGROUND: Duration = Duration::from_micros(500);
/// How often they run.
pub const BACKGROUND_PERIOD: Duration = Duration::from_millis(10);
/// A minimum-size frame with its preamble and gap at 10 Mbit/s: 84 bytes. 14,880 of them a second.
pub const WIRE: Duration = Duration::from_nanos(67_200);
/// Packets that are handed to the transmitter at once: with quotas of 10 and 20, 8.5 and 8.9 of each turn's leave
/// (figure 7, 6-5: 4,389/5,137 of 10 and 2,313/5,137 of 20).
pub const DESCRIPTORS: u32 = 8;
/// Of ipintrq and the output queues: 4.3BSD's `IFQ_MAXLEN`.
pub const IFQ: u32 = 50;
/// The interface's own: as many as a LANCE driver of the time gave it.
pub const RING: u32 = 32;
/// The queue to screend and that to tcpdump (§6.6.1, §9).
pub const SCREEN_QUEUE: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_alone_costs_what_the_user_loses() {
        let c = Costs::polling();
        let alone = c.interrupt
            + c.switch_network
            + c.turn
            + c.receive
            + c.forward()
            + c.arm
            + c.transmit_interrupt
            + c.transmit_turn
            + c.transmit;
        assert_eq!(alone, Duration::from_nanos(573 * TRACE));
    }

    #[test]
    fn the_knob_scales_everything() {
        let (once, twice) = (Costs::unmodified(), Costs::unmodified().times(200));
        assert_eq!(twice.forward(), once.forward() * 2);
        assert_eq!(twice.times(50), once);
    }
}
