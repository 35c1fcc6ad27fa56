//! What the statements do that change or show the session's state.

use wire::backend::{self, Status};

use super::extended::Prepared;
use super::{Backend, execute};
use crate::command::Command;
use crate::parameters;
use crate::settings::{self, Refusal};
use crate::state::Table;
use crate::statement::{Body, Statement, row};

/// Of a column each, which may be NULL.
type Row = Vec<Option<Vec<u8>>>;

/// What is answered: rows, if it returns any, and how it ended.
struct Answer {
    rows: Option<Vec<Row>>,
    tag: String,
}

type Done = Result<Answer, Refusal>;

fn said(tag: &str) -> Done {
    Ok(Answer { rows: None, tag: tag.to_owned() })
}

fn selected(rows: impl IntoIterator<Item = String>) -> Done {
    Ok(with_rows("SELECT", rows.into_iter().map(String::into_bytes)))
}

/// Rows of one column.
fn with_rows(tag: &str, rows: impl Iterator<Item = Vec<u8>>) -> Answer {
    let rows: Vec<Row> = rows.map(|value| vec![Some(value)]).collect();
    Answer { tag: format!("{tag} {}", rows.len()), rows: Some(rows) }
}

fn refused<T>(code: &'static str, text: impl Into<String>) -> Result<T, Refusal> {
    Err((code, text.into()))
}

fn truth(is: bool) -> String {
    if is { "t" } else { "f" }.to_owned()
}

impl Backend {
    /// False: it failed. `described`: rows come with their description.
    pub(super) fn command(&mut self, command: &Command, described: bool, out: &mut Vec<u8>) -> bool {
        match self.obey(command) {
            Ok(answer) => {
                if let Some(rows) = &answer.rows {
                    if described {
                        execute::describe_rows(out);
                    }
                    for row in rows {
                        backend::encode_data_row(out, row.iter().map(Option::as_deref));
                    }
                }
                backend::encode_command_complete(out, &answer.tag);
                true
            }
            Err((code, text)) => {
                self.error(code, &text, out);
                false
            }
        }
    }

    fn obey(&mut self, command: &Command) -> Done {
        match command {
            Command::Set { .. }
            | Command::Reset(_)
            | Command::ResetAll
            | Command::Characteristics(_)
            | Command::Show(_)
            | Command::SetConfig { .. }
            | Command::CurrentSetting(_)
            | Command::Users => self.of_settings(command),
            Command::Savepoint(_) | Command::Release(_) | Command::RollbackTo(_) => self.of_savepoints(command),
            Command::Prepare { .. } | Command::Execute(_) | Command::Deallocate(_) | Command::Prepared => {
                self.of_statements(command)
            }
            Command::CreateTemporary { .. } | Command::Insert(_) | Command::Drop(_) | Command::Table(_) => {
                self.of_tables(command)
            }
            Command::Declare { .. } | Command::Fetch { .. } | Command::Close(_) | Command::Cursors => {
                self.of_cursors(command)
            }
            Command::Lock { .. } | Command::Unlock(_) | Command::UnlockAll | Command::Locks => self.of_locks(command),
            Command::Listen(_) | Command::Unlisten(_) | Command::Notify { .. } | Command::Channels => {
                self.of_channels(command)
            }
            Command::Next(_) | Command::Current(_) | Command::Last => self.of_sequences(command),
            Command::Load(_) | Command::Seed(_) | Command::Random => self.of_the_rest(command),
            Command::Call(inner) => {
                self.obey(inner)?;
                selected(["".to_owned()])
            }
            Command::Check { settings, names } => Ok(self.check(*settings, names)),
            Command::Catalogue { poll: true } => selected(["1".to_owned()]),
            Command::Catalogue { poll: false } => selected([]),
            Command::DiscardAll | Command::DiscardPlans | Command::DiscardSequences | Command::DiscardTemporary => {
                self.discard(command)
            }
        }
    }

    fn of_settings(&mut self, command: &Command) -> Done {
        match command {
            Command::Set { name, value, local } => {
                self.set(name, value.as_deref(), *local)?;
                said("SET")
            }
            Command::Characteristics(settings) => {
                for (name, value) in settings {
                    self.set(name, Some(&[(*value).to_owned()]), false)?;
                }
                said("SET")
            }
            Command::Reset(name) => {
                self.set(name, None, false)?;
                said("RESET")
            }
            Command::ResetAll => {
                self.state.reset_all();
                said("RESET")
            }
            Command::SetConfig { name, value, local } => {
                let name = &name.to_lowercase();
                self.set(name, Some(&settings::parts(name, value)), *local)?;
                selected([self.shown(name)?])
            }
            Command::CurrentSetting(name) => selected([self.shown(name)?]),
            Command::Users => selected([format!("{} {}", self.state.user(), self.state.session_user())]),
            Command::Show(name) => {
                let shown = std::iter::once(self.shown(name)?.into_bytes());
                Ok(Answer { tag: "SHOW".to_owned(), ..with_rows("", shown) })
            }
            _ => unreachable!("only what is about settings comes here"),
        }
    }

