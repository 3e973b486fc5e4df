//! The verdict: for which programs softtimers pays, and the figures of the full comparison; and remarks on other methods
//! that work, and their costs.
//!
//! softtimers is compared with methods without additional cost first: the wait's time-out or a kernel timer, then a clock
//! check after each handler, which any program can add to its loop, then with methods that run beside the loop at a cost:
//! a signal for each packet, or a second thread. `spin` decides nothing for a busy loop, which never sleeps anyway, so
//! there it equals `loop`.

use super::costs::Costs;
use super::programs::{self, Program};
use super::trial::{Cell, Load};
use crate::run::quantity::{or_dash, packets, time};

/// The verdict, and remarks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Verdict {
    /// Two sentences: the conclusion, and the figures it follows from.
    pub(super) sentences: String,
    /// The remarks, a sentence each.
    pub(super) remarks: Vec<String>,
}

impl Verdict {
    /// Creates a verdict without figures to judge by.
    pub(super) fn none(why: impl Into<String>) -> Self {
        Verdict { sentences: why.into(), remarks: vec![] }
    }
}

/// Returns the verdict on these programs with its reason, the full comparison; none if the figures are inconclusive.
pub(super) fn judge(costs: &Costs, programs: &[Program], cells: &[Cell], inconclusive: bool) -> Verdict {
    if inconclusive {
        return Verdict::none("inconclusive, so no verdict; examine the machine again when it is quiet");
    }
    let find = |method: &str| cells.iter().find(|cell| cell.method == method && cell.busy == Load::Echo);
    let (Some(soft), Some(own)) = (find("soft"), find("loop")) else {
        return Verdict::none("no verdict: a trial is missing");
    };
    let Some(kernel) = kernel(find) else {
        return Verdict::none("no verdict: a trial is missing");
    };
    if let Some(crowded) = [soft, own].into_iter().find(|cell| was_crowded(cell)) {
        return Verdict::none(format!(
            "no verdict: {} had its CPU for only {} of its busy trial, others had the rest; examine the \
             machine again when it is quiet",
            crowded.method,
            percent(crowded.cpu_share)
        ));
    }
    let beside = beside(find, soft).map(|(cell, _)| cell);
    let reason = busy(soft, own, kernel, beside);
    let mut remarks = vec![];
    if holds(soft) && holds(own) && !holds(kernel) {
        remarks.push(
            "softtimers adds many flows, slack, a fallback timer for when no handler runs, and an account of lateness."
                .to_owned(),
        );
    }
    if holds(soft) && !holds(kernel) {
        remarks.extend(
            beside.filter(|beside| holds(own) || !is_as_cheap(beside, soft)).map(|beside| also(beside, soft)),
        );
    }
    remarks.push(idle(costs));
    remarks.extend(spinning(cells));
    let answers = programs::sentences(programs);
    Verdict { sentences: format!("{answers}. {reason}."), remarks }
}

/// Returns the best kernel timer of these trials.
pub(super) fn kernel<'a>(find: impl Fn(&str) -> Option<&'a Cell>) -> Option<&'a Cell> {
    KERNEL.into_iter().filter_map(find).reduce(better)
}

/// Returns the best method beside the loop that holds the rate, and whether it costs no more than softtimers: such a one
/// makes softtimers unnecessary, even if another one retains more at a higher cost.
pub(super) fn beside<'a>(find: impl Fn(&str) -> Option<&'a Cell>, soft: &Cell) -> Option<(&'a Cell, bool)> {
    let all = || BESIDE.into_iter().filter_map(&find).filter(|cell| holds(cell));
    let as_cheap = all().filter(|cell| is_as_cheap(cell, soft)).reduce(leaves_more);
    as_cheap.map(|cell| (cell, true)).or_else(|| all().reduce(leaves_more).map(|cell| (cell, false)))
}

