//! A certificate for one run, and a client that trusts it; a real program reads them from files.

use std::error::Error;
use std::sync::Arc;

use quinn::rustls::{RootCertStore, pki_types::PrivateKeyDer};
use quinn::{ClientConfig, ServerConfig};
use rcgen::{CertificateParams, KeyPair};

pub(crate) fn for_server(name: &str) -> Result<(ClientConfig, ServerConfig), Box<dyn Error + Send + Sync>> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec![name.into()])?.self_signed(&key)?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone())?;
    let secret = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let server = ServerConfig::with_single_cert(vec![certificate.der().clone()], secret)?;
    Ok((ClientConfig::with_root_certificates(Arc::new(roots))?, server))
}
