//! Each function of the header with each object it takes as it must not be: the process ends by `abort`, with a line that
//! names function and object. The program that does so is made from the header, so that no function is left out.

mod compiled;

use std::fmt::Write as _;
use std::process::Command;

use compiled::{built, c_compiler, compile, here, library, run, sanitizers, skipped};

/// A function of the header that takes objects.
struct Function {
    name: String,
    /// As C types, without names.
    arguments: Vec<String>,
}

impl Function {
    /// The parameters at which it takes objects, with their kinds; `None` for any kind.
    fn objects(&self) -> impl Iterator<Item = (usize, Option<&str>)> {
        self.arguments.iter().enumerate().filter_map(|(at, argument)| {
            let kind = argument.strip_suffix(" *")?;
            match kind {
                "void" if ["softtimers_adopt", "softtimers_life"].contains(&&*self.name) => Some((at, None)),
                _ => KINDS.contains(&kind).then_some((at, Some(kind))),
            }
        })
    }

    /// The function that looks at the object: itself, or the one that a function of the header calls first.
    fn looks(&self) -> &str {
        match &*self.name {
            "softtimers_timers_run" => "softtimers_timers_trigger",
            "softtimers_softclock" => "softtimers_hold",
            "softtimers_hardclock" => "softtimers_tick",
            name => name,
        }
    }
}

/// The functions of the header that take an object, its own ones in C among them.
fn functions() -> Vec<Function> {
    let header = std::fs::read_to_string(here().join("include/softtimers.h")).unwrap();
    let mut functions = vec![];
    let mut rest = &header[..];
    while let Some(at) = rest
        .find("\nint ")
        .into_iter()
        .chain(rest.find("\nuint64_t "))
        .chain(rest.find("\nsize_t "))
        .chain(rest.find("\ndouble "))
        .chain(rest.find("\nstatic inline int "))
        .min()
    {
        rest = &rest[at + 1..];
        let (declared, list) = rest.split_once('(').unwrap();
        let list = list.split_once(')').unwrap().0;
        let name = declared.rsplit([' ', '*']).next().unwrap().to_owned();
        let of = |argument: &str| match argument.trim().rsplit_once(['*', ' ']) {
            Some((before, _)) if argument.contains('*') => {
                format!(
                    "{} {}",
                    before.trim_end_matches([' ', '*']),
                    "*".repeat(argument.matches('*').count())
                )
            }
            Some((before, _)) => before.to_owned(),
            None => argument.to_owned(),
        };
        functions.push(Function { name, arguments: list.split(',').map(of).collect() });
    }
    functions.retain(|function| function.objects().next().is_some());
    functions
}

/// The things that an object may be instead.
const CASES: [&str; 5] = ["null", "freed", "other", "memory", "thread"];

/// The kinds of object, and how one is made.
const KINDS: [&str; 12] = [
    "softtimers_timers",
    "softtimers_backup",
    "softtimers_pace",
    "softtimers_capacity",
    "softtimers_flows",
    "softtimers_policy",
    "softtimers_feedback",
    "softtimers_cpu_limit",
    "softtimers_histogram",
    "softtimers_callouts",
    "softtimers_itimers",
    "softtimers_wan",
];

/// A case each for every object of every function: its number, and what it shows.
fn cases(functions: &[Function]) -> Vec<(&Function, usize, Option<&str>, &'static str)> {
    let mut cases = vec![];
    for function in functions {
        for (at, kind) in function.objects() {
            // Whatever the kind, and whoever has it, is what `softtimers_adopt` takes.
            let any = |case: &&&str| kind.is_some() || !["other", "thread"].contains(*case);
            cases.extend(CASES.iter().filter(any).map(|case| (function, at, kind, *case)));
        }
    }
    cases
}

/// The program: with a number as its argument it makes the call of that case, in another thread for "thread".
fn source(cases: &[(&Function, usize, Option<&str>, &str)]) -> String {
    let mut text = String::from(BEGIN);
    for (number, (function, at, kind, _)) in cases.iter().enumerate() {
        let value = |(argument, kind): (usize, &String)| match kind.as_str() {
            _ if argument == *at => "wrong".to_owned(),
            kind if kind.strip_suffix(" *").is_some_and(|kind| KINDS.contains(&kind)) => {
                let kind = kind.trim_end_matches(" *");
                format!("made_{kind}()")
            }
            kind if kind.ends_with('*') || kind == "softtimers_function" => "NULL".to_owned(),
            "softtimers_call" => "no_call".to_owned(),
            _ => "0".to_owned(),
        };
        let values: Vec<_> = function.arguments.iter().enumerate().map(value).collect();
        let kind = kind.unwrap_or("softtimers_histogram");
        let other = if kind == "softtimers_timers" { "softtimers_histogram" } else { "softtimers_timers" };
        write!(
            text,
            "static void *call_{number}(void *wrong) {{ (void){}({}); return NULL; }}\n\
             static void *free_{number}(void *it) {{ (void){kind}_free(it); return it; }}\n\
             static void *make_{number}(void) {{ return made_{kind}(); }}\n\
             static void *other_{number}(void) {{ return made_{other}(); }}\n",
            function.name,
            values.join(", ")
        )
        .unwrap();
    }
    text.push_str("static const struct entry entries[] = {\n");
    for (number, (.., case)) in cases.iter().enumerate() {
        writeln!(text, "{{{case}, call_{number}, free_{number}, make_{number}, other_{number}}},").unwrap();
    }
    text + "};\n" + END
}

