//! `softtimers echo-client`: the load of `send --busy echo`, in a process of its own so that its work
//! is not measured as the sender's.
//!
//! The client is a closed loop: a fixed number of datagrams is under way, and each reply is answered
//! by the next request at once. A server that falls behind is therefore kept exactly busy, never
//! flooded, and replies per second are its work rate. What is lost is sent again after 100 ms, so
//! that the number under way does not shrink.
//!
//! ```text
//!   slots   0 1 2 3 … window-1      request: slot, generation, padding
//!           │ └── reply: same slot and generation ─▶ next generation, sent at once
//!           └──── no reply for 100 ms ─────────────▶ next generation, counted as lost
//! ```
//!
//! With `--spin` it never sleeps. A sleeping client would have to be woken by the server's replies, and
//! those wake-ups would be charged to the server, as no remote client's are. Whether it has a CPU
//! to itself, so that it may, only the server knows, which keeps the client off its own.

pub(crate) mod args;
mod run;
mod show;
