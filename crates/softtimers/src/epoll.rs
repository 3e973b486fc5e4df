//! `epoll` with time-outs in nanoseconds and a fall-back where `epoll_pwait2` is refused.
//!
//! [`EventLoop`](crate::EventLoop) is built on it. It is public because a loop of your own needs the same two
//! things; it is independent of timers.

pub use softtimers_linux::epoll::{BusyPoll, Epoll, Event, EventFlags, Events, Waiting};
