//! An end of a stream: [`Stream`].

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::path::Shared;
use crate::Way;
use crate::endpoints::{Broken, index};

/// One end of a stream of bytes behind a path, made by [`Path::stream`](super::Path::stream).
#[derive(Debug)]
pub struct Stream {
    shared: Arc<Shared>,
    id: u64,
    /// The direction that it writes to.
    way: Way,
}

impl Stream {
    pub(super) fn new(shared: Arc<Shared>, id: u64, way: Way) -> Self {
        Stream { shared, id, way }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.shared.with(|endpoints, now| {
            let read = endpoints.read(now, self.id, self.way.back(), buffer.initialize_unfilled());
            match read.map_err(|broken| error(broken, io::ErrorKind::ConnectionReset))? {
                Some(length) => {
                    buffer.advance(length);
                    Poll::Ready(Ok(()))
                }
                None => {
                    let connection = endpoints.connection(self.id);
                    connection.into_iter().for_each(|one| one.wait_to_read(index(self.way), context.waker()));
                    Poll::Pending
                }
            }
        })
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.shared.with(|endpoints, now| {
            let written = endpoints.write(now, self.id, self.way, bytes);
            match written.map_err(|broken| error(broken, io::ErrorKind::BrokenPipe))? {
                0 if !bytes.is_empty() => {
                    let connection = endpoints.connection(self.id);
                    connection
                        .into_iter()
                        .for_each(|one| one.wait_to_write(index(self.way), context.waker()));
                    Poll::Pending
                }
                written => Poll::Ready(Ok(written)),
            }
        })
    }

    /// Flushing does nothing: written bytes are sent without waiting for more.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends this direction after its last byte. The other goes on.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let finished = self.shared.with(|endpoints, now| endpoints.finish(now, self.id, self.way));
        Poll::Ready(finished.map_err(|broken| error(broken, io::ErrorKind::BrokenPipe)))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.with(|endpoints, now| endpoints.leave(now, self.id, self.way));
    }
}

fn error(broken: Broken, reset: io::ErrorKind) -> io::Error {
    match broken {
        Broken::Reset => reset.into(),
        Broken::Closed => io::ErrorKind::BrokenPipe.into(),
    }
}
