//! Reports the turns of pollers in user space to a fast path: [`FastTurns`].

use std::os::fd::AsFd;

use aya::maps::{Array, Map, MapData};
use rustix::time::{ClockId, clock_gettime};

use crate::Error;
use crate::error::map_error;

/// Tells the programs of a [`FastPath`](super::FastPath) that a poller has had a turn.
///
/// The programs record when a frame is passed up to the pollers. While one waits, each CPU forwards the
/// [quota](super::FastPolicy::quota) of frames and drops the others, so that a flood that the kernel forwards
/// in the pollers' CPU time does not starve them.
#[derive(Debug)]
pub struct FastTurns(pub(super) Map);

impl FastTurns {
    /// Returns the same for another poller, or for another device of the same poller.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn another(&self) -> Result<Self, Error> {
        let Map::Array(turns) = &self.0 else { return Err(Error::Map("it is not an array".to_owned())) };
        let fd = turns.fd().as_fd().try_clone_to_owned()?;
        Ok(FastTurns(Map::Array(MapData::from_fd(fd).map_err(map_error)?)))
    }

    /// Returns the time at which a turn begins, in nanoseconds of the kernel's monotonic clock.
    pub fn begin() -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }

    /// Reports that a turn has taken all frames that were waiting when it [began](Self::begin), or a full
    /// quota of them.
    ///
    /// # Cost
    /// A system call.
    ///
    /// # Errors
    /// If the kernel refuses the map's value.
    pub fn took(&mut self, began: u64) -> Result<(), Error> {
        let mut turns: Array<&mut MapData, u64> = (&mut self.0).try_into().map_err(map_error)?;
        turns.set(0, began, 0).map_err(map_error)
    }
}
