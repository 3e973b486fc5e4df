//! Properties that hold for any input: one function each, called by the property tests and the fuzzer.

use std::time::Duration;

use softtimers_core::Timestamp;

use crate::{
    Aqm, Bottleneck, Change, CodelConfig, DelayTable, Delivery, DeliveryTrace, Direction, FourStates,
    FqCodelConfig, GilbertElliott, Incidence, Jitter, Limit, Loss, PathConfig, PieConfig, Probability, Queue,
    Scenario, Slots, Spread, Traits, Way,
};

/// Any bytes are a valid trace, or refused with a line number; and a link that follows the trace passes everything in
/// order.
pub fn trace(file: &[u8]) {
    let trace = match DeliveryTrace::parse(file) {
        Ok(trace) => trace,
        Err(error) => {
            let lines = file.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
            assert!((1..=lines).contains(&error.line()), "{error}");
            return assert!(!error.to_string().contains('\n'));
        }
    };
    assert!(trace.chances() <= file.len() && trace.period() > Duration::ZERO);
    let path = PathConfig::default().bottleneck(Bottleneck::trace(trace.clone()));
    let Ok(mut direction) = Direction::new(path, 0) else { unreachable!("a trace goes with anything") };
    let start = Timestamp::from_micros(17);
    for number in 0..64u32 {
        direction.offer(start + trace.period() * number / 16, number * 100, number);
    }
    let order: Vec<_> =
        drain(&mut direction, Timestamp::MAX).into_iter().map(|(packet, ..)| packet).collect();
    assert!(order.is_sorted() && order.len() == 64);
    assert_eq!(direction.counters().held, 0);
}

/// Whatever is offered and set, three paths with the same input agree, although one is called whenever something is
/// due, one now and then, and one may hold little; and every packet is counted. With an even seed, overtaking is not
/// allowed, and does not happen. Each eight bytes of `script` are one step.
pub fn direction(seed: u64, script: &[u8]) {
    let path = PathConfig::default();
    let Ok(new) = Direction::new(path.clone(), seed) else { unreachable!("a perfect wire goes") };
    let (mut busy, Ok(mut lazy)) = (new, Direction::new(path.clone(), seed)) else { unreachable!() };
    let Ok(mut small) = Direction::new(path.hold(5, 4_000), seed) else { unreachable!() };
    let (mut from_busy, mut from_lazy) = (Vec::new(), Vec::new());
    let in_order = seed % 2 == 0;
    let mut now = Timestamp::ZERO;
    for (step, number) in script.chunks_exact(8).zip(0u32..) {
        now += Duration::from_nanos(u64::from(step[1]) << (step[2] % 20));
        from_busy.extend(drain(&mut busy, now));
        match step[0] % 8 {
            0 => {
                let mut path = path_of(&step[2..]);
                if in_order {
                    (path.jitter.reorders, path.reorder) = (false, None);
                }
                let small_path = path.clone().hold(5, 4_000);
                let set = [busy.set(now, path.clone()), lazy.set(now, path), small.set(now, small_path)];
                assert!(set[0] == set[1] && set[1] == set[2]);
            }
            1 => from_lazy.extend(drain(&mut lazy, now)),
            3 if step[3] % 8 == 0 => {
                let scenario = scenario_of(&step[2..]);
                let played = [&mut busy, &mut lazy, &mut small]
                    .map(|direction| direction.play(now, &scenario, Way::Up));
                assert!(played[0] == played[1] && played[1] == played[2]);
            }
            2 => drop(drain(&mut small, now)),
            _ => {
                let bytes = u32::from(step[3]) * 8;
                let flow = if in_order { 0 } else { u64::from(number % 3) };
                let traits = Traits { capable: step[4] % 2 == 0, flow };
                let admitted = busy.offer_of(now, bytes, traits, number);
                assert_eq!(admitted, lazy.offer_of(now, bytes, traits, number));
                small.offer_of(now, bytes, traits, number);
                assert!(small.counters().held <= 5);
            }
        }
        [&busy, &lazy, &small].into_iter().for_each(adds_up);
    }
    from_busy.extend(drain(&mut busy, Timestamp::MAX));
    from_lazy.extend(drain(&mut lazy, Timestamp::MAX));
    assert_eq!(from_busy, from_lazy);
    assert!(from_busy.is_sorted_by_key(|(_, due, ..)| *due));
    assert!(!in_order || from_busy.is_sorted_by_key(|(packet, ..)| *packet));
    assert_eq!(busy.counters(), lazy.counters());
    assert_eq!(busy.counters().held, 0);
}

type Fate = (u32, Timestamp, bool, bool, Option<u64>);

/// Returns everything that arrives until `end`, taken out at its time.
fn drain(direction: &mut Direction<u32>, end: Timestamp) -> Vec<Fate> {
    let mut fates = vec![];
    while let Some(at) = direction.poll_at().filter(|&at| at <= end) {
        while let Some(Delivery { packet, bytes, offered, due, marked, copy, flipped }) =
            direction.pop_due(at)
        {
            assert!(offered <= due && due <= end);
            assert!(flipped.is_none_or(|bit| bit < u64::from(bytes) * 8));
            fates.push((packet, due, marked, copy, flipped));
        }
        assert!(direction.poll_at().is_none_or(|next| next > at || at == Timestamp::MAX));
        if at == Timestamp::MAX {
            break;
        }
    }
    fates
}

