//! What clients make the pooler keep that stop in the midst of their login, wherever that costs most: 9,000 of them cost at most 40 MB,
//! and an honest login with TLS and SCRAM goes through meanwhile.
//!
//! `before_login.rs` has what startup packets can hold.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use outer::line::{Line, Manner, SSL_REQUEST, trusting};
use outer::{Authority, Impostor, Pooler, Slot, Stage, eventually, frontend};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::ClientConfig;

const CLIENTS: usize = 9_000;
const GROWTH_KB_MAX: u64 = 40 * 1024;

/// The growth that may remain when the clients have left: allocators keep some memory for later use.
const LEFT_KB_MAX: u64 = 10 * 1024;

/// The longest handshake message that rustls takes, and PostgreSQL's longest password.
const HELLO_LEN_MAX: usize = 0xffff;
const PASSWORD_LEN: u32 = 65_535;

/// Threads that play the strangers.
const THREADS: usize = 4;

struct Scene {
    stage: Stage,
    pooler: Pooler,
    config: Arc<ClientConfig>,
    _slot: Slot,
}

impl Scene {
    /// A pooler with TLS. Logins into `honest` are by SCRAM; those into other databases as `rules` say.
    fn set(rules: &str, more: &str) -> Scene {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("up to the maximum anybody may");
        let slot = Slot::alone();
        let (stage, ours) = Stage::encrypted();
        let config = trusting(&ours, Some("postgresql"));
        let pooler = pooler(&stage, &ours, rules, more);
        Scene { stage, pooler, config, _slot: slot }
    }

    /// Logs in while the strangers wait, who have an hour: a login that waits for them, because of a defect, times out after two minutes.
    /// How long it takes is only printed.
    fn honest_login(&self) -> Duration {
        let begun = Instant::now();
        let target = format!(
            "host=localhost port={} user=ann password=right dbname=honest sslmode=require connect_timeout=120",
            self.pooler.port
        );
        outer::psql(&self.stage, &["-d", &target, "-c", "select 1"]).expect("an honest client is let in");
        begun.elapsed()
    }

    fn attack(mut self, what: &str, act: impl Fn(&Scene, usize) -> io::Result<Line> + Sync) {
        self.honest_login();
        let (before, _) = self.pooler.resident_kb();
        let (begun, cpu) = (Instant::now(), self.pooler.cpu());
        let mut honest = Vec::new();
        let mut clients: Vec<Line> = Vec::new();
        for thousand in 0..CLIENTS / 1_000 {
            let scene = &self;
            let act = &act;
            let more: Vec<Vec<Line>> = thread::scope(|scope| {
                let play = |at: usize| {
                    scope.spawn(move || {
                        let numbers = (thousand * 1_000..(thousand + 1) * 1_000).skip(at).step_by(THREADS);
                        // The pooler may have closed the connection already.
                        numbers.filter_map(|number| act(scene, number).ok()).collect::<Vec<Line>>()
                    })
                };
                let threads: Vec<_> = (0..THREADS).map(play).collect();
                threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
            });
            clients.extend(more.into_iter().flatten());
            honest.push(self.honest_login());
        }
        let (lasted, cpu) = (begun.elapsed(), self.pooler.cpu() - cpu);
        honest.sort_unstable();
        let (usual, slowest) = (honest[honest.len() / 2], honest[honest.len() - 1]);
        let (now, most) = self.pooler.resident_kb();
        let held = self.pooler.descriptors();
        let begun_well = clients.len();
        drop(clients);
        let gone = Instant::now();
        let mut left = most;
        eventually("nearly all of the memory is given back", || {
            // A thread that has nothing to do keeps some pages of each size that it has used.
            self.honest_login();
            (left, _) = self.pooler.resident_kb();
            left.saturating_sub(before) <= LEFT_KB_MAX
        });
        println!(
            "{what}: {CLIENTS} clients in {lasted:?}, {cpu:?} of processor time, {begun_well} came so far, {held} descriptors; resident \
             {before} kB before, {} kB more in the end, {} kB more at most, {} kB more {:?} after they left; an honest login takes \
             {usual:?}, {slowest:?} at most",
            now.saturating_sub(before),
            most - before,
            left.saturating_sub(before),
            gone.elapsed(),
        );
        assert!(begun_well > CLIENTS / 2, "only {begun_well} came so far");
        assert!(most - before <= GROWTH_KB_MAX, "{} kB for clients that have proved nothing", most - before);
        assert!(self.pooler.is_alive());
    }
}

