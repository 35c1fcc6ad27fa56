//! Secrets stay inside: after logins by every method, right and wrong, at the highest level of the log, no password, hash, key or token
//! is in the log, in what SHOW prints, in an error, in what `pgweir check` says, nor in a core file.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::time::SystemTime;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64ct::{Base64, Base64UrlUnpadded, Encoding};
use outer::line::{Line, Manner, trusting};
use outer::{Authority, Pooler, Stage, eventually, frontend};
use rustix::process::Signal;

const ISSUER: &str = "https://id.example";

/// What must not be seen, by what it is.
struct Secrets(Vec<(String, String)>);

impl Secrets {
    fn add(&mut self, what: &str, secret: &str) {
        assert!(secret.len() > 7, "{what} would be found by chance");
        self.0.push((what.to_owned(), secret.to_owned()));
    }

    /// A key as base64 has it, and as its bytes are printed.
    fn add_key(&mut self, what: &str, base64: &str) {
        self.add(what, base64);
        let bytes = Base64::decode_vec(base64).expect("PostgreSQL has written it");
        let hex = bytes.iter().take(8).fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        self.add(&format!("{what} in hex"), &hex);
        self.add(&format!("{what} as Debug has it"), format!("{:?}", &bytes[..8]).trim_matches(['[', ']']));
    }

    /// A secret as PostgreSQL and auth_file keep it.
    fn add_stored(&mut self, what: &str, stored: &str) {
        match stored.strip_prefix("SCRAM-SHA-256$") {
            Some(rest) => {
                let (_, keys) = rest.split_once('$').expect("iterations and salt come first");
                for (key, of) in keys.split(':').zip(["StoredKey", "ServerKey"]) {
                    self.add_key(&format!("{what}: {of}"), key);
                }
            }
            None => self.add(what, stored.strip_prefix("md5").expect("nothing else is kept")),
        }
    }

    fn in_text(&self, text: &str) -> Vec<&str> {
        let lower = text.to_lowercase();
        let is_in = |secret: &str| text.contains(secret) || lower.contains(&secret.to_lowercase());
        self.0.iter().filter(|(_, secret)| is_in(secret)).map(|(what, _)| &**what).collect()
    }
}

fn base64(bytes: &[u8]) -> String {
    Base64UrlUnpadded::encode_string(bytes)
}

/// A token of ann's.
fn token(key: &EcdsaKeyPair) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later").as_secs();
    let claims =
        format!("{{\"iss\":\"{ISSUER}\",\"aud\":\"shop\",\"sub\":\"ann\",\"exp\":{},\"scope\":\"openid\"}}", now + 600);
    let text = format!("{}.{}", base64(b"{\"alg\":\"ES256\",\"kid\":\"k\"}"), base64(claims.as_bytes()));
    let signature = key.sign(&SystemRandom::new(), text.as_bytes()).expect("it signs");
    format!("{text}.{}", base64(signature.as_ref()))
}

fn roles(stage: &Stage, secrets: &mut Secrets) -> String {
    let _ = stage.direct(
        "create role asker login superuser password 'of-asker-secret'; create role kept login password 'kept-secret';
         create role looked login password 'looked-secret'; create role hashed login password 'hashed-secret';
         create role filed login password 'filed-secret'; set password_encryption = md5;
         create role oldlooked login password 'oldlooked-secret'",
    );
    for name in ["of-asker", "kept", "looked", "hashed", "filed", "oldlooked"] {
        secrets.add(name, &format!("{name}-secret"));
    }
    let stored = |name: &str| stage.direct(&format!("select rolpassword from pg_authid where rolname = '{name}'"));
    for name in ["asker", "kept", "looked", "hashed", "filed", "oldlooked", "ann"] {
        secrets.add_stored(name, &stored(name));
    }
    let hash = stage.direct("select 'md5' || md5('hashed-secret' || 'hashed')");
    secrets.add_stored("the hash in auth_file", &hash);
    format!(
        "\"asker\" \"of-asker-secret\"\n\"filed\" \"filed-secret\"\n\"hashed\" \"{hash}\"\n\"kept\" \"{}\"\n\"ann\" \"\"\n",
        stored("kept")
    )
}

