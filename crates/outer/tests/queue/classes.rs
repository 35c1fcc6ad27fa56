//! Classes of clients from a user's files: who is in which, what SHOW tells of them, and what RELOAD does with a mistake.

use std::fs;
use std::process::Command;
use std::time::Instant;

use outer::{Answer, Client, Stage, Wishes, eventually, frontend};

const SECTION: &str = "[classes]\nweb = weight=4\nbackground = max=1\n";
const RULES: &str = "\
# database user application tag class
all all sidekiq*,\"good job\" all background
all postgres all job:* background
all all puma* all web
";

/// Two servers, and classes as the files say: written, and taken up by RELOAD.
fn stage() -> (Stage, Client) {
    let stage = Stage::set(&Wishes { pool: 2, workers: 1, ..Wishes::default() });
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    let before = console.query("show classes").expect("an answer");
    assert_eq!((column(&before, "class"), column(&before, "cl_waiting")), (strings(&["default"]), vec![None]));
    let ini = fs::read_to_string(stage.pooler.dir().join("pooler.ini")).expect("its ini file");
    let file = stage.pooler.dir().join("classes.conf");
    let ini = ini.replace("[pgbouncer]\n", &format!("{SECTION}[pgbouncer]\nclass_file = {}\n", file.display()));
    fs::write(stage.pooler.dir().join("pooler.ini"), ini).expect("its directory is ours");
    write_rules(&stage, RULES);
    reload(&mut console);
    (stage, console)
}

fn write_rules(stage: &Stage, rules: &str) {
    fs::write(stage.pooler.dir().join("classes.conf"), rules).expect("its directory is ours");
}

fn reload(console: &mut Client) {
    let answer = console.query("reload").expect("an answer");
    assert_eq!((answer.errors.len(), answer.tags), (0, vec!["RELOAD".to_owned()]));
}

fn column(answer: &Answer, name: &str) -> Vec<Option<String>> {
    let index = answer.names.iter().position(|other| other == name).unwrap_or_else(|| panic!("{name}: {answer:?}"));
    answer.rows.iter().map(|row| row[index].clone()).collect()
}

fn strings(values: &[&str]) -> Vec<Option<String>> {
    values.iter().map(|value| Some((*value).to_owned())).collect()
}

/// A column of SHOW CLASSES: of default, web and background.
fn counts(console: &mut Client, name: &str) -> Vec<String> {
    let answer = console.query("show classes").expect("an answer");
    assert_eq!(column(&answer, "class"), strings(&["default", "web", "background"]));
    column(&answer, name).into_iter().map(|value| value.unwrap_or_default()).collect()
}

/// A client that is called so.
fn named(stage: &Stage, name: &str) -> Client {
    let mut client = stage.client();
    let answer = client.query(&format!("set application_name = '{name}'")).expect("an answer");
    assert!(answer.errors.is_empty(), "{answer:?}");
    client
}

