//! One CPU, shared by interrupts, software interrupts and threads: [`Processor`].
//!
//! Only levels decide which task runs, as in the kernels that the papers measured: a task of a higher level
//! preempts, one of the same level waits until the running one is idle. The cost of a switch is charged to
//! the task that gets the CPU, before it continues:
//!
//! ```text
//!   level  clock       ▓            ▓            ▓            ▓
//!          device   ▓▓▓▓    ▓▓▓▓                    ▓▓▓▓
//!          network      ████    ██████████  ████████    ▒▒██     ▒ switch: another thread ran before
//!          user     ██                    ░█            ░        ░ pollution: it was preempted
//! ```
//!
//! A task does the work that its owner gives it, a piece at a time; when a piece is done the owner is
//! notified and gives the next. The CPU schedules no events itself: [`dispatch`](Processor::dispatch) returns
//! when the current piece will be done unless it is preempted. The completion of a preempted piece is
//! recognised by its number.

use std::time::Duration;

use softtimers_core::Timestamp;

/// A priority: tasks of a higher level interrupt those of a lower one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Level(pub u8);

/// The identity of a task of a [`Processor`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TaskId(u32);

/// The costs and the level of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskConfig {
    pub(crate) level: Level,
    /// The cost of running after another thread or after idling; zero for an interrupt, whose entry is part
    /// of its work.
    pub(crate) switch: Duration,
    /// The cost of continuing after an interrupt, which has used the caches.
    pub(crate) pollution: Duration,
    /// How its cached data is evicted while others have the CPU.
    pub(crate) cooling: Cooling,
    /// Whether it is a thread, which needs a switch; after an interrupt, the interrupted thread is still
    /// current.
    pub(crate) thread: bool,
}

/// How a task loses its cached data and reloads it: other tasks evict it, more of it the longer they run, and
/// the task runs at half speed until it has reloaded that.
///
/// ```text
///   others    ████████            ████████            debt: a share of their time, at most all its cached data
///   process           ▒▒▒▒███████         ▒▒▒▒        ▒ at half speed, until the debt is paid
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cooling {
    /// Thousandths of the time that others had.
    pub(crate) share: u64,
    /// At most.
    pub(crate) most: Duration,
}

impl TaskConfig {
    pub(crate) const fn interrupt(level: Level) -> Self {
        let cooling = Cooling { share: 0, most: Duration::ZERO };
        TaskConfig { level, switch: Duration::ZERO, pollution: Duration::ZERO, cooling, thread: false }
    }

    pub(crate) const fn thread(level: Level, switch: Duration, pollution: Duration) -> Self {
        TaskConfig { switch, pollution, thread: true, ..TaskConfig::interrupt(level) }
    }
}

/// The piece of work that a completion belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attempt(u64);

/// The outcome of [`dispatch`](Processor::dispatch).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dispatched {
    /// The same task continues.
    Unchanged,
    /// Another piece runs, and will be done at this time unless it is preempted: schedule its completion.
    Runs(Timestamp, Attempt),
    /// Another task runs, with endless work.
    Endless,
    /// No task has work any more.
    Idle,
}

/// A CPU with its tasks.
///
/// # Cost
/// O(1) for each dispatch; nothing is allocated after set-up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processor {
    tasks: Vec<Task>,
    /// The tasks by level, highest first, and among equals as they were added.
    ranked: Vec<usize>,
    /// A bit for each task that has work, at its rank.
    ready: u64,
    running: Option<usize>,
    /// When the running task got the CPU; nanoseconds, as all times below.
    since: u64,
    attempt: u64,
    /// The task whose piece was done last: if it has more work, it runs before others of its level.
    holder: Option<usize>,
    /// The thread that ran last.
    current: Option<usize>,
    idle: bool,
}

#[derive(Clone, Debug)]
struct Task {
    level: Level,
    thread: bool,
    /// The costs of its configuration.
    switch: u64,
    pollution: u64,
    share: u64,
    most: u64,
    rank: usize,
    /// The remaining time of its piece of work.
    left: Option<u64>,
    interrupted: bool,
    /// The first part of `left`, for the switch.
    cost: u64,
    /// The part of `left` caused by cold caches, which follows at half speed.
    cold: u64,
    /// The time that cold caches will still cost, `cold` included.
    debt: u64,
    /// When it last had the CPU.
    ran_until: u64,
    spent: u64,
    overhead: u64,
}

