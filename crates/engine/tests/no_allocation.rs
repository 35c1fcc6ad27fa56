//! A transaction allocates nothing once the pooler is warm: a counting allocator checks the whole process.

mod postgres;

use std::io::{Read, Write};

use postgres::{READY, ask, log_in, message, settings, start};

#[global_allocator]
static COUNTING: dhat::Alloc = dhat::Alloc;

const TRANSACTIONS: usize = 5000;

// The coordinator runs three times a second and may allocate. If transactions did, there would be thousands.
const BLOCKS_MAX: u64 = 100;

#[test]
fn a_transaction_allocates_nothing() {
    let profiler = dhat::Profiler::builder().testing().build();
    let (engine, address) = start(settings(1, 2));
    let mut clients: Vec<_> = (0..4).map(|_| log_in(address)).collect();
    for client in &mut clients {
        ask(client, "select 0");
    }
    let question = message(b'Q', b"select 1\x00");
    let mut answer = message(b'C', b"select 1\x00");
    answer.extend(READY);
    let mut got = vec![0; answer.len()];
    let mut serve = |count: usize| {
        for _ in 0..count {
            for client in &mut clients {
                client.write_all(&question).expect("it reads");
            }
            for client in &mut clients {
                client.read_exact(&mut got).expect("an answer");
                assert_eq!(got, answer);
            }
        }
    };
    serve(100);
    let before = dhat::HeapStats::get().total_blocks;
    serve(TRANSACTIONS / 4);
    let blocks = dhat::HeapStats::get().total_blocks - before;
    assert!(blocks <= BLOCKS_MAX, "{blocks} allocations in {TRANSACTIONS} transactions");
    drop(engine);
    drop(profiler);
}
