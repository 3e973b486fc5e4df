//! C programs against the header and the static library: compiled with every warning an error, run plain, under
//! AddressSanitizer and UndefinedBehaviorSanitizer, and under valgrind. What a machine lacks is said and skipped.

mod compiled;

use std::ffi::OsStr;
use std::process::Command;

use compiled::{
    WARNINGS, built, c_compiler, compile, first_of, here, library, passes, program, run, sanitizers, skipped,
};

#[test]
fn the_header_compiles_as_c99_and_as_c_plus_plus_17() {
    let c: Vec<_> = ["gcc", "clang"].into_iter().filter(|name| first_of(&[name]).is_some()).collect();
    let cpp: Vec<_> = ["g++", "clang++"].into_iter().filter(|name| first_of(&[name]).is_some()).collect();
    if c.is_empty() || cpp.is_empty() {
        return skipped("there is no compiler for C, or none for C++");
    }
    // Twice, for it guards itself; and nothing but it, for it includes what it needs.
    let source = built("twice.h");
    std::fs::write(&source, "#include \"softtimers.h\"\n#include \"softtimers.h\"\n").unwrap();
    let header = here().join("include/softtimers.h");
    for (compilers, language, standards) in [
        (c, "c", &["-std=c99", "-std=c11", "-std=gnu17"]),
        (cpp, "c++", &["-std=c++11", "-std=c++17", "-std=gnu++17"]),
    ] {
        for compiler in compilers {
            for standard in standards {
                let flags = ["-fsyntax-only", "-include", header.to_str().unwrap(), standard, "-x", language];
                compile(compiler, WARNINGS.into_iter().chain(flags).chain([source.to_str().unwrap()]));
            }
        }
    }
}

#[test]
fn structs_are_laid_out_as_the_header_says() {
    let Some(compiler) = c_compiler() else { return skipped("there is no compiler for C") };
    let file = built("layout.c");
    std::fs::write(&file, softtimers_capi::layout::source()).unwrap();
    compile(compiler, WARNINGS.into_iter().chain(["-std=c99", "-fsyntax-only", file.to_str().unwrap()]));
}

