//! Parsing text into [`Rules`]. Any bytes give rules, or one line that says where and why not.

use std::fmt;
use std::net::IpAddr;
use std::str::{FromStr, SplitWhitespace};
use std::time::Duration;

use ipnet::IpNet;
use softtimers_measure::failure::one_line;
use softtimers_measure::units;

use super::clauses::{Entrance, EtherType, Limit, Protocol, Span};
use super::coverage::Coverage;
use super::rule::{Action, Entry, Purpose, Rule, Rules};

/// Why a text is not valid rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Problem {
    line: usize,
    what: String,
}

#[cfg(any(test, fuzzing))]
impl Problem {
    /// Returns the line, from 1; if a rule is missing, the one after the last.
    pub(crate) fn line(&self) -> usize {
        self.line
    }
}

/// `LINE: what is wrong with it and what is allowed`, on one line.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.what)
    }
}

impl std::error::Error for Problem {}

/// Parses the text of a file of rules.
///
/// # Errors
/// The first [`Problem`].
#[cfg(any(test, fuzzing))]
pub(crate) fn parse(text: &[u8]) -> Result<Rules, Problem> {
    parse_quoting(text, Quoting::Words)
}

/// Whether a [`Problem`] quotes the words that it is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Quoting {
    /// Quotes the words as they are.
    Words,
    /// Shows `…` in their place: the reader of the message may not be allowed to read the file.
    Nothing,
}

/// A word of a file in a message, or `…`.
struct Quoted<T>(Quoting, T);

impl Quoting {
    fn quote<T: fmt::Display>(self, words: T) -> Quoted<T> {
        Quoted(self, words)
    }
}

impl<T: fmt::Display> fmt::Display for Quoted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Quoting::Words => self.1.fmt(f),
            Quoting::Nothing => f.write_str("…"),
        }
    }
}

/// As [`parse`]; `quoting` says what a problem may quote.
///
/// # Errors
/// The first [`Problem`].
pub(crate) fn parse_quoting(text: &[u8], quoting: Quoting) -> Result<Rules, Problem> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut coverage = Coverage::default();
    let mut lines = 0;
    // Some editors begin a file with an invisible byte order mark.
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    for (index, bytes) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = index + 1;
        let problem = |what: String| Problem { line, what: one_line(&what) };
        let words = std::str::from_utf8(bytes).map_err(|_| problem("not UTF-8".into()))?;
        let words = words.split_once('#').map_or(words, |(before, _)| before);
        lines = if bytes.is_empty() { lines } else { line };
        if words.trim().is_empty() {
            continue;
        }
        if let Some(last) = entries.last().filter(|entry| entry.rule.is_for_all()) {
            return Err(problem(format!("never reached: line {} decides about everything", last.line)));
        }
        if entries.len() == MOST_RULES {
            return Err(problem(format!("more than {MOST_RULES} rules")));
        }
        let rule = rule(words, quoting).map_err(problem)?;
        // Rules that can match in a relay may stay; `check`, which knows the purpose, is stricter.
        if let Some(contradiction) = rule.contradiction(false) {
            return Err(problem(contradiction));
        }
        if let Some(line) = coverage.find(&rule) {
            return Err(problem(format!(
                "never reached: line {line} decides about all that this rule holds for"
            )));
        }
        coverage.add(Entry { line, rule });
        entries.push(Entry { line, rule });
    }
    if entries.last().is_some_and(|entry| entry.rule.is_for_all()) {
        return Ok(Rules { entries });
    }
    let what = "the end: the last rule must be 'accept' or 'reject' alone, for all that no other holds for";
    Err(Problem { line: lines + 1, what: what.into() })
}

