//! Several proxies, while they relay: [`Proxies`].

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;

use super::args::ProxiesPlan;
use super::registry::{Refusal, Registry};
use super::serve::Api;
use super::show::{ProxiesConfig, ProxiesReport, ProxyReport};
use crate::run::output::{Output, say};
use crate::run::privileges::paths::Opens;
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
    const RIGHTS: Rights = Rights::ToOpen;

    fn output(&self) -> &Output {
        &self.plan.output
    }

    fn config(&self) -> ProxiesConfig {
        ProxiesConfig {
            api: self.plan.api.map(|api| api.to_string()),
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
        let interrupt = run.interrupt()?;
        let mut registry = Registry::new(self.plan.defaults.clone());
        let api = self.plan.api.map(|address| {
            Api::bind(address).map_err(|error| Failure::usage(format_args!("--api {address}: {error}")))
        });
        let api = api.transpose()?;
        self.plan.api = api.as_ref().map(Api::address);
        run.drop_privileges(Needs::confined(Confined { opens: self.opens(), uses_bpf: false }))?;
        for fields in &self.plan.proxies {
            let name = fields.name.clone().unwrap_or_default();
            let refused = |refusal: Refusal| {
                Failure::usage(format_args!("--proxies, {name:?}: {}", refusal.of_a_file()))
            };
            registry.create(fields).map_err(refused)?;
        }
        registry.lines().for_each(|line| say(format_args!("{line}")));
        let registry = Arc::new(Mutex::new(registry));
        if let Some(api) = api {
            let address = api.address();
            api.serve(Arc::clone(&registry))
                .map_err(|error| Failure::broke_off("serving the API", &error))?;
            say(format_args!("API at http://{address}"));
        }
        let start = Monotonic.now();
        let progress = run.begin(self, "relaying", self.plan.duration);
        wait(interrupt, self.plan.duration.map(|duration| start + duration))
            .map_err(|error| Failure::broke_off("waiting for signals", &error))?;
        drop(progress);
        let span = Monotonic.now().saturating_duration_since(start);
        let report = registry.lock().unwrap_or_else(PoisonError::into_inner).finish();
        Ok(Outcome::of(ProxiesReport { span_s: Duration::as_secs_f64(&span), ..report }))
    }
}

/// Waits for a signal, or until then.
fn wait(interrupt: &Interrupt, until: Option<Timestamp>) -> io::Result<()> {
    while !interrupt.arrived() {
        let left = until.map(|until| until.saturating_duration_since(Monotonic.now()));
        if left == Some(Duration::ZERO) {
            break;
        }
        let left = left.map(Timespec::try_from).transpose().map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(interrupt, PollFlags::IN)], left.as_ref()) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

impl Proxies {
    /// Each relay listens on its own thread, and threads begin when rights have been given up. With an API, names are looked
    /// up later.
    fn opens(&self) -> Opens {
        let later = self.plan.api.is_some();
        let names = ["/etc", "/run/systemd/resolve"].map(Into::into);
        Opens {
            reads: names.into_iter().filter(|_| later).collect(),
            connects: true,
            listens: true,
            ..Opens::default()
        }
    }
}
