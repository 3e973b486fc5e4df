//! Receiving from an interface, with slots or blocks as the ring's [`Layout`].
//!
//! ```text
//!   slots    │ frame          │ frame          │ …    each seen at once; room for the longest frame in each
//!   blocks   │ frame frame frame … │ frame … │ …      no gaps; seen when the block is full, or its time is over
//! ```
//!
//! Blocks hold more frames and cost less, but need time that the delay must allow. While the ring is not checked, each
//! such time uses up a block: so there must be enough of them to last, even at a low rate.

use std::io::{self, ErrorKind};
use std::time::Duration;

use rustix::param::page_size;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_measure::failure::Failure;
use softtimers_net::packet::{Filter, Interface};
use softtimers_net::poller::{Blocks, Device, FrameInfo, Packet, PacketConfig, PacketDevice, Received};
use softtimers_poll::{Quota, SourceConfig};

use super::args::Capture;
use super::batching::Batching;

/// The layout of a ring: blocks, or a slot for each frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout(pub(crate) Option<Blocks>);

impl Layout {
    /// Returns blocks, where the delay has room for them and the ring for enough of them; otherwise slots.
    pub(crate) fn for_plan(plan: &Capture) -> Self {
        if plan.only_slots {
            return Layout(None);
        }
        let (lateness, page) = (Blocks::lateness(), page_size());
        Layout::new(plan.ring as usize, plan.snap_length as usize, plan.max_delay, lateness, page)
    }

    /// Returns the layout of a ring of `ring` bytes for frames of `snap_length`. A block comes at most `lateness` late,
    /// and consists of whole pages.
    fn new(ring: usize, snap_length: usize, max_delay: Duration, lateness: Duration, page: usize) -> Self {
        // The remaining delay is for the wake-up and for writing.
        let millis = (max_delay / 2).saturating_sub(lateness).as_millis().min(LONGEST_RETIRE) as usize;
        let holds_out = |block: usize| ring / block >= LEAST_BLOCKS && ring / block * millis >= LEAST_MILLIS;
        // Merged frames are longer than the interface's MTU.
        let longest = snap_length.min(LONGEST_FRAME);
        let fits = |block: &usize| Blocks::longest(*block) >= longest;
        let Some(mut block) =
            (0..).map(|power| LEAST_BLOCK.max(page) << power).find(fits).filter(|&block| holds_out(block))
        else {
            return Layout(None);
        };
        while block < MOST_BLOCK && holds_out(2 * block) {
            block *= 2;
        }
        let retire = Duration::from_millis(millis as u64);
        Layout(Some(Blocks { block, blocks: ring / block, retire }))
    }

    /// Returns the name for a report.
    pub(crate) fn name(self) -> &'static str {
        if self.0.is_some() { "blocks" } else { "slots" }
    }

    /// Returns when to check, and how much to take: between turns the capture writes, and checks whether it is over.
    pub(crate) fn turns(self, plan: &Capture) -> SourceConfig<Batching> {
        let (batching, frames) = match self.0 {
            // The remaining delay is for the wake-up and for writing.
            None => (Batching::each(plan.max_delay / 2), FRAMES),
            Some(_) if plan.queue.is_some() => (Batching::woken(), FRAMES),
            Some(_) => (Batching::woken(), FRAMES_OF_BLOCKS),
        };
        SourceConfig::new(batching).with_quota(Quota::new(frames, 1))
    }
}

/// Opens the interfaces of the plan with this layout, or with slots and a reason if the kernel does not support such
/// blocks.
///
/// # Errors
/// A failure that says what is wrong with an interface, or missing.
pub(crate) fn open_all(
    plan: &mut Capture,
    layout: Layout,
) -> Result<(Vec<PacketDevice>, Option<String>), Failure> {
    let with = |plan: &Capture, layout| {
        plan.interfaces.iter().map(|name| open(plan, name, layout)).collect::<Result<_, _>>()
    };
    match with(plan, layout) {
        // An invalid filter is refused with slots, too.
        Err(Refused::Ring(failure)) if layout.0.is_some() => {
            let taps = with(plan, Layout(None)).map_err(Refused::failure)?;
            plan.only_slots = true;
            Ok((taps, Some(format!("{failure}, so each frame has a slot: the ring holds fewer"))))
        }
        taps => Ok((taps.map_err(Refused::failure)?, None)),
    }
}

