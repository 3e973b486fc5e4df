//! `raw`: the CPU cost of sending a datagram of 200 bytes into a virtual cable, by the UDP socket and as a frame. First
//! `send
//! --driver packet` next to `send`, both as fast as they can; then the calls alone, including AF_XDP's.
//!
//! ```text
//!   middle: out ═══ s0 :far     a socket there is read every 2 ms, on CPU 1: no datagram has to wake it
//!   CPU 0
//! ```
//!
//! With a virtual cable, the far kernel receives the packet within the sender's call. That part is the same for all.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, ensure};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use softtimers_measure::processor::Processor;
use softtimers_net::packet::{FrameSender, Interface, complete_ipv4_checksum};
use softtimers_net::poller::{Device, Transmit, XdpConfig, XdpDevice};
use softtimers_net::udp::SendBatch;
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::Paired;
use softtimers_trials::result::Table;

use super::core::{FAR, FAR_STATION};
use super::hosts::{Hosts, ip, station};
use super::trial::Rig;
use crate::bench::Done;
use crate::figures;
use softtimers_trials::command::start;
use softtimers_trials::cpu;
use softtimers_trials::turns::nap;

const SOCKET: &str = "socket";
const PACKET: &str = "packet";
const COST: &str = "CPU ns a datagram";
const RATE: &str = "kpps";
const FRAMES: &str = "as frames %";

pub(super) fn raw(rig: &Rig) -> Done<Vec<Table>> {
    address(&rig.hosts)?;
    let over = AtomicBool::new(false);
    let tables = thread::scope(|scope| {
        let (ready, listens) = mpsc::channel();
        let receiver = scope.spawn(|| receive(&rig.hosts, &over, ready));
        let tables = listens.recv().context("the receiver").and_then(|()| {
            let calls = || scope.spawn(|| calls(rig)).join().expect("the calls");
            Ok(vec![drivers(rig)?, calls()?])
        });
        over.store(true, Ordering::Relaxed);
        receiver.join().expect("the receiver")?;
        tables
    });
    for (host, end) in [("middle", "out"), ("far", "s0")] {
        ip(&["-n", &rig.hosts.host(host), "address", "flush", "dev", end])?;
    }
    Ok(tables?)
}

/// Sets up addresses at both ends of the cable, and static neighbours.
fn address(hosts: &Hosts) -> Result<()> {
    let on = |host: &str, words: &str| {
        let host = hosts.host(host);
        ip(&["-n", &host].into_iter().chain(words.split(' ')).collect::<Vec<_>>())
    };
    on("far", &format!("link set s0 address {FAR_STATION}"))?;
    on("far", &format!("address replace {FAR}/24 dev s0"))?;
    on("middle", &format!("address replace {NEAR}/24 dev out"))?;
    on("middle", &format!("neighbour replace {FAR} lladdr {FAR_STATION} dev out nud permanent"))?;
    on("far", &format!("neighbour replace {NEAR} lladdr {} dev s0 nud permanent", station("out")))
}

/// Receives at the far host.
fn receive(hosts: &Hosts, over: &AtomicBool, ready: mpsc::Sender<()>) -> Result<()> {
    enter(hosts, "far")?;
    let sink = UdpSocket::bind((FAR, PORT))?;
    sink.set_nonblocking(true)?;
    set_socket_recv_buffer_size_force(&sink, ROOM)?;
    ready.send(())?;
    drop(ready);
    nap(&sink, over);
    Ok(())
}

