//! The environment of `pgweir run`: libpq's variables, DATABASE_URL, and `PGWEIR_<SETTING>` for each setting.
//!
//! ```text
//!   NAME=value        the value
//!   NAME_FILE=path    a file that has it, as container platforms mount secrets; one line break at its end is left out
//! ```
//!
//! Promises that what is meant for pgweir and cannot be used is said with the variable's name, and that no value is repeated.
//! Variables that Kubernetes sets for services of the same name are passed over.

use std::collections::BTreeMap;
use std::ffi::OsString;

use config::ini::{FILE_BYTES_MAX, Read};
use config::problem::quoted;
use config::{Assignment, Problem};
use settings::table;

use crate::complain;

/// In front of a setting's name.
const PREFIX: &str = "PGWEIR_";
/// The URL, or several with white space between them.
pub(crate) const URL: &str = "DATABASE_URL";
const FILE: &str = "_FILE";
/// They are no settings.
const OWN: [&str; 4] = ["PGWEIR_ANNOUNCE", "PGWEIR_CHAOS", "PGWEIR_DAEMON", "PGWEIR_DEV"];

/// The variables that count, each with its value.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    /// libpq's, and DATABASE_URL.
    values: BTreeMap<String, String>,
    pub(crate) assignments: Vec<Assignment>,
}

impl Environment {
    /// Takes the variables of this process. `read` reads the files that they name.
    ///
    /// # Errors
    /// A file that cannot be read, a value that is there twice, or what is no text.
    pub(crate) fn of_the_process(read: &Read) -> Result<Environment, Problem> {
        Environment::of(std::env::vars_os(), read)
    }

    /// The same without DATABASE_URL, which does not count beside URLs on the command line.
    ///
    /// # Errors
    /// As those of [`Environment::of_the_process`].
    pub(crate) fn without_url(read: &Read) -> Result<Environment, Problem> {
        let is_url =
            |name: &OsString| [URL.to_owned(), format!("{URL}{FILE}")].iter().any(|other| name == other.as_str());
        Environment::of(std::env::vars_os().filter(|(name, _)| !is_url(name)), read)
    }

    fn of(variables: impl Iterator<Item = (OsString, OsString)>, read: &Read) -> Result<Environment, Problem> {
        // Sorted, so that messages come in the same order each time. A name that is no text is none of ours.
        let variables: BTreeMap<String, OsString> =
            variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
        let mut environment = Environment::default();
        for (variable, value) in &variables {
            let Some(valued) = valued(variable) else { continue };
            let not_text = || Problem::of_variable(variable, "bytes that are no text", "text in UTF-8");
            let value = value.to_str().ok_or_else(not_text)?;
            if is_of_kubernetes(variable, value) {
                continue;
            }
            let is_of_file = matches!(valued, Valued::InFile(_));
            let (name, value) = match valued {
                Valued::Here(name) => (name, value.to_owned()),
                Valued::InFile(name) => {
                    let other = &variable[..variable.len() - FILE.len()];
                    if variables.contains_key(other) {
                        return Err(Problem::of_variable(
                            variable,
                            &format!("{other} too"),
                            "only one of them to be set",
                        ));
                    }
                    (name, content(variable, value, read)?)
                }
            };
            match name {
                Name::Variable(name) => _ = environment.values.insert(name.to_owned(), value),
                Name::Setting(_) if variable.bytes().any(|byte| byte.is_ascii_lowercase()) => {
                    let expected = format!("capital letters: {}", variable.to_ascii_uppercase());
                    return Err(Problem::of_variable(variable, "small letters", &expected));
                }
                Name::Setting(name) => {
                    environment.assignments.push(Assignment {
                        variable: variable.clone(),
                        name,
                        text: value,
                        is_of_file,
                    });
                }
            }
        }
        Ok(environment)
    }

    /// Of libpq's variables.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.values.get(name).cloned()
    }

    /// A setting's text; of two variables for one the last counts, as it does in a file.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.assignments.iter().rfind(|one| one.name == name).map(|one| one.text.as_str())
    }

    /// The URLs that it has; none if nothing says what to serve.
    ///
    /// # Errors
    /// White space within a URL.
    pub(crate) fn urls(&self) -> Result<Vec<String>, Problem> {
        let urls: Vec<String> =
            self.get(URL).iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect();
        if urls.iter().any(|url| !url.contains("://")) {
            let expected = "URLs with white space between them, and %20 for a blank in a password";
            return Err(Problem::of_variable(URL, "white space within a URL, or no URL", expected));
        }
        let has_host =
            ["PGHOST", "PGHOSTADDR"].iter().any(|name| self.values.get(*name).is_some_and(|host| !host.is_empty()));
        Ok(if urls.is_empty() && has_host { vec!["postgres://".to_owned()] } else { urls })
    }
}

