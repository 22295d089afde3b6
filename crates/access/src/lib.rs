//! The API server and the account of a program: address, kubeconfig or the Pod's own account.
//!
//! With an address and a kubeconfig, the address replaces the kubeconfig's server. An address alone means no
//! authentication. With neither, the Pod's own [`account`] is used. [`proxy`] chooses the proxy, and
//! [`client`] makes the client, which reads a [`token`] again, and after a 401 runs a plugin again. Its
//! requests may carry a fence ([`fenced_body`]), which keeps back the body of one that is late.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

pub mod account;
pub mod client;
pub mod fenced_body;
pub mod proxy;
mod renewal;
pub mod token;
mod tunnel;

/// The settings that name the API server.
#[derive(Clone, Debug, Default)]
pub struct Directions {
    /// A URL, or host and port. Empty means not set.
    pub address: Option<String>,
    /// A kubeconfig that must be valid. Empty means that no kubeconfig is read, not even those below.
    pub kubeconfig_file: Option<PathBuf>,
    /// `KUBECONFIG`: a list of files, of which those that do not exist are skipped.
    pub kubeconfig: Option<OsString>,
    /// The context of the kubeconfig to use instead of its current one.
    pub context: Option<String>,
    /// `HOME`, under which users have their own kubeconfig.
    pub home: Option<PathBuf>,
    /// The proxies of the environment.
    pub proxies: proxy::Variables,
}

/// Why no API server was found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not valid.
    #[error(
        "the API server's address {address:?} is not a valid URL, give one such as https://10.0.0.1:6443: \
         {source}"
    )]
    BadAddress {
        /// The address.
        address: String,
        /// The problem.
        source: http::uri::InvalidUri,
    },
    /// The port is not valid.
    #[error("the API server's address {0} has a port that is not valid, give one from 1 to 65535")]
    BadPort(String),
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {}: {source}", path.display())]
    BadKubeconfig {
        /// The file.
        path: PathBuf,
        /// The problem.
        #[source]
        source: Box<KubeconfigError>,
    },
    /// The proxy cannot be used.
    #[error(transparent)]
    BadProxy(#[from] proxy::Error),
    /// Neither address nor kubeconfig, and not in a cluster.
    #[error(
        "no API server is known: set KUBE_APISERVER_ADDRESS or KUBECONFIG (in a config file \
         kubeApiServerAddress or kubeConfigFilePath), or run in a cluster ({0})"
    )]
    Nowhere(#[source] account::Error),
}

/// Finds the API server.
pub async fn find(directions: &Directions) -> Result<kube::Config, Error> {
    let address = directions.address.as_deref().filter(|address| !address.is_empty());
    let (mut found, proxy) = match (kubeconfigs(directions).as_slice(), address) {
        ([], None) => {
            let variable = |name: &str| std::env::var(name).ok();
            (account::own(Path::new(account::MOUNT), variable).await.map_err(Error::Nowhere)?, None)
        }
        ([], Some(address)) => (kube::Config::new(parse(address, "http")?), None),
        (paths, address) => {
            let (mut found, proxy) = read(paths, directions.context.as_deref()).await?;
            let server = address.map_or_else(|| found.cluster_url.to_string(), str::to_owned);
            found.cluster_url = parse(&server, scheme(&found))?;
            (found, proxy)
        }
    };
    if !proxy::has_valid_port(&found.cluster_url) {
        return Err(Error::BadPort(found.cluster_url.to_string()));
    }
    // kube has a rule of its own for the environment, which does not know NO_PROXY.
    found.proxy_url = match proxy {
        Some(proxy) => Some(proxy.url()?),
        None => directions.proxies.proxy(&found.cluster_url)?,
    };
    Ok(found)
}

/// An error with its causes, each named once.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = next.source();
    }
    words
}

/// Reads an address; `scheme` is that of one without a scheme.
fn parse(address: &str, scheme: &str) -> Result<http::Uri, Error> {
    let url = if address.contains("://") { address.to_owned() } else { format!("{scheme}://{address}") };
    url.parse().map_err(|source| Error::BadAddress { address: address.to_owned(), source })
}

/// The scheme of an address without one. As for kubectl, it is TLS if the kubeconfig says anything of
/// certificates; otherwise a token would be sent as plain text.
fn scheme(config: &kube::Config) -> &'static str {
    let account = &config.auth_info;
    let has_certificate = account.client_certificate.is_some() || account.client_certificate_data.is_some();
    let has_tls = config.root_cert.is_some() || config.accept_invalid_certs || has_certificate;
    if has_tls { "https" } else { "http" }
}

