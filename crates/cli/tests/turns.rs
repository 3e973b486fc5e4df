//! Several timers in turns, in this process: what the benches measure with.

use std::net::UdpSocket;
use std::time::Duration;

use clap::Parser;
use softtimers_cli::args::{Cli, Command, Timer};
use softtimers_cli::failure::Failure;
use softtimers_cli::plan::SendPlan;
use softtimers_cli::send::{Contender, Share, take_turns};

fn turns<const N: usize>(work: &str, contenders: [Contender; N]) -> Result<Vec<[Share; N]>, Failure> {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let line = format!("softtimers send {} --interval 500us {work}", sink.local_addr().unwrap());
    let Command::Send(args) = Cli::parse_from(line.split(' ')).command else { panic!("{line}") };
    take_turns(&SendPlan::new(&args).unwrap(), contenders, Duration::from_millis(20), 2)
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
        NullEvents(Timer::Timerfd),
        NullEvents(Timer::Thread),
    ];
    let rounds = turns("--busy compute", all).unwrap();
    let sum = |place: usize, of: fn(&Share) -> f64| rounds.iter().map(|round| of(&round[place])).sum::<f64>();
    for (place, contender) in all.iter().enumerate() {
        assert_eq!(sum(place, |share| share.event_rate) > 0.0, place >= 3, "{contender:?}: {rounds:?}");
        assert!(sum(place, |share| share.work_rate) > 0.0, "{contender:?}: {rounds:?}");
    }
}

#[test]
fn a_signals_handler_takes_no_turns() {
    for contender in [Contender::Flow(Timer::Signal), Contender::NullEvents(Timer::Signal)] {
        let refused = turns("--busy none", [contender]).unwrap_err().to_string();
        assert_eq!(refused, "--timer signal: it takes no turns with others");
    }
}
