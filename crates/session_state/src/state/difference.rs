//! The statements that give a server its session's settings and role.

use sql::{is_dangerous, quoted_setting};

use super::{Again, Base, Identity, State, rights};
use crate::parameters::{is_list_of_names, quote_literal, write_set_config};

/// How much harm is done if a difference is refused and the client's statement runs all the same.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// There is no difference.
    None,
    Low,
    /// It would run with another's rights, or see another's rows.
    High,
}

/// The state that a session wants, and the state that its server has.
#[derive(Debug)]
pub struct Difference<'a> {
    pub wanted: &'a State,
    pub found: &'a State,
    /// The server's base, which both states are relative to.
    pub base: &'a Base,
    /// The server may have its role and guarded settings since before the session asked for them. They are set once more, so that PostgreSQL checks
    /// the rights again, and finds the role that has the name now. //= pg18 sql-set-role
    pub asks_again: bool,
}

impl Difference<'_> {
    /// Appends the statements, each with its semicolon.
    pub fn write(&self, out: &mut Vec<u8>) -> Risk {
        let Difference { wanted, found, base, asks_again } = *self;
        let identity = found.identity.over(base.identity());
        let mut writer = Writer { identity, base: base.identity(), risk: Risk::None, out };
        if asks_again {
            writer.become_login();
        }
        for (name, setting) in &found.settings {
            if !wanted.settings.contains_key(name) {
                debug_assert!(setting.by.is_none(), "what another than the login has set is cleared, not reset");
                if rights::may_be_needed(name) {
                    writer.assume(None);
                }
                match base.setting(name) {
                    Some(again) => writer.set(name, again),
                    None => writer.reset(name),
                }
            }
        }
        // Where names are looked up comes before what names something.
        let first = wanted.settings.get_key_value(&b"search_path"[..]);
        let last = wanted.settings.iter().filter(|(name, _)| State::comes_last(name));
        let others = wanted.settings.iter();
        let others = others.filter(|(name, _)| ***name != *b"search_path" && !State::comes_last(name));
        for (name, setting) in first.into_iter().chain(others).chain(last) {
            let is_guarded = rights::may_be_needed(name);
            let differs = found.settings.get(name) != Some(setting) || asks_again && is_guarded;
            let Some(again) = setting.again.as_ref().filter(|_| differs) else { continue };
            if is_guarded {
                writer.assume(setting.by.as_deref());
            }
            writer.set(name, again);
            // PostgreSQL may refuse the setting, which ends the session. Its statement must not run before.
            if asks_again && is_guarded {
                writer.risk = Risk::High;
            }
        }
        writer.assume(Some(&wanted.identity));
        writer.risk
    }
}

