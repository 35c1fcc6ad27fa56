//! Every setting of `[pgbouncer]`, once: the parser, SHOW CONFIG, docs/settings.md, docs/pgweir.ini, and the typed values that
//! the pooler runs by are made of it.
//!
//! Promises PgBouncer's names, defaults and order (`//= pgbouncer config.md`), plus ours. One default differs, for the
//! reason that its text gives: `listen_backlog`. A setting that a database or a user may have too says so before its
//! words: `databases: min_pool_size` is the name of the parameter there. Does not say what a setting does to the pooler.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::declare::{Effect, Origin, Reload, settings, typed};
use crate::http_url::{HttpHeaders, HttpUrl, Share};
use crate::networks::Networks;
use crate::server_name::ServerName;
use crate::types::{
    AuthType, CaselessNames, ChannelBinding, CheckQuery, Fidelity, LogFormat, LossCode, MaxProtocol, ObserveWhen, Over,
    PoolMode, PoolSize, SplitBrain, SslMode, SslNegotiation, Words,
};
use crate::value::{INT_MAX, Kind, Kind::*, Value};

/// The default of `auth_query`.
pub const AUTH_QUERY: &str = "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END FROM pg_authid WHERE rolname=$1 AND rolcanlogin";
/// Any number that PgBouncer's setting could hold and that makes sense.
const NUMBER: Kind = Count(0, INT_MAX, "");
/// Of a limit where PgBouncer also takes -1 for none, as 0.
const LIMIT: Kind = Count(-1, INT_MAX, "");

