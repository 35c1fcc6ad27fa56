//! Every bound in one place, each with its reason.

use std::time::Duration;

/// What one read brings at most, and what a session may have waiting undecided before reading from it pauses. Large
/// results want large reads: at 64 kB the system call no longer shows beside the copy.
pub const CHUNK_LEN_MAX: usize = 64 * 1024;

/// What one read of a client that has not logged in brings at most: more than the longest startup packet, and as much as a TLS record.
pub const LOGIN_CHUNK_LEN_MAX: usize = 16 * 1024;

/// A backlog longer than this is a bug: reading is paused as soon as there is any, and one step adds at most what was
/// read, what had been waiting, and what we put in between.
pub const BACKLOG_LEN_MAX: usize = 4 * CHUNK_LEN_MAX;

/// A server's message that must be read whole (an error, a parameter, a ready) and is longer ends that server.
pub const SERVER_MESSAGE_LEN_MAX: usize = 64 * 1024;

/// A statement longer than this is not kept by name: it would be one client's memory at everybody's cost. An INSERT with as many
/// parameters as PostgreSQL takes, 65,535, has 0.5 to 1.5 MB.
pub const STATEMENT_LEN_MAX: usize = 2 * 1024 * 1024;

/// Bytes of statements that the pooler prepares on a server in one step, for messages of one client. The next message that needs
/// a statement prepared waits until the server has answered what it was sent.
pub const PREPARING_LEN_MAX: usize = STATEMENT_LEN_MAX;

/// A server's backlog may hold, besides, what the pooler prepares there in one step. One text may name all that SQL's PREPARE
/// has left in its session; the frames around these statements take less than a fourth of [`PREPARED_LEN_MAX`].
pub const SERVER_BACKLOG_LEN_MAX: usize = BACKLOG_LEN_MAX + PREPARING_LEN_MAX + PREPARED_LEN_MAX + PREPARED_LEN_MAX / 4;

/// A statement or portal name. PgBouncer's tests use names of 16 kB.
pub const NAME_LEN_MAX: usize = 32 * 1024;

/// Bytes of statement texts and names one client may keep.
pub const STATEMENT_BYTES_PER_CLIENT_MAX: usize = 16 * 1024 * 1024;

/// Named statements one client may keep.
pub const STATEMENTS_PER_CLIENT_MAX: usize = 16 * 1024;

/// The text of an unnamed statement that is kept for the client's next transaction, and that of those under way.
pub const UNNAMED_LEN_MAX: usize = 16 * 1024;

/// Bytes of a name in the log and in messages: PostgreSQL's names are no longer (NAMEDATALEN - 1).
pub const SHOWN_NAME_LEN_MAX: usize = 63;

/// A tracked parameter's value.
pub const PARAMETER_LEN_MAX: usize = 4096;

/// Tracked parameters: a set of them is one word. PostgreSQL 18 reports 17 parameters. `track_extra_parameters` beyond these are not followed.
pub const TRACKED_MAX: usize = 32;

/// So long PostgreSQL waits for a database to be without anybody, and we keep no free servers there.
pub const VACATING: Duration = Duration::from_secs(5);

/// So long after servers were told to leave a database, a statement that wants it without anybody makes no others leave, unless
/// one has succeeded: whoever sends it needs no right to.
pub const VACATE_AGAIN: Duration = Duration::from_secs(60);

/// What clients begin with that a pool has learnt the spelling of, and how long one of these may be.
pub const LEARNT_MAX: usize = 64;
pub const LEARNT_LEN_MAX: usize = 1024;

/// Applications of a pool that are known to ask for `currval`, by name: one that names each of its connections otherwise has
/// told as many first currval_callers an error, and then all sessions are taken for currval_callers.
pub const CURRVAL_CALLERS_MAX: usize = 8;

/// Answers owed on one server before reading from its client pauses: a pipeline deeper than this waits for answers.
pub const OWED_MAX: usize = 16 * 1024;

/// Bytes that all clients may make us keep of messages that are not whole; a worker may have its part of it. Beyond it, those
/// that began first are refused. What is shorter than the second is not counted: a thousand of them are four megabytes.
pub const HALF_BYTES_MAX: usize = 16 * 1024 * 1024;
pub const HALF_ORDINARY: usize = 4 * 1024;

