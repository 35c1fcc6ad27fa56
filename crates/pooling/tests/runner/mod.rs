//! Plays one transcript: its lines into the machines, what they ask for into text.

mod backend;
mod classes;
mod frontend;
mod questions;
mod report;
mod settings;
mod socket;
mod traced;
pub(crate) mod transcript;
mod upgrade;
mod verbs;
mod watch;
mod words;
mod world;

use machine::Settings;
use transcript::Transcript;
use watch::Watch;
use words::Words;
use world::{Cut, World};

/// What followed from each of a transcript's lines, or the line that went wrong.
pub(crate) fn play(transcript: &Transcript) -> Result<Vec<Vec<String>>, String> {
    Ok(play_cut(transcript, Cut::Nowhere)?.answers)
}

struct Played {
    answers: Vec<Vec<String>>,
    /// All bytes that each connection was ever sent, by name.
    bytes: Vec<(String, Vec<u8>)>,
    /// How many bytes each send had, in their order.
    sends: Vec<usize>,
}

fn play_cut(transcript: &Transcript, cut: Cut) -> Result<Played, String> {
    let mut stage = Stage::default();
    let answers = transcript.steps.iter().map(|step| stage.play(&step.input, cut)).collect::<Result<_, _>>()?;
    let Some(world) = stage.world else { return Err("nothing happens in it".to_owned()) };
    let bytes = world.sockets.into_iter().map(|socket| (socket.name, socket.all)).collect();
    Ok(Played { answers, bytes, sends: world.sent })
}

/// A transcript with the line `also split at every byte` is played again with each send cut in two, at every place, and
/// once with every byte alone, and with sockets that take a few bytes at a time; every connection must be sent the same bytes.
pub(crate) fn play_split(transcript: &Transcript) -> Result<(), String> {
    // `SPLIT=1` does so with every transcript; where time or limits matter the bytes may differ then.
    if !transcript.splits && std::env::var_os("SPLIT").is_none() {
        return Ok(());
    }
    let whole = play_cut(transcript, Cut::Nowhere)?;
    let compare = |cut: Cut| -> Result<(), String> {
        let other = play_cut(transcript, cut)?;
        for ((name, wanted), (_, bytes)) in whole.bytes.iter().zip(&other.bytes) {
            if wanted != bytes && !lacks_goodbye(wanted, bytes) {
                return Err(format!("{cut:?}: {name} is sent other bytes:\n{wanted:02x?}\n{bytes:02x?}"));
            }
        }
        if whole.bytes.len() == other.bytes.len() { Ok(()) } else { Err(format!("{cut:?}: other connections")) }
    };
    compare(Cut::EveryByte)?;
    compare(Cut::ShortWrites)?;
    for (send, len) in whole.sends.iter().copied().enumerate() {
        for after in 1..len.min(transcript::SPLIT_LEN_MAX) {
            compare(Cut::Once { send, after })?;
        }
    }
    Ok(())
}

/// A server that is closed may not get the Terminate that was meant for it, or not all of it.
fn lacks_goodbye(wanted: &[u8], bytes: &[u8]) -> bool {
    const TERMINATE: &[u8] = b"X\0\0\0\x04";
    wanted.strip_suffix(TERMINATE).is_some_and(|rest| bytes.starts_with(rest) && wanted.starts_with(bytes))
}

/// The settings as far as they are read, and the world once something has happened.
#[derive(Default)]
struct Stage {
    settings: Option<Settings>,
    world: Option<World>,
    watch: Watch,
}

impl Stage {
    fn play(&mut self, line: &str, cut: Cut) -> Result<Vec<String>, String> {
        let told = self.line(line, cut);
        let mut seen = Vec::new();
        if let Some(world) = &mut self.world {
            seen.extend(world.report.take());
            seen.extend(self.watch.changes(world));
            world.violation().map_err(|why| format!("'{line}': {why}\n{}", seen.join("\n")))?;
        }
        told.map_err(|why| format!("'{line}': {why}"))?;
        Ok(seen)
    }

    fn line(&mut self, line: &str, cut: Cut) -> Result<(), String> {
        if line.starts_with('#') || line.is_empty() {
            return Ok(());
        }
        if self.world.is_none() {
            let split = words::split(line)?;
            let settings = self.settings.get_or_insert_with(settings::initial);
            if settings::apply(settings, Words::new(&split))? {
                return Ok(());
            }
        }
        let settings = &self.settings;
        let world = self.world.get_or_insert_with(|| {
            let mut world = World::new(settings.clone().unwrap_or_else(settings::initial));
            world.cut = cut;
            world
        });
        verbs::run(world, line)?;
        world.run_until_idle();
        Ok(())
    }
}
