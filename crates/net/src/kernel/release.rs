//! Checks whether packets to one destination leave at their release times.
//!
//! A packet's route decides its queue, so only a packet on that route can show it. The other end need not
//! take part: the kernel reports when it hands a packet to the device (`SO_TIMESTAMPING`,
//! `SOF_TIMESTAMPING_TX_SOFTWARE`).
//!
//! ```text
//!   sent, to leave at R     queue of the device      handed to the device
//!        ├───────────────────── 5 ms ─────────────────────┤ R, or a little later: kept
//!        ├─ 10 us ─┤                                        at once: no queue on the path keeps it
//! ```

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use softtimers::{Monotonic, RealtimeOffset};
use softtimers_core::{Clock, Timestamp};
use softtimers_linux::control::Control;
use softtimers_linux::recvmmsg::RecvBuffers;
use softtimers_linux::{sockopt, timespec};

use super::{Feature, Finding, Outcome, duration_text};
use crate::trying::Trying;
use crate::udp::{SendBatch, UdpSocket};

/// Sends `payload` to `destination` a few times, each to leave some milliseconds later, and measures when it
/// does.
///
/// It works if none left early and they were no later than a wake-up takes. Then a program may hand packets
/// for this destination to the kernel ahead of their times: [`SendBatch::push_at`], [`Ahead`]. The
/// finding holds as long as the route and the queue of its device do.
///
/// The payload arrives: choose one that the other end tolerates.
///
/// [`Ahead`]: softtimers::Ahead
///
/// # Cost
///
/// 5 ms if release times are ignored, 25 ms if they are kept; no wait in it is longer than 0.1 s. A trial in
/// which this thread had to wait for a CPU is repeated, up to 8 times.
///
/// ```
/// use softtimers_net::kernel;
///
/// let receiver = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let finding = kernel::release_times(receiver.local_addr()?, b"is this being held?");
/// println!("release times {}: {}", if finding.works { "work" } else { "do not work" }, finding.how);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn release_times(destination: SocketAddr, payload: &[u8]) -> Finding {
    let (works, how) = match kept(destination, payload) {
        Ok(how) => (true, how),
        Err(how) => (false, how),
    };
    Finding { feature: Feature::SoTxtime, works, how }
}

fn kept(destination: SocketAddr, payload: &[u8]) -> Outcome {
    let socket = connected(destination).trying("a socket for the way there")?;
    socket.enable_release_times().trying("SO_TXTIME")?;
    sockopt::set_transmit_times(socket.as_fd()).trying("times of transmission")?;
    let mut departures = Vec::new();
    for _ in 0..TIMES {
        departures.push(undisturbed(|| trial(&socket, payload))?);
        // The first early one is conclusive.
        judge(&departures)?;
    }
    judge(&departures)
}

/// Sends a packet, and observes its departure.
fn trial(socket: &UdpSocket, payload: &[u8]) -> Result<Trial, String> {
    let release = Monotonic.now() + AHEAD;
    send(socket, payload, release)?;
    let sent = Monotonic.now();
    let left = departed(socket, release + RELEASE_TIME_LIMIT)?;
    Ok(Trial { sent, departure: Departure { release, left: left.ok_or_else(silent)? } })
}

/// Returns the first conclusive one of a few trials: a packet that the probe itself sent late leaves after
/// its release time through any queue.
fn undisturbed(mut trial: impl FnMut() -> Result<Trial, String>) -> Result<Departure, String> {
    for _ in 0..TRIALS {
        let Trial { sent, departure } = trial()?;
        // An early departure means that no queue kept the packet, whenever it was sent.
        if sent + AHEAD / 2 <= departure.release || departure.early() > EARLY {
            return Ok(departure);
        }
    }
    Err(format!(
        "the probe was {HELD_UP} in each of {TRIALS} trials for more than {}, so release times cannot be seen to \
         work; try again with an idle CPU",
        duration_text(AHEAD / 2)
    ))
}

