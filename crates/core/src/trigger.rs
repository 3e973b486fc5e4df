//! Trigger states: the points of a program where a check for due events is nearly free, and statistics of the
//! intervals between them.
//!
//! Soft timers §3 lists the kernel's: the end of a system call, of an exception, of an interrupt, and
//! the idle loop; §5.1 adds points inside long loops. A program in user space passes the analogous points.
//! Which ones it passes, and how often, bounds how late an event can be: no file descriptor can interrupt a
//! handler.

mod intervals;
mod web_server;

use core::ops::{Index, IndexMut};

pub use intervals::Intervals;
pub use web_server::WebServer;

/// The point of the program at which the clock was checked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
#[repr(u8)]
pub enum TriggerState {
    /// When a system call has returned.
    SyscallExit,
    /// When the kernel has reported a source ready: the counterpart of an interrupt's end in a kernel.
    Readiness,
    /// When a handler has returned to its loop.
    HandlerExit,
    /// After each packet in a loop that sends many (the paper's "ip-output").
    Send,
    /// After each step of a loop that works through a protocol's own timers ("tcpip-others").
    ProtocolTimer,
    /// Before parking, after waking, and in each turn of a loop that spins.
    Idle,
    /// When the backup has gone off: the deadline of the earliest event, or a tick.
    Backup,
}

impl TriggerState {
    /// Every trigger state, in the order of [`PerSource`].
    pub const ALL: [TriggerState; 7] = {
        use TriggerState::*;
        [SyscallExit, Readiness, HandlerExit, Send, ProtocolTimer, Idle, Backup]
    };

    /// A name for reports: lower case, words joined by `_`.
    pub const fn name(self) -> &'static str {
        match self {
            TriggerState::SyscallExit => "syscall_exit",
            TriggerState::Readiness => "readiness",
            TriggerState::HandlerExit => "handler_exit",
            TriggerState::Send => "send",
            TriggerState::ProtocolTimer => "protocol_timer",
            TriggerState::Idle => "idle",
            TriggerState::Backup => "backup",
        }
    }
}

/// One value for each [`TriggerState`].
///
/// ```
/// use softtimers_core::{PerSource, TriggerState};
///
/// let mut seen = PerSource::<u64>::default();
/// seen[TriggerState::SyscallExit] += 3;
/// seen[TriggerState::Idle] += 1;
/// assert_eq!(seen.total(), 4);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PerSource<T>([T; TriggerState::ALL.len()]);

impl<T> PerSource<T> {
    /// Makes a table of the `value` for each source.
    pub fn from_fn(value: impl FnMut(TriggerState) -> T) -> Self {
        PerSource(TriggerState::ALL.map(value))
    }

    /// Each trigger state with its value.
    pub fn iter(&self) -> impl Iterator<Item = (TriggerState, &T)> {
        TriggerState::ALL.into_iter().zip(&self.0)
    }
}

impl PerSource<u64> {
    /// The sum over all trigger states.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl<T> Index<TriggerState> for PerSource<T> {
    type Output = T;

    #[inline]
    fn index(&self, source: TriggerState) -> &T {
        &self.0[source as usize]
    }
}

impl<T> IndexMut<TriggerState> for PerSource<T> {
    #[inline]
    fn index_mut(&mut self, source: TriggerState) -> &mut T {
        &mut self.0[source as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lists_every_state_at_its_own_index() {
        for (at, source) in TriggerState::ALL.into_iter().enumerate() {
            assert_eq!(source as usize, at);
            assert!(!source.name().is_empty());
        }
    }
}
