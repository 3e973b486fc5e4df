//! The paper's network experiment (soft timers §5.7, Tables X and XI) with today's protocol: how long a transfer takes
//! over a round trip of 100 ms, by slow start and at the known capacity.
//!
//! QUIC of quinn-proto runs in virtual time over a path of `softtimers-wan`; the client waits for the last byte of the
//! answer:
//!
//! ```text
//!   client ──── request ────▶ 50 ms ──────────────────────────────────▶ server
//!          ◀─── answer ────── 50 ms ◀─ ▐ 50 or 100 Mbit/s ▌ ◀─ queue ◀─ ▣ gate, where it is paced
//!   with set-up: a handshake first, which takes a round trip
//! ```
//!
//! | way | sends |
//! |---|---|
//! | [`Way::TwoPackets`] | quinn's slow start, from an initial window of two packets as in the paper |
//! | [`Way::Default`] | quinn unchanged: from ten packets |
//! | [`Way::Known`] | paced at the capacity from the first packet, or from a fraction of it |

mod peer;
mod transfer;

pub use transfer::{PACKET, Path, Way, restart, time};

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns by how many percent the second one is shorter.
    fn reduction(before: f64, after: f64) -> f64 {
        100.0 * (1.0 - after / before)
    }

    fn seconds(mbit: u64, way: Way, packets: u64, set_up: bool) -> f64 {
        time(Path { mbit }, way, packets, set_up).unwrap().as_secs_f64()
    }

    #[test]
    fn a_hundred_packets_come_in_a_quarter_of_the_time_of_slow_start() {
        for mbit in [50, 100] {
            let slow_start = seconds(mbit, Way::TwoPackets, 100, false);
            let known = seconds(mbit, Way::Known { percent: 100 }, 100, false);
            let reduction = reduction(slow_start, known);
            println!("{mbit} Mbit/s: {slow_start:.3} s, {known:.3} s: {reduction:.0}%");
            assert!((75.0..92.0).contains(&reduction), "{reduction:.1}%");
        }
    }

    /// With fewer packets to send there is less to gain, and with more, too.
    #[test]
    fn small_and_large_transfers_gain_less() {
        let gain = |packets| {
            let known = seconds(100, Way::Known { percent: 100 }, packets, false);
            reduction(seconds(100, Way::TwoPackets, packets, false), known)
        };
        let [small, middle, large] = [5, 100, 10_000].map(gain);
        assert!(small < middle && large < middle, "{small:.0}% {middle:.0}% {large:.0}%");
    }

    /// Slow start takes up to half a round trip more, because the end of the handshake uses part of the first window.
    #[test]
    fn setting_a_connection_up_takes_a_round_trip() {
        for (way, most) in
            [(Way::TwoPackets, 0.16), (Way::Default, 0.13), (Way::Known { percent: 100 }, 0.11)]
        {
            let more = seconds(100, way, 100, true) - seconds(100, way, 100, false);
            println!("{way:?}: {more:.3} s more");
            assert!((0.05..most).contains(&more), "{way:?}: {more:.3} s");
        }
    }

    /// After 5 s of silence: at the rate at which the last answer was acknowledged, not at the fraction.
    #[test]
    fn after_an_idle_time_the_rate_of_the_last_busy_period_holds() {
        let way = Way::Known { percent: 10 };
        let first = time(Path { mbit: 100 }, way, 2_000, false).unwrap().as_secs_f64();
        let again = restart(Path { mbit: 100 }, way, 2_000).unwrap().as_secs_f64();
        let at_once = seconds(100, Way::Known { percent: 100 }, 2_000, false);
        println!("{first:.3} s, again {again:.3} s; at the capacity {at_once:.3} s");
        assert!(again < first && again < at_once * 1.15, "{first:.3} {again:.3} {at_once:.3}");
    }

    #[test]
    fn a_run_can_be_repeated() {
        let run = || time(Path { mbit: 50 }, Way::Known { percent: 50 }, 200, true).unwrap();
        assert_eq!(run(), run());
    }
}
