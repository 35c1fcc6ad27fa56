//! docs/settings.md, docs/pgweir.ini and docs/classes.conf, made from the tables that the parser reads.
//!
//! Promises that the first two name every setting and parameter; a test holds the files in the tree against them.

use std::fmt::Write as _;

use crate::entry::Parameter;
use crate::{classes, databases, users};
use ::settings::value::Kind;
use ::settings::{Effect, Group, Setting, TABLE};

/// Longest line of the sample file.
const LINE_CHARS_MAX: usize = 100;

const INTRODUCTION: &str = "\
# Settings

Made from the table in `crates/settings/src/table.rs`; change it there and run `UPDATE=1 cargo test -p config`.

pgweir reads PgBouncer's `pgbouncer.ini` as PgBouncer does: `[section]`, `name = value`, `;` and `#` for comment lines,
`%include FILE`, the last assignment wins. Names that hold other characters than letters, digits, `_`, `.`, `-` and `*` go in
double quotes. `pgweir check FILE` says what a file means and what is wrong with it. A sample with every setting:
[pgweir.ini](pgweir.ini).

Times are in seconds, fractions allowed. A number may be written in octal (`010`) or hexadecimal (`0x10`), and an empty value
stands for the default where text is not wanted. Switches are 0 or 1; yes, no, on, off, true and false are understood
too. When `[pgbouncer]` appears a second time it starts from the defaults again, as in PgBouncer, but for settings that PgBouncer
does not have; pgweir warns.

In the column *effect*: **yes** as in PgBouncer; **none needed** accepted, there is nothing here for it to change; **not yet**
accepted with a warning, no effect so far; **partly** see the text, and what would be unsafe to pass over is refused.
";

/// The manual page.
#[must_use]
pub fn settings_md() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n# [pgbouncer]\n");
    for &group in Group::ALL {
        let _ = write!(page, "\n## {}\n\n", group.title());
        page.push_str("| setting | value | default | reload | effect | |\n|---|---|---|---|---|---|\n");
        for setting in TABLE.iter().filter(|setting| setting.group == group) {
            row(&mut page, setting);
        }
    }
    let sections = [
        (
            "[databases]",
            "`name = parameter=value …`: the name that clients use, `*` for any other name. Blanks in a value go in single quotes, a quote is doubled. An empty value or -1 means not set.",
            databases::parameters(),
        ),
        (
            "[users]",
            "`name = parameter=value …`: other limits for a user. An entry lets nobody in; auth_file does.",
            users::parameters(),
        ),
        (
            "[peers]",
            "`peer_id = parameter=value …`: other processes of the pooler, to which cancel requests are passed on that are for their clients. An entry with this process's own number is ignored.",
            users::PEER_PARAMETERS.to_vec(),
        ),
        (
            "[classes]",
            "`name = parameter=value …`: what a class of clients may claim beside the others; `default` is the class of whoever is in no other. At most 32 with it. Who is in which class is said in class_file; examples are in [the guide](guide/sizing-and-sharing.md). PgBouncer refuses a file with this section.",
            classes::PARAMETERS.to_vec(),
        ),
    ];
    for (title, words, parameters) in sections {
        let _ = write!(page, "\n# {title}\n\n{words}\n\n");
        table(&mut page, &parameters);
    }
    page.push_str(AUTH_FILE);
    page.push_str(CLASS_FILE);
    page
}

const AUTH_FILE: &str = "
# The file named by auth_file

One user a line: `\"user\" \"secret\"`. The secret is a password, `md5` and 32 hexadecimal digits, or a verifier
`SCRAM-SHA-256$iterations:salt$stored:server` as PostgreSQL keeps it in `pg_authid`. A quote is doubled, a line that begins with
`;` is a comment, and what follows the secret is ignored. A file that is broken somewhere counts up to there, with a warning.
";

const CLASS_FILE: &str = "
# The file named by class_file

One rule a line, five fields with blanks between them: `database user application tag class`. The first rule whose first
four fields all fit decides; whom none fits is in `default`. A sample: [classes.conf](classes.conf).

| field | compared with |
|---|---|
| database | the name that the client asks for |
| user | who logs in |
| application | the client's current `application_name` |
| tag | `key:value` in a comment at the beginning or the end of a transaction's first statement, as `/*action:export*/` or `/*action='export'*/` |
| class | names a class of `[classes]`, or `default` |

A field may list several names with commas between them; one has to fit. `all` fits anything, a `*` behind a name fits what
begins with it, and `\"\"` is the empty name: of a client without an application_name, say. Names with blanks, commas, `#` or `*` in
them, and names that mean something else, go in double quotes (`\"all\"`, `\"puma 6\"*`); a quote is doubled. What follows a `#` is a
comment. Capital letters matter.

At most 10,000 rules and 1,048,576 bytes. A file with a mistake is refused, with every mistake and its line; on RELOAD all stays
as it was. `pgweir check` also names classes that no rule names, rules that never decide because an earlier one takes all that
they could, and rules for databases or users that nobody can come with.
";

