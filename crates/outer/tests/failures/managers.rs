//! The guide "High availability" followed to the letter: its files and scripts are read from the page and used as they are, by repmgr itself, as EFM's
//! manual says that EFM does, and with a name that moves. Only places are others: a folder of the test's own, addresses and ports of this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use demo::{Binaries, Cluster, Shutdown};
use outer::examples::{self, Block};
use outer::standby::{PRIMARY, STANDBY, give_to_account, pair, standby_of};
use outer::{Client, NameServer, Pooler, Program, Says, Stage, Wishes, eventually};

const CLIENTS: usize = 6;
const PAGE: &str = "docs/guide/high-availability.md";
const USERS: &str = "\"app\" \"secret\"\n\"dba\" \"another secret\"\n\"prober\" \"a third secret\"\n";

/// The blocks of a recipe in the guide.
fn steps(recipe: &str) -> Vec<Block> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join(PAGE)).expect("the page is in the tree");
    let blocks = examples::read(PAGE, &page).expect("a sound page");
    let steps: Vec<Block> = blocks.into_iter().filter(|block| block.setting("recipe") == Some(recipe)).collect();
    assert!(!steps.is_empty(), "{PAGE} has no recipe {recipe}");
    steps
}

/// The machine of the node that is promoted, with the files of the guide in a folder.
struct Machine {
    root: PathBuf,
    postgres: u16,
    pooler: u16,
    psql: PathBuf,
}

impl Machine {
    fn new(stage: &Stage, pooler: &Pooler) -> Machine {
        let root = PathBuf::from(format!("/tmp/outer-manager-{}-{}", std::process::id(), pooler.port));
        let psql = stage.binaries.program("psql").expect("it is needed");
        let machine = Machine { root, postgres: stage.cluster.port(), pooler: pooler.port, psql };
        for folder in ["etc/edb/efm", "usr/local/bin", "var/log/repmgr"] {
            fs::create_dir_all(machine.root.join(folder)).expect("a fresh folder");
        }
        machine
    }

    /// The text with our places.
    fn here(&self, text: &str) -> String {
        let root = self.root.display();
        let mut text = text.to_owned();
        for folder in ["/etc/", "/usr/local/", "/var/log/"] {
            text = text.replace(folder, &format!("{root}{folder}"));
        }
        // One of two poolers is down.
        let addresses = [("10.0.0.1 10.0.0.2", "127.0.0.9 127.0.0.1"), ("10.0.0.5", PRIMARY), ("10.0.0.6", STANDBY)];
        for (named, ours) in addresses {
            text = text.replace(named, ours);
        }
        text.replace("5432", &self.postgres.to_string()).replace("6432", &self.pooler.to_string())
    }

    /// Writes the files of a recipe, and gives the path of the last.
    fn write(&self, stage: &Stage, recipe: &str) -> PathBuf {
        let mut last = PathBuf::new();
        for block in steps(recipe) {
            let name = block.setting("file").expect("it is a file");
            last = self.root.join(name.trim_start_matches('/'));
            fs::write(&last, self.here(&block.text)).expect("our own folder");
            let mode = if block.text.starts_with("#!") { 0o755 } else { 0o600 };
            fs::set_permissions(&last, fs::Permissions::from_mode(mode)).expect("our own file");
        }
        give_to_account(&stage.cluster, &self.root);
        last
    }

