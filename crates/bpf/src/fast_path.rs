//! A router's fast path in the kernel: [`FastPath`].
//!
//! Each frame of an interface meets two programs (`c/forward.bpf.c`): a filter of the router's packet socket, which leaves
//! to the kernel what needs nobody in user space, and one at the interface's ingress (TCX), which forwards what the first
//! has left. Both go by a [`FastPolicy`], which can be changed meanwhile: no frame sees half of one, and
//! [`FastPath::change`] returns the final counts of the one before.
//!
//! Links are held by descriptor: when the process ends, however it ends, the kernel forwards nothing any more.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use aya::maps::{Array, HashMap, MapData, PerCpuArray, PerCpuValues};
use aya::programs::tc::{SchedClassifierLink, TcAttachOptions};
use aya::programs::{LinkOrder, SchedClassifier, SocketFilter, TcAttachType};
use aya::{Ebpf, EbpfLoader};
use rustix::thread::{MembarrierCommand, membarrier};

use crate::error::{map_error, refused};
use crate::load::{is_realtime, release_from};
use crate::{Error, processors};

/// The programs, compiled from `c/forward.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../object/forward.bpf.o");

/// The programs of a router between two interfaces, and their maps, until it is dropped.
#[derive(Debug)]
pub struct FastPath {
    bpf: Ebpf,
    /// Detached when they are dropped.
    _links: Vec<SchedClassifierLink>,
    processors: usize,
    /// The number of the policy in use.
    in_use: Option<u32>,
    /// The addresses of each policy that are the machine's own.
    owned: [Vec<[u32; 5]>; 2],
    /// The counts already reported for the policy in use.
    told: FastCounts,
}

/// The policy by which the kernel forwards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FastPolicy {
    /// Both interfaces.
    pub sides: [FastSide; 2],
    /// The rules; the first that matches decides. A frame that matches none of the first [`FastPath::RULES`] is not forwarded by
    /// the kernel; without any rule, all is accepted.
    pub rules: Vec<FastRule>,
    /// Packets to these addresses are not forwarded by the kernel.
    pub own: Vec<IpAddr>,
}

/// An interface of the router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastSide {
    /// Its index.
    pub interface: u32,
    /// The longest packet that it sends.
    pub mtu: u32,
    /// Its station.
    pub station: [u8; 6],
    /// The station that packets go to there.
    pub next_hop: [u8; 6],
}

/// A rule; `None` holds for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FastRule {
    /// The interface that the frame came in at: 0 or 1.
    pub side: Option<u8>,
    /// The type of its content.
    pub kind: Option<u16>,
    /// The protocol.
    pub protocol: Option<u8>,
    /// The source: an address, and how many of its bits count.
    pub from: Option<(IpAddr, u8)>,
    /// The first and the last source port.
    pub from_ports: Option<[u16; 2]>,
    /// The destination.
    pub to: Option<(IpAddr, u8)>,
    /// The first and the last destination port.
    pub to_ports: Option<[u16; 2]>,
    /// The least and the greatest length.
    pub lengths: Option<[u16; 2]>,
    /// Somebody else decides, in user space.
    pub screened: bool,
    /// It is dropped.
    pub rejects: bool,
}

/// Frames and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FastCount {
    /// Frames.
    pub packets: u64,
    /// Bytes, Ethernet's header included.
    pub bytes: u64,
}

/// Counts of frames under one policy. A frame that came and neither left nor was rejected is on its way, or was lost on it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FastCounts {
    /// The frames that each rule decided about.
    pub rules: Vec<FastCount>,
    /// Frames that came in at each side and were not left to user space.
    pub came: [FastCount; 2],
    /// Frames that left by each side.
    pub left: [FastCount; 2],
    /// Frames that came in at each side and that a rule dropped.
    pub rejected: [FastCount; 2],
}

impl FastPath {
    /// The most rules that the kernel applies.
    pub const RULES: usize = 64;
    /// The most addresses of the machine's own in a policy.
    pub const OWN: usize = 8_192;

    /// Loads the programs and attaches one to the ingress of each interface, before what others have there. Nothing is
    /// forwarded yet.
    ///
    /// # Errors
    /// If the process may not, the kernel cannot, or there is no such interface.
    pub fn attach(interfaces: [&str; 2]) -> Result<Self, Error> {
        release_from(NEEDED)?;
        // There a frame's two programs may be interrupted by those of another frame.
        if is_realtime() {
            return Err(refused_for(CHOOSE, "not with a kernel that is PREEMPT_RT"));
        }
        // Of both policies.
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
        let (processors, told) = (processors()? as usize, FastCounts::default());
        Ok(FastPath { bpf, _links: links, processors, in_use: None, owned: Default::default(), told })
    }

