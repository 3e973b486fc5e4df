//! Two open interfaces, before frames are carried between them: [`Claimed`].

use std::time::Duration;

use softtimers_net::packet::{ClaimError, FrameReceiver, FrameSender, Interface, claim};

use super::bridge::BridgeConfig;
use super::only::Only;
use super::problem::Problem;

/// Two open interfaces, for a path to lie [between](crate::Relay::between).
///
/// Opening needs `CAP_NET_RAW`; carrying does not. A program may claim interfaces, drop its privileges, and carry
/// frames on a thread that it starts later; a bridge itself stays on the thread that created it.
///
/// ```no_run
/// use softtimers_wan::interfaces::{BridgeConfig, Claimed};
/// use softtimers_wan::{Relay, Wan};
///
/// let interfaces = ["veth-a".to_owned(), "veth-b".to_owned()];
/// let claimed = Claimed::new(&BridgeConfig::between(interfaces))?;
/// // Privileges are given up here.
/// let bridge = std::thread::spawn(|| Relay::between(claimed, Wan::builder()).map(|mut bridge| bridge.run(None)));
/// # drop(bridge);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Claimed {
    pub(super) sides: [Side; 2],
    pub(super) own: bool,
    pub(super) coalesce: Duration,
    pub(super) only: Option<Only>,
}

/// One of the interfaces.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) interface: Interface,
    pub(super) receiver: FrameReceiver,
    pub(super) sender: FrameSender,
    /// The receiver's drops at the last check, modulo 2³².
    pub(super) drops_seen: u32,
}

impl Claimed {
    /// Opens both. From now on frames wait in the kernel, up to the size of its buffer.
    ///
    /// # Errors
    /// [`Problem::Interface`] for one that may not be taken, [`Problem::Privilege`] without `CAP_NET_RAW`, and other
    /// errors of the system.
    pub fn new(config: &BridgeConfig) -> Result<Self, Problem> {
        let [a, b] = &config.interfaces;
        if a == b {
            return Err(ClaimError::Interface { name: a.clone(), what: "twice the same".into() }.into());
        }
        let open = |name| Side::open(name, config.take);
        let BridgeConfig { own, coalesce, ref only, .. } = *config;
        Ok(Claimed { sides: [open(a)?, open(b)?], own, coalesce, only: only.clone() })
    }
}

impl Side {
    fn open(name: &str, take: bool) -> Result<Self, Problem> {
        let interface = claim(name, take)?;
        let receiver = FrameReceiver::on(&interface)?;
        let sender = FrameSender::offloading(&receiver)?;
        Ok(Side { interface, receiver, sender, drops_seen: 0 })
    }
}
