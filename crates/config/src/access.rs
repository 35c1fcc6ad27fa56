//! auth_hba_file, auth_ident_file, auth_ldap_options and auth_oauth_options: how clients prove who they are, and which users a system user may be.
//!
//! Promises that a file with a mistake is not used. At the start it is an error; at a reload the rules stay as they were, as
//! in PostgreSQL, with a warning for each mistake. What `hba` can read and nobody can check yet is a mistake, too.

use std::collections::BTreeSet;
use std::sync::Arc;

use hba::{Interface, Maps, Method, Mistake, Provider, Rules};
use machine::Settings;

use crate::built::Built;
use crate::ini::Read;
use crate::problem::{Place, Problem, quoted};
use crate::settings::Values;
use ::settings::{AuthType, Key};

/// Reads both files into the settings. `old`: those so far, whose rules stay if there is a mistake.
pub(crate) fn read(
    settings: &mut Settings,
    values: &Values,
    old: Option<&Settings>,
    read: &Read,
    problems: &mut Vec<Problem>,
) {
    problems.extend(outside(settings, values));
    let is_used = settings.uses(AuthType::Hba);
    let mut take = |key: Key, keeps: bool, mistakes: Vec<Mistake>| {
        for mistake in mistakes {
            let own = Place { file: mistake.file, line: mistake.line };
            // What is wrong with the file as a whole is best said where it is named.
            let place = values.place(key).filter(|_| own.line == 0).cloned().unwrap_or(own);
            let make = if keeps || !is_used { Problem::warning } else { Problem::error };
            problems.push(make(&place, key.name(), mistake.found, mistake.expected));
        }
        if keeps && is_used {
            let place = values.place(key).cloned().unwrap_or_default();
            let expected = "none: until then the lines that were read before hold".to_owned();
            problems.push(Problem::warning(&place, key.name(), "a file with mistakes".to_owned(), expected));
        }
    };
    let file = values.text(Key::auth_hba_file);
    let rules = if file.is_empty() {
        Ok(Rules::default())
    } else {
        rules(file, (values.built, settings.vouchers.provider.as_deref()), read)
    };
    settings.hba = rules.map(Arc::new).unwrap_or_else(|mistakes| {
        let old = old.map(|old| Arc::clone(&old.hba)).filter(|rules| !rules.as_slice().is_empty());
        take(Key::auth_hba_file, old.is_some(), mistakes);
        old.unwrap_or_default()
    });
    settings.join_rules_and_provider();
    let file = values.text(Key::auth_ident_file);
    let maps = if file.is_empty() { Ok(Maps::default()) } else { hba::read_maps(file, read) };
    settings.ident = maps.map(Arc::new).unwrap_or_else(|mistakes| {
        let old = old.map(|old| Arc::clone(&old.ident)).filter(|maps| !maps.is_empty());
        take(Key::auth_ident_file, old.is_some(), mistakes);
        old.unwrap_or_default()
    });
    problems.extend(without_rules(settings, values));
    problems.extend(without_maps(settings, values));
    problems.extend(unsupported(settings));
}

/// Takes `auth_ldap_options` and `auth_oauth_options` into the settings.
pub(crate) fn outside(settings: &mut Settings, values: &Values) -> Vec<Problem> {
    let (mut ldap, mut provider) = (None, None);
    let problems = [
        options(settings, values, (AuthType::Ldap, Key::auth_ldap_options), hba::read_directory, &mut ldap),
        options(settings, values, (AuthType::OAuth, Key::auth_oauth_options), hba::read_provider, &mut provider),
        values.built.without_pam().filter(|_| settings.uses(AuthType::Pam)).map(|expected| {
            let place = values.place(Key::auth_type).cloned().unwrap_or_default();
            Problem::error(&place, Key::auth_type.name(), quoted("pam"), expected.to_owned())
        }),
    ];
    (settings.vouchers.ldap, settings.vouchers.provider) = (ldap.map(Arc::new), provider.map(Arc::new));
    settings.join_rules_and_provider();
    problems.into_iter().flatten().collect()
}

/// Reads the options of a method. A mistake matters where the method is used.
fn options<T>(
    settings: &Settings,
    values: &Values,
    (auth_type, key): (AuthType, Key),
    read: fn(&str) -> Result<T, (String, String)>,
    into: &mut Option<T>,
) -> Option<Problem> {
    let is_used = settings.uses(auth_type);
    let text = values.text(key);
    if text.is_empty() {
        let place = values.place(Key::auth_type).cloned().unwrap_or_default();
        let expected = format!("{} beside it", key.name());
        return is_used.then(|| Problem::error(&place, Key::auth_type.name(), quoted(auth_type.as_str()), expected));
    }
    match read(text) {
        Ok(options) => {
            *into = Some(options);
            None
        }
        Err((found, expected)) => {
            let place = values.place(key).cloned().unwrap_or_default();
            let make = if is_used { Problem::error } else { Problem::warning };
            Some(make(&place, key.name(), found, expected))
        }
    }
}

