//! The method of a login: by auth_type, or by the first line of auth_hba_file that matches.
//!
//! ```text
//!   auth_type ─┬─ any, trust, plain, md5, scram-sha-256, peer, ldap, oauth, pam
//!              └─ hba ─▶ facts about the connection ─▶ the line's method, or a refusal in PostgreSQL's words
//! ```
//!
//! Promises that what is decided here depends on names and addresses alone, never on whether the user exists. Does not
//! check passwords: `proof` does.
//!
//! //= pg18 auth-pg-hba-conf

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use hba::{ClientCert, ClientName, Connection, Encryption};
use machine::observe::Peer;
use machine::{CertificateNames, Outside, Secured, Settings};
use settings::{AuthType, Words};
use units::names::shown;

use super::Refused;
use super::startup::Wish;

//= pgbouncer config.md#auth_type
/// The service of PAM that `auth_type = pam` asks, as in PgBouncer.
const PAM_SERVICE: &str = "pgbouncer";
//= pg18 auth-pam
/// The one that a line of auth_hba_file asks without `pamservice=`, as in PostgreSQL.
const PAM_SERVICE_OF_LINES: &str = "postgresql";

/// How a login has to prove who it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Method {
    /// Not at all, and the user need not be known.
    Any,
    /// Not at all, or it has been proved before: only the user must be known.
    Trust,
    /// By the password in clear text.
    Clear,
    /// By MD5, or by SCRAM where the stored secret is a SCRAM verifier.
    Md5,
    Scram,
    /// By the password in clear text, by a token or by a ticket, which others check.
    Outside(Outside),
}

/// What the choice of the method looks at.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) settings: &'a Settings,
    pub(super) system_users: &'a SystemUsers,
    pub(super) peer: Peer,
    /// If its bytes come inside TLS.
    pub(super) encryption: Option<&'a Secured>,
    pub(super) wish: &'a Wish,
}

