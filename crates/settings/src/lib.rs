//! Every setting of `[pgbouncer]`, declared once.
//!
//! ```text
//!   table ─ settings! (declare) ─┬─▶ TABLE, Key        SHOW CONFIG, the manual, the parser of `config`
//!                                ├─▶ Global            typed values, a struct for each heading of the manual
//!                                ├─▶ DatabaseSettings, UserSettings      what an entry may say instead
//!                                └─▶ Effective         what holds for one database and user
//!   suggest: the name that a misspelt one may mean
//!   value: a user's text to a value, and back          types, networks: the types of fields
//! ```
//!
//! Promises PgBouncer's names, defaults and order, and values as PgBouncer reads and shows them. Deliberately does not
//! know files, where databases are, secrets, or what a setting does.

mod declare;
mod http_url;
mod networks;
mod server_name;
mod suggest;
pub mod table;
mod types;
pub mod value;

pub use declare::{Effect, Origin};
pub use http_url::{HttpHeaders, HttpUrl, Share};
pub use networks::Networks;
pub use server_name::{NamePart, ServerName};
pub use suggest::nearest;
pub use table::{
    AUTH_QUERY, ClassSettings, ConsoleSettings, DatabaseSettings, Effective, Global, Group, Key, ListeningSettings,
    LogSettings, LoginSettings, NameSettings, NetworkSettings, PatroniSettings, PoolSettings, ROWS, ServerSettings,
    Setting, StartupSettings, TABLE, TestSettings, TlsSettings, TraceSettings, UserSettings, WaitingSettings,
};
pub use types::{
    AuthType, CaselessNames, ChannelBinding, CheckQuery, Fidelity, LogFormat, LossCode, MaxProtocol, ObserveWhen, Over,
    PoolMode, PoolSize, SplitBrain, SslMode, SslNegotiation, Words,
};
