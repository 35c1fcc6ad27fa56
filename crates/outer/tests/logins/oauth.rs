//! Tokens instead of passwords: libpq 18 learns from the pooler where they are to be had, and shows one.

use std::fs;
use std::time::SystemTime;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64ct::{Base64UrlUnpadded, Encoding};
use outer::{Pooler, Stage, Wishes, eventually};

const ISSUER: &str = "https://id.example";

fn base64(bytes: &[u8]) -> String {
    Base64UrlUnpadded::encode_string(bytes)
}

/// A token for this subject, good for so many seconds.
fn token(key: &EcdsaKeyPair, subject: &str, seconds: i64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later").as_secs();
    let until = now.saturating_add_signed(seconds);
    let claims = format!(
        "{{\"iss\":\"{ISSUER}\",\"aud\":\"shop\",\"sub\":\"{subject}\",\"exp\":{until},\"scope\":\"openid pg\"}}"
    );
    let text = format!("{}.{}", base64(b"{\"alg\":\"ES256\",\"kid\":\"k\"}"), base64(claims.as_bytes()));
    let signature = key.sign(&SystemRandom::new(), text.as_bytes()).expect("it signs");
    format!("{text}.{}", base64(signature.as_ref()))
}

#[test]
fn libpq_logs_in_with_a_token() {
    let stage = Stage::set(&Wishes::default());
    let _ = stage.direct("create role ann login");
    let rules = "local all all trust\nhost all all all trust\n";
    fs::write(stage.cluster.data().join("pg_hba.conf"), rules).expect("we are root or its owner");
    assert_eq!(stage.direct("select pg_reload_conf()"), "t");
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
    let point = key.public_key().as_ref();
    let (x, y) = (base64(&point[1..33]), base64(&point[33..]));
    let jwks = format!("{{\"keys\":[{{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\",\"x\":\"{x}\",\"y\":\"{y}\"}}]}}");
    let ini = format!(
        "[databases]\npostgres = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir =\n\
         auth_type = hba\nauth_hba_file = {{dir}}/hba.conf\nauth_ident_file = {{dir}}/ident.conf\npool_mode = transaction\n\
         auth_oauth_options = issuer={ISSUER} audience=shop jwks={{dir}}/keys.json\n",
        stage.cluster.socket_dir().display(),
        stage.cluster.port()
    );
    let files = [
        ("hba.conf", format!("host all all 127.0.0.1/32 oauth issuer={ISSUER} scope=\"openid pg\" map=ids\n")),
        ("ident.conf", "ids /^(.*)@example$ \\1\n".to_owned()),
        ("keys.json", jwks),
    ];
    let pooler = Pooler::start_with(&ini, &files);
    let login = |user: &str, token: &str| {
        let target = format!(
            "host=127.0.0.1 port={} user={user} dbname=postgres oauth_issuer={ISSUER} oauth_client_id=test",
            pooler.port
        );
        outer::python("oauth.py", &[token, &target])
    };
    let printed = login("ann", &token(&key, "ann@example", 600)).expect("it is let in");
    print!("{printed}");
    assert!(printed.contains(&format!("asked {ISSUER}/.well-known/openid-configuration openid pg\n")), "{printed}");
    assert!(printed.contains("in as ann\n"), "{printed}");
    let refusals = [
        ("expired", token(&key, "ann@example", -60), "the token is not good: ExpiredSignature"),
        ("somebody else's", token(&key, "eve@example", 600), "the token is \"eve@example\"'s"),
        ("nobody's", "nothing".to_owned(), "this is no JSON Web Token"),
    ];
    for (what, token, words) in refusals {
        let why = login("ann", &token).expect_err(what);
        assert!(why.contains("OAuth bearer authentication failed for user \"ann\""), "{what}: {why}");
        eventually(words, || pooler.log().contains(words));
    }
}
