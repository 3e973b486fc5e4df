//! `softtimers pace`: the TCP connections of a command, paced from their first packet.
//!
//! ```text
//!   this process                                    what it starts
//!   ├─ BPF programs, a cgroup, its guard ─────────▶ guard: waits for the end of its stdin, then ends and removes the cgroup
//!   ├─ in that cgroup for a moment ───────────────▶ CMD and its children
//!   └─ sandbox; waits, serves the control socket, counts
//! ```
//!
//! The paper's rate-based clocking (soft timers, 4.1 and 5.7) sends at the rate that is known of a path instead of probing
//! for it in slow start. Here the kernel's own TCP does it: the window that the path holds, from the first packet on, and
//! the pace that keeps it from being a burst.
//!
//! Without the rights for BPF it sees the command's sockets by other means ([`supervise`]), and sets their rate alone.
//!
//! However this process ends, the kernel closes the guard's stdin and the BPF links, so a SIGKILL leaves nothing behind.

pub(crate) mod args;
mod group;
pub(crate) mod guard;
mod members;
pub(crate) mod run;
mod show;
mod supervise;
mod watch;
