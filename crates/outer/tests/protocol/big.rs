//! Large values and slow readers pass with the pooler's memory bounded.

use std::time::Instant;

use outer::{Client, Stage, Wishes, frontend};

const MB: usize = 1024 * 1024;
/// How much the pooler may grow, whichever data its clients send or fail to read.
const GROWTH_KB_MAX: u64 = 8 * 1024;

/// Reads and drops messages until `rows` DataRows have come.
fn skip_rows(client: &mut Client, mut rows: usize) {
    while rows > 0 {
        let (tag, length) = client.header().expect("the result comes");
        client.discard(length).expect("the result comes");
        assert_ne!(tag, b'E', "an error instead of the result");
        rows -= usize::from(tag == b'D');
    }
}

/// Reads and drops messages up to ReadyForQuery. Returns the length of all DataRows.
fn drain(client: &mut Client) -> usize {
    let mut total = 0;
    loop {
        let (tag, length) = client.header().expect("the result comes whole");
        client.discard(length).expect("the result comes whole");
        match tag {
            b'D' => total += length,
            b'Z' => return total,
            b'E' => panic!("an error instead of the result"),
            _ => {}
        }
    }
}

#[test]
fn a_value_of_300_mb_comes_down_in_bounded_memory() {
    let mut stage = Stage::set(&Wishes { pool: 2, ..Wishes::default() });
    let mut client = stage.client();
    client.query("select 1").expect("served");
    let (before, _) = stage.pooler.resident_kb();
    let begun = Instant::now();
    client.send(&frontend::query("select repeat('x', 300 * 1024 * 1024)")).expect("connected");
    let received = drain(&mut client);
    let (_, most) = stage.pooler.resident_kb();
    println!("{received} bytes down in {:?}; resident {before} kB before, {most} kB at most", begun.elapsed());
    assert_eq!(received, 300 * MB + 6, "the value, its length, and the count of columns");
    assert!(most < before + GROWTH_KB_MAX);
    stage.assert_healthy();
}

#[test]
fn a_value_of_300_mb_goes_up_in_bounded_memory() {
    let mut stage = Stage::set(&Wishes { pool: 2, ..Wishes::default() });
    let mut client = stage.client();
    client.query("select 1").expect("served");
    let (before, _) = stage.pooler.resident_kb();
    let begun = Instant::now();
    let length = u32::try_from(300 * MB).expect("fits");
    // Bind by hand: portal and statement unnamed, no formats, one value, no result formats.
    let head =
        [&[b'B'][..], &(length + 4 + 1 + 1 + 2 + 2 + 4 + 2).to_be_bytes(), &[0, 0, 0, 0, 0, 1], &length.to_be_bytes()];
    client.send(&[frontend::parse("", "select length($1::text)"), head.concat()].concat()).expect("connected");
    let chunk = vec![b'y'; MB];
    for _ in 0..300 {
        client.send(&chunk).expect("the pooler keeps reading");
    }
    client.send(&[vec![0, 0], frontend::execute(), frontend::sync()].concat()).expect("connected");
    let answer = client.answer().expect("served");
    let (_, most) = stage.pooler.resident_kb();
    println!("300 MB up in {:?}; resident {before} kB before, {most} kB at most", begun.elapsed());
    assert_eq!(answer.value(), Some("314572800"), "{:?}", answer.errors);
    assert!(most < before + GROWTH_KB_MAX);
    stage.assert_healthy();
}

#[test]
fn a_slow_reader_stops_the_sender_and_nobody_else() {
    let mut stage = Stage::set(&Wishes { pool: 2, ..Wishes::default() });
    let mut other = stage.client();
    other.query("select 1").expect("served");
    let (before, _) = stage.pooler.resident_kb();
    let mut slow = stage.client();
    let sql = "select repeat('x', 1000) from generate_series(1, 200000)";
    slow.send(&frontend::query(sql)).expect("connected");
    skip_rows(&mut slow, 1000);
    let waits = "select count(*) from pg_stat_activity where wait_event = 'ClientWrite'";
    outer::eventually("PostgreSQL itself waits until somebody reads", || stage.direct(waits) == "1");
    // Nobody reads until all of the other client's queries are answered, so none of them waits for that.
    let begun = Instant::now();
    for number in 0..1000 {
        let answer = other.query(&format!("select {number}")).expect("served");
        assert_eq!(answer.value(), Some(number.to_string().as_str()));
    }
    let took = begun.elapsed();
    assert_eq!(stage.direct(waits), "1", "it still does");
    let (_, most) = stage.pooler.resident_kb();
    let rest = drain(&mut slow);
    println!(
        "slow reader: {before} kB before, {most} kB at most; {rest} bytes later; meanwhile 1,000 queries in {took:?}"
    );
    assert!(most < before + GROWTH_KB_MAX);
    // A DataRow has the count of columns (2 bytes), the length of the value (4 bytes) and its 1,000 bytes.
    assert_eq!(rest, 199_000 * 1006);
    stage.assert_healthy();
}

