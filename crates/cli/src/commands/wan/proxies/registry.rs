//! The proxies there are: [`Registry`]. It answers questions and carries out changes; HTTP is not its affair.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};

use rustix::io::Errno;
use serde_json::{Value, json};
use softtimers_net::relay::is_same_socket;
use softtimers_wan::toxic::Dose;
use softtimers_wan::{PathConfig, Probability, Wan, Way};

use super::super::args::{overhead, tcp_ends, udp_ends};
use super::super::carrier::Ends;
use super::super::control::{Request, request};
use super::fields::{Attributes, ProxyFields, ToxicChange, ToxicFields, stream, way};
use super::show::{Carried, ProxiesReport, ProxyReport};
use super::worker::{Order, Worker};
use crate::address;
use crate::args::ClientArgs;

/// Settings of all proxies.
#[derive(Clone, Debug)]
pub(crate) struct Defaults {
    /// The path there and back.
    pub(crate) paths: [PathConfig; 2],
    /// The bytes of headers of a packet, where they do not follow from its protocol.
    pub(crate) overheads: [Option<u32>; 2],
    /// Whether they may listen where other machines can reach them.
    pub(crate) public: bool,
    pub(crate) clients: ClientArgs,
    pub(crate) seed: u64,
}

/// All proxies.
#[derive(Debug)]
pub(crate) struct Registry {
    defaults: Defaults,
    proxies: BTreeMap<String, Proxy>,
    /// The number of the toxic that was made last.
    serial: u64,
}

#[derive(Debug)]
struct Proxy {
    listen: SocketAddr,
    upstream: SocketAddr,
    /// As it was asked for.
    upstream_name: String,
    is_udp: bool,
    changes: Vec<String>,
    paths: [PathConfig; 2],
    toxics: Vec<NamedToxic>,
    state: State,
    carried: Carried,
    seed: u64,
}

#[derive(Debug)]
enum State {
    Off,
    On(Worker),
}

#[derive(Clone, Debug)]
struct NamedToxic {
    name: String,
    id: u64,
    way: Way,
    toxicity: f64,
    attributes: Attributes,
}

/// Why something was not done: a status of HTTP, and words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) words: String,
}

/// A refusal.
pub(crate) fn refuse(status: u16, words: impl std::fmt::Display) -> Refusal {
    Refusal { status, words: words.to_string() }
}

fn bad(words: impl std::fmt::Display) -> Refusal {
    refuse(400, format_args!("{BAD}{words}"))
}

impl Refusal {
    /// The words for a file, which is no request.
    pub(crate) fn of_a_file(&self) -> &str {
        self.words.strip_prefix(BAD).unwrap_or(&self.words)
    }
}

impl Registry {
    pub(crate) fn new(defaults: Defaults) -> Self {
        Registry { defaults, proxies: BTreeMap::new(), serial: 0 }
    }

    /// Makes a proxy, which relays at once unless it is not enabled. Its names [are looked up](ProxyFields::look_up).
    pub(crate) fn create(&mut self, fields: &ProxyFields) -> Result<String, Refusal> {
        let missing = |field| refuse(400, format_args!("missing required field: {field}"));
        let name = fields.name.clone().filter(|name| !name.is_empty()).ok_or_else(|| missing("name"))?;
        let upstream = fields
            .upstream
            .clone()
            .filter(|upstream| !upstream.is_empty())
            .ok_or_else(|| missing("upstream"))?;
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
        let is_udp = fields.is_udp().map_err(bad)?.unwrap_or(false);
        let listen = found(&fields.listen_at)?.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
        let upstream_at = found(&fields.upstream_at)?.ok_or_else(|| missing("upstream"))?;
        self.check_loop(&name, is_udp, listen, upstream_at)?;
        self.serial += 1;
        let mut proxy = Proxy {
            listen: self.defaults.listen(listen)?,
            upstream: upstream_at,
            upstream_name: upstream,
            is_udp,
            changes: vec![],
            paths: self.defaults.paths.clone(),
            toxics: vec![],
            state: State::Off,
            carried: Carried::default(),
            seed: self.defaults.seed.wrapping_add(self.serial),
        };
        proxy.set_path(&self.defaults, fields.path.as_deref().unwrap_or_default())?;
        if fields.enabled.unwrap_or(true) {
            proxy.begin(&name, &self.defaults)?;
            // Port 0 is known only now.
            self.check_loop(&name, is_udp, proxy.listen, proxy.upstream)?;
        }
        self.proxies.insert(name.clone(), proxy);
        Ok(name)
    }

