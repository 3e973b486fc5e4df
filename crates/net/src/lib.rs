//! Networking for [`softtimers`]: batched datagrams, receivers that are stable under overload, and an
//! interface's frames.
//!
//! | module | purpose |
//! |---|---|
//! | [`udp`] | many datagrams per system call, with receive times and drops; [`udp::UdpSocket`] |
//! | [`poller`] | devices polled in turn, by quota and policy, so that a flood does not stop the program |
//! | [`packet`] | raw frames (AF_PACKET); feature `packet` |
//! | [`poller::XdpDevice`] | rings shared with the kernel (AF_XDP); feature `xdp` |
//! | [`napi`] | receive queues of interfaces that the program polls, instead of interrupts |
//! | [`relay`] | the clients of a UDP relay, and limits on answers to each |
//! | [`kernel`] | which kernel features really work, by using them |
//!
//! ```
//! use softtimers_net::udp::UdpSocket;
//! use softtimers_net::udp::SendBatch;
//!
//! let receiver = UdpSocket::bind("127.0.0.1:0")?;
//! let sender = UdpSocket::bind("127.0.0.1:0")?;
//! sender.connect(receiver.local_addr()?)?;
//! let mut batch = SendBatch::new(16, 1_200);
//! batch.push(b"one", None)?;
//! batch.push(b"two", None)?;
//! assert_eq!(sender.send_batch(&mut batch).sent, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The timers, and the loops that wait for sockets and timers at once, are in [`softtimers`]. It needs Linux.
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

#[cfg(not(target_os = "linux"))]
compile_error!("softtimers-net needs Linux; softtimers and softtimers-core build elsewhere, too");

pub mod kernel;
pub mod napi;
#[cfg(feature = "packet")]
pub mod packet;
pub mod poller;
pub mod relay;
#[cfg_attr(not(feature = "xdp"), allow(dead_code, reason = "some features ask what others do not"))]
mod rtnetlink;
#[cfg(test)]
mod skipped;
mod trying;
pub mod udp;

/// The programs of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
