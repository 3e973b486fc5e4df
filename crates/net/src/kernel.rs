//! Detects the features that work on this kernel for this process: each feature is used once, on loopback,
//! and judged by the result.
//!
//! Asking the kernel is not enough. `SO_TXTIME` succeeds and does nothing without the fq queue; a
//! program is loaded but a container forbids to attach it; busy polling is set and has no queue to poll. So a probe sends the
//! packet, runs the program, and checks the result:
//!
//! ```text
//!   asks ──▶ refused ──────────────▶ does not work, and what it would take
//!     └────▶ accepted ─▶ uses it ──▶ seen?  works : does not work, and what happened instead
//! ```
//!
//! These are findings about the machine. [Another probe](release_times) checks whether release times are kept
//! on the path to one destination.
//!
//! Probes have no visible side effects. Each runs on its own thread, with which its settings end; those that
//! need an interface ([`Feature::SoTxtime`], [`Feature::AfXdp`]) get the loopback of an empty network namespace,
//! which ends with the thread, also when the process is killed.
//!
//! ```
//! use softtimers_net::kernel::Feature;
//!
//! let finding = Feature::Gso.probe();
//! println!("{} {}: {}", finding.feature, if finding.works { "works" } else { "does not work" }, finding.how);
//! assert!(!finding.how.is_empty());
//! ```

mod datagrams;
mod departure;
mod packets;
mod pair;
mod programs;
#[cfg(feature = "packet")]
mod queue;
mod release;
#[cfg(feature = "xdp")]
mod rings;
mod slice;
mod waits;

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use softtimers_linux::namespace;

#[cfg(feature = "packet")]
pub use queue::queue_to;
pub use release::release_times;

/// A feature of the kernel that timing or pacing can use.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Feature {
    /// Waits with nanosecond time-outs.
    EpollPwait2,
    /// One send that leaves as several datagrams.
    Gso,
    /// Several datagrams that arrive as one.
    Gro,
    /// Release times that the kernel keeps.
    SoTxtime,
    /// Receives that poll the device before they sleep.
    BusyPoll,
    /// Packet sockets, which see frames below the protocols.
    AfPacket,
    /// Rings to and from a device, around the stack.
    AfXdp,
    /// Programs in the kernel.
    Bpf,
    /// A scheduler slice chosen by the thread.
    Slice,
}

/// The result of a probe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The feature that was probed.
    pub feature: Feature,
    /// Whether the feature was seen to work, for this process as it is.
    pub works: bool,
    /// The evidence, or the reason why it does not work: one sentence, never empty.
    pub how: String,
}

/// Probes all features, in the order of [`Feature::ALL`].
///
/// # Cost
///
/// About a quarter of a second, most of it waiting.
pub fn all() -> Vec<Finding> {
    Feature::ALL.iter().map(|feature| feature.probe()).collect()
}

/// Gives a process without privileges a user namespace of its own, in which the probes that need an
/// empty network can make one. For a process that only probes, such as a child: it has no privileges over the
/// machine itself from then on.
///
/// # Errors
///
/// `InvalidInput` if the process has more than one thread; `PermissionDenied` or `StorageFull` if the
/// machine does not let users have namespaces.
pub fn own_user_namespace() -> io::Result<()> {
    namespace::unshare_user()
}

impl Feature {
    /// All features, in the order of reports.
    pub const ALL: [Feature; 9] = [
        Feature::EpollPwait2,
        Feature::Gso,
        Feature::Gro,
        Feature::SoTxtime,
        Feature::BusyPoll,
        Feature::AfPacket,
        Feature::AfXdp,
        Feature::Bpf,
        Feature::Slice,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Feature::EpollPwait2 => "epoll_pwait2",
            Feature::Gso => "gso",
            Feature::Gro => "gro",
            Feature::SoTxtime => "so_txtime",
            Feature::BusyPoll => "busy_poll",
            Feature::AfPacket => "af_packet",
            Feature::AfXdp => "af_xdp",
            Feature::Bpf => "bpf",
            Feature::Slice => "eevdf_slice",
        }
    }

    /// Returns the feature of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|feature| feature.name() == name)
    }

    /// Returns whether the feature's probe needs an empty network and no other privilege.
    ///
    /// A process without the privilege to make one can use [`own_user_namespace`]. Not so [`Feature::AfXdp`],
    /// which is also tried in an empty network: it needs privileges over the machine, which a user namespace
    /// does not give.
    pub const fn wants_own_network(self) -> bool {
        matches!(self, Feature::SoTxtime)
    }

    /// Uses the feature and returns the result. A refusal is a finding, not an error.
    ///
    /// A sandbox that kills instead of refusing kills this process: if that is possible, probe in a child.
    ///
    /// # Cost
    ///
    /// Starts a thread. Some milliseconds, and no wait in it is longer than a second.
    pub fn probe(self) -> Finding {
        let prober = thread::Builder::new().name(format!("probe {self}"));
        let outcome = match prober.spawn(move || catch_unwind(AssertUnwindSafe(|| self.outcome()))) {
            Ok(prober) => match prober.join() {
                Ok(Ok(outcome)) => outcome,
                _ => Err("the probe itself failed".to_owned()),
            },
            Err(error) => Err(format!("no thread to probe on: {error}")),
        };
        let (works, how) = match outcome {
            Ok(how) => (true, how),
            Err(how) => (false, how),
        };
        Finding { feature: self, works, how }
    }

    fn outcome(self) -> Outcome {
        match self {
            Feature::EpollPwait2 => waits::epoll_pwait2(),
            Feature::Gso => datagrams::gso(),
            Feature::Gro => datagrams::gro(),
            Feature::SoTxtime => departure::so_txtime(),
            Feature::BusyPoll => datagrams::busy_poll(),
            Feature::AfPacket => packets::af_packet(),
            #[cfg(feature = "xdp")]
            Feature::AfXdp => rings::af_xdp(),
            #[cfg(not(feature = "xdp"))]
            Feature::AfXdp => {
                Err("this program was built without it (softtimers-net, feature xdp)".to_owned())
            }
            Feature::Bpf => programs::socket_filter(),
            Feature::Slice => slice::slice(),
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The evidence that it worked, or the reason why it did not.
type Outcome = Result<String, String>;

/// A time in words; one sample does not justify more digits.
fn duration_text(time: Duration) -> String {
    if time < Duration::from_millis(10) {
        format!("{} us", time.as_micros())
    } else {
        format!("{} ms", time.as_millis())
    }
}
