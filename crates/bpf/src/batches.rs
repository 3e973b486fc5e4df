//! The worked use of `softtimer.bpf.h`: [`Batches`].

use aya::maps::Array;
use aya::programs::Xdp;
use aya::programs::xdp::XdpMode;
use aya::{Ebpf, EbpfLoader};

use crate::{Error, load};

/// The program, compiled from `c/batch.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../object/batch.bpf.o");

/// `struct batch`, in words.
const BATCH: usize = 8;

/// Packets of an interface that an XDP program collects into a batch for each processor, and hands on when it is full, or
/// 100 µs after its first packet, until it is dropped. Here handing on is counting; the packets go their way.
#[derive(Debug)]
pub struct Batches {
    bpf: Ebpf,
    processors: u32,
}

/// What hands on a batch that is not full.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlushedBy {
    /// A soft event, at the next packet; by its backup, a millisecond later, if there is none.
    SoftEvent,
    /// A `bpf_timer` of a program that has nothing else of soft timers: an interrupt.
    Timer,
}

/// What was handed on, of all processors together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchTotals {
    /// Packets in batches that were handed on.
    pub packets: u64,
    /// Those batches.
    pub batches: u64,
    /// Batches that were handed on because of their time.
    pub by_time: u64,
    /// The longest that a packet was in a batch, in nanoseconds.
    pub longest_ns: u64,
    /// Times that a `bpf_timer` went off; that of soft events' backup, until a processor's last packet.
    pub interrupts: u64,
    /// Packets in batches that were not handed on yet.
    pub held: u64,
}

impl Batches {
    /// Begins to collect what comes in at `interface`.
    ///
    /// # Errors
    /// If the process may not, the kernel cannot, or there is no such interface.
    pub fn collect(interface: &str, by: FlushedBy) -> Result<Batches, Error> {
        let types = load::kernel_types(load::TIMERS)?;
        let processors = load::processors()?;
        let mut bpf = load::load(
            EbpfLoader::new()
                .map_max_entries("st_cpus", processors)
                .map_max_entries("st_backups", processors)
                .map_max_entries("flushers", processors)
                .map_max_entries("batches", processors),
            OBJECT,
        )?;
        let name = match by {
            FlushedBy::SoftEvent => {
                load::load_at(&mut bpf, load::INIT, "sys_enter", &types)?;
                let starter = load::attach(&mut bpf, load::INIT)?;
                let mut calls = 0;
                load::call_on_each(0..processors, |_| {
                    calls += 1;
                    Ok(calls % 2 == 0)
                })?;
                drop(starter);
                "collect"
            }
            FlushedBy::Timer => "collect_by_timer",
        };
        let refused = |error: aya::programs::ProgramError| load::refused(name, &error);
        let missing = || Error::Map(format!("the object has no program {name}"));
        let collect: &mut Xdp = bpf.program_mut(name).ok_or_else(missing)?.try_into().map_err(refused)?;
        collect.load().map_err(refused)?;
        collect.attach(interface, XdpMode::Skb).map_err(refused)?;
        Ok(Batches { bpf, processors })
    }

    /// What was handed on so far.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn totals(&self) -> Result<BatchTotals, Error> {
        let map = self.bpf.map("batches").ok_or_else(|| Error::Map("batches is missing".to_owned()))?;
        let batches: Array<_, [u64; BATCH]> = Array::try_from(map).map_err(load::map_error)?;
        let mut all = BatchTotals::default();
        for cpu in 0..self.processors {
            let [held, _, packets, count, by_time, longest, interrupts, _] =
                batches.get(&cpu, 0).map_err(load::map_error)?;
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
