//! Writes days of the history as pgweir would, and says what they took: `cargo run --profile dist -p archive --example day -- FOLDER [HOURS]`.
//!
//! busy: 100 backends of a shop, of which each second 20 do something else than the second before; 200 statements, waits of six kinds, 8 clients behind
//! a lock for ten seconds of each minute, and a queue then. idle: the same pools, and nobody does anything but one backup's statement each ten minutes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use activity::history::packed::Packer;
use activity::history::{Glance, Options, Span};
use activity::{At, History, Host, Moment, Origin, Pool, Row, Session, SessionId, Tags, Times};
use archive::{Archive, Location, Reading};
use machine::Peer;
use observe::{Ages, Backend, Blocking, Lock, LockMode, Object, State, WaitEvent};
use units::{ConnId, PoolKey, Serial, WorkerId};

const BACKENDS: i32 = 100;
const BEGIN: u64 = 1_790_000_000;

/// xorshift: the same days each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

const WAITS: [(&str, &str); 6] = [
    ("IO", "DataFileRead"),
    ("LWLock", "WALWrite"),
    ("IO", "WALSync"),
    ("Client", "ClientRead"),
    ("LWLock", "BufferContent"),
    ("IPC", "ParallelFinish"),
];

#[derive(Clone)]
struct Busy {
    statement: u64,
    wait: Option<usize>,
    since: u64,
    request: u64,
    client: u64,
}

struct Shop {
    chance: Chance,
    backends: Vec<Busy>,
    transactions: u64,
}

fn pool(name: usize) -> PoolKey {
    PoolKey { database: ["shop", "billing", "reports"][name].into(), user: ["web", "jobs", "bi"][name].into() }
}

fn statement(number: u64) -> String {
    format!(
        "select o.id, o.customer_id, o.total_{number}, c.name from orders_{} o join customers c on c.id = o.customer_id where o.shard = 17 \
         and o.state = 'open' and o.created_at > now() - interval '3 days' order by o.created_at limit {number}",
        number % 37
    )
}

impl Shop {
    fn new() -> Shop {
        let idle = Busy { statement: 0, wait: None, since: 0, request: 0, client: 0 };
        Shop { chance: Chance(0x9e37_79b9_7f4a_7c15), backends: vec![idle; BACKENDS as usize], transactions: 0 }
    }

    fn change(&mut self, second: u64) {
        for _ in 0..20 {
            let place = self.chance.below(BACKENDS as u64) as usize;
            let chance = &mut self.chance;
            let wait = chance.below(WAITS.len() as u64 * 2) as usize;
            self.backends[place] = Busy {
                statement: chance.below(200),
                wait: (wait < WAITS.len()).then_some(wait),
                since: second * 1000 - chance.below(900),
                request: chance.below(u64::MAX),
                client: chance.below(3000),
            };
        }
    }

