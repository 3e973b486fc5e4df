//! The senders that a receiver counts: those that it has agreed with.
//!
//! Any host may ask, from any address that it can write on a datagram. So the first answer takes no memory: its token
//! is a keyed hash of the address and the question. A sender that comes back with the token can receive at that
//! address, and the run is bound to it:
//!
//! ```text
//!   nobody ──Hello with its token──▶ bound to that address and port ──┬─ all flows said goodbye        ─┐
//!     ▲                                others are told Busy           ├─ nothing for 2 s               ─┤
//!     │                                                               └─ no traffic for 10 s (or more) ─┤
//!     └──────────────── the next one that comes back with its token takes its place ◀───────────────────┘
//! ```
//!
//! Once traffic has come, the next sender must have the same IP address: a run counts one host's datagrams. A sender
//! that no other replaces stays bound, however long it is silent. `--any` has room for many, from any address.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use softtimers_core::Timestamp;

use crate::wire::{Datagram, Hello, Token};

use super::silence::silence;

/// The senders with an agreement, and the limits of each.
#[derive(Debug)]
pub(super) struct Agreements {
    consent: Consent,
    bound: Vec<Bound>,
    most: usize,
    /// The host whose traffic the run counts, if it is limited to one.
    host: Option<IpAddr>,
    /// The sender of the last datagram, likely that of the next one too.
    latest: usize,
}

/// A sender with an agreement.
#[derive(Debug)]
struct Bound {
    peer: SocketAddr,
    hello: Hello,
    begun: Timestamp,
    /// When anything last came from it.
    heard: Timestamp,
    /// When traffic last came from it.
    traffic: Timestamp,
    renewed: Timestamp,
    /// The number of its flows that have ended.
    ended: u32,
    /// When it was last told what has come of it.
    told: Option<Timestamp>,
}

/// A sender asks ten times a second at most; this bounds what its questions cost.
const TOLD_EVERY: Duration = Duration::from_millis(20);

/// A datagram's sender that is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Believed {
    /// The flow's index among those of its sender.
    pub(super) place: u32,
    /// The interval that it stated.
    pub(super) interval: Duration,
    /// The time of its agreement.
    pub(super) since: Timestamp,
    /// The answer to send.
    pub(super) answer: Option<Datagram>,
}

impl Agreements {
    /// Creates it without senders, with room for `most` at a time; if that is one, later ones must be from the same
    /// host.
    pub(super) fn new(most: usize) -> Self {
        Agreements { consent: Consent::new(), bound: Vec::new(), most, host: None, latest: 0 }
    }

    /// Answers a sender that asks: [`Datagram::Busy`] if it has no agreement and cannot get one now.
    pub(super) fn hear(&mut self, peer: SocketAddr, hello: &Hello, now: Timestamp) -> Datagram {
        let welcome = self.consent.welcome(peer, hello);
        let known = self.bound.iter().position(|bound| bound.peer == peer && bound.hello == *hello);
        if let Some(at) = known {
            (self.bound[at].heard, self.bound[at].renewed) = (now, now);
            return welcome;
        }
        // The previous program at this address and port has gone.
        let same = |bound: &Bound| bound.peer == peer;
        let place = self.bound.iter().position(|bound| same(bound) || bound.is_free(now));
        let elsewhere = self.host.is_some_and(|host| host != peer.ip().to_canonical());
        if elsewhere || (self.bound.len() >= self.most && place.is_none()) {
            return Datagram::Busy { nonce: hello.nonce };
        }
        if self.consent.gave(peer, hello) {
            let bound = Bound {
                peer,
                hello: *hello,
                begun: now,
                heard: now,
                traffic: now,
                renewed: now,
                ended: 0,
                told: None,
            };
            match place.filter(|&at| self.bound.len() >= self.most || same(&self.bound[at])) {
                Some(at) => self.bound[at] = bound,
                None => self.bound.push(bound),
            }
        }
        welcome
    }

