//! The parameters of a connection, from the URL and from the environment, and what each of them does here.
//!
//! Promises that a parameter that asks for what is not supported yet is refused rather than passed over.
//= pg18 libpq-connect#LIBPQ-PARAMKEYWORDS

use std::collections::BTreeMap;

use connections::databases::TargetSessionAttrs;

use super::{connect_timeout, wrong};
use crate::problem::{Place, Problem, quoted};
use ::settings::Key;
use ::settings::value::Value;

/// Parameters by libpq's names; none is empty.
#[derive(Default)]
pub(super) struct Parameters(BTreeMap<String, String>);

/// What libpq would take from the environment.
//= pg18 libpq-envars
pub const VARIABLES: [(&str, &str); 18] = [
    // Before the host, since the environment's address belongs to the environment's host.
    ("hostaddr", "PGHOSTADDR"),
    ("host", "PGHOST"),
    ("port", "PGPORT"),
    ("dbname", "PGDATABASE"),
    ("user", "PGUSER"),
    ("password", "PGPASSWORD"),
    ("application_name", "PGAPPNAME"),
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("client_encoding", "PGCLIENTENCODING"),
    ("sslmode", "PGSSLMODE"),
    ("sslnegotiation", "PGSSLNEGOTIATION"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcrl", "PGSSLCRL"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
    ("channel_binding", "PGCHANNELBINDING"),
    ("max_protocol_version", "PGMAXPROTOCOLVERSION"),
    ("target_session_attrs", "PGTARGETSESSIONATTRS"),
];

/// Handled one by one below or by the caller.
const KNOWN: [&str; 31] = [
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "fallback_application_name",
    "client_encoding",
    "connect_timeout",
    "load_balance_hosts",
    "target_session_attrs",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "sslcrl",
    "sslcrldir",
    "sslcert",
    "sslkey",
    "sslpassword",
    "gssencmode",
    "channel_binding",
    "max_protocol_version",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "tcp_user_timeout",
    "options",
    "service",
    "passfile",
];

/// They say more about a connection by TLS or Kerberos, and `sslmode` and `gssencmode` decide whether there is one.
const MOOT: [&str; 9] = [
    "sslsni",
    "sslcertmode",
    "sslcompression",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
    "krbsrvname",
    "gsslib",
    "gssdelegation",
    "min_protocol_version",
];

/// What may be asked for, where only some of it can be given.
const ALLOWED: [(&str, &[&str]); 3] = [
    ("gssencmode", &["disable", "prefer"]),
    ("target_session_attrs", TargetSessionAttrs::NAMES),
    ("load_balance_hosts", &["disable", "random"]),
];

/// Only their absence is supported.
const REFUSED: [(&str, &str); 5] = [
    ("sslcrldir", "sslcrl with one file: directories are not supported"),
    ("sslpassword", "nothing, and a key that is not encrypted: passphrases are not supported"),
    ("options", "nothing: it is not supported yet"),
    ("service", "host, port and the rest in the URL: service files are not supported yet"),
    ("passfile", "nothing: name the file in PGPASSFILE"),
];

impl Parameters {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Empty means not given, as in libpq.
    pub(super) fn set_from_url(&mut self, name: &str, value: String) -> Result<(), Problem> {
        // Java's way of asking for TLS, which libpq knows too.
        let (name, value) = match (name, value.as_str()) {
            ("ssl", "true") => ("sslmode", "require".to_owned()),
            _ => (name, value),
        };
        if MOOT.contains(&name) || value.is_empty() {
            return Ok(());
        }
        if !KNOWN.contains(&name) {
            return Err(Problem::unknown(&Place::default(), name, "a parameter of libpq's", &KNOWN));
        }
        self.0.insert(name.to_owned(), value);
        Ok(())
    }

    pub(super) fn fill_from(&mut self, env: &dyn Fn(&str) -> Option<String>) {
        for (name, variable) in VARIABLES {
            // An address of another host than the URL's would send the password there.
            let is_elsewhere = name == "hostaddr" && self.0.contains_key("host");
            if is_elsewhere || self.0.contains_key(name) {
                continue;
            }
            if let Some(value) = env(variable).filter(|value| !value.is_empty()) {
                self.0.insert(name.to_owned(), value);
            }
        }
    }

    /// Hands on what settings exist for, and refuses what cannot be done.
    pub(super) fn apply(&self, set: &mut impl FnMut(Key, &str)) -> Result<(), Problem> {
        for (name, allowed) in ALLOWED {
            let value = self.get(name).filter(|value| !allowed.contains(value));
            if let Some(value) = value {
                let rest = if name == "target_session_attrs" { "" } else { ": the others are not supported yet" };
                let expected = format!("{}{rest}", ::settings::value::one_of(allowed));
                return Err(wrong(name, &quoted(value), &expected));
            }
        }
        for (name, expected) in REFUSED {
            if self.get(name).is_some() {
                return Err(wrong(name, "a value", expected));
            }
        }
        if let Some(text) = self.get("connect_timeout") {
            let time = connect_timeout(text)
                .ok_or_else(|| wrong("connect_timeout", &quoted(text), "a whole number of seconds"))?;
            set(Key::server_connect_timeout, &Value::Time(time).show());
        }
        for (name, key) in [
            ("sslmode", Key::server_tls_sslmode),
            ("sslnegotiation", Key::server_tls_sslnegotiation),
            ("sslrootcert", Key::server_tls_ca_file),
            ("sslcrl", Key::server_tls_crl_file),
            ("sslcert", Key::server_tls_cert_file),
            ("sslkey", Key::server_tls_key_file),
            ("channel_binding", Key::server_channel_binding),
            ("max_protocol_version", Key::server_max_protocol_version),
        ] {
            let Some(text) = self.get(name) else { continue };
            if name == "sslrootcert" && text == "system" {
                //= pg18 libpq-connect#LIBPQ-CONNECT-SSLROOTCERT
                match self.get("sslmode") {
                    None => set(Key::server_tls_sslmode, "verify-full"),
                    Some("verify-full") => {}
                    Some(_) => return Err(wrong(name, &quoted(text), "sslmode=verify-full too, as libpq does")),
                }
                continue;
            }
            key.setting().kind.read(text).map_err(|expected| wrong(name, &quoted(text), &expected))?;
            set(key, text);
        }
        let numbers = [
            ("keepalives", Key::tcp_keepalive),
            ("keepalives_idle", Key::tcp_keepidle),
            ("keepalives_interval", Key::tcp_keepintvl),
            ("keepalives_count", Key::tcp_keepcnt),
            ("tcp_user_timeout", Key::tcp_user_timeout),
        ];
        for (name, key) in numbers {
            let Some(text) = self.get(name) else { continue };
            let kind = key.setting().kind;
            kind.read(text).map_err(|expected| wrong(name, &quoted(text), &expected))?;
            set(key, text);
        }
        Ok(())
    }

    /// The parameters that are sent to the server when a connection starts.
    pub(super) fn startup(&self) -> Vec<(String, String)> {
        let application = self.get("application_name").or(self.get("fallback_application_name"));
        // `auto` is the client's locale, and the clients bring their own.
        let encoding = self.get("client_encoding").filter(|encoding| *encoding != "auto");
        [("application_name", application), ("client_encoding", encoding)]
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect()
    }
}