    fn row(&mut self, place: usize, now: u64, blocking: &Blocking) -> Row {
        let busy = self.backends[place].clone();
        let pid = 40_000 + place as i32;
        let waiter = blocking.waiter(pid).cloned();
        let age = Some(Duration::from_micros((now - busy.since.min(now)) * 1000 + self.chance.below(1000)));
        let key = pool(place % 3);
        let text = format!(
            "{} /*application:shop,controller:c{},action:show,correlation_id:{:016x}*/",
            statement(busy.statement),
            busy.statement % 40,
            busy.request
        );
        let wait = match &waiter {
            Some(_) => Some(("Lock", "relation")),
            None => busy.wait.map(|wait| WAITS[wait]),
        };
        let backend = Backend {
            pid,
            kind: Some("client backend".to_owned()),
            database: Some(key.database.to_string()),
            user: Some(key.user.to_string()),
            application_name: Some("puma".to_owned()),
            client_addr: Some("10.0.0.7".to_owned()),
            state: Some(State::Active),
            wait: wait.map(|(class, event)| WaitEvent { class: class.to_owned(), event: event.to_owned() }),
            ages: Ages { backend: Some(Duration::from_secs(3600)), transaction: age, query: age, state: age },
            xmin_age: Some(4),
            query_id: None,
            query: Some(text.clone()),
            usage: None,
        };
        let client = u32::try_from(busy.client).expect("few");
        let address =
            |port: u32| SocketAddr::from(([10, 1, (client % 20) as u8, (client % 250) as u8], (20_000 + port) as u16));
        let session = Session {
            id: SessionId {
                serial: Serial(client as i32 + 1),
                name: ConnId::from_bits(u64::from(client)),
                worker: WorkerId(0),
                conn: ConnId::from_bits(u64::from(client)),
            },
            peer: Peer::Tcp { from: address(client), to: SocketAddr::from(([10, 0, 0, 1], 6432)) },
            pool: key,
            application_name: "puma".to_owned(),
            class: "default".into(),
            fingerprint: Some(busy.statement.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            times: Times {
                queued: Duration::from_micros(self.chance.below(300)),
                transaction: age,
                ..Times::default()
            },
            keeps: None,
            kept_for: None,
            text: None,
        };
        let behind = blocking.count_behind(pid);
        let tags = Tags::of(text.as_bytes());
        Row {
            host: Some(0),
            backend: Some(Arc::new(backend)),
            session: Some(session),
            origin: Origin::Client,
            tags,
            waiter,
            behind,
        }
    }

    fn busy(&mut self, second: u64) -> Moment {
        self.change(second);
        let now = second * 1000 + self.chance.below(5);
        let waited = second % 60;
        let locks: Vec<Lock> = if waited < 10 {
            let lock = |pid, mode, waiting| Lock {
                pid,
                leader_pid: None,
                object: Object { kind: "relation".into(), key: "16384".into(), name: Some("orders".into()) },
                mode,
                waiting,
            };
            let waiters = (1..9).map(|place| {
                lock(
                    40_000 + place,
                    LockMode::RowExclusive,
                    Some(Duration::from_micros(waited * 1_000_000 + self.chance.below(999))),
                )
            });
            let waiters: Vec<Lock> = waiters.collect();
            std::iter::once(lock(40_000, LockMode::AccessExclusive, None)).chain(waiters).collect()
        } else {
            Vec::new()
        };
        let blocking = Blocking::of(&locks);
        let rows = (0..BACKENDS as usize).map(|place| self.row(place, now, &blocking)).collect();
        self.transactions += 3000 + self.chance.below(500);
        self.moment(At(now), rows, blocking, if waited < 10 { 12 } else { 0 })
    }

    fn idle(&mut self, second: u64) -> Moment {
        let now = second * 1000 + self.chance.below(5);
        let rows = if second % 600 < 20 { vec![self.row(0, now, &Blocking::default())] } else { Vec::new() };
        if second.is_multiple_of(15) {
            self.transactions += 1;
        }
        self.moment(At(now), rows, Blocking::default(), 0)
    }

    fn moment(&mut self, at: At, rows: Vec<Row>, blocking: Blocking, waiting: u32) -> Moment {
        let (chance, transactions) = (&mut self.chance, self.transactions);
        let busy = rows.len() as u32;
        let pools = (0..3).map(|name| {
            let seen = Pool {
                clients: 1000,
                waiting: if name == 0 { waiting } else { 0 },
                oldest_wait: Duration::from_millis(u64::from(waiting) * 80),
                servers_active: busy / 3,
                servers_idle: 34 - busy / 3,
                transactions: transactions * (3 - name as u64),
                queries: transactions * 4,
                received: transactions * 811 + if busy > 1 { chance.below(10_000) } else { 0 },
                sent: transactions * 5003 + if busy > 1 { chance.below(10_000) } else { 0 },
                wait_us: transactions * 7,
                ..Pool::default()
            };
            (pool(name), seen)
        });
        let pools = pools.collect();
        let hosts = vec![Host { address: "db1:5432".into(), blocking, ..Host::default() }];
        Moment { at, hosts, rows, pools }
    }
}

/// Of all files, bytes.
fn len(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).expect("it was made");
    files.map(|file| file.and_then(|file| file.metadata()).expect("it is there").len()).sum()
}

