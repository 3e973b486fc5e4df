//! The cost of timers that never fire.

use std::future::{Future, ready};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use softtimers_lab::bench::Done;
use softtimers_trials::bar::Bar;
use softtimers_trials::cpu::of_thread;
use softtimers_trials::paired::Paired;
use softtimers_trials::random::Random;
use softtimers_trials::result::Table;
use tokio::time::Instant;

use crate::{SOFT, TOKIO, table};

const TIMES: u32 = 100_000;
const DELAY: Duration = Duration::from_secs(30);

/// Returns the CPU nanoseconds of one.
fn nanos(mut one: impl FnMut()) -> f64 {
    let begin = of_thread();
    (0..TIMES).for_each(|_| one());
    (of_thread() - begin).as_nanos() as f64 / f64::from(TIMES)
}

fn drops<F: Future>(future: F, wanted: Poll<()>) {
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(pin!(future).poll(&mut cx).map(|_| ()), wanted);
}

const MADE: &str = "sleep made, polled and dropped, ns";
const TIME_OUT: &str = "timeout(ready), ns";

pub(crate) fn creation(rounds: &usize) -> Done<Vec<Table>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _inside = runtime.enter();
    let mut cx = Context::from_waker(Waker::noop());
    // Others are sooner, as in a program with timers: a new timer need not wake a sleeping thread.
    let mut sooner = pin!(tokio::time::sleep(DELAY / 2));
    let mut soft_sooner = softtimers_tokio::sleep(DELAY / 2);
    assert!(
        sooner.as_mut().poll(&mut cx).is_pending() && Pin::new(&mut soft_sooner).poll(&mut cx).is_pending()
    );
    runtime.block_on(async { tokio::time::sleep(Duration::from_millis(3)).await });
    let measured = Paired::new(*rounds).as_a_whole().rounds(|_, round| {
        round.put(SOFT, MADE, nanos(|| drops(softtimers_tokio::sleep(DELAY), Poll::Pending)));
        round.put(TOKIO, MADE, nanos(|| drops(tokio::time::sleep(DELAY), Poll::Pending)));
        round.put(
            SOFT,
            TIME_OUT,
            nanos(|| drops(softtimers_tokio::timeout(DELAY, ready(1)), Poll::Ready(()))),
        );
        round.put(TOKIO, TIME_OUT, nanos(|| drops(tokio::time::timeout(DELAY, ready(1)), Poll::Ready(()))));
        Done::Ok(())
    })?;
    let mut made = table("creation", &measured, &[(MADE, 1), (TIME_OUT, 1)]);
    for figure in [MADE, TIME_OUT] {
        let ratio = measured.ratio(figure, SOFT, TOKIO);
        made.bar(Bar::at_most(format!("{figure}: against tokio's"), 1.0, ratio));
    }
    let mut tables = vec![made];
    for pending in [100, 10_000, 100_000] {
        tables.push(resets(*rounds, pending)?);
    }
    Ok(tables)
}

const NANOS: &str = "ns";

/// Moves a time-out with each packet, one of `pending` at random, in an entered runtime.
fn resets(rounds: usize, pending: u64) -> Done<Table> {
    let mut cx = Context::from_waker(Waker::noop());
    let mut soft: Vec<_> = (0..pending).map(|_| softtimers_tokio::sleep(DELAY)).collect();
    let mut tokio: Vec<_> = (0..pending).map(|_| Box::pin(tokio::time::sleep(DELAY))).collect();
    for (soft, tokio) in soft.iter_mut().zip(&mut tokio) {
        assert!(Pin::new(soft).poll(&mut cx).is_pending() && tokio.as_mut().poll(&mut cx).is_pending());
    }
    let measured = Paired::new(rounds).as_a_whole().rounds(|_, round| {
        let mut random = Random::new();
        let mut next = || (random.below(pending) as usize, Instant::now() + DELAY);
        // The cost of the random number and of the caller's clock is subtracted.
        let nobody = nanos(|| _ = black_box(next()));
        let ours = nanos(|| {
            let (number, deadline) = next();
            soft[number].reset(deadline);
        });
        let theirs = nanos(|| {
            let (number, deadline) = next();
            tokio[number].as_mut().reset(deadline);
        });
        round.put(SOFT, NANOS, ours - nobody);
        round.put(TOKIO, NANOS, theirs - nobody);
        Done::Ok(())
    })?;
    let key = format!("{pending} pending, reset to now and 30 s");
    let mut table = table(&key, &measured, &[(NANOS, 1)]);
    table.bar(Bar::at_most(format!("{key}: against tokio's"), 1.0, measured.ratio(NANOS, SOFT, TOKIO)));
    Ok(table)
}
