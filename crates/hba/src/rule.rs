//! pg_hba.conf: which connections a line is for, and by which method these log in. The first line that matches decides.
//!
//! ```text
//!   local                              DATABASE USER                 METHOD [OPTIONS]
//!   host[no]ssl, host[no]gssenc, host  DATABASE USER ADDRESS [MASK]  METHOD [OPTIONS]
//! ```
//!
//! //= pg18 auth-pg-hba-conf

use std::net::IpAddr;
use std::sync::Arc;

use crate::Read;
use crate::address::{Addresses, Interface, only};
use crate::method::{Method, named};
use crate::mistake::{MISTAKES_MAX, Mistake, Wrong, quoted};
use crate::names::{Budget, Names};
use crate::options::Options;
use crate::principals::Principals;
use crate::provider::Provider;
use crate::text::{self, Field, Line};

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Encryption {
    None,
    Tls,
    Gss,
}

/// Which connections the first word of a line is for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Transport {
    Local,
    Host,
    HostSsl,
    HostNoSsl,
    HostGssEnc,
    HostNoGssEnc,
}

const TRANSPORTS: [(&str, Transport); 6] = [
    ("local", Transport::Local),
    ("host", Transport::Host),
    ("hostssl", Transport::HostSsl),
    ("hostnossl", Transport::HostNoSsl),
    ("hostgssenc", Transport::HostGssEnc),
    ("hostnogssenc", Transport::HostNoGssEnc),
];

/// What the rules look at.
#[derive(Copy, Clone, Debug)]
pub struct Connection<'a> {
    pub database: &'a str,
    pub user: &'a str,
    /// The client's; `None`: it came over a Unix socket.
    pub address: Option<IpAddr>,
    pub encryption: Encryption,
    /// Whether it asks for replication without naming a database.
    pub is_replication: bool,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub file: String,
    /// Counted from 1.
    pub line: u32,
    transport: Transport,
    databases: Names,
    users: Names,
    addresses: Addresses,
    pub method: Method,
    pub options: Options,
    /// Of `gss`: which tickets are good. Made here, so that a login has a share of it and no copy.
    pub principals: Option<Arc<Principals>>,
    /// Of `oauth`: whose tokens are good. `None` until [`Rules::with_provider`] has said it, or if that is another issuer.
    pub provider: Option<Arc<Provider>>,
}

/// All lines of the file, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// The first rule that matches. `None`: nobody said that this connection may log in.
    #[must_use]
    pub fn first(&self, connection: &Connection<'_>) -> Option<&Rule> {
        self.0.iter().find(|rule| rule.matches(connection))
    }

    /// The same rules with what their lines of `oauth` make of a provider: a line says for itself what the token has to allow,
    /// and which map counts. To be called again with another provider.
    #[must_use]
    pub fn with_provider(&self, provider: Option<&Provider>) -> Rules {
        let mut rules = self.clone();
        for rule in rules.0.iter_mut().filter(|rule| rule.method == Method::OAuth) {
            let Options { oauth_issuer, oauth_scope, map, .. } = &rule.options;
            let its = provider.filter(|provider| oauth_issuer.as_ref() == Some(&provider.issuer));
            let (scope, map) = (oauth_scope.clone().unwrap_or_default(), map.clone());
            rule.provider = its.map(|its| Arc::new(Provider { scope, map, ..its.clone() }));
        }
        rules
    }

    #[must_use]
    pub fn as_slice(&self) -> &[Rule] {
        &self.0
    }
}

impl Rule {
    /// Whether by this line clients of any address come in without a proof.
    #[must_use]
    pub fn trusts_every_address(&self) -> bool {
        self.method == Method::Trust && self.transport != Transport::Local && self.addresses.are_all()
    }

