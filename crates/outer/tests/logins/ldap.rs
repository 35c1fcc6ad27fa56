//! A directory server decides about logins: the pooler's verdict on each is PostgreSQL's own, in its words, by the same lines of
//! pg_hba.conf and the same server, OpenLDAP's. Where this PostgreSQL is built without LDAP, the table alone says what is right.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use outer::{Pooler, Stage, Wishes, eventually};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// The entries. `dave` is no role of PostgreSQL's; two entries have the mail `both`.
const ENTRIES: &str = "
dn: dc=example
objectClass: domain
dc: example

dn: ou=people,dc=example
objectClass: organizationalUnit
ou: people

dn: uid=ann,ou=people,dc=example
objectClass: inetOrgPerson
uid: ann
cn: ann
sn: ann
mail: ann@example
userPassword: right

dn: uid=Jürgen Groß,ou=people,dc=example
objectClass: inetOrgPerson
uid: Jürgen Groß
cn: Jürgen
sn: Groß
userPassword: right

dn: uid=dave,ou=people,dc=example
objectClass: inetOrgPerson
uid: dave
cn: dave
sn: dave
mail: both@example
userPassword: right

dn: uid=eve,ou=people,dc=example
objectClass: inetOrgPerson
uid: eve
cn: eve
sn: eve
mail: both@example
userPassword: right
";

/// A running slapd with these entries; dropping it ends it.
struct Directory {
    folder: PathBuf,
    plain: u16,
    tls: u16,
    process: Child,
}

