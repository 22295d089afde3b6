//! Serves HTTP/1 on a port: a bounded number of connections, each with time-outs.
//!
//! A client that sends slowly, or nothing, loses its connection. A client that opens many loses its own.

use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::debug;

/// Connections that may be open at once.
const CONNECTIONS: usize = 64;
/// How long the head of a request may take, and how long a connection may be idle.
const HEAD: Duration = Duration::from_secs(10);
/// How long a connection may last. Clients connect again.
const LIFE: Duration = Duration::from_secs(300);
/// The bytes that the head of a request may have.
const HEAD_BYTES: usize = 16 * 1024;
/// The pause after a connection could not be accepted, mostly for lack of file descriptors.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves on `listener` as long as it is polled. When it is dropped, all connections are closed.
pub async fn serve(listener: TcpListener, router: Router) -> Infallible {
    let mut open = Open::default();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => open.add(peer.ip(), converse(stream, router.clone())),
            Err(error) => {
                debug!(%error, "a connection was not accepted");
                sleep(PAUSE).await;
            }
        }
    }
}

/// The open connections.
#[derive(Default)]
struct Open {
    tasks: JoinSet<()>,
    /// The oldest first.
    connections: Vec<(IpAddr, AbortHandle)>,
}

impl Open {
    /// Serves a connection. If there are too many, the oldest one of the peer that has most is closed: no
    /// peer keeps another one out.
    fn add(&mut self, peer: IpAddr, connection: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        self.connections.retain(|(_, task)| !task.is_finished());
        self.connections.push((peer, self.tasks.spawn(connection)));
        if self.connections.len() > CONNECTIONS {
            let of = |peer: IpAddr| self.connections.iter().filter(|(other, _)| *other == peer).count();
            let most = self.connections.iter().map(|(peer, _)| of(*peer)).max();
            let oldest = self.connections.iter().position(|(peer, _)| Some(of(*peer)) == most);
            if let Some(oldest) = oldest {
                self.connections.remove(oldest).1.abort();
            }
        }
    }
}

async fn converse(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    tokio::select! {
        biased;
        // A client that goes away, or is too slow, is no error of the controller.
        _ = connection.as_mut() => return,
        () = sleep(LIFE) => connection.as_mut().graceful_shutdown(),
    }
    let _ = timeout(HEAD, connection).await;
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpSocket;
    use tokio::time::Instant;

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

    async fn start() -> (SocketAddr, tokio::task::JoinHandle<Infallible>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(|| async { "ok" }));
        (address, tokio::spawn(serve(listener, router)))
    }

    /// The bytes that the server sends until it closes the connection.
    async fn rest(stream: &mut TcpStream) -> String {
        let mut text = Vec::new();
        let closed = timeout(HEAD * 3, stream.read_to_end(&mut text)).await;
        assert!(closed.is_ok(), "the connection stays open");
        String::from_utf8(text).unwrap()
    }

    #[tokio::test]
    async fn a_client_that_sends_slowly_or_nothing_loses_its_connection() {
        let (address, serving) = start().await;
        let begun = Instant::now();
        let (mut silent, mut slow, mut idle) = tokio::try_join!(
            TcpStream::connect(address),
            TcpStream::connect(address),
            TcpStream::connect(address)
        )
        .unwrap();
        slow.write_all(&REQUEST[..10]).await.unwrap();
        idle.write_all(REQUEST).await.unwrap();
        let texts = tokio::join!(rest(&mut silent), rest(&mut slow), rest(&mut idle));
        assert!(texts.2.starts_with("HTTP/1.1 200 OK"), "{texts:?}");
        let took = begun.elapsed();
        assert!(took >= HEAD - Duration::from_millis(50), "{took:?}");
        serving.abort();
    }

    async fn connect_from(peer: [u8; 4], address: SocketAddr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((peer, 0).into()).unwrap();
        socket.connect(address).await.unwrap()
    }

    #[tokio::test]
    async fn a_peer_with_many_connections_loses_its_oldest_to_any_newcomer() {
        let (address, serving) = start().await;
        let mut other = connect_from([127, 0, 0, 2], address).await;
        let mut flood = Vec::new();
        for _ in 0..2 * CONNECTIONS {
            flood.push(connect_from([127, 0, 0, 1], address).await);
        }
        let begun = Instant::now();
        for stream in &mut flood[..CONNECTIONS] {
            rest(stream).await;
        }
        assert!(begun.elapsed() < HEAD, "they are closed because they are idle");
        let mut newest = flood.pop().unwrap();
        let mut byte = [0; 1];
        for stream in [&mut other, &mut newest] {
            stream.write_all(REQUEST).await.unwrap();
            assert_eq!(stream.read(&mut byte).await.unwrap(), 1);
        }
        serving.abort();
    }

    #[tokio::test]
    async fn connections_that_have_ended_take_no_room() {
        let (address, serving) = start().await;
        let mut kept = connect_from([127, 0, 0, 1], address).await;
        for _ in 0..2 * CONNECTIONS {
            let mut ended = connect_from([127, 0, 0, 1], address).await;
            ended.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
            assert!(rest(&mut ended).await.ends_with("ok"));
        }
        kept.write_all(REQUEST).await.unwrap();
        assert_eq!(kept.read(&mut [0; 1]).await.unwrap(), 1, "it is the oldest of its peer");
        serving.abort();
    }

    #[tokio::test]
    async fn a_head_that_is_too_long_is_refused() {
        let (address, serving) = start().await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("GET / HTTP/1.1\r\nhost: x\r\nlong: {}\r\n\r\n", "x".repeat(HEAD_BYTES));
        // The server may close the connection before it has read all of it.
        let _ = stream.write_all(head.as_bytes()).await;
        let mut text = Vec::new();
        let _ = timeout(HEAD, stream.read_to_end(&mut text)).await.expect("an answer");
        let text = String::from_utf8_lossy(&text);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 431"), "{text}");
        serving.abort();
    }
}