    /// Looks up the sender of a datagram of traffic with this token; `None` if it has no agreement.
    #[inline]
    pub(super) fn believe(
        &mut self,
        peer: SocketAddr,
        token: Token,
        flow: u32,
        now: Timestamp,
    ) -> Option<Believed> {
        let is_it = |bound: &Bound| bound.peer == peer && bound.hello.token == Some(token);
        if !self.bound.get(self.latest).is_some_and(is_it) {
            self.latest = self.bound.iter().position(is_it)?;
        }
        let bound = &mut self.bound[self.latest];
        let place = flow.wrapping_sub(bound.hello.flow);
        if place >= bound.hello.flows {
            return None;
        }
        (bound.heard, bound.traffic) = (now, now);
        if self.most == 1 {
            self.host = Some(peer.ip().to_canonical());
        }
        let due = now.saturating_duration_since(bound.renewed) >= RENEWED_EVERY;
        let answer = due.then(|| {
            bound.renewed = now;
            Datagram::Welcome { nonce: bound.hello.nonce, token }
        });
        let interval = Duration::from_nanos(bound.hello.interval_ns.into());
        Some(Believed { place, interval, since: bound.begun, answer })
    }

    /// Returns what the agreed sender with this address and token has asked for; `None` if it was told of it a moment ago.
    pub(super) fn asks_result(&mut self, peer: SocketAddr, token: Token, now: Timestamp) -> Option<Hello> {
        let is_it = |bound: &&mut Bound| bound.peer == peer && bound.hello.token == Some(token);
        let bound = self.bound.iter_mut().find(is_it)?;
        if bound.told.is_some_and(|told| now.saturating_duration_since(told) < TOLD_EVERY) {
            return None;
        }
        bound.told = Some(now);
        Some(bound.hello)
    }

    /// Says whether there has been an agreement.
    pub(super) fn any(&self) -> bool {
        !self.bound.is_empty()
    }

    /// Records that another flow of the sender [found](Self::believe) last has ended.
    pub(super) fn one_ended(&mut self) {
        if let Some(bound) = self.bound.get_mut(self.latest) {
            bound.ended += 1;
        }
    }
}

impl Bound {
    /// Says whether another sender may take its place.
    fn is_free(&self, now: Timestamp) -> bool {
        let interval = Duration::from_nanos(self.hello.interval_ns.into());
        self.ended >= self.hello.flows
            || now.saturating_duration_since(self.heard) > GONE_AFTER
            || now.saturating_duration_since(self.traffic) > silence(Some(interval))
    }
}

/// Makes tokens, without remembering their recipients.
#[derive(Debug, Default)]
pub(crate) struct Consent {
    /// A random key from the operating system.
    secret: RandomState,
}

impl Consent {
    /// Creates a receiver with a secret of its own.
    pub(crate) fn new() -> Self {
        Consent::default()
    }

    /// Returns the answer to a [`Datagram::Hello`] from `peer`.
    pub(crate) fn welcome(&self, peer: SocketAddr, hello: &Hello) -> Datagram {
        Datagram::Welcome { nonce: hello.nonce, token: self.token(peer, hello) }
    }

    /// Says whether the token of `hello` is the one that `peer` was given for it.
    pub(crate) fn gave(&self, peer: SocketAddr, hello: &Hello) -> bool {
        hello.token == Some(self.token(peer, hello))
    }

    fn token(&self, peer: SocketAddr, hello: &Hello) -> Token {
        let question = Hello { token: None, ..*hello };
        let number = self.secret.hash_one((peer.ip().to_canonical(), peer.port(), question));
        Token::new(number).unwrap_or(ANY_TOKEN)
    }
}

/// How often a sender is told that its receiver is still there: it stops only after missing eight such answers in a
/// row.
const RENEWED_EVERY: Duration = Duration::from_millis(200);

/// A sender without data to send asks four times a second.
const GONE_AFTER: Duration = Duration::from_secs(2);

