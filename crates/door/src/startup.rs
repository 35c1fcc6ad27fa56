//! The requests in a client's startup packet.
//!
//! //= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-STARTUPMESSAGE
//! //= pgbouncer config.md#ignore_startup_parameters

use std::sync::Arc;

use connections::databases::CONSOLE_DATABASE;
use machine::action::Actions;
use machine::arrival::ConsoleRights;
use machine::observe::Peer;
use machine::startup_parameters::StartupParameters;
use machine::{Protocol, Replication, ReplicationKind, Settings};
use queueing::classes::{ClassId, Subject};
use session_state::own_settings;
use session_state::own_settings::{DEADLINE, REPORT_LIMITS, STABLE_BACKEND_PID};
use session_state::parameters::{Tracked, clean_application_name};
use settings::{AuthType, Fidelity, PoolMode};
use units::names::shown;
use units::{ConnId, PoolKey, heap, limits, milliseconds};
use wire::backend::NegotiateVersion;
use wire::frontend::{Startup, StartupMessage, parse_startup};

use super::{Phase, Refused};

/// A startup packet, understood.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) database: Arc<str>,
    pub(super) user: Arc<str>,
    /// The tracked parameters, and others that can be set where sessions are followed.
    pub(super) parameters: StartupParameters,
    /// The error where sessions are not followed, because of the first parameter that is not tracked.
    unsupported: Option<(&'static str, Box<str>)>,
    pub(super) console: Option<ConsoleRights>,
    /// Whether it wants a process id that stays the same, or its server's own; `None`: not given.
    pub(super) stable_backend_pid: Option<bool>,
    /// Its deadline in milliseconds, where its settings are not followed; 0: not given.
    pub(super) deadline_ms: u32,
    /// Whether it wants notices about its limits.
    pub(super) reports_limits: bool,
    /// The process's own user over the Unix socket: no password asked.
    pub(super) trusted: bool,
    /// It asks for the console and has no right to it; refused only after the right password.
    pub(super) forbidden: bool,
    pub(super) protocol: Protocol,
    /// Present if it wants to replicate.
    pub(super) replication: Option<Box<Replication>>,
}

/// The startup packet at the front, once all of it has come. PostgreSQL says nothing to whoever sends none: it may be the Terminate of a client
/// that has changed its mind.
pub(super) fn packet<'b>(inbox: &'b [u8], phase: &mut Phase) -> Result<Option<(Startup<'b>, usize)>, wire::Error> {
    let parsed = parse_startup(inbox);
    if matches!(parsed, Err(wire::Error::BadLength { .. })) {
        *phase = Phase::Leaving;
    }
    parsed
}

/// A client that asks for a newer minor version than ours or for protocol extensions is told our version, and which of the
/// extensions we do not know: all of them.
//= pg18 protocol-flow#PROTOCOL-FLOW-START-UP
pub(super) fn negotiate(conn: ConnId, message: &StartupMessage<'_>, actions: &mut Actions) {
    let unknown: Vec<&[u8]> = message.extensions().collect();
    let (_, minor) = Protocol::negotiated(message.minor);
    if message.minor > minor || !unknown.is_empty() {
        actions.send_new(conn, |out| NegotiateVersion { minor: minor.into(), unknown: &unknown }.encode(out));
    }
}

fn text<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str, Refused> {
    std::str::from_utf8(bytes).map_err(|_| Refused::NotUtf8 { what })
}

