//! The kernel's TCP at the rate that is known of a path: [`KnownCapacity`].
//!
//! TCP sends what its window allows as fast as the interface takes it, up to a whole window back to back, which a short
//! queue on the way does not hold. The kernel spaces the packets of a socket that has a pace (`SO_MAX_PACING_RATE`), for TCP
//! by timers of its own: without privileges, and without the queue fq.
//!
//! **This is half of rate-based clocking.** The other half is to begin with the window that the path holds instead of slow
//! start, and no ordinary program may set it: `softtimers pace -- CMD` does, with privileges, as does a route with `initcwnd`.
//! A program with these privileges has both, for all sockets of its cgroup, by `softtimers_bpf::TcpPace`, whose `set` changes
//! rate and window. With the pace alone a connection begins with ten packets as ever, and its window grows without bursts.
//!
//! # What not to use it for
//!
//! A path that you do not own: others share it, so no rate of it is known. A pace is a limit only, so a wrong one does no
//! harm to others as a window would (told twice what the path had, a window of it lost 298 of 1,000 packets); but too low a
//! pace wastes the path, and too high a one does nothing.

use std::fmt;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use softtimers_linux::sockopt::{duplicate, set_pacing_rate};

/// A rate that sockets of this program share; its clones are the same.
///
/// ```
/// use std::io::Write;
/// use std::net::{TcpListener, TcpStream};
/// use std::num::NonZeroU64;
///
/// use softtimers::tcp::KnownCapacity;
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let uplink = KnownCapacity::bits_per_second(NonZeroU64::new(20_000_000).unwrap());
/// let mut stream = TcpStream::connect(listener.local_addr()?)?;
/// let share = uplink.pace(&stream)?;
/// stream.write_all(b"no faster than 20 Mbit/s")?;
///
/// uplink.set_bits_per_second(NonZeroU64::new(5_000_000).unwrap())?; // also for those that send
/// drop(share); // the others have more
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// The socket stays what it is: of the standard library, of tokio, under hyper, or any other with a descriptor.
///
/// # Cost
/// A descriptor for each socket, and a system call for each when one joins, leaves, or the rate changes. A segment that
/// waits for its time costs the kernel a timer.
#[derive(Clone)]
pub struct KnownCapacity {
    shared: Arc<Mutex<Shared>>,
}

/// An equal share of a [`KnownCapacity`], until it is dropped: whether the socket sends or not, so drop it for one that
/// is idle. The socket keeps the pace that it had last.
///
/// It holds the socket open: drop it before the socket or with it, or the other end does not hear that it is closed.
pub struct Share {
    socket: Arc<OwnedFd>,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    bits_per_second: NonZeroU64,
    sockets: Vec<Weak<OwnedFd>>,
}

impl KnownCapacity {
    /// Creates a capacity in bits a second on the wire: headers count, as a link's rate does.
    pub fn bits_per_second(rate: NonZeroU64) -> Self {
        KnownCapacity { shared: Arc::new(Mutex::new(Shared { bits_per_second: rate, sockets: vec![] })) }
    }

    /// Gives a socket its share of the rate, and the others theirs.
    ///
    /// # Errors
    /// If the kernel refuses the option, such as for a descriptor that is no socket, or another descriptor.
    pub fn pace(&self, socket: impl AsFd) -> io::Result<Share> {
        self.share_with(socket.as_fd().try_clone_to_owned()?)
    }

    /// As [`pace`](Self::pace), for a descriptor by its number, as other languages have it.
    ///
    /// # Errors
    /// Those, and `EBADF` for a number that is none.
    pub fn pace_number(&self, socket: RawFd) -> io::Result<Share> {
        self.share_with(duplicate(socket)?)
    }

    fn share_with(&self, socket: OwnedFd) -> io::Result<Share> {
        let socket = Arc::new(socket);
        let mut shared = lock(&self.shared);
        shared.sockets.push(Arc::downgrade(&socket));
        // From here on its end makes room again, also if the kernel refuses now.
        let share = Share { socket, shared: Arc::clone(&self.shared) };
        let divided = shared.divide();
        drop(shared);
        divided.map(|()| share)
    }

    /// Changes the rate, also of sockets that send at the moment.
    ///
    /// # Errors
    /// The first refusal of the kernel; the other sockets have the new rate.
    pub fn set_bits_per_second(&self, rate: NonZeroU64) -> io::Result<()> {
        let mut shared = lock(&self.shared);
        shared.bits_per_second = rate;
        shared.divide()
    }

    /// Returns how many sockets share the rate.
    pub fn sockets(&self) -> usize {
        lock(&self.shared).sockets.len()
    }
}