fn pooler(stage: &Stage, ours: &Authority, rules: &str, more: &str) -> Pooler {
    let (host, port, password) = (stage.cluster.host(), stage.cluster.port(), stage.cluster.password());
    let entry = format!("host={host} port={port} dbname=postgres user=postgres password={password}");
    let ini = format!(
        "[databases]\nhonest = {entry}\nevil = {entry}\n{more}\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir =\n\
         auth_type = hba\nauth_hba_file = {{dir}}/hba.conf\nauth_file = {{dir}}/users.txt\npool_mode = transaction\n\
         client_login_timeout = 3600\nmax_client_conn = 18000\nlisten_backlog = 4096\nlog_connections = 0\nlog_disconnections = 0\n\
         client_tls_sslmode = allow\nclient_tls_cert_file = {}\nclient_tls_key_file = {}\nobserve_interval = 0\n",
        ours.path("pooler.crt"),
        ours.path("pooler.key"),
    )
    .replace("{ca}", &ours.path("ca.crt"));
    let rules = format!("host honest all all scram-sha-256\n{rules}\n");
    let users = "\"ann\" \"right\"\n\"asker\" \"right\"\n".to_owned();
    Pooler::start_with(&ini, &[("users.txt", users), ("hba.conf", rules)])
}

fn startup(user: &str) -> Vec<u8> {
    frontend::startup(&[("user", user), ("database", "evil")])
}

/// A connection that has sent this and been answered by one message.
fn asked(scene: &Scene, manner: Manner, startup: &[u8]) -> io::Result<Line> {
    let mut line = Line::begin(scene.pooler.address(), manner, &scene.config, false)?;
    line.send(startup)?;
    let question = line.hear_message()?;
    assert_eq!(question[0], b'R', "it is asked for a proof: {}", question.escape_ascii());
    Ok(line)
}

/// A ClientHello of that length, without its last byte. A handshake message that is longer than a record goes on in the next.
fn half_a_hello(len: usize) -> Vec<u8> {
    let [_, high, middle, low] = u32::try_from(len - 4).expect("64 kB").to_be_bytes();
    let body = [&[1, high, middle, low][..], &vec![3; len - 5]].concat();
    let of_record = |part: &[u8]| u16::try_from(part.len().max(len.min(0x4000))).expect("16 kB").to_be_bytes();
    body.chunks(0x4000).flat_map(|part| [&[22, 3, 1][..], &of_record(part), part].concat()).collect()
}

fn sends_half_a_hello(scene: &Scene, number: usize, hello: &[u8]) -> io::Result<Line> {
    let mut line = Line::open(scene.pooler.address(), false)?;
    if number.is_multiple_of(2) {
        line.send(&SSL_REQUEST)?;
        line.hear(1)?;
    }
    line.send_bare(hello)?;
    Ok(line)
}

#[test]
#[ignore = "test-full: 9,000 clients; in the gate: half_a_client_hello_as_large_as_tls_allows, of four records"]
fn half_a_client_hello_of_a_whole_record() {
    let hello = half_a_hello(0x4000);
    let attack = |scene: &Scene, number| sends_half_a_hello(scene, number, &hello);
    Scene::set("", "[pgbouncer]").attack("half a ClientHello", attack);
}

/// Clients that may show certificates may send more.
#[test]
fn half_a_client_hello_as_large_as_tls_allows() {
    let hello = half_a_hello(HELLO_LEN_MAX);
    let attack = |scene: &Scene, number| sends_half_a_hello(scene, number, &hello);
    Scene::set("", "[pgbouncer]\nclient_tls_ca_file = {ca}").attack("half a ClientHello of 64 kB", attack);
}