fn row(page: &mut String, setting: &Setting) {
    let default = match setting.default {
        None | Some("") => String::new(),
        Some(text) => format!("`{text}`"),
    };
    let effect = match setting.effect {
        Effect::Works => "yes",
        Effect::Unneeded => "none needed",
        Effect::Partly => "partly",
    };
    let reload = if setting.reloadable { "yes" } else { "no" };
    let value = value(setting);
    let name = setting.name;
    let doc = setting.doc.replace('*', "\\*");
    let _ = writeln!(page, "| `{name}` | {value} | {default} | {reload} | {effect} | {doc} |");
}

/// What a setting's value is, in a word or two.
#[must_use]
pub fn value(setting: &Setting) -> String {
    match setting.kind {
        Kind::Choice(_) => setting.kind.expected(),
        Kind::Count(_, _, "") => "number".to_owned(),
        Kind::Count(_, _, unit) => unit.to_owned(),
        Kind::Size => "number or auto".to_owned(),
        Kind::Seconds => "seconds".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::List | Kind::Networks | Kind::Statements => "list".to_owned(),
        Kind::Path => "path".to_owned(),
        Kind::Mode => "file mode".to_owned(),
        Kind::Flag => "0 or 1".to_owned(),
    }
}

fn table(page: &mut String, parameters: &[Parameter]) {
    page.push_str("| parameter | |\n|---|---|\n");
    for parameter in parameters {
        let _ = writeln!(page, "| `{}` | {} |", parameter.name, parameter.doc);
    }
}

const SAMPLE_HEAD: &str = "\
;; A sample for pgweir: every setting with its default. Lines that begin with ; or # are comments.
;; Made from the same table as docs/settings.md, which explains more.

[databases]

;; name = where it leads. A Unix socket in unix_socket_dir, and the same name at the server:
;app =
;; Another host and name:
;app = host=10.0.0.1 port=5432 dbname=app_production
;; Everybody's connections as one user, in a pool of their own size:
;reports = host=10.0.0.2 user=report password='it''s a secret' pool_size=5 pool_mode=session
;; Past the line, with a session of their own, for migrations:
;direct = host=10.0.0.1 dbname=app_production pool_mode=session pool_size=2
;; Two hosts in turn:
;replicas = host=10.0.0.3,10.0.0.4 dbname=app
;; Any other name:
;* = host=10.0.0.1

[users]

;; Other limits for single users. This lets nobody in: auth_file does.
;batch = pool_mode=session pool_size=2 query_timeout=0

[classes]

;; What classes of clients may claim of each pool's servers; class_file says who is in which, see
;; classes.conf. Without it everybody is in default.
;web = weight=4 min=2
;background = weight=1 max=12 max_waiting=500 overflow=reject-newest
;migrations = database=direct
;default = weight=2

[pgbouncer]
";

/// The sample file.
#[must_use]
pub fn sample_ini() -> String {
    let mut sample = SAMPLE_HEAD.to_owned();
    for &group in Group::ALL {
        let _ = write!(sample, "\n;;; {}\n", group.title());
        for setting in TABLE.iter().filter(|setting| setting.group == group) {
            sample.push('\n');
            comment(&mut sample, setting);
            let line = format!(";{} = {}", setting.name, setting.default.unwrap_or(""));
            let _ = writeln!(sample, "{}", line.trim_end());
        }
    }
    sample
}

/// The sample of a class_file, for the classes of the sample file.
#[must_use]
pub fn sample_classes() -> &'static str {
    SAMPLE_CLASSES
}

const SAMPLE_CLASSES: &str = "\
# A sample for pgweir's class_file: who is in which class of [classes]. The first rule that fits decides, and whom none
# fits is in default. docs/settings.md explains the fields; docs/guide/sizing-and-sharing.md has the pgweir.ini to it.
#
# Fields are separated by blanks; a comma makes a list, \"double quotes\" keep a blank, * stands for any text.

# database            user  application         tag                  class
gitlabhq_production   all   puma*               all                  web
gitlabhq_production   all   sidekiq*            all                  background
gitlabhq_production   all   rake*,migrations    all                  migrations
# Whoever does not name itself says so in its comments: /*application:sidekiq,correlation_id:…*/
gitlabhq_production   all   all                 application:web      web
gitlabhq_production   all   all                 application:sidekiq  background
";

/// The words on a setting, in lines that fit.
fn comment(sample: &mut String, setting: &Setting) {
    let mut words = match setting.kind {
        Kind::Choice(_) => format!("{}. ", setting.kind.expected()),
        Kind::Count(_, _, unit) if !unit.is_empty() => format!("In {unit}. "),
        Kind::Seconds => "In seconds. ".to_owned(),
        _ => String::new(),
    };
    words.push_str(setting.doc);
    let mut line = ";;".to_owned();
    for word in words.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > LINE_CHARS_MAX {
            let _ = writeln!(sample, "{line}");
            line = ";;".to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(sample, "{line}");
}