fn open(plan: &Capture, name: &str, layout: Layout) -> Result<PacketDevice, Refused> {
    let interface = Interface::to_listen(name).map_err(|error| match error.kind() {
        ErrorKind::NotFound if name == "any" => Refused::Interface(Failure::usage(
            "capture any: no interface stands for all; name each: -i lo -i eth0 (ip link lists them)",
        )),
        ErrorKind::NotFound | ErrorKind::InvalidInput => {
            Refused::Interface(Failure::usage(format_args!("capture {name}: {error}")))
        }
        _ => Refused::Interface(Failure::check(format_args!("capture {name}: {error}"))),
    })?;
    let filter = plan.filter.clone().unwrap_or_else(|| Filter::everything(plan.snap_length));
    let filter = filter.cut_to(plan.snap_length);
    let config = config(plan, &interface, layout);
    PacketDevice::filtered(&interface, &config, &filter).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => Refused::Interface(Failure::not_possible(format_args!(
            "capture {name}: {error}; CAP_NET_RAW is needed"
        ))),
        ErrorKind::InvalidInput if layout.0.is_some() => {
            Refused::Ring(Failure::check(format_args!("capture {name}: a ring of blocks: {error}")))
        }
        ErrorKind::InvalidInput if plan.filter.is_some() => {
            Refused::Ring(Failure::usage(format_args!("capture {name}: the kernel refuses the filter")))
        }
        _ => Refused::Interface(Failure::check(format_args!("capture {name}: {error}"))),
    })
}

/// Stops new frames, and returns an upper bound for the time until all earlier ones can be read.
pub(crate) fn close(device: &PacketDevice, layout: Layout) -> Duration {
    // If that is refused, more frames come in and are read as well.
    let _ = device.close();
    // Frames in the current block are seen when its time is over.
    layout.0.map_or(Duration::ZERO, |blocks| blocks.retire + LAST_BLOCK_MARGIN)
}

