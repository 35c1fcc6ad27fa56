//! Every setting of `[pgbouncer]`, once: the parser, SHOW CONFIG, docs/settings.md and docs/pgweir.ini are made of it.
//!
//! Promises PgBouncer's names, defaults and order (`//= pgbouncer config.md`), plus ours. One default differs, for the
//! reason that its text gives: `listen_backlog`. Does not say what a setting
//! does to the pooler: `settings` hands the values on, `support` refuses what would be unsafe to pass over.

use crate::value::{INT_MAX, Kind, Kind::*};

/// What comes of a setting here.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// As in PgBouncer.
    Works,
    /// Accepted, and nothing is missing: there is nothing here that it could change.
    Unneeded,
    /// Accepted, but without effect so far: a value other than the default gives a warning.
    NotYet,
    /// Some values work, others would be unsafe to pass over and are refused: see `support`.
    Partly,
}

/// Under which heading of the manual a setting stands.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Group {
    Listening,
    Login,
    Pools,
    Servers,
    Waiting,
    Classes,
    Startup,
    Log,
    Console,
    Tls,
    Network,
    Names,
    Tests,
}

impl Group {
    pub const ALL: [Group; 13] = [
        Group::Listening,
        Group::Login,
        Group::Pools,
        Group::Servers,
        Group::Waiting,
        Group::Classes,
        Group::Startup,
        Group::Log,
        Group::Console,
        Group::Tls,
        Group::Network,
        Group::Names,
        Group::Tests,
    ];

    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Group::Listening => "Listening and the process",
            Group::Login => "Who may log in",
            Group::Pools => "Pools and their limits",
            Group::Servers => "Server connections",
            Group::Waiting => "Waiting and time limits",
            Group::Classes => "Classes of clients",
            Group::Startup => "What clients ask for",
            Group::Log => "Log",
            Group::Console => "Console and statistics",
            Group::Tls => "TLS",
            Group::Network => "Sockets and buffers",
            Group::Names => "Name resolution",
            Group::Tests => "For tests of the pooler itself",
        }
    }
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Setting {
    pub key: Key,
    pub name: &'static str,
    pub kind: Kind,
    /// `None` is PgBouncer's NULL: shown as NULL, and not put back when `[pgbouncer]` begins again.
    pub default: Option<&'static str>,
    /// Whether RELOAD takes it up; else it needs a restart.
    pub reloadable: bool,
    pub effect: Effect,
    pub group: Group,
    pub doc: &'static str,
}

