//! Asking before sending: so that no machine is flooded that does not expect it, by mistake or on purpose, and a
//! receiver believes only its sender.
//!
//! ```text
//!   send                                            recv
//!     │── Hello { nonce, flows, interval } ──────────▶│   as long as the answer: forged Hellos gain nothing,
//!     │◀───────────────────── Welcome { nonce, token }│   and nothing is remembered of them
//!     │── Hello { …, token } ────────────────────────▶│   the token shows that it hears: the run is bound to it
//!     │◀───────────────────── Welcome { nonce, token }│
//!     │══ Data { token }, Data, Data … ══════════════▶│   only with the token, from the same address and port
//!     │◀── Welcome ── Welcome ── Welcome ── …         │   a few times a second, while something comes
//!     │── Hello { …, token }, padding … ─────────────▶│
//!     │◀── Welcome { nonce, token }, the receipt ─────│   as long as the question
//!     │── Bye { sent, token } ───────────────────────▶│
//! ```
//!
//! The token is a keyed hash of the sender's address and of what it asks for: the receiver remembers only senders that
//! have shown that they can receive, and a stranger cannot guess it. While a run is bound to one sender, others are
//! told `Busy`.
//!
//! Beyond 1,000 packets/s to another machine, nothing is sent without an agreement, unless the user types
//! `--no-handshake`. To this machine, or at lower rates, a run goes on without an answer. Traffic without an agreement
//! is counted by a receiver only with `--any`.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use softtimers_core::Timestamp;

use crate::receipt::Receipt;
use crate::traffic::Traffic;
use crate::wire::{Datagram, Hello, ParseError, Token, VERSION, stated};
use softtimers_measure::failure::Failure;

mod exchange;

use exchange::{deadline, listen, say};

/// The permission for a run to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Permit {
    /// A receiver agreed.
    Agreed(Agreement),
    /// The destination is this machine, or the rate low enough to need no agreement; no receiver agreed.
    Unheard {
        /// Why no receiver agreed.
        why: String,
        /// Whether the host reported that the port is closed.
        is_closed: bool,
    },
    /// The user gave `--no-handshake`.
    Insisted,
}

impl Permit {
    /// Gets the permit of a planned run by asking the other end of `socket`, which takes up to 3.1 s without an answer.
    ///
    /// # Errors
    /// A check failure if an agreement is required and missing, or the receiver there does not want this run.
    pub(crate) fn obtain(
        destination: SocketAddr,
        traffic: &Traffic,
        socket: &impl AsFd,
    ) -> Result<Self, Failure> {
        let unasked = may_go_unasked(destination, traffic.highest_pps());
        let interval = traffic.pace.rate.interval();
        let patience = if unasked { UNASKED_PATIENCE } else { USUAL_PATIENCE };
        let asked = ask(socket, traffic.flows, interval, patience);
        let refusal = match asked {
            Ok(agreement) => return Ok(Permit::Agreed(agreement)),
            Err(refusal) => refusal,
        };
        let unwanted = matches!(refusal, Refusal::Busy | Refusal::Version(_));
        if unasked && !unwanted {
            let is_closed = matches!(refusal, Refusal::Closed);
            return Ok(Permit::Unheard { why: refusal.to_string(), is_closed });
        }
        let how = match refusal {
            Refusal::Busy => {
                "wait for its end, or from another address start that receiver anew, or with --any".to_owned()
            }
            Refusal::Version(_) => "use the same version at both ends".to_owned(),
            _ => format!(
                "{UNASKED_PACKETS_PER_SECOND} packets/s to another machine are allowed unasked, more if \
                 `softtimers recv` runs there or with --no-handshake"
            ),
        };
        Err(Failure::check(format_args!("address {destination}: {refusal}; {how}")))
    }

