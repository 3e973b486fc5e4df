//! `send` and `recv` together: two processes, real datagrams, and two accounts that must agree.

mod common;

use common::{Receiver, command, pair, refusal, run, stderr, streamed};
use serde_json::Value;
use softtimers::TriggerState;

#[test]
fn both_accounts_agree_whatever_the_timer() {
    for timer in ["soft", "loop", "pwait2", "ms", "timerfd", "signal", "thread", "spin"] {
        let (sent, received) =
            pair(&format!("--interval 200us --count 300 --size 64 --catch-up all --timer {timer}"));
        assert_eq!((&sent["sent"], &sent["forfeited"]), (&300.into(), &0.into()), "{timer}");
        assert_eq!((&received["received"], &received["lost"]), (&300.into(), &0.into()), "{timer}");
        assert_eq!((&received["reordered"], &received["duplicated"]), (&0.into(), &0.into()), "{timer}");
        assert_eq!(received["gap_ns"]["count"], 299);
        // Whoever sends writes its place into each datagram.
        let variation = &received["one_way_variation_ns"];
        assert_eq!((&variation["count"], &variation["min"]), (&300.into(), &0.into()), "{timer}");
        assert!(variation["max"].as_u64() < Some(60_000_000_000), "{timer}: {variation}");
        // The receiver judges by what the sender states.
        assert_eq!(received["config"]["interval_ns"], 200_000);
        assert_eq!((&received["received_bytes"], &received["strangers"]), (&(300 * 64).into(), &0.into()));
        assert!(received["hellos"].as_u64() >= Some(2), "{timer}");
        // Whoever noticed the due times, all departures are accounted for.
        let fired = sent["fired"].as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
        assert_eq!(fired, 300, "{timer}: {}", sent["fired"]);
        assert_eq!(sent["late_ns"]["count"], 300);
    }
}

