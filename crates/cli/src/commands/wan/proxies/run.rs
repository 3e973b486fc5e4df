//! Several proxies while they run: [`Proxies`].

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use softtimers::{Clock, Monotonic};
use softtimers_measure::failure::Failure;
use softtimers_wan::interfaces::{BridgeConfig, Claimed};

use super::super::ends::failure;
use super::super::lateness::too_late;
use super::control::attend;
use super::fields::{Protocol, ProxyFields};
use super::plan::ProxiesPlan;
use super::refusal::Refusal;
use super::registry::Registry;
use super::serve::Api;
use super::show::{ProxiesConfig, ProxiesReport, ProxyReport};

use crate::control::Control;
use crate::descriptors;
use crate::run::output::{Output, say};
use crate::run::privileges::paths::{Opens, directory_of};
use crate::run::privileges::{Confined, Needs, Rights};
use crate::run::quantity::end;
use crate::run::{Command, Disturbance, Outcome, Run};

/// The proxies, and the API that changes them.
#[derive(Debug)]
pub(crate) struct Proxies {
    plan: ProxiesPlan,
}

impl Proxies {
    pub(crate) fn new(plan: ProxiesPlan) -> Self {
        Proxies { plan }
    }
}

impl Command for Proxies {
    type Config = ProxiesConfig;
    type Report = ProxiesReport;
    const DISTURBED_BY: Disturbance = Disturbance::Nobody;
    const FIELDS: &'static str = include_str!("../fields.txt");
    const RIGHTS: Rights = Rights::ToOpen;

    fn output(&self) -> &Output {
        &self.plan.output
    }

    fn config(&self) -> ProxiesConfig {
        ProxiesConfig {
            api: self.plan.api.map(|api| api.to_string()),
            control: self.plan.control.as_ref().map(|path| path.display().to_string()),
            clients: self.plan.defaults.clients.clients,
            duration_s: self.plan.duration.map(|duration| duration.as_secs_f64()),
        }
    }

    fn seed(&self) -> Option<u64> {
        Some(self.plan.defaults.seed)
    }

    fn header(&self) -> String {
        let ProxiesConfig { api, duration_s, .. } = self.config();
        let api = api.map_or_else(|| "no API".to_owned(), |api| format!("API at {api}"));
        format!("wan, several proxies: {api}{}", end(duration_s, None, "packet"))
    }

    fn example(&self) -> ProxiesReport {
        ProxiesReport { proxies: vec![ProxyReport::default()], span_s: 0.0 }
    }

    /// Relays until the end or a signal.
    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<ProxiesReport>, Failure> {
        descriptors::raise();
        let interrupt = run.interrupt()?;
        let api = self.plan.api.map(|address| {
            Api::bind(address).map_err(|error| Failure::usage(format_args!("--api {address}: {error}")))
        });
        let api = api.transpose()?;
        self.plan.api = api.as_ref().map(Api::address);
        let control = self.plan.control.as_deref().map(|path| {
            let refused = |error| Failure::usage(format_args!("--control {}: {error}", path.display()));
            Control::bind(path).map_err(refused)
        });
        let control = control.transpose()?;
        let claimed = self.claim()?;
        run.drop_privileges(Needs::confined(Confined { opens: self.opens(), uses_bpf: false }))?;
        let mut registry = Registry::new(self.plan.defaults.clone());
        for (fields, claimed) in self.plan.proxies.iter().zip(claimed) {
            let refused = |refusal: Refusal| {
                Failure::usage(format_args!("{}: {}", flag_and_name(fields), refusal.in_short()))
            };
            registry.create(fields, claimed).map_err(refused)?;
        }
        registry.lines().for_each(|line| say(format_args!("{line}")));
        let registry = Arc::new(Mutex::new(registry));
        if let Some(api) = api {
            let address = api.address();
            api.serve(Arc::clone(&registry))
                .map_err(|error| Failure::broke_off("serving the API", &error))?;
            say(format_args!("API at http://{address}"));
        }
        let progress = run.begin(self, "relaying", self.plan.duration);
        let until = self.plan.duration.map(|duration| Monotonic.now() + duration);
        attend(interrupt, control, until, &registry)
            .map_err(|error| Failure::broke_off("waiting for signals", &error))?;
        drop(progress);
        let report = registry.lock().unwrap_or_else(PoisonError::into_inner).finish();
        let late = |proxy: &ProxyReport| {
            let ways = [("up", &proxy.carried.up), ("down", &proxy.carried.down)];
            too_late(&format!("proxy {:?}: ", proxy.name), ways)
        };
        let inconclusive = report.proxies.iter().find_map(late);
        let strict = inconclusive.as_ref().filter(|_| self.plan.strict);
        let broke_off = strict.map(|why| Failure::check(format_args!("--strict: {why}")));
        Ok(Outcome { inconclusive, broke_off, ..Outcome::of(report) })
    }
}

/// Names the flag, and the proxy.
fn flag_and_name(fields: &ProxyFields) -> String {
    format!("--proxies, {:?}", fields.name.as_deref().unwrap_or_default())
}

impl Proxies {
    /// Claims the interfaces of the proxies that have some, in the order of the file, while the privilege is there.
    fn claim(&self) -> Result<Vec<Option<Claimed>>, Failure> {
        let mut taken = BTreeSet::new();
        let mut claim = |fields: &ProxyFields| {
            if fields.protocol() != Ok(Some(Protocol::Interfaces)) {
                return Ok(None);
            }
            let refused =
                |problem: String| Failure::usage(format_args!("{}: {problem}", flag_and_name(fields)));
            let interfaces = fields.interfaces().map_err(refused)?;
            if let Some(again) = interfaces.iter().find(|name| taken.contains(*name)) {
                return Err(refused(format!("another proxy has the interface {again}")));
            }
            taken.extend(interfaces.clone());
            let (take, coalesce) = (self.plan.take, self.plan.defaults.coalesce);
            let claimed = Claimed::new(&BridgeConfig { take, coalesce, ..BridgeConfig::between(interfaces) });
            claimed.map(Some).map_err(|problem| failure(&flag_and_name(fields), &problem))
        };
        self.plan.proxies.iter().map(&mut claim).collect()
    }

    /// Says what is opened later: each relay listens on its own thread, started after privileges are dropped. With an
    /// API, names are looked up later; through the control socket a trace may be named, and its socket is removed at
    /// the end.
    fn opens(&self) -> Opens {
        let (later, control) = (self.plan.api.is_some(), self.plan.control.as_deref());
        let names = ["/etc", "/run/systemd/resolve"].map(Into::into);
        let files = control.map(|_| "/".into());
        Opens {
            reads: names.into_iter().filter(|_| later).chain(files).collect(),
            removes: control.map(|path| directory_of(path).to_owned()),
            connects: true,
            listens: true,
            ..Opens::default()
        }
    }
}
