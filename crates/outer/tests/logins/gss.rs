//! Tickets of Kerberos decide about logins: the pooler's verdict on each is PostgreSQL's own, in its words, by the same lines of
//! pg_hba.conf and the same keys. Where this PostgreSQL is built without GSSAPI, psql cannot show a ticket, and nothing is tested.
//!
//! The key distribution centre is MIT's, with a realm, a port and files of its own.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use outer::{Pooler, Stage, Wishes, eventually};

/// The host's name in the service's principal; its address is given beside it.
const HOST: &str = "db.example";

/// A realm with principals; dropping it ends its centre.
struct Realm {
    folder: PathBuf,
    unpacked: PathBuf,
    process: Child,
}

impl Realm {
    /// `None`, and a line that begins with `SKIPPED`: there is no Kerberos here.
    fn start() -> Option<Realm> {
        let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/libraries");
        let Ok(unpacked) = unpacked.canonicalize() else {
            println!("SKIPPED gss: no Kerberos; tools/libraries unpacks one");
            return None;
        };
        let port = demo::free_port();
        let folder = std::env::temp_dir().join(format!("kdc-{}-{port}", std::process::id()));
        fs::create_dir(&folder).expect("the port makes the name fresh");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let (dir, modules) = (folder.display(), unpacked.join("prefix/lib/krb5/plugins/kdb"));
        let client = format!(
            "[libdefaults]\ndefault_realm = EXAMPLE.ORG\ndns_lookup_kdc = false\ndns_lookup_realm = false\n\
             dns_canonicalize_hostname = false\nrdns = false\n[realms]\nEXAMPLE.ORG = {{\nkdc = 127.0.0.1:{port}\n}}\n\
             [domain_realm]\n{HOST} = EXAMPLE.ORG\n"
        );
        let server = format!(
            "[realms]\nEXAMPLE.ORG = {{\nkdc_listen = 127.0.0.1:{port}\nkdc_tcp_listen = 127.0.0.1:{port}\n\
             database_name = {dir}/principal\nkey_stash_file = {dir}/stash\n}}\n[dbmodules]\ndb_module_dir = {}\n",
            modules.display()
        );
        fs::write(folder.join("krb5.conf"), client).expect("a fresh folder is writable");
        fs::write(folder.join("kdc.conf"), server).expect("a fresh folder is writable");
        let mut realm = Realm { folder, unpacked, process: Command::new("true").spawn().expect("it is there") };
        let _ = realm.process.wait();
        realm.run("sbin/kdb5_util", &["create", "-s", "-r", "EXAMPLE.ORG", "-P", "master"], "");
        let mut orders = String::new();
        for principal in ["ann", "bob", "dave", "ann/admin"] {
            writeln!(orders, "addprinc -pw secret {principal}").expect("it is a String");
        }
        for service in ["postgres", "other"] {
            writeln!(orders, "addprinc -randkey {service}/{HOST}").expect("it is a String");
            writeln!(orders, "ktadd -k {}/{service}.keytab {service}/{HOST}", realm.folder.display())
                .expect("it is a String");
        }
        realm.run("sbin/kadmin.local", &["-r", "EXAMPLE.ORG"], &orders);
        for service in ["postgres", "other"] {
            let keytab = realm.folder.join(format!("{service}.keytab"));
            // The servers' account is another.
            fs::set_permissions(&keytab, fs::Permissions::from_mode(0o644)).expect("it was just made");
        }
        let mut centre = realm.command("sbin/krb5kdc");
        let log = fs::File::create(realm.folder.join("log")).expect("a fresh folder is writable");
        centre.args(["-n", "-r", "EXAMPLE.ORG"]).stdout(Stdio::null()).stderr(log);
        realm.process = centre.spawn().expect("it is unpacked");
        eventually("the centre listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        for principal in ["ann", "bob", "dave", "ann/admin"] {
            realm.run("bin/kinit", &["-c", &realm.cache(principal), principal], "secret\n");
        }
        Some(realm)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.unpacked.join("usr").join(program));
        command.env("LD_LIBRARY_PATH", self.unpacked.join("prefix/lib"));
        command.env("KRB5_CONFIG", self.config()).env("KRB5_KDC_PROFILE", self.folder.join("kdc.conf"));
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, program: &str, arguments: &[&str], input: &str) {
        let mut command = self.command(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{program}: {error}"));
        child.stdin.take().expect("it is piped").write_all(input.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(output.status.success(), "{program}: {said:?}");
    }

    fn config(&self) -> PathBuf {
        self.folder.join("krb5.conf")
    }

    fn keytab(&self, service: &str) -> String {
        self.folder.join(format!("{service}.keytab")).display().to_string()
    }

    /// The file with a principal's tickets.
    fn cache(&self, principal: &str) -> String {
        format!("FILE:{}/cache-{}", self.folder.display(), principal.replace('/', "-"))
    }
}

impl Drop for Realm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the centre's log: {}", fs::read_to_string(self.folder.join("log")).unwrap_or_default());
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Each has a line of its own with these options.
const DATABASES: [(&str, &str); 7] = [
    ("whole", ""),
    ("short", "include_realm=0"),
    ("mapped", "map=krb"),
    ("shortmapped", "include_realm=0 map=names"),
    ("realm", "include_realm=0 krb_realm=EXAMPLE.ORG"),
    ("likerealm", "include_realm=0 krb_realm=example.org"),
    ("otherrealm", "include_realm=0 krb_realm=OTHER.ORG"),
];
const MAPS: &str = "krb /^(.*)/admin@EXAMPLE\\.ORG$ \\1\nkrb bob@EXAMPLE.ORG chief\nnames bob chief\n";
/// Dave is no role of PostgreSQL's.
const USERS: [&str; 5] = ["ann", "bob", "chief", "dave", "ann@EXAMPLE.ORG"];
const TICKETS: [&str; 4] = ["ann", "bob", "dave", "ann/admin"];

/// Whether this ticket lets this user in.
fn is_let_in(database: &str, user: &str, ticket: &str) -> bool {
    match database {
        "whole" => user == format!("{ticket}@EXAMPLE.ORG"),
        "short" | "realm" => user == ticket,
        "mapped" => [("ann", "ann/admin"), ("chief", "bob")].contains(&(user, ticket)),
        "shortmapped" => (user, ticket) == ("chief", "bob"),
        _ => false,
    }
}

struct Setting {
    pooler: Pooler,
    stage: Stage,
    realm: Realm,
}

/// How psql asks.
#[derive(Clone, Copy)]
struct Login<'a> {
    database: &'a str,
    user: &'a str,
    /// Whose ticket there is; `none`: nobody's.
    ticket: &'a str,
    service: &'a str,
    /// Whether it tries to encrypt by GSSAPI first.
    encmode: &'a str,
}

