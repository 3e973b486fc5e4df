//! One of several proxies: [`Proxy`], with its ends, its path, its toxics, and its worker.

use std::net::SocketAddr;

use serde_json::{Value, json};
use softtimers_wan::interfaces::{BridgeConfig, Claimed};
use softtimers_wan::tcp::StreamConfig;
use softtimers_wan::toxic::Dose;
use softtimers_wan::{Change, PathConfig, Probability, Wan, Way};

use super::super::control::{Request, request};
use super::super::ends::{Ends, datagrams, overhead, streams};
use super::fields::{Attributes, Protocol, ProxyFields};
use super::refusal::{Refusal, bad, gone, refuse};
use super::registry::Defaults;
use super::show::{Carried, ProxyReport};
use super::worker::{Order, Worker};
use crate::address;

/// A path with a name, and its worker.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) between: ProxyEnds,
    lines: Vec<Line>,
    paths: [PathConfig; 2],
    pub(super) toxics: Vec<NamedToxic>,
    state: State,
    carried: Carried,
    seed: u64,
}

/// The two ends of the path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ProxyEnds {
    Sockets(Sockets),
    Interfaces([String; 2]),
}

/// The addresses of a relay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sockets {
    pub(super) listen: SocketAddr,
    pub(super) upstream: SocketAddr,
    /// As requested.
    pub(super) upstream_name: String,
    pub(super) is_udp: bool,
}

#[derive(Debug)]
enum State {
    Off,
    On(Worker),
    /// Disabled: nothing passes, but its interfaces stay open, since they could not be opened again.
    Cut(Worker),
}

/// A change of the path, also in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line {
    text: String,
    way: Option<Way>,
    changes: Vec<Change>,
}

/// A toxic of a proxy.
#[derive(Clone, Debug)]
pub(super) struct NamedToxic {
    pub(super) name: String,
    pub(super) id: u64,
    /// Counts its changes.
    pub(super) revision: u64,
    pub(super) way: Way,
    /// The stream and the share of connections, as given.
    pub(super) stream: String,
    pub(super) toxicity: f64,
    pub(super) attributes: Attributes,
}

impl Proxy {
    /// Creates an idle proxy with the common path.
    pub(super) fn new(between: ProxyEnds, defaults: &Defaults, seed: u64) -> Self {
        let (lines, toxics, paths) = (vec![], vec![], defaults.paths.clone());
        Proxy { between, lines, paths, toxics, state: State::Off, carried: Carried::default(), seed }
    }

    pub(super) fn protocol(&self) -> Protocol {
        match &self.between {
            ProxyEnds::Sockets(Sockets { is_udp: true, .. }) => Protocol::Udp,
            ProxyEnds::Sockets(_) => Protocol::Tcp,
            ProxyEnds::Interfaces(_) => Protocol::Interfaces,
        }
    }

    /// Returns the addresses, unless it lies between interfaces.
    pub(super) fn sockets(&self) -> Option<&Sockets> {
        if let ProxyEnds::Sockets(sockets) = &self.between { Some(sockets) } else { None }
    }

    pub(super) fn is_on(&self) -> bool {
        matches!(&self.state, State::On(worker) if worker.is_running())
    }

    fn ends(&self, defaults: &Defaults) -> Ends {
        match &self.between {
            ProxyEnds::Sockets(Sockets { listen, upstream, is_udp, .. }) => {
                if *is_udp {
                    return Ends::Udp(datagrams(*listen, *upstream, &defaults.clients));
                }
                let config = streams(*listen, *upstream, &defaults.clients);
                // As in Toxiproxy.
                Ends::Tcp(StreamConfig { ends_refused_in_order: true, ..config })
            }
            ProxyEnds::Interfaces(interfaces) => {
                let coalesce = defaults.coalesce;
                Ends::Interfaces(BridgeConfig { coalesce, ..BridgeConfig::between(interfaces.clone()) })
            }
        }
    }

    /// Says whether its ends are the requested ones.
    pub(super) fn lies_between(&self, fields: &ProxyFields) -> bool {
        let [listen, upstream] =
            [fields.listen.as_deref(), fields.upstream.as_deref()].map(Option::unwrap_or_default);
        match &self.between {
            ProxyEnds::Sockets(sockets) => upstream == sockets.upstream_name && sockets.listen_at(listen),
            ProxyEnds::Interfaces([a, b]) => [listen, upstream] == [a, b],
        }
    }

