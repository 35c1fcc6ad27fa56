//! In the steady state a transaction allocates nothing: not when a server is idle, not when clients wait in the queue,
//! not for prepared statements that are known already.

use std::sync::Arc;

use connections::databases::{Address, Database, Host};
use machine::{Action, Actions, Event, Machine, Peer, Place, Settings};
use pooling::{Coordinator, Door, Worker};
use queueing::board::Board;
use settings::{AuthType, PoolMode};
use units::{ConnId, DoorId, Time, WorkerId};
use wire::{backend, frontend};

fn settings() -> Arc<Settings> {
    let mut settings = Settings::default();
    settings.global.login.auth_type = AuthType::Trust;
    settings.global.pools.pool_mode = PoolMode::Transaction;
    settings.global.pools.default_pool_size = settings::PoolSize::Fixed(1);
    settings.secrets.insert("ann".to_owned(), auth::Secret::parse("secret"));
    // As little as can be.
    settings.global.pools.statement_memo_size = 65_536;
    let hosts = vec![Address { host: Host::Unix("/nowhere".to_owned()), port: 5432 }];
    let database = Database::new("shop", hosts);
    settings.databases.insert("shop".to_owned(), Arc::new(database));
    Arc::new(settings)
}

/// One of each machine; mail is delivered at once.
struct World {
    door: Door,
    coordinator: Coordinator,
    worker: Worker,
    board: Board,
    actions: Actions,
    now: Time,
    /// What was sent, by connection, in order.
    sent: Vec<(ConnId, usize)>,
    adopted: Vec<ConnId>,
    opened: Vec<ConnId>,
}

impl World {
    fn new() -> World {
        let settings = settings();
        World {
            door: Door::new(DoorId(0), Arc::clone(&settings), [1; 32]),
            coordinator: Coordinator::new(1, Arc::clone(&settings)),
            worker: Worker::new(WorkerId(0), 1, settings, [2; 32]),
            board: Board::new(1),
            actions: Actions::new(),
            now: Time(1),
            sent: Vec::with_capacity(64),
            adopted: Vec::new(),
            opened: Vec::new(),
        }
    }

    fn tell(&mut self, place: Place, event: Event<'_>) {
        self.now.0 += 1;
        let machine: &mut dyn Machine = match place {
            Place::Door(_) => &mut self.door,
            Place::Coordinator => &mut self.coordinator,
            Place::Worker(_) => &mut self.worker,
        };
        machine.step(self.now, &self.board, event, &mut self.actions);
        let mut list = self.actions.take();
        let mut mails = Vec::new();
        for action in list.drain(..) {
            match action {
                Action::Send { conn, piece } => self.sent.push((conn, piece.len as usize)),
                Action::Post { mail, .. } => mails.push(mail),
                Action::Adopt { conn } => self.adopted.push(conn),
                Action::Open { conn, .. } => self.opened.push(conn),
                _ => {}
            }
        }
        self.actions.put_back(list);
        match place {
            Place::Door(_) => self.actions.clear(|buffer| self.door.recycle(buffer)),
            Place::Coordinator => self.actions.clear(drop),
            Place::Worker(_) => self.actions.clear(|buffer| self.worker.recycle(buffer)),
        }
        for mail in mails {
            self.tell(mail.place(), Event::Mail(mail));
        }
    }

    fn worker_reads(&mut self, conn: ConnId, bytes: &[u8]) {
        self.tell(Place::Worker(WorkerId(0)), Event::Received { conn, bytes });
    }

    fn login(&mut self) -> ConnId {
        let mut packet = Vec::new();
        let pairs: [(&[u8], &[u8]); 2] = [(b"user", b"ann"), (b"database", b"shop")];
        frontend::encode_startup(&mut packet, pairs);
        let conn = self.door.accept(self.now, Peer::Unix { pid: 1, uid: 1 }).expect("there is room");
        self.tell(Place::Door(DoorId(0)), Event::Received { conn, bytes: &packet });
        *self.adopted.last().expect("the session has arrived")
    }

    fn server_logs_in(&mut self) -> ConnId {
        let conn = *self.opened.last().expect("a server was asked for");
        self.tell(Place::Worker(WorkerId(0)), Event::Opened { conn, ends: None });
        let mut bytes = Vec::new();
        backend::Authentication::Ok.encode(&mut bytes);
        backend::ParameterStatus { name: b"client_encoding", value: b"UTF8" }.encode(&mut bytes);
        backend::BackendKeyData { pid: 7, secret: &[0; 4] }.encode(&mut bytes);
        backend::encode_ready(&mut bytes, backend::Status::Idle);
        self.worker_reads(conn, &bytes);
        self.tells_names(conn);
        conn
    }

    /// The server is asked whether side effects in its database have changed, and then for them; there are none.
    fn tells_names(&mut self, server: ConnId) {
        for rows in [1, 0] {
            self.sent.clear();
            let mut bytes = Vec::new();
            (0..rows).for_each(|_| backend::encode_data_row(&mut bytes, [Some(&b"1"[..]), Some(&b"1"[..])]));
            backend::encode_command_complete(&mut bytes, "SELECT");
            backend::encode_ready(&mut bytes, backend::Status::Idle);
            self.worker_reads(server, &bytes);
        }
        assert!(self.sent.is_empty(), "all was answered");
    }
}

fn query() -> Vec<u8> {
    let mut bytes = Vec::new();
    frontend::Query { text: b"select abalance from pgbench_accounts where aid = 1" }.encode(&mut bytes);
    bytes
}

