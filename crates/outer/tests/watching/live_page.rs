//! The live page over a real PostgreSQL: who may see it, what strangers and other pages get, and what a browser shows.

mod scene;

use std::io::Write as _;
use std::net::TcpStream;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use outer::page::ask;
use outer::{Client, Stage, eventually};
use scene::{ADMIN, Scene, scene};

#[test]
fn without_the_setting_there_is_no_page() {
    let scene = scene("off", &[("http_page", "0")]);
    for path in ["/", "/login", "/style.css", "/api/me"] {
        assert_eq!(ask(scene.http, "GET", path, &[], "").status, 404, "{path}");
    }
    assert_eq!(scene.log_in("postgres", ADMIN).status, 405);
    assert_eq!(ask(scene.http, "GET", "/live", &[], "").status, 200);
}

#[test]
fn only_users_of_the_console_log_in_with_their_password_in_whatever_way_it_is_stored() {
    let mut scene = scene("login", &[]);
    let answer = scene.log_in("postgres", ADMIN);
    assert_eq!(answer.status, 204);
    let cookie = answer.header("set-cookie").expect("a cookie").to_owned();
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
    assert!(!answer.head.contains("secret") && !answer.body.contains("secret"));
    for (user, password) in [("joe", "look-only"), ("mia", "old-ways")] {
        assert_eq!(scene.log_in(user, password).status, 204, "{user}");
    }
    assert_eq!(scene.log_in("app", "no+right").status, 401, "it has no right to the console");
    assert_eq!(scene.log_in("nobody", "x").status, 401);
    // A browser that has come by TLS says so.
    let own = format!("https://{}", scene.http);
    let answer = ask(scene.http, "POST", "/login", &[("Origin", &own)], &format!("user=postgres&password={ADMIN}"));
    assert!(answer.header("set-cookie").is_some_and(|cookie| cookie.ends_with("; Secure")), "{}", answer.head);
    scene.stage.assert_healthy();
}

#[test]
fn rules_of_the_console_count_for_the_page() {
    let rules = env::temp_dir().join(format!("pgweir-page-rules-{}.conf", std::process::id()));
    let write = |postgres: &str, joe: &str| {
        let lines = format!(
            "host pgbouncer postgres 127.0.0.1/32 {postgres}\nhost pgbouncer joe all {joe}\nlocal all all trust\nhost shop all all trust\n"
        );
        fs::write(&rules, lines).expect("a file");
    };
    write("trust", "scram-sha-256");
    let path = rules.display().to_string();
    let scene = scene("rules", &[("auth_type", "hba"), ("auth_hba_file", &path)]);
    assert_eq!(scene.log_in("mia", "old-ways").status, 401, "no line is for it");
    assert_eq!(scene.log_in("postgres", "x").status, 401, "trusted at the console, it needs its password here");
    let (admin, stats) = (scene.session("postgres", ADMIN), scene.session("joe", "look-only"));
    let mut console = Client::login(scene.stage.pooler.address(), "postgres", "pgbouncer").expect("trusted");
    write("reject", "scram-sha-256");
    console.query("reload").expect("reloaded");
    eventually("it is out", || scene.api(&admin, "me").status == 401);
    assert_eq!(scene.api(&stats, "me").status, 200);
    assert_eq!(scene.log_in("postgres", ADMIN).status, 401);
    let _ = fs::remove_file(&rules);
}