/// Returns the figures of the full comparison; `beside` is a method beside the loop that holds the rate, if any.
fn busy(soft: &Cell, own: &Cell, kernel: &Cell, beside: Option<&Cell>) -> String {
    let asked = packets(rate(soft));
    let row = soft.echo_batch.map_or_else(String::new, |batch| format!(" with {batch} in a row"));
    match (holds(soft), holds(own), holds(kernel)) {
        (_, _, true) => format!("A kernel timer holds {asked}{row}: {}", pacing_words(kernel)),
        (true, true, false) => format!(
            "At {asked}{row}, {} does as well as {}, where kernel timers do not: {} at best",
            pacing_words(own),
            pacing_words(soft),
            pacing_words(kernel)
        ),
        (true, false, false) => match beside {
            Some(beside) if is_as_cheap(beside, soft) => format!(
                "{} holds {asked}{row} too and keeps as much of the work, {} against {}",
                pacing_words(beside),
                percent(kept(beside)),
                percent(kept(soft))
            ),
            _ => format!(
                "At {asked}{row}: {}, against {} and {}",
                pacing_words(soft),
                pacing_words(own),
                pacing_words(kernel)
            ),
        },
        (false, true, false) => {
            format!("At {asked}{row}: {}, against {}", pacing_words(own), pacing_words(soft))
        }
        (false, false, false) => match beside {
            Some(beside) => format!(
                "At {asked}{row}, softtimers reaches {}; {} holds it, keeping {} of the work at {} of a core",
                pacing_words(soft),
                pacing_words(beside),
                percent(kept(beside)),
                percent(beside.cpu_share)
            ),
            None => format!(
                "At {asked}{row} none is even: {}, against {} and {}",
                pacing_words(soft),
                pacing_words(own),
                pacing_words(kernel)
            ),
        },
    }
}

fn is_as_cheap(beside: &Cell, soft: &Cell) -> bool {
    kept(beside) + TIE >= kept(soft) && beside.cpu_share <= soft.cpu_share + TIE
}

/// Names another method that holds the rate, and its cost.
fn also(beside: &Cell, soft: &Cell) -> String {
    let mut told = format!(
        "{} holds the rate too, and keeps {} of the work against {}",
        pacing_words(beside),
        percent(kept(beside)),
        percent(kept(soft))
    );
    if beside.cpu_share > soft.cpu_share + TIE {
        told += &format!(", at {} of a core against {}", percent(beside.cpu_share), percent(soft.cpu_share));
    }
    told + "."
}

/// Returns the advice for a program that sleeps anyway.
fn idle(costs: &Costs) -> String {
    let late = |value: Option<u64>| or_dash(value, time);
    format!(
        "An idle program with one timer needs only epoll_pwait2 and a timer slack of 1 ns: late by {} instead of {}.",
        late(costs.wakeup_late_slack1_ns.p50),
        late(costs.wakeup_late_default_ns.p50),
    )
}

/// Returns the cost of never sleeping for a loop that could sleep.
fn spinning(cells: &[Cell]) -> Option<String> {
    let made = |cell: &&Cell| cell.busy == Load::None && cell.not_made.is_none();
    let find = |method: &str| cells.iter().filter(made).find(|cell| cell.method == method);
    let (spin, soft) = (find("spin")?, find("soft")?);
    Some(format!(
        "An idle loop that spins takes {} of a core for {}, softtimers {}.",
        percent(spin.cpu_share),
        packets(rate(spin)),
        percent(soft.cpu_share)
    ))
}

fn rate(cell: &Cell) -> f64 {
    1e9 / cell.target_gap_ns.max(1) as f64
}

