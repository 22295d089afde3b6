//! The API server and the account: the config file overrides the environment.

use framework_access::{Directions, Error};
use framework_api::config::Config;

use crate::settings::Environment;

/// Finds the API server.
pub async fn find(config: &Config, environment: &Environment) -> Result<kube::Config, Error> {
    framework_access::find(&directions(config, environment)).await
}

fn directions(config: &Config, environment: &Environment) -> Directions {
    Directions {
        address: config.kube_api_server_address.clone().or_else(|| environment.api_server_address.clone()),
        kubeconfig_file: config.kube_config_file_path.as_ref().map(Into::into),
        kubeconfig: environment.kubeconfig.clone(),
        context: None,
        home: environment.home.clone(),
        proxies: environment.proxies.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_config_file_overrides_the_environment() {
        let environment = Environment {
            api_server_address: Some("10.2.2.2".into()),
            kubeconfig: Some("a:b".into()),
            home: Some("/home/x".into()),
            ..Environment::default()
        };
        let mut config = Config::default();
        let found = directions(&config, &environment);
        assert_eq!(found.address.as_deref(), Some("10.2.2.2"));
        assert_eq!(found.kubeconfig.as_deref(), Some("a:b".as_ref()));
        assert_eq!((found.kubeconfig_file, found.home.as_deref()), (None, Some(Path::new("/home/x"))));
        config.kube_api_server_address = Some("10.3.3.3".into());
        config.kube_config_file_path = Some("/c".into());
        let found = directions(&config, &environment);
        assert_eq!(found.address.as_deref(), Some("10.3.3.3"));
        assert_eq!(found.kubeconfig_file.as_deref(), Some(Path::new("/c")));
    }
}