#[test]
fn slow_readers_by_the_hundred_in_bounded_memory() {
    let mut stage = Stage::set(&Wishes { pool: 100, max_connections: 120, ..Wishes::default() });
    let mut other = stage.client();
    other.query("select 1").expect("served");
    let (before, _) = stage.pooler.resident_kb();
    let mut slow: Vec<Client> = (0..90).map(|_| stage.client()).collect();
    for client in &mut slow {
        client.send(&frontend::query("select repeat('x', 1000000) from generate_series(1, 50)")).expect("connected");
    }
    outer::eventually("all have stopped", || {
        stage.direct("select count(*) from pg_stat_activity where wait_event = 'ClientWrite'") == "90"
    });
    let (_, most) = stage.pooler.resident_kb();
    let each = (most.saturating_sub(before)) / 90;
    println!("90 clients that do not read 50 MB each: {before} kB before, {most} kB at most, {each} kB each");
    assert_eq!(other.query("select 'on time'").expect("served").value(), Some("on time"));
    assert!(each <= 512, "a client's share of memory is bounded");
    drop(slow);
    stage.assert_healthy();
}

/// Each text has names of its own: none is like another to what remembers the meaning of texts (`statement_memo_size`).
#[test]
fn a_hundred_thousand_texts_in_bounded_memory() {
    const AT_ONCE: usize = 100;
    let mut stage = Stage::set(&Wishes { pool: 2, ..Wishes::default() });
    let mut client = stage.client();
    client.query("select 1").expect("served");
    let (before, _) = stage.pooler.resident_kb();
    let begun = Instant::now();
    for batch in 0..100_000 / AT_ONCE {
        let text =
            |index: usize| format!("select {index} as a_column_{batch}_{index}, {batch} as another_{index}_{batch}");
        let queries: Vec<Vec<u8>> = (0..AT_ONCE).map(|index| frontend::query(&text(index))).collect();
        client.send(&queries.concat()).expect("connected");
        for index in 0..AT_ONCE {
            let answer = client.answer().expect("served");
            assert_eq!(answer.value(), Some(index.to_string().as_str()), "{:?}", answer.errors);
        }
    }
    let (_, most) = stage.pooler.resident_kb();
    println!("100,000 texts in {:?}; resident {before} kB before, {most} kB at most", begun.elapsed());
    assert!(most < before + GROWTH_KB_MAX);
    stage.assert_healthy();
}

#[test]
fn large_statements_are_prepared_again_a_few_at_a_time() {
    const BINDS: usize = 200;
    let settings = vec![("max_prepared_statements", "1".to_owned())];
    let mut stage = Stage::set(&Wishes { pool: 1, settings, ..Wishes::default() });
    let mut client = stage.client();
    // A comment: PostgreSQL reads it fast.
    let text = |number: usize| format!("delete from numbers where number = {number} /*{}*/", "x".repeat(1_500_000));
    let _ = stage.direct("create table numbers (number int)");
    let names = ["s1", "s2"];
    for (number, name) in names.iter().enumerate() {
        let answer = client.extended(name, &text(number), &[]).expect("served");
        assert_eq!(answer.tags, ["DELETE 0"], "{answer:?}");
    }
    let (_, before) = stage.pooler.resident_kb();
    let begun = Instant::now();
    let pair = |number: usize| [frontend::bind(names[number % 2], &[]), frontend::execute()].concat();
    let batch: Vec<u8> = (0..BINDS).flat_map(pair).chain(frontend::sync()).collect();
    client.send(&batch).expect("connected");
    let answer = client.answer().expect("served");
    assert_eq!(answer.tags.len(), BINDS, "{:?}", answer.errors);
    let (_, most) = stage.pooler.resident_kb();
    println!(
        "{BINDS} statements of 1.5 MB for a packet of {} bytes in {:?}; at most {before} kB before, {most} kB then",
        batch.len(),
        begun.elapsed()
    );
    assert!(most < before + GROWTH_KB_MAX, "{most} kB at most, {before} kB before");
    stage.assert_healthy();
}

#[test]
fn a_statement_that_is_too_large_to_be_kept_stays_on_its_server() {
    let mut stage = Stage::set(&Wishes { pool: 2, ..Wishes::default() });
    let mut client = stage.client();
    let text = format!("select 'large' /*{}*/", "x".repeat(3_000_000));
    let (_, before) = stage.pooler.resident_kb();
    let answer = client.extended("s", &text, &[]).expect("served");
    assert_eq!(answer.value(), Some("large"), "{answer:?}");
    let mut other = stage.client();
    for _ in 0..5 {
        let answer = other.extended("s", "select 'small'", &[]).expect("served");
        assert_eq!(answer.value().or(answer.errors.first().map(|error| &*error.sqlstate)), Some("small"));
        let closed = [frontend::close_statement("s"), frontend::sync()].concat();
        other.send(&closed).expect("connected");
        other.answer().expect("closed");
        assert_eq!(client.prepared("s", &[]).expect("served").value(), Some("large"));
    }
    let (_, most) = stage.pooler.resident_kb();
    println!("at most {before} kB before, {most} kB then");
    assert!(most < before + GROWTH_KB_MAX);
    drop((client, other));
    stage.assert_healthy();
}