/// Moves this thread to a host.
fn enter(hosts: &Hosts, host: &str) -> Result<()> {
    let namespace = File::open(format!("/run/netns/{}", hosts.host(host)))?;
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Measures `send` by both drivers, at a rate that neither reaches, with one call per datagram.
fn drivers(rig: &Rig) -> Result<Table> {
    let count = rig.of(200_000, 20_000);
    let measured = Paired::new(rig.rounds(25)).beside_others().contest(
        &[()],
        &mut [SOCKET, PACKET],
        |(), &mut driver, round| {
            let words = rig.softtimers(&format!(
                "send {FAR}:{PORT} --driver {driver} --no-handshake --rate 2Mpps --catch-up none --timer loop --size {SIZE} \
                 --count {count} --cpu 0 --json"
            ));
            let words: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
            let sent = start(&mut rig.hosts.command("middle", &words))?.object()?;
            round.put(driver, COST, figures::at(&sent, "cpu_ns_per_packet"));
            round.put(driver, RATE, figures::at(&sent, "achieved_pps").map(|pps| pps / 1e3));
            let frames = figures::at(&sent, "frames.sent").unwrap_or(0.0);
            round.put(driver, FRAMES, 100.0 * frames / f64::from(count));
            anyhow::Ok(())
        },
    )?;
    let mut table = Table::of("raw", &measured, [SOCKET, PACKET], &[(COST, 0), (RATE, 0), (FRAMES, 2)]);
    table.against("of the socket's", &measured, COST, SOCKET);
    let ratio = measured.ratio(COST, PACKET, SOCKET);
    table.bar(Bar::at_most(
        "a datagram by send --driver packet on veth, CPU against the socket's",
        0.75,
        ratio,
    ));
    table.note(format!("{SIZE} bytes, {count} datagrams a run, each by a call of its own"));
    Ok(table)
}

/// Hands over N datagrams at once.
type Way = Box<dyn FnMut(usize) -> io::Result<()>>;

/// Measures the calls alone, in turns of some milliseconds.
fn calls(rig: &Rig) -> Result<Table> {
    enter(&rig.hosts, "middle")?;
    let _kept = Processor::new(0)?.keep()?;
    let (mut ways, missing) = ways()?;
    let measured = Paired::new(rig.rounds(200)).beside_others().as_a_whole().contest(
        &[()],
        &mut ways,
        |(), (name, at_a_time, way), round| {
            let before = cpu::of_thread();
            for _ in 0..TURN / *at_a_time {
                way(*at_a_time)?;
            }
            round.put(name, COST, (cpu::of_thread() - before).as_nanos() as f64 / TURN as f64);
            io::Result::Ok(())
        },
    )?;
    let names = ways.iter().map(|(name, ..)| *name);
    let mut table = Table::of("raw-calls", &measured, names, &[(COST, 0)]);
    table.against("of send's", &measured, COST, SEND);
    table.against("of a frame's", &measured, COST, FRAME);
    if missing.is_none() {
        let ratio = measured.ratio(COST, XDP, FRAME);
        table.bar(Bar::at_most(
            "AF_XDP, a frame a kick: CPU against AF_PACKET's, to be worth it",
            0.9,
            ratio,
        ));
    }
    missing.into_iter().for_each(|why| table.note(why));
    Ok(table)
}

/// A name, the number of datagrams at a time, and the way to hand them over.
type Named = (&'static str, usize, Way);

/// Returns all ways, and why there is no AF_XDP, if so.
fn ways() -> Result<(Vec<Named>, Option<String>)> {
    let (out, frame) = (Interface::named("out")?, frame()?);
    let connected = || -> io::Result<softtimers_net::udp::UdpSocket> {
        let socket = softtimers_net::udp::UdpSocket::bind("0.0.0.0:0")?;
        socket.connect((FAR, PORT))?;
        Ok(socket)
    };
    let (one, many, payload) = (connected()?, connected()?, vec![1; SIZE]);
    let (one_frame, many_frames) = (FrameSender::on(&out)?, FrameSender::on(&out)?);
    let (datagram, own) = (payload.clone(), frame.clone());
    let mut ways: Vec<Named> = vec![
        (SEND, 1, Box::new(move |_| one.send(&datagram).map(drop))),
        (FRAME, 1, Box::new(move |_| one_frame.send(&own))),
        ("sendmmsg of 8", 8, batched(payload, move |batch| many.send_batch(batch).sent)),
        ("AF_PACKET, 8 a call", 8, batched(frame.clone(), move |batch| many_frames.send_batch(batch).sent)),
    ];
    let device = match XdpDevice::on(&out, XdpConfig::default()) {
        Ok(device) => Rc::new(RefCell::new(device)),
        Err(why) => return Ok((ways, Some(format!("no AF_XDP: {why}")))),
    };
    for (name, at_a_time) in [(XDP, 1), ("AF_XDP, 8 a kick", 8)] {
        let (device, frame) = (Rc::clone(&device), frame.clone());
        ways.push((name, at_a_time, Box::new(move |count| kicked(&mut device.borrow_mut(), &frame, count))));
    }
    Ok((ways, None))
}

/// Sends N copies in one batch.
fn batched(bytes: Vec<u8>, mut send: impl FnMut(&mut SendBatch) -> usize + 'static) -> Way {
    let mut batch = SendBatch::new(64, bytes.len());
    Box::new(move |count| {
        for _ in 0..count {
            batch.push(&bytes, None).map_err(io::Error::other)?;
        }
        if send(&mut batch) == count { Ok(()) } else { Err(io::Error::other("not all of a batch left")) }
    })
}

/// Puts `count` frames into the ring, and makes one call.
fn kicked(device: &mut XdpDevice, frame: &[u8], count: usize) -> io::Result<()> {
    for _ in 0..count {
        if !device.transmitter().queue(frame, None) {
            return Err(io::Error::other("no room in the ring"));
        }
    }
    let done = device.poll_tx(count)?.done;
    if done == count { Ok(()) } else { Err(io::Error::other(format!("{done} of {count} frames left"))) }
}

/// Returns a datagram to the far socket as a frame; over IPv4 its checksum may be left out.
fn frame() -> Result<Vec<u8>> {
    let mac = |text: &str| -> Result<Vec<u8>> {
        text.split(':').map(|byte| Ok(u8::from_str_radix(byte, 16)?)).collect()
    };
    let address = |text: &str| -> Result<[u8; 4]> { Ok(text.parse::<std::net::Ipv4Addr>()?.octets()) };
    let mut frame = [mac(FAR_STATION)?, mac(&station("out"))?, vec![0x08, 0x00]].concat();
    let [high, low] = (28 + SIZE as u16).to_be_bytes();
    frame.extend([0x45, 0, high, low, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend([address(NEAR)?, address(FAR)?].concat());
    complete_ipv4_checksum(&mut frame[14..]);
    let [ports, length] = [[9, PORT], [8 + SIZE as u16, 0]];
    frame.extend([ports, length].concat().into_iter().flat_map(u16::to_be_bytes));
    frame.extend(vec![1; SIZE]);
    ensure!(frame.len() == 42 + SIZE, "a frame of {} bytes", frame.len());
    Ok(frame)
}

const SEND: &str = "send";
const FRAME: &str = "AF_PACKET";
const XDP: &str = "AF_XDP, 1 a kick";
/// The router's address on the cable.
const NEAR: &str = "198.18.2.1";
const PORT: u16 = 9_000;
/// Bytes of a datagram.
const SIZE: usize = 200;
/// Datagrams of a turn: some 4 ms.
const TURN: usize = 1_024;
/// Many times the datagrams of 2 ms.
const ROOM: usize = 8 << 20;
