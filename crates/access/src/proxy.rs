//! The proxy between a program and the API server, chosen as client-go chooses it.
//!
//! The `proxy-url` of a kubeconfig comes first. Without it the environment decides: `HTTPS_PROXY`, or
//! `HTTP_PROXY` for an address without TLS, unless `NO_PROXY` names the API server. Localhost and loopback
//! addresses are always reached directly.

use std::net::IpAddr;

use http::Uri;
use kube::config::Kubeconfig;

/// A proxy that is never used. For a cluster that names no proxy, kube reads the variables of the
/// environment. One that is not a URL is an error then, even if `NO_PROXY` names the API server.
pub(crate) const UNUSED: &str = "http://unused.invalid";

/// The variables of the environment that name proxies. Empty ones count as not set.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    https: Option<Named>,
    http: Option<Named>,
    no: Option<String>,
}

/// A proxy's URL and the variable or the field that names it.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    name: &'static str,
    value: String,
}

/// A proxy that cannot be used. The value is not shown: it may contain a password.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The value is not the URL of a host.
    #[error("{0} is not the URL of a proxy, give one such as http://10.0.0.1:3128")]
    BadUrl(&'static str),
    /// The value has a scheme that is not supported.
    #[error("{name} names a proxy with the scheme {scheme}, and only http is supported")]
    Scheme {
        /// The variable or the field.
        name: &'static str,
        /// Its scheme.
        scheme: String,
    },
}

impl Variables {
    /// Reads the environment through `variable`: upper case before lower case.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Variables {
        let first = |names: [&'static str; 2]| {
            names.into_iter().find_map(|name| {
                let value = variable(name).filter(|value| !value.is_empty())?;
                Some(Named { name, value })
            })
        };
        Variables {
            https: first(["HTTPS_PROXY", "https_proxy"]),
            http: first(["HTTP_PROXY", "http_proxy"]),
            no: first(["NO_PROXY", "no_proxy"]).map(|named| named.value),
        }
    }

    /// The environment of this process.
    pub fn of_this_process() -> Variables {
        Variables::read(|name| std::env::var(name).ok())
    }

    /// The proxy for this address, if it is not reached directly.
    pub(crate) fn proxy(&self, address: &Uri) -> Result<Option<Uri>, Error> {
        let https = address.scheme_str() != Some("http");
        let Some(named) = (if https { &self.https } else { &self.http }) else { return Ok(None) };
        let host = address.host().unwrap_or_default().trim_matches(['[', ']']).to_lowercase();
        let port = port(address);
        if is_local(&host) || self.no.as_deref().is_some_and(|no| is_excepted(no, &host, port)) {
            return Ok(None);
        }
        named.url().map(Some)
    }
}

impl Named {
    /// The `proxy-url` of a kubeconfig.
    fn of_kubeconfig(value: &str) -> Named {
        Named { name: "proxy-url of the kubeconfig", value: value.to_owned() }
    }

    /// The text as it was written.
    pub(crate) fn value(&self) -> &str {
        &self.value
    }

    /// The URL; a host alone means HTTP.
    pub(crate) fn url(&self) -> Result<Uri, Error> {
        let bad = || Error::BadUrl(self.name);
        let text =
            if self.value.contains("://") { self.value.clone() } else { format!("http://{}", self.value) };
        let url: Uri = text.parse().map_err(|_| bad())?;
        let has_host = url.host().is_some_and(|host| !host.is_empty());
        match url.scheme_str() {
            Some("http") if has_host && has_valid_port(&url) => Ok(url),
            Some("http") | None => Err(bad()),
            Some(scheme) => Err(Error::Scheme { name: self.name, scheme: scheme.to_owned() }),
        }
    }
}

/// The proxy of the current cluster. No cluster keeps its own: the caller decides about proxies.
pub(crate) fn take(kubeconfig: &mut Kubeconfig) -> Option<Named> {
    let current = kubeconfig.current_context.as_deref();
    let context = kubeconfig.contexts.iter().find(|context| Some(context.name.as_str()) == current);
    let name = context.and_then(|context| context.context.as_ref()).map(|context| context.cluster.clone());
    let mut proxy = None;
    for named in &mut kubeconfig.clusters {
        let own = named.cluster.as_mut().and_then(|cluster| cluster.proxy_url.replace(UNUSED.to_owned()));
        if name.as_ref() == Some(&named.name) {
            proxy = own.filter(|url| !url.is_empty()).map(|url| Named::of_kubeconfig(&url));
        }
    }
    proxy
}