impl Rules {
    /// Checks that all rules may be used for this purpose.
    ///
    /// # Errors
    /// The first [`Problem`]: clauses that never match together for frames, or a rate shared by several pollers.
    pub(crate) fn check(&self, purpose: Purpose) -> Result<(), Problem> {
        for Entry { line, rule } in self.entries() {
            let rate = || {
                let counted = purpose.pollers < 2 || rule.rate.is_none();
                (!counted).then(|| "a rate, which --pollers 1 can count and more cannot".to_owned())
            };
            if let Some(what) = rule.contradiction(purpose.frames).or_else(rate) {
                return Err(Problem { line: *line, what });
            }
        }
        Ok(())
    }
}

impl Rule {
    const FOR_ALL: Rule = Rule {
        entrance: None,
        kind: None,
        protocol: None,
        from: None,
        from_ports: None,
        to: None,
        to_ports: None,
        lengths: None,
        rate: None,
        action: Action::Accept,
    };

    fn is_for_all(&self) -> bool {
        Rule { action: Action::Accept, ..*self } == Rule::FOR_ALL
    }
}

pub(crate) fn rule(text: &str, quoting: Quoting) -> Result<Rule, String> {
    let mut words = text.split_whitespace();
    let mut rule = Rule::FOR_ALL;
    let mut burst = None;
    while let Some(word) = words.next() {
        match word {
            "on" => once(word, &mut rule.entrance, entrance(value(word, &mut words)?, quoting)?)?,
            "type" => once(word, &mut rule.kind, kind(value(word, &mut words)?, quoting)?)?,
            "protocol" => once(word, &mut rule.protocol, protocol(value(word, &mut words)?, quoting)?)?,
            "from" => once(word, &mut rule.from, network(word, value(word, &mut words)?, quoting)?)?,
            "from-port" => once(word, &mut rule.from_ports, span(word, value(word, &mut words)?, quoting)?)?,
            "to" => once(word, &mut rule.to, network(word, value(word, &mut words)?, quoting)?)?,
            "port" => once(word, &mut rule.to_ports, span(word, value(word, &mut words)?, quoting)?)?,
            "length" => once(word, &mut rule.lengths, span(word, value(word, &mut words)?, quoting)?)?,
            "rate" => {
                let text = value(word, &mut words)?;
                let rate =
                    units::rate(text).map_err(|error| format!("rate '{}': {error}", quoting.quote(text)))?;
                once(word, &mut rule.rate, Limit { rate, burst: DEFAULT_BURST })?;
            }
            "burst" => {
                let text = value(word, &mut words)?;
                let time = units::duration(text)
                    .map_err(|error| format!("burst '{}': {error}", quoting.quote(text)))?;
                rule.rate.as_mut().ok_or("'burst' belongs after a 'rate'")?.burst = time;
                once(word, &mut burst, time)?;
            }
            "accept" | "reject" => {
                rule.action = if word == "accept" { Action::Accept } else { Action::Reject };
                return match words.next() {
                    None => Ok(rule),
                    Some(more) => Err(format!("'{}' after '{word}': a rule ends there", quoting.quote(more))),
                };
            }
            _ => return Err(format!("'{}': {WORDS}", quoting.quote(word))),
        }
    }
    Err("neither 'accept' nor 'reject' at its end".into())
}

fn value<'a>(word: &str, words: &mut SplitWhitespace<'a>) -> Result<&'a str, String> {
    words.next().ok_or_else(|| format!("'{word}' without a value"))
}

fn once<T>(word: &str, place: &mut Option<T>, value: T) -> Result<(), String> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("'{word}' twice")),
    }
}

fn entrance(text: &str, quoting: Quoting) -> Result<Entrance, String> {
    match text {
        "a" => Ok(Entrance::A),
        "b" => Ok(Entrance::B),
        _ => Err(format!("on '{}': a, the first interface, or b, the second", quoting.quote(text))),
    }
}

fn kind(text: &str, quoting: Quoting) -> Result<EtherType, String> {
    EtherType::named(text).ok_or_else(|| {
        format!("type '{}': arp, ipv4, ipv6, or a number from 0x0600 to 0xffff", quoting.quote(text))
    })
}

