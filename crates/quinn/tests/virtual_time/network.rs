//! Connections that share one slow link, in virtual time: minutes of transfer in seconds, the same for each seed.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::rustls::RootCertStore;
use quinn::rustls::crypto::ring;
use quinn::rustls::pki_types::PrivateKeyDer;
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig};
use quinn_proto::{ClientConfig, Dir, Event, ServerConfig, StreamId, TransportConfig, VarInt};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use softtimers_core::Timestamp;
use softtimers_quinn::gate::{Gate, GateConfig};
use softtimers_quinn::{EvenCubic, SmoothController};
use softtimers_wan::{Bottleneck, PathConfig, Queue, Wan, Way};

use crate::peer::{Lateness, Packet, Peer};

/// A slow link and its queue in one direction, and the round-trip time without a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) mbit: u64,
    pub(crate) packets: u32,
    pub(crate) millis: u64,
}

impl Link {
    pub(crate) const fn new(mbit: u64, packets: u32, millis: u64) -> Self {
        Link { mbit, packets, millis }
    }

    /// The bytes that the path holds without a queue.
    pub(crate) fn holds(self) -> f64 {
        (self.mbit * self.millis) as f64 * 125.0
    }

    pub(crate) fn data(self) -> PathConfig {
        self.acks()
            .bottleneck(Bottleneck::bits_per_second(self.mbit * 1_000_000).unwrap())
            .queue(Queue::packets(self.packets))
    }

    pub(crate) fn acks(self) -> PathConfig {
        PathConfig::default().delay(Duration::from_micros(self.millis * 500))
    }
}

/// The kind of sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// quinn's CUBIC, as it is.
    Stock,
    /// The even controller alone.
    Even,
    /// The even controller behind the gate.
    Both,
    /// quinn's BBR, as it is.
    Bbr,
    /// The same behind the gate.
    GateBbr,
}

impl Kind {
    fn transport(self) -> TransportConfig {
        let mut transport = TransportConfig::default();
        let factory: Arc<dyn ControllerFactory + Send + Sync> = match self {
            Kind::Stock => Arc::new(CubicConfig::default()),
            Kind::Even => Arc::new(EvenCubic::default()),
            Kind::Both => Arc::new(SmoothController::new(EvenCubic::default())),
            Kind::Bbr => Arc::new(BbrConfig::default()),
            Kind::GateBbr => Arc::new(SmoothController::new(BbrConfig::default())),
        };
        transport.congestion_controller_factory(factory);
        transport
            .stream_receive_window(VarInt::from_u32(16 << 20))
            .receive_window(VarInt::from_u32(16 << 20));
        transport.send_window(16 << 20);
        transport
    }

    fn gate(self) -> Option<Gate> {
        matches!(self, Kind::Both | Kind::GateBbr).then(|| Gate::new(GateConfig::default()))
    }
}

/// One connection: a client that downloads.
pub(crate) struct Flow {
    pub(crate) sender: Peer,
    pub(crate) receiver: Peer,
    starts: Timestamp,
    config: ClientConfig,
    stream: Option<StreamId>,
    /// The bytes that the sender's program still has to send.
    pub(crate) left: u64,
    total: u64,
    pub(crate) received: u64,
    pub(crate) finished: Option<Timestamp>,
    pub(crate) samples: Vec<Sample>,
}

/// A connection at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Timestamp,
    pub(crate) window: u64,
    pub(crate) received: u64,
}

/// Traffic that gives way to nobody.
pub(crate) struct Cross {
    pub(crate) next: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) gap: Duration,
    /// Packets at a time.
    pub(crate) lump: u32,
}

/// All connections and the path.
pub(crate) struct Network {
    pub(crate) wan: Wan<Packet>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) cross: Vec<Cross>,
    pub(crate) now: Timestamp,
    epoch: Instant,
    next_sample: Timestamp,
    seed: u64,
}

impl Network {
    pub(crate) fn new(link: Link, seed: u64) -> Self {
        Network::over(link.data(), link.acks(), seed)
    }

