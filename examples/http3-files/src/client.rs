//! h3's client on unchanged quinn, and the certificate that it trusts.

use std::error::Error;
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use example_harness::trial::Done;
use http::{Request, StatusCode};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::rustls::crypto::ring;
use quinn::rustls::pki_types::PrivateKeyDer;
use quinn::rustls::{self, RootCertStore};
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt};
use rcgen::{CertificateParams, KeyPair};
use softtimers::{Clock, Monotonic};
use softtimers_net::udp::UdpSocket;

/// The receive buffer: with less, some packets would be lost there.
pub(crate) const ROOM: usize = 16 << 20;
const HTTP_3: &[u8] = b"h3";
const NAME: &str = "server";

/// Returns both ends' configurations, with a certificate for this run.
pub(crate) fn configs() -> Done<(ClientConfig, ServerConfig)> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec![NAME.into()])?.self_signed(&key)?.der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let provider = Arc::new(ring::default_provider());
    let versions = [&rustls::version::TLS13];
    let mut server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivateKeyDer::Pkcs8(key.serialize_der().into()))?;
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    server.alpn_protocols = vec![HTTP_3.to_vec()];
    client.alpn_protocols = vec![HTTP_3.to_vec()];
    let mut transport = TransportConfig::default();
    let window = VarInt::from_u32(ROOM as u32);
    transport.stream_receive_window(window).receive_window(window);
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(client)?));
    client.transport_config(Arc::new(transport));
    Ok((client, ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(server)?))))
}

/// Downloads a file; returns it, and the time from the request to its last byte.
pub(crate) async fn download(
    server: SocketAddr,
    config: ClientConfig,
    file: &str,
) -> Result<(Vec<u8>, Duration), Box<dyn Error + Send + Sync>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.request_recv_buffer(ROOM)?;
    let mut endpoint = Endpoint::new(EndpointConfig::default(), None, socket.into(), Arc::new(TokioRuntime))?;
    endpoint.set_default_client_config(config);
    let connection = endpoint.connect(server, NAME)?.await?;
    let (mut driver, mut requests) = h3::client::new(h3_quinn::Connection::new(connection)).await?;
    let driver = tokio::spawn(async move { poll_fn(|context| driver.poll_close(context)).await });
    let asked = Monotonic.now();
    let request = Request::get(format!("https://{NAME}/{file}")).body(())?;
    let mut answer = requests.send_request(request).await?;
    answer.finish().await?;
    let response = answer.recv_response().await?;
    if response.status() != StatusCode::OK {
        return Err(format!("the server says {}", response.status()).into());
    }
    let mut bytes = vec![];
    while let Some(chunk) = answer.recv_data().await? {
        let mut chunk = chunk;
        while chunk.has_remaining() {
            let part = chunk.chunk();
            bytes.extend_from_slice(part);
            let length = part.len();
            chunk.advance(length);
        }
    }
    let took = Monotonic.now().saturating_duration_since(asked);
    drop((answer, requests));
    endpoint.close(0u32.into(), b"");
    let _ = tokio::time::timeout(Duration::from_millis(300), driver).await;
    Ok((bytes, took))
}