settings! {
    Listening listening: ListeningSettings, "Listening and the process" {
        conffile: String = Path, None, Yes, Unneeded, PgBouncer, "Shows the file that was read.";
        job_name: String = Text, Some("pgbouncer"), No, Unneeded, PgBouncer, "PgBouncer's name of its Windows service.";
        listen_addr: Vec<String> = List, Some(""), No, Works, PgBouncer, "Addresses to listen on by TCP; * is all of them, empty is none. One that cannot be listened on is left out with a WARNING; if none can, the start fails, as in PgBouncer.";
        listen_port: u16 = Count(0, 65535, ""), Some("6432"), No, Works, PgBouncer, "The port, for TCP and in the name of the Unix socket.";
        peer_id: u32 = Count(0, 16383, ""), Some("0"), Yes, Works, PgBouncer, "This process's number in [peers], whose processes pass cancel requests to each other; 0: none. A change counts for clients that log in after it.";
        pidfile: Option<String> = Path, Some(""), No, Works, PgBouncer, "The file to write the process id to; -d needs it.";
        so_reuseport: bool = Flag, Some("0"), No, Works, PgBouncer, "Lets several processes listen on one port.";
        unix_socket_dir: Option<String> = Path, Some("/tmp"), No, Works, PgBouncer, "Directory of the Unix socket, ours and PostgreSQL's; empty: none; with @ first: an abstract name.";
        unix_socket_group: String = Text, Some(""), No, Works, PgBouncer, "The group that the Unix socket belongs to.";
        unix_socket_mode: u32 = Mode, Some("0777"), No, Works, PgBouncer, "Permissions of the Unix socket.";
        user: Option<String> = Text, None, No, Works, PgBouncer, "The system user to become after the start as root.";
        watch_config: bool = Flag, Some("0"), Yes, Works, Ours, "1: looks once a second whether this file, or one that it names, has changed, and reads all files again, as RELOAD does, when the change is complete. A link that now leads to another directory counts as a change.";
        workers: u32 = Count(0, 1024, ""), Some("0"), No, Works, Ours, "Threads that serve clients; 0: one for each core. PgBouncer has no such setting.";
    }

    Login login: LoginSettings, "Who may log in" {
        auth_cache_ttl: Option<Duration> = Seconds, Some("300"), Yes, Works, Ours, "How long an answer of auth_query may be used while its database cannot be reached; 0: never.";
        auth_dbname: Option<String> = Text, None, Yes, Works, PgBouncer, "The entry of [databases] in which auth_query is run. Default: the one that the client names.";
        auth_failure_delay: Option<Duration> = Seconds, Some("5"), Yes, Works, Ours, "The longest delay of the answer to a wrong password, so that guessing is slow. The first failures of a user from an address are answered at once; after that each takes twice as long as the last, up to this. Right passwords are not delayed. 0: no delay.";
        auth_file: String = Path, None, Yes, Works, PgBouncer, "The file with users and their passwords or hashes.";
        auth_gss_keytab: String = Path, Some(""), No, Works, Ours, "The file with this machine's Kerberos keys, for gss lines of auth_hba_file. Default: KRB5_KTNAME of the environment, or else the file that krb5.conf names, mostly /etc/krb5.keytab. PostgreSQL calls it krb_server_keyfile.";
        auth_hba_file: String = Path, Some(""), Yes, Works, PgBouncer, "The rules for auth_type = hba, in the syntax of PostgreSQL's pg_hba.conf: the first line that matches says how a client has to prove who it is.";
        auth_ident_file: String = Path, None, Yes, Works, PgBouncer, "Which database users a system user may be, in the syntax of PostgreSQL's pg_ident.conf, for lines of auth_hba_file with map=.";
        auth_ldap_options: String = Text, None, Yes, Works, PgBouncer, "The directory server for auth_type = ldap, in the words of an ldap line of pg_hba.conf: ldapserver=ldap.example ldapprefix=\"uid=\" ldapsuffix=\",dc=example\".";
        auth_oauth_options: String = Text, None, Yes, Works, Ours, "Which tokens auth_type = oauth and oauth lines accept: issuer=, audience= (the token must have one of these), jwks= (the issuer's keys: a file, or a URL with https), scope= (the token must have all of it), claim= (names the user; default: sub) and map= (a map of auth_ident_file).";
        auth_query: String = Text, Some(AUTH_QUERY), Yes, Works, PgBouncer, "How auth_user looks up the password of a user whom auth_file does not name, $1: at every login, with search_path = pg_catalog. A name without its schema that is not there is looked for in the search_path of auth_user, and counts if one schema has it in which no other role may create objects. Its columns: the name, the secret, and, if there is a third one, until when it is valid (timestamptz).";
        auth_threads: u32 = Count(1, 1024, ""), Some("8"), No, Works, Ours, "The most logins for which directory servers, PAM, GSSAPI or identity providers are asked at one time, each on a thread of its own. The threads are started when they are needed.";
        auth_tls_ca_file: String = Path, Some(""), Yes, Works, Ours, "The CAs that sign the certificates of directory servers and identity providers, for connections to them over TLS. Default: the CAs that the system trusts.";
        auth_type: AuthType = Choice(AuthType::NAMES), Some("md5"), Yes, Works, PgBouncer, databases: auth_type, "How clients prove who they are. md5 does SCRAM too where the stored secret asks for it; peer takes the system user's name on the Unix socket; hba does what auth_hba_file says. cert takes the name in the client's certificate. ldap has a directory server check the password: see auth_ldap_options. oauth takes a token of an identity provider: see auth_oauth_options. pam has the modules of PAM's service pgbouncer check the password; the program has to be built with that.";
        auth_user: Option<String> = Text, None, Yes, Works, PgBouncer, "Who runs auth_query, with its password in auth_file. Not set: users who are not in auth_file are refused.";
        max_login_concurrency: u32 = Count(0, 60_000, ""), Some("128"), Yes, Works, Ours, "The most logins that run at one time. Others wait for their turn, first come first served, before TLS and before a password is asked for, so that those who come first get in first. A login that waits for its client counts for 10 ms only. Cancel requests without TLS and the console's owner on the Unix socket need no turn. 0: all at once, as far as the memory for TLS allows.";
        scram_iterations: u32 = Count(1, 10_000_000, ""), Some("4096"), Yes, Works, PgBouncer, "Iterations of the SCRAM verifiers made from passwords in clear text.";
        words: Words = Choice(Words::NAMES), Some("postgresql"), Yes, Works, Ours, "Whose words a refused login and a query that took too long have, for clients and in the log. postgresql: as PostgreSQL says it. pgbouncer: as PgBouncer does, for programs that look for its words, such as rules of fail2ban. It then tells a name that auth_query does not know from a wrong password. SQLSTATEs are the same.";
    }

    Pools pools: PoolSettings, "Pools and their limits" {
        default_pool_size: PoolSize = Size, Some("20"), Yes, Works, PgBouncer, databases and users: pool_size, "The most server connections for one database and user. auto: as many as give the most throughput at the least latency, found by trying, between auto_pool_size_min and auto_pool_size_max; SHOW SIZING tells why. In session mode, where each client needs one of its own, auto is auto_pool_size_max.";
        min_pool_size: u32 = NUMBER, Some("0"), Yes, Works, PgBouncer, databases: min_pool_size, "Server connections kept open in each pool that is in use or has a forced user.";
        reserve_pool_size: u32 = NUMBER, Some("0"), Yes, Works, PgBouncer, databases and users: reserve_pool_size, "Server connections added to a pool whose oldest client has waited reserve_pool_timeout.";
        max_db_connections: u32 = LIMIT, Some("0"), Yes, Works, PgBouncer, databases: max_db_connections, "The most server connections of one database over all users, which take turns where there are more of them than connections; 0 or -1: no limit.";
        max_db_client_connections: u32 = LIMIT, Some("0"), Yes, Works, PgBouncer, databases: max_db_client_connections, "The most clients of one database; 0 or -1: no limit.";
        pool_mode: PoolMode = Choice(PoolMode::NAMES), Some("session"), Yes, Works, PgBouncer, databases and users: pool_mode, "When a server goes back to its pool: as the client leaves, after each transaction, after each statement.";
        pool_fidelity: Fidelity = Choice(Fidelity::NAMES), Some("transparent"), Yes, Works, Ours, databases and users: pool_fidelity, "What becomes of session state in transaction and statement mode. transparent: it follows its client to whatever server the client gets. strict: the same, and the server is asked after every transaction what it left behind. classic: it stays on the server where it was set, as in PgBouncer.";
        max_pinned: u32 = NUMBER, Some("0"), Yes, Works, Ours, databases and users: max_pinned, "The most clients of one pool that may keep their server between transactions, for temporary tables, advisory locks and the like. A client whose next statement would make it one more waits before the statement is sent. Clients inside a transaction do not wait, nor do statements whose text does not show it beforehand. 0: no limit.";
        stable_backend_pid: bool = Flag, Some("0"), Yes, Works, Ours, databases and users: stable_backend_pid, "1: each client gets a server at its login, is told PostgreSQL's process id of that server, and keeps the server until it leaves. A client may turn it on or off for itself in its startup packet: options=-c pgweir.stable_backend_pid=on.";
        max_user_connections: u32 = LIMIT, Some("0"), Yes, Works, PgBouncer, users: max_user_connections, "The most server connections of one user over all databases, which take turns where there are more of them than connections; 0 or -1: no limit.";
        max_user_client_connections: u32 = LIMIT, Some("0"), Yes, Works, PgBouncer, users: max_user_client_connections, "The most clients of one user; 0 or -1: no limit.";
        auto_pool_size_max: u32 = Count(1, 10_000, ""), Some("80"), Yes, Works, Ours, "The most server connections of a pool whose size is auto. PostgreSQL's max_connections must have room for as many in each such pool, and for all other connections.";
        auto_pool_size_min: u32 = Count(1, 10_000, ""), Some("2"), Yes, Works, Ours, "The least size of a pool whose size is auto. Servers are still opened only when they are needed.";
        autodb_idle_timeout: Option<Duration> = Seconds, Some("3600"), Yes, Works, PgBouncer, "How long a database made from * is remembered when nobody uses it; 0: for ever.";
        max_client_conn: u32 = NUMBER, Some("100"), Yes, Works, PgBouncer, "The most clients at a time; 0: as many as there are file descriptors.";
        max_server_connections: u32 = NUMBER, Some("0"), Yes, Works, Ours, "The most server connections of all pools together, which take turns where there are more of them than connections; 0: no limit.";
        pool_idle_timeout: Option<Duration> = Seconds, Some("0"), Yes, Works, PgBouncer, "How long a pool without clients and servers is remembered; 0: for ever. A pool with a min_pool_size always is.";
        reserve_pool_timeout: Option<Duration> = Seconds, Some("5"), Yes, Works, PgBouncer, "How long a client waits before the reserve is opened; 0: never opened.";
        statement_memo_size: u32 = Count(65_536, 1_073_741_824, "bytes"), Some("4194304"), No, Works, Ours, "The memory in which each worker remembers what statements do to their sessions.";
    }

    Servers servers: ServerSettings, "Server connections" {
        failover_wait: Duration = Seconds, Some("60"), Yes, Works, Ours, databases: failover_wait, "How long clients wait while no server can be opened, as no host can be connected to or none has the role that target_session_attrs wants. After that they get 57P03, which says what was tried, and so does whoever comes later, until a server can be opened. query_wait_timeout goes on counting. 0: they get the error as soon as a connection has failed.";
        host_check_interval: Option<Duration> = Seconds, Some("1"), Yes, Works, Ours, "How often each host of a database with several hosts or target_session_attrs is asked by a connection of its own whether it is the primary. While clients wait for a host it is asked every 50 ms. An only host is asked while a server there has owed an answer for a second, or cannot be connected to. 0: no host is ever asked.";
        host_check_user: Option<String> = Text, None, Yes, Works, Ours, "As whom hosts are asked, with its password in auth_file. It needs no right but to connect. Default: the user of the [databases] entry, or else the only user in auth_file whose password is known. Without one, a host is only asked whether it answers.";
        host_timeout: Option<Duration> = Seconds, Some("5"), Yes, Works, Ours, "A host that has not answered for so long counts as silent, as one is that is frozen: no client gets a server there, and who waits for an answer from it for as long gets an error. A long query is not affected, as its host answers. 0: no host counts as silent.";
        server_lifetime: Duration = Seconds, Some("3600"), Yes, Works, PgBouncer, databases: server_lifetime, "Closes a server of that age once nobody uses it; 0: after its first use.";
        server_check_delay: Duration = Seconds, Some("30"), Yes, Works, PgBouncer, "A server that has idled for longer is checked before its next use; 0: before every use but one right behind its login.";
        server_check_query: CheckQuery = Text, Some("<empty>"), Yes, Works, PgBouncer, "The check. Nothing: no check. `<empty>`: the empty query.";
        server_connect_timeout: Option<Duration> = Seconds, Some("15"), Yes, Works, PgBouncer, "How long connecting and logging in to PostgreSQL may take; 0: for ever.";
        server_fast_close: bool = Flag, Some("0"), Yes, Works, PgBouncer, "In session mode, closes servers whose configuration has changed at the end of the transaction, and their clients with them, without waiting for the client to leave.";
        server_idle_timeout: Option<Duration> = Seconds, Some("600"), Yes, Works, PgBouncer, databases and users: server_idle_timeout, "Closes a server that nobody has used for so long; 0: never.";
        server_login_retry: Duration = Seconds, Some("15"), Yes, Works, PgBouncer, "The longest pause between attempts to log in to PostgreSQL after a failure. Pauses begin with 50 ms and double. Of several hosts, one that has failed comes last for so long.";
        server_max_uses: u32 = NUMBER, Some("0"), Yes, Works, Ours, databases and users: server_max_uses, "Closes a server after it has been given to clients so often: in transaction mode for so many transactions, in session mode for so many sessions. 0: never. For memory that a PostgreSQL session only gives back at its end; like Pgpool's child_max_connections.";
        server_max_protocol_version: MaxProtocol = Choice(MaxProtocol::NAMES), Some("3.0"), Yes, Works, Ours, "The newest version of the protocol that PostgreSQL is asked for, like libpq's max_protocol_version. 3.0: also understood by any proxy before a server. 3.2 or latest: PostgreSQL 18 then gives cancel keys of 32 bytes; older versions stay at 3.0.";
        server_reset_query: String = Text, Some("DISCARD ALL"), Yes, Works, PgBouncer, "Sent to a server when a session ends, before anybody else uses it; empty: nothing is sent.";
        server_reset_query_always: bool = Flag, Some("0"), Yes, Works, PgBouncer, "Sends server_reset_query after each transaction or statement too.";
        split_brain: SplitBrain = Choice(SplitBrain::NAMES), Some("hold"), Yes, Works, Ours, "What is done while two hosts of a database with target_session_attrs both accept writes, and neither is known to be out of date by its timeline. hold: clients wait until one of them is a standby or gone. highest_timeline: the one that was promoted last is used. stay: the one that was used before.";
        server_round_robin: bool = Flag, Some("0"), Yes, Works, PgBouncer, "Uses the server that has idled longest, instead of the one used last.";
    }

    Waiting waiting: WaitingSettings, "Waiting and time limits" {
        query_timeout: Option<Duration> = Seconds, Some("0"), Yes, Works, PgBouncer, users: query_timeout, "A query that runs for longer is cancelled, and its client goes on; if it may be committing, its server is closed instead, and its client gets 08007. Where pool_fidelity is classic, and in session mode, the client is closed. 0: never.";
        query_wait_timeout: Option<Duration> = Seconds, Some("120"), Yes, Works, PgBouncer, databases and users: query_wait_timeout, "How long a client waits for a server before it gets an error and is closed; 0: for ever.";
        idle_transaction_timeout: Option<Duration> = Seconds, Some("0"), Yes, Works, PgBouncer, users: idle_transaction_timeout, "Closes a client that idles inside a transaction for so long; 0: never.";
        transaction_timeout: Option<Duration> = Seconds, Some("0"), Yes, Works, PgBouncer, users: transaction_timeout, "Closes a client whose transaction lasts longer; 0: never.";
        client_idle_timeout: Option<Duration> = Seconds, Some("0"), Yes, Works, PgBouncer, users: client_idle_timeout, "Closes a client that has sent nothing for so long; 0: never.";
        retry_reads: bool = Flag, Some("0"), Yes, Works, Ours, databases and users: retry_reads, "Sends a statement to another server if its own is lost before the client has got a byte of the answer: once, only outside of a transaction block, and only if its text proves that it reads and nothing else. Off by default, as a function or an operator that it calls may write, and pgweir does not know all of them. It needs a pool_fidelity of transparent or strict, since classic reads no texts. While it is on, pgweir keeps a copy of each such request, and its fast way is not taken.";
        failover_sqlstate: LossCode = Choice(LossCode::NAMES), Some("40001"), Yes, Works, Ours, databases and users: failover_sqlstate, "The SQLSTATE for a client whose transaction is rolled back since its server is lost: it stays connected. 40001: that of a serialization failure, after which applications run a transaction again. server: PostgreSQL's own, such as 57P01, or 08006; many connection pools of applications close the connection after these. What may have been committed has 08007 in any case.";
        cancel_wait_timeout: Option<Duration> = Seconds, Some("10"), Yes, Works, PgBouncer, "How long it may take to deliver a cancel request to PostgreSQL; 0: 15 s.";
        client_login_timeout: Option<Duration> = Seconds, Some("60"), Yes, Works, PgBouncer, "How long a client may take to log in; 0: for ever.";
        query_cancel_timeout: Option<Duration> = Seconds, Some("1"), Yes, Works, Ours, "How long a query that was cancelled because of query_timeout may take to end. After that its client gets an error, and its server is closed. 0: as long as it takes.";
        shutdown_timeout: Option<Duration> = Seconds, Some("0"), Yes, Works, Ours, "How long a shutdown that waits (SIGTERM, SIGINT, SHUTDOWN WAIT_FOR_...) waits for its clients. After that each client is ended at the end of its transaction, with 57P01. 0: it waits without end, as in PgBouncer.";
        upgrade_timeout: Option<Duration> = Seconds, Some("3600"), Yes, Works, Ours, "How long, in an online upgrade (-R), the old process serves clients that cannot move, such as those over TLS. After that each of them is ended at the end of its transaction, with 57P01. 0: without end.";
        query_wait_notify: Option<Duration> = Count(0, INT_MAX, "seconds"), Some("5"), Yes, Works, PgBouncer, "A client that has waited so long for a server gets a NOTICE, with its place and the expected wait; 0: none.";
    }

    Classes classes: ClassSettings, "Classes of clients" {
        class_ageing: Option<Duration> = Seconds, Some("5"), Yes, Works, Ours, "A client that has waited for so long counts one priority higher, after twice as long two, and so on, up to the highest priority that waits, so that nobody starves; 0: never.";
        class_file: String = Path, Some(""), Yes, Works, Ours, "The file that says which client is in which class of [classes]; empty: all are in default.";
        fingerprint_limits: BTreeMap<u64, u32> = Statements, Some(""), Yes, Works, Ours, "Like fingerprint_max_active, for single statements: `fingerprint:number, ...`. SHOW FINGERPRINTS has the fingerprints; 0 is no limit.";
        fingerprint_max_active: u32 = NUMBER, Some("0"), Yes, Works, Ours, "The most transactions at a time, over all pools, that begin with the same statement. Constants do not count. SHOW FINGERPRINTS lists the statements. 0: no limit.";
        fingerprint_over: Over = Choice(Over::NAMES), Some("delay"), Yes, Works, Ours, "What happens to a client over fingerprint_max_active. delay: it waits. reject: it gets an error that says when to try again.";
    }

    Startup startup: StartupSettings, "What clients ask for" {
        application_name_add_host: bool = Flag, Some("0"), Yes, Works, PgBouncer, "Appends the client's address to the application_name with which it logs in.";
        disable_pqexec: bool = Flag, Some("0"), No, Works, PgBouncer, "1: closes a client that sends a simple query. A simple query may hold several statements, which some SQL injections need. Only clients that use the extended protocol alone go on working. The console is not affected.";
        ignore_startup_parameters: CaselessNames = List, Some(""), Yes, Works, PgBouncer, "Startup parameters that are ignored rather than refused.";
        login_notify_message: String = Text, Some(""), Yes, Works, PgBouncer, "Every client gets this text as a NOTICE after its login; empty: none.";
        max_prepared_statements: u32 = NUMBER, Some("200"), Yes, Works, PgBouncer, "How many named prepared statements each server keeps, in transaction and statement mode. A client's unnamed statement is then kept from one transaction to the next, too. 0: statements pass unchanged.";
        server_application_name: ServerName = Template, Some(""), Yes, Works, Ours, "What PostgreSQL is told in application_name, so that pg_stat_activity and PostgreSQL's log show whom a server works for: %a is the client's own application_name, %h its address, %c its class, %i its id in SHOW CLIENTS, %u its user, %t{key} the tag of this key in the comment of the transaction's first statement, %% a percent sign. It is set when a client gets a server, cut to 63 bytes. Before PostgreSQL 18 each other name is an entry of pg_stat_statements: with unique ones, as %i or ids in %t{key}, set pg_stat_statements.track_utility = off there. Empty: the client's own name. Its own is what a client still gets for SHOW application_name, unless it asks later in a transaction.";
        track_extra_parameters: Vec<String> = List, Some("IntervalStyle"), No, Works, PgBouncer, "Parameters that follow the client from server to server, besides client_encoding, DateStyle, TimeZone, standard_conforming_strings and application_name.";
    }

    Log log: LogSettings, "Log" {
        log_connections: bool = Flag, Some("1"), Yes, Works, PgBouncer, "A line for each login, and for each connection made to PostgreSQL.";
        log_disconnections: bool = Flag, Some("1"), Yes, Works, PgBouncer, "A line for each connection that closes, with the reason.";
        log_format: LogFormat = Choice(LogFormat::NAMES), Some("plain"), Yes, Works, Ours, "The format of lines in logfile and on stderr: plain, as in PgBouncer, or json, one object in each line. Syslog always gets plain lines.";
        log_lock_waits: bool = Flag, Some("1"), Yes, Works, Ours, "A line for each client that has waited for a lock for a second: its statement, and who is in its way. Seen by the observer, so without observe_interval there are none. Like PostgreSQL's log_lock_waits.";
        log_min_duration: i64 = Count(-1, INT_MAX, "milliseconds"), Some("-1"), Yes, Works, Ours, databases and users: log_min_duration, "Writes a line for each statement that took at least so long, including its wait for a server. The line has the wait, the client, and the statement's beginning, without literals unless observe_literals is 1. 0: all; -1: none. Like PostgreSQL's log_min_duration_statement.";
        log_pooler_errors: bool = Flag, Some("1"), Yes, Works, PgBouncer, "A line for each error that the pooler itself sends to a client.";
        log_stats: bool = Flag, Some("1"), Yes, Works, PgBouncer, "A line with totals every stats_period.";
        log_verdicts: bool = Flag, Some("1"), Yes, Works, Ours, "Why clients wait, as in SHOW WHY: a line when clients of a pool have waited for a second, when the cause changes, once every stats_period while it lasts, and when it is over. Seen by the observer, so without observe_interval there are none.";
        logfile: Option<String> = Path, Some(""), Yes, Works, PgBouncer, "The file to write the log to, as well as to stderr.";
        syslog: bool = Flag, Some("0"), Yes, Works, PgBouncer, "Writes the log to syslog too.";
        syslog_facility: String = Text, Some("daemon"), Yes, Works, PgBouncer, "The facility for syslog: auth, authpriv, daemon, user, local0 to local7.";
        syslog_ident: String = Text, Some("pgbouncer"), Yes, Works, PgBouncer, "The name for syslog.";
        verbose: u32 = Count(0, INT_MAX, ""), None, Yes, Works, PgBouncer, "How much more to log, like -v: 1 adds clients that leave before they have logged in. PgBouncer adds queries and packets; for statements and their durations see log_min_duration.";
    }

    Console console: ConsoleSettings, "Console and statistics" {
        admin_users: BTreeSet<String> = List, Some(""), Yes, Works, PgBouncer, "Users who may run every command on the console.";
        http_hosts: Vec<String> = List, Some(""), No, Works, Ours, "Names by which browsers may ask for the live page: weir.example.com, for example, where a proxy shows it by that name; *: any. Without port or scheme. Addresses and the host name that the process sees need not be here. By other names it is refused, since anybody can point a name of theirs to this address.";
        http_listen: Vec<String> = List, Some(""), No, Works, Ours, "Addresses where /metrics, /live and /ready are answered by HTTP, for Prometheus and probes: 127.0.0.1:9127, for example, *:9127 for all addresses, or unix:/run/pgweir/http. Empty: none.";
        http_page: bool = Flag, Some("0"), No, Works, Ours, "1: the addresses of http_listen show a live page in the browser, too, at /: what waits for what, now and in the last hour. Users of admin_users and stats_users who are in auth_file log in with their password there.";
        stats_period: Duration = Count(0, INT_MAX, "seconds"), Some("60"), Yes, Works, PgBouncer, "The period of averages, and of the lines of log_stats; 0: a second.";
        stats_users: BTreeSet<String> = List, Some(""), Yes, Works, PgBouncer, "Users who may run SHOW commands on the console.";
        suspend_timeout: Option<Duration> = Seconds, Some("10"), Yes, Works, PgBouncer, "How long SUSPEND waits until all received data is delivered and logins are over. After that, connections for which it still waits are closed. 0: it waits as long as that takes.";
        track_statements: bool = Flag, Some("1"), Yes, Works, Ours, "Counts each statement, its times and its rows, for SHOW QUERIES. 0: counts none, and forgets what was counted.";
    }

    Observing observing: ObserveSettings, "Observing PostgreSQL" {
        observe_file: Option<String> = Path, Some(""), Yes, Works, Ours, "A file to which each second of the history is added: the last hour is there again after a restart or an online upgrade, and pgweir report, SHOW WAITS, SHOW HISTORY and the live page ask it about the time before that. Full, it gets the time of its first second at its end, as in history.20260701T140512Z, and a new one is begun. Only its owner may read these files. Empty: none.";
        observe_file_size: u32 = Count(1_048_576, 4_294_967_295, "bytes"), Some("268435456"), Yes, Works, Ours, "How large all files of observe_file are together, at most; the oldest sixteenth is removed where there is no room. 100 busy sessions take about 165 MB a day, an idle night 1 MB.";
        observe_interval: Option<Duration> = Seconds, Some("1"), Yes, Works, Ours, "How often each PostgreSQL server is asked what its backends do and wait for, by one connection of its own, which max_server_connections counts. After a long answer it is asked later: the pause is at least 20 times as long as the question took. 0: never.";
        observe_literals: bool = Flag, Some("0"), Yes, Works, Ours, "1: statements in the history, in SHOW QUERIES and in the log keep their constants and comments, which may be private. 0: each constant is a question mark, and comments are left out. What runs or waits now is shown to administrators as it came, as pg_stat_activity shows it: by SHOW ACTIVITY, LOCKS and HOLDERS.";
        observe_memory: u32 = Count(1_048_576, 4_294_967_295, "bytes"), Some("67108864"), Yes, Works, Ours, "How much memory the history of the last hour may take. If it is too little for an hour, the oldest seconds are forgotten.";
        observe_tags: Vec<String> = List, Some("application, controller, action, job, route, framework, db_driver"), Yes, Works, Ours, "By which tags of statements' comments the history is counted. Name tags that repeat; what differs from request to request, such as correlation_id, would fill it. Rows of single moments have all tags.";
        observe_when: ObserveWhen = Choice(ObserveWhen::NAMES), Some("trouble"), Yes, Works, Ours, "When each PostgreSQL server is asked. trouble: while a client has waited for a server, or a statement has been under way, for a second; while somebody looks (the page, pgweir top, SHOW LOCKS and the like); and for a minute after that. Never a server without clients. always: also while nothing is wrong, so that the history has all of the last hour. pgweir run, pgweir dev, the image, the chart and the packages have always.";
        observe_user: Option<String> = Text, None, Yes, Works, Ours, "As whom PostgreSQL is asked, with its password in auth_file. It needs no right but to connect; without pg_monitor it is not told what other users do. Default: the user of the [databases] entry, or else the only user in auth_file whose password is known.";
    }

    Patroni patroni: PatroniSettings, "Patroni" {
        patroni_tls_ca_file: String = Path, Some(""), Yes, Works, Ours, "The CAs that sign the certificates of Patroni's REST API, for patroni_urls with https. Default: the CAs that the system trusts.";
        patroni_tls_cert_file: String = Path, Some(""), Yes, Works, Ours, "The certificate that Patroni is shown if it asks for one, as with its verify_client = required.";
        patroni_tls_key_file: String = Path, Some(""), Yes, Works, Ours, "The private key to patroni_tls_cert_file, not encrypted.";
        patroni_user: Option<String> = Text, None, Yes, Works, Ours, "As whom the members of patroni_urls are asked, by basic authentication, with its password in auth_file. Patroni itself wants that for changes only, which pgweir makes none of; a proxy before it may want it always. Not set: no user is named.";
    }

    Traces traces: TraceSettings, "Traces" {
        otlp_endpoint: Option<HttpUrl> = HttpUrl, Some(""), Yes, Works, Ours, "Where spans are sent by OTLP/HTTP, such as http://localhost:4318/v1/traces, or https, with the system's CAs: how long a statement waited for a server, how long the server's opening took, how long PostgreSQL worked. A statement belongs to the trace that the traceparent in its comment names. Empty: nothing is traced.";
        otlp_headers: HttpHeaders = HttpHeaders, Some(""), Yes, Works, Ours, "Headers that are sent with spans, as name=value with commas between them. SHOW CONFIG and the log do not show them.";
        trace_sample: Share = Share, Some("0"), Yes, Works, Ours, "Of how many transactions that belong to no trace a trace is begun: 0.01 is one of a hundred. Where a comment has a traceparent, its sampled flag decides instead.";
    }

    Tls tls: TlsSettings, "TLS" {
        client_tls13_ciphers: String = Text, None, Yes, Partly, PgBouncer, "Ciphers of TLS 1.3 for clients. Not followed: rustls has three, all of them strong.";
        client_tls_ca_file: String = Path, Some(""), Yes, Works, PgBouncer, "The CAs that sign clients' certificates. If it is set, clients are asked for a certificate, and one that they show has to be valid. With verify-ca and verify-full they must show one.";
        client_tls_cert_file: String = Path, Some(""), Yes, Works, PgBouncer, "The certificate that clients are shown, followed by those that lead from it to a CA.";
        client_tls_ciphers: String = Text, Some("default"), Yes, Partly, PgBouncer, "Ciphers up to TLS 1.2 for clients. Not followed: rustls has none that are weak.";
        client_tls_crl_file: String = Path, Some(""), Yes, Works, Ours, "Lists of clients' certificates that were revoked by the CAs of client_tls_ca_file.";
        client_tls_dheparams: String = Text, Some("auto"), Yes, Partly, PgBouncer, "Kind of DHE key exchange with clients. Not followed: rustls has elliptic curves only.";
        client_tls_ecdhcurve: String = Text, Some("auto"), Yes, Partly, PgBouncer, "Curve of the ECDH key exchange with clients. Not followed: the client and rustls agree on X25519MLKEM768, X25519, P-256 or P-384.";
        client_tls_key_file: String = Path, Some(""), Yes, Works, PgBouncer, "The private key to client_tls_cert_file, not encrypted.";
        client_tls_protocols: Vec<String> = List, Some("secure"), Yes, Partly, PgBouncer, "Versions of TLS that clients may use: tlsv1.2 and tlsv1.3; secure and all are both. Older ones are not supported.";
        client_tls_sslmode: SslMode = Choice(SslMode::NAMES), Some("disable"), Yes, Works, PgBouncer, "Whether clients may use TLS (allow, prefer), must use it (require), or must show a valid certificate too (verify-ca, verify-full). Unix sockets are not encrypted.";
        server_channel_binding: ChannelBinding = Choice(ChannelBinding::NAMES), Some("prefer"), Yes, Works, Ours, databases: channel_binding, "Whether a login to PostgreSQL by SCRAM is bound to the certificate of its TLS, so that an attacker in between cannot pass the login on; like libpq's channel_binding. prefer: if PostgreSQL offers it. require: always; any other login is given up. disable: never.";
        server_tls13_ciphers: String = Text, None, Yes, Partly, PgBouncer, "Ciphers of TLS 1.3 to PostgreSQL. Not followed: rustls has three, all of them strong.";
        server_tls_ca_file: String = Path, Some(""), Yes, Works, PgBouncer, "The CAs that sign PostgreSQL's certificate. If it is set, require checks as verify-ca does. Empty: verify-ca and verify-full use the system's.";
        server_tls_cert_file: String = Path, Some(""), Yes, Works, PgBouncer, "The certificate that PostgreSQL is shown if it asks for one.";
        server_tls_ciphers: String = Text, Some("default"), Yes, Partly, PgBouncer, "Ciphers up to TLS 1.2 to PostgreSQL. Not followed: rustls has none that are weak.";
        server_tls_crl_file: String = Path, Some(""), Yes, Works, Ours, "Lists of servers' certificates that were revoked by the CAs of server_tls_ca_file.";
        server_tls_key_file: String = Path, Some(""), Yes, Works, PgBouncer, "The private key to server_tls_cert_file, not encrypted.";
        server_tls_protocols: Vec<String> = List, Some("secure"), Yes, Partly, PgBouncer, "Versions of TLS to use with PostgreSQL: tlsv1.2 and tlsv1.3; secure and all are both. Older ones are not supported.";
        server_tls_sslmode: SslMode = Choice(SslMode::NAMES), Some("prefer"), Yes, Works, PgBouncer, "Whether to use TLS to PostgreSQL, like libpq's sslmode. allow: only if a login without it is refused. prefer: if PostgreSQL has it; a handshake that fails is an error, as in PgBouncer. require: always. verify-ca: always, and a CA of server_tls_ca_file must have signed the certificate. verify-full: the certificate must also name the host. Unix sockets are not encrypted.";
        server_tls_sslnegotiation: SslNegotiation = Choice(SslNegotiation::NAMES), Some("postgres"), Yes, Works, Ours, "How TLS to PostgreSQL begins. postgres: by a request. direct: at once, which saves a round trip and needs PostgreSQL 17 and server_tls_sslmode = require or above.";
    }

    Network network: NetworkSettings, "Sockets and buffers" {
        busy_poll: u32 = Count(0, 1000, "microseconds"), Some("0"), Yes, Works, Ours, "How long a thread that has nothing to do looks for the next message before it sleeps. It keeps its core busy meanwhile, and saves itself and the sender the cost of waking it. After a look that has found nothing, the next times it sleeps at once. For machines where pgweir has cores of its own. 0: never.";
        listen_backlog: u32 = NUMBER, Some("4096"), No, Works, PgBouncer, "How many connections the kernel keeps until they are accepted; it allows net.core.somaxconn at most. PgBouncer's default is 128: if 2,000 clients come at once, those beyond it try again a second later.";
        max_packet_size: u32 = Count(0, 4_294_967_295, "bytes"), Some("2147483647"), Yes, Works, PgBouncer, "The longest message that passes in either direction once a client has logged in, including its header: a statement, a row, a piece of COPY. A connection that sends a longer one is closed.";
        pkt_buf: u32 = Count(0, INT_MAX, "bytes"), Some("4096"), No, Unneeded, PgBouncer, "PgBouncer's buffer for each connection. Here all connections of a thread share one.";
        proxy_protocol_networks: Networks = Networks, Some(""), Yes, Works, Ours, "The networks of proxies that name their clients by the PROXY protocol, version 1 or 2: 10.0.0.0/8, fd00::/8. The client's address then counts everywhere. Connections from these networks without a header are refused, and so are headers from elsewhere. Empty: no proxy is believed.";
        sbuf_loopcnt: u32 = NUMBER, Some("5"), Yes, Unneeded, PgBouncer, "How often PgBouncer reads from one connection before it turns to the next. Here every connection has a quota of bytes in each round.";
        tcp_defer_accept: bool = Flag, Some("1"), Yes, Unneeded, PgBouncer, "PgBouncer leaves a new connection to the kernel until the client has sent something. Here it is accepted at once.";
        tcp_keepalive: bool = Flag, Some("1"), Yes, Works, PgBouncer, "Lets the kernel probe idle connections.";
        tcp_keepcnt: u32 = NUMBER, Some("0"), Yes, Works, PgBouncer, "How many probes may go unanswered before the kernel gives up; 0: the kernel's default.";
        tcp_keepidle: u32 = Count(0, INT_MAX, "seconds"), Some("0"), Yes, Works, PgBouncer, "How long a connection is idle before the first probe; 0: the kernel's default.";
        tcp_keepintvl: u32 = Count(0, INT_MAX, "seconds"), Some("0"), Yes, Works, PgBouncer, "The time between two probes; 0: the kernel's default.";
        tcp_socket_buffer: u32 = Count(0, INT_MAX, "bytes"), Some("0"), Yes, Works, PgBouncer, "Size of the kernel's buffers for each socket; 0: the kernel's default.";
        tcp_user_timeout: u32 = Count(0, INT_MAX, "milliseconds"), Some("0"), Yes, Works, PgBouncer, "How long sent bytes may go unacknowledged before the connection counts as dead; 0: the kernel's default.";
    }

    Names names: NameSettings, "Name resolution" {
        dns_max_ttl: Option<Duration> = Seconds, Some("15"), Yes, Works, PgBouncer, "How long the addresses of a host's name are used. The next server connection after that looks the name up again. The record's own time to live does not count. 0: every connection looks it up. While no name server answers, the last addresses are used for a day.";
        dns_nxdomain_ttl: Option<Duration> = Seconds, Some("15"), Yes, Works, PgBouncer, "How long the answer is remembered that a name could not be looked up.";
        dns_zone_check_period: Option<Duration> = Seconds, Some("0"), Yes, Works, PgBouncer, "How often the serials of host names' zones are asked for; a zone is the part behind a name's first dot. If a serial has changed, the zone's names are looked up again at once. 0: never.";
        resolv_conf: String = Path, Some(""), No, Works, PgBouncer, "A resolv.conf for pgweir alone. Its name servers are asked, after /etc/hosts. nameserver may have a port: 10.0.0.1:5353. Default: names are looked up as the system does it.";
    }

    Tests tests: TestSettings, "For tests of the pooler itself" {
        chaos_check: bool = Flag, Some("0"), Yes, Partly, Ours, "Where sessions are followed, asks a server after every transaction what is left on it, and ends the process at the first difference to what is known. Refused unless the environment has PGWEIR_CHAOS=1.";
        chaos_close: bool = Flag, Some("0"), Yes, Partly, Ours, "Closes every server after its first use. Refused unless the environment has PGWEIR_CHAOS=1.";
        chaos_poison: bool = Flag, Some("0"), Yes, Partly, Ours, "Where sessions are followed, lets a stranger leave its session state on every server before anybody else gets it. Refused unless the environment has PGWEIR_CHAOS=1.";
        chaos_rotate: bool = Flag, Some("0"), Yes, Partly, Ours, "Outside of session mode, runs every transaction of a client on another server if one is idle. Refused unless the environment has PGWEIR_CHAOS=1.";
        chaos_seed: u64 = NUMBER, Some("0"), Yes, Works, Ours, "Where the choice between idle servers begins under chaos_rotate, and the stranger's statements under chaos_poison.";
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
    pub origin: Origin,
    pub group: Group,
    pub doc: &'static str,
}

impl Setting {
    /// The default as a value; PgBouncer's NULL is an empty text or 0.
    #[must_use]
    pub fn default_value(&self) -> Value {
        let text = match (self.default, self.kind.takes_empty()) {
            (Some(text), _) => text,
            (None, true) => "",
            (None, false) => "0",
        };
        self.kind.read(text).expect("a test reads every default")
    }

    /// Reads a value as `[pgbouncer]` has it: where nothing is no value of its kind, it stands for the default. The error
    /// is what was expected instead.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        if text.is_empty() && !self.kind.takes_empty() { Ok(self.default_value()) } else { self.kind.read(text) }
    }
}

