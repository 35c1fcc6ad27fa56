//! Addresses of HTTP: where traces are sent, with which headers, and how many; and where Patroni answers.

/// `http://host:port/path`, or `https`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    /// By TLS.
    pub is_encrypted: bool,
    pub host: String,
    pub port: u16,
    /// It begins with a slash.
    pub path: String,
}

impl HttpUrl {
    /// `None`: it is something else.
    #[must_use]
    pub fn read(text: &str) -> Option<HttpUrl> {
        let (is_encrypted, rest, default) = match text.strip_prefix("https://") {
            Some(rest) => (true, rest, "443"),
            None => (false, text.strip_prefix("http://")?, "80"),
        };
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, behind) = rest.split_once(']')?;
                (host, behind.strip_prefix(':').or(behind.is_empty().then_some(default))?)
            }
            None => authority.split_once(':').unwrap_or((authority, default)),
        };
        let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let fits = !host.is_empty() && is_word(host) && is_word(path) && !authority.contains('@');
        let port = port.parse().ok().filter(|port| *port > 0)?;
        fits.then(|| HttpUrl { is_encrypted, host: host.to_owned(), port, path: path.to_owned() })
    }

    /// All of it, with its port.
    #[must_use]
    pub fn text(&self) -> String {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority(), self.path)
    }

    /// Host and port.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// `name=value`, with commas between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpHeaders(Vec<(String, String)>);

impl HttpHeaders {
    /// Names and values.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// `None`: one of them could not be a header.
    pub(crate) fn read(list: &str) -> Option<HttpHeaders> {
        // A line break would begin another header.
        if list.contains(char::is_control) {
            return None;
        }
        let all = list.split(',').map(str::trim).filter(|one| !one.is_empty());
        let headers = all.map(|one| {
            let (name, value) = one.split_once('=')?;
            let is_name =
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
            let is_value = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
            (is_name && is_value).then(|| (name.to_owned(), value.trim().to_owned()))
        });
        headers.collect::<Option<Vec<_>>>().map(HttpHeaders)
    }
}

/// A share from 0 to 1.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Share(u32);

impl Share {
    /// `None`: it is no number from 0 to 1.
    pub(crate) fn read(text: &str) -> Option<Share> {
        let number: f64 = text.parse().ok()?;
        (0.0..=1.0).contains(&number).then(|| Share((number * 1e6).round() as u32))
    }

    #[must_use]
    pub fn per_million(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_http_is_read() {
        let table = [
            ("http://localhost:4318/v1/traces", "localhost:4318", "/v1/traces"),
            ("http://otel.example", "otel.example:80", "/"),
            ("http://[::1]:4318/v1/traces", "[::1]:4318", "/v1/traces"),
            ("http://[::1]", "[::1]:80", "/"),
            ("https://otel.example/v1/traces", "otel.example:443", "/v1/traces"),
            ("https://[::1]:4318", "[::1]:4318", "/"),
        ];
        for (text, authority, path) in table {
            let url = HttpUrl::read(text).expect("it is one");
            assert_eq!((url.authority(), &*url.path), (authority.to_owned(), path), "{text}");
            assert_eq!(url.is_encrypted, text.starts_with("https"));
            assert_eq!(HttpUrl::read(&url.text()), Some(url), "{text}");
        }
        for text in [
            "",
            "http://",
            "localhost:4318",
            "https://",
            "ftp://localhost",
            "http://a b",
            "http://a:0/",
            "http://a:x",
            "http://a:70000",
            "http://u:p@a/",
            "http://a/\r\nX: y",
            "http://[::1",
            "http://[::1]4318",
        ] {
            assert_eq!(HttpUrl::read(text), None, "{text:?}");
        }
    }

    #[test]
    fn headers_cannot_leave_their_lines() {
        let pairs = |text: &str| HttpHeaders::read(text).map(|headers| headers.0);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(pairs(""), Some(vec![]));
        assert_eq!(pairs("api-key=a=b, x-t = 7").map(|all| all.len()), None, "a blank is in the name");
        assert_eq!(pairs("api-key=a=b, x-t=7"), Some(vec![pair("api-key", "a=b"), pair("x-t", "7")]));
        for text in ["a", "=b", "a: b=c", "a=b\r\nc: d", "a=\u{e9}", "a\n=b"] {
            assert_eq!(pairs(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_share_is_from_0_to_1() {
        let share = |text: &str| Share::read(text).map(Share::per_million);
        assert_eq!(
            [share("0"), share("1"), share("0.01"), share("1e-6")],
            [Some(0), Some(1_000_000), Some(10_000), Some(1)]
        );
        for text in ["", "-0.1", "1.1", "nan", "inf", "5%"] {
            assert_eq!(share(text), None, "{text}");
        }
    }
}
