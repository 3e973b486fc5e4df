//! The report's sections, as data: what each shows, of which runs, beside which paper.
//!
//! To add one: a line here, a function in `draw`, and a line in [`source`](super::source) if nothing
//! that is run already has its figures. HTML, Markdown, JSON, `--only` and the table of contents follow.

use serde::Serialize;

use super::draw;
use super::figure::Drawn;
use super::saved::Runs;

/// A section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    /// What `--only` calls it.
    pub(crate) name: &'static str,
    /// Its heading.
    pub(crate) title: &'static str,
    /// Where it stands.
    pub(crate) part: Part,
    /// How to read it, in one sentence; what it shows is computed.
    pub(crate) see: &'static str,
    /// What it stands beside.
    pub(crate) papers: &'static str,
    /// The runs it is made of.
    pub(crate) sources: &'static [&'static str],
    /// Makes its figures.
    pub(crate) draw: fn(&Runs, &mut Drawn),
}

/// The parts of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    /// What it comes to.
    Summary,
    /// Measured on a machine.
    Measured,
    /// Of the papers' machines, simulated.
    Simulated,
}

impl Part {
    /// Its heading.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Part::Summary => "In short",
            Part::Measured => "Measured on this machine",
            Part::Simulated => "The papers' experiments, simulated",
        }
    }
}

/// The section of this name.
pub(crate) fn find(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.name == name)
}

