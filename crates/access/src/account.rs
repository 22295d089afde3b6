//! The Pod's own account, by the variables and files that Kubernetes gives to every Pod with a
//! ServiceAccount.
//!
//! Token and certificate are read again from their files when they are renewed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedAuthInfo, NamedCluster,
    NamedContext,
};

use crate::proxy;

/// The directory of the token, the certificate and the name of the namespace.
pub const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Variable: the host of the API server.
pub const HOST: &str = "KUBERNETES_SERVICE_HOST";
/// Variable: the port of the API server.
pub const PORT: &str = "KUBERNETES_SERVICE_PORT";

const NAME: &str = "own";

/// Why there is no such account.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A variable is not set; Kubernetes sets it in every Pod.
    #[error("{0} is not set")]
    Unset(&'static str),
    /// The port is not valid.
    #[error("{PORT}={0:?} is not a valid port")]
    BadPort(String),
    /// A file is not mounted, or may not be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file of the certificate authorities has no certificate.
    #[error("no certificate in {}", .0.display())]
    NoCertificate(PathBuf),
    /// A file or the host is not valid.
    #[error("cannot use {}: {source}", mount.display())]
    Unusable {
        /// The directory of the files.
        mount: PathBuf,
        /// The problem.
        #[source]
        source: Box<KubeconfigError>,
    },
}

/// The configuration for the account whose files are in `mount`; `variable` reads the environment.
pub async fn own(mount: &Path, variable: impl Fn(&str) -> Option<String>) -> Result<kube::Config, Error> {
    let read =
        |name: &'static str| variable(name).filter(|value| !value.is_empty()).ok_or(Error::Unset(name));
    let server = url(&read(HOST)?, &read(PORT)?)?;
    let file = |name: &str| {
        let path = mount.join(name);
        std::fs::read_to_string(&path)
            .map(|text| (path.clone(), text))
            .map_err(|source| Error::Unreadable { path, source })
    };
    let ((authority, _), (token, _), (_, namespace)) = (file("ca.crt")?, file("token")?, file("namespace")?);
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let kubeconfig = Kubeconfig {
        clusters: vec![NamedCluster {
            name: NAME.to_owned(),
            cluster: Some(Cluster {
                server: Some(server),
                certificate_authority: Some(text(&authority)),
                proxy_url: Some(proxy::UNUSED.to_owned()),
                ..Cluster::default()
            }),
            other: BTreeMap::new(),
        }],
        auth_infos: vec![NamedAuthInfo {
            name: NAME.to_owned(),
            auth_info: Some(AuthInfo { token_file: Some(text(&token)), ..AuthInfo::default() }),
            other: BTreeMap::new(),
        }],
        contexts: vec![NamedContext {
            name: NAME.to_owned(),
            context: Some(Context {
                cluster: NAME.to_owned(),
                user: Some(NAME.to_owned()),
                namespace: Some(namespace.trim().to_owned()),
                ..Context::default()
            }),
            other: BTreeMap::new(),
        }],
        current_context: Some(NAME.to_owned()),
        ..Kubeconfig::default()
    };
    let read = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let unusable = |source| Error::Unusable { mount: mount.to_owned(), source: Box::new(source) };
    let mut config = read.map_err(unusable)?;
    if config.root_cert.as_ref().is_none_or(Vec::is_empty) {
        return Err(Error::NoCertificate(authority));
    }
    // Read again while the program runs: authorities are renewed like tokens.
    config.root_cert_file = Some(authority);
    // The caller decides about proxies; this one kept kube from the environment.
    config.proxy_url = None;
    Ok(config)
}

fn url(host: &str, port: &str) -> Result<String, Error> {
    let port: u16 = port.parse().map_err(|_| Error::BadPort(port.to_owned()))?;
    Ok(match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => format!("https://[{address}]:{port}"),
        _ => format!("https://{host}:{port}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_address_stands_in_brackets() {
        assert_eq!(url("10.0.0.1", "443").unwrap(), "https://10.0.0.1:443");
        assert_eq!(url("fd00::1", "6443").unwrap(), "https://[fd00::1]:6443");
        assert_eq!(url("kubernetes.default", "443").unwrap(), "https://kubernetes.default:443");
    }

    #[tokio::test]
    async fn a_missing_variable_or_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let set = |name: &str| Some(if name == HOST { "10.0.0.1" } else { "443" }.to_owned());
        let complaint = async |variable: &dyn Fn(&str) -> Option<String>| {
            own(dir.path(), variable).await.unwrap_err().to_string()
        };
        assert_eq!(complaint(&|_| None).await, "KUBERNETES_SERVICE_HOST is not set");
        assert_eq!(
            complaint(&|_| Some("x".into())).await,
            "KUBERNETES_SERVICE_PORT=\"x\" is not a valid port"
        );
        for name in ["ca.crt", "token", "namespace"] {
            let expected = format!("cannot read {}: ", dir.path().join(name).display());
            let words = complaint(&set).await;
            assert!(words.starts_with(&expected), "{words}");
            std::fs::write(dir.path().join(name), "no certificate").unwrap();
        }
        let authority = dir.path().join("ca.crt");
        assert_eq!(complaint(&set).await, format!("no certificate in {}", authority.display()));
        let nowhere = |name: &str| Some(if name == HOST { "no host" } else { "443" }.to_owned());
        let words = complaint(&nowhere).await;
        assert!(words.starts_with(&format!("cannot use {}: ", dir.path().display())), "{words}");
    }
}