impl Directory {
    /// Starts one. Its certificate is for 127.0.0.1, and signed by the CA in `ca.pem`; nobody is signed by that in `other.pem`.
    fn start() -> Directory {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let unpacked = std::env::var_os("PGWEIR_SLAPD").map_or_else(|| root.join(".cache/slapd"), PathBuf::from);
        assert!(unpacked.join("usr/sbin/slapd").exists(), "no slapd in {}: run tools/slapd", unpacked.display());
        let (plain, tls) = (demo::free_port(), demo::free_port());
        let folder = std::env::temp_dir().join(format!("slapd-{}-{plain}", std::process::id()));
        fs::create_dir_all(folder.join("db")).expect("the port makes the name fresh");
        certificates(&folder);
        let (at, from) = (folder.display(), unpacked.display());
        let mut configuration = String::new();
        for schema in ["core", "cosine", "inetorgperson"] {
            writeln!(configuration, "include {from}/etc/ldap/schema/{schema}.schema").expect("it is a String");
        }
        write!(
            configuration,
            "modulepath {from}/usr/lib/ldap\nmoduleload back_mdb\npidfile {at}/pid\nTLSCertificateFile {at}/server.pem\n\
             TLSCertificateKeyFile {at}/server.key\ndatabase mdb\nsuffix dc=example\ndirectory {at}/db\n\
             rootdn cn=admin,dc=example\nrootpw searches\n"
        )
        .expect("it is a String");
        fs::write(folder.join("slapd.conf"), configuration).expect("a fresh folder is writable");
        fs::write(folder.join("entries.ldif"), ENTRIES.trim_start()).expect("a fresh folder is writable");
        let command = || {
            let mut command = Command::new(unpacked.join("usr/sbin/slapd"));
            let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
            command.env("LD_LIBRARY_PATH", format!("{from}/usr/lib:{from}/usr/lib/{machine}"));
            command.stdin(Stdio::null());
            command
        };
        let conf = folder.join("slapd.conf");
        let added = command().args(["-Tadd", "-f"]).arg(&conf).arg("-l").arg(folder.join("entries.ldif")).output();
        let added = added.expect("slapd is there");
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        let urls = format!("ldap://127.0.0.1:{plain}/ ldaps://127.0.0.1:{tls}/");
        let log = fs::File::create(folder.join("log")).expect("a fresh folder is writable");
        let process = command().args(["-d0", "-h", &urls, "-f"]).arg(&conf).stdout(Stdio::null()).stderr(log).spawn();
        let directory = Directory { folder, plain, tls, process: process.expect("slapd is there") };
        eventually("slapd listens", || {
            [plain, tls].iter().all(|port| TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_ok())
        });
        directory
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("slapd's log: {}", fs::read_to_string(self.folder.join("log")).unwrap_or_default());
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn certificates(folder: &Path) {
    let authority = |name: &str| {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a CA")
    };
    let (ours, other) = (authority("ours"), authority("other"));
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("an address");
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &ours).expect("a certificate");
    let files = [
        ("ca.pem", ours.pem()),
        ("other.pem", other.pem()),
        ("server.pem", certificate.pem()),
        ("server.key", key.serialize_pem()),
    ];
    for (name, text) in files {
        fs::write(folder.join(name), text).expect("a fresh folder is writable");
    }
}

/// Both read these lines; each database has a line of its own.
fn rules(directory: &Directory, closed: u16) -> String {
    let (plain, tls) = (directory.plain, directory.tls);
    let simple = "ldapprefix=\"uid=\" ldapsuffix=\",ou=people,dc=example\"";
    let account = "ldapbinddn=\"cn=admin,dc=example\" ldapbindpasswd=searches";
    let lines = [
        ("simple", format!("ldapserver=127.0.0.1 ldapport={plain} {simple}")),
        ("search", format!("ldapserver=127.0.0.1 ldapport={plain} ldapbasedn=\"dc=example\" {account}")),
        ("anonymous", format!("ldapserver=127.0.0.1 ldapport={plain} ldapbasedn=\"ou=people,dc=example\"")),
        (
            "filter",
            format!(
                "ldapserver=127.0.0.1 ldapport={plain} ldapbasedn=\"dc=example\" \
                 ldapsearchfilter=\"(|(uid=$username)(mail=$username@example))\""
            ),
        ),
        (
            "attribute",
            format!("ldapserver=127.0.0.1 ldapport={plain} ldapbasedn=\"dc=example\" ldapsearchattribute=sn"),
        ),
        ("url", format!("\"ldapurl=ldap://127.0.0.1:{plain}/ou=people,dc=example?uid?sub\"")),
        ("narrow", format!("\"ldapurl=ldap://127.0.0.1:{plain}/dc=example?uid?one\"")),
        (
            "stranger",
            format!(
                "ldapserver=127.0.0.1 ldapport={plain} ldapbasedn=\"dc=example\" ldapbinddn=\"cn=admin,dc=example\" ldapbindpasswd=wrong"
            ),
        ),
        ("down", format!("ldapserver=127.0.0.1 ldapport={closed} {simple}")),
        ("second", format!("ldapserver=\"127.0.0.2 127.0.0.1\" ldapport={plain} {simple}")),
        ("starttls", format!("ldapserver=127.0.0.1 ldapport={plain} ldaptls=1 {simple}")),
        ("ldaps", format!("ldapserver=127.0.0.1 ldapport={tls} ldapscheme=ldaps {simple}")),
    ];
    let mut text = "local all all trust\n".to_owned();
    for (database, options) in lines {
        writeln!(text, "host {database} all 127.0.0.1/32 ldap {options}").expect("it is a String");
    }
    text
}

const DATABASES: [&str; 12] = [
    "simple",
    "search",
    "anonymous",
    "filter",
    "attribute",
    "url",
    "narrow",
    "stranger",
    "down",
    "second",
    "starttls",
    "ldaps",
];
/// The last two are what an injection would look like.
const USERS: [&str; 7] = ["ann", "Jürgen Groß", "dave", "both", "nobody", "*", "ann)(uid=ann"];

/// Whether the directory lets this user in with the right password.
fn is_known(database: &str, user: &str, trusts: bool) -> bool {
    let by_name = ["ann", "Jürgen Groß", "dave"].contains(&user);
    match database {
        "narrow" | "stranger" | "down" => false,
        "attribute" => ["ann", "dave"].contains(&user),
        "starttls" | "ldaps" => by_name && trusts,
        _ => by_name,
    }
}

struct Setting {
    pooler: Pooler,
    stage: Stage,
    directory: Directory,
    compares: bool,
}

impl Setting {
    /// `ca`: the file with those who may vouch for the directory.
    fn new(ca: &str) -> Setting {
        let (stage, directory) = (Stage::set(&Wishes::default()), Directory::start());
        let _ = stage.direct("create role ann login; create role \"Jürgen Groß\" login; create role \"both\" login; create role \"*\" login");
        for database in DATABASES {
            let _ = stage.direct(&format!("create database {database}"));
        }
        let data = stage.cluster.data();
        let ca = directory.file(ca);
        fs::write(data.join("pg_hba.conf"), rules(&directory, demo::free_port())).expect("we are root or its owner");
        // Where the library of LDAP looks first, from PostgreSQL's folder.
        fs::write(data.join("ldaprc"), format!("TLS_CACERT {ca}\n")).expect("we are root or its owner");
        let wrong = stage.direct("select coalesce(string_agg(error, '; '), '') from pg_hba_file_rules");
        let compares = wrong.is_empty();
        assert!(compares || wrong.contains("not supported by this build"), "{wrong}");
        if compares {
            assert_eq!(stage.direct("select pg_reload_conf()"), "t");
        } else {
            fs::copy(data.join("pg_hba.conf"), data.join("pooler_hba.conf")).expect("we are root or its owner");
        }
        let ini = format!(
            "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir =\n\
             auth_type = hba\nauth_hba_file = {{dir}}/hba.conf\nauth_tls_ca_file = {{dir}}/ca.pem\npool_mode = transaction\n\
             server_login_retry = 0\n",
            stage.cluster.socket_dir().display(),
            stage.cluster.port()
        );
        // Files that its account can read.
        let readable = |name: &str| fs::read_to_string(name).expect("it was written above");
        let pooler = Pooler::start_with(
            &ini,
            &[("hba.conf", readable(&data.join("pg_hba.conf").display().to_string())), ("ca.pem", readable(&ca))],
        );
        Setting { pooler, stage, directory, compares }
    }