const BEGIN: &str = r#"#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <string.h>
#include "check.h"
enum wrong { null, freed, other, memory, thread };
struct entry {
    enum wrong wrong;
    void *(*call)(void *);
    void *(*end)(void *);
    void *(*make)(void);
    void *(*other)(void);
};
static const softtimers_call no_call = {NULL, NULL};
static uint64_t words[32];
#define MADE(type, arguments) \
    static inline type *made_##type(void) { type *made; CHECK(type##_new arguments == 0); return made; }
static softtimers_pace_config even(void) {
    softtimers_pace_config config;
    memset(&config, 0, sizeof config);
    config.interval_ns = 1000;
    return config;
}
static softtimers_pace_config rate;
static softtimers_policy_config policy;
MADE(softtimers_timers, (NULL, &made))
MADE(softtimers_backup, (&made))
MADE(softtimers_pace, (&rate, &made))
MADE(softtimers_capacity, (1, &made))
MADE(softtimers_flows, (0, 0, &made))
MADE(softtimers_policy, (&policy, &made))
MADE(softtimers_feedback, (32, &made))
MADE(softtimers_cpu_limit, (25, 0, &made))
MADE(softtimers_histogram, (&made))
MADE(softtimers_callouts, (&made))
MADE(softtimers_itimers, (0, &made))
MADE(softtimers_wan, (NULL, NULL, 1, &made))
"#;

const END: &str = r#"
int main(int count, char **arguments) {
    const struct entry *entry;
    pthread_t other_thread;
    rate = even();
    CHECK(count == 2);
    entry = &entries[atoi(arguments[1])];
    switch (entry->wrong) {
    case null: (void)entry->call(NULL); break;
    case freed: (void)entry->call(entry->end(entry->make())); break;
    case other: (void)entry->call(entry->other()); break;
    case memory: (void)entry->call(words); break;
    case thread:
        CHECK(pthread_create(&other_thread, NULL, entry->call, entry->make()) == 0);
        CHECK(pthread_join(other_thread, NULL) == 0);
    }
    puts("went on");
    return 0;
}
"#;

/// Builds the program by a compiler, and holds what it does against what it has to say.
fn check(compiler: &str, flags: &[&str]) {
    let functions = functions();
    assert!(functions.len() > 80, "{} functions", functions.len());
    let cases = cases(&functions);
    let name = format!("misuse_{compiler}_{}", flags.len());
    let (file, out) = (built(&format!("{name}.c")), built(&name));
    std::fs::write(&file, source(&cases)).unwrap();
    let (tests, library) = (here().join("tests/c"), library());
    let fixed = ["-std=c99", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-I"];
    let arguments = flags.iter().chain(&fixed).map(std::ffi::OsStr::new);
    let arguments = arguments.chain([tests.as_os_str(), "-o".as_ref(), out.as_os_str(), file.as_os_str()]);
    compile(
        compiler,
        arguments.chain([library.as_os_str()]).chain(["-lpthread", "-lm", "-ldl"].map(std::ffi::OsStr::new)),
    );
    for (number, (function, _, kind, case)) in cases.iter().enumerate() {
        let ran = run(Command::new(&out).arg(number.to_string()).env("ASAN_OPTIONS", "detect_leaks=0"));
        let (said, on) = (String::from_utf8_lossy(&ran.stderr), String::from_utf8_lossy(&ran.stdout));
        let frees = function.name.ends_with("_free");
        let what = format!("{compiler} {flags:?}: {} with {case}: {said}{on}", function.name);
        if frees && *case == "null" {
            assert!(ran.status.success() && said.is_empty(), "{what}");
            continue;
        }
        let words = match *case {
            "null" => "is NULL",
            "freed" if frees => "is freed twice",
            "freed" => "was freed",
            "other" => ", not a ",
            "memory" => "is no object of softtimers",
            _ => "belongs to thread ",
        };
        let line = format!("softtimers: {}: ", function.looks());
        assert!(said.starts_with(&line) && said.contains(words) && said.lines().count() == 1, "{what}");
        assert!(said.contains(kind.unwrap_or("object")) && on.is_empty(), "{what}");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ran.status), Some(6), "{what}");
    }
}

#[test]
fn every_function_looks_at_its_object_first() {
    let Some(compiler) = c_compiler() else { return skipped("there is no compiler for C") };
    check(compiler, &[]);
}

/// A check of a freed object reads no freed memory, and a check of another's no torn one.
#[test]
fn what_looks_does_nothing_undefined_itself() {
    let sanitizers = sanitizers();
    if sanitizers.is_empty() {
        return skipped("there is no gcc and no clang with AddressSanitizer and UndefinedBehaviorSanitizer");
    }
    for (compiler, flags) in sanitizers {
        check(compiler, &flags);
    }
}