/// `auth_type = hba` and no file.
pub(crate) fn without_rules(settings: &Settings, values: &Values) -> Option<Problem> {
    if !settings.uses(AuthType::Hba) || !values.text(Key::auth_hba_file).is_empty() {
        return None;
    }
    let place = values.place(Key::auth_type).cloned().unwrap_or_default();
    let expected = "auth_hba_file beside it".to_owned();
    Some(Problem::error(&place, Key::auth_type.name(), quoted("hba"), expected))
}

/// Maps that are named and that nothing defines: as in PostgreSQL nobody comes in by them.
fn without_maps(settings: &Settings, values: &Values) -> Vec<Problem> {
    let named = settings.hba.as_slice().iter().filter_map(|rule| Some((rule, rule.options.map.as_deref()?)));
    let mut told = BTreeSet::new();
    let unknown = named.filter(|(_, map)| !settings.ident.has(map) && told.insert(map.to_owned()));
    let problem = |(rule, map): (&hba::Rule, &str)| {
        let place = Place { file: rule.file.clone(), line: rule.line };
        let file = values.text(Key::auth_ident_file);
        let expected = match file.is_empty() {
            true => "auth_ident_file with such a map: as it is nobody comes in by this line".to_owned(),
            false => format!("a map of {}: as it is nobody comes in by this line", quoted(file)),
        };
        Problem::warning(&place, Key::auth_hba_file.name(), format!("map={}", quoted(map)), expected)
    };
    unknown.map(problem).collect()
}

/// Lines whose method is not supported. They decide as in PostgreSQL for whom they are, and refuse: to pass one over might let in by a later
/// line whoever it was to keep out.
fn unsupported(settings: &Settings) -> Vec<Problem> {
    let problem = |rule: &hba::Rule| {
        let Method::Unsupported(method) = rule.method else { return None };
        let place = Place { file: rule.file.clone(), line: rule.line };
        let expected =
            "another method: this one is not supported, and whoever comes by this line is refused".to_owned();
        Some(Problem::warning(&place, Key::auth_hba_file.name(), quoted(method), expected))
    };
    settings.hba.as_slice().iter().filter_map(problem).collect()
}

/// What there is to check logins with, besides passwords.
type Means<'a> = (Built, Option<&'a Provider>);

fn rules(file: &str, means: Means<'_>, read: &Read) -> Result<Rules, Vec<Mistake>> {
    let rules = hba::read_rules(file, &interfaces(), read)?;
    let mistake = |rule: &hba::Rule| {
        let (found, expected) = unusable(rule, means)?;
        Some(Mistake { file: rule.file.clone(), line: rule.line, found, expected })
    };
    let mistakes: Vec<Mistake> = rules.as_slice().iter().filter_map(mistake).take(MISTAKES_MAX).collect();
    if mistakes.is_empty() { Ok(rules) } else { Err(mistakes) }
}

/// What stands in the way of a line that can be read: what was found, and what was expected.
fn unusable(rule: &hba::Rule, (built, provider): Means<'_>) -> Option<(String, String)> {
    let options = &rule.options;
    match (rule.method, provider) {
        (Method::Pam, _) if options.pam_use_hostname => {
            let expected = "pam_use_hostname=0: host names are not looked up, and modules are told the address";
            Some(("pam_use_hostname=1".to_owned(), expected.to_owned()))
        }
        (Method::Pam, _) => built.without_pam().map(|expected| (quoted("pam"), expected.to_owned())),
        (Method::Gss, _) => built.without_gssapi().map(|expected| (quoted("gss"), expected.to_owned())),
        (Method::OAuth, _) if options.oauth_validator.is_some() || options.oauth_delegates_map => {
            let expected = "oauth without them: auth_oauth_options says what tokens are checked against";
            Some(("validator= or delegate_ident_mapping=".to_owned(), expected.to_owned()))
        }
        (Method::OAuth, None) => Some((quoted("oauth"), "auth_oauth_options in the main file".to_owned())),
        (Method::OAuth, Some(provider)) if options.oauth_issuer.as_ref() != Some(&provider.issuer) => {
            let found = quoted(options.oauth_issuer.as_deref().unwrap_or_default());
            Some((found, format!("{}, the issuer of auth_oauth_options", quoted(&provider.issuer))))
        }
        _ => None,
    }
}

/// More are rarely read.
const MISTAKES_MAX: usize = 100;

/// The addresses of this machine; none if the kernel does not tell.
fn interfaces() -> Vec<Interface> {
    let found = nix::ifaddrs::getifaddrs().map(|all| all.collect::<Vec<_>>()).unwrap_or_default();
    let ip = |address: &nix::sys::socket::SockaddrStorage| {
        let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
        v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
    };
    let both = found.iter().filter_map(|interface| {
        let (address, mask) = (interface.address.as_ref()?, interface.netmask.as_ref()?);
        Some(Interface { address: ip(address)?, mask: ip(mask)? })
    });
    both.collect()
}