fn adds_up(direction: &Direction<u32>) {
    let counters = direction.counters();
    let gone = counters.delivered + counters.queue_drops + counters.overflowed + counters.lost;
    assert_eq!(counters.offered + counters.duplicated, gone + counters.held, "{counters:?}");
    assert_eq!(direction.poll_at().is_none(), counters.held == 0);
}

/// Its rates let everything through within a number of rounds.
fn scenario_of(bytes: &[u8]) -> Scenario {
    let micros = |byte: u8| Duration::from_micros(u64::from(byte) * 50);
    let rate = Bottleneck::bits_per_second(u64::from(bytes[2]) * 1_234_567 + 10_000_000).unwrap_or_default();
    let scenario = Scenario::default()
        .at(micros(bytes[1]) / 16, None, Change::Bottleneck(rate))
        .at(micros(bytes[2]), Some(Way::Up), Change::Delay(micros(bytes[3])))
        .at(micros(bytes[3]), Some(Way::Down), Change::Delay(micros(bytes[4])))
        .at(micros(bytes[4]), None, Change::Overhead(u32::from(bytes[5])))
        .outage(micros(bytes[4]), Some(Way::Up), micros(bytes[5]))
        .outage(micros(bytes[5]), None, micros(bytes[1]));
    match bytes[0] % 3 {
        0 => scenario,
        _ => scenario.repeat(Scenario::SHORTEST_ROUND + micros(bytes[0])).unwrap_or_default(),
    }
}

fn path_of(bytes: &[u8]) -> PathConfig {
    let share = |byte: u8| Probability::per_million(u32::from(byte) * 3_921).unwrap_or(Probability::ALWAYS);
    let micros = |byte: u8| Duration::from_micros(u64::from(byte));
    let bottleneck = match bytes[0] % 4 {
        0 => Bottleneck::NONE,
        1 => Bottleneck::trace(
            DeliveryTrace::parse(format!("0\n{}\n", 1 + bytes[1] % 3).as_bytes())
                .unwrap_or_else(|_| unreachable!()),
        ),
        _ => Bottleneck::bits_per_second(u64::from(bytes[1]) * 12_345_678 + 1).unwrap_or_default(),
    };
    let limit = |byte: u8| match byte % 3 {
        0 => Limit::Packets(u32::from(byte) / 16),
        1 => Limit::Bytes(u64::from(byte) * 40),
        _ => Limit::Time(micros(byte)),
    };
    let loss = match bytes[2] % 4 {
        0 => Loss::None,
        1 => Loss::Random(share(bytes[3])),
        2 => Loss::GilbertElliott(GilbertElliott::bursts(share(bytes[2]), share(bytes[3]))),
        _ => Loss::FourStates(FourStates {
            p31: share(bytes[2] / 2),
            p32: share(bytes[3] / 2),
            ..FourStates::new(share(bytes[3]))
        }),
    };
    let spread = match bytes[4] % 5 {
        0 => Spread::Uniform,
        1 => Spread::Normal,
        2 => Spread::Exponential,
        3 => Spread::Table(DelayTable::pareto_normal()),
        _ => Spread::Table(DelayTable::parse(b"-20000 1 2 30000").unwrap_or_else(|_| unreachable!())),
    };
    let correlation = if bytes[5] % 3 == 0 { share(bytes[4]) } else { Probability::NEVER };
    let jitter = Jitter { size: micros(bytes[4] / 2), spread, reorders: bytes[5] % 2 == 0, correlation };
    let path = PathConfig::default();
    let path = match bytes[2] % 4 {
        0 => path.ahead(share(bytes[2]), u32::from(bytes[1] % 7)),
        _ => path.late(share(bytes[2] / 8), micros(bytes[1])),
    };
    let often = |byte: u8| Incidence::from(share(byte)).correlated(correlation);
    PathConfig { duplicate: often(bytes[5] / 4), corrupt: often(bytes[5]), slots: slots_of(bytes), ..path }
        .bottleneck(bottleneck)
        .queue(Queue { limit: limit(bytes[3]), mark: Some(limit(bytes[4])) })
        .aqm(aqm_of(bytes))
        .burst(u32::from(bytes[5] % 4) * 1_000)
        .overhead(u32::from(bytes[1] % 32))
        .loss(loss)
        // May be less than a uniform jitter, which is refused.
        .delay(micros(bytes[0]))
        .jitter(jitter)
}

fn aqm_of(bytes: &[u8]) -> Aqm {
    let micros = |byte: u8| Duration::from_micros(u64::from(byte));
    let codel = CodelConfig { target: micros(bytes[3]), interval: micros(bytes[4]), ecn: bytes[5] % 2 == 0 };
    match bytes[1] / 4 % 4 {
        0 => Aqm::DropTail,
        1 => Aqm::Codel(codel),
        2 => Aqm::FqCodel(FqCodelConfig {
            codel,
            flows: u32::from(bytes[2] % 5),
            quantum: u32::from(bytes[1]) * 8,
        }),
        _ => Aqm::Pie(PieConfig {
            target: micros(bytes[3]),
            update: micros(bytes[4] % 8),
            burst: micros(bytes[5]),
            ecn: bytes[5] % 2 == 0,
        }),
    }
}

fn slots_of(bytes: &[u8]) -> Option<Slots> {
    let micros = |byte: u8| Duration::from_micros(u64::from(byte));
    let (least, more) = (micros(bytes[4]), micros(bytes[2]));
    let slots = Slots {
        packets: u32::from(bytes[1] % 4),
        bytes: u64::from(bytes[2] % 3) * 700,
        ..Slots::every(least, least + more)
    };
    (bytes[3] % 4 == 0).then_some(slots)
}
