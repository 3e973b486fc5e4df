//! A fault: what is wrong around the program. This test starts itself again to become it: it takes limits and filters on,
//! which stay, and then is replaced by the program.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use serde::{Deserialize, Serialize};

/// Tells this test, started again, what to become.
pub(crate) const VARIABLE: &str = "SOFTTIMERS_FAULTS";

/// The fault that is injected.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum Fault {
    /// No more than N open files.
    Nofile(u64),
    /// No more than N threads of its user.
    Nproc(u64),
    /// No signal that is kept for a process.
    Sigpending,
    /// No memory that stays.
    Memlock,
    /// A user of this number, whom nobody else is.
    User(u32),
    /// These calls fail with this error.
    Refused(i32, Vec<Call>),
    /// These calls kill their process.
    Killed(Vec<Call>),
}

/// A system call, perhaps only with some arguments.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    number: i64,
    when: Option<When>,
}

/// The argument that decides, and its condition.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
enum When {
    /// The bits of the mask that are set are exactly these.
    Has { argument: u8, mask: u64, bits: u64 },
    /// The argument has another value.
    IsNot { argument: u8, value: u64 },
}

impl Call {
    pub(crate) const fn any(number: i64) -> Self {
        Call { number, when: None }
    }

    /// Matches exactly these bits, of those in `mask`, in the argument of this index.
    pub(crate) const fn with(number: i64, argument: u8, mask: u64, bits: u64) -> Self {
        Call { number, when: Some(When::Has { argument, mask, bits }) }
    }

    /// Matches any value but this one.
    pub(crate) const fn without(number: i64, argument: u8, value: u64) -> Self {
        Call { number, when: Some(When::IsNot { argument, value }) }
    }

    fn rules(&self) -> Result<Vec<SeccompRule>, Box<dyn std::error::Error>> {
        let Some(when) = self.when else { return Ok(vec![]) };
        let length = SeccompCmpArgLen::Qword;
        let condition = match when {
            When::Has { argument, mask, bits } => {
                SeccompCondition::new(argument, length, SeccompCmpOp::MaskedEq(mask), bits)
            }
            When::IsNot { argument, value } => {
                SeccompCondition::new(argument, length, SeccompCmpOp::Ne, value)
            }
        };
        Ok(vec![SeccompRule::new(vec![condition?])?])
    }
}

impl Fault {
    /// Words of which a line that names the cause has one.
    pub(crate) fn causes(&self) -> Vec<String> {
        let text = |number| {
            let text = io::Error::from_raw_os_error(number).to_string();
            text.rsplit_once(" (os error").map_or(text.clone(), |(words, _)| words.to_owned())
        };
        let numbers: &[i32] = match self {
            Fault::Nofile(_) => &[libc::EMFILE],
            Fault::Nproc(_) | Fault::Sigpending => &[libc::EAGAIN],
            Fault::Memlock => &[libc::EAGAIN, libc::ENOMEM, libc::EPERM, libc::ENOBUFS],
            Fault::User(_) => &[libc::EPERM, libc::EACCES],
            Fault::Refused(number, _) => std::slice::from_ref(number),
            Fault::Killed(_) => &[],
        };
        let mut causes: Vec<String> = numbers.iter().map(|&number| text(number)).collect();
        if matches!(self, Fault::Killed(_)) {
            causes.push("a system call filter kills".to_owned());
        }
        if numbers.contains(&libc::EPERM) {
            causes.extend(["CAP_", "privilege"].map(str::to_owned));
        }
        causes
    }

    fn strike(&self) -> Result<(), Box<dyn std::error::Error>> {
        let limit =
            |resource, value| setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) });
        match self {
            Fault::Nofile(most) => limit(Resource::Nofile, *most)?,
            Fault::Nproc(most) => limit(Resource::Nproc, *most)?,
            Fault::Sigpending => limit(Resource::Sigpending, 0)?,
            Fault::Memlock => limit(Resource::Memlock, 0)?,
            // By whoever replaces this process.
            Fault::User(_) => {}
            Fault::Refused(number, calls) => filter(calls, SeccompAction::Errno(*number as u32))?,
            Fault::Killed(calls) => filter(calls, SeccompAction::KillProcess)?,
        }
        Ok(())
    }
}

fn filter(calls: &[Call], action: SeccompAction) -> Result<(), Box<dyn std::error::Error>> {
    let mut rules = BTreeMap::new();
    for call in calls {
        rules.entry(call.number).or_insert_with(Vec::new).extend(call.rules()?);
    }
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, std::env::consts::ARCH.try_into()?)?;
    Ok(seccompiler::apply_filter(&BpfProgram::try_from(filter)?)?)
}

/// Becomes the program of this process's arguments, among these faults. Returns only if that is not possible.
pub(crate) fn become_faulty(faults: &str) -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let mut program = Command::new(words.next().unwrap_or_default());
    program.args(words).env_remove(VARIABLE);
    let struck = || -> Result<(), Box<dyn std::error::Error>> {
        let faults: Vec<Fault> = serde_json::from_str(faults)?;
        for fault in &faults {
            fault.strike()?;
            if let Fault::User(number) = fault {
                program.uid(*number).gid(*number);
            }
        }
        Err(program.exec().into())
    };
    let why = { struck }().err();
    eprintln!("this test: {}", why.map_or_else(String::new, |why| why.to_string()));
    ExitCode::from(NOT_STARTED)
}

/// This test's answer when it could not become the program; the program has no such answer.
pub(crate) const NOT_STARTED: u8 = 99;
