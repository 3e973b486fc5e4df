//! Forwarding in the kernel by the same rules: [`FastRoute`], and [`FastWorker`], the thread that keeps it up to date.
//!
//! A program at each interface forwards the packets that the router would have forwarded unchanged: whole packets
//! without options, for stations and addresses behind it, short enough, with hops left, and accepted by a rule without
//! a rate. All others reach the pollers. Decisions in the kernel are counted as the pollers' are, by rule and by
//! interface; a packet that neither left nor was rejected nor reached a poller is counted as lost at the output.
//!
//! ```text
//!   rules, interfaces ─▶ FastWorker ─▶ policy ─▶ maps ─▶ programs: A ═▶ B, past the pollers
//!         stats ◀────────────┘◀─────── counts ──┘
//! ```

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use softtimers_bpf::{FastCount, FastCounts, FastHook, FastPath, FastPolicy, FastRule, FastSide, FastTurns};
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_net::packet::Interface;
use softtimers_poll::Quota;

use super::links::{LinkFollower, Links};
use crate::forwarder::frames::link::Link;
use crate::forwarder::frames::reason::Reason;
use crate::forwarder::notify::Notify;
use crate::forwarder::plan::{FrameDriver, InterfacePair, LegPlan, Plan};
use crate::forwarder::rules::{Action, Entrance, Filter, Follower, Rule, Rulebook, Rules, Span};
use crate::forwarder::stats::{Account, Stats};
use crate::forwarder::volume::Volume;
use crate::forwarder::wake::{Woken, pair};

/// A route in the kernel between two interfaces. It forwards nothing until a worker runs.
#[derive(Debug)]
pub(crate) struct FastRoute {
    path: FastPath,
    interfaces: [Interface; 2],
    legs: [LegPlan; 2],
    hook: FastHook,
    quota: u32,
}

impl FastRoute {
    /// Attaches it to both interfaces.
    ///
    /// # Errors
    /// `ResourceBusy` if another program has the place in the kernel; otherwise why it cannot be attached: the plan
    /// cannot be carried out in the kernel, or the kernel lacks a feature.
    pub(crate) fn attach(plan: &Plan, between: &InterfacePair) -> io::Result<Self> {
        let Some(legs) = between.routed.clone() else {
            return Err(io::Error::other("a cable is not routed"));
        };
        if let Some(share) = plan.cpu_limit {
            return Err(io::Error::other(format!("--cpu-limit {share} would not be charged with it")));
        }
        if plan.count.is_some() {
            return Err(io::Error::other("--count would not see it"));
        }
        let hook = if between.driver == FrameDriver::XdpFast { FastHook::Xdp } else { FastHook::Tcx };
        let path = FastPath::attach(between.interfaces.each_ref().map(Interface::name), hook);
        let path = path.map_err(|error| match error {
            softtimers_bpf::Error::InUse { .. } => {
                io::Error::new(io::ErrorKind::ResourceBusy, error.to_string())
            }
            error => io::Error::other(error.to_string()),
        })?;
        let quota = QUOTAS.saturating_mul(plan.looking.packets().unwrap_or(Quota::default().receive()));
        Ok(FastRoute { path, interfaces: between.interfaces.clone(), legs, hook, quota })
    }

    /// Returns the handle that reports the pollers' turns to it; only once.
    pub(crate) fn turns(&mut self) -> Result<FastTurns, softtimers_bpf::Error> {
        self.path.turns()
    }

    /// Passes the frames that the kernel does not forward to this packet socket of one of the interfaces.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn filter(&mut self, socket: impl AsFd) -> Result<(), softtimers_bpf::Error> {
        self.path.filter(socket)
    }
}

/// Keeps a route up to date with the rules and the interfaces, in a thread of its own.
#[derive(Debug)]
pub(crate) struct FastWorker {
    route: FastRoute,
    links: LinkFollower,
    /// Readable when an interface has changed.
    woken: Woken,
    latest: [Link; 2],
    /// Whether each interface sends frames that an XDP program redirects to it.
    takes: [bool; 2],
    notify: Notify,
    rules: Option<(Follower, Filter)>,
    /// Packets that came in at each side and are not counted yet.
    under_way: [Volume; 2],
    interrupt: Interrupt,
}

