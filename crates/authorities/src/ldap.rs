//! Passwords that a directory server checks: it is asked to let us in under the user's name.
//!
//! ```text
//!   prefix + name + suffix ─────────────────────────────────────▶ bind
//!   bind as ldapbinddn ─▶ search below ldapbasedn ─▶ one entry ─▶ bind as that
//! ```
//!
//! Promises that a name stands for itself, whatever is in it, in a filter, and in an entry's name where the prefix ends in `=`:
//! after another prefix (`ann@example.org`, `EXAMPLE\ann`) what is sent is no entry's name that we could write; that no password
//! is an empty one, by which a directory lets anybody in as nobody; and that servers are asked in their order, the next one only
//! if one could not be reached or did not answer.
//!
//! Does not follow referrals, and does not look servers up in DNS (`SRV`). Does not bound the look-up of a server's address:
//! the system's resolver knows no deadline and holds this thread for as long as its own settings say (resolv.conf: 5 s, twice,
//! for each name server by default). The client is told by its login's deadline all the same. An address instead of a name, or
//! a line in /etc/hosts, needs no resolver.
//!
//! //= pg18 auth-ldap
//! //= rfc4513#section-5.1.2

use std::net::TcpStream;
use std::time::{Duration, Instant};

use hba::{Directory, Lookup, Protection, Search};
use ldap3::{
    Ldap, LdapConnAsync, LdapConnSettings, LdapError, LdapResult, SearchEntry, SearchOptions, SearchResult, StdStream,
    dn_escape, ldap_escape,
};
use machine::{Inquiry, Verdict};
use tokio::runtime::{Builder, Runtime};

use crate::trust::Trust;

/// What a server says of why is cut after so many characters.
const WORDS_MAX: usize = 200;
const INVALID_CREDENTIALS: u32 = 49;
/// More entries than one were found than we wanted to hear of.
const SIZE_LIMIT_EXCEEDED: u32 = 4;
/// What PostgreSQL refuses in a name that is searched for.
const REFUSED: [char; 5] = ['*', '(', ')', '\\', '/'];

/// Whether the directory lets the user in with this password.
pub(crate) fn check(directory: &Directory, inquiry: &Inquiry, until: Instant, trust: &Trust) -> Verdict {
    if inquiry.given.text().is_empty() {
        return Verdict::Denied("the password is empty".to_owned());
    }
    if matches!(directory.lookup, Lookup::Search(_)) && inquiry.user.contains(REFUSED) {
        return Verdict::Denied("invalid character in user name for LDAP authentication".to_owned());
    }
    let runtime = match Builder::new_current_thread().enable_io().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => return Verdict::Unreachable(format!("there is nothing to ask with: {error}")),
    };
    let mut failures = Vec::new();
    for (index, server) in directory.servers.iter().enumerate() {
        // A server that takes no notice leaves time for the others.
        let left = until.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(directory.servers.len() - index).expect("there are few");
        let place = Place { directory, server, share };
        match place.ask(&runtime, inquiry, trust) {
            Ok(verdict) => return verdict,
            Err(why) => failures.push(format!("{server}: {why}")),
        }
    }
    Verdict::Unreachable(format!("no LDAP server can be asked: {}", failures.join("; ")))
}

/// One of the servers, and for how long it may be waited for.
struct Place<'a> {
    directory: &'a Directory,
    server: &'a str,
    share: Duration,
}

impl Place<'_> {
    /// Asks this server. The error: it could not be asked.
    fn ask(&self, runtime: &Runtime, inquiry: &Inquiry, trust: &Trust) -> Result<Verdict, String> {
        let until = Instant::now() + self.share;
        let mut settings = LdapConnSettings::new();
        if self.directory.protection != Protection::None {
            settings = settings.set_config(trust.config(inquiry.ca_file.as_ref())?);
        }
        let settings = settings
            .set_starttls(self.directory.protection == Protection::StartTls)
            .set_std_stream(StdStream::Tcp(self.connect(until)?));
        let left = until.saturating_duration_since(Instant::now());
        let asked = async {
            let (connection, ldap) = LdapConnAsync::with_settings(settings, &self.url()).await.map_err(words)?;
            // It ends with the runtime, if not before.
            tokio::spawn(async move { _ = connection.drive().await });
            converse(ldap, &self.directory.lookup, inquiry).await.map_err(words)
        };
        let in_time = runtime.block_on(async { tokio::time::timeout(left, asked).await });
        in_time.unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }

    /// To the first of its addresses that takes it.
    fn connect(&self, until: Instant) -> Result<TcpStream, String> {
        let host = self.server.trim_start_matches('[').trim_end_matches(']');
        let addresses = names::look_up(host, self.directory.port).map_err(|error| error.to_string())?;
        let mut last = "it has no address".to_owned();
        for address in addresses {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err("no answer in time".to_owned());
            }
            match TcpStream::connect_timeout(&address, left) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = format!("connect to {address}: {error}"),
            }
        }
        Err(last)
    }

    fn url(&self) -> String {
        let scheme = if self.directory.protection == Protection::Tls { "ldaps" } else { "ldap" };
        let brackets = self.server.contains(':') && !self.server.starts_with('[');
        let host = if brackets { format!("[{}]", self.server) } else { self.server.to_owned() };
        format!("{scheme}://{host}:{}", self.directory.port)
    }
}

