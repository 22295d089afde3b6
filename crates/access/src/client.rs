//! The client of the API server: one HTTP/1.1 client, tuned for many small requests.
//!
//! Guarantees: a request of which a byte may have been sent is never sent again without the caller, and a
//! connection whose peer is silent for [`TCP_USER_TIMEOUT`] is dropped. A request with a
//! [`BodyFence`](crate::fenced_body::BodyFence) leaves only while its fence is open. HTTP/1.1, so that a
//! watch and a write never share a connection. After a 401 the plugin of the kubeconfig runs again, and the
//! files of the client certificate are read again, for later requests. All other parts take a
//! [`kube::Client`], from here or from a test.

use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use http_body_util::BodyExt;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{AuthError, Body, ConfigExt};
use tower::util::option_layer;
use tower::{BoxError, Layer, ServiceExt};

use crate::fenced_body::{FencedBody, fenced};
use crate::renewal::Renewing;
use crate::token::{self, TokenFile};
use crate::tunnel::Tunnel;

/// How long sent bytes may stay without acknowledgement.
pub const TCP_USER_TIMEOUT: Duration = Duration::from_secs(5);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const KEEPALIVE: Duration = Duration::from_secs(15);
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Why no client can be made of a configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name of the program is not a valid header value.
    #[error("{0:?} does not fit in a User-Agent")]
    BadAgent(String),
    /// A certificate, key or token of the configuration cannot be used.
    #[error("cannot use the credentials for the API server: {}", words(.0))]
    Credentials(kube::Error),
    /// After a 401, a plugin that gave a token gives none. Without one, all requests would be anonymous.
    #[error("the plugin of the kubeconfig gives no token any more")]
    NoToken,
    /// The file of the token cannot be used.
    #[error(transparent)]
    Token(#[from] token::Error),
}

/// A client for the API server of `config`, with the User-Agent `agent`.
pub fn connect(config: kube::Config, agent: &str) -> Result<kube::Client, Error> {
    connect_counting(config, agent, |_| ())
}

/// The same; `received` gets the length of each part of a response's body, in bytes, as it arrives.
pub fn connect_counting(
    mut config: kube::Config,
    agent: &str,
    received: impl Fn(usize) + Clone + Send + Sync + 'static,
) -> Result<kube::Client, Error> {
    let agent = HeaderValue::from_str(agent).map_err(|_| Error::BadAgent(agent.to_owned()))?;
    config.headers.push((USER_AGENT, agent));
    let token = TokenFile::take(&mut config.auth_info)?;

    let account = &config.auth_info;
    let (has_files, has_plugin) = (account.client_certificate.is_some(), account.exec.is_some());
    let namespace = config.default_namespace.clone();

    let make = move || {
        let (mut config, token, received) = (config.clone(), token.clone(), received.clone());
        let auth = config.auth_layer().map_err(Error::Credentials)?;
        let has_token = auth.is_some();
        if has_token {
            // kube would run the plugin once more, to see whether it gives a certificate.
            config.auth_info.exec = None;
        }
        let tunnel = Tunnel::new(connector(), config.proxy_url.take());
        let connector = config.rustls_https_connector_with_connector(tunnel).map_err(Error::Credentials)?;
        let service = legacy::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build::<_, FencedBody>(connector)
            .map_request(move |mut request: http::Request<Body>| {
                if let Some(token) = &token {
                    token.authorize(&mut request);
                }
                fenced(request)
            })
            .map_err(BoxError::from)
            .map_response(move |response| {
                let received = received.clone();
                response.map(|body| {
                    body.map_frame(move |frame| {
                        received(frame.data_ref().map_or(0, |data| data.len()));
                        frame
                    })
                })
            });
        let service = config.extra_headers_layer().map_err(Error::Credentials)?.layer(service);
        let service = option_layer(auth).layer(service);
        Ok::<_, Error>((config.base_uri_layer().layer(service), has_token))
    };
    let (service, had_token) = make()?;
    // kube takes the failure of a plugin that gives certificates for one without credentials.
    let again = (has_files || has_plugin && had_token).then_some(move || match make() {
        Ok((service, has_token)) if has_token || !had_token => Ok(service),
        Ok(_) => Err(Error::NoToken.to_string()),
        Err(error) => Err(error.to_string()),
    });
    Ok(kube::Client::new(Renewing::new(service, again), namespace))
}