impl Wish {
    pub(super) fn read(
        message: &StartupMessage<'_>,
        peer: Peer,
        owner_uid: Option<u32>,
        tracked: &Tracked,
        settings: &Settings,
    ) -> Result<Wish, Refused> {
        // Of two values for a name the last one counts, as in PostgreSQL.
        let (mut user, mut database): (&[u8], &[u8]) = (b"", b"");
        let (mut options, mut replication) = (None, None);
        for (name, value) in message.parameters() {
            match name {
                b"replication" => replication = Some(value),
                b"user" => user = value,
                b"database" => database = value,
                b"options" => options = Some(value),
                _ => {}
            }
        }
        let user = text(user, "user name")?;
        if user.is_empty() {
            return Err(Refused::NoUserName);
        }
        let database = if database.is_empty() { user } else { text(database, "database name")? };
        let own_name: Arc<str> = user.into();
        let mut wish = Wish {
            database: if database == user { Arc::clone(&own_name) } else { database.into() },
            user: own_name,
            parameters: StartupParameters::default(),
            unsupported: None,
            console: None,
            stable_backend_pid: None,
            deadline_ms: 0,
            reports_limits: false,
            trusted: false,
            forbidden: false,
            protocol: Protocol::negotiated(message.minor).0,
            replication: None,
        };
        if let Some(kind) = replication.map_or(Ok(None), kind_of_replication)? {
            wish.read_for_replication(kind, message);
            if database == CONSOLE_DATABASE {
                return Err(Refused::ConsoleReplication);
            }
            return Ok(wish);
        }
        // As PostgreSQL reads them: the last `options` first, wherever it stands, so that a parameter beside it counts.
        if let Some(options) = options {
            wish.read_options(options, tracked, settings)?;
        }
        wish.read_parameters(message, tracked, settings)?;
        if settings.global.startup.application_name_add_host {
            wish.add_host(peer);
        }
        wish.parameters.merge();
        if database == CONSOLE_DATABASE {
            wish.read_console_rights(peer, owner_uid, settings);
        }
        Ok(wish)
    }

    /// What it calls its application, if it says so.
    pub(super) fn application(&self) -> Option<Box<str>> {
        self.parameters.get(b"application_name").map(|name| String::from_utf8_lossy(name).into())
    }

    /// The class it is in before its first statement.
    pub(super) fn class(&self, settings: &Settings) -> ClassId {
        let application = self.parameters.get(b"application_name").unwrap_or_default();
        let subject = Subject { database: self.database.as_bytes(), user: self.user.as_bytes(), application };
        settings.classes.of(&subject, &[])
    }

    /// Memory that it takes.
    pub(super) fn weight(&self) -> usize {
        let names = heap::of_name(&self.database) + heap::of_name(&self.user);
        let unsupported = self.unsupported.as_ref().map_or(0, |(_, name)| heap::taken(name.len()));
        let replication = self.replication.as_ref().map_or(0, |asked| asked.weight());
        heap::taken(size_of::<Wish>()) + names + unsupported + replication + self.parameters.weight()
    }

    /// Whether untracked parameters can be set depends on the client's database. The error for them is sent only after
    /// authentication: otherwise it would show which databases exist.
    pub(super) fn check_parameters(&mut self, settings: &Settings) -> Result<(), Refused> {
        if self.replication.is_some() {
            return Ok(());
        }
        if self.is_followed(settings) {
            // It is a setting like any other.
            self.deadline_ms = 0;
            return Ok(());
        }
        if let Some((place, name)) = self.unsupported.take() {
            return Err(Refused::Unsupported { place, name: name.into() });
        }
        self.parameters.retain(|name| !name.eq_ignore_ascii_case(DEADLINE));
        Ok(())
    }

    /// Its parameters go to its own server as they are: PostgreSQL judges them. The name of its application is for the log, the
    /// console and the rules of classes.
    fn read_for_replication(&mut self, kind: ReplicationKind, message: &StartupMessage<'_>) {
        let mut parameters = StartupParameters::default();
        for (name, value) in message.parameters() {
            match name {
                b"user" | b"database" | b"replication" => continue,
                _ if name.starts_with(b"_pq_.") => continue,
                b"application_name" => self.parameters.push(name, &clean_application_name(value)),
                _ => {}
            }
            parameters.push(name, value);
        }
        self.parameters.merge();
        parameters.merge();
        self.replication = Some(Box::new(Replication { kind, parameters }));
    }

    /// Whether it asks for replication of the whole cluster: then it names no database that could match a rule.
    pub(super) fn replicates_cluster(&self) -> bool {
        self.replication.as_ref().is_some_and(|asked| asked.kind == ReplicationKind::Physical)
    }

