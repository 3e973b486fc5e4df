//! Pacing in the kernel of what leaves from one UDP port or one cgroup, whatever program sends it: [`EgressPace`].
//!
//! A program at the interface's egress (TCX, `c/pace.bpf.c`) gives each packet the time at which it may leave, and the
//! interface's queue keeps it until then. **That queue has to be `fq`**: no other looks at the time. [`EgressPace::attach`]
//! refuses an interface without it.
//!
//! The link is held by descriptor: when the process ends, however it ends, nothing is paced any more.

use std::num::NonZeroU64;
use std::time::Duration;

use aya::maps::{Array, MapData};
use aya::programs::tc::{SchedClassifierLink, TcAttachOptions};
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType, TestRun, TestRunOptions};
use aya::{Ebpf, EbpfLoader};
use softtimers_core::Timestamp;

use crate::error::{line, map_error, refused};
use crate::load::release_from;
use crate::{Error, queues};

/// The programs, compiled from `c/pace.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../object/pace.bpf.o");

/// The packets that are paced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Egress {
    /// UDP from this port, over IPv4 and IPv6. The pieces of a datagram behind the first have no port.
    Port(u16),
    /// Whatever the sockets of this cgroup (version 2) send, without those below it: the number of the inode of its directory.
    Cgroup(u64),
}

/// The paced packets so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EgressCounts {
    /// Packets that were let through. One that the device is to cut into segments is one, and leaves as one.
    pub packets: u64,
    /// Their bytes, with the headers of all segments.
    pub bytes: u64,
    /// Packets among them that had to wait.
    pub delayed: u64,
    /// Packets that would have waited longer than [`EgressPace::HORIZON`], or with more than [`EgressPace::WAITING`] of their flow.
    pub dropped: u64,
}

/// A rate for the packets of a port or a cgroup that leave by some interfaces, until it is dropped.
///
/// ```no_run
/// use std::num::NonZeroU64;
/// use softtimers_bpf::{Egress, EgressPace};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let megabit = NonZeroU64::new(1_000_000).ok_or("zero")?;
/// let mut pace = EgressPace::load(Egress::Port(5004), megabit)?;
/// pace.attach("eth0")?; // Error::NoFq, unless its queue is fq
/// # Ok(()) }
/// ```
///
/// Packets follow each other no closer than the rate allows, and after a pause the first leaves at once: nothing is made up.
/// A departure time that the sender has set itself (`SO_TXTIME`) stays, if it is later.
///
/// # Cost
/// For each packet that leaves the interface a look at its headers, for each that is paced a lock; `fq` has one timer for all
/// that wait. Its tables in the kernel take 728 KiB.
#[derive(Debug)]
pub struct EgressPace {
    bpf: Ebpf,
    of: Egress,
    /// Detached when they are dropped.
    links: Vec<SchedClassifierLink>,
}

impl EgressPace {
    /// The longest wait. What would wait longer is dropped, or a sender that asks for more than its rate would fill the queue
    /// for all others.
    pub const HORIZON: Duration = Duration::from_secs(2);

    /// The most packets of a flow that wait. `fq` keeps 100 of a flow unless its `flow_limit` says otherwise, and would drop
    /// the next in silence. A flow has the same addresses and ports; among the paced, about a thousand are told apart.
    pub const WAITING: usize = 90;

    /// Loads the programs; nothing is paced yet. The rate is in bit/s.
    ///
    /// # Errors
    /// If the process may not, or the kernel cannot.
    pub fn load(of: Egress, bits_per_second: NonZeroU64) -> Result<Self, Error> {
        release_from(NEEDED)?;
        let mut bpf = EbpfLoader::new().load(OBJECT).map_err(|error| refused("maps", &error))?;
        program(&mut bpf, of)?.load().map_err(|error| refused(of.program(), &error))?;
        let mut pace = EgressPace { bpf, of, links: vec![] };
        pace.set_rate(bits_per_second)?;
        Ok(pace)
    }

    /// Paces what leaves by this interface, too: all interfaces share the rate.
    ///
    /// # Errors
    /// [`Error::NoFq`] if its queue does not keep departure times; if there is no such interface, or the system refuses.
    pub fn attach(&mut self, interface: &str) -> Result<(), Error> {
        let queue = queues::kind_of(interface)?;
        if queue != "fq" {
            return Err(Error::NoFq { interface: interface.to_owned(), queue });
        }
        self.attach_before_fq(interface)
    }