const SSLMODES: &[&str] = &["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];
const AUTH_TYPES: &[&str] = &["any", "trust", "plain", "md5", "cert", "hba", "ldap", "pam", "scram-sha-256"];
pub const FIDELITIES: &[&str] = &["transparent", "strict", "classic"];
const OVERS: &[&str] = &["delay", "reject"];
pub const POOL_MODES: &[&str] = &["session", "transaction", "statement"];
const AUTH_QUERY: &str = "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END FROM pg_authid WHERE rolname=$1 AND rolcanlogin";
/// Any number that PgBouncer's setting could hold and that makes sense.
const NUMBER: Kind = Count(0, INT_MAX, "");

macro_rules! settings {
    ($($name:ident: $kind:expr, $default:expr, $reload:ident, $effect:ident, $group:ident, $doc:literal;)*) => {
        /// A setting's name as a value, so that a misspelt one does not compile.
        #[allow(non_camel_case_types, reason = "written as in the file")]
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        pub enum Key { $($name),* }

        /// In SHOW CONFIG's order; `Key as usize` is the index.
        pub static TABLE: &[Setting] = &[$(Setting {
            key: Key::$name,
            name: stringify!($name),
            kind: $kind,
            default: $default,
            reloadable: matches!(Reload::$reload, Reload::Yes),
            effect: Effect::$effect,
            group: Group::$group,
            doc: $doc,
        }),*];
    };
}

enum Reload {
    Yes,
    No,
}

settings! {
    admin_users: List, Some(""), Yes, Works, Console, "Users who may run every command on the console.";
    application_name_add_host: Flag, Some("0"), Yes, Works, Startup, "Appends the client's address to the application_name with which it logs in.";
    auth_dbname: Text, None, Yes, NotYet, Login, "The database in which auth_query is run.";
    auth_file: Path, None, Yes, Works, Login, "The file with users and their passwords or hashes.";
    auth_hba_file: Path, Some(""), Yes, NotYet, Login, "The rules for auth_type = hba.";
    auth_ident_file: Path, None, Yes, NotYet, Login, "The user maps for auth_type = hba.";
    auth_ldap_options: Text, None, Yes, NotYet, Login, "The directory server for auth_type = ldap.";
    auth_query: Text, Some(AUTH_QUERY), Yes, NotYet, Login, "How auth_user looks up the password of a user whom auth_file does not name.";
    auth_type: Choice(AUTH_TYPES), Some("md5"), Yes, Partly, Login, "How clients prove who they are. md5 does SCRAM too where the stored secret asks for it. Not supported yet, and refused: cert, hba, ldap, pam.";
    auth_user: Text, None, Yes, Partly, Login, "Who runs auth_query. Not supported yet: users who are not in auth_file are refused.";
    auto_pool_size_max: Count(1, 10_000, ""), Some("80"), Yes, Works, Pools, "The most server connections of a pool whose size is auto. PostgreSQL's max_connections must have room for as many for each of them, and for all others.";
    auto_pool_size_min: Count(1, 10_000, ""), Some("2"), Yes, Works, Pools, "The least size of a pool whose size is auto. Servers are opened when they are needed all the same.";
    autodb_idle_timeout: Seconds, Some("3600"), Yes, Works, Pools, "How long a database made from * is remembered when nobody uses it; 0: for ever.";
    cancel_wait_timeout: Seconds, Some("10"), Yes, Works, Waiting, "How long handing a cancel request to PostgreSQL may take; 0: 15 s.";
    chaos_check: Flag, Some("0"), Yes, Partly, Tests, "Where sessions are followed, asks a server after every transaction what is left on it, and ends the process at the first difference to what is known. Refused unless the environment has PGWEIR_CHAOS=1.";
    chaos_close: Flag, Some("0"), Yes, Partly, Tests, "Closes every server after its first use. Refused unless the environment has PGWEIR_CHAOS=1.";
    chaos_poison: Flag, Some("0"), Yes, Partly, Tests, "Where sessions are followed, lets a stranger leave its session state on every server before anybody else gets it. Refused unless the environment has PGWEIR_CHAOS=1.";
    chaos_rotate: Flag, Some("0"), Yes, Partly, Tests, "Outside of session mode, runs every transaction of a client on another server if one is idle. Refused unless the environment has PGWEIR_CHAOS=1.";
    chaos_seed: NUMBER, Some("0"), Yes, Works, Tests, "Where the choice between idle servers begins under chaos_rotate, and the stranger's statements under chaos_poison.";
    class_ageing: Seconds, Some("5"), Yes, Works, Classes, "Whoever has waited for so long counts as of a class of one priority more, and so on, up to the highest that waits, so that nobody starves; 0: never.";
    class_file: Path, Some(""), Yes, Works, Classes, "The file that says who is in which class of [classes]; empty: all are in default.";
    client_idle_timeout: Seconds, Some("0"), Yes, Works, Waiting, "Closes a client that has sent nothing for so long; 0: never.";
    client_login_timeout: Seconds, Some("60"), Yes, Works, Waiting, "How long a client may take to log in; 0: for ever.";
    client_tls13_ciphers: Text, None, Yes, NotYet, Tls, "Ciphers of TLS 1.3 for clients.";
    client_tls_ca_file: Path, Some(""), Yes, NotYet, Tls, "Certificates that vouch for clients' certificates.";
    client_tls_cert_file: Path, Some(""), Yes, NotYet, Tls, "The certificate that clients are shown.";
    client_tls_ciphers: Text, Some("default"), Yes, NotYet, Tls, "Ciphers up to TLS 1.2 for clients.";
    client_tls_dheparams: Text, Some("auto"), Yes, NotYet, Tls, "Kind of DHE key exchange with clients.";
    client_tls_ecdhcurve: Text, Some("auto"), Yes, NotYet, Tls, "Curve of the ECDH key exchange with clients.";
    client_tls_key_file: Path, Some(""), Yes, NotYet, Tls, "The private key to client_tls_cert_file.";
    client_tls_protocols: List, Some("secure"), Yes, NotYet, Tls, "Versions of TLS that clients may use.";
    client_tls_sslmode: Choice(SSLMODES), Some("disable"), Yes, Partly, Tls, "Whether clients may or must use TLS. TLS is not supported yet: require and above are refused, allow and prefer serve without it.";
    conffile: Path, None, Yes, Unneeded, Listening, "Shows the file that was read.";
    default_pool_size: Size, Some("20"), Yes, Works, Pools, "The most server connections for one database and user. auto: as many as give the most throughput at the least latency, found by trying, between auto_pool_size_min and auto_pool_size_max; SHOW SIZING tells why. In session mode, where each client needs one of its own, auto is auto_pool_size_max.";
    disable_pqexec: Flag, Some("0"), No, Partly, Startup, "Forbids the simple query protocol. Not supported yet: 1 is refused.";
    dns_max_ttl: Seconds, Some("15"), Yes, NotYet, Names, "How long an address is remembered.";
    dns_nxdomain_ttl: Seconds, Some("15"), Yes, NotYet, Names, "How long it is remembered that a name has no address.";
    dns_zone_check_period: Seconds, Some("0"), Yes, NotYet, Names, "How often to ask whether a whole zone has changed.";
    fingerprint_limits: Statements, Some(""), Yes, Works, Classes, "As fingerprint_max_active, for single statements: `fingerprint:number, ...`, where the fingerprint is what SHOW FINGERPRINTS calls the statement, and 0 is no limit.";
    fingerprint_max_active: NUMBER, Some("0"), Yes, Works, Classes, "The most transactions at a time, over all pools, that begin with the same statement, whatever its constants; SHOW FINGERPRINTS lists them. 0: no limit.";
    fingerprint_over: Choice(OVERS), Some("delay"), Yes, Works, Classes, "What becomes of who is over fingerprint_max_active: delay, it waits; reject, it is told an error that says when to come again.";
    idle_transaction_timeout: Seconds, Some("0"), Yes, Works, Waiting, "Closes a client that idles inside a transaction for so long; 0: never.";
    ignore_startup_parameters: List, Some(""), Yes, Works, Startup, "Startup parameters to pass over rather than refuse.";
    job_name: Text, Some("pgbouncer"), No, Unneeded, Listening, "The name of the service on systems that have no need of it here.";
    listen_addr: List, Some(""), No, Works, Listening, "Addresses to listen on by TCP; * is all of them, empty is none. One that cannot be listened on is left out with a WARNING, unless there is no other place.";
    listen_backlog: NUMBER, Some("4096"), No, Works, Network, "How many connections the kernel keeps until they are accepted; it allows as many as net.core.somaxconn. PgBouncer's default is 128: of 2,000 clients that come at once, those that it turns away come back a second later.";
    listen_port: Count(0, 65535, ""), Some("6432"), No, Works, Listening, "The port, for TCP and in the name of the Unix socket.";
    log_connections: Flag, Some("1"), Yes, Works, Log, "A line for each login, and for each connection made to PostgreSQL.";
    log_disconnections: Flag, Some("1"), Yes, Works, Log, "A line for each connection that closes, with the reason.";
    log_pooler_errors: Flag, Some("1"), Yes, Works, Log, "A line for each error that clients are told by the pooler itself.";
    log_stats: Flag, Some("1"), Yes, Works, Log, "A line with totals every stats_period.";
    logfile: Path, Some(""), Yes, Works, Log, "The file to write the log to, as well as to stderr.";
    login_notify_message: Text, Some(""), Yes, Works, Startup, "A NOTICE to every client after its login; empty: none.";
    max_client_conn: NUMBER, Some("100"), Yes, Works, Pools, "The most clients at a time; 0: as many as there are file descriptors.";
    max_db_client_connections: NUMBER, Some("0"), Yes, Works, Pools, "The most clients of one database; 0: no limit.";
    max_db_connections: NUMBER, Some("0"), Yes, Works, Pools, "The most server connections of one database over all users, which take turns where there are more of them than connections; 0: no limit.";
    max_packet_size: Count(0, 4_294_967_295, "bytes"), Some("2147483647"), Yes, NotYet, Network, "The largest message that is let through.";
    max_pinned: NUMBER, Some("0"), Yes, Works, Pools, "The most clients of one pool that may keep their server between transactions, for temporary tables, advisory locks and the like; a client whose next statement would make it one more waits before it is sent. Not held back is who is in a transaction already, nor what no text tells beforehand; 0: no limit.";
    max_prepared_statements: NUMBER, Some("200"), Yes, Works, Startup, "Named prepared statements kept on each server in transaction and statement mode, where a client's unnamed statement is kept from one transaction to the next, too; 0: all go through untouched.";
    max_server_connections: NUMBER, Some("0"), Yes, Works, Pools, "The most server connections of all pools together, which take turns where there are more of them than connections; 0: no limit.";
    max_user_client_connections: NUMBER, Some("0"), Yes, Works, Pools, "The most clients of one user; 0: no limit.";
    max_user_connections: NUMBER, Some("0"), Yes, Works, Pools, "The most server connections of one user over all databases, which take turns where there are more of them than connections; 0: no limit.";
    min_pool_size: NUMBER, Some("0"), Yes, Works, Pools, "Server connections kept open in each pool that is in use or has a forced user.";
    peer_id: Count(0, 16383, ""), Some("0"), Yes, NotYet, Listening, "This process's number among [peers], to which cancel requests are passed on; 0: none.";
    pidfile: Path, Some(""), No, Works, Listening, "The file to write the process id to; -d needs it.";
    pkt_buf: Count(0, INT_MAX, "bytes"), Some("4096"), No, Unneeded, Network, "PgBouncer's buffer for each connection; here a thread shares one.";
    pool_fidelity: Choice(FIDELITIES), Some("transparent"), Yes, Works, Pools, "What becomes of session state in transaction and statement mode: transparent keeps it for each client on whatever server it gets; strict looks after every transaction for what it left behind, too; classic leaves it where it was set, as PgBouncer does.";
    pool_idle_timeout: Seconds, Some("0"), Yes, NotYet, Pools, "How long a pool without connections is remembered; 0: for ever.";
    pool_mode: Choice(POOL_MODES), Some("session"), Yes, Works, Pools, "When a server goes back to its pool: as the client leaves, after each transaction, after each statement.";
    query_cancel_timeout: Seconds, Some("1"), Yes, Works, Waiting, "How long a query that was cancelled for query_timeout may take to end; then its client is told, and its server closed. 0: as long as it takes.";
    query_timeout: Seconds, Some("0"), Yes, Works, Waiting, "A query that runs for longer is cancelled, and its client goes on; where pool_fidelity is classic, and in session mode, the client is closed. 0: never.";
    query_wait_notify: Count(0, INT_MAX, "seconds"), Some("5"), Yes, Works, Waiting, "A NOTICE to a client that has waited so long for a server, with its place and the expected wait; 0: none.";
    query_wait_timeout: Seconds, Some("120"), Yes, Works, Waiting, "How long a client waits for a server before it is told so and closed; 0: for ever.";
    reserve_pool_size: NUMBER, Some("0"), Yes, Works, Pools, "Server connections added to a pool whose oldest client has waited reserve_pool_timeout.";
    reserve_pool_timeout: Seconds, Some("5"), Yes, Works, Pools, "How long a client waits before the reserve is opened; 0: never opened.";
    resolv_conf: Path, Some(""), No, NotYet, Names, "A resolv.conf of its own.";
    sbuf_loopcnt: NUMBER, Some("5"), Yes, Unneeded, Network, "How often PgBouncer reads from one connection before it turns to the next; here every connection has a byte quota a round.";
    scram_iterations: Count(1, 10_000_000, ""), Some("4096"), Yes, Works, Login, "Iterations of the SCRAM verifiers made from passwords in clear text.";
    server_check_delay: Seconds, Some("30"), Yes, Works, Servers, "A server that has idled for longer is checked before its next use; 0: before every use.";
    server_check_query: Text, Some("<empty>"), Yes, Works, Servers, "The check. Nothing: no check. <empty>: the empty query.";
    server_connect_timeout: Seconds, Some("15"), Yes, Works, Servers, "How long connecting and logging in to PostgreSQL may take; 0: for ever.";
    server_fast_close: Flag, Some("0"), Yes, Works, Servers, "In session mode, closes servers whose configuration has changed at the end of the transaction, and their clients with them, without waiting for the client to leave.";
    server_idle_timeout: Seconds, Some("600"), Yes, Works, Servers, "Closes a server that nobody has used for so long; 0: never.";
    server_lifetime: Seconds, Some("3600"), Yes, Works, Servers, "Closes a server of that age once nobody uses it; 0: after its first use.";
    server_login_retry: Seconds, Some("15"), Yes, Works, Servers, "How long to leave PostgreSQL alone after a failed login.";
    server_reset_query: Text, Some("DISCARD ALL"), Yes, Works, Servers, "Sent to a server when a session ends, before anybody else uses it; empty: nothing is sent.";
    server_reset_query_always: Flag, Some("0"), Yes, Works, Servers, "Sends server_reset_query after each transaction or statement too.";
    server_round_robin: Flag, Some("0"), Yes, Works, Servers, "Uses the server that has idled longest, instead of the one used last.";
    server_tls13_ciphers: Text, None, Yes, NotYet, Tls, "Ciphers of TLS 1.3 to PostgreSQL.";
    server_tls_ca_file: Path, Some(""), Yes, NotYet, Tls, "Certificates that vouch for PostgreSQL's.";
    server_tls_cert_file: Path, Some(""), Yes, NotYet, Tls, "The certificate that PostgreSQL is shown.";
    server_tls_ciphers: Text, Some("default"), Yes, NotYet, Tls, "Ciphers up to TLS 1.2 to PostgreSQL.";
    server_tls_key_file: Path, Some(""), Yes, NotYet, Tls, "The private key to server_tls_cert_file.";
    server_tls_protocols: List, Some("secure"), Yes, NotYet, Tls, "Versions of TLS to use with PostgreSQL.";
    server_tls_sslmode: Choice(SSLMODES), Some("prefer"), Yes, Partly, Tls, "Whether to use TLS to PostgreSQL. TLS is not supported yet: require and above are refused, all others go without it.";
    so_reuseport: Flag, Some("0"), No, Works, Listening, "Lets several processes listen on one port.";
    stable_backend_pid: Flag, Some("0"), Yes, Works, Pools, "1: each client gets a server at its login, is told that one's process id as PostgreSQL has it, and keeps it until it leaves. A client may ask for it, or against it, in its startup packet: options=-c pgweir.stable_backend_pid=on.";
    statement_memo_size: Count(65_536, 1_073_741_824, "bytes"), Some("4194304"), No, Works, Pools, "How much each worker takes to remember what statements mean for their sessions.";
    stats_period: Count(1, INT_MAX, "seconds"), Some("60"), Yes, Works, Console, "Over how long averages are taken, and how often log_stats writes.";
    stats_users: List, Some(""), Yes, Works, Console, "Users who may run SHOW commands on the console.";
    suspend_timeout: Seconds, Some("10"), Yes, NotYet, Console, "How long SUSPEND waits for buffers to empty.";
    syslog: Flag, Some("0"), Yes, Works, Log, "Writes the log to syslog too.";
    syslog_facility: Text, Some("daemon"), Yes, Works, Log, "The facility for syslog: auth, authpriv, daemon, user, local0 to local7.";
    syslog_ident: Text, Some("pgbouncer"), Yes, Works, Log, "The name for syslog.";
    tcp_defer_accept: Flag, Some("1"), Yes, Unneeded, Network, "PgBouncer leaves a new connection to the kernel until the client has sent something; here it is accepted at once.";
    tcp_keepalive: Flag, Some("1"), Yes, Works, Network, "Has the kernel ask idle connections whether they live.";
    tcp_keepcnt: NUMBER, Some("0"), Yes, Works, Network, "How many such questions go unanswered before it gives up; 0: the kernel's default.";
    tcp_keepidle: Count(0, INT_MAX, "seconds"), Some("0"), Yes, Works, Network, "How long a connection idles before the first question; 0: the kernel's default.";
    tcp_keepintvl: Count(0, INT_MAX, "seconds"), Some("0"), Yes, Works, Network, "The time between two questions; 0: the kernel's default.";
    tcp_socket_buffer: Count(0, INT_MAX, "bytes"), Some("0"), Yes, Works, Network, "Size of the kernel's buffers for each socket; 0: the kernel's default.";
    tcp_user_timeout: Count(0, INT_MAX, "milliseconds"), Some("0"), Yes, Works, Network, "How long sent bytes may go unacknowledged before the connection counts as dead; 0: the kernel's default.";
    track_extra_parameters: List, Some("IntervalStyle"), No, Works, Startup, "Parameters that follow the client from server to server, besides client_encoding, DateStyle, TimeZone, standard_conforming_strings and application_name.";
    transaction_timeout: Seconds, Some("0"), Yes, Works, Waiting, "Closes a client whose transaction lasts longer; 0: never.";
    unix_socket_dir: Path, Some("/tmp"), No, Works, Listening, "Directory of the Unix socket, ours and PostgreSQL's; empty: none; with @ first: an abstract name.";
    unix_socket_group: Text, Some(""), No, Works, Listening, "The group that the Unix socket belongs to.";
    unix_socket_mode: Mode, Some("0777"), No, Works, Listening, "Permissions of the Unix socket.";
    user: Text, None, No, Works, Listening, "The system user to become after the start as root.";
    verbose: Count(0, INT_MAX, ""), None, Yes, Works, Log, "How much more to log, as -v does.";
    workers: Count(0, 1024, ""), Some("0"), No, Works, Listening, "Threads that serve clients; 0: one for each core. PgBouncer has no such setting.";
}

/// The row of a setting's name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Setting> {
    TABLE.iter().find(|setting| setting.name == name)
}

/// All names, to look for the nearest to a misspelt one.
#[must_use]
pub fn known_names() -> Vec<&'static str> {
    TABLE.iter().map(|setting| setting.name).collect()
}

impl Key {
    #[must_use]
    pub fn setting(self) -> &'static Setting {
        &TABLE[self as usize]
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        self.setting().name
    }
}

impl Setting {
    /// The default as a value; PgBouncer's NULL is an empty text or 0.
    #[must_use]
    pub fn default_value(&self) -> crate::value::Value {
        let text = match (self.default, self.kind.takes_empty()) {
            (Some(text), _) => text,
            (None, true) => "",
            (None, false) => "0",
        };
        self.kind.read(text).expect("a test reads every default")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_their_defaults_can_be_read() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
        for (index, setting) in TABLE.iter().enumerate() {
            assert_eq!(setting.key as usize, index);
            let _value = setting.default_value();
            assert!(setting.doc.ends_with('.'), "{}", setting.name);
        }
        assert_eq!(
            TABLE.len(),
            119,
            "PgBouncer's hundred, workers, four for sessions, five for classes and limits, two for sizes, one for sharing, one for cancels, five for tests"
        );
    }
}
