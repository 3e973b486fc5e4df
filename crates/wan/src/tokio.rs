//! Streams and datagrams of tokio behind a path, in a test: [`Path`]. An hour of bad network passes in milliseconds,
//! because the path uses tokio's clock, which a test may pause.
//!
//! ```
//! use std::time::Duration;
//! use softtimers_wan::tokio::Path;
//! use softtimers_wan::{Bottleneck, Loss, PathConfig, Probability, Wan, Way};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use tokio::time::Instant;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Of a test: #[tokio::test(start_paused = true)]
//! let each = PathConfig::default()
//!     .bottleneck(Bottleneck::bits_per_second(1_000_000)?)
//!     .delay(Duration::from_millis(40))
//!     .loss(Loss::Random(Probability::once_in(100)));
//! let path = Path::new(Wan::builder().both(each).seed(7))?;
//! let (mut client, mut server) = path.stream();
//!
//! let start = Instant::now();
//! let sender = tokio::spawn(async move { client.write_all(&vec![7; 45_000_000]).await });
//! let mut received = Vec::new();
//! server.read_to_end(&mut received).await?;
//! sender.await??;
//! assert_eq!(received.len(), 45_000_000);
//! assert!(start.elapsed() > Duration::from_secs(360)); // the link's time and some; and none of yours
//! assert!(path.counters(Way::Up).lost > 200 && path.resent(Way::Up) > 200);
//! # Ok(())
//! # }
//! ```
//!
//! # Streams
//!
//! A [`Stream`] is reliable and in order, whatever the path does, as TCP is. It travels in segments of 1,448 bytes (64
//! KiB where the path has only a delay), and repairs losses like this:
//!
//! - **Loss becomes delay.** A segment that is lost, dropped by a managed queue or damaged is sent again through the
//!   bottleneck, one round trip after it had left the link; if that is lost too, two round trips later, then four, at
//!   most a minute (or one round trip, if that is longer). The round trip is the sum of the path's delays, and at least
//!   1 ms. The data behind it waits.
//! - **A full queue stops the sender** instead of dropping. So does a stream that holds 16 MiB in one direction, which
//!   limits it to that much per round trip.
//! - **There is no congestion control**, no handshake and no acknowledgement traffic: loss slows a stream only by its
//!   repairs. If TCP's own reaction to loss is your question, run a TCP over datagrams (smoltcp, for example), or use
//!   `softtimers wan -- CMD`.
//! - [`shutdown`](tokio::io::AsyncWriteExt::shutdown), or dropping the stream, ends it after its last byte. A writer to
//!   a dropped end gets a reset one round trip later. Dropping it while received bytes are unread resets it at once, as
//!   in TCP: bytes not on the path yet are lost.
//!
//! # Datagrams
//!
//! [`Datagrams`] are lost, late, duplicated, damaged or overtaken, as the path says, and counted: `delivered` of
//! [`Counters`](crate::Counters) includes those received, those waiting to be, and those [missed](Datagrams::missed).
//!
//! # Time
//!
//! The time is tokio's, counted from the path's creation. Events on the path happen at their own nanosecond, so rates
//! and orders are exact; but tokio's timers, which wake tasks, have milliseconds: a task sees an arrival up to 1 ms
//! late. On a paused clock the same seed and the same program give the same bytes at the same times. If nothing is due
//! and no task can run, the clock jumps: a test that also waits for a thread or a real socket should not pause it.
//!
//! A path has one task, which lives until its last handle and end are dropped.

mod datagrams;
mod path;
mod stream;

pub use datagrams::Datagrams;
pub use path::Path;
pub use stream::Stream;