#[test]
fn a_name_that_somebody_has_led_here_gets_nothing() {
    let scene = scene("hosts", &[("http_hosts", "weir.example.com")]);
    let body = format!("user=postgres&password={ADMIN}");
    let asked = |method: &str, path: &str, host: &str| {
        let origin = format!("http://{host}");
        ask(scene.http, method, path, &[("Host", host), ("Origin", &origin)], &body)
    };
    // It listens before it knows passwords.
    let _ = scene.session("postgres", ADMIN);
    let port = scene.http.port();
    for host in ["weir.example.com".to_owned(), format!("localhost:{port}"), scene.http.to_string()] {
        assert_eq!(asked("POST", "/login", &host).status, 204, "{host}");
        assert_eq!(asked("GET", "/login", &host).status, 200, "{host}");
    }
    let led = format!("evil.example:{port}");
    for (method, path) in
        [("POST", "/login"), ("POST", "/logout"), ("GET", "/"), ("GET", "/api/me"), ("GET", "/nowhere")]
    {
        let answer = asked(method, path, &led);
        assert!(answer.status == 421 && answer.body.contains("http_hosts"), "{method} {path}: {}", answer.head);
    }
    assert_eq!(asked("GET", "/metrics", &led).status, 200, "these answer to any name");
}

#[test]
fn requests_of_other_pages_get_nothing() {
    let scene = scene("origin", &[]);
    let body = format!("user=postgres&password={ADMIN}");
    let own = scene.origin();
    // It listens before it knows passwords.
    let session = scene.session("postgres", ADMIN);
    let foreign: [&[(&str, &str)]; 4] = [
        &[],
        &[("Origin", "http://evil.example")],
        &[("Origin", "null")],
        &[("Origin", &own), ("Sec-Fetch-Site", "cross-site")],
    ];
    for headers in foreign {
        assert_eq!(ask(scene.http, "POST", "/login", headers, &body).status, 403, "{headers:?}");
    }
    assert_eq!(scene.api(&session, "me").status, 200);
    let with = |more: &[(&str, &str)]| {
        let headers = [&[("Cookie", session.as_str())], more].concat();
        ask(scene.http, "GET", "/api/me", &headers, "").status
    };
    assert_eq!(with(&[]), 403, "no script of the page has asked");
    assert_eq!(with(&[("X-Pgweir", "1"), ("Origin", "http://evil.example")]), 403);
    assert_eq!(with(&[("X-Pgweir", "1"), ("Sec-Fetch-Site", "same-site")]), 403);
    for path in [
        "me",
        "hour",
        "moment?at=1",
        "client/1",
        "waits?from=1&to=2&by=event",
        "show/POOLS",
        "stacks",
        "report?from=1&to=2",
    ] {
        let answer = ask(scene.http, "GET", &format!("/api/{path}"), &[("X-Pgweir", "1")], "");
        assert_eq!(answer.status, 401, "{path}");
    }
    let answer = ask(scene.http, "GET", "/", &[], "");
    assert_eq!((answer.status, answer.header("location")), (303, Some("/login")));
    // An order, without its origin.
    let headers = [("Cookie", session.as_str()), ("X-Pgweir", "1")];
    for order in ["disconnect", "cancel", "stacks"] {
        let answer = ask(scene.http, "POST", &format!("/api/{order}"), &headers, "client=1&by=perf");
        assert_eq!(answer.status, 403, "{order}");
    }
    assert_eq!(ask(scene.http, "POST", "/logout", &headers, "").status, 403);
}

#[test]
fn every_answer_says_what_a_browser_may_do_with_it() {
    let scene = scene("policy", &[]);
    let session = scene.session("postgres", ADMIN);
    for path in ["/", "/login", "/main.js", "/nowhere", "/api/me"] {
        let answer = ask(scene.http, "GET", path, &[("Cookie", &session), ("X-Pgweir", "1")], "");
        let policy = answer.header("content-security-policy").unwrap_or_else(|| panic!("{path}: {}", answer.head));
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
    }
    let first = ask(scene.http, "GET", "/style.css", &[], "");
    let tag = first.header("etag").expect("a tag").to_owned();
    assert_eq!(ask(scene.http, "GET", "/style.css", &[("If-None-Match", &tag)], "").status, 304);
    assert_eq!(scene.api(&session, "me").header("cache-control"), Some("no-store"));
}

