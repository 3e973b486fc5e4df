//! The gate of the connection that is calling: [`Driven`], the task of one connection, and [`with_gate`].
//!
//! quinn's interfaces do not say for which connection they are called. All connections share the socket, and
//! the congestion controller does not know the socket. But quinn drives each connection in a task of its own,
//! which it passes to [`Runtime::spawn`](quinn::Runtime::spawn), and within one poll of it everything happens
//! in turn:
//!
//! ```text
//!   poll of the task ─┬─ now, max_transmit_segments         how many packets to build
//!                     ├─ Controller::window                 the rate, if congestion control has a say
//!                     ├─ UdpPoller::poll_writable           wait, if the gate said so
//!                     └─ AsyncUdpSocket::try_send           the gate decides
//! ```
//!
//! So the task keeps the gate, and lends it to its thread while it is polled. A call outside of that,
//! such as a program's for statistics, finds none. So no rate of another connection can leak in, on this
//! thread or another; and after a migration the gate is the same.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::gate::{Gate, GateConfig};
use crate::shared::Shared;

thread_local! {
    static CURRENT: RefCell<Option<Box<Gate>>> = const { RefCell::new(None) };
}

/// Calls `use_it` with the gate of the connection that is being polled on this thread; `None` if there is
/// none.
pub(crate) fn with_gate<R>(use_it: impl FnOnce(&mut Gate) -> R) -> Option<R> {
    CURRENT.with_borrow_mut(|current| current.as_deref_mut().map(use_it))
}

impl Gate {
    /// Polls a connection as `work`; [`SmoothController`](crate::SmoothController)s that are called
    /// meanwhile, on this thread, report to this gate. For drivers of your own over quinn-proto, such as a
    /// simulation; a [`SmoothRuntime`](crate::SmoothRuntime) does it for its connections.
    pub fn drive<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let placeholder = Gate::new(GateConfig::default());
        let mut home = Some(Box::new(std::mem::replace(self, placeholder)));
        let lent = Lent::new(&mut home);
        let result = work();
        drop(lent);
        home.into_iter().for_each(|gate| *self = *gate);
        result
    }
}

/// One of quinn's futures, and its gate.
pub(crate) struct Driven {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// `None` while the future is polled.
    gate: Option<Box<Gate>>,
    shared: Arc<Shared>,
}

impl Driven {
    pub(crate) fn new(future: Pin<Box<dyn Future<Output = ()> + Send>>, shared: Arc<Shared>) -> Self {
        Driven { future, gate: Some(Box::new(Gate::new(shared.config()))), shared }
    }
}

impl Future for Driven {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Driven { future, gate, shared } = self.get_mut();
        if let Some(gate) = gate {
            gate.set_enabled(shared.is_enabled());
        }
        let lent = Lent::new(gate);
        let polled = future.as_mut().poll(cx);
        drop(lent);
        if let Some(gate) = gate {
            shared.add(gate.take_counters());
        }
        polled
    }
}

/// A gate that is lent to its thread. It is returned when this is dropped, also if a poll panics.
struct Lent<'a> {
    home: &'a mut Option<Box<Gate>>,
    /// One poll within another, as by a future that blocks on a second one.
    outer: Option<Box<Gate>>,
}

impl<'a> Lent<'a> {
    fn new(home: &'a mut Option<Box<Gate>>) -> Self {
        let outer = CURRENT.replace(home.take());
        Lent { home, outer }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        *self.home = CURRENT.replace(self.outer.take());
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use softtimers_core::Timestamp;

    use super::*;
    use crate::gate::{Verdict, Window};

    fn window(bytes: u64) -> Window {
        Window {
            bytes,
            round_trip: Duration::from_millis(20),
            first: false,
            queue: Some(Duration::ZERO),
            pacing_bps: None,
        }
    }

    fn send(gate: &mut Gate, bytes: u64) {
        gate.drive(|| {
            with_gate(|gate| gate.asked(window(bytes)));
        });
        assert_eq!(gate.offer(Timestamp::ZERO, 1, 1_200), Verdict::Leave);
        gate.departed(Timestamp::ZERO, 1, 1_200);
    }

    /// Connections take turns on a thread, and a program asks one of them for statistics in between.
    #[test]
    fn a_rate_is_told_to_its_own_gate_only() {
        let mut gates = [1, 2].map(|_| Gate::new(GateConfig::default()));
        send(&mut gates[0], 100_000);
        assert_eq!(with_gate(|gate| gate.asked(window(u64::MAX))), None);
        send(&mut gates[1], 300_000);
        let [one, two] = gates.map(|gate| gate.rate_bps().unwrap_or_default() / 1_000);
        assert_eq!([one, two], [45_000, 135_000]);
    }

    #[test]
    fn a_poll_within_a_poll_has_its_own() {
        let mut outer = Gate::new(GateConfig::default());
        let mut inner = Gate::new(GateConfig::default());
        outer.drive(|| {
            send(&mut inner, 100_000);
            with_gate(|gate| gate.asked(window(300_000)));
        });
        assert_eq!(outer.offer(Timestamp::ZERO, 1, 1_200), Verdict::Leave);
        let rates = [&outer, &inner].map(|gate| gate.rate_bps().unwrap_or_default() / 1_000);
        assert_eq!(rates, [135_000, 45_000]);
    }

    #[test]
    fn a_gate_comes_back_from_a_panic() {
        let mut home = Some(Box::new(Gate::new(GateConfig::default())));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _lent = Lent::new(&mut home);
            panic!("in a poll");
        }));
        assert!(panicked.is_err() && home.is_some());
        assert_eq!(with_gate(|_| ()), None);
    }
}
