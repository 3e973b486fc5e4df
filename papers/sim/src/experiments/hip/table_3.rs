//! `softtimers sim hip`: Tables 1 to 3, and every parameter of them.

use super::paper::PaperTrace;
use super::parameters::{PARAMETERS, settings};
use super::scheme::{Scheme, Schemes};
use super::source::{self, Arriving, Synthetic, sources};
use crate::engine::receiver::{ReceiveStats, Settling};
use crate::{Column, Experiment, Parameters, Row, RunError, Steps, Streams, Value};

/// Table 3, for any trace and any parameters of Table 2.
pub(crate) static HIP: Experiment = Experiment {
    name: "hip",
    about: "Interrupts, polls, or both by the gaps between packets (Dovrolis, Thayer, Ramanathan 2001)",
    details: "One device and one CPU. An interrupt takes V_I + V(B) and the packets that arrive during it, a \
              poll V_P + V(B); a change between the two costs V_S. The delay of a packet is from its arrival \
              to the end of the interrupt or poll that takes it; the overhead is the CPU time for each \
              packet. Without options: Table 3, with the paper's figures beside it. The traces are \
              reconstructions of the paper's, which are lost: see hip-traces.",
    parameters: PARAMETERS,
    columns: COLUMNS,
    sweep: &[],
    check,
    run,
};

const COLUMNS: &[Column] = &[
    Column::words("source", "whose packets"),
    Column::words("scheme", "how packets are noticed"),
    Column::new("packets", "packets received"),
    Column::new("overhead_us", "Avg-Overhead: CPU time for a packet").digits(2),
    Column::new("paper_overhead_us", "what Table 3 says").digits(1).given(),
    Column::new("delay_us", "Avg-Delay: from arrival to the end of interrupt or poll").digits(1),
    Column::new("paper_delay_us", "what Table 3 says").digits(1).given(),
    Column::new("longest_delay_us", "the longest delay of any packet").digits(1),
    Column::new("interrupts", "Total # of Interrupts"),
    Column::new("paper_interrupts", "what Table 3 says").given(),
    Column::new("per_interrupt", "Avg. Packets per Interrupt").digits(2),
    Column::new("polls", "Total # of Polls"),
    Column::new("paper_polls", "what Table 3 says").given(),
    Column::new("unsuccessful", "Total # of Unsucc. Polls"),
    Column::new("paper_unsuccessful", "what Table 3 says").given(),
    Column::new("per_poll", "Avg. Packets per Poll, over all polls").digits(2),
    Column::new("paper_per_poll", "what Table 3 says").digits(1).given(),
    Column::new("switches", "changes between interrupts and polls"),
    Column::new("most_pps", "section 2's R: packets/s whose overhead takes a CPU").digits(0),
    Column::share("lost", "share of packets dropped by a full device (--ring)"),
    Column::new("settled_packets", "first packet of steady delays (MSER-5), within 5,000").greatest(),
];

fn check(parameters: &Parameters) -> Result<(), RunError> {
    let settings = settings(parameters)?;
    let schemes: Schemes = parameters.choice("scheme");
    schemes.all().into_iter().try_for_each(|scheme| settings.check(scheme))?;
    source::check(parameters)
}

fn run(parameters: &Parameters, streams: Streams, steps: &Steps) -> Result<Vec<Row>, RunError> {
    check(parameters)?;
    let (settings, schemes) = (settings(parameters)?, parameters.choice::<Schemes>("scheme").all());
    let mut rows = vec![];
    for source in sources(parameters, streams)? {
        for &scheme in &schemes {
            let mut settling = Settling::default();
            let account = settings.run(
                scheme,
                source.arrivals().take_while(|_| steps.is_wanted()),
                streams.seed(),
                |at, event| settling.watch(at, event),
            );
            let paper = source.paper.filter(|_| settings.are_of_table_2());
            let settled = settling.settled().filter(|_| is_steady(parameters));
            let mut row = row(source.name, scheme, &account, paper);
            row.push(settled.into());
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Returns whether packets arrive at one rate throughout: recordings and bursts have no steady state.
fn is_steady(parameters: &Parameters) -> bool {
    parameters.trace("trace").is_none()
        && matches!(
            parameters.choice("synthetic"),
            Synthetic::Arriving(Arriving::Constant | Arriving::Poisson)
        )
}

/// All cells except the last.
fn row(trace: &str, scheme: Scheme, account: &ReceiveStats, paper: Option<&PaperTrace>) -> Row {
    let found = paper.map(|paper| &paper.found);
    let hip = found.filter(|_| scheme == Scheme::Hip);
    let (overhead, delay) = match scheme {
        Scheme::Interrupts => (found.map(|f| f.interrupts_overhead), found.map(|f| f.interrupts_overhead)),
        Scheme::Polling => (found.map(|f| f.polling_overhead), found.map(|f| f.polling_delay)),
        _ => (hip.map(|f| f.overhead), hip.map(|f| f.delay)),
    };
    let mean = |packets: f64, looks: u64| if looks == 0 { Value::Missing } else { packets.into() };
    vec![
        trace.into(),
        scheme.name().into(),
        account.packets().into(),
        account.overhead_us().into(),
        overhead.into(),
        account.delay_us().into(),
        delay.into(),
        (account.longest_delay.as_nanos() as f64 / 1_000.0).into(),
        account.interrupts.into(),
        hip.map(|f| f.interrupts).into(),
        mean(account.packets_per_interrupt(), account.interrupts),
        account.polls.into(),
        hip.map(|f| f.polls).into(),
        account.unsuccessful.into(),
        hip.map(|f| f.unsuccessful).into(),
        mean(account.packets_per_poll(), account.polls),
        hip.map(|f| f.packets_per_poll).into(),
        account.switches.into(),
        (1e6 / account.overhead_us().max(1e-6)).into(),
        (account.lost as f64 / (account.lost + account.packets()).max(1) as f64).into(),
    ]
}
