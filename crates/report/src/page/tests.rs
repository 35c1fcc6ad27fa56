//! Of the page, from lines as the console has them.

use super::*;

fn pool(second: u64, xact_count: u64, waiting: u64) -> String {
    format!(
        "{{\"time\":\"2026-07-01 12:00:{second:02}\",\"at\":{},\"kind\":\"pool\",\"database\":\"shop\",\"user\":\"app\",\"class\":null,\
         \"waiting\":{waiting},\"max_wait\":1.500,\"servers_active\":4,\"servers_idle\":1,\"xact_count\":{xact_count}}}",
        second * 1000
    )
}

fn sample(second: u64, event: (&str, &str), count: u64, blocker: &str) -> String {
    format!(
        "{{\"time\":\"2026-07-01 12:00:{second:02}\",\"at\":{},\"kind\":\"sample\",\"database\":\"shop\",\"user\":\"app\",\"class\":\"web\",\
         \"wait_event_type\":\"{}\",\"wait_event\":\"{}\",\"count\":{count},\"tags\":\"controller=carts\",\
         \"query\":\"update stock set n = ?\",\"blocker\":{blocker},\"later\":[1]}}",
        second * 1000,
        event.0,
        event.1
    )
}

fn row(second: u64, client: u64, query: &str, blocking: u64) -> String {
    format!(
        "{{\"time\":\"2026-07-01 12:00:{second:02}\",\"at\":{},\"kind\":\"row\",\"database\":\"shop\",\"user\":\"app\",\"class\":\"web\",\
         \"wait_event_type\":\"Client\",\"wait_event\":\"ClientRead\",\"tags\":\"controller=checkout request_id=7\",\"query\":\"{query}\",\
         \"blocker\":null,\"client_id\":{client},\"client_addr\":\"10.0.0.9\",\"application_name\":\"<i>puma\",\"pid\":815,\"waited\":null,\
         \"transaction_age\":61.000,\"idle\":{second}.000,\"query_age\":61.000,\"blocked_by\":null,\"blocking\":{blocking}}}",
        second * 1000
    )
}

fn why(second: u64, waiting: u64, root: &str) -> String {
    format!(
        "{{\"time\":\"2026-07-01 12:00:{second:02}\",\"at\":{},\"kind\":\"why\",\"database\":\"shop\",\"user\":\"app\",\"waiting\":{waiting},\
         \"sentence\":\"{waiting} clients of shop/app wait, because of {root}.\",\"queue\":\"consequence\",\"root\":\"{root}\"}}",
        second * 1000
    )
}

/// A user in stats_users may not see who was in the way, and gets a report all the same.
#[test]
fn a_verdict_without_its_sentence_names_the_pool_only() {
    let mut sums = sums();
    let hidden = why(10, 9, "billing")
        .replace("\"9 clients of shop/app wait, because of billing.\"", "null")
        .replace("\"root\":\"billing\"", "\"root\":null");
    assert!(!hidden.contains("billing"), "{hidden}");
    sums.add(&format!("[{hidden}]")).expect("a line");
    let told = sentences(&sums, None);
    assert_eq!(
        told[0],
        "At 2026-07-01 12:00:10: 9 clients of shop/app waited. Administrators see why. It was so in 1 second."
    );
}

const BLOCKER: &str = "\"shop/app controller=checkout: select <script>alert(1)</script>\"";

fn sums() -> Sums {
    let mut sums = Sums::default();
    let mut lines = vec!["{\"kind\":\"tomorrow\",\"at\":1}".to_owned()];
    for second in 10..20 {
        lines.push(pool(second, second * 50, second));
        lines.push(sample(second, ("Lock", "transactionid"), 30, BLOCKER));
        lines.push(sample(second, ("CPU", "CPU"), 10, "null"));
        lines.push(row(second, 7, "select 1 /*<img src=x onerror=y>*/ \\u001b[31m\\n &amp;", second * 2));
    }
    sums.add(&format!("[{}]", lines.join(",\n"))).expect("lines");
    sums.add("[]").expect("no lines");
    sums
}