    /// Returns the outcome in a word for the report.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Permit::Agreed(_) => "agreed",
            Permit::Unheard { .. } => "none",
            Permit::Insisted => "not_asked",
        }
    }

    /// The receiver's agreement, if it gave one.
    pub(crate) fn agreement(&self) -> Option<Agreement> {
        if let Permit::Agreed(agreement) = *self { Some(agreement) } else { None }
    }
}

/// Says whether this rate to that address is allowed without asking.
pub fn may_go_unasked(destination: SocketAddr, packets_per_second: f64) -> bool {
    destination.ip().to_canonical().is_loopback() || packets_per_second <= UNASKED_PACKETS_PER_SECOND
}

/// A receiver's agreement: each datagram of the run carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreement {
    hello: Hello,
    token: Token,
}

impl Agreement {
    /// Returns the message that asks to keep the agreement.
    pub fn renewal(&self) -> Datagram {
        Datagram::Hello(self.hello)
    }

    /// Says whether this is the receiver's answer.
    pub fn is_renewed_by(&self, answer: &[u8]) -> bool {
        let renewed = Datagram::Welcome { nonce: self.hello.nonce, token: self.token };
        Datagram::parse(answer) == Ok(renewed)
    }

    /// Returns the token.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns the number that a flow has in this run's datagrams.
    pub fn flow(&self, flow: u32) -> u32 {
        self.hello.flow.wrapping_add(flow)
    }
}

/// Asks the receiver at the other end of a connected socket for its consent to `flows` flows.
///
/// # Errors
/// [`Refusal`] if no receiver answers there, or it does not want the run.
pub fn ask(
    socket: &impl AsFd,
    flows: u32,
    interval: Duration,
    patience: Patience,
) -> Result<Agreement, Refusal> {
    let hello = hello(flows, interval);
    let mut asking = Asking { confirms: true, ..Asking::new(hello) };
    for attempt in 0..patience.tries {
        if let Some(agreement) = asking.attempt(socket, deadline(attempt))? {
            return Ok(agreement);
        }
        if asking.closed && attempt + 1 >= patience.tries_if_closed {
            break;
        }
    }
    Err(match asking {
        Asking { version: Some(version), .. } => Refusal::Version(version),
        Asking { busy: true, .. } => Refusal::Busy,
        Asking { closed: true, .. } => Refusal::Closed,
        _ => Refusal::Silence,
    })
}

/// Checks that there is a receiver at the other end of a connected socket, whichever sender it is bound to. Nothing is
/// agreed.
///
/// # Errors
/// [`Refusal`] if no receiver answers there.
pub(crate) fn look(socket: &impl AsFd) -> Result<(), Refusal> {
    let mut asking = Asking::new(hello(1, Duration::ZERO));
    for attempt in 0..LOOKS {
        asking.attempt(socket, deadline(attempt))?;
        if asking.answered || asking.busy || asking.version.is_some() {
            return Ok(());
        }
        if asking.closed && attempt + 1 >= LOOKS_IF_CLOSED {
            break;
        }
    }
    Err(if asking.closed { Refusal::Closed } else { Refusal::Silence })
}

/// Asks an agreed receiver what it has of a run's `sent` datagrams: again while some are missing, since they may be on their
/// way, until two answers are the same. Takes 1.5 s at most.
///
/// # Errors
/// [`Refusal`] if it does not tell.
pub(crate) fn ask_receipt(socket: &impl AsFd, agreement: &Agreement, sent: u64) -> Result<Receipt, Refusal> {
    let mut question = [0; Receipt::SIZE];
    agreement.renewal().write(&mut question);
    let (mut told, mut closed, mut bare) = (None, false, 0);
    for attempt in 0..LOOKS {
        let deadline = deadline(attempt);
        let earlier: Option<Receipt> = told;
        // The first error may be an earlier datagram's.
        closed &= attempt != 1;
        say(socket, &question, &mut closed)?;
        let heard = listen(socket, deadline, &mut closed, |answer| {
            let receipt = agreement.is_renewed_by(answer).then(|| Receipt::parse(answer, sent));
            bare += u32::from(receipt == Some(None));
            told = receipt.flatten().or(told);
            // An answer may come twice at a time.
            Ok(receipt.flatten().filter(|receipt| receipt.lost == 0 || earlier == Some(*receipt)))
        })?;
        if let Some(receipt) = heard {
            return Ok(receipt);
        }
        // An agreed receiver whose port is closed has ended.
        if closed && attempt > 0 {
            break;
        }
    }
    told.ok_or(match () {
        () if closed => Refusal::Closed,
        () if bare > 0 => Refusal::Receiptless,
        () => Refusal::Silence,
    })
}

