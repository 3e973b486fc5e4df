//! The report's sections, as data: what each shows, of which runs, beside which paper.
//!
//! To add one: a line here, a function in `draw`, and a line in [`source`](super::source) if nothing
//! that is run already has its figures. HTML, Markdown, JSON, `--only` and the table of contents follow.

use serde::Serialize;

use super::draw;
use super::draw::claims::{self, Claim};
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
    /// What to see, in one sentence.
    pub(crate) see: &'static str,
    /// Whether the runs agree with it.
    pub(crate) claim: Claim,
    /// What it stands beside.
    pub(crate) papers: &'static str,
    /// The runs it is made of.
    pub(crate) sources: &'static [&'static str],
    /// The other sections' runs that it looks at if they are there.
    pub(crate) looks_at: &'static [&'static str],
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
        see: "Where a hardware timer took an eighth to a third of the papers' processors, soft timers took a few percent; what \
              both come to here stands beside it.",
        claim: claims::GUIDE,
        papers: "the abstracts and conclusions of all five papers",
        sources: &[],
        looks_at: &[
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
        see: "A look when nothing is due costs little more than reading the clock; waking up costs hundreds of times as much.",
        claim: claims::costs,
        papers: "Aron and Druschel, Soft timers (2000), section 5.1",
        sources: &["doctor"],
        looks_at: &[],
        draw: draw::costs::draw,
    },
    Section {
        name: "lateness",
        title: "Lateness by method",
        part: Part::Measured,
        see: "In a busy loop the methods that look at the clock between handlers are the punctual ones; in an idle one nearly \
              all are, up to the wake-ups that the scheduler delays.",
        claim: claims::lateness,
        papers: "Soft timers, section 3: late by at most the interval between two trigger states",
        sources: &["doctor"],
        looks_at: &[],
        draw: draw::streams::lateness,
    },
    Section {
        name: "gaps",
        title: "Gaps, and packets back to back",
        part: Part::Measured,
        see: "An even stream stands upright at its target; a foot to the left of it are packets back to back.",
        claim: claims::GUIDE,
        papers: "Soft timers, section 5.7, Tables VIII and IX",
        sources: &["doctor"],
        looks_at: &[],
        draw: draw::streams::gaps,
    },
    Section {
        name: "strip",
        title: "Micro-bursts",
        part: Part::Measured,
        see: "Each stroke is a packet: within any 100 µs an even stream has two or three, a bursty one has blocks and holes.",
        claim: claims::GUIDE,
        papers: "Soft timers, section 5.6",
        sources: &["doctor"],
        looks_at: &[],
        draw: draw::streams::strip,
    },
    Section {
        name: "lateness-cpu",
        title: "Lateness against processor time",
        part: Part::Measured,
        see: "Spinning is punctual and takes all of a processor; further left is cheaper and lower is more punctual.",
        claim: claims::spinning,
        papers: "Soft timers, section 5.6; Tsafrir and others (2005), section 3",
        sources: &["doctor"],
        looks_at: &[],
        draw: draw::streams::lateness_by_cpu,
    },
    Section {
        name: "slack",
        title: "Wake-ups against slack",
        part: Part::Measured,
        see: "What may be late together leaves together: wake-ups fall as slack grows, and lateness is the price.",
        claim: claims::slack,
        papers: "Tsafrir, Etsion and Feitelson, General-purpose timing: the failure of periodic timers (2005), section 3",
        sources: &["slack"],
        looks_at: &[],
        draw: draw::streams::slack,
    },
    Section {
        name: "triggers",
        title: "Trigger states of this kernel",
        part: Part::Measured,
        see: "Between two trigger states lie microseconds on a busy processor: half of the intervals are below the paper's 18 µs.",
        claim: claims::triggers,
        papers: "Soft timers, section 5.2, Figures 2 and 3, Tables IV and V",
        sources: &["probe"],
        looks_at: &[],
        draw: draw::triggers::draw,
    },
    Section {
        name: "goodput",
        title: "Goodput against offered load",
        part: Part::Measured,
        see: "Beyond its capacity the usual loop delivers less the more comes; with quotas and polls the line stays flat.",
        claim: claims::goodput,
        papers: "Mogul and Ramakrishnan, Eliminating receive livelock (1997), Figures 2 and 6",
        sources: &["bench-hybrid", "bench-naive"],
        looks_at: &[],
        draw: draw::overload::goodput,
    },
    Section {
        name: "wan",
        title: "An emulated path, set and measured",
        part: Part::Measured,
        see: "What comes out is what was set: rate and loss by what the two ends counted, delay by the path's own clock.",
        claim: claims::wan,
        papers: "Soft timers, section 5.8, emulated its wide-area path in a kernel's IP layer",
        sources: &["wan"],
        looks_at: &[],
        draw: draw::path::draw,
    },
    Section {
        name: "noise",
        title: "Noise, and what it does to parallel jobs",
        part: Part::Measured,
        see: "A phase in a thousand that takes longer is nothing for one node, and delays two phases of three of a job of a \
              thousand.",
        claim: claims::GUIDE,
        papers: "Tsafrir, Etsion and Feitelson (2005), section 2.2, Figure 3",
        sources: &["noise", "sim-noise"],
        looks_at: &[],
        draw: draw::noise::draw,
    },
    Section {
        name: "overhead",
        title: "Overhead by the rate of wake-ups",
        part: Part::Measured,
        see: "Overhead rises with the rate of ticks; timers that wake only when something is due pay for that alone.",
        claim: claims::overhead,
        papers: "Tsafrir, Etsion and Feitelson (2005), sections 2.1 and 2.3, Figure 4",
        sources: &["rates"],
        looks_at: &[],
        draw: draw::noise::overhead,
    },
    Section {
        name: "peers",
        title: "The wheel beside its peers",
        part: Part::Measured,
        see: "Setting and cancelling cost about the same with ten timers as with a million.",
        claim: claims::peers,
        papers: "Varghese and Lauck (1987), scheme 7; Costello and Varghese (1998)",
        sources: &["timers"],
        looks_at: &[],
        draw: draw::structures::peers,
    },
    Section {
        name: "pacing",
        title: "Rate-based clocking",
        part: Part::Simulated,
        see: "A target gap is held as long as the burst interval leaves room to catch up.",
        claim: claims::pacing,
        papers: "Soft timers, section 5.7, Tables VIII and IX",
        sources: &["sim-pacing"],
        looks_at: &[],
        draw: draw::rates::pacing,
    },
    Section {
        name: "slowstart",
        title: "Slow start and a known rate",
        part: Part::Simulated,
        see: "An answer of a hundred packets over a long path takes about an eighth of the time if its rate is known.",
        claim: claims::slow_start,
        papers: "Soft timers, section 5.8 and appendix A.2, Tables X and XI",
        sources: &["sim-slowstart"],
        looks_at: &[],
        draw: draw::rates::slow_start,
    },
    Section {
        name: "deadline",
        title: "A deadline behind soft timers",
        part: Part::Simulated,
        see: "The later an event may be, the seldomer hardware has to fire it: at 100 µs next to never.",
        claim: claims::deadline,
        papers: "Soft timers, section 5.9, Table XIII",
        sources: &["sim-deadline"],
        looks_at: &[],
        draw: draw::rates::deadline,
    },
    Section {
        name: "polling",
        title: "Polling the network on soft timers",
        part: Part::Simulated,
        see: "Wanting a few packets in each poll takes most of the gain; wanting more mostly delays them.",
        claim: claims::polling,
        papers: "Soft timers, section 5.8, Table XII",
        sources: &["sim-polling"],
        looks_at: &[],
        draw: draw::rates::polling,
    },
    Section {
        name: "livelock",
        title: "Receive livelock",
        part: Part::Simulated,
        see: "Interrupts take all of an overloaded machine; polls with a quota and feedback keep its output flat.",
        claim: claims::livelock,
        papers: "Mogul and Ramakrishnan (1997), Figures 2, 5, 6, 7, 9 and 10 (6-1 to 7-1 in the version of 1996)",
        sources: &["sim-livelock"],
        looks_at: &[],
        draw: draw::overload::livelock,
    },
    Section {
        name: "hip",
        title: "Interrupts and polls by the gaps",
        part: Part::Simulated,
        see: "Choosing by the gaps costs at most about as much as the cheaper of interrupts and polling, and waits a tenth to \
              all of what polling waits; interrupts alone wait least by far.",
        claim: claims::hip,
        papers: "Dovrolis, Thayer and Ramanathan, HIP (2001), Tables 1 to 3",
        sources: &["sim-hip"],
        looks_at: &[],
        draw: draw::hip::table_3,
    },
    Section {
        name: "hip-tradeoffs",
        title: "What HIP's numbers trade",
        part: Part::Simulated,
        see: "With a larger gamma or phi overhead falls and delay rises; the paper finds 2 to 3 a good middle for both.",
        claim: claims::trade_offs,
        papers: "HIP, section 6, which names 2 to 3 for gamma and for phi; its Figures 3 and 4 are lost",
        sources: &["sim-hip-gamma", "sim-hip-phi"],
        looks_at: &[],
        draw: draw::hip::trade_offs,
    },
    Section {
        name: "callouts",
        title: "Callouts of BSD",
        part: Part::Simulated,
        see: "The old list's cost grows with each callout outstanding; the wheel's does not.",
        claim: claims::callouts,
        papers: "Costello and Varghese, Redesigning the BSD callout and timer facilities (1998), Table I",
        sources: &["sim-callout"],
        looks_at: &[],
        draw: draw::structures::callouts,
    },
    Section {
        name: "framerate",
        title: "Films and ticks",
        part: Part::Simulated,
        see: "A tick of 100 Hz shows 60 frames a second badly; a timer that fires when it is due shows all of them.",
        claim: claims::frame_rate,
        papers: "Tsafrir, Etsion and Feitelson (2005), section 2.1, Figure 1",
        sources: &["sim-framerate"],
        looks_at: &[],
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
            for name in section.sources.iter().chain(section.looks_at) {
                assert!(source::find(name).is_some(), "{}: {name}", section.name);
            }
        }
        let used = |name| SECTIONS.iter().any(|section| section.sources.contains(&name));
        assert!(source::SOURCES.iter().all(|source| used(source.name)));
    }

    #[test]
    fn what_to_see_is_one_sentence() {
        for section in SECTIONS {
            assert!(section.see.ends_with('.') && section.see.matches(". ").count() == 0, "{}", section.see);
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