/// The same rows by name, which is SHOW CONFIG's order.
const fn by_name<const COUNT: usize>(rows: &'static [Setting; COUNT]) -> [&'static Setting; COUNT] {
    let mut sorted = [&rows[0]; COUNT];
    let mut count = 0;
    while count < COUNT {
        let mut place = count;
        while place > 0 && is_before(rows[count].name.as_bytes(), sorted[place - 1].name.as_bytes()) {
            sorted[place] = sorted[place - 1];
            place -= 1;
        }
        sorted[place] = &rows[count];
        count += 1;
    }
    sorted
}

const fn is_before(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() {
        if one[index] != other[index] {
            return one[index] < other[index];
        }
        index += 1;
    }
    one.len() < other.len()
}

/// The row of a setting's name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Setting> {
    ROWS.iter().find(|setting| setting.name == name)
}

/// All names, to look for the nearest to a misspelt one.
#[must_use]
pub fn known_names() -> Vec<&'static str> {
    TABLE.iter().map(|setting| setting.name).collect()
}

impl Key {
    #[must_use]
    pub fn setting(self) -> &'static Setting {
        &ROWS[self as usize]
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        self.setting().name
    }
}

impl PoolSize {
    /// The most it can ever be.
    #[must_use]
    pub fn most(self, settings: &PoolSettings) -> u32 {
        match self {
            PoolSize::Fixed(size) => size,
            PoolSize::Auto => settings.auto_pool_size_max,
        }
    }
}

