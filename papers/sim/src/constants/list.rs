//! The list. A line: name, type and value, unit, origin, the flag whose default it is, the figures that move with it.
//! Durations are shown in microseconds.

use std::time::Duration;

use softtimers_poll::readings::Costs;

#[cfg(test)]
use super::changed::Changed;
use super::figure::Figure::{self, *};
use super::quantity::Quantity;
use super::table::constants;
use super::{Constant, Origin};
use crate::engine::arrivals::Bursts;
use Origin::{Fitted, Guess, Paper, Standard};

constants! {
    /// The router of the livelock paper: a DECstation 3000/300 with two Ethernets.
    livelock: Livelock {
        trace: u64 = 527, "‰ of a traced time",
            Fitted(JOINT, "by `livelock-fit`: the rest is instrumentation"), moves ROUTER_1;
        polling_interrupt: u64 = 53, "traced µs", Paper("livelock §8.1, figure 12"), moves ROUTER_2;
        polling_transmit_interrupt: u64 = 492 - 454, "traced µs", Paper("livelock §8.1, figure 12"), moves ROUTER_3;
        polling_switch: u64 = 97 - 53, "traced µs", Paper("livelock §8.1, figure 12"), moves ROUTER_2;
        polling_receive: u64 = 166 - 112, "traced µs", Paper("livelock §8.1, figure 12"), moves ROUTER_2;
        polling_input: u64 = 235 - 166, "traced µs", Paper("livelock §8.1, figure 12"), moves ROUTER_3;
        polling_output: u64 = 294 - 235, "traced µs", Paper("livelock §8.1, figure 12"), moves ROUTER_3;
        polling_finish: u64 = 407 - 294, "traced µs", Paper("livelock §8.1, figure 12"), moves ROUTER_3;
        polling_transmit: u64 = 586 - 544, "traced µs", Paper("livelock §8.1, figure 12"), moves ROUTER_3;
        polling_turn: u64 = 112 - 97, "traced µs", Paper("livelock §8.1, figure 12"), moves ROUTER_2;
        polling_transmit_turn: u64 = 544 - 492 + 597 - 586, "traced µs", Paper("livelock §8.1, figure 12"), moves ROUTER_3;
        polling_arm: u64 = 430 - 407, "traced µs", Paper("livelock §8.1, figure 12"), moves ROUTER_4;
        interrupt: u64 = 29, "traced µs", Paper("livelock §8.1, figure 11"), moves ROUTER_5;
        transmit_interrupt: u64 = 544 - 522, "traced µs", Paper("livelock §8.1, figure 11"), moves ROUTER_5;
        switch: u64 = 191 - 142, "traced µs", Paper("livelock §8.1, figure 11"), moves ROUTER_6;
        receive: u64 = 142 - 29, "traced µs", Paper("livelock §8.1, figure 11"), moves ROUTER_5;
        input: u64 = 264 - 191, "traced µs", Paper("livelock §8.1, figure 11"), moves ROUTER_5;
        output: u64 = 327 - 264, "traced µs", Paper("livelock §8.1, figure 11"), moves ROUTER_5;
        finish: u64 = 444 - 327, "traced µs", Paper("livelock §8.1, figure 11"), moves ROUTER_5;
        transmit: u64 = 633 - 544, "traced µs", Paper("livelock §8.1, figure 11"), moves ROUTER_5;
        handlers: u64 = 466, "‰ of a traced time, in interrupt handlers without polling",
            Fitted(JOINT_2, "by `livelock-fit`: handlers have a different number of calls and returns per µs than other steps"), moves ROUTER_5;
        unmodified: u32 = 70, "% of the modified kernel's steps, in threads",
            Fitted(JOINT_3, "by `livelock-fit`: there is no trace of that kernel"), moves ROUTER_7;
        unmodified_handlers: u32 = 108, "% of the modified kernel's steps, in interrupt handlers",
            Fitted(JOINT_3, "by `livelock-fit`: there is no trace of that kernel"), moves ROUTER_7;
        pollution: Duration = Duration::from_micros(3), "µs", Guess("some cache lines for each interruption of a thread"), moves ROUTER_8;
        user: Duration = Duration::from_nanos(19_800), "µs more for the network's thread after a process ran",
            Fitted(JOINT_4, "by `livelock-fit`: the process evicted some of the thread's code"), moves JOINT_4;
        cooling: u64 = 203, "‰ of the time for which others run, lost from screend's caches",
            Fitted(SCREEND, "by `livelock-fit`"), moves SCREEND;
        cold: Duration = Duration::from_nanos(207_200), "µs, the most it can lose; with cold caches screend is half as fast",
            Fitted(&[Feedback], "by `livelock-fit`"), moves &[Feedback];
        queue: Duration = Duration::from_nanos(30_400), "µs, to queue a packet for screend",
            Fitted(SCREEND, "by `livelock-fit`"), moves SCREEND;
        screend: Duration = Duration::from_nanos(5_700), "µs a packet, beside the rest of its path",
            Fitted(SCREEND, "by `livelock-fit`"), moves SCREEND;
        tick: Duration = Duration::from_micros(10), "µs", Guess("1% of the CPU, with `ticks`"), moves ROUTER_9;
        ticks: Duration = Duration::from_nanos(1_000_000_000 / 1_024), "µs", Standard("Digital UNIX on an Alpha: 1,024 Hz"), moves ROUTER_9;
        background: Duration = Duration::from_micros(500), "µs of each `background_period`",
            Paper("livelock §7: a process alone gets 94%, of which 1% is the clock's"), moves &[User];
        background_period: Duration = Duration::from_millis(10), "µs", Guess("as often as the paper's limit counts (§7)"), moves &[User];
        wire: Duration = Duration::from_nanos(67_200), "µs", Standard("84 bytes on 10 Mbit/s Ethernet: 14,880 packets/s"), moves ROUTER_10;
        descriptors: u32 = 8, "packets loaded at once",
            Fitted(&[Quotas], "by hand: 8 packets leave of turns of 10 and 20"),
            moves &[Quotas, BestQuota, Starvation];
        ifq: u32 = 50, "packets", Standard("4.3BSD: IFQ_MAXLEN, of ipintrq and output queues"), moves ROUTER_11;
        ring: u32 = 32, "packets", Guess("as a LANCE driver of the time"), flag "livelock" "ring", moves ROUTER_12;
        process_queue: u32 = 32, "packets", Paper("livelock §6.6.1, §9"), flag "livelock" "queue", flag "livelock-monitor" "queue", moves ROUTER_13;
        spread: u64 = 4, "th of a gap, either way",
            Fitted(&[User], "by hand: gaps vary, but the user process's loss shows that packets rarely came in groups"),
            moves ROUTER_14;
    }

    /// ULTRIX on a DECstation 3100, which copies each packet at device priority.
    burst: Burst {
        interrupt: Duration = Duration::from_micros(580), "µs",
            Fitted(&[FirstOfBurst], "the rest of the 1.33 ms until three are copied"), moves &[FirstOfBurst];
        receive: Duration = Duration::from_micros(250), "µs",
            Fitted(&[FirstOfBurst], "with `queue` the 253 µs of each further packet"), moves &[FirstOfBurst];
        queue: Duration = Duration::from_micros(3), "µs",
            Fitted(&[FirstOfBurst], "with `receive` the 253 µs of each further packet"), moves &[FirstOfBurst];
        process: Duration = Duration::from_micros(397), "µs",
            Fitted(&[FirstOfBurst], "the rest of the 1.23 ms for one alone"), moves &[FirstOfBurst];
    }

    /// tcpdump on the router.
    monitor: Monitor {
        filter: Duration = Duration::from_micros(20), "µs",
            Fitted(&[Captures], "with the driver's work so small that the interface drops almost nothing"), moves &[Captures];
        disk: Duration = Duration::from_micros(75), "µs",
            Fitted(&[Captures], "7,700 packets/s are captured of 9,000"), moves &[Captures];
        null: Duration = Duration::from_micros(22), "µs",
            Fitted(&[Captures], "about 11,000 packets/s almost saturate it"), moves &[Captures];
    }

    hip: Hip {
        interrupt: Duration = Costs::HIP.interrupt, "µs", Paper("HIP Table 2: V_I"), flag "hip" "interrupt", moves HIP_1;
        poll: Duration = Costs::HIP.poll, "µs", Paper("HIP Table 2: V_P"), flag "hip" "poll", moves HIP_2;
        transfer: Duration = Costs::HIP.transfer, "µs for 1,500 bytes", Paper("HIP Table 2: V(B)"), flag "hip" "transfer", moves HIP_3;
        switch: Duration = Costs::HIP.switch, "µs", Paper("HIP Table 2: V_S"), flag "hip" "switch", moves &[Figure::Hip, HipTradeOffs];
    }

    /// Traffic for HIP's lost traces: packets in a train × gap in µs (its constant share), trains in a
    /// session × pause in µs (its constant share), share of single packets. Found by `softtimers sim
    /// hip-traces --refit 3000`, the last six for the other reading of the text.
    hip_traces: HipTraces {
        short: u32 = 60, "bytes", Standard("the least frame without its check sequence"), moves TRACES_1;
        long: u32 = 1_514, "bytes, of busy traces", Standard("the longest"), moves TRACES_1;
        long_idle: u32 = 150, "bytes, of traces with a mean below 300",
            Guess("idle workstations get ARP, names and attributes of files"), moves TRACES_1;
        t_high_1: Bursts = Bursts::new(18_514, 864, 146, 50_042, 7_555, 592, 644), "", Fitted(TABLE_3, "seven figures of Table 3"), moves TRACES_2;
        t_high_2: Bursts = Bursts::new(5_678, 1_150, 509, 59_681, 4_777, 965, 810), "", Fitted(TABLE_3, "seven figures of Table 3"), moves TRACES_2;
        t_med_1: Bursts = Bursts::new(1_752, 89, 57, 10_693, 1_869, 200, 804), "", Fitted(TABLE_3, "seven figures of Table 3"), moves TRACES_2;
        t_med_2: Bursts = Bursts::new(3_055, 1_535, 766, 2_968, 15_033, 904, 698), "", Fitted(TABLE_3, "seven figures of Table 3"), moves TRACES_2;
        t_low_1: Bursts = Bursts::new(21_514, 814, 7, 1_218, 3_135, 949, 950), "", Fitted(TABLE_3, "seven figures of Table 3"), moves TRACES_2;
        t_low_2: Bursts = Bursts::new(11_198, 772, 171, 2_189, 2_404, 615, 951), "", Fitted(TABLE_3, "seven figures of Table 3"), moves TRACES_2;
        event_t_high_1: Bursts = Bursts::new(5_041, 1_425, 643, 1_352, 3_600, 198, 94), "", Fitted(TABLE_3, "seven figures of Table 3"), moves TRACES_3;
        event_t_high_2: Bursts = Bursts::new(6_390, 1_356, 780, 33_697, 7_116, 996, 480), "", Fitted(TABLE_3, "seven figures of Table 3"), moves TRACES_3;
        event_t_med_1: Bursts = Bursts::new(1_556, 633, 414, 8_936, 3_145, 1_000, 428), "", Fitted(TABLE_3, "seven figures of Table 3"), moves TRACES_3;
        event_t_med_2: Bursts = Bursts::new(2_746, 190, 203, 60_000, 83_299, 948, 329), "", Fitted(TABLE_3, "seven figures of Table 3"), moves TRACES_3;
        event_t_low_1: Bursts = Bursts::new(21_514, 814, 7, 1_218, 3_135, 949, 950), "", Fitted(TABLE_3, "as the counter's"), moves TRACES_3;
        event_t_low_2: Bursts = Bursts::new(11_198, 772, 171, 2_189, 2_404, 615, 951), "", Fitted(TABLE_3, "as the counter's"), moves TRACES_3;
    }

    /// A host beside a busy web server.
    pacing: Pacing {
        web_server: Duration = Duration::from_nanos(31_600), "µs",
            Fitted(&[Figure::Pacing], "the mean of core's `WebServer`, three gamma distributions fitted to the figures of §5.2 and to six waits of a reference model, which was fitted to these and to Table VIII's 65.9"),
            moves &[Figure::Pacing, Deadlines];
        mean: Duration = Duration::from_nanos(31_600), "µs", Paper("soft timers §5.2: Apache, 300 MHz"), flag "pacing" "mean", moves &[Figure::Pacing];
        disabled: Duration = Duration::from_micros(245), "µs, the longest time for which interrupts are disabled",
            Fitted(&[PacingHardware], "with `disabled_every` both means, 43 and 63.6 µs"), flag "pacing" "disabled", moves &[PacingHardware];
        disabled_every: Duration = Duration::from_micros(1_225), "µs on average",
            Fitted(&[PacingHardware], "with `disabled` both means, 43 and 63.6 µs"), flag "pacing" "disabled-every", moves &[PacingHardware];
    }

    /// The hardware timer behind soft timers.
    deadline: Deadline {
        mean: Duration = Duration::from_nanos(12_450), "µs", Paper("soft timers §5.2: Flash, 500 MHz"), flag "deadline" "mean", moves &[Deadlines];
        set: Duration = Duration::from_nanos(125), "µs",
            Fitted(&[Deadlines], "1% for setting the timer with every event"), flag "deadline" "set-cost", moves &[Deadlines];
        interrupt: Duration = Duration::from_nanos(1_700), "µs",
            Fitted(&[Deadlines], "the 3.6% that 26.3% of expiries add"), flag "deadline" "interrupt-cost", moves &[Deadlines];
    }

    polling: Polling {
        interrupt: Duration = Duration::from_nanos(4_450), "µs", Paper("soft timers §5.1"), flag "polling" "interrupt", moves &[Figure::Polling];
        poll: Duration = Duration::from_nanos(500), "µs", Guess("reading the status of the interfaces"), flag "polling" "poll", moves &[Figure::Polling];
        shift: Duration = Duration::from_micros(2), "µs", Guess("a cold cache, for each interrupt or poll that finds a packet"), flag "polling" "shift", moves &[Figure::Polling];
        apache_request: Duration = Duration::from_micros(1_200), "µs", Fitted(&[Figure::Polling], "the gains lie between 3 and 25%, more with Flash"), moves &[Figure::Polling];
        flash_request: Duration = Duration::from_micros(600), "µs", Fitted(&[Figure::Polling], "the gains lie between 3 and 25%, more with Flash"), moves &[Figure::Polling];
        apache_pollution: Duration = Duration::from_nanos(800), "µs", Paper("soft timers §5.1"), moves &[Figure::Polling];
        flash_pollution: Duration = Duration::from_nanos(1_600), "µs", Paper("soft timers §5.1"), moves &[Figure::Polling];
        http_packets: u64 = 16, "a request", Guess("counted for an answer of 6 kB"), moves &[Figure::Polling];
        p_http_packets: u64 = 9, "a request", Guess("the same without set-up and end of a connection"), moves &[Figure::Polling];
    }

    /// The path to a receiver.
    path: Path {
        segment: u32 = 1_500, "bytes", Paper("soft timers §5.7"), moves &[SlowStart, BigAcks];
        delayed_acks: Duration = Duration::from_millis(200), "µs", Standard("4.4BSD: the fast timer of TCP"), moves &[SlowStart, BigAcks];
        access_link: Duration = Duration::from_micros(12), "µs a packet", Standard("1,500 bytes at 1 Gbit/s"), moves &[BigAcks];
    }

    /// A receiver that stops reading.
    acks: Acks {
        protocol: Duration = Duration::from_micros(20), "µs a packet", Guess("in the receiver's kernel"), flag "pacing-acks" "protocol", moves &[];
        read: Duration = Duration::from_micros(40), "µs a packet", Guess("in its application"), flag "pacing-acks" "read", moves &[BigAcks];
    }

    /// The machine of the callouts, and the costs of their operations.
    callout: Callout {
        instruction: Duration = Duration::from_nanos(60), "µs",
            Fitted(&[OldList], "1.324 µs for each timer that the old list passes by, of 22 instructions"), flag "callout" "instruction", moves CALLOUTS_1;
        call: Duration = Duration::from_nanos(124_600), "µs",
            Fitted(&[OldList], "the rest of 136.7 µs, with only the kernel's timers outstanding"), flag "callout" "call", moves CALLOUTS_1;
        kernel_timers: u64 = 5, "timers", Paper("callouts §5: \"only five or six\""), flag "callout" "kernel-timers", moves CALLOUTS_1;
        list_set: u64 = 46, "instructions", Paper("callouts Table II"), moves &[OldList];
        list_cancel: u64 = 45, "instructions", Paper("callouts Table II"), moves &[OldList];
        list_passed: u64 = 11, "instructions a timer", Paper("callouts Table II"), moves &[OldList];
        list_hardclock: u64 = 34, "instructions", Paper("callouts Table II"), moves &[OldList];
        list_overdue: u64 = 11, "instructions a timer", Paper("callouts Table II"), moves &[];
        list_expired: u64 = 28, "instructions a timer", Paper("callouts Table II"), moves &[OldList];
        softclock: u64 = 27, "instructions", Paper("callouts Table II"), moves CALLOUTS_1;
        hash_set: u64 = 81, "instructions", Paper("callouts Table II"), moves &[ByHash];
        hash_cancel: u64 = 80, "instructions", Paper("callouts Table II"), moves &[ByHash];
        hash_passed: u64 = 11, "instructions a timer", Paper("callouts Table II"), moves &[];
        hash_expired: u64 = 54, "instructions a timer", Paper("callouts Table II"), moves &[ByHash];
        handle_set: u64 = 60, "instructions", Paper("callouts Table II"), moves &[ByHandle];
        handle_cancel: u64 = 55, "instructions", Paper("callouts Table II"), moves &[ByHandle];
        handle_expired: u64 = 37, "instructions a timer", Paper("callouts Table II"), moves &[ByHandle];
        wheel_hardclock: u64 = 37, "instructions", Paper("callouts Table II"), moves &[ByHash, ByHandle];
        wheel_behind: u64 = 20, "instructions a tick", Paper("callouts Table II"), moves &[ByHash, ByHandle];
        wheel_traversed: u64 = 12, "instructions a timer", Paper("callouts Table II"), moves CALLOUTS_1;
    }

    framerate: Framerate {
        work: Duration = Duration::from_millis(1), "µs a frame", Guess("to decode and show it"), flag "framerate" "work", moves &[];
    }

    /// The job and its noise.
    noise: Noise {
        p: f64 = 0.01, "of phases", Paper("smart timers §2.2, figure 3"), flag "noise" "p", moves &[Figure::Noise];
        held_up: f64 = 1.6, "times as long", Paper("smart timers §2.2"), flag "noise" "held-up", moves &[Figure::Noise];
        p_long: f64 = 0.05, "of those, twice as long", Guess("rare, but a large machine waits for them"), flag "noise" "p-long", moves &[Figure::Noise];
    }
}

