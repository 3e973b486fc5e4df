//! A router's fast path in the kernel: [`FastPath`].
//!
//! Each frame of an interface meets two programs (`c/forward.bpf.c`): a filter of the router's packet socket,
//! which leaves frames that do not need user space to the kernel, and one at the interface's ingress (TCX),
//! which forwards those. [On request](FastHook::Xdp), a third one, at XDP, forwards complete frames before
//! both. All apply a [`FastPolicy`], which can be changed at any time: no frame sees half of one, and
//! [`FastPath::change`] returns the final counts of the previous one.
//!
//! Links are held by descriptor: forwarding in the kernel ends with the process, however that ends.

mod counts;
mod policy;
mod turns;

use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use aya::maps::{Array, HashMap, Map, MapData, PerCpuArray, PerCpuValues};
use aya::programs::links::FdLink;
use aya::programs::tc::{SchedClassifierLink, TcAttachOptions};
use aya::programs::{LinkOrder, SchedClassifier, SocketFilter, TcAttachType, Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader};
use rustix::thread::{MembarrierCommand, membarrier};

use crate::error::{is_busy, map_error, refused};
use crate::load::{is_realtime, release_from};
use crate::{Error, processors};
use policy::{POLICY, owner};

pub use counts::{FastCount, FastCounts};
pub use policy::{FastPolicy, FastRule, FastSide};
pub use turns::FastTurns;

/// The programs, compiled from `c/forward.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../object/forward.bpf.o");

/// The programs of a router between two interfaces, and their maps, until this is dropped.
#[derive(Debug)]
pub struct FastPath {
    bpf: Ebpf,
    /// Detached when they are dropped.
    _links: Vec<SchedClassifierLink>,
    _first: Vec<FdLink>,
    processors: usize,
    /// The number of the policy in use.
    in_use: Option<u32>,
    /// The machine's own addresses in each policy.
    owned: [Vec<[u32; 5]>; 2],
    /// The counts already reported for the policy in use.
    told: FastCounts,
}

/// The hook at which frames are forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FastHook {
    /// At the ingress of an interface. Frames may have joined segments and unfinished checksums.
    #[default]
    Tcx,
    /// Before the kernel allocates its own frame, which is about half the cost. Frames must be complete
    /// there. A TCP or UDP frame with an unfinished checksum is recognised and forwarded at TCX, and so is a
    /// joined frame. Not recognised are a VLAN tag that the sender left to its interface, and an unfinished
    /// packet within a tunnel over UDP.
    Xdp,
}

impl FastPath {
    /// The most rules that the kernel applies.
    pub const RULES: usize = 64;
    /// The most addresses of the machine itself in a policy.
    pub const OWN: usize = 8_192;

    /// Loads the programs and attaches one to the ingress of each interface, before other programs there, and
    /// one to its driver's XDP hook on request, if that is free. Nothing is forwarded yet.
    ///
    /// # Errors
    /// If the process lacks the privileges, the kernel or the driver lacks support, another XDP program is
    /// attached, or there is no such interface.
    pub fn attach(interfaces: [&str; 2], hook: FastHook) -> Result<Self, Error> {
        release_from(NEEDED)?;
        // With PREEMPT_RT, a frame's two programs may be interrupted by those of another frame.
        if is_realtime() {
            return Err(refused_for(CHOOSE, "a PREEMPT_RT kernel is not supported"));
        }
        // For both policies.
        let owned = 2 * Self::OWN as u32;
        let mut bpf = EbpfLoader::new()
            .map_max_entries("owned", owned)
            .load(OBJECT)
            .map_err(|error| refused("maps", &error))?;
        let choose: &mut SocketFilter = program(&mut bpf, CHOOSE)?;
        choose.load().map_err(|error| refused(CHOOSE, &error))?;
        let carry: &mut SchedClassifier = program(&mut bpf, CARRY)?;
        carry.load().map_err(|error| refused(CARRY, &error))?;
        let mut links = Vec::new();
        for interface in interfaces {
            let first = TcAttachOptions::TcxOrder(LinkOrder::first());
            let link = carry.attach_with_options(interface, TcAttachType::Ingress, first);
            links.push(link.and_then(|id| carry.take_link(id)).map_err(|error| refused(CARRY, &error))?);
        }
        let mut first = Vec::new();
        if hook == FastHook::Xdp {
            let cross: &mut Xdp = program(&mut bpf, CROSS)?;
            cross.load().map_err(|error| refused(CROSS, &error))?;
            for interface in interfaces {
                // Only a driver's own hook avoids the kernel's frame.
                let link = cross.attach(interface, XdpMode::Driver).and_then(|id| cross.take_link(id));
                let link = link.map_err(|error| match is_busy(&error) {
                    true => Error::InUse { interface: interface.to_owned() },
                    false => refused(&format!("{CROSS} at {interface}"), &error),
                })?;
                // A link that could outlive this process is dropped, and the program with it.
                first.push(FdLink::try_from(link).map_err(|error| refused(CROSS, &error))?);
            }
        }
        let (processors, told) = (processors()? as usize, FastCounts::default());
        let (owned, in_use) = Default::default();
        Ok(FastPath { bpf, _links: links, _first: first, processors, in_use, owned, told })
    }

    /// Returns the handle that tells the programs that a poller has had a turn.
    ///
    /// # Errors
    /// If it was taken before.
    pub fn turns(&mut self) -> Result<FastTurns, Error> {
        self.bpf.take_map("turns").map(FastTurns).ok_or_else(missing)
    }