fn protocol(text: &str, quoting: Quoting) -> Result<Protocol, String> {
    Protocol::named(text).ok_or_else(|| {
        format!("protocol '{}': tcp, udp, icmp, icmpv6, or a number from 0 to 255", quoting.quote(text))
    })
}

fn network(word: &str, text: &str, quoting: Quoting) -> Result<IpNet, String> {
    let refuse = |why: String| format!("{word} '{}': {why}", quoting.quote(text));
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address
        .parse()
        .map_err(|_| refuse("not one address, or one ADDRESS/BITS, such as 192.0.2.0/24".to_owned()))?;
    let all = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => all,
        Some(bits) => number(bits)
            .filter(|&bits| bits <= all)
            .ok_or_else(|| refuse(format!("behind its '/' is one number from 0 to {all}")))?,
    };
    // IPv4 senders are known by their IPv4 addresses, also at a socket of both families: this would match none.
    if address != address.to_canonical() && bits >= MAPPED {
        return Err(refuse(format!(
            "an address of IPv4, to be written {}/{}",
            quoting.quote(address.to_canonical()),
            quoting.quote(bits - MAPPED)
        )));
    }
    let network = IpNet::new(address, bits).ok().filter(|network| network.trunc() == *network);
    network.ok_or_else(|| {
        refuse(format!("has bits beyond the first {}, which are the network's", quoting.quote(bits)))
    })
}

fn span(word: &str, text: &str, quoting: Quoting) -> Result<Span, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first), number(last));
    let (Some(first), Some(last)) = (first, last) else {
        return Err(format!("{word} '{}': not a number from 0 to 65535, or FIRST-LAST", quoting.quote(text)));
    };
    if first > last {
        return Err(format!("{word} '{}': the first is above the last", quoting.quote(text)));
    }
    Ok(Span { first, last })
}

/// Accepts digits only: `+1` is not a port.
fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Each packet is checked against all of them in the worst case: with 16,384 rules that takes some 100 µs.
const MOST_RULES: usize = 16_384;

/// The bits before the IPv4 address in an IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2).
const MAPPED: u8 = 96;

/// How far ahead of a rate packets may be by default: a tenth of a second.
const DEFAULT_BURST: Duration = Duration::from_millis(100);

