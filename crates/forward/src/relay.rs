//! The relay of datagrams: what an [`Engine`] needs to be one. Two [sides](side), of the clients and of the upstream, and a
//! [`Screen`] between.

mod screen;
mod side;
mod table;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use softtimers_net::relay::{RelayConfig, prepare};
use softtimers_net::udp::UdpSocket;

use crate::engine::{Basis, Engine};
use crate::plan::{Controls, Plan};
pub(crate) use screen::Screen;
use side::Side;
use table::Table;

/// Ready to relay what clients send to this socket.
///
/// # Errors
/// The system's error.
pub(crate) fn engine(
    plan: &Plan,
    controls: Controls,
    socket: UdpSocket,
    config: RelayConfig,
) -> io::Result<Engine<Screen>> {
    let mut basis = Basis::first(plan, controls)?;
    let (local, upstream) = (socket.local_addr()?, config.upstream);
    prepare(&socket, &config)?;
    let table = Rc::new(RefCell::new(Table::new(config)?));
    let clients = Side::clients(socket, basis.until.clone())?;
    // Answers are not counted.
    let sides = [clients, Side::upstream(&table, basis.until.uncounted())?];
    let screen = Screen::new(table, basis.filter.take(), local, upstream);
    Engine::new(plan, basis, screen, sides)
}