impl ClassSettings {
    /// Whether statements have to be told apart: single ones have limits.
    #[must_use]
    pub fn limits_statements(&self) -> bool {
        self.fingerprint_max_active > 0 || !self.fingerprint_limits.is_empty()
    }

    /// How many transactions at a time may begin with this statement; `None`: no limit.
    #[must_use]
    pub fn statement_limit(&self, fingerprint: u64) -> Option<u32> {
        let limit = self.fingerprint_limits.get(&fingerprint).copied().unwrap_or(self.fingerprint_max_active);
        (limit > 0).then_some(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_sorted_and_found_by_its_key() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
        for (index, setting) in ROWS.iter().enumerate() {
            assert_eq!(setting.key as usize, index);
            assert!(setting.doc.ends_with('.'), "{}", setting.name);
        }
        let pgbouncers = ROWS.iter().filter(|setting| setting.origin == Origin::PgBouncer);
        assert_eq!((pgbouncers.count(), ROWS.len()), (100, 169), "PgBouncer's hundred, and ours");
    }

    #[test]
    fn every_field_takes_the_values_of_its_kind() {
        let mut global = Global::default();
        for setting in &ROWS {
            global.set(setting.key, &setting.default_value());
        }
        assert_eq!(global, Global::default());
        let mut database = DatabaseSettings::default();
        let mut user = UserSettings::default();
        for setting in &ROWS {
            database.set(setting.key, Some(&setting.default_value()));
            user.set(setting.key, Some(&setting.default_value()));
        }
        let (nothing, nobody) = (DatabaseSettings::default(), UserSettings::default());
        assert_eq!(Effective::new(&global, &database, &user), Effective::new(&global, &nothing, &nobody));
        assert_eq!((DatabaseSettings::NAMES.len(), UserSettings::NAMES.len()), (19, 18));
    }

    #[test]
    fn a_users_value_goes_before_a_databases_and_that_before_the_global_one() {
        let global = Global::default();
        let mut database = DatabaseSettings::default();
        let mut user = UserSettings::default();
        let size = |database: &DatabaseSettings, user: &UserSettings| Effective::new(&global, database, user).pool_size;
        assert_eq!(size(&database, &user), PoolSize::Fixed(20));
        database.set(Key::default_pool_size, Some(&Value::Number(3)));
        assert_eq!(size(&database, &user), PoolSize::Fixed(3));
        user.set(Key::default_pool_size, Some(&Value::Choice("auto")));
        assert_eq!(size(&database, &user), PoolSize::Auto);
    }
}