impl Setting {
    /// `keytab`: of which service, or a file's name. `None`, and a line that begins with `SKIPPED`: it cannot be made here.
    fn new(keytab: &str) -> Option<Setting> {
        let binary = outer::full_binary("gss")?;
        let realm = Realm::start()?;
        let stage = Stage::set(&Wishes::default());
        for role in USERS.iter().filter(|user| **user != "dave") {
            let _ = stage.direct(&format!("create role \"{role}\" login"));
        }
        let mut rules = String::new();
        for (database, options) in DATABASES {
            let _ = stage.direct(&format!("create database {database}"));
            writeln!(rules, "host {database} all all gss {options}").expect("it is a String");
        }
        let data = stage.cluster.data();
        fs::write(data.join("pg_hba.conf"), format!("local all all trust\n{rules}")).expect("we are root or its owner");
        fs::write(data.join("pg_ident.conf"), MAPS).expect("we are root or its owner");
        let wrong = stage.direct("select coalesce(string_agg(error, '; '), '') from pg_hba_file_rules");
        if wrong.contains("not supported by this build") {
            println!("SKIPPED gss: this PostgreSQL and its psql are built without GSSAPI");
            return None;
        }
        assert_eq!(wrong, "");
        let keytab = if keytab.starts_with('/') { keytab.to_owned() } else { realm.keytab(keytab) };
        let _ = stage.direct(&format!("alter system set krb_server_keyfile = '{keytab}'"));
        assert_eq!(stage.direct("select pg_reload_conf()"), "t");
        eventually("PostgreSQL has read it", || stage.direct("show krb_server_keyfile") == keytab);
        for (name, text) in [("hba.conf", &*rules), ("ident.conf", MAPS)] {
            fs::write(realm.folder.join(name), text).expect("a fresh folder is writable");
        }
        let dir = realm.folder.display();
        let ini = format!(
            "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir =\n\
             auth_type = hba\nauth_hba_file = {dir}/hba.conf\nauth_ident_file = {dir}/ident.conf\nauth_gss_keytab = {keytab}\n\
             pool_mode = transaction\nserver_login_retry = 0\n",
            stage.cluster.socket_dir().display(),
            stage.cluster.port(),
        );
        let config = realm.config().display().to_string();
        let libraries = realm.unpacked.join("prefix/lib").display().to_string();
        let environment = [("KRB5_CONFIG", &*config), ("LD_LIBRARY_PATH", &*libraries)];
        let pooler = Pooler::start_program(&binary, &ini, "", None, &environment);
        Some(Setting { pooler, stage, realm })
    }

