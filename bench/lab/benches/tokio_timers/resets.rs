//! The cost of moving a deadline among many.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use softtimers_lab::bench::Done;
use softtimers_trials::bar::Bar;
use softtimers_trials::cpu::of_thread;
use softtimers_trials::paired::Paired;
use softtimers_trials::random::Random;
use softtimers_trials::result::Table;
use tokio::time::Instant;

use crate::{SOFT, TOKIO, table};

const SLEEPS: usize = 100_000;
const RESETS: u32 = 400_000;
/// The resets between two checks of the drivers.
const AT_A_TIME: u32 = 100;

/// Returns the CPU nanoseconds of one turn of the loop, in which the runtime checks its drivers now and then.
async fn nanos(mut reset: impl FnMut(usize, Instant)) -> f64 {
    let mut random = Random::new();
    let begin = of_thread();
    for _ in 0..RESETS / AT_A_TIME {
        for _ in 0..AT_A_TIME {
            let number = random.below(SLEEPS as u64) as usize;
            // Ten seconds to a minute: time-outs of connections.
            let delay = Duration::from_micros(10_000_000 + random.below(50_000_000));
            reset(number, Instant::now() + delay);
        }
        tokio::task::yield_now().await;
    }
    (of_thread() - begin).as_nanos() as f64 / f64::from(RESETS)
}

fn first(number: usize) -> Instant {
    Instant::now() + Duration::from_secs(30) + Duration::from_micros(number as u64)
}

const NANOS: &str = "ns";

/// The bodies are not async functions per round, since all rounds move the same sleeps.
pub(crate) fn random(rounds: &usize) -> Done<Vec<Table>> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = softtimers_tokio::trigger_at_park(&mut builder).enable_all().build()?;
    let entered = runtime.enter();
    let mut cx = Context::from_waker(Waker::noop());
    let mut soft: Vec<_> = (0..SLEEPS).map(|number| softtimers_tokio::sleep_until(first(number))).collect();
    let mut tokio: Vec<_> =
        (0..SLEEPS).map(|number| Box::pin(tokio::time::sleep_until(first(number)))).collect();
    for (soft, tokio) in soft.iter_mut().zip(&mut tokio) {
        assert!(Pin::new(soft).poll(&mut cx).is_pending() && tokio.as_mut().poll(&mut cx).is_pending());
    }
    drop(entered);
    let measured = Paired::new(*rounds).as_a_whole().rounds(|_, round| {
        // The cost of the random number, the caller's clock and the yield is subtracted.
        let nobody = runtime.block_on(nanos(|number, deadline| {
            std::hint::black_box((number, deadline));
        }));
        let ours = runtime.block_on(nanos(|number, deadline| soft[number].reset(deadline)));
        let theirs = runtime.block_on(nanos(|number, deadline| tokio[number].as_mut().reset(deadline)));
        round.put(SOFT, NANOS, ours - nobody);
        round.put(TOKIO, NANOS, theirs - nobody);
        Done::Ok(())
    })?;
    let mut table = table("100,000 pending, one reset at random", &measured, &[(NANOS, 1)]);
    let ratio = measured.ratio(NANOS, SOFT, TOKIO);
    table.bar(Bar::at_most("100,000 pending, one reset at random: against tokio's", 0.6, ratio));
    Ok(vec![table])
}
