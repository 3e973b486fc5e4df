//! `softtimers capture`: captures an interface to pcapng with a bounded delay.
//!
//! A failing monitor is hard to notice: it loses frames, and its file seems complete. So losses are counted at each
//! place, reported at the end, and written into the file. And little work is done per frame where it would be most
//! expensive: the kernel's filter keeps the wanted frames, up to the wanted length, in a ring that is checked only once
//! in a while.
//!
//! ```text
//!   interface ─▶ filter, snap length ─▶ ring ─▶ a check each --max-delay / 2 ─▶ a batch ─▶ file
//!      └ dropped    (the kernel's)       └ dropped            [ queue └ dropped ]    └ dropped
//! ```
//!
//! - [`run`]: setup; [`tap`]: the ring; [`engine`]: the loop; [`batching`]: when it checks the ring; [`stage`]: the
//!   writer; [`batch`] and [`sink`]: batches and files;
//! - [`pipe`]: readers that may stop; [`pcapng`]: the format; [`filter`]: which frames are kept; [`stats`]: the counts.

pub(crate) mod args;
mod batch;
mod batching;
mod engine;
pub(crate) mod filter;
pub(crate) mod pcapng;
mod pipe;
mod run;
mod show;
mod sink;
mod stage;
mod stats;
mod tap;