fn ini(stage: &Stage, ours: &Authority) -> String {
    let (port, password) = (stage.cluster.port(), stage.cluster.password());
    let mut ini = "[databases]\n".to_owned();
    for name in ["plain", "md5", "scram", "oauth", "ldap"] {
        let entry = format!("host=127.0.0.1 port={port} dbname=postgres user=postgres password={password}");
        writeln!(ini, "{name} = {entry}").expect("writing to a String cannot fail");
    }
    // `own`: the client's secret opens the server or does not. `refused`: PostgreSQL refuses the password. Errors come after 1 s.
    write!(
        ini,
        "own = host=127.0.0.1 port={port} dbname=postgres query_wait_timeout=1\n\
         refused = host=127.0.0.1 port={port} dbname=postgres user=ann password=refused-secret query_wait_timeout=1\n[pgbouncer]\n\
         listen_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir =\nauth_type = hba\nauth_hba_file = {{dir}}/hba.conf\n\
         auth_file = {{dir}}/users.txt\nauth_user = asker\nauth_oauth_options = issuer={ISSUER} audience=shop jwks={{dir}}/keys.json\n\
         verbose = 5\nlog_connections = 1\nlog_disconnections = 1\nadmin_users = filed\npool_mode = transaction\n\
         server_login_retry = 1\nclient_tls_sslmode = allow\nclient_tls_cert_file = {}\n\
         client_tls_key_file = {}\nserver_tls_sslmode = prefer\n",
        ours.path("pooler.crt"),
        ours.path("pooler.key"),
    )
    .expect("writing to a String cannot fail");
    ini
}

fn rules() -> String {
    format!(
        "host plain all all password\nhost md5 all all md5\nhost scram,own,refused,pgbouncer all all scram-sha-256\n\
         host oauth all all oauth issuer={ISSUER} scope=openid\n\
         host ldap all all ldap ldapserver=127.0.0.1 ldapport=1 ldapbasedn=\"dc=example\" ldapbinddn=\"cn=admin\" \
         ldapbindpasswd=\"directory-secret\"\n"
    )
}

/// What a client is told that shows this token.
fn show_token(pooler: &Pooler, ours: &Authority, token: &str) -> (bool, String) {
    let config = trusting(ours, None);
    let mut line = Line::begin(pooler.address(), Manner::Asked, &config, false).expect("it has TLS");
    line.send(&frontend::startup(&[("user", "ann"), ("database", "oauth")])).expect("it listens");
    line.hear_message().expect("it asks");
    let response = format!("n,,\x01auth=Bearer {token}\x01\x01");
    let length = u32::try_from(response.len()).expect("it is short").to_be_bytes();
    let initial = frontend::frame(b'p', &[&b"OAUTHBEARER\0"[..], &length, response.as_bytes()].concat());
    line.send(&initial).expect("it listens");
    let answer = line.hear_message().expect("it answers");
    let is_let_in = answer[..9] == [b'R', 0, 0, 0, 8, 0, 0, 0, 0];
    // The answer to an error, and goodbye.
    let _ = line.send(&if is_let_in { frontend::terminate() } else { frontend::frame(b'p', b"\x01") });
    let told = [answer, line.last_words().bytes].concat();
    (is_let_in, String::from_utf8_lossy(&told).into_owned())
}

