//! How an interface is while frames pass: [`Link`].

use std::net::IpAddr;

use super::headers::Mac;

/// How an interface is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    /// The longest packet that it sends.
    pub(crate) mtu: u32,
    /// Its own address.
    pub(crate) station: Mac,
    /// What addresses this machine has there, without those of the link alone.
    pub(crate) addresses: Vec<IpAddr>,
    /// Whether it is switched on and has a carrier.
    pub(crate) is_on: bool,
    /// Times that it was not any more.
    pub(crate) outages: u64,
}