    /// The current user, or what follows `FATAL:` in psql's words, or else all of them.
    fn verdict(&self, port: u16, login: Login<'_>) -> Result<String, String> {
        let Login { database, user, ticket, service, encmode } = login;
        let program = self.stage.binaries.program("psql").expect("it is beside PostgreSQL");
        let target = format!(
            "host={HOST} hostaddr=127.0.0.1 port={port} user='{user}' dbname={database} krbsrvname={service} \
             gssencmode={encmode} sslmode=disable"
        );
        let mut command = Command::new(program);
        command.args(["-X", "-d", &target, "-Atc", "select current_user"]).stdin(Stdio::null()).env("LC_ALL", "C");
        command.env("KRB5_CONFIG", self.realm.config()).env("KRB5CCNAME", self.realm.cache(ticket));
        let output = command.output().expect("it is there");
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if output.status.success() {
            return Ok(out.trim().to_owned());
        }
        let fatal = err.rsplit_once("FATAL:").or_else(|| err.split_once("failed: ")).map(|(_, why)| why.trim());
        Err(fatal.unwrap_or(&err).to_owned())
    }

    fn through(&self, login: Login<'_>) -> Result<String, String> {
        self.verdict(self.pooler.port, login)
    }

    fn direct(&self, login: Login<'_>) -> Result<String, String> {
        self.verdict(self.stage.cluster.port(), login)
    }
}

const ANN: Login<'_> = Login { database: "short", user: "ann", ticket: "ann", service: "postgres", encmode: "disable" };

#[test]
fn every_login_gets_the_verdict_of_postgresql_in_its_words() {
    let Some(setting) = Setting::new("postgres") else { return };
    let mut allowed = 0;
    for (database, _) in DATABASES {
        for (user, ticket) in USERS.iter().flat_map(|user| TICKETS.map(|ticket| (*user, ticket))) {
            let login = Login { database, user, ticket, ..ANN };
            let through = setting.through(login);
            assert_eq!(through, setting.direct(login), "{user} with the ticket of {ticket} in {database}");
            let expected = match is_let_in(database, user, ticket) {
                // Kerberos knows it, and PostgreSQL does not.
                true if user == "dave" => Err("role \"dave\" does not exist".to_owned()),
                true => Ok(user.to_owned()),
                false => Err(format!("GSSAPI authentication failed for user \"{user}\"")),
            };
            assert_eq!(through, expected, "{user} with the ticket of {ticket} in {database}");
            allowed += usize::from(through.is_ok());
        }
    }
    println!("{allowed} logins allowed, all as PostgreSQL does");
    assert_eq!(allowed, 8);
    for words in
        ["the ticket is \"bob@EXAMPLE.ORG\"'s", "the ticket's realm \"EXAMPLE.ORG\" is not krb_realm, \"OTHER.ORG\""]
    {
        eventually(words, || setting.pooler.log().contains(words));
    }
    // libpq asks for encryption first, and goes on without it.
    let prefers = Login { encmode: "prefer", ..ANN };
    assert_eq!(setting.through(prefers).as_deref(), Ok("ann"));
    // Without a ticket it has nothing to say, to neither of the two.
    let without = Login { ticket: "none", ..ANN };
    let why = setting.through(without).expect_err("there is no ticket");
    assert!(why.contains("GSSAPI continuation error"), "{why}");
    assert_eq!(setting.direct(without), Err(why));
}

#[test]
fn a_ticket_for_another_service_lets_nobody_in() {
    let Some(setting) = Setting::new("postgres") else { return };
    let other = Login { service: "other", ..ANN };
    let through = setting.through(other);
    // PostgreSQL sends the message in which GSSAPI refuses, so that libpq gives up before it hears PostgreSQL's own words.
    let direct = setting.direct(other).expect_err("the key is another service's");
    assert!(direct.contains("The ticket isn't for us"), "{direct}");
    assert_eq!(through, Err("GSSAPI authentication failed for user \"ann\"".to_owned()));
    let words = "accepting GSS security context failed: ";
    eventually(words, || setting.pooler.log().contains(words));
    assert_eq!(setting.through(ANN).as_deref(), Ok("ann"));
}