#[test]
fn a_session_ends_with_its_right_its_password_or_its_logout() {
    let scene = scene("ends", &[]);
    let (admin, stats) = (scene.session("postgres", ADMIN), scene.session("joe", "look-only"));
    let (name, value) = admin.split_once('=').expect("a name and a value");
    assert_eq!(name, format!("pgweir-{}", scene.http.port()), "poolers at other ports have other ones");
    assert_eq!(scene.api(&format!("{name}=00"), "me").status, 401);
    assert_eq!(scene.api(&format!("{name}=0{value}"), "me").status, 401);
    assert_eq!(scene.api(&format!("pgweir-1={value}"), "me").status, 401);
    let answer = ask(scene.http, "POST", "/logout", &[("Cookie", &stats), ("Origin", &scene.origin())], "");
    assert_eq!(answer.status, 204);
    assert_eq!(scene.api(&stats, "me").status, 401);
    let stats = scene.session("joe", "look-only");
    let users = fs::read_to_string(scene.folder.join("users.txt")).expect("it is there");
    fs::write(scene.folder.join("users.txt"), users.replace("page secret+&%", "another one")).expect("a file");
    let mut console = Client::login(scene.stage.pooler.address(), "postgres", "pgbouncer").expect("trusted");
    console.query("reload").expect("reloaded");
    assert_eq!(scene.api(&admin, "me").status, 401, "its password has changed");
    assert_eq!(scene.api(&stats, "me").status, 200, "its has not");
}

#[test]
fn users_of_statistics_see_no_statements_and_disconnect_nobody() {
    let mut scene = scene("rights", &[]);
    let (admin, stats) = (scene.session("postgres", ADMIN), scene.session("joe", "look-only"));
    let mut busy = scene.stage.client();
    busy.query("begin").expect("served");
    busy.query("select 'a mark' /*controller:marks*/").expect("served");
    eventually("the history knows it", || {
        scene.api(&admin, "show/ACTIVITY?text=a+mark").body.contains("\"fitting\":1")
    });
    assert!(scene.api(&stats, "show/ACTIVITY?text=a+mark").body.contains("\"fitting\":0"));
    for path in ["show/ACTIVITY", "show/HOLDERS", "hour"] {
        let seen = scene.api(&stats, path);
        assert!(seen.status == 200 && !seen.body.contains("mark"), "{path}: {}", seen.body);
    }
    assert_eq!(scene.api(&stats, "waits?from=0&to=9999999999&by=statement").status, 404);
    for table in ["FDS", "POOLS", "NOTHING"] {
        assert_eq!(scene.api(&admin, &format!("show/{table}")).status, 404, "no view shows {table}");
    }
    let client = scene.client_with(&admin, "a+mark");
    let order = |session: &str| scene.order(session, "disconnect", &format!("client={client}")).status;
    assert_eq!(order(&stats), 403);
    busy.query("select 1").expect("it is still there");
    assert_eq!(order(&admin), 204);
    eventually("it is disconnected", || busy.query("select 1").is_err());
    assert_eq!(order(&admin), 409, "it is gone");
    scene.stage.assert_healthy();
}

#[test]
fn an_administrator_cancels_a_query_and_its_client_stays() {
    let mut scene = scene("cancel", &[]);
    let (admin, stats) = (scene.session("postgres", ADMIN), scene.session("joe", "look-only"));
    let mut busy = scene.stage.client();
    busy.query("set work_mem = '7MB'").expect("served");
    busy.send(&outer::frontend::query("select pg_sleep(600) /* a mark */")).expect("sent");
    eventually("the history knows it", || {
        scene.api(&admin, "show/ACTIVITY?text=a+mark").body.contains("\"fitting\":1")
    });
    let client = scene.client_with(&admin, "a+mark");
    let order = |session: &str| scene.order(session, "cancel", &format!("client={client}"));
    assert_eq!(order(&stats).status, 403);
    assert_eq!(order(&admin).status, 204);
    let answer = busy.answer().expect("it is still connected");
    assert_eq!(answer.errors.first().map(|error| &*error.sqlstate), Some("57014"), "{answer:?}");
    assert_eq!(busy.query("show work_mem").expect("served").value(), Some("7MB"), "its session goes on");
    let idle = order(&admin);
    assert_eq!((idle.status, idle.body.contains("client runs no query")), (409, true), "{}", idle.body);
    let said = format!("page: \"postgres\" cancels the query of client {client}");
    eventually("the log says so", || scene.stage.pooler.log().contains(&said));
    let log = scene.stage.pooler.log();
    assert!(!log.contains("\"joe\" cancels"), "{log}");
    drop(busy);
    eventually("it is gone", || order(&admin).body.contains("client not found"));
    assert_eq!(order(&admin).status, 409);
    scene.stage.assert_healthy();
}

