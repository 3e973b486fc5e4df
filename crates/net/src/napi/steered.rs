//! [`Steered`]: the queue of an event loop's sockets, polled when a policy says.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use softtimers::{EventLoop, SoftTimers, Timestamp};
use softtimers_poll::{Aggregation, Look, Next, Policy};

use super::{Driven, Queue};

/// Polls the receive queue of the sockets that an event loop serves, at the times of a policy.
///
/// Call [`before_next`](Self::before_next) before each [`EventLoop::next`]: a trigger state, at which a poll that is due is
/// made. A loop of your own calls [`poll`](Self::poll) when [`poll_at`](Self::poll_at) is due, between handlers, and
/// when nothing is left to handle; then it looks for ready sockets without sleeping. If there are none, it polls again
/// unless it [`may_sleep`](Self::may_sleep): then it calls [`idle`](Self::idle), and sleeps until `poll_at`.
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::{TcpListener, TcpStream};
/// use softtimers::{Config, EventLoop, Happening, Interest, LoopConfig, SoftTimers, Token};
/// use softtimers_net::napi::{Driven, Queue, Steered};
/// use softtimers_poll::{Aggregation, AggregationConfig};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let mut client = TcpStream::connect(listener.local_addr()?)?;
/// let mut connection = listener.accept()?.0;
/// client.write_all(b"x")?;
///
/// let (mut events, mut timers) = (EventLoop::new(LoopConfig::default())?, SoftTimers::<()>::new(Config::default()));
/// events.register(&connection, Token(1), Interest::Readable)?;
/// Queue::prepare(&connection)?;
/// let config = AggregationConfig::default();
/// let mut queue = Steered::new(Aggregation::new(config), config.longest);
/// loop {
///     queue.before_next(&mut events, &timers, &connection)?;
///     match events.next(&mut timers)? {
///         Happening::Ready { token: Token(1), .. } => break assert_eq!(connection.read(&mut [0; 9])?, 1),
///         _ => {}
///     }
/// }
/// // Loopback has no queue.
/// assert!(matches!(queue.driven(), Driven::FellBack(_)) && queue.poll_at().is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Steered<P = Aggregation> {
    queue: Option<Queue>,
    fell_back: Option<io::Error>,
    max_delay: Duration,
    policy: P,
    began: Timestamp,
    in_vain: InVain,
    /// Ready sources that the event loop had handed out at the last poll.
    handed_out: u64,
}

impl<P: Policy> Steered<P> {
    /// Makes one that does not know its queue. A packet that nobody polls for is received by the kernel after
    /// `max_delay`: give at least the policy's longest delay, such as [`BACKUP`](super::BACKUP).
    pub fn new(policy: P, max_delay: Duration) -> Self {
        let (began, in_vain) = (Timestamp::ZERO, InVain::default());
        Steered { queue: None, fell_back: None, max_delay, policy, began, in_vain, handed_out: 0 }
    }

    /// Polls if that is due, or if the loop has nothing to hand out: then until it has, an event of `timers` is due, or
    /// interrupts are back. Returns when to poll next, for a soft event if the loop may sleep until then. `socket` is as
    /// for [`poll`](Self::poll).
    ///
    /// # Errors
    /// As [`EventLoop::next`].
    pub fn before_next<E>(
        &mut self,
        events: &mut EventLoop,
        timers: &SoftTimers<E>,
        socket: &impl AsFd,
    ) -> io::Result<Option<Timestamp>> {
        let mut now = events.now();
        self.busy(now, socket);
        while self.poll_at().is_some_and(|at| at <= now) || events.ready()? == 0 {
            let found = events.stats().handed_out - self.handed_out;
            self.handed_out += found;
            self.poll(now, socket, u32::try_from(found).unwrap_or(u32::MAX));
            let is_ready = events.ready()? > 0;
            now = events.now();
            if is_ready || timers.poll_at().is_some_and(|at| at <= now) {
                break;
            }
            if self.may_sleep(now) {
                self.idle(now, socket);
                break;
            }
        }
        Ok(self.poll_at())
    }

    /// Polls, through `socket`: a [prepared](Queue::prepare) one of the loop's, that has received something and has
    /// nothing to be received now, such as the one that was handled last. `found` is how many sockets were ready since
    /// the last poll. Returns `false`, and does nothing, while interrupts are on; they stay on where there is no queue.
    pub fn poll(&mut self, now: Timestamp, socket: &impl AsFd, found: u32) -> bool {
        self.began = now;
        self.policy.looked(&Look { began: now, ended: now, found });
        self.busy(now, socket);
        self.is_polled() && Queue::poll(socket)
    }

    /// Notes that the last poll was in vain, and ended at `now`. Returns whether the loop may sleep: not until such polls have
    /// taken a quarter of a millisecond, since a saturated loop has moments without work.
    pub fn may_sleep(&mut self, now: Timestamp) -> bool {
        !self.is_polled() || self.in_vain.is_enough(self.began, now)
    }

    /// Notes that the loop is about to sleep, at `now`: if the policy wants wake-ups, interrupts come back.
    pub fn idle(&mut self, now: Timestamp, socket: &impl AsFd) {
        if let (Next::Armed, Some(queue)) = (self.policy.idle(now), &mut self.queue) {
            let outcome = queue.idle(socket);
            self.keep(outcome);
        }
    }

    /// Returns when to poll next, as the due time of a soft timer; `None`: interrupts are on.
    pub fn poll_at(&self) -> Option<Timestamp> {
        match self.policy.next() {
            _ if !self.is_polled() => None,
            Next::At(at) => Some(at),
            Next::Now => Some(self.began),
            Next::Watched(time) => Some(self.began + time),
            Next::Armed => None,
        }
    }

    /// Returns how packets are received now.
    pub fn driven(&self) -> Driven {
        match &self.fell_back {
            Some(error) => Driven::FellBack(io::Error::new(error.kind(), error.to_string())),
            None if self.is_polled() => Driven::Polls,
            None => Driven::Interrupts,
        }
    }

    /// Returns whether interrupts are deferred.
    pub fn is_polled(&self) -> bool {
        self.queue.as_ref().is_some_and(Queue::is_polled)
    }

    /// Notes a look that no idle time preceded; the first one finds the queue.
    fn busy(&mut self, now: Timestamp, socket: &impl AsFd) {
        let outcome = match &mut self.queue {
            _ if self.fell_back.is_some() => return,
            Some(queue) => queue.busy(now),
            none => Queue::of(socket, self.max_delay).map(|queue| *none = Some(queue)),
        };
        self.keep(outcome);
    }

    fn keep(&mut self, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            (self.queue, self.fell_back) = (None, Some(error));
        }
    }
}

/// The time that polls in vain took, of the present millisecond.
#[derive(Clone, Copy, Debug, Default)]
struct InVain {
    since: Timestamp,
    spent: Duration,
}

impl InVain {
    /// Adds a poll. A CPU that spends a quarter of its time so is better interrupted.
    fn is_enough(&mut self, began: Timestamp, ended: Timestamp) -> bool {
        if began.saturating_duration_since(self.since) > COUNTED_WITHIN {
            *self = InVain { since: began, spent: Duration::ZERO };
        }
        self.spent += ended.saturating_duration_since(began);
        self.spent > MOST_IN_VAIN
    }
}

const COUNTED_WITHIN: Duration = Duration::from_millis(1);
/// Less than what interrupts would cost in such a time.
const MOST_IN_VAIN: Duration = Duration::from_micros(250);