    pub(crate) fn over(data: PathConfig, acks: PathConfig, seed: u64) -> Self {
        let wan = Wan::builder().up(acks.overhead(HEADERS)).down(data.overhead(HEADERS)).seed(seed);
        #[expect(clippy::disallowed_methods, reason = "an Instant to count from; no later one is read")]
        let epoch = Instant::now();
        let (now, next_sample) = (Timestamp::ZERO, Timestamp::ZERO);
        let (flows, cross) = (vec![], vec![]);
        Network { wan: wan.build().unwrap(), flows, cross, now, epoch, next_sample, seed }
    }

    /// Opens a connection at this time, for `bytes` bytes.
    pub(crate) fn open(&mut self, kind: Kind, at: Duration, bytes: u64) {
        let flow = self.flows.len();
        let [near, far] = [1, 2].map(|last| SocketAddr::from((Ipv4Addr::new(10, 0, flow as u8, last), 443)));
        let (config, server) = configs(kind);
        let sender = Peer::new(flow, Way::Down, far, Some(server), kind.gate(), self.seed);
        let receiver = Peer::new(flow, Way::Up, near, None, None, self.seed);
        let starts = Timestamp::ZERO + at;
        self.flows.push(Flow {
            sender,
            receiver,
            starts,
            config,
            stream: None,
            left: bytes,
            total: bytes,
            received: 0,
            finished: None,
            samples: vec![],
        });
    }

    /// Both programs of all connections are so late.
    pub(crate) fn late(&mut self, sender: Lateness, receiver: Lateness) {
        for flow in &mut self.flows {
            flow.sender.set_lateness(sender);
            flow.receiver.set_lateness(receiver);
        }
    }

    /// Runs until all of it has come, for at most `most`.
    pub(crate) fn run_to_end(&mut self, most: Duration) {
        let until = self.now + most;
        while self.now < until && self.flows.iter().any(|flow| flow.finished.is_none()) {
            self.step(until);
        }
        assert!(self.now < until, "no end in sight");
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.step(until);
        }
    }

    /// The program of a flow has `bytes` bytes more.
    pub(crate) fn more(&mut self, flow: usize, bytes: u64) {
        let Flow { left, total, finished, sender, .. } = &mut self.flows[flow];
        (*left, *total, *finished) = (*left + bytes, *total + bytes, None);
        sender.wake(self.now);
    }

    /// Does everything that is due now, then moves on to the next time at which something happens.
    fn step(&mut self, until: Timestamp) {
        while let Some((way, delivery)) = self.wan.pop_due(self.now) {
            let packet = delivery.packet;
            let Some(flow) = self.flows.get_mut(packet.flow) else { continue };
            let peer = if way == Way::Up { &mut flow.sender } else { &mut flow.receiver };
            peer.receive(self.now, packet);
        }
        self.cross_traffic();
        if self.now >= self.next_sample {
            self.next_sample = self.now + SAMPLE;
            let now = self.now;
            self.flows.iter_mut().for_each(|flow| flow.sample(now));
        }
        let mut next = until.min(self.next_sample);
        for flow in &mut self.flows {
            flow.drive(self.now, self.epoch, &mut self.wan);
            next = flow.next(self.epoch).into_iter().chain([next]).min().unwrap_or(next);
        }
        next = self
            .wan
            .poll_at()
            .into_iter()
            .chain(self.cross.iter().map(|cross| cross.next))
            .fold(next, Timestamp::min);
        self.now = next.max(self.now);
    }

    fn cross_traffic(&mut self) {
        let Network { cross, wan, now, .. } = self;
        cross.retain(|cross| cross.next < cross.until);
        for cross in cross {
            while cross.next <= *now {
                for _ in 0..cross.lump {
                    let from = SocketAddr::from(([10, 9, 9, 9], 9));
                    let packet = Packet { flow: usize::MAX, from, bytes: vec![], ecn: None };
                    let _ = wan.offer(*now, Way::Down, 1_200, packet);
                }
                cross.next += cross.gap;
            }
        }
    }

    /// The rate at which each connection received between two times, in Mbit/s.
    pub(crate) fn rates(&self, from: Duration, to: Duration) -> Vec<f64> {
        let at = |flow: &Flow, time: Duration| flow.at(Timestamp::ZERO + time).received as f64;
        let rate = |flow: &Flow| (at(flow, to) - at(flow, from)) * 8e-6 / (to - from).as_secs_f64();
        self.flows.iter().map(rate).collect()
    }
}