    /// Changes a proxy. Another address, or another state, ends its connections.
    pub(crate) fn update(&mut self, name: &str, fields: &ProxyFields) -> Result<(), Refusal> {
        let proxy = self.proxies.get(name).ok_or_else(no_proxy)?;
        let listen = match found(&fields.listen_at)? {
            // Port 0 is any, and it has one.
            Some(listen) if listen.port() == 0 && listen.ip() == proxy.listen.ip() => proxy.listen,
            Some(listen) => self.defaults.listen(listen)?,
            None => proxy.listen,
        };
        let upstream = found(&fields.upstream_at)?.unwrap_or(proxy.upstream);
        self.check_loop(name, proxy.is_udp, listen, upstream)?;
        let proxy = self.proxies.get_mut(name).ok_or_else(no_proxy)?;
        if fields.is_udp().map_err(bad)?.is_some_and(|is_udp| is_udp != proxy.is_udp) {
            return Err(bad("protocol: it stays; another is that of another proxy"));
        }
        let same = listen == proxy.listen;
        if let Some(changes) = &fields.path {
            proxy.set_path(&self.defaults, changes)?;
        }
        let was_on = proxy.is_on();
        let is_on = fields.enabled.unwrap_or(was_on);
        if !is_on || !same || upstream != proxy.upstream {
            proxy.stop();
        }
        proxy.upstream = upstream;
        if let Some(name) = fields.upstream.as_ref().filter(|name| !name.is_empty()) {
            proxy.upstream_name.clone_from(name);
        }
        if !same {
            proxy.listen = listen;
        }
        if is_on { self.begin(name) } else { Ok(()) }
    }

    /// Has a proxy relay, unless that is a loop: what port 0 is, is known only now.
    fn begin(&mut self, name: &str) -> Result<(), Refusal> {
        let proxy = self.proxies.get_mut(name).ok_or_else(no_proxy)?;
        proxy.begin(name, &self.defaults)?;
        let (is_udp, listen, upstream) = (proxy.is_udp, proxy.listen, proxy.upstream);
        let checked = self.check_loop(name, is_udp, listen, upstream);
        if let (Err(_), Some(proxy)) = (&checked, self.proxies.get_mut(name)) {
            proxy.stop();
        }
        checked
    }

    /// Refuses a proxy that what it sends would come back to, by whatever way: a single packet or connection would go around for
    /// ever.
    fn check_loop(
        &self,
        name: &str,
        is_udp: bool,
        listen: SocketAddr,
        upstream: SocketAddr,
    ) -> Result<(), Refusal> {
        let meets = |to: SocketAddr, listen: SocketAddr| {
            // Who listens everywhere listens at each of this machine's addresses: at those of IPv4, or of both families.
            let everywhere = listen.ip().is_unspecified() && to.port() == listen.port();
            let is_heard = listen.is_ipv6() || to.ip().to_canonical().is_ipv4();
            is_same_socket(to, listen) || (everywhere && is_heard && is_own(to))
        };
        // Several may have one address, if all but one are not enabled; each is followed once.
        let mut others: Vec<&Proxy> =
            self.proxies.iter().filter(|(other, _)| *other != name).map(|(_, proxy)| proxy).collect();
        others.retain(|proxy| proxy.is_udp == is_udp);
        let mut open = vec![upstream];
        while let Some(next) = open.pop() {
            if meets(next, listen) {
                return Err(bad(format_args!("upstream {upstream}: it leads back to {listen}, in a loop")));
            }
            others.retain(|proxy| {
                let follows = meets(next, proxy.listen);
                open.extend(follows.then_some(proxy.upstream));
                !follows
            });
        }
        Ok(())
    }