const WORDS: &str =
    "clauses are on, type, protocol, from, from-port, to, port, length, rate, burst; then accept or reject";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::forwarder::properties;

    #[test]
    fn comments_are_left_out_and_problems_name_their_line() {
        let rules = parse(b"from 192.0.2.0/24 accept # ours\nreject\n").unwrap();
        assert_eq!(rules.to_string(), "from 192.0.2.0/24 accept\nreject\n");
        let problem = parse(b"# nobody else\nform 192.0.2.0/24 accept\n").unwrap_err();
        assert!(problem.to_string().starts_with("2: 'form': "));
    }

    #[test]
    fn problems_name_the_line_the_value_and_what_is_allowed() {
        for (text, problem) in [
            ("", "1: the end: the last rule must be 'accept' or 'reject' alone"),
            ("from 10.0.0.1 accept\n", "2: the end"),
            ("accept\n\naccept", "3: never reached: line 1 decides about everything"),
            ("\n from 10.0.0.1/8 accept", "2: from '10.0.0.1/8': has bits beyond the first 8"),
            ("from 10.0.0.0/33 accept", "1: from '10.0.0.0/33': behind its '/' is one number from 0 to 32"),
            ("from 10.0.0.0/255.0.0.0 accept", "1: from '10.0.0.0/255.0.0.0': behind its '/'"),
            ("to ::/129 accept", "1: to '::/129': behind its '/' is one number from 0 to 128"),
            ("from here accept", "1: from 'here': not one address, or one ADDRESS/BITS"),
            (
                "from ::ffff:10.0.0.0/104 accept",
                "1: from '::ffff:10.0.0.0/104': an address of IPv4, to be written 10.0.0.0/8",
            ),
            ("from", "1: 'from' without a value"),
            ("from ::1 from ::1 accept", "1: 'from' twice"),
            ("port 65536 accept", "1: port '65536': not a number from 0 to 65535"),
            ("port +1 accept", "1: port '+1': not a number"),
            ("length 9-8 accept", "1: length '9-8': the first is above the last"),
            ("rate 5 accept", "1: rate '5': "),
            ("rate 0pps accept", "1: rate '0pps': "),
            ("burst 5ms accept", "1: 'burst' belongs after a 'rate'"),
            ("rate 5pps burst 5 accept", "1: burst '5': "),
            ("rate 5pps burst 5ms burst 6ms accept", "1: 'burst' twice"),
            ("accept now", "1: 'now' after 'accept': a rule ends there"),
            ("port 1", "1: neither 'accept' nor 'reject' at its end"),
            ("on c accept", "1: on 'c': a, the first interface, or b"),
            ("type 2048 accept", "1: type '2048': arp, ipv4, ipv6, or a number from 0x0600"),
            ("type 0x05dc accept", "1: type '0x05dc': arp"),
            ("protocol 256 accept", "1: protocol '256': tcp, udp, icmp"),
            ("protocol udp protocol udp accept", "1: 'protocol' twice"),
            ("acept", "1: 'acept': clauses are on"),
            ("a\u{1b}b", "1: 'a\\u{1b}b': clauses"),
        ] {
            let said = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(said.starts_with(problem), "{text:?}: {said}");
        }
        assert_eq!(parse(b"accept\n\xff").unwrap_err().to_string(), "2: not UTF-8");
        assert_eq!(parse("\u{feff}accept\r\n".as_bytes()).unwrap().to_string(), "accept\n");
        let rule = |port| format!("port {port} accept\n");
        let many = format!("{}reject", (0..MOST_RULES).map(rule).collect::<String>());
        assert_eq!(parse(many.as_bytes()).unwrap_err().line(), MOST_RULES + 1);
    }

    #[test]
    fn rules_are_shown_as_they_are_typed() {
        let text = "from 192.0.2.0/24 port 53 length 0-512 rate 5kpps burst 50ms accept\n\
                    from-port 1-9 rate 1500kbit burst 1.5ms accept\nreject\n";
        assert_eq!(parse(text.as_bytes()).unwrap().to_string(), text);
    }

    fn clause() -> impl Strategy<Value = String> {
        prop_oneof![
            (any::<[u8; 4]>(), 0u8..=34).prop_map(|(ip, bits)| {
                let tail = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
                format!("from {}/{bits}", std::net::Ipv4Addr::from(u32::from_be_bytes(ip) & !tail))
            }),
            any::<[u8; 16]>().prop_map(|ip| format!("to {}", IpAddr::from(ip))),
            (any::<u16>(), any::<u16>()).prop_map(|(a, b)| format!("port {}-{}", a.min(b), a.max(b))),
            any::<u16>().prop_map(|port| format!("from-port {port}")),
            (0u32..70_000).prop_map(|length| format!("length 0-{length}")),
            (0u64..9_000_000).prop_map(|rate| format!("rate {rate}pps burst {rate}us")),
            (1u64..9_000).prop_map(|rate| format!("rate {rate}kbit")),
            any::<u8>().prop_map(|protocol| format!("protocol {protocol}")),
            any::<u16>()
                .prop_map(|kind| format!("type {kind:#06x} on {}", if kind & 1 == 0 { 'a' } else { 'b' })),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_rules_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            properties::rules(&bytes);
        }

        #[test]
        fn what_is_nearly_rules_is_rules_or_refused(
            lines in prop::collection::vec((prop::collection::vec(clause(), 0..4), any::<bool>()), 0..6),
        ) {
            let action = |accept| if accept { "accept" } else { "reject" };
            let lines = lines.iter().map(|(clauses, accept)| format!("{} {}", clauses.join(" "), action(*accept)));
            let text = lines.chain(["reject".to_owned()]).collect::<Vec<_>>().join("\n");
            properties::rules(text.as_bytes());
        }
    }
}