fn heading() -> Heading {
    let [source, from, to, version] = ["db<1>:6432", "12:00:10", "12:00:20", "1.0"].map(str::to_owned);
    Heading { source, from, to, version }
}

/// Clients have waited 27 seconds for the first root, and 20 for the second, for which more of them waited at once.
#[test]
fn the_verdict_for_which_clients_have_waited_longest_comes_first() {
    let mut sums = sums();
    let lines = [why(10, 9, "<billing>"), why(11, 10, "<billing>"), why(12, 8, "<billing>"), why(13, 20, "deploy")];
    sums.add(&format!("[{}]", lines.join(","))).expect("lines");
    let page = sums.page(&heading());
    let (first, second) = (
        "From 2026-07-01 12:00:10 to 12:00:12: 10 clients of shop/app wait, because of &#60;billing&#62;. It was so in 3 seconds.",
        "At 2026-07-01 12:00:13: 20 clients of shop/app wait, because of deploy. It was so in 1 second.",
    );
    let places = [first, second, "75.0 % of what was seen"].map(|words| page.find(words));
    assert!(places.is_sorted() && places[0].is_some(), "{places:?} {page}");
}

/// Two times of one root are two, and what has no sentence is listed all the same.
#[test]
fn no_time_of_trouble_is_lost() {
    let mut sums = sums();
    let mut lines: Vec<String> = (0..4).map(|second| why(second, 30, "billing")).collect();
    lines.extend((10..14).map(|second| why(second, 20, "deploy")));
    lines.extend((30..34).map(|second| why(second, 25, "billing")));
    lines.push(why(40, 5, "prepared transaction 'xa-7' of payer"));
    lines.push(why(50, 4, ""));
    sums.add(&format!("[{}]", lines.join(","))).expect("lines");
    let told = sentences(&sums, None);
    let beginnings: Vec<&str> =
        told.iter().take(3).map(|sentence| sentence.split(" clients").next().unwrap_or_default()).collect();
    let expected = [
        "From 2026-07-01 12:00:00 to 12:00:03: 30",
        "From 2026-07-01 12:00:30 to 12:00:33: 25",
        "From 2026-07-01 12:00:10 to 12:00:13: 20",
    ];
    assert_eq!(beginnings, expected);
    assert_eq!(
        told[3],
        "Less was waited at other times: 2026-07-01 12:00:40: 5 clients of shop/app behind prepared transaction 'xa-7' of payer; \
         2026-07-01 12:00:50: 4 clients of shop/app."
    );
}

#[test]
fn the_culprit_stands_at_the_top() {
    let sums = sums();
    assert_eq!(sums.seconds(), 10);
    assert_eq!(sums.rows.len(), 1, "each second of one statement is one row");
    let page = sums.page(&heading());
    let top = page.split("</div>").next().expect("the sentences");
    for words in [
        "75.0 % of what was seen was Lock:transactionid.",
        "75.0 % waited for a lock behind shop/app controller=checkout: select ",
        "At 2026-07-01 12:00:19 &#60;i&#62;puma [checkout, 7], client 7, pid 815 was in the way of 38, idle in its transaction for 19 s.",
    ] {
        assert!(top.contains(words), "{words}: {top}");
    }
    assert!(page.contains("<b>40</b>") && page.contains("<b>50</b>"), "sessions, and transactions a second");
    assert!(page.contains("request_id=7") && page.contains("10.0.0.9"), "{page}");
}

#[test]
fn texts_are_text_and_nothing_is_fetched() {
    let page = sums().page(&heading());
    for markup in ["<script", "<img", "<i>puma", "db<1>"] {
        assert!(!page.contains(markup), "{markup}");
    }
    assert!(!page.contains('\u{1b}'), "a terminal may show it");
    for fetched in ["http:", "https:", "src=\"", "url(", "@import", "<link"] {
        assert!(!page.contains(fetched), "{fetched}");
    }
}

