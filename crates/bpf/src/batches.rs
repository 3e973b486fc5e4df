//! A worked example of `softtimer.bpf.h`: [`Batches`].

use aya::EbpfLoader;
use aya::programs::Xdp;
use aya::programs::xdp::XdpMode;

use crate::object::Object;
use crate::{Error, error, load};

/// The program, compiled from `c/batch.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../object/batch.bpf.o");

/// `struct batch`, in words.
const BATCH: usize = 8;

/// An XDP program that collects the packets of an interface into a batch per CPU, until this is dropped. A
/// batch is flushed when it is full or due, 100 µs after its first packet; [`FlushedBy`] says how a due batch
/// is flushed. Here, flushing only counts.
#[derive(Debug)]
pub struct Batches {
    object: Object,
}

/// The event that flushes a batch that is not full.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlushedBy {
    /// A soft event, at the next packet; or its backup, a millisecond later, if no packet comes.
    SoftEvent,
    /// A `bpf_timer` in a program without soft timers: an interrupt.
    Timer,
}

/// Totals of flushed batches, over all CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchTotals {
    /// Packets in flushed batches.
    pub packets: u64,
    /// The number of these batches.
    pub batches: u64,
    /// Batches flushed because they were due.
    pub by_time: u64,
    /// The longest time of a packet in a batch, in nanoseconds.
    pub longest_ns: u64,
    /// How often a `bpf_timer` fired; with soft events it is the backup, counted until a CPU's last packet.
    pub interrupts: u64,
    /// Packets in batches not yet flushed.
    pub held: u64,
}

impl Batches {
    /// Starts to collect packets that arrive at `interface`.
    ///
    /// # Errors
    /// If the process lacks the privileges, the kernel lacks support, or there is no such interface.
    pub fn collect(interface: &str, by: FlushedBy) -> Result<Batches, Error> {
        let types = load::kernel_types(load::TIMERS)?;
        let maps = ["st_cpus", "st_backups", "flushers", "batches"];
        let mut object = Object::load(&mut EbpfLoader::new(), &maps, OBJECT)?;
        let name = match by {
            FlushedBy::SoftEvent => {
                object.load_at(load::INIT, "sys_enter", &types)?;
                let starter = object.attach(load::INIT)?;
                let mut calls = 0;
                load::call_on_each(0..object.processors(), |_| {
                    calls += 1;
                    Ok(calls % 2 == 0)
                })?;
                drop(starter);
                "collect"
            }
            FlushedBy::Timer => "collect_by_timer",
        };
        let refused = |error: aya::programs::ProgramError| error::refused(name, &error);
        let collect: &mut Xdp = object.program(name)?;
        collect.load().map_err(refused)?;
        collect.attach(interface, XdpMode::Skb).map_err(refused)?;
        Ok(Batches { object })
    }

    /// Returns the totals so far.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn totals(&self) -> Result<BatchTotals, Error> {
        let batches = self.object.map::<[u64; BATCH]>("batches")?;
        let mut all = BatchTotals::default();
        for cpu in 0..self.object.processors() {
            let [held, _, packets, count, by_time, longest, interrupts, _] =
                batches.get(&cpu, 0).map_err(error::map_error)?;
            all.packets += packets;
            all.batches += count;
            all.by_time += by_time;
            all.longest_ns = all.longest_ns.max(longest);
            all.interrupts += interrupts;
            all.held += held;
        }
        Ok(all)
    }
}
