//! `injector.sh`: the IPs and addresses of all Tasks as variables of the shell that sources it.
//!
//! It can run no commands of the Framework's author: names of TaskRoles are letters and digits, and addresses
//! were parsed.

use std::fmt::Write as _;
use std::net::IpAddr;

use framework_api::name::is_dns_word;

use crate::addresses::{Addresses, Role};

/// The limit of Linux for one variable of a process, name and value together.
const VARIABLE_LIMIT: usize = 128 << 10;

/// A TaskRole whose name cannot be part of the name of a variable.
#[derive(Debug, thiserror::Error)]
#[error("the TaskRole {0:?} cannot be named in a shell: only lower-case letters and digits may be in a name")]
pub struct BadName(String);

/// The script. All `_IPS` come before all `_ADDRESSES`.
pub fn render(addresses: &Addresses) -> Result<String, BadName> {
    if let Some(role) = addresses.roles.iter().find(|role| !is_dns_word(&role.name)) {
        return Err(BadName(role.name.clone()));
    }
    let mut script = String::from(
        "#!/bin/sh\n# Made by frameworkbarrier, to be sourced. Each FB_{ROLE}_PORT is the caller's to set.\n",
    );
    for role in &addresses.roles {
        export(&mut script, &role_variable(role, "IPS"), &ips(role));
    }
    for role in &addresses.roles {
        export(&mut script, &role_variable(role, "ADDRESSES"), &ips_with_port(role));
    }
    Ok(script)
}

/// The variables of the script that are too long for a process to inherit.
pub fn too_long(addresses: &Addresses) -> Vec<String> {
    let long = |role: &Role| {
        let name = role_variable(role, "ADDRESSES");
        // A port has up to five digits.
        let length: usize = role.ips.iter().map(|ip| address(*ip, "65535").len() + 1).sum();
        (name.len() + 1 + length > VARIABLE_LIMIT).then_some(name)
    };
    addresses.roles.iter().filter_map(long).collect()
}

fn export(script: &mut String, name: &str, value: &str) {
    // Writing to a string does not fail.
    let _ = write!(script, "export {name}=\"{value}\"\necho \"{name}=${{{name}}}\"\n");
}

fn role_variable(role: &Role, kind: &str) -> String {
    format!("FB_{}_{kind}", role.name.to_ascii_uppercase())
}

fn ips(role: &Role) -> String {
    let all: Vec<String> = role.ips.iter().map(IpAddr::to_string).collect();
    all.join(",")
}

fn ips_with_port(role: &Role) -> String {
    let port = format!("${{{}}}", role_variable(role, "PORT"));
    let all: Vec<String> = role.ips.iter().map(|ip| address(*ip, &port)).collect();
    all.join(",")
}

fn address(ip: IpAddr, port: &str) -> String {
    match ip {
        IpAddr::V4(ip) => format!("{ip}:{port}"),
        // RFC 3986, section 3.2.2: without the brackets the start of the port would be ambiguous.
        IpAddr::V6(ip) => format!("[{ip}]:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(roles: &[(&str, &[&str])]) -> Addresses {
        let role = |(name, ips): &(&str, &[&str])| Role {
            name: (*name).to_owned(),
            ips: ips.iter().map(|ip| ip.parse().unwrap()).collect(),
        };
        Addresses { roles: roles.iter().map(role).collect() }
    }

    #[test]
    fn ips_come_before_addresses_and_names_are_in_capitals() {
        let script =
            render(&addresses(&[("server", &["10.0.0.1", "10.0.0.2"]), ("w2", &["10.0.0.3"])])).unwrap();
        let expected = "\
export FB_SERVER_IPS=\"10.0.0.1,10.0.0.2\"
echo \"FB_SERVER_IPS=${FB_SERVER_IPS}\"
export FB_W2_IPS=\"10.0.0.3\"
echo \"FB_W2_IPS=${FB_W2_IPS}\"
export FB_SERVER_ADDRESSES=\"10.0.0.1:${FB_SERVER_PORT},10.0.0.2:${FB_SERVER_PORT}\"
echo \"FB_SERVER_ADDRESSES=${FB_SERVER_ADDRESSES}\"
export FB_W2_ADDRESSES=\"10.0.0.3:${FB_W2_PORT}\"
echo \"FB_W2_ADDRESSES=${FB_W2_ADDRESSES}\"
";
        assert!(script.starts_with("#!/bin/sh\n"), "{script}");
        assert!(script.ends_with(expected), "{script}");
    }

    #[test]
    fn an_address_of_ipv6_stands_in_brackets() {
        let script = render(&addresses(&[("a", &["fd00::1"])])).unwrap();
        assert!(script.contains("FB_A_IPS=\"fd00::1\"") && script.contains("=\"[fd00::1]:${FB_A_PORT}\""));
    }

    #[test]
    fn a_name_that_could_say_more_is_refused() {
        for name in ["a;reboot", "A", "", "a-b", "a$b", "a\nb"] {
            let error = render(&addresses(&[("good", &[]), (name, &[])])).unwrap_err();
            assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
        }
    }

    #[test]
    fn variables_beyond_the_limit_of_linux_are_named() {
        let ips = vec!["10.100.100.100"; 10_000];
        assert_eq!(too_long(&addresses(&[("a", &ips), ("b", &ips[..5_000])])), ["FB_A_ADDRESSES"]);
    }
}