/// Where neither tool can be used, it says so.
#[test]
fn an_administrator_sees_stacks_of_the_pooler_and_of_a_backend() {
    let mut scene = scene("stacks", &[]);
    let (admin, stats) = (scene.session("postgres", ADMIN), scene.session("joe", "look-only"));
    assert_eq!(scene.order(&stats, "stacks", "by=perf").status, 403);
    assert_eq!(scene.api(&stats, "stacks").status, 403);
    let available = stacks::available();
    let by = match (&available.perf, &available.gdb) {
        (Ok(()), _) => "perf",
        (Err(_), Ok(())) => "gdb",
        (Err(why), Err(other)) => return println!("SKIPPED: {why}; {other}"),
    };
    let mut busy = scene.stage.client();
    busy.send(&outer::frontend::query("select count(*) /* a mark */ from generate_series(1, 100000000000)"))
        .expect("sent");
    eventually("the history knows it", || {
        scene.api(&admin, "show/ACTIVITY?text=a+mark").body.contains("\"fitting\":1")
    });
    let client = scene.client_with(&admin, "a+mark");
    let pid = scene.stage.direct(
        "select pid from pg_stat_activity where query like '%a mark%' and state = 'active' and pid <> pg_backend_pid()",
    );

    let words = ["worker-", "engine::", "(pgweir)"];
    let (_, svg) = while_it_serves(&scene, &admin, || scene.stacks(&admin, &format!("by={by}"), &words));
    assert!(svg.contains(&format!("<title>pgweir, process {}</title>", scene.stage.pooler.pid())), "{svg}");
    let words = ["<title>PostgresMain (PostgreSQL)"];
    let (kept, svg) = scene.stacks(&admin, &format!("by={by}&client={client}"), &words);
    assert!(svg.contains(&format!("<title>PostgreSQL, backend {pid}</title>")), "{svg}");

    // One that is kept, for administrators, with a policy of its own.
    let path = format!("/stacks/{kept}.svg");
    let answer = ask(scene.http, "GET", &path, &[("Cookie", &admin)], "");
    assert_eq!(answer.header("content-type"), Some("image/svg+xml"));
    let policy = answer.header("content-security-policy").unwrap_or_default();
    assert!(
        policy.starts_with("default-src 'none'; style-src 'unsafe-inline';")
            && policy.ends_with("frame-ancestors 'none'"),
        "{policy}"
    );
    assert!(!policy.contains("script-src") && !policy.contains("img-src"), "{policy}");
    assert_eq!(ask(scene.http, "GET", &path, &[("Cookie", &stats)], "").status, 403);
    assert_eq!(ask(scene.http, "GET", &path, &[], "").status, 401);
    let (before, after) = (kept - 1, kept + 1);
    for name in
        [format!("{before}.svg"), format!("{after}.svg"), "x.svg".into(), format!("{kept}"), format!("..%2f{kept}.svg")]
    {
        assert_eq!(ask(scene.http, "GET", &format!("/stacks/{name}"), &[("Cookie", &admin)], "").status, 404, "{name}");
    }
    let number = scene.begins_stacks(&admin, &format!("by={by}&client=123456"));
    let nobody = scene.last_stacks(&admin, &number);
    assert!(nobody["error"].as_str().is_some_and(|why| why.contains("no server at this moment")), "{nobody}");
    assert_eq!(scene.order(&admin, "stacks", "by=strace").status, 422);
    for what in ["this process".to_owned(), format!("the backend of client {client}")] {
        let said = format!("page: \"postgres\" samples stacks of {what} by {by}");
        eventually(&said, || scene.stage.pooler.log().contains(&said));
    }
    drop(busy);
    scene.stage.assert_healthy();
}

