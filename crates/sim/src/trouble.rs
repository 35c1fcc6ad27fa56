//! What goes wrong at PostgreSQL while work is going on.

use crate::network::Leaving;
use crate::postgres::Process;
use crate::random::Random;
use crate::world::{Happening, Stage, World};

impl World {
    /// One trouble, and the appointment for the next.
    pub(crate) fn trouble(&mut self) {
        if self.stage != Stage::Working {
            return;
        }
        let pause = self.random.range(1, 2 * self.plan.faults.every);
        self.after(pause, Happening::Trouble);
        match self.random.below(20) {
            _ if self.plan.promises.last_words => self.one_dies(),
            0..=8 => self.one_dies(),
            9..=14 => self.one_stalls(),
            15 | 16 => self.restart(),
            17 => self.postgres.full_until = self.now + self.random.skewed(1_000, 500_000),
            _ => self.one_link_breaks(),
        }
    }

    pub(crate) fn end_trouble(&mut self) {
        self.postgres.recover();
        // Fair weather too: what is still to be sent comes in whole pieces.
        (self.plan.weather.pieces, self.plan.weather.late) = (0, 0);
    }

    fn one_dies(&mut self) {
        let mut random = self.random.clone();
        let chosen = self.some_process(&mut random);
        self.random = random;
        if let Some(index) = chosen {
            self.kill(index, "57P01", "terminating connection due to administrator command");
        }
    }

    /// Ends a process: mostly with its last words, sometimes without.
    fn kill(&mut self, index: usize, code: &'static str, text: &str) {
        let Some(mut process) = self.postgres.processes[index].take() else { return };
        self.census.server_deaths += 1;
        self.trouble_at = Some(self.now);
        let (number, id) = (process.number, process.link);
        self.trace.line(self.now, || format!("server {number} dies: {code}"));
        if self.random.chance(300) {
            self.close_peer_side(id, Leaving::Cut);
            return;
        }
        let idle = process.is_idle() && self.network.get(id).is_some_and(|link| link.down.is_empty());
        self.say_fatal(&mut process, code, text);
        if idle && let Some(link) = self.network.get_mut(id) {
            self.census.last_words += 1;
            link.dying = true;
        }
        self.postgres.processes[index] = Some(process);
        self.after(0, Happening::Process { index: index as u32, number });
    }

    fn one_stalls(&mut self) {
        let mut random = self.random.clone();
        let chosen = self.some_process(&mut random);
        self.random = random;
        let Some(index) = chosen else { return };
        let micros = self.random.skewed(1_000, 3_000_000);
        let Some(mut process) = self.postgres.processes[index].take() else { return };
        if process.is_idle() {
            self.census.server_stalls += 1;
            self.keep_busy(&mut process, index as u32, micros);
        }
        self.postgres.processes[index] = Some(process);
    }

    /// One database's server ends all its processes, is away for a while, then starting up for a while.
    fn restart(&mut self) {
        self.census.restarts += 1;
        let database = self.random.below(self.plan.databases.len() as u64) as u16;
        let away = self.random.skewed(1_000, 500_000);
        let starting = self.random.skewed(1_000, 500_000);
        self.postgres.down_until[usize::from(database)] = self.now + away;
        self.postgres.starting_until[usize::from(database)] = self.now + away + starting;
        self.trouble_at = Some(self.now);
        let here = |process: &Option<Box<Process>>| {
            process
                .as_ref()
                .is_some_and(|process| process.database == database && process.serves() && !process.is_ending())
        };
        let doomed: Vec<usize> =
            self.postgres.processes.iter().enumerate().filter(|(_, process)| here(process)).map(|(at, _)| at).collect();
        for index in doomed {
            self.kill(index, "57P01", "terminating connection due to administrator command");
        }
    }

    fn one_link_breaks(&mut self) {
        let mut random = self.random.clone();
        let chosen = self.some_process(&mut random);
        self.random = random;
        let Some(index) = chosen else { return };
        let Some(process) = self.postgres.processes[index].take() else { return };
        self.census.server_deaths += 1;
        self.trouble_at = Some(self.now);
        self.close_peer_side(process.link, Leaving::Cut);
    }

    /// A random process that has logged in, if there is any.
    fn some_process(&self, random: &mut Random) -> Option<usize> {
        let serving =
            self.postgres.processes.iter().enumerate().filter(|(_, process)| {
                process.as_ref().is_some_and(|process| process.serves() && !process.is_ending())
            });
        let serving: Vec<usize> = serving.map(|(index, _)| index).collect();
        (!serving.is_empty()).then(|| *random.pick(&serving))
    }
}
