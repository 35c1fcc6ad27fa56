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
<!-- Made from the table in crates/settings/src/table.rs: change it there and run `UPDATE=1 cargo test -p config`. -->
# Settings

pgweir reads PgBouncer's `pgbouncer.ini` as PgBouncer does:

* Lines are `[section]`, `name = value`, or `%include FILE`. A line that begins with `;` or `#` is a comment. The last assignment wins.
* Names with other characters than letters, digits, `_`, `.`, `-` and `*` go in double quotes.
* Times are in seconds; fractions are allowed, except where the column *value* says whole seconds. Switches are 0 or 1; yes, no, on, off, true and
  false are understood too. A number may be written in octal (`010`) or hexadecimal (`0x10`). An empty value means the default, except where the value is a
  text.
* A relative path is relative to the directory in which pgweir was started, which is `/` under systemd. So write absolute paths.
* If `[pgbouncer]` appears a second time, its settings start from the defaults again, as in PgBouncer, and pgweir warns. Settings that
  PgBouncer does not have keep their values.

`pgweir check FILE` says what a file means and what is wrong with it. [pgweir.ini](pgweir.ini) is a sample with every setting.

The column *reload* says whether a RELOAD changes the setting. The column *effect*:

| effect | |
|---|---|
| yes | as in PgBouncer, or as described |
| none needed | accepted; pgweir has nothing that it could change |
| partly | see the text. A value that would be unsafe to ignore is refused |
";

/// The manual page.
#[must_use]
pub fn settings_md() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n# [pgbouncer]\n");
    for &group in Group::ALL {
        let _ = write!(page, "\n## {}\n\n", group.title());
        page.push_str("| setting | | value | default | reload | effect |\n|---|---|---|---|---|---|\n");
        for setting in TABLE.iter().filter(|setting| setting.group == group) {
            row(&mut page, setting);
        }
    }
    let sections = [
        (
            "[databases]",
            "`name = parameter=value …`: the name that clients use, `*` for any other name. A value with blanks goes in single quotes; a quote in it is doubled. An empty value or -1 means not set.",
            databases::parameters(),
        ),
        (
            "[users]",
            "`name = parameter=value …`: other limits for a user. An entry here lets nobody in; auth_file does that.",
            users::parameters(),
        ),
        (
            "[peers]",
            "`peer_id = parameter=value …`: other processes of the pooler. Cancel requests for their clients are passed on to them. An entry with this process's own number is ignored.",
            users::PEER_PARAMETERS.to_vec(),
        ),
        (
            "[classes]",
            "`name = parameter=value …`: the share and the limits of a class of clients. `default` is the class of clients that are in no other class. There may be 32 classes, including it. class_file says which client is in which class; [the guide](guide/sizing-and-sharing.md) has examples. PgBouncer refuses a file with this section.",
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

Each line has one user: `\"user\" \"secret\"`. The secret is a password, or `md5` and 32 hexadecimal digits, or a verifier
`SCRAM-SHA-256$iterations:salt$stored:server` as PostgreSQL keeps it in `pg_authid`. A quote in a name or secret is doubled. A line that begins with
`;` is a comment. What follows the secret is ignored. If a line is broken, only the lines before it count, and pgweir warns.
";

const CLASS_FILE: &str = "
# The file named by class_file

Each line has one rule, with five fields and blanks between them: `database user application tag class`. The first rule whose first
four fields all match decides. A client that no rule matches is in `default`. [classes.conf](classes.conf) is a sample.

| field | compared with |
|---|---|
| database | the name that the client asks for |
| user | the user that logs in |
| application | the client's current `application_name` |
| tag | `key:value` in a comment at the beginning or the end of a transaction's first statement, as `/*action:export*/` or `/*action='export'*/` |
| class | names a class of `[classes]`, or `default` |

* A field may list several names with commas between them; one has to match.
* `all` matches anything. A `*` after a name matches what begins with the name. `\"\"` is the empty name, of a client without an
  application_name, for example.
* Names with blanks, commas, `#` or `*` in them, and names that would mean something else, go in double quotes (`\"all\"`, `\"puma 6\"*`);
  a quote in them is doubled. What follows a `#` is a comment. Case counts.

A file has at most 10,000 rules and 1,048,576 bytes. A file with a mistake is refused, and every mistake is reported with its line; on RELOAD
everything stays as it was. `pgweir check` also reports classes that no rule names, rules that never decide because an earlier one matches all
their clients, and rules for databases or users that no client can have.
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
    let _ = writeln!(page, "| `{name}` | {doc} | {value} | {default} | {reload} | {effect} |");
}

/// What a setting's value is, in a word or two.
#[must_use]
pub fn value(setting: &Setting) -> String {
    match setting.kind {
        Kind::Choice(_) => setting.kind.expected(),
        Kind::Count(_, _, "") => "number".to_owned(),
        Kind::Count(_, _, "seconds") => "whole seconds".to_owned(),
        Kind::Count(_, _, unit) => unit.to_owned(),
        Kind::Size => "number or auto".to_owned(),
        Kind::Seconds => "seconds".to_owned(),
        Kind::Text | Kind::Template => "text".to_owned(),
        Kind::HttpUrl => "URL".to_owned(),
        Kind::Share => "0 to 1".to_owned(),
        Kind::List | Kind::Networks | Kind::HttpHeaders | Kind::Statements => "list".to_owned(),
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
;; For migrations, in session mode, with a pool of their own:
;direct = host=10.0.0.1 dbname=app_production pool_mode=session pool_size=2
;; Two hosts in turn:
;replicas = host=10.0.0.3,10.0.0.4 dbname=app target_session_attrs=standby
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
# A sample for pgweir's class_file: which client is in which class of [classes]. The first rule that matches decides. A
# client that no rule matches is in default. docs/settings.md explains the fields; docs/guide/sizing-and-sharing.md has the pgweir.ini to it.
#
# Fields are separated by blanks; a comma makes a list, \"double quotes\" keep a blank, * stands for any text.

# database            user  application         tag                  class
gitlabhq_production   all   puma*               all                  web
gitlabhq_production   all   sidekiq*            all                  background
gitlabhq_production   all   rake*,migrations    all                  migrations
# For clients that set no application_name but have comments: /*application:sidekiq,correlation_id:…*/
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