/// What the receiver tells at the end is what it prints, for one flow and for many.
#[test]
fn the_sender_has_the_result_of_its_receiver() {
    for flags in ["", "--flows 3", "--quantum 4"] {
        let flags = format!("--interval 200us --count 300 --size 64 --catch-up all {flags}");
        let (sent, received) = pair(&flags);
        let told = &sent["receiver"];
        for key in ["received", "reordered", "duplicated", "longest_burst"] {
            assert_eq!(told[key], received[key], "{flags}: {key}");
        }
        // The mean comes in whole nanoseconds.
        for key in ["count", "min", "p50", "p99", "p999", "max"] {
            assert_eq!(told["gap_ns"][key], received["gap_ns"][key], "{flags}: {key}");
        }
        assert_eq!(told["lost"], 300 - told["received"].as_u64().unwrap(), "{flags}");
    }
    // Of two senders to one receiver each has its own, and no figures of both.
    let receiver = Receiver::start("--any --count 150");
    let send = |count: u32| {
        let output = run(&format!("send {} --interval 200us --count {count} --json", receiver.address));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let [first, second] = [60, 70].map(send);
    assert_eq!(
        (&first["receiver"]["received"], &first["receiver"]["gap_ns"]["count"]),
        (&60.into(), &59.into())
    );
    assert_eq!(
        (&second["receiver"]["received"], &second["receiver"]["gap_ns"]["count"]),
        (&70.into(), &0.into())
    );
    assert_eq!(second["receiver"]["lost"], 0);
    // The last one ends it by its count.
    let last = send(20);
    assert!(last["receiver"].is_null(), "{last}");
    let told = last["fallbacks"].to_string();
    assert!(told.contains("no result of the receiver: nobody listens on that port"), "{told}");
    drop(receiver.finish());
}

/// The count is met exactly, also where several are due at once.
#[test]
fn no_more_than_the_count_is_sent() {
    for words in [
        "--timer loop --busy echo",
        "--timer loop --busy compute",
        "--timer soft --busy echo",
        "--timer spin --busy compute",
        "--timer signal --busy echo",
        "--timer signal --busy compute",
        "--timer tick --busy echo",
        "--timer tick --busy web",
        "--timer thread --busy echo",
        "--timer thread --busy compute",
    ] {
        let (sent, received) = pair(&format!("--interval 10us --count 100 --size 64 {words}"));
        assert_eq!((&sent["sent"], &received["received"]), (&100.into(), &100.into()), "{words}");
    }
}

/// Whatever the loop does between departures, all of them leave, and what was busy-polled is told.
#[test]
fn both_accounts_agree_whatever_the_idle_policy() {
    for (idle, budget) in [
        ("park", 0.5),
        ("park --cpu-budget 100%", 1.0),
        ("hybrid", 0.5),
        ("hybrid --cpu-budget 5%", 0.05),
        ("spin", 0.5),
        ("spin --cpu-budget 100%", 1.0),
    ] {
        let (sent, received) = pair(&format!("--interval 200us --count 300 --catch-up all --idle {idle}"));
        assert_eq!((&sent["sent"], &received["received"]), (&300.into(), &300.into()), "{idle}");
        assert_eq!(
            (&sent["config"]["cpu_budget"], &sent["polled"]["budget_share"]),
            (&budget.into(), &budget.into())
        );
        let share = sent["polled"]["share"].as_f64().unwrap();
        assert!(share > 0.0 || !idle.starts_with("spin"), "{idle}: {share}");
    }
}

/// A periodic timer sends one datagram a signal: those that arrive and those that were lost make up the time.
#[test]
fn ticks_are_sent_or_counted_as_lost() {
    // Again where a pause came between the kernel's count and the handler's clock check.
    let mut runs = (0..3).map(|_| pair("--interval 500us --count 200 --size 64 --timer tick --busy compute"));
    let agrees = |sent: &Value| {
        let [forfeited, lost] = ["forfeited", "timer_overruns"].map(|key| sent[key].as_u64().unwrap());
        forfeited.abs_diff(lost) <= 3
    };
    let (sent, received) = runs.find(|(sent, _)| agrees(sent)).expect("a run whose counts agree");
    let count = |key: &str| sent[key].as_u64().unwrap();
    assert_eq!((count("sent"), &received["received"], &received["lost"]), (200, &200.into(), &0.into()));
    // Only the first one's lateness is not part of the time between the first and the last.
    let intervals = |nanos: f64| nanos / 500_000.0;
    let whole = intervals(sent["gap_ns"]["mean"].as_f64().unwrap() * 199.0);
    let late = intervals(sent["late_ns"]["max"].as_f64().unwrap());
    assert!(whole + late > (199 + count("forfeited")) as f64 - 2.0, "{whole} intervals: {sent}");
}

/// The trigger states of a source are gone, those of the others are not, and the flow goes on.
#[test]
fn a_loop_can_do_without_one_source() {
    let passed = |flags: &str| {
        let (sent, _) = pair(&format!("--interval 500us --count 300 {flags}"));
        assert_eq!(sent["sent"], 300);
        (sent["triggers"].clone(), sent["config"]["disabled_source"].clone())
    };
    let (all, none) = passed("--busy echo");
    assert!(none.is_null() && all["syscall_exit"] != 0 && all["readiness"] != 0, "{all}");
    let (left, disabled) = passed("--busy echo --disable-source syscall_exit");
    assert!(disabled == "syscall_exit" && left["syscall_exit"] == 0 && left["readiness"] != 0, "{left}");
    let (left, _) = passed("--disable-source readiness");
    assert!(left["readiness"] == 0 && left["idle"] != 0, "{left}");
}

/// Soft timers §5.1: the loop that answers a batch has trigger states of its own. Without them a batch is one interval: there are
/// fewer between two system calls, so they are longer.
#[test]
fn without_the_send_loops_trigger_states_intervals_are_fewer_and_longer() {
    let intervals = |flags: &str| {
        let (sent, _) = pair(&format!("--interval 500us --count 300 --busy echo --echo-batch 64 {flags}"));
        let count = |value: &Value| value.as_f64().unwrap();
        let (all, calls) = (&sent["trigger_interval_ns"]["count"], &sent["triggers"]["syscall_exit"]);
        (sent["triggers"]["send"].as_u64().unwrap(), count(all) / count(calls))
    };
    let ((sends, with), (none, without)) = (intervals(""), intervals("--disable-source send"));
    assert!(sends > 0 && none == 0, "{sends}, and {none} without");
    assert!(with > without, "{with} intervals between system calls, {without} without");
}

/// The slice is asked for whatever the timer; where there is none, the report says so.
#[test]
fn a_slice_is_held_or_said_to_be_refused() {
    let here = softtimers::Slice::current().is_ok();
    for timer in ["soft", "pwait2"] {
        let (sent, _) = pair(&format!("--interval 1ms --count 5 --sched-slice 100us --timer {timer}"));
        assert_eq!(sent["config"]["sched_slice_ns"], 100_000, "{timer}");
        let fallbacks = sent["fallbacks"].as_array().unwrap();
        assert_eq!(fallbacks.is_empty(), here, "{timer}: {fallbacks:?}");
    }
}

/// One set of keys, whatever the timer, so that an assertion on any of them is never a surprise.
#[test]
fn the_trigger_states_have_the_same_names_for_every_timer() {
    let all = TriggerState::ALL.map(|source| format!("--assert fired.{}>=0", source.name())).join(" ");
    for timer in ["soft", "loop", "pwait2", "ms", "timerfd", "signal", "thread", "spin", "off"] {
        let end = if timer == "off" { "--duration 5ms" } else { "--count 3" };
        let words =
            format!("send 127.0.0.1:9 --no-handshake --interval 1ms --json --timer {timer} {end} {all}");
        let output = command(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{timer}: {}", stderr(&output));
        let sent: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(sent["fired"].as_object().map(serde_json::Map::len), Some(TriggerState::ALL.len()));
    }
}

/// Methods differ in when they look, not in what they ask for: at a rate that leaves time to sleep, each
/// holds it as well as the first does in the same minute. A machine that starves one run of 0.2 s hardly
/// starves three.
#[test]
fn every_method_holds_a_slow_rate() {
    let stood_still = std::cell::Cell::new(false);
    let rate = |timer: &str| {
        let (sent, received) = pair(&format!("--interval 10ms --count 20 --catch-up all --timer {timer}"));
        assert_eq!((&received["received"], &received["lost"]), (&20.into(), &0.into()), "{timer}");
        // A quarter of the run.
        stood_still.set(stood_still.get() || sent["late_ns"]["max"].as_u64() > Some(50_000_000));
        sent["achieved_pps"].as_f64().unwrap()
    };
    let alike = |ratio: &f64| (0.5..2.0).contains(ratio);
    for timer in ["loop", "pwait2", "ms", "timerfd", "signal", "thread", "spin"] {
        let mut ratios = Vec::new();
        stood_still.set(false);
        while ratios.len() < 3 && !ratios.last().is_some_and(alike) {
            ratios.push(rate(timer) / rate("soft"));
        }
        if !ratios.last().is_some_and(alike) && stood_still.get() {
            common::skipped(&format!("{timer}: the machine stood still for 50 ms and more: {ratios:?}"));
            continue;
        }
        assert!(ratios.last().is_some_and(alike), "{timer}: {ratios:?} of softtimers' rate");
    }
}

/// The handler interrupts the echo server anywhere, in its system calls too, and both go on.
#[test]
fn a_signal_interrupts_the_work_and_harms_neither() {
    for work in ["echo", "compute", "none"] {
        let (sent, received) = pair(&format!(
            "--interval 500us --count 1000 --size 64 --catch-up all --train 1 --timer signal --busy {work}"
        ));
        assert_eq!((&sent["sent"], &received["received"]), (&1000.into(), &1000.into()), "{work}");
        assert_eq!((&received["lost"], &received["reordered"]), (&0.into(), &0.into()), "{work}");
        assert_eq!(sent["work_rate"].as_f64().is_some_and(|rate| rate > 0.0), work != "none", "{work}");
        assert_eq!(sent["timer_overruns"], 0, "one shot, armed anew by its own handler");
        assert_eq!(sent["fired"]["backup"], 1000, "the timer alone notices");
        // Departures are never before their time, and without trains no closer than the burst interval.
        assert!(sent["gap_ns"]["min"].as_u64() >= Some(281_250), "{work}: {}", sent["gap_ns"]);
    }
}

/// A pacing thread's time counts: it is the cost of the method.
#[test]
fn what_a_pacing_thread_uses_is_counted() {
    let (sent, _) = pair("--interval 200us --count 500 --timer thread");
    // Where most wake-ups come later than the next departure is due, one serves several.
    let in_time = sent["late_ns"]["p50"].as_u64() < Some(100_000);
    assert!(sent["wakeups"].as_u64() >= Some(if in_time { 125 } else { 1 }), "{}", sent["wakeups"]);
    assert!(sent["cpu_ns_per_packet"].as_f64() > Some(0.0), "{}", sent["cpu_ns_per_packet"]);
    assert!(sent["trigger_interval_ns"]["count"] == 0 && sent["timer_overruns"].is_null());
}

/// A loop that looks after every handler says how often.
#[test]
fn the_intervals_between_looks_are_reported() {
    for timer in ["soft", "loop", "spin", "pwait2"] {
        let (sent, _) = pair(&format!("--interval 500us --count 100 --busy echo --timer {timer}"));
        let intervals = &sent["trigger_interval_ns"];
        assert!(intervals["count"].as_u64() >= Some(100) && intervals["mean"].is_f64(), "{timer}: {sent}");
        assert_eq!(sent["long_handlers"].is_u64(), timer == "soft", "{timer}");
        assert_eq!(sent["longest_handler_ns"].as_u64() > Some(0), timer == "soft", "{timer}");
    }
}

/// The rate is that of the intervals between departures: n departures have n − 1 of them.
#[test]
fn a_short_run_is_not_counted_too_high() {
    let (sent, _) = pair("--interval 20ms --count 3");
    let (rate, gap) = (sent["achieved_pps"].as_f64().unwrap(), sent["gap_ns"]["mean"].as_f64().unwrap());
    assert!((rate * gap / 1e9 - 1.0).abs() < 1e-9, "{rate} {gap}");
    let (sent, _) = pair("--interval 20ms --count 1");
    assert_eq!(sent["achieved_pps"], Value::Null);
}

#[test]
fn the_smallest_and_the_largest_datagram_arrive() {
    for size in [32, 65_507] {
        let (sent, received) = pair(&format!("--interval 1ms --count 3 --size {size}"));
        assert_eq!(sent["config"]["size_bytes"], size);
        assert_eq!((&received["received"], &received["received_bytes"]), (&3.into(), &(3 * size).into()));
    }
}

#[test]
fn a_busy_sender_still_sends_everything_and_works() {
    for work in ["echo", "compute"] {
        let (sent, received) = pair(&format!("--interval 500us --count 200 --catch-up all --busy {work}"));
        assert_eq!((&sent["sent"], &received["received"]), (&200.into(), &200.into()), "{work}");
        assert!(sent["work_rate"].as_f64().is_some_and(|rate| rate > 0.0), "{work}: {}", sent["work_rate"]);
    }
}

#[test]
fn a_sender_whose_assertion_fails_says_so() {
    let receiver = Receiver::start("--once");
    let words = format!("send {} --interval 1ms --count 2 --assert sent>2", receiver.address);
    let output = command(&words).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("--assert 'sent>2' does not hold: sent is 2"), "{}", stderr(&output));
    receiver.finish();
}

/// Each second has a line, and the seconds add up to the object of `--json`; whoever sends, and however many.
#[test]
fn the_seconds_of_a_stream_add_up() {
    for flags in [
        "--rate 2kpps --duration 1300ms",
        "--rate 2kpps --duration 200ms --timer thread",
        "--rate 2kpps --duration 200ms --timer signal",
        "--rate 50pps --flows 40 --duration 200ms --catch-up none --timer loop",
        "--rate 10kpps --pattern poisson --seed 7 --duration 200ms --flows 2",
    ] {
        let receiver = Receiver::start("--once");
        let words = format!("send {} --json-stream {flags}", receiver.address);
        let output = command(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words}: {}", stderr(&output));
        let (lines, sent) = streamed(&output.stdout, "send", "sent");
        let total = &lines.last().unwrap()["total"];
        for key in ["forfeited", "fired", "late", "longest_burst", "packets_per_turn", "back_to_back"] {
            assert_eq!(total[key], sent[key], "{words}: {key}");
        }
        for (key, value) in ["late_ns", "gap_ns"]
            .iter()
            .flat_map(|key| ["count", "min", "p50", "p999", "max"].iter().map(move |value| (*key, *value)))
        {
            assert_eq!(total[key][value], sent[key][value], "{words}: {key}.{value}");
        }
        let seeds = lines.iter().map(|line| line.get("seed") == sent.get("seed"));
        assert!(seeds.into_iter().all(|same| same), "{words}");
        receiver.finish();
    }
}

/// The last object of a stream has the keys of the only one of `--json`, and assertions are about it.
#[test]
fn a_stream_ends_with_the_object_of_json() {
    let run = |flag: &str| {
        let receiver = Receiver::start("--once");
        let words = format!("send {} --interval 1ms --count 3 {flag} --assert sent>3", receiver.address);
        let output = command(&words).output().unwrap();
        assert!(stderr(&output).contains("sent is 3"), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(1));
        receiver.finish();
        output.stdout
    };
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let (_, last) = streamed(&run("--json-stream"), "send", "sent");
    assert_eq!(keys(&last), keys(&serde_json::from_slice(&run("--json")).unwrap()));
}

/// Each datagram has its event, whose file is made once and not overwritten unasked.
#[test]
fn a_trace_has_every_datagram() {
    let sink = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (address, path) = (sink.local_addr().unwrap(), std::env::temp_dir());
    let path = path.join(format!("softtimers-send-{}.json", std::process::id()));
    let words = format!("send {address} --no-handshake -i 100us --count 2000 --trace {}", path.display());
    let sent = run(&words);
    assert_eq!(sent.status.code(), Some(0), "{sent:?}");
    let events: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let datagrams = events.as_array().unwrap().iter().filter(|event| event["name"] == "datagram");
    assert_eq!(datagrams.count(), 2_000);
    let again = run(&words);
    std::fs::remove_file(&path).unwrap();
    assert!(refusal(&again, 2).contains("exists; --force overwrites it"), "{again:?}");
}
