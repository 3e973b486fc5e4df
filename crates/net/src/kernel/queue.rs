//! The queue at the interface of datagrams to a destination, as the kernel describes it.
//!
//! It sends nothing, so a program can call it before the other end has agreed to its traffic.
//! [`release_times`](super::release_times) checks whether release times are really kept: a further queue may
//! ignore them.

use std::net::SocketAddr;

use rustix::net::netdevice::index_to_name;

use super::release::connected;
use super::{Feature, Finding, Outcome};
use crate::rtnetlink::queues::{Queue, queues};
use crate::rtnetlink::routes::interface_to;
use crate::trying::Trying;

/// Finds the queue by which a datagram to `destination` would leave, and whether queues of its kind keep
/// release times.
///
/// On Linux `fq` does, alone or at each hardware queue. `etf` does, too, but by `CLOCK_TAI`, while programs and
/// [`SendBatch::push_at`](crate::udp::SendBatch::push_at) go by `CLOCK_MONOTONIC`.
///
/// # Cost
///
/// Three requests to the kernel, well below a millisecond. Needs no privilege.
///
/// ```
/// use softtimers_net::kernel;
///
/// let finding = kernel::queue_to("127.0.0.1:9".parse()?);
/// println!("{}", finding.how); // lo has noqueue, which keeps no release times
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub fn queue_to(destination: SocketAddr) -> Finding {
    let (works, how) = match on_the_way(destination) {
        Ok(how) => (true, how),
        Err(how) => (false, how),
    };
    Finding { feature: Feature::SoTxtime, works, how }
}

fn on_the_way(destination: SocketAddr) -> Outcome {
    let socket = connected(destination).trying("a socket for the way there")?;
    let from = socket.local_addr().trying("its address")?;
    let interface = interface_to(from, destination).trying("asking for the route")?;
    let interface = interface.ok_or("the route names no interface")?;
    let name = index_to_name(&socket, interface).trying("the name of the interface")?;
    judge(&name, &queues(interface).trying("asking for queues")?)
}

/// Judges the queues of an interface by their kinds.
fn judge(interface: &str, queues: &[Queue]) -> Outcome {
    let root = queues.iter().find(|queue| queue.is_root());
    let root =
        root.ok_or_else(|| format!("{interface} has no queue, and so none that keeps release times"))?;
    // These hand each packet to the queue of one hardware queue.
    let leaves: Vec<&Queue> = match &*root.kind {
        "mq" | "mqprio" => queues.iter().filter(|queue| queue.is_of(root)).collect(),
        _ => vec![root],
    };
    match leaves.iter().find(|queue| queue.kind != "fq") {
        None if leaves.is_empty() => Err(format!("{interface} has {} and nothing below it", root.kind)),
        None if leaves.len() > 1 => Ok(format!("{interface} has fq at each of its {} queues", leaves.len())),
        None => Ok(format!("{interface} has fq")),
        Some(other) if other.kind == "etf" => {
            Err(format!("{interface} has etf, which keeps release times of CLOCK_TAI only"))
        }
        Some(other) => Err(format!("{interface} has {}, which keeps no release times", other.kind)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtnetlink::queues::example;

    /// The outcome for these queues, as the kernel describes each: kind, handle and parent.
    fn judged(described: &[(&str, u32, u32)]) -> Outcome {
        let queues: Vec<Queue> = described
            .iter()
            .map(|&(kind, handle, parent)| Queue::parse(&example(7, kind, handle, parent)).unwrap())
            .collect();
        judge("eth0", &queues)
    }

    const ROOT: u32 = u32::MAX;
    const INGRESS: u32 = 0xffff_fff1;

    #[test]
    fn fq_keeps_release_times_alone_or_at_each_hardware_queue() {
        assert_eq!(judged(&[("fq", 0x1_0000, ROOT)]), Ok("eth0 has fq".into()));
        assert_eq!(
            judged(&[("clsact", 0xffff_0000, INGRESS), ("fq", 0, ROOT)]),
            Ok("eth0 has fq".into()),
            "ingress queues do not matter"
        );
        let below = |second| [("mq", 0x8001_0000, ROOT), ("fq", 0, 0x8001_0002), (second, 0, 0x8001_0001)];
        assert_eq!(judged(&below("fq")), Ok("eth0 has fq at each of its 2 queues".into()));
        assert_eq!(
            judged(&below("fq_codel")),
            Err("eth0 has fq_codel, which keeps no release times".into()),
            "the hash of a flow may choose either"
        );
    }

    #[test]
    fn without_fq_we_pace_ourselves() {
        for (queues, why) in [
            (&[("noqueue", 0, ROOT)][..], "eth0 has noqueue, which keeps no release times"),
            (&[("etf", 0, ROOT)], "eth0 has etf, which keeps release times of CLOCK_TAI only"),
            (&[("mq", 0, ROOT)], "eth0 has mq and nothing below it"),
            // The class of a packet is unknown.
            (&[("htb", 0x1_0000, ROOT), ("fq", 0, 0x1_0001)], "eth0 has htb, which keeps no release times"),
            (&[("clsact", 0xffff_0000, INGRESS)], "eth0 has no queue, and so none that keeps release times"),
            (&[], "eth0 has no queue, and so none that keeps release times"),
        ] {
            assert_eq!(judged(queues), Err(why.into()));
        }
    }

    #[test]
    fn the_way_to_this_machine_has_no_queue() {
        let finding = queue_to("127.0.0.1:9".parse().unwrap());
        assert!(finding.how.contains("lo") || !finding.works, "{finding:?}");
    }
}
