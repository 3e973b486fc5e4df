//! A C program on libuv that answers after 250 µs: its timers count milliseconds, those of `softtimers.h` nanoseconds.
//!
//! The program is the echo server of libuv's guide, from the sources of Debian's package, as a stand-in for a server
//! with a service time. `softtimers.patch` delays answers with this project's C library; `uv-timer.patch` uses the
//! shortest time of `uv_timer_start`, a millisecond. Both read a connection's next request only after its answer has
//! left.

mod server;

use std::path::PathBuf;

use example_harness::trial::{Done, Line, Software, Trial};
use server::{Server, Timer};
use softtimers_trials::result::Table;

const FIGURES: [(&str, usize); 4] =
    [("answers/s", 0), ("answered p50 µs", 0), ("answered p99 µs", 0), ("CPU µs an answer", 2)];
const SOFTWARE: Software = Software::new(
    "libuv 1.44, echo server",
    "[libuv #811](https://github.com/joyent/libuv/issues/811), [#4773](https://github.com/libuv/libuv/issues/4773): timers count milliseconds, and stay so",
    include_str!("../softtimers.patch"),
);

fn run(trial: &Trial, mut servers: Vec<(Timer, PathBuf)>) -> Done<Vec<Table>> {
    let measured = trial.contest(&[()], &mut servers, |(), (timer, program), round| {
        let mut server = Server::start(program)?;
        let before = server.cpu();
        let answers = server.ask(trial.time)?;
        let used = server.cpu().zip(before).map(|(after, before)| after.saturating_sub(before));
        let at = |share| answers.quantile(share).map(|nanos| nanos as f64 / 1e3);
        let count = answers.len() as f64;
        let cpu = used.map(|used| used.as_secs_f64() * 1e6 / count);
        let figures = [Some(count / trial.time.as_secs_f64()), at(0.5), at(0.99), cpu];
        FIGURES.iter().zip(figures).for_each(|((name, _), figure)| round.put(timer.name(), name, figure));
        Done::Ok(())
    })?;
    let both = Timer::ALL.map(|timer| timer.name().to_owned());
    let table = Table::of("libuv-echo", &measured, both.iter(), &FIGURES);
    let line =
        |(said, figure): (&str, usize)| -> Line<'_> { (said.to_owned(), FIGURES[figure].0, both.clone()) };
    let lines =
        [("answer meant to take 250 µs, p50 µs", 1), ("answer meant to take 250 µs, p99 µs", 2)].map(line);
    Ok(vec![table, SOFTWARE.summary(&measured, FIGURES[3].0, &lines)])
}

fn main() -> Done {
    let trial = Trial::asked()?;
    match server::build() {
        Ok(servers) => trial.show("libuv-echo", run(&trial, servers)?),
        Err(why) => {
            println!("skipped: {why}");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// An answer equals the request, and comes no sooner than it should.
    #[test]
    fn answers_take_their_time() {
        let servers = match server::build() {
            Ok(servers) => servers,
            Err(why) => {
                let line = format!("skipped: answers_take_their_time: {why}\n");
                return std::io::stderr().write_all(line.as_bytes()).unwrap();
            }
        };
        let least = |(timer, program): &(Timer, PathBuf)| {
            let answers = Server::start(program).unwrap().ask(Trial::short().time).unwrap();
            assert!(!answers.is_empty(), "{timer:?}");
            answers.least().unwrap() as u128
        };
        assert!(least(&servers[1]) >= server::SERVICE.as_nanos());
        let text = run(&Trial::short(), servers).unwrap()[0].markdown(&[], |_| true).unwrap();
        assert!(Timer::ALL.iter().all(|timer| text.contains(timer.name())), "{text}");
    }

    #[test]
    fn the_patch_is_short() {
        assert!(include_str!("../softtimers.patch").lines().count() < 60);
    }
}