/// Statements, and the role that they run as.
struct Writer<'a> {
    identity: Identity,
    /// The identity of a session that has assumed none.
    base: &'a Identity,
    risk: Risk,
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    /// What follows runs as this one; `None`: as the server began.
    fn assume(&mut self, identity: Option<&Identity>) {
        let wanted = &identity.map_or_else(|| self.base.clone(), |identity| identity.over(self.base));
        if self.identity == *wanted {
            return;
        }
        self.risk = Risk::High;
        if self.identity.authorization != wanted.authorization {
            // Only the login may assume another authorization, whatever the present role.
            self.become_login();
            if let Some(clause) = &wanted.authorization {
                self.write_set(clause);
            }
            self.identity = Identity { authorization: wanted.authorization.clone(), role: None };
        }
        if self.identity.role != wanted.role {
            match &wanted.role {
                Some(clause) => self.write_set(clause),
                // RESET ROLE may bring back the login's.
                None if self.base.role.is_some() => self.write_set(b"role none"),
                None => self.out.extend_from_slice(b"RESET ROLE;"),
            }
            self.identity.role.clone_from(&wanted.role);
        }
    }

    /// Has neither a role nor another authorization.
    fn become_login(&mut self) {
        if !self.identity.is_login() {
            self.risk = Risk::High;
            self.out.extend_from_slice(b"RESET SESSION AUTHORIZATION;RESET ROLE;");
            self.identity = Identity::default();
        }
    }

    fn set(&mut self, name: &[u8], again: &Again) {
        self.rise(name);
        match again {
            Again::Clause(clause) => self.write_set(clause),
            Again::Value(value) => self.set_value(name, value),
        }
    }

    /// By SET where that can be: in a transaction a SELECT is the first query, after which its isolation cannot be chosen.
    fn set_value(&mut self, name: &[u8], value: &[u8]) {
        let quoted = quoted_setting(name).filter(|_| value.is_ascii() && !is_list_of_names(name));
        let Some(quoted) = quoted else { return write_set_config(name, value, b"UTF8", self.out) };
        self.out.extend_from_slice(b"SET SESSION ");
        self.out.extend_from_slice(&quoted);
        self.out.push(b'=');
        quote_literal(value, self.out);
        self.out.push(b';');
    }

    fn reset(&mut self, name: &[u8]) {
        self.rise(name);
        // What cannot be named was cleared.
        let Some(quoted) = quoted_setting(name) else { return };
        self.out.extend_from_slice(b"RESET ");
        self.out.extend_from_slice(&quoted);
        self.out.push(b';');
    }

    fn write_set(&mut self, clause: &[u8]) {
        self.out.extend_from_slice(b"SET SESSION ");
        self.out.extend_from_slice(clause);
        self.out.push(b';');
    }

    fn rise(&mut self, name: &[u8]) {
        // Nobody's rights depend on what is the pooler's own.
        let is_dangerous = is_dangerous(name) && !name.starts_with(b"pgweir.");
        self.risk = self.risk.max(if is_dangerous { Risk::High } else { Risk::Low });
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SettingChange, base, needs_rights};
    use super::*;

    fn set(state: &mut State, name: &str, clause: &str) {
        let again = Some(Again::Clause(clause.as_bytes().into()));
        state.apply(&SettingChange::Set { name: name.as_bytes().into(), again });
    }

    fn difference(wanted: &State, found: &State) -> (String, Risk) {
        let mut out = Vec::new();
        let risk = wanted.write_difference(found, &base::LOGIN, &mut out);
        (String::from_utf8(out).expect("test values are ASCII"), risk)
    }

    #[test]
    fn a_server_gets_what_its_session_set_and_loses_what_others_did() {
        let (mut session, mut server) = (State::default(), State::default());
        set(&mut session, "statement_timeout", "statement_timeout = '5s'");
        set(&mut session, "work_mem", "work_mem to '4MB'");
        set(&mut server, "work_mem", "work_mem to '4MB'");
        set(&mut server, "enable_seqscan", "enable_seqscan = off");
        let expected = "RESET \"enable_seqscan\";SET SESSION statement_timeout = '5s';";
        assert_eq!(difference(&session, &server), (expected.to_owned(), Risk::Low));
        assert_eq!(difference(&session, &session), (String::new(), Risk::None));
        set(&mut server, "app.user_id", "app.user_id = '7'");
        let (text, risk) = difference(&session, &server);
        assert!(text.contains("RESET \"app\".\"user_id\";") && risk == Risk::High, "{text}");
    }

    #[test]
    fn the_search_path_comes_first() {
        let mut session = State::default();
        set(&mut session, "default_text_search_config", "default_text_search_config = s.c");
        set(&mut session, "search_path", "search_path = s");
        let expected = "SET SESSION search_path = s;SET SESSION default_text_search_config = s.c;";
        assert_eq!(difference(&session, &State::default()), (expected.to_owned(), Risk::High));
    }

    #[test]
    fn roles_come_last_and_what_needed_one_is_set_as_it() {
        let (mut session, nothing) = (State::default(), State::default());
        set(&mut session, "session_authorization", "session authorization ann");
        set(&mut session, "role", "role admin");
        set(&mut session, "log_min_messages", "log_min_messages = 'debug1'");
        session.apply(&SettingChange::Reset(b"role"[..].into()));
        set(&mut session, "work_mem", "work_mem = '1MB'");
        let (text, risk) = difference(&session, &nothing);
        let expected = "SET SESSION session authorization ann;SET SESSION role admin;\
                        SET SESSION log_min_messages = 'debug1';SET SESSION work_mem = '1MB';RESET ROLE;";
        assert_eq!((text.as_str(), risk), (expected, Risk::High));
        assert!(session.needs_clearing(&base::LOGIN) && !nothing.needs_clearing(&base::LOGIN));
        session.apply(&SettingChange::ResetAll);
        let (text, _) = difference(&nothing, &session);
        assert_eq!(text, "RESET SESSION AUTHORIZATION;RESET ROLE;");
    }

    #[test]
    fn what_needs_the_rights_of_the_login_is_set_before_a_role_is_assumed() {
        let (mut session, mut server) = (State::default(), State::default());
        set(&mut session, "lo_compat_privileges", "lo_compat_privileges = on");
        set(&mut session, "role", "role r");
        set(&mut server, "role", "role r");
        let (text, _) = difference(&session, &server);
        assert_eq!(text, "RESET ROLE;SET SESSION lo_compat_privileges = on;SET SESSION role r;");
        server.apply(&SettingChange::Reset(b"role"[..].into()));
        set(&mut server, "log_statement", "log_statement = 'all'");
        set(&mut server, "role", "role r");
        let (text, _) = difference(&State::default(), &server);
        assert_eq!(text, "RESET ROLE;RESET \"log_statement\";");
    }

    #[test]
    fn what_was_set_before_the_session_asked_is_set_again() {
        let mut session = State::default();
        set(&mut session, "work_mem", "work_mem = '1MB'");
        assert!(!needs_rights(&session), "any login may set it");
        set(&mut session, "session_replication_role", "session_replication_role = replica");
        set(&mut session, "role", "role r");
        assert!(needs_rights(&session));
        assert_eq!(difference(&session, &session).0, "");
        let mut out = Vec::new();
        let older = Difference { wanted: &session, found: &session, base: &base::LOGIN, asks_again: true };
        assert_eq!(older.write(&mut out), Risk::High);
        let expected = "RESET SESSION AUTHORIZATION;RESET ROLE;\
                        SET SESSION session_replication_role = replica;SET SESSION role r;";
        assert_eq!(String::from_utf8(out).expect("test values are ASCII"), expected);
    }
}