impl FastWorker {
    /// Creates a worker that forwards by these rules, and follows them like one more poller.
    ///
    /// # Errors
    /// If the system has no descriptor left, or the kernel refuses a map's value.
    pub(crate) fn new(
        route: FastRoute,
        plan: &Plan,
        links: &Arc<Links>,
        interrupt: Interrupt,
    ) -> io::Result<Self> {
        let (waker, woken) = pair()?;
        links.wake(waker);
        let mut links = Links::follow(links);
        let rules = plan.rules.as_deref().map(Rulebook::follow_too).transpose()?;
        let latest = links.changed().ok_or(io::ErrorKind::NotFound)?;
        let mut worker = FastWorker {
            route,
            links,
            woken,
            latest,
            takes: [true; 2],
            notify: plan.notify,
            rules,
            under_way: Default::default(),
            interrupt,
        };
        worker.look_at_outputs();
        // Nothing was decided by an earlier policy.
        worker.route.path.change(&worker.policy()).map_err(io::Error::other)?;
        Ok(worker)
    }

    /// Forwards until the run's end.
    ///
    /// # Errors
    /// A check failure if the kernel refuses a map's value.
    pub(crate) fn run(mut self, account: &mut Account) -> Result<(), Failure> {
        let mut outcome = Ok(());
        while outcome.is_ok() && !self.interrupt.arrived() {
            let has_rules = self.wait();
            self.woken.settle();
            outcome = if let Some(links) = self.links.changed() {
                self.latest = links;
                self.adopt(account)
            } else if has_rules {
                self.reload(account)
            } else if self.look_at_outputs() {
                self.adopt(account)
            } else {
                self.route.path.counted().map(|counts| self.count(account, &counts, false))
            };
        }
        let stopped = self.route.path.stop().map(|counts| self.count(account, &counts, true));
        outcome
            .and(stopped)
            .map_err(|error| Failure::check(format_args!("forwarding in the kernel: {error}")))
    }

    /// Waits for other rules, a change of an interface, or a timeout; returns whether there are other rules.
    fn wait(&self) -> bool {
        let mut waited =
            vec![PollFd::new(&self.interrupt, PollFlags::IN), PollFd::new(&self.woken, PollFlags::IN)];
        waited.extend(self.rules.iter().map(|(follower, _)| PollFd::new(follower, PollFlags::IN)));
        let while_ = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
        // If it could not wait, it checks at once.
        let _ = poll(&mut waited, Some(&while_));
        waited.get(2).is_some_and(|rules| !rules.revents().is_empty())
    }

    /// Updates the route to the current interfaces and rules.
    fn adopt(&mut self, account: &mut Account) -> Result<(), softtimers_bpf::Error> {
        let counts = self.route.path.change(&self.policy())?;
        self.count(account, &counts, true);
        Ok(())
    }

    /// Takes up changed rules. Decisions by the old ones are counted for those.
    fn reload(&mut self, account: &mut Account) -> Result<(), softtimers_bpf::Error> {
        let Some((follower, filter)) = &mut self.rules else { return Ok(()) };
        let mut old = filter.tally().take();
        follower.begin(filter);
        let counts = self.route.path.change(&self.policy())?;
        (0..).zip(&counts.rules).for_each(|(index, count)| old.add(index, &volume(count)));
        account.count(true, |stats| stats.rules.get_or_insert_default().count(old));
        self.count(account, &FastCounts { rules: Vec::new(), ..counts }, true);
        if let Some((follower, filter)) = &mut self.rules {
            follower.goes_on(filter);
        }
        Ok(())
    }

    /// Says whether the set of interfaces that take redirected frames has changed, and reports each change.
    fn look_at_outputs(&mut self) -> bool {
        let FastRoute { interfaces, hook: FastHook::Xdp, .. } = &self.route else { return false };
        let mut has_changed = false;
        for (interface, takes) in interfaces.iter().zip(&mut self.takes) {
            // An interface that cannot tell takes none.
            let now = interface.takes_redirected().unwrap_or(false);
            if std::mem::replace(takes, now) == now {
                continue;
            }
            has_changed = true;
            let name = interface.name();
            match now {
                true => (self.notify)(format_args!("{name}: frames to it are forwarded at XDP")),
                false => (self.notify)(format_args!(
                    "{name}: it takes no frames at XDP (of a virtual cable: ethtool -K PEER gro on); those to it are forwarded at tc"
                )),
            }
        }
        has_changed
    }

