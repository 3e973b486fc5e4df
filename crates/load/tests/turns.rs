//! Several timers in turns, in this process: what the benches measure with.

use std::net::UdpSocket;
use std::time::Duration;

use softtimers_core::{PaceConfig, Rate, TriggerState};
use softtimers_load::engines::Timer;
use softtimers_load::plan::SendPlan;
use softtimers_load::traffic::Traffic;
use softtimers_load::turns::{Contender, Share, Turns, take_turns};
use softtimers_load::work::Work;
use softtimers_measure::failure::Failure;

fn timer(name: &str) -> Timer {
    name.parse().unwrap()
}

fn plan(sink: &UdpSocket, work: Work) -> SendPlan {
    let traffic = Traffic::new(Rate::every(Duration::from_micros(500)).unwrap());
    let plan = SendPlan::new(sink.local_addr().unwrap(), traffic, Timer::default());
    SendPlan { work, no_handshake: true, ..plan }
}

/// Two rounds of turns of 20 ms.
fn turns<const N: usize>(work: Work, contenders: [Contender; N]) -> Result<Turns<N>, Failure> {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    take_turns(&plan(&sink, work), contenders, Duration::from_millis(20), 2)
}

/// Rounds until each contender has what is asked of it in one of them: a machine may stand still for longer than a turn
/// lasts, for a few turns in a minute. The rounds of two hundred tries are not all of that kind.
fn rounds_until<const N: usize>(
    work: Work,
    contenders: [Contender; N],
    told: impl Fn(usize, &Share) -> bool,
) -> Vec<[Share; N]> {
    let mut rounds = Vec::new();
    for _ in 0..200 {
        let turns = turns(work, contenders).unwrap();
        assert!(turns.rounds.len() == 2 && !turns.interrupted);
        rounds.extend(turns.rounds);
        if (0..N).all(|place| rounds.iter().any(|round: &[Share; N]| told(place, &round[place]))) {
            break;
        }
    }
    rounds
}

/// A contender with events has some, one without has none, and all of them work.
#[test]
fn each_contender_has_its_turn() {
    use Contender::*;
    let all = [
        Nobody,
        NobodyAsking,
        NobodySoft,
        Flow(timer("soft")),
        Flow(timer("signal")),
        Flow(timer("tick")),
        NullEvents(timer("timerfd")),
        NullEvents(timer("thread")),
        NullEvents(timer("signal")),
        NullEvents(timer("tick")),
        NullSignals,
        Without(None),
        Without(Some(TriggerState::Readiness)),
    ];
    let has_events = |place: usize| place >= 3;
    let told =
        |place: usize, share: &Share| share.work_rate > 0.0 && (share.event_rate > 0.0 || !has_events(place));
    let rounds = rounds_until(Work::Compute, all, told);
    let sum = |place: usize, of: fn(&Share) -> f64| rounds.iter().map(|round| of(&round[place])).sum::<f64>();
    for (place, contender) in all.iter().enumerate() {
        assert_eq!(
            sum(place, |share| share.event_rate) > 0.0,
            has_events(place),
            "{contender:?}: {rounds:?}"
        );
        assert!(sum(place, |share| share.work_rate) > 0.0, "{contender:?}: {rounds:?}");
    }
}

/// A contender may have another pace than the plan's 500 µs, and says what gaps came of it.
#[test]
fn gaps_are_those_of_the_contenders_own_pace() {
    let pace = PaceConfig::new(Rate::every(Duration::from_millis(2)).unwrap());
    let all = [
        Contender::Flow(timer("soft")),
        Contender::Paced(timer("soft"), pace),
        Contender::PacedNullEvents(timer("soft"), pace),
        Contender::Paced(timer("tick"), pace),
    ];
    let rounds = rounds_until(Work::Web, all, |_, share| share.gaps.mean().is_some());
    for round in &rounds {
        // Never closer than the burst interval of their own pace; the plan's is 281 µs.
        for place in [1, 2] {
            let mean = round[place].gaps.mean();
            assert!(mean.is_none_or(|mean| mean >= 1_125_000.0), "{round:?}");
        }
        assert!(round[3].overruns.is_some() && round[0].overruns.is_none());
    }
    let told = |place: usize| rounds.iter().any(|round| round[place].gaps.mean().is_some());
    assert!((0..all.len()).all(told), "{rounds:?}");
    let refused = Contender::Paced(
        timer("soft"),
        PaceConfig { burst_interval: Some(Duration::from_millis(3)), ..pace },
    );
    assert!(turns(Work::None, [refused]).unwrap_err().to_string().contains("at most the target interval"));
}

/// The trigger states of a turn are told, and what would be without each source. (That those of a disabled source
/// are really gone is seen beside an echo server, whose clients this program cannot be.)
#[test]
fn a_turn_tells_its_trigger_states() {
    use TriggerState::{Idle, Readiness};
    let both = [Contender::Without(None), Contender::Without(Some(Readiness))];
    let met_idle = |share: &Share| {
        share.triggers.as_ref().is_some_and(|met| met.passed[Idle] > 0 && met.intervals.count() > 0)
    };
    let rounds = rounds_until(Work::None, both, |_, share| met_idle(share));
    assert!((0..2).all(|place| rounds.iter().any(|round| met_idle(&round[place]))), "{rounds:?}");
    for round in &rounds {
        let [all, without] = round.each_ref().map(|share| share.triggers.as_ref().unwrap());
        assert_eq!(without.passed[Readiness], 0);
        let calculated = &all.without.as_ref().unwrap()[Idle];
        let fewer = calculated.count() < all.intervals.count();
        assert_eq!(fewer, met_idle(&round[0]), "{calculated:?} {all:?}");
    }
    let refused = turns(Work::Web, [Contender::Without(Some(TriggerState::HandlerExit))]).unwrap_err();
    assert_eq!(refused.to_string(), "without handler_exit: this loop meets no other trigger state");
}

#[test]
fn several_flows_take_no_turns() {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut plan = plan(&sink, Work::None);
    plan.traffic.flows = 2;
    let soft = [Contender::Flow(timer("soft"))];
    let refused = take_turns(&plan, soft, Duration::from_millis(20), 2).unwrap_err().to_string();
    assert_eq!(refused, "--flows 2: only 1 takes turns with other timers");
}
