//! What a ledger must do, message by message.

use super::*;

const CLIENT: Answerer = Answerer::Client;

fn ledger(sent: &[Expect]) -> Ledger {
    let mut ledger = Ledger::default();
    for &expect in sent {
        assert!(ledger.sent(CLIENT, expect));
    }
    ledger
}

fn answer(ledger: &mut Ledger, tags: &[u8]) {
    for &tag in tags {
        ledger.answered(tag).expect("the answer is expected");
    }
}

#[test]
fn a_simple_query_ends_with_ready_for_query_however_many_results() {
    let mut ledger = ledger(&[Expect::Query, Expect::Query]);
    answer(&mut ledger, b"TDCTDCIZ");
    assert_eq!(ledger.depth(), 1);
    answer(&mut ledger, b"CZ");
    assert!(ledger.is_clear());
    assert_eq!(ledger.answered(b'Z'), Err(Unexpected(b'Z')));
}

#[test]
fn a_batch_without_sync_is_not_clear() {
    let mut ledger = ledger(&[Expect::Parse(None), Expect::Describe]);
    answer(&mut ledger, b"1tT");
    assert_eq!(ledger.depth(), 0);
    assert!(!ledger.is_clear());
    ledger.sent(CLIENT, Expect::Sync);
    answer(&mut ledger, b"Z");
    assert!(ledger.is_clear());
}

#[test]
fn an_error_skips_to_the_next_sync() {
    let batch =
        [Expect::Parse(Some(7.into())), Expect::Bind, Expect::Execute, Expect::Sync, Expect::Bind, Expect::Sync];
    let mut ledger = ledger(&batch);
    let mut dropped = Vec::new();
    ledger.failed(|entry| dropped.push(entry.expect)).expect("an answer is owed");
    assert_eq!(dropped, [Expect::Parse(Some(7.into())), Expect::Bind, Expect::Execute]);
    answer(&mut ledger, b"Z2Z");
    assert!(ledger.is_clear());
}

#[test]
fn after_an_error_only_a_sync_is_answered() {
    let mut ledger = ledger(&[Expect::Bind]);
    ledger.failed(|_| ()).expect("an answer is owed");
    assert!(!ledger.sent(CLIENT, Expect::Execute));
    assert!(!ledger.sent(CLIENT, Expect::Query), "a simple query is skipped too");
    assert!(!ledger.is_clear());
    assert!(ledger.sent(CLIENT, Expect::Sync));
    answer(&mut ledger, b"Z");
    assert!(ledger.is_clear());
}

#[test]
fn an_error_at_sync_is_followed_by_ready() {
    let mut ledger = ledger(&[Expect::Sync]);
    ledger.failed(|_| ()).expect("an answer is owed");
    answer(&mut ledger, b"Z");
    assert!(ledger.is_clear());
}

#[test]
fn a_sync_sent_along_with_copy_is_swallowed_by_it() {
    // libpq sends Parse, Bind, Describe, Execute, Sync at once and learns of the COPY afterwards.
    let mut ledger = ledger(&[Expect::Bind, Expect::Execute, Expect::Sync]);
    answer(&mut ledger, b"2G");
    assert!(ledger.copying().is_open());
    assert!(ledger.sent(CLIENT, Expect::CopyEnd));
    assert!(ledger.sent(CLIENT, Expect::Sync));
    answer(&mut ledger, b"CZ");
    assert!(ledger.is_clear() && !ledger.is_doubtful());
}

#[test]
fn a_copy_sent_ahead_with_both_its_syncs_ends_clear() {
    let sent = [Expect::Bind, Expect::Execute, Expect::Sync, Expect::CopyEnd, Expect::Sync];
    let mut ledger = ledger(&sent);
    answer(&mut ledger, b"2GCZ");
    assert!(ledger.is_clear());
}

#[test]
fn copy_data_sent_ahead_needs_no_answer_of_its_own() {
    let mut ledger = ledger(&[Expect::Query, Expect::CopyEnd]);
    answer(&mut ledger, b"GCZ");
    assert!(ledger.is_clear());
    assert!(!ledger.sent(CLIENT, Expect::CopyEnd), "a late CopyDone is ignored by the server");
    assert!(ledger.is_clear());
}

#[test]
fn two_copies_in_one_query_end_separately() {
    let mut ledger = ledger(&[Expect::Query]);
    answer(&mut ledger, b"G");
    ledger.sent(CLIENT, Expect::CopyEnd);
    answer(&mut ledger, b"CG");
    assert!(ledger.copying().is_open());
    ledger.sent(CLIENT, Expect::CopyEnd);
    answer(&mut ledger, b"CZ");
    assert!(ledger.is_clear());
}

