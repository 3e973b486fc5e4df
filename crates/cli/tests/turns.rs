//! Several timers in turns, in this process: what the benches measure with.

use std::net::UdpSocket;
use std::time::Duration;

use clap::Parser;
use softtimers_cli::args::{Cli, Command, Timer};
use softtimers_cli::failure::Failure;
use softtimers_cli::plan::SendPlan;
use softtimers_cli::send::{Contender, Share, Turns, take_turns};
use softtimers_core::{PaceConfig, Rate, TriggerState};

/// Two rounds of turns of 20 ms.
fn turns<const N: usize>(work: &str, contenders: [Contender; N]) -> Result<Turns<N>, Failure> {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let line =
        format!("softtimers send {} --no-handshake --interval 500us {work}", sink.local_addr().unwrap());
    let Command::Send(args) = Cli::parse_from(line.split(' ')).command else { panic!("{line}") };
    take_turns(&SendPlan::new(&args).unwrap(), contenders, Duration::from_millis(20), 2)
}

/// Rounds until each contender has what is asked of it in one of them: a machine may stand still for longer than a turn
/// lasts, for a few turns in a minute. The rounds of two hundred tries are not all of that kind.
fn rounds_until<const N: usize>(
    work: &str,
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

/// Who has events has some, who has none has none, and all of them work.
#[test]
fn each_contender_has_its_turn() {
    use Contender::*;
    let all = [
        Nobody,
        NobodyAsking,
        NobodySoft,
        Flow(Timer::Soft),
        Flow(Timer::Signal),
        Flow(Timer::Tick),
        NullEvents(Timer::Timerfd),
        NullEvents(Timer::Thread),
        NullEvents(Timer::Signal),
        NullEvents(Timer::Tick),
        NullSignals,
        Without(None),
        Without(Some(TriggerState::Readiness)),
    ];
    let has_events = |place: usize| place >= 3;
    let told =
        |place: usize, share: &Share| share.work_rate > 0.0 && (share.event_rate > 0.0 || !has_events(place));
    let rounds = rounds_until("--busy compute", all, told);
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
        Contender::Flow(Timer::Soft),
        Contender::Paced(Timer::Soft, pace),
        Contender::PacedNullEvents(Timer::Soft, pace),
        Contender::Paced(Timer::Tick, pace),
    ];
    let rounds = rounds_until("--busy web", all, |_, share| share.gaps.mean().is_some());
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
    let refused =
        Contender::Paced(Timer::Soft, PaceConfig { burst_interval: Some(Duration::from_millis(3)), ..pace });
    assert!(turns("--busy none", [refused]).unwrap_err().to_string().contains("at most the target interval"));
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
    let rounds = rounds_until("--busy none", both, |_, share| met_idle(share));
    assert!((0..2).all(|place| rounds.iter().any(|round| met_idle(&round[place]))), "{rounds:?}");
    for round in &rounds {
        let [all, without] = round.each_ref().map(|share| share.triggers.as_ref().unwrap());
        assert_eq!(without.passed[Readiness], 0);
        let calculated = &all.without.as_ref().unwrap()[Idle];
        let fewer = calculated.count() < all.intervals.count();
        assert_eq!(fewer, met_idle(&round[0]), "{calculated:?} {all:?}");
    }
    let refused = turns("--busy web", [Contender::Without(Some(TriggerState::HandlerExit))]).unwrap_err();
    assert_eq!(refused.to_string(), "without handler_exit: this loop meets no other trigger state");
}

#[test]
fn several_flows_take_no_turns() {
    let refused = turns("--flows 2", [Contender::Flow(Timer::Soft)]).unwrap_err().to_string();
    assert_eq!(refused, "--flows 2: only 1 takes turns with other timers");
}
