//! The subject: a file server over HTTP/3. One line selects the pacer.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use h3::server::{Connection, RequestResolver};
use http::{Response, StatusCode};
use quinn::{Endpoint, Incoming, ServerConfig, TransportConfig};

/// The end of a task.
pub(crate) type Ended = Result<(), Box<dyn Error + Send + Sync>>;

/// The pacer, and its congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    Quinn,
    Softtimers,
}

impl By {
    pub(crate) const ALL: [By; 2] = [By::Quinn, By::Softtimers];

    pub(crate) fn name(self) -> &'static str {
        if self == By::Quinn { "quinn" } else { "softtimers-quinn" }
    }

    /// Listens, within a tokio runtime.
    pub(crate) fn listen(self, mut config: ServerConfig, address: SocketAddr) -> io::Result<Endpoint> {
        let transport = TransportConfig::default();
        match self {
            By::Quinn => {
                config.transport_config(Arc::new(transport));
                Endpoint::server(config, address)
            }
            By::Softtimers => softtimers_quinn::server_with_transport(config, transport, address),
        }
    }
}

/// Serves the files of a folder to all clients.
pub(crate) async fn serve(endpoint: Endpoint, folder: Arc<Path>) {
    while let Some(incoming) = endpoint.accept().await {
        let folder = folder.clone();
        tokio::spawn(async move {
            if let Err(error) = connection(incoming, folder).await {
                eprintln!("a connection ended: {error}");
            }
        });
    }
}

async fn connection(incoming: Incoming, folder: Arc<Path>) -> Ended {
    let mut connection = Connection::<_, Bytes>::new(h3_quinn::Connection::new(incoming.await?)).await?;
    // A client that has finished closes the connection, which is an error to h3.
    while let Ok(Some(request)) = connection.accept().await {
        tokio::spawn(answer(request, folder.clone()));
    }
    Ok(())
}

async fn answer(request: RequestResolver<h3_quinn::Connection, Bytes>, folder: Arc<Path>) -> Ended {
    let (request, mut stream) = request.resolve_request().await?;
    let file = within(&folder, request.uri().path()).and_then(|path| File::open(path).ok());
    let status = if file.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    stream.send_response(Response::builder().status(status).body(())?).await?;
    if let Some(mut file) = file {
        let mut chunk = vec![0; 64 << 10];
        loop {
            let length = file.read(&mut chunk)?;
            if length == 0 {
                break;
            }
            stream.send_data(Bytes::copy_from_slice(&chunk[..length])).await?;
        }
    }
    Ok(stream.finish().await?)
}

/// Returns the path of the requested file, unless it is outside of the folder.
fn within(folder: &Path, asked: &str) -> Option<PathBuf> {
    let path = Path::new(asked.trim_start_matches('/'));
    let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    inside.then(|| folder.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_folder_are_served() {
        let folder = Path::new("/files");
        assert_eq!(within(folder, "/a/b"), Some("/files/a/b".into()));
        for asked in ["/../passwd", "//etc/../../passwd", "/a/../../b"] {
            assert_eq!(within(folder, asked), None, "{asked}");
        }
    }
}
