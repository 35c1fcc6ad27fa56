//! The secret that a login is checked against: that of auth_file, or one that is looked up.
//!
//! Promises that every user who is not in auth_file is looked up, whoever it is, so that time does not tell who exists.

use auth::{Password, Secret};
use machine::Settings;
use units::heap;
use units::names::shown;

use super::lookup::Outcome;
use super::method::Method;
use super::startup::Wish;
use super::{Login, Refused};

/// Where a login's secret comes from.
#[derive(Debug, Default)]
pub(super) enum Source {
    #[default]
    AuthFile,
    LookedUp(Secret),
    /// A lookup has found no secret that can be used.
    Nothing {
        /// The user exists all the same.
        is_known: bool,
        /// Why, for the log.
        why: &'static str,
    },
}

impl Source {
    /// A secret of the login's user that servers can be logged in to with.
    pub(super) fn into_password(self) -> Option<Secret> {
        match self {
            Source::LookedUp(secret @ (Secret::Plain(_) | Secret::Md5(_))) => Some(secret),
            Source::LookedUp(Secret::Scram(_)) | Source::AuthFile | Source::Nothing { .. } => None,
        }
    }

    /// The memory that it takes. Copies of a verifier share it.
    pub(super) fn weight(&self) -> usize {
        match self {
            Source::LookedUp(Secret::Plain(password)) => heap::taken(password.as_str().len()),
            Source::LookedUp(_) | Source::AuthFile | Source::Nothing { .. } => 0,
        }
    }
}

/// Whether the login's user has to be looked up.
pub(super) fn is_lookup_needed(settings: &Settings, wish: &Wish, method: &Method) -> bool {
    let is_known = wish.trusted || settings.secrets.contains_key(&*wish.user);
    !is_known && !matches!(method, Method::Any | Method::Outside(_))
}

/// The secret that a login is checked against.
pub(super) fn secret_of<'a>(login: Option<&'a Login>, settings: &'a Settings, user: &str) -> Option<&'a Secret> {
    match login.map(|login| &login.source) {
        Some(Source::LookedUp(secret)) => Some(secret),
        Some(Source::Nothing { .. }) => None,
        Some(Source::AuthFile) | None => settings.secrets.get(user),
    }
}

/// Whether the user exists, with a password or without.
pub(super) fn is_known(login: &Login, settings: &Settings, user: &str) -> bool {
    match &login.source {
        Source::Nothing { is_known, .. } => *is_known,
        Source::AuthFile | Source::LookedUp(_) => secret_of(Some(login), settings, user).is_some(),
    }
}

/// What a lookup has said becomes the login's. False: its user has to be looked up once more.
pub(super) fn settle(login: &mut Login, outcome: Outcome) -> Result<bool, Refused> {
    let is_settled = outcome != Outcome::Again;
    login.source = match outcome {
        Outcome::Found(secret) => Source::LookedUp(secret),
        Outcome::Unknown => Source::Nothing { is_known: false, why: "no such user, in auth_file or by auth_query" },
        Outcome::NoPassword => Source::Nothing { is_known: true, why: "auth_query has returned no password" },
        Outcome::Expired => Source::Nothing { is_known: true, why: "the user's password has expired" },
        Outcome::Again => Source::AuthFile,
        Outcome::Wrong => return Err(Refused::ConfigError),
        Outcome::Unreachable(database) => {
            return Err(Refused::LookupUnreachable { database: shown(&database).to_string() });
        }
        Outcome::TooMany => {
            return Err(Refused::TooManyLookups);
        }
    };
    Ok(is_settled)
}

/// An empty password means that there is none.
pub(super) fn usable(secret: Option<&Secret>) -> Option<&Secret> {
    secret.filter(|secret| **secret != Secret::Plain(Password::new("")))
}
