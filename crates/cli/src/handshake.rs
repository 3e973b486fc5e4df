//! Asking before sending fast: nobody should flood a machine that does not expect it, by a mistyped
//! address or on purpose.
//!
//! Up to 1,000 packets/s, and on this machine, anything goes. Beyond that a `softtimers recv` at the
//! other end must agree, unless the user types `--no-handshake`:
//!
//! ```text
//!   send                                recv
//!     │── Hello { nonce } ───────────────▶│   as long as the answer: forged Hellos gain nothing
//!     │◀────────── Welcome { nonce, token }│   the nonce shows that it saw our Hello
//!     │══ Data, Data, Data … ════════════▶│
//!     │── Bye { sent, token } ───────────▶│
//! ```

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use softtimers::Monotonic;
use softtimers_core::Clock;

use crate::failure::Failure;
use crate::plan::SendPlan;
use crate::wire::{Datagram, MIN_SIZE, Token};

/// Why a run may send as fast as it will.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permit {
    /// To this machine.
    Loopback,
    /// No faster than anybody may.
    Slow,
    /// A receiver agreed.
    Agreed(Token),
    /// The user typed `--no-handshake`.
    Insisted,
}

impl Permit {
    /// What a run may do without asking, if anything.
    pub fn without_asking(destination: SocketAddr, packets_per_second: f64, insisted: bool) -> Option<Self> {
        if destination.ip().to_canonical().is_loopback() {
            Some(Permit::Loopback)
        } else if packets_per_second <= UNASKED_PACKETS_PER_SECOND {
            Some(Permit::Slow)
        } else if insisted {
            Some(Permit::Insisted)
        } else {
            None
        }
    }

    /// The permit of a planned run, asking the destination if need be, which takes up to 3 s.
    ///
    /// # Errors
    /// A usage failure if nobody there agrees.
    pub fn obtain(plan: &SendPlan) -> Result<Self, Failure> {
        let rate = plan.highest_pps();
        if let Some(permit) = Permit::without_asking(plan.destination, rate, plan.no_handshake) {
            return Ok(permit);
        }
        ask(plan.destination, PATIENCE).map(Permit::Agreed).map_err(|refusal| {
            Failure::usage(format_args!(
                "address {}: {refusal}; {UNASKED_PACKETS_PER_SECOND} packets/s to another machine are allowed \
                 unasked, more if `softtimers recv` runs there or with --no-handshake",
                plan.destination
            ))
        })
    }

    /// The token to send with a [`Datagram::Bye`].
    pub fn token(self) -> Option<Token> {
        match self {
            Permit::Agreed(token) => Some(token),
            Permit::Loopback | Permit::Slow | Permit::Insisted => None,
        }
    }
}

/// Asks the receiver at `destination` for its consent, at most `tries` times, each waiting twice as
/// long as the one before it, from 0.1 s on.
///
/// # Errors
/// [`Refusal`] if nothing there answers as a receiver does.
pub fn ask(destination: SocketAddr, tries: u32) -> Result<Token, Refusal> {
    let local: IpAddr = match destination {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((local, 0)).map_err(Refusal::System)?;
    socket.connect(destination).map_err(Refusal::System)?;
    let nonce = RandomState::new().hash_one(destination);
    let hello = Datagram::Hello { nonce }.encode();
    let mut closed = false;
    for attempt in 0..tries {
        let deadline = Monotonic.now() + FIRST_WAIT * 2u32.saturating_pow(attempt);
        match socket.send(&hello) {
            // An error here belongs to the previous Hello: the port was closed then.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => closed = true,
            Err(error) => return Err(Refusal::System(error)),
            Ok(_) => {}
        }
        // Once at the least: an answer may have come while this process was kept from its processor.
        for looks in 0u32.. {
            let left = deadline.saturating_duration_since(Monotonic.now());
            if left.is_zero() && looks > 0 {
                break;
            }
            socket.set_read_timeout(Some(left.max(Duration::from_micros(1)))).map_err(Refusal::System)?;
            let mut answer = [0; MIN_SIZE];
            match socket.recv(&mut answer) {
                Ok(length) => match Datagram::parse(&answer[..length]) {
                    Ok(Datagram::Welcome { nonce: echoed, token }) if echoed == nonce => return Ok(token),
                    _ => {}
                },
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    ErrorKind::ConnectionRefused => closed = true,
                    _ => return Err(Refusal::System(error)),
                },
            }
        }
    }
    Err(if closed { Refusal::Closed } else { Refusal::Silence })
}

/// Why there is no consent.
#[derive(Debug)]
pub enum Refusal {
    /// The host says that nobody listens on that port.
    Closed,
    /// No answer.
    Silence,
    /// The question could not be sent.
    System(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Closed => f.write_str("nobody listens on that port"),
            Refusal::Silence => f.write_str("no softtimers receiver answers"),
            Refusal::System(error) => write!(f, "cannot be asked ({error})"),
        }
    }
}

