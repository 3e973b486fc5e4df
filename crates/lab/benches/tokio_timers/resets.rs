//! What it costs to move a deadline among many.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use softtimers_bench::random::Random;
use tokio::time::Instant;

use crate::cpu::cpu_time;
use crate::{Rounds, run};

const SLEEPS: usize = 100_000;
const RESETS: u32 = 400_000;
/// Between two looks at the drivers.
const AT_A_TIME: u32 = 100;

/// CPU ns of one turn of the loop, in which the runtime looks at its drivers now and then.
async fn nanos(mut reset: impl FnMut(usize, Instant)) -> f64 {
    let mut random = Random::new();
    let begin = cpu_time();
    for _ in 0..RESETS / AT_A_TIME {
        for _ in 0..AT_A_TIME {
            let number = random.below(SLEEPS as u64) as usize;
            // Ten seconds to a minute: time-outs of connections.
            let delay = Duration::from_micros(10_000_000 + random.below(50_000_000));
            reset(number, Instant::now() + delay);
        }
        tokio::task::yield_now().await;
    }
    (cpu_time() - begin).as_nanos() as f64 / f64::from(RESETS)
}

fn first(number: usize) -> Instant {
    Instant::now() + Duration::from_secs(30) + Duration::from_micros(number as u64)
}

pub(crate) fn random(rounds: usize) {
    run(async {
        let mut cx = Context::from_waker(Waker::noop());
        let mut soft: Vec<_> =
            (0..SLEEPS).map(|number| softtimers_tokio::sleep_until(first(number))).collect();
        let mut tokio: Vec<_> =
            (0..SLEEPS).map(|number| Box::pin(tokio::time::sleep_until(first(number)))).collect();
        for (soft, tokio) in soft.iter_mut().zip(&mut tokio) {
            assert!(Pin::new(soft).poll(&mut cx).is_pending() && tokio.as_mut().poll(&mut cx).is_pending());
        }
        let mut resets = Rounds { soft: Vec::new(), tokio: Vec::new() };
        for _ in 0..rounds {
            // What the random number, the caller's clock and the yield take is nobody's.
            let nobody = nanos(|number, deadline| {
                std::hint::black_box((number, deadline));
            });
            let nobody = nobody.await;
            resets.soft.push(nanos(|number, deadline| soft[number].reset(deadline)).await - nobody);
            resets
                .tokio
                .push(nanos(|number, deadline| tokio[number].as_mut().reset(deadline)).await - nobody);
        }
        resets.line("100,000 pending, one reset at random", "ns", "");
        resets.ratio("100,000 pending, one reset at random: ratio", "≤ 0.6");
    });
}
