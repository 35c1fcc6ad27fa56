//! What one user of the pooler defines, or somebody past it: a setting that it leaves behind inside reaches no stranger in
//! another user's pool.

use std::time::{Duration, Instant};

use outer::{Answer, Client, Pooler, Stage, Wishes};

/// Two entries and two users of one database, on two workers.
struct Pools {
    pooler: Pooler,
    stage: Stage,
}

impl Pools {
    fn new(settings: &str, owner: &str) -> Pools {
        let stage = Stage::set(&Wishes::default());
        let password = stage.cluster.password();
        drop(stage.direct(&format!("create role app login password '{password}'")));
        let place = format!("host={} port={}", stage.cluster.host(), stage.cluster.port());
        let ini = format!(
            "[databases]\nowner = {place} dbname=postgres {owner}\napp = {place} dbname=postgres\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir =\nauth_type = trust\n\
             auth_file = {{dir}}/users.txt\npool_mode = transaction\ndefault_pool_size = 4\nworkers = 2\n\
             admin_users = postgres\n{settings}\n"
        );
        let users = format!("\"postgres\" \"{password}\"\n\"app\" \"{password}\"\n");
        Pools { pooler: Pooler::start(&ini, &users, None), stage }
    }

    fn client(&self, user: &str, entry: &str) -> Client {
        Client::login(self.pooler.address(), user, entry).unwrap_or_else(|gone| panic!("login: {gone}"))
    }
}

fn run(client: &mut Client, sql: &str) -> Answer {
    let answer = client.query(sql).expect("the server is there");
    assert!(answer.errors.is_empty(), "{sql}: {:?}", answer.errors);
    answer
}

/// In how many of 16 transactions a stranger reads the setting.
fn leaks(client: &mut Client) -> usize {
    let read = |_| run(client, "select current_setting('app.x', true)").value().unwrap_or_default().to_owned();
    (0..16).map(read).filter(|value| !value.is_empty()).count()
}

/// What defines it, and what calls it then.
const DEFINITIONS: [(&str, &str, &str); 6] = [
    (
        "function",
        "create function sets() returns int language plpgsql as
            $$ begin perform set_config('app.x', 'secret', false); return 1; end $$",
        "select sets()",
    ),
    (
        "view",
        "create view sets_too as select set_config('app.x', 'secret', false);
            grant select on sets_too to app",
        "select * from sets_too",
    ),
    (
        "policy",
        "create table guarded as select 1 as a;
            grant all on guarded to app;
            alter table guarded enable row level security;
            create policy p on guarded using (set_config('app.x', 'secret', false) is not null)",
        "select * from guarded",
    ),
    (
        "trigger",
        "create table watched (a int);
            grant all on watched to app;
            create function fires() returns trigger language plpgsql as
                $$ begin perform set_config('app.x', 'secret', false); return new; end $$;
            create trigger t before insert on watched for each row execute function fires()",
        "insert into watched values (1)",
    ),
    (
        "default",
        "create table filled (a int, b text default set_config('app.x', 'secret', false));
            grant all on filled to app",
        "insert into filled (a) values (1)",
    ),
    (
        "block",
        "do $do$ begin
            execute 'create function made() returns text language sql as $$select set_config(''app.x'', ''secret'', false)$$';
         end $do$",
        "select made()",
    ),
];

/// `keeps`: the texts are read, so that what is set also follows its own session.
fn nothing_crosses(owner: &str, keeps: bool) {
    let pools = Pools::new("", owner);
    let mut migration = pools.client("postgres", "owner");
    let (mut user, mut stranger) = (pools.client("app", "app"), pools.client("app", "app"));
    run(&mut user, "select 1");
    run(&mut migration, "select 1");
    for (kind, definition, call) in DEFINITIONS {
        run(&mut migration, definition);
        run(&mut user, call);
        assert_eq!(leaks(&mut stranger), 0, "{kind}");
        if keeps && kind != "block" {
            assert_eq!(run(&mut user, "select current_setting('app.x', true)").value(), Some("secret"), "{kind}");
        }
        run(&mut user, "reset app.x");
    }
}

#[test]
fn what_another_user_defines_crosses_to_nobody() {
    nothing_crosses("", true);
}

#[test]
fn what_is_defined_where_texts_are_not_read_crosses_to_nobody() {
    nothing_crosses("pool_mode=session", false);
}

#[test]
fn what_a_transaction_defines_crosses_to_nobody() {
    let pools = Pools::new("", "");
    let mut migration = pools.client("postgres", "owner");
    run(&mut migration, "begin");
    run(&mut migration, DEFINITIONS[0].1);
    // Its pool is opened, and its catalogue read, while nobody else can see the function.
    let (mut user, mut stranger) = (pools.client("app", "app"), pools.client("app", "app"));
    run(&mut user, "select 1");
    run(&mut migration, "commit");
    run(&mut user, DEFINITIONS[0].2);
    assert_eq!(leaks(&mut stranger), 0);
    // And when all has been read.
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        run(&mut user, DEFINITIONS[0].2);
        assert_eq!(leaks(&mut stranger), 0);
    }
}

#[test]
fn what_is_defined_past_the_pooler_crosses_for_a_moment_only() {
    let pools = Pools::new("", "");
    let (mut user, mut stranger) = (pools.client("app", "app"), pools.client("app", "app"));
    run(&mut user, "select 1");
    drop(pools.stage.direct(DEFINITIONS[0].1));
    let begun = Instant::now();
    run(&mut user, DEFINITIONS[0].2);
    println!("{} of 16 at first", leaks(&mut stranger));
    let mut last = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(8) {
        run(&mut user, DEFINITIONS[0].2);
        if leaks(&mut stranger) > 0 {
            last = begun.elapsed();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("for the last time after {last:?}");
    assert!(last < Duration::from_secs(4), "{last:?}");
}