#[test]
fn clients_are_in_the_class_of_the_first_rule_that_fits() {
    let (mut stage, mut console) = stage();
    let mut jobs = [named(&stage, "sidekiq 7"), named(&stage, "good job")];
    let mut web = named(&stage, "puma: worker 3");
    let began = Instant::now();
    jobs[0].query("begin").expect("an answer");
    // The class has one server at most, and a free one is none for it.
    jobs[1].send(&frontend::query("select 'second'")).expect("sent");
    eventually("the second waits", || counts(&mut console, "cl_waiting") == ["0", "0", "1"]);
    web.query("select 'web'").expect("the other server is free");
    let mut tagged = stage.client();
    tagged.send(&frontend::query("/*job:export*/ select 'tagged'")).expect("sent");
    eventually("who says so in a comment waits too", || counts(&mut console, "cl_waiting") == ["0", "0", "2"]);
    assert_eq!(counts(&mut console, "sv_active"), ["0", "0", "1"]);

    let clients = console.query("show sessions").expect("an answer");
    let (names, classes) = (column(&clients, "application_name"), column(&clients, "class"));
    let class_of = |name: &str| {
        let index = names.iter().position(|other| other.as_deref() == Some(name)).expect("a client's name");
        classes[index].clone().unwrap_or_default()
    };
    let told = ["sidekiq 7", "good job", "puma: worker 3"].map(class_of);
    assert_eq!(told, ["background", "background", "web"]);

    let mut hurried = named(&stage, "sidekiq 8");
    let late = hurried.query("/*deadline_ms=5*/ select 1").expect("an answer");
    assert_eq!(late.errors.first().map(|error| error.sqlstate.as_str()), Some("57014"), "{late:?}");
    assert_eq!(counts(&mut console, "refused"), ["0", "0", "1"]);

    jobs[0].query("commit").expect("an answer");
    assert_eq!(jobs[1].answer().expect("its turn").value(), Some("second"));
    assert_eq!(tagged.answer().expect("its turn").value(), Some("tagged"));
    // The same client without its comment is anybody.
    tagged.query("select 1").expect("an answer");
    eventually("nothing is left", || counts(&mut console, "sv_active") == ["0", "0", "0"]);
    assert_eq!(counts(&mut console, "wait_count")[2], "2", "the others, if at all, only for connections to open");
    let waited: f64 = counts(&mut console, "maxwait_seconds")[2].parse().expect("a number");
    let served: f64 = counts(&mut console, "server_seconds")[2].parse().expect("a number");
    // The class has at most one server at a time, so it cannot have had more server time than the whole test took.
    let lasted = began.elapsed().as_secs_f64();
    assert!(0.0 < waited && waited <= served && served <= lasted, "waited {waited} s, served {served} s of {lasted} s");
    stage.assert_healthy();
}

#[test]
fn a_mistake_in_the_rules_changes_nothing_and_is_told() {
    let (mut stage, mut console) = stage();
    let mut jobs = [named(&stage, "sidekiq 1"), named(&stage, "sidekiq 2")];
    jobs[0].query("begin").expect("an answer");
    jobs[1].send(&frontend::query("select 'second'")).expect("sent");
    eventually("the second waits", || counts(&mut console, "cl_waiting") == ["0", "0", "1"]);

    write_rules(&stage, "all all puma* all web\nall all sidekiq* all backgruond\nall all all background\n");
    let refused = console.query("reload").expect("an answer");
    assert_eq!(refused.errors.len(), 1, "{refused:?}");
    assert_eq!(counts(&mut console, "cl_waiting"), ["0", "0", "1"], "all is as it was");
    let expected = [
        "classes.conf:2: class: found \"backgruond\", expected a class of [classes], web, background, or default; did you mean background?",
        "classes.conf:3: found 4 fields, expected five: database user application tag class",
    ];
    for words in expected {
        eventually(words, || stage.pooler.log().contains(words));
    }
    let checked = check(&stage);
    assert!(!checked.0 && expected.iter().all(|words| checked.1.contains(words)), "{checked:?}");

    // Nobody is in background any more: whoever waited for its only server is let in at once.
    write_rules(&stage, "all all puma* all web\nall all puma-2 all background\n");
    reload(&mut console);
    assert_eq!(jobs[1].answer().expect("as anybody").value(), Some("second"));
    eventually("jobs are counted where they are now", || counts(&mut console, "sv_active") == ["1", "0", "0"]);
    let checked = check(&stage);
    assert!(checked.0 && checked.1.contains("classes.conf:2: found a rule that never decides"), "{checked:?}");
    assert!(checked.1.contains("background: weight 1, at most 1 server of a pool"), "{checked:?}");

    jobs[0].query("commit").expect("an answer");
    stage.assert_healthy();
}

/// Whether `pgweir check` takes its file, and all that it says.
fn check(stage: &Stage) -> (bool, String) {
    let dir = stage.pooler.dir();
    let output = Command::new(dir.join("pooler")).arg("check").arg(dir.join("pooler.ini")).output().expect("it runs");
    let words = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&words).into_owned())
}
