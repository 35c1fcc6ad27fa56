//! Tokens of a provider that this test plays: which of them are good, and what is said of the others.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use auth::Password;
use authorities::Office;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64ct::{Base64UrlUnpadded, Encoding};
use machine::{Evidence, Inquiry, Outside, Verdict};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa};
use serde_json::{Value, json};

const ISSUER: &str = "https://id.example";

fn base64(bytes: impl AsRef<[u8]>) -> String {
    Base64UrlUnpadded::encode_string(bytes.as_ref())
}

/// A provider's keys, one of each kind, and another's.
struct Provider {
    ec: EcdsaKeyPair,
    ed: Ed25519KeyPair,
    rsa: RsaKeyPair,
    other: EcdsaKeyPair,
    random: SystemRandom,
}

impl Provider {
    fn new() -> Provider {
        let ec = || EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        Provider {
            ec: ec(),
            ed: Ed25519KeyPair::generate().expect("a key"),
            rsa: RsaKeyPair::generate(KeySize::Rsa2048).expect("a key"),
            other: ec(),
            random: SystemRandom::new(),
        }
    }

    fn jwks(&self) -> Value {
        let point = self.ec.public_key().as_ref();
        let rsa = self.rsa.public_key();
        json!({ "keys": [
            { "kty": "EC", "crv": "P-256", "kid": "ec", "use": "sig", "x": base64(&point[1..33]), "y": base64(&point[33..]) },
            { "kty": "OKP", "crv": "Ed25519", "kid": "ed", "alg": "EdDSA", "x": base64(self.ed.public_key()) },
            { "kty": "RSA", "kid": "rsa", "alg": "RS256", "n": base64(rsa.modulus().big_endian_without_leading_zero()),
              "e": base64(rsa.exponent().big_endian_without_leading_zero()) },
            // Two that are no use to us.
            { "kty": "RSA", "kid": "seals", "use": "enc", "n": base64(rsa.modulus().big_endian_without_leading_zero()),
              "e": base64(rsa.exponent().big_endian_without_leading_zero()) },
            { "kty": "oct", "kid": "shared", "k": base64("a secret that is not one") },
            { "kty": "something new", "kid": "new" },
        ] })
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let text = format!("{}.{}", base64(header.to_string()), base64(claims.to_string()));
        let signature = match (header["alg"].as_str(), header["kid"].as_str()) {
            (Some("ES256"), Some("other")) => {
                self.other.sign(&self.random, text.as_bytes()).expect("it signs").as_ref().to_vec()
            }
            (Some("ES256"), _) => self.ec.sign(&self.random, text.as_bytes()).expect("it signs").as_ref().to_vec(),
            (Some("EdDSA"), _) => self.ed.sign(text.as_bytes()).as_ref().to_vec(),
            (Some("RS256" | "PS256"), _) => {
                let mut signature = vec![0; self.rsa.public_modulus_len()];
                self.rsa.sign(&RSA_PKCS1_SHA256, &self.random, text.as_bytes(), &mut signature).expect("it signs");
                signature
            }
            // By what everybody knows.
            (Some("HS256"), _) => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, self.ec.public_key().as_ref());
                hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
            }
            _ => Vec::new(),
        };
        format!("{text}.{}", base64(signature))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later").as_secs()
}

fn claims() -> Value {
    json!({ "iss": ISSUER, "aud": ["shop", "mail"], "sub": "ann", "exp": now() + 600, "nbf": now(), "scope": "openid pg" })
}

/// The claims with one of them otherwise.
fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().expect("they are one").remove(name);
    claims
}

/// Asks about a token by these options, with `jwks=` and a CA.
fn ask(office: &Office, options: &str, ca: Option<&str>, token: &str) -> Verdict {
    let (sender, answers) = channel();
    let asker = Arc::new(());
    let inquiry = Inquiry {
        outside: Outside::OAuth(Arc::new(hba::read_provider(options).expect("it is one"))),
        user: "ann".into(),
        database: "shop".into(),
        given: Evidence::Text(Password::new(token)),
        address: None,
        ca_file: ca.map(Into::into),
        within: Duration::from_secs(600),
        asker: Arc::downgrade(&asker),
    };
    office.ask(inquiry, Box::new(move |verdict| _ = sender.send(verdict)));
    answers.recv().expect("there is a verdict")
}

