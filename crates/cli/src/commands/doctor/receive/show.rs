//! The diagnosis for people: the verdict, what to change at each place, and the CPUs and interfaces behind it.

use super::Receive;
use super::report::{Cpu, Interface, ReceiveReport, State};
use crate::run::grid::Grid;
use crate::run::output::Report;
use crate::run::quantity::{or_dash, share};
use crate::run::screen::Tone;
use crate::run::table::Table;

impl Report<Receive> for ReceiveReport {
    const SCHEMA: &'static str = "softtimers.doctor.receive/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        let is_bad = matches!(self.state, State::Losing | State::Livelock);
        table.text(&self.verdict, if is_bad { Tone::Bad } else { Tone::Good });
        if !self.findings.is_empty() {
            table.heading("Where, and what to change");
        }
        for finding in &self.findings {
            table.text(&format!("{}. Change: {}.", finding.says, finding.change), Tone::Plain);
        }
        table.heading("CPUs");
        table.grid(cpus(&self.cpus));
        if !self.interfaces.is_empty() {
            table.heading("Interfaces");
            table.grid(interfaces(&self.interfaces));
        }
        table
    }
}

fn cpus(cpus: &[Cpu]) -> Grid {
    let mut grid =
        Grid::new(["CPU number", "interrupts", "softirq", "idle", "received", "backlog full", "budget used"]);
    for cpu in cpus {
        let counts = [cpu.processed, cpu.dropped, cpu.squeezed].map(|count| count.to_string());
        let shares = [cpu.irq_share, cpu.softirq_share, cpu.idle_share].map(share);
        grid.toned(
            [cpu.cpu.to_string()].into_iter().chain(shares).chain(counts),
            Tone::bad_if(cpu.dropped > 0),
        );
    }
    grid
}

fn interfaces(interfaces: &[Interface]) -> Grid {
    let mut grid = Grid::new([
        "interface",
        "packets",
        "ring full",
        "dropped",
        "queues",
        "pollable",
        "threaded",
        "deferred interrupts",
        "flush time-out",
    ]);
    for one in interfaces {
        let counts = [one.packets, one.missed, one.dropped, one.queues].map(|count| count.to_string());
        let settings = [
            or_dash(one.pollable_queues, |number| number.to_string()),
            or_dash(one.threaded, |flag| if flag { "yes" } else { "no" }.to_owned()),
            or_dash(one.napi_defer_hard_irqs, |number| number.to_string()),
            or_dash(one.gro_flush_timeout_ns, |nanos| format!("{nanos} ns")),
        ];
        let is_bad = one.missed + one.dropped > 0;
        grid.toned([one.name.clone()].into_iter().chain(counts).chain(settings), Tone::bad_if(is_bad));
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::super::report::{Finding, Socket};
    use super::*;
    use crate::run::snapshot::{self, Live};

    #[test]
    fn snapshot() {
        let cpu = |cpu, softirq_share, dropped| Cpu {
            cpu,
            irq_share: 0.04,
            softirq_share,
            idle_share: 0.01,
            processed: 812_345,
            dropped,
            squeezed: 3,
        };
        let report = ReceiveReport {
            state: State::Livelock,
            verdict: "This machine is in receive livelock: most of a CPU goes into receiving, and what it receives is \
                      lost. 270.8 kpps came in for 3 s, and receiving took 93.0% of CPU 0."
                .to_owned(),
            findings: vec![Finding {
                place: "udp",
                count: 612_345,
                says: "UDP: 612345 datagrams found a socket's receive buffer full (port 5000: 612345)".to_owned(),
                change: "finish each datagram before the next".to_owned(),
            }],
            cpus: vec![cpu(0, 0.89, 0), cpu(1, 0.02, 17)],
            interfaces: vec![Interface {
                name: "eth0".to_owned(),
                packets: 812_000,
                missed: 12,
                queues: 1,
                pollable_queues: Some(1),
                threaded: Some(false),
                napi_defer_hard_irqs: Some(0),
                gro_flush_timeout_ns: None,
                ..Interface::default()
            }],
            sockets: vec![Socket { port: 5000, inode: 4711, drops: 612_345, queued_bytes: 212_992 }],
            ..ReceiveReport::default()
        };
        let header = "doctor: what this machine receives and loses, for 3 s";
        snapshot::check("doctor-receive", header, &Live::none(), &report);
    }
}