    /// Replaces or makes proxies; those that are as they are asked to be stay.
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
        if let Some(proxy) = self.proxies.get(&name) {
            let is_same = fields.is_udp().map_err(bad)?.unwrap_or(false) == proxy.is_udp
                && fields.upstream.as_ref() == Some(&proxy.upstream_name)
                && fields.listen.as_deref().is_some_and(|listen| proxy.listens_at(listen))
                && fields.path.is_none();
            if is_same {
                let fields =
                    ProxyFields { enabled: Some(fields.enabled.unwrap_or(true)), ..Default::default() };
                self.update(&name, &fields)?;
                return Ok(name);
            }
            self.remove(&name)?;
        }
        self.create(fields)
    }

    pub(crate) fn remove(&mut self, name: &str) -> Result<(), Refusal> {
        let mut proxy = self.proxies.remove(name).ok_or_else(no_proxy)?;
        proxy.stop();
        Ok(())
    }

    /// Enables all, and removes all toxics.
    pub(crate) fn reset(&mut self) -> Result<(), Refusal> {
        let mut outcome = Ok(());
        for proxy in self.proxies.values_mut() {
            proxy.toxics.clear();
            proxy.tell_toxics();
        }
        for name in self.proxies.keys().cloned().collect::<Vec<_>>() {
            // One that cannot begin is no reason to leave the others as they are.
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
        let attributes = Attributes::read(&fields.kind, &fields.attributes).map_err(bad)?;
        let attributes = attributes.ok_or_else(|| refuse(400, "invalid toxic type"))?;
        if proxy.is_udp {
            return Err(refuse(400, "toxics are of TCP streams; \"path\" changes a path of datagrams"));
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
        share(fields.toxicity)?;
        self.serial += 1;
        let toxic = NamedToxic { name, id: self.serial, way, toxicity: fields.toxicity, attributes };
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
        let attributes = found.attributes.changed(&change.attributes).map_err(bad)?;
        let toxicity = change.toxicity.unwrap_or(found.toxicity);
        share(toxicity)?;
        (found.attributes, found.toxicity) = (attributes, toxicity);
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

    /// Ends all that relay, and tells what they have carried.
    pub(crate) fn finish(&mut self) -> ProxiesReport {
        let proxies = self.proxies.iter_mut().map(|(name, proxy)| {
            let enabled = proxy.is_on();
            proxy.stop();
            ProxyReport {
                name: name.clone(),
                protocol: proxy.protocol(),
                listen: proxy.listen.to_string(),
                upstream: proxy.upstream_name.clone(),
                enabled,
                toxics: proxy.toxics.len(),
                carried: proxy.carried.clone(),
            }
        });
        ProxiesReport { proxies: proxies.collect(), span_s: 0.0 }
    }

    /// The proxies, as people are told of them: name, address, upstream.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.proxies.iter().map(|(name, proxy)| {
            let off = if proxy.is_on() { "" } else { ", not enabled" };
            format!("{name}: {} to {}, {}{off}", proxy.listen, proxy.upstream_name, proxy.protocol())
        })
    }
}

