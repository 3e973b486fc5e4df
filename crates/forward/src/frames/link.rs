//! How an interface is while frames pass: [`Link`].

use std::net::IpAddr;

use super::headers::Mac;

/// The state of an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    /// The longest packet that it sends.
    pub(crate) mtu: u32,
    /// The interface's own address.
    pub(crate) station: Mac,
    /// This machine's addresses there, without those of the link alone.
    pub(crate) addresses: Vec<IpAddr>,
    /// It is switched on and has a carrier.
    pub(crate) is_on: bool,
    /// Times that it was not any more.
    pub(crate) outages: u64,
}
