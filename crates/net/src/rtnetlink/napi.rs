//! Receive queues (NAPI) and how they defer interrupts, by the generic netlink family `netdev`.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::GENERIC;

use super::{ACKNOWLEDGE, ask, attribute, attributes, half, message, number, socket_of};
use crate::napi::{Deferral, Napi};

/// A socket to the family, in the network of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Netdev {
    socket: OwnedFd,
    family: u16,
}

impl Netdev {
    /// `NOENT` before Linux 6.8.
    pub(crate) fn open() -> Result<Self, Errno> {
        let socket = socket_of(Some(GENERIC))?;
        let name = attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0");
        let request =
            message(GENL_ID_CTRL, ACKNOWLEDGE, &[u32::from_ne_bytes([CTRL_CMD_GETFAMILY, 1, 0, 0])], &name);
        let answers = ask(&socket, &request)?;
        let of = |answer: &Vec<u8>| data_of(answer, CTRL_ATTR_FAMILY_ID).map(|data| half(data, 0));
        let family = answers.iter().find_map(of).ok_or(Errno::NOENT)?;
        Ok(Netdev { socket, family })
    }

    /// The queues of all interfaces that are up.
    pub(crate) fn all(&self) -> Result<Vec<Napi>, Errno> {
        Ok(self.get(libc::NLM_F_DUMP as u16, &[])?.iter().filter_map(|answer| parse(answer)).collect())
    }

    /// One queue; `NOENT` if it is gone.
    pub(crate) fn napi(&self, id: u32) -> Result<Napi, Errno> {
        let answers = self.get(ACKNOWLEDGE, &attribute(NAPI_ID, &id.to_ne_bytes()))?;
        answers.iter().find_map(|answer| parse(answer)).ok_or(Errno::NOENT)
    }

    /// Sets how a queue defers interrupts. `PERM` without `CAP_NET_ADMIN` in the first user namespace, `OPNOTSUPP` before
    /// Linux 6.13.
    pub(crate) fn defer(&self, id: u32, deferral: &Deferral) -> Result<(), Errno> {
        let nanos = |time: Duration| u32::try_from(time.as_nanos()).unwrap_or(u32::MAX).to_ne_bytes();
        let attributes = [
            attribute(NAPI_ID, &id.to_ne_bytes()),
            attribute(NAPI_DEFER_HARD_IRQS, &deferral.polls.to_ne_bytes()),
            attribute(NAPI_GRO_FLUSH_TIMEOUT, &nanos(deferral.flush)),
            attribute(NAPI_IRQ_SUSPEND_TIMEOUT, &nanos(deferral.suspend)),
        ];
        let head = u32::from_ne_bytes([NETDEV_CMD_NAPI_SET, 1, 0, 0]);
        ask(&self.socket, &message(self.family, ACKNOWLEDGE, &[head], &attributes.concat())).map(drop)
    }

    fn get(&self, flags: u16, attributes: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
        let head = u32::from_ne_bytes([NETDEV_CMD_NAPI_GET, 1, 0, 0]);
        ask(&self.socket, &message(self.family, flags, &[head], attributes))
    }
}

/// Parses a description: `struct genlmsghdr`, and attributes.
fn parse(answer: &[u8]) -> Option<Napi> {
    let word = |wanted| data_of(answer, wanted).map(|data| number(data, 0));
    let nanos = |wanted| Duration::from_nanos(word(wanted).unwrap_or(0).into());
    Some(Napi {
        id: word(NAPI_ID)?,
        interface: word(NAPI_IFINDEX)?,
        thread: word(NAPI_PID),
        deferral: Deferral {
            polls: word(NAPI_DEFER_HARD_IRQS).unwrap_or(0),
            flush: nanos(NAPI_GRO_FLUSH_TIMEOUT),
            suspend: nanos(NAPI_IRQ_SUSPEND_TIMEOUT),
        },
    })
}

fn data_of(answer: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(answer.get(GENLMSGHDR..)?).find(|&(kind, _)| kind == wanted).map(|(_, data)| data)
}

/// `struct genlmsghdr`.
const GENLMSGHDR: usize = 4;
/// From `linux/genetlink.h`.
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// From `linux/netdev.h`.
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_CMD_NAPI_SET: u8 = 14;
const NAPI_IFINDEX: u16 = 1;
const NAPI_ID: u16 = 2;
const NAPI_PID: u16 = 4;
const NAPI_DEFER_HARD_IRQS: u16 = 5;
const NAPI_GRO_FLUSH_TIMEOUT: u16 = 6;
const NAPI_IRQ_SUSPEND_TIMEOUT: u16 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_and_a_cut_one_is_not() {
        let word = |kind, value: u32| attribute(kind, &value.to_ne_bytes());
        let all = [
            vec![NETDEV_CMD_NAPI_GET, 1, 0, 0],
            word(NAPI_ID, 259),
            word(NAPI_IFINDEX, 2),
            word(NAPI_DEFER_HARD_IRQS, 1),
            word(NAPI_GRO_FLUSH_TIMEOUT, 200_000),
        ]
        .concat();
        let deferral = Deferral { polls: 1, flush: Duration::from_micros(200), suspend: Duration::ZERO };
        assert_eq!(parse(&all), Some(Napi { id: 259, interface: 2, thread: None, deferral }));
        (0..20).for_each(|length| assert_eq!(parse(&all[..length]), None, "at {length}"));
    }

    #[test]
    fn a_queue_that_is_not_there_is_not_found() {
        match Netdev::open() {
            Err(error) => crate::skipped::skipped(&error),
            Ok(netdev) => {
                assert!(netdev.all().unwrap().iter().all(|napi| napi.id > 0 && napi.interface > 0));
                assert_eq!(netdev.napi(u32::MAX), Err(Errno::NOENT));
            }
        }
    }
}
