//! Certificates for tests: a CA of their own, and what it signs.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DistinguishedName, DnType,
    IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};

use crate::stage::{Stage, Wishes};

/// A CA, and a folder for what it signs. It belongs to whoever PostgreSQL and the program run as.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: PathBuf,
}

/// How a CA signs.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Signature {
    /// ECDSA with SHA-256.
    Sha256,
    /// ECDSA with SHA-384.
    Sha384,
    /// Ed25519, which names no hash.
    Ed25519,
}

impl Authority {
    /// Its own certificate is `ca.crt`.
    ///
    /// # Panics
    /// If there is one of this name already.
    #[must_use]
    pub fn new(stage: &Stage, name: &str) -> Self {
        Self::signing_by(stage, name, Signature::Sha256)
    }

    /// One that signs in this way.
    ///
    /// # Panics
    /// As [`Authority::new`].
    #[must_use]
    pub fn signing_by(stage: &Stage, name: &str, signature: Signature) -> Self {
        let dir = stage.cluster.data().join(name);
        fs::create_dir(&dir).expect("a fresh cluster");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = common_name(name);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate_for(match signature {
            Signature::Sha256 => &rcgen::PKCS_ECDSA_P256_SHA256,
            Signature::Sha384 => &rcgen::PKCS_ECDSA_P384_SHA384,
            Signature::Ed25519 => &rcgen::PKCS_ED25519,
        });
        let issuer = CertifiedIssuer::self_signed(params, key.expect("a key")).expect("a CA");
        let authority = Self { issuer, dir };
        authority.own(&authority.dir);
        authority.write("ca.crt", &authority.issuer.pem());
        authority
    }

    /// Gives a file to the owner of the cluster's data.
    fn own(&self, path: &Path) {
        let data = fs::metadata(self.dir.parent().expect("the data")).expect("it is there");
        chown(path, Some(data.uid()), Some(data.gid())).expect("we are root or its owner");
    }

    /// Writes a file that only its owner reads.
    ///
    /// # Panics
    /// If the folder is gone.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.dir.join(name);
        fs::write(&path, text).expect("our own folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("our own file");
        self.own(&path);
    }

    /// Makes `FILE.key` and signs `FILE.crt` with this common name, for these hosts.
    ///
    /// # Panics
    /// If a host is no name.
    pub fn sign(&self, file: &str, common: &str, hosts: &[&str]) {
        self.issue(file, params(common, hosts));
    }

    /// The same, valid until long ago.
    ///
    /// # Panics
    /// As [`Authority::sign`].
    pub fn sign_expired(&self, file: &str, common: &str, hosts: &[&str]) {
        let mut params = params(common, hosts);
        (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
        self.issue(file, params);
    }

    /// The same, and takes it back: the list of what was taken back, `revoked.crl`, names it alone.
    ///
    /// # Panics
    /// As [`Authority::sign`].
    pub fn sign_and_revoke(&self, file: &str, common: &str, hosts: &[&str]) {
        let mut params = params(common, hosts);
        let serial = SerialNumber::from(4711_u64);
        params.serial_number = Some(serial.clone());
        self.issue(file, params);
        let revoked = RevokedCertParams {
            serial_number: serial,
            revocation_time: date_time_ymd(2001, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2001, 1, 1),
            next_update: date_time_ymd(2200, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).expect("signed");
        self.write("revoked.crl", &list.pem().expect("text"));
    }

    /// The same, signed by its own key instead.
    ///
    /// # Panics
    /// As [`Authority::sign`].
    pub fn sign_by_itself(&self, file: &str, common: &str, hosts: &[&str]) {
        let key = KeyPair::generate().expect("a key");
        let certificate = params(common, hosts).self_signed(&key).expect("signed");
        self.write(&format!("{file}.crt"), &certificate.pem());
        self.write(&format!("{file}.key"), &key.serialize_pem());
    }

    fn issue(&self, file: &str, params: CertificateParams) {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        self.write(&format!("{file}.crt"), &certificate.pem());
        self.write(&format!("{file}.key"), &key.serialize_pem());
    }

    /// Writes a key that was signed for once more, as Java reads it: `FILE.pk8`.
    ///
    /// # Panics
    /// If there is none.
    pub fn write_pk8(&self, file: &str) {
        let text = fs::read_to_string(self.dir.join(format!("{file}.key"))).expect("it was signed");
        let key = KeyPair::from_pem(&text).expect("our own key");
        let path = self.dir.join(format!("{file}.pk8"));
        fs::write(&path, key.serialize_der()).expect("our own folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("our own file");
        self.own(&path);
    }

    /// Where a file lies.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }
}

fn params(common: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("names");
    params.distinguished_name = common_name(common);
    params
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

impl Stage {
    /// One whose PostgreSQL has TLS and the user `ann` (password `right`), and the CA that has signed its certificate for
    /// localhost, and one for a pooler there.
    ///
    /// # Panics
    /// If either does not come up.
    #[must_use]
    pub fn encrypted() -> (Self, Authority) {
        Self::encrypted_by(Signature::Sha256)
    }

    /// The same, with a CA that signs in this way.
    ///
    /// # Panics
    /// If either does not come up.
    #[must_use]
    pub fn encrypted_by(signature: Signature) -> (Self, Authority) {
        let stage = Self::set(&Wishes::default());
        let authority = stage.encrypt(signature);
        (stage, authority)
    }

    /// Turns TLS on in its PostgreSQL, which knows `ann` (password `right`) from now on, with certificates of the CA that is returned: for
    /// localhost, and one for a pooler there.
    ///
    /// # Panics
    /// If PostgreSQL refuses.
    #[must_use]
    pub fn encrypt(&self, signature: Signature) -> Authority {
        let stage = self;
        let authority = Authority::signing_by(stage, "ours", signature);
        authority.sign("server", "postgres", &["localhost"]);
        authority.sign("pooler", "pgweir", &["localhost", "127.0.0.1"]);
        let files = [("ssl_cert_file", "server.crt"), ("ssl_key_file", "server.key"), ("ssl_ca_file", "ca.crt")];
        for (name, file) in files {
            let _ = stage.direct(&format!("alter system set {name} = '{}'", authority.path(file)));
        }
        let _ = stage.direct("alter system set ssl = on");
        assert_eq!(stage.direct("select pg_reload_conf()"), "t");
        let _ = stage.direct("create role ann login password 'right'");
        authority
    }
}
