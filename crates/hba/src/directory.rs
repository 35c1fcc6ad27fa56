//! A directory server and how to find a user in it: what the options of `ldap` come to.
//!
//! ```text
//!   ldapprefix + user + ldapsuffix ─────────────────────────────▶ bind with the user's password
//!   ldapbinddn, or anonymous ─▶ search below ldapbasedn ─▶ the one entry's name ─▶ the same
//! ```
//!
//! Promises that an option with a value that cannot be kept is a mistake, and that no message or `Debug` repeats a
//! password. Does not talk to anybody.
//!
//! //= pg18 auth-ldap

use std::fmt;

use crate::mistake::{Wrong, quoted};
use crate::text;

/// Servers that one line may name; a login tries them one after the other.
const SERVERS_MAX: usize = 16;

/// Where a directory is and how a user is found in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// In the order in which they are tried.
    pub servers: Vec<String>,
    pub port: u16,
    pub protection: Protection,
    pub lookup: Lookup,
}

/// How what is said to the server is kept from others.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    #[default]
    None,
    /// TLS after a request for it.
    StartTls,
    /// TLS from the first byte: `ldaps`.
    Tls,
}

/// How a user's name becomes the name of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It stands between these two.
    Between {
        prefix: String,
        suffix: String,
    },
    Search(Search),
}

/// How a user's entry is searched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    pub base: String,
    pub scope: Scope,
    /// With `$username` where the user's name belongs.
    pub filter: String,
    /// Who searches, and with which password; `None`: anybody may.
    pub account: Option<(String, Secret)>,
}

/// How far below its base a search goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Base,
    One,
    Subtree,
}

/// An option of `ldap`, by its name without these four letters.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LdapWord {
    Url,
    Scheme,
    Server,
    Port,
    Tls,
    Prefix,
    Suffix,
    BaseDn,
    BindDn,
    BindPassword,
    SearchAttribute,
    SearchFilter,
}

/// Text that may be a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

pub(crate) const LDAP: [(&str, LdapWord); 12] = [
    ("ldapurl", LdapWord::Url),
    ("ldapscheme", LdapWord::Scheme),
    ("ldapserver", LdapWord::Server),
    ("ldapport", LdapWord::Port),
    ("ldaptls", LdapWord::Tls),
    ("ldapprefix", LdapWord::Prefix),
    ("ldapsuffix", LdapWord::Suffix),
    ("ldapbasedn", LdapWord::BaseDn),
    ("ldapbinddn", LdapWord::BindDn),
    ("ldapbindpasswd", LdapWord::BindPassword),
    ("ldapsearchattribute", LdapWord::SearchAttribute),
    ("ldapsearchfilter", LdapWord::SearchFilter),
];

impl LdapWord {
    pub(crate) fn read(name: &str) -> Result<LdapWord, Wrong> {
        let known = LDAP.iter().find(|(known, _)| *known == name);
        let names = || LDAP.map(|(name, _)| name).join(", ");
        known.map(|(_, word)| *word).ok_or_else(|| Wrong::new(format!("option {}", quoted(name)), names()))
    }
}

/// Reads a directory from options as they stand on a line, such as `ldapserver=a ldapprefix="cn="`.
///
/// # Errors
/// What was found and what was expected.
pub fn read_directory(text: &str) -> Result<Directory, (String, String)> {
    let read = || {
        let mut words = Vec::new();
        for word in text::words_of(text)? {
            let Some((name, value)) = word.text.split_once('=') else {
                return Err(Wrong::new(
                    "a word without =",
                    "options as name=value, in double quotes if blanks are in it",
                ));
            };
            words.push((LdapWord::read(name)?, Secret(value.to_owned())));
        }
        Directory::read(&words)
    };
    read().map_err(|Wrong { found, expected }| (found, expected))
}

impl Directory {
    /// Of options in the order of their line; the last one of a name counts, and a URL counts where it stands.
    pub(crate) fn read(words: &[(LdapWord, Secret)]) -> Result<Directory, Wrong> {
        let has = |word: LdapWord| words.iter().any(|(other, _)| *other == word);
        check_company(&has)?;
        let mut draft = Draft::default();
        for (word, Secret(value)) in words {
            draft.set(*word, value)?;
        }
        draft.finish()
    }
}