/// Replaces the one hash in 2⁴⁸ that is zero, which means "none".
const ANY_TOKEN: Token = match Token::new(1) {
    Some(token) => token,
    None => unreachable!(),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_question() {
        let consent = Consent::new();
        let peer = "127.0.0.1:9000".parse().unwrap();
        let hello = Hello { nonce: 7, flow: 1, flows: 1, interval_ns: 40_000, token: None };
        let Datagram::Welcome { nonce, token } = consent.welcome(peer, &hello) else { unreachable!() };
        assert_eq!(nonce, 7);
        assert!(consent.gave(peer, &Hello { token: Some(token), ..hello }));
    }

    const HELLO: Hello = Hello { nonce: 7, flow: u32::MAX, flows: 2, interval_ns: 40_000, token: None };

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn elsewhere(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 2], port))
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(millis * 1_000)
    }

    /// Asks, and comes back with the token; returns the token if the run is then bound to it.
    fn agree(agreements: &mut Agreements, port: u16, now: Timestamp) -> Option<Token> {
        agree_from(agreements, peer(port), now)
    }

    fn agree_from(agreements: &mut Agreements, peer: SocketAddr, now: Timestamp) -> Option<Token> {
        let Datagram::Welcome { token, nonce: 7 } = agreements.hear(peer, &HELLO, now) else {
            return None;
        };
        let hello = Hello { token: Some(token), ..HELLO };
        assert_eq!(agreements.hear(peer, &hello, now), Datagram::Welcome { nonce: 7, token });
        Some(token)
    }

    #[test]
    fn who_has_only_asked_is_not_believed_and_stands_in_nobodys_way() {
        let mut agreements = Agreements::new(1);
        for port in 1..100 {
            let Datagram::Welcome { token, .. } = agreements.hear(peer(port), &HELLO, at(0)) else {
                panic!()
            };
            assert!(agreements.believe(peer(port), token, u32::MAX, at(0)).is_none());
            // A made-up token does not help either.
            let forged = Hello { token: Token::new(u64::from(port)), ..HELLO };
            agreements.hear(peer(port), &forged, at(0));
            assert!(agreements.believe(peer(port), Token::new(port.into()).unwrap(), 0, at(0)).is_none());
        }
        let token = agree(&mut agreements, 200, at(0)).unwrap();
        assert!(agreements.believe(peer(200), token, u32::MAX, at(0)).is_some());
    }

    #[test]
    fn only_its_address_its_token_and_its_flows_are_believed() {
        let mut agreements = Agreements::new(1);
        let token = agree(&mut agreements, 1, at(0)).unwrap();
        let mut places = |port, token, flow| {
            agreements.believe(peer(port), token, flow, at(0)).map(|believed| believed.place)
        };
        assert_eq!((places(1, token, u32::MAX), places(1, token, 0)), (Some(0), Some(1)), "two in a row");
        assert_eq!((places(1, token, 1), places(1, token, u32::MAX - 1)), (None, None));
        assert_eq!((places(2, token, 0), places(1, Token::new(5).unwrap(), 0)), (None, None));
    }

    /// While datagrams come, an answer a few times a second; never more bytes than came.
    #[test]
    fn consent_is_renewed_a_few_times_a_second() {
        let mut agreements = Agreements::new(1);
        let token = agree(&mut agreements, 1, at(0)).unwrap();
        let answers =
            (0..3_000).filter_map(|millis| agreements.believe(peer(1), token, 0, at(millis))?.answer);
        let answers: Vec<_> = answers.collect();
        assert_eq!(answers.len(), 14);
        assert!(answers.iter().all(|&answer| answer == Datagram::Welcome { nonce: 7, token }));
    }

    #[test]
    fn a_second_sender_waits_until_the_first_has_ended_or_is_gone() {
        let busy = |agreements: &mut Agreements, now| agree(agreements, 2, now).is_none();
        // It sends its goodbyes, flow by flow.
        let mut agreements = Agreements::new(1);
        let token = agree(&mut agreements, 1, at(0)).unwrap();
        for flow in [u32::MAX, 0] {
            assert!(busy(&mut agreements, at(1)));
            agreements.believe(peer(1), token, flow, at(1)).unwrap();
            agreements.one_ended();
        }
        assert!(!busy(&mut agreements, at(1)));
        assert!(agreements.believe(peer(1), token, 0, at(1)).is_none(), "its place is taken");
        // It falls silent.
        let mut agreements = Agreements::new(1);
        agree(&mut agreements, 1, at(0)).unwrap();
        assert!(busy(&mut agreements, at(2_000)) && !busy(&mut agreements, at(2_001)));
        // It only asks, and never sends: 10 s.
        let mut agreements = Agreements::new(1);
        for second in 0..=10 {
            assert!(second == 0 || busy(&mut agreements, at(second * 1_000)));
            agree(&mut agreements, 1, at(second * 1_000)).unwrap();
        }
        assert!(!busy(&mut agreements, at(10_001)));
        // No other sender comes meanwhile: it continues.
        let mut agreements = Agreements::new(1);
        let token = agree(&mut agreements, 1, at(0)).unwrap();
        assert!(agreements.believe(peer(1), token, 0, at(60_000)).is_some());
        // The same address and port with another question: its program was restarted.
        let mut agreements = Agreements::new(1);
        let before = agree(&mut agreements, 1, at(0)).unwrap();
        let hello = Hello { nonce: 8, ..HELLO };
        let Datagram::Welcome { token, .. } = agreements.hear(peer(1), &hello, at(1)) else { panic!() };
        assert!(agreements.believe(peer(1), before, 0, at(1)).is_some(), "who only asks changes nothing");
        agreements.hear(peer(1), &Hello { token: Some(token), ..hello }, at(1));
        assert!(agreements.believe(peer(1), before, 0, at(1)).is_none());
        assert!(agreements.believe(peer(1), token, 0, at(1)).is_some());
    }

    /// Whether it ends by goodbyes, by silence, or its program only asks.
    #[test]
    fn once_traffic_has_come_its_host_alone_may_follow() {
        let run = |most: usize, traffic: bool| {
            let mut agreements = Agreements::new(most);
            let token = agree(&mut agreements, 1, at(0)).unwrap();
            if traffic {
                [u32::MAX, 0].iter().for_each(|&flow| {
                    agreements.believe(peer(1), token, flow, at(0)).unwrap();
                });
                (0..2).for_each(|_| agreements.one_ended());
            }
            let mut may = Vec::new();
            for now in [0, 2_001, 10_001, 3_600_000] {
                may.push(agree_from(&mut agreements, elsewhere(1), at(now)).is_some());
            }
            (may, agree(&mut agreements, 2, at(7_200_000)).is_some())
        };
        assert_eq!(run(1, true), (vec![false; 4], true));
        assert_eq!(run(1, false), (vec![false, true, true, true], true), "before that, whoever comes next");
        assert_eq!(run(2, true), (vec![true; 4], true), "with --any");
        // One address in both notations.
        let mut agreements = Agreements::new(1);
        let token = agree(&mut agreements, 1, at(0)).unwrap();
        agreements.believe(peer(1), token, 0, at(0)).unwrap();
        let mapped = "[::ffff:127.0.0.1]:2".parse().unwrap();
        assert!(agree_from(&mut agreements, mapped, at(10_001)).is_some());
    }

    #[test]
    fn several_at_a_time_are_kept_apart() {
        let mut agreements = Agreements::new(2);
        let tokens = [1, 2].map(|port| agree(&mut agreements, port, at(0)).unwrap());
        assert!(agree(&mut agreements, 3, at(0)).is_none());
        for (port, token) in [(1, tokens[0]), (2, tokens[1]), (1, tokens[0])] {
            assert!(agreements.believe(peer(port), token, 0, at(0)).is_some());
            assert!(agreements.believe(peer(3 - port), token, 0, at(0)).is_none());
        }
    }
}