/// An error of kube with its causes. The output of a plugin and its environment stay out of it: they may have
/// secrets.
pub fn words(error: &kube::Error) -> String {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = next {
        match cause.downcast_ref() {
            Some(AuthError::AuthExecRun { out, .. }) => {
                return format!("the plugin of the kubeconfig ended with {}", out.status);
            }
            Some(AuthError::AuthExecParse(_)) => {
                return "the plugin of the kubeconfig wrote no ExecCredential".to_owned();
            }
            _ => next = cause.source(),
        }
    }
    crate::causes(error)
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    // Without it each new TLS connection waits some 40 ms for a delayed acknowledgement.
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_keepalive_interval(Some(KEEPALIVE));
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT));
    connector
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Instant;

    use super::*;
    use kube::config::{ExecConfig, ExecInteractiveMode};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    async fn client(agent: &str) -> (kube::Client, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        (connect(kube::Config::new(url), agent).unwrap(), listener)
    }

    fn get(path: &str) -> http::Request<Body> {
        http::Request::get(path).body(Body::empty()).unwrap()
    }

    /// Answers one request, and returns its head.
    async fn served(listener: &TcpListener) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = vec![0; 4096];
        let length = stream.read(&mut head).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        String::from_utf8(head[..length].to_vec()).unwrap()
    }

    #[tokio::test]
    async fn every_request_names_the_program() {
        let (client, listener) = client("a1b2").await;
        let (reply, head) = tokio::join!(client.send(get("/version")), served(&listener));
        assert_eq!(reply.unwrap().status(), 200);
        assert!(head.to_lowercase().contains("user-agent: a1b2"), "{head}");
    }

    #[tokio::test]
    async fn every_request_has_the_token_of_the_file_without_its_line_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "t1\n").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let mut config = kube::Config::new(url);
        config.auth_info.token_file = Some(file.path().display().to_string());
        let client = connect(config, "a1b2").unwrap();
        let (reply, head) = tokio::join!(client.send(get("/version")), served(&listener));
        assert_eq!(reply.unwrap().status(), 200);
        assert!(head.to_lowercase().contains("authorization: bearer t1\r\n"), "{head}");
    }

    #[tokio::test]
    async fn a_request_to_a_busy_server_is_not_repeated() {
        let (client, listener) = client("a1b2").await;
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let _ = stream.read(&mut head).await.unwrap();
            let reply = b"HTTP/1.1 503 Busy\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(reply).await.unwrap();
            stream
        };
        let (reply, _stream) = tokio::join!(client.send(get("/version")), server);
        assert_eq!(reply.unwrap().status(), 503, "the caller sees the refusal");
    }

    #[tokio::test]
    async fn the_bytes_of_a_response_are_counted_without_its_head() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = kube::Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        let counted = Arc::new(AtomicUsize::new(0));
        let sum = Arc::clone(&counted);
        let client =
            connect_counting(config, "a1b2", move |bytes| _ = sum.fetch_add(bytes, Relaxed)).unwrap();
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut vec![0; 4096]).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").await.unwrap();
            stream
        };
        let (reply, _stream) = tokio::join!(client.send(get("/version")), server);
        assert_eq!(reply.unwrap().into_body().collect_bytes().await.unwrap(), "hello");
        assert_eq!(counted.load(Relaxed), 5);
    }

    #[tokio::test]
    async fn requests_go_through_the_proxy_of_the_configuration() {
        let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut config = kube::Config::new("http://api.invalid:8080".parse().unwrap());
        config.proxy_url = Some(format!("http://{}", proxy.local_addr().unwrap()).parse().unwrap());
        let client = connect(config, "a1b2").unwrap();
        let server = async {
            let (mut stream, _) = proxy.accept().await.unwrap();
            let mut heads = Vec::new();
            for reply in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"] {
                let mut head = vec![0; 4096];
                let length = stream.read(&mut head).await.unwrap();
                heads.push(String::from_utf8(head[..length].to_vec()).unwrap());
                stream.write_all(reply.as_bytes()).await.unwrap();
            }
            heads
        };
        let (reply, heads) = tokio::join!(client.send(get("/version")), server);
        assert_eq!(reply.unwrap().status(), 200);
        assert!(heads[0].starts_with("CONNECT api.invalid:8080 HTTP/1.1\r\n"), "{heads:?}");
        assert!(heads[1].starts_with("GET /version HTTP/1.1\r\n"), "{heads:?}");
    }

    fn with_plugin(listener: &TcpListener, script: String) -> Result<kube::Client, Error> {
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let mut config = kube::Config::new(url);
        config.auth_info.exec = Some(ExecConfig {
            command: Some("sh".to_owned()),
            args: Some(vec!["-c".to_owned(), script]),
            interactive_mode: Some(ExecInteractiveMode::Never),
            ..ExecConfig::default()
        });
        connect(config, "a1b2")
    }

    /// A client whose plugin prints the token in the file `token`, and writes a line into the file `runs`. It
    /// runs a script `print` instead, if there is one.
    async fn with_token(dir: &Path, token: &str) -> (kube::Client, TcpListener) {
        std::fs::write(dir.join("token"), token).unwrap();
        let print = r#"echo >> runs
            if [ -e print ]; then . ./print; else printf '{"status":{"token":"%s"}}' "$(cat token)"; fi"#;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        (with_plugin(&listener, format!("cd '{}' && {print}", dir.display())).unwrap(), listener)
    }

    fn runs(dir: &Path) -> usize {
        std::fs::read_to_string(dir.join("runs")).unwrap().lines().count()
    }

    /// The status of a request to a server that accepts only this token.
    async fn status(client: &kube::Client, listener: &TcpListener, token: &str) -> u16 {
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.unwrap();
            let head = String::from_utf8_lossy(&head[..length]).to_lowercase();
            let is_accepted = head.contains(&format!("authorization: bearer {token}\r\n"));
            let status = if is_accepted { "200 OK" } else { "401 Unauthorized" };
            let reply = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(reply.as_bytes()).await.unwrap();
        };
        let (reply, ()) = tokio::join!(client.send(get("/version")), server);
        reply.unwrap().status().as_u16()
    }

    #[tokio::test]
    async fn after_a_401_the_plugin_runs_again_and_watches_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let (client, listener) = with_token(dir.path(), "t1").await;
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut vec![0; 4096]).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nfirst").await.unwrap();
            stream
        };
        let (watch, mut stream) = tokio::join!(client.send(get("/watch")), server);
        std::fs::write(dir.path().join("token"), "t2").unwrap();
        let start = Instant::now();
        assert_eq!(status(&client, &listener, "t2").await, 401, "the caller sees the refusal");
        let renewed = async { while status(&client, &listener, "t2").await == 401 {} };
        tokio::time::timeout(Duration::from_secs(30), renewed).await.expect("the new token is used");
        let (pauses, runs) = (start.elapsed().as_secs() / crate::renewal::PAUSE.as_secs(), runs(dir.path()));
        assert!((2..=2 + pauses).contains(&(runs as u64)), "once for each token: {runs} in {pauses} pauses");
        stream.write_all(b"next").await.unwrap();
        assert_eq!(watch.unwrap().into_body().collect_bytes().await.unwrap(), "firstnext");
    }

    #[tokio::test]
    async fn a_server_that_always_answers_401_does_not_keep_a_plugin_busy() {
        let dir = tempfile::tempdir().unwrap();
        let (client, listener) = with_token(dir.path(), "t1").await;
        let start = Instant::now();
        for _ in 0..300 {
            assert_eq!(status(&client, &listener, "another").await, 401);
        }
        let pauses = start.elapsed().as_secs() / crate::renewal::PAUSE.as_secs();
        let runs = runs(dir.path()) as u64;
        assert!(runs <= 2 + pauses, "{runs} runs in {pauses} pauses: one at the start, and one for each");
    }

    #[test]
    fn a_plugin_that_gives_no_token_any_more_makes_no_client_anonymous() {
        // A second task of the only thread begins when the renewal has ended.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let (client, listener) = with_token(dir.path(), "t1").await;
            std::fs::write(dir.path().join("print"), r#"printf '{"status":{}}'"#).unwrap();
            assert_eq!(status(&client, &listener, "t2").await, 401);
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            assert!(runs(dir.path()) > 1, "the plugin ran again");
            assert_eq!(status(&client, &listener, "t1").await, 200, "the first token stays in use");
        });
    }

    #[tokio::test]
    async fn the_output_of_a_plugin_that_fails_is_not_shown() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        for (script, words) in [
            ("echo secret; exit 3", "the plugin of the kubeconfig ended with exit status: 3"),
            ("echo secret", "the plugin of the kubeconfig wrote no ExecCredential"),
        ] {
            let error = with_plugin(&listener, script.to_owned()).err().unwrap();
            assert_eq!(error.to_string(), format!("cannot use the credentials for the API server: {words}"));
        }
    }
}