    /// Has a packet socket of one of the interfaces get only what is not forwarded in the kernel.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn filter(&mut self, socket: impl AsFd) -> Result<(), Error> {
        let choose: &mut SocketFilter = program(&mut self.bpf, CHOOSE)?;
        choose.attach(socket).map_err(|error| refused(CHOOSE, &error))
    }

    /// Goes by this policy from now on; returns what was done by the one before since it was [asked](Self::counted) last.
    ///
    /// # Cost
    /// Some dozen system calls, and until every CPU has been seen to run no program by the old one: some milliseconds.
    /// Frames are not held up.
    ///
    /// # Errors
    /// If the policy has more than [`OWN`](Self::OWN) addresses, or the kernel refuses a map's value; then the old policy
    /// goes on.
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

    /// Forwards nothing any more, and returns what was done since it was asked last.
    ///
    /// # Errors
    /// If the kernel refuses a map's value.
    pub fn stop(&mut self) -> Result<FastCounts, Error> {
        self.switch(0)
    }

    /// Returns what was done since it was asked last.
    ///
    /// # Errors
    /// If the kernel does not tell.
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
        // What left or was rejected is read first: it has come before.
        let (left, rejected) = (pair(Self::RULES + 2)?, pair(Self::RULES + 4)?);
        let came = pair(Self::RULES)?;
        let all = FastCounts { rules, came, left, rejected };
        let new = all.since(&self.told);
        self.told = all;
        Ok(new)
    }

    /// Uses the policy of this number and one, or none, and returns the last counts of the one before.
    fn switch(&mut self, to: u32) -> Result<FastCounts, Error> {
        let mut in_use: Array<_, u32> = self.map_mut("in_use")?;
        in_use.set(0, to, 0).map_err(map_error)?;
        no_program_runs();
        let last = self.counted();
        if let Some(before) = self.in_use.replace(to.wrapping_sub(1)) {
            let old = std::mem::take(&mut self.owned[before as usize]);
            let mut owned: HashMap<_, [u32; 5], u32> = self.map_mut("owned")?;
            // What is not there any more need not be removed.
            old.iter().for_each(|key| _ = owned.remove(key));
        }
        self.in_use = self.in_use.filter(|_| to > 0);
        self.told = FastCounts::default();
        last
    }

    fn map_mut<'a, M: TryFrom<&'a mut aya::maps::Map, Error = aya::maps::MapError>>(
        &'a mut self,
        name: &str,
    ) -> Result<M, Error> {
        self.bpf.map_mut(name).ok_or_else(missing)?.try_into().map_err(map_error)
    }
}

impl FastPolicy {
    /// `struct policy`.
    fn bytes(&self) -> [u8; POLICY] {
        let rules = self.rules.len().min(FastPath::RULES);
        let mut bytes = [0; POLICY];
        let mut at = 0;
        let mut put = |value: &[u8]| {
            bytes[at..at + value.len()].copy_from_slice(value);
            at += value.len();
        };
        put(&(rules as u32).to_ne_bytes());
        put(&0u32.to_ne_bytes());
        for FastSide { interface, mtu, station, next_hop } in self.sides {
            put(&interface.to_ne_bytes());
            put(&mtu.to_ne_bytes());
            for address in [station, next_hop] {
                put(&address);
                put(&[0; 2]);
            }
        }
        self.rules[..rules].iter().for_each(|rule| rule.put(&mut put));
        bytes
    }
}

impl FastRule {
    /// `struct rule`.
    fn put(&self, put: &mut impl FnMut(&[u8])) {
        let Self { side, kind, protocol, from, from_ports, to, to_ports, lengths, screened, rejects } = *self;
        let family = |net: Option<(IpAddr, u8)>| match net {
            None => 0,
            Some((IpAddr::V4(_), _)) => 4,
            Some((IpAddr::V6(_), _)) => 6,
        };
        let has_ports = u8::from(from_ports.is_some()) | u8::from(to_ports.is_some()) << 1;
        let (screened, rejects, has_protocol) = (screened.into(), rejects.into(), protocol.is_some().into());
        let side = side.map_or(0, |side| side + 1);
        put(&[
            side,
            screened,
            rejects,
            family(from),
            family(to),
            has_protocol,
            protocol.unwrap_or(0),
            has_ports,
        ]);
        put(&kind.unwrap_or(0).to_ne_bytes());
        for span in [from_ports, to_ports, lengths] {
            span.unwrap_or([0, u16::MAX]).iter().for_each(|number| put(&number.to_ne_bytes()));
        }
        put(&[0; 2]);
        for net in [from, to] {
            let (address, bits) = net.unwrap_or((IpAddr::from([0; 4]), 0));
            let (address, width) = octets(address);
            put(&address);
            // The bits of an address of IPv4 are the first, too; behind them is nothing.
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(width))).unwrap_or(0);
            put(&mask.to_be_bytes());
        }
    }
}

