//! A C source that compiles if the structs are laid out as the header says. A test gives it to compilers.

use crate::border::{
    backup::*, callouts::*, clock::*, flows::*, itimers::*, pace::*, policy::*, timers::*, wan::*,
};

/// Returns the source.
pub fn source() -> String {
    let mut source = String::from(
        "#include \"softtimers.h\"\n#define IS(what) typedef char is[(what) ? 1 : -1]\nvoid f(void);\nvoid f(void) {\n",
    );
    macro_rules! layout {
        ($($name:ident: $last:ident),* $(,)?) => {$(
            let (size, at) = (size_of::<$name>(), std::mem::offset_of!($name, $last));
            let name = stringify!($name);
            source += &format!("{{ IS(sizeof({name}) == {size}); (void)sizeof(is); }}\n");
            source += &format!("{{ IS(offsetof({name}, {}) == {at}); (void)sizeof(is); }}\n", stringify!($last));
        )*};
    }
    layout! {
        softtimers_call: argument, softtimers_config: clock_step_ns, softtimers_fired: lateness_ns,
        softtimers_stats: pending, softtimers_backup_stats: expirations, softtimers_pace_config: strategy,
        softtimers_policy_config: time_ns, softtimers_next: time, softtimers_path: reserved,
        softtimers_delivery: reserved, softtimers_departure: reserved, softtimers_wan_counters: held, softtimers_callout_stats: hashed,
        softtimers_setting: interval_ns, softtimers_expired: reserved,
    }
    source + "}\n"
}
