//! Several pollers between the same interfaces, each with a share of the frames and a thread of its own: [`Crew`].
//!
//! ```text
//!   A: queues, or hashes of flows ─┬─▶ engine ─▶ B      the first: on the main thread; prints, answers, streams
//!                                  ├─▶ engine ─▶ B ─┐
//!                                  └─▶ engine ─▶ B ─┴─▶ board: what each has done so far, four times a second
//! ```
//!
//! They share no packet and no lock on a packet's way; where a stream is wanted, one is taken once a round. What the others
//! have done stands on a [`Board`] each, from where the first one adds it to what it tells; at the end all of it is there,
//! since it waits for them. What rules have matched is added up by [`Tally`], though some may go by older rules yet.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::report::{Findings, ForwardReport, RulesReport};
use super::rules::Tally;
use super::second::Second;
use crate::failure::Failure;
use crate::interrupt::Ender;
use crate::stream::Account as _;

/// What an engine has done so far.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// What was counted.
    pub total: Second,
    /// What its handler tells.
    pub findings: Findings,
    /// Periods in which a limit shut its input.
    pub cpu_limited: u64,
    /// What its rules decided about.
    pub rules: Option<Tally>,
}

/// Where one of the others tells what it has done so far.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Share>>);

/// The others, as the first one sees them; nobody, where there is one poller.
#[derive(Debug, Default)]
pub struct Crew {
    members: Vec<Member>,
    ender: Option<Ender>,
}

#[derive(Debug)]
struct Member {
    board: Board,
    thread: Option<JoinHandle<Result<(), Failure>>>,
}

/// If one could not go on, nobody shall, also where it panicked.
#[derive(Debug)]
struct Last(Ender);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Share {
    /// Adds another one's.
    pub fn add(&mut self, other: &Share) {
        self.total.add(&other.total);
        self.findings.add(&other.findings);
        self.cpu_limited += other.cpu_limited;
        if let (Some(own), Some(other)) = (&mut self.rules, &other.rules) {
            own.add(other);
        }
    }

    /// As it is told, of a run of this length so far in which the rules' file was wrong so often.
    pub fn report(self, span: Duration, refused: u64) -> ForwardReport {
        let Share { total, findings, cpu_limited, rules } = self;
        let Findings { up, down, ends, beside, rejected } = findings;
        ForwardReport {
            counts: total.counts,
            packets_per_poll: total.counts.packets_per_poll(),
            latency_ns: total.stay.distribution(),
            cpu_share: total.cpu_share(span),
            cpu_limited,
            span_s: span.as_secs_f64(),
            up,
            down,
            ends,
            beside,
            rules: rules.map(|tally| RulesReport::of(&tally, rejected, refused)),
        }
    }
}

impl Board {
    /// Says what was done so far.
    pub fn tell(&self, share: Share) {
        *self.read() = share;
    }

    fn read(&self) -> MutexGuard<'_, Share> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crew {
    /// Nobody yet, all of whom end when `ender` is told to.
    pub fn ended_by(ender: Ender) -> Self {
        Crew { members: Vec::new(), ender: Some(ender) }
    }

    /// Starts another one, which tells what it does on the board.
    ///
    /// # Errors
    /// A check failure if the system has no thread left.
    pub fn start(
        &mut self,
        ender: Ender,
        run: impl FnOnce(&Board) -> Result<(), Failure> + Send + 'static,
    ) -> Result<(), Failure> {
        let board = Board::default();
        let own = board.clone();
        let last = Last(ender);
        let run = move || {
            let _last = last;
            run(&own)
        };
        let thread =
            std::thread::Builder::new().name(format!("poller {}", self.members.len() + 2)).spawn(run);
        let thread = thread.map_err(|error| Failure::broke_off("starting a thread", &error))?;
        self.members.push(Member { board, thread: Some(thread) });
        Ok(())
    }

    /// Adds what all of them have told.
    pub fn add_to(&self, share: &mut Share) {
        self.members.iter().for_each(|member| share.add(&member.board.read()));
    }

    /// Ends them, and waits until they have told everything.
    ///
    /// # Errors
    /// What kept one of them from going on.
    pub fn end(&mut self) -> Result<(), Failure> {
        self.ender.iter().for_each(Ender::end);
        let threads: Vec<_> = self.members.iter_mut().filter_map(|member| member.thread.take()).collect();
        let outcomes = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Failure::check("a thread that forwards panicked")))
        });
        // All of them, also if one has failed.
        outcomes.fold(Ok(()), Result::and)
    }
}

/// Nobody is left behind, however the first one ends.
impl Drop for Crew {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use softtimers_core::Timestamp;

    use super::*;
    use crate::forward::report::{Beside, InterfacesReport, WayCounts};
    use crate::forward::rules::{Filter, Revision, Seen, parse};

    fn share(out: u64, rules: &Arc<Revision>) -> Share {
        let mut share = Share { cpu_limited: 1, ..Share::default() };
        share.total.counts.out = out;
        share.total.stay.record(out);
        share.findings.up = WayCounts { received: out, sent: out };
        share.findings.beside =
            Beside::Interfaces(InterfacesReport { outages: [1, 0], loops: 1, ..Default::default() });
        let mut filter = Filter::new(Arc::clone(rules));
        let local = std::net::SocketAddr::from(([127, 0, 0, 1], 9));
        for _ in 0..out {
            filter.decide(&Seen::datagram(local, local, 9, Timestamp::ZERO));
        }
        share.rules = Some(filter.tally().clone());
        share
    }

    #[test]
    fn what_all_have_done_is_added_up_and_what_all_have_seen_is_not() {
        let rules = Revision::new(parse(b"accept").unwrap());
        let mut all = share(3, &rules);
        all.add(&share(4, &rules.change(parse(b"# the same\naccept").unwrap())));
        let report = all.report(Duration::from_secs(1), 5);
        assert_eq!((report.counts.out, report.up.sent, report.cpu_limited), (7, 7, 2));
        assert_eq!(report.latency_ns.count, 2);
        let rules = report.rules.unwrap();
        assert_eq!((rules.entries[0].matched, rules.entries[0].line), (7, 2));
        assert_eq!((rules.reloaded, rules.refused), (1, 5));
        let Beside::Interfaces(InterfacesReport { outages, loops, .. }) = report.beside else { panic!() };
        assert_eq!((outages, loops), ([1, 0], 2), "each sees the same outage; a loop is told by one");
    }

    #[test]
    fn one_that_fails_ends_all_and_its_reason_is_told() {
        let interrupt = crate::interrupt::Interrupt::deaf().unwrap();
        let mut crew = Crew::ended_by(interrupt.ender().unwrap());
        crew.start(interrupt.ender().unwrap(), |board| {
            board.tell(share(5, &Revision::new(parse(b"accept").unwrap())));
            Err(Failure::check("broken"))
        })
        .unwrap();
        assert_eq!(crew.end(), Err(Failure::check("broken")));
        assert!(interrupt.arrived());
        let mut all = Share::default();
        crew.add_to(&mut all);
        assert_eq!(all.total.counts.out, 5);
    }

    #[test]
    fn one_that_panics_ends_all() {
        let (interrupt, other) =
            (crate::interrupt::Interrupt::deaf().unwrap(), crate::interrupt::Interrupt::deaf().unwrap());
        // What the crew itself ends is another run.
        let mut crew = Crew::ended_by(other.ender().unwrap());
        crew.start(interrupt.ender().unwrap(), |_| panic!("on purpose")).unwrap();
        assert_eq!(crew.end(), Err(Failure::check("a thread that forwards panicked")));
        assert!(interrupt.arrived());
    }
}