/// Servers of one pool on one worker that may be asked for or logging in at once: a burst is met quickly, and
/// PostgreSQL is not asked to fork a pool's worth of backends at one moment.
pub const OPENING_MAX: u32 = 4;

/// Servers of the whole process that may be logging in at once: a PostgreSQL that comes back is not met by every pool's
/// logins at one moment. A login that takes longer than [`OPENING_SLOW`] is not waited for by others: its server's
/// host may be down, and theirs another one.
pub const OPENING_PROCESS_MAX: usize = 32;
pub const OPENING_SLOW: Duration = Duration::from_secs(1);

/// How long logins are limited at a host that was lost, if there are not enough of them to end it.
pub const RAMP_LASTS: Duration = Duration::from_secs(30);

/// How long a host, or one of its addresses, may be silent to a connect before the next one is tried, where there is one: time for
/// one of TCP's own repetitions, after 1 s. The last one has `server_connect_timeout`.
pub const CONNECT_NEXT: Duration = Duration::from_secs(2);

/// How long a host that was down, or had the wrong role for a database with `target_session_attrs`, is not tried again. After that it is, if no
/// other host fits. Shorter than three quarters of [`ROLE_PAUSE`]: after each pause all hosts are tried.
pub const ROLE_HOLDS: Duration = Duration::from_millis(500);

/// The longest pause of a pool that finds no host with the role that its database wants.
pub const ROLE_PAUSE: Duration = Duration::from_secs(1);

/// How long a host that was the primary is not tried where a standby is wanted. After that it may have been restarted as one.
pub const ROLE_IS_KNOWN: Duration = Duration::from_secs(15);

/// How long an administrator's hint about a primary counts, and Patroni is not believed about the same hosts.
pub const HINT_HOLDS: Duration = Duration::from_secs(60);

/// How long Patroni's word that a host leads counts, from when the member that says so has reached the store of the cluster's state: for two of its rounds
/// (`loop_wait`, 10 s by default). A member that is not cut off has then reached the store again, and shows another leader if there is one.
pub const LEADER_HOLDS: Duration = Duration::from_secs(20);

/// How long one of two hosts that accept writes must have failed before the other is written to.
pub const DISPUTE_LASTS: Duration = Duration::from_secs(10);

/// How long a primary may take to answer whether it still accepts writes, once another host does; and that host to show its timeline.
pub const CONTEST_LASTS: Duration = Duration::from_secs(1);

/// Without an attempt for this time, clients are held anew.
pub const HOLD_LASTS: Duration = Duration::from_secs(30);

/// How long a server may owe an answer before its host is probed.
pub const SILENCE: Duration = Duration::from_secs(1);

/// How long before the end of its lifetime a server that min_pool_size keeps is replaced, at most; a tenth of a lifetime
/// that is short.
pub const RENEWAL: Duration = Duration::from_secs(5);

/// How long until a pool that is to be forgotten is looked at again, if something of it is left.
pub const FORGET: Duration = Duration::from_secs(1);

/// Pools the process keeps. An authenticated client may name any database where there is a `*` entry.
pub const POOLS_MAX: usize = 65_536;

/// Pools of databases that nobody configured by name are kept while nobody uses them, for autodb_idle_timeout; of more than
/// these, the oldest go at once. Each takes some kilobytes.
pub const UNUSED_POOLS_MAX: usize = 1024;

/// Asks for servers that the coordinator goes through at each event; of more, once in a while. A pool that is at work has
/// four a worker at most.
pub const ASKS_AT_ONCE: usize = 512;

/// Clients at a door that have not logged in yet; beyond it they are refused at once.
pub const LOGINS_MAX: usize = 60_000;

/// Clients of a class that wait because too many log in a second; beyond it they are told so at once, as they are beyond as
/// many as may log in within client_login_timeout.
pub const LOGIN_LINE_MAX: usize = 10_000;