impl Flow {
    fn next(&mut self, epoch: Instant) -> Option<Timestamp> {
        if self.receiver.connection.is_none() {
            return Some(self.starts);
        }
        [self.sender.next(epoch), self.receiver.next(epoch)].into_iter().flatten().min()
    }

    fn drive(&mut self, now: Timestamp, epoch: Instant, wan: &mut Wan<Packet>) {
        let instant = epoch + now.saturating_duration_since(Timestamp::ZERO);
        if self.receiver.connection.is_none() {
            if now < self.starts {
                return;
            }
            let to = self.sender.address;
            let connected = self.receiver.endpoint.connect(instant, self.config.clone(), to, "server");
            self.receiver.connection = Some(connected.unwrap());
            self.receiver.wake(now);
        }
        if self.sender.next(epoch).is_some_and(|at| at <= now) {
            self.sender.run(now, instant);
            self.serve();
            self.sender.drive(now, instant, wan);
        }
        if self.receiver.next(epoch).is_some_and(|at| at <= now) {
            self.receiver.run(now, instant);
            self.read(now);
            self.receiver.drive(now, instant, wan);
        }
    }

    /// The sender's program.
    fn serve(&mut self) {
        let Some(connection) = self.sender.connection() else { return };
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected => self.stream = connection.streams().open(Dir::Uni),
                Event::ConnectionLost { reason } => panic!("{reason}"),
                _ => {}
            }
        }
        let Some(stream) = self.stream else { return };
        const CHUNK: [u8; 16_384] = [0x55; 16_384];
        while self.left > 0 {
            let most = (CHUNK.len() as u64).min(self.left) as usize;
            let Ok(written) = connection.send_stream(stream).write(&CHUNK[..most]) else { break };
            self.left -= written as u64;
        }
    }

    /// The receiver's program.
    fn read(&mut self, now: Timestamp) {
        let Some(connection) = self.receiver.connection() else { return };
        while let Some(event) = connection.poll() {
            if let Event::ConnectionLost { reason } = event {
                panic!("{reason}");
            }
        }
        let Some(stream) = self.stream else { return };
        let mut stream = connection.recv_stream(stream);
        let Ok(mut chunks) = stream.read(true) else { return };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            self.received += chunk.bytes.len() as u64;
        }
        let _ = chunks.finalize();
        if self.received == self.total {
            self.finished = self.finished.or(Some(now));
        }
    }

    fn sample(&mut self, at: Timestamp) {
        let window = self.sender.connection().map_or(0, |connection| connection.congestion_state().window());
        self.samples.push(Sample { at, window, received: self.received });
    }

    fn at(&self, time: Timestamp) -> Sample {
        let next = self.samples.partition_point(|sample| sample.at < time);
        self.samples[next.min(self.samples.len() - 1)]
    }

    /// Packets dropped, in percent.
    pub(crate) fn drops(&self) -> f64 {
        100.0 * self.sender.dropped as f64 / self.sender.offered as f64
    }
}

/// Certificates of one length: by Ed25519, and with a serial number that is not random, of which one in 128 is a byte shorter.
fn configs(kind: Kind) -> (ClientConfig, ServerConfig) {
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let mut params = CertificateParams::new(vec!["server".into()]).unwrap();
    params.serial_number = Some(vec![1; 16].into());
    let certificate = params.self_signed(&key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let _ = ring::default_provider().install_default();
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    let secret = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let mut server = ServerConfig::with_single_cert(vec![certificate.der().clone()], secret).unwrap();
    let transport = Arc::new(kind.transport());
    client.transport_config(Arc::clone(&transport));
    server.transport_config(transport);
    (client, server)
}

/// IPv4 and UDP.
const HEADERS: u32 = 28;
const SAMPLE: Duration = Duration::from_millis(5);