/// Reads the frames that came before it was closed, and returns how many were not available by `until`.
pub(crate) fn drain(
    device: &mut PacketDevice,
    until: Timestamp,
    mut take: impl FnMut(Packet<'_, FrameInfo>),
) -> u64 {
    let mut turns = |device: &mut PacketDevice, frames: usize| {
        let mut turns = 0..frames.div_ceil(TURN);
        let _ = turns.try_for_each(|_| more(device.poll_rx(TURN, |packet, _| take(packet))));
    };
    // At most the ring's capacity: if it could not be closed, there are always more.
    if device.slots() > 0 {
        turns(device, device.slots());
        return 0;
    }
    let mut left = device.waiting().unwrap_or(0);
    while left > 0 {
        turns(device, left as usize);
        left = device.waiting().unwrap_or(0);
        if left > 0 && Monotonic.now() >= until {
            break;
        }
        if left > 0 {
            std::thread::park_timeout(PAUSE);
        }
    }
    left
}

/// Why an interface cannot be captured.
#[derive(Debug)]
enum Refused {
    /// The kernel does not support such a ring, or such a filter.
    Ring(Failure),
    Interface(Failure),
}

impl Refused {
    fn failure(self) -> Failure {
        match self {
            Refused::Ring(failure) | Refused::Interface(failure) => failure,
        }
    }
}

/// Returns `Some` if a turn found more.
fn more(turn: io::Result<Received>) -> Option<()> {
    turn.is_ok_and(|turn| turn.more).then_some(())
}

fn config(plan: &Capture, interface: &Interface, layout: Layout) -> PacketConfig {
    let frame = (plan.snap_length as usize).min(interface.mtu() as usize + HEADERS);
    // Longer ones are rare, or on the loopback interface, and cost a system call each.
    let frame = if frame > LONG_SLOT { PacketConfig::default().max_frame } else { frame.max(LEAST_FRAME) };
    let slot = (frame + SLOT_HEADERS).next_power_of_two();
    PacketConfig {
        slots: (plan.ring as usize / slot).clamp(2, MOST_SLOTS),
        max_frame: frame,
        output: 1,
        promiscuous: plan.promiscuous,
        // Frames of the loopback interface are seen when they come in.
        outgoing: !interface.is_loopback(),
        blocks: layout.0,
    }
}

/// Frames per turn.
const FRAMES: u32 = 256;
/// The frames of a block, which then costs one write. In parts of 26 KB, a frame of 60 bytes costs a fifth more to
/// write than in 200 KB.
const FRAMES_OF_BLOCKS: u32 = 2_048;
/// The minimum time that a ring of blocks lasts, in ms, at any rate: more than twice a disk's worst stall. With fewer
/// blocks, or shorter times, slots do better.
const LEAST_MILLIS: usize = 500;
const LEAST_BLOCKS: usize = 8;
const LEAST_BLOCK: usize = 4 << 10;
/// Some 1,800 of the shortest frames: one wake-up for these is cheap enough.
const MOST_BLOCK: usize = 256 << 10;
/// The longest time for a block, in ms: the end of a run waits for the last one.
const LONGEST_RETIRE: u128 = 100;
/// The longest frame that Linux merges, with Ethernet's header and tags.
const LONGEST_FRAME: usize = 65_536 + 64;
/// Ethernet's header and two tags.
const HEADERS: usize = 22;
/// The bytes that a slot of the ring has before a frame.
const SLOT_HEADERS: usize = 96;
/// The shortest frame that slots can be sized for.
const LEAST_FRAME: usize = 64;
/// The longest frame that slots are sized for.
const LONG_SLOT: usize = 9_100;
const MOST_SLOTS: usize = 65_536;
/// Frames of a turn at the end.
const TURN: usize = 256;
/// Additional time for a busy machine, beyond the time of a block.
const LAST_BLOCK_MARGIN: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use clap::Parser;
    use softtimers_measure::failure::Exit;

    use super::super::args::CaptureArgs;
    use super::*;

    #[test]
    fn blocks_are_for_delays_that_have_time_for_them() {
        let layout = |ring: usize, snap, millis, late| {
            let late = Duration::from_millis(late);
            match Layout::new(ring << 10, snap, Duration::from_millis(millis), late, 4_096) {
                Layout(None) => (0, 0, 0),
                Layout(Some(Blocks { block, blocks, retire })) => (block >> 10, blocks, retire.as_millis()),
            }
        };
        let (mib16, all) = (16 << 10, 262_144);
        assert_eq!(layout(mib16, 68, 1, 0), (0, 0, 0), "the delay has no time for it");
        assert_eq!(layout(mib16, 68, 2, 0), (32, 512, 1));
        assert_eq!(layout(mib16, all, 2, 0), (0, 0, 0), "128 blocks of 1 ms are too few");
        assert_eq!(layout(mib16, all, 10, 0), (128, 128, 5));
        assert_eq!(layout(mib16, all, 10_000, 0), (256, 64, 100));
        assert_eq!(layout(mib16, 68, 10, 4), (32, 512, 1), "a tick comes off");
        assert_eq!(layout(64, 68, 1_000, 0), (8, 8, 100));
        assert_eq!(layout(64, all, 1_000, 0), (0, 0, 0));
        for snap in [14, 4_000, 65_000, all] {
            if let Layout(Some(Blocks { block, .. })) =
                Layout::new(mib16 << 10, snap, Duration::from_secs(1), Duration::ZERO, 4_096)
            {
                assert!(Blocks::longest(block) >= snap.min(LONGEST_FRAME));
            }
        }
    }

    #[test]
    fn blocks_have_whole_pages_of_any_size() {
        for page in [4_096, 16_384, 65_536] {
            for ring in [64 << 10, 1 << 20, 16 << 20, 64 << 20] {
                for (snap, millis) in [(68, 2), (68, 10), (68, 1_000), (262_144, 20)] {
                    let max_delay = Duration::from_millis(millis);
                    let layout = Layout::new(ring, snap, max_delay, Duration::ZERO, page);
                    if let Layout(Some(Blocks { block, blocks, .. })) = layout {
                        assert!(block % page == 0 && blocks >= LEAST_BLOCKS, "{page}: {layout:?}");
                    }
                }
            }
            let (mib64, delay) = (64 << 20, Duration::from_millis(20));
            assert_ne!(Layout::new(mib64, 68, delay, Duration::ZERO, page), Layout(None), "{page}");
        }
        let (mib16, least) = (16 << 20, Duration::from_millis(2));
        assert_eq!(Layout::new(mib16, 68, least, Duration::ZERO, 65_536), Layout(None), "too few of them");
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: CaptureArgs,
    }

    /// No machine has a page size for which half a page is a valid block.
    #[test]
    #[cfg_attr(miri, ignore)]
    fn where_blocks_are_refused_frames_have_slots() {
        let line = Line::try_parse_from(["capture", "lo", "--max-delay", "1s"]).unwrap();
        let mut plan = Capture::new(&line.args).unwrap();
        assert_eq!(Layout::for_plan(&plan).name(), "blocks");
        let blocks = Blocks { block: page_size() / 2, blocks: 8, retire: Duration::from_millis(5) };
        match open_all(&mut plan, Layout(Some(blocks))) {
            Ok((taps, reason)) => {
                assert!(taps.len() == 1 && taps[0].slots() > 0, "{taps:?}");
                let reason = reason.expect("a reason");
                assert!(reason.starts_with("capture lo: a ring of blocks: "), "{reason}");
                assert_eq!(Layout::for_plan(&plan), Layout(None), "the report and the turns go by it");
            }
            Err(failure) if failure.exit() == Exit::NotPossible => eprintln!("skipped: {failure}"),
            Err(failure) => panic!("{failure}"),
        }
    }
}
