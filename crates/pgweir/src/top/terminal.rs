//! The terminal: its keys to the screen, and the screen's picture to it.
//!
//! Promises that the terminal is as before afterwards, also after a panic, a SIGTERM or a SIGHUP. Asks the terminal not to turn the
//! direction of lines by the letters in them: a Hebrew name would move all columns of its row.

use std::io::{self, Write as _};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ::top::{Effect, Heard, Key, Refresh, Screen, draw};
use ask::Target;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};
use ratatui::{Terminal, TerminalOptions, Viewport};
use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::iterator::Signals;

use super::console::{Console, Errand};

/// An answer is on the screen so soon.
const TICK: Duration = Duration::from_millis(50);
/// BDSM, set and reset (ECMA-48, 7.2.1): whether the terminal orders letters by their direction.
const IN_OUR_ORDER: &[u8] = b"\x1b[8l";
const IN_ITS_ORDER: &[u8] = b"\x1b[8h";

pub(super) fn run(targets: Vec<Target>, screen: Screen, interval: Duration) -> Result<(), String> {
    let words = |error: io::Error| format!("the terminal: {error}");
    let mut terminal = Taken::begin().map_err(words)?;
    end_by_signals().map_err(words)?;
    let (wants, told) = Console::new(targets).serve();
    let mut follower =
        Follower { screen, wants, told, began: Instant::now(), interval, next: Duration::ZERO, asked: Asked::Nothing };
    let ran = follower.follow(&mut terminal.terminal);
    drop(terminal);
    ran.map_err(words)
}

/// On a thread of its own: where the terminal has gone, reading keys does not come back.
fn end_by_signals() -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGHUP])?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            give_back();
            // As a shell tells it.
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// What the console's thread has been asked.
enum Asked {
    Nothing,
    /// Its answer is awaited; whether it is to be asked again at once, because something else is on the screen now.
    Questions {
        again: bool,
    },
}

struct Follower {
    screen: Screen,
    wants: Sender<Errand>,
    told: Receiver<Heard>,
    began: Instant,
    interval: Duration,
    /// When it is asked next, since the program began.
    next: Duration,
    asked: Asked,
}

type Display = Terminal<CrosstermBackend<io::Stdout>>;

impl Follower {
    fn follow(&mut self, terminal: &mut Display) -> io::Result<()> {
        // It is drawn when something has come, a key or an answer, and for its clock.
        let mut drawn_at = None;
        loop {
            let has_news = self.hear();
            self.ask();
            let second = self.began.elapsed().as_secs();
            if has_news || drawn_at != Some(second) {
                terminal.draw(|frame| draw(&self.screen, frame))?;
                drawn_at = Some(second);
            }
            if !event::poll(TICK)? {
                continue;
            }
            drawn_at = None;
            // All keys that are there, before it is drawn again.
            while event::poll(Duration::ZERO)? {
                let Event::Key(key) = event::read()? else { continue };
                let Some(key) = known(key) else { continue };
                match self.screen.step(key) {
                    Effect::Quit => return Ok(()),
                    Effect::None => {}
                    Effect::Ask => self.ask_at_once(),
                    // The thread is there as long as this one.
                    Effect::Order(order) => _ = self.wants.send(Errand::Order(order)),
                }
            }
        }
    }

    /// Whether anything was heard.
    fn hear(&mut self) -> bool {
        let mut has_heard = false;
        while let Ok(heard) = self.told.try_recv() {
            has_heard = true;
            let now = self.began.elapsed();
            let is_order = matches!(heard, Heard::Done(..));
            self.screen.take(heard, now);
            if is_order {
                self.ask_at_once();
                continue;
            }
            self.next = now + self.interval;
            if matches!(self.asked, Asked::Questions { again: true }) {
                self.next = now;
            }
            self.asked = Asked::Nothing;
        }
        has_heard
    }

    fn ask_at_once(&mut self) {
        match &mut self.asked {
            Asked::Nothing => {
                self.asked = Asked::Questions { again: false };
                _ = self.wants.send(Errand::Answers(self.screen.questions()));
            }
            Asked::Questions { again } => *again = true,
        }
    }

    fn ask(&mut self) {
        let is_due = self.began.elapsed() >= self.next && self.screen.refresh() == Refresh::Running;
        if is_due && matches!(self.asked, Asked::Nothing) {
            self.ask_at_once();
        }
    }
}

fn known(key: KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if is_control => Key::Interrupt,
        KeyCode::Char(_) if is_control => return None,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}

/// The terminal, ours until this is dropped.
struct Taken {
    terminal: Display,
}

impl Taken {
    fn begin() -> io::Result<Taken> {
        // What a panic says would be on the screen that goes away.
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            usual(panic);
        }));
        enable_raw_mode()?;
        let mut out = io::stdout();
        let taken = execute!(out, EnterAlternateScreen, cursor::Hide).and_then(|()| out.write_all(IN_OUR_ORDER));
        let options = TerminalOptions { viewport: Viewport::Fullscreen };
        let terminal = taken.and_then(|()| Terminal::with_options(CrosstermBackend::new(out), options));
        if terminal.is_err() {
            give_back();
        }
        Ok(Taken { terminal: terminal? })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

/// A terminal that has gone needs nothing any more.
fn give_back() {
    let mut out = io::stdout();
    let _ = out.write_all(IN_ITS_ORDER);
    let _ = execute!(out, LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}