    /// A command of a user who has this folder as home.
    fn command(&self, stage: &Stage, program: &Path) -> Command {
        let mut command = Command::new(program);
        let folders = [self.psql.parent(), program.parent()].map(|folder| folder.expect("a folder").to_owned());
        let path = std::env::join_paths(folders.into_iter().chain(["/usr/bin".into(), "/bin".into()]));
        command.env_clear().env("PATH", path.expect("no colons")).env("HOME", &self.root).current_dir(&self.root);
        command.stdin(Stdio::null());
        if let Some(account) = stage.cluster.account() {
            command.uid(account.uid).gid(account.gid);
        }
        command
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// The roles and the database of the guide, and a table.
fn prepare(stage: &Stage) {
    for (role, password) in [("app", "secret"), ("prober", "a third secret")] {
        let _ = stage.direct(&format!("create role {role} login password '{password}'"));
    }
    let _ = stage.direct("create database shop owner app");
    let _ = stage.cluster.psql("shop", "create table t (i int); alter table t owner to app").expect("a table");
}

/// Our test clients have no SCRAM. psql has.
const RULES: &str = "host shop app all trust\nhost all all all scram-sha-256\n";

/// A pooler with the guide's file of a recipe: with other places, and rules that let our clients in.
fn pooler(stage: &Stage, recipe: &str, hosts: &[(&str, &str)], names: Option<&NameServer>) -> Pooler {
    let block = steps(recipe).into_iter().find(|block| block.text.contains("[databases]")).expect("pgweir's file");
    let port = stage.cluster.port().to_string();
    let places = [
        ("port=5432", &*format!("port={port}")),
        ("6432", "{port}"),
        ("/etc/pgweir/", "{dir}/"),
        ("listen_addr = *", "listen_addr = 127.0.0.1"),
        ("auth_type = scram-sha-256", "auth_type = hba\nauth_hba_file = {dir}/hba.conf"),
    ];
    let mut ini = block.text;
    for (named, ours) in places.iter().chain(hosts) {
        assert!(ini.contains(named), "{named} is in the file");
        ini = ini.replace(named, ours);
    }
    ini += "unix_socket_dir =\n";
    let mut files = vec![("userlist.txt", USERS.to_owned()), ("hba.conf", RULES.to_owned())];
    if let Some(names) = names {
        ini += "resolv_conf = {dir}/resolv.conf\n";
        files.push(("resolv.conf", names.resolv_conf()));
    }
    Pooler::start_with(&ini, &files)
}

const BOTH: [(&str, &str); 2] = [("10.0.0.5", PRIMARY), ("10.0.0.6", STANDBY)];

/// The clients of the database that wait.
fn waiting(stage: &Stage, pooler: &Pooler) -> String {
    let url = format!("postgres://dba:another%20secret@127.0.0.1:{}/pgbouncer", pooler.port);
    let (rows, _) =
        outer::run(stage, "psql", &[&url, "-At", "-c", "show pools"]).unwrap_or_else(|wrote| panic!("{wrote}"));
    let row = rows.lines().find(|row| row.starts_with("shop|")).expect("a pool");
    row.split('|').nth(3).expect("a column").to_owned()
}

/// Clients of the application, each of which has written once.
fn clients(pooler: &Pooler) -> Vec<Client> {
    let write = |_| {
        let login = Client::login(pooler.address(), "app", "shop");
        let mut client = login.unwrap_or_else(|gone| panic!("{gone}: {}", pooler.log()));
        insert(&mut client);
        client
    };
    (0..CLIENTS).map(write).collect()
}

fn insert(client: &mut Client) {
    let answer = client.query("insert into t values (1)").unwrap_or_else(|gone| panic!("{gone}"));
    assert!(answer.errors.is_empty(), "{answer:?}");
}

/// Has each client write while there is no primary, and `promote` meanwhile. All are served, and none gets an error.
fn writes_meanwhile(stage: &Stage, pooler: &Pooler, clients: Vec<Client>, standby: &Cluster, promote: impl FnOnce()) {
    let writing: Vec<_> = clients.into_iter().map(|mut client| thread::spawn(move || insert(&mut client))).collect();
    eventually("all wait", || waiting(stage, pooler) == CLIENTS.to_string());
    promote();
    for client in writing {
        client.join().unwrap_or_else(|_| panic!("a client got an error: {}", pooler.log()));
    }
    let rows = standby.psql("shop", "select count(*) from t").expect("it answers");
    assert_eq!(rows, (2 * CLIENTS).to_string(), "{}", pooler.log());
}

fn has_hint(pooler: &Pooler, port: u16) -> bool {
    pooler.log().contains(&format!("hint: {STANDBY}:{port} is the primary now, says the console"))
}

fn is_behind_nothing(stage: &Stage) {
    eventually("the standby has everything", || {
        stage.direct("select count(*) from pg_stat_replication where replay_lsn = pg_current_wal_lsn()") == "1"
    });
}

#[test]
fn efms_script_tells_the_pooler_which_host_was_promoted() {
    let (mut stage, standby) = pair();
    prepare(&stage);
    let pooler = pooler(&stage, "failover", &BOTH, None);
    let machine = Machine::new(&stage, &pooler);
    let _ = machine.write(&stage, "tell-poolers");
    let _ = machine.write(&stage, "pgpass");
    let properties = fs::read_to_string(machine.write(&stage, "efm")).expect("just written");
    // EFM puts the address of the new primary in place of %p, and starts the program with the words behind it.
    let call = properties.lines().find_map(|line| line.strip_prefix("script.post.promotion=")).expect("the property");
    let call = call.replace("%p", STANDBY);
    let mut words = call.split(' ');
    let mut script = machine.command(&stage, Path::new(words.next().expect("a program")));
    script.args(words);

    let clients = clients(&pooler);
    is_behind_nothing(&stage);
    stage.cluster.halt(Shutdown::Immediate).expect("it ends");
    writes_meanwhile(&stage, &pooler, clients, &standby, || {
        assert_eq!(standby.psql("postgres", "select pg_promote()").expect("it is promoted"), "t");
        let output = script.output().expect("it runs");
        let wrote = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && wrote.contains("PROMOTED"), "{wrote}");
    });
    assert!(has_hint(&pooler, machine.postgres), "{}", pooler.log());
}

#[test]
fn a_name_that_moves_to_the_instance_that_was_promoted_is_followed() {
    const NAME: &str = "shop.cluster-abc.eu-central-1.rds.amazonaws.com";
    let (mut stage, standby) = pair();
    prepare(&stage);
    let names = NameServer::start();
    let says = |address: &str| names.tell(NAME, Says::Addresses(vec![address.parse().expect("an address")]));
    says(PRIMARY);
    let pooler = pooler(&stage, "name", &[(NAME, NAME)], Some(&names));
    let clients = clients(&pooler);
    is_behind_nothing(&stage);
    stage.cluster.halt(Shutdown::Immediate).expect("it ends");
    writes_meanwhile(&stage, &pooler, clients, &standby, || {
        assert_eq!(standby.psql("postgres", "select pg_promote()").expect("it is promoted"), "t");
        says(STANDBY);
    });
}

/// A PostgreSQL that has repmgr, in a folder of its own. `None`: the test has been reported as skipped.
fn with_repmgr() -> Option<Binaries> {
    let repmgr = Program::built_by("repmgr")?;
    let repmgr = PathBuf::from(repmgr.command().get_program());
    let (bin, tree) =
        (repmgr.parent().expect("a folder"), repmgr.ancestors().nth(6).expect("usr/lib/postgresql/N/bin"));
    Some(Binaries::at(bin, Some(tree)).expect("PostgreSQL is beside it"))
}

/// Ends with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "test-full: it fetches repmgr; in the gate: efms_script_tells_the_pooler_which_host_was_promoted"]
fn repmgr_promotes_the_standby_and_tells_the_pooler() {
    const PRELOADED: (&str, &str) = ("shared_preload_libraries", "repmgr");
    let Some(binaries) = with_repmgr() else { return };
    let postgres = vec![("listen_addresses", "127.0.0.1,127.0.0.2"), PRELOADED];
    let mut stage = Stage::set_on(binaries, &Wishes { postgres, ..Wishes::default() });
    prepare(&stage);
    let _ = stage.direct("create role repmgr superuser login password 'of repmgr'");
    let _ = stage.direct("create database repmgr owner repmgr");
    // repmgr looks for the node's name among the primary's standbys, which a standby takes from here.
    let standby = standby_of(&stage, &[PRELOADED, ("cluster_name", "node2")]);
    let pooler = pooler(&stage, "failover", &BOTH, None);
    let machine = Machine::new(&stage, &pooler);
    let _ = machine.write(&stage, "tell-poolers");
    let pgpass = machine.write(&stage, "pgpass");
    let text = fs::read_to_string(&pgpass).expect("just written");
    fs::write(&pgpass, format!("{text}*:*:*:repmgr:of repmgr\n")).expect("our own file");
    let of_second = machine.write(&stage, "repmgr");
    // Its places, too: the page has Debian's.
    let folder = |cluster: &Cluster| cluster.data().display().to_string();
    let bin = stage.binaries.dir.display().to_string();
    let text = fs::read_to_string(&of_second).expect("just written");
    let text =
        text.replace("/usr/lib/postgresql/15/bin", &bin).replace("/var/lib/postgresql/15/main", &folder(&standby));
    fs::write(&of_second, &text).expect("our own file");
    let of_first = of_second.with_file_name("first.conf");
    let first = text.replace("node_id=2", "node_id=1").replace("node2", "node1").replace(STANDBY, PRIMARY);
    fs::write(&of_first, first.replace(&folder(&standby), &folder(&stage.cluster))).expect("our own file");
    give_to_account(&stage.cluster, &machine.root);

    let repmgr = |configuration: &Path, words: &[&str]| {
        let mut command = machine.command(&stage, &stage.binaries.dir.join("repmgr"));
        let output = command.arg("-f").arg(configuration).args(words).output().expect("it runs");
        let wrote = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "repmgr {words:?}: {wrote}");
    };
    repmgr(&of_first, &["primary", "register"]);
    is_behind_nothing(&stage);
    repmgr(&of_second, &["standby", "register"]);
    let mut daemon = machine.command(&stage, &stage.binaries.dir.join("repmgrd"));
    daemon
        .arg("-f")
        .arg(&of_second)
        .args(["--no-pid-file", "--daemonize=false"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _daemon = Daemon(daemon.spawn().expect("it runs"));
    let log = || fs::read_to_string(machine.root.join("var/log/repmgr/repmgr.log")).unwrap_or_default();
    eventually("repmgrd watches the primary", || log().contains("starting monitoring of node"));

    let clients = clients(&pooler);
    is_behind_nothing(&stage);
    stage.cluster.halt(Shutdown::Immediate).expect("it ends");
    // repmgrd does the rest.
    writes_meanwhile(&stage, &pooler, clients, &standby, || {});
    eventually("the pooler has the hint", || has_hint(&pooler, machine.postgres));
    println!("{}", log());
    assert!(
        pooler.log().contains(&format!("the primary is {STANDBY}:{}, epoch 2", machine.postgres)),
        "{}",
        pooler.log()
    );
}
