//! What a statement means for the session: it begins or ends a transaction, sets, prepares, listens, may have side
//! effects, or nothing.
//!
//! Pure: no sockets, no clock, no globals, no dependency. Whatever a text is, reading it ends in a value, never in a panic.
//! PostgreSQL's own lexical rules are obeyed (`//= pg18 sql-syntax-lexical`); of its grammar only what session state
//! hangs on. What is not understood is unknown ([`Marks::UNKNOWN`]); nothing is guessed.
//!
//! # What to ask
//!
//! ```text
//!   bytes ── Text ──┬── Memo::summary ──► Summary    one pass and one lookup: the marks and the words of all of it
//!                   │
//!                   └── statements() ───► Statement  each one's kind, with names and values out of the text
//! ```
//!
//! * [`Memo`] is asked for every text. A text that it has seen before, be it with other constants or comments, costs no
//!   allocation.
//! * [`Summary::marks`] is empty for most texts: they neither change nor read session state by themselves.
//! * [`Summary::only_reads`] is true of texts that may be cancelled at any moment.
//! * [`Summary::words`] are the names in the text. A catalogue of functions, views and tables that touch session state
//!   inside is asked with them.
//! * [`Text::statements`] is for the texts with marks: it tells the setting and its value, the prepared statement's name.
//!   [`Statement::set_config_calls`] reads SET as a function. [`Kind::may_answer`] holds a server's answer against it.
//! * [`setting_key`] and [`quoted_setting`] are a setting's name to keep and to write, [`is_dangerous`] which must not be
//!   another's.
//! * [`redacted`] is a text that can be kept: without constants and comments.
//! * [`comment_tags`] are what an application says of itself in a comment.
//! * [`Pieces`] is for a text that is too large to be kept: it gathers a small one that means the same.
//!
//! # What it does not do
//!
//! It does not know what a statement did: errors undo, tags confirm. It does not evaluate: what a function, a DO block or
//! a string holds is not looked into. It knows nothing of messages and sessions.
//!
//! ```
//! use sql::{Key, Kind, Marks, Memo, Rules, Text};
//!
//! let mut memo = Memo::new(Key::from_seed(1), 1 << 20);
//! let text = Text::new(b"/* 4711 */ select name from t where id = 1", Rules::default());
//! assert!(memo.summary(&text).marks().is_empty());
//!
//! let text = Text::new(b"set local app.user_id = '42'; commit", Rules::default());
//! assert_eq!(memo.summary(&text).marks(), Marks::SET_LOCAL | Marks::COMMIT);
//! let kinds: Vec<Kind> = text.statements().map(|statement| statement.kind).collect();
//! assert_eq!(kinds[1], Kind::Commit { chain: false });
//! ```

mod at_once;
mod calls;
mod chunk;
mod comments;
mod definitions;
mod fingerprint;
mod grammar;
mod head;
mod kind;
mod lexer;
mod marks;
mod memo;
mod name;
mod outline;
mod pieces;
mod reads;
mod redacted;
mod scan;
mod setting_name;
mod settings;
mod statements;
mod tags;
mod text;
mod trace_parent;
mod transactions;
mod unicode_names;
mod words;

pub use calls::{SetConfig, SetConfigs};
pub use comments::{CommentTag, WantedTag, WantedTags, comment_tags};
pub use fingerprint::{Fingerprint, Key};
pub use kind::{Assignment, Discarded, Isolation, Kind, Modes, Scope, Value, Which};
pub use lexer::{Lexer, Token, TokenKind, Unlexable};
pub use marks::Marks;
pub use memo::{Memo, Summary};
pub use name::Name;
pub use pieces::Pieces;
pub use redacted::{redacted, redacted_by_any_rules};
pub use setting_name::{is_dangerous, quoted_setting, setting_key};
pub use statements::{Statement, Statements};
pub use text::{Encoding, Rules, Text};
pub use trace_parent::{TraceParent, trace_state};
pub use transactions::{begins_transaction, may_begin_transaction};
pub use words::Word;
