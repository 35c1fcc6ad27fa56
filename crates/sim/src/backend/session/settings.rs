//! Statements that change or show settings, and the pooler's query for the state that a session has left on its server.

use super::super::answer::{Answer, Done, one_column, refused, said, selected, truth};
use crate::command::Command;
use crate::parameters;
use crate::settings::{self, SettingRefusal};
use crate::state::State;

pub(super) fn obey(state: &mut State, command: &Command) -> Done {
    match command {
        Command::Set { name, value, local } => {
            set(state, name, value.as_deref(), *local)?;
            said("SET")
        }
        Command::Characteristics(settings) => {
            for (name, value) in settings {
                set(state, name, Some(&[(*value).to_owned()]), false)?;
            }
            said("SET")
        }
        Command::Reset(name) => {
            set(state, name, None, false)?;
            said("RESET")
        }
        Command::ResetAll => {
            state.reset_all();
            said("RESET")
        }
        Command::SetConfig { name, value, local } => {
            let name = &name.to_lowercase();
            set(state, name, Some(&settings::parts(name, value)), *local)?;
            selected([shown(state, name)?])
        }
        Command::CurrentSetting(name) => selected([shown(state, name)?]),
        Command::Users => selected([format!("{} {}", state.user(), state.session_user())]),
        Command::Show(name) => {
            let value = shown(state, name)?.into_bytes();
            Ok(Answer::with_rows("SHOW".to_owned(), one_column([value].into_iter())))
        }
        _ => unreachable!("only what is about settings comes here"),
    }
}

fn shown(state: &State, name: &str) -> Result<String, SettingRefusal> {
    let name = name.to_lowercase();
    if name == "session_authorization" {
        return Ok(state.session_user().to_owned());
    }
    let value = state.setting(&name);
    if name == "role" {
        return Ok(if value.is_empty() { "none" } else { value }.to_owned());
    }
    if !is_known(&name) {
        return unknown(&name);
    }
    Ok(value.to_owned())
}

fn is_known(name: &str) -> bool {
    parameters::index(name).is_some() || settings::default(name).is_some()
}

fn unknown<T>(name: &str) -> Result<T, SettingRefusal> {
    refused("42704", format!("unrecognized configuration parameter \"{name}\""))
}

fn set(state: &mut State, name: &str, value: Option<&[String]>, local: bool) -> Result<(), SettingRefusal> {
    if settings::is_identity(name) {
        return assume(state, name, value, local);
    }
    // The name is checked also when the setting is reset.
    let new = match value {
        Some(parts) => Some(settings::canonical(name, parts)?),
        None if !is_known(name) => return unknown(name),
        None => None,
    };
    if settings::is_guarded(name) && !settings::is_superuser(state.user()) {
        return refused("42501", format!("permission denied to set parameter \"{name}\""));
    }
    state.set(name, new, local);
    Ok(())
}

/// SET ROLE, SET SESSION AUTHORIZATION.
fn assume(state: &mut State, name: &str, value: Option<&[String]>, local: bool) -> Result<(), SettingRefusal> {
    // The role that servers begin with is the login's, and nobody else's.
    let is_anothers = value.is_none() && !state.setting("session_authorization").is_empty();
    if name == "role" && (is_anothers || value.is_some_and(<[String]>::is_empty)) {
        state.set(name, Some(String::new()), local);
        return Ok(());
    }
    let Some(role) = value.and_then(|parts| parts.first()) else {
        state.set(name, None, local);
        if name == "session_authorization" {
            state.set("role", None, local);
        }
        return Ok(());
    };
    if !settings::is_role(role) {
        return refused("22023", format!("role \"{role}\" does not exist"));
    }
    if name == "role" {
        let session = state.session_user();
        let may = settings::is_superuser(session) || settings::ROLES.contains(&role.as_str()) || role == session;
        if !may {
            return refused("42501", format!("permission denied to set role \"{role}\""));
        }
    } else {
        if !settings::is_superuser(&state.login) && *role != state.login {
            return refused("42501", "permission denied to set session authorization");
        }
        state.set("role", Some(String::new()), local);
    }
    state.set(name, Some(role.clone()), local);
    Ok(())
}

/// The state left on a server: whether there are temporary tables, held cursors and locks; with `settings` the settings
/// that were set, and the role; and the settings of these names.
pub(super) fn check(state: &State, settings: bool, names: &[String]) -> Answer {
    let (kept, lasting) = (state.kept(), state.lasting());
    let held = lasting.cursors.values().any(|cursor| cursor.hold);
    let truths = [!kept.tables.is_empty(), held, !lasting.locks.is_empty()];
    // Custom settings, role and session authorization are not in pg_settings.
    let is_listed = |name: &str| !settings::is_custom(name) && !settings::is_identity(name);
    let pairs = state.set_by_session().filter(|(name, _)| is_listed(name)).map(|(name, value)| {
        let name_shown = parameters::index(name).map_or(name, |parameter| parameters::NAMES[parameter]);
        format!("{}={}", quoted(name_shown), quoted(&settings::listed(name, value)))
    });
    let pairs: Vec<String> = pairs.collect();
    let listed = Some(pairs.join(",")).filter(|listed| settings && !listed.is_empty());
    let identity = ["session_authorization", "role"].into_iter().filter(|_| settings);
    let named = identity.chain(names.iter().map(String::as_str));
    let named: Vec<String> = named.map(|name| format!("{}={}", quoted(name), quoted(state.setting(name)))).collect();
    let columns = truths.into_iter().map(|is| Some(truth(is))).chain([listed, Some(named.join(","))]);
    let row = columns.map(|column| column.map(String::into_bytes)).collect();
    Answer::with_rows("SELECT 1".to_owned(), vec![row])
}

fn quoted(text: &str) -> String {
    match text.contains('\\') {
        true => format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''")),
        false => format!("'{}'", text.replace('\'', "''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn obeyed(state: &mut State, text: &str) -> Result<(), &'static str> {
        let command = Command::parse(text).expect("it is in the language");
        obey(state, &command).map(drop).map_err(|(code, _)| code)
    }

    #[test]
    fn roles_and_settings_are_restricted() {
        let mut state = State::new(parameters::settings(parameters::DEFAULTS), "user1");
        assert_eq!(obeyed(&mut state, "set role = 'stranger'"), Err("42501"));
        assert_eq!(obeyed(&mut state, "set session_replication_role = 'replica'"), Err("42501"));
        assert_eq!(obeyed(&mut state, "set role = 'boss'"), Ok(()));
        assert_eq!(obeyed(&mut state, "set session_replication_role = 'replica'"), Ok(()));
        assert_eq!((state.user(), state.session_user()), ("boss", "user1"));
        assert_eq!(obeyed(&mut state, "reset no_such"), Err("42704"));
        assert_eq!(obeyed(&mut state, "show no_such"), Err("42704"));
    }
}