/// All sections, in the order of the report.
pub(crate) static SECTIONS: &[Section] = &[
    Section {
        name: "summary",
        title: "The papers' figures and ours",
        part: Part::Summary,
        see: "The papers' headline figures, and the same figures of these runs.",
        papers: "the abstracts and conclusions of all five papers",
        sources: &[
            "doctor",
            "bench-hybrid",
            "bench-naive",
            "probe",
            "noise",
            "sim-polling",
            "sim-deadline",
            "sim-slowstart",
        ],
        draw: draw::summary::draw,
    },
    Section {
        name: "costs",
        title: "What timers cost here",
        part: Part::Measured,
        see: "The CPU time of each operation, on a logarithmic axis.",
        papers: "Aron and Druschel, Soft timers (2000), section 5.1",
        sources: &["doctor"],
        draw: draw::costs::draw,
    },
    Section {
        name: "lateness",
        title: "Lateness by method",
        part: Part::Measured,
        see: "How late each method sent, by percentile; lower is better.",
        papers: "Soft timers, section 3: late by at most the interval between two trigger states",
        sources: &["doctor"],
        draw: draw::streams::lateness,
    },
    Section {
        name: "gaps",
        title: "Inter-packet gaps",
        part: Part::Measured,
        see: "A perfectly paced stream is a vertical line at the target gap; a tail to the left means micro-bursts.",
        papers: "Soft timers, section 5.7, Tables VIII and IX",
        sources: &["doctor"],
        draw: draw::streams::gaps,
    },
    Section {
        name: "strip",
        title: "Micro-bursts",
        part: Part::Measured,
        see: "Each stroke is a packet; a block of strokes is a micro-burst.",
        papers: "Soft timers, section 5.6",
        sources: &["doctor"],
        draw: draw::streams::strip,
    },
    Section {
        name: "lateness-cpu",
        title: "Lateness against CPU time",
        part: Part::Measured,
        see: "Further left costs less CPU, lower is less late.",
        papers: "Soft timers, section 5.6; Tsafrir and others (2005), section 3",
        sources: &["doctor"],
        draw: draw::streams::lateness_by_cpu,
    },
    Section {
        name: "slack",
        title: "Wake-ups against slack",
        part: Part::Measured,
        see: "Wake-ups and lateness by the slack that the timers were given.",
        papers: "Tsafrir, Etsion and Feitelson, General-purpose timing: the failure of periodic timers (2005), section 3",
        sources: &["slack"],
        draw: draw::streams::slack,
    },
    Section {
        name: "triggers",
        title: "Trigger states of this kernel",
        part: Part::Measured,
        see: "Intervals between two trigger states by percentile, beside two points of the paper's busiest server.",
        papers: "Soft timers, section 5.2, Figures 2 and 3, Tables IV and V",
        sources: &["probe"],
        draw: draw::triggers::draw,
    },
    Section {
        name: "goodput",
        title: "Goodput against offered load",
        part: Part::Measured,
        see: "Packets delivered against packets offered, for a receiver with quotas and for the usual loop.",
        papers: "Mogul and Ramakrishnan, Eliminating receive livelock (1997), Figures 2 and 6",
        sources: &["bench-hybrid", "bench-naive"],
        draw: draw::overload::goodput,
    },
    Section {
        name: "wan",
        title: "An emulated path, set and measured",
        part: Part::Measured,
        see: "Rate and loss by what the two ends counted, lateness by the path's own clock, beside what was set.",
        papers: "Soft timers, section 5.8, emulated its wide-area path in a kernel's IP layer",
        sources: &["wan"],
        draw: draw::path::draw,
    },
    Section {
        name: "noise",
        title: "Noise, and what it does to parallel jobs",
        part: Part::Measured,
        see: "How long a computation of 1 ms took, and how a parallel job of such phases would slow down.",
        papers: "Tsafrir, Etsion and Feitelson (2005), section 2.2, Figure 3",
        sources: &["noise", "sim-noise"],
        draw: draw::noise::draw,
    },
    Section {
        name: "overhead",
        title: "Overhead by the rate of wake-ups",
        part: Part::Measured,
        see: "The cost of a periodic tick and of smart timers, by the rate of wake-ups.",
        papers: "Tsafrir, Etsion and Feitelson (2005), sections 2.1 and 2.3, Figure 4",
        sources: &["rates"],
        draw: draw::noise::overhead,
    },
    Section {
        name: "peers",
        title: "The wheel beside its peers",
        part: Part::Measured,
        see: "The cost of each timer structure by the number of pending timers.",
        papers: "Varghese and Lauck (1987), scheme 7; Costello and Varghese (1998)",
        sources: &["timers"],
        draw: draw::structures::peers,
    },
    Section {
        name: "pacing",
        title: "Rate-based clocking",
        part: Part::Simulated,
        see: "The mean gap and its deviation by the burst interval, beside the paper's points.",
        papers: "Soft timers, section 5.7, Tables VIII and IX",
        sources: &["sim-pacing"],
        draw: draw::rates::pacing,
    },
    Section {
        name: "slowstart",
        title: "Slow start and a known rate",
        part: Part::Simulated,
        see: "Response times with slow start and with pacing at the known rate of the path.",
        papers: "Soft timers, section 5.8 and appendix A.2, Tables X and XI",
        sources: &["sim-slowstart"],
        draw: draw::rates::slow_start,
    },
    Section {
        name: "deadline",
        title: "A deadline behind soft timers",
        part: Part::Simulated,
        see: "The share of events that the hardware timer fires, by how late they may be.",
        papers: "Soft timers, section 5.9, Table XIII",
        sources: &["sim-deadline"],
        draw: draw::rates::deadline,
    },
    Section {
        name: "polling",
        title: "Polling the network on soft timers",
        part: Part::Simulated,
        see: "Requests gained over interrupts by the packets wanted in a poll.",
        papers: "Soft timers, section 5.8, Table XII",
        sources: &["sim-polling"],
        draw: draw::rates::polling,
    },
    Section {
        name: "livelock",
        title: "Receive livelock",
        part: Part::Simulated,
        see: "Output against input of the simulated kernels, beside the points read from the paper's plots.",
        papers: "Mogul and Ramakrishnan (1997), Figures 2, 5, 6, 7, 9 and 10 (6-1 to 7-1 in the version of 1996)",
        sources: &["sim-livelock"],
        draw: draw::overload::livelock,
    },
    Section {
        name: "hip",
        title: "HIP: interrupts and polls by the gaps",
        part: Part::Simulated,
        see: "Overhead and delay of each scheme on each trace, beside the paper's Table 3.",
        papers: "Dovrolis, Thayer and Ramanathan, HIP (2001), Tables 1 to 3",
        sources: &["sim-hip"],
        draw: draw::hip::table_3,
    },
    Section {
        name: "hip-tradeoffs",
        title: "What HIP's gamma and phi trade",
        part: Part::Simulated,
        see: "Overhead and delay of each trace by gamma and by phi; the paper's text names 2 to 3 for both.",
        papers: "HIP, section 6, which names 2 to 3 for gamma and for phi; its Figures 3 and 4 are lost",
        sources: &["sim-hip-gamma", "sim-hip-phi"],
        draw: draw::hip::trade_offs,
    },
    Section {
        name: "callouts",
        title: "Callouts of BSD",
        part: Part::Simulated,
        see: "The cost of setting and cancelling a callout by the number outstanding, beside the paper's points.",
        papers: "Costello and Varghese, Redesigning the BSD callout and timer facilities (1998), Table I",
        sources: &["sim-callout"],
        draw: draw::structures::callouts,
    },
    Section {
        name: "framerate",
        title: "Video frames and ticks",
        part: Part::Simulated,
        see: "The share of video frames shown in time, by the kernel's tick.",
        papers: "Tsafrir, Etsion and Feitelson (2005), section 2.1, Figure 1",
        sources: &["sim-framerate"],
        draw: draw::rates::frame_rate,
    },
];

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn each_section_has_known_sources_and_each_source_a_section() {
        for section in SECTIONS {
            for name in section.sources {
                assert!(source::find(name).is_some(), "{}: {name}", section.name);
            }
        }
        let used = |name| SECTIONS.iter().any(|section| section.sources.contains(&name));
        assert!(source::SOURCES.iter().all(|source| used(source.name)));
    }

    #[test]
    fn what_to_see_is_one_sentence() {
        for section in SECTIONS {
            assert!(section.see.ends_with('.') && !section.see.contains(". "), "{}", section.see);
            assert_eq!(SECTIONS.iter().filter(|other| other.name == section.name).count(), 1);
        }
    }

    #[test]
    fn without_any_run_every_section_says_what_is_missing() {
        for section in SECTIONS {
            let mut drawn = Drawn::default();
            (section.draw)(&Runs::default(), &mut drawn);
            assert!(drawn.is_empty() && !drawn.lacks.is_empty(), "{}", section.name);
            assert!(drawn.lacks[0].contains("among the saved runs"), "{:?}", drawn.lacks);
        }
    }
}