    fn read_console_rights(&mut self, peer: Peer, owner_uid: Option<u32>, settings: &Settings) {
        let owner = matches!(peer, Peer::Unix { uid, .. } if Some(uid) == owner_uid);
        self.trusted = owner && &*self.user == CONSOLE_DATABASE;
        //= pgbouncer config.md#admin_users
        let is_anybody = settings.auth_type(CONSOLE_DATABASE) == AuthType::Any;
        let admin = self.trusted || is_anybody || settings.global.console.admin_users.contains(&*self.user);
        self.console = Some(if admin { ConsoleRights::Admin } else { ConsoleRights::Stats });
        self.forbidden = !admin && !settings.global.console.stats_users.contains(&*self.user);
    }

    fn read_parameters(
        &mut self,
        message: &StartupMessage<'_>,
        tracked: &Tracked,
        settings: &Settings,
    ) -> Result<(), Refused> {
        for (name, value) in message.parameters() {
            match name {
                b"user" | b"database" | b"options" | b"replication" => {}
                _ if name.starts_with(b"_pq_.") => {}
                _ => self.read_parameter(name, value, "", tracked, settings)?,
            }
        }
        Ok(())
    }

    fn read_parameter(
        &mut self,
        name: &[u8],
        value: &[u8],
        place: &'static str,
        tracked: &Tracked,
        settings: &Settings,
    ) -> Result<(), Refused> {
        if let Some(index) = tracked.index(name) {
            let is_name = index == Tracked::APPLICATION_NAME;
            let value = if is_name { clean_application_name(value) } else { value.to_vec() };
            // A longer one is not followed.
            if value.len() <= limits::PARAMETER_LEN_MAX {
                self.parameters.push(name, &value);
            }
            return Ok(());
        }
        if name.eq_ignore_ascii_case(STABLE_BACKEND_PID) {
            self.stable_backend_pid = Some(boolean("pgweir.stable_backend_pid", value)?);
            return Ok(());
        }
        if name.eq_ignore_ascii_case(REPORT_LIMITS) {
            self.reports_limits = boolean("pgweir.report_limits", value)?;
            return Ok(());
        }
        let refusal = own_settings::at_login(name, value);
        let is_deadline = name.eq_ignore_ascii_case(DEADLINE);
        if is_deadline {
            self.deadline_ms = milliseconds(value).unwrap_or_default();
        }
        let lossy = String::from_utf8_lossy(name);
        let ignored = settings.global.startup.ignore_startup_parameters.contains(&lossy);
        let options_ignored =
            !place.is_empty() && settings.global.startup.ignore_startup_parameters.contains("options");
        if ignored || options_ignored {
            return Ok(());
        }
        if let Some(refusal) = refusal {
            return Err(Refused::OwnSetting { code: refusal.code, words: refusal.message });
        }
        let can_be_set = name.is_ascii() && value.is_ascii() && value.len() <= limits::PARAMETER_LEN_MAX;
        if can_be_set {
            // Set like any setting of a session's, before its first statement.
            self.parameters.push(name, value);
        }
        if (is_deadline || self.unsupported.is_some()) && can_be_set {
            return Ok(());
        }
        let name = shown(&lossy.escape_debug().to_string()).to_string();
        if can_be_set {
            self.unsupported = Some((place, name.into()));
            return Ok(());
        }
        Err(Refused::Unsupported { place, name })
    }

    /// Whether what the session sets will be followed from server to server.
    fn is_followed(&self, settings: &Settings) -> bool {
        let Some(database) = settings.database(&self.entry(settings)) else { return false };
        let own = settings.effective(&database, database.forced_user.as_deref().unwrap_or(&self.user));
        own.pool_mode != PoolMode::Session && own.pool_fidelity != Fidelity::Classic
    }

