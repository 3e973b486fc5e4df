//! The points where the kernel can check a clock at almost no cost: [`Source`].

use std::fmt;

/// A kind of trigger state of the kernel (soft timers §3, table V), and the tracepoints that mark it.
///
/// ```
/// use softtimers_bpf::Source;
///
/// assert_eq!(Source::named("syscall"), Some(Source::Syscall));
/// assert_eq!(Source::Syscall.tracepoints(), ["sys_exit"]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum Source {
    /// A system call ends.
    Syscall,
    /// A page fault, of a process or in the kernel.
    PageFault,
    /// A device's interrupt handler ends.
    Interrupt,
    /// A round of soft interrupts ends.
    SoftInterrupt,
    /// The interrupt of the CPU's timer ends.
    Timer,
    /// An interrupt from another CPU ends.
    InterProcessor,
    /// The CPU becomes idle, or stops being idle.
    Idle,
    /// A packet is handed to a device ("ip-output").
    Transmit,
    /// A poll of a network device ends ("ip-intr").
    NetworkPoll,
    /// The CPU switches to another task.
    Switch,
}

impl Source {
    /// All, in the order of their numbers in the BPF programs.
    pub const ALL: [Source; 10] = {
        use Source::*;
        [
            Syscall,
            PageFault,
            Interrupt,
            SoftInterrupt,
            Timer,
            InterProcessor,
            Idle,
            Transmit,
            NetworkPoll,
            Switch,
        ]
    };

    /// Three cheap ones for events: none of them occurs at every system call.
    pub const DEFAULT: [Source; 3] = [Source::SoftInterrupt, Source::Timer, Source::Switch];

    /// Returns its name in reports and flags.
    pub const fn name(self) -> &'static str {
        match self {
            Source::Syscall => "syscall",
            Source::PageFault => "page_fault",
            Source::Interrupt => "interrupt",
            Source::SoftInterrupt => "soft_interrupt",
            Source::Timer => "timer",
            Source::InterProcessor => "inter_processor",
            Source::Idle => "idle",
            Source::Transmit => "transmit",
            Source::NetworkPoll => "network_poll",
            Source::Switch => "switch",
        }
    }

    /// The source of this name.
    pub fn named(name: &str) -> Option<Source> {
        Source::ALL.into_iter().find(|source| source.name() == name)
    }

    /// The kernel's tracepoints that mark it.
    pub const fn tracepoints(self) -> &'static [&'static str] {
        match self {
            Source::Syscall => &["sys_exit"],
            Source::PageFault => &["page_fault_user", "page_fault_kernel"],
            Source::Interrupt => &["irq_handler_exit"],
            Source::SoftInterrupt => &["softirq_exit"],
            Source::Timer => &["local_timer_exit"],
            Source::InterProcessor => {
                &["reschedule_exit", "call_function_exit", "call_function_single_exit", "irq_work_exit"]
            }
            Source::Idle => &["cpu_idle"],
            Source::Transmit => &["net_dev_xmit"],
            Source::NetworkPoll => &["napi_poll"],
            Source::Switch => &["sched_switch"],
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
