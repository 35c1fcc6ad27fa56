//! Of the ring of files.

use std::cell::RefCell;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use activity::history::Span;
use activity::history::frames::HEADER;
use activity::{At, History, Host, Moment, Origin, Row, Tags};
use machine::Level;
use observe::{Backend, State};

use super::segments::{retire, segments};
use super::writer::{RETRY, Writer};
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
    (Writer::new(Location { path: path.to_owned(), size_max }, say).expect("memory"), said)
}

fn write(writer: &mut Writer<impl Fn(Level, String)>, seconds: impl IntoIterator<Item = u64>) {
    let (sender, receiver) = sync_channel(5000);
    seconds.into_iter().for_each(|at| sender.send(second(at)).expect("it is held"));
    drop(sender);
    writer.run(&receiver);
}

fn seconds(history: &History) -> Vec<u64> {
    history.seconds().map(|second| second.at.second()).collect()
}

/// The newest file may be torn at its end, empty, or not begun.
#[test]
fn the_ends_of_a_ring_are_those_of_its_seconds() {
    let path = folder("ends").join("history");
    assert!(!is_there(&path) && ends(&path).is_none());
    let (mut one, _) = writer(&path, 64 << 10);
    write(&mut one, 1..=3000);
    let mut reading = Reading::of(&path, WHOLE);
    let all: Vec<u64> = std::iter::from_fn(|| Some(reading.next_second()?.0.second())).collect();
    let seconds = || ends(&path).map(|(from, to)| (from.second(), to.second()));
    assert_eq!(seconds(), all.first().copied().zip(all.last().copied()));
    let whole = fs::read(&path).expect("it is there");
    let cut = |len: usize| fs::write(&path, &whole[..len]).expect("ours");
    cut(whole.len() - 1);
    assert_eq!(seconds().map(|(_, to)| to), Some(2999));
    let mut strange = whole.clone();
    strange.extend_from_slice(b"\xf5pw\x0a, and no frame");
    fs::write(&path, strange).expect("ours");
    assert_eq!(seconds().map(|(_, to)| to), Some(3000));
    let before = segments(&path).expect("a folder").pop().and_then(|newest| ends(&newest.path)).expect("seconds").1;
    cut(0);
    assert_eq!(seconds().map(|(_, to)| to), Some(before.second()));
    fs::remove_file(&path).expect("ours");
    assert!(is_there(&path));
    assert_eq!(seconds().map(|(_, to)| to), Some(before.second()));
}