/// What PostgreSQL refuses to see together or to miss.
fn check_company(has: &dyn Fn(LdapWord) -> bool) -> Result<(), Wrong> {
    let finds = [LdapWord::BaseDn, LdapWord::BindDn, LdapWord::BindPassword, LdapWord::SearchAttribute];
    let is_simple = has(LdapWord::Prefix) || has(LdapWord::Suffix);
    if is_simple && (finds.into_iter().any(has) || has(LdapWord::SearchFilter) || has(LdapWord::Url)) {
        let expected = "either these alone, or ldapbasedn, ldapbinddn, ldapbindpasswd, ldapsearchattribute, ldapsearchfilter or ldapurl";
        return Err(Wrong::new("ldapprefix or ldapsuffix beside a search", expected));
    }
    if has(LdapWord::SearchAttribute) && has(LdapWord::SearchFilter) {
        return Err(Wrong::new("ldapsearchattribute and ldapsearchfilter", "one of them"));
    }
    if !is_simple && !has(LdapWord::BaseDn) && !has(LdapWord::Url) {
        return Err(Wrong::new("ldap alone", "ldapbasedn=, ldapprefix=, ldapsuffix= or ldapurl= behind it"));
    }
    Ok(())
}

/// What the options have said so far.
#[derive(Debug, Default)]
struct Draft {
    servers: Vec<String>,
    port: Option<u16>,
    is_ldaps: bool,
    starts_tls: bool,
    between: Option<(String, String)>,
    base: Option<String>,
    scope: Option<Scope>,
    attribute: Option<String>,
    filter: Option<String>,
    bind_dn: Option<String>,
    bind_password: Option<Secret>,
}

impl Draft {
    fn set(&mut self, word: LdapWord, value: &str) -> Result<(), Wrong> {
        let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match word {
            LdapWord::Url => self.set_url(value)?,
            LdapWord::Scheme => self.is_ldaps = is_ldaps(value)?,
            LdapWord::Server => self.servers = value.split_ascii_whitespace().map(str::to_owned).collect(),
            LdapWord::Port => self.port = Some(port(value)?),
            LdapWord::Tls => {
                self.starts_tls = match value {
                    "1" => true,
                    "0" => false,
                    _ => return Err(Wrong::new(quoted(value), "ldaptls=0 or ldaptls=1")),
                }
            }
            LdapWord::Prefix => value.clone_into(&mut self.between.get_or_insert_default().0),
            LdapWord::Suffix => value.clone_into(&mut self.between.get_or_insert_default().1),
            LdapWord::BaseDn => self.base = Some(value.to_owned()),
            LdapWord::BindDn => self.bind_dn = text(),
            LdapWord::BindPassword => self.bind_password = text().map(Secret),
            LdapWord::SearchAttribute => self.attribute = text(),
            LdapWord::SearchFilter => self.filter = text(),
        }
        Ok(())
    }