fn hello(flows: u32, interval: Duration) -> Hello {
    Hello { nonce: random(), flow: random() as u32, flows, interval_ns: stated(interval), token: None }
}

/// How often to ask, waiting 0.1, 0.2, and then 0.4 s for an answer each time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// The number of tries if nothing answers.
    pub tries: u32,
    /// The number of tries if the host reports a closed port; a receiver may be about to start.
    pub tries_if_closed: u32,
}

/// The state of the question.
struct Asking {
    hello: Hello,
    /// Whether an answer was used to bind the receiver to this run.
    confirms: bool,
    answered: bool,
    closed: bool,
    busy: bool,
    version: Option<u8>,
}

impl Asking {
    /// Creates it before the first question.
    fn new(hello: Hello) -> Self {
        Asking { hello, confirms: false, answered: false, closed: false, busy: false, version: None }
    }

    /// Asks once, and waits for answers until the deadline.
    fn attempt(&mut self, socket: &impl AsFd, deadline: Timestamp) -> Result<Option<Agreement>, Refusal> {
        let mut closed = self.closed;
        self.say_hello(socket)?;
        let heard = listen(socket, deadline, &mut closed, |answer| self.hear(socket, answer));
        self.closed |= closed;
        heard
    }

    fn say_hello(&mut self, socket: &impl AsFd) -> Result<(), Refusal> {
        say(socket, &Datagram::Hello(self.hello).encode(), &mut self.closed)
    }

    fn hear(&mut self, socket: &impl AsFd, answer: &[u8]) -> Result<Option<Agreement>, Refusal> {
        match Datagram::parse(answer) {
            Ok(Datagram::Welcome { nonce, token }) if nonce == self.hello.nonce => {
                self.answered = true;
                if !self.confirms {
                    return Ok(None);
                }
                if self.hello.token == Some(token) {
                    return Ok(Some(Agreement { hello: self.hello, token }));
                }
                self.hello.token = Some(token);
                self.say_hello(socket)?;
            }
            Ok(Datagram::Busy { nonce }) => self.busy |= nonce == self.hello.nonce,
            Err(ParseError::Version { version, .. }) => self.version = Some(version),
            _ => {}
        }
        Ok(None)
    }
}

