//! Watching whether the agreed receiver is still there: [`Watch`].
//!
//! A receiver renews its consent a few times a second while traffic comes. A separate thread reads its answers, so no
//! engine has to, whether it computes, waits or sends from a signal's handler; and it ends a run as a signal would.
//!
//! ```text
//!   round     │  1  │  2  │  3  │  4  │  5  │  6  │  7  │  8  │     250 ms each
//!   renewed   │ ● ● │  ●  │     │     │     │     │     │     │
//!   asked     │     │     │     ▲     ▲     ▲     ▲     ▲     ▲     after a round without an answer
//!             │           └────── seven rounds without one ───┘▶ the run ends
//! ```
//!
//! It asks only after a round without an answer, so also when there is nothing to send; while traffic flows and answers
//! come, it sends nothing. It counts rounds, not time: a process that was stopped has not listened meanwhile.
//!
//! It sleeps in `poll` and reads everything that comes at once. Any host can forge the receiver's address, and such
//! datagrams must not fill the receive buffer between two checks, where they would displace answers.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use softtimers::Monotonic;
use softtimers_core::Clock;

use super::refusals::Refusals;
use crate::handshake::Agreement;
use crate::wire::MIN_SIZE;
use softtimers_measure::interrupt::StopHandle;

/// Ends the run if its receiver has gone.
#[derive(Debug)]
pub(super) struct Watch {
    /// Closed when the run is over.
    over: UnixStream,
    thread: JoinHandle<bool>,
}

impl Watch {
    /// Starts with an agreement just made on this non-blocking socket. The thread inherits this one's current settings:
    /// pin this one to a CPU, or change its slice, only afterwards.
    pub(super) fn start(
        agreement: Agreement,
        socket: &impl AsFd,
        refusals: Arc<Refusals>,
        stop: StopHandle,
    ) -> io::Result<Self> {
        let socket = UdpSocket::from(socket.as_fd().try_clone_to_owned()?);
        let (over, wait) = UnixStream::pair()?;
        let receiver = Receiver { agreement, socket, refusals };
        let watching = move || receiver.watch(&wait, &stop);
        let thread = thread::Builder::new().name("receiver".to_owned()).spawn(watching)?;
        Ok(Watch { over, thread })
    }

    /// Returns whether it has ended the run.
    pub(super) fn finish(self) -> bool {
        drop(self.over);
        self.thread.join().unwrap_or(false)
    }
}

/// The receiver, as known from its answers.
struct Receiver {
    agreement: Agreement,
    socket: UdpSocket,
    refusals: Arc<Refusals>,
}

impl Receiver {
    fn watch(&self, over: &UnixStream, stop: &StopHandle) -> bool {
        let mut silent = 0;
        while let Some(renewed) = self.listen(over) {
            if renewed {
                silent = 0;
                continue;
            }
            silent += 1;
            if silent == MOST_SILENT {
                stop.end();
                return true;
            }
            // If there is no room now, the next round tries again.
            let _ = self.socket.send(&self.agreement.renewal().encode());
        }
        false
    }

    /// Reads what comes in a round; returns whether the receiver answered, or `None` if the run is over.
    fn listen(&self, over: &UnixStream) -> Option<bool> {
        let end = Monotonic.now() + ROUND;
        let mut renewed = false;
        loop {
            let left = end.saturating_duration_since(Monotonic.now());
            let mut waited = [PollFd::new(over, PollFlags::IN), PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut waited, left.try_into().ok().as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                // Out of memory: the round must not poll without a pause.
                Err(_) => std::thread::park_timeout(left),
            }
            if !waited[0].revents().is_empty() {
                return None;
            }
            if waited[1].revents().contains(PollFlags::ERR) {
                self.hear_refusal();
            }
            // Also reads what came while this process was stopped, past the round's end.
            renewed |= self.is_renewed();
            if left.is_zero() {
                return Some(renewed);
            }
        }
    }

    /// Takes the socket's pending error, and then empties its error queue, which would wake this thread for ever and
    /// use up the room of answers. In this order, since removing the last entry of the queue also clears the socket's
    /// error, and then neither this thread nor the sender would learn that the port is closed.
    fn hear_refusal(&self) {
        if let Ok(Some(error)) = self.socket.take_error()
            && error.kind() == io::ErrorKind::ConnectionRefused
        {
            self.refusals.heard(1, Some(&error));
        }
        let queued = || recv(&self.socket, &mut [0u8; 0], RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT);
        (0..AT_ONCE).take_while(|_| queued().is_ok()).for_each(drop);
    }

