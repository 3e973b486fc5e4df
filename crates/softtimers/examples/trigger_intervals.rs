//! Measures how often a program passes trigger states, from inside and without privileges: for your own loop,
//! the counterpart of `softtimers probe`.
//!
//! `cargo run --release -p softtimers --example trigger_intervals` echoes datagrams to itself for a second, computes between
//! them, and prints at which trigger states it checked for due events, how far apart, and the intervals
//! without each kind.

use std::net::UdpSocket;
use std::time::Duration;

use softtimers::{Clock, Config, Histogram, Monotonic, Slack, SoftTimers, TriggerState};

enum Event {
    Tick,
    End,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(socket.local_addr()?)?;
    // Costs some 20 ns at each trigger state: for measurements, not for production.
    let mut timers = SoftTimers::new(Config::default().intervals_without_each(true));
    let begun = Monotonic.now();
    timers.schedule(begun, Duration::from_secs(1), Slack::EXACT, Event::End);
    timers.schedule(begun, TICK, Slack::EXACT, Event::Tick);

    let (mut ticks, mut sum) = (0u32, 0u64);
    'run: loop {
        socket.send(&[0; 64])?;
        let sent = timers.trigger(TriggerState::Send, Monotonic.now());
        let after_sending = std::iter::from_fn(|| timers.next(&sent)).collect::<Vec<_>>();
        socket.recv(&mut [0; 64])?;
        sum = (0..500u64).fold(sum, |sum, round| std::hint::black_box(sum.wrapping_mul(31) ^ round));
        let handled = timers.trigger(TriggerState::HandlerExit, Monotonic.now());
        let after_handling = std::iter::from_fn(|| timers.next(&handled)).collect::<Vec<_>>();
        for fired in after_sending.into_iter().chain(after_handling) {
            match fired.event {
                Event::Tick => {
                    ticks += 1;
                    timers.schedule(Monotonic.now(), TICK, Slack::EXACT, Event::Tick);
                }
                Event::End => break 'run,
            }
        }
    }

    let intervals = timers.intervals().ok_or("they were asked for")?;
    let all = intervals.all();
    println!("{ticks} events of {TICK:?}\n");
    println!("| place | share | mean | median | max | > 100 us | > 150 us |\n|---|---|---|---|---|---|---|");
    println!("| all | 100% | {} |", columns(&all));
    for state in TriggerState::ALL.into_iter().filter(|&state| intervals.ended_by(state).count() > 0) {
        let share = intervals.ended_by(state).count() as f64 / all.count() as f64 * 100.0;
        println!("| {state:?} | {share:.1}% | {} |", columns(intervals.ended_by(state)));
        if let Some(without) = intervals.without(state) {
            println!("| without {state:?} | | {} |", columns(without));
        }
    }
    Ok(())
}

/// Mean, median, maximum, and the shares of Table IV.
fn columns(of: &Histogram) -> String {
    let micros =
        |nanos: Option<f64>| nanos.map_or("–".to_owned(), |nanos| format!("{:.1} us", nanos / 1e3));
    let whole = |nanos: Option<u64>| micros(nanos.map(|nanos| nanos as f64));
    let over = |nanos| of.share_above(nanos) * 100.0;
    format!(
        "{} | {} | {} | {:.3}% | {:.3}%",
        micros(of.mean()),
        whole(of.quantile(0.5)),
        whole(of.max()),
        over(100_000),
        over(150_000)
    )
}

const TICK: Duration = Duration::from_micros(100);
