//! `softtimers sim`: sweeps, parts and what is kept of a run that breaks off. And `noise`, which measures for it.

#[path = "../../../crates/cli/tests/common/captures.rs"]
mod captures;
mod common;
#[path = "sim/pages.rs"]
mod pages;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{command, refusal, run, stderr};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A sweep of eight points that takes no time.
const SWEEP: &str =
    "sim livelock --duration 10ms --sweep kernel=unmodified,polled --sweep rate=1000,4000,6000,9000";

fn stdout(words: &str) -> String {
    let output = run(words);
    assert_eq!(output.status.code(), Some(0), "{words}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("softtimers-sim-{}-{name}", std::process::id()))
}

#[test]
fn experiments_explain_themselves() {
    assert!(stdout("sim --help").contains("livelock-mlfrr"));
    let help = stdout("sim livelock --help");
    for part in [
        "A router under overload",
        "--cpu-limit <N>",
        "[default: 8000]",
        "Columns:",
        "--sweep kernel=",
        "Exit codes:",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
    assert!(stdout("man sim").contains("livelock"));
}

#[test]
fn rows_are_the_same_for_a_seed_whatever_the_threads() {
    let one = stdout(&format!("{SWEEP} --csv --threads 1"));
    assert_eq!(one.lines().count(), 9);
    assert!(
        one.starts_with("sweep,point,row,build,seed,rate_pps,kernel,quota,offered_pps,output_pps,"),
        "{one}"
    );
    assert_eq!(stdout(&format!("{SWEEP} --csv --threads 3")), one);
    assert_ne!(stdout(&format!("{SWEEP} --csv --seed 2")), one);
}

#[test]
fn parts_become_the_whole() {
    let whole = stdout(&format!("{SWEEP} --csv"));
    let files: Vec<_> = (1..=3)
        .map(|part| {
            let file = path(&format!("part-{part}"));
            fs::write(&file, stdout(&format!("{SWEEP} --part {part}/3"))).unwrap();
            file
        })
        .collect();
    let names: Vec<_> = files.iter().rev().map(|file| file.display().to_string()).collect();
    assert_eq!(stdout(&format!("sim merge {}", names.join(" "))), whole);
    assert!(
        refusal(&run(&format!("sim merge {}", names[..2].join(" "))), 2)
            .contains("3 of 8 points are missing")
    );
    let twice = refusal(&run(&format!("sim merge {} {}", names.join(" "), names[0])), 2);
    assert!(twice.contains("in an earlier file too"), "{twice}");
    fs::write(&files[0], stdout(&format!("{SWEEP} --seed 2 --part 1/3"))).unwrap();
    assert!(refusal(&run(&format!("sim merge {}", names.join(" "))), 2).contains("of another sweep"));
    let cut = fs::read_to_string(&files[1]).unwrap();
    fs::write(&files[1], &cut[..cut.len() - 3]).unwrap();
    assert!(refusal(&run(&format!("sim merge {}", names[1])), 2).contains("cut off"));
    for file in files {
        fs::remove_file(file).unwrap();
    }
    assert!(refusal(&run(&format!("sim merge {}", names[0])), 2).contains("No such file"));
}

#[test]
fn json_has_the_rows_and_assertions_reach_them() {
    let words = "sim livelock --duration 20ms --kernel polled --rate 2000 --json";
    let object: Value = serde_json::from_str(&stdout(words)).unwrap();
    assert_eq!(object["schema"], "softtimers.sim/4");
    assert_eq!((&object["seed"], &object["points"]), (&1.into(), &1.into()));
    assert_eq!(object["config"]["quota"], "5");
    assert_eq!(object["rows"][0]["kernel"], "polled");
    assert!(object["rows"][0]["output_pps"].as_f64().is_some_and(|pps| (1_800.0..2_200.0).contains(&pps)));
    assert_eq!(run(&format!("{words} --assert rows.0.output_pps>100")).status.code(), Some(0));
    // A share is a fraction, and percent where people read it.
    let shared = "sim livelock --duration 20ms --kernel polled --rate 9000 --user yes --cpu-limit 50";
    let object: Value = serde_json::from_str(&stdout(&format!("{shared} --json"))).unwrap();
    let user = object["rows"][0]["user_share"].as_f64().unwrap();
    assert!((0.3..0.5).contains(&user), "{user}");
    let csv = stdout(&format!("{shared} --csv"));
    let fields: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let at = fields[0].iter().position(|&name| name == "user_share").unwrap();
    // JSON was read to the last bit but one.
    assert!((fields[1][at].parse::<f64>().unwrap() - user).abs() < 1e-12, "{csv}");
    assert!(stdout(shared).contains(&format!(" {:.1}%", 100.0 * user)));
    let failed = run(&format!("{words} --assert rows.0.output_pps<100"));
    assert_eq!(failed.status.code(), Some(1));
    assert!(stderr(&failed).contains("does not hold"), "{}", stderr(&failed));
    // How many rows there are is known at the end, and what they are of before.
    let failed = run(&format!("{words} --assert rows.9.output_pps>100"));
    assert_eq!(failed.status.code(), Some(1));
    let long = "sim livelock --duration 60s --sweep kernel=unmodified,polled --sweep rate=14000,14001";
    for (key, message) in [
        ("unknown_key<1", "no key unknown_key; known are"),
        ("rows.5.outputpps<1", "no key rows.5.outputpps"),
        ("rows.0.kernel<1", "rows.0.kernel is no number"),
    ] {
        let refused = refusal(&run(&format!("{long} --assert {key}")), 2);
        assert!(refused.contains(message), "{key}: {refused}");
    }
}

#[test]
fn a_result_says_what_it_is_of() {
    let file = path("inputs.csv");
    fs::write(&file, "0,60\n10,60\n").unwrap();
    let words = format!("sim hip --scheme busy-wait --trace {}", file.display());
    let object: Value = serde_json::from_str(&stdout(&format!("{words} --json"))).unwrap();
    let input = &object["inputs"][0];
    assert_eq!(input["name"].as_str(), file.to_str());
    let build = object["build"]["sha256"].as_str().unwrap();
    // As sha256sum prints it.
    assert_eq!(input["sha256"], "572209ef5d7817c83c2b27e5e3887d5712bf4ecc7a9d864f02fac8a373893b39");
    assert_eq!(build.len(), 64);
    let csv = stdout(&format!("{words} --csv"));
    let (header, line) = csv.split_once('\n').unwrap();
    assert!(header.starts_with("sweep,point,row,build,seed,trace_sha256,source,"), "{header}");
    let fields: Vec<_> = line.split(',').collect();
    assert_eq!((fields[3], fields[4], fields[5]), (build, "1", input["sha256"].as_str().unwrap()));
    // Two polls of some that find anything: no number is cut to nothing, in data or for people.
    let found = object["rows"][0]["per_poll"].as_f64().unwrap();
    assert!(found > 0.0 && found < 1.0, "{object}");
    fs::write(&file, "0,60\n10,61\n").unwrap();
    let other: Value = serde_json::from_str(&stdout(&format!("{words} --json"))).unwrap();
    assert_ne!(other["inputs"][0]["sha256"], input["sha256"]);
    assert_eq!(other["build"], object["build"]);
    fs::remove_file(file).unwrap();
}

#[test]
fn axes_are_numbers_with_units() {
    let object = "sim pacing --sweep target=40us,1ms --sweep duration=1ms,2ms --json";
    let object: Value = serde_json::from_str(&stdout(object)).unwrap();
    let rows = object["rows"].as_array().unwrap();
    let of = |key: &str| rows.iter().map(|row| row[key].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(of("target_ns"), [40_000, 40_000, 1_000_000, 1_000_000]);
    assert_eq!(of("duration_ns"), [1_000_000, 2_000_000, 1_000_000, 2_000_000]);
    let quotas =
        "sim livelock --duration 10ms --kernel polled --sweep quota=5,none --sweep rate=1kpps --json";
    let object: Value = serde_json::from_str(&stdout(quotas)).unwrap();
    assert_eq!((&object["rows"][0]["quota"], &object["rows"][0]["rate_pps"]), (&5.into(), &1_000.into()));
    assert!(object["rows"][1]["quota"].is_null());
}

/// With means: the same for any number of threads, in parts, and cut off anywhere and resumed.
#[test]
fn seeds_give_means_however_they_are_run() {
    let words =
        "sim hip --synthetic t-high-1 --scheme hip --sweep phi=1,2,3 --seeds 12 --precision delay_us=20%";
    let whole = stdout(&format!("{words} --csv --threads 1"));
    assert!(
        whole.contains(
            ",overhead_us,overhead_us_sd,overhead_us_ci95,overhead_us_n,paper_overhead_us,delay_us,"
        ),
        "{whole}"
    );
    assert_eq!(stdout(&format!("{words} --csv --threads 3")), whole);
    let files = [1, 2].map(|part| {
        let file = path(&format!("means-{part}"));
        fs::write(&file, stdout(&format!("{words} --part {part}/2"))).unwrap();
        file
    });
    assert_eq!(stdout(&format!("sim merge {} {}", files[0].display(), files[1].display())), whole);
    for end in [0, 9, whole.len() / 2, whole.len() - 1, whole.len()] {
        fs::write(&files[0], &whole[..end]).unwrap();
        let resumed = stdout(&format!("{words} --out {} --resume", files[0].display()));
        assert_eq!(
            (fs::read_to_string(&files[0]).unwrap(), resumed),
            (whole.clone(), whole.clone()),
            "{end}"
        );
    }
    let other = run(&format!("{words} --seed 2 --out {} --resume", files[0].display()));
    assert!(refusal(&other, 2).contains("of another sweep: experiment, parameters, seeds, version or build"));
    assert_eq!(fs::read_to_string(&files[0]).unwrap(), whole, "what is refused stays as it was");
    files.iter().for_each(|file| fs::remove_file(file).unwrap());
    let fresh = path("fresh");
    assert_eq!(stdout(&format!("{words} --out {} --resume", fresh.display())), whole);
    fs::remove_file(fresh).unwrap();

    let object: Value = serde_json::from_str(&stdout(&format!("{words} --json"))).unwrap();
    let row = &object["rows"][2];
    assert_eq!(
        (&object["seeds"], &row["phi"], &row["paper_delay_us"]),
        (&12.into(), &3.0.into(), &Value::Null)
    );
    let of = |key: &str| row[key].as_f64().unwrap();
    assert!(of("delay_us_ci95") < of("delay_us_sd") && of("delay_us_sd") < of("delay_us"), "{row}");
    let table = stdout(words);
    assert!(table.contains(" ± ") && table.contains("of at most 12 seeds from 1"), "{table}");
}

#[test]
fn a_point_that_is_not_possible_is_skipped_with_a_reason() {
    let words = "sim hip --synthetic t-low-1 --scheme hip --sweep t-min=1ms,20ms";
    assert!(refusal(&run(words), 2).contains("at t-min=20ms: t-max 10ms is shorter than t-min 20ms"));
    let csv = stdout(&format!("{words} --skip-infeasible --csv"));
    let lines: Vec<_> = csv.lines().collect();
    assert!(lines[0].ends_with(",reason") && lines[1].ends_with(',') && lines.len() == 3, "{csv}");
    assert!(lines[2].ends_with(",t-max 10ms is shorter than t-min 20ms"), "{csv}");
    assert!(refusal(&run("sim hip --t-min 20ms --skip-infeasible"), 2).contains("t-max 10ms is shorter"));
}

#[test]
fn seeds_and_files_are_swept() {
    let csv = stdout("sim hip --synthetic t-high-1 --scheme hip --sweep seed=1,2 --csv");
    assert!(csv.starts_with("sweep,point,row,build,seed,source,"), "{csv}");
    let seeds: Vec<_> = csv.lines().skip(1).map(|line| line.split(',').nth(4).unwrap()).collect();
    assert_eq!(seeds, ["1", "2"]);
    for (words, message) in [
        ("--sweep seed=1,x", "--sweep 'seed=x': a whole number from 0 to"),
        ("--sweep seed=1,2 --seeds 3", "seed is swept already"),
        ("--seeds 3 --precision scheme=1%", "no column with a mean; there are packets, overhead_us"),
        ("--seeds 10 --precision delay_us=2%", "--precision: more than ten seeds"),
        ("--precision delay_us=1%", "--seeds"),
        ("--seeds 3 --precision delay_us=0", "a share above 0%"),
        ("--seeds 0", "1..=1000"),
        ("--resume", "--out"),
    ] {
        let refused = refusal(&run(&format!("sim hip {words}")), 2);
        assert!(refused.contains(message), "{words}: {refused}");
    }
    let files = ["a.csv", "b.csv"].map(path);
    for (file, text) in files.iter().zip(["0,60\n10,60\n", "0,60\n"]) {
        fs::write(file, text).unwrap();
    }
    let [a, b] = files.each_ref().map(|file| file.display().to_string());
    let csv = stdout(&format!("sim hip --scheme interrupts --sweep trace={a},{b} --csv"));
    let lines: Vec<Vec<_>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0][..7], ["sweep", "point", "row", "build", "seed", "trace_sha256", "trace"]);
    assert_eq!([lines[1][6], lines[2][6]], [a, b]);
    assert_ne!(lines[1][5], lines[2][5]);
    files.iter().for_each(|file| fs::remove_file(file).unwrap());
}

/// A machine that is printed can be read; one with a change is another one, and results say which.
#[test]
fn a_machine_of_somebody_is_simulated_and_named() {
    let file = path("machine.toml");
    let printed = stdout("sim machine alpha-3000");
    assert!(printed.contains("\n[router.priorities]\n") && !printed.contains("[hip]"), "{printed}");
    let short = "--duration 50ms --kernel polled --rate 12000 --json";
    let of = |machine: &str| -> Value {
        serde_json::from_str(&stdout(&format!("sim livelock --machine {machine} {short}"))).unwrap()
    };
    let papers: Value = serde_json::from_str(&stdout(&format!("sim livelock {short}"))).unwrap();
    let preset = of("alpha-3000");
    assert_eq!(preset["rows"], papers["rows"]);
    fs::write(&file, &printed).unwrap();
    let same = of(file.to_str().unwrap());
    assert_eq!(same["rows"], papers["rows"]);
    assert_eq!(same["inputs"][0]["name"].as_str(), file.to_str());
    assert_eq!(same["inputs"][0]["sha256"], preset["inputs"][0]["sha256"], "as 'sim machine' prints it");
    fs::write(&file, "based-on = \"alpha-3000\"\n[router.polled]\nreceive = \"100us\"\n").unwrap();
    let slower = of(file.to_str().unwrap());
    assert_ne!(slower["inputs"], same["inputs"]);
    let pps = |object: &Value| object["rows"][0]["output_pps"].as_f64().unwrap();
    assert!(pps(&slower) < 0.9 * pps(&papers), "{slower} {papers}");
    let csv = stdout(&format!(
        "sim livelock --machine {} --duration 10ms --kernel polled --rate 9000 --csv",
        file.display()
    ));
    assert!(csv.starts_with("sweep,point,row,build,seed,machine_sha256,kernel,"), "{csv}");
    fs::write(&file, "[router]\nring = -5\n").unwrap();
    for (words, message) in [
        (
            format!("livelock --machine {}", file.display()),
            "line 2: router.ring '-5': a whole number from 1 to 65536",
        ),
        ("hip --machine alpha-3000".to_owned(), "machine: hip.interrupt is missing, which hip needs"),
        ("callout --machine alpha-3000".to_owned(), "callout has none to be set"),
        (
            "livelock --machine vax".to_owned(),
            "No such file or directory (os error 2); a file, or one of alpha-3000, pentium-ii, here",
        ),
    ] {
        let refused = refusal(&run(&format!("sim {words}")), 2);
        assert!(refused.contains(message), "{words}: {refused}");
    }
    stdout("sim hip --machine pentium-ii --synthetic t-high-1");
    stdout("sim polling --machine pentium-ii --packets 100 --quota 5 --server flash --protocol http");
    fs::remove_file(file).unwrap();
}

/// `here` is the file of this name, and what its measurement is good for.
#[test]
fn here_is_what_doctor_wrote_in_this_directory() {
    let directory = path("here");
    fs::create_dir(&directory).unwrap();
    let at = |words: &str| command(words).current_dir(&directory).output().unwrap();
    let refused = refusal(&at("sim hip --machine here"), 2);
    assert!(
        refused.contains("here.json: No such file or directory") && refused.contains("doctor --json"),
        "{refused}"
    );
    let measured =
        r#"{"schema": "softtimers.doctor/1", "costs": {"wakeup_cpu_ns": 9400, "syscall_ns": 166}}"#;
    fs::write(directory.join("here.json"), measured).unwrap();
    let run = at("sim hip --machine here --scheme interrupts --synthetic t-low-1 --json");
    let found: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(found["inputs"][0]["name"], "here.json");
    // An interrupt of 9.4 µs and the transfer of each packet.
    assert!(
        found["rows"][0]["overhead_us"].as_f64().is_some_and(|micros| (9.4..11.0).contains(&micros)),
        "{found}"
    );
    let table =
        String::from_utf8(at("sim hip --machine here --scheme interrupts --synthetic t-low-1").stdout)
            .unwrap();
    let (machine, build) = (&found["inputs"][0]["sha256"], &found["build"]["sha256"]);
    for (named, sha256) in [("program", build), ("here.json", machine)] {
        let line = format!("\nsha256 {} {named}\n", sha256.as_str().unwrap());
        assert!(table.contains(&line), "{line}: {table}");
    }
    for experiment in ["livelock", "polling"] {
        let refused = refusal(&at(&format!("sim {experiment} --machine here")), 2);
        assert!(refused.contains("no router and no server"), "{refused}");
    }
    fs::remove_dir_all(directory).unwrap();
}

/// A device with little room loses what comes in bursts, and the packets of a recording drive each machine.
#[test]
fn recordings_drive_all_machines_and_short_rings_lose() {
    let file = path("bursts.csv");
    let burst = |start: u32| (0..40).map(move |packet| format!("{},60\n", start + 100 * packet));
    fs::write(&file, burst(0).chain(burst(50_000)).collect::<String>()).unwrap();
    let trace = format!("--trace {}", file.display());
    let row = |words: &str| -> Value {
        let mut object: Value =
            serde_json::from_str(&stdout(&format!("sim {words} {trace} --json"))).unwrap();
        object["rows"][0].take()
    };
    let [deep, short] = ["none", "4"].map(|ring| row(&format!("hip --scheme polling --ring {ring}")));
    assert_eq!((&deep["lost"], &deep["packets"]), (&0.0.into(), &80.into()));
    let lost = short["lost"].as_f64().unwrap();
    assert!(lost > 0.5 && short["packets"].as_f64().unwrap() == (80.0 * (1.0 - lost)).round(), "{short}");
    // Ten thousand a second for four milliseconds are more than the router takes, and fewer than its ring and queues hold.
    let router = row("livelock --kernel polled --quota 5");
    assert!(router["offered_pps"].as_f64().is_some_and(|pps| (1_400.0..1_600.0).contains(&pps)), "{router}");
    assert!(router["settled_ms"].is_null() && router["closed_pps"].is_null());
    let short = row("livelock --kernel polled --ring 2");
    assert!(short["ring_drops"].as_f64() > router["ring_drops"].as_f64(), "{short} {router}");
    let server = row("polling --server flash --protocol http --quota 5");
    assert!(server["gain"].as_f64().is_some_and(|gain| gain > 0.0), "{server}");
    assert!(refusal(&run(&format!("sim livelock --rate 5 {trace}")), 2).contains("rate: used with no trace"));
    fs::write(&file, "0,60\n").unwrap();
    assert!(
        refusal(&run(&format!("sim livelock --kernel polled {trace}")), 2).contains("a rate needs two times")
    );
    fs::remove_file(file).unwrap();
}

/// One point is short, and the other a day's simulation: a signal gives that one up, and the first one's rows are there.
#[test]
fn a_signal_gives_up_the_point_that_runs() {
    let many = "sim noise --phases 9999 --threads 1 --sweep nodes=1,999999";
    let far = "sim livelock --kernel polled --rate 14000 --threads 1 --sweep duration=10ms,1000s";
    let tries = "sim hip-traces --synthetic t-low-1 --threads 1 --sweep refit=0,10000000";
    let flow = "sim pacing --target 40us --burst 12us --threads 1 --sweep duration=1ms,1000s";
    for words in [many, far, tries, flow] {
        let file = path("signals");
        let words = format!("{words} --json --out {}", file.display());
        let mut child = command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = || fs::read_to_string(&file).unwrap_or_default().lines().count();
        while lines() < 2 {
            assert_eq!(child.try_wait().unwrap(), None, "it ended before its second point");
            std::thread::yield_now();
        }
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        // Nobody sends a second one; the point alone would take longer than the tests of this file have.
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words}: {}", stderr(&output));
        // What it says of that is another test's: here it may have ended before anybody got round to saying so.
        let table: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&table["points"], lines()), (&1.into(), 2), "{words}");
        fs::remove_file(file).unwrap();
    }
}

