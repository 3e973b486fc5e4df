//! What a loop driven by softtimers does while it has nothing to do: `--idle` and `--cpu-budget`.

use softtimers::{Idle, Percent, PollBudget};

use crate::args::{Busy, EngineArgs, IdlePolicy, Timer};
use crate::failure::Failure;

/// The idle policy of `--timer soft`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IdlePlan {
    /// Sleep, poll, or both.
    pub policy: IdlePolicy,
    /// The share of one processor that may be polled away; `None` for the policy's own.
    budget: Option<Percent>,
}

impl IdlePlan {
    /// Understands the flags together; `None` for the timers that have no idle policy.
    ///
    /// # Errors
    /// A usage failure that names the flag and what it is allowed with.
    pub fn new(args: &EngineArgs) -> Result<Option<Self>, Failure> {
        let idle = IdlePlan { policy: args.idle.unwrap_or_default(), budget: args.cpu_budget };
        let given = args.idle.map(|policy| format!("--idle {policy}"));
        let given = given.or_else(|| args.cpu_budget.map(|share| format!("--cpu-budget {share}")));
        if let Some(given) = given {
            if args.timer != Timer::Soft {
                return Err(Failure::usage(format_args!("{given}: only --timer soft has an idle policy")));
            }
            if let Busy::Compute | Busy::Web = args.busy {
                let work = if args.busy == Busy::Web { "web" } else { "compute" };
                return Err(Failure::usage(format_args!("{given}: a loop with --busy {work} is never idle")));
            }
        }
        Ok((args.timer == Timer::Soft).then_some(idle))
    }

    /// The policy, ready to use.
    pub fn idle(self) -> Idle {
        let idle = match self.policy {
            IdlePolicy::Park => Idle::park(),
            IdlePolicy::Hybrid => Idle::hybrid(),
            IdlePolicy::Spin => Idle::spin(),
        };
        self.budget.map_or(idle, |share| idle.within(PollBudget::new(share)))
    }

    /// The share of one processor that may be polled away, 0 to 1.
    pub fn budget_share(self) -> f64 {
        f64::from(self.idle().budget().share().get()) / 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn idle(flags: &str) -> Result<Option<IdlePlan>, String> {
        let words = ["softtimers", "send", "127.0.0.1:9", "--interval", "1ms"];
        let flags = flags.split(' ').filter(|flag| !flag.is_empty());
        match Cli::try_parse_from(words.into_iter().chain(flags)).map_err(|error| error.to_string())?.command
        {
            Command::Send(args) => IdlePlan::new(&args.engine).map_err(|failure| failure.to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn parking_is_the_default_and_every_policy_has_half_a_processor_unasked() {
        assert_eq!(idle(""), Ok(Some(IdlePlan::default())));
        let share = |flags: &str| idle(flags).unwrap().unwrap().budget_share();
        for policy in ["park", "hybrid", "spin"] {
            assert_eq!(share(&format!("--idle {policy}")), 0.5, "{policy}");
            assert_eq!(share(&format!("--idle {policy} --cpu-budget 3%")), 0.03, "{policy}");
        }
        assert_eq!((share(""), share("--cpu-budget 100%")), (0.5, 1.0));
        assert_eq!(idle("--timer loop"), Ok(None));
    }

    #[test]
    fn flags_that_would_do_nothing_are_refused() {
        for (flags, words) in [
            ("--idle spin --timer pwait2", "--idle spin: only --timer soft has an idle policy"),
            ("--idle hybrid --busy compute", "--idle hybrid: a loop with --busy compute is never idle"),
            ("--cpu-budget 50% --timer ms", "--cpu-budget 50%: only --timer soft has an idle policy"),
            ("--cpu-budget 50% --busy compute", "--cpu-budget 50%: a loop with --busy compute is never"),
            ("--cpu-budget 101% --idle spin", "101%"),
            ("--cpu-budget half --idle spin", "half"),
            ("--idle sleep", "possible values: park, hybrid, spin"),
        ] {
            let message = idle(flags).unwrap_err();
            assert!(message.contains(words), "{flags}: {message}");
        }
    }
}
