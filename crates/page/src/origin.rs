//! Whether a request comes from the page itself: pages of others that a browser has open may send some too, with the user's cookie.
//!
//! A browser says where a request comes from by Origin and Sec-Fetch-Site, which no page can change. What is asked for as JSON carries a header
//! besides, which pages of others may not send without leave.

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Scripts of the page send it with each request.
const OURS: HeaderName = HeaderName::from_static("x-pgweir");

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<Option<String>> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    // What is there twice, or is no text, is nothing that could be equal.
    Some(if values.next().is_some() { None } else { first.to_str().ok().map(str::to_ascii_lowercase) })
}

/// The scheme of the page that has sent a request, if it is ours by Origin.
fn own_scheme(headers: &HeaderMap) -> Option<String> {
    let origin = text(headers, &ORIGIN)??;
    let host = text(headers, &HOST)??;
    let (scheme, from) = origin.split_once("://")?;
    (from == host && matches!(scheme, "http" | "https")).then(|| scheme.to_owned())
}

/// May change something: its Origin has to be this very host.
pub(crate) fn is_own_change(headers: &HeaderMap) -> bool {
    let site = text(headers, &SEC_FETCH_SITE);
    own_scheme(headers).is_some() && site.is_none_or(|site| site.as_deref() == Some("same-origin"))
}

/// May see what a session may: a script of the page asks.
pub(crate) fn is_own_question(headers: &HeaderMap) -> bool {
    let site = text(headers, &SEC_FETCH_SITE);
    headers.contains_key(OURS)
        && (!headers.contains_key(ORIGIN) || own_scheme(headers).is_some())
        && site.is_none_or(|site| site.as_deref() == Some("same-origin"))
}

/// Whether the browser has come by TLS, through a proxy: it says so itself. What proxies say is not believed, and needs not be.
pub(crate) fn is_encrypted(headers: &HeaderMap) -> bool {
    own_scheme(headers).as_deref() == Some("https")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(of: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in of {
            headers.append(*name, value.parse().expect("a value"));
        }
        headers
    }

    #[test]
    fn a_table_of_senders() {
        let host = ("host", "db.example:9127");
        let own = ("origin", "http://DB.example:9127");
        // The headers, whether such a request may change something, and whether it may see something.
        #[expect(clippy::type_complexity, reason = "a row says what it is")]
        let table: [(&[(&str, &str)], bool, bool); 14] = [
            (&[host, own], true, false),
            (&[host, own, ("x-pgweir", "1")], true, true),
            (&[host, ("x-pgweir", "1")], false, true),
            (&[host], false, false),
            (&[host, own, ("sec-fetch-site", "same-origin"), ("x-pgweir", "1")], true, true),
            (&[host, own, ("sec-fetch-site", "same-site"), ("x-pgweir", "1")], false, false),
            (&[host, ("sec-fetch-site", "cross-site"), ("x-pgweir", "1")], false, false),
            (&[host, ("sec-fetch-site", "none"), ("x-pgweir", "1")], false, false),
            (&[host, ("origin", "http://evil.example"), ("x-pgweir", "1")], false, false),
            (&[host, ("origin", "http://db.example"), ("x-pgweir", "1")], false, false),
            (&[host, ("origin", "null"), ("x-pgweir", "1")], false, false),
            (&[host, ("origin", "ftp://db.example:9127"), ("x-pgweir", "1")], false, false),
            (&[own, ("x-pgweir", "1")], false, false),
            (&[host, own, own, ("x-pgweir", "1")], false, false),
        ];
        for (of, changes, sees) in table {
            let headers = headers(of);
            assert_eq!((is_own_change(&headers), is_own_question(&headers)), (changes, sees), "{of:?}");
        }
    }

    #[test]
    fn only_the_browser_says_that_it_came_by_tls() {
        let host = ("host", "db.example");
        assert!(is_encrypted(&headers(&[host, ("origin", "https://db.example")])));
        assert!(!is_encrypted(&headers(&[host, ("origin", "http://db.example"), ("x-forwarded-proto", "https")])));
        assert!(!is_encrypted(&headers(&[host, ("x-forwarded-proto", "https")])));
    }
}
