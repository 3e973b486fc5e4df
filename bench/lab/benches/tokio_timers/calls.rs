//! The system calls of a tick: futexes, waits for events and settings of a kernel timer, counted by `perf` from
//! outside. Separate from the [grid](crate::grid), since counting costs time.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use softtimers_lab::bench::Done;
use softtimers_trials::paired::{Paired, Round};
use softtimers_trials::result::Table;

use crate::grid::{Beside, CONTENDERS, Cell, SET_UP, TIME, Whose, cells, tasks};

/// A column, and the calls in it.
const FIGURES: [(&str, &[&str]); 3] = [
    ("futex calls a tick", &["futex"]),
    ("event waits a tick", &["epoll_wait", "epoll_pwait", "epoll_pwait2"]),
    ("settimes a tick", &["timerfd_settime"]),
];

pub(crate) fn calls(rounds: &usize) -> Done<Vec<Table>> {
    let mut cells = cells();
    cells.retain(|cell| cell.workers == 2 && cell.beside == Beside::Idle && cell.rate() >= 10_000.0);
    let mut contenders = CONTENDERS;
    let measured = Paired::new(*rounds).as_a_whole().contest(
        &cells,
        &mut contenders,
        |cell, (name, whose), round| {
            if whose.has_tasks() { count(cell, name, *whose, round) } else { Ok(()) }
        },
    )?;
    let rows = cells.iter().flat_map(|cell| CONTENDERS.map(|(name, whose)| (cell, name, whose)));
    let rows = rows.filter(|(.., whose)| whose.has_tasks()).map(|(cell, name, _)| cell.row(name));
    let mut table = Table::of("calls", &measured, rows, &FIGURES.map(|(name, _)| (name, 3)));
    "cell".clone_into(&mut table.columns[0]);
    Ok(vec![table])
}

fn count(cell: &Cell, name: &str, whose: Whose, round: &mut Round) -> Done {
    let runtime = cell.runtime()?;
    let counting = std::thread::spawn(perf);
    let ticked = runtime.block_on(tasks(cell, whose));
    let output = counting.join().ok().flatten();
    let text = output.filter(|output| output.status.success());
    let text = text.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    let each = (ticked.late.len() as f64 / ticked.took.as_secs_f64()) * COUNTED.as_secs_f64();
    for (figure, calls) in FIGURES {
        round.put(
            &cell.row(name),
            figure,
            text.as_deref().and_then(|text| sum(text, calls)).map(|sum| sum / each),
        );
    }
    Ok(())
}

/// Counts the calls of all threads of this process once the ticks have begun.
#[expect(clippy::disallowed_methods, reason = "a bench that waits for its tasks")]
fn perf() -> Option<Output> {
    std::thread::sleep(SET_UP + MARGIN);
    let events =
        FIGURES.iter().flat_map(|(_, calls)| *calls).map(|call| format!("syscalls:sys_enter_{call}"));
    let mut command = Command::new("perf");
    command.args(["stat", "-x,", "-e", &events.collect::<Vec<_>>().join(","), "-p"]);
    command.arg(std::process::id().to_string()).args(["--", "sleep", &COUNTED.as_secs_f64().to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).output().ok()
}

/// Sums the calls of these names, from lines that begin `COUNT,,syscalls:sys_enter_NAME,`; `None` if none was counted.
fn sum(text: &str, calls: &[&str]) -> Option<f64> {
    let counts = text.lines().filter_map(|line| {
        let mut words = line.split(',');
        let count = words.next()?.parse::<f64>().ok()?;
        let call = words.nth(1)?.strip_prefix("syscalls:sys_enter_")?;
        calls.contains(&call).then_some(count)
    });
    counts.reduce(|sum, count| sum + count)
}

/// Time for the workers to start, and for `perf` to end before they do.
const MARGIN: Duration = Duration::from_millis(20);
const COUNTED: Duration = Duration::from_millis(200);
const _: () = assert!(COUNTED.as_millis() + 4 * MARGIN.as_millis() <= TIME.as_millis());
