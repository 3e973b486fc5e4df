//! Combinations of flags of `send`.

use clap::Parser;
use softtimers_core::{CatchUp, Strategy};
use softtimers_load::engines::Timer;
use softtimers_load::work::Work;

use super::*;
use crate::commands::{Cli, Command};

#[test]
fn a_train_is_a_number_or_none() {
    let at_most = |most| Ok(Train::AtMost(NonZeroU32::new(most).unwrap()));
    assert_eq!((train("1"), train("64"), train("none")), (at_most(1), at_most(64), Ok(Train::None)));
    for text in ["0", "65", "-1", "all", ""] {
        assert_eq!(train(text).unwrap_err(), "a number from 1 to 64, or none, is allowed", "{text}");
    }
}

#[test]
fn flows_are_counted() {
    assert_eq!((flow_count("1"), flow_count("10000")), (Ok(1), Ok(10_000)));
    for text in ["0", "10001", "-1", "many", "1.5", ""] {
        assert_eq!(flow_count(text).unwrap_err(), "a number of flows from 1 to 10000 is allowed", "{text}");
    }
}

fn send(line: &str) -> Result<SendPlan, String> {
    let words = ["softtimers", "send"].into_iter().chain(line.split(' '));
    match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
        Command::Send(args) => Send::new(&args).map(|send| send.plan).map_err(|failure| failure.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn defaults_are_filled_in() {
    let plan = send("127.0.0.1:9 --interval 40us").unwrap();
    assert_eq!((plan.traffic.size, plan.timer, plan.work), (1200, Timer::default(), Work::None));
    assert_eq!(plan.traffic.end, End { duration: Some(DEFAULT_DURATION), count: None });
    let config = serde_json::to_value(plan.config()).unwrap();
    assert_eq!(config["burst_interval_ns"], 22_500);
    assert_eq!(config["catch_up_ns"], 10_000_000);
    assert_eq!((&config["timer"], &config["busy"]), (&"soft".into(), &"none".into()));
}

#[test]
fn ticks_that_are_lost_are_not_made_up() {
    let plan = send("127.0.0.1:9 --interval 40us --timer tick").unwrap();
    assert_eq!(
        (plan.traffic.pace.strategy, plan.traffic.pace.catch_up),
        (Strategy::FixedSeries, CatchUp::NONE)
    );
    assert_eq!(plan.config().catch_up_ns, Some(0));
}

#[test]
fn a_class_has_a_number_or_a_name() {
    for (flag, number) in [("", 0), ("--dscp 46", 46), ("--dscp AF41", 34), ("--dscp cs1", 8)] {
        let plan = send(format!("127.0.0.1:9 --rate 1kpps {flag}").trim_end()).unwrap();
        assert_eq!((plan.dscp.number(), plan.config().dscp), (number, number), "{flag}");
    }
    let refused = send("127.0.0.1:9 --rate 1kpps --dscp 184").unwrap_err();
    assert!(
        refused.contains("a number from 0 to 63 is allowed (a type of service divided by 4)"),
        "{refused}"
    );
}

#[test]
fn a_bit_rate_needs_the_size() {
    let plan = send("127.0.0.1:9 --rate 100Mbit --size 1500 --count 5").unwrap();
    assert_eq!(plan.traffic.pace.rate.interval(), Duration::from_micros(120));
    assert_eq!(plan.traffic.end, End { duration: None, count: Some(5) });
    assert_eq!(send("127.0.0.1:9 --rate 1bit --catch-up all").unwrap().config().catch_up_ns, None);
}

#[test]
fn echo_batches_belong_to_the_echo_server() {
    let plan = send("127.0.0.1:9 --rate 1kpps --busy echo --echo-batch 16").unwrap();
    assert_eq!(plan.work, Work::Echo { batch: 16 });
    let refused = send("127.0.0.1:9 --rate 1kpps --echo-batch 16").unwrap_err();
    assert_eq!(refused, "--echo-batch 16: allowed with --busy echo only");
}

#[test]
fn a_pattern_has_its_mean_and_its_seed() {
    let plan = send("127.0.0.1:9 --rate 1kpps --pattern onoff:10ms/90ms").unwrap();
    let config = serde_json::to_value(plan.config()).unwrap();
    assert_eq!((&config["target_pps"], &config["target_interval_ns"]), (&100.0.into(), &1_000_000.into()));
    assert_eq!((&config["pattern"], plan.traffic.seed()), (&"onoff:10ms/90ms".into(), None));

    let seeded = send("127.0.0.1:9 --rate 1kpps --pattern poisson --seed 18446744073709551615").unwrap();
    assert_eq!((seeded.traffic.seed(), seeded.config().target_pps), (Some(u64::MAX), 1_000.0));
    let chosen = || send("127.0.0.1:9 --rate 1kpps --pattern poisson").unwrap().traffic.seed().unwrap();
    let seeds = [chosen(), chosen(), chosen()];
    assert!(seeds != [seeds[0]; 3] && seeds.iter().all(|&seed| seed < 1 << 32), "{seeds:?}");
}

#[test]
fn flows_go_together_as_their_sum_allows() {
    let config = |flags: &str| {
        let plan = send(&format!("127.0.0.1:9 --interval 1ms {flags}")).unwrap();
        let config = serde_json::to_value(plan.config()).unwrap();
        let kept = ["phase", "train", "slack_ns"].map(|key| config[key].to_string());
        (kept.join(" "), plan.traffic.seed())
    };
    assert_eq!(config("--flows 1"), (r#""spread" 3 0"#.into(), None));
    assert_eq!(config("--flows 1 --train 1").0, r#""spread" 1 0"#);
    assert_eq!(config("--flows 1 --timer loop").0, r#""spread" 1 0"#);
    assert_eq!(config("--flows 1 --timer loop --train 3").0, r#""spread" 3 0"#);
    assert_eq!(config("--flows 1 --quantum 4").0, r#""spread" null 0"#);
    assert_eq!(config("--flows 1 --timer kernel").0, r#""spread" null 0"#);
    assert_eq!(config("--flows 2"), (r#""spread" 8 20000"#.into(), None));
    assert_eq!(config("--flows 2 --pattern onoff:10ms/90ms").0, r#""spread" 8 20000"#);
    assert_eq!(config("--flows 2 --pattern poisson --seed 3").0, r#""spread" null 20000"#);
    assert_eq!(config("--flows 2 --phase together --slack 0ns"), (r#""together" null 0"#.into(), None));
    assert_eq!(config("--flows 2 --phase random --seed 5").1, Some(5));
    assert_eq!(config("--flows 2 --train none --timer loop").0, r#""spread" null 0"#);
    assert_eq!(config("--flows 2 --quantum 4").0, r#""spread" null 20000"#);
    assert_eq!(config("--flows 2 --timer kernel").0, r#""spread" null 0"#);
    assert_eq!(config("--flows 2 --phase together --train 3").0, r#""together" 3 20000"#);
}

#[test]
fn a_quantum_is_one_datagram_unless_more_are_asked_for() {
    let quantum = |flags: &str| {
        let plan = send(format!("127.0.0.1:9 --rate 8kpps {flags}").trim_end()).unwrap();
        (plan.traffic.quantum, plan.traffic.gso)
    };
    assert_eq!((quantum(""), quantum("--quantum 8")), ((1, true), (8, true)));
    assert_eq!((quantum("--quantum 1ms --no-gso"), quantum("--quantum 1us")), ((8, false), (1, true)));
}

#[test]
fn a_way_implies_its_flags() {
    let plan = send("127.0.0.1:9 --rate 8kpps --quantum 1ms --send-via sendmmsg").unwrap();
    assert_eq!((plan.traffic.quantum, plan.traffic.gso), (8, false));
    let plan = send("127.0.0.1:9 --rate 8kpps --send-via txtime").unwrap();
    assert_eq!(plan.timer.name(), "kernel");
}

/// Whatever queue this machine's loopback has: usually none, so that the program paces.
#[test]
fn the_queue_on_the_way_is_asked_for_and_named() {
    let plan = send("127.0.0.1:9 --rate 8kpps --send-via auto --busy echo").unwrap();
    let (via, queue) = (plan.send_via(), plan.queue.unwrap());
    assert!(via.why.ends_with(&queue), "{via:?}");
    assert_eq!(via.way, if plan.timer.hands_over_ahead() { Way::Txtime } else { Way::Send }, "{via:?}");
    for flags in ["--timer loop --send-via auto", ""] {
        let plan = send(format!("127.0.0.1:9 --rate 8kpps {flags}").trim_end()).unwrap();
        assert_eq!(plan.queue, None, "{flags}: the timer was chosen, or nobody asked");
    }
}

#[test]
fn a_path_bears_all_flows_while_they_are_on() {
    let highest =
        |flags: &str| send(&format!("127.0.0.1:9 --interval 1ms {flags}")).unwrap().traffic.highest_pps();
    assert_eq!((highest("--flows 1"), highest("--flows 20")), (1_000.0, 20_000.0));
    assert_eq!(highest("--flows 20 --pattern onoff:10ms/90ms"), 20_000.0);
    assert_eq!(highest("--flows 2 --pattern onoff:100us/100us"), 10_000.0);
}

#[test]
fn contradictions_are_refused() {
    for (line, words) in [
        ("127.0.0.1:9 --interval 40us --burst-interval 41us", "at most 40us is allowed"),
        ("127.0.0.1:9 --rate 2000000000pps", "at most 1000000000pps"),
        ("127.0.0.1:9 --rate 100Tbit --size 32", "at most 256000000000bit"),
        ("127.0.0.1:9 --rate 1kpps --interval 1ms", "cannot be used with"),
        ("127.0.0.1:9", "required"),
        ("127.0.0.1:9 --rate 1kpps --slack 5us --timer timerfd", "only --timer soft"),
        ("127.0.0.1:9 --rate 1kpps --timer off --count 5", "--count 5: --timer off sends nothing"),
        (
            "127.0.0.1:9 --rate 1kpps --flows 2 --timer signal",
            "only --flows 1 is allowed with --timer signal",
        ),
        ("127.0.0.1:9 --rate 1kpps --phase together", "--phase together: one flow has none"),
        ("127.0.0.1:9 --rate 1kpps --train none", "--train none: the train of one flow has an end"),
        ("127.0.0.1:9 --rate 1kpps --send-via segment", "--send-via segment: allowed with --quantum of 2"),
        ("127.0.0.1:9 --rate 1kpps --send-via sendmmsg", "here it is send: one flow"),
        ("127.0.0.1:9 --rate 1kpps --flows 2 --send-via sendto", "here it is sendmmsg: flows that are due"),
        ("127.0.0.1:9 --rate 1kpps --timer loop --send-via txtime", "allowed with --timer kernel"),
        ("127.0.0.1:9 --rate 1kpps --timer soft --send-via txtime", "allowed with --timer kernel"),
        (
            "127.0.0.1:9 --rate 1kpps --quantum 1us --send-via sendmmsg",
            "--send-via sendmmsg: allowed with --flows",
        ),
        ("127.0.0.1:9 --rate 1kpps --force", "--trace <FILE>"),
        ("127.0.0.1:9 --rate 1kpps --flows 2 --seed 3", "or --phase random only"),
        (
            "127.0.0.1:9 --rate 1kpps --quantum 2 --timer signal",
            "--quantum 2: only --quantum 1 is allowed with --timer signal",
        ),
        (
            "127.0.0.1:9 --rate 1kpps --quantum 1ms --no-gso",
            "--no-gso: allowed with a --quantum of 2 datagrams or more; 1ms here is 1",
        ),
        ("127.0.0.1:9 --rate 1kpps --flows 2 --timer tick", "only --flows 1 is allowed with --timer tick"),
        ("127.0.0.1:9 --rate 1kpps --timer tick --pattern poisson", "--pattern poisson does not"),
        ("127.0.0.1:9 --rate 1kpps --timer loop --disable-source send", "only --timer soft"),
        ("127.0.0.1:9 --rate 1kpps --disable-source idle", "one of handler_exit, readiness, send"),
        ("127.0.0.1:9 --rate 1kpps --busy web --disable-source handler_exit", "it is the only one"),
        ("224.0.0.1:9 --rate 1kpps", "multicast"),
        ("127.255.255.255:9 --rate 1kpps", "broadcast"),
    ] {
        let message = send(line).unwrap_err();
        assert!(message.contains(words), "{line}: {message}");
    }
}