    fn matches(&self, connection: &Connection<'_>) -> bool {
        let encryption = connection.encryption;
        let by_transport = match (self.transport, connection.address) {
            (Transport::Local, address) => address.is_none(),
            (_, None) => false,
            (Transport::Host, _) => true,
            (Transport::HostSsl, _) => encryption == Encryption::Tls,
            (Transport::HostNoSsl, _) => encryption != Encryption::Tls,
            (Transport::HostGssEnc, _) => encryption == Encryption::Gss,
            (Transport::HostNoGssEnc, _) => encryption != Encryption::Gss,
        };
        by_transport
            && connection.address.is_none_or(|address| self.addresses.has(address))
            && self.databases.has_database(connection.database, connection.user, connection.is_replication)
            && self.users.has_user(connection.user)
    }

    fn read(line: Line, interfaces: &[Interface], budget: &mut Budget) -> Result<Rule, Wrong> {
        let Line { file, number, fields } = line;
        let mut fields = fields.into_iter();
        let expected = "local, host, hostssl, hostnossl, hostgssenc or hostnogssenc";
        let word = only(fields.next(), expected)?;
        let transport = named(&TRANSPORTS, &word.text).ok_or_else(|| Wrong::new(quoted(&word.text), expected))?;
        let databases = Names::databases(names(&mut fields, "databases")?, budget)?;
        let users = Names::users(names(&mut fields, "users")?, budget)?;
        let addresses = match transport {
            Transport::Local => Addresses::All,
            _ => Addresses::take(&mut fields, interfaces)?,
        };
        let method = match Method::read(&only(fields.next(), "a method")?.text)? {
            // As in PostgreSQL.
            Method::Unsupported("ident") if transport == Transport::Local => Method::Peer,
            method => method,
        };
        match (method, transport) {
            (Method::Gss, Transport::Local) => return Err(Wrong::new("gss for local", "another method: it needs TCP")),
            (Method::Cert, Transport::Local) => return Err(Wrong::new("cert for local", "cert on hostssl lines")),
            (Method::Peer, Transport::Local) => {}
            (Method::Peer, _) => return Err(Wrong::new("peer for TCP", "peer on local lines only")),
            _ => {}
        }
        // On a line for all of TCP `cert` refuses who comes without TLS; PgBouncer's files have that.
        let may_have_cert = transport == Transport::HostSsl || method == Method::Cert;
        let options = match method {
            // They say nothing of which connections the line is for.
            Method::Unsupported(_) => Options::default(),
            _ => Options::read(fields.flatten().collect(), method, may_have_cert)?,
        };
        let principals = (method == Method::Gss).then(|| Arc::new(Principals::new(&options)));
        let provider = None;
        Ok(Rule { file, line: number, transport, databases, users, addresses, method, options, principals, provider })
    }
}

/// Reads the file and what it includes. `interfaces` are those of this machine, for samehost and samenet.
///
/// # Errors
/// All that is wrong with it, in the order of its lines: then none of it must be used, since a line that is left out
/// might have been the one that rejects.
pub fn read_rules(name: &str, interfaces: &[Interface], read: &Read) -> Result<Rules, Vec<Mistake>> {
    let (lines, mut mistakes) = text::lines(name, read);
    let mut budget = Budget::default();
    let mut rules = Vec::new();
    for line in lines {
        let (file, number) = (line.file.clone(), line.number);
        match Rule::read(line, interfaces, &mut budget) {
            Ok(rule) => rules.push(rule),
            Err(wrong) => mistakes.push(wrong.at(&file, number)),
        }
        if mistakes.len() >= MISTAKES_MAX {
            break;
        }
    }
    if rules.is_empty() && mistakes.is_empty() {
        // As in PostgreSQL: nobody could log in.
        mistakes
            .push(Wrong::new(format!("{}: no line that says something", quoted(name)), "a line at least").at(name, 0));
    }
    if mistakes.is_empty() { Ok(Rules(rules)) } else { Err(mistakes) }
}

fn names(fields: &mut impl Iterator<Item = Field>, what: &str) -> Result<Field, Wrong> {
    fields.next().ok_or_else(|| Wrong::new("the end of the line", what))
}
