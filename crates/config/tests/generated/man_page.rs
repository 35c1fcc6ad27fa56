//! The man page pgweir.ini(5) is in the tree as it would be made from the tables. `UPDATE=1` writes it.

use config::entry::Parameter;
use config::{classes, databases, manual, users};
use roff::{Inline, Roff, bold, italic, roman};
use settings::{Group, Setting, TABLE};

use crate::compare;

#[test]
fn the_man_page_is_up_to_date() {
    compare("deploy/man/pgweir.ini.5", &page().to_roff());
}

fn page() -> Roff {
    let mut page = Roff::new();
    // No date: the page changes when the table does.
    page.control("TH", ["PGWEIR.INI", "5", "", concat!("pgweir ", env!("CARGO_PKG_VERSION")), "File Formats"]);
    section(&mut page, "NAME");
    page.text([roman("pgweir.ini - configuration of pgweir, a connection pooler and queue for PostgreSQL")]);
    section(&mut page, "DESCRIPTION");
    paragraphs(&mut page, DESCRIPTION);
    section(&mut page, "THE SECTION [pgbouncer]");
    for &group in Group::ALL {
        page.control("SS", [group.title()]);
        TABLE.iter().filter(|setting| setting.group == group).for_each(|setting| described(&mut page, setting));
    }
    let entries: [(&str, &str, Vec<Parameter>); 4] = [
        ("THE SECTION [databases]", DATABASES, databases::parameters()),
        ("THE SECTION [users]", USERS, users::parameters()),
        ("THE SECTION [peers]", PEERS, users::PEER_PARAMETERS.to_vec()),
        ("THE SECTION [classes]", CLASSES, classes::PARAMETERS.to_vec()),
    ];
    for (title, words, parameters) in entries {
        section(&mut page, title);
        paragraphs(&mut page, words);
        for Parameter { name, doc } in &parameters {
            page.control("TP", []);
            page.text([bold(*name)]);
            page.text(inline(doc));
        }
    }
    section(&mut page, "FILES");
    paragraphs(&mut page, FILES);
    section(&mut page, "EXAMPLE");
    page.control("nf", []);
    page.text([roman(EXAMPLE)]);
    page.control("fi", []);
    section(&mut page, "SEE ALSO");
    page.text([bold("pgweir"), roman("(1)")]);
    page
}

const DESCRIPTION: &str = "\
pgweir reads PgBouncer's pgbouncer.ini as PgBouncer does: `[section]`, `name = value`, `;` and `#` at the beginning of a comment line, \
`%include FILE`. The last assignment of a name wins. Names that hold other characters than letters, digits, `_`, `.`, `-` and `*` go in \
double quotes. `pgweir check FILE` says what a file means and what is wrong with it.

Times are in seconds, and may have fractions. A number may be written in octal (`010`) or hexadecimal (`0x10`). Switches are 0 or 1; yes, no, on, \
off, true and false are understood too.

A setting is read again on RELOAD and SIGHUP unless its description says that it needs a restart.";

const DATABASES: &str = "\
`name = parameter=value ...`. The name is the one that clients use; `*` stands for any other name. A value with blanks goes in single quotes, and a \
quote in it is doubled. An empty value or -1 means: not set.";
const USERS: &str = "`name = parameter=value ...`: other limits for a user. An entry lets nobody in; auth_file does.";
const PEERS: &str = "\
`peer_id = parameter=value ...`: other processes of the pooler. Cancel requests that are for their clients are passed on to them. An entry with this \
process's own number is ignored.";
const CLASSES: &str = "\
`name = parameter=value ...`: what a class of clients may claim beside the others. `default` is the class of each client that is in no other. At most \
32 classes with it. The file named by class_file says which client is in which class. PgBouncer refuses a file with this section.";
const FILES: &str = "\
The file named by auth_file has one user a line: `\"user\" \"secret\"`. The secret is a password, `md5` and 32 hexadecimal digits, or a verifier \
`SCRAM-SHA-256$...` as PostgreSQL keeps it in pg_authid.

The file named by class_file has one rule a line, five fields with blanks between them: `database user application tag class`. The first rule whose first \
four fields all fit decides.";
const EXAMPLE: &str = "\
[databases]
shop = host=10.0.0.1 port=5432

[pgbouncer]
listen_addr = *
listen_port = 6432
auth_type = scram-sha-256
auth_file = /etc/pgweir/userlist.txt
pool_mode = transaction
default_pool_size = 20
";

fn section(page: &mut Roff, title: &str) {
    page.control("SH", [title]);
}

fn paragraphs(page: &mut Roff, words: &str) {
    for paragraph in words.split("\n\n") {
        page.control("PP", []);
        page.text(inline(paragraph));
    }
}

/// The name, what it takes, its default, and what it does.
fn described(page: &mut Roff, setting: &Setting) {
    page.control("TP", []);
    page.text([bold(setting.name), roman(" = "), italic(manual::value(setting))]);
    let mut words = inline(setting.doc);
    match setting.default {
        None | Some("") => {}
        Some(text) => words.extend([roman(" Default: "), bold(text), roman(".")]),
    }
    if !setting.reloadable {
        words.push(roman(" A change needs a restart."));
    }
    page.text(words);
}

/// What stands between backquotes is bold.
fn inline(text: &str) -> Vec<Inline> {
    let part = |(index, part): (usize, &str)| if index % 2 == 0 { roman(part) } else { bold(part) };
    text.split('`').enumerate().map(part).collect()
}