#[test]
fn a_failed_copy_ends_like_a_failed_query() {
    let mut ledger = ledger(&[Expect::Query]);
    answer(&mut ledger, b"G");
    ledger.failed(|_| ()).expect("an answer is owed");
    ledger.sent(CLIENT, Expect::CopyEnd);
    answer(&mut ledger, b"Z");
    assert!(ledger.is_clear());
}

#[test]
fn a_sync_inside_copy_data_is_ignored_if_the_copy_succeeds() {
    let mut ledger = ledger(&[Expect::Query]);
    answer(&mut ledger, b"G");
    assert!(!ledger.sent(CLIENT, Expect::Sync));
    ledger.sent(CLIENT, Expect::CopyEnd);
    answer(&mut ledger, b"CZ");
    assert!(ledger.is_clear() && !ledger.is_doubtful());
}

/// After a failed COPY with Syncs inside, the answer to the pooler's next query shows how many Syncs were answered.
#[test]
fn the_next_query_shows_how_many_syncs_after_a_failed_copy_were_answered() {
    for answered in 0..=2 {
        let mut ledger = ledger(&[Expect::Query]);
        answer(&mut ledger, b"G");
        ledger.sent(CLIENT, Expect::Sync);
        ledger.sent(CLIENT, Expect::Sync);
        ledger.failed(|_| ()).expect("an answer is owed");
        assert!(!ledger.needs_question(), "its own ReadyForQuery comes first");
        ledger.ready_comes();
        answer(&mut ledger, b"Z");
        assert!(ledger.needs_question() && !ledger.is_clear());
        ledger.sent(Answerer::Prepare, Expect::Close(None));
        ledger.sent(Answerer::Prepare, Expect::Sync);
        for _ in 0..answered {
            ledger.ready_comes();
            assert_eq!(ledger.owner(), Some(CLIENT));
            answer(&mut ledger, b"Z");
        }
        answer(&mut ledger, b"3");
        ledger.ready_comes();
        assert_eq!(ledger.owner(), Some(Answerer::Prepare));
        answer(&mut ledger, b"Z");
        assert!(ledger.is_clear() && !ledger.is_doubtful());
    }
}

#[test]
fn a_sync_of_a_batch_whose_copy_failed_may_be_the_one_before_or_after_the_data() {
    let mut ledger = ledger(&[Expect::Bind, Expect::Execute, Expect::Sync]);
    answer(&mut ledger, b"2G");
    ledger.failed(|_| ()).expect("an answer is owed");
    assert!(ledger.is_skipping() && !ledger.needs_question());
    ledger.sent(CLIENT, Expect::Sync);
    ledger.ready_comes();
    answer(&mut ledger, b"Z");
    assert!(ledger.needs_question() && !ledger.is_doubtful());
    // The other Sync is answered too.
    ledger.ready_comes();
    answer(&mut ledger, b"Z");
    assert!(ledger.is_clear());
}

#[test]
fn a_sync_behind_a_copy_that_failed_does_not_end_the_batch_behind_it() {
    let batch = [Expect::Parse(None), Expect::Bind, Expect::Execute];
    for end in [None, Some(Expect::Sync)] {
        let sent = [Expect::Query, Expect::Sync, Expect::CopyEnd].into_iter().chain(batch).chain(end);
        let mut ledger = ledger(&sent.collect::<Vec<_>>());
        answer(&mut ledger, b"G");
        ledger.failed(|_| ()).expect("an answer is owed");
        ledger.ready_comes();
        answer(&mut ledger, b"Z");
        // The Sync that the server has read outside of the COPY.
        ledger.ready_comes();
        answer(&mut ledger, b"Z");
        assert_eq!(ledger.is_open(), end.is_none());
        answer(&mut ledger, b"12C");
        assert_eq!((ledger.is_open(), ledger.depth()), (end.is_none(), usize::from(end.is_some())));
    }
}

#[test]
fn a_batch_that_may_be_skipped_or_not_is_doubtful() {
    let sent = [Expect::Execute, Expect::Sync, Expect::CopyEnd, Expect::Bind, Expect::Sync];
    let mut ledger = ledger(&sent);
    answer(&mut ledger, b"G");
    ledger.failed(|_| ()).expect("an answer is owed");
    assert!(ledger.is_doubtful());
}

#[test]
fn a_query_after_a_failed_copy_is_answered() {
    let mut ledger = ledger(&[Expect::Query, Expect::Query]);
    answer(&mut ledger, b"G");
    assert!(ledger.copying().is_cut());
    ledger.failed(|_| ()).expect("an answer is owed");
    answer(&mut ledger, b"ZCZ");
    assert!(ledger.is_clear());
}

