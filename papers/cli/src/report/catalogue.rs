//! The report's sections, as data: the content, the runs and the papers of each.
//!
//! To add one: a line here, a function in `draw`, and a line in [`source`](super::source) if no existing run has its
//! figures. HTML, Markdown, JSON, `--only` and the table of contents follow.

use serde::Serialize;

use super::draw;
use super::saved::Runs;
use super::source::{self, Source};
use softtimers_run::page::figure::Drawn;

/// A section of the report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    /// Its name for `--only`.
    pub(crate) name: &'static str,
    /// The heading of the section.
    pub(crate) title: &'static str,
    /// The papers that it is compared with.
    pub(crate) papers: &'static str,
    /// The runs it is made of.
    pub(crate) sources: &'static [&'static str],
    /// Draws its figures.
    pub(crate) draw: fn(&Runs, &mut Drawn),
}

impl Section {
    /// Returns its part of the page: a section based on simulations only is in theirs.
    pub(crate) fn part(&self) -> Part {
        let is_simulated = |name: &&str| source::find(name).is_some_and(Source::is_simulated);
        match self.name {
            "summary" => Part::Summary,
            _ if self.sources.iter().all(is_simulated) => Part::Simulated,
            _ => Part::Measured,
        }
    }
}

/// The parts of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    /// The papers' figures next to ours.
    Summary,
    /// Measured on a machine.
    Measured,
    /// Simulated on the papers' machines.
    Simulated,
}

impl Part {
    /// The heading of the part.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Part::Summary => "In short",
            Part::Measured => "Measured on this machine",
            Part::Simulated => "The papers' experiments, simulated",
        }
    }
}

/// Returns the section of this name.
pub(crate) fn find(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.name == name)
}

/// All sections, in the order of the report.
pub(crate) static SECTIONS: &[Section] = &[
    Section {
        name: "summary",
        title: "The papers' figures and ours",
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
        papers: "Aron and Druschel, Soft timers (2000), section 5.1",
        sources: &["doctor"],
        draw: draw::costs::draw,
    },
    Section {
        name: "lateness",
        title: "Lateness by method",
        papers: "Soft timers, section 3: late by at most the interval between two trigger states",
        sources: &["doctor"],
        draw: draw::streams::lateness,
    },
    Section {
        name: "gaps",
        title: "Inter-packet gaps",
        papers: "Soft timers, section 5.7, Tables VIII and IX",
        sources: &["doctor"],
        draw: draw::streams::gaps,
    },
    Section {
        name: "strip",
        title: "Micro-bursts",
        papers: "Soft timers, section 5.6",
        sources: &["doctor"],
        draw: draw::streams::strip,
    },
    Section {
        name: "lateness-cpu",
        title: "Lateness against CPU time",
        papers: "Soft timers, section 5.6; Tsafrir and others (2005), section 3",
        sources: &["doctor"],
        draw: draw::streams::lateness_by_cpu,
    },
    Section {
        name: "slack",
        title: "Wake-ups against slack",
        papers: "Tsafrir, Etsion and Feitelson, General-purpose timing: the failure of periodic timers (2005), section 3",
        sources: &["slack"],
        draw: draw::streams::slack,
    },
    Section {
        name: "triggers",
        title: "Trigger states of this kernel",
        papers: "Soft timers, section 5.2, Figures 2 and 3, Tables IV and V",
        sources: &["probe"],
        draw: draw::triggers::draw,
    },
    Section {
        name: "goodput",
        title: "Goodput against offered load",
        papers: "Mogul and Ramakrishnan, Eliminating receive livelock (1997), Figures 2 and 6",
        sources: &["bench-hybrid", "bench-naive"],
        draw: draw::overload::goodput,
    },
    Section {
        name: "wan",
        title: "An emulated path, set and measured",
        papers: "Soft timers, section 5.8, emulated its wide-area path in a kernel's IP layer",
        sources: &["wan"],
        draw: draw::path::draw,
    },
    Section {
        name: "noise",
        title: "Noise, and what it does to parallel jobs",
        papers: "Tsafrir, Etsion and Feitelson (2005), section 2.2, Figure 3",
        sources: &["noise", "sim-noise"],
        draw: draw::noise::draw,
    },
    Section {
        name: "overhead",
        title: "Overhead by the rate of wake-ups",
        papers: "Tsafrir, Etsion and Feitelson (2005), sections 2.1 and 2.3, Figure 4",
        sources: &["rates"],
        draw: draw::noise::overhead,
    },
    Section {
        name: "pacing",
        title: "Rate-based clocking",
        papers: "Soft timers, section 5.7, Tables VIII and IX",
        sources: &["sim-pacing"],
        draw: draw::rates::pacing,
    },
    Section {
        name: "slowstart",
        title: "Slow start and a known rate",
        papers: "Soft timers, section 5.8 and appendix A.2, Tables X and XI",
        sources: &["sim-slowstart"],
        draw: draw::rates::slow_start,
    },
    Section {
        name: "deadline",
        title: "A deadline behind soft timers",
        papers: "Soft timers, section 5.9, Table XIII",
        sources: &["sim-deadline"],
        draw: draw::rates::deadline,
    },
    Section {
        name: "polling",
        title: "Polling the network on soft timers",
        papers: "Soft timers, section 5.8, Table XII",
        sources: &["sim-polling"],
        draw: draw::rates::polling,
    },
    Section {
        name: "livelock",
        title: "Receive livelock",
        papers: "Mogul and Ramakrishnan (1997), Figures 2, 5, 6, 7, 9 and 10 (6-1 to 7-1 in the version of 1996)",
        sources: &["sim-livelock"],
        draw: draw::overload::livelock,
    },
    Section {
        name: "hip",
        title: "HIP: interrupts and polls by the gaps",
        papers: "Dovrolis, Thayer and Ramanathan, HIP (2001), Tables 1 to 3",
        sources: &["sim-hip"],
        draw: draw::hip::table_3,
    },
    Section {
        name: "hip-tradeoffs",
        title: "What HIP's gamma and phi trade",
        papers: "HIP, section 6, which names 2 to 3 for gamma and for phi; its Figures 3 and 4 are lost",
        sources: &["sim-hip-gamma", "sim-hip-phi"],
        draw: draw::hip::trade_offs,
    },
    Section {
        name: "callouts",
        title: "Callouts of BSD",
        papers: "Costello and Varghese, Redesigning the BSD callout and timer facilities (1998), Table I",
        sources: &["sim-callout"],
        draw: draw::rates::callouts,
    },
    Section {
        name: "framerate",
        title: "Video frames and ticks",
        papers: "Tsafrir, Etsion and Feitelson (2005), section 2.1, Figure 1",
        sources: &["sim-framerate"],
        draw: draw::rates::frame_rate,
    },
];

#[cfg(test)]
mod tests {
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
    fn each_name_is_another_and_parts_stand_together() {
        let names: std::collections::BTreeSet<&str> = SECTIONS.iter().map(|section| section.name).collect();
        assert_eq!(names.len(), SECTIONS.len());
        let mut parts: Vec<Part> = SECTIONS.iter().map(Section::part).collect();
        parts.dedup();
        assert_eq!(parts, [Part::Summary, Part::Measured, Part::Simulated]);
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
