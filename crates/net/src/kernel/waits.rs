//! Waiting for events.

use std::time::Duration;

use softtimers::Monotonic;
use softtimers::epoll::{Epoll, Events, Waiting};
use softtimers_core::Clock;
use softtimers_linux::sched::TimerSlack;

use super::{Outcome, duration_text};
use crate::trying::Trying;

/// Waits for half a millisecond, which `epoll_wait` could not.
pub(super) fn epoll_pwait2() -> Outcome {
    let mut epoll = Epoll::new(Waiting::Pwait2).trying("an epoll descriptor")?;
    let mut events = Events::with_capacity(1);
    // Without it the wait may be longer; it is not part of the probe.
    let _slack = TimerSlack::hold(Duration::from_nanos(1));
    let start = Monotonic.now();
    epoll.wait(&mut events, Some(WAIT)).trying("epoll_pwait2")?;
    let waited = Monotonic.now().saturating_duration_since(start);
    match epoll.waiting() {
        Waiting::Pwait2 if waited >= WAIT => {
            Ok(format!("a wait of {} took {}", duration_text(WAIT), duration_text(waited)))
        }
        Waiting::Pwait2 => {
            Err(format!("a wait of {} took only {}", duration_text(WAIT), duration_text(waited)))
        }
        Waiting::Ppoll => {
            Err("refused by the kernel (before 5.11) or a sandbox; ppoll serves instead".to_owned())
        }
    }
}

const WAIT: Duration = Duration::from_micros(500);