impl FastCounts {
    /// The counts added since `earlier`, under the same policy.
    fn since(&self, earlier: &FastCounts) -> FastCounts {
        let one = |now: FastCount, before: FastCount| FastCount {
            packets: now.packets - before.packets,
            bytes: now.bytes - before.bytes,
        };
        let pair = |now: [FastCount; 2], before: [FastCount; 2]| [0, 1].map(|at| one(now[at], before[at]));
        let before = |at: usize| earlier.rules.get(at).copied().unwrap_or_default();
        FastCounts {
            rules: self.rules.iter().enumerate().map(|(at, &now)| one(now, before(at))).collect(),
            came: pair(self.came, earlier.came),
            left: pair(self.left, earlier.left),
            rejected: pair(self.rejected, earlier.rejected),
        }
    }
}

/// An address in network order at the beginning of the array, and its length in bits.
fn octets(address: IpAddr) -> ([u8; 16], u8) {
    match address {
        IpAddr::V6(v6) => (v6.octets(), 128),
        IpAddr::V4(v4) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&v4.octets());
            (bytes, 32)
        }
    }
}

/// `struct own`.
fn owner(policy: u32, address: IpAddr) -> [u32; 5] {
    let (bytes, _) = octets(address);
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    [policy, word(0), word(4), word(8), word(12)]
}

fn program<'a, P>(bpf: &'a mut Ebpf, name: &str) -> Result<&'a mut P, Error>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program, Error = aya::programs::ProgramError>,
{
    let missing = || refused_for(name, "the object does not have it");
    bpf.program_mut(name).ok_or_else(missing)?.try_into().map_err(|error| refused(name, &error))
}

fn refused_for(program: &str, why: &str) -> Error {
    Error::Refused { program: program.to_owned(), why: why.to_owned() }
}

fn missing() -> Error {
    Error::Map("it is missing".to_owned())
}

/// Returns when no CPU runs a program that began before.
fn no_program_runs() {
    // It waits for a grace period of RCU. A kernel with CPUs that have no tick does not: there none is long that runs one.
    if membarrier(MembarrierCommand::Global).is_err() {
        thread::park_timeout(Duration::from_millis(100));
    }
}

const CHOOSE: &str = "choose";
const CARRY: &str = "carry";
/// TCX.
const NEEDED: (u32, u32) = (6, 6);
/// `COUNTS` and the size of `struct policy`.
const COUNTS: u32 = 128;
const POLICY: usize = 8 + 2 * 24 + FastPath::RULES * 88;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_has_the_layout_of_the_program() {
        let side = FastSide { interface: 7, mtu: 1_500, station: [2; 6], next_hop: [4; 6] };
        let net = Some((IpAddr::from([10, 1, 0, 0]), 16));
        let rule = FastRule {
            side: Some(1),
            protocol: Some(17),
            from: net,
            to_ports: Some([53, 54]),
            ..FastRule::default()
        };
        let policy = FastPolicy { sides: [side; 2], rules: vec![rule; 70], own: vec![] };
        let bytes = policy.bytes();
        assert_eq!(bytes[..4], 64u32.to_ne_bytes());
        assert_eq!(
            bytes[8..24],
            [&7u32.to_ne_bytes()[..], &1_500u32.to_ne_bytes(), &[2; 6], &[0; 2]].concat()
        );
        let rule = &bytes[56..56 + 88];
        assert_eq!(rule[..8], [2, 0, 0, 4, 0, 1, 17, 2]);
        assert_eq!(rule[14..18], [&53u16.to_ne_bytes()[..], &54u16.to_ne_bytes()].concat());
        assert_eq!(rule[24..40], [&[10, 1][..], &[0; 14]].concat());
        assert_eq!(rule[40..56], [&[0xff; 2][..], &[0; 14]].concat());
        assert_eq!(rule[56..], [0; 32]);
    }
}
