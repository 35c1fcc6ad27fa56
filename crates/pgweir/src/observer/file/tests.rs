//! Of the history's files.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use activity::{Host, Moment, Origin, Row, Tags};
use observe::{Backend, State};

use super::*;

const WHOLE: Span = Span { from: At(0), to: At(u64::MAX) };

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pgweir-history-{name}-{}", std::process::id()));
    // It may be left from a run that was killed.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a temporary directory");
    folder
}

/// A second in which one backend ran.
fn second(at: u64) -> (At, Vec<u8>) {
    let backend =
        Backend { pid: 7, state: Some(State::Active), query: Some("select 1".to_owned()), ..Backend::default() };
    let row = Row {
        host: Some(0),
        backend: Some(Arc::new(backend)),
        session: None,
        origin: Origin::Stranger,
        tags: Tags::default(),
        waiter: None,
        behind: 0,
    };
    let mut history = History::default();
    let hosts = vec![Host::default()];
    history.push(Arc::new(Moment { at: At(at * 1000), hosts, rows: vec![row], ..Moment::default() }));
    history.stored().expect("it has a second")
}

type Said = Rc<RefCell<Vec<String>>>;

fn writer(path: &Path, size_max: u64) -> (Writer<impl Fn(Level, String)>, Said) {
    let said = Said::default();
    let heard = Rc::clone(&said);
    let say = move |_, text: String| heard.borrow_mut().push(text);
    (Writer { place: Location { path: path.to_owned(), size_max }, say, file: None, failed: None }, said)
}

fn write(writer: &mut Writer<impl Fn(Level, String)>, seconds: impl IntoIterator<Item = u64>) {
    let (sender, receiver) = sync_channel(1000);
    seconds.into_iter().for_each(|at| sender.send(second(at)).expect("it is held"));
    drop(sender);
    writer.run(&receiver);
}

fn seconds(history: &History) -> Vec<u64> {
    history.seconds().map(|second| second.at.second()).collect()
}

#[test]
fn seconds_are_there_again_from_both_files_and_take_no_more_than_they_may() {
    let path = folder("both").join("history");
    let (mut one, said) = writer(&path, 4096);
    write(&mut one, 1..=100);
    assert_eq!(*said.borrow(), [""; 0]);
    let sizes = [&path, &old(&path)].map(|path| fs::metadata(path).expect("it is there"));
    assert!(sizes.iter().map(fs::Metadata::len).sum::<u64>() <= 4096);
    assert!(sizes.iter().all(|metadata| metadata.mode() & 0o777 == 0o600));
    // Another process goes on.
    let (mut other, _) = writer(&path, 4096);
    write(&mut other, 101..=103);
    let mut history = History::default();
    let back = read_back(&path, &mut history, WHOLE);
    assert_eq!(back, ReadBack { seconds: history.seconds().len(), complaints: Vec::new() });
    let found = seconds(&history);
    assert!(found.len() > 20 && found.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{found:?}");
    assert_eq!(found.last(), Some(&103));
    let mut part = History::default();
    read_back(&path, &mut part, Span { from: At(99_000), to: At(101_999) });
    assert_eq!(seconds(&part), [99, 100, 101]);
    fs::remove_dir_all(path.parent().expect("it has one")).expect("our own");
}

#[test]
fn what_was_torn_is_passed_over_and_a_file_that_moves_is_followed() {
    let path = folder("torn").join("history");
    let (mut one, _) = writer(&path, 1 << 20);
    write(&mut one, [1, 2]);
    let len = fs::metadata(&path).expect("it is there").len();
    OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(len - 5)).expect("our own");
    write(&mut one, [3]);
    let mut history = History::default();
    let back = read_back(&path, &mut history, WHOLE);
    assert_eq!((seconds(&history), back.complaints.len()), (vec![1, 3], 1));
    fs::rename(&path, path.with_extension("away")).expect("our own");
    write(&mut one, [4]);
    let mut history = History::default();
    read_back(&path, &mut history, WHOLE);
    assert_eq!(seconds(&history), [4]);
    // What fills a file with marks is given up soon.
    let marks = [HEADER, &[0xf5, b'p', b'w', 0x0a, 0, 0, 0, 1].repeat(100_000)].concat();
    fs::write(&path, marks).expect("our own");
    let begun = Instant::now();
    assert_eq!(read_back(&path, &mut History::default(), WHOLE).seconds, 0);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    fs::remove_dir_all(path.parent().expect("it has one")).expect("our own");
}

#[test]
fn a_file_of_others_is_left_alone_and_that_is_said_once() {
    let folder = folder("others");
    let path = folder.join("passwords");
    fs::write(&path, "root:x:0:0\n").expect("our own");
    let (mut one, said) = writer(&path, 1 << 20);
    write(&mut one, [1, 2, 3]);
    let text = format!(
        "observer: the history cannot be written to {}: there is a file that is no history of pgweir's; it is tried again",
        path.display()
    );
    assert_eq!(*said.borrow(), [text]);
    assert_eq!(fs::read_to_string(&path).expect("our own"), "root:x:0:0\n");
    assert_eq!(read_back(&path, &mut History::default(), WHOLE).complaints.len(), 1);
    fs::remove_file(&path).expect("our own");
    one.failed = Instant::now().checked_sub(RETRY);
    write(&mut one, [4]);
    assert!(said.borrow()[1].ends_with("again"), "{said:?}");
    // A directory, and a file of another version.
    let (mut two, said) = writer(&folder, 1 << 20);
    write(&mut two, [1]);
    assert!(said.borrow()[0].contains("it is no file"), "{said:?}");
    fs::write(&path, "pgweir history 99\nwhatever").expect("our own");
    assert!(read_back(&path, &mut History::default(), WHOLE).complaints[0].contains("another version"));
    let (mut three, _) = writer(&path, 1 << 20);
    write(&mut three, [5]);
    let mut history = History::default();
    read_back(&path, &mut history, WHOLE);
    assert_eq!(seconds(&history), [5]);
    fs::remove_dir_all(&folder).expect("our own");
}

#[test]
fn a_folder_that_is_missing_is_said_once() {
    let path = folder("missing").join("no such folder/history");
    let (mut one, said) = writer(&path, 1 << 20);
    write(&mut one, [1, 2, 3]);
    assert_eq!(said.borrow().len(), 1, "{said:?}");
    assert_eq!(read_back(&path, &mut History::default(), WHOLE), ReadBack::default());
    // What is there is no folder for others.
    fs::remove_dir_all(path.ancestors().nth(2).expect("it has one")).expect("our own");
}

#[test]
fn a_pipe_that_nobody_writes_to_holds_nobody_up() {
    let path = folder("pipe").join("history");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("coreutils are here");
    assert!(made.success());
    let (sender, read) = std::sync::mpsc::channel();
    let of_pipe = path.clone();
    thread::spawn(move || sender.send(read_back(&of_pipe, &mut History::default(), WHOLE)));
    let back = read.recv_timeout(Duration::from_secs(10)).expect("it is not opened");
    assert_eq!(back.complaints, [format!("{}: it is no file", path.display())]);
}