/// C programs here call every function, or the header does for them.
#[test]
fn every_function_is_called_from_c() {
    let header = std::fs::read_to_string(here().join("include/softtimers.h")).unwrap();
    let sources = ["objects.c", "bsd.c", "random_calls.c", "freed.c"]
        .map(|name| std::fs::read_to_string(here().join("tests/c").join(name)).unwrap());
    let calls = |text: &str, name: &str| {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        text.match_indices(&format!("{name}(")).filter(|(at, _)| !text[..*at].ends_with(word)).count()
    };
    let starts = header.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
    let declared = starts.filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next());
    let declared: Vec<&str> = declared.filter(|name| name.starts_with("softtimers_")).collect();
    assert!(declared.len() > 80, "{declared:?}");
    let uncalled = declared.iter().filter(|name| {
        // Of the header's own calls one is the declaration.
        calls(&header, name) < 2 && sources.iter().all(|source| calls(source, name) == 0)
    });
    assert_eq!(uncalled.collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[test]
fn every_object_does_from_c_what_it_does_from_rust() {
    let Some(compiler) = c_compiler() else { return skipped("there is no compiler for C") };
    passes(&mut Command::new(program(compiler, "objects.c", "objects", &[])));
}

#[test]
fn the_interfaces_of_bsd_do_from_c_what_the_figures_say() {
    let Some(compiler) = c_compiler() else { return skipped("there is no compiler for C") };
    passes(&mut Command::new(program(compiler, "bsd.c", "bsd", &[])));
}

#[test]
fn sanitizers_find_nothing() {
    let sanitizers = sanitizers();
    if sanitizers.is_empty() {
        return skipped("there is no gcc and no clang with AddressSanitizer and UndefinedBehaviorSanitizer");
    }
    for (compiler, flags) in sanitizers {
        for source in ["objects", "bsd", "random_calls", "freed"] {
            let name = format!("{source}_sanitized_by_{compiler}");
            let program = program(compiler, &format!("{source}.c"), &name, &flags);
            passes(Command::new(program).env("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0"));
        }
    }
}

/// Otherwise a child that arms its backup wakes its parent.
#[test]
fn a_forked_child_has_a_backup_of_its_own() {
    let Some(compiler) = c_compiler() else { return skipped("there is no compiler for C") };
    passes(&mut Command::new(program(compiler, "fork.c", "fork", &[])));
}

/// A function that is due frees the object that calls it; under the sanitizers above as well.
#[test]
fn a_call_may_free_its_object() {
    let Some(compiler) = c_compiler() else { return skipped("there is no compiler for C") };
    passes(&mut Command::new(program(compiler, "freed.c", "freed", &[])));
}

#[test]
fn valgrind_finds_nothing() {
    let (Some(compiler), Some(valgrind)) = (c_compiler(), first_of(&["valgrind"])) else {
        return skipped("there is no compiler for C, or no valgrind");
    };
    let calls = ["-DRANDOM_CALLS=3000"];
    for source in ["objects", "random_calls", "freed"] {
        let program = program(compiler, &format!("{source}.c"), &format!("{source}_valgrind"), &calls);
        let leaks =
            ["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"];
        passes(Command::new(valgrind).args(leaks).arg(program));
    }
}

/// The examples of the documentation build with what pkg-config says of the other library, and do what they say.
#[test]
fn the_examples_run() {
    let Some(compiler) = c_compiler() else { return skipped("there is no compiler for C") };
    for (name, package, arguments, says) in [
        ("epoll_echo", None, &["1"][..], "answered"),
        ("paced", None, &[], "of the rate"),
        ("many_timers", None, &["0", "1000"], "unsetcallout"),
        ("libuv", Some("libuv"), &[], "back to back"),
        ("libevent", Some("libevent_core"), &[], "back to back"),
    ] {
        let mut flags = vec![];
        if let Some(package) = package {
            let asked = Command::new("pkg-config").args(["--cflags", "--libs", package]).output();
            let Some(found) = asked.ok().filter(|found| found.status.success()) else {
                skipped(&format!("pkg-config does not find {package}"));
                continue;
            };
            flags = String::from_utf8(found.stdout).unwrap().split_whitespace().map(str::to_owned).collect();
        }
        let (out, source) = (built(&format!("example_{name}")), here().join(format!("examples/{name}.c")));
        let lines = std::fs::read_to_string(&source).unwrap().lines().count();
        assert!(package.is_none() || lines < 80, "{name}.c has {lines} lines");
        let paths = [OsStr::new("-o"), out.as_os_str(), source.as_os_str()];
        let library = library();
        let more = ["-lpthread", "-lm", "-ldl"].map(OsStr::new);
        let fixed = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"].map(OsStr::new);
        let flags = flags.iter().map(OsStr::new);
        compile(
            compiler,
            fixed.into_iter().chain(paths).chain([library.as_os_str()]).chain(flags).chain(more),
        );
        let ran = run(Command::new(&out).args(arguments));
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(ran.status.success() && said.contains(says), "{name}: {}\n{said}", ran.status);
    }
}

/// The names that snippets of the pages leave to the program around them.
const AROUND: &str = "#include <poll.h>\n#include <stddef.h>\n#include <sys/epoll.h>\n#include <sys/socket.h>\n\
    #include \"softtimers.h\"\n\
    extern softtimers_pace *pace; extern softtimers_backup *backup; extern softtimers_timers *timers;\n\
    extern struct pollfd ready; extern int loop, udp; extern char packet[]; extern size_t length; extern uint64_t next;\n\
    extern uint64_t label, handle; extern softtimers_expired expired;\n\
    void handle_event(struct epoll_event *event); void handle_expiry(uint64_t label, uint64_t at);\n\
    static void departure(void *unused);\n";

/// C in the pages is checked as it would be in a program: its names, their types and arguments.
#[test]
fn the_snippets_of_the_pages_compile() {
    let Some(compiler) = c_compiler() else { return skipped("there is no compiler for C") };
    let page = std::fs::read_to_string(here().join("../../docs/c.md")).unwrap();
    let own = std::fs::read_to_string(here().join("README.md")).unwrap();
    let fences = page.split("```").chain(own.split("```"));
    let snippets: Vec<_> = fences.filter_map(|fence| fence.strip_prefix("c\n")).collect();
    assert!(snippets.len() >= 5, "only {} snippets were found", snippets.len());
    for (number, snippet) in snippets.into_iter().enumerate() {
        // A loop over epoll has more than one event; `…` is the program's own.
        let snippet = snippet
            .replace("handle(&ready[", "handle_event(&events[")
            .replace("loop, ready,", "loop, events,");
        let snippet = snippet.replace('…', ";").replace("#include <softtimers.h>", "");
        let body = if snippet.starts_with("static ") {
            snippet
        } else {
            format!(
                "void snippet(struct epoll_event *events);\nvoid snippet(struct epoll_event *events) {{\n(void)events;\n{snippet}}}\n"
            )
        };
        let source = built(&format!("snippet_{number}.c"));
        std::fs::write(&source, format!("{AROUND}{body}")).unwrap();
        let flags = ["-fsyntax-only", "-std=gnu11", "-Wall", "-Werror", "-Wno-unused", "-I"].map(OsStr::new);
        let include = here().join("include");
        compile(compiler, flags.into_iter().chain([include.as_os_str(), source.as_os_str()]));
    }
}