/// What a value is for.
enum Name<'a> {
    Variable(&'a str),
    Setting(String),
}

/// Where a variable has its value.
enum Valued<'a> {
    Here(Name<'a>),
    InFile(Name<'a>),
}

fn valued(variable: &str) -> Option<Valued<'_>> {
    if let Some(setting) = variable.strip_prefix(PREFIX) {
        let setting = setting.to_ascii_lowercase();
        if OWN.contains(&variable) {
            return None;
        }
        // auth_file and others are settings themselves.
        let of_file = setting.strip_suffix("_file").filter(|name| table::find(name).is_some());
        return match of_file {
            Some(name) if table::find(&setting).is_none() => Some(Valued::InFile(Name::Setting(name.to_owned()))),
            _ => Some(Valued::Here(Name::Setting(setting))),
        };
    }
    // PGPASSFILE and PGSERVICEFILE end otherwise.
    match variable.strip_suffix(FILE) {
        Some(name) if is_known(name) => Some(Valued::InFile(Name::Variable(name))),
        _ => is_known(variable).then_some(Valued::Here(Name::Variable(variable))),
    }
}

fn is_known(name: &str) -> bool {
    name == URL || name == "USER" || name == "LOGNAME" || config::url::VARIABLES.iter().any(|(_, known)| *known == name)
}

/// For a service `pgweir` each container of its namespace gets PGWEIR_SERVICE_HOST, PGWEIR_PORT=tcp://… and more; for a service
/// `pgweir-listen` PGWEIR_LISTEN_PORT=tcp://….
fn is_of_kubernetes(variable: &str, value: &str) -> bool {
    let Some(setting) = variable.strip_prefix(PREFIX) else { return false };
    let is_url = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let parts = ["SERVICE_HOST", "SERVICE_PORT", "_PORT_"];
    is_url && variable.contains("PORT")
        || table::find(&setting.to_ascii_lowercase()).is_none() && parts.iter().any(|part| variable.contains(part))
}

