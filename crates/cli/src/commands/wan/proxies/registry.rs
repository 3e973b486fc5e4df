//! The set of proxies: [`Registry`]. It answers queries and carries out changes, without HTTP.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use rustix::io::Errno;
use serde_json::Value;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_net::relay::is_same_socket;
use softtimers_wan::PathConfig;
use softtimers_wan::interfaces::Claimed;

use super::fields::{Attributes, Protocol, ProxyFields, ToxicChange, ToxicFields, way};
use super::proxy::{Line, NamedToxic, Proxy, ProxyEnds, Sockets, unopened};
use super::refusal::{Refusal, bad, no_proxy, no_toxic, refuse};
use super::show::{ProxiesReport, ProxyReport};
use crate::address;
use crate::args::ClientArgs;

/// Settings of all proxies.
#[derive(Clone, Debug)]
pub(crate) struct Defaults {
    /// The path there and back.
    pub(crate) paths: [PathConfig; 2],
    /// The header bytes of a packet, where they do not follow from its protocol.
    pub(crate) overheads: [Option<u32>; 2],
    /// Whether they may listen where other machines can reach them.
    pub(crate) public: bool,
    /// The time by which segments may be late to leave as one frame.
    pub(crate) coalesce: Duration,
    pub(crate) clients: ClientArgs,
    pub(crate) seed: u64,
}

/// All proxies.
#[derive(Debug)]
pub(crate) struct Registry {
    defaults: Defaults,
    proxies: BTreeMap<String, Proxy>,
    /// The last serial number.
    serial: u64,
    begun: Timestamp,
}

impl Registry {
    pub(crate) fn new(defaults: Defaults) -> Self {
        Registry { defaults, proxies: BTreeMap::new(), serial: 0, begun: Monotonic.now() }
    }

    /// Creates a proxy, which relays at once unless it is disabled. Its names [are looked up](ProxyFields::look_up), or
    /// its interfaces claimed, before.
    pub(crate) fn create(
        &mut self,
        fields: &ProxyFields,
        claimed: Option<Claimed>,
    ) -> Result<String, Refusal> {
        let name = self.new_name(fields)?;
        let between = match fields.protocol().map_err(bad)?.unwrap_or(Protocol::Tcp) {
            Protocol::Interfaces => ProxyEnds::Interfaces(fields.interfaces().map_err(bad)?),
            protocol => ProxyEnds::Sockets(self.new_sockets(&name, protocol, fields)?),
        };
        self.serial += 1;
        let mut proxy = Proxy::new(between, &self.defaults, self.defaults.seed.wrapping_add(self.serial));
        proxy.set_path(&self.defaults, lines(fields.path.as_deref().unwrap_or_default())?)?;
        let enabled = fields.enabled.unwrap_or(true);
        if enabled || proxy.protocol() == Protocol::Interfaces {
            proxy.begin(&name, &self.defaults, claimed)?;
            // The actual port for port 0 is known only now.
            self.check_loop(&name, proxy.sockets())?;
        }
        if !enabled {
            proxy.stop();
        }
        self.proxies.insert(name.clone(), proxy);
        Ok(name)
    }

