//! Connections to the API server: direct ones, or through a proxy by `CONNECT`.

use std::fmt::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower::{BoxError, Service};

use crate::proxy::port;

/// How long a proxy may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the head of its answer may be.
const HEAD: usize = 8192;

/// Why a proxy gave no connection.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The proxy refused.
    #[error("the proxy {proxy} answers {answer:?} to CONNECT {target}")]
    Refused {
        /// Host and port of the proxy.
        proxy: String,
        /// Host and port of the API server.
        target: String,
        /// The first line of the answer.
        answer: String,
    },
    /// The proxy did not answer in time, or closed the connection.
    #[error("the proxy {0} gives no answer")]
    Silent(String),
}

/// Connects directly, or through a proxy.
#[derive(Clone, Debug)]
pub(crate) struct Tunnel {
    direct: HttpConnector,
    proxy: Option<Uri>,
}

impl Tunnel {
    pub(crate) fn new(direct: HttpConnector, proxy: Option<Uri>) -> Tunnel {
        Tunnel { direct, proxy }
    }
}

impl Service<Uri> for Tunnel {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.direct.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let Some(proxy) = self.proxy.clone() else {
            let connecting = self.direct.call(address);
            return Box::pin(async { Ok(connecting.await?) });
        };
        let connecting = self.direct.call(proxy.clone());
        Box::pin(async move {
            let mut stream = connecting.await?;
            let silent = || Error::Silent(target(&proxy));
            let opened = tokio::time::timeout(PATIENCE, open(stream.inner_mut(), &proxy, &address));
            opened.await.map_err(|_| silent())??;
            Ok(stream)
        })
    }
}

/// Asks the proxy for a connection to the address.
async fn open(stream: &mut TcpStream, proxy: &Uri, address: &Uri) -> Result<(), BoxError> {
    let (proxy_host, target) = (target(proxy), target(address));
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if let Some(account) = account(proxy) {
        let account = BASE64_STANDARD.encode(account);
        write!(request, "Proxy-Authorization: Basic {account}\r\n")?;
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;

    let mut head = Vec::new();
    // Byte by byte: the bytes after the head belong to the API server.
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD {
        head.push(stream.read_u8().await.map_err(|_| Error::Silent(proxy_host.clone()))?);
    }
    let head = String::from_utf8_lossy(&head);
    let answer = head.lines().next().unwrap_or_default().to_owned();
    let code = answer.split(' ').nth(1).filter(|_| answer.starts_with("HTTP/1."));
    if code.is_some_and(|code| code.len() == 3 && code.starts_with('2')) {
        return Ok(());
    }
    Err(Error::Refused { proxy: proxy_host, target, answer }.into())
}

/// Host and port.
fn target(address: &Uri) -> String {
    format!("{}:{}", address.host().unwrap_or_default(), port(address))
}

/// Name and password in the proxy's URL, decoded. A name alone has an empty password.
fn account(proxy: &Uri) -> Option<Vec<u8>> {
    let (account, _) = proxy.authority()?.as_str().rsplit_once('@')?;
    let hex = |text: &[u8]| u8::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok();
    let mut decoded = Vec::new();
    let account = if account.contains(':') { account.to_owned() } else { format!("{account}:") };
    let mut rest = account.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let escaped = others.get(..2).filter(|_| *first == b'%').and_then(hex);
        decoded.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &others[2..] } else { others };
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// A proxy that answers so; returns the head that it got.
    async fn serve(listener: &TcpListener, answer: &[u8]) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer).await.unwrap();
        String::from_utf8(head).unwrap()
    }

    async fn connect(account: &str, answer: &[u8]) -> (Result<String, String>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://{account}127.0.0.1:{}", listener.local_addr().unwrap().port());
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        let mut tunnel = Tunnel::new(connector, Some(proxy.parse().unwrap()));
        let client = async {
            let mut stream =
                tunnel.call("https://10.96.0.1".parse().unwrap()).await.map_err(|e| e.to_string())?;
            let mut text = String::new();
            stream.inner_mut().read_to_string(&mut text).await.unwrap();
            Ok(text)
        };
        tokio::join!(client, serve(&listener, answer))
    }

    #[tokio::test]
    async fn a_connection_goes_through_the_proxy_with_its_account() {
        let (text, head) = connect("me:p%40ss@", b"HTTP/1.1 200 Connected\r\nVia: x\r\n\r\nhello").await;
        assert_eq!(text.unwrap(), "hello", "no byte of the API server is lost");
        assert!(head.starts_with("CONNECT 10.96.0.1:443 HTTP/1.1\r\nHost: 10.96.0.1:443\r\n"), "{head}");
        assert!(head.contains("Proxy-Authorization: Basic bWU6cEBzcw==\r\n"), "{head}");
        let (_, head) = connect("me@", b"HTTP/1.1 200 OK\r\n\r\n").await;
        assert!(head.contains("Proxy-Authorization: Basic bWU6\r\n"), "{head}");
        let (_, head) = connect("", b"HTTP/1.0 200 OK\r\n\r\n").await;
        assert!(!head.contains("Proxy-Authorization"), "{head}");
    }

    #[tokio::test]
    async fn a_proxy_that_refuses_is_named_with_its_answer() {
        let (refused, _) = connect("me:secret@", b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
        let refused = refused.unwrap_err();
        assert!(refused.starts_with("the proxy 127.0.0.1:"), "{refused}");
        assert!(
            refused
                .ends_with("answers \"HTTP/1.1 407 Proxy Authentication Required\" to CONNECT 10.96.0.1:443")
        );
        assert!(!refused.contains("secret"), "{refused}");
        let (silent, _) = connect("", b"").await;
        assert!(silent.unwrap_err().ends_with("gives no answer"));
    }
}
