//! The keys of a machine's description, each with a line of help and the values allowed: [`KEYS`].

use std::time::Duration;

use super::Hardware;
use crate::experiment::RunError;
use crate::setting::{Kind, Setting};

/// One settable property of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The section, as in TOML: `router`, `router.polled`.
    pub section: &'static str,
    /// The name within the section.
    pub name: &'static str,
    /// A few words of help.
    pub about: &'static str,
    /// The values that are allowed.
    pub kind: Kind,
    pub(super) get: fn(&Hardware) -> Setting,
    pub(super) set: fn(&mut Hardware, &Setting),
}

impl Key {
    /// Finds a key.
    ///
    /// # Errors
    /// Lists the sections, or the keys of the section.
    pub fn find(section: &str, name: &str) -> Result<&'static Key, RunError> {
        Key::place(section, name).map(|place| &KEYS[place])
    }

    pub(super) fn place(section: &str, name: &str) -> Result<usize, RunError> {
        if let Some(place) = KEYS.iter().position(|key| key.section == section && key.name == name) {
            return Ok(place);
        }
        let names: Vec<&str> = KEYS.iter().filter(|key| key.section == section).map(|key| key.name).collect();
        if !names.is_empty() {
            return Err(RunError::new(format_args!(
                "{section}.{name}: no such key; there are {}",
                names.join(", ")
            )));
        }
        if section.is_empty() {
            return Err(RunError::new(format_args!(
                "{name}: no such key outside of a section; sections are {}",
                sections()
            )));
        }
        Err(no_section(section))
    }

    /// Checks that there is such a section, or one below it.
    ///
    /// # Errors
    /// Lists the sections.
    pub fn check_section(section: &str) -> Result<(), RunError> {
        if KEYS.iter().any(|key| key.is_of(section)) { Ok(()) } else { Err(no_section(section)) }
    }

    /// Returns whether the key is in a section or in one below it.
    pub(super) fn is_of(&self, section: &str) -> bool {
        self.section.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

fn no_section(section: &str) -> RunError {
    RunError::new(format_args!("no section {section}; there are {}", sections()))
}

fn sections() -> String {
    let mut sections: Vec<&str> = KEYS.iter().map(|key| key.section).collect();
    sections.dedup();
    sections.join(", ")
}

/// The longest cost of one step.
const SECOND: Duration = Duration::from_secs(1);

/// The storage of each kind of field.
macro_rules! key {
    ($section:literal, $name:literal, cost $($field:ident).+, $about:literal) => {
        key!($section, $name, time(Duration::ZERO) $($field).+, $about)
    };
    ($section:literal, $name:literal, period $($field:ident).+, $about:literal) => {
        key!($section, $name, time(Duration::from_nanos(1)) $($field).+, $about)
    };
    ($section:literal, $name:literal, slow $($field:ident).+, $about:literal) => {
        key!($section, $name, time(Duration::from_micros(10)) $($field).+, $about)
    };
    ($section:literal, $name:literal, time($least:expr) $($field:ident).+, $about:literal) => {
        Key {
            section: $section, name: $name, about: $about,
            kind: Kind::Time { least: $least, most: SECOND },
            get: |hardware| Setting::Time(hardware.$($field).+),
            set: |hardware, setting| if let Setting::Time(time) = setting { hardware.$($field).+ = *time; },
        }
    };
    ($section:literal, $name:literal, step $($field:ident).+, $about:literal) => {
        Key {
            section: $section, name: $name, about: $about,
            kind: Kind::Time { least: Duration::ZERO, most: SECOND },
            get: |hardware| Setting::Time(Duration::from_nanos(hardware.in_nanos().$($field).+)),
            set: |hardware, setting| if let Setting::Time(time) = setting {
                *hardware = hardware.in_nanos();
                hardware.$($field).+ = time.as_nanos() as u64;
            },
        }
    };
    ($section:literal, $name:literal, count($least:literal, $most:literal) $($field:ident).+, $about:literal) => {
        Key {
            section: $section, name: $name, about: $about,
            kind: Kind::Count { least: $least, most: $most },
            get: |hardware| Setting::Count(hardware.$($field).+.into()),
            set: |hardware, setting| if let Setting::Count(count) = setting {
                // The value is within its bounds, so it fits the field.
                hardware.$($field).+ = (*count).try_into().unwrap_or(hardware.$($field).+);
            },
        }
    };
}

macro_rules! keys {
    ($($section:literal { $($name:literal: $kind:ident $(($($bound:literal),*))? $($field:ident).+, $about:literal;)* })*) => {
        /// All keys, by their sections.
        pub static KEYS: &[Key] = &[
            $($(key!($section, $name, $kind $(($($bound),*))? $($field).+, $about),)*)*
            Key {
                section: "hip",
                name: "ring",
                about: "packets that the device holds; more are lost",
                kind: Kind::Limit { least: 1, most: 65_536 },
                get: |hardware| Setting::Limit(hardware.hip_ring.map(u64::from)),
                set: |hardware, setting| if let Setting::Limit(ring) = setting {
                    hardware.hip_ring = ring.and_then(|ring| ring.try_into().ok());
                },
            },
        ];
    };
}

keys! {
    "router" {
        "wire": period constants.livelock.wire, "the least packet on either wire";
        "ring": count(1, 65536) constants.livelock.ring, "packets that the interface holds";
        "ip-queue": count(1, 65536) constants.livelock.ifq, "packets that ipintrq and an output queue hold";
        "process-queue": count(1, 65536) constants.livelock.process_queue, "packets that the queue to a process holds";
        "descriptors": count(1, 65536) constants.livelock.descriptors, "packets that the transmitter takes at once";
        "pollution": cost constants.livelock.pollution, "cost to a thread of having been interrupted";
        "user": cost constants.livelock.user, "more for the network's thread when a process ran before it";
        "cold": cost constants.livelock.cold, "most that screend can have in the caches; with cold caches it runs at half speed for this long";
        "cooling": count(0, 2000) constants.livelock.cooling, "screend's loss of cached data, in ‰ of the time for which others run";
        "to-process": cost constants.livelock.queue, "putting a packet into the queue to a process, and waking that";
        "process": cost constants.livelock.screend, "a packet in that process";
        "tick": cost constants.livelock.tick, "an interrupt of the clock";
        "tick-period": slow constants.livelock.ticks, "time between two clock interrupts";
        "background": cost constants.livelock.background, "CPU time of system processes in each background period";
        "background-period": slow constants.livelock.background_period, "time between two runs of system processes";
    }
    "router.polled" {
        "interrupt": step constants.livelock.polling_interrupt, "a receive interrupt that begins polling";
        "transmit-interrupt": step constants.livelock.polling_transmit_interrupt, "a transmit interrupt";
        "switch": step constants.livelock.polling_switch, "switching to a thread";
        "turn": step constants.livelock.polling_turn, "a turn of receiving, whatever it finds";
        "receive": step constants.livelock.polling_receive, "the driver, for each packet";
        "input": step constants.livelock.polling_input, "IP until it knows where to";
        "output": step constants.livelock.polling_output, "from there to the device or its queue";
        "finish": step constants.livelock.polling_finish, "from there until the thread is free";
        "transmit-turn": step constants.livelock.polling_transmit_turn, "a turn of transmitting";
        "transmit": step constants.livelock.polling_transmit, "each transmission that is finished";
        "arm": step constants.livelock.polling_arm, "enabling an interrupt";
    }
    "router.interrupts" {
        "interrupt": step constants.livelock.interrupt, "a receive interrupt, of a kernel that does not poll";
        "transmit-interrupt": step constants.livelock.transmit_interrupt, "a transmit interrupt";
        "switch": step constants.livelock.switch, "switching to a thread";
        "receive": step constants.livelock.receive, "the driver, for each packet";
        "input": step constants.livelock.input, "IP until it knows where to";
        "output": step constants.livelock.output, "from there to the device or its queue";
        "finish": step constants.livelock.finish, "from there until the thread is free";
        "transmit": step constants.livelock.transmit, "each transmission that is finished";
        "unmodified": count(1, 1000) constants.livelock.unmodified, "% of the thread's steps that the unmodified kernel needs";
        "unmodified-handlers": count(1, 1000) constants.livelock.unmodified_handlers, "% of the interrupts' steps that the unmodified kernel needs";
    }
    "router.priorities" {
        "clock": count(1, 100) priorities.clock, "a larger number interrupts a smaller one";
        "device": count(1, 100) priorities.device, "both interfaces";
        "network": count(1, 100) priorities.network, "the thread of IP, or the one that polls";
        "process": count(1, 100) priorities.process, "a process behind a queue of packets";
        "background": count(1, 100) priorities.background, "system processes";
        "user": count(1, 100) priorities.user, "a process that computes without end";
    }
    "tcpdump" {
        "filter": cost constants.monitor.filter, "the packet filter, for each packet";
        "disk": cost constants.monitor.disk, "writing a packet to disk";
        "null": cost constants.monitor.null, "writing a packet to /dev/null";
    }
    "server" {
        "interrupt": cost constants.polling.interrupt, "an interrupt with an empty handler";
        "poll": cost constants.polling.poll, "reading the status of the interfaces";
        "shift": cost constants.polling.shift, "a cold cache, for each interrupt or poll that finds a packet";
        "apache-request": period constants.polling.apache_request, "a request, of a process for each connection";
        "flash-request": period constants.polling.flash_request, "a request, of a server of one loop";
        "apache-pollution": cost constants.polling.apache_pollution, "cost of an interrupt to apache-request beside its handler";
        "flash-pollution": cost constants.polling.flash_pollution, "cost of an interrupt to flash-request beside its handler";
        "http-packets": count(1, 1000) constants.polling.http_packets, "packets of a request, with its connection";
        "p-http-packets": count(1, 1000) constants.polling.p_http_packets, "packets of a request on an open connection";
    }
    "hip" {
        "interrupt": cost constants.hip.interrupt, "an interrupt";
        "poll": cost constants.hip.poll, "a poll";
        "transfer": cost constants.hip.transfer, "a packet of 1,500 bytes, others in proportion";
        "switch": cost constants.hip.switch, "enabling or disabling interrupts";
    }
}