    /// As [`attach`](Self::attach), where the queue comes later: at an interface of a container whose packets leave by one of
    /// the host with `fq`. The departure time goes with the packet. It is not checked that there is one: without, packets
    /// leave at once.
    ///
    /// # Errors
    /// If there is no such interface, or the system refuses.
    pub fn attach_before_fq(&mut self, interface: &str) -> Result<(), Error> {
        let of = self.of;
        let last = TcAttachOptions::TcxOrder(LinkOrder::last());
        let pace = program(&mut self.bpf, of)?;
        let link = pace.attach_with_options(interface, TcAttachType::Egress, last);
        let link = link.and_then(|id| pace.take_link(id)).map_err(|error| refused(of.program(), &error))?;
        self.links.push(link);
        Ok(())
    }

    /// Changes the rate, from now on. What waits already keeps its time and is not overtaken; what comes is behind the last of
    /// it by what that one takes at the new rate.
    ///
    /// # Errors
    /// If the kernel refuses the map's value.
    pub fn set_rate(&mut self, bits_per_second: NonZeroU64) -> Result<(), Error> {
        let (cgroup, port) = match self.of {
            Egress::Port(port) => (0, port.into()),
            Egress::Cgroup(cgroup) => (cgroup, 0),
        };
        let rate = (bits_per_second.get() / 8).max(1);
        let settings = self.bpf.map_mut("settings").ok_or_else(missing)?;
        let mut settings: Array<_, [u64; 4]> = settings.try_into().map_err(map_error)?;
        settings.set(0, [rate, Self::HORIZON.as_nanos() as u64, cgroup, port], 0).map_err(map_error)
    }

    /// Returns the counts so far.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn counts(&self) -> Result<EgressCounts, Error> {
        let states: Array<&MapData, [u64; 7]> =
            self.bpf.map("states").ok_or_else(missing)?.try_into().map_err(map_error)?;
        let [_lock, _last, _owed, packets, bytes, delayed, dropped] = states.get(&0, 0).map_err(map_error)?;
        Ok(EgressCounts { packets, bytes, delayed, dropped })
    }

    /// Has the kernel run the program on an Ethernet frame as if it left now, and returns the departure time that the frame got:
    /// `None` if it may leave at once, or is not among the paced. It counts as one that left, and nothing is sent.
    ///
    /// # Errors
    /// [`Error::Refused`] if the frame is none, or is dropped.
    pub fn departure(&mut self, frame: &[u8]) -> Result<Option<Timestamp>, Error> {
        let (of, mut context) = (self.of, [0; CONTEXT]);
        let refused = |why: String| Error::Refused { program: of.program().to_owned(), why };
        let mut run = TestRunOptions::new();
        (run.data_in, run.ctx_out) = (Some(frame), Some(context.as_mut_slice()));
        let ran = program(&mut self.bpf, of)?.test_run(run).map_err(|error| refused(line(&error)))?;
        if ran.return_value == DROP {
            let (time, packets) = (Self::HORIZON, Self::WAITING);
            return Err(refused(format!(
                "the frame would wait for more than {time:?}, or behind {packets} of its flow"
            )));
        }
        let time = context[TSTAMP..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        Ok(Some(Timestamp::from_nanos(time)).filter(|_| time > 0))
    }
}

impl Egress {
    fn program(self) -> &'static str {
        match self {
            Egress::Port(_) => "pace_port",
            Egress::Cgroup(_) => "pace_cgroup",
        }
    }
}

fn program(bpf: &mut Ebpf, of: Egress) -> Result<&mut SchedClassifier, Error> {
    let name = of.program();
    let missing =
        || Error::Refused { program: name.to_owned(), why: "the object does not have it".to_owned() };
    bpf.program_mut(name).ok_or_else(missing)?.try_into().map_err(|error| refused(name, &error))
}

fn missing() -> Error {
    Error::Map("it is missing".to_owned())
}

/// TCX.
const NEEDED: (u32, u32) = (6, 6);
/// `TC_ACT_SHOT`.
const DROP: u32 = 2;
/// `struct __sk_buff`, and where its `tstamp` is.
const CONTEXT: usize = 192;
const TSTAMP: usize = 152;
