//! Programs of one session, run directly and through the pooler, where every transaction has another server and strangers have used all of
//! them: the same answers, statement by statement, with a real PostgreSQL.

use std::net::SocketAddr;

use outer::{Answer, Client, Stage, Wishes, frontend};

/// One program. A line that begins with `superuser: ` is run past the pooler; one that begins with `stranger: ` by another client, which leaves
/// after it, on each of the servers; both count for the pooler and the direct session alike.
struct Program {
    what: &'static str,
    /// Startup parameters.
    begins: &'static [(&'static str, &'static str)],
    lines: &'static [&'static str],
}

const fn program(
    what: &'static str,
    begins: &'static [(&'static str, &'static str)],
    lines: &'static [&'static str],
) -> Program {
    Program { what, begins, lines }
}

const SERVERS: u32 = 2;

fn stage() -> Stage {
    let settings = [("min_pool_size", "2"), ("chaos_rotate", "1"), ("chaos_check", "1")];
    let settings = settings.map(|(name, value)| (name, value.to_owned())).to_vec();
    let mut stage = Stage::set(&Wishes { pool: SERVERS, workers: 1, settings, ..Wishes::default() });
    drop(stage.direct(
        "do $$ begin execute format('copy (values (''local all all trust''), (''host all all 127.0.0.1/32 trust'')) to %L',
                                    current_setting('hba_file')); end $$; select pg_reload_conf()",
    ));
    outer::eventually("all servers", || stage.backends() >= SERVERS as usize);
    stage.assert_healthy();
    stage
}

/// Defines something by the pooler, which knows what it does when it has read the names in the database anew: then a session that calls it
/// keeps its server.
fn define(stage: &Stage, definition: &str, call: &str) {
    let defined = stage.client().query(definition).expect("connected");
    assert!(defined.errors.is_empty(), "{defined:?}");
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("trusted");
    outer::eventually("the names are read", || {
        let mut client = stage.client();
        client.query(call).expect("connected");
        !console.query("show pins").expect("answered").lines().is_empty()
    });
}

fn login(address: SocketAddr, begins: &[(&str, &str)]) -> Client {
    let mut client = Client::connect(address).expect("somebody listens");
    let startup: Vec<(&str, &str)> =
        [("user", "postgres"), ("database", "postgres")].into_iter().chain(begins.iter().copied()).collect();
    client.send(&frontend::startup(&startup)).expect("it is taken");
    client.answer().expect("let in");
    client
}

/// What its client sees of an answer.
fn seen(answer: Result<Answer, outer::Gone>) -> String {
    match answer {
        Ok(answer) => {
            let errors: Vec<String> =
                answer.errors.iter().map(|error| format!("{} {}", error.sqlstate, error.message)).collect();
            format!("{:?} {:?} {errors:?} {}", answer.tags, answer.rows, char::from(answer.status))
        }
        Err(gone) => format!("gone: {gone}"),
    }
}

/// Strangers that have each a server at the same time run this, and leave.
fn strangers(pooler: SocketAddr, line: &str) {
    let mut all: Vec<Client> = (0..SERVERS).map(|_| login(pooler, &[])).collect();
    for stranger in &mut all {
        stranger.query("begin").expect("connected");
    }
    for stranger in &mut all {
        let answer = stranger.query(line).expect("connected");
        assert!(answer.errors.is_empty(), "{line}: {answer:?}");
        stranger.query("commit").expect("connected");
    }
}

fn run(stage: &Stage, programs: &[Program]) {
    let direct = SocketAddr::from(([127, 0, 0, 1], stage.cluster.port()));
    let mut wrong = Vec::new();
    for program in programs {
        let (mut pooled, mut other) = (login(stage.pooler.address(), program.begins), login(direct, program.begins));
        for (number, line) in program.lines.iter().enumerate() {
            if let Some(line) = line.strip_prefix("superuser: ") {
                drop(stage.direct(line));
            } else if let Some(line) = line.strip_prefix("stranger: ") {
                strangers(stage.pooler.address(), line);
            } else {
                let (found, expected) = (seen(pooled.query(line)), seen(other.query(line)));
                if found != expected {
                    wrong.push(format!(
                        "{}, line {number}, {line}:\n    {found}\n    {expected} directly",
                        program.what
                    ));
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(stage.pooler.log().lines().all(|line| !line.contains(" FATAL ")), "{}", stage.pooler.log());
}

#[test]
fn what_a_library_keeps_in_its_server_reaches_nobody() {
    let stage = stage();
    define(&stage, "create extension isn", "select isn_weak()");
    run(
        &stage,
        &[
            program(
                "isn",
                &[],
                &["stranger: select isn_weak(true)", "select isn_weak()", "select '978-0-393-04002-1'::isbn13"],
            ),
            program("isn of its own", &[], &["select isn_weak(true)", "select isn_weak()", "select isn_weak(false)"]),
        ],
    );
}