impl Shared {
    /// Gives each socket its share.
    fn divide(&mut self) -> io::Result<()> {
        let living: Vec<_> = self.sockets.iter().filter_map(Weak::upgrade).collect();
        let share = share(self.bits_per_second, living.len());
        // All of them, whichever is refused.
        let refused: Vec<_> =
            living.iter().filter_map(|socket| set_pacing_rate(socket.as_fd(), share).err()).collect();
        refused.into_iter().next().map_or(Ok(()), Err)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let own = Arc::as_ptr(&self.socket);
        let mut shared = lock(&self.shared);
        shared.sockets.retain(|socket| socket.as_ptr() != own);
        // A socket that is refused now is closed by the other end, most likely.
        let _ = shared.divide();
    }
}

impl fmt::Debug for KnownCapacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = lock(&self.shared);
        let (rate, sockets) = (shared.bits_per_second, shared.sockets.len());
        f.debug_struct("KnownCapacity").field("bits_per_second", &rate).field("sockets", &sockets).finish()
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Share").field(&self.socket).finish()
    }
}

/// A panic of another thread leaves nothing half done.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a share in bytes of data a second, as the kernel counts: of a full packet, 1,448 bytes of 1,514 are data.
fn share(bits_per_second: NonZeroU64, sockets: usize) -> u64 {
    let bytes = u128::from(bits_per_second.get()) * DATA / PACKET / 8 / sockets.max(1) as u128;
    // No share would be no limit.
    u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
}

/// A full segment with time stamps in an Ethernet frame, and its data.
const PACKET: u128 = 1_514;
const DATA: u128 = 1_448;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::thread;
    use std::time::Duration;

    use softtimers_linux::sockopt::pacing_rate;

    use super::*;
    use crate::{Clock, Monotonic};

    fn rate(bits: u64) -> NonZeroU64 {
        NonZeroU64::new(bits).unwrap()
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// Sends from `near`, and returns how long the other end waited for it.
    fn transfer(near: &TcpStream, mut far: TcpStream, bytes: usize) -> Duration {
        let began = Monotonic.now();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut near = near;
                near.write_all(&vec![0; bytes])
            });
            far.read_exact(&mut vec![0; bytes]).unwrap();
        });
        Monotonic.now().saturating_duration_since(began)
    }

    /// On loopback, without fq: no faster than the rate, but for a first burst of a few segments, which are of 64 KiB here.
    #[test]
    fn tcp_keeps_the_pace_without_fq() {
        let capacity = KnownCapacity::bits_per_second(rate(80_000_000));
        let (near, far) = pair();
        let _share = capacity.pace(&near).unwrap();
        assert_eq!(pacing_rate(near.as_fd()).unwrap(), share(rate(80_000_000), 1));
        let took = transfer(&near, far, 3_000_000);
        // 3 MB take 300 ms.
        assert!(took >= Duration::from_millis(250), "{took:?}");
    }

    /// Of two, each has half; of the one that is left, all.
    #[test]
    fn the_rate_is_divided_and_given_back() {
        let capacity = KnownCapacity::bits_per_second(rate(80_000_000));
        let (near, far) = pair();
        let (other, _other_end) = pair();
        let _share = capacity.pace(&near).unwrap();
        let other = capacity.pace(&other).unwrap();
        assert_eq!(capacity.sockets(), 2);
        // 600 ms; 300 if it had all.
        let took = transfer(&near, far.try_clone().unwrap(), 3_000_000);
        assert!(took >= Duration::from_millis(450), "{took:?}");
        drop(other);
        assert_eq!(capacity.sockets(), 1);
        capacity.set_bits_per_second(rate(20_000_000)).unwrap();
        // 600 ms; 300 if it still had half.
        let took = transfer(&near, far, 1_500_000);
        assert!(took >= Duration::from_millis(450), "{took:?}");
    }

    #[test]
    fn shares_are_of_data_and_never_none() {
        assert_eq!(share(rate(1_514 * 8), 1), 1_448);
        assert_eq!(share(rate(1_514 * 8), 4), 362);
        assert_eq!((share(rate(1), 7), share(rate(u64::MAX), 0) < u64::MAX), (1, true));
    }

    #[test]
    fn what_is_no_socket_is_refused() {
        let capacity = KnownCapacity::bits_per_second(rate(1_000_000));
        assert!(capacity.pace(File::open("/dev/null").unwrap()).is_err());
        assert!(capacity.pace_number(-1).is_err());
        let (near, _far) = pair();
        drop(capacity.pace_number(near.as_raw_fd()).unwrap());
        assert_eq!(capacity.sockets(), 0);
    }
}
