//! `softtimers echo-client`: the load of `send --busy echo`, in a process of its own so that its work
//! is not measured as the sender's.
//!
//! The client is a closed loop: a fixed number of datagrams is under way, and each reply is followed by the next
//! request at once. So a server that falls behind is kept exactly busy, never flooded, and replies per second are its
//! work rate. Lost datagrams are sent again after 100 ms, so that the number under way does not shrink.
//!
//! ```text
//!   slots   0 1 2 3 … window-1      request: slot, generation, padding
//!           │ └── reply: same slot and generation ─▶ next generation, sent at once
//!           └──── no reply for 100 ms ─────────────▶ next generation, counted as lost
//! ```
//!
//! With `--spin` it never sleeps. The server's replies would have to wake a sleeping client, and those wake-ups would
//! be charged to the server, unlike a remote client's. Only the server, which keeps the client off its own CPU, knows
//! whether the client has a CPU to itself.

pub(crate) mod args;
mod run;
mod show;