impl Proxy {
    fn protocol(&self) -> &'static str {
        if self.is_udp { "udp" } else { "tcp" }
    }

    fn is_on(&self) -> bool {
        matches!(&self.state, State::On(worker) if worker.is_running())
    }

    fn ends(&self, defaults: &Defaults) -> Ends {
        let ends = if self.is_udp { udp_ends } else { tcp_ends };
        ends(self.listen, self.upstream, &defaults.clients)
    }

    fn listens_at(&self, text: &str) -> bool {
        text.parse::<SocketAddr>().is_ok_and(|address| {
            address.ip() == self.listen.ip() && [0, self.listen.port()].contains(&address.port())
        })
    }

    /// Sets the path: what all have, and these changes of it.
    fn set_path(&mut self, defaults: &Defaults, changes: &[String]) -> Result<(), Refusal> {
        let overhead = overhead(!self.is_udp, self.upstream);
        let mut paths = defaults.paths.clone();
        for (path, given) in paths.iter_mut().zip(defaults.overheads) {
            path.overhead = given.unwrap_or(overhead);
        }
        for line in changes {
            // A file would be named, and opened, by whoever reaches the API.
            if line.split_ascii_whitespace().any(|word| word == "trace" || word.contains("dist=")) {
                return Err(bad("trace, dist=: only the command line may name a file"));
            }
            let parsed = request(&format!("set {line}")).map_err(bad)?;
            let Request::Set(way, changes) = parsed else { return Err(bad("a change of a path")) };
            for (path, which) in paths.iter_mut().zip([Way::Up, Way::Down]) {
                if way.is_none_or(|way| way == which) {
                    changes.iter().for_each(|change| change.apply(path));
                }
            }
        }
        let ends = self.ends(defaults);
        paths.iter().try_for_each(|path| ends.check(path)).map_err(bad)?;
        if let State::On(worker) = &self.state {
            for (way, path) in [Way::Up, Way::Down].into_iter().zip(&paths) {
                worker.tell(Order::Path(way, Box::new(path.clone()))).ok_or_else(gone)?;
            }
        }
        (self.paths, self.changes) = (paths, changes.to_vec());
        Ok(())
    }

    /// Listens and relays, unless it does.
    fn begin(&mut self, name: &str, defaults: &Defaults) -> Result<(), Refusal> {
        if self.is_on() {
            return Ok(());
        }
        self.stop();
        let [up, down] = self.paths.clone();
        let path = Wan::builder().up(up).down(down).seed(self.seed);
        let started = Worker::start(name, self.ends(defaults), path);
        let (worker, listen) = started.map_err(|failure| refuse(500, failure))?;
        if let Ok(listen) = listen.parse() {
            self.listen = listen;
        }
        self.state = State::On(worker);
        self.tell_toxics();
        Ok(())
    }

    fn stop(&mut self) {
        match std::mem::replace(&mut self.state, State::Off) {
            State::Off => {}
            State::On(worker) => self.carried = worker.stop().unwrap_or_default(),
        }
    }

    fn tell_toxics(&self) {
        let State::On(worker) = &self.state else { return };
        for way in [Way::Up, Way::Down] {
            let these = self.toxics.iter().filter(|toxic| toxic.way == way);
            let doses = these.filter_map(|toxic| {
                let toxicity = share(toxic.toxicity).ok()?;
                Some(Dose { id: toxic.id, toxic: toxic.attributes.toxic(), toxicity })
            });
            worker.tell(Order::Toxics(way, doses.collect()));
        }
    }

    fn json(&self, name: &str) -> Value {
        let mut json = json!({
            "name": name,
            "listen": self.listen.to_string(),
            "upstream": self.upstream_name,
            "enabled": self.is_on(),
            "toxics": self.toxics_json(),
        });
        // Not Toxiproxy's, so only where they are not as Toxiproxy has it.
        if self.is_udp {
            json["protocol"] = "udp".into();
        }
        if !self.changes.is_empty() {
            json["path"] = self.changes.clone().into();
        }
        json
    }

    /// First those upstream, as Toxiproxy has it.
    fn toxics_json(&self) -> Value {
        let of = |way| self.toxics.iter().filter(move |toxic| toxic.way == way).map(NamedToxic::json);
        of(Way::Up).chain(of(Way::Down)).collect()
    }
}

impl NamedToxic {
    fn json(&self) -> Value {
        let (kind, attributes) = self.attributes.parts();
        json!({
            "name": self.name,
            "type": kind,
            "stream": stream(self.way),
            "toxicity": self.toxicity,
            "attributes": attributes,
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

/// Says whether it is an address of this machine, as far as the kernel tells: a socket can be bound to it. What cannot be found
/// out, for want of a descriptor, counts as its own.
fn is_own(mut address: SocketAddr) -> bool {
    // Of a link-local address the interface has to stay.
    address.set_port(0);
    match UdpSocket::bind(address) {
        Ok(_) => true,
        Err(error) => [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error())),
    }
}

/// The address that was found, if one was asked for.
fn found(at: &Option<Result<SocketAddr, String>>) -> Result<Option<SocketAddr>, Refusal> {
    at.clone().transpose().map_err(bad)
}

fn share(toxicity: f64) -> Result<Probability, Refusal> {
    if !(0.0..=1.0).contains(&toxicity) {
        return Err(bad(format_args!("toxicity {toxicity}: from 0 to 1 is allowed")));
    }
    Probability::per_billion((toxicity * 1e9) as u32).map_err(bad)
}

fn no_proxy() -> Refusal {
    refuse(404, "proxy not found")
}

fn no_toxic() -> Refusal {
    refuse(404, "toxic not found")
}

fn gone() -> Refusal {
    refuse(500, "its relay has ended")
}

/// Said first of what a request has in its body.
const BAD: &str = "bad request body: ";
/// Each has a thread.
pub(crate) const MOST_PROXIES: usize = 256;
const MOST_TOXICS: usize = 64;
const LONGEST_NAME: usize = 128;
