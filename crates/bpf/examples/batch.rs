//! Batches that an XDP program hands on after 100 µs at the latest, by soft events and by a `bpf_timer` each: `c/batch.bpf.c`,
//! on the loopback of a network of its own. `cargo run -p softtimers-bpf --example batch`, as root.

use std::error::Error;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use aya::maps::Array;
use aya::programs::xdp::XdpMode;
use aya::programs::{BtfTracePoint, Xdp};
use aya::{Btf, EbpfLoader};

const OBJECT: &[u8] = aya::include_bytes_aligned!("../object/batch.bpf.o");
/// `struct batch`, in words.
const BATCH: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("--inside") {
        return compare();
    }
    // XDP on everybody's loopback is not for an example.
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
    for (name, polled, slack) in [("st_poll", 1, 1_000_000), ("bpf_timer", 0, 0)] {
        let [packets, batches, by_time, wait_max, interrupts] = collected(polled, slack)?;
        println!("{name:9} {packets:8} {batches:9} {by_time:9} {interrupts:12} {:11} us", wait_max / 1_000);
    }
    Ok(())
}

/// Sends for a second, and returns what was handed on.
fn collected(polled: u32, slack: u64) -> Result<[u64; 5], Box<dyn Error>> {
    let types = Btf::from_sys_fs()?;
    let mut bpf = EbpfLoader::new()
        .override_global("polled", &polled, true)
        .override_global("slack", &slack, true)
        .load(OBJECT)?;
    let init: &mut BtfTracePoint = bpf.program_mut("st_init_cpu").ok_or("no st_init_cpu")?.try_into()?;
    init.load("sys_enter", &types)?;
    init.attach()?;
    let collect: &mut Xdp = bpf.program_mut("collect").ok_or("no collect")?.try_into()?;
    collect.load()?;
    collect.attach("lo", XdpMode::Skb)?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(socket.local_addr()?)?;
    let mut buffer = [0; 64];
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
        socket.recv(&mut buffer)?;
        spin(Duration::from_micros(20));
    }
    // The last batch has nothing but the backup.
    spin(Duration::from_millis(5));
    let batches: Array<_, [u64; BATCH]> = Array::try_from(bpf.map("batches").ok_or("no batches")?)?;
    let mut all = [0; 5];
    for cpu in 0..aya::util::nr_cpus().map_err(|(_, error)| error)? as u32 {
        let [_, _, packets, count, by_time, wait_max, interrupts, _] = batches.get(&cpu, 0)?;
        all = [all[0] + packets, all[1] + count, all[2] + by_time, all[3].max(wait_max), all[4] + interrupts];
    }
    Ok(all)
}
