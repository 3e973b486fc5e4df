//! One sentence from all the figures: whether this machine's programs would gain.

use super::{Cell, Costs, Load};

/// The verdict, with its reason.
pub(super) fn of(costs: &Costs, cells: &[Cell]) -> String {
    let find = |method: &str, busy| cells.iter().find(|cell| cell.method == method && cell.busy == busy);
    let (Some(soft), Some(pwait2)) = (find("soft", Load::Echo), find("pwait2", Load::Echo)) else {
        return "no verdict: a trial is missing".to_owned();
    };
    let late = |value: Option<u64>| value.map_or("-".to_owned(), |nanos| format!("{} us", nanos / 1_000));
    let idle = format!(
        "an idle program with one timer needs only epoll_pwait2 and a timer slack of 1 ns (late by {} instead of {})",
        late(costs.wakeup_late_slack1_ns.p50),
        late(costs.wakeup_late_default_ns.p50),
    );
    if holds(soft) && !holds(pwait2) {
        format!(
            "a busy loop here gains from softtimers: {:.0}% of the rate and {:.1}% back to back, against {:.0}% and \
             {:.1}% with the wait's own time-out; {idle}",
            soft.achieved_share * 100.0,
            soft.back_to_back.unwrap_or(1.0) * 100.0,
            pwait2.achieved_share * 100.0,
            pwait2.back_to_back.unwrap_or(1.0) * 100.0,
        )
    } else if holds(soft) {
        format!(
            "you do not need softtimers for one flow on this machine: the wait's own time-out holds it too; {idle}"
        )
    } else {
        format!(
            "no method was shown to hold 25,000 packets/s from a busy loop here ({:.0}% of the rate at best); {idle}",
            cells.iter().map(|cell| cell.achieved_share * 100.0).fold(0.0, f64::max),
        )
    }
}

/// The rate is held, evenly.
fn holds(cell: &Cell) -> bool {
    cell.achieved_share >= 0.98 && cell.back_to_back.is_some_and(|share| share <= 0.02)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(method: &str, busy: Load, achieved_share: f64, back_to_back: f64) -> Cell {
        Cell {
            method: method.to_owned(),
            busy,
            achieved_share,
            back_to_back: Some(back_to_back),
            ..Cell::default()
        }
    }

    #[test]
    fn it_says_when_softtimers_is_not_needed() {
        let both = [cell("soft", Load::Echo, 1.0, 0.0), cell("pwait2", Load::Echo, 1.0, 0.01)];
        assert!(of(&Costs::default(), &both).starts_with("you do not need softtimers"));
        let one = [cell("soft", Load::Echo, 1.0, 0.0), cell("pwait2", Load::Echo, 0.4, 0.3)];
        assert!(of(&Costs::default(), &one).starts_with("a busy loop here gains"));
        let none = [cell("soft", Load::Echo, 0.5, 0.0), cell("pwait2", Load::Echo, 0.4, 0.3)];
        assert!(of(&Costs::default(), &none).contains("50% of the rate at best"));
        assert!(of(&Costs::default(), &[]).starts_with("no verdict"));
    }
}