impl Processor {
    pub(crate) fn new() -> Self {
        Processor::default()
    }

    /// Adds an idle task.
    ///
    /// # Panics
    /// If a task has work already, or there are 64.
    pub(crate) fn add(&mut self, config: TaskConfig) -> TaskId {
        assert!(self.ready == 0 && self.tasks.len() < 64, "all tasks are added first");
        let TaskConfig { level, switch, pollution, cooling, thread } = config;
        let rank = self.tasks.iter().filter(|task| task.level >= level).count();
        self.tasks.iter_mut().filter(|task| task.rank >= rank).for_each(|task| task.rank += 1);
        self.ranked.insert(rank, self.tasks.len());
        self.tasks.push(Task {
            level,
            thread,
            switch: nanos(switch),
            pollution: nanos(pollution),
            share: cooling.share,
            most: nanos(cooling.most),
            rank,
            left: None,
            interrupted: false,
            cost: 0,
            cold: 0,
            debt: 0,
            ran_until: 0,
            spent: 0,
            overhead: 0,
        });
        TaskId(self.tasks.len() as u32 - 1)
    }

    /// Gives an idle task a piece of work; [`Duration::MAX`] never ends. Call [`dispatch`](Self::dispatch)
    /// after all events of this time are handled.
    ///
    /// # Panics
    /// If it has work already.
    #[inline]
    pub(crate) fn give(&mut self, task: TaskId, work: Duration) {
        let task = &mut self.tasks[task.0 as usize];
        assert!(task.left.is_none(), "the task has work already");
        task.left = Some(nanos(work));
        self.ready |= 1 << task.rank;
    }

    /// Returns whether a task is idle.
    #[inline]
    pub(crate) fn is_idle(&self, task: TaskId) -> bool {
        self.tasks[task.0 as usize].left.is_none()
    }

    #[cfg(test)]
    pub(crate) fn is_running(&self, task: TaskId) -> bool {
        self.running == Some(task.0 as usize)
    }

    /// Lets the task of the highest level run.
    #[inline]
    pub(crate) fn dispatch(&mut self, now: Timestamp) -> Dispatched {
        let now = now.as_nanos();
        let best = self.best();
        self.holder = None;
        let Some(best) = best else {
            self.current = None;
            return if std::mem::replace(&mut self.idle, true) {
                Dispatched::Unchanged
            } else {
                Dispatched::Idle
            };
        };
        if self.running == Some(best) {
            return Dispatched::Unchanged;
        }
        self.idle = false;
        self.preempt(now);
        let task = &mut self.tasks[best];
        let mut cost = 0;
        if task.thread {
            if task.interrupted {
                cost = task.pollution;
            } else if self.current != Some(best) {
                cost = task.switch;
            }
            if task.interrupted || self.current.is_some_and(|other| other != best) {
                let evicted = (now - task.ran_until).saturating_mul(task.share) / 1_000;
                task.debt = task.debt.saturating_add(evicted).min(task.most);
            }
            self.current = Some(best);
        }
        task.interrupted = false;
        task.overhead += cost;
        let work = task.left.unwrap_or(0);
        task.cost = cost;
        task.cold = task.debt.min(work);
        let left = work.saturating_add(cost).saturating_add(task.cold);
        task.left = Some(left);
        (self.running, self.since) = (Some(best), now);
        self.attempt += 1;
        if left == ENDLESS {
            Dispatched::Endless
        } else {
            Dispatched::Runs(Timestamp::from_nanos(now.saturating_add(left)), Attempt(self.attempt))
        }
    }

    /// Handles a completion: returns whose piece is done, or `None` if that was preempted. The owner gives
    /// the next piece, if there is one, before the next [`dispatch`](Self::dispatch).
    #[inline]
    pub(crate) fn finished(&mut self, now: Timestamp, attempt: Attempt) -> Option<TaskId> {
        let index = self.running.filter(|_| attempt.0 == self.attempt)?;
        let task = &mut self.tasks[index];
        task.spent += now.as_nanos() - self.since;
        task.left = None;
        self.ready &= !(1 << task.rank);
        task.debt -= task.cold;
        task.ran_until = now.as_nanos();
        self.running = None;
        self.holder = Some(index);
        Some(TaskId(index as u32))
    }

    /// Returns the CPU time of a task until it last stopped running, switches included.
    #[cfg(test)]
    pub(crate) fn spent(&self, task: TaskId) -> Duration {
        Duration::from_nanos(self.tasks[task.0 as usize].spent)
    }

