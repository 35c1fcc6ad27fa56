//! `name=value` behind the method of a rule.
//!
//! Promises that an option stands only where PostgreSQL takes it, and that no message or `Debug` repeats a password. What
//! LDAP's options come to is `directory`'s to say.
//!
//! //= pg18 auth-pg-hba-conf

use std::sync::Arc;

use crate::directory::{Directory, LDAP, Secret};
use crate::method::Method;
use crate::mistake::{Wrong, quoted};
use crate::text::Word;

/// What the client's certificate must be, besides the method.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ClientCert {
    /// Signed by one of ours.
    VerifyCa,
    /// That, and its name is the user's, by the map if there is one.
    VerifyFull,
}

/// Which name of a certificate counts.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientName {
    #[default]
    CommonName,
    /// The whole subject, as RFC 2253 writes it.
    DistinguishedName,
}

/// What a rule says besides its method.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// The map of pg_ident.conf. `None`: the system user's name must be the user's.
    pub map: Option<String>,
    pub client_cert: Option<ClientCert>,
    pub client_name: ClientName,
    /// Who checks the password, of `ldap`.
    pub ldap: Option<Arc<Directory>>,
    pub pam_service: Option<Arc<str>>,
    pub pam_use_hostname: bool,
    pub oauth_issuer: Option<String>,
    pub oauth_scope: Option<String>,
    pub oauth_validator: Option<String>,
    pub oauth_delegates_map: bool,
    /// Whether a Kerberos name keeps its realm.
    pub include_realm: Option<bool>,
    pub krb_realm: Option<String>,
}

/// The methods that an option belongs to; `None`: there is no such option.
fn methods_of(name: &str) -> Option<&'static [Method]> {
    Some(match name {
        "map" => &[Method::Peer, Method::Cert, Method::Gss, Method::OAuth],
        "pamservice" | "pam_use_hostname" => &[Method::Pam],
        "issuer" | "scope" | "validator" | "delegate_ident_mapping" => &[Method::OAuth],
        "include_realm" | "krb_realm" => &[Method::Gss],
        _ => return LDAP.iter().any(|(known, _)| *known == name).then_some(&[Method::Ldap]),
    })
}

impl Options {
    /// `may_have_cert`: of a rule that matches encrypted connections only.
    pub(crate) fn read(words: Vec<Word>, method: Method, may_have_cert: bool) -> Result<Options, Wrong> {
        let mut options = Options::default();
        if method == Method::Cert {
            options.client_cert = Some(ClientCert::VerifyFull);
        }
        let mut ldap = Vec::new();
        for word in words {
            let Some((name, value)) = word.text.split_once('=') else {
                // It may be a part of a password.
                return Err(Wrong::new(
                    "a word without =",
                    "options as name=value, in double quotes if blanks are in it",
                ));
            };
            let is_of_cert = matches!(name, "clientcert" | "clientname");
            let belongs = if is_of_cert { may_have_cert } else { is_of(name, method)? };
            if !belongs {
                let expected = if is_of_cert { "it on hostssl lines only" } else { "options of its method only" };
                return Err(Wrong::new(format!("option {name}"), expected));
            }
            match LDAP.iter().find(|(known, _)| *known == name) {
                Some((_, word)) => ldap.push((*word, Secret(value.to_owned()))),
                None => options.set(name, value, method)?,
            }
        }
        if method == Method::Ldap {
            options.ldap = Some(Arc::new(Directory::read(&ldap)?));
        }
        options.check(method)?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str, method: Method) -> Result<(), Wrong> {
        let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match name {
            "map" => self.map = text(),
            "clientcert" => self.client_cert = Some(client_cert(value, method)?),
            "clientname" => {
                self.client_name = match value {
                    "CN" => ClientName::CommonName,
                    "DN" => ClientName::DistinguishedName,
                    _ => return Err(Wrong::new(quoted(value), "clientname=CN or clientname=DN")),
                }
            }
            "pamservice" => self.pam_service = text().map(Into::into),
            "pam_use_hostname" => self.pam_use_hostname = value == "1",
            "issuer" => self.oauth_issuer = text(),
            "scope" => self.oauth_scope = text(),
            "validator" => self.oauth_validator = text(),
            "delegate_ident_mapping" => self.oauth_delegates_map = value == "1",
            "include_realm" => self.include_realm = Some(value == "1"),
            "krb_realm" => self.krb_realm = text(),
            _ => unreachable!("an option that no other method has is one of LDAP's"),
        }
        Ok(())
    }

    /// What PostgreSQL refuses to see together or to miss.
    fn check(&self, method: Method) -> Result<(), Wrong> {
        if method == Method::OAuth && (self.oauth_issuer.is_none() || self.oauth_scope.is_none()) {
            return Err(Wrong::new("oauth without both of them", "issuer= and scope= behind it"));
        }
        if self.oauth_delegates_map && self.map.is_some() {
            return Err(Wrong::new("map= beside delegate_ident_mapping=1", "one of them"));
        }
        Ok(())
    }
}

fn is_of(name: &str, method: Method) -> Result<bool, Wrong> {
    let methods = methods_of(name);
    methods.map(|methods| methods.contains(&method)).ok_or_else(|| {
        Wrong::new(
            format!("option {}", quoted(name)),
            "map, clientcert, clientname, include_realm, krb_realm, or one of ldap, pam and oauth",
        )
    })
}

fn client_cert(value: &str, method: Method) -> Result<ClientCert, Wrong> {
    match value {
        "verify-full" => Ok(ClientCert::VerifyFull),
        "verify-ca" if method == Method::Cert => {
            Err(Wrong::new("clientcert=verify-ca", "verify-full, or nothing: cert always compares the name"))
        }
        "verify-ca" => Ok(ClientCert::VerifyCa),
        _ => Err(Wrong::new(quoted(value), "clientcert=verify-ca or clientcert=verify-full")),
    }
}