/// A file that is gone in the end.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> File {
        let path = std::env::temp_dir().join(format!("tokens-{}-{name}", std::process::id()));
        fs::write(&path, text).expect("a temporary file");
        File(path)
    }

    fn name(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_token_lets_in_whom_its_provider_says_and_nobody_else() {
    let (provider, office) = (Provider::new(), Office::new(1));
    let file = File::new("table.json", &provider.jwks().to_string());
    let options = format!("issuer={ISSUER} audience=\"shop other\" jwks={} scope=\"pg openid\"", file.name());
    let (ec, plain) = (json!({ "alg": "ES256", "kid": "ec" }), claims());
    let known = || Verdict::Known("ann".to_owned());
    let good = [
        (ec.clone(), claims()),
        (json!({ "alg": "EdDSA", "kid": "ed", "typ": "at+jwt" }), claims()),
        (json!({ "alg": "RS256", "kid": "rsa" }), claims()),
        // Without a name there is one that it can be.
        (json!({ "alg": "RS256" }), claims()),
        (ec.clone(), with("aud", json!("shop"))),
        (ec.clone(), without("nbf")),
        (ec.clone(), with("scope", json!("openid more pg"))),
    ];
    for (header, claims) in good {
        assert_eq!(ask(&office, &options, None, &provider.sign(&header, &claims)), known(), "{header} {claims}");
    }
    // Five seconds are let pass, where they have not passed meanwhile.
    let exp = now() - 2;
    let verdict = ask(&office, &options, None, &provider.sign(&ec, &with("exp", json!(exp))));
    assert!(verdict == known() || now() > exp + 5, "{verdict:?}");
    let mut scp = without("scope");
    scp["scp"] = json!(["pg", "openid"]);
    assert_eq!(ask(&office, &options, None, &provider.sign(&ec, &scp)), known());
    let bad = [
        (ec.clone(), with("exp", json!(now() - 10)), "ExpiredSignature"),
        (ec.clone(), without("exp"), "Missing required claim: exp"),
        (ec.clone(), with("exp", json!("soon")), "exp"),
        (ec.clone(), with("nbf", json!(now() + 3600)), "ImmatureSignature"),
        (ec.clone(), with("iss", json!("https://id.example/")), "InvalidIssuer"),
        (ec.clone(), with("iss", json!([ISSUER])), "InvalidIssuer"),
        (ec.clone(), without("iss"), "Missing required claim: iss"),
        (ec.clone(), with("aud", json!("mail")), "InvalidAudience"),
        (ec.clone(), with("aud", json!([])), "InvalidAudience"),
        (ec.clone(), without("aud"), "Missing required claim: aud"),
        (ec.clone(), with("scope", json!("openid pgx")), "the token does not allow \"pg\""),
        (ec.clone(), without("scope"), "the token does not allow \"pg\""),
        (ec.clone(), without("sub"), "the token has no claim \"sub\" with a name"),
        (ec.clone(), with("sub", json!(7)), "the token has no claim \"sub\" with a name"),
        (ec.clone(), with("sub", json!("")), "the token has no claim \"sub\" with a name"),
        (json!({ "alg": "none" }), plain.clone(), "this is no JSON Web Token"),
        (json!({ "alg": "HS256", "kid": "ec" }), plain.clone(), "the token is signed by HS256"),
        (json!({ "alg": "HS256", "kid": "shared" }), plain.clone(), "the token is signed by HS256"),
        (json!({ "alg": "PS256", "kid": "rsa" }), plain.clone(), "the token is signed by PS256"),
        (json!({ "alg": "ES256", "kid": "other" }), plain.clone(), "a key that the provider does not have"),
        (json!({ "alg": "ES256", "kid": "rsa" }), plain.clone(), "a key that the provider does not have"),
        (json!({ "alg": "RS256", "kid": "seals" }), plain.clone(), "a key that the provider does not have"),
        (json!({ "alg": "ES256", "kid": "ec", "crit": ["b64"] }), plain.clone(), "extensions"),
    ];
    for (header, claims, words) in bad {
        let verdict = ask(&office, &options, None, &provider.sign(&header, &claims));
        assert!(matches!(&verdict, Verdict::Denied(why) if why.contains(words)), "{header} {claims}: {verdict:?}");
    }
}

#[test]
fn what_is_no_token_lets_nobody_in() {
    let (provider, office) = (Provider::new(), Office::new(1));
    let file = File::new("forged.json", &provider.jwks().to_string());
    let options = format!("issuer={ISSUER} audience=shop jwks={}", file.name());
    let (ec, plain) = (json!({ "alg": "ES256", "kid": "ec" }), claims());
    let signed = provider.sign(&ec, &plain);
    let forged = [
        (
            "another signature",
            provider.sign(&json!({ "alg": "ES256", "kid": "other" }), &plain).replacen(
                &base64("{\"alg\":\"ES256\",\"kid\":\"other\"}"),
                &base64("{\"alg\":\"ES256\",\"kid\":\"ec\"}"),
                1,
            ),
        ),
        ("no signature", signed.rsplit_once('.').expect("it has three parts").0.to_owned() + "."),
        ("two parts", signed.rsplit_once('.').expect("it has three parts").0.to_owned()),
        (
            "other claims",
            format!(
                "{}.{}.{}",
                base64(ec.to_string()),
                base64(with("sub", json!("eve")).to_string()),
                signed.rsplit_once('.').expect("it has three parts").1
            ),
        ),
        ("nothing", "x".to_owned()),
        ("too long", "x".repeat(65_536)),
    ];
    for (what, token) in forged {
        let verdict = ask(&office, &options, None, &token);
        assert!(matches!(&verdict, Verdict::Denied(_)), "{what}: {verdict:?}");
    }
    let by_mail = format!("issuer={ISSUER} audience=shop jwks={} claim=email", file.name());
    let verdict = ask(&office, &by_mail, None, &provider.sign(&ec, &with("email", json!("ann@example"))));
    assert_eq!(verdict, Verdict::Known("ann@example".to_owned()));
}

/// A server of HTTPS that gives each who comes this answer, and how many came.
fn serve(answer: String, ca: &str) -> (u16, File, Arc<AtomicUsize>) {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().expect("a key")).expect("a CA");
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("an address");
    let certificate = params.signed_by(&key, &issuer).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let config =
        builder.expect("versions").with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key);
    let config = Arc::new(config.expect("they fit"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).expect("a connection");
            let mut stream = rustls::StreamOwned::new(connection, stream);
            // Whoever does not trust us is gone by now.
            if stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
                counter.fetch_add(1, Ordering::Relaxed);
                let _ = stream.write_all(answer.as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    (port, File::new(ca, &issuer.pem()), count)
}

fn http(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn keys_come_by_https_and_are_not_fetched_for_every_token() {
    let (provider, office) = (Provider::new(), Office::new(4));
    let (port, ca, count) = serve(http(&provider.jwks().to_string()), "fetched.pem");
    let options = format!("issuer={ISSUER} audience=shop jwks=https://127.0.0.1:{port}/keys");
    let token = provider.sign(&json!({ "alg": "ES256", "kid": "ec" }), &claims());
    for _ in 0..20 {
        assert_eq!(ask(&office, &options, Some(&ca.name()), &token), Verdict::Known("ann".to_owned()));
    }
    let stranger = provider.sign(&json!({ "alg": "ES256", "kid": "other" }), &claims());
    for _ in 0..20 {
        assert!(matches!(ask(&office, &options, Some(&ca.name()), &stranger), Verdict::Denied(_)));
    }
    assert_eq!(count.load(Ordering::Relaxed), 1, "made-up names of keys do not trouble the provider");
}

#[test]
fn nobody_comes_in_while_there_are_no_keys() {
    let provider = Provider::new();
    let token = provider.sign(&json!({ "alg": "ES256", "kid": "ec" }), &claims());
    let keys = provider.jwks().to_string();
    let answers = [
        ("too long", format!("{keys}{}", " ".repeat(2 << 20)), ""),
        ("no keys", "{}".to_owned(), "is no set of keys"),
        ("no text", "<html>".to_owned(), "is no set of keys"),
    ];
    for (what, body, words) in answers {
        let (port, ca, _) = serve(http(&body), "none.pem");
        let options = format!("issuer={ISSUER} audience=shop jwks=https://127.0.0.1:{port}/keys");
        let verdict = ask(&Office::new(1), &options, Some(&ca.name()), &token);
        assert!(matches!(&verdict, Verdict::Unreachable(why) if why.contains(words)), "{what}: {verdict:?}");
    }
    let elsewhere = "HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1/keys\r\nContent-Length: 0\r\n\r\n".to_owned();
    let (port, ca, _) = serve(elsewhere, "elsewhere.pem");
    let options = format!("issuer={ISSUER} audience=shop jwks=https://127.0.0.1:{port}/keys");
    let verdict = ask(&Office::new(1), &options, Some(&ca.name()), &token);
    assert!(matches!(&verdict, Verdict::Unreachable(_)), "elsewhere: {verdict:?}");
    // A server that the CA does not vouch for.
    let (port, _own, count) = serve(http(&keys), "own.pem");
    let options = format!("issuer={ISSUER} audience=shop jwks=https://127.0.0.1:{port}/keys");
    let verdict = ask(&Office::new(1), &options, Some(&ca.name()), &token);
    assert!(matches!(&verdict, Verdict::Unreachable(_)), "untrusted: {verdict:?}");
    assert_eq!(count.load(Ordering::Relaxed), 0);
    let options = format!("issuer={ISSUER} audience=shop jwks=/nonexistent/keys.json");
    let verdict = ask(&Office::new(1), &options, None, &token);
    assert!(matches!(&verdict, Verdict::Unreachable(why) if why.contains("/nonexistent/keys.json")), "{verdict:?}");
}