#[test]
fn a_copy_is_stopped_for_a_message_that_does_not_belong_to_it() {
    let mut ledger = ledger(&[Expect::Query]);
    answer(&mut ledger, b"G");
    assert!(ledger.copying().is_guarded());
    ledger.stop_copy();
    assert!(ledger.copying().is_stopped() && !ledger.copying().is_guarded());
    ledger.failed(|_| ()).expect("an answer is owed");
    answer(&mut ledger, b"Z");
    assert!(ledger.is_clear());
}

#[test]
fn answers_of_the_pooler_come_in_their_order() {
    let mut ledger = ledger(&[Expect::Bind, Expect::Execute, Expect::FakeParse, Expect::Bind]);
    answer(&mut ledger, b"2");
    assert_eq!(ledger.next_fake(), None);
    answer(&mut ledger, b"C");
    assert_eq!(ledger.next_fake().map(|fake| fake.expect), Some(Expect::FakeParse));
    assert_eq!(ledger.next_fake(), None);
    answer(&mut ledger, b"2");
}

#[test]
fn an_answer_to_nothing_is_unexpected() {
    let mut ledger = ledger(&[Expect::Query]);
    assert_eq!(ledger.answered(b'1'), Err(Unexpected(b'1')));
    let mut empty = Ledger::default();
    assert_eq!(empty.failed(|_| ()), Err(Unexpected(b'E')));
}

#[test]
fn changes_of_a_statement_are_known_while_they_are_under_way() {
    let mut ledger = ledger(&[Expect::Parse(Some(7.into())), Expect::Sync]);
    assert!(
        ledger.owed().awaits_ready()
            && ledger.owed().is_changing_of(7.into())
            && !ledger.owed().is_changing_of(8.into())
    );
    answer(&mut ledger, b"1");
    assert!(ledger.owed().awaits_ready() && !ledger.owed().is_changing());
    answer(&mut ledger, b"Z");
    assert!(!ledger.owed().awaits_ready());
    ledger.sent(CLIENT, Expect::Query);
    assert!(ledger.owed().awaits_query());
}

#[test]
fn what_is_owed_is_counted_by_ready_for_query() {
    assert_eq!(ledger(&[Expect::Query, Expect::Bind, Expect::Execute, Expect::Sync]).owing(), (2, false));
    assert_eq!(ledger(&[Expect::Query, Expect::Bind]).owing(), (1, true));
    assert_eq!(ledger(&[Expect::Query, Expect::CopyEnd]).owing(), (1, false), "the end of a COPY begins no batch");
    assert_eq!(Ledger::default().owing(), (0, false));
}

#[test]
fn a_vanished_client_is_owed_nothing() {
    let mut ledger = ledger(&[Expect::Query, Expect::FakeClose]);
    ledger.disown();
    assert_eq!(ledger.owner(), Some(Answerer::Nobody));
    answer(&mut ledger, b"CZ");
    assert!(ledger.is_clear());
}

#[test]
fn the_counts_equal_the_entries() {
    let mut random = units::random::Random::new([7; 32]);
    let mut below = move |bound: u32| random.secret().unsigned_abs() % bound;
    let (owners, mut ledger) = ([CLIENT, Answerer::Prepare, Answerer::Chore], Ledger::default());
    let expects =
        [Expect::Query, Expect::Sync, Expect::Parse(Some(1.into())), Expect::Bind, Expect::Execute, Expect::FakeParse];
    for _ in 0..20_000 {
        match below(40) {
            0..=19 => drop(ledger.sent(owners[below(3) as usize], expects[below(6) as usize])),
            20..=36 => drop(ledger.answered(b"ZC12GDt"[below(7) as usize])),
            37 => drop(ledger.failed(drop)),
            38 => drop(ledger.next_fake()),
            _ => ledger.disown(),
        }
        let mut counts = counts::Counts::default();
        ledger.owed.iter().for_each(|entry| counts.add(entry));
        assert_eq!(ledger.owed.counts, counts);
        ledger = if ledger.depth() > 200 { Ledger::default() } else { ledger };
    }
}

#[test]
fn a_batch_is_noted_as_its_messages_are() {
    for (is_described, access) in [(true, Access::ReadOnly), (false, Access::ReadWrite), (true, Access::Commit)] {
        let said = Said { row: StatementRow::new(7, 1), access, copies: false };
        let (mut at_once, mut one_by_one) = (Ledger::default(), Ledger::default());
        at_once.speaks_of(said);
        at_once.sent_batch(is_described);
        one_by_one.speaks_of(said);
        let describe = is_described.then_some(Expect::Describe);
        for expect in [Some(Expect::Bind), describe, Some(Expect::Execute), Some(Expect::Sync)].into_iter().flatten() {
            one_by_one.sent(Answerer::Client, expect);
        }
        assert_eq!(format!("{at_once:?}"), format!("{one_by_one:?}"));
    }
}