impl Facts<'_> {
    /// The method, or why the login ends here.
    pub(super) fn method(&self) -> Result<Method, Refused> {
        match self.settings.auth_type(&self.wish.database) {
            AuthType::Any => Ok(Method::Any),
            AuthType::Trust => Ok(Method::Trust),
            AuthType::Plain => Ok(Method::Clear),
            AuthType::Md5 => Ok(Method::Md5),
            AuthType::Scram => Ok(Method::Scram),
            AuthType::Peer => self.by_system_user(None),
            AuthType::Cert => self.by_certificate(None, ClientName::CommonName),
            AuthType::Hba => self.by_rules(),
            AuthType::Ldap => self.by_share(self.settings.vouchers.ldap.as_ref(), Outside::Ldap),
            AuthType::OAuth => self.by_share(self.settings.vouchers.provider.as_ref(), Outside::OAuth),
            AuthType::Pam => Ok(by_modules(PAM_SERVICE)),
        }
    }

    fn by_rules(&self) -> Result<Method, Refused> {
        let connection = Connection {
            database: &self.wish.database,
            user: &self.wish.user,
            address: self.address(),
            encryption: if self.encryption.is_some() { Encryption::Tls } else { Encryption::None },
            is_replication: self.wish.replicates_cluster(),
        };
        let Some(rule) = self.settings.hba.first(&connection) else {
            return Err(self.refused(false));
        };
        let options = &rule.options;
        if options.client_cert.is_some() && self.certificate().is_none() {
            return Err(Refused::NoCertificate);
        }
        if options.client_cert == Some(ClientCert::VerifyFull) && rule.method != hba::Method::Cert {
            self.by_certificate(options.map.as_deref(), options.client_name)?;
        }
        match rule.method {
            hba::Method::Cert => self.by_certificate(options.map.as_deref(), options.client_name),
            hba::Method::Trust => Ok(Method::Trust),
            hba::Method::Reject | hba::Method::Unsupported(_) => Err(self.refused(true)),
            hba::Method::Password => Ok(Method::Clear),
            hba::Method::Md5 => Ok(Method::Md5),
            hba::Method::Scram => Ok(Method::Scram),
            hba::Method::Peer => self.by_system_user(rule.options.map.as_deref()),
            hba::Method::Ldap => self.by_share(options.ldap.as_ref(), Outside::Ldap),
            hba::Method::OAuth => self.by_share(rule.provider.as_ref(), Outside::OAuth),
            hba::Method::Pam => match &options.pam_service {
                Some(service) => Ok(Method::Outside(Outside::Pam(Arc::clone(service)))),
                None => Ok(by_modules(PAM_SERVICE_OF_LINES)),
            },
            hba::Method::Gss => self.by_share(rule.principals.as_ref(), Outside::Gss),
        }
    }

    //= pg18 auth-peer
    fn by_system_user(&self, map: Option<&str>) -> Result<Method, Refused> {
        let name = match self.peer {
            Peer::Unix { uid, .. } => self.system_users.name(uid),
            Peer::Tcp { .. } => None,
        };
        let is_allowed = name.is_some_and(|name| self.settings.ident.allow(map, name, &self.wish.user));
        if is_allowed { Ok(Method::Trust) } else { Err(self.failed("Peer", Refused::UnixLoginRejected)) }
    }

    fn certificate(&self) -> Option<&CertificateNames> {
        self.encryption.and_then(|secured| secured.certificate.as_ref())
    }

    /// The name in its certificate has to be the user's, or one that the map lets be that user.
    //= pg18 auth-cert
    fn by_certificate(&self, map: Option<&str>, which: ClientName) -> Result<Method, Refused> {
        let name = self.certificate().and_then(|names| match which {
            ClientName::CommonName => names.common_name.as_deref(),
            ClientName::DistinguishedName => Some(&*names.distinguished_name).filter(|name| !name.is_empty()),
        });
        let is_allowed = name.is_some_and(|name| self.settings.ident.allow(map, name, &self.wish.user));
        if is_allowed { Ok(Method::Trust) } else { Err(self.failed("certificate", Refused::CertificateFailed)) }
    }

    /// Who others ask, and how. It was made when the file was read: of a login it is a share and no copy, so it weighs nothing. A
    /// file that lacks it, or names another issuer, is refused when it is read.
    fn by_share<T>(&self, whole: Option<&Arc<T>>, outside: fn(Arc<T>) -> Outside) -> Result<Method, Refused> {
        let whole = whole.ok_or_else(|| self.unbuilt())?;
        Ok(Method::Outside(outside(Arc::clone(whole))))
    }

    fn address(&self) -> Option<IpAddr> {
        address(self.peer)
    }

    /// PostgreSQL's words for who may not come in. `by_line`: a line of the file rejects it; otherwise there is no line for it.
    fn refused(&self, by_line: bool) -> Refused {
        if self.settings.global.login.words == Words::PgBouncer {
            return Refused::LoginRejected;
        }
        let host = self.address().map_or_else(|| "[local]".to_owned(), |address| address.to_string());
        let (user, database) = (shown(&self.wish.user), shown(&self.wish.database));
        let encryption = if self.encryption.is_some() { "SSL encryption" } else { "no encryption" };
        let client = match (self.wish.replicates_cluster(), by_line) {
            (true, true) => format!("replication connection for host \"{host}\", user \"{user}\", {encryption}"),
            (true, false) => format!("replication connection from host \"{host}\", user \"{user}\", {encryption}"),
            (false, true) => {
                format!("connection for host \"{host}\", user \"{user}\", database \"{database}\", {encryption}")
            }
            (false, false) => format!("host \"{host}\", user \"{user}\", database \"{database}\", {encryption}"),
        };
        if by_line { Refused::HbaRejects { client } } else { Refused::NoHbaEntry { client } }
    }

    /// Where the file that was read is ahead of what there is.
    fn unbuilt(&self) -> Refused {
        Refused::ConfigError
    }

    fn failed(&self, method: &'static str, pgbouncer: Refused) -> Refused {
        match self.settings.global.login.words {
            Words::PostgreSql => Refused::NotConfirmed { method, user: shown(&self.wish.user).to_string() },
            Words::PgBouncer => pgbouncer,
        }
    }
}

