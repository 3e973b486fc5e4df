//! [`claim`]: takes an interface only if the machine does not use it itself.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::IpAddr;

use super::Interface;

/// Why an interface cannot be claimed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClaimError {
    /// It does not exist, is not Ethernet, or is switched off.
    Interface {
        /// The interface's name.
        name: String,
        /// The contradiction.
        what: String,
    },
    /// This machine uses it itself; taking it needs confirmation.
    InUse {
        /// The interface's name.
        name: String,
        /// The use that the machine makes of it.
        what: String,
    },
    /// Another program forwards through it: each frame would arrive twice.
    Forwarded {
        /// The interface's name.
        name: String,
        /// The number of that process, if this one can see it.
        process: Option<u32>,
    },
    /// Another error of the system.
    System(io::Error),
}

/// Returns an interface to forward frames through. One that this machine uses itself is refused, because the
/// machine would answer or forward in parallel, and users logged in over it would be shut out. `take`
/// overrides that. One that another program has claimed is refused in any case, in all programs of the network
/// namespace, until that program's value and all clones of it are dropped.
///
/// # Errors
/// [`ClaimError::Interface`] if there is none, or it is switched off; [`ClaimError::InUse`];
/// [`ClaimError::Forwarded`]; the system's error.
pub fn claim(name: &str, take: bool) -> Result<Interface, ClaimError> {
    let no = |what: String| ClaimError::Interface { name: name.to_owned(), what };
    let interface = Interface::named(name).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::InvalidInput => no(error.to_string()),
        _ => ClaimError::System(error),
    })?;
    if !interface.is_up() {
        return Err(no("switched off".into()));
    }
    match if take { None } else { in_use(&interface)? } {
        Some(what) => Err(ClaimError::InUse { name: name.to_owned(), what }),
        None => interface.hold()?.map_err(|process| ClaimError::Forwarded { name: name.to_owned(), process }),
    }
}

/// Describes this machine's own use of an interface, if there is any.
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

impl From<io::Error> for ClaimError {
    fn from(error: io::Error) -> Self {
        ClaimError::System(error)
    }
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimError::Interface { name, what } => write!(f, "interface {name}: {what}"),
            ClaimError::InUse { name, what } => write!(f, "interface {name} {what}"),
            ClaimError::Forwarded { name, process: Some(process) } => {
                write!(f, "interface {name} is in use: process {process} forwards through it")
            }
            ClaimError::Forwarded { name, process: None } => {
                write!(f, "interface {name} is in use: another process forwards through it")
            }
            ClaimError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ClaimError {}