    /// The current user, or what follows `FATAL:` in psql's words.
    fn verdict(&self, port: u16, database: &str, user: &str, password: &str) -> Result<String, String> {
        let target =
            format!("host=127.0.0.1 port={port} user='{user}' dbname={database} password='{password}' sslmode=disable");
        let printed = outer::psql(&self.stage, &["-d", &target, "-Atc", "select current_user"]);
        let fatal =
            |words: String| words.split_once("FATAL:").map_or(words.clone(), |(_, fatal)| fatal.trim().to_owned());
        printed.map(|(out, _)| out.trim().to_owned()).map_err(fatal)
    }

    /// Every login of the table, at the pooler and at PostgreSQL. Returns how many were let in.
    fn judge(&self, databases: &[&str], trusts: bool) -> usize {
        let mut allowed = 0;
        for (database, user) in databases.iter().flat_map(|database| USERS.map(|user| (*database, user))) {
            for password in ["right", "wrong"] {
                let through = self.verdict(self.pooler.port, database, user, password);
                if self.compares {
                    let direct = self.verdict(self.stage.cluster.port(), database, user, password);
                    assert_eq!(through, direct, "{user} with password {password} in {database}");
                }
                let expected = match is_known(database, user, trusts) && password == "right" {
                    // The directory knows it, and PostgreSQL does not.
                    true if user == "dave" => Err("role \"dave\" does not exist".to_owned()),
                    true => Ok(user.to_owned()),
                    false => Err(format!("LDAP authentication failed for user \"{user}\"")),
                };
                assert_eq!(through, expected, "{user} with password {password} in {database}");
                allowed += usize::from(through.is_ok());
            }
        }
        allowed
    }

