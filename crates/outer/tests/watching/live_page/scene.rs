//! A pooler with its live page, its users, and what the page is asked.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use outer::page::{self, Answered, ask};
use outer::{Stage, Wishes, eventually};

/// `look-only`, `old-ways`: stored as SCRAM's verifier and as md5.
const USERS: &str = r#""postgres" "page secret+&%"
"joe" "SCRAM-SHA-256$4096:MDEyMzQ1Njc4OWFiY2RlZg==$A44O8mr2A/vE+tI+xnWSlG6+wq2BAuXaqzWZDbaumNU=:BbH3WMWq6Mzfh7tXVNMOe/qVAcjli4zctVMaz7op3ik="
"mia" "md58eeb6e9af3a324bfa623efff0d9990d5"
"app" "no right"
"#;

/// The program gives itself 200 s for a picture, and there may be two before it.
const DRAWN_WITHIN: Duration = Duration::from_secs(600);

pub(super) struct Scene {
    pub(super) stage: Stage,
    pub(super) http: SocketAddr,
    pub(super) folder: PathBuf,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(super) fn scene(name: &str, more: &[(&'static str, &str)]) -> Scene {
    let folder = env::temp_dir().join(format!("pgweir-page-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let users = folder.join("users.txt");
    fs::write(&users, USERS).expect("a file");
    let http: SocketAddr = format!("127.0.0.1:{}", demo::free_port()).parse().expect("an address");
    let mut settings = vec![
        ("http_listen", http.to_string()),
        ("http_page", "1".to_owned()),
        ("auth_file", users.display().to_string()),
        ("admin_users", "postgres, mia".to_owned()),
        ("stats_users", "joe".to_owned()),
    ];
    settings.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
    Scene { stage: Stage::set(&Wishes { pool: 12, settings, ..Wishes::default() }), http, folder }
}

impl Scene {
    pub(super) fn origin(&self) -> String {
        format!("http://{}", self.http)
    }

    pub(super) fn log_in(&self, user: &str, password: &str) -> Answered {
        page::log_in(self.http, user, password)
    }

    pub(super) fn session(&self, user: &str, password: &str) -> String {
        page::session(self.http, user, password)
    }

    pub(super) fn api(&self, session: &str, path: &str) -> Answered {
        page::api(self.http, session, path)
    }

    pub(super) fn order(&self, session: &str, path: &str, body: &str) -> Answered {
        let headers = [("Cookie", session), ("X-Pgweir", "1"), ("Origin", &*self.origin())];
        ask(self.http, "POST", &format!("/api/{path}"), &headers, body)
    }

    /// Where a browser leaves pictures.
    pub(super) fn pictures(&self) -> String {
        env::var("PGWEIR_PICTURES").unwrap_or_else(|_| self.folder.display().to_string())
    }

    /// Number and text of the first picture of such an order that has these words: a busy machine may leave a process no processor while it
    /// is sampled. While a picture is made, nobody gets another one.
    pub(super) fn stacks(&self, session: &str, order: &str, words: &[&str]) -> (u64, String) {
        let begun = Instant::now();
        loop {
            let number = self.begins_stacks(session, order);
            let other = self.order(session, "stacks", "by=perf");
            let is_refused = other.status == 409 && other.body.contains("one at a time");
            let last = self.last_stacks(session, &number);
            let why = last["error"].as_str().unwrap_or_default();
            assert!(why.is_empty() || why.starts_with("no samples in 3 s"), "{last}");
            assert!(is_refused, "{} {}", other.status, other.body);
            if why.is_empty() {
                let summary = last["summary"].as_str().unwrap_or_default();
                assert!(summary.contains(" samples of 1 process by "), "{last}");
                let answer = ask(self.http, "GET", &format!("/stacks/{number}.svg"), &[("Cookie", session)], "");
                if words.iter().all(|word| answer.body.contains(word)) {
                    return (number.as_u64().expect("a number"), answer.body);
                }
            }
            assert!(begun.elapsed() < DRAWN_WITHIN, "no picture has {words:?}: {last}");
        }
    }

    pub(super) fn begins_stacks(&self, session: &str, order: &str) -> serde_json::Value {
        let answer = self.order(session, "stacks", order);
        assert_eq!(answer.status, 202, "{}", answer.body);
        serde_json::from_str::<serde_json::Value>(&answer.body).expect("JSON")["number"].clone()
    }

    /// What is said of a picture, once it is there.
    pub(super) fn last_stacks(&self, session: &str, number: &serde_json::Value) -> serde_json::Value {
        let begun = Instant::now();
        loop {
            let known: serde_json::Value = serde_json::from_str(&self.api(session, "stacks").body).expect("JSON");
            if known["last"]["number"] == *number {
                println!("stacks {number}: {:.1} s", begun.elapsed().as_secs_f64());
                return known["last"].clone();
            }
            assert!(begun.elapsed() < DRAWN_WITHIN, "it takes too long: {known}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The number of the client whose row has a text.
    pub(super) fn client_with(&self, session: &str, text: &str) -> String {
        let mut number = None;
        // A look that PostgreSQL answers too late shows less.
        eventually("the client is seen", || {
            let row = self.api(session, &format!("show/ACTIVITY?text={text}")).body;
            let json: serde_json::Value = serde_json::from_str(&row).expect("JSON");
            let names = json["columns"].as_array().expect("columns");
            let place = names.iter().position(|column| column["name"] == "client_id").expect("a column");
            number = json["rows"][0][place].as_str().map(str::to_owned);
            number.is_some()
        });
        number.expect("it was seen")
    }
}

pub(super) const ADMIN: &str = "page+secret%2B%26%25";
