//! An XDP program collects packets into batches and flushes them when full or after 100 µs, by soft events or
//! by a `bpf_timer` each: `c/batch.bpf.c`, on the loopback of a new network namespace. `cargo run -p
//! softtimers-bpf --example batch`, as root.

use std::error::Error;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use softtimers_bpf::{BatchTotals, Batches, FlushedBy};

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("--inside") {
        return compare();
    }
    // An example should not attach XDP to the host's loopback.
    let inside = ["--net", "sh", "-c", "ip link set lo up && exec \"$0\" --inside"];
    let itself = std::env::current_exe()?;
    match Command::new("unshare").args(inside).arg(itself).stderr(Stdio::piped()).output() {
        Ok(output) if output.status.success() => print!("{}", String::from_utf8_lossy(&output.stdout)),
        Ok(output) => println!("not possible here: {}", String::from_utf8_lossy(&output.stderr).trim()),
        Err(why) => println!("not possible here: unshare: {why}"),
    }
    Ok(())
}

fn compare() -> Result<(), Box<dyn Error>> {
    println!("by         packets   batches   by time   interrupts   longest wait");
    for (name, by) in [("st_poll", FlushedBy::SoftEvent), ("bpf_timer", FlushedBy::Timer)] {
        let BatchTotals { packets, batches, by_time, longest_ns, interrupts, .. } = collected(by)?;
        println!("{name:9} {packets:8} {batches:9} {by_time:9} {interrupts:12} {:11} us", longest_ns / 1_000);
    }
    Ok(())
}

/// Sends for a second, and returns the totals.
fn collected(by: FlushedBy) -> Result<BatchTotals, Box<dyn Error>> {
    let batches = Batches::collect("lo", by)?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(socket.local_addr()?)?;
    let spin = |time: Duration| {
        #[expect(clippy::disallowed_methods, reason = "the program under test has the kernel's clock")]
        let now = Instant::now;
        let begun = now();
        while begun.elapsed() < time {
            std::hint::spin_loop();
        }
    };
    for _ in 0..20_000 {
        socket.send(&[0; 32])?;
        socket.recv(&mut [0; 64])?;
        spin(Duration::from_micros(20));
    }
    // Only the backup flushes the last batch.
    spin(Duration::from_millis(5));
    Ok(batches.totals()?)
}