    /// `ldap[s]://host[:port]/basedn[?[attribute][?[scope][?[filter]]]]`
    fn set_url(&mut self, url: &str) -> Result<(), Wrong> {
        const FORM: &str = "ldap[s]://host[:port]/basedn[?attribute[?scope[?filter]]]";
        // A URL may hold anything, so it is not repeated.
        let wrong = || Wrong::new("another ldapurl", FORM);
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        self.is_ldaps = is_ldaps(&scheme.to_ascii_lowercase())?;
        let (place, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let mut parts = rest.split('?');
        let mut next = || parts.next().filter(|part| !part.is_empty()).map(decoded).transpose();
        let (base, attribute, scope, filter) = (next()?, next()?, next()?, next()?);
        if parts.next().is_some_and(|extensions| !extensions.is_empty()) {
            return Err(Wrong::new("an ldapurl with extensions", FORM));
        }
        let (host, number) = match place.rsplit_once(':').filter(|(_, number)| !number.ends_with(']')) {
            Some((host, number)) => (host, Some(port(number)?)),
            None => (place, None),
        };
        if !host.is_empty() {
            self.servers = vec![decoded(host)?];
        }
        self.port = number.or(self.port);
        self.base = base.or(self.base.take()).or_else(|| Some(String::new()));
        // Of several attributes the first counts, as in PostgreSQL.
        let first = attribute.and_then(|names| names.split(',').next().map(str::to_owned));
        self.attribute = first.or(self.attribute.take());
        self.filter = filter.or(self.filter.take());
        self.scope = Some(match scope.as_deref().map(str::to_ascii_lowercase).as_deref() {
            None | Some("base") => Scope::Base,
            Some("one") => Scope::One,
            Some("sub") => Scope::Subtree,
            Some(_) => return Err(Wrong::new("another scope in ldapurl", "base, one or sub")),
        });
        Ok(())
    }

    fn finish(self) -> Result<Directory, Wrong> {
        if self.servers.is_empty() {
            return Err(Wrong::new(
                "ldap without a server",
                "ldapserver=, or ldapurl= with a host: DNS is not asked for one",
            ));
        }
        if self.servers.len() > SERVERS_MAX {
            return Err(Wrong::new(format!("{} servers", self.servers.len()), format!("at most {SERVERS_MAX}")));
        }
        if let Some(host) = self.servers.iter().find(|host| !is_host(host)) {
            return Err(Wrong::new(quoted(host), "names or addresses of servers; ldapport says their port"));
        }
        if self.is_ldaps && self.starts_tls {
            return Err(Wrong::new("ldaps and ldaptls=1", "one of them"));
        }
        let protection = match (self.is_ldaps, self.starts_tls) {
            (true, _) => Protection::Tls,
            (false, true) => Protection::StartTls,
            (false, false) => Protection::None,
        };
        let lookup = match self.between {
            Some((prefix, suffix)) => Lookup::Between { prefix, suffix },
            None => Lookup::Search(Search {
                base: self.base.unwrap_or_default(),
                scope: self.scope.unwrap_or(Scope::Subtree),
                filter: filter(self.filter, self.attribute)?,
                account: self.bind_dn.map(|name| (name, self.bind_password.unwrap_or_else(|| Secret(String::new())))),
            }),
        };
        let port = self.port.unwrap_or(if self.is_ldaps { 636 } else { 389 });
        Ok(Directory { servers: self.servers, port, protection, lookup })
    }
}

/// What is searched for: the filter, or entries whose attribute is the user's name.
fn filter(filter: Option<String>, attribute: Option<String>) -> Result<String, Wrong> {
    if let Some(filter) = filter {
        return Ok(if filter.starts_with('(') { filter } else { format!("({filter})") });
    }
    let attribute = attribute.unwrap_or_else(|| "uid".to_owned());
    if !attribute.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ';')) {
        return Err(Wrong::new(quoted(&attribute), "the name of an attribute"));
    }
    Ok(format!("({attribute}=$username)"))
}

fn is_ldaps(scheme: &str) -> Result<bool, Wrong> {
    match scheme {
        "ldap" => Ok(false),
        "ldaps" => Ok(true),
        _ => Err(Wrong::new("another scheme", "ldap or ldaps")),
    }
}

fn is_host(host: &str) -> bool {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_name = host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
    !host.is_empty() && (is_name || host.parse::<std::net::Ipv6Addr>().is_ok())
}

fn port(text: &str) -> Result<u16, Wrong> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| Wrong::new(quoted(text), "a port, 1 to 65535"))
}

/// `%2C` and the like taken back.
fn decoded(text: &str) -> Result<String, Wrong> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.filter(|_| first == b'%').map(|digits| u8::from_str_radix(digits, 16)) {
            Some(Ok(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ if first == b'%' => return Err(Wrong::new("% without two digits in ldapurl", "%25 for %")),
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    text.ok_or_else(|| Wrong::new("bytes that are no text in ldapurl", "text in UTF-8"))
}