/// Finds the user's entry, and lets its password be tried.
async fn converse(mut ldap: Ldap, lookup: &Lookup, inquiry: &Inquiry) -> Result<Verdict, LdapError> {
    let name = match lookup {
        Lookup::Between { prefix, suffix } => between(prefix, &inquiry.user, suffix),
        Lookup::Search(search) => match find(&mut ldap, search, &inquiry.user).await? {
            Ok(name) => name,
            Err(verdict) => return Ok(verdict),
        },
    };
    let bound = ldap.simple_bind(&name, inquiry.given.text()).await?;
    // Nothing depends on how we part.
    let _ = ldap.unbind().await;
    Ok(match bound.rc {
        0 => Verdict::Confirmed,
        INVALID_CREDENTIALS => Verdict::Denied(format!("the LDAP server does not take the password for \"{name}\"")),
        _ => Verdict::Denied(format!("LDAP login as \"{name}\" failed: {}", cut(&bound))),
    })
}

/// The name of the user's one entry.
async fn find(ldap: &mut Ldap, search: &Search, user: &str) -> Result<Result<String, Verdict>, LdapError> {
    let (account, password) = search.account.as_ref().map_or(("", ""), |(name, secret)| (name, secret.0.as_str()));
    let bound = ldap.simple_bind(account, password).await?;
    if bound.rc != 0 {
        let why = format!("LDAP login as \"{account}\", to search, failed: {}", cut(&bound));
        return Ok(Err(Verdict::Unreachable(why)));
    }
    let scope = match search.scope {
        hba::Scope::Base => ldap3::Scope::Base,
        hba::Scope::One => ldap3::Scope::OneLevel,
        hba::Scope::Subtree => ldap3::Scope::Subtree,
    };
    // Two are enough to know that it is not one; of attributes, none.
    ldap.with_search_options(SearchOptions::new().sizelimit(2));
    let SearchResult(entries, result) =
        ldap.search(&search.base, scope, &filter(&search.filter, user), ["1.1"]).await?;
    if result.rc != 0 && result.rc != SIZE_LIMIT_EXCEEDED {
        return Ok(Err(Verdict::Unreachable(format!("LDAP search failed: {}", cut(&result)))));
    }
    let mut names = entries.into_iter().map(|entry| SearchEntry::construct(entry).dn);
    Ok(match (names.next(), names.next()) {
        (Some(name), None) if result.rc == 0 => Ok(name),
        (None, _) => Err(Verdict::Denied("the LDAP server has no entry for this user".to_owned())),
        _ => Err(Verdict::Denied("the LDAP server has more than one entry for this user".to_owned())),
    })
}

/// The user's name between two texts. Where these make it a value in an entry's name, it stays one, whatever is in it.
//= rfc4514#section-2.4
fn between(prefix: &str, user: &str, suffix: &str) -> String {
    let user = if prefix.ends_with('=') { dn_escape(user) } else { user.into() };
    format!("{prefix}{user}{suffix}")
}

//= rfc4515#section-3
fn filter(filter: &str, user: &str) -> String {
    filter.replace("$username", &ldap_escape(user))
}

fn words(error: LdapError) -> String {
    error.to_string().chars().take(WORDS_MAX).collect()
}

fn cut(result: &LdapResult) -> String {
    result.to_string().chars().take(WORDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_value_and_nothing_else() {
        let table = [
            ("ann", "uid=ann,dc=x"),
            ("Ünï", "uid=Ünï,dc=x"),
            ("ann,ou=admins", r"uid=ann\2cou\3dadmins,dc=x"),
            ("a+b=c", r"uid=a\2bb\3dc,dc=x"),
            (" ann ", r"uid=\20ann\20,dc=x"),
            ("#1", r"uid=\231,dc=x"),
            (r#"a\b"c"#, r"uid=a\5cb\22c,dc=x"),
            ("<;>", r"uid=\3c\3b\3e,dc=x"),
        ];
        for (user, expected) in table {
            assert_eq!(between("uid=", user, ",dc=x"), expected, "{user}");
        }
        // No names of entries: these are the whole of what an Active Directory takes.
        assert_eq!(between("", "ann", "@example.org"), "ann@example.org");
        assert_eq!(between("EXAMPLE\\", "ann", ""), "EXAMPLE\\ann");
    }

    #[test]
    fn a_name_changes_no_filter() {
        let table = [
            ("ann", "(|(uid=ann)(mail=ann))"),
            ("*", r"(|(uid=\2a)(mail=\2a))"),
            ("x)(uid=*", r"(|(uid=x\29\28uid=\2a)(mail=x\29\28uid=\2a))"),
            (r"a\b", r"(|(uid=a\5cb)(mail=a\5cb))"),
            ("$username", "(|(uid=$username)(mail=$username))"),
        ];
        for (user, expected) in table {
            assert_eq!(filter("(|(uid=$username)(mail=$username))", user), expected, "{user}");
        }
    }
}