impl std::error::Error for Refusal {}

/// The receiver's side: makes tokens without remembering whom it gave one.
///
/// ```
/// use softtimers_cli::handshake::Consent;
/// use softtimers_cli::wire::Datagram;
///
/// let consent = Consent::new();
/// let peer = "127.0.0.1".parse().unwrap();
/// let Datagram::Welcome { nonce, token } = consent.welcome(peer, 7) else { unreachable!() };
/// assert_eq!(nonce, 7);
/// assert!(consent.gave(peer, token));
/// ```
#[derive(Debug, Default)]
pub struct Consent {
    secret: RandomState,
}

impl Consent {
    /// A receiver with a secret of its own.
    pub fn new() -> Self {
        Consent::default()
    }

    /// The answer to a [`Datagram::Hello`] with `nonce` from `peer`.
    pub fn welcome(&self, peer: IpAddr, nonce: u64) -> Datagram {
        Datagram::Welcome { nonce, token: self.token(peer) }
    }

    /// Whether `token` is the one that `peer` was given.
    pub fn gave(&self, peer: IpAddr, token: Token) -> bool {
        token == self.token(peer)
    }

    fn token(&self, peer: IpAddr) -> Token {
        let number = self.secret.hash_one(peer.to_canonical());
        Token::new(number).unwrap_or(ANY_TOKEN)
    }
}

/// What anybody may send to anybody: DNS queries and pings come as fast.
const UNASKED_PACKETS_PER_SECOND: f64 = 1_000.0;

/// Waits of 0.1, 0.2, 0.4, 0.8 and 1.6 s: 3.1 s, longer than ARP or a lost Hello take.
const PATIENCE: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// For the one peer in 2⁶⁴ whose hash is the zero that means "none".
const ANY_TOKEN: Token = match Token::new(1) {
    Some(token) => token,
    None => unreachable!(),
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn permit(address: &str, packets: u32, insisted: bool) -> Option<Permit> {
        Permit::without_asking(address.parse().unwrap(), packets.into(), insisted)
    }

    #[test]
    fn only_fast_runs_to_other_machines_ask() {
        assert_eq!(permit("127.0.0.1:9", 1_000_000, false), Some(Permit::Loopback));
        assert_eq!(permit("[::1]:9", 1_000_000, false), Some(Permit::Loopback));
        assert_eq!(permit("[::ffff:127.0.0.1]:9", 1_000_000, false), Some(Permit::Loopback));
        assert_eq!(permit("192.0.2.1:9", 1_000, false), Some(Permit::Slow));
        assert_eq!(permit("192.0.2.1:9", 1_001, false), None);
        assert_eq!(permit("192.0.2.1:9", 1_001, true), Some(Permit::Insisted));
        assert_eq!(permit("[2001:db8::1]:9", 25_000, false), None);
        assert_eq!(Permit::Insisted.token(), None);
    }

    #[test]
    fn a_receiver_agrees_even_after_strangers_have_answered() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let receiver = thread::spawn(move || {
            let consent = Consent::new();
            let mut hello = [0; 64];
            let mut answers = 0;
            loop {
                let (length, peer) = socket.recv_from(&mut hello).unwrap();
                let Ok(Datagram::Hello { nonce }) = Datagram::parse(&hello[..length]) else { panic!() };
                answers += 1;
                if answers == 1 {
                    // Rubbish, and an answer to somebody else's question; the second Hello is meant.
                    socket.send_to(b"what?", peer).unwrap();
                    socket.send_to(&consent.welcome(peer.ip(), nonce ^ 1).encode(), peer).unwrap();
                    continue;
                }
                let welcome = consent.welcome(peer.ip(), nonce).encode();
                assert!(welcome.len() <= length, "an answer is no longer than the question");
                socket.send_to(&welcome, peer).unwrap();
                return consent;
            }
        });
        let token = ask(address, 6).unwrap();
        let consent = receiver.join().unwrap();
        assert!(consent.gave(address.ip(), token));
        assert!(!consent.gave("127.0.0.2".parse().unwrap(), token));
        assert!(!Consent::new().gave(address.ip(), token), "another receiver has another secret");
    }

    #[test]
    fn silence_and_closed_ports_are_told_apart() {
        // Where no other test looks for a port, so that nobody takes this one when it is closed.
        let silent = UdpSocket::bind("127.0.87.3:0").unwrap();
        let address = silent.local_addr().unwrap();
        assert!(matches!(ask(address, 1), Err(Refusal::Silence)));
        drop(silent);
        assert!(matches!(ask(address, 2), Err(Refusal::Closed)));
    }
}
