//! The worked use of `softtimer.bpf.h`: [`Batches`].

use aya::EbpfLoader;
use aya::programs::Xdp;
use aya::programs::xdp::XdpMode;

use crate::object::Object;
use crate::{Error, error, load};

/// The program, compiled from `c/batch.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../object/batch.bpf.o");

/// `struct batch`, in words.
const BATCH: usize = 8;

/// Packets of an interface that an XDP program collects into a batch per CPU, until it is dropped. A batch is handed on when it is
/// full or due, 100 µs after its first packet; a due one leaves as [`FlushedBy`] says. Handing on only counts here.
#[derive(Debug)]
pub struct Batches {
    object: Object,
}

/// The event that hands on a batch which is not full.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlushedBy {
    /// A soft event, at the next packet; by its backup, a millisecond later, if there is none.
    SoftEvent,
    /// A `bpf_timer` of a program that has nothing else of soft timers: an interrupt.
    Timer,
}

/// Totals of the batches handed on, of all CPUs together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchTotals {
    /// Packets in batches that were handed on.
    pub packets: u64,
    /// The number of these batches.
    pub batches: u64,
    /// Batches that were handed on because of their time.
    pub by_time: u64,
    /// The longest that a packet was in a batch, in nanoseconds.
    pub longest_ns: u64,
    /// Times that a `bpf_timer` went off; that of soft events' backup, until a CPU's last packet.
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
    /// If the kernel does not tell.
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