    /// `-c name=value`, `-cname=value`, `--name=value`, with backslash escapes and any number of blanks.
    fn read_options(&mut self, options: &[u8], tracked: &Tracked, settings: &Settings) -> Result<(), Refused> {
        let ignored = settings.global.startup.ignore_startup_parameters.contains("options");
        let mut words = split_options(options).into_iter();
        while let Some(word) = words.next() {
            let setting = if word == b"-c" {
                words.next().unwrap_or_default()
            } else if let Some(rest) = word.strip_prefix(b"--").or_else(|| word.strip_prefix(b"-c")) {
                rest.to_vec()
            } else {
                Vec::new()
            };
            let Some(equals) = setting.iter().position(|&byte| byte == b'=') else {
                if ignored {
                    continue;
                }
                return Err(Refused::Options);
            };
            // PostgreSQL takes dashes in a name for underscores.
            let name: Vec<u8> = setting[..equals].iter().map(|&byte| if byte == b'-' { b'_' } else { byte }).collect();
            self.read_parameter(&name, &setting[equals + 1..], " in options", tracked, settings)?;
        }
        Ok(())
    }

    fn add_host(&mut self, peer: Peer) {
        let host = match peer {
            Peer::Tcp { from, .. } => format!("{}:{}", from.ip().to_canonical(), from.port()),
            Peer::Unix { pid, .. } => format!("unix({pid})"),
        };
        let known = self.parameters.get(b"application_name").unwrap_or(b"app");
        let name = [known, format!(" - {host}").as_bytes()].concat();
        self.parameters.push(b"application_name", &name);
    }

    /// The entry of `[databases]` that this client uses: the one that it names, or that of its class.
    fn entry(&self, settings: &Settings) -> Arc<str> {
        let classes = &settings.classes;
        if !classes.redirects() {
            return Arc::clone(&self.database);
        }
        // There is no statement yet, so classes by comments do not apply here.
        let class = classes.class(self.class(settings));
        Arc::clone(class.database.as_ref().unwrap_or(&self.database))
    }

    /// The pool this client uses: its database, and the forced user where there is one.
    pub(super) fn key(&self, settings: &Settings) -> Result<PoolKey, Refused> {
        let entry = self.entry(settings);
        let Some(database) = settings.database(&self.database).and_then(|_| settings.database(&entry)) else {
            return Err(Refused::NoSuchDatabase { database: shown(&self.database).to_string() });
        };
        if settings.orders.of(&entry).disabled || settings.orders.of(&self.database).disabled {
            return Err(Refused::DatabaseDisabled { database: shown(&self.database).to_string() });
        }
        let user = match &database.forced_user {
            Some(forced) => forced.as_str().into(),
            // The client has not authenticated as this user.
            None if settings.auth_type(&self.database) == AuthType::Any => {
                return Err(Refused::ConfigError);
            }
            None => Arc::clone(&self.user),
        };
        Ok(PoolKey { database: entry, user })
    }
}

fn boolean(name: &'static str, value: &[u8]) -> Result<bool, Refused> {
    if !is_on(value) && !is_off(value) {
        return Err(Refused::NotBoolean { name });
    }
    Ok(is_on(value))
}

fn is_on(value: &[u8]) -> bool {
    let on: [&[u8]; 4] = [b"true", b"on", b"yes", b"1"];
    on.iter().any(|word| word.eq_ignore_ascii_case(value))
}

/// The value of `replication`, or PostgreSQL's words about it.
fn kind_of_replication(value: &[u8]) -> Result<Option<ReplicationKind>, Refused> {
    ReplicationKind::read(value).map_err(|_| {
        let value = shown(&String::from_utf8_lossy(value).escape_debug().to_string()).to_string();
        Refused::Replication { value }
    })
}

fn is_off(value: &[u8]) -> bool {
    let off: [&[u8]; 4] = [b"false", b"off", b"no", b"0"];
    off.iter().any(|word| word.eq_ignore_ascii_case(value))
}

