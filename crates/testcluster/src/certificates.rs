//! The certificates and keys of one cluster: its authority, the API server's certificate, the key of tokens.
//!
//! All are made before a component starts, so that kubeconfigs can be written at once. Every cluster has its
//! own.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};

use crate::error::Error;

/// The files that kube-apiserver reads, and the authority that its clients trust.
pub(crate) struct Certificates {
    /// The certificate of the authority, for kubeconfigs.
    pub(crate) authority_pem: PathBuf,
    /// The certificate of the authority, for our own client.
    pub(crate) authority_der: Vec<u8>,
    /// The certificate of the API server.
    pub(crate) server_certificate: PathBuf,
    /// Its key.
    pub(crate) server_key: PathBuf,
    /// Signs the tokens of ServiceAccounts.
    pub(crate) account_private_key: PathBuf,
    /// Verifies the tokens of ServiceAccounts.
    pub(crate) account_public_key: PathBuf,
}

impl Certificates {
    /// Makes all of them in `dir`.
    pub(crate) fn make(dir: &Path) -> Result<Certificates, Error> {
        let authority_key = KeyPair::generate()?;
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL, and so curl, takes a certificate for a self-signed one if it has its issuer's name.
        authority.distinguished_name.push(DnType::CommonName, "testcluster authority");
        let authority_certificate = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);

        let server_key = KeyPair::generate()?;
        let mut server =
            CertificateParams::new(["localhost".to_owned(), "kubernetes.default.svc".to_owned()])?;
        server.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        server.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        let server_certificate = server.signed_by(&server_key, &issuer)?;

        let account_key = KeyPair::generate()?;
        let write = |name: &str, text: String| {
            let file = dir.join(name);
            std::fs::write(&file, text).map_err(Error::io(format!("writing {}", file.display())))?;
            Ok::<_, Error>(file)
        };
        Ok(Certificates {
            authority_pem: write("authority.crt", authority_certificate.pem())?,
            authority_der: authority_certificate.der().to_vec(),
            server_certificate: write("server.crt", server_certificate.pem())?,
            server_key: write("server.key", server_key.serialize_pem())?,
            account_private_key: write("accounts.key", account_key.serialize_pem())?,
            account_public_key: write("accounts.pub", account_key.public_key_pem())?,
        })
    }
}
