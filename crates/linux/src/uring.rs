//! A minimal test of io_uring: one operation that does nothing.
//!
//! ```text
//!   entries ─▶ submission ring ── io_uring_enter ─▶ completion ring
//! ```

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io_uring::{IORING_OFF_CQ_RING, IORING_OFF_SQ_RING, IORING_OFF_SQES};
use rustix::io_uring::{IoringEnterFlags, io_uring_enter, io_uring_params, io_uring_setup};

use super::mapping::Mapping;
use super::optional::Optional;

/// Submits a no-operation tagged `tag` on its own ring; returns the tag and the result of its completion, if
/// the kernel has completed it when the submission returns.
pub fn nop(tag: u64) -> io::Result<Option<(u64, i32)>> {
    Optional::IoUring.check()?;
    let mut params = io_uring_params::default();
    // SAFETY: the parameters are zero, so they name no other ring's descriptor.
    let ring: OwnedFd = unsafe { io_uring_setup(1, &mut params) }?;
    let (sq, cq) = (params.sq_off, params.cq_off);
    let submissions = Mapping::shared(
        ring.as_fd(),
        sq.array as usize + params.sq_entries as usize * size_of::<u32>(),
        IORING_OFF_SQ_RING,
    )?;
    let completions = Mapping::shared(
        ring.as_fd(),
        cq.cqes as usize + params.cq_entries as usize * COMPLETION,
        IORING_OFF_CQ_RING,
    )?;
    let entries = Mapping::shared(ring.as_fd(), params.sq_entries as usize * ENTRY, IORING_OFF_SQES)?;

    // The first entry, of a fresh ring: everything but the tag is zero, and so is the operation.
    entries.copy_in(TAG_IN_ENTRY, &tag.to_ne_bytes());
    submissions.store(sq.array as usize, 0);
    submissions.store(sq.tail as usize, submissions.load(sq.tail as usize).wrapping_add(1));
    // SAFETY: the only entry is a no-operation, which refers to no memory and to no descriptor.
    unsafe { io_uring_enter(&ring, 1, 0, IoringEnterFlags::empty()) }?;

    if completions.load(cq.head as usize) == completions.load(cq.tail as usize) {
        return Ok(None);
    }
    let tag = u64::from_ne_bytes(completions.copy_out(cq.cqes as usize));
    let result = i32::from_ne_bytes(completions.copy_out(cq.cqes as usize + size_of::<u64>()));
    Ok(Some((tag, result)))
}

/// `struct io_uring_sqe`, and where its `user_data` is.
const ENTRY: usize = 64;
const TAG_IN_ENTRY: usize = 32;
/// `struct io_uring_cqe`: the tag, the result, flags.
const COMPLETION: usize = 16;
