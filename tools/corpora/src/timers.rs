//! The timers against the model that the property tests of core use, through programs made of the input.

#[expect(dead_code, reason = "a handler that panics ends a fuzz target")]
#[path = "../../../crates/core/tests/model/mod.rs"]
mod model;

use model::ModelSlack;
use model::lockstep::{Handler, Op, Pair};

/// Takes the input byte by byte; zeros after its end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Small numbers, and sometimes one near the end of time.
    fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::MAX - u64::from(self.byte()),
            scale => u64::from(self.byte()) << (scale % 24),
        }
    }

    fn slack(&mut self) -> ModelSlack {
        match self.byte() % 5 {
            0 => ModelSlack::Exact,
            1 => ModelSlack::Within(self.number()),
            // The model tries every tick in reach, so reach is kept short.
            2 => ModelSlack::Rounded(self.number() % 50_000),
            3 => ModelSlack::Default,
            _ => ModelSlack::Deferrable,
        }
    }

    fn handler(&mut self) -> Handler {
        match self.byte() % 6 {
            0 => Handler::ScheduleNow,
            1 => Handler::ScheduleAgain { delay: self.number(), slack: self.slack() },
            2 => Handler::CancelOther(self.byte().into()),
            3 => Handler::RearmOther { pick: self.byte().into(), delay: self.number(), slack: self.slack() },
            _ => Handler::Nothing,
        }
    }

    fn op(&mut self) -> Op {
        match self.byte() % 7 {
            0 => Op::Advance(self.number() % (1 << 40)),
            1 => Op::Schedule { delay: self.number(), slack: self.slack() },
            2 => Op::ScheduleAt { offset: i64::from(self.byte()) - 100, slack: self.slack() },
            3 => Op::Cancel(self.byte().into()),
            4 => Op::Rearm { pick: self.byte().into(), delay: self.number(), slack: self.slack() },
            5 => Op::RearmAt {
                pick: self.byte().into(),
                offset: i64::from(self.byte()) - 100,
                slack: self.slack(),
            },
            _ => Op::Turn {
                take: self.byte().into(),
                handlers: (0..self.byte() % 4).map(|_| self.handler()).collect(),
                stepwise: self.byte().is_multiple_of(2),
            },
        }
    }
}

pub(crate) fn few(input: &[u8]) {
    let mut bytes = Bytes(&input[..input.len().min(600)]);
    let tick = [1, 1_000, 4_096, 777][usize::from(bytes.byte() % 4)];
    let step = [0, 1_000][usize::from(bytes.byte() % 2)];
    let generation = [1, u32::MAX - 1][usize::from(bytes.byte() % 2)];
    let few = usize::from(bytes.byte() % 8) * 10;
    let mut program = Vec::new();
    while !bytes.0.is_empty() {
        program.push(bytes.op());
    }
    Pair::new(tick, step, generation, few).run(&program);
}
