//! The longest single call, which delays a packet that arrives during it.
//!
//! There are three identical runs, and each call counts with the shortest of its three times ([`Least`]).

use softtimers_lab::least::Least;
use softtimers_trials::random::Random;

use crate::clock;
use crate::contender::Contender;
use crate::workloads::{Connections, Named};

/// The ticks at which power-of-two wheels move their most: 2^24 ticks of 1 µs, 2^36 ns.
const BOUNDARIES: [u64; 2] = [1 << 24, (1u64 << 36) / 1_000];
const JUMP: u64 = 1_000_000;

pub(crate) fn stalls<C: Contender>(timers: usize, operations: usize) -> Named {
    let (mut advance, mut rearm) = (0, 0);
    for boundary in BOUNDARIES {
        let mut calls = [Least::default(), Least::default()];
        for _ in 0..3 {
            calls.iter_mut().for_each(Least::begin);
            let mut connections = Connections::<C>::warm(timers, boundary - operations as u64 / 2);
            for _ in 0..operations {
                connections.now += 1;
                step(&mut connections, &mut calls);
            }
            connections.now += JUMP;
            step(&mut connections, &mut calls);
        }
        advance = advance.max(calls[0].longest());
        rearm = rearm.max(calls[1].longest());
    }
    let [set, grow] = [timers, 0].map(|expected| longest_set::<C>(timers, expected));
    vec![
        ("advance_max_ns", advance.into()),
        ("rearm_max_ns", rearm.into()),
        ("set_max_ns", set.into()),
        ("grow_max_ns", grow.into()),
    ]
}

/// Returns the longest of `timers` sets, one after the other, in a contender created for `expected` timers.
fn longest_set<C: Contender>(timers: usize, expected: usize) -> u32 {
    let mut sets = Least::default();
    for _ in 0..3 {
        sets.begin();
        let (mut contender, mut random) = (C::new(expected), Random::new());
        for number in 0..timers {
            let due = 1 + random.below(10 * JUMP);
            let start = clock::real();
            let handle = contender.set(due, number as u32);
            sets.add(clock::real() - start);
            std::mem::forget(handle);
        }
        // Memory that one returns to the allocator would serve the next.
        std::mem::forget(contender);
    }
    sets.longest()
}

/// Advances time by one step, measuring each call, and re-arms one timer.
fn step<C: Contender>(connections: &mut Connections<C>, [advance, rearm]: &mut [Least; 2]) {
    loop {
        let start = clock::real();
        let more = connections.contender.step(connections.now, &mut connections.fired);
        advance.add(clock::real() - start);
        if !more {
            break;
        }
    }
    connections.set_again();
    if let Some((which, due)) = connections.chosen() {
        let start = clock::real();
        connections.rearm(which, due);
        rearm.add(clock::real() - start);
    }
}