/// What `look` gives, while clients and other requests of the page are served.
fn while_it_serves<T>(scene: &Scene, admin: &str, look: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let serves = || {
            let mut client = scene.stage.client();
            while !is_done.load(Ordering::Relaxed) {
                assert_eq!(client.query("select 'well'").expect("it is served").value(), Some("well"));
            }
        };
        let answers = || {
            while !is_done.load(Ordering::Relaxed) {
                assert_eq!(scene.api(admin, "show/CLASSES").status, 200);
                // The workers are to be seen, and not only who answers this.
                thread::sleep(Duration::from_millis(100));
            }
        };
        let serving: Vec<_> = (0..3).map(|_| scope.spawn(serves)).collect();
        let all = serving.into_iter().chain([scope.spawn(answers)]);
        // They end also if it panics.
        let looked = panic::catch_unwind(AssertUnwindSafe(look));
        is_done.store(true, Ordering::Relaxed);
        all.for_each(|one| one.join().expect("each answer is right"));
        looked.unwrap_or_else(|why| panic::resume_unwind(why))
    })
}

/// The charts have nothing to show, and say so; the console's tables need no observer.
#[test]
fn without_an_observer_the_consoles_tables_are_shown() {
    let mut scene = scene("blind", &[("observe_interval", "0")]);
    let admin = scene.session("postgres", ADMIN);
    let mut client = scene.stage.client();
    client.query("select 1").expect("served");
    let json = |path: &str| -> serde_json::Value {
        let answer = scene.api(&admin, path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).expect("JSON")
    };
    assert_eq!(json("me")["interval"], 0.0);
    assert_eq!(json("hour")["at"], serde_json::json!([]));
    for table in ["CLIENTS", "QUERIES", "CLASSES"] {
        assert!(json(&format!("show/{table}"))["total"].as_u64().is_some_and(|rows| rows > 0), "{table}");
    }
    assert_eq!(json("show/ACTIVITY")["total"], 0);
    assert_eq!(json("stacks?client=1")["perf"], false, "nobody knows which backend it has");
    if let Some(chromium) = chromium() {
        let (url, pooler, folder) = (scene.origin(), scene.stage.url(), scene.pictures());
        let arguments = [&chromium, &url, "postgres", "page secret+&%", &pooler, &folder, "blind"];
        println!("{}", outer::python("page.py", &arguments).unwrap_or_else(|wrote| panic!("{wrote}")));
    }
    scene.stage.assert_healthy();
}

/// A past second says who waited behind whom, by the client's tag.
#[test]
fn a_second_of_the_past_names_the_culprit() {
    let scene = scene("past", &[("observe_tags", "controller")]);
    let admin = scene.session("postgres", ADMIN);
    let _ = scene.stage.direct("create table items (id int primary key, n int); insert into items values (7, 0)");
    let mut holder = scene.stage.client();
    holder.query("begin").expect("served");
    holder.query("/*controller:imports*/ update items set n = 1 where id = 7").expect("served");
    let mut waiter = scene.stage.client();
    waiter.send(&outer::frontend::query("/*controller:checkout*/ update items set n = 2 where id = 7")).expect("sent");
    let tree = || scene.api(&admin, "show/LOCKS").body;
    eventually("the tree has both", || tree().contains("checkout") && tree().contains("imports"));
    let json = |path: &str| -> serde_json::Value { serde_json::from_str(&scene.api(&admin, path).body).expect("JSON") };
    // The tree was looked at when it was asked for; a second of the hour has it once it is over.
    let mut seen = None;
    eventually("a second has it", || {
        let hour = json("hour");
        let Some(at) = hour["at"].as_array().and_then(|list| list.last()) else { return false };
        let second = json(&format!("moment?at={at}"));
        let groups = second["groups"].as_array().into_iter().flatten();
        seen = groups.clone().find(|group| group["wait_class"] == "Lock").cloned().map(|waits| (at.clone(), waits));
        seen.is_some()
    });
    let (at, waits) = seen.expect("it was seen");
    assert_eq!(waits["who"]["tags"], "controller=checkout");
    assert_eq!(waits["behind"]["tags"], "controller=imports");
    assert!(waits["behind"]["statement"].as_str().is_some_and(|text| text.contains("update items")), "{waits}");
    let stats = scene.session("joe", "look-only");
    let second = scene.api(&stats, &format!("moment?at={at}")).body;
    let second: serde_json::Value = serde_json::from_str(&second).expect("JSON");
    let groups = second["groups"].as_array().into_iter().flatten();
    assert!(groups.clone().any(|group| group["wait_class"] == "Lock"), "{second}");
    for one in groups.chain(second["worst"].as_array().into_iter().flatten()) {
        for private in ["behind", "blocker", "root"] {
            assert!(one[private].is_null(), "{private} is for administrators: {one}");
        }
    }
    holder.query("rollback").expect("served");
    waiter.answer().expect("served");
}

