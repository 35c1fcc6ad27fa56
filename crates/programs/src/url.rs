//! The servers of a URL, which is read as `pgweir run` reads it: for programs that query or load them, and do not serve.
//!
//! Promises libpq's order of sources: the URL, the environment, the password file.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use ask::{Encryption, Target};
use auth::Secret;
use config::{Built, Config, Problem, Upstream};
use connections::databases::{Address, Host};

/// The first host of a URL.
///
/// # Errors
/// What is wrong with the URL, or with a file of TLS.
///
/// # Panics
/// Never: a URL names a host.
pub fn target(url: &str) -> Result<Target, String> {
    Ok(hosts(url, &|name| std::env::var(name).ok())?.into_iter().next().expect("a URL names a host"))
}

/// Each host of a URL, in order. `env` completes the URL as the environment does.
///
/// # Errors
/// What is wrong with the URL, or with a file of TLS.
pub fn hosts(url: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Vec<Target>, String> {
    let passfile = passfile();
    let upstream = Upstream {
        env,
        assignments: &[],
        passfile: passfile.as_deref(),
        listen: None,
        pool_size: None,
        // Nothing is served: how many workers there would be, and how clients could log in, does not matter.
        cores: 1,
        built: Built::default(),
    };
    let problems = |problems: Vec<Problem>| problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ");
    let config = config::from_urls(&[url.to_owned()], &upstream, &config::read_file).map_err(problems)?;
    targets(&config)
}

/// The password file, unless others can read it too.
//= pg18 libpq-pgpass
#[must_use]
pub fn passfile() -> Option<String> {
    let named = std::env::var_os("PGPASSFILE").map(PathBuf::from);
    let path = named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pgpass")))?;
    let mode = std::fs::metadata(&path).ok()?.permissions().mode();
    if mode & 0o077 != 0 {
        eprintln!("pgweir: {} is ignored: others can read it (chmod 600 would help)", path.display());
        return None;
    }
    std::fs::read_to_string(path).ok()
}

/// The targets of a URL, one for each of its hosts.
///
/// # Errors
/// A file of TLS cannot be used.
///
/// # Panics
/// If `config` was not made from a URL, which names a database and a user.
pub fn targets(config: &Config) -> Result<Vec<Target>, String> {
    let encryption = Encryption::of(&config.pooling.global.tls)?;
    let (database, about) = config.pooling.databases.iter().next().expect("a URL is one database");
    let (user, secret) = config.pooling.secrets.iter().next().expect("a URL is one user");
    let password = match secret {
        Secret::Plain(password) if !password.as_str().is_empty() => Some(password.as_str().to_owned()),
        _ => None,
    };
    let target = |address: &Address| {
        let (user, password, database) = (user.clone(), password.clone(), database.clone());
        at(address, user, password, database, encryption.clone())
    };
    Ok(about.hosts.iter().map(target).collect())
}

/// A database at one address.
#[must_use]
pub fn at(
    address: &Address,
    user: String,
    password: Option<String>,
    database: String,
    encryption: Option<Encryption>,
) -> Target {
    let host = match &address.host {
        Host::Unix(dir) => dir.clone(),
        Host::Ip(ip) => ip.to_string(),
        Host::Name(name) => name.clone(),
    };
    Target { host, address: None, port: address.port, user, password, database, verifier: None, encryption }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_as_run_reads_it() {
        let found = target("postgres://me:a%20b@[::1]:7777/shop").expect("a URL");
        let Target { host, port, user, password, database, .. } = found;
        assert_eq!((host.as_str(), port, user.as_str(), database.as_str()), ("::1", 7777, "me", "shop"));
        assert_eq!(password.as_deref(), Some("a b"));
        assert!(target("mysql://me@h/d").is_err());
    }
}