    fn shown(&self, name: &str) -> Result<String, Refusal> {
        let name = name.to_lowercase();
        if name == "session_authorization" {
            return Ok(self.state.session_user().to_owned());
        }
        let value = self.state.setting(&name);
        if name == "role" {
            return Ok(if value.is_empty() { "none" } else { value }.to_owned());
        }
        if parameters::index(&name).is_none() && settings::default(&name).is_none() {
            return refused("42704", format!("unrecognized configuration parameter \"{name}\""));
        }
        Ok(value.to_owned())
    }

    fn set(&mut self, name: &str, value: Option<&[String]>, local: bool) -> Result<(), Refusal> {
        if settings::is_identity(name) {
            return self.assume(name, value, local);
        }
        // The name is judged also where it goes back to what it was.
        let new = match value {
            Some(parts) => Some(settings::canonical(name, parts)?),
            None if parameters::index(name).is_none() && settings::default(name).is_none() => {
                return refused("42704", format!("unrecognized configuration parameter \"{name}\""));
            }
            None => None,
        };
        if settings::is_guarded(name) && !settings::is_superuser(self.state.user()) {
            return refused("42501", format!("permission denied to set parameter \"{name}\""));
        }
        self.state.set(name, new, local);
        Ok(())
    }

    /// SET ROLE, SET SESSION AUTHORIZATION.
    fn assume(&mut self, name: &str, value: Option<&[String]>, local: bool) -> Result<(), Refusal> {
        let Some(role) = value.and_then(|parts| parts.first()) else {
            self.state.set(name, None, local);
            if name == "session_authorization" {
                self.state.set("role", None, local);
            }
            return Ok(());
        };
        if !settings::is_role(role) {
            return refused("22023", format!("role \"{role}\" does not exist"));
        }
        if name == "role" {
            let session = self.state.session_user();
            let may = settings::is_superuser(session) || settings::ROLES.contains(&role.as_str()) || role == session;
            if !may {
                return refused("42501", format!("permission denied to set role \"{role}\""));
            }
        } else {
            if !settings::is_superuser(&self.state.login) && *role != self.state.login {
                return refused("42501", "permission denied to set session authorization");
            }
            self.state.set("role", None, local);
        }
        self.state.set(name, Some(role.clone()), local);
        Ok(())
    }

    fn of_savepoints(&mut self, command: &Command) -> Done {
        let in_block = self.status != Status::Idle;
        let missing = |name: &str| ("3B001", format!("savepoint \"{name}\" does not exist"));
        match command {
            Command::Savepoint(name) if in_block => {
                self.state.savepoint(name);
                said("SAVEPOINT")
            }
            Command::Release(name) if in_block => {
                if self.state.release(name) {
                    said("RELEASE")
                } else {
                    Err(missing(name))
                }
            }
            Command::RollbackTo(name) if in_block => {
                if !self.state.roll_back_to(name) {
                    return Err(missing(name));
                }
                self.status = Status::InTransaction;
                said("ROLLBACK")
            }
            _ => refused("25P01", "it can only be used in transaction blocks"),
        }
    }

    fn of_statements(&mut self, command: &Command) -> Done {
        match command {
            Command::Prepare { name, body } => {
                if self.statements.contains_key(name.as_bytes()) {
                    return refused("42P05", format!("prepared statement \"{name}\" already exists"));
                }
                let statement = Statement { body: Body::parse(body), mark: None };
                if !matches!(statement.body, Body::Select { .. }) {
                    return refused("42601", "syntax error");
                }
                self.statements.insert(name.clone().into_bytes(), Prepared { statement, of_sql: true, columns: 0 });
                said("PREPARE")
            }
            Command::Execute(name) => {
                let prepared = self.statements.get(name.as_bytes()).map(|prepared| &prepared.statement.body);
                let Some(&Body::Select { rows, len }) = prepared else {
                    return refused("26000", format!("prepared statement \"{name}\" does not exist"));
                };
                Ok(with_rows("SELECT", (0..rows).map(|index| row(self.mark, index, len))))
            }
            Command::Deallocate(Some(name)) => {
                if self.statements.remove(name.as_bytes()).is_none() {
                    return refused("26000", format!("prepared statement \"{name}\" does not exist"));
                }
                said("DEALLOCATE")
            }
            Command::Deallocate(None) => {
                self.forget_named();
                said("DEALLOCATE ALL")
            }
            // Those of the protocol have other names on a pooled server.
            _ => {
                let named = |name: &Vec<u8>| name.first() == Some(&b'q');
                let names = self.statements.keys().filter(|name| named(name));
                selected(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>())
            }
        }
    }