/// The page's report is the document of `pgweir report`, by the rights of the page's user.
#[test]
fn a_report_of_what_is_shown_is_saved_by_those_who_may_see_it() {
    let scene = scene("saved", &[]);
    let (admin, stats) = (scene.session("postgres", ADMIN), scene.session("joe", "look-only"));
    let mut holder = scene.stage.client();
    let _ = scene.stage.direct("create table items (id int primary key)");
    for sql in ["set application_name = 'nightly'", "begin", "lock items"] {
        assert_eq!(holder.query(sql).expect("served").errors, []);
    }
    let mut waiter = scene.stage.client();
    waiter.send(&outer::frontend::query("select from items /*controller:carts*/")).expect("sent");
    let mut last = 0;
    eventually("a second has both", || {
        let hour: serde_json::Value = serde_json::from_str(&scene.api(&admin, "hour").body).expect("JSON");
        last = hour["at"].as_array().and_then(|list| list.last()).and_then(serde_json::Value::as_u64).unwrap_or(0);
        scene.api(&admin, &format!("moment?at={last}")).body.contains("\"locks\":[{")
    });
    let asked = |session: &str, from: u64, to: u64| scene.api(session, &format!("report?from={from}&to={to}"));
    let document = asked(&admin, last - 5, last);
    assert_eq!((document.status, document.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(document.header("content-disposition").is_some_and(|words| words.starts_with("attachment")));
    assert!(document.body.contains("select from items") && document.body.contains("nightly"), "{}", document.body);
    let hidden = asked(&stats, last - 5, last);
    assert_eq!(hidden.status, 200);
    assert!(!hidden.body.contains("select from items") && !hidden.body.contains("lock items"), "{}", hidden.body);
    let before = asked(&admin, 5, 10);
    assert_eq!(before.status, 404);
    assert!(before.body.contains("the history reaches from "), "{}", before.body);
    assert_eq!(asked(&admin, 0, last).status, 422, "seven days at most");
    let week = asked(&admin, last - 7 * 86_400, last);
    assert!(week.status == 200 && week.body.contains("select from items"), "{}", week.body);
    assert_eq!(
        ask(scene.http, "GET", &format!("/api/report?from={last}&to={last}"), &[], "").status,
        403,
        "no script of the page asks"
    );
    holder.query("rollback").expect("served");
    waiter.answer().expect("served");
}

#[test]
fn guessing_is_slow() {
    let scene = scene("guess", &[]);
    let wrong: Vec<u16> = (0..3).map(|_| scene.log_in("postgres", "guess").status).collect();
    assert_eq!(wrong, [401; 3], "people mistype");
    // From here on each wrong one costs twice as long as the one before. One that a slow machine sends when its wait is over makes the next wait longer,
    // which is a minute in the end. The tests of page/src/attempts.rs prove when each may try again.
    let refused = (0..20).find_map(|_| {
        assert!(matches!(scene.log_in("postgres", "guess").status, 401 | 429));
        Some(scene.log_in("postgres", ADMIN)).filter(|answer| answer.status != 204)
    });
    let answer = refused.expect("also who has the right one has to wait");
    assert_eq!(answer.status, 429);
    assert!(answer.header("retry-after").is_some());
    let begun = Instant::now();
    while scene.log_in("postgres", ADMIN).status != 204 {
        assert!(begun.elapsed() < Duration::from_secs(300), "it may never try again");
        thread::sleep(Duration::from_millis(20));
    }
    let said = "page: login refused: wrong password or no right, user \"postgres\" from 127.0.0.1";
    eventually(said, || scene.stage.pooler.log().contains(said));
}

#[test]
fn huge_and_many_strangers_keep_nobody_out() {
    let mut scene = scene("many", &[]);
    let session = scene.session("postgres", ADMIN);
    let huge = "x".repeat(1 << 20);
    let mut stream = TcpStream::connect(scene.http).expect("it listens");
    let head = format!(
        "POST /login HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {1}\r\n\r\n",
        scene.http,
        huge.len()
    );
    stream.write_all(head.as_bytes()).expect("it is read");
    // It may be closed in the midst.
    let _ = stream.write_all(huge.as_bytes());
    let (before, _) = scene.stage.pooler.resident_kb();
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(scene.http).expect("it listens")).collect();
    let slow: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(scene.http).expect("it listens");
            let _ = stream.write_all(b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nuser=");
            stream
        })
        .collect();
    // monitor/tests/strangers.rs proves that this answer does not wait until these connections are closed.
    assert_eq!(scene.api(&session, "show/CLASSES").status, 200);
    for path in ["show/POOLS;", "show/POOLS%20LIKE%20'x'", "show/..%2f", &format!("show/{}", "A".repeat(4000))] {
        assert_eq!(scene.api(&session, path).status, 404, "{path:.40}");
    }
    for path in [
        "moment?at=99999999999999999999",
        "moment?at=18446744073709551615",
        "client/x",
        "hour?since=-1",
        "waits?from=1",
    ] {
        assert!(matches!(scene.api(&session, path).status, 400 | 404), "{path}");
    }
    let (after, _) = scene.stage.pooler.resident_kb();
    assert!(after < before + 16 * 1024, "from {before} kB to {after} kB");
    drop((silent, slow));
    scene.stage.assert_healthy();
}

