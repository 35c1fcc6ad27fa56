//! How a row of the table becomes code: the `settings!` macro.
//!
//! A row is `name: type = kind, default, reload, effect, source, scopes, words;`. From it follow the field of its group,
//! the field's default, the row of [`TABLE`](crate::TABLE), and, where it has scopes, the fields of
//! [`DatabaseSettings`](crate::DatabaseSettings), [`UserSettings`](crate::UserSettings) and
//! [`Effective`](crate::Effective). What runs reads fields; only what reads or shows a user's words looks for names.

use std::fmt::Debug;

use crate::value::{FromValue, Value};

/// What comes of a setting here.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// As in PgBouncer.
    Works,
    /// Accepted, and nothing is missing: there is nothing here that it could change.
    Unneeded,
    /// Some values work, others would be unsafe to pass over and are refused: see `support` in `config`.
    Partly,
}

/// Whose setting it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    PgBouncer,
    Ours,
}

/// Whether RELOAD takes a setting up.
pub(crate) enum Reload {
    Yes,
    /// It needs a restart.
    No,
}

/// A row's value as its field has it.
pub(crate) fn typed<T: FromValue>(key: impl Debug, value: &Value) -> T {
    T::from_value(value).unwrap_or_else(|| unreachable!("{key:?} has a field of another kind than {value:?}"))
}

macro_rules! settings {
    ($($group:ident $member:ident: $struct:ident, $title:literal {$(
        $name:ident: $type:ty = $kind:expr, $default:expr, $reload:ident, $effect:ident, $origin:ident,
        $(databases and users: $both:ident,)? $(databases: $database:ident,)? $(users: $user:ident,)? $doc:literal;
    )*})*) => {
        /// A setting's name as a value, so that a misspelt one does not compile.
        #[allow(non_camel_case_types, reason = "written as in the file")]
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        pub enum Key { $($($name),*),* }

        /// Under which heading of the manual a setting stands.
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        pub enum Group { $($group),* }

        impl Group {
            pub const ALL: &[Group] = &[$(Group::$group),*];

            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Group::$group => $title),* }
            }
        }

        const COUNT: usize = [$($(stringify!($name)),*),*].len();

        /// In the order of the declaration; `Key as usize` is the index.
        pub static ROWS: [Setting; COUNT] = [$($(Setting {
            key: Key::$name,
            name: stringify!($name),
            kind: $kind,
            default: $default,
            reloadable: matches!(Reload::$reload, Reload::Yes),
            effect: Effect::$effect,
            origin: Origin::$origin,
            group: Group::$group,
            doc: $doc,
        }),*),*];

        /// In SHOW CONFIG's order.
        pub static TABLE: [&Setting; COUNT] = by_name(&ROWS);

        $(
            #[doc = concat!($title, ".")]
            #[derive(Clone, Debug, PartialEq)]
            pub struct $struct { $(#[doc = $doc] pub $name: $type),* }

            impl Default for $struct {
                fn default() -> $struct {
                    $struct { $($name: typed(Key::$name, &Key::$name.setting().default_value())),* }
                }
            }
        )*

        /// All settings of `[pgbouncer]`. `Default` is the table's.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Global { $(#[doc = concat!($title, ".")] pub $member: $struct),* }

        impl Global {
            /// `value` is of the kind of the key's row.
            pub fn set(&mut self, key: Key, value: &Value) {
                match key { $($(Key::$name => self.$member.$name = typed(key, value)),*),* }
            }
        }

        /// What an entry of `[databases]` says instead of the global settings.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct DatabaseSettings {$($($(pub $both: Option<$type>,)? $(pub $database: Option<$type>,)?)*)*}

        impl DatabaseSettings {
            /// Their names there, and the global settings that they replace.
            pub const NAMES: &[(&str, Key)] =
                &[$($($((stringify!($both), Key::$name),)? $((stringify!($database), Key::$name),)?)*)*];

            /// The global setting that a parameter of this name replaces.
            #[must_use]
            pub fn key(name: &str) -> Option<Key> {
                DatabaseSettings::NAMES.iter().find(|(known, _)| *known == name).map(|(_, key)| *key)
            }

            /// Whether this replaces the global setting.
            #[must_use]
            pub fn has(&self, key: Key) -> bool {
                match key {
                    $($($(Key::$name => self.$both.is_some(),)?
                    $(Key::$name => self.$database.is_some(),)?)*)*
                    _ => false,
                }
            }

            /// `None`: not set. What is no setting of a database changes nothing.
            pub fn set(&mut self, key: Key, value: Option<&Value>) {
                match key {
                    $($($(Key::$name => self.$both = value.map(|value| typed(key, value)),)?
                    $(Key::$name => self.$database = value.map(|value| typed(key, value)),)?)*)*
                    _ => {}
                }
            }
        }

        /// What an entry of `[users]` says instead of the global settings, and of the database's. It does not make the user
        /// able to log in.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct UserSettings {$($($(pub $both: Option<$type>,)? $(pub $user: Option<$type>,)?)*)*}

        impl UserSettings {
            /// Their names there, and the global settings that they replace.
            pub const NAMES: &[(&str, Key)] =
                &[$($($((stringify!($both), Key::$name),)? $((stringify!($user), Key::$name),)?)*)*];

            /// The global setting that a parameter of this name replaces.
            #[must_use]
            pub fn key(name: &str) -> Option<Key> {
                UserSettings::NAMES.iter().find(|(known, _)| *known == name).map(|(_, key)| *key)
            }

            /// Whether this replaces the global setting.
            #[must_use]
            pub fn has(&self, key: Key) -> bool {
                match key {
                    $($($(Key::$name => self.$both.is_some(),)?
                    $(Key::$name => self.$user.is_some(),)?)*)*
                    _ => false,
                }
            }

            /// `None`: not set. What is no setting of a user changes nothing.
            pub fn set(&mut self, key: Key, value: Option<&Value>) {
                match key {
                    $($($(Key::$name => self.$both = value.map(|value| typed(key, value)),)?
                    $(Key::$name => self.$user = value.map(|value| typed(key, value)),)?)*)*
                    _ => {}
                }
            }
        }

        /// What holds for one database and user, of all that may differ between them.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Effective {$($($(pub $both: $type,)? $(pub $database: $type,)? $(pub $user: $type,)?)*)*}

        impl Effective {
            /// The user's value before the database's before the global one.
            #[must_use]
            pub fn new(global: &Global, database: &DatabaseSettings, user: &UserSettings) -> Effective {
                Effective {$($(
                    $($both: user.$both.or(database.$both).unwrap_or(global.$member.$name),)?
                    $($database: database.$database.unwrap_or(global.$member.$name),)?
                    $($user: user.$user.unwrap_or(global.$member.$name),)?
                )*)*}
            }
        }
    };
}
pub(crate) use settings;
