//! The costs of the router's steps: [`Costs`], from the paper's traces of one packet (§8.1).
//!
//! The paper traced the forwarding of one packet through both kernels, instrumented, on the machine that it measured:
//!
//! ```text
//!   polling disabled   0 ─19─ lnintr ─29─ lnread ─ 142 ‖ 191 ipinput ─ 264 ip_output ─ 327 lnput ─ 444 ‖ 522 lntint ─ 633
//!   polling            0 ───── lnintr ── 53 ‖ 97 poll ─ 112 lnread ─ 166 ipinput ─ 235 ip_output ─ 294 lnput ─ 407 ─ 430
//!                      454 ─ lnintr ─ 492 ─ poll ─ 544 lntintpoll ─ 586 ─ enable ─ 597
//! ```
//!
//! Instrumentation added 1.5 µs for each call and return, several hundred in all, so the differences of these
//! times give only the steps' shares of the true costs: `trace` of [`Livelock`], one number for all steps,
//! scales them. Costs that the traces do not show are beside it in the [list of constants](crate::constants).

use std::time::Duration;

use crate::constants::Livelock;
use crate::engine::processor::Cooling;

/// The costs of the steps of a packet's path through a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Costs {
    /// A receive interrupt, without its work for packets.
    pub(crate) interrupt: Duration,
    /// A transmit interrupt, likewise.
    pub(crate) transmit_interrupt: Duration,
    /// Switching to the network's thread.
    pub(crate) switch_network: Duration,
    /// Switching to any other.
    pub(crate) switch: Duration,
    /// The cost to a thread of having been interrupted.
    pub(crate) pollution: Duration,
    /// The cost to the network's thread if a computing process had the CPU before it.
    pub(crate) user: Duration,
    /// Beside `pollution`, the cost to screend by the length of its interruption.
    pub(crate) cooling: Cooling,
    /// The driver, for each packet received.
    pub(crate) receive: Duration,
    /// IP until the route is known.
    pub(crate) input: Duration,
    /// From there to the device, or its queue.
    pub(crate) output: Duration,
    /// From there until the thread is free again.
    pub(crate) finish: Duration,
    /// Each completed transmission.
    pub(crate) transmit: Duration,
    /// A turn of receiving, whatever it finds.
    pub(crate) turn: Duration,
    /// A turn of transmitting.
    pub(crate) transmit_turn: Duration,
    /// The time to enable an interrupt.
    pub(crate) arm: Duration,
    /// Putting a packet into the queue of a process, and waking the process.
    pub(crate) queue: Duration,
    /// A packet in that process: its system call and its work.
    pub(crate) process: Duration,
    /// The time of a clock interrupt.
    pub(crate) tick: Duration,
}

impl Costs {
    /// The costs of the kernel that polls.
    pub(crate) fn polling(of: &Livelock) -> Self {
        let traced = |micros| traced(of, micros);
        Costs {
            interrupt: traced(of.polling_interrupt),
            transmit_interrupt: traced(of.polling_transmit_interrupt),
            switch_network: traced(of.polling_switch),
            switch: traced(of.polling_switch),
            pollution: of.pollution,
            user: of.user,
            cooling: Cooling { share: of.cooling, most: of.cold },
            receive: traced(of.polling_receive),
            input: traced(of.polling_input),
            output: traced(of.polling_output),
            finish: traced(of.polling_finish),
            transmit: traced(of.polling_transmit),
            turn: traced(of.polling_turn),
            transmit_turn: traced(of.polling_transmit_turn),
            arm: traced(of.polling_arm),
            queue: of.queue,
            process: of.screend,
            tick: of.tick,
        }
    }

    /// The costs of the same kernel configured to act as an unmodified one.
    pub(crate) fn no_polling(of: &Livelock) -> Self {
        let traced = |micros| traced(of, micros);
        let handled = |micros: u64| Duration::from_nanos(micros * of.handlers);
        Costs {
            interrupt: handled(of.interrupt),
            transmit_interrupt: handled(of.transmit_interrupt),
            switch_network: traced(of.switch),
            switch: traced(of.switch),
            receive: handled(of.receive),
            input: traced(of.input),
            output: traced(of.output),
            finish: traced(of.finish),
            transmit: handled(of.transmit),
            turn: Duration::ZERO,
            transmit_turn: Duration::ZERO,
            arm: Duration::ZERO,
            ..Costs::polling(of)
        }
    }

    /// The costs of the unmodified kernel: there is no trace of it, so its handlers and its threads have a
    /// factor each.
    pub(crate) fn unmodified(of: &Livelock) -> Self {
        let modified = Costs::no_polling(of);
        let (threads, handlers) = (modified.times(of.unmodified), modified.times(of.unmodified_handlers));
        Costs {
            interrupt: handlers.interrupt,
            transmit_interrupt: handlers.transmit_interrupt,
            receive: handlers.receive,
            transmit: handlers.transmit,
            switch_network: threads.switch_network,
            switch: threads.switch,
            input: threads.input,
            output: threads.output,
            finish: threads.finish,
            ..modified
        }
    }

    /// All costs, times `percent`.
    #[must_use]
    pub(crate) fn times(self, percent: u32) -> Self {
        let of = |cost: Duration| cost * percent / 100;
        Costs {
            interrupt: of(self.interrupt),
            transmit_interrupt: of(self.transmit_interrupt),
            switch_network: of(self.switch_network),
            switch: of(self.switch),
            pollution: of(self.pollution),
            user: of(self.user),
            cooling: Cooling { most: of(self.cooling.most), ..self.cooling },
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

    /// A packet through all of IP.
    pub(crate) fn forward(&self) -> Duration {
        self.input + self.output + self.finish
    }
}

/// True time of a step whose trace took `micros`.
const fn traced(of: &Livelock, micros: u64) -> Duration {
    Duration::from_nanos(micros * of.trace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::Machine;

    const PAPERS: Livelock = Machine::PAPERS.livelock;

    #[test]
    fn a_packet_alone_costs_what_the_user_loses() {
        let c = Costs::polling(&PAPERS);
        let alone = c.interrupt
            + c.switch_network
            + c.turn
            + c.receive
            + c.forward()
            + c.arm
            + c.transmit_interrupt
            + c.transmit_turn
            + c.transmit;
        assert_eq!(alone, Duration::from_nanos(573 * PAPERS.trace));
    }

    #[test]
    fn the_knob_scales_everything() {
        let (once, twice) = (Costs::unmodified(&PAPERS), Costs::unmodified(&PAPERS).times(200));
        assert_eq!(twice.forward(), once.forward() * 2);
        assert_eq!(twice.times(50), once);
    }
}
