//! The state of an interface while frames pass: [`Link`].

use std::net::IpAddr;

use super::headers::Mac;

/// The state of an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    /// The longest packet that it sends.
    pub(crate) mtu: u32,
    /// The interface's own address.
    pub(crate) station: Mac,
    /// This machine's addresses there, without link-local ones.
    pub(crate) addresses: Vec<IpAddr>,
    /// Whether it is switched on and has a carrier.
    pub(crate) is_on: bool,
    /// The number of times it went down.
    pub(crate) outages: u64,
}
