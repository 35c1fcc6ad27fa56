//! The names by which a browser may ask for the page.
//!
//! Whoever owns a domain can point its name to this address (DNS rebinding): what a browser has loaded from there then asks the page, by that name, and
//! Origin and Host agree. Nobody can do that with an address, nor with names that are known here.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::HOST;
use axum::middleware::Next;
use axum::response::Response;

/// Names besides every address and `localhost`.
#[derive(Clone, Debug)]
pub struct Hosts(Option<Arc<[String]>>);

impl Hosts {
    /// `*` among the names is any. `own`: that of this machine.
    #[must_use]
    pub fn of(names: &[String], own: &str) -> Hosts {
        let is_any = names.iter().any(|name| name == "*");
        let known = names.iter().map(String::as_str).chain([own]).map(plain).filter(|name| !name.is_empty());
        Hosts((!is_any).then(|| known.collect()))
    }

    /// Whether the page is shown by the name in a Host header.
    fn have(&self, header: &str) -> bool {
        let Some(names) = &self.0 else { return true };
        let host = match header.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => host,
            _ => header,
        };
        if let Some(bare) = host.strip_prefix('[') {
            return bare.strip_suffix(']').is_some_and(|address| address.parse::<IpAddr>().is_ok());
        }
        let name = plain(host);
        name.parse::<IpAddr>().is_ok() || name == "localhost" || name.ends_with(".localhost") || names.contains(&name)
    }
}

/// For people.
const OTHERS: &str = "The page is shown by its address, as localhost, by the name of its machine and by the names in http_hosts.\n\
                      You have asked for it by another name.\n";

/// A name in lower case, without the dot of the root.
fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Answers who asks by another name. A request without a name is no browser's.
pub(crate) async fn by_name(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let headers = request.headers().get_all(HOST).iter();
    let are_known = headers.into_iter().all(|host| host.to_str().is_ok_and(|host| hosts.have(host)));
    // A proxy may send the whole address.
    if are_known && request.uri().authority().is_none_or(|authority| hosts.have(authority.as_str())) {
        return next.run(request).await;
    }
    monitor::said(StatusCode::MISDIRECTED_REQUEST, OTHERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_names() {
        let some = Hosts::of(&["weir.example.com.".to_owned()], "DB1");
        let table = [
            ("127.0.0.1:9127", true),
            ("10.1.2.3", true),
            ("[::1]:9127", true),
            ("[fe80::1]", true),
            ("localhost:9127", true),
            ("shop.localhost", true),
            ("db1:9127", true),
            ("Weir.Example.com", true),
            ("weir.example.com.:443", true),
            ("evil.example", false),
            ("db1.evil.example:9127", false),
            ("localhost.evil.example", false),
            ("evillocalhost", false),
            ("127.0.0.1.evil.example", false),
            ("[evil.example]:9127", false),
            ("db1:9127:9127", false),
            ("", false),
        ];
        for (host, is_shown) in table {
            assert_eq!(some.have(host), is_shown, "{host}");
            assert!(Hosts::of(&["*".to_owned()], "").have(host), "{host}");
        }
        for (own, host) in [("", ""), ("*", "evil.example"), ("db1", "db2")] {
            assert!(!Hosts::of(&[], own).have(host), "{own} {host}");
        }
    }
}
