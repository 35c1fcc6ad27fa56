//! PgBouncer's tables: the columns of each, their order and their types, as programs that read its console expect them.
//!
//! The golden files say what is shown; this says what has to be. Columns of pgweir's own come behind PgBouncer's.

mod world;

use control::table::Type;
use control::{Detail, Show, ShowInput};

/// Of SHOW CLIENTS, SERVERS, SOCKETS and ACTIVE_SOCKETS.
const SOCKET: &str = "type:t user:t database:t replication:t state:t addr:t port:i local_addr:t local_port:i connect_time:t request_time:t \
    wait:i wait_us:i close_needed:i ptr:t link:t remote_pid:i tls:t application_name:t prepared_statements:i id:i";

const BUFFERS: &str = "recv_pos:i pkt_pos:i pkt_remain:i send_pos:i send_remain:i pkt_avail:i send_avail:i";

/// In the order of SHOW STATS: the name behind `total_`, and the one behind `avg_`.
const COUNTED: [(&str, &str); 11] = [
    ("server_assignment_count", "server_assignment_count"),
    ("xact_count", "xact_count"),
    ("query_count", "query_count"),
    ("received", "recv"),
    ("sent", "sent"),
    ("xact_time", "xact_time"),
    ("query_time", "query_time"),
    ("wait_time", "wait_time"),
    ("client_parse_count", "client_parse_count"),
    ("server_parse_count", "server_parse_count"),
    ("bind_count", "bind_count"),
];

/// Every table of PgBouncer's: t text, i int4, b int8, n numeric, a bytea.
//= pgbouncer usage.md#show-commands
fn contract() -> Vec<(&'static str, String)> {
    let numbers = |names: Vec<String>| names.iter().map(|name| format!(" {name}:n")).collect::<String>();
    let stats: Vec<String> = COUNTED.iter().map(|(name, _)| format!("total_{name}")).collect();
    let averages = COUNTED.iter().map(|(_, name)| format!("avg_{name}"));
    let stats = format!("database:t{}", numbers(stats.into_iter().chain(averages).collect()));
    let renamed = |name: &str| match name {
        "received" => "bytes_received".to_owned(),
        "sent" => "bytes_sent".to_owned(),
        other => other.to_owned(),
    };
    let totals: Vec<String> = COUNTED.iter().map(|(name, _)| renamed(name)).collect();
    let (first, last) = totals.split_at(8);
    let averages = first.iter().cloned().chain(last.iter().map(|name| format!("avg_{name}"))).collect();
    let own = |names: &str| names.to_owned();
    vec![
        ("VERSION", own("version:t")),
        ("STATE", own("key:t value:t")),
        ("CONFIG", own("key:t value:t default:t changeable:t")),
        (
            "DATABASES",
            own(
                "name:t host:t port:i database:t force_user:t pool_size:i min_pool_size:i reserve_pool_size:i server_lifetime:i pool_mode:t \
                 load_balance_hosts:t max_connections:i current_connections:i max_client_connections:i current_client_connections:i paused:i \
                 disabled:i",
            ),
        ),
        (
            "POOLS",
            own(
                "database:t user:t cl_active:i cl_waiting:i cl_active_cancel_req:i cl_waiting_cancel_req:i sv_active:i sv_active_cancel:i \
                 sv_being_canceled:i sv_idle:i sv_used:i sv_tested:i sv_login:i maxwait:i maxwait_us:i pool_mode:t load_balance_hosts:t",
            ),
        ),
        ("CLIENTS", own(SOCKET)),
        ("SERVERS", own(SOCKET)),
        ("SOCKETS", format!("{SOCKET} {BUFFERS}")),
        ("ACTIVE_SOCKETS", format!("{SOCKET} {BUFFERS}")),
        (
            "USERS",
            own("name:t pool_size:t reserve_pool_size:t pool_mode:t max_user_connections:i current_connections:i \
                 max_user_client_connections:i current_client_connections:i"),
        ),
        ("LISTS", own("list:t items:i")),
        ("STATS", stats),
        ("STATS_TOTALS", format!("database:t{}", numbers(totals.clone()))),
        ("STATS_AVERAGES", format!("database:t{}", numbers(averages))),
        ("TOTALS", own("name:t value:n")),
        ("PEERS", own("peer_id:i host:t port:i pool_size:i")),
        ("PEER_POOLS", own("peer_id:i cl_active_cancel_req:i cl_waiting_cancel_req:i sv_active_cancel:i sv_login:i")),
        ("MEM", own("name:t size:i used:i free:i memtotal:i")),
        ("DNS_HOSTS", own("hostname:t ttl:b addrs:t")),
        ("DNS_ZONES", own("zonename:t serial:b count:i")),
        (
            "FDS",
            own(
                "fd:i task:t user:t database:t addr:t port:i cancel:b link:i client_encoding:t std_strings:t datestyle:t timezone:t \
                 password:t scram_client_key:a scram_server_key:a",
            ),
        ),
    ]
}

fn letter(kind: Type) -> char {
    match kind {
        Type::Text => 't',
        Type::Int4 => 'i',
        Type::Int8 => 'b',
        Type::Numeric => 'n',
        Type::Bytea => 'a',
        Type::Bool => 'o',
    }
}

#[test]
fn each_table_begins_with_the_columns_of_pgbouncer() {
    let world = world::World::new();
    for (word, columns) in contract() {
        let (_, show) = Show::lines().flatten().find(|(name, _)| *name == word).expect("it can be shown");
        let table = show.table(&world.show_input()).expect("a table");
        let found: Vec<String> =
            table.columns.iter().map(|column| format!("{}:{}", column.name, letter(column.kind))).collect();
        let expected: Vec<&str> = columns.split_ascii_whitespace().collect();
        let shared = found.iter().take(expected.len()).map(String::as_str).collect::<Vec<_>>();
        assert_eq!(shared, expected, "SHOW {word}");
    }
}

#[test]
fn lists_has_the_rows_of_pgbouncer_in_its_order() {
    let world = world::World::new();
    let table = Show::Lists.table(&world.show_input()).expect("a table");
    let found: Vec<&str> = table.rows().filter_map(|row| row[0]).take(14).collect();
    let expected = "databases users peers pools peer_pools free_clients used_clients login_clients free_servers used_servers dns_names \
        dns_zones dns_queries dns_pending";
    assert_eq!(found, expected.split_ascii_whitespace().collect::<Vec<_>>());
}

/// The client that asked may be gone by then: its worker has panicked, or it has hung up.
#[test]
fn lists_counts_no_client_where_detailed_snapshots_show_none() {
    let mut world = world::World::new();
    for snapshot in &mut world.snapshots {
        snapshot.clients.clear();
        snapshot.servers.clear();
    }
    let used = |detail: Detail| {
        let table = Show::Lists.table(&ShowInput { detail, ..world.show_input() }).expect("a table");
        let item =
            |name: &str| table.rows().find(|row| row[0] == Some(name)).and_then(|row| row[1]?.parse::<u32>().ok());
        (item("used_clients"), item("used_servers"))
    };
    assert_eq!(used(Detail::Connections), (Some(0), Some(0)));
    assert_eq!(used(Detail::Pools), (Some(5), Some(7)), "counted by the pools");
}
