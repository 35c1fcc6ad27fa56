//! The statements that change or show the state of a session, as clients write them: real SQL, read by a parser of the
//! model's own, which shares nothing with the pooler's.

use crate::tokens::{Token, tokens};

/// A new value: as written, its parts if it is a list.
pub type Value = Vec<String>;

/// One statement about state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `None`: the value a session begins with.
    Set {
        name: String,
        value: Option<Value>,
        local: bool,
    },
    Reset(String),
    ResetAll,
    /// The default modes of transactions: settings and their values.
    Characteristics(Vec<(&'static str, &'static str)>),
    Show(String),
    SetConfig {
        name: String,
        value: String,
        local: bool,
    },
    CurrentSetting(String),
    Users,
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    Prepare {
        name: String,
        body: String,
    },
    Execute(String),
    /// `None`: all.
    Deallocate(Option<String>),
    Prepared,
    CreateTemporary {
        name: String,
        drops: bool,
    },
    Insert(String),
    Drop(String),
    Table(String),
    Declare {
        name: String,
        rows: u32,
        len: u32,
        hold: bool,
    },
    Fetch {
        name: String,
        count: u32,
    },
    /// `None`: all.
    Close(Option<String>),
    Cursors,
    Lock {
        key: i64,
        tries: bool,
    },
    Unlock(i64),
    UnlockAll,
    Locks,
    Listen(String),
    /// `None`: all.
    Unlisten(Option<String>),
    Notify {
        channel: String,
        payload: String,
    },
    Channels,
    Load(String),
    Seed(String),
    Random,
    /// A function with a side effect: the effect, and a row.
    Call(Box<Command>),
    Next(String),
    Current(String),
    Last,
    DiscardAll,
    DiscardPlans,
    DiscardSequences,
    DiscardTemporary,
    /// The pooler's query for the state of a followed session; with settings or without.
    Check {
        settings: bool,
        /// Settings that it queries by name.
        names: Vec<String>,
    },
    /// The pooler's query for side effects, of which there are none here, and the query whether they have changed.
    Catalogue {
        poll: bool,
    },
}

/// How the pooler's query begins, and the text in it if it includes settings.
pub(crate) const CHECK: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_depend";
const CHECKED_SETTINGS: &str = "FROM pg_catalog.pg_settings WHERE source = 'session')";

impl Command {
    /// `None`: not in this language.
    #[must_use]
    pub fn parse(text: &str) -> Option<Command> {
        if text.starts_with(CHECK) {
            let names = text.split("pg_catalog.current_setting('").skip(1).filter_map(|rest| rest.split_once('\''));
            // The role is always part of the query with settings.
            let names = names.filter(|(name, _)| *name != "role").map(|(name, _)| name.to_owned()).collect();
            return Some(Command::Check { settings: text.contains(CHECKED_SETTINGS), names });
        }
        // The pooler writes the schema where a search_path must not matter.
        let text = &text.replace("pg_catalog.set_config", "set_config");
        let tokens = tokens(text)?;
        let mut reader = Reader { text, tokens: &tokens };
        let command = reader.command()?;
        reader.tokens.is_empty().then_some(command)
    }

    /// Whether a failed transaction still accepts it.
    #[must_use]
    pub fn ends_failure(&self) -> bool {
        matches!(self, Command::RollbackTo(_))
    }

    /// Whether it returns rows. EXECUTE does: model clients execute only statements that return rows.
    #[must_use]
    pub fn returns_rows(&self) -> bool {
        use Command as C;
        let selects = matches!(self, C::Users | C::Prepared | C::Table(_) | C::Cursors | C::Locks | C::Channels);
        let calls = matches!(self, C::Lock { .. } | C::Unlock(_) | C::UnlockAll | C::Seed(_) | C::Random | C::Call(_));
        let sequences = matches!(self, C::Next(_) | C::Current(_) | C::Last);
        let settings = matches!(self, C::Show(_) | C::SetConfig { .. } | C::CurrentSetting(_));
        selects || calls || sequences || settings || matches!(self, C::Execute(_) | C::Fetch { .. })
    }
}

struct Reader<'t> {
    text: &'t str,
    tokens: &'t [(Token, usize)],
}

