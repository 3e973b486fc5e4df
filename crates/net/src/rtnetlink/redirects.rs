//! Whether an interface sends frames that an XDP program redirects to it: the kernel's family `netdev`, since Linux 6.3.

use rustix::io::Errno;
use rustix::net::netlink::GENERIC;

use super::{ACKNOWLEDGE, ask, attribute, attributes, half, message, number, socket_of};

/// Returns whether it takes them now. A virtual cable does while the other end has its own program, or GRO.
pub(crate) fn takes(interface: u32) -> Result<bool, Errno> {
    let socket = socket_of(Some(GENERIC))?;
    let about = |family: u16, command: u32, wanted: u16, attributes_: &[u8]| {
        // `struct genlmsghdr`: the command, a version, and nothing.
        let request = message(family, ACKNOWLEDGE, &[command | 1 << 8], attributes_);
        let answer = ask(&socket, &request)?.into_iter().next().ok_or(Errno::NOENT)?;
        let mut all = attributes(answer.get(4..).unwrap_or_default());
        all.find(|&(kind, _)| kind == wanted).map(|(_, data)| data.to_vec()).ok_or(Errno::NOENT)
    };
    let family = about(CONTROL, GET_FAMILY, FAMILY_ID, &attribute(FAMILY_NAME, b"netdev\0"))?;
    let features =
        about(half(&family, 0), GET_DEVICE, FEATURES, &attribute(INDEX, &interface.to_ne_bytes()))?;
    Ok(number(&features, 0) & SENDS_REDIRECTED != 0)
}

/// `GENL_ID_CTRL` and its `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_ID` and `…_NAME`.
const CONTROL: u16 = 16;
const GET_FAMILY: u32 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// `NETDEV_CMD_DEV_GET`, `NETDEV_A_DEV_IFINDEX`, `NETDEV_A_DEV_XDP_FEATURES`, `NETDEV_XDP_ACT_NDO_XMIT`.
const GET_DEVICE: u32 = 1;
const INDEX: u16 = 1;
const FEATURES: u16 = 3;
const SENDS_REDIRECTED: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtnetlink::LOOPBACK;

    #[test]
    fn loopback_takes_none_and_what_is_not_there_is_an_error() {
        match takes(LOOPBACK) {
            Ok(takes) => assert!(!takes),
            Err(error) => return crate::skipped::skipped(&format!("the family netdev: {error}")),
        }
        assert!(takes(u32::MAX / 2).is_err());
    }
}
