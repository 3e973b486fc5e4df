//! A web server for one file of 6 KB, and clients for it: the server experiment of the soft timers paper (§5.8, Table XII).
//!
//! ```text
//!   clients ═══ ports ─▶ Engine, polled or by epoll ─▶ Turns ─▶ Connection ─▶ Request ─▶ Site
//!   wrk, or client          or a process for each connection ────┘
//! ```
//!
//! Between two hosts and a [`Cable`](cable::Cable) the interface is polled, too.
//!
//! It speaks as much HTTP/1.1 as a file in memory needs: GET and HEAD, connections that are kept or closed, requests in
//! pieces or several at once. It is made to be measured and read: no time-outs, and a single file name.

pub mod cable;
pub mod client;
pub mod connection;
pub mod engine;
pub mod ports;
pub mod processes;
pub mod request;
pub mod timer;

/// The file of the paper's server.
pub const FILE: [u8; 6 << 10] = [b'x'; 6 << 10];