fn by_modules(service: &str) -> Method {
    Method::Outside(Outside::Pam(service.into()))
}

/// Where a client comes from, if not over a Unix socket.
pub(super) fn address(peer: Peer) -> Option<IpAddr> {
    match peer {
        Peer::Tcp { from, .. } => Some(from.ip().to_canonical()),
        Peer::Unix { .. } => None,
    }
}

/// So many are kept; with more of them all are asked for anew.
const SYSTEM_USERS_MAX: usize = 1000;

/// The names of system users who have come over a Unix socket, as far as some method asks for them.
#[derive(Debug, Default)]
pub struct SystemUsers {
    is_used: bool,
    /// Clients of this uid, under which the process runs, are the console's admin without a password.
    pub(super) owner: Option<u32>,
    /// `None`: the system has no name for it.
    names: BTreeMap<u32, Option<Arc<str>>>,
}

impl SystemUsers {
    /// New settings: names may have changed since they were asked for.
    pub(super) fn configure(&mut self, settings: &Settings) {
        let by_rule = settings.hba.as_slice().iter().any(|rule| rule.method == hba::Method::Peer);
        self.is_used = settings.uses(AuthType::Peer) || settings.uses(AuthType::Hba) && by_rule;
        self.names.clear();
    }

    /// Lets user `pgbouncer` over a Unix socket from this uid be the console's admin.
    pub fn set_owner(&mut self, uid: u32) {
        self.owner = Some(uid);
    }

    /// Whether the name of this user decides about logins and was not told since the last reload.
    #[must_use]
    pub fn is_needed(&self, uid: u32) -> bool {
        self.is_used && !self.names.contains_key(&uid)
    }

    /// The system's name for a user; `None`: it has none.
    pub fn learn(&mut self, uid: u32, name: Option<Arc<str>>) {
        if self.names.len() >= SYSTEM_USERS_MAX {
            self.names.clear();
        }
        self.names.insert(uid, name);
    }

    fn name(&self, uid: u32) -> Option<&str> {
        self.names.get(&uid).and_then(|name| name.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::super::startup::tests::read;
    use super::*;

    /// The methods of two logins.
    fn twice(settings: &Settings) -> [Outside; 2] {
        let wish = read(&[("user", "ann"), ("database", "shop")], |_| ()).expect("it asks for nothing else");
        let peer = Peer::Tcp { from: ([10, 0, 0, 1], 1).into(), to: ([10, 0, 0, 2], 2).into() };
        let system_users = SystemUsers::default();
        [(); 2].map(|()| {
            let facts = Facts { settings, system_users: &system_users, peer, encryption: None, wish: &wish };
            match facts.method() {
                Ok(Method::Outside(outside)) => outside,
                other => panic!("{other:?}"),
            }
        })
    }

    #[test]
    fn logins_share_what_the_file_says() {
        let mut settings = Settings::default();
        settings.global.login.auth_type = AuthType::Hba;
        let provider =
            hba::read_provider("issuer=https://a audience=b jwks=/keys scope=all map=its").expect("it is one");
        settings.vouchers.provider = Some(Arc::new(provider));
        let mut with = |line: &str| {
            let read = hba::read_rules("hba", &[], &|_| Ok(format!("host all all all {line}").into_bytes()));
            settings.hba = Arc::new(read.expect("a good line"));
            settings.join_rules_and_provider();
            twice(&settings)
        };
        match with("oauth issuer=https://a scope=some") {
            [Outside::OAuth(one), Outside::OAuth(other)] => {
                assert!(Arc::ptr_eq(&one, &other));
                assert_eq!((&*one.scope, &one.map), ("some", &None), "the line says both for itself");
            }
            other => panic!("{other:?}"),
        }
        match with("gss krb_realm=A") {
            [Outside::Gss(one), Outside::Gss(other)] => assert!(Arc::ptr_eq(&one, &other)),
            other => panic!("{other:?}"),
        }
        match with("pam pamservice=shop") {
            [Outside::Pam(one), Outside::Pam(other)] => assert!(Arc::ptr_eq(&one, &other)),
            other => panic!("{other:?}"),
        }
    }
}