    /// Makes a packet socket of one of the interfaces receive only frames that are not forwarded in the
    /// kernel.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn filter(&mut self, socket: impl AsFd) -> Result<(), Error> {
        let choose: &mut SocketFilter = program(&mut self.bpf, CHOOSE)?;
        choose.attach(socket).map_err(|error| refused(CHOOSE, &error))
    }

    /// Applies this policy from now on; returns the counts of the previous one since the last call of
    /// [`counted`](Self::counted).
    ///
    /// # Cost
    /// Some dozen system calls, and a wait of some milliseconds until no CPU runs a program with the old
    /// policy. Frames are not delayed.
    ///
    /// # Errors
    /// If the policy has more than [`OWN`](Self::OWN) addresses, or the kernel refuses a map's value; then
    /// the old policy stays in use.
    pub fn change(&mut self, policy: &FastPolicy) -> Result<FastCounts, Error> {
        if policy.own.len() > Self::OWN {
            return Err(Error::Map(format!("{} addresses are more than {}", policy.own.len(), Self::OWN)));
        }
        let number = self.in_use.map_or(0, |number| 1 - number);
        let processors = self.processors;
        let blank = || PerCpuValues::try_from(vec![[0u64; 2]; processors]);
        let mut counts: PerCpuArray<_, [u64; 2]> = self.map_mut("counts")?;
        for at in 0..COUNTS {
            counts.set(number * COUNTS + at, blank()?, 0).map_err(map_error)?;
        }
        let mut owned: HashMap<_, [u32; 5], u32> = self.map_mut("owned")?;
        let own: Vec<_> = policy.own.iter().map(|&ip| owner(number, ip)).collect();
        if let Err(error) = own.iter().try_for_each(|key| owned.insert(key, 1, 0)) {
            own.iter().for_each(|key| _ = owned.remove(key));
            return Err(map_error(error));
        }
        let mut policies: Array<_, [u8; POLICY]> = self.map_mut("policies")?;
        policies.set(number, policy.bytes(), 0).map_err(map_error)?;
        self.owned[number as usize] = own;
        self.switch(number + 1)
    }

    /// Stops forwarding, and returns the counts since the last call.
    ///
    /// # Errors
    /// If the kernel refuses a map's value.
    pub fn stop(&mut self) -> Result<FastCounts, Error> {
        self.switch(0)
    }

    /// Returns the counts since the last call.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn counted(&mut self) -> Result<FastCounts, Error> {
        let Some(number) = self.in_use else { return Ok(FastCounts::default()) };
        let counts: PerCpuArray<&MapData, [u64; 2]> =
            self.bpf.map("counts").ok_or_else(missing)?.try_into().map_err(map_error)?;
        let read = |at: usize| -> Result<FastCount, Error> {
            let each = counts.get(&(number * COUNTS + at as u32), 0).map_err(map_error)?;
            let sum = |word: usize| each.iter().map(|count| count[word]).sum();
            Ok(FastCount { packets: sum(0), bytes: sum(1) })
        };
        let pair = |at| Ok::<_, Error>([read(at)?, read(at + 1)?]);
        let rules = (0..Self::RULES).map(read).collect::<Result<Vec<_>, _>>()?;
        // Frames that left or were rejected are read first, because they came in before.
        let (left, rejected) = (pair(Self::RULES + 2)?, pair(Self::RULES + 4)?);
        let (came, held) = (pair(Self::RULES)?, pair(Self::RULES + 6)?);
        let all = FastCounts { rules, came, left, rejected, held };
        let new = all.since(&self.told);
        self.told = all;
        Ok(new)
    }

    /// Switches to a policy, or to none, and returns the last counts of the previous one.
    fn switch(&mut self, to: u32) -> Result<FastCounts, Error> {
        let mut in_use: Array<_, u32> = self.map_mut("in_use")?;
        in_use.set(0, to, 0).map_err(map_error)?;
        no_program_runs();
        let last = self.counted();
        if let Some(before) = self.in_use.replace(to.wrapping_sub(1)) {
            let old = std::mem::take(&mut self.owned[before as usize]);
            let mut owned: HashMap<_, [u32; 5], u32> = self.map_mut("owned")?;
            // An address that is already gone need not be removed.
            old.iter().for_each(|key| _ = owned.remove(key));
        }
        self.in_use = self.in_use.filter(|_| to > 0);
        self.told = FastCounts::default();
        last
    }

    fn map_mut<'a, M: TryFrom<&'a mut Map, Error = aya::maps::MapError>>(
        &'a mut self,
        name: &str,
    ) -> Result<M, Error> {
        self.bpf.map_mut(name).ok_or_else(missing)?.try_into().map_err(map_error)
    }
}

fn program<'a, P>(bpf: &'a mut Ebpf, name: &str) -> Result<&'a mut P, Error>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program, Error = aya::programs::ProgramError>,
{
    let missing = || refused_for(name, "the object does not contain it");
    bpf.program_mut(name).ok_or_else(missing)?.try_into().map_err(|error| refused(name, &error))
}

fn refused_for(program: &str, why: &str) -> Error {
    Error::Refused { program: program.to_owned(), why: why.to_owned() }
}

fn missing() -> Error {
    Error::Map("it is missing".to_owned())
}

/// Returns when no CPU runs a program that began before the call.
fn no_program_runs() {
    // It waits for a grace period of RCU. A kernel with tickless CPUs does not support that; there, sleep
    // longer than any program runs.
    if membarrier(MembarrierCommand::Global).is_err() {
        thread::park_timeout(Duration::from_millis(100));
    }
}

const CHOOSE: &str = "choose";
const CARRY: &str = "carry";
const CROSS: &str = "cross";
/// TCX.
const NEEDED: (u32, u32) = (6, 6);
const COUNTS: u32 = 128;
