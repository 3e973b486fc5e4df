//! Interfaces are taken only from those who do without: [`claim`].

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::IpAddr;

use softtimers_net::packet::Interface;

use crate::PathError;

/// Why nothing passes between two interfaces, or no longer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// An interface does not exist, is not Ethernet's, or there is only one.
    Interface {
        /// The name of the interface.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// This machine uses it itself; taking it must be asked for, as by [`BridgeConfig::take`](super::BridgeConfig::take).
    InUse {
        /// The name of the interface.
        name: String,
        /// What this machine uses it for.
        what: String,
    },
    /// What one interface sends comes back to the other, or to itself.
    Loop,
    /// The privilege is missing.
    Privilege(io::Error),
    /// The path is none.
    Path(PathError),
    /// What else the system says.
    System(io::Error),
}

/// An interface for frames to pass through. One that this machine uses itself is refused, or it would answer, or
/// forward, beside; and who is logged in there would be shut out. `take` says that this is wanted.
///
/// # Errors
/// [`Problem::Interface`] if there is none, or it is switched off; [`Problem::InUse`]; what the system says.
pub fn claim(name: &str, take: bool) -> Result<Interface, Problem> {
    let no = |what: String| Problem::Interface { name: name.to_owned(), what };
    let interface = Interface::named(name).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::InvalidInput => no(error.to_string()),
        _ => Problem::System(error),
    })?;
    if !interface.is_up() {
        return Err(no("switched off".into()));
    }
    match if take { None } else { in_use(&interface)? } {
        Some(what) => Err(Problem::InUse { name: name.to_owned(), what }),
        None => Ok(interface),
    }
}

/// What this machine itself does with an interface.
fn in_use(interface: &Interface) -> io::Result<Option<String>> {
    let link_local = |address: &IpAddr| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    if let Some(address) = interface.addresses()?.iter().find(|&address| !link_local(address)) {
        return Ok(Some(format!("has the address {address}")));
    }
    if interface.has_default_route()? {
        return Ok(Some("has the default route".into()));
    }
    if let Some(upper) = interface.upper_interfaces()?.first() {
        return Ok(Some(format!("carries {upper}")));
    }
    Ok(interface.is_enslaved().then(|| "is part of a bridge or bond".into()))
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        if error.kind() == ErrorKind::PermissionDenied {
            Problem::Privilege(error)
        } else {
            Problem::System(error)
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Interface { name, what } => write!(f, "interface {name}: {what}"),
            Problem::InUse { name, what } => write!(f, "interface {name} {what}"),
            Problem::Loop => f.write_str("a frame came back: the two interfaces are joined elsewhere, too"),
            Problem::Privilege(error) => write!(f, "a packet socket needs CAP_NET_RAW: {error}"),
            Problem::Path(error) => error.fmt(f),
            Problem::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Problem {}
