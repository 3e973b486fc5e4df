//! Known capacity: the kernel's TCP at the rate that is known of a path, divided among the sockets that send.
//!
//! The kernel spaces the packets of a socket that has a pace, for TCP without privileges and without the queue fq. It is a
//! limit: the window still begins with ten packets and grows as ever. `softtimers pace -- CMD` sets that, too, with
//! privileges. Do not use it for a path that you do not own: no rate of it is known.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;

use softtimers::tcp::{KnownCapacity, Share};

use crate::object::{Errno, Kind, Object};

/// A rate, and the sockets that share it.
#[derive(Debug)]
pub(crate) struct Capacity {
    known: KnownCapacity,
    /// By the number of the descriptor.
    shares: BTreeMap<c_int, Share>,
}

impl Kind for Capacity {
    const NAME: &'static str = "softtimers_capacity";
}

/// The capacity of a path.
pub(crate) type softtimers_capacity = Object<Capacity>;

/// Makes a capacity of so many bits a second on the wire, headers included. -EINVAL: `out` is NULL, or no rate.
/// Thread: any; it belongs to the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_capacity_new(
    bits_per_second: u64,
    out: Option<&mut MaybeUninit<*mut softtimers_capacity>>,
) -> c_int {
    Object::make(out, || {
        let rate = NonZeroU64::new(bits_per_second).ok_or(Errno::INVALID)?;
        Ok(Capacity { known: KnownCapacity::bits_per_second(rate), shares: BTreeMap::new() })
    })
}

/// Frees a capacity. Its sockets keep the pace that they have. Does nothing for NULL. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_capacity_free(capacity: Option<&'static softtimers_capacity>) -> c_int {
    Object::free(capacity)
}

/// Gives a socket an equal share of the rate, and the others theirs, until softtimers_capacity_leave: also while it is
/// idle. -EBADF, -ENOTSOCK: it is no socket. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_capacity_pace(capacity: Option<&softtimers_capacity>, socket: c_int) -> c_int {
    Object::with(capacity, |capacity| {
        let share = capacity.known.pace_number(socket)?;
        // One that it had before makes room again.
        capacity.shares.insert(socket, share);
        Ok(0)
    })
}

/// Gives a socket's share to the others. Call it before close(2): a share holds the connection open. -EINVAL: it has no
/// share. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_capacity_leave(capacity: Option<&softtimers_capacity>, socket: c_int) -> c_int {
    Object::with(capacity, |capacity| capacity.shares.remove(&socket).map(|_| 0).ok_or(Errno::INVALID))
}

/// Changes the rate, also of sockets that send at the moment. -EINVAL: no rate. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_capacity_set_rate(
    capacity: Option<&softtimers_capacity>,
    bits_per_second: u64,
) -> c_int {
    Object::with(capacity, |capacity| {
        let rate = NonZeroU64::new(bits_per_second).ok_or(Errno::INVALID)?;
        capacity.known.set_bits_per_second(rate)?;
        Ok(0)
    })
}