/// Sets of figures that several constants move, or were fitted to.
macro_rules! sets {
    ($($set:ident: $($figure:ident),+;)*) => {
        $(const $set: &[Figure] = &[$(Figure::$figure),+];)*
    };
}

sets! {
    TABLE_3: HipPolling, Hip;
    JOINT: Unmodified, NoPolling, UnmodifiedScreend, Quota5, Quotas, Feedback, User;
    JOINT_2: Unmodified, NoPolling, UnmodifiedScreend;
    JOINT_3: Unmodified, UnmodifiedScreend;
    JOINT_4: UnmodifiedScreend, Feedback, User;
    SCREEND: UnmodifiedScreend, Feedback;
    ROUTER_1: Unmodified, NoPolling, UnmodifiedScreend, Quota5, Quotas, BestQuota, Feedback, User, BurstOfThree, Starvation, Captures;
    ROUTER_2: Quota5, Quotas, BestQuota, Feedback, User, BurstOfThree, Captures;
    ROUTER_3: Quota5, Quotas, BestQuota, Feedback, User, BurstOfThree;
    ROUTER_4: Feedback, User, BurstOfThree, Captures;
    ROUTER_5: Unmodified, NoPolling, UnmodifiedScreend, BurstOfThree, Starvation;
    ROUTER_6: Unmodified, NoPolling, UnmodifiedScreend, BurstOfThree;
    ROUTER_7: Unmodified, UnmodifiedScreend, Starvation;
    ROUTER_8: Unmodified, NoPolling, UnmodifiedScreend, Quota5, Quotas, BestQuota, Feedback, User, BurstOfThree, Captures;
    ROUTER_9: Unmodified, NoPolling, UnmodifiedScreend, Quota5, Quotas, BestQuota, Feedback, User, Starvation, Captures;
    ROUTER_10: Unmodified, NoPolling, UnmodifiedScreend, Quota5, Quotas, BestQuota, Feedback, User, BurstOfThree;
    ROUTER_11: Unmodified, NoPolling, Quotas, BestQuota;
    ROUTER_12: Quota5, Quotas, BestQuota, Feedback, User;
    ROUTER_13: UnmodifiedScreend, Feedback, Captures;
    ROUTER_14: Unmodified, NoPolling, UnmodifiedScreend, Quota5, Quotas, BestQuota, Feedback, User, Starvation, Captures;
    HIP_1: HipInterrupts, Hip, HipTradeOffs;
    HIP_2: HipPolling, Hip, HipTradeOffs;
    HIP_3: HipInterrupts, HipPolling, Hip, HipTradeOffs;
    TRACES_1: HipTraces, HipInterrupts, HipPolling, Hip, HipTradeOffs;
    TRACES_2: HipTraces, HipPolling, Hip, HipTradeOffs;
    TRACES_3: HipTraces, HipPolling, Hip;
    CALLOUTS_1: OldList, ByHash, ByHandle;
}