#[test]
fn without_keys_nobody_comes_in() {
    let Some(setting) = Setting::new("/nonexistent/keytab") else { return };
    let through = setting.through(ANN);
    assert_eq!(through, setting.direct(ANN));
    assert_eq!(through, Err("GSSAPI authentication failed for user \"ann\"".to_owned()));
    let words = "accepting GSS security context failed: No credentials were supplied";
    eventually(words, || setting.pooler.log().contains(words));
}

/// A message of the protocol: its tag, and its body.
fn message(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 5];
    stream.read_exact(&mut head).expect("it answers");
    let length = u32::from_be_bytes(head[1..].try_into().expect("four bytes"));
    let mut body = vec![0; length as usize - 4];
    stream.read_exact(&mut body).expect("it answers in full");
    (head[0], body)
}

/// A client that has been asked for its first message of GSSAPI's.
fn asked(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    let body = [&196_608_u32.to_be_bytes()[..], b"user\0ann\0database\0short\0\0"].concat();
    stream.write_all(&[&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()).expect("it listens");
    assert_eq!(message(&mut stream), (b'R', vec![0, 0, 0, 7]));
    stream
}

fn say(stream: &mut TcpStream, token: &[u8]) {
    let length = (token.len() as u32 + 4).to_be_bytes();
    stream.write_all(&[&b"p"[..], &length, token].concat()).expect("it reads");
}

/// SPNEGO's first message, which proposes Kerberos and shows no ticket: the server has to ask for one.
const PROPOSAL: [u8; 29] = [
    0x60, 0x1b, 0x06, 0x06, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x02, 0xa0, 0x11, 0x30, 0x0f, 0xa0, 0x0d, 0x30, 0x0b, 0x06,
    0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02,
];

/// Exchanges of several messages, at both: they go on, and end in the same words.
#[test]
fn an_exchange_may_take_several_messages() {
    let Some(setting) = Setting::new("postgres") else { return };
    let refusals = [setting.pooler.port, setting.stage.cluster.port()].map(|port| {
        let mut stream = asked(port);
        say(&mut stream, &PROPOSAL);
        let (tag, body) = message(&mut stream);
        assert_eq!((tag, &body[..4]), (b'R', &[0, 0, 0, 8][..]));
        assert!(body.len() > 4);
        say(&mut stream, b"no such thing");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("it closes");
        let at = |needle: &[u8]| all.windows(needle.len()).any(|part| part == needle);
        (at(b"C28000\0"), at(b"MGSSAPI authentication failed for user \"ann\"\0"))
    });
    assert_eq!(refusals, [(true, true), (true, true)]);
    // Half-done ones, whose clients leave; everybody else comes in beside them.
    assert_eq!(setting.through(ANN).as_deref(), Ok("ann"));
    let before = setting.pooler.resident_kb().0;
    let open: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = asked(setting.pooler.port);
            say(&mut stream, &PROPOSAL);
            assert_eq!(message(&mut stream).0, b'R');
            stream
        })
        .collect();
    assert_eq!(setting.through(ANN).as_deref(), Ok("ann"));
    let with = setting.pooler.resident_kb().0;
    drop(open);
    assert_eq!(setting.through(ANN).as_deref(), Ok("ann"));
    println!("resident: {before} kB before, {with} kB with 200 half-done exchanges");
}

/// psycopg brings a libpq of its own, with a Kerberos of its own.
#[test]
fn psycopg_shows_its_ticket_too() {
    let Some(setting) = Setting::new("postgres") else { return };
    let port = setting.pooler.port;
    for (user, encmode, expected) in [
        ("ann", "disable", "ok"),
        ("ann", "prefer", "ok"),
        ("bob", "disable", "GSSAPI authentication failed for user \"bob\""),
    ] {
        let mut command = outer::Program::python("logins.py").command();
        command.env("PGHOSTADDR", "127.0.0.1").env("PGGSSENCMODE", encmode).env("KRB5_CONFIG", setting.realm.config());
        command.env("KRB5CCNAME", setting.realm.cache("ann")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it is there");
        let line = format!("{HOST}\t{port}\t{user}\tshort\t\tdisable\t\t\t\n");
        child.stdin.take().expect("it is piped").write_all(line.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.trim_end().ends_with(expected), "{user}, {encmode}: {said}");
    }
}
