//! Paces packets from one UDP port or one cgroup in the kernel, whichever program sends them: [`EgressPace`].
//!
//! A program at the interface's egress (TCX, `c/pace.bpf.c`) gives each packet its departure time, and the
//! interface's queue holds it until then. **That queue has to be `fq`**: no other queue uses the time.
//! [`EgressPace::attach`] rejects an interface without it.
//!
//! The link is held by descriptor: pacing ends with the process, however that ends.

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

/// The packets to pace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Egress {
    /// UDP from this port, over IPv4 and IPv6. Fragments after the first have no port.
    Port(u16),
    /// Packets of all sockets of this cgroup (version 2), not of cgroups below it; given by the inode number
    /// of its directory.
    Cgroup(u64),
}

/// Counts of the paced packets so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EgressCounts {
    /// Packets passed on. A packet that the device will segment counts as one, and leaves as one.
    pub packets: u64,
    /// Their bytes, with the headers of all segments.
    pub bytes: u64,
    /// Packets among them that had to wait.
    pub delayed: u64,
    /// Packets dropped because they would have waited longer than [`EgressPace::HORIZON`], or behind
    /// [`EgressPace::WAITING`] packets of their flow.
    pub dropped: u64,
}

/// A rate limit for the packets of a port or a cgroup that leave by some interfaces, until this is dropped.
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
/// Packets are never closer together than the rate allows, and after a pause the first leaves at once: lost
/// time is not made up. A later departure time set by the sender (`SO_TXTIME`) is kept.
///
/// # Cost
/// It parses the headers of each packet that leaves the interface, and takes a lock for each paced packet;
/// `fq` has one timer for all waiting packets. Its tables in the kernel take 728 KiB.
#[derive(Debug)]
pub struct EgressPace {
    bpf: Ebpf,
    of: Egress,
    /// Detached when they are dropped.
    links: Vec<SchedClassifierLink>,
}

impl EgressPace {
    /// The longest wait. Packets that would wait longer are dropped; otherwise a sender above its rate would
    /// fill the queue for all others.
    pub const HORIZON: Duration = Duration::from_secs(2);

    /// The most waiting packets of a flow. `fq` keeps 100 of a flow unless its `flow_limit` differs, and
    /// silently drops the next. Packets of a flow have the same addresses and ports; about a thousand paced
    /// flows are distinguished.
    pub const WAITING: usize = 90;

    /// Loads the programs, without pacing any packets yet. The rate is in bit/s.
    ///
    /// # Errors
    /// If the process lacks the privileges, or the kernel lacks support.
    pub fn load(of: Egress, bits_per_second: NonZeroU64) -> Result<Self, Error> {
        release_from(NEEDED)?;
        let mut bpf = EbpfLoader::new().load(OBJECT).map_err(|error| refused("maps", &error))?;
        program(&mut bpf, of)?.load().map_err(|error| refused(of.program(), &error))?;
        let mut pace = EgressPace { bpf, of, links: vec![] };
        pace.set_rate(bits_per_second)?;
        Ok(pace)
    }

    /// Also paces packets that leave by this interface: all interfaces share the rate.
    ///
    /// # Errors
    /// [`Error::NoFq`] if its queue does not keep departure times; others if there is no such interface, or
    /// the system refuses.
    pub fn attach(&mut self, interface: &str) -> Result<(), Error> {
        let queue = queues::kind_of(interface)?;
        if queue != "fq" {
            return Err(Error::NoFq { interface: interface.to_owned(), queue });
        }
        self.attach_before_fq(interface)
    }

    /// As [`attach`](Self::attach), for an interface before the queue: an interface of a container whose
    /// packets leave by a host interface with `fq`. The packet keeps its departure time. The queue is not
    /// checked: without `fq`, packets leave at once.
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

    /// Changes the rate for future packets. Waiting packets keep their times and are not overtaken; the next
    /// packet follows the last of them at the new rate.
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
    /// If the kernel cannot be read.
    pub fn counts(&self) -> Result<EgressCounts, Error> {
        let states: Array<&MapData, [u64; 7]> =
            self.bpf.map("states").ok_or_else(missing)?.try_into().map_err(map_error)?;
        let [_lock, _last, _owed, packets, bytes, delayed, dropped] = states.get(&0, 0).map_err(map_error)?;
        Ok(EgressCounts { packets, bytes, delayed, dropped })
    }

    /// Runs the program in the kernel on an Ethernet frame as if it left now, and returns the frame's
    /// departure time: `None` if it may leave at once, or is not paced. The frame is counted, but not sent.
    ///
    /// # Errors
    /// [`Error::Refused`] if the frame is invalid or dropped.
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
        || Error::Refused { program: name.to_owned(), why: "the object does not contain it".to_owned() };
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
