//! Whether the receiver that has agreed is still there: [`Watch`].
//!
//! A receiver renews its consent a few times a second while traffic comes. A thread of its own reads its answers: no
//! engine has to, whether it computes, waits or sends from a signal's handler, and a run ends as a signal would end it.
//!
//! ```text
//!   round     │  1  │  2  │  3  │  4  │  5  │  6  │  7  │  8  │     250 ms each
//!   renewed   │ ● ● │  ●  │     │     │     │     │     │     │
//!   asked     │     │     │     ▲     ▲     ▲     ▲     ▲     ▲     after a round without an answer
//!             │           └────── seven rounds without one ───┘▶ the run ends
//! ```
//!
//! It asks where nothing was heard, so also where there is nothing to send; while traffic flows and its answers come, it
//! sends nothing. Rounds are counted, not time: a process that was stopped has not listened meanwhile.
//!
//! It sleeps in `poll` and reads all that comes at once. Anybody can send in the receiver's name, and the answers must not be
//! dropped because such datagrams fill the receive buffer between two looks.

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
    /// Begins with an agreement just made on this socket, which does not block. The thread is what this one is now: if
    /// that is to be kept on a CPU, or to have another slice, then afterwards.
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

/// The receiver, as its answers tell of it.
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
            // Without room for it now, there will be in the next round.
            let _ = self.socket.send(&self.agreement.renewal().encode());
        }
        false
    }

    /// Takes what comes in a round; whether the receiver was among it, or `None` if the run is over.
    fn listen(&self, over: &UnixStream) -> Option<bool> {
        let end = Monotonic.now() + ROUND;
        let mut renewed = false;
        loop {
            let left = end.saturating_duration_since(Monotonic.now());
            let mut waited = [PollFd::new(over, PollFlags::IN), PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut waited, left.try_into().ok().as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                // Out of memory: the round is not to be one of looks without a pause.
                Err(_) => std::thread::park_timeout(left),
            }
            if !waited[0].revents().is_empty() {
                return None;
            }
            if waited[1].revents().contains(PollFlags::ERR) {
                self.hear_refusal();
            }
            // Also what came while this process was stopped, past the round's end.
            renewed |= self.is_renewed();
            if left.is_zero() {
                return Some(renewed);
            }
        }
    }

    /// Takes the error that the socket has met, and then empties the queue of them: they would wake this thread for
    /// ever, and take the room of answers. In this order, since the one that leaves the queue last takes the socket's
    /// with it, and neither this thread nor the sender would hear that nobody listens.
    fn hear_refusal(&self) {
        if let Ok(Some(error)) = self.socket.take_error()
            && error.kind() == io::ErrorKind::ConnectionRefused
        {
            self.refusals.heard(1, Some(&error));
        }
        let queued = || recv(&self.socket, &mut [0u8; 0], RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT);
        (0..AT_ONCE).take_while(|_| queued().is_ok()).for_each(drop);
    }

    /// Takes what has come; whether the receiver was among it.
    fn is_renewed(&self) -> bool {
        let mut renewed = false;
        for _ in 0..AT_ONCE {
            let mut answer = [0; MIN_SIZE];
            match self.socket.recv(&mut answer) {
                Ok(length) => renewed |= self.agreement.is_renewed_by(&answer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Of an earlier datagram, and the sender will not hear of it any more.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.refusals.heard(1, Some(&error));
                }
                // There is no way. It may pass.
                Err(_) => {}
            }
        }
        renewed
    }
}

/// The least silence that ends a run, which is less than 2 s.
pub(super) const SILENCE: Duration = ROUND.saturating_mul(MOST_SILENT);

const ROUND: Duration = Duration::from_millis(250);
const MOST_SILENT: u32 = 7;
/// Before the clock is asked for the round's end: whoever sends without a pause keeps nobody here.
const AT_ONCE: u32 = 1_024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::{self, ask};
    use crate::recv::agreements::Consent;
    use crate::wire::Datagram;
    use softtimers_measure::interrupt::Interrupt;

    /// A sender whose receiver has just agreed, that receiver and its answer.
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
        let agreement = ask(&sender, 1, Duration::ZERO, handshake::PATIENCE).unwrap();
        sender.set_nonblocking(true).unwrap();
        (sender, agreement, agreed.join().unwrap())
    }

    /// With each answer a hundred forged datagrams: they fill the buffer of a socket that is looked at now and then.
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

    /// The sender asks for every error of its socket, and whoever takes one from the queue takes it from the sender.
    #[test]
    fn a_refusal_that_only_the_watch_can_hear_is_told() {
        let (sender, agreement, (receiver, _)) = agreed();
        let sender = softtimers_net::UdpSocket::from(sender);
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
