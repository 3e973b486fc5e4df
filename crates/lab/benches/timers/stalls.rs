//! The longest single call: what a packet waits for that arrives just then.
//!
//! Three identical runs, and of each call the shortest of the three ([`Least`]).

use softtimers_lab::least::Least;

use crate::clock;
use crate::contender::Contender;
use crate::report::Figures;
use crate::workloads::Connections;

/// Where power-of-two wheels move their most: 2^24 ticks of 1 µs, 2^36 ns.
const BOUNDARIES: [u64; 2] = [1 << 24, (1u64 << 36) / 1_000];
const JUMP: u64 = 1_000_000;

pub(crate) fn stalls<C: Contender>(timers: usize, operations: usize) -> Figures {
    let mut worst = Worst::default();
    for boundary in BOUNDARIES {
        let mut calls = Calls::default();
        for _ in 0..3 {
            calls.begin();
            let mut connections = Connections::<C>::warm(timers, boundary - operations as u64 / 2);
            for _ in 0..operations {
                connections.now += 1;
                advance(&mut connections, &mut calls);
            }
            connections.now += JUMP;
            advance(&mut connections, &mut calls);
        }
        worst.of(&calls);
    }
    [
        ("advance_max_ns".to_owned(), f64::from(worst.advance)),
        ("rearm_max_ns".to_owned(), f64::from(worst.rearm)),
    ]
    .into()
}

/// One step of time, each call of it measured, and one timer re-armed.
fn advance<C: Contender>(connections: &mut Connections<C>, calls: &mut Calls) {
    loop {
        let start = clock::real();
        let more = connections.contender.step(connections.now, &mut connections.fired);
        calls.advance.add(clock::real() - start);
        if !more {
            break;
        }
    }
    connections.set_again();
    if let Some((which, due)) = connections.chosen() {
        let start = clock::real();
        connections.rearm(which, due);
        calls.rearm.add(clock::real() - start);
    }
}

#[derive(Default)]
struct Calls {
    advance: Least,
    rearm: Least,
}

impl Calls {
    fn begin(&mut self) {
        self.advance.begin();
        self.rearm.begin();
    }
}

#[derive(Default)]
struct Worst {
    advance: u32,
    rearm: u32,
}

impl Worst {
    fn of(&mut self, calls: &Calls) {
        self.advance = self.advance.max(calls.advance.longest());
        self.rearm = self.rearm.max(calls.rearm.longest());
    }
}
