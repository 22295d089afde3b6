//! The users of the API server, with a token and a kubeconfig for each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::certificates::Certificates;
use crate::error::Error;

/// The user of tests, with all rights.
pub(crate) const ADMIN: &str = "admin";
/// The users of the control plane's own components, apart from the API server and etcd. They have all rights,
/// too; the audit log distinguishes their requests from ours.
pub(crate) const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
pub(crate) const SCHEDULER: &str = "system:kube-scheduler";
pub(crate) const KWOK: &str = "kwok";

const MASTERS: &str = "system:masters";

/// All users of one cluster.
pub(crate) struct Users {
    url: String,
    authority_der: Vec<u8>,
    users: BTreeMap<String, User>,
    token_file: PathBuf,
}

struct User {
    token: String,
    kubeconfig: PathBuf,
}

impl Users {
    /// Writes the API server's token file and one kubeconfig per user into `dir`.
    ///
    /// `named` users are in no group: they have no rights until RBAC grants them some by name.
    pub(crate) fn write(
        dir: &Path,
        url: &str,
        certificates: &Certificates,
        named: &[String],
    ) -> Result<Users, Error> {
        let masters = [ADMIN, CONTROLLER_MANAGER, SCHEDULER, KWOK].map(|name| (name, MASTERS));
        let all = masters.into_iter().chain(named.iter().map(|name| (name.as_str(), "")));
        let mut users = BTreeMap::new();
        let mut lines = String::new();
        for (name, group) in all {
            let token = random_token();
            lines.push_str(&format!("{token},{name},{name},{group}\n"));
            let kubeconfig = dir.join(format!("{}.kubeconfig", name.replace(':', "-")));
            let text = kubeconfig_text(url, &certificates.authority_pem, name, &token);
            std::fs::write(&kubeconfig, text)
                .map_err(Error::io(format!("writing {}", kubeconfig.display())))?;
            users.insert(name.to_owned(), User { token, kubeconfig });
        }
        let token_file = dir.join("tokens.csv");
        std::fs::write(&token_file, lines).map_err(Error::io("writing the token file"))?;
        let authority_der = certificates.authority_der.clone();
        Ok(Users { url: url.to_owned(), authority_der, users, token_file })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn token_file(&self) -> &Path {
        &self.token_file
    }

    pub(crate) fn kubeconfig(&self, name: &str) -> Result<&Path, Error> {
        Ok(&self.user(name)?.kubeconfig)
    }

    /// A configuration for a client that acts as this user.
    pub(crate) fn config(&self, name: &str) -> Result<kube::Config, Error> {
        let url = self.url.parse().expect("the URL was made of an address and a port");
        let mut config = kube::Config::new(url);
        config.root_cert = Some(vec![self.authority_der.clone()]);
        config.auth_info.token = Some(self.user(name)?.token.clone().into());
        // Tests see errors at once instead of re-sent requests.
        config.default_retry = false;
        Ok(config)
    }

    /// The same for the API server at another port.
    pub(crate) fn config_at(&self, name: &str, port: u16) -> Result<kube::Config, Error> {
        let url = format!("https://127.0.0.1:{port}");
        let mut config = self.config(name)?;
        config.cluster_url = url.parse().expect("the URL was made of an address and a port");
        Ok(config)
    }

    fn user(&self, name: &str) -> Result<&User, Error> {
        self.users.get(name).ok_or_else(|| Error::UnknownUser(name.to_owned()))
    }
}

fn random_token() -> String {
    std::iter::repeat_with(fastrand::alphanumeric).take(32).collect()
}

fn kubeconfig_text(url: &str, authority: &Path, user: &str, token: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
current-context: testcluster
clusters:
- name: testcluster
  cluster:
    server: {url}
    certificate-authority: {authority}
users:
- name: {user}
  user:
    token: {token}
contexts:
- name: testcluster
  context:
    cluster: testcluster
    user: {user}
",
        authority = authority.display()
    )
}