    /// Returns the name of a requested proxy, if it is allowed.
    fn new_name(&self, fields: &ProxyFields) -> Result<String, Refusal> {
        let missing = |field| refuse(400, format_args!("missing required field: {field}"));
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let name = given(&fields.name).ok_or_else(|| missing("name"))?;
        given(&fields.upstream).ok_or_else(|| missing("upstream"))?;
        if self.proxies.contains_key(&name) {
            return Err(refuse(409, "proxy already exists"));
        }
        if self.proxies.len() >= MOST_PROXIES {
            return Err(refuse(400, format_args!("there are {MOST_PROXIES} proxies; no more are allowed")));
        }
        if name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(bad(format_args!(
                "a name has at most {LONGEST_NAME} bytes, and no control characters"
            )));
        }
        Ok(name)
    }

    fn new_sockets(&self, name: &str, protocol: Protocol, fields: &ProxyFields) -> Result<Sockets, Refusal> {
        let listen = found(&fields.listen_at)?.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
        let upstream =
            found(&fields.upstream_at)?.ok_or_else(|| refuse(400, "missing required field: upstream"))?;
        let upstream_name = fields.upstream.clone().unwrap_or_default();
        let sockets = Sockets { listen, upstream, upstream_name, is_udp: protocol == Protocol::Udp };
        self.check_loop(name, Some(&sockets))?;
        Ok(Sockets { listen: self.defaults.listen(listen)?, ..sockets })
    }

    /// Changes a proxy. A new address or state ends its connections.
    pub(crate) fn update(&mut self, name: &str, fields: &ProxyFields) -> Result<(), Refusal> {
        let proxy = self.proxies.get(name).ok_or_else(no_proxy)?;
        let after = match &proxy.between {
            ProxyEnds::Sockets(sockets) => {
                let sockets = self.changed(sockets, fields)?;
                self.check_loop(name, Some(&sockets))?;
                ProxyEnds::Sockets(sockets)
            }
            ProxyEnds::Interfaces(_) => {
                let asked = [&fields.listen, &fields.upstream].into_iter().zip(proxy.ends_in_words());
                if asked.into_iter().any(|(asked, name)| asked.as_ref().is_some_and(|asked| *asked != name)) {
                    return Err(unopened());
                }
                proxy.between.clone()
            }
        };
        let protocol = proxy.protocol();
        if fields.protocol().map_err(bad)?.is_some_and(|asked| asked != protocol) {
            return Err(bad("protocol: it stays; another is that of another proxy"));
        }
        let proxy = self.proxies.get_mut(name).ok_or_else(no_proxy)?;
        if let Some(changes) = &fields.path {
            proxy.set_path(&self.defaults, lines(changes)?)?;
        }
        let is_on = fields.enabled.unwrap_or(proxy.is_on());
        let addresses = |between: &ProxyEnds| match between {
            ProxyEnds::Sockets(sockets) => Some([sockets.listen, sockets.upstream]),
            ProxyEnds::Interfaces(_) => None,
        };
        if !is_on || addresses(&after) != addresses(&proxy.between) {
            proxy.stop();
        }
        proxy.between = after;
        if is_on { self.begin(name) } else { Ok(()) }
    }

    /// Returns the addresses after a change.
    fn changed(&self, sockets: &Sockets, fields: &ProxyFields) -> Result<Sockets, Refusal> {
        let mut sockets = sockets.clone();
        match found(&fields.listen_at)? {
            // Port 0 means any port, and it has one.
            Some(listen) if listen.port() == 0 && listen.ip() == sockets.listen.ip() => {}
            Some(listen) => sockets.listen = self.defaults.listen(listen)?,
            None => {}
        }
        sockets.upstream = found(&fields.upstream_at)?.unwrap_or(sockets.upstream);
        if let Some(name) = fields.upstream.as_ref().filter(|name| !name.is_empty()) {
            sockets.upstream_name.clone_from(name);
        }
        Ok(sockets)
    }

    /// Changes only the settings of a path that a line such as `both rtt 80ms` names.
    pub(crate) fn change_path(&mut self, name: &str, line: &str) -> Result<(), Refusal> {
        let proxy = self.proxies.get_mut(name).ok_or_else(no_proxy)?;
        proxy.change_path(&self.defaults, Line::read_each(line)?)
    }

    /// Splits a text into a proxy's name and the text behind it. Names may have spaces: the longest match counts.
    pub(crate) fn split_name<'a>(&self, text: &'a str) -> Option<(String, &'a str)> {
        let behind = |name: &String| {
            let rest = text.strip_prefix(name.as_str())?;
            let is_whole = rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_whitespace());
            is_whole.then(|| (name.clone(), rest.trim_start()))
        };
        self.proxies.keys().filter_map(behind).max_by_key(|(name, _)| name.len())
    }

    /// Starts a proxy's relay, unless that makes a loop: the actual port for port 0 is known only now.
    fn begin(&mut self, name: &str) -> Result<(), Refusal> {
        let proxy = self.proxies.get_mut(name).ok_or_else(no_proxy)?;
        proxy.begin(name, &self.defaults, None)?;
        let sockets = proxy.sockets().cloned();
        let checked = self.check_loop(name, sockets.as_ref());
        if let (Err(_), Some(proxy)) = (&checked, self.proxies.get_mut(name)) {
            proxy.stop();
        }
        checked
    }

    /// Refuses a proxy whose output would come back to it by any way: a single packet or connection would circulate for
    /// ever.
    fn check_loop(&self, name: &str, sockets: Option<&Sockets>) -> Result<(), Refusal> {
        let Some(&Sockets { listen, upstream, is_udp, .. }) = sockets else { return Ok(()) };
        let meets = |to: SocketAddr, listen: SocketAddr| {
            // A proxy on the wildcard address listens at each of this machine's addresses: those of IPv4, or of both
            // families.
            let everywhere = listen.ip().is_unspecified() && to.port() == listen.port();
            let is_heard = listen.is_ipv6() || to.ip().to_canonical().is_ipv4();
            is_same_socket(to, listen) || (everywhere && is_heard && is_own(to))
        };
        // Several may have the same address, if at most one is enabled; each is followed once.
        let others = self.proxies.iter().filter(|(other, _)| *other != name);
        let mut others: Vec<&Sockets> = others.filter_map(|(_, proxy)| proxy.sockets()).collect();
        others.retain(|other| other.is_udp == is_udp);
        let mut open = vec![upstream];
        while let Some(next) = open.pop() {
            if meets(next, listen) {
                return Err(bad(format_args!("upstream {upstream}: it leads back to {listen}, in a loop")));
            }
            others.retain(|other| {
                let follows = meets(next, other.listen);
                open.extend(follows.then_some(other.upstream));
                !follows
            });
        }
        Ok(())
    }

    /// Replaces or creates proxies; those that match the request stay.
    pub(crate) fn populate(&mut self, all: &[ProxyFields]) -> (Vec<Value>, Result<(), Refusal>) {
        let mut done = Vec::new();
        for fields in all {
            let outcome = self.populate_one(fields);
            match outcome {
                Ok(name) => done.extend(self.show(&name)),
                Err(refusal) => return (done, Err(refusal)),
            }
        }
        (done, Ok(()))
    }

    fn populate_one(&mut self, fields: &ProxyFields) -> Result<String, Refusal> {
        let name = fields.name.clone().unwrap_or_default();
        let protocol = fields.protocol().map_err(bad)?.unwrap_or(Protocol::Tcp);
        let is_opened_once = protocol == Protocol::Interfaces;
        if let Some(proxy) = self.proxies.get(&name) {
            let stays = protocol == proxy.protocol()
                && proxy.lies_between(fields)
                && (fields.path.is_none() || is_opened_once);
            if stays {
                let (enabled, path) = (Some(fields.enabled.unwrap_or(true)), fields.path.clone());
                self.update(&name, &ProxyFields { enabled, path, ..Default::default() })?;
                return Ok(name);
            }
        }
        // Before the one that it would replace has ended.
        if is_opened_once {
            return Err(unopened());
        }
        if self.proxies.contains_key(&name) {
            self.remove(&name)?;
        }
        self.create(fields, None)
    }

    pub(crate) fn remove(&mut self, name: &str) -> Result<(), Refusal> {
        let mut proxy = self.proxies.remove(name).ok_or_else(no_proxy)?;
        proxy.end();
        Ok(())
    }

    /// Enables all proxies, and removes all toxics.
    pub(crate) fn reset(&mut self) -> Result<(), Refusal> {
        let mut outcome = Ok(());
        for proxy in self.proxies.values_mut() {
            proxy.toxics.clear();
            proxy.tell_toxics();
        }
        for name in self.proxies.keys().cloned().collect::<Vec<_>>() {
            // If one cannot begin, the others are still reset.
            outcome = outcome.and(self.begin(&name));
        }
        outcome
    }

    pub(crate) fn show(&self, name: &str) -> Result<Value, Refusal> {
        self.proxies.get(name).map(|proxy| proxy.json(name)).ok_or_else(no_proxy)
    }

    pub(crate) fn show_all(&self) -> Value {
        self.proxies.iter().map(|(name, proxy)| (name.clone(), proxy.json(name))).collect()
    }

    pub(crate) fn toxics(&self, name: &str) -> Result<Value, Refusal> {
        self.proxies.get(name).map(Proxy::toxics_json).ok_or_else(no_proxy)
    }

    pub(crate) fn toxic(&self, name: &str, toxic: &str) -> Result<Value, Refusal> {
        let proxy = self.proxies.get(name).ok_or_else(no_proxy)?;
        proxy.toxics.iter().find(|one| one.name == toxic).map(NamedToxic::json).ok_or_else(no_toxic)
    }

    pub(crate) fn add_toxic(&mut self, name: &str, fields: ToxicFields) -> Result<Value, Refusal> {
        let proxy = self.proxies.get_mut(name).ok_or_else(no_proxy)?;
        let way = way(&fields.stream)
            .ok_or_else(|| refuse(400, "stream was invalid, can be either upstream or downstream"))?;
        let attributes =
            Attributes::read(&fields.kind, &fields.attributes.unwrap_or_default()).map_err(bad)?;
        let attributes = attributes.ok_or_else(|| refuse(400, "invalid toxic type"))?;
        if proxy.protocol() != Protocol::Tcp {
            return Err(refuse(
                400,
                "toxics are of TCP streams; \"path\" changes a path of datagrams or frames",
            ));
        }
        let name =
            if fields.name.is_empty() { format!("{}_{}", fields.kind, fields.stream) } else { fields.name };
        if proxy.toxics.iter().any(|one| one.name == name) {
            return Err(refuse(409, "toxic already exists"));
        }
        if proxy.toxics.len() >= MOST_TOXICS || name.len() > LONGEST_NAME {
            return Err(bad(format_args!(
                "a proxy has at most {MOST_TOXICS} toxics, with names of at most {LONGEST_NAME} bytes"
            )));
        }
        self.serial += 1;
        let (stream, toxicity) = (fields.stream, fields.toxicity.unwrap_or(1.0));
        let toxic = NamedToxic { name, id: self.serial, revision: 0, way, stream, toxicity, attributes };
        let json = toxic.json();
        proxy.toxics.push(toxic);
        proxy.tell_toxics();
        Ok(json)
    }

    pub(crate) fn change_toxic(
        &mut self,
        name: &str,
        toxic: &str,
        change: &ToxicChange,
    ) -> Result<Value, Refusal> {
        let proxy = self.proxies.get_mut(name).ok_or_else(no_proxy)?;
        let found = proxy.toxics.iter_mut().find(|one| one.name == toxic).ok_or_else(no_toxic)?;
        let attributes = match &change.attributes {
            Some(change) => found.attributes.changed(change).map_err(bad)?,
            None => found.attributes,
        };
        let toxicity = change.toxicity.unwrap_or(found.toxicity);
        (found.attributes, found.toxicity) = (attributes, toxicity);
        found.revision += 1;
        let json = found.json();
        proxy.tell_toxics();
        Ok(json)
    }

    pub(crate) fn remove_toxic(&mut self, name: &str, toxic: &str) -> Result<(), Refusal> {
        let proxy = self.proxies.get_mut(name).ok_or_else(no_proxy)?;
        let at = proxy.toxics.iter().position(|one| one.name == toxic).ok_or_else(no_toxic)?;
        proxy.toxics.remove(at);
        proxy.tell_toxics();
        Ok(())
    }

    /// Returns the traffic of all proxies so far.
    pub(crate) fn report(&self) -> ProxiesReport {
        let proxies = self.proxies.iter().map(|(name, proxy)| proxy.report(name));
        ProxiesReport {
            proxies: proxies.collect(),
            span_s: Monotonic.now().saturating_duration_since(self.begun).as_secs_f64(),
        }
    }

    /// Returns the state of one proxy.
    pub(crate) fn report_of(&self, name: &str) -> Result<ProxyReport, Refusal> {
        self.proxies.get(name).map(|proxy| proxy.report(name)).ok_or_else(no_proxy)
    }

    /// Ends all proxies, and returns their traffic.
    pub(crate) fn finish(&mut self) -> ProxiesReport {
        let enabled: Vec<bool> = self.proxies.values().map(Proxy::is_on).collect();
        self.proxies.values_mut().for_each(Proxy::end);
        let mut report = self.report();
        report.proxies.iter_mut().zip(enabled).for_each(|(proxy, enabled)| proxy.enabled = enabled);
        report
    }

    /// Returns the proxies as lines of output: name, address, upstream.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.proxies.iter().map(|(name, proxy)| {
            let off = if proxy.is_on() { "" } else { ", not enabled" };
            let [listen, upstream] = proxy.ends_in_words();
            format!("{name}: {listen} to {upstream}, {}{off}", proxy.protocol().name())
        })
    }
}