    /// Returns the CPU time spent on its own work, up to now.
    pub(crate) fn worked(&self, task: TaskId, now: Timestamp) -> Duration {
        let running = self.running == Some(task.0 as usize);
        let underway = if running { now.as_nanos().saturating_sub(self.since) } else { 0 };
        let Task { spent, overhead, .. } = &self.tasks[task.0 as usize];
        Duration::from_nanos((spent + underway).saturating_sub(*overhead))
    }

    /// The task with work at the highest level; among equals the one that has the CPU, otherwise the one
    /// added first.
    #[inline]
    fn best(&self) -> Option<usize> {
        let first = *self.ranked.get(self.ready.trailing_zeros() as usize)?;
        let equal = |holder: &usize| {
            let (holder, first) = (&self.tasks[*holder], &self.tasks[first]);
            holder.left.is_some() && holder.level == first.level
        };
        Some(self.running.or(self.holder).filter(equal).unwrap_or(first))
    }

    fn preempt(&mut self, now: u64) {
        let Some(index) = self.running.take() else { return };
        let task = &mut self.tasks[index];
        let ran = now - self.since;
        task.spent += ran;
        let paid = (ran.saturating_sub(task.cost) / 2).min(task.cold);
        let unpaid = task.cold - paid;
        task.debt -= paid;
        task.left = task.left.map(|left| {
            if left == ENDLESS { ENDLESS } else { left.saturating_sub(ran).saturating_sub(unpaid) }
        });
        task.interrupted = true;
        task.ran_until = now;
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

const ENDLESS: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    const fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn runs(dispatched: Dispatched) -> (Timestamp, Attempt) {
        match dispatched {
            Dispatched::Runs(time, attempt) => (time, attempt),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_interrupt_preempts_a_thread_which_pays_and_goes_on() {
        let mut cpu = Processor::new();
        let thread = cpu.add(TaskConfig::thread(Level(0), micros(5), micros(2)));
        let interrupt = cpu.add(TaskConfig::interrupt(Level(1)));
        cpu.give(thread, micros(100));
        let (done, first) = runs(cpu.dispatch(at(0)));
        assert_eq!(done, at(105), "a switch and its work");
        cpu.give(interrupt, micros(10));
        let (done, second) = runs(cpu.dispatch(at(50)));
        assert_eq!((done, cpu.finished(at(60), second)), (at(60), Some(interrupt)));
        let (done, third) = runs(cpu.dispatch(at(60)));
        assert_eq!(cpu.finished(at(105), first), None, "it was preempted meanwhile");
        assert_eq!((done, cpu.finished(done, third)), (at(117), Some(thread)));
        assert_eq!(cpu.spent(thread), micros(107));
    }

    #[test]
    fn equals_do_not_preempt_one_another() {
        let mut cpu = Processor::new();
        let [receive, transmit] = [(); 2].map(|()| cpu.add(TaskConfig::interrupt(Level(3))));
        cpu.give(transmit, micros(10));
        let (done, attempt) = runs(cpu.dispatch(at(0)));
        cpu.give(receive, micros(10));
        assert_eq!(cpu.dispatch(at(5)), Dispatched::Unchanged);
        assert_eq!(cpu.finished(done, attempt), Some(transmit));
        // Both have more work.
        cpu.give(transmit, micros(10));
        let (done, attempt) = runs(cpu.dispatch(at(10)));
        assert_eq!(cpu.finished(done, attempt), Some(transmit));
        assert!(runs(cpu.dispatch(at(20))).0 == at(30) && cpu.is_running(receive));
    }

    #[test]
    fn a_thread_pays_for_switches_and_for_interruptions() {
        let mut cpu = Processor::new();
        let [user, other] =
            [0, 1].map(|level| cpu.add(TaskConfig::thread(Level(level), micros(7), micros(2))));
        let interrupt = cpu.add(TaskConfig::interrupt(Level(9)));
        cpu.give(user, Duration::MAX);
        assert_eq!(cpu.dispatch(at(0)), Dispatched::Endless);
        let preempted = |cpu: &mut Processor, task, now| {
            cpu.give(task, micros(10));
            let (done, attempt) = runs(cpu.dispatch(at(now)));
            assert_eq!(cpu.finished(done, attempt), Some(task));
            assert_eq!(cpu.dispatch(done), Dispatched::Endless);
            done
        };
        assert_eq!(preempted(&mut cpu, interrupt, 100), at(110));
        assert_eq!(preempted(&mut cpu, other, 200), at(217));
        // 7 for the first switch, 2 for each time that it was preempted; 10 and 17 were not its own.
        assert_eq!(cpu.worked(user, at(300)), micros(300 - 27 - 11));
    }

    /// A process of 100 µs on a CPU with an interrupt that has preempted it; the interrupt is done now.
    fn preempted(cooling: Cooling, interrupt: u64) -> (Processor, TaskId, Timestamp) {
        let mut cpu = Processor::new();
        let process = cpu.add(TaskConfig { cooling, ..TaskConfig::thread(Level(0), micros(7), micros(2)) });
        let device = cpu.add(TaskConfig::interrupt(Level(9)));
        cpu.give(process, micros(110));
        assert_eq!(runs(cpu.dispatch(at(0))).0, at(117), "nobody was before it");
        cpu.give(device, micros(interrupt));
        let (done, attempt) = runs(cpu.dispatch(at(17)));
        assert_eq!(cpu.finished(done, attempt), Some(device));
        (cpu, process, done)
    }

    #[test]
    fn a_preempted_process_is_slow_by_how_long_others_ran() {
        let cooling = Cooling { share: 250, most: micros(30) };
        for (interrupt, cold) in [(40, 10), (120, 30), (4_000, 30)] {
            let (mut cpu, process, now) = preempted(cooling, interrupt);
            let (done, attempt) = runs(cpu.dispatch(now));
            assert_eq!(done, now + micros(2 + cold + 100), "preempted for {interrupt} µs");
            assert_eq!(cpu.finished(done, attempt), Some(process));
            // Its caches are warm now.
            cpu.give(process, micros(100));
            assert_eq!(runs(cpu.dispatch(done)).0, done + micros(100));
        }
    }

    /// With cold caches it runs at half speed: a short run pays back no more than its own length.
    #[test]
    fn a_debt_is_paid_while_it_runs() {
        let (mut cpu, process, now) = preempted(Cooling { share: 1_000, most: micros(60) }, 500);
        let (done, _) = runs(cpu.dispatch(now));
        assert_eq!(done, now + micros(2 + 60 + 100));
        let (again, device) = (now + micros(42), TaskId(1));
        cpu.give(device, micros(10));
        let (done, attempt) = runs(cpu.dispatch(again));
        assert_eq!(cpu.finished(done, attempt), Some(device));
        // Of its 40 µs 20 were work and 20 paid; 40 are left, and 10 more were evicted.
        let (end, attempt) = runs(cpu.dispatch(done));
        assert_eq!((end, cpu.finished(end, attempt)), (done + micros(2 + 50 + 80), Some(process)));
        // A piece shorter than the debt pays only part of it.
        let (mut cpu, process, now) = preempted(Cooling { share: 1_000, most: micros(150) }, 500);
        let (done, attempt) = runs(cpu.dispatch(now));
        assert_eq!((done, cpu.finished(done, attempt)), (now + micros(2 + 200), Some(process)));
        cpu.give(process, micros(100));
        assert_eq!(runs(cpu.dispatch(done)).0, done + micros(150));
    }

    #[test]
    fn idling_is_told_once_and_costs_a_switch() {
        let mut cpu = Processor::new();
        let thread = cpu.add(TaskConfig::thread(Level(0), micros(7), micros(2)));
        assert_eq!(cpu.dispatch(at(0)), Dispatched::Idle);
        assert_eq!(cpu.dispatch(at(1)), Dispatched::Unchanged);
        for start in [10, 30] {
            cpu.give(thread, micros(1));
            let (done, attempt) = runs(cpu.dispatch(at(start)));
            assert_eq!(done, at(start + 8));
            assert_eq!(cpu.finished(done, attempt), Some(thread));
            assert_eq!(cpu.dispatch(done), Dispatched::Idle);
        }
    }

    #[test]
    fn a_piece_of_no_length_is_done_at_once() {
        let mut cpu = Processor::new();
        let interrupt = cpu.add(TaskConfig::interrupt(Level(0)));
        cpu.give(interrupt, Duration::ZERO);
        let (done, attempt) = runs(cpu.dispatch(at(4)));
        assert_eq!((done, cpu.finished(done, attempt)), (at(4), Some(interrupt)));
    }
}