impl Reader<'_> {
    fn next(&mut self) -> Option<Token> {
        let ((first, _), rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first.clone())
    }

    /// Skips these words and signs if they are next.
    fn take(&mut self, wanted: &str) -> bool {
        let mut rest = self.tokens;
        for part in wanted.split(' ') {
            let Some(((first, _), behind)) = rest.split_first() else { return false };
            let here = match first {
                Token::Word(word) => word == part,
                Token::Sign(sign) => part.len() == 1 && part.starts_with(*sign),
                Token::Text(_) | Token::Number(_) => false,
            };
            if !here {
                return false;
            }
            rest = behind;
        }
        self.tokens = rest;
        true
    }

    fn word(&mut self) -> Option<String> {
        match self.next()? {
            Token::Word(word) => Some(word),
            _ => None,
        }
    }

    /// A setting's name, which may have a dot in it.
    fn setting(&mut self) -> Option<String> {
        let mut name = self.word()?;
        while self.take(".") {
            name = format!("{name}.{}", self.word()?);
        }
        Some(name.to_lowercase())
    }

    fn literal(&mut self) -> Option<String> {
        match self.next()? {
            Token::Text(text) => Some(text),
            _ => None,
        }
    }

    fn number<N: std::str::FromStr>(&mut self) -> Option<N> {
        match self.next()? {
            Token::Number(number) => number.parse().ok(),
            _ => None,
        }
    }

    fn command(&mut self) -> Option<Command> {
        let first = self.word()?;
        match first.as_str() {
            "set" => self.set(),
            "reset" => self.reset(),
            "show" => self.setting().map(Command::Show),
            "select" => self.select(),
            "savepoint" => self.word().map(Command::Savepoint),
            "release" => {
                self.take("savepoint");
                self.word().map(Command::Release)
            }
            "rollback" => {
                let to = self.take("to");
                self.take("savepoint");
                self.word().filter(|_| to).map(Command::RollbackTo)
            }
            "prepare" => self.prepare(),
            "execute" => self.word().map(Command::Execute),
            "deallocate" => self.deallocate(),
            "create" => self.create(),
            "insert" => {
                let into = self.take("into");
                let name = self.word().filter(|_| into)?;
                self.take("values ( default )").then_some(Command::Insert(name))
            }
            "drop" => {
                if self.take("table") {
                    self.word().map(Command::Drop)
                } else {
                    None
                }
            }
            "declare" => self.declare(),
            "fetch" => {
                let count = self.number()?;
                if self.take("from") { Some(Command::Fetch { name: self.word()?, count }) } else { None }
            }
            "close" => self.all_or_one().map(Command::Close),
            "listen" => self.word().map(Command::Listen),
            "unlisten" => {
                if self.take("*") {
                    Some(Command::Unlisten(None))
                } else {
                    self.word().map(|name| Command::Unlisten(Some(name)))
                }
            }
            "notify" => {
                let channel = self.word()?;
                let payload = if self.take(",") { self.literal()? } else { String::new() };
                Some(Command::Notify { channel, payload })
            }
            "load" => self.literal().map(Command::Load),
            "discard" => match self.word()?.as_str() {
                "all" => Some(Command::DiscardAll),
                "plans" => Some(Command::DiscardPlans),
                "sequences" => Some(Command::DiscardSequences),
                "temp" | "temporary" => Some(Command::DiscardTemporary),
                _ => None,
            },
            _ => None,
        }
    }

    fn deallocate(&mut self) -> Option<Command> {
        self.take("prepare");
        self.all_or_one().map(Command::Deallocate)
    }

    fn all_or_one(&mut self) -> Option<Option<String>> {
        if self.take("all") { Some(None) } else { self.word().map(Some) }
    }

    fn set(&mut self) -> Option<Command> {
        if self.take("session characteristics as transaction") {
            return self.characteristics();
        }
        let local = self.take("local");
        // SET SESSION AUTHORIZATION has a word of its own there; SET SESSION SESSION AUTHORIZATION has both.
        if !local && !self.tokens.get(1).is_some_and(|(next, _)| *next == Token::Word("authorization".to_owned())) {
            self.take("session");
        }
        let aliases = [
            ("time zone", "timezone"),
            ("names", "client_encoding"),
            ("schema", "search_path"),
            ("role", "role"),
            ("session authorization", "session_authorization"),
        ];
        let found = aliases.into_iter().find(|(words, _)| self.take(words));
        let name = match found {
            Some((_, name)) => {
                // SET ROLE TO is not SQL, but SET role = x is.
                let _ = self.take("=") || self.take("to");
                name.to_owned()
            }
            None => {
                let name = self.setting()?;
                (self.take("=") || self.take("to")).then_some(())?;
                name
            }
        };
        let value = if self.take("default") { None } else { Some(self.values()?) };
        let none = name == "role" && value.as_deref().is_some_and(|value| value == ["none"]);
        let value = if none { Some(Value::new()) } else { value };
        Some(Command::Set { name, value, local })
    }

    fn values(&mut self) -> Option<Value> {
        let mut values = Vec::new();
        loop {
            let minus = self.take("-");
            let value = match self.next()? {
                Token::Word(value) | Token::Text(value) => value,
                Token::Number(value) if minus => format!("-{value}"),
                Token::Number(value) => value,
                Token::Sign(_) => return None,
            };
            values.push(value);
            if !self.take(",") {
                return Some(values);
            }
        }
    }

    fn characteristics(&mut self) -> Option<Command> {
        let mut settings = Vec::new();
        while !self.tokens.is_empty() {
            self.take(",");
            let modes = [
                ("isolation level serializable", ("default_transaction_isolation", "serializable")),
                ("isolation level repeatable read", ("default_transaction_isolation", "repeatable read")),
                ("isolation level read committed", ("default_transaction_isolation", "read committed")),
                ("read only", ("default_transaction_read_only", "on")),
                ("read write", ("default_transaction_read_only", "off")),
            ];
            settings.push(modes.into_iter().find(|(words, _)| self.take(words))?.1);
        }
        Some(Command::Characteristics(settings))
    }

    fn reset(&mut self) -> Option<Command> {
        if self.take("all") {
            return Some(Command::ResetAll);
        }
        if self.take("session authorization") {
            return Some(Command::Reset("session_authorization".to_owned()));
        }
        if self.take("time zone") {
            return Some(Command::Reset("timezone".to_owned()));
        }
        self.setting().map(Command::Reset)
    }

    fn prepare(&mut self) -> Option<Command> {
        let name = self.word()?;
        self.take("as").then_some(())?;
        let start = self.tokens.first()?.1;
        self.tokens = &[];
        Some(Command::Prepare { name, body: self.text[start..].trim_ascii().to_owned() })
    }

    fn create(&mut self) -> Option<Command> {
        if !(self.take("temp table") || self.take("temporary table")) {
            return None;
        }
        let name = self.word()?;
        self.take("( x int )").then_some(())?;
        Some(Command::CreateTemporary { name, drops: self.take("on commit drop") })
    }

    fn declare(&mut self) -> Option<Command> {
        let name = self.word()?;
        self.take("cursor").then_some(())?;
        let hold = self.take("with hold");
        self.take("for select").then_some(())?;
        Some(Command::Declare { name, rows: self.number()?, len: self.number()?, hold })
    }

    fn select(&mut self) -> Option<Command> {
        if self.take("current_user , session_user") {
            return Some(Command::Users);
        }
        if self.take("* from") {
            return self.word().map(Command::Table);
        }
        if self.take("name from") {
            return match self.word()?.as_str() {
                "pg_prepared_statements" => Some(Command::Prepared),
                "pg_cursors" => Some(Command::Cursors),
                _ => None,
            };
        }
        if self.take("objid from pg_locks where locktype =") {
            self.literal()?;
            return self.take("and pid = pg_backend_pid ( )").then_some(Command::Locks);
        }
        let function = self.word()?;
        self.take("(").then_some(())?;
        let command = self.call(&function)?;
        self.take(")").then_some(command)
    }

    fn call(&mut self, function: &str) -> Option<Command> {
        Some(match function {
            "set_config" => {
                let name = self.literal()?;
                let value = self.argument()?;
                self.take(",").then_some(())?;
                let local = self.take("true");
                (local || self.take("false")).then_some(())?;
                Command::SetConfig { name, value, local }
            }
            // User-defined functions, whose names do not show their side effects.
            "hidden_set" => Command::SetConfig { name: self.literal()?, value: self.argument()?, local: false },
            "hidden_temp" => {
                let name = self.literal()?;
                Command::Call(Box::new(Command::CreateTemporary { name, drops: false }))
            }
            "hidden_lock" => Command::Lock { key: self.number()?, tries: false },
            "current_setting" => {
                let name = self.literal()?;
                self.take(", true");
                Command::CurrentSetting(name)
            }
            "pg_advisory_lock" => Command::Lock { key: self.number()?, tries: false },
            "pg_try_advisory_lock" => Command::Lock { key: self.number()?, tries: true },
            "pg_advisory_unlock" => Command::Unlock(self.number()?),
            "pg_advisory_unlock_all" => Command::UnlockAll,
            "pg_listening_channels" => Command::Channels,
            "pg_notify" => {
                let channel = self.literal()?;
                Command::Call(Box::new(Command::Notify { channel, payload: self.argument()? }))
            }
            "setseed" => match self.next()? {
                Token::Number(seed) => Command::Seed(seed),
                _ => return None,
            },
            "random" => Command::Random,
            "nextval" => Command::Next(self.literal()?),
            "currval" => Command::Current(self.literal()?),
            "lastval" => Command::Last,
            _ => return None,
        })
    }

    /// A further argument of a call.
    fn argument(&mut self) -> Option<String> {
        if self.take(",") { self.literal() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_many_names() {
        let set = |text: &str| match Command::parse(text) {
            Some(Command::Set { name, value, local }) => (name, value.unwrap_or_default().join("|"), local),
            other => panic!("{text}: {other:?}"),
        };
        let is = |name: &str, value: &str, local: bool| (name.to_owned(), value.to_owned(), local);
        assert_eq!(set("SET app.User TO 'x'"), is("app.user", "x", false));
        assert_eq!(set("set local work_mem = 4096"), is("work_mem", "4096", true));
        assert_eq!(set("set session time zone 'UTC'"), is("timezone", "UTC", false));
        assert_eq!(set("set search_path to a, \"B\""), is("search_path", "a|B", false));
        assert_eq!(set("set session session authorization boss"), is("session_authorization", "boss", false));
        assert_eq!(set("set role none"), is("role", "", false));
        assert_eq!(Command::parse("set role"), None);
    }

    #[test]
    fn what_is_prepared_is_kept_as_written() {
        let body = "select 2 10".to_owned();
        let wanted = Command::Prepare { name: "q1".to_owned(), body };
        assert_eq!(Command::parse("prepare q1 as select 2 10 "), Some(wanted));
        assert_eq!(Command::parse("rollback work"), None);
    }
}
