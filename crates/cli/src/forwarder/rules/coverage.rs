//! Finds rules that decide about nothing, because an earlier one decides about everything they match: two contradictory
//! lines are the worst mistake in a file, since its author believes in both.
//!
//! Only a single earlier rule counts, not several together. One with a rate decides only about packets within it.

use std::collections::{BTreeSet, HashMap};

use ipnet::IpNet;

use super::clauses::Span;
use super::rule::{Action, Entry, Rule};

/// The rules so far. To find one that covers the next one takes as many lookups as there are shapes of rules, not as
/// there are rules.
#[derive(Default)]
pub(crate) struct Coverage {
    /// Rules without a range of numbers, by all of their clauses, and the line of each.
    exact: HashMap<Rule, usize>,
    /// The shapes of those rules.
    shapes: BTreeSet<Shape>,
    /// The other rules: few in most files.
    ranges: Vec<Entry>,
}

/// The set of clauses that a rule has, and the prefix lengths of its networks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    bits: [Option<u8>; 2],
    others: [bool; 6],
}

impl Coverage {
    /// Returns the line of a rule that leaves this one nothing to decide.
    pub(crate) fn find(&self, rule: &Rule) -> Option<usize> {
        let range = self.ranges.iter().find(|earlier| earlier.rule.covers(rule)).map(|earlier| earlier.line);
        let exact = self.shapes.iter().find_map(|shape| self.exact.get(&shape.project(rule)?).copied());
        [range, exact].into_iter().flatten().min()
    }

    pub(crate) fn add(&mut self, entry: Entry) {
        let Entry { line, rule } = entry;
        let is_range = |span: Option<Span>| span.is_some_and(|span| span.first < span.last);
        if rule.rate.is_some() {
            // Packets beyond its rate reach the next rules.
        } else if [rule.from_ports, rule.to_ports, rule.lengths].into_iter().any(is_range) {
            self.ranges.push(entry);
        } else {
            self.shapes.insert(Shape::from(&rule));
            self.exact.entry(Rule { action: Action::Accept, ..rule }).or_insert(line);
        }
    }
}

impl Shape {
    /// Returns the rule of this shape that would cover this one.
    fn project(&self, rule: &Rule) -> Option<Rule> {
        let [entrance, kind, protocol, from_ports, to_ports, lengths] = self.others;
        let [from, to] = self.bits;
        Some(Rule {
            entrance: wanted(entrance, rule.entrance)?,
            kind: wanted(kind, rule.kind)?,
            protocol: wanted(protocol, rule.protocol)?,
            from: from.map_or(Some(None), |bits| shortened(rule.from?, bits).map(Some))?,
            from_ports: wanted(from_ports, rule.from_ports)?,
            to: to.map_or(Some(None), |bits| shortened(rule.to?, bits).map(Some))?,
            to_ports: wanted(to_ports, rule.to_ports)?,
            lengths: wanted(lengths, rule.lengths)?,
            rate: None,
            action: Action::Accept,
        })
    }
}

impl From<&Rule> for Shape {
    fn from(rule: &Rule) -> Self {
        Shape {
            bits: [rule.from, rule.to].map(|network| network.map(|network| network.prefix_len())),
            others: [
                rule.entrance.is_some(),
                rule.kind.is_some(),
                rule.protocol.is_some(),
                rule.from_ports.is_some(),
                rule.to_ports.is_some(),
                rule.lengths.is_some(),
            ],
        }
    }
}

/// Returns a clause unchanged, or left out; `None` if it is wanted and absent.
fn wanted<T>(is_wanted: bool, clause: Option<T>) -> Option<Option<T>> {
    if is_wanted { clause.map(Some) } else { Some(None) }
}

impl Rule {
    /// Says whether this rule, if it stands before `later`, decides about everything that `later` matches.
    pub(crate) fn covers(&self, later: &Rule) -> bool {
        let Rule { entrance, kind, protocol, from, from_ports, to, to_ports, lengths, rate, action: _ } =
            self;
        // First the clause by which most rules differ.
        within(from, &later.from, covers)
            && within(to_ports, &later.to_ports, Span::covers)
            && within(to, &later.to, covers)
            && within(from_ports, &later.from_ports, Span::covers)
            && within(lengths, &later.lengths, Span::covers)
            && within(protocol, &later.protocol, PartialEq::eq)
            && within(kind, &later.kind, PartialEq::eq)
            && within(entrance, &later.entrance, PartialEq::eq)
            && rate.is_none()
    }
}

/// Returns the network of `bits` bits that contains or equals this one; `None` if it has fewer.
fn shortened(network: IpNet, bits: u8) -> Option<IpNet> {
    let shorter = IpNet::new(network.addr(), bits).ok().filter(|_| bits <= network.prefix_len());
    shorter.map(|network| network.trunc())
}

fn covers(network: &IpNet, later: &IpNet) -> bool {
    network.contains(later)
}

/// Says whether a clause, or its absence, matches wherever that of a later rule does.
fn within<T>(clause: &Option<T>, later: &Option<T>, covers: impl FnOnce(&T, &T) -> bool) -> bool {
    clause.as_ref().is_none_or(|clause| later.as_ref().is_some_and(|later| covers(clause, later)))
}

#[cfg(test)]
mod tests {
    use crate::forwarder::rules::parse;

    fn problem(earlier: &str, later: &str) -> Option<String> {
        parse(format!("{earlier}\n\n{later}\nreject").as_bytes()).err().map(|problem| problem.to_string())
    }

    #[test]
    fn rules_that_are_never_reached_are_refused() {
        for (earlier, later) in [
            ("protocol tcp accept", "protocol tcp reject"),
            ("protocol tcp accept", "protocol tcp accept"),
            ("protocol tcp accept", "port 53 protocol tcp reject"),
            ("from 10.0.0.0/8 accept", "from 10.1.0.0/16 reject"),
            ("from 10.0.0.0/8 port 53 accept", "port 53 from 10.1.2.3 length 9 reject"),
            ("to 2001:db8::/32 reject", "to 2001:db8::1 accept"),
            ("from 0.0.0.0/0 reject", "from 10.0.0.1 accept"),
            ("port 1-1024 accept", "port 53 reject"),
            ("from-port 0-65535 accept", "from-port 7-9 reject"),
            ("length 0-512 accept", "length 512 rate 5pps reject"),
            ("on a type arp accept", "type arp on a reject"),
        ] {
            let said = "3: never reached: line 1 decides about all that this rule holds for";
            assert_eq!(problem(earlier, later).as_deref(), Some(said), "{earlier}, {later}");
        }
        for (earlier, later) in [
            ("protocol tcp accept", "protocol udp reject"),
            ("protocol tcp port 53 accept", "protocol tcp reject"),
            ("from 10.1.0.0/16 accept", "from 10.0.0.0/8 reject"),
            ("from 10.0.0.0/8 accept", "to 10.1.0.0/16 reject"),
            ("from ::/0 accept", "from 10.0.0.1 reject"),
            ("port 53 accept", "from-port 53 reject"),
            ("port 53-60 accept", "port 50-60 reject"),
            ("on a accept", "on b reject"),
            // Packets beyond its rate reach the next rule.
            ("port 53 rate 5kpps accept", "port 53 reject"),
            ("port 53 rate 5kpps accept", "port 53 rate 5kpps accept"),
        ] {
            assert_eq!(problem(earlier, later), None, "{earlier}, {later}");
        }
    }
}