/// The kubeconfigs to read: the named file, else those of `KUBECONFIG` that exist, else the user's own.
fn kubeconfigs(directions: &Directions) -> Vec<PathBuf> {
    if let Some(path) = &directions.kubeconfig_file {
        return if path.as_os_str().is_empty() { Vec::new() } else { vec![path.clone()] };
    }
    let named = directions.kubeconfig.as_deref().map(std::env::split_paths).into_iter().flatten();
    // One that may not be looked at is an error later, and not left out.
    let existing: Vec<PathBuf> = named.filter(|path| path.try_exists().unwrap_or(true)).collect();
    if !existing.is_empty() {
        return existing;
    }
    let own = directions.home.as_deref().map(|home| home.join(".kube/config"));
    own.into_iter().filter(|path| path.exists()).collect()
}

/// The configuration of a context, or the current one, and the proxy that the kubeconfig names.
async fn read(
    paths: &[PathBuf],
    context: Option<&str>,
) -> Result<(kube::Config, Option<proxy::Named>), Error> {
    let bad = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::BadKubeconfig { path, source: Box::new(source) }
    };
    let mut merged = Kubeconfig::default();
    for path in paths {
        let mut next = Kubeconfig::read_from(path).map_err(bad(path))?;
        // kubectl writes an empty name into a file without one, and a later file may have one.
        next.current_context = next.current_context.filter(|name| !name.is_empty());
        merged = merged.merge(next).map_err(bad(path))?;
    }
    if let Some(context) = context {
        merged.current_context = Some(context.to_owned());
    }
    let last = paths.last().map_or(Path::new(""), PathBuf::as_path);
    let proxy = proxy::take(&mut merged);
    let found = kube::Config::from_custom_kubeconfig(merged, &KubeConfigOptions::default()).await;
    let mut found = found.map_err(bad(last))?;
    // A plugin that asks for the cluster gets the proxy of the kubeconfig, as from kubectl.
    if let Some(cluster) = found.auth_info.exec.as_mut().and_then(|exec| exec.cluster.as_mut()) {
        cluster.proxy_url = proxy.as_ref().map(|proxy| proxy.value().to_owned());
    }
    Ok((found, proxy))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
        clusters: [{name: k, cluster: {server: 'https://10.1.1.1:6443'}}]\n\
        users: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n";

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn directions(kubeconfig: &str) -> Directions {
        Directions { kubeconfig: Some(kubeconfig.into()), ..Directions::default() }
    }

    async fn url(directions: &Directions) -> String {
        match find(directions).await {
            Ok(found) => format!("{} {}", found.cluster_url, found.auth_info.token.is_some()),
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test]
    async fn an_address_overrides_the_server_and_alone_means_no_authentication() {
        let file = file(KUBECONFIG);
        let mut directions = directions(file.path().to_str().unwrap());
        assert_eq!(url(&directions).await, "https://10.1.1.1:6443/ true");
        directions.address = Some("10.2.2.2:8080".into());
        assert_eq!(url(&directions).await, "http://10.2.2.2:8080/ true");
        directions.kubeconfig_file = Some(PathBuf::new());
        assert_eq!(url(&directions).await, "http://10.2.2.2:8080/ false", "explicitly no kubeconfig");
        directions = Directions { kubeconfig: None, kubeconfig_file: None, ..directions };
        assert_eq!(url(&directions).await, "http://10.2.2.2:8080/ false");
        directions.address = Some(String::new());
        assert!(url(&directions).await.starts_with("no API server is known"));
    }

    #[tokio::test]
    async fn an_address_without_a_scheme_means_tls_if_there_are_certificates() {
        for (without, with) in [
            ("6443'", "6443', insecure-skip-tls-verify: true"),
            ("6443'", "6443', certificate-authority-data: eA=="),
            ("token: t", "token: t, client-certificate-data: eA=="),
        ] {
            let file = file(&KUBECONFIG.replace(without, with).replace("https://", ""));
            let mut directions = directions(file.path().to_str().unwrap());
            assert_eq!(url(&directions).await, "https://10.1.1.1:6443/ true", "{with}");
            directions.address = Some("10.2.2.2:8080".into());
            assert_eq!(url(&directions).await, "https://10.2.2.2:8080/ true", "{with}");
        }
    }

    #[tokio::test]
    async fn a_file_that_names_no_context_leaves_it_to_the_next_one() {
        let (first, second) = (file("kind: Config\nclusters: null\ncurrent-context: ''\n"), file(KUBECONFIG));
        let both = std::env::join_paths([first.path(), second.path()]).unwrap();
        let found = url(&Directions { kubeconfig: Some(both), ..Directions::default() }).await;
        assert_eq!(found, "https://10.1.1.1:6443/ true");
    }

    #[tokio::test]
    async fn a_plugin_gets_the_proxy_of_the_kubeconfig_and_no_other() {
        let plugin = "exec: {command: plugin, provideClusterInfo: true}";
        let without = KUBECONFIG.replace("token: t", plugin);
        let with = without.replace("6443'", "6443', proxy-url: 'http://own:2'");
        for (text, proxy) in [(without, None), (with, Some("http://own:2"))] {
            let file = file(&text);
            let found = find(&directions(file.path().to_str().unwrap())).await.unwrap();
            let cluster = found.auth_info.exec.unwrap().cluster.unwrap();
            assert_eq!(cluster.proxy_url.as_deref(), proxy);
        }
    }

    #[tokio::test]
    async fn a_context_that_is_named_replaces_the_current_one() {
        let cluster = "{name: k, cluster: {server: 'https://10.1.1.1:6443'}}";
        let clusters = format!("{cluster}, {}", cluster.replace("k,", "k2,").replace("10.1.1.1", "10.3.3.3"));
        let context = "{name: c, context: {cluster: k, user: u}}";
        let contexts = format!("{context}, {{name: d, context: {{cluster: k2, user: u}}}}");
        let text = KUBECONFIG.replace(cluster, &clusters).replace(context, &contexts);
        let file = file(&text);
        let named = |context: &str| Directions {
            context: Some(context.to_owned()),
            ..directions(file.path().to_str().unwrap())
        };
        assert_eq!(url(&named("c")).await, "https://10.1.1.1:6443/ true");
        assert_eq!(url(&named("d")).await, "https://10.3.3.3:6443/ true");
        let error = url(&named("e")).await;
        assert!(error.starts_with("cannot use the kubeconfig"), "{error}");
    }

    #[tokio::test]
    async fn a_kubeconfig_of_the_environment_that_does_not_exist_is_skipped() {
        let home = tempfile::tempdir().unwrap();
        let mut directions = directions("/nowhere/kubeconfig");
        directions.home = Some(home.path().to_owned());
        let missing = url(&directions).await;
        assert!(missing.starts_with("no API server is known: set KUBE_APISERVER_ADDRESS"), "{missing}");
        std::fs::create_dir(home.path().join(".kube")).unwrap();
        std::fs::write(home.path().join(".kube/config"), KUBECONFIG).unwrap();
        assert_eq!(url(&directions).await, "https://10.1.1.1:6443/ true");
    }

    #[tokio::test]
    async fn the_kubeconfig_names_the_proxy_before_the_environment_does() {
        let with = |proxy: &str| KUBECONFIG.replace("6443'", &format!("6443', proxy-url: '{proxy}'"));
        let variables = |name: &str| match name {
            "HTTPS_PROXY" => Some("http://variable:1".to_owned()),
            "NO_PROXY" => Some("10.2.2.2".to_owned()),
            _ => None,
        };
        let proxy = async |kubeconfig: &str, address: Option<&str>| {
            let file = file(kubeconfig);
            let directions = Directions {
                address: address.map(str::to_owned),
                proxies: proxy::Variables::read(variables),
                ..directions(file.path().to_str().unwrap())
            };
            find(&directions).await.map(|found| found.proxy_url.map(|url| url.to_string()))
        };
        assert_eq!(proxy(KUBECONFIG, None).await.unwrap().as_deref(), Some("http://variable:1/"));
        assert_eq!(proxy(KUBECONFIG, Some("https://10.2.2.2")).await.unwrap(), None, "NO_PROXY");
        let own = with("http://own:2");
        assert_eq!(proxy(&own, None).await.unwrap().as_deref(), Some("http://own:2/"));
        assert_eq!(proxy(&own, Some("https://10.2.2.2")).await.unwrap().as_deref(), Some("http://own:2/"));
        let error = proxy(&with("socks5://own:2"), None).await.unwrap_err().to_string();
        assert!(error.starts_with("proxy-url of the kubeconfig names a proxy"), "{error}");
    }

    #[tokio::test]
    async fn a_kubeconfig_that_is_named_must_be_good() {
        let file = file("clusters: 7");
        for path in [file.path(), Path::new("/nowhere/kubeconfig")] {
            let error = url(&Directions { kubeconfig_file: Some(path.into()), ..directions("") }).await;
            assert!(error.starts_with(&format!("cannot use the kubeconfig {}: ", path.display())), "{error}");
        }
    }

    #[tokio::test]
    async fn a_bad_address_is_named() {
        let error = url(&Directions { address: Some("http://[".into()), ..Directions::default() }).await;
        assert!(error.starts_with("the API server's address \"http://[\" is not a valid URL"), "{error}");
        let file = file(&KUBECONFIG.replace("6443", "64430000"));
        let error = url(&directions(file.path().to_str().unwrap())).await;
        let words = "the API server's address https://10.1.1.1:64430000/ has a port that is not valid";
        assert!(error.starts_with(words), "{error}");
    }
}
