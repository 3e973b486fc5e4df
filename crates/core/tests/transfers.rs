//! How long a transfer takes over a path of 100 ms and back: by slow start, and paced at the capacity or from a
//! fraction of it, each with and without the round trip that sets a connection up (soft timers §5.7).
//!
//! `cargo test -p softtimers-core --test transfers -- --nocapture` prints the tables.

mod path;

use core::time::Duration;

use path::receiver::{DELAYED_ACK, Receiver};
use path::transfer::{Sender, Transfer};
use softtimers_core::pace::{Growth, SlowStart, StartRate};
use softtimers_core::{Percent, Rate};

const SIZES: [u64; 7] = [5, 10, 20, 100, 1_000, 10_000, 100_000];
const DELAY: Duration = Duration::from_millis(50);
const ROUND_TRIP: f64 = 0.1;

/// The slow link, and the ways to send over it.
struct Path {
    megabits: u64,
}

impl Path {
    fn capacity(&self) -> Rate {
        Rate::of_bits(self.megabits * 1_000_000, 1_500).unwrap()
    }

    /// From the request to the last packet, in seconds.
    fn time(&self, sender: Sender, packets: u64, every: u64, set_up: bool) -> f64 {
        let receiver = Receiver { every, ..Receiver::new(Duration::ZERO, Duration::ZERO) };
        let link = self.capacity().interval();
        Transfer { sender, packets, link, delay: DELAY, set_up, receiver }.time().as_secs_f64()
    }

    fn start(&self, percent: u32) -> StartRate {
        StartRate::new(self.capacity(), Percent::new(percent).unwrap()).unwrap()
    }

    /// What the path holds, so that it stays full once the window is as large.
    fn slow_start(&self, growth: Growth) -> Sender {
        let held = 2 * DELAY.as_nanos() / self.capacity().interval().as_nanos();
        Sender::SlowStart(SlowStart::new(held as u64 + 4, growth))
    }

    /// Each column: its name, how it sends, and of how many packets the receiver acknowledges each.
    fn columns(&self) -> [(&'static str, Sender, u64); 6] {
        [
            ("slow start", self.slow_start(Growth::PerPacket), 1),
            ("delayed ACKs", self.slow_start(Growth::PerAck), 2),
            ("paced", Sender::Paced(self.start(100)), 1),
            ("from 50%", Sender::Paced(self.start(50)), 1),
            ("from 10%", Sender::Paced(self.start(10)), 1),
            ("climbing", Sender::Climbing(self.start(10)), 1),
        ]
    }
}

/// What each column takes for `packets`, without set-up and with it.
fn row(path: &Path, packets: u64) -> Vec<(f64, f64)> {
    let times = |(_, sender, every): (_, Sender, u64)| {
        let time = |set_up| path.time(sender.clone(), packets, every, set_up);
        (time(false), time(true))
    };
    path.columns().into_iter().map(times).collect()
}

/// Both columns of each: a persistent connection, and a new one. And a sender that begins with half of what it
/// thinks there is keeps most of what pacing wins.
#[test]
#[cfg_attr(miri, ignore = "a million packets")]
fn a_table_with_and_without_connection_set_up() {
    for megabits in [50, 100] {
        let path = Path { megabits };
        println!("{megabits} Mbit/s, 100 ms; seconds on a connection / with its set-up");
        let names = path.columns().map(|(name, ..)| format!("{name:>19}"));
        println!("{:>8}{}", "packets", names.concat());
        for packets in SIZES.into_iter().filter(|&packets| megabits == 100 || packets <= 10_000) {
            let row = row(&path, packets);
            let shown: String = row.iter().map(|(on, new)| format!("{on:>9.3} /{new:>8.3}")).collect();
            println!("{packets:>8}{shown}");
            for (column, (on, new)) in row.iter().enumerate() {
                // The delayed-ACK timer goes off when it does, whenever the transfer began.
                let phase = if column == 1 { DELAYED_ACK.as_secs_f64() } else { 1e-9 };
                assert!((new - on - ROUND_TRIP).abs() < phase, "one round trip more: {on} and {new}");
            }
            let [slow, delayed, paced, half, tenth, climbing] =
                [0, 1, 2, 3, 4, 5].map(|column: usize| row[column].0);
            assert!(paced <= half && half <= tenth && climbing <= tenth, "{row:?}");
            assert!(paced <= slow && slow <= delayed, "{row:?}");
            // Paced, the last packet is there after the round trip and what all of them take on the link.
            let least = ROUND_TRIP + packets as f64 * path.capacity().interval().as_secs_f64();
            assert!((paced - least).abs() < 1e-6, "{paced}, not {least}");
        }
    }
}

/// The figures that the papers' texts pin down: 100 packets at 100 Mbit/s.
#[test]
fn a_hundred_packets_take_what_the_model_says() {
    let path = Path { megabits: 100 };
    let row = row(&path, 100);
    let reduction = |column: usize| 1.0 - row[2].0 / row[column].0;
    println!("{:.1}% and {:.1}% less", reduction(0) * 100.0, reduction(1) * 100.0);
    assert!((row[0].0 - 0.605).abs() < 0.001 && (row[2].0 - 0.112).abs() < 0.001, "{row:?}");
    // Doubling gives 81%; half as many more in each round trip 88%, the paper 89%.
    assert!((reduction(0) - 0.81).abs() < 0.01 && reduction(1) >= 0.87, "{row:?}");
    // With the connection's set-up both sides take as much longer, and less is won.
    let with_set_up = 1.0 - row[2].1 / row[0].1;
    assert!(with_set_up < reduction(0) && with_set_up > 0.6, "{with_set_up}");
}
