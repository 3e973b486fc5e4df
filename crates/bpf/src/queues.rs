//! The kinds of an interface's output queues, as reported by the kernel.

use std::io;

use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{recv, send, socket_with};

/// A queue, by its parent and its kind.
type Queue = (u32, String);

/// Returns the kind of an interface's queue, if all its queues are of the same kind; otherwise all kinds.
pub(crate) fn kind_of(interface: &str) -> io::Result<String> {
    // Without a protocol it is `NETLINK_ROUTE`.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let index = name_to_index(&socket, interface)?;
    let mut request = Vec::with_capacity(HEADER + TCMSG);
    request.extend(((HEADER + TCMSG) as u32).to_ne_bytes());
    request.extend(GET_QUEUES.to_ne_bytes());
    request.extend((REQUEST | DUMP).to_ne_bytes());
    request.resize(HEADER + TCMSG, 0);
    send(&socket, &request, SendFlags::empty())?;
    let (mut queues, mut buffer) = (vec![], vec![0; 64 << 10]);
    loop {
        let (length, _) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty())?;
        if !read(&buffer[..length], index, &mut queues)? {
            return Ok(kind(&queues));
        }
    }
}

/// Reads a part of the kernel's list; returns whether there is more.
fn read(mut part: &[u8], interface: u32, queues: &mut Vec<Queue>) -> io::Result<bool> {
    while part.len() >= HEADER {
        let length = (word(part, 0) as usize).clamp(HEADER, part.len());
        let (message, rest) = part.split_at(length);
        let body = &message[HEADER..];
        match half(message, 4) {
            DONE => return Ok(false),
            ERROR => return Err(Errno::from_raw_os_error((word(body, 0) as i32).wrapping_neg()).into()),
            _ if word(body, 4) == interface => {
                let parent = word(body, 12);
                queues.extend(name(body.get(TCMSG..).unwrap_or_default()).map(|kind| (parent, kind)));
            }
            _ => {}
        }
        part = rest.get(length.next_multiple_of(4) - length..).unwrap_or_default();
    }
    Ok(true)
}

/// The attribute that names the kind.
fn name(mut attributes: &[u8]) -> Option<String> {
    while attributes.len() >= 4 {
        let length = usize::from(half(attributes, 0)).clamp(4, attributes.len());
        let (attribute, rest) = attributes.split_at(length);
        if half(attribute, 2) == KIND {
            return Some(String::from_utf8_lossy(&attribute[4..]).trim_end_matches('\0').to_owned());
        }
        attributes = rest.get(length.next_multiple_of(4) - length..).unwrap_or_default();
    }
    None
}

/// Returns the kind of the root; or of the queues below it, if the root only distributes packets to the
/// device's queues.
fn kind(queues: &[Queue]) -> String {
    let root = queues.iter().find(|(parent, _)| *parent == ROOT).map_or("none", |(_, kind)| kind);
    if !matches!(root, "mq" | "mqprio") {
        return root.to_owned();
    }
    // `clsact` and `ingress` are not queues, and their parents have special numbers.
    let below = queues.iter().filter(|(parent, _)| *parent < INGRESS);
    let mut kinds: Vec<_> = below.map(|(_, kind)| kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.is_empty() { root.to_owned() } else { kinds.join(" and ") }
}

/// The word at `at`; zero beyond the end.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u32::from_ne_bytes(*word))
}

/// The half word at `at`; zero beyond the end.
fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |half| u16::from_ne_bytes(*half))
}

/// `struct nlmsghdr` and `struct tcmsg`; `RTM_GETQDISC`, `TCA_KIND` and the others of netlink.
const HEADER: usize = 16;
const TCMSG: usize = 20;
const GET_QUEUES: u16 = 38;
const REQUEST: u16 = 1;
const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const KIND: u16 = 1;
const ROOT: u32 = u32::MAX;
const INGRESS: u32 = 0xffff_fff1;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn queue(interface: u32, parent: u32, kind: &str) -> Vec<u8> {
        let mut body: Vec<_> =
            [0, interface, 0, parent, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        body.extend((4 + kind.len() as u16 + 1).to_ne_bytes());
        body.extend(KIND.to_ne_bytes());
        body.extend(kind.as_bytes());
        body.push(0);
        message(36, &body)
    }

    #[test]
    fn the_queue_is_the_roots_or_those_below_one_that_shares_out() {
        let list =
            [queue(3, ROOT, "mq"), queue(3, 0x1_0001, "fq"), queue(3, 0x1_0002, "fq"), queue(2, ROOT, "x")];
        let more = [queue(3, INGRESS, "clsact"), message(DONE, &[0; 4])];
        let mut queues = vec![];
        assert!(read(&list.concat(), 3, &mut queues).unwrap());
        assert!(!read(&more.concat(), 3, &mut queues).unwrap());
        assert_eq!(kind(&queues), "fq");
        assert_eq!(kind(&queues[..1]), "mq");
        queues.push((0x1_0003, "pfifo_fast".to_owned()));
        assert_eq!(kind(&queues), "fq and pfifo_fast");
        assert_eq!((kind(&[]).as_str(), kind(&[(ROOT, "noqueue".to_owned())]).as_str()), ("none", "noqueue"));
    }

    #[test]
    fn refusals_and_cut_lists_are_no_queues() {
        let mut queues = vec![];
        let refused = message(ERROR, &(-1i32).to_ne_bytes());
        assert!(read(&refused, 3, &mut queues).is_err());
        let whole = queue(3, ROOT, "fq");
        for length in 0..whole.len() - 4 {
            assert!(read(&whole[..length], 3, &mut queues).unwrap(), "{length}");
        }
    }

    /// Loopback has a queue that keeps nothing, unless it was given another one.
    #[test]
    fn the_kernel_is_asked() {
        assert!(!kind_of("lo").unwrap().is_empty());
        assert!(kind_of("no-such-one").is_err());
    }
}
