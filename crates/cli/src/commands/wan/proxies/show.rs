//! The report of several proxies: the keys of `softtimers.wan-proxies/1`.

use serde::Serialize;
use softtimers_wan::{Relay, Way};

use super::super::ends::reports;
use super::super::show::{ClientsReport, DirectionReport, InterfacesReport};
use super::run::Proxies;
use crate::run::grid::Grid;
use crate::run::output::Report;
use crate::run::quantity::bytes;
use crate::run::table::Table;

/// The `config` object.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct ProxiesConfig {
    /// The address of the HTTP API; `null` for none.
    pub(crate) api: Option<String>,
    /// The control socket; `null` for none.
    pub(crate) control: Option<String>,
    /// The most clients of a proxy at once.
    pub(crate) clients: u32,
    /// The longest run; `null` for no bound.
    pub(crate) duration_s: Option<f64>,
}

/// The findings of all proxies at the end.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct ProxiesReport {
    /// The proxies in the order of their names.
    pub(crate) proxies: Vec<ProxyReport>,
    /// The time that the run took.
    pub(crate) span_s: f64,
}

/// The findings of one proxy.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct ProxyReport {
    /// Its name.
    pub(crate) name: String,
    /// `tcp`, `udp` or `interfaces`.
    pub(crate) protocol: &'static str,
    /// The address that it listens on, or the first interface.
    pub(crate) listen: String,
    /// The address that it relays to, or the second interface.
    pub(crate) upstream: String,
    /// Whether it relays now.
    pub(crate) enabled: bool,
    /// The number of its toxics at the end.
    pub(crate) toxics: usize,
    /// Its traffic since it was last enabled; between interfaces, since it began.
    #[serde(flatten)]
    pub(crate) carried: Carried,
}

/// Traffic of a relay.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Carried {
    /// The direction from the clients.
    pub(crate) up: DirectionReport,
    /// The direction back to them.
    pub(crate) down: DirectionReport,
    /// The bytes delivered to the upstream.
    pub(crate) up_bytes: u64,
    /// The bytes delivered to the clients.
    pub(crate) down_bytes: u64,
    /// Its clients.
    pub(crate) clients: ClientsReport,
    /// The counts of interfaces besides the path's; `null` between sockets.
    pub(crate) interfaces: Option<InterfacesReport>,
}

impl Carried {
    pub(crate) fn from_relay(relay: &Relay) -> Self {
        let direction =
            |way| DirectionReport::from_counts(&relay.path(way), &relay.counters(way), relay.measured(way));
        let bytes = |way| relay.counters(way).delivered_bytes;
        let (clients, interfaces) = reports(relay);
        Carried {
            up: direction(Way::Up),
            down: direction(Way::Down),
            up_bytes: bytes(Way::Up),
            down_bytes: bytes(Way::Down),
            clients,
            interfaces,
        }
    }
}

impl Report<Proxies> for ProxiesReport {
    const SCHEMA: &'static str = "softtimers.wan-proxies/1";
    const ROWS: Option<&'static str> = Some("proxies");

    fn table(&self) -> Table {
        let mut table = Table::default();
        let mut grid = Grid::new(["proxy", "listen", "upstream", "clients", "reset", "to upstream", "back"]);
        for proxy in &self.proxies {
            let ProxyReport { name, listen, upstream, enabled, carried, .. } = proxy;
            let name = if *enabled { name.clone() } else { format!("{name} (off)") };
            let Carried { clients, up_bytes, down_bytes, .. } = carried;
            let numbers = [clients.opened.to_string(), clients.reset.to_string()];
            let bytes = [bytes(*up_bytes), bytes(*down_bytes)];
            grid.row([name, listen.clone(), upstream.clone()].into_iter().chain(numbers).chain(bytes));
        }
        if grid.is_empty() {
            table.row("proxies", "none");
        } else {
            table.grid(grid.words(2));
        }
        table
    }
}
