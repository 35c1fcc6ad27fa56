//! The password file of libpq, `~/.pgpass`: `host:port:database:user:password`, the first line that fits counts.
//!
//! Promises libpq's rules: `*` alone fits everything, a backslash takes the next character as it is, `#` begins a
//! comment line. Does not look for the file or at its permissions.
//= pg18 libpq-pgpass

/// The target for which a password is looked up.
#[derive(Copy, Clone, Debug)]
pub struct Wanted<'a> {
    /// `localhost` for a Unix socket in the usual directory.
    pub host: &'a str,
    pub port: u16,
    pub database: &'a str,
    pub user: &'a str,
}

/// The password, if a line fits and has one.
#[must_use]
pub(crate) fn find(file: &str, wanted: Wanted) -> Option<String> {
    let port = wanted.port.to_string();
    let fields = [wanted.host, &port, wanted.database, wanted.user];
    file.lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(|line| password(line, &fields))
        .filter(|password| !password.is_empty())
}

/// What is left of the line after four fitting fields.
fn password(line: &str, wanted: &[&str; 4]) -> Option<String> {
    let mut rest = line;
    for wanted in wanted {
        let end = unescaped_colon(rest)?;
        let field = &rest[..end];
        if field != "*" && unescape(field) != **wanted {
            return None;
        }
        rest = &rest[end + 1..];
    }
    Some(unescape(rest))
}

fn unescaped_colon(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b':' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

fn unescape(field: &str) -> String {
    let mut plain = String::with_capacity(field.len());
    let mut chars = field.chars();
    while let Some(c) = chars.next() {
        plain.push(match c {
            '\\' => chars.next().unwrap_or('\\'),
            other => other,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r"
# db:5432:app:eve:comment
db:5432:app:ann:first
db:*:app:ann:second
*:*:*:bob:any\:thing\\
ho\:st:1:d\\b:u:esc
db:5432:app:empty:
short:line
::1:5432:app:v6:never
\:\:1:5432:app:v6:six
";

    #[test]
    fn the_first_fitting_line_counts() {
        let table = [
            ("db", 5432, "app", "ann", Some("first")),
            ("db", 5433, "app", "ann", Some("second")),
            ("db", 5433, "other", "ann", None),
            ("x", 1, "y", "bob", Some(r"any:thing\")),
            ("ho:st", 1, r"d\b", "u", Some("esc")),
            ("db", 5432, "app", "empty", None),
            ("db", 5432, "app", "eve", None),
            ("::1", 5432, "app", "v6", Some("six")),
        ];
        for (host, port, database, user, expected) in table {
            let wanted = Wanted { host, port, database, user };
            assert_eq!(find(FILE, wanted).as_deref(), expected, "{wanted:?}");
        }
    }

    #[test]
    fn lines_may_end_as_on_windows() {
        let wanted = Wanted { host: "h", port: 1, database: "d", user: "u" };
        assert_eq!(find("h:1:d:u:pw\r\n", wanted).as_deref(), Some("pw"));
    }
}