fn kept(cell: &Cell) -> f64 {
    cell.work_kept.unwrap_or(0.0)
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// Returns the cell that retains more of the throughput.
fn leaves_more<'a>(left: &'a Cell, right: &'a Cell) -> &'a Cell {
    if kept(right) > kept(left) { right } else { left }
}

/// Says whether a loop that is never idle lost its CPU to others and fell behind for it: a method is not judged by
/// their interference.
pub(super) fn was_crowded(cell: &Cell) -> bool {
    let taken = ["scheduler", "steal"].iter().filter_map(|&cause| cell.late.get(cause));
    !holds(cell) && cell.cpu_share < LEAST_BUSY && taken.map(|late| late.count).sum::<u64>() > 0
}

/// Says whether the rate is held, evenly.
pub(super) fn holds(cell: &Cell) -> bool {
    keeps_rate(cell) && cell.back_to_back.is_some_and(|share| share <= MOST_BACK_TO_BACK)
}

/// Says whether the rate is kept, evenly or not.
pub(super) fn keeps_rate(cell: &Cell) -> bool {
    cell.achieved_share >= LEAST_SHARE
}

/// Returns the better cell: one that holds the rate, or else the higher rate.
fn better<'a>(left: &'a Cell, right: &'a Cell) -> &'a Cell {
    let rank = |cell: &Cell| (holds(cell), cell.achieved_share);
    if rank(right) > rank(left) { right } else { left }
}

fn pacing_words(cell: &Cell) -> String {
    let back_to_back =
        cell.back_to_back.map_or("no gaps".to_owned(), |share| format!("{:.1}% back to back", share * 100.0));
    format!("{} ({:.0}% of the rate, {back_to_back})", cell.method, cell.achieved_share * 100.0)
}

/// Methods that need no code besides the wait.
const KERNEL: [&str; 3] = ["pwait2", "timerfd", "ms"];
/// Methods that need no code in the loop either, but have a cost.
const BESIDE: [&str; 2] = ["signal", "thread"];
/// Differences in work and CPU below this count as equal: two trials differ by as much.
const TIE: f64 = 0.03;
/// A saturated loop on a CPU of its own uses at least 98% of it.
const LEAST_BUSY: f64 = 0.9;
const LEAST_SHARE: f64 = 0.98;
const MOST_BACK_TO_BACK: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_load::send::LateReport;

    fn cell(method: &str, busy: Load, achieved_share: f64, back_to_back: f64) -> Cell {
        Cell {
            method: method.to_owned(),
            busy,
            echo_batch: (busy == Load::Echo).then_some(16),
            target_gap_ns: 40_000,
            achieved_share,
            back_to_back: Some(back_to_back),
            ..Cell::default()
        }
    }

    /// Busy cells with these shares of the rate, in the order of the methods; idle ones are perfect.
    fn verdict(shares: [f64; 5]) -> String {
        let methods = ["soft", "loop", "pwait2", "timerfd", "ms"];
        let busy = methods.iter().zip(shares).map(|(method, share)| cell(method, Load::Echo, share, 0.0));
        let idle = methods.iter().map(|method| cell(method, Load::None, 1.0, 0.0));
        all_told(&busy.chain(idle).collect::<Vec<_>>())
    }

    fn judged(cells: &[Cell], inconclusive: bool) -> Verdict {
        judge(&Costs::default(), &programs::from_cells(cells), cells, inconclusive)
    }

    /// The sentences and the remarks.
    fn all_told(cells: &[Cell]) -> String {
        let Verdict { sentences, remarks } = judged(cells, false);
        [vec![sentences], remarks].concat().join(" ")
    }

    #[test]
    fn a_kernel_timer_that_holds_the_rate_is_enough() {
        let told = verdict([1.0, 1.0, 0.4, 0.99, 0.1]);
        assert!(told.starts_with("You do not need softtimers for one flow on this machine. For "), "{told}");
        assert!(told.contains("a kernel timer is enough. A kernel timer holds 25.0 kpps with 16 in a row"));
        assert!(told.contains(": timerfd (99% of the rate, 0.0% back to back). "), "{told}");
        assert!(verdict([0.5, 0.5, 1.0, 0.4, 0.1]).contains("pwait2 (100%"));
        assert!(verdict([1.0, 0.5, 0.4, 0.4, 1.0]).contains("ms (100%"));
    }

    #[test]
    fn a_clock_check_that_does_as_well_is_said_plainly() {
        let told = verdict([1.0, 0.99, 0.4, 0.6, 0.1]);
        assert!(told.contains("16 requests in a row a clock check after each handler is enough"), "{told}");
        assert!(told.contains("loop (99%") && told.contains("timerfd (60%"), "{told}");
        assert!(!told.contains("softtimers pays"), "{told}");
    }

    #[test]
    fn softtimers_is_praised_only_where_it_alone_holds_the_rate() {
        let told = verdict([1.0, 0.8, 0.4, 0.3, 0.1]);
        assert!(told.starts_with("For a loop that handles 16 requests in a row softtimers pays: "), "{told}");
        assert!(told.contains("At 25.0 kpps with 16 in a row: soft (100%"), "{told}");
        assert!(told.contains("against loop (80%") && told.contains("and pwait2 (40%"), "{told}");
    }

    #[test]
    fn softtimers_is_not_praised_where_it_alone_fails() {
        let told = verdict([0.9, 1.0, 0.4, 0.3, 0.1]);
        assert!(told.contains("16 requests in a row a clock check after each handler is enough"), "{told}");
        assert!(told.contains("loop (100%") && told.contains("soft (90%"), "{told}");
    }

    #[test]
    fn no_method_is_judged_by_what_others_did() {
        let late = |count| [("scheduler".to_owned(), LateReport { count, longest_ns: 48_000_000 })].into();
        let cells = |share, count| {
            let crowded = Cell { cpu_share: 0.5, late: late(count), ..cell("soft", Load::Echo, share, 0.0) };
            let others = ["loop", "pwait2"].map(|method| cell(method, Load::Echo, 0.6, 0.0));
            [vec![crowded], others.to_vec()].concat()
        };
        let told_of = |share, count| all_told(&cells(share, count));
        let told = judged(&cells(0.56, 15), false).sentences;
        assert!(told.starts_with("no verdict: soft had its CPU for only 50%"), "{told}");
        // A loop that holds the rate anyway counts, and so does one that was not disturbed.
        assert!(told_of(1.0, 15).contains("softtimers pays"));
        assert!(told_of(0.56, 0).contains("no method here holds the rate"));
    }

    /// `soft` keeps 90% of the work for 99% of a core; `signal` has the given figures.
    fn beside_signal(shares: [f64; 3], work_kept: f64, cpu_share: f64) -> String {
        let busy = ["soft", "loop", "pwait2"].iter().zip(shares);
        let mut cells: Vec<Cell> = busy
            .map(|(method, share)| Cell {
                work_kept: Some(0.9),
                cpu_share: 0.99,
                ..cell(method, Load::Echo, share, 0.0)
            })
            .collect();
        let signal = cell("signal", Load::Echo, 1.0, 0.0);
        cells.push(Cell { work_kept: Some(work_kept), cpu_share, ..signal });
        all_told(&cells)
    }

    #[test]
    fn what_goes_on_beside_the_loop_is_told_with_its_price() {
        let told = beside_signal([1.0, 1.0, 0.4], 0.5, 1.0);
        assert!(told.contains("a clock check after each handler is enough"), "{told}");
        let price = "signal (100% of the rate, 0.0% back to back) holds the rate too, and keeps 50% of the work \
                     against 90%";
        assert!(told.contains(price), "{told}");
        let told = beside_signal([1.0, 0.8, 0.4], 0.5, 1.0);
        assert!(told.contains("softtimers pays") && told.contains(price), "{told}");
    }

    #[test]
    fn softtimers_is_not_needed_where_something_else_is_as_cheap() {
        let told = beside_signal([1.0, 0.8, 0.4], 0.88, 1.0);
        assert!(told.contains("You do not need softtimers") && told.contains("a signal for each"), "{told}");
        assert!(told.contains("as much of the work, 88% against 90%"), "{told}");
        // A second core is a cost, however much throughput is retained.
        let told = beside_signal([1.0, 0.8, 0.4], 1.0, 1.3);
        assert!(told.contains("softtimers pays"), "{told}");
        assert!(told.contains("100% of the work against 90%, at 130% of a core against 99%"), "{told}");
    }

    /// A thread that keeps all of the work on a second core does not hide a signal without additional cost.
    #[test]
    fn the_cheap_one_is_found_beside_one_that_keeps_more() {
        let busy = |method, share, work_kept, cpu_share| Cell {
            work_kept: Some(work_kept),
            cpu_share,
            ..cell(method, Load::Echo, share, 0.0)
        };
        let all = |signal_kept| {
            [
                busy("soft", 1.0, 0.9, 0.99),
                busy("loop", 0.8, 0.9, 0.99),
                busy("pwait2", 0.4, 0.9, 0.99),
                busy("signal", 1.0, signal_kept, 0.99),
                busy("thread", 1.0, 1.0, 1.3),
            ]
        };
        let told = all_told(&all(0.9));
        assert!(told.contains("row a signal for each packet serves best. signal (100%"), "{told}");
        let told = all_told(&all(0.5));
        assert!(told.contains("softtimers pays") && told.contains("thread (100%"), "{told}");
    }

    #[test]
    fn where_only_an_interruption_holds_the_rate_it_is_said() {
        let told = beside_signal([0.7, 0.6, 0.6], 0.5, 1.0);
        assert!(told.contains("softtimers reaches soft (70%"), "{told}");
        assert!(
            told.contains("; signal (100%") && told.contains("holds it, keeping 50% of the work"),
            "{told}"
        );
    }

    #[test]
    fn what_spinning_costs_an_idle_loop_is_told() {
        let idle = |method, cpu_share| Cell { cpu_share, ..cell(method, Load::None, 1.0, 0.0) };
        let busy = ["soft", "loop", "pwait2"].map(|method| cell(method, Load::Echo, 1.0, 0.0));
        let cells: Vec<Cell> = busy.into_iter().chain([idle("spin", 1.0), idle("soft", 0.55)]).collect();
        let told = all_told(&cells);
        assert!(told.ends_with("spins takes 100% of a core for 25.0 kpps, softtimers 55%."), "{told}");
    }

    /// The sentence quotes the figures of a method's cell, with the digits shown.
    #[test]
    fn figures_are_the_cells() {
        let odd = Cell { back_to_back: Some(0.012_34), ..cell("ms", Load::Echo, 0.9876, 0.0) };
        assert_eq!(pacing_words(&odd), "ms (99% of the rate, 1.2% back to back)");
    }

    #[test]
    fn idle_loops_do_not_count() {
        let told = verdict([0.5, 0.7, 0.4, 0.3, 0.1]);
        assert!(told.contains("16 requests in a row no method here holds the rate"), "{told}");
        assert!(told.contains("none is even: soft (50%") && told.contains("against loop (70%"), "{told}");
    }

    #[test]
    fn a_rate_in_bursts_is_not_held() {
        let bursts = |method| cell(method, Load::Echo, 1.0, 0.3);
        let even = |method| cell(method, Load::Echo, 1.0, 0.01);
        let cells = [even("soft"), bursts("loop"), bursts("pwait2"), bursts("timerfd"), bursts("ms")];
        assert!(all_told(&cells).contains("softtimers pays"));
        let unmeasured = Cell { back_to_back: None, ..even("soft") };
        assert!(!holds(&unmeasured) && pacing_words(&unmeasured).contains("no gaps"));
    }

    #[test]
    fn there_is_no_verdict_on_half_the_figures() {
        let all = ["soft", "loop", "pwait2"].map(|method| cell(method, Load::Echo, 1.0, 0.0));
        for missing in [&all[..0], &all[..1], &all[..2], &all[1..]] {
            assert_eq!(judged(missing, false).sentences, "no verdict: a trial is missing");
        }
        assert!(judged(&all, true).sentences.starts_with("inconclusive, so no verdict"));
    }
}