/// Something to print to that is full, and who would read it.
fn full() -> (UnixStream, OwnedFd) {
    let (reader, mut full) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    while full.write(&[b'x'; 4_096]).is_ok() {}
    full.set_nonblocking(false).unwrap();
    (reader, full.into())
}

/// Sends the signal, and again each second, up to `most` times; the exit code, once it has ended.
fn insist(child: &mut Child, signal: Signal, most: u32) -> Option<i32> {
    for look in 0..3_000 {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if look % 100 == 0 && look / 100 < most {
            kill_process(Pid::from_child(child), signal).unwrap();
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("it goes on after signal {signal:?}");
}

/// Whatever is blocked by a reader that does not read: the first line, the table at the end, or the answer.
#[test]
fn signals_end_what_nobody_reads() {
    let (long, short) = ("--sweep duration=10ms,1000s --threads 1 --csv", "--duration 10ms");
    for (flags, lines, signal, code, answered) in [
        (long, 1, Signal::TERM, 143, true),
        (short, 2, Signal::INT, 130, true),
        (long, 1, Signal::TERM, 143, false),
    ] {
        let file = path("unread");
        let words = format!("sim livelock --kernel polled --rate 14000 {flags} --out {}", file.display());
        let (_reader, full) = full();
        let stderr = if answered { Stdio::piped() } else { full.try_clone().unwrap().into() };
        let mut child = command(&words).stdout(full).stderr(stderr).spawn().unwrap();
        while fs::read_to_string(&file).unwrap_or_default().lines().count() < lines {
            assert_eq!(child.try_wait().unwrap(), None, "{words}");
            std::thread::yield_now();
        }
        if let Some(said) = child.stderr.take() {
            kill_process(Pid::from_child(&child), signal).unwrap();
            let answer = BufReader::new(said).lines().next().unwrap().unwrap();
            assert!(answer.contains("again ends at once"), "{answer}");
        }
        // Lines are given up at the second one; a table that is being printed at the one after it.
        let most = if answered && lines == 1 { 1 } else { 3 };
        assert_eq!(insist(&mut child, signal, most), Some(code), "{words}");
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn what_cannot_be_is_refused() {
    for (words, parts) in [
        ("sim livelock --rate 14881", &["rate 14881: from 0 to 14880 packets a second fit on the wire"][..]),
        ("sim livelock --quota 0", &["'0'", "or none"]),
        ("sim livelock --cost 1%", &["'1%'", "from 0 to 10000"]),
        ("sim livelock --sweep quota", &["'quota'", "NAME=A,B"]),
        ("sim livelock --sweep nosuch=1", &["nosuch", "no such parameter", "kernel, rate"]),
        ("sim livelock --sweep quota=5,x", &["quota=x", "from 1"]),
        ("sim livelock --sweep quota=9..1", &["quota=9..1", "FROM..TO"]),
        ("sim livelock --quota 5 --sweep quota=5", &["quota is set already"]),
        ("sim livelock --part 3/2", &["'3/2'", "3/16"]),
        ("sim livelock --part 1/2 --threads 0", &["'0'", "from 1 to 1024"]),
        ("sim livelock --threads 1025", &["'1025'", "from 1 to 1024"]),
        ("sim livelock --csv --json", &["--csv", "--json"]),
        (
            "sim livelock --kernel unmodified --rate 1 --feedback yes",
            &["feedback", "kernel unmodified has none"],
        ),
        ("sim livelock --kernel polled --rate 1 --feedback yes", &["consumer kernel has no queue"]),
        ("sim livelock --kernel polled --rate 1 --ip interrupt", &["ip interrupt: kernel polled polls"]),
        (
            "sim livelock --kernel polled --rate 1 --consumer screend --feedback yes --high 20",
            &["marks 6 and 8", "low < high"],
        ),
        ("sim livelock-monitor --feedback yes --rate 1 --file null --room 33", &["room 33", "at most 32"]),
        ("sim nosuch", &["nosuch"]),
    ] {
        let message = refusal(&run(words), 2);
        for part in parts {
            assert!(message.contains(part), "{words}: {part}: {message}");
        }
    }
}

/// All points are looked at before the first one is run: nothing is printed, no file is made.
#[test]
fn a_point_that_cannot_be_is_told_before_anything_is_printed() {
    let file = path("never");
    for (words, message) in [
        (
            "sim livelock --duration 10ms --rate 1000 --consumer screend --feedback yes --sweep kernel=polled,unmodified",
            "at kernel=unmodified: feedback: kernel unmodified has none",
        ),
        ("sim pacing --sweep target=40us,60us --sweep burst=12us,50us", "at target=40us burst=50us: "),
        ("sim hip --sweep alpha=0.5,0.9996,0.9997", "at alpha=0.9996: alpha 0.9996: at most three digits"),
        ("sim hip --sweep alpha=0.9996", "such as 0.999"),
        ("sim hip --sweep gamma=0.0004", "such as 0.001"),
        ("sim hip --sweep t-min=1ms,20ms,30ms", "is shorter than t-min 20ms; one more point cannot be run"),
    ] {
        let refused = refusal(&run(&format!("{words} --csv --out {}", file.display())), 2);
        assert!(refused.contains(message), "{words}: {refused}");
        assert!(!file.exists(), "{words}");
    }
}

#[test]
fn a_file_of_rows_is_not_overwritten_by_accident() {
    let file = path("kept");
    let words = format!("sim livelock --duration 10ms --kernel polled --rate 1kpps --out {}", file.display());
    assert!(stdout(&words).contains("\npolled"));
    let kept = fs::read_to_string(&file).unwrap();
    assert!(kept.lines().count() == 2 && kept.ends_with('\n'), "{kept}");
    assert!(kept.contains(",1/1,") && kept.contains(",1,polled,"), "{kept}");
    assert!(refusal(&run(&words), 2).contains("exists; --force"));
    assert_eq!(fs::read_to_string(&file).unwrap(), kept);
    fs::remove_file(file).unwrap();
}

/// A parameter that no run would use is refused, even where it is the default.
#[test]
fn parameters_that_would_change_nothing_are_refused() {
    for (words, message) in [
        ("livelock --kernel unmodified --quota 5", "quota: used with a kernel that polls"),
        ("livelock --kernel unmodified --sweep quota=5,10", "quota: used with a kernel that polls"),
        ("livelock --kernel polled --batching no", "batching: used with kernel unmodified or no-polling"),
        ("livelock --kernel polled --rate 1 --high 50", "high: used with feedback yes"),
        ("livelock --kernel polled --rate 1 --period 2ms", "period: used with kernel clocked"),
        ("livelock-mlfrr --rate 1000", "rate: used with livelock"),
        ("livelock-monitor --feedback no --room 4", "room: used with feedback yes"),
        ("hip --scheme interrupts --gamma 2", "gamma: used with scheme"),
        ("hip --costs cm5 --interrupt 3us", "interrupt: used with costs table-2"),
        ("hip --packets 100", "packets: used with synthetic constant"),
        ("pacing --strategy relative --burst 20us", "burst: used with strategy two-speed"),
        ("pacing --disabled 100us", "disabled: used with strategy interrupts"),
        ("pacing-acks --answer paced --maxburst 3", "maxburst: used with answer maxburst"),
        ("deadline --idle yes --mean 20us", "mean: used with the model's trigger states"),
        ("framerate --hz 100 --slack 1ms", "slack: used with smart timers"),
        ("hip --scheme hip --soft-reading counter", "soft-reading: used with scheme hip-soft or all"),
        ("hip --scheme polling --soft-reading counter", "soft-reading: used with scheme hip-soft or all"),
        ("livelock --kernel unmodified --rate 6000 --eager yes", "eager: used with a kernel that polls"),
        ("noise --p 0 --held-up 2", "held-up: used with the model and a p above zero"),
    ] {
        let refused = refusal(&run(&format!("sim {words}")), 2);
        assert!(
            refused.contains(message) && refused.contains("it would change nothing here"),
            "{words}: {refused}"
        );
    }
    // One point that uses it is enough, and who sweeps by default has not asked for it.
    let both = "sim livelock --duration 10ms --quota 8 --sweep kernel=unmodified,polled --rate 1kpps --csv";
    assert_eq!(stdout(both).lines().count(), 3);
    stdout("sim pacing --duration 1ms --strategy relative");
}

#[test]
fn costs_may_be_nothing_and_time_must_pass() {
    let free = "--interrupt 0ns --poll 0ns --transfer 0ns --switch 0ns";
    let table = stdout(&format!("sim hip --synthetic t-high-1 --csv {free}"));
    assert!(table.lines().skip(1).all(|line| line.split(',').nth(8) == Some("0")), "{table}");
    for scheme in ["busy-wait", "spin", "all"] {
        let refused = refusal(&run(&format!("sim hip --scheme {scheme} --poll 0ns")), 2);
        assert!(refused.contains("poll 0ns: ") && refused.contains("above zero"), "{refused}");
    }
    stdout(
        "sim polling --packets 1000 --quota 5 --interrupt 0ns --poll 0ns --shift 0ns --server flash --protocol http",
    );
    stdout("sim callout --iterations 100 --kernel hash --outstanding 10 --instruction 0ns --call 0ns");
    for kernel in ["unmodified", "no-polling", "polled", "high-ipl", "clocked"] {
        stdout(&format!("sim livelock --duration 10ms --kernel {kernel} --rate 8kpps --cost 0"));
    }
}

/// Two of as many packets in as much time are two.
#[test]
fn parts_of_different_recordings_are_not_merged() {
    let [one, other] =
        [("one.csv", "0,60\n10,60\n100,60\n"), ("other.csv", "0,60\n90,60\n100,60\n")].map(|(name, text)| {
            let file = path(name);
            fs::write(&file, text).unwrap();
            file
        });
    let parts: Vec<_> = [(&one, "1/2"), (&other, "2/2"), (&one, "2/2")]
        .into_iter()
        .enumerate()
        .map(|(number, (trace, part))| {
            let words = format!("sim hip --sweep phi=1,2 --part {part} --trace {}", trace.display());
            let file = path(&format!("of-{number}"));
            fs::write(&file, stdout(&words)).unwrap();
            file
        })
        .collect();
    let merge = |with: usize| run(&format!("sim merge {} {}", parts[0].display(), parts[with].display()));
    assert!(refusal(&merge(1), 2).contains("of another sweep"));
    assert_eq!(merge(2).status.code(), Some(0));
    for file in parts.into_iter().chain([one, other]) {
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn a_full_disk_is_told_and_a_reader_that_leaves_is_not() {
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else {
        return common::skipped("no /dev/full");
    };
    let output = command(&format!("{SWEEP} --csv")).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("writing to stdout: No space left"), "{}", stderr(&output));
    let output = run(&format!("{SWEEP} --out /dev/full --force"));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("writing '/dev/full': No space left"), "{}", stderr(&output));
    // A file that may have two blocks and no more: the lines that fit are there, whole, and no half one.
    let file = path("full");
    let sweep = SWEEP.replace("--duration 10ms", "--sweep duration=10ms,11ms");
    let limit = "ulimit -f 2; exec \"$0\" \"$@\" --threads 1";
    let mut shell = Command::new("sh");
    shell.args(["-c", limit, common::PROGRAM]).args(sweep.split(' ')).arg("--out").arg(&file);
    let output = shell.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("File too large"), "{}", stderr(&output));
    let kept = fs::read_to_string(&file).unwrap();
    assert!(kept.ends_with('\n') && (2..17).contains(&kept.lines().count()), "{kept}");
    fs::remove_file(file).unwrap();
    let mut child =
        command(&format!("{SWEEP} --csv")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
}

/// Two that go on with one file would make of both what neither is.
#[test]
fn a_file_that_another_run_writes_is_left_alone() {
    let file = path("resumed.csv");
    let sweep = format!("{SWEEP} --out {}", file.display());
    stdout(&sweep);
    let whole = fs::read_to_string(&file).unwrap();
    let held = fs::File::open(&file).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    for words in ["--resume", "--force"] {
        let refused = refusal(&run(&format!("{sweep} {words}")), 2);
        assert!(refused.contains("is writing it; wait until that has ended"), "{refused}");
        let of_process = refused.contains(&format!("process {}", std::process::id()));
        assert!(of_process || refused.contains("another process"), "{refused}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);
    drop(held);
    stdout(&format!("{sweep} --resume"));
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);
    fs::remove_file(file).unwrap();
}

#[test]
fn recordings_of_every_format_are_packets() {
    let pcap = captures::pcap(captures::BIG, true, 96, &[(0, 60), (2_000_000, 1_514)]);
    for (name, bytes) in [
        ("a.csv", b"t_us,len\n0,60\n2000,1514\n".to_vec()),
        ("a.tl", b"0.000000     60\n0.002000   1514\n".to_vec()),
        ("a.pcap", pcap),
    ] {
        let file = path(name);
        fs::write(&file, bytes).unwrap();
        let table = stdout(&format!("sim hip --scheme interrupts --csv --trace {}", file.display()));
        // 5 µs and 0.5 for 1500 bytes: 0.02 and 0.505.
        assert!(table.contains(",interrupts,2,5.262,"), "{name}: {table}");
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_recording_that_is_wrong_is_refused_with_byte_and_line() {
    let file = path("wrong.tl");
    fs::write(&file, "0.003056     64\n0.003064   1518\nx 64\n").unwrap();
    let refused = refusal(&run(&format!("sim hip --trace {}", file.display())), 2);
    assert!(refused.contains("byte 32, line 3: 'x' is no time in seconds"), "{refused}");
    // Sorted, there would be an interrupt more: what is simulated is the file, or nothing.
    fs::write(&file, "0,60\n100,60\n50,60\n200,60\n").unwrap();
    let refused = refusal(&run(&format!("sim hip --trace {}", file.display())), 2);
    assert!(refused.contains("1 of its packets are earlier than one before them"), "{refused}");
    fs::write(&file, "0,60\n100,65508\n").unwrap();
    let refused = refusal(&run(&format!("sim hip --trace {}", file.display())), 2);
    assert!(refused.contains("1 of its packets are longer than 65507 bytes"), "{refused}");
    fs::remove_file(&file).unwrap();
    let refused = refusal(&run("sim hip --t-min 20ms"), 2);
    assert!(refused.contains("t-max 10ms is shorter than t-min 20ms"), "{refused}");
}

/// One run tells of itself; how long its phases took is the machine's affair.
#[test]
fn noise_is_measured_explained_and_drawn_for_jobs() {
    let words = "noise --phases 300 --phase 200us --threshold 1.1 --nodes 1,10,100 --json";
    let found: Value = serde_json::from_str(&stdout(words)).unwrap();
    let number =
        |path: &str| found.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {found}"));
    let column = |list: &str, key: &str| -> Vec<f64> {
        found[list].as_array().unwrap().iter().map(|row| row[key].as_f64().unwrap()).collect()
    };
    assert_eq!((&found["schema"], number("/phases")), (&"softtimers.noise/1".into(), 300.0));
    assert_eq!((number("/phase_ns/count"), &found["fifo"]), (300.0, &Value::Null));
    assert!(number("/phase_ns/min") > 0.0, "{found}");
    // Calibrated within a hundredth, or it says by how much it is not.
    let near = (number("/calibrated_ns") / 200_000.0 - 1.0).abs() <= 0.01;
    let notes = found["fallbacks"].as_array().unwrap().iter().filter_map(Value::as_str);
    let told = notes.filter(|note| note.starts_with("calibrated to ")).count();
    assert_eq!(told, usize::from(!near), "{found}");
    assert!((number("/threshold_ns") - 1.1 * number("/phase_ns/p50")).abs() < 1e-3 * number("/threshold_ns"));
    // Each survives at most as often as one before it; the threshold is among them.
    let shares = column("survival", "share");
    assert!(shares.is_sorted_by(|one, next| one >= next) && shares[3] == number("/p_delayed"), "{found}");
    assert!(column("cdf", "ns").is_sorted(), "{found}");
    // Every delayed phase is counted under one cause.
    let caused: f64 = column("causes", "phases").iter().sum();
    assert!((caused - 300.0 * number("/p_delayed")).abs() < 1e-6, "{found}");
    // More nodes wait for the slowest of more phases.
    assert_eq!(column("slowdown", "nodes"), [1.0, 10.0, 100.0]);
    for key in ["factor", "expected"] {
        assert!(column("slowdown", key).is_sorted_by(|less, more| less <= &(more * 1.02)), "{found}");
    }
    assert!(column("slowdown", "undelayed").is_sorted_by(|more, less| more >= less), "{found}");
}

#[test]
fn noise_under_fifo_is_beside_the_ordinary_or_not_possible() {
    let words = "noise --phases 100 --phase 200us --class fifo --nodes 10 --json";
    let output = run(words);
    if output.status.code() == Some(77) {
        return common::skipped(refusal(&output, 77).trim());
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["phases"], &found["fifo"]["phases"]), (&100.into(), &100.into()));
    assert_eq!(found["config"]["fifo"], true);
}

/// Bounds that hold on any machine: a timer does not expire more often than it is set to, and smart timers wake for
/// timers. How much work is kept is the machine's affair.
#[test]
fn wake_ups_are_counted_at_each_rate_and_smart_timers_need_fewer() {
    let words = "noise --rates 200Hz,2kHz --rounds 2 --turn 50ms --timers 20 --json";
    let found: Value = serde_json::from_str(&stdout(words)).unwrap();
    assert_eq!(found["schema"], "softtimers.noise_rates/1");
    let noted = |what: &str| {
        found["fallbacks"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains(what))
    };
    let counted = found["energy"].is_array();
    assert!(counted != noted("no RAPL here"), "{found}");
    let rates = found["rates"].as_array().unwrap();
    assert_eq!(rates.iter().map(|rate| rate["hz"].as_f64().unwrap()).collect::<Vec<_>>(), [200.0, 2_000.0]);
    for rate in rates {
        let number = |path: &str| rate.pointer(path).and_then(Value::as_f64).unwrap();
        assert_eq!(number("/late_at_most_ns") * number("/hz"), 1e9);
        // As late as the tick's at the median, so half of it at most.
        assert_eq!(2.0 * number("/smart_slack_ns"), number("/late_at_most_ns"));
        for way in ["", "/smart"] {
            for share in ["cpu_share", "idle/cpu_share"] {
                assert!((0.0..=1.0).contains(&number(&format!("{way}/{share}"))), "{way}: {share}: {rate}");
            }
            assert!(number(&format!("{way}/work_kept")) > 0.0, "{rate}");
            let states = rate.pointer(&format!("{way}/idle/states")).and_then(Value::as_array).unwrap();
            assert!(states.is_empty() == noted("no cpuidle"), "{found}");
            assert!(rate.pointer(&format!("{way}/idle/watts")).unwrap().is_null() != counted, "{found}");
        }
        // A few more for what the thread waits for besides, in turns of 50 ms.
        assert!(number("/wakeups_per_s") < number("/hz") + 200.0, "{rate}");
        assert!(number("/smart/wakeups_per_s") < 2.0 * number("/smart/events_per_s") + 200.0, "{rate}");
        // A machine that stalls has no ticks meanwhile.
        if number("/wakeups_per_s") > 1_000.0 {
            assert!(number("/smart/wakeups_per_s") < number("/wakeups_per_s"), "{rate}");
        }
    }
}

#[test]
fn noise_refuses_what_it_cannot_measure() {
    for (flags, message) in [
        ("--phases 99", "99 is not in 100..=1000000"),
        ("--phase 99us", "100us to 10ms are allowed"),
        ("--threshold 0.9", "a number from 1 to 100 is allowed"),
        ("--threshold NaN", "a number from 1 to 100 is allowed"),
        ("--nodes 0", "0 is not in 1..=100000"),
        ("--cpu 99999", "--cpu 99999: this process may run on"),
        ("--class fifo --phases 60001", "may take a CPU for a minute, 60000 such phases"),
        ("--assert p_late<1", "no key p_late; known are"),
        ("--rates 0Hz", "1Hz to 100kHz are allowed"),
        ("--rates 100Hz,1MHz", "'1MHz'"),
        ("--rates 250", "such as 250Hz"),
        ("--rates --turn 1ms", "10ms to 10s are allowed"),
        ("--rates 1kHz --phases 100", "cannot be used with"),
        ("--turn 50ms", "--rates"),
        (
            "--rates 1kHz --assert rates.1.work_kept>0",
            "no key rates.1.work_kept; did you mean rates.0.work_kept",
        ),
    ] {
        let refused = refusal(&run(&format!("noise {flags}")), 2);
        assert!(refused.contains(message), "{flags}: {refused}");
    }
}
