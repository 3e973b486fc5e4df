//! [`Claimed`]: two interfaces that are open, before anything is carried between them.

use softtimers_net::packet::{ClaimError, FrameReceiver, FrameSender, Interface, claim};

use super::bridge::BridgeConfig;
use super::problem::Problem;

/// Two interfaces that are open, for a [`Bridge`](super::Bridge) to lie [between](super::Bridge::between).
///
/// Opening takes `CAP_NET_RAW`, and nothing afterwards does. A program may claim interfaces, give its privileges up, and carry on a
/// thread that it starts later; a bridge itself stays on the thread that made it.
///
/// ```no_run
/// use softtimers_wan::Wan;
/// use softtimers_wan::interfaces::{Bridge, BridgeConfig, Claimed};
///
/// let interfaces = ["veth-a".to_owned(), "veth-b".to_owned()];
/// let claimed = Claimed::new(&BridgeConfig { interfaces, take: false, own: false })?;
/// // Privileges are given up here.
/// let bridge = std::thread::spawn(|| Bridge::between(claimed, Wan::builder()).map(|mut bridge| bridge.run(None)));
/// # drop(bridge);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Claimed {
    pub(super) sides: [Side; 2],
    pub(super) own: bool,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) interface: Interface,
    pub(super) receiver: FrameReceiver,
    pub(super) sender: FrameSender,
    /// The receiver's drops when it last said so, modulo 2³².
    pub(super) drops_seen: u32,
}

impl Claimed {
    /// Opens both. Frames wait in the kernel from now on, as far as its buffer reaches.
    ///
    /// # Errors
    /// [`Problem::Interface`] for one that may not be taken, [`Problem::Privilege`] without `CAP_NET_RAW`, and what else the
    /// system says.
    pub fn new(config: &BridgeConfig) -> Result<Self, Problem> {
        let [a, b] = &config.interfaces;
        if a == b {
            return Err(ClaimError::Interface { name: a.clone(), what: "twice the same".into() }.into());
        }
        let open = |name| Side::open(name, config.take);
        Ok(Claimed { sides: [open(a)?, open(b)?], own: config.own })
    }
}

impl Side {
    fn open(name: &str, take: bool) -> Result<Self, Problem> {
        let interface = claim(name, take)?;
        let (receiver, sender) = (FrameReceiver::on(&interface)?, FrameSender::offloading(&interface)?);
        Ok(Side { interface, receiver, sender, drops_seen: 0 })
    }
}