pub(super) fn connected(destination: SocketAddr) -> io::Result<UdpSocket> {
    let local: SocketAddr = match destination {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(local)?;
    socket.connect(destination)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn send(socket: &UdpSocket, payload: &[u8], release: Timestamp) -> Result<(), String> {
    let mut batch = SendBatch::new(1, payload.len());
    batch.push_at(payload, None, release).map_err(|error| error.to_string())?;
    match socket.send_batch(&mut batch).stopped {
        None => Ok(()),
        Some(stopped) => Err(format!("SO_TXTIME accepted, but a send with it: {stopped}")),
    }
}

/// Returns when the last packet was handed to the device; `None` if that is not reported by `deadline`.
fn departed(socket: &UdpSocket, deadline: Timestamp) -> Result<Option<Timestamp>, String> {
    let mut buffers = RecvBuffers::new(1, 1);
    loop {
        match buffers.receive_errors(socket.as_fd()) {
            Ok(_) => {
                let control = buffers.message(0).map(|message| Control::parse(message.control));
                // Other entries are answers to earlier packets.
                if let Some(left) = control.and_then(|control| control.departed) {
                    return Ok(Some(RealtimeOffset::sample().monotonic(left)));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let wait = deadline.saturating_duration_since(Monotonic.now());
                if wait.is_zero() {
                    return Ok(None);
                }
                wait_for_error(socket, wait).trying("waiting")?;
            }
            Err(error) => return Err(error).trying("a packet's time of transmission"),
        }
    }
}

/// Waits for the error queue, ignoring other arrivals.
fn wait_for_error(socket: &UdpSocket, time: Duration) -> io::Result<()> {
    // A closed port's answer lies beside the queue, and would end each wait.
    socket.as_ref().take_error()?;
    match poll(&mut [PollFd::new(socket, PollFlags::empty())], Some(&timespec(time))) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A packet's release time, and when it was handed to the device.
#[derive(Clone, Copy, Debug)]
struct Departure {
    release: Timestamp,
    left: Timestamp,
}

impl Departure {
    /// The time by which it left early.
    fn early(&self) -> Duration {
        self.release.saturating_duration_since(self.left)
    }
}

/// A departure, and when the call that sent the packet returned.
struct Trial {
    sent: Timestamp,
    departure: Departure,
}

/// Judges whether packets leave on time: none before it, and most of them no later than a wake-up takes.
fn judge(departures: &[Departure]) -> Outcome {
    if let Some(departure) = departures.iter().find(|departure| departure.early() > EARLY) {
        return Err(format!(
            "a packet to be kept for {} left {} too early: no queue on the way keeps release times \
             (on Linux fq does)",
            duration_text(AHEAD),
            duration_text(departure.early())
        ));
    }
    let mut late: Vec<Duration> = departures
        .iter()
        .map(|departure| departure.left.saturating_duration_since(departure.release))
        .collect();
    late.sort();
    let median = late.get(late.len() / 2).copied().unwrap_or_default();
    if median > LATE {
        return Err(format!("kept, but a packet of {} left {} too late", late.len(), duration_text(median)));
    }
    Ok(format!(
        "{} packets left {} after their release times in the median",
        late.len(),
        duration_text(median)
    ))
}

fn silent() -> String {
    "the device does not say when a packet leaves, or it was dropped: so release times cannot be seen to work"
        .to_owned()
}

/// Longer than a send takes to reach the device. A probe that loses its CPU may need more: then the trial
/// is not counted.
const AHEAD: Duration = Duration::from_millis(5);
const TIMES: usize = 5;
/// The number of trials per departure, until the probe was not held up.
const TRIALS: usize = 8;
/// Part of the message, by which tests distinguish it from a verdict on the path.
const HELD_UP: &str = "kept from its CPU";
const RELEASE_TIME_LIMIT: Duration = Duration::from_millis(95);
/// More than the error of a comparison of two clocks.
const EARLY: Duration = Duration::from_micros(20);
/// A few wake-ups of a virtual machine; later departures are useless for pacing.
const LATE: Duration = Duration::from_micros(500);

#[cfg(test)]
mod tests {
    use std::net;

    use super::*;

    /// Returns the verdict on departures `offsets` microseconds after their release times; negative: before.
    fn verdict(offsets: &[i64]) -> Outcome {
        let departures = offsets.iter().map(|&offset| Departure {
            release: Timestamp::from_micros(1_000_000),
            left: Timestamp::from_micros(1_000_000u64.checked_add_signed(offset).unwrap()),
        });
        judge(&departures.collect::<Vec<_>>())
    }

    #[test]
    fn on_time_is_never_early_and_seldom_late() {
        assert_eq!(
            verdict(&[3, 9_000, 60, 12, -15]).unwrap(),
            "5 packets left 12 us after their release times in the median"
        );
        assert_eq!(verdict(&[600]).unwrap_err(), "kept, but a packet of 1 left 600 us too late");
        assert!(verdict(&[600, 600, 600, 3, 3]).is_err() && verdict(&[600, 600, 3, 3, 3]).is_ok());
        assert_eq!(
            verdict(&[10, -4_990]).unwrap_err(),
            "a packet to be kept for 5000 us left 4990 us too early: no queue on the way keeps release times \
             (on Linux fq does)"
        );
    }

    /// A packet that was sent after its release time leaves after it through any queue, so it proves nothing.
    #[test]
    fn the_delay_of_the_probe_is_not_that_of_the_queue() {
        let at = Timestamp::from_micros;
        let trial = |sent, left| Trial {
            sent: at(sent),
            departure: Departure { release: at(5_000), left: at(left) },
        };
        let verdict = |trials: &[(u64, u64)]| {
            let mut trials = trials.iter();
            let departure = undisturbed(|| Ok(trials.next().map(|&(sent, left)| trial(sent, left)).unwrap()));
            departure.map(|departure| (departure.left, trials.len()))
        };
        assert_eq!(
            verdict(&[(6_000, 6_100), (2_501, 5_003), (2_500, 5_009), (10, 5_000)]),
            Ok((at(5_009), 1))
        );
        // Late or not: it left too early.
        assert_eq!(verdict(&[(6_000, 4_700), (10, 5_000)]), Ok((at(4_700), 1)));
        let held_up = verdict(&[(6_000, 6_100); TRIALS]).unwrap_err();
        assert!(held_up.contains(HELD_UP) && held_up.contains("2500 us"), "{held_up}");
        assert_eq!(undisturbed(|| Err("no".to_owned())).unwrap_err(), "no");
    }

    /// Returns whether the finding is a verdict of any kind: under CPU contention a queue that keeps release
    /// times may be late, and the probe may never be on time.
    fn is_verdict(finding: &Finding) -> bool {
        finding.works || [" too early: ", " too late", HELD_UP].iter().any(|part| finding.how.contains(part))
    }

    /// Loopback has no queue that keeps them, unless configured; either way the kernel reports when packets
    /// leave, and they arrive.
    #[test]
    fn the_way_over_loopback_is_seen() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(receiver) = net::UdpSocket::bind(address) else { continue };
            let destination = receiver.local_addr().unwrap();
            receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let finding = release_times(destination, b"probe");
            assert!(is_verdict(&finding), "{finding:?}");
            let mut packet = [0; 16];
            assert_eq!(receiver.recv(&mut packet).unwrap(), 5);
            // A closed port does not hide that, either.
            drop(receiver);
            let finding = release_times(destination, b"probe");
            assert!(is_verdict(&finding), "{finding:?}");
        }
    }
}