#[test]
fn cve_2023_22332_no_secret_is_shown_by_anything() {
    let (stage, ours) = Stage::encrypted();
    let mut secrets = Secrets(Vec::new());
    let users = roles(&stage, &mut secrets);
    for what in ["wrong-secret", "refused-secret", "directory-secret", stage.cluster.password()] {
        secrets.add(what, what);
    }
    let hba = "local all all trust\nhost all oldlooked all md5\nhost all all all scram-sha-256\n";
    fs::write(stage.cluster.data().join("pg_hba.conf"), hba).expect("its file");
    assert_eq!(stage.direct("select pg_reload_conf()"), "t");
    let pem = fs::read_to_string(ours.path("pooler.key")).expect("it was signed");
    for (number, line) in pem.lines().filter(|line| !line.starts_with('-')).enumerate() {
        secrets.add(&format!("line {number} of the private key"), line);
    }
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
    let point = key.public_key().as_ref();
    let (x, y) = (base64(&point[1..33]), base64(&point[33..]));
    let jwks = format!("{{\"keys\":[{{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\",\"x\":\"{x}\",\"y\":\"{y}\"}}]}}");
    let files = [("users.txt", users), ("hba.conf", rules()), ("keys.json", jwks)];
    let pooler = Pooler::start_with(&ini(&stage, &ours), &files);

    let mut told = String::new();
    let (mut let_in, mut refused) = (0, 0);
    let users = ["filed", "hashed", "kept", "looked", "oldlooked", "asker", "nobody"];
    let databases = ["plain", "md5", "scram", "own", "refused", "ldap", "nowhere", "pgbouncer"];
    let pairs = databases.into_iter().flat_map(|database| users.map(|user| (database, user)));
    for (database, user) in pairs {
        let passwords = [format!("{user}-secret"), format!("of-{user}-secret"), "wrong-secret".to_owned()];
        let ways = passwords.iter().flat_map(|password| ["disable", "require"].map(|mode| (password, mode)));
        for (password, mode) in ways {
            let target = format!(
                "host=localhost port={} user={user} password={password} dbname={database} sslmode={mode}",
                pooler.port
            );
            match outer::psql(&stage, &["-d", &target, "-Atc", "show server_version"]) {
                Ok((out, err)) => (let_in, told) = (let_in + 1, told + &out + &err),
                Err(why) => (refused, told) = (refused + 1, told + &why),
            }
        }
    }
    let good = token(&key);
    let others = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
    for (token, is_good) in [(&good, true), (&token(&others), false), (&"wrong-token-secret".to_owned(), false)] {
        // Header and claims are no secret of their own; the signature is what makes them one.
        secrets.add("a token's signature", token.rsplit('.').next().expect("rsplit gives one"));
        let (is_let_in, words) = show_token(&pooler, &ours, token);
        assert_eq!(is_let_in, is_good, "{words}");
        told += &words;
    }
    println!("{let_in} logins let in, {refused} refused, 3 tokens shown; {} secrets looked for", secrets.0.len());
    assert!(let_in > 30 && refused > 100, "both happen");

    let shown = show_everything(&stage, &pooler);
    let check =
        Command::new(outer::binary()).arg("check").arg(pooler.dir().join("pooler.ini")).output().expect("it runs");
    let checked = [check.stdout, check.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    // The log is in order: once the last login is in it, everything before is.
    let last = format!("host=localhost port={} user=last-of-all password=x dbname=scram", pooler.port);
    assert!(outer::psql(&stage, &["-d", &last, "-c", ""]).is_err());
    eventually("the last one is in the log", || pooler.log().contains("last-of-all"));
    let log = pooler.log();
    assert!(log.contains("filed") && shown.contains("filed") && !checked.is_empty());
    for (place, text) in [("the log", &log), ("SHOW", &shown), ("errors and answers", &told), ("check", &checked)] {
        println!("{place}: {} bytes", text.len());
        let found = secrets.in_text(text);
        assert!(found.is_empty(), "in {place}: {found:?}\n{text}");
    }
    // Whoever looks finds what is there.
    assert_eq!(secrets.in_text("x FILED-secret x"), ["filed"]);
}

/// What every SHOW prints to an admin.
fn show_everything(stage: &Stage, pooler: &Pooler) -> String {
    let target = format!("host=127.0.0.1 port={} user=filed password=filed-secret dbname=pgbouncer", pooler.port);
    let help = outer::psql(stage, &["-d", &target, "-c", "show help"]).expect("filed is an admin");
    let help = help.0 + &help.1;
    let words = help.split_whitespace().collect::<Vec<_>>();
    let listed = words.windows(2).filter(|pair| pair[0].ends_with("SHOW")).map(|pair| pair[1]);
    let mut names: Vec<String> = listed.flat_map(|names| names.split('|')).map(str::to_lowercase).collect();
    let more = ["config", "databases", "pools", "clients", "servers", "users", "version", "lists", "state", "workers"];
    names.extend(more.map(str::to_owned));
    names.sort_unstable();
    names.dedup();
    let mut shown = help;
    let mut count = 0;
    for name in names {
        // Some are not supported yet, and say so.
        match outer::psql(stage, &["-d", &target, "-c", &format!("show {name}")]) {
            Ok((out, _)) => (count, shown) = (count + 1, shown + &out),
            Err(why) => shown += &why,
        }
    }
    assert!(count >= 20, "only {count} tables were shown: {shown}");
    shown
}

fn soft_limit(pooler: &Pooler) -> String {
    let limits = fs::read_to_string(format!("/proc/{}/limits", pooler.pid())).expect("it runs");
    let line = limits.lines().find(|line| line.starts_with("Max core file size")).expect("Linux has it").to_owned();
    line.split_whitespace().nth(4).expect("a number").to_owned()
}

#[test]
fn a_crash_writes_no_core_file() {
    let mut controls = Vec::new();
    for (signal, is_allowed) in [(Signal::SEGV, false), (Signal::ABORT, false), (Signal::ABORT, true)] {
        let ini = "[databases]\n* = host=127.0.0.1 port=1 password=kept-secret\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
                   listen_port = {port}\nunix_socket_dir =\nauth_type = any\n";
        let mut pooler = Pooler::start_with(ini, &[]);
        assert_eq!(soft_limit(&pooler), "1", "below any core file's size");
        if is_allowed {
            // As the guide says how; nobody but its own user may.
            let mut raise = Command::new("prlimit");
            raise.arg("--core=unlimited").arg(format!("--pid={}", pooler.pid()));
            if let Some(account) = demo::unprivileged() {
                account.apply(&mut raise);
            }
            assert!(raise.status().expect("util-linux is there").success());
            assert_eq!(soft_limit(&pooler), "unlimited");
        }
        let status = pooler.end_by(signal);
        let files = fs::read_dir(pooler.dir()).expect("it is still there");
        let names: Vec<_> = files.map(|file| file.expect("it can be read").file_name()).collect();
        let has_file = names.iter().any(|name| name.to_string_lossy().starts_with("core"));
        let dumped = std::os::unix::process::ExitStatusExt::core_dumped(&status);
        if is_allowed {
            controls.push((dumped, has_file));
        } else {
            assert!(!dumped && !has_file, "{signal:?}: {status:?} {names:?}");
        }
    }
    println!("with the limit raised, a core was written, and is in the folder: {controls:?}");
}