    /// The unnamed statement stays, as in PostgreSQL.
    fn forget_named(&mut self) {
        self.statements.retain(|name, _| name.is_empty());
    }

    fn maker(&self) -> String {
        self.mark.map_or_else(|| "nobody".to_owned(), |mark| format!("c{}.{}", mark.client, mark.number))
    }

    fn of_tables(&mut self, command: &Command) -> Done {
        let maker = self.maker();
        let missing = |name: &str| ("42P01", format!("relation \"{name}\" does not exist"));
        match command {
            Command::CreateTemporary { name, drops } => {
                if self.state.kept().tables.contains_key(name) {
                    return refused("42P07", format!("relation \"{name}\" already exists"));
                }
                self.state.kept_mut().tables.insert(name.clone(), Table { maker, rows: 0, drops: *drops });
                said("CREATE TABLE")
            }
            Command::Insert(name) => {
                if !self.state.kept().tables.contains_key(name) {
                    return Err(missing(name));
                }
                let table = self.state.kept_mut().tables.get_mut(name).expect("it is there");
                table.rows += 1;
                said("INSERT 0 1")
            }
            Command::Drop(name) => {
                if self.state.kept_mut().tables.remove(name).is_none() {
                    return Err(missing(name));
                }
                said("DROP TABLE")
            }
            Command::Table(name) => {
                let table = self.state.kept().tables.get(name).ok_or_else(|| missing(name))?;
                selected((0..table.rows).map(|index| format!("{}.{index}", table.maker)).collect::<Vec<_>>())
            }
            _ => unreachable!("only what is about tables comes here"),
        }
    }

    fn of_cursors(&mut self, command: &Command) -> Done {
        let maker = self.maker();
        let missing = |name: &str| ("34000", format!("cursor \"{name}\" does not exist"));
        match command {
            Command::Declare { name, hold, .. } if self.status == Status::Idle && !hold => {
                refused("25P01", format!("DECLARE CURSOR of {name} can only be used in transaction blocks"))
            }
            Command::Declare { name, rows, len, hold } => {
                if self.state.lasting().cursors.contains_key(name) {
                    return refused("42P03", format!("cursor \"{name}\" already exists"));
                }
                self.state.declare(name, maker, (*rows, *len), *hold);
                said("DECLARE CURSOR")
            }
            Command::Fetch { name, count } => {
                if !self.state.lasting().cursors.contains_key(name) {
                    return Err(missing(name));
                }
                let cursor = self.state.lasting_mut().cursors.get_mut(name).expect("it is there");
                let end = cursor.rows.min(cursor.at.saturating_add(*count));
                let from = std::mem::replace(&mut cursor.at, end);
                let (maker, len) = (cursor.maker.clone(), cursor.len as usize);
                let rows = (from..end).map(|index| format!("{maker}.{index}:{}", "f".repeat(len)).into_bytes());
                Ok(with_rows("FETCH", rows))
            }
            Command::Close(Some(name)) => {
                if self.state.lasting_mut().cursors.remove(name).is_none() {
                    return Err(missing(name));
                }
                said("CLOSE CURSOR")
            }
            Command::Close(None) => {
                self.state.lasting_mut().cursors.clear();
                said("CLOSE CURSOR ALL")
            }
            _ => selected(self.state.lasting().cursors.keys().cloned().collect::<Vec<_>>()),
        }
    }

    fn of_locks(&mut self, command: &Command) -> Done {
        match *command {
            Command::Lock { key, tries } => {
                let got = self.server.borrow_mut().lock(self.number, key);
                if got {
                    *self.state.lasting_mut().locks.entry(key).or_default() += 1;
                } else if !tries {
                    // It would wait, and the model has nobody who waits.
                    return refused("55P03", format!("somebody else holds lock {key}"));
                }
                selected([if tries { truth(got) } else { String::new() }])
            }
            Command::Unlock(key) => {
                let held = self.server.borrow_mut().unlock(self.number, key);
                if held && let Some(count) = self.state.lasting_mut().locks.get_mut(&key) {
                    *count -= 1;
                }
                self.state.lasting_mut().locks.retain(|_, count| *count > 0);
                selected([truth(held)])
            }
            Command::UnlockAll => {
                self.unlock_all();
                selected([String::new()])
            }
            _ => selected(self.state.lasting().locks.keys().map(i64::to_string).collect::<Vec<_>>()),
        }
    }

    fn unlock_all(&mut self) {
        self.server.borrow_mut().unlock_all(self.number);
        self.state.lasting_mut().locks.clear();
    }