    /// Reads what has come; returns whether the receiver answered.
    fn is_renewed(&self) -> bool {
        let mut renewed = false;
        for _ in 0..AT_ONCE {
            let mut answer = [0; MIN_SIZE];
            match self.socket.recv(&mut answer) {
                Ok(length) => renewed |= self.agreement.is_renewed_by(&answer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The error of an earlier datagram, which the sender will not see any more.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.refusals.heard(1, Some(&error));
                }
                // There is no route. That may pass.
                Err(_) => {}
            }
        }
        renewed
    }
}

/// The shortest silence that ends a run: less than 2 s.
pub(super) const SILENCE: Duration = ROUND.saturating_mul(MOST_SILENT);

const ROUND: Duration = Duration::from_millis(250);
const MOST_SILENT: u32 = 7;
/// The most reads between two clock readings: a sender without pauses cannot keep the thread here.
const AT_ONCE: u32 = 1_024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::{self, ask};
    use crate::recv::agreements::Consent;
    use crate::wire::Datagram;
    use softtimers_measure::interrupt::Interrupt;

    /// Returns a sender whose receiver has just agreed, that receiver, and its answer.
    fn agreed() -> (UdpSocket, Agreement, (UdpSocket, Vec<u8>)) {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let agreed = std::thread::spawn(move || {
            let consent = Consent::new();
            loop {
                let mut bytes = [0; MIN_SIZE];
                let (_, peer) = receiver.recv_from(&mut bytes).unwrap();
                let Ok(Datagram::Hello(hello)) = Datagram::parse(&bytes) else { panic!() };
                let welcome = consent.welcome(peer, &hello).encode();
                receiver.send_to(&welcome, peer).unwrap();
                if hello.token.is_some() {
                    return (receiver, welcome.to_vec());
                }
            }
        });
        let agreement = ask(&sender, 1, Duration::ZERO, handshake::USUAL_PATIENCE).unwrap();
        sender.set_nonblocking(true).unwrap();
        (sender, agreement, agreed.join().unwrap())
    }

    /// With each answer a hundred forged datagrams: they fill the buffer of a socket that is read only now and then.
    #[test]
    fn answers_are_heard_among_what_is_sent_in_the_receivers_name() {
        let (sender, agreement, (receiver, welcome)) = agreed();
        let peer = sender.local_addr().unwrap();
        let interrupt = Interrupt::deaf().unwrap();
        let forged = Datagram::Busy { nonce: 0 }.encode();
        let forge = |many| (0..many).for_each(|_| drop(receiver.send_to(&forged, peer)));
        forge(400);
        let watch =
            Watch::start(agreement, &sender, Arc::default(), interrupt.stop_handle().unwrap()).unwrap();
        for _ in 0..150 {
            forge(100);
            receiver.send_to(&welcome, peer).unwrap();
            std::thread::park_timeout(Duration::from_millis(20));
        }
        assert!(!interrupt.arrived(), "it has answered all the time");
        while !interrupt.arrived() {
            forge(100);
            std::thread::park_timeout(Duration::from_millis(20));
        }
        assert!(watch.finish(), "now it has not");
    }

    /// The sender collects every error of its socket, so a reader that takes one from the queue takes it from the
    /// sender.
    #[test]
    fn a_refusal_that_only_the_watch_can_hear_is_told() {
        let (sender, agreement, (receiver, _)) = agreed();
        let sender = softtimers_net::udp::UdpSocket::from(sender);
        sender.report_queue_drops(true).unwrap();
        let interrupt = Interrupt::deaf().unwrap();
        let refusals = Arc::<Refusals>::default();
        let stop = interrupt.stop_handle().unwrap();
        let watch = Watch::start(agreement, &sender, Arc::clone(&refusals), stop).unwrap();
        drop(receiver);
        sender.send(&[0; MIN_SIZE]).unwrap();
        while refusals.count() == 0 {
            assert!(!interrupt.arrived(), "it has ended the run without a word of the refusal");
            std::thread::park_timeout(Duration::from_millis(1));
        }
        drop(watch);
    }
}