/// Whether an address has a valid port, or none, which means that of its scheme. A number that is too large
/// would mean that one, too.
pub(crate) fn has_valid_port(address: &Uri) -> bool {
    let authority = address.authority().map_or("", |authority| authority.as_str());
    let place = authority.rsplit('@').next().unwrap_or_default();
    let port = place.strip_prefix(address.host().unwrap_or_default()).unwrap_or_default();
    matches!(port, "" | ":") || address.port_u16().is_some()
}

/// The port of an address, also if it is that of its scheme.
pub(crate) fn port(address: &Uri) -> u16 {
    address.port_u16().unwrap_or(if address.scheme_str() == Some("http") { 80 } else { 443 })
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether an entry of `NO_PROXY` names the host: `*`, an address, a range of addresses, or a domain, which
/// includes its subdomains and with a leading dot means only them. Addresses and domains may have a port.
fn is_excepted(no_proxy: &str, host: &str, port: u16) -> bool {
    let ip: Option<IpAddr> = host.parse().ok();
    no_proxy.split(',').map(|entry| entry.trim().to_lowercase()).any(|entry| {
        if let Some(within) = range(&entry) {
            return ip.is_some_and(within);
        }
        let (name, only) = with_port(&entry);
        let same_port = only.is_none_or(|only| only == port.to_string());
        let same_host = match (ip, name.parse::<IpAddr>()) {
            _ if name == "*" => only.is_none(),
            (ip, Ok(named)) => ip == Some(named),
            (None, Err(_)) => is_in_domain(host, name),
            (Some(_), Err(_)) => false,
        };
        same_host && same_port
    })
}

fn is_in_domain(host: &str, name: &str) -> bool {
    let subdomains = name.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(name);
    match subdomains.strip_prefix('.') {
        Some(_) => host.ends_with(subdomains),
        None => {
            !name.is_empty()
                && host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        }
    }
}

/// An entry without its port and brackets, and the port.
fn with_port(entry: &str) -> (&str, Option<&str>) {
    let plain = |name: &str| name.starts_with('[') || !name.contains(':');
    match entry.rsplit_once(':') {
        Some((name, port)) if plain(name) && !port.ends_with(']') => {
            (name.trim_matches(['[', ']']), Some(port))
        }
        _ => (entry.trim_matches(['[', ']']), None),
    }
}

/// Reads `address/bits`, and returns whether an address is in that range.
fn range(entry: &str) -> Option<impl Fn(IpAddr) -> bool> {
    let (base, bits) = entry.split_once('/')?;
    let (base, bits): (IpAddr, u32) = (base.parse().ok()?, bits.parse().ok()?);
    let number = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => (u128::from(u32::from(ip)) << 96, 32),
        IpAddr::V6(ip) => (u128::from(ip), 128),
    };
    let (base, length) = number(base);
    let mask = if bits == 0 { 0 } else { u128::MAX << (128 - bits.min(128)) };
    let is_in = move |ip: IpAddr| number(ip).1 == length && number(ip).0 & mask == base & mask;
    (bits <= length).then_some(is_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(of: &[(&str, &str)]) -> Variables {
        Variables::read(|name| {
            of.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn proxy(of: &[(&str, &str)], address: &str) -> String {
        match variables(of).proxy(&address.parse().unwrap()) {
            Ok(Some(proxy)) => proxy.to_string(),
            Ok(None) => "direct".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_scheme_of_the_address_chooses_the_variable() {
        let both = [("HTTPS_PROXY", "http://a:1"), ("HTTP_PROXY", "b:2"), ("https_proxy", "http://c:3")];
        assert_eq!(proxy(&both, "https://10.0.0.1:6443"), "http://a:1/");
        assert_eq!(proxy(&both, "http://10.0.0.1:8080"), "http://b:2/");
        assert_eq!(proxy(&[("https_proxy", "http://c:3")], "https://10.0.0.1"), "http://c:3/");
        assert_eq!(proxy(&[("HTTPS_PROXY", ""), ("https_proxy", "c")], "https://10.0.0.1"), "http://c/");
        assert_eq!(proxy(&[("HTTP_PROXY", "http://b:2")], "https://10.0.0.1"), "direct");
        assert_eq!(proxy(&[], "https://10.0.0.1"), "direct");
    }

    #[test]
    fn this_machine_is_reached_directly() {
        for address in
            ["https://localhost:6443", "https://127.0.0.1", "https://127.8.0.1", "https://[::1]:6443"]
        {
            assert_eq!(proxy(&[("HTTPS_PROXY", "http://a:1")], address), "direct", "{address}");
        }
    }

    #[test]
    fn no_proxy_names_addresses_ranges_and_domains() {
        for (no, address, direct) in [
            ("*", "https://api.example.com", true),
            ("other, api.example.com", "https://api.example.com", true),
            ("example.com", "https://api.example.com", true),
            ("EXAMPLE.com", "https://Api.Example.Com", true),
            ("ample.com", "https://api.example.com", false),
            (".example.com", "https://api.example.com", true),
            (".example.com", "https://example.com", false),
            ("*.example.com", "https://api.example.com", true),
            ("*.example.com", "https://example.com", false),
            ("example.com:6443", "https://example.com:6443", true),
            ("example.com:6443", "https://example.com", false),
            ("example.com:443", "https://example.com", true),
            ("10.96.0.1", "https://10.96.0.1", true),
            ("10.96.0.1:443", "https://10.96.0.1", true),
            ("10.96.0.1:444", "https://10.96.0.1", false),
            ("10.96.0.0/12", "https://10.100.7.7", true),
            ("10.96.0.0/12", "https://10.112.0.1", false),
            ("0.0.0.0/0", "https://10.112.0.1", true),
            ("10.96.0.0/33", "https://10.96.0.1", false),
            ("fd00::/8", "https://[fd12::1]:6443", true),
            ("fd00::/8", "https://10.0.0.1", false),
            ("fd12::1", "https://[fd12::1]", true),
            ("[fd12::1]:6443", "https://[fd12::1]:6443", true),
            ("[fd12::1]:6443", "https://[fd12::1]", false),
            (",,", "https://example.com", false),
            ("0.1", "https://10.0.0.1", false),
        ] {
            let found = proxy(&[("HTTPS_PROXY", "http://a:1"), ("NO_PROXY", no)], address);
            assert_eq!(found == "direct", direct, "NO_PROXY={no} {address}");
        }
    }

    #[test]
    fn a_bad_proxy_is_named_by_its_variable_without_its_value() {
        let bad = |value| proxy(&[("HTTPS_PROXY", value)], "https://10.0.0.1");
        assert_eq!(
            bad("http://user:secret@"),
            "HTTPS_PROXY is not the URL of a proxy, give one such as http://10.0.0.1:3128"
        );
        assert_eq!(
            bad("socks5://10.0.0.1:1080"),
            "HTTPS_PROXY names a proxy with the scheme socks5, and only http is supported"
        );
        assert!(bad("http://me:secret@10.0.0.1:65536").starts_with("HTTPS_PROXY is not the URL of a proxy"));
        let lower = proxy(&[("https_proxy", "a b")], "https://10.0.0.1");
        assert!(lower.starts_with("https_proxy is not"), "{lower}");
    }

    #[test]
    fn a_port_is_a_number_of_16_bits_or_that_of_the_scheme() {
        for (address, has) in [
            ("https://10.0.0.1", true),
            ("https://10.0.0.1:", true),
            ("https://10.0.0.1:65535/k8s", true),
            ("https://10.0.0.1:65536", false),
            ("https://[fd00::1]", true),
            ("https://[fd00::1]:6443", true),
            ("https://[fd00::1]:64430", true),
            ("https://[fd00::1]:644300", false),
            ("https://me:99999@api:1", true),
            ("https://api:api@api:99999", false),
            ("https://9:99999", false),
        ] {
            assert_eq!(has_valid_port(&address.parse().unwrap()), has, "{address}");
        }
    }

    #[test]
    fn no_cluster_is_left_to_the_rule_of_kube_for_the_environment() {
        let clusters = "clusters: [{name: k, cluster: {proxy-url: 'http://own:2'}}, {name: l, cluster: {}}]";
        for (cluster, own) in [("k", Some("http://own:2")), ("l", None)] {
            let context = format!("contexts: [{{name: c, context: {{cluster: {cluster}}}}}]");
            let text = format!("current-context: c\n{context}\n{clusters}\n");
            let mut kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
            assert_eq!(take(&mut kubeconfig).as_ref().map(Named::value), own);
            for named in kubeconfig.clusters {
                assert_eq!(named.cluster.unwrap().proxy_url.as_deref(), Some(UNUSED), "{}", named.name);
            }
        }
    }
}
