//! Streams and datagrams of tokio behind a path, in a test: [`Path`]. An hour of bad network passes in milliseconds, because
//! the clock is tokio's and a test may pause it.
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
//! A [`Stream`] is reliable and in order, whatever the path does, as TCP is. It travels in segments of 1,448 bytes (of
//! 64 KiB where the path has delay only), and this is how it repairs:
//!
//! - **Loss becomes delay.** A segment that is lost, dropped by a managed queue or damaged is sent again, through the bottleneck,
//!   one round trip after it had left the link; if that is lost, too, two round trips later, then four, at most a minute (or one
//!   round trip, if that is longer). The round trip is that of the path's delays, and at least 1 ms. What follows waits for it.
//! - **A full queue stops the sender** instead of dropping. So does a stream that holds 16 MiB one way: no stream is faster than
//!   that in a round trip.
//! - **There is no congestion control**, no handshake and no traffic of acknowledgements: loss does not make a stream slower
//!   than its repairs do. Where TCP's own answer to loss is the question, put a TCP behind datagrams (smoltcp for one), or use
//!   `softtimers wan -- CMD`.
//! - [`shutdown`](tokio::io::AsyncWriteExt::shutdown), or to drop the stream, ends it after its last byte. Who writes to an
//!   end that is gone hears of a reset one round trip later. To drop it while bytes that have come are unread resets it at once, as
//!   TCP does: what was not on the path yet is lost.
//!
//! # Datagrams
//!
//! [`Datagrams`] are lost, late, twice, damaged or overtaken, as the path says, and accounted for:
//! `delivered` of [`Counters`](crate::Counters) is what was received, waits to be, and was [missed](Datagrams::missed).
//!
//! # Time
//!
//! The time is tokio's, from when the path was made. What happens on the path happens at its own nanosecond, so rates and
//! orders are exact; but a task is woken by tokio's timers, which have milliseconds: it sees what has arrived up to 1 ms later. On
//! a paused clock the same seed and the same program give the same bytes at the same times. If nothing is due and no task
//! can run, the clock jumps: a test that waits for a thread or a real socket as well should not pause it.
//!
//! A path has one task, which lives until its last handle and end are dropped.

mod datagrams;
mod path;
mod stream;

pub use datagrams::Datagrams;
pub use path::Path;
pub use stream::Stream;