    fn policy(&self) -> FastPolicy {
        let FastRoute { interfaces, legs, quota, .. } = &self.route;
        let mut sides = [0, 1].map(|at: usize| FastSide {
            interface: interfaces[at].index(),
            // No packet is short enough for one that is down: it comes up, and is counted there.
            mtu: if self.latest[at].is_on { self.latest[at].mtu } else { 0 },
            station: self.latest[at].station,
            next_hop: legs[at].next_hop,
            takes_redirected: self.takes[at],
        });
        let machine = self.latest.iter().flat_map(|link| &link.addresses);
        let mut own: Vec<_> = legs.iter().flat_map(|leg| &leg.addresses).chain(machine).copied().collect();
        if own.len() > FastPath::OWN {
            // All packets come up, to a router that knows all addresses.
            own.clear();
            sides.iter_mut().for_each(|side| side.mtu = 0);
        }
        let rules = self.rules.as_ref().map(|(_, filter)| filter.revision().rules());
        FastPolicy { sides, rules: rules.map(compiled).unwrap_or_default(), own, quota: *quota }
    }

    /// Adds the kernel's counts. Packets neither sent nor rejected are under way until the `last` call.
    fn count(&mut self, account: &mut Account, counts: &FastCounts, last: bool) {
        let FastCounts { rules, came, left, rejected, held } = counts;
        if let Some((_, filter)) = &mut self.rules {
            (0..).zip(rules).for_each(|(index, count)| filter.tally().add(index, &volume(count)));
        }
        self.under_way.iter_mut().zip(came).for_each(|(under_way, came)| *under_way += &volume(came));
        account.count(true, |stats: &mut Stats| {
            let interfaces = stats.interfaces.get_or_insert_default();
            for at in 0..2 {
                let (left, rejected) = (volume(&left[1 - at]), volume(&rejected[at]));
                let mut gone = left;
                gone += &rejected;
                let lost = if last { self.under_way[at].saturating_sub(gone) } else { Volume::default() };
                gone += &lost;
                // The counts of several CPUs are not read at one instant.
                self.under_way[at] = self.under_way[at].saturating_sub(gone);
                stats.ends[at].received += &gone;
                stats.ends[at].dropped.rule += &rejected;
                stats.ends[1 - at].sent += &left;
                stats.ends[1 - at].dropped.output += &lost;
                interfaces.refused.add(Reason::Rule, rejected.packets);
                interfaces.in_kernel += &left;
                stats.ends[at].dropped.ring += held[at].packets;
                interfaces.held_back += held[at].packets;
            }
            if let Some((_, filter)) = &mut self.rules {
                stats.rules.get_or_insert_default().count(filter.tally().take());
            }
        });
    }
}

/// Compiles the first rules, as many as the kernel holds.
fn compiled(rules: &Rules) -> Vec<FastRule> {
    rules.entries().iter().take(FastPath::RULES).map(|entry| fast(&entry.rule)).collect()
}

fn fast(rule: &Rule) -> FastRule {
    let Rule { entrance, kind, protocol, from, from_ports, to, to_ports, lengths, rate, action } = *rule;
    let net = |net: IpNet| (net.addr(), net.prefix_len());
    let span = |Span { first, last }: Span| [first, last];
    FastRule {
        side: entrance.map(|entrance| u8::from(entrance == Entrance::B)),
        kind: kind.map(|kind| kind.0),
        protocol: protocol.map(|protocol| protocol.0),
        from: from.map(net),
        from_ports: from_ports.map(span),
        to: to.map(net),
        to_ports: to_ports.map(span),
        lengths: lengths.map(span),
        screened: rate.is_some(),
        rejects: action == Action::Reject,
    }
}

fn volume(count: &FastCount) -> Volume {
    Volume { packets: count.packets, bytes: count.bytes }
}

/// While frames wait for a poller that gets no turn, the kernel forwards up to 256 turns' quota on each CPU.
const QUOTAS: u32 = 256;
/// The time between two readings of the counts.
const LOOK: Duration = Duration::from_millis(200);