fn answer(simple: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    if !simple {
        backend::encode_bind_complete(&mut bytes);
    }
    let column = backend::Column { name: "abalance", type_oid: backend::oid::INT4, type_len: 4 };
    backend::encode_row_description(&mut bytes, &[column]);
    backend::encode_data_row(&mut bytes, [Some(&b"1"[..])]);
    backend::encode_command_complete(&mut bytes, "SELECT 1");
    backend::encode_ready(&mut bytes, backend::Status::Idle);
    bytes
}

fn allocations(mut round: impl FnMut()) -> u64 {
    (0..100).for_each(|_| round());
    let counted = allocation_counter::measure(|| (0..1000).for_each(|_| round()));
    counted.count_total
}

#[test]
fn a_transaction_on_an_idle_server_allocates_nothing() {
    let mut world = World::new();
    let client = world.login();
    let server = world.server_logs_in();
    let (query, answer) = (query(), answer(true));
    let count = allocations(|| {
        world.sent.clear();
        world.worker_reads(client, &query);
        world.worker_reads(server, &answer);
        assert_eq!(world.sent, [(server, query.len()), (client, answer.len())]);
    });
    assert_eq!(count, 0);
}

#[test]
fn a_transaction_that_waited_in_the_queue_allocates_nothing() {
    let mut world = World::new();
    let first = world.login();
    let server = world.server_logs_in();
    let second = world.login();
    let (query, answer) = (query(), answer(true));
    world.worker_reads(first, &query);
    let mut turn = [first, second];
    let count = allocations(|| {
        world.sent.clear();
        world.worker_reads(turn[1], &query);
        world.worker_reads(server, &answer);
        assert_eq!(world.sent, [(turn[0], answer.len()), (server, query.len())], "the waiter is served at once");
        turn.swap(0, 1);
    });
    assert_eq!(count, 0);
}

#[test]
fn a_known_prepared_statement_allocates_nothing() {
    let mut world = World::new();
    let client = world.login();
    let server = world.server_logs_in();
    let mut bytes = Vec::new();
    let types = frontend::Parse::NO_TYPES;
    frontend::Parse { name: b"s1", query: b"select $1", types }.encode(&mut bytes);
    frontend::encode_sync(&mut bytes);
    world.worker_reads(client, &bytes);
    bytes.clear();
    backend::encode_parse_complete(&mut bytes);
    backend::encode_parameter_description(&mut bytes, &[backend::oid::TEXT]);
    backend::encode_row_description(&mut bytes, &[]);
    backend::encode_ready(&mut bytes, backend::Status::Idle);
    world.worker_reads(server, &bytes);

    let mut batch = Vec::new();
    frontend::encode_bind_prefix(&mut batch, b"", b"s1", 6).expect("short");
    batch.extend_from_slice(&[0; 6]);
    frontend::Describe { target: frontend::Target::Portal, name: b"" }.encode(&mut batch);
    frontend::Execute { portal: b"", rows_max: 0 }.encode(&mut batch);
    frontend::encode_sync(&mut batch);
    let answer = answer(false);
    let count = allocations(|| {
        world.sent.clear();
        world.worker_reads(client, &batch);
        world.worker_reads(server, &answer);
        assert_eq!(world.sent.last(), Some(&(client, answer.len())));
    });
    assert_eq!(count, 0);
}

/// A session that stays while another process takes over costs as little as any other: nothing is gathered in each round.
#[test]
fn a_round_of_an_upgrade_in_which_nobody_moves_allocates_nothing() {
    let mut world = World::new();
    let client = world.login();
    let server = world.server_logs_in();
    let mut begin = Vec::new();
    frontend::Query { text: b"begin" }.encode(&mut begin);
    let (query, mut begun, mut answered) = (query(), Vec::new(), Vec::new());
    backend::encode_command_complete(&mut begun, "BEGIN");
    backend::encode_ready(&mut begun, backend::Status::InTransaction);
    backend::encode_command_complete(&mut answered, "SELECT 1");
    backend::encode_ready(&mut answered, backend::Status::InTransaction);
    world.worker_reads(client, &begin);
    world.worker_reads(server, &begun);
    let hand_over = machine::ToCoordinator::Upgrade(Box::new(machine::upgrade::Turn::HandOver));
    world.tell(Place::Coordinator, Event::Mail(machine::Mail::ToCoordinator(hand_over)));
    let count = allocations(|| {
        world.sent.clear();
        world.worker_reads(client, &query);
        world.tell(Place::Worker(WorkerId(0)), Event::RoundEnded);
        world.worker_reads(server, &answered);
        world.tell(Place::Worker(WorkerId(0)), Event::RoundEnded);
        assert_eq!(world.sent, [(server, query.len()), (client, answered.len())]);
    });
    assert_eq!(count, 0);
}

/// Such a text is divided into names at each reading, and they lie on the heap.
#[test]
fn a_text_too_long_to_be_remembered_is_read_twice_at_most() {
    let columns: String = (0..4000).map(|number| format!(", c{number}")).collect();
    let text = format!("select nextval('s'){columns}");
    let read = allocation_counter::measure(|| {
        let summary = sql::Summary::of(&sql::Text::new(text.as_bytes(), sql::Rules::default()));
        assert!(summary.words().len() >= 4000);
    });
    let mut world = World::new();
    let client = world.login();
    let server = world.server_logs_in();
    let mut query = Vec::new();
    frontend::Query { text: text.as_bytes() }.encode(&mut query);
    let stepped = allocation_counter::measure(|| world.worker_reads(client, &query));
    assert_eq!(world.sent, [(server, query.len())]);
    let times = stepped.bytes_total / read.bytes_total;
    assert!(times <= 2, "{times} times: {} bytes, {} each", stepped.bytes_total, read.bytes_total);
}
