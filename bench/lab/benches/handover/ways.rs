//! The ways that the library has.

use std::io;

use softtimers_net::udp::SendBatch;
use softtimers_net::udp::UdpSocket;

/// Hands over N datagrams at once, and returns only after all of them have been sent.
pub(crate) type Way = Box<dyn FnMut(usize) -> io::Result<()>>;

pub(crate) fn single(socket: UdpSocket, size: usize) -> Way {
    let packet = vec![1; size];
    Box::new(move |count| (0..count).try_for_each(|_| socket.send(&packet).map(drop)))
}

/// Hands them over as one batch, including the copy into it.
pub(crate) fn batched(socket: UdpSocket, size: usize, segmentation: bool) -> Way {
    let (packet, mut batch) = (vec![1; size], SendBatch::new(64, size));
    batch.set_segmentation(segmentation);
    Box::new(move |count| {
        for _ in 0..count {
            batch.push(&packet, None).map_err(io::Error::other)?;
        }
        let stopped = socket.send_batch(&mut batch).stopped;
        stopped.map_or(Ok(()), |stopped| Err(io::Error::other(stopped.to_string())))
    })
}