/// Past the pooler.
fn stranger(stage: &Stage) -> Client {
    let dir = stage.cluster.socket_dir().to_str().expect("a plain path");
    let place = client::Place::of(dir, stage.cluster.port()).expect("a directory");
    Client::login(place, "postgres", "postgres").unwrap_or_else(|gone| panic!("login: {gone}"))
}

fn chromium() -> Option<String> {
    let chromium = env::var("PGWEIR_CHROMIUM").ok().filter(|path| !path.is_empty());
    if chromium.is_none() {
        println!("SKIPPED the live page in a browser: tools/chromium installs one, PGWEIR_CHROMIUM names it");
    }
    chromium
}

/// Without a Chromium it says so.
#[test]
fn a_browser_shows_it() {
    let Some(chromium) = chromium() else { return };
    let mut scene = scene("browser", &[("observe_tags", "controller"), ("default_pool_size", "8")]);
    let (url, pooler, pictures) = (scene.origin(), scene.stage.url(), scene.pictures());
    // The observer of another pooler.
    let mut other = stranger(&scene.stage);
    other.query("set application_name = 'pgweir observer'").expect("connected");
    other.send(&outer::frontend::query("select pg_sleep(3600)")).expect("sent");
    match outer::python("page.py", &[&chromium, &url, "postgres", "page secret+&%", &pooler, &pictures]) {
        Ok(said) => println!("{said}"),
        Err(wrote) => panic!("{wrote}"),
    }
    scene.stage.end_sleepers();
    drop(other);
    scene.stage.assert_healthy();
}