    /// How often its log says this.
    fn logged(&self, words: &str) -> usize {
        self.pooler.log().matches(words).count()
    }
}

#[test]
fn every_login_gets_the_verdict_of_postgresql_in_its_words() {
    let setting = Setting::new("ca.pem");
    let allowed = setting.judge(&DATABASES, true);
    println!("{allowed} logins allowed, compared with PostgreSQL: {}", setting.compares);
    assert_eq!(allowed, 17);
    for words in [
        "the LDAP server does not take the password for \"uid=ann,ou=people,dc=example\"",
        "the LDAP server has no entry for this user",
        "the LDAP server has more than one entry for this user",
        "invalid character in user name for LDAP authentication",
        "no LDAP server can be asked: 127.0.0.1: connect to 127.0.0.1:",
        "LDAP login as \"cn=admin,dc=example\", to search, failed: rc=49",
    ] {
        eventually(words, || setting.logged(words) > 0);
    }
    // The log is in order: once the last login is in it, everything before is.
    assert!(setting.verdict(setting.pooler.port, "simple", "the last of all", "wrong").is_err());
    eventually("the last one is in the log", || setting.logged("the last of all") > 0);
    assert!(setting.logged("right") == 0 && setting.logged("searches") == 0, "a password is in the log");
}

#[test]
fn a_server_that_nobody_vouches_for_lets_nobody_in() {
    let setting = Setting::new("other.pem");
    assert_eq!(setting.judge(&["simple", "starttls", "ldaps"], false), 2);
    eventually("the log says why", || setting.logged("UnknownIssuer") > 0);
}

/// What the server says to a password, which goes where psql would not send it: an empty one.
fn answer(port: u16, password: &[u8]) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    let body = [&196_608_u32.to_be_bytes()[..], b"user\0ann\0database\0simple\0\0"].concat();
    let message = [&password.to_owned()[..], b"\0"].concat();
    let length = |bytes: &[u8]| (bytes.len() as u32 + 4).to_be_bytes();
    stream.write_all(&[&length(&body)[..], &body].concat()).expect("it listens");
    let mut request = [0; 9];
    stream.read_exact(&mut request).expect("it asks for a password");
    assert_eq!(&request, b"R\0\0\0\x08\0\0\0\x03");
    stream.write_all(&[&b"p"[..], &length(&message), &message].concat()).expect("it reads");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("it closes");
    let field = |tag: u8| {
        rest.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(&[tag])).map(String::from_utf8_lossy)
    };
    format!("{} {}", field(b'C').unwrap_or_default(), field(b'M').unwrap_or_default())
}

/// A directory takes a bind with a name and no password for a bind as nobody, which is never wrong.
#[test]
fn an_empty_password_is_never_tried() {
    let setting = Setting::new("ca.pem");
    let through = answer(setting.pooler.port, b"");
    assert_eq!(through, "28P01 empty password returned by client");
    if setting.compares {
        assert_eq!(answer(setting.stage.cluster.port(), b""), through);
    }
    assert_eq!(answer(setting.pooler.port, b"wrong"), "28000 LDAP authentication failed for user \"ann\"");
    assert!(setting.directory.plain > 0);
}

/// `auth_type = ldap`, and PostgreSQL asks for the same password: the pooler has no other.
#[test]
fn the_password_goes_on_to_postgresql() {
    let (stage, directory) = (Stage::set(&Wishes::default()), Directory::start());
    let _ = stage.direct("create role ann login password 'right'");
    let rules = "local all postgres trust\nlocal all all scram-sha-256\nhost all all all scram-sha-256\n";
    fs::write(stage.cluster.data().join("pg_hba.conf"), rules).expect("we are root or its owner");
    assert_eq!(stage.direct("select pg_reload_conf()"), "t");
    let ini = format!(
        "[databases]\npostgres = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir =\n\
         auth_type = ldap\nauth_ldap_options = ldapurl=\"ldap://127.0.0.1:{}/dc=example?uid?sub\"\npool_mode = transaction\n",
        stage.cluster.socket_dir().display(),
        stage.cluster.port(),
        directory.plain
    );
    let pooler = Pooler::start(&ini, "", None);
    let login = |password: &str| {
        let target = format!("host=127.0.0.1 port={} user=ann dbname=postgres password={password}", pooler.port);
        outer::psql(&stage, &["-d", &target, "-Atc", "select current_user"]).map(|(out, _)| out.trim().to_owned())
    };
    assert_eq!(login("right").as_deref(), Ok("ann"));
    assert!(login("wrong").is_err_and(|why| why.contains("LDAP authentication failed for user \"ann\"")));
}
