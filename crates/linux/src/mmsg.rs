//! The two system calls that follow our pointers to many messages. Miri has neither: under it a stand-in
//! reads and writes through the same pointers as the kernel would, so that Miri checks whether they are still
//! valid.

#[cfg(not(miri))]
pub(crate) use libc::{recvmmsg, sendmmsg};

#[cfg(miri)]
pub(crate) use stand_in::{recvmmsg, sendmmsg};

/// A header without buffers.
pub(crate) fn empty_header() -> libc::mmsghdr {
    // SAFETY: all fields are integers and raw pointers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// Datagrams from the sends of a thread to its receives, whatever the socket.
#[cfg(miri)]
mod stand_in {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use libc::{c_int, c_uint, mmsghdr, timespec};

    thread_local!(static WAITING: RefCell<VecDeque<Vec<u8>>> = const { RefCell::new(VecDeque::new()) });

    /// # Safety
    /// As for the system call.
    pub(crate) unsafe fn sendmmsg(_: c_int, headers: *mut mmsghdr, count: c_uint, _: c_int) -> c_int {
        for index in 0..count as usize {
            let mut datagram = vec![];
            // SAFETY: the caller's headers lead to vectors, and these to bytes that may be read.
            unsafe {
                let header = headers.add(index);
                for at in 0..(*header).msg_hdr.msg_iovlen {
                    let vector = (*header).msg_hdr.msg_iov.add(at).read();
                    datagram.extend_from_slice(std::slice::from_raw_parts(
                        vector.iov_base.cast(),
                        vector.iov_len,
                    ));
                }
                (*header).msg_len = datagram.len() as c_uint;
            }
            WAITING.with_borrow_mut(|waiting| waiting.push_back(datagram));
        }
        count as c_int
    }

    /// # Safety
    /// As for the system call.
    pub(crate) unsafe fn recvmmsg(
        _: c_int,
        headers: *mut mmsghdr,
        count: c_uint,
        _: c_int,
        _: *mut timespec,
    ) -> c_int {
        for index in 0..count as usize {
            let Some(datagram) = WAITING.with_borrow_mut(VecDeque::pop_front) else { return index as c_int };
            // SAFETY: the caller's headers lead to a vector, and this to bytes that may be written; so do the names and
            // the control data, of which there is none.
            unsafe {
                let header = headers.add(index);
                let (message, vector) = (&raw mut (*header).msg_hdr, (*header).msg_hdr.msg_iov.read());
                let length = datagram.len().min(vector.iov_len);
                vector.iov_base.cast::<u8>().copy_from(datagram.as_ptr(), length);
                (*message).msg_name.cast::<u8>().write_bytes(0, (*message).msg_namelen as usize);
                (*message).msg_control.cast::<u8>().write_bytes(0, (*message).msg_controllen);
                ((*message).msg_namelen, (*message).msg_controllen) = (0, 0);
                (*message).msg_flags = if length < datagram.len() { libc::MSG_TRUNC } else { 0 };
                (*header).msg_len = length as c_uint;
            }
        }
        count as c_int
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};

    use softtimers_core::Random;

    use crate::frame_queue::FrameQueue;
    use crate::packet::OFFLOAD_HEADER;
    use crate::recvmmsg::RecvBuffers;
    use crate::sendmmsg::SendBuffers;

    /// Returns the two ends of a datagram channel.
    fn pair() -> (OwnedFd, OwnedFd) {
        #[cfg(not(miri))]
        let (from, to) = std::os::unix::net::UnixDatagram::pair().unwrap();
        // The stand-in uses neither, and Miri has no such socket.
        #[cfg(miri)]
        let (to, from) = rustix::pipe::pipe().unwrap();
        (from.into(), to.into())
    }

    /// Checks that each equals the one sent, before and after another one is changed in place.
    fn takes(received: &mut RecvBuffers, socket: &OwnedFd, expected: &[Vec<u8>]) {
        assert_eq!(received.receive(socket.as_fd()).unwrap(), expected.len());
        for (index, expected) in expected.iter().enumerate() {
            let message = received.message(index).unwrap();
            let length = expected.len().min(received.max_datagram());
            assert_eq!((message.payload, message.truncated), (&expected[..length], length < expected.len()));
            received.payload_mut(index).unwrap().fill(0);
        }
        assert!(received.message(expected.len()).is_none());
    }

    #[test]
    fn what_is_sent_is_received_wherever_the_buffers_have_moved() {
        let (from, to) = pair();
        let mut random = Random::stream(5, 0);
        let (mut frames, mut datagrams) = (FrameQueue::new(5, 0), SendBuffers::new(5, 600));
        let mut received = RecvBuffers::new(6, 590);
        for round in 0..if cfg!(miri) { 20 } else { 1_000 } {
            let bytes: Vec<Vec<u8>> = (0..1 + random.below(5))
                .map(|number| vec![round as u8 ^ number as u8; 1 + random.below(600) as usize])
                .collect();
            bytes.iter().for_each(|bytes| assert!(frames.push(&[9; OFFLOAD_HEADER], bytes)));
            while !frames.is_empty() {
                frames.send(from.as_fd(), 2).unwrap();
            }
            let framed: Vec<_> =
                bytes.iter().map(|bytes| [&[9; OFFLOAD_HEADER], &bytes[..]].concat()).collect();
            takes(&mut received, &to, &framed);

            // All of one length, so that they are joined; a socket that is not UDP's does not cut them again.
            let join = round % 2 == 0;
            let sent = if join { vec![vec![round as u8; 100]; bytes.len()] } else { bytes };
            sent.iter().for_each(|bytes| datagrams.push(bytes, None, None));
            while !datagrams.is_empty() {
                datagrams.send(from.as_fd(), 3, join).unwrap();
            }
            let joined: Vec<_> = sent.chunks(3).map(<[_]>::concat).collect();
            takes(&mut received, &to, if join { &joined } else { &sent });
            (frames, datagrams) = (*Box::new(frames), *Box::new(datagrams));
            received = *Box::new(received);
        }
    }
}
