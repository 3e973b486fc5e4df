//! The paper's bound on the kernel's own tick (soft timers §3): events of a program that passes no
//! trigger state at all, found by the periodic interrupt alone.
//!
//! A busy machine serves a tick late, and then the bound falls with it. So each event is held to the
//! bound plus the lateness of the very tick that found it, which is known: ticks have nominal times.
//!
//! ```text
//!   scheduled      T + 1       nominal tick    served
//!       │────────────│──────────────┃─ overrun ──●      delay < T + X + 1 + overrun
//! ```

use std::num::NonZeroU32;
use std::time::Duration;

use softtimers::{Backup, Clock, Config, Monotonic, Slack, SoftTimers, TriggerState};

#[test]
fn on_the_tick_alone_only_overruns_break_the_bound() {
    // The typical clocks: 1 MHz, backed up at 1 kHz.
    let (tick, period, ticks) = (Duration::from_micros(1), Duration::from_millis(1), 300);
    let hz = NonZeroU32::new(1_000).unwrap();
    let mut timers = SoftTimers::new(Config::default().clock_step(tick));
    let origin = Monotonic.now();
    let mut backup = Backup::tick(hz, origin).unwrap();
    assert_eq!(backup.tick_hz(), Some(hz));

    let t = 40 * tick;
    let bound = t + period + tick;
    let (mut served, mut scheduled, mut fired, mut violations) = (0, 0, 0, 0);
    while served < ticks {
        // Phases all over the period: some events have nearly all of it before them.
        for phase in 1..10 {
            let at = origin + period * served as u32 + period / 10 * phase;
            while Monotonic.now() < at {}
            let now = Monotonic.now();
            timers.schedule(now, t, Slack::DEFERRABLE, now);
            scheduled += 1;
        }
        backup.wait().unwrap();
        let expirations = backup.expired().unwrap();
        served += expirations;
        let now = Monotonic.now();
        // How late this visit is: it stands for all ticks since the last one.
        let last = now.saturating_duration_since(origin + period * served as u32);
        let overrun = last + period * (expirations as u32 - 1);
        let turn = timers.trigger(TriggerState::Backup, now);
        while let Some(event) = timers.next(&turn) {
            let delay = now.saturating_duration_since(event.event);
            assert!(delay > t, "never early: {delay:?}");
            assert!(delay < bound + overrun, "{delay:?}, found by a tick that was late by {overrun:?}");
            fired += 1;
            violations += u64::from(delay >= bound);
        }
    }
    let stats = backup.stats();
    assert_eq!((stats.set, stats.cleared, stats.expirations), (0, 0, served), "nothing but the tick");
    // Those of the last period have not had their tick yet.
    assert!(fired <= scheduled && scheduled - fired <= 9, "{fired} of {scheduled}");
    println!("{violations} of {fired} events beyond the bound, each by less than its tick was late");
}
