//! The URL's parts: scheme, user, password, hosts, database, parameters; percent-encoding undone.

use super::parameters::Parameters;
use super::wrong;
use crate::problem::{Problem, quoted};

/// The name in front of a URL, as in `shop=postgres://…`, and the URL.
pub(super) fn named(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((name, url)) if !name.contains(':') && url.contains("://") => (Some(name), url),
        _ => (None, text),
    }
}

/// Takes a URL apart as libpq does. Later parts of the same name replace earlier ones.
pub(super) fn split(url: &str) -> Result<Parameters, Problem> {
    let rest = ["postgresql://", "postgres://"]
        .iter()
        .find_map(|scheme| url.strip_prefix(scheme))
        .ok_or_else(|| wrong("URL", &scheme(url), "postgres://user@host/database"))?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    // A name of a host has no @ in it, so that a password may, though libpq wants it encoded.
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (login, hosts),
        None => ("", authority),
    };
    // A / or ? in a password ends the authority too soon: what seems to be a host, a port or a parameter is then a part of it.
    let is_port =
        |part: &str| part.rsplit_once(':').is_none_or(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let (ends_too_soon, has_at) = (!hosts.split(',').all(is_port), |part: &str| part.contains('@'));
    if login.is_empty() && (has_at(database) || (has_at(query) && ends_too_soon)) {
        return Err(wrong(
            "URL",
            "an @ behind a / or a ?",
            "%2F for a / in a password, %3F for a ?, and %40 for an @ in a database's name",
        ));
    }
    let (user, password) = login.split_once(':').unwrap_or((login, ""));

    let mut parameters = Parameters::default();
    parameters.set_from_url("user", decode("user", user)?)?;
    parameters.set_from_url("password", decode("password", password)?)?;
    split_hosts(hosts, &mut parameters)?;
    parameters.set_from_url("dbname", decode("dbname", database)?)?;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(wrong("URL", "a parameter without =", "parameter=value after the ?"));
        };
        let key = decode("URL", key)?;
        let value = decode(&key, value)?;
        parameters.set_from_url(&key, value)?;
    }
    Ok(parameters)
}

/// `host:port,[v6]:port,…` to a list of hosts and one of ports.
fn split_hosts(text: &str, parameters: &mut Parameters) -> Result<(), Problem> {
    let mut hosts = Vec::new();
    let mut ports = Vec::new();
    for part in text.split(',') {
        let (host, port) = match part.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest
                    .split_once(']')
                    .ok_or_else(|| wrong("host", &quoted(part), "a closing ] after the IPv6 address"))?;
                let port = after.strip_prefix(':').unwrap_or(after);
                if after.len() == port.len() && !after.is_empty() {
                    return Err(wrong("host", &quoted(part), "a port or nothing after the ]"));
                }
                (host, port)
            }
            None => part.split_once(':').unwrap_or((part, "")),
        };
        hosts.push(decode("host", host)?);
        ports.push(decode("port", port)?);
    }
    if hosts.iter().any(|host| !host.is_empty()) {
        parameters.set_from_url("host", hosts.join(","))?;
    }
    if ports.iter().any(|port| !port.is_empty()) {
        parameters.set_from_url("port", ports.join(","))?;
    }
    Ok(())
}

/// `%41` to `A`. Nothing of the text is repeated in the error, since it may be a password.
fn decode(part: &str, text: &str) -> Result<String, Problem> {
    let expected = "two hexadecimal digits after each %, and %25 for a % itself";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next(), rest.next()].map(|digit| digit.and_then(|digit| char::from(digit).to_digit(16)));
        match digits {
            [Some(high), Some(low)] if (high, low) != (0, 0) => {
                bytes.push(u8::try_from(high * 16 + low).expect("two hexadecimal digits make a byte"));
            }
            _ => return Err(wrong(part, "a % that encodes nothing", expected)),
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong(part, "bytes that are no text", "text in UTF-8"))
}

/// What stands before the `://`, and no more: the rest may hold a password.
fn scheme(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, _)) => quoted(&format!("{scheme}://")),
        None => "no postgres://".to_owned(),
    }
}
