//! The commands, each as short as it runs.

/// A command of the program.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    /// Its words. `DIR` is a directory of its own, `TO` a `softtimers recv`, `SINK` a socket that takes everything and
    /// `ECHO` one that answers.
    pub(crate) words: &'static str,
    pub(crate) place: Place,
    /// Takes seconds: outside the full matrix, one fault of each kind.
    pub(crate) slow: bool,
}

/// The place in which it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Here,
    /// In a network of its own, between the ends `wa` and `wb` of two cables. Takes root.
    Network,
}

const fn here(name: &'static str, words: &'static str) -> Line {
    Line { name, words, place: Place::Here, slow: false }
}

const fn slow(name: &'static str, words: &'static str) -> Line {
    Line { slow: true, ..here(name, words) }
}

const fn network(name: &'static str, words: &'static str) -> Line {
    Line { place: Place::Network, ..here(name, words) }
}

pub(crate) const LINES: &[Line] = &[
    here("send", "send TO --rate 500pps --duration 50ms --json"),
    here("send-stream", "send TO --rate 500pps --duration 50ms --json-stream"),
    here("send-trace", "send SINK --no-handshake --rate 500pps --duration 50ms --trace DIR/t.json --json"),
    here("send-signal", "send SINK --no-handshake --rate 500pps --duration 50ms --timer signal --json"),
    here("send-tick", "send SINK --no-handshake --rate 500pps --duration 50ms --timer tick --json"),
    here("send-timerfd", "send SINK --no-handshake --rate 500pps --duration 50ms --timer timerfd --json"),
    here("send-thread", "send SINK --no-handshake --rate 500pps --duration 50ms --timer thread --json"),
    here("send-kernel", "send SINK --no-handshake --rate 500pps --duration 50ms --timer kernel --json"),
    here("send-echo", "send SINK --no-handshake --rate 500pps --duration 50ms --busy echo --json"),
    here(
        "send-flows",
        "send SINK --no-handshake --rate 500pps --flows 4 --quantum 4 --duration 50ms --cpu 0 --json",
    ),
    here("recv", "recv 127.0.0.1:0 --duration 50ms --json"),
    here("recv-stream", "recv 127.0.0.1:0 --duration 50ms --json-stream"),
    here("replay", "replay DIR/recording.csv SINK --no-handshake --json"),
    here("echo-client", "echo-client ECHO --duration 50ms --json"),
    here("forward-udp", "forward --udp 127.0.0.1:0 --to SINK --duration 50ms --json"),
    here(
        "forward-rules",
        "forward --udp 127.0.0.1:0 --to SINK --rules DIR/rules --metrics 127.0.0.1:0 --duration 50ms --json-stream",
    ),
    network("forward", "forward wa wb --duration 50ms --json"),
    network("forward-pollers", "forward wa wb --pollers 2 --rules DIR/rules --duration 50ms --json"),
    network("forward-xdp", "forward wa wb --driver xdp --duration 50ms --json"),
    here("wan-udp", "wan --listen 127.0.0.1:0 --to SINK --rtt 10ms --duration 50ms --json"),
    here("wan-tcp", "wan --tcp --listen 127.0.0.1:0 --to SINK --rtt 10ms --duration 50ms --json-stream"),
    here("wan-control", "wan --listen 127.0.0.1:0 --to SINK --control DIR/control --duration 50ms --json"),
    slow("wan-self-test", "wan --self-test --json"),
    network("wan-ifaces", "wan --ifaces wa,wb --rtt 10ms --duration 50ms --json"),
    network("capture", "capture wa -w DIR/c.pcapng --duration 50ms --json"),
    network(
        "capture-queue",
        "capture wa -w DIR/c.pcapng --queue 64 --rotate 1MiB --duration 50ms --json-stream",
    ),
    network("capture-pipe", "capture wa -w DIR/fifo --force --filter udp --duration 50ms --json"),
    here("probe", "probe --duration 50ms --json"),
    here("probe-command", "probe --json -- true"),
    slow("doctor", "doctor --quick --json"),
    slow("bench", "bench --at 1kpps --trial 40ms --stages 2 --beside compute --json"),
    slow("noise", "noise --phases 100 --phase 200us --json"),
    slow("noise-rates", "noise --rates 1kHz --rounds 1 --turn 20ms --json"),
    here("sim", "sim deadline --duration 10ms --out DIR/s.csv --json"),
    here("sim-csv", "sim deadline --duration 10ms --threads 2 --csv"),
    slow("report", "report --quick --only costs --out DIR/r.html --json"),
    here("man", "man send"),
    here("completions", "completions bash"),
];