    fn of_channels(&mut self, command: &Command) -> Done {
        match command {
            Command::Listen(channel) => {
                self.state.kept_mut().pending.push((Some(channel.clone()), true));
                said("LISTEN")
            }
            Command::Unlisten(channel) => {
                self.state.kept_mut().pending.push((channel.clone(), false));
                said("UNLISTEN")
            }
            Command::Notify { channel, payload } => {
                let notice = (channel.clone(), payload.clone());
                // The same one twice in a transaction is sent once.
                if !self.state.kept().notices.contains(&notice) {
                    self.state.kept_mut().notices.push(notice);
                }
                said("NOTIFY")
            }
            _ => selected(self.state.kept().channels.iter().cloned().collect::<Vec<_>>()),
        }
    }

    fn of_sequences(&mut self, command: &Command) -> Done {
        let lasting = self.state.lasting();
        let current = |name: &str| lasting.currents.get(name).copied();
        match command {
            Command::Next(name) => {
                let value = self.server.borrow_mut().next(name);
                let lasting = self.state.lasting_mut();
                lasting.currents.insert(name.clone(), value);
                lasting.last = Some(name.clone());
                selected([value.to_string()])
            }
            Command::Current(name) => match current(name) {
                Some(value) => selected([value.to_string()]),
                None => refused("55000", format!("currval of sequence \"{name}\" is not yet defined in this session")),
            },
            _ => match lasting.last.as_deref().and_then(current) {
                Some(value) => selected([value.to_string()]),
                None => refused("55000", "lastval is not yet defined in this session"),
            },
        }
    }

    fn of_the_rest(&mut self, command: &Command) -> Done {
        match command {
            Command::Load(library) => {
                self.state.lasting_mut().libraries.insert(library.clone());
                said("LOAD")
            }
            Command::Seed(seed) => {
                let mixed = seed.bytes().fold(7, |mixed: u64, byte| mixed.wrapping_mul(131).wrapping_add(byte.into()));
                self.state.lasting_mut().seed = Some(mixed);
                selected([String::new()])
            }
            _ => {
                // Without a seed of its own a session draws what nobody can foretell; no client asks then.
                let seed = self.state.lasting().seed.unwrap_or(0);
                let next = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                self.state.lasting_mut().seed = Some(next);
                selected([format!("0.{next}")])
            }
        }
    }

    /// What is left on it.
    fn check(&self, settings: bool, names: &[String]) -> Answer {
        let (kept, lasting) = (self.state.kept(), self.state.lasting());
        let held = lasting.cursors.values().any(|cursor| cursor.hold);
        let truths = [!kept.tables.is_empty(), held, !lasting.locks.is_empty()];
        let quoted = |text: &str| match text.contains('\\') {
            true => format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''")),
            false => format!("'{}'", text.replace('\'', "''")),
        };
        // Not listed: what an application calls its own, and who the session is.
        let is_listed = |name: &str| !settings::is_custom(name) && !settings::is_identity(name);
        let pairs = self.state.set_by_session().filter(|(name, _)| is_listed(name)).map(|(name, value)| {
            let name_shown = parameters::index(name).map_or(name, |parameter| parameters::NAMES[parameter]);
            format!("{}={}", quoted(name_shown), quoted(&settings::listed(name, value)))
        });
        let pairs: Vec<String> = pairs.collect();
        let listed = Some(pairs.join(",")).filter(|listed| settings && !listed.is_empty());
        let identity = ["session_authorization", "role"].into_iter().filter(|_| settings);
        let named = identity.chain(names.iter().map(String::as_str)).map(|name| {
            let value = self.state.setting(name).to_owned();
            format!("{}={}", quoted(name), quoted(&value))
        });
        let named = named.collect::<Vec<_>>().join(",");
        let columns = truths.into_iter().map(|is| Some(truth(is))).chain([listed, Some(named)]);
        let rows = vec![columns.map(|column| column.map(String::into_bytes)).collect()];
        Answer { rows: Some(rows), tag: "SELECT 1".to_owned() }
    }

    fn discard(&mut self, command: &Command) -> Done {
        match command {
            Command::DiscardAll if self.status != Status::Idle => {
                refused("25001", "DISCARD ALL cannot run inside a transaction block")
            }
            Command::DiscardAll => {
                self.unlock_all();
                self.state.discard_all();
                self.forget_named();
                self.portals.clear();
                self.owner = None;
                said("DISCARD ALL")
            }
            Command::DiscardPlans => said("DISCARD PLANS"),
            Command::DiscardSequences => {
                let lasting = self.state.lasting_mut();
                lasting.currents.clear();
                lasting.last = None;
                said("DISCARD SEQUENCES")
            }
            _ => {
                self.state.kept_mut().tables.clear();
                said("DISCARD TEMP")
            }
        }
    }
}