/// What a file has that a variable names.
fn content(variable: &str, path: &str, read: &Read) -> Result<String, Problem> {
    // A path that is none may be the secret itself.
    let shown = if path.starts_with(['/', '.']) { quoted(path) } else { "what is no path".to_owned() };
    let wrong = |why: &str| {
        let expected = "the path of a file with text that this user can read";
        Problem::of_variable(variable, &format!("{shown}: {why}"), expected)
    };
    // `read` lists folders, if they are named so.
    if path.ends_with('/') {
        return Err(wrong("a folder"));
    }
    let bytes = read(path).map_err(|error| wrong(&complain::why(&error)))?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(wrong("it is too long"));
    }
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    let mut text = text.ok_or_else(|| wrong("no text in UTF-8"))?;
    if text.ends_with('\n') {
        text.truncate(text.len() - if text.ends_with("\r\n") { 2 } else { 1 });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    fn read(name: &str) -> io::Result<Vec<u8>> {
        match name {
            "/run/secrets/password" => Ok(b"pass word\r\n".to_vec()),
            "/run/secrets/url" => Ok(b"postgres://a:b@c/d\n\nx=postgres://a:b@e/f\n".to_vec()),
            "/run/secrets/size" => Ok(b"7".to_vec()),
            "/bytes" => Ok(vec![0xff]),
            "/nul" => Ok(b"pw\0".to_vec()),
            "/run/secrets/" => Ok(b"a list of names".to_vec()),
            "/large" => Ok(vec![b'a'; FILE_BYTES_MAX + 1]),
            _ => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
        }
    }

    fn of(pairs: &[(&str, &str)]) -> Result<Environment, String> {
        let variables = pairs.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Environment::of(variables, &read).map_err(|problem| problem.to_string())
    }

    #[test]
    fn a_value_may_be_in_a_file() {
        let environment = of(&[("PGPASSWORD_FILE", "/run/secrets/password"), ("PGUSER", "ann")]).expect("sound");
        assert_eq!(environment.get("PGPASSWORD").as_deref(), Some("pass word"));
        assert_eq!(environment.get("PGUSER").as_deref(), Some("ann"));
        assert_eq!(environment.get("PGPASSWORD_FILE"), None);
        let environment = of(&[("DATABASE_URL_FILE", "/run/secrets/url")]).expect("sound");
        assert_eq!(environment.urls().expect("two"), ["postgres://a:b@c/d", "x=postgres://a:b@e/f"]);
    }

    #[test]
    fn settings_are_named_after_the_prefix() {
        let environment = of(&[
            ("PGWEIR_AUTH_FILE", "/users.txt"),
            ("PGWEIR_DEFAULT_POOL_SIZE_FILE", "/run/secrets/size"),
            ("PGWEIR_POOL_MOD", "session"),
            ("PGWEIR_CHAOS", "1"),
            ("HOME", "/root"),
        ]);
        let shown: Vec<String> = environment
            .expect("sound")
            .assignments
            .iter()
            .map(|one| format!("{} {} {}", one.variable, one.name, one.text))
            .collect();
        assert_eq!(
            shown,
            [
                "PGWEIR_AUTH_FILE auth_file /users.txt",
                "PGWEIR_DEFAULT_POOL_SIZE_FILE default_pool_size 7",
                "PGWEIR_POOL_MOD pool_mod session"
            ]
        );
    }

    /// A setting is told from the file of a value by its name: no setting has the name of another one with `_file` behind it.
    #[test]
    fn no_setting_is_called_like_another_ones_file() {
        for setting in settings::TABLE {
            assert!(table::find(&format!("{}_file", setting.name)).is_none(), "{}", setting.name);
        }
    }

    #[test]
    fn variables_of_a_service_are_passed_over() {
        let environment = of(&[
            ("PGWEIR_PORT", "tcp://10.0.0.1:6432"),
            ("PGWEIR_PORT_6432_TCP_ADDR", "10.0.0.1"),
            ("PGWEIR_SERVICE_HOST", "10.0.0.1"),
            ("PGWEIR_METRICS_SERVICE_PORT_HTTP", "9127"),
            // Of a service `pgweir-listen`.
            ("PGWEIR_LISTEN_PORT", "tcp://10.0.0.2:6432"),
            ("PGWEIR_HTTP_PORT", "9127"),
            ("PGWEIR_POOL_MODE", "session"),
        ]);
        let environment = environment.expect("sound");
        let names: Vec<&str> = environment.assignments.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["http_port", "pool_mode"], "a setting, and a mistake to be warned of");
        assert_eq!(of(&[("PGWEIR_LISTEN_PORT", "7000")]).expect("sound").setting("listen_port"), Some("7000"));
    }

    #[test]
    fn what_is_wrong_is_said_with_the_name_and_without_the_value() {
        let twice = of(&[("PGPASSWORD", "hunter2"), ("PGPASSWORD_FILE", "/run/secrets/password")]).expect_err("which?");
        assert_eq!(twice, "PGPASSWORD_FILE: found PGPASSWORD too, expected only one of them to be set");
        let missing = of(&[("PGWEIR_POOL_MODE_FILE", "/nowhere")]).expect_err("there is none");
        assert!(missing.starts_with("PGWEIR_POOL_MODE_FILE: found \"/nowhere\": "), "{missing}");
        for path in ["/bytes", "/nul", "/run/secrets/", "/large"] {
            assert!(of(&[("DATABASE_URL_FILE", path)]).is_err(), "{path}");
        }
        for (name, value) in [("PGPASSWORD_FILE", "hunter2"), ("DATABASE_URL_FILE", "postgres://u:hunter2@h/d")] {
            let problem = of(&[(name, value)]).expect_err("the secret itself");
            assert!(problem.starts_with(name) && !problem.contains("hunter2"), "{problem}");
        }
        let blank = of(&[("DATABASE_URL", "postgres://u:hun ter2@h/d")]).expect("it is read later").urls();
        let problem = blank.expect_err("two pieces").to_string();
        assert!(problem.starts_with("DATABASE_URL: ") && !problem.contains("hun"), "{problem}");
        let small = of(&[("PGWEIR_pool_mode", "session")]).expect_err("which of both would count?");
        assert_eq!(small, "PGWEIR_pool_mode: found small letters, expected capital letters: PGWEIR_POOL_MODE");
    }

    #[test]
    fn what_is_no_text_is_an_error_where_it_is_meant_for_pgweir() {
        let bytes = || OsString::from_vec(vec![b'a', 0xff]);
        let of = |name: &str| Environment::of([(name.into(), bytes())].into_iter(), &read);
        for name in ["PGPASSWORD", "PGPASSWORD_FILE", "PGWEIR_AUTH_FILE"] {
            let problem = of(name).expect_err("no password is like that").to_string();
            assert_eq!(problem, format!("{name}: found bytes that are no text, expected text in UTF-8"));
        }
        assert!(of("LS_COLORS").expect("it is not for pgweir").assignments.is_empty());
    }

    #[test]
    fn a_host_alone_says_what_to_serve() {
        assert_eq!(of(&[("PGHOST", "db")]).expect("sound").urls().expect("one"), ["postgres://"]);
        assert!(of(&[("PGHOST", ""), ("PGUSER", "ann")]).expect("sound").urls().expect("none").is_empty());
    }
}