impl Defaults {
    fn listen(&self, address: SocketAddr) -> Result<SocketAddr, Refusal> {
        address::check_local(address).map_err(bad)?;
        if !self.public && !address::is_local(address) {
            return Err(bad(format_args!(
                "listen {address}: other machines could use it; --public allows that"
            )));
        }
        Ok(address)
    }
}

/// Says whether it is an address of this machine, as far as the kernel tells: whether a socket can be bound to it. If
/// that cannot be checked, for want of a descriptor, it counts as its own.
fn is_own(mut address: SocketAddr) -> bool {
    // A link-local address keeps its interface.
    address.set_port(0);
    match UdpSocket::bind(address) {
        Ok(_) => true,
        Err(error) => [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error())),
    }
}

/// Returns the address looked up, if one was requested.
fn found(at: &Option<Result<SocketAddr, String>>) -> Result<Option<SocketAddr>, Refusal> {
    at.clone().transpose().map_err(bad)
}

/// Parses the changes of a path in a request or a file.
fn lines(changes: &[String]) -> Result<Vec<Line>, Refusal> {
    changes.iter().map(|text| Line::read(text, false)).collect()
}

/// The most proxies; each has a thread.
pub(crate) const MOST_PROXIES: usize = 256;
const MOST_TOXICS: usize = 64;
const LONGEST_NAME: usize = 128;
