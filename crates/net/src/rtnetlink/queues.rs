//! The queues of interfaces (qdiscs), by their kinds.

use rustix::io::Errno;

use super::{TCMSG, ask, attributes, message, number, socket};

/// A queue of an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Queue {
    pub(crate) interface: u32,
    handle: u32,
    parent: u32,
    pub(crate) kind: String,
}

/// The queues of one interface.
pub(crate) fn queues(interface: u32) -> Result<Vec<Queue>, Errno> {
    Ok(all()?.into_iter().filter(|queue| queue.interface == interface).collect())
}

/// The queues of all interfaces.
pub(crate) fn all() -> Result<Vec<Queue>, Errno> {
    let request = message(libc::RTM_GETQDISC, libc::NLM_F_DUMP as u16, &[0; 5], &[]);
    Ok(ask(&socket()?, &request)?.iter().filter_map(|answer| Queue::parse(answer)).collect())
}

impl Queue {
    /// Parses the kernel's description: `struct tcmsg` with family, index, handle, parent and information;
    /// and attributes.
    pub(crate) fn parse(described: &[u8]) -> Option<Self> {
        let (_, kind) = attributes(described.get(TCMSG..)?).find(|&(kind, _)| kind == libc::TCA_KIND)?;
        Some(Queue {
            interface: number(described, 4),
            handle: number(described, 8),
            parent: number(described, 12),
            kind: std::str::from_utf8(kind).ok()?.trim_end_matches('\0').to_owned(),
        })
    }

    /// Returns whether outgoing packets come here first.
    pub(crate) fn is_root(&self) -> bool {
        self.parent == super::ROOT
    }

    /// Returns whether it is below another one.
    pub(crate) fn is_of(&self, parent: &Queue) -> bool {
        !self.is_root() && self.parent >> 16 == parent.handle >> 16
    }
}

/// A queue as the kernel describes it.
#[cfg(test)]
pub(crate) fn example(interface: u32, kind: &str, handle: u32, parent: u32) -> Vec<u8> {
    let kind = super::attribute(libc::TCA_KIND, format!("{kind}\0").as_bytes());
    let words = [0, interface, handle, parent, 0];
    words.iter().flat_map(|word: &u32| word.to_ne_bytes()).chain(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_read_and_cut_ones_are_not() {
        let whole = example(3, "fq_codel", 0x1_0000, 0x8001_0002);
        let queue = Queue::parse(&whole).unwrap();
        assert_eq!((queue.interface, &*queue.kind, queue.is_root()), (3, "fq_codel", false));
        assert_eq!(Queue::parse(&whole[..TCMSG]), None, "no kind");
        assert_eq!(Queue::parse(&whole[..7]), None);
    }
}