#[test]
fn half_a_handshake() {
    let scene = Scene::set("", "[pgbouncer]");
    let hello = Line::hello(&scene.config);
    scene.attack("half a handshake", |scene, number| {
        let mut line = Line::open(scene.pooler.address(), false)?;
        if number % 2 == 0 {
            line.send(&SSL_REQUEST)?;
            line.hear(1)?;
        }
        line.send_bare(&hello)?;
        // The pooler's answer has begun.
        line.hear(5)?;
        Ok(line)
    });
}

#[test]
#[ignore = "test-full: 9,000 clients; in the gate: half_a_password_of_64_kb_inside_tls"]
fn half_a_password_of_64_kb() {
    let half = [&b"p"[..], &PASSWORD_LEN.to_be_bytes(), &vec![b'x'; PASSWORD_LEN as usize - 5]].concat();
    Scene::set("host evil all all password", "[pgbouncer]").attack("half a password", |scene, _| {
        let mut line = asked(scene, Manner::Clear, &startup("ann"))?;
        line.send(&half)?;
        Ok(line)
    });
}

#[test]
fn half_a_password_of_64_kb_inside_tls() {
    let half = [&b"p"[..], &PASSWORD_LEN.to_be_bytes(), &vec![b'x'; PASSWORD_LEN as usize - 5]].concat();
    Scene::set("host evil all all password", "[pgbouncer]").attack("half a password inside TLS", |scene, _| {
        let mut line = asked(scene, Manner::Direct, &startup("ann"))?;
        line.send(&half)?;
        Ok(line)
    });
}

#[test]
fn half_a_login_by_scram_inside_tls() {
    let nonce = "n".repeat(900);
    let initial =
        frontend::frame(b'p', &[&b"SCRAM-SHA-256\0\0\0\x03\x8c"[..], format!("n,,n=,r={nonce}").as_bytes()].concat());
    // As long as a startup packet may be.
    let name = "a".repeat(3_000);
    let options = format!("-c search_path={name} -c role={name}");
    let packet =
        frontend::startup(&[("user", "ann"), ("database", "evil"), ("options", &options), ("application_name", &name)]);
    Scene::set("host evil all all scram-sha-256", "[pgbouncer]").attack("half of SCRAM inside TLS", |scene, _| {
        let mut line = asked(scene, Manner::Direct, &packet)?;
        line.send(&initial)?;
        assert_eq!(line.hear_message()?[0], b'R', "a challenge");
        Ok(line)
    });
}

#[test]
fn lookups_that_nobody_answers() {
    // It lets the pooler log in, and then says nothing.
    let silent = Impostor::start(|peer| {
        peer.hear_startup()?;
        peer.say(&[frontend::frame(b'R', &[0; 4]), frontend::frame(b'Z', b"I")].concat())?;
        peer.hear_out()
    });
    let more = format!(
        "evil = host=127.0.0.1 port={} dbname=x user=asker password=right auth_user=asker\n[pgbouncer]\n",
        silent.port
    );
    let more = more.replace("evil =", "slow =");
    Scene::set("host slow all all scram-sha-256", &more).attack("a lookup that nobody answers", |scene, number| {
        let mut line = Line::open(scene.pooler.address(), false)?;
        let name = format!("{:x>60}{number}", "name");
        line.send(&frontend::startup(&[("user", &name), ("database", "slow")]))?;
        Ok(line)
    });
}

#[test]
fn refusals_that_wait() {
    let wrong = frontend::frame(b'p', b"wrong\0");
    let more = "[pgbouncer]\nauth_failure_delay = 3600";
    Scene::set("host evil all all password", more).attack("refusals that wait", |scene, number| {
        let mut line = asked(scene, Manner::Clear, &startup(&format!("{:x>60}{number}", "name")))?;
        line.send(&wrong)?;
        Ok(line)
    });
}