/// As PostgreSQL's `pg_split_opts`: blanks separate, a backslash takes the next byte as it is.
fn split_options(options: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut bytes = options.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => words.extend(word.take()),
            b'\\' => word.get_or_insert_default().extend(bytes.next()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::net::SocketAddr;
    use wire::frontend::encode_startup;

    pub(in super::super) fn read(
        parameters: &[(&str, &str)],
        change: impl FnOnce(&mut Settings),
    ) -> Result<Wish, String> {
        let mut packet = Vec::new();
        encode_startup(&mut packet, parameters.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        let mut settings = Settings::default();
        change(&mut settings);
        let (from, to) = (SocketAddr::from(([10, 0, 0, 7], 4711)), SocketAddr::from(([10, 0, 0, 1], 6432)));
        let peer = Peer::Tcp { from, to };
        match parse_startup(&packet) {
            Ok(Some((Startup::Start(message), _))) => {
                let tracked = Tracked::new(&settings.global.startup.track_extra_parameters);
                Wish::read(&message, peer, Some(1000), &tracked, &settings)
                    .and_then(|mut wish| wish.check_parameters(&settings).map(|()| wish))
                    .map_err(|refused| format!("{} {refused}", refused.code()))
            }
            other => panic!("not a startup message: {other:?}"),
        }
    }

    fn parameters(wish: &Wish) -> Vec<String> {
        let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        wish.parameters.iter().map(|(name, value)| format!("{}={}", show(name), show(value))).collect()
    }

    #[test]
    fn the_database_is_the_user_unless_named() {
        let wish = read(&[("user", "ann")], |_| ()).expect("fine");
        assert_eq!((&*wish.database, &*wish.user), ("ann", "ann"));
        assert!(read(&[("database", "x")], |_| ()).expect_err("no user").starts_with("28000"));
    }

    #[test]
    fn tracked_parameters_are_kept_others_refused_or_passed_over() {
        let asked = [("user", "u"), ("TimeZone", "UTC"), ("intervalstyle", "iso_8601")];
        assert_eq!(parameters(&read(&asked, |_| ()).expect("fine")), ["TimeZone=UTC", "intervalstyle=iso_8601"]);
        let asked = [("user", "u"), ("extra_float_digits", "3")];
        let error = read(&asked, |_| ()).expect_err("not tracked");
        assert_eq!(error, "08P01 unsupported startup parameter: extra_float_digits");
        let ignore = |settings: &mut Settings| {
            settings.global.startup.ignore_startup_parameters.insert("extra_float_digits");
        };
        assert!(parameters(&read(&asked, ignore).expect("passed over")).is_empty());
    }

    #[test]
    fn options_come_in_three_spellings_with_escapes() {
        let options = r"-c timezone=UTC  -cdatestyle=ISO --client-encoding=LATIN1 -c application_name=a\ b";
        let wish = read(&[("user", "u"), ("options", options)], |_| ()).expect("fine");
        let expected = ["timezone=UTC", "datestyle=ISO", "client_encoding=LATIN1", "application_name=a b"];
        assert_eq!(parameters(&wish), expected);
        let error = read(&[("user", "u"), ("options", "-d 5")], |_| ()).expect_err("unknown option");
        assert!(error.contains("only '-c config=val' and '--config=val' are allowed"), "{error}");
        let error = read(&[("user", "u"), ("options", "-c geqo=off")], |_| ()).expect_err("not tracked");
        assert_eq!(error, "08P01 unsupported startup parameter in options: geqo");
    }

    #[test]
    fn a_parameter_counts_beside_options_wherever_they_stand() {
        let options = ("options", "-c client_encoding=SQL_ASCII -c timezone=UTC");
        let parameter = ("client_encoding", "UTF8");
        for asked in [[("user", "u"), parameter, options], [("user", "u"), options, parameter]] {
            assert_eq!(parameters(&read(&asked, |_| ()).expect("fine")), ["timezone=UTC", "client_encoding=UTF8"]);
        }
        let twice = [("user", "u"), ("options", "-c timezone=UTC"), ("options", "-c datestyle=ISO")];
        assert_eq!(parameters(&read(&twice, |_| ()).expect("fine")), ["datestyle=ISO"]);
    }

    #[test]
    fn ignored_options_still_apply_what_is_known() {
        let ignore = |settings: &mut Settings| {
            settings.global.startup.ignore_startup_parameters.insert("options");
        };
        let wish = read(&[("user", "u"), ("options", "-d 5 -c geqo=off -c timezone=UTC")], ignore).expect("fine");
        assert_eq!(parameters(&wish), ["timezone=UTC"]);
    }

    #[test]
    fn a_real_process_id_is_asked_for_in_the_options_or_beside_them() {
        let asked = |name, value| read(&[("user", "u"), (name, value)], |_| ()).map(|wish| wish.stable_backend_pid);
        assert_eq!(asked("options", "-c pgweir.stable_backend_pid=on"), Ok(Some(true)));
        assert_eq!(asked("pgweir.stable_backend_pid", "OFF"), Ok(Some(false)));
        assert_eq!(asked("options", "-c timezone=UTC"), Ok(None));
        assert!(asked("options", "-c pgweir.stable_backend_pid=maybe").expect_err("no Boolean").starts_with("22023"));
    }

    #[test]
    fn a_setting_of_the_poolers_that_there_is_not_is_refused_by_name() {
        let asked = |name, value| read(&[("user", "u"), (name, value)], |_| ()).err();
        let expected = Some("42704 unrecognized configuration parameter \"pgweir.frob\"".to_owned());
        assert_eq!(asked("options", "-c pgweir.frob=1"), expected);
        assert_eq!(asked("PGWEIR.Frob", "1"), expected);
        let ignore = |settings: &mut Settings| {
            settings.global.startup.ignore_startup_parameters.insert("pgweir.frob");
        };
        assert!(read(&[("user", "u"), ("pgweir.frob", "1")], ignore).is_ok(), "somebody wants it passed over");
    }

    #[test]
    fn what_a_replication_connection_begins_with_passes_as_it_is() {
        let asked = |value| {
            let packet = [
                ("user", "u"),
                ("database", "d"),
                ("application_name", "sub"),
                ("replication", value),
                ("work_mem", "nonsense"),
                ("_pq_.x", "1"),
                ("pgweir.frob", "1"),
                ("options", "-c datestyle=ISO -h"),
            ];
            read(&packet, |settings| {
                settings.global.startup.application_name_add_host = true;
            })
        };
        let wish = asked("database").expect("PostgreSQL judges it");
        let replication = wish.replication.as_ref().expect("it has asked for it");
        assert_eq!(replication.kind, ReplicationKind::Logical);
        let shown = |(name, value): (&[u8], &[u8])| {
            format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
        };
        let sent: Vec<String> = replication.parameters.iter().map(shown).collect();
        assert_eq!(sent, ["application_name=sub", "work_mem=nonsense", "pgweir.frob=1", "options=-c datestyle=ISO -h"]);
        assert_eq!(parameters(&wish), ["application_name=sub"]);
        assert!(!wish.replicates_cluster());
        assert!(asked("yes").expect("PostgreSQL judges it").replicates_cluster());
        let wrong = "22023 invalid value for parameter \"replication\": \"maybe\"";
        assert_eq!(asked("maybe").expect_err("PostgreSQL refuses it"), wrong);
        assert!(read(&[("user", "u"), ("replication", "off")], |_| ()).expect("fine").replication.is_none());
    }

    #[test]
    fn the_host_may_follow_the_application_name() {
        let add = |settings: &mut Settings| settings.global.startup.application_name_add_host = true;
        let wish = read(&[("user", "u"), ("application_name", "psql")], add).expect("fine");
        assert_eq!(parameters(&wish), ["application_name=psql - 10.0.0.7:4711"]);
    }

    #[test]
    fn the_console_is_for_named_users() {
        let admins = |settings: &mut Settings| {
            settings.global.console.admin_users.insert("ann".to_owned());
            settings.global.console.stats_users.insert("joe".to_owned());
        };
        let rights = |user| {
            let wish = read(&[("user", user), ("database", "pgbouncer")], admins).expect("fine");
            (wish.console, wish.forbidden, wish.trusted)
        };
        assert_eq!(rights("ann"), (Some(ConsoleRights::Admin), false, false));
        assert_eq!(rights("joe"), (Some(ConsoleRights::Stats), false, false));
        assert_eq!(rights("eve"), (Some(ConsoleRights::Stats), true, false));
        assert_eq!(rights("pgbouncer"), (Some(ConsoleRights::Stats), true, false), "not over TCP");
    }
}