/// Why there is no agreement.
#[derive(Debug)]
pub enum Refusal {
    /// The host reports that the port is closed.
    Closed,
    /// No answer.
    Silence,
    /// The receiver is bound to another sender.
    Busy,
    /// It speaks another version of the format.
    Version(u8),
    /// It agreed, and tells no receipt.
    Receiptless,
    /// The question could not be sent.
    System(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Closed => f.write_str("nobody listens on that port"),
            Refusal::Silence => f.write_str("no softtimers receiver answers"),
            Refusal::Busy => f.write_str("the receiver listens to another sender"),
            Refusal::Receiptless => {
                f.write_str("the receiver tells no result: its version is older, or its flows are too many")
            }
            Refusal::Version(version) => {
                write!(f, "the receiver speaks format {version}, this program format {VERSION}")
            }
            Refusal::System(error) => write!(f, "cannot be asked ({error})"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Returns a number that cannot be guessed: the hash of nothing under a random key from the operating system.
fn random() -> u64 {
    RandomState::new().hash_one(())
}

/// A rate that is harmless to any machine: DNS queries and pings come as fast.
const UNASKED_PACKETS_PER_SECOND: f64 = 1_000.0;

/// 3.1 s: longer than ARP or a lost Hello takes, and than a receiver waits before it gives up a vanished sender.
pub const USUAL_PATIENCE: Patience = Patience { tries: 9, tries_if_closed: 9 };
/// A sender that may send in any case waits 0.7 s for a receiver that was started at the same time.
const UNASKED_PATIENCE: Patience = Patience { tries_if_closed: 3, ..USUAL_PATIENCE };
/// 1.5 s: longer than a satellite takes.
const LOOKS: u32 = 5;
/// The first one may only meet an earlier datagram's error, and the second may be lost.
const LOOKS_IF_CLOSED: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recv::agreements::Consent;
    use std::net::UdpSocket;
    use std::thread;

    fn unasked(address: &str, packets: u32) -> bool {
        may_go_unasked(address.parse().unwrap(), packets.into())
    }

    #[test]
    fn only_fast_runs_to_other_machines_must_ask() {
        for here in ["127.0.0.1:9", "[::1]:9", "[::ffff:127.0.0.1]:9"] {
            assert!(unasked(here, 1_000_000), "{here}");
        }
        assert!(unasked("192.0.2.1:9", 1_000));
        assert!(!unasked("192.0.2.1:9", 1_001) && !unasked("[2001:db8::1]:9", 25_000));
    }

    fn connected(to: SocketAddr) -> UdpSocket {
        let socket = UdpSocket::bind((to.ip(), 0)).unwrap();
        socket.connect(to).unwrap();
        socket
    }

    fn tries(tries: u32) -> Patience {
        Patience { tries, tries_if_closed: tries }
    }

    #[test]
    fn a_receiver_agrees_even_after_strangers_have_answered() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let receiver = thread::spawn(move || {
            let consent = Consent::new();
            let (mut bytes, mut answers) = ([0; 64], 0);
            loop {
                let (length, peer) = socket.recv_from(&mut bytes).unwrap();
                let Ok(Datagram::Hello(hello)) = Datagram::parse(&bytes[..length]) else { panic!() };
                answers += 1;
                let welcome = consent.welcome(peer, &hello).encode();
                assert!(welcome.len() <= length, "an answer is no longer than the question");
                if answers == 1 {
                    // Garbage, and an answer to another question; the second Hello counts.
                    socket.send_to(b"what?", peer).unwrap();
                    let other = Hello { nonce: hello.nonce ^ 1, ..hello };
                    socket.send_to(&consent.welcome(peer, &other).encode(), peer).unwrap();
                    continue;
                }
                socket.send_to(&welcome, peer).unwrap();
                if hello.token.is_some() {
                    return (consent, peer, hello);
                }
            }
        });
        let agreement = ask(&connected(address), 3, Duration::from_micros(40), tries(6)).unwrap();
        let (consent, peer, hello) = receiver.join().unwrap();
        assert!(consent.gave(peer, &hello) && agreement.renewal() == Datagram::Hello(hello));
        assert!(agreement.is_renewed_by(&consent.welcome(peer, &hello).encode()));
        assert_eq!((hello.flows, hello.interval_ns, hello.token), (3, 40_000, Some(agreement.token())));
        // Another address, port, flow or receiver gets another token.
        let other = |address: &str| address.parse::<SocketAddr>().unwrap();
        assert!(!consent.gave(other(&format!("127.0.0.2:{}", peer.port())), &hello));
        assert!(!consent.gave(SocketAddr::new(peer.ip(), peer.port() ^ 1), &hello));
        assert!(!consent.gave(peer, &Hello { flow: hello.flow ^ 1, ..hello }));
        assert!(!Consent::new().gave(peer, &hello));
    }

    #[test]
    fn silence_and_closed_ports_are_told_apart() {
        // In an address range that no other test uses, so that the port stays closed.
        let silent = UdpSocket::bind("127.0.87.3:0").unwrap();
        let address = silent.local_addr().unwrap();
        let ask = |many| ask(&connected(address), 1, Duration::ZERO, tries(many));
        assert!(matches!(ask(1), Err(Refusal::Silence)));
        drop(silent);
        assert!(matches!(ask(2), Err(Refusal::Closed)));
    }

    /// Some are on their way still, an answer is lost, a stranger's comes in between: what is told in the end is what has come.
    #[test]
    fn a_receipt_is_asked_for_until_nothing_more_comes() {
        let told = |in_time: [Option<u64>; 5]| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let sender = connected(socket.local_addr().unwrap());
            let hello = Hello { token: Token::new(9), ..hello(1, Duration::ZERO) };
            let agreement = Agreement { hello, token: Token::new(9).unwrap() };
            let answers = thread::spawn(move || {
                for (asked, in_time) in (0u64..).zip(in_time) {
                    let mut bytes = [0; 2 * Receipt::SIZE];
                    let (length, peer) = socket.recv_from(&mut bytes).unwrap();
                    assert_eq!(
                        (length, Datagram::parse(&bytes)),
                        (Receipt::SIZE, Ok(Datagram::Hello(hello)))
                    );
                    let header = |nonce| Datagram::Welcome { nonce, token: Token::new(9).unwrap() };
                    let receipt = |in_time| Receipt { in_time, received: asked, ..Receipt::default() };
                    socket.send_to(&receipt(100).encode(&header(hello.nonce ^ 1)), peer).unwrap();
                    match in_time {
                        Some(0) => drop(socket.send_to(&header(hello.nonce).encode(), peer).unwrap()),
                        Some(some) => {
                            let receipt = Receipt { received: some, ..receipt(some) };
                            socket.send_to(&receipt.encode(&header(hello.nonce)), peer).unwrap();
                            if some == 100 || asked == 2 {
                                return;
                            }
                        }
                        None => {}
                    }
                }
            });
            let told = ask_receipt(&sender, &agreement, 100).map(|receipt| receipt.lost);
            drop(sender);
            answers.join().unwrap();
            told.map_err(|why| why.to_string())
        };
        assert_eq!(told([None, Some(60), None, Some(100), None]), Ok(0));
        // Answers to data, on a long path, come before it.
        assert_eq!(told([Some(0), Some(0), None, Some(100), None]), Ok(0));
        assert_eq!(told([Some(60), Some(90), Some(90), None, None]), Ok(10));
        let old = "the receiver tells no result: its version is older, or its flows are too many";
        assert_eq!(told([Some(0), None, Some(0), Some(0), Some(0)]), Err(old.to_owned()));
    }

    /// A receiver of another version says so, and so does one bound to another sender.
    #[test]
    fn who_does_not_want_the_run_says_why() {
        for version in [VERSION, 9] {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let address = socket.local_addr().unwrap();
            let receiver = thread::spawn(move || {
                let mut bytes = [0; 64];
                let (length, peer) = socket.recv_from(&mut bytes).unwrap();
                let Ok(Datagram::Hello(Hello { nonce, .. })) = Datagram::parse(&bytes[..length]) else {
                    panic!()
                };
                let mut busy = Datagram::Busy { nonce }.encode();
                busy[4] = version;
                socket.send_to(&busy, peer).unwrap();
                socket
            });
            let refusal = ask(&connected(address), 1, Duration::ZERO, tries(3)).unwrap_err();
            drop(receiver.join().unwrap());
            let expected = if version == VERSION {
                "the receiver listens to another sender"
            } else {
                "the receiver speaks format 9, this program format 2"
            };
            assert_eq!(refusal.to_string(), expected);
        }
    }
}