/// Bytes of memory that all clients at a door may take before they have logged in: their entries in tables, half startup
/// packets, what whole ones ask for, half passwords, passwords that are being hashed. One alone may have as much as
/// PostgreSQL takes (10,000 bytes at startup, 65,535 of a password, 1,024 of a SASL message, and what one read brings
/// besides). Beyond this sum, the oldest logins are given up: at first those that are heavier than
/// [`LOGIN_WEIGHT_ORDINARY`], which is some times what drivers send, and which may have a third of it together. Measured with 9,000
/// strangers of each kind, with what the allocator keeps of what was freed within the last second, a process grows by 21 MB at most
/// (half handshakes); 5,000 honest logins at once over TLS find room.
pub const LOGIN_BYTES_MAX: usize = 28 * 1024 * 1024;
pub const LOGIN_WEIGHT_ORDINARY: usize = 3 * 1024;
/// And what TLS takes in the midst of its handshake: a client's first message and the keys.
pub const TLS_WEIGHT_ORDINARY: usize = 8 * 1024;

/// Logins that have begun and are not over: with TLS they take half of [`LOGIN_BYTES_MAX`]. The others wait, and weigh little.
pub const LOGINS_BEGUN_MAX: usize = LOGIN_BYTES_MAX / 2 / TLS_WEIGHT_ORDINARY;

/// Wrong passwords whose answers wait at a door (`auth_failure_delay`); of more, the one that is due first is answered at once. A
/// sixth of [`LOGINS_MAX`], so that they leave room for those who log in.
pub const DELAYED_ANSWERS_MAX: usize = 10_000;

/// Lookups of users' secrets that one lookup database has to answer at a time: a million made-up names are no more.
pub const LOOKUPS_IN_FLIGHT_MAX: usize = 16;

/// How long an answer to a lookup is waited for, and how long a login waits for its lookup at least. `failover_wait` may be longer, except at the console.
pub const LOOKUP_WAIT: Duration = Duration::from_secs(4);

/// How long after a failed try a lookup database is left alone, at most: the next try may come while logins still wait.
pub const LOOKUP_RETRY: Duration = Duration::from_secs(1);

/// Lookup databases that only a `*` entry knows: any client may name one, and each takes a connection.
pub const LOOKUP_DATABASES_MAX: usize = 32;

/// Users whose secrets are kept for when their lookup database cannot be reached, and the bytes that this may take.
pub const LOOKUP_CACHE_MAX: usize = 10_000;
pub const LOOKUP_CACHE_LEN_MAX: usize = 8 * 1024 * 1024;

/// How long a server may take to answer what the pooler itself asked: a reset, a check, a rollback.
pub const HOUSEKEEPING: Duration = Duration::from_secs(15);

/// How long a server that lost its client may go on answering before it is asked to stop or closed, and how much of it is read.
pub const DRAIN: Duration = Duration::from_millis(100);
pub const DRAIN_LEN_MAX: u64 = 1024 * 1024;

/// How long a server that lost its client may take to stop once it is asked to.
pub const DRAIN_CANCELLED: Duration = Duration::from_millis(100);

/// How long a server counts that is closed while PostgreSQL is at work for it: PostgreSQL sees the end when it next writes or reads.
pub const ENDING: Duration = Duration::from_millis(100);

/// How long a linked client may leave a message half sent, or an answer half taken, before its server is worth more.
pub const STALL: Duration = Duration::from_secs(300);

/// How long a closed client may take to read what it is still owed.
pub const FAREWELL: Duration = Duration::from_secs(10);

/// How long after RESUME what came during SUSPEND may be read before a timeout ends anything.
pub const RESUME_GRACE: Duration = Duration::from_secs(1);

/// How long a wish for more servers is outstanding before somebody in a hurry is told that none will come: an exchange of
/// mailboxes, and then some.
pub const GRANT: Duration = Duration::from_millis(5);

/// A stranger on another worker is served before one's own waiter once it has waited this much longer, and the mean
/// service time on top: less would make servers travel for nothing.
pub const STRANGER: Duration = Duration::from_millis(1);

/// So many times that, and it is served first even if its worker has more servers for its waiters.
pub const LONG_PATIENCE: u32 = 4;

/// How often capacity that another pool holds idle is asked for again while somebody waits for it.
pub const RECALL: Duration = Duration::from_millis(20);

/// How often the coordinator looks after min_pool_size, as PgBouncer does.
pub const MAINTENANCE: Duration = Duration::from_millis(333);