fn options() -> Options {
    let tags = ["application", "controller", "action"].map(Into::into).to_vec();
    Options { tags, ..Options::default() }
}

fn write(folder: &Path, seconds: u64, kind: fn(&mut Shop, u64) -> Moment, name: &str) -> PathBuf {
    std::fs::create_dir_all(folder).expect("a folder");
    let path = folder.join("history");
    let place = Location { path: path.clone(), size_max: 1 << 30 };
    let archive = Archive::open(place, |_, text| println!("{text}")).expect("a thread");
    let (mut shop, mut history) = (Shop::new(), History::new(options()));
    let (mut kept, mut raw) = (Duration::ZERO, 0);
    let mut hour = Vec::new();
    for second in 0..seconds {
        let moment = Arc::new(kind(&mut shop, BEGIN + second));
        let begun = Instant::now();
        history.push(moment);
        let (at, bytes) = history.stored().expect("it has one");
        kept += begun.elapsed();
        raw += bytes.len();
        if hour.len() < 3600 {
            hour.push((at, bytes.clone()));
        }
        while !archive.add(at, bytes.clone()) {
            thread::yield_now();
        }
    }
    while archive.written().seconds < seconds {
        thread::yield_now();
    }
    let mut packer = Packer::new().expect("memory");
    let begun = Instant::now();
    for (at, bytes) in &hour {
        packer.pack(*at, bytes).expect("memory");
    }
    let packed = begun.elapsed() / u32::try_from(hour.len()).expect("an hour");
    let (disk, per) = (len(folder), |bytes: u64| bytes / seconds);
    let day = per(disk * 86_400) / 1_000_000;
    println!(
        "{name}: a second has {} bytes, {} on disk: {day} MB a day; kept and stored in {:?}, packed in {packed:?}",
        per(raw as u64),
        per(disk),
        kept / u32::try_from(seconds).expect("days"),
    );
    path
}

fn read(path: &Path, name: &str, from: u64, to: u64) {
    let begun = Instant::now();
    let mut reading = Reading::of(path, Span { from: At(from * 1000), to: At(to * 1000 - 1) });
    let mut seconds = 0;
    while let Some(part) = reading.next_part() {
        seconds += part.seconds().len();
    }
    println!("{name}: {seconds} s read in {:?}; {:?}", begun.elapsed(), reading.complaints);
}

fn glance(path: &Path, name: &str, from: u64, to: u64) {
    let begun = Instant::now();
    let mut reading = Reading::of(path, Span { from: At(from * 1000), to: At(to * 1000 - 1) });
    let mut samples = 0;
    while let Some((_, bytes)) = reading.next_second() {
        samples += Glance::of(&bytes).expect("ours").classes.values().sum::<u32>();
    }
    println!("{name}: {samples} samples counted in {:?}", begun.elapsed());
}

fn main() {
    let mut words = std::env::args().skip(1);
    let folder = PathBuf::from(words.next().expect("a folder"));
    let seconds = words.next().map_or(86_400, |hours| hours.parse::<u64>().expect("hours") * 3600);
    let idle = write(&folder.join("idle"), seconds, Shop::idle, "idle");
    let busy = write(&folder.join("busy"), seconds, Shop::busy, "busy");
    for (path, name) in [(&idle, "idle"), (&busy, "busy")] {
        let middle = BEGIN + seconds / 2;
        read(path, &format!("{name}, a minute of the middle"), middle, middle + 60);
        read(path, &format!("{name}, an hour of the middle"), middle, (middle + 3600).min(BEGIN + seconds));
        read(path, &format!("{name}, all"), BEGIN, BEGIN + seconds);
        glance(path, &format!("{name}, all at a glance"), BEGIN, BEGIN + seconds);
    }
}