#[test]
fn seconds_are_there_again_from_all_files_and_take_no_more_than_they_may() {
    let path = folder("ring").join("history");
    let size_max = 64 << 10;
    let (mut one, said) = writer(&path, size_max);
    write(&mut one, 1..=3000);
    assert_eq!(*said.borrow(), [""; 0]);
    let olds = segments(&path).expect("a folder");
    assert!(olds.len() >= 10, "{olds:?}");
    let mut files: Vec<PathBuf> = olds.iter().map(|old| old.path.clone()).collect();
    files.push(path.clone());
    let metadata: Vec<fs::Metadata> = files.iter().map(|path| fs::metadata(path).expect("it is there")).collect();
    let len = metadata.iter().map(fs::Metadata::len).sum::<u64>();
    assert!(len <= size_max && len > size_max * 3 / 4, "{len}");
    assert!(metadata.iter().all(|metadata| metadata.mode() & 0o777 == 0o600));
    // Another process goes on.
    let (mut other, _) = writer(&path, size_max);
    write(&mut other, 3001..=3003);
    let mut history = History::default();
    let back = read_back(&path, &mut history, WHOLE);
    assert_eq!(back, ReadBack { seconds: history.seconds().len(), complaints: Vec::new() });
    let found = seconds(&history);
    assert!(found.len() > 100 && found.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{found:?}");
    assert_eq!(found.last(), Some(&3003));
    let mut part = History::default();
    read_back(&path, &mut part, Span { from: At(2_999_000), to: At(3_001_999) });
    assert_eq!(seconds(&part), [2999, 3000, 3001]);
    // A minute at a time, the same.
    let mut reading = Reading::of(&path, WHOLE);
    let parts: Vec<Vec<u64>> = std::iter::from_fn(|| reading.next_part()).map(|part| seconds(&part)).collect();
    assert_eq!(parts.concat(), found);
    assert!(parts.iter().all(|part| part[0] / 60 == part[part.len() - 1] / 60), "{parts:?}");
    // Smaller files: the oldest go.
    let (mut small, _) = writer(&path, size_max / 4);
    write(&mut small, 3004..=3005);
    let left: u64 = segments(&path).expect("a folder").iter().map(|old| old.len).sum();
    assert!(left <= size_max / 4, "{left}");
    fs::remove_dir_all(path.parent().expect("it has one")).expect("our own");
}

#[test]
fn a_segment_of_a_clock_that_was_ahead_is_removed_first_and_other_files_are_left() {
    let path = folder("ahead").join("history");
    let size_max = 32 << 10;
    let (mut one, _) = writer(&path, size_max);
    let (ahead, now) = (4_000_000_000, 1_800_000_000);
    write(&mut one, ahead..ahead + 200);
    for name in ["history.old", "history.20260701", "history.20260701T140512Zx", "other.20260701T140512Z"] {
        fs::write(path.with_file_name(name), vec![0; 64 << 10]).expect("our own");
    }
    // The clock was set back, twice to the same second.
    write(&mut one, (now..now + 200).chain(now..now + 4000));
    let olds = segments(&path).expect("a folder");
    assert!(olds.iter().all(|old| !old.path.to_string_lossy().contains("20961002")), "{olds:?}");
    assert_eq!(fs::read_dir(path.parent().expect("one")).expect("a folder").count(), 4 + 1 + olds.len());
    fs::remove_dir_all(path.parent().expect("it has one")).expect("our own");
}

#[test]
fn a_clock_that_was_set_back_costs_nobody_anything() {
    let path = folder("back").join("history");
    let (mut one, said) = writer(&path, 1 << 20);
    write(&mut one, (100..110).chain(105..120));
    assert_eq!(*said.borrow(), [""; 0]);
    let mut history = History::default();
    let back = read_back(&path, &mut history, WHOLE);
    assert_eq!((seconds(&history), back.complaints), ((100..120).collect(), Vec::new()));
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
    // The third was packed with the second, which is lost; a process that begins packs with nothing.
    assert_eq!((seconds(&history), back.complaints.len()), (vec![1], 1));
    let (mut one, _) = writer(&path, 1 << 20);
    write(&mut one, [3]);
    let mut history = History::default();
    read_back(&path, &mut history, WHOLE);
    assert_eq!(seconds(&history), [1, 3]);
    fs::rename(&path, path.with_extension("away")).expect("our own");
    write(&mut one, [4]);
    let mut history = History::default();
    read_back(&path, &mut history, WHOLE);
    assert_eq!(seconds(&history), [4]);
    // A reader gives up on a file that has only marks.
    let marks = [HEADER, &[0xf5, b'p', b'w', 0x0a, 0, 0, 0, 1].repeat(100_000)].concat();
    fs::write(&path, marks).expect("our own");
    let back = read_back(&path, &mut History::default(), WHOLE);
    // A complaint for each damaged part that was looked at, and one that the rest is left out.
    assert!(back.seconds == 0 && back.complaints.len() <= 2 + 100, "{back:?}");
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

#[test]
fn a_file_that_is_retired_during_a_reading_is_read() {
    let path = folder("retired").join("history");
    let size_max = 64 << 10;
    let (mut one, _) = writer(&path, size_max);
    write(&mut one, 1..=5);
    let mut reading = Reading::of(&path, WHOLE);
    let before = segments(&path).expect("a folder").len();
    let mut at = 6;
    while segments(&path).expect("a folder").len() == before {
        write(&mut one, [at]);
        at += 1;
    }
    let found: Vec<u64> = std::iter::from_fn(|| reading.next_second()).map(|(at, _)| at.second()).collect();
    // The last one is in the next file, which was begun after the reading.
    assert_eq!(found, (1..at - 1).collect::<Vec<_>>());
    assert_eq!(reading.complaints, [""; 0]);
    fs::remove_dir_all(path.parent().expect("it has one")).expect("our own");
}

#[test]
fn a_second_that_is_too_long_is_lost_and_logged_once() {
    let path = folder("long").join("history");
    let (mut one, said) = writer(&path, 64 << 20);
    let (sender, receiver) = sync_channel(9);
    let long = vec![b'x'; activity::history::frames::SECOND_LEN_MAX + 1];
    for second in [second(1), (At(2000), long.clone()), (At(3000), long), second(4)] {
        sender.send(second).expect("it is held");
    }
    drop(sender);
    one.run(&receiver);
    let text = "observer: the history: a second has more than 4 MB and is not written to disk; \
                others that are too long are only counted";
    assert_eq!(*said.borrow(), [text]);
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((count(&one.counters.seconds), count(&one.counters.lost)), (2, 2));
    let mut history = History::default();
    let back = read_back(&path, &mut history, WHOLE);
    assert_eq!((seconds(&history), back.complaints), (vec![1, 4], Vec::new()));
    fs::remove_dir_all(path.parent().expect("it has one")).expect("our own");
}

#[test]
fn a_segment_replaces_no_other_and_one_that_another_process_has_retired_is_no_failure() {
    let path = folder("two").join("history");
    for text in ["one", "two", "three"] {
        fs::write(&path, text).expect("our own");
        retire(&path, At(1000)).expect("it is there");
    }
    let olds = segments(&path).expect("a folder");
    let texts: Vec<String> = olds.iter().map(|old| fs::read_to_string(&old.path).expect("our own")).collect();
    assert_eq!(texts, ["one", "two", "three"]);
    // Another process was faster.
    assert!(!fs::exists(&path).expect("our own"));
    retire(&path, At(1000)).expect("there is nothing to do");
    fs::remove_dir_all(path.parent().expect("it has one")).expect("our own");
}

#[test]
fn a_second_that_is_just_being_written_is_no_damage_and_one_in_an_old_file_is() {
    let path = folder("end").join("history");
    let (mut one, _) = writer(&path, 1 << 20);
    write(&mut one, [1, 2]);
    let len = fs::metadata(&path).expect("it is there").len();
    OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(len - 5)).expect("our own");
    assert_eq!(read_back(&path, &mut History::default(), WHOLE), ReadBack { seconds: 1, complaints: Vec::new() });
    retire(&path, At(0)).expect("it is there");
    let back = read_back(&path, &mut History::default(), WHOLE);
    let old = segments(&path).expect("a folder").remove(0).path;
    assert_eq!(back.complaints, [format!("{}: 1 parts of it are damaged", old.display())]);
    fs::remove_dir_all(path.parent().expect("it has one")).expect("our own");
}

#[test]
fn the_rest_of_a_file_with_too_many_damaged_parts_is_left_out_with_a_complaint() {
    let path = folder("marks").join("history");
    let (mut one, _) = writer(&path, 1 << 20);
    write(&mut one, [1]);
    let mut bytes = fs::read(&path).expect("our own");
    let frame = bytes.split_off(HEADER.len());
    let marks = [0xf5, b'p', b'w', 0x0a, 0xff, 0xff, 0xff, 0xff].repeat(200);
    fs::write(&path, [HEADER, &marks, &[0; 24], &frame].concat()).expect("our own");
    let back = read_back(&path, &mut History::default(), WHOLE);
    let text = format!("{}: more than 100 parts of it are damaged: the rest of it is left out", path.display());
    assert_eq!(back, ReadBack { seconds: 0, complaints: vec![text] });
    fs::remove_dir_all(path.parent().expect("it has one")).expect("our own");
}

#[test]
fn a_file_with_the_name_of_a_segment_is_removed_only_if_it_is_ours() {
    let path = folder("named").join("history");
    let other = path.with_file_name("history.19700101T000000Z");
    fs::write(&other, vec![0; 64 << 10]).expect("our own");
    let (mut one, _) = writer(&path, 32 << 10);
    write(&mut one, 1..=3000);
    assert_eq!(fs::metadata(&other).expect("it is there still").len(), 64 << 10);
    let olds = segments(&path).expect("a folder");
    assert!(olds.len() > 5, "it takes no room from ours: {olds:?}");
    fs::remove_dir_all(path.parent().expect("it has one")).expect("our own");
}