/// Cancel connections in flight for one server: a pool has twice its size at most, as in PgBouncer.
pub const CANCELS_PER_SERVER_MAX: u32 = 2;

/// Cancel requests that wait for a connection to a peer; one takes some 300 bytes at most. At 20 connections that take 1 ms each,
/// so many wait for 50 ms.
pub const PEER_CANCELS_WAITING_MAX: usize = 1000;

/// So long a connection to a peer may take where `cancel_wait_timeout` is off: a peer that never answers would keep it for ever.
pub const PEER_SILENCE: Duration = Duration::from_secs(60);

/// Buffers kept for use again by one worker, and the largest kept.
pub const SPARE_BUFFERS_MAX: usize = 256;
pub const SPARE_BUFFER_LEN_MAX: usize = 16 * 1024;

/// Servers that are told apart when chaos_rotate counts where a session has been.
pub const JOURNEY_LEN_MAX: usize = 1024;

const _: () = assert!(STATEMENT_LEN_MAX >= CHUNK_LEN_MAX);
const _: () = assert!(NAME_LEN_MAX < CHUNK_LEN_MAX);
const _: () = assert!(BACKLOG_LEN_MAX > 3 * CHUNK_LEN_MAX);

/// Names and clauses of settings that are kept of one session; beyond it, the session keeps its server.
pub const SETTINGS_LEN_MAX: usize = 64 * 1024;

/// What rules of classes leave to tags is remembered for so many different lists of them; beyond it all are forgotten, and
/// sessions share less.
pub const STANDINGS_MAX: usize = 256;

/// Statements whose transactions are counted apart, on one worker; of more, the one used longest ago is forgotten, if nobody
/// uses it.
pub const FINGERPRINTS_MAX: usize = 1024;

/// Savepoints that are kept of one transaction. Whoever goes back to one that is not keeps its server.
pub const SAVEPOINTS_MAX: usize = 1024;

/// Portals of one client's that do more than return rows. Beyond it, and beyond [`PREPARED_LEN_MAX`] of their names and
/// texts, the session keeps its server.
pub const PORTALS_MAX: usize = 1024;

/// Names and texts of SQL's PREPARE that are kept of one session; beyond it, the session keeps its server.
pub const PREPARED_LEN_MAX: usize = 4 * 1024 * 1024;

/// How often BEGIN is sent again after a server was lost that had been used for nothing else.
pub const BEGIN_RETRIES: u8 = 2;

/// A longer BEGIN, with its comments, is not kept to be sent again: each server has room for one.
pub const BEGIN_LEN_MAX: usize = 1024;

/// How much of a statement is shown as the reason of a pin.
pub const PIN_TEXT_LEN_MAX: usize = 256;

/// Statements that one worker counts apart for SHOW QUERIES; of more, those used least are counted as others. With
/// [`COUNTED_TEXT_LEN_MAX`] each takes about a kilobyte: 4 MB a worker.
pub const STATEMENTS_COUNTED_MAX: usize = crate::StatementRow::PLACES;

/// When the table is full, one in so many of its statements is dropped: to choose them takes a look at all.
pub const STATEMENTS_DROPPED_SHARE: usize = 16;

/// How much of a statement's text SHOW QUERIES shows.
pub const COUNTED_TEXT_LEN_MAX: usize = 512;

/// Named portals of one transaction, and named statements of one connection where names are not mapped, whose statements are
/// known for SHOW QUERIES; calls of more are counted as others.
pub const NAMES_COUNTED_MAX: usize = 256;

/// Lines about statements that took long, from one worker in one second. What is left out is counted.
pub const SLOW_LINES_MAX: u32 = 200;

/// How much of a text is shown that a client waits with.
pub const WAITING_TEXT_LEN_MAX: usize = 1024;

/// Of a pool's waiting clients on one worker, so many are listed where only busy ones are looked at: thousands may wait, and
/// the pool's counts say how many.
pub const WAITING_SHOWN_MAX: usize = 64;

/// How much of a statement the log shows where it took long.
pub const LOGGED_TEXT_LEN_MAX: usize = 1024;

