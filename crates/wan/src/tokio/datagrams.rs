//! One end of a pair of datagram sockets: [`Datagrams`].

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::path::Shared;
use crate::{Admission, Way};

/// One of two sockets for datagrams with a path between them, made by [`Path::datagrams`](super::Path::datagrams).
///
/// ```
/// use std::time::Duration;
/// use softtimers_wan::tokio::Path;
/// use softtimers_wan::{PathConfig, Wan};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let path = Path::new(Wan::builder().both(PathConfig::default().delay(Duration::from_secs(3))))?;
/// let (earth, mars) = path.datagrams();
/// earth.send(b"hello");
/// assert_eq!(&*mars.recv().await, b"hello");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Datagrams {
    shared: Arc<Shared>,
    id: u64,
    /// The direction that it sends to.
    way: Way,
}

impl Datagrams {
    pub(super) fn new(shared: Arc<Shared>, id: u64, way: Way) -> Self {
        Datagrams { shared, id, way }
    }

    /// Sends a datagram. It never waits: if the queue is full, the datagram is dropped, and the result says so. Losses
    /// on the way are not reported.
    pub fn send(&self, bytes: &[u8]) -> Admission {
        self.shared.with(|endpoints, now| endpoints.send_datagram(now, self.id, self.way, bytes))
    }

    /// Waits for the next datagram. Cancelling it loses nothing.
    pub async fn recv(&self) -> Box<[u8]> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// Returns the next datagram that has arrived, if there is one.
    pub fn try_recv(&self) -> Option<Box<[u8]>> {
        self.shared.with(|endpoints, now| endpoints.inbox(now, self.id, self.way.back())?.next())
    }

    /// As [`recv`](Self::recv), for hand-written futures. Any number of tasks may wait.
    pub fn poll_recv(&self, context: &mut Context<'_>) -> Poll<Box<[u8]>> {
        self.shared.with(|endpoints, now| {
            let Some(inbox) = endpoints.inbox(now, self.id, self.way.back()) else { return Poll::Pending };
            match inbox.next() {
                Some(bytes) => Poll::Ready(bytes),
                None => {
                    inbox.wait(context.waker());
                    Poll::Pending
                }
            }
        })
    }

    /// Returns how many datagrams arrived here without room: 4 MiB or 65,536 of them were waiting to be read.
    pub fn missed(&self) -> u64 {
        self.shared.with(|endpoints, now| {
            endpoints.inbox(now, self.id, self.way.back()).map_or(0, |inbox| inbox.missed())
        })
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        self.shared.with(|endpoints, now| {
            endpoints.advance(now);
            endpoints.leave_pair(self.id, self.way);
        });
    }
}
