//! `softtimers capture`: frames of an interface, into a file of pcapng, no later than asked for.
//!
//! A monitor is the receiver of which least is heard when it fails: it loses frames, and its file looks whole. So
//! what is lost is counted at each place, told at the end, and written into the file; and the work on a frame is as little as
//! can be, where it is least wanted: the kernel's filter keeps what is asked for, as much as is asked for, in a ring
//! that is looked at once in a while.
//!
//! ```text
//!   interface ─▶ filter, snap length ─▶ ring ─▶ a look each --max-delay / 2 ─▶ a batch ─▶ file
//!      └ dropped    (the kernel's)       └ dropped            [ queue └ dropped ]    └ dropped
//! ```
//!
//! - [`run`]: setting up; [`tap`]: the ring; [`engine`]: the loop; [`batching`]: when it looks; [`stage`]: who writes; [`batch`] and [`sink`]: batches and files;
//! - [`pipe`]: who may stop reading; [`pcapng`]: what is in them; [`filter`]: what is kept; [`stats`]: what is counted.

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