/// Texts of one pipeline that are kept for the log until their answers come: with those of [`LOGGED_TEXT_LEN_MAX`] 64 kB a server.
pub const ASKED_MAX: usize = 64;

/// Names that a database's catalogue keeps: 32 bytes each and two for its filter. With more than these, every text of the
/// database is suspect; then a check after each is cheaper than this memory on every worker.
pub const CATALOGUE_NAMES_MAX: usize = 128 * 1024;

/// How long a pool's first clients wait until the side effects in its database have been read: for the poll, and then for the catalogue. A
/// database of which that is not read so soon serves them without it.
pub const FIRST_NAMES: Duration = Duration::from_secs(1);

/// Who meets whom, while a catalogue is read: 24 bytes each. 5,000 functions of 1.4 kB have 200,000.
pub const CATALOGUE_EDGES_MAX: usize = 512 * 1024;

/// Custom settings whose names are known: a check asks for each.
pub const CATALOGUE_SETTINGS_MAX: usize = 64;

/// A row of the catalogue that is longer ends the server that sends it; sources of more than 128 KiB are not asked for.
pub const CATALOGUE_ROW_LEN_MAX: usize = 1024 * 1024;

/// What a session's messages under way will do to it. The statements of one text, 64 kB of `execute p;`, take less than one
/// megabyte. Those beyond are taken for unknown statements.
pub const EFFECTS_LEN_MAX: usize = 4 * 1024 * 1024;

/// Settings of one session that wait to be asked for; beyond it, the session keeps its server.
pub const UNREAD_MAX: usize = 256;

/// Idle servers that are looked at for one that has a session's settings already.
pub const FITTING_MAX: usize = 8;

/// What is kept of a text that is too long to be at hand at once, to tell what it does: its words without its constants.
pub const SHAPE_LEN_MAX: usize = 256 * 1024;

/// Channels one session may hear of through its pool's listener; with more, it listens on a server of its own.
pub const CHANNELS_MAX: usize = 256;

/// LISTENs that a pool's listener is told at once: 35 kB of text at most.
pub const CHANNELS_PER_ROUND_MAX: usize = 256;

/// Notifications that a session has not read: PostgreSQL's are 8 kB at most. Beyond it, the session ends.
pub const NOTIFICATIONS_LEN_MAX: usize = 128 * 1024;

/// How long a login waits for the first new server where the pool knows what its servers began with before.
pub const NEW_REPORT_WAIT: Duration = Duration::from_secs(1);

/// How long a session that wants to listen, and has a server, waits for a connection that does it for all; then it listens on its own.
pub const LISTENER_WAIT: Duration = Duration::from_secs(1);

/// How long a listener that nobody needs stays.
pub const LISTENER_IDLE: Duration = Duration::from_secs(10);

const _: () = assert!(NOTIFICATIONS_LEN_MAX + CHUNK_LEN_MAX < BACKLOG_LEN_MAX);

/// Questions about who a client is that wait for a thread: with eight threads and half a second for each, more would wait for
/// longer than a minute, which is when their clients are given up.
pub const INQUIRIES_MAX: usize = 1000;

/// Bytes of such questions, passwords and tokens and all. Of clients that are there the door counts them too ([`LOGIN_BYTES_MAX`]);
/// of those who have left they stay until somebody needs the room. So that the two stay below the 40 MB that strangers may cost.
/// A thousand tokens of 3 kB find room.
pub const INQUIRY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Characters of a pattern at the console: longer than any name there, and short enough that ten thousand rows are compared in no time.
pub const CONSOLE_PATTERN_MAX: usize = 256;

/// Bytes of statements, portals and rows of suspended portals that one client of the console may keep: the rows of ten thousand clients.
pub const CONSOLE_KEPT_MAX: usize = 4 * 1024 * 1024;

/// What a statement or a portal of the console's weighs besides its texts.
pub const CONSOLE_ENTRY_WEIGHT: usize = 256;

/// Messages of GSSAPI's that a login may take: Kerberos needs one, and two with its mechanism negotiated.
pub const GSS_MESSAGES_MAX: u32 = 16;
/// About what a half-done exchange of GSSAPI's takes in its library, besides what it keeps of the messages.
pub const GSS_CONTEXT_WEIGHT: usize = 8 * 1024;
