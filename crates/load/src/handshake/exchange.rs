//! A question on a connected socket, and its answers until a deadline: what every exchange with a receiver is made of.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use softtimers::Monotonic;
use softtimers_core::{Clock, Timestamp};

use super::Refusal;
use crate::receipt::Receipt;

/// Returns when to stop waiting for the answer to a question that is asked now.
pub(super) fn deadline(attempt: u32) -> Timestamp {
    Monotonic.now() + (FIRST_WAIT * 2u32.saturating_pow(attempt.min(8))).min(LONGEST_WAIT)
}

/// Sends a question, which is repeated if there is no room for it.
pub(super) fn say(socket: &impl AsFd, question: &[u8], closed: &mut bool) -> Result<(), Refusal> {
    match send(socket, question, SendFlags::empty()) {
        // An error here belongs to the previous question: the port was closed then.
        Err(Errno::CONNREFUSED) => *closed = true,
        Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS) => {}
        Err(error) => return Err(Refusal::System(error.into())),
    }
    Ok(())
}

/// Hears answers until one is what was asked for, or the deadline.
pub(super) fn listen<T>(
    socket: &impl AsFd,
    deadline: Timestamp,
    closed: &mut bool,
    mut hear: impl FnMut(&[u8]) -> Result<Option<T>, Refusal>,
) -> Result<Option<T>, Refusal> {
    // At least once: an answer may have come while this process was kept from its CPU.
    for looks in 0u32.. {
        let left = deadline.saturating_duration_since(Monotonic.now());
        if left.is_zero() && looks > 0 {
            break;
        }
        let mut waited = [PollFd::new(socket, PollFlags::IN)];
        match poll(&mut waited, left.try_into().ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Refusal::System(error.into())),
        }
        let mut answer = [0; Receipt::SIZE];
        match recv(socket, &mut answer, RecvFlags::DONTWAIT) {
            Ok((length, _)) => {
                if let Some(found) = hear(&answer[..length])? {
                    return Ok(Some(found));
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::CONNREFUSED) => *closed = true,
            Err(error) => return Err(Refusal::System(error.into())),
        }
    }
    Ok(None)
}

const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Short, so that a receiver that was busy is asked again soon.
const LONGEST_WAIT: Duration = Duration::from_millis(400);