#[test]
fn nothing_seen_is_said() {
    let page = Sums::default().page(&heading());
    assert!(page.contains("Nothing is known of this time"), "{page}");
    assert!(Sums::default().add("{}").is_err() && Sums::default().add("[{\"kind\":\"pool\"}]").is_err());
}

#[test]
fn many_different_statements_take_a_bounded_room() {
    let mut sums = Sums::default();
    for second in 0..200 {
        let lines: Vec<String> =
            (0..200).map(|id| row(second % 60, second * 200 + id, &format!("q{second} {id}"), id)).collect();
        sums.add(&format!("[{}]", lines.join(","))).expect("lines");
    }
    assert_eq!(sums.rows.len(), 4096);
    let page = sums.page(&heading());
    assert!(
        page.contains("<summary>35 more</summary>") && page.contains("4056 more are left out."),
        "{}",
        &page[page.len() - 500..]
    );
}

fn victim(client: u64, request: &str, behind: u64) -> String {
    format!(
        "{{\"time\":\"2026-07-01 12:00:30\",\"at\":30000,\"kind\":\"row\",\"database\":\"shop\",\"user\":\"app\",\"class\":\"default\",\
         \"wait_event_type\":\"Lock\",\"wait_event\":\"tuple\",\"tags\":\"controller=carts request_id={request}\",\
         \"query\":\"update stock set n = ?\",\"blocker\":null,\"client_id\":{client},\"client_addr\":\"10.0.0.9\",\
         \"application_name\":\"puma\",\"pid\":{},\"waited\":{}.5,\"transaction_age\":null,\"idle\":null,\"query_age\":null,\
         \"blocked_by\":{behind},\"blocked_by_root\":815,\"blocking\":{}}}",
        1000 + client,
        100 - client,
        60 - client
    )
}

/// 7 is in the way of 8, and 8 of 40 others, which update one row: each is in the way of those that come after it.
#[test]
fn equal_victims_are_one_and_come_after_their_blockers() {
    let mut sums = Sums::default();
    let mut lines = vec![pool(30, 1, 41), row(30, 7, "update", 61), victim(8, "r8", 815)];
    lines.extend((9..49).map(|client| victim(client, &format!("r{client}"), 1008)));
    // Samples count all; rows are kept of some.
    lines.push(sample(30, ("Lock", "tuple"), 70, "null").replace("\"class\":\"web\"", "\"class\":\"default\""));
    sums.add(&format!("[{}]", lines.join(","))).expect("lines");
    let folds = folded(&sums);
    let told: Vec<_> = folds.iter().map(|fold| (fold.worst.client_id, fold.others.len())).collect();
    assert_eq!(told, [(Some(7), 0), (Some(8), 0), (Some(9), 39)]);
    let many = described(&sums, &folds[2]);
    assert_eq!(many.client, "70 clients alike, the longest wait first");
    assert_eq!((many.tags.as_str(), many.blocked.as_str()), ("controller=carts", "behind pid 815"));
    assert!(many.alike.starts_with("client 9, pid 1009 · client 10, pid 1010 · "), "{}", many.alike);
    assert!(many.alike.ends_with(" · client 20, pid 1020 and 58 more"), "{}", many.alike);
}

/// Statements of pgweir itself are one name among the statements, and none of the worst.
#[test]
fn statements_of_pgweir_itself_are_one_line() {
    let own = |line: String| line.replace("\"class\":\"web\"", "\"class\":\"(pgweir)\"");
    let mut sums = Sums::default();
    let lines = [pool(10, 1, 0), own(sample(10, ("CPU", "CPU"), 3, "null")), own(row(10, 7, "select pid", 9))];
    sums.add(&format!("[{}]", lines.join(","))).expect("lines");
    assert_eq!(sums.by_statement.ranked()[0].0, "(statements of pgweir itself)");
    assert_eq!(sums.rows.len(), 0);
}
