//! Whether the receiver that has agreed is still there: [`Watch`].
//!
//! A receiver renews its consent a few times a second while traffic comes. What it says is read by a thread of its own,
//! which looks four times a second: no engine has to, whether it computes, waits or sends from a signal's handler, and a
//! run ends as a signal would end it.
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

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::handshake::Agreement;
use crate::interrupt::Ender;
use crate::wire::MIN_SIZE;

/// Ends the run if its receiver has gone.
#[derive(Debug)]
pub(super) struct Watch {
    over: Sender<()>,
    thread: JoinHandle<bool>,
}

impl Watch {
    /// Begins with an agreement just made on this socket, which does not block. The thread is what this one is now: if
    /// that is to be kept on a processor, or to have another slice, then afterwards.
    pub(super) fn start(agreement: Agreement, socket: &impl AsFd, ender: Ender) -> io::Result<Self> {
        let socket = UdpSocket::from(socket.as_fd().try_clone_to_owned()?);
        let (over, wait) = mpsc::channel();
        let thread = std::thread::spawn(move || watch(&agreement, &socket, &wait, &ender));
        Ok(Watch { over, thread })
    }

    /// Whether it has ended the run.
    pub(super) fn finish(self) -> bool {
        drop(self.over);
        self.thread.join().unwrap_or(false)
    }
}

fn watch(agreement: &Agreement, socket: &UdpSocket, over: &Receiver<()>, ender: &Ender) -> bool {
    let mut silent = 0;
    while over.recv_timeout(ROUND) == Err(RecvTimeoutError::Timeout) {
        if is_renewed(agreement, socket) {
            silent = 0;
            continue;
        }
        silent += 1;
        if silent == MOST_SILENT {
            ender.end();
            return true;
        }
        // Without room for it now, there will be in the next round.
        let _ = socket.send(&agreement.renewal().encode());
    }
    false
}

/// Takes what has come; whether the receiver was among it.
fn is_renewed(agreement: &Agreement, socket: &UdpSocket) -> bool {
    let mut renewed = false;
    for _ in 0..MOST_ANSWERS {
        let mut answer = [0; MIN_SIZE];
        match socket.recv(&mut answer) {
            Ok(length) => renewed |= agreement.is_renewed_by(&answer[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // Of an earlier datagram: nobody listens, or there is no way. It may pass.
            Err(_) => {}
        }
    }
    renewed
}

const ROUND: Duration = Duration::from_millis(250);
/// 1.75 s, and up to a round more since the receiver was heard.
const MOST_SILENT: u32 = 7;
/// A receiver sends two in a round.
const MOST_ANSWERS: u32 = 64;