    /// Sets the path: the common one, with these changes.
    pub(super) fn set_path(&mut self, defaults: &Defaults, lines: Vec<Line>) -> Result<(), Refusal> {
        let overhead = match &self.between {
            ProxyEnds::Sockets(sockets) => overhead(!sockets.is_udp, sockets.upstream),
            ProxyEnds::Interfaces(_) => 0,
        };
        let mut paths = defaults.paths.clone();
        for (path, given) in paths.iter_mut().zip(defaults.overheads) {
            path.overhead = given.unwrap_or(overhead);
        }
        for Line { way, changes, .. } in &lines {
            for (path, which) in paths.iter_mut().zip([Way::Up, Way::Down]) {
                if way.is_none_or(|way| way == which) {
                    changes.iter().for_each(|change| change.apply(path));
                }
            }
        }
        let ends = self.ends(defaults);
        paths.iter().try_for_each(|path| ends.check(path)).map_err(bad)?;
        if let State::On(worker) = &self.state {
            tell_paths(worker, &paths)?;
        }
        (self.paths, self.lines) = (paths, lines);
        Ok(())
    }

    /// Changes only the settings of the path that these lines name.
    pub(super) fn change_path(&mut self, defaults: &Defaults, changes: Vec<Line>) -> Result<(), Refusal> {
        let mut lines = self.lines.clone();
        for change in changes {
            // Replaced lines are removed, so that any number of changes takes bounded memory.
            lines.retain(|line| !line.sets_what(&change));
            lines.push(change);
        }
        self.set_path(defaults, lines)
    }

    /// Listens and relays, unless it already does.
    pub(super) fn begin(
        &mut self,
        name: &str,
        defaults: &Defaults,
        claimed: Option<Claimed>,
    ) -> Result<(), Refusal> {
        if self.is_on() {
            return Ok(());
        }
        if let State::Cut(worker) = std::mem::replace(&mut self.state, State::Off) {
            let told = tell_paths(&worker, &self.paths);
            self.state = State::On(worker);
            return told;
        }
        if claimed.is_none() && self.protocol() == Protocol::Interfaces {
            return Err(unopened());
        }
        self.stop();
        let [up, down] = self.paths.clone();
        let path = Wan::builder().up(up).down(down).seed(self.seed);
        let started = Worker::start(name, self.ends(defaults), claimed, path);
        let (worker, listen) = started.map_err(|failure| refuse(500, failure))?;
        if let (ProxyEnds::Sockets(sockets), Ok(listen)) = (&mut self.between, listen.parse()) {
            sockets.listen = listen;
        }
        self.state = State::On(worker);
        self.tell_toxics();
        Ok(())
    }

    /// Stops relaying. Interfaces stay open, and nothing passes between them.
    pub(super) fn stop(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Off) {
            State::On(worker) if self.protocol() == Protocol::Interfaces => {
                let cut = self.paths.clone().map(|path| path.outage(true));
                // A worker that has ended carries nothing, either.
                let _ = tell_paths(&worker, &cut);
                State::Cut(worker)
            }
            State::On(worker) => {
                self.carried = worker.stop().unwrap_or_default();
                State::Off
            }
            state => state,
        }
    }

    /// Ends it, including its interfaces.
    pub(super) fn end(&mut self) {
        if let State::On(worker) | State::Cut(worker) = std::mem::replace(&mut self.state, State::Off) {
            self.carried = worker.stop().unwrap_or_default();
        }
    }

    pub(super) fn tell_toxics(&self) {
        let State::On(worker) = &self.state else { return };
        for way in [Way::Up, Way::Down] {
            let these = self.toxics.iter().filter(|toxic| toxic.way == way);
            let doses = these.filter_map(|toxic| {
                let toxicity = share(toxic.toxicity);
                let NamedToxic { id, revision, .. } = *toxic;
                Some(Dose { id, revision, toxic: toxic.attributes.toxic()?, toxicity })
            });
            worker.tell(Order::Toxics(way, doses.collect()));
        }
    }

    /// Returns the ends as shown in output.
    pub(super) fn ends_in_words(&self) -> [String; 2] {
        match &self.between {
            ProxyEnds::Sockets(sockets) => [sockets.listen.to_string(), sockets.upstream_name.clone()],
            ProxyEnds::Interfaces(names) => names.clone(),
        }
    }

    /// Returns its traffic so far.
    pub(super) fn report(&self, name: &str) -> ProxyReport {
        let now = match &self.state {
            State::On(worker) | State::Cut(worker) => worker.tell(Order::Look),
            State::Off => None,
        };
        let [listen, upstream] = self.ends_in_words();
        ProxyReport {
            name: name.to_owned(),
            protocol: self.protocol().name(),
            listen,
            upstream,
            enabled: self.is_on(),
            toxics: self.toxics.len(),
            carried: now.unwrap_or_else(|| self.carried.clone()),
        }
    }

    pub(super) fn json(&self, name: &str) -> Value {
        let [listen, upstream] = self.ends_in_words();
        let mut json = json!({
            "name": name,
            "listen": listen,
            "upstream": upstream,
            "enabled": self.is_on(),
            "toxics": self.toxics_json(),
        });
        // Not part of Toxiproxy's API, so only where they differ from it.
        if self.protocol() != Protocol::Tcp {
            json["protocol"] = self.protocol().name().into();
        }
        if !self.lines.is_empty() {
            json["path"] = self.lines.iter().map(|line| line.text.as_str()).collect();
        }
        json
    }

    /// Returns the toxics, upstream ones first, as Toxiproxy does.
    pub(super) fn toxics_json(&self) -> Value {
        let of = |way| self.toxics.iter().filter(move |toxic| toxic.way == way).map(NamedToxic::json);
        of(Way::Up).chain(of(Way::Down)).collect()
    }
}

impl Sockets {
    fn listen_at(&self, text: &str) -> bool {
        address::numeric(text).ok().flatten().is_some_and(|address| {
            address.ip() == self.listen.ip() && [0, self.listen.port()].contains(&address.port())
        })
    }
}

impl Line {
    /// Parses a line such as `both rtt 80ms loss 1%`. With `files`, it may name one to be read.
    pub(super) fn read(text: &str, files: bool) -> Result<Self, Refusal> {
        // Otherwise any client of the API could have files opened.
        if !files && text.split_ascii_whitespace().any(|word| word == "trace" || word.contains("dist=")) {
            return Err(bad("trace, dist=: only the command line and the control socket may name a file"));
        }
        match request(&format!("set {text}")).map_err(bad)? {
            Request::Set(way, changes) => Ok(Line { text: text.to_owned(), way, changes }),
            Request::Show => Err(bad("a change of a path")),
        }
    }

    /// Splits such a line, which may name files, into lines with one setting each.
    pub(super) fn read_each(text: &str) -> Result<Vec<Self>, Refusal> {
        Line::read(text, true)?;
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let [way, settings @ ..] = words.as_slice() else { return Ok(vec![]) };
        settings.chunks(2).map(|setting| Line::read(&format!("{way} {}", setting.join(" ")), true)).collect()
    }

    /// Says whether it sets exactly the setting of another line that has one.
    fn sets_what(&self, other: &Line) -> bool {
        let words =
            |line: &Line| -> Vec<String> { line.text.split_ascii_whitespace().map(str::to_owned).collect() };
        let (own, others) = (words(self), words(other));
        own.len() == 3 && own.iter().take(2).eq(others.iter().take(2))
    }
}

impl NamedToxic {
    pub(super) fn json(&self) -> Value {
        let (kind, attributes) = self.attributes.parts();
        json!({
            "name": self.name,
            "type": kind,
            "stream": self.stream,
            "toxicity": self.toxicity,
            "attributes": attributes,
        })
    }
}

fn tell_paths(worker: &Worker, paths: &[PathConfig; 2]) -> Result<(), Refusal> {
    for (way, path) in [Way::Up, Way::Down].into_iter().zip(paths) {
        worker.tell(Order::Path(way, Box::new(path.clone()))).ok_or_else(gone)?;
    }
    Ok(())
}

/// Refuses an action that needs privileges already dropped.
pub(super) fn unopened() -> Refusal {
    bad(
        "protocol \"interfaces\": interfaces are opened before the run gives its rights up; name them in --proxies FILE",
    )
}

/// Returns a share of connections: as in Toxiproxy, one above 1 is all of them, one below 0 none.
fn share(toxicity: f64) -> Probability {
    Probability::per_billion((toxicity.clamp(0.0, 1.0) * 1e9) as u32).unwrap_or(Probability::NEVER)
}
