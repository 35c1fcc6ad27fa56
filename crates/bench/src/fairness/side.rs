//! The poolers between the crowds and one real PostgreSQL: what their ini files say, and who logs in where.

use std::path::Path;

use crate::contestant::{Contestant, Premises, Running};
use crate::style::{USER, asking};
use crate::world::{FleetId, World};

/// Servers of each pool.
pub const SERVERS: u32 = 20;

/// A pooler, and how the crowds share it.
#[derive(Clone, Debug)]
pub struct Arm {
    pub name: &'static str,
    pub about: &'static str,
    pub program: Contestant,
    pub sharing: Sharing,
}

/// How crowds share PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One pool, a class with this weight for each crowd.
    Classes(&'static [u32]),
    /// One pool and one line.
    OneLine,
    /// A pool for each crowd.
    Apart,
}

/// One of the crowds: clients that call themselves by its name and ask the same.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    pub name: &'static str,
    pub clients: usize,
    pub sql: &'static str,
    /// Of the answer's only row.
    pub row_bytes: usize,
}

/// An arm at work, with its crowds logged in.
#[derive(Debug)]
pub struct FairnessSide {
    pub name: &'static str,
    pub running: Running,
    pub fleets: Vec<FleetId>,
}

impl FairnessSide {
    /// Starts a pooler, and logs the crowds in.
    pub fn start(
        place: &Premises,
        arm: &Arm,
        crowds: &[Crowd],
        postgres: u16,
        world: &mut World,
        cores: &[usize],
    ) -> Result<FairnessSide, String> {
        place.write(&rules_name(arm), &rules(crowds))?;
        let text = |port| ini(&place.folder, arm, crowds, postgres, port);
        // Two arms of one program need two names: a copy of the program and an ini file for each.
        let program = Contestant { name: arm.name.to_owned(), ..arm.program.clone() };
        let running = Running::start(place, &program, text, &[], cores)?;
        let mut fleets = Vec::new();
        for crowd in crowds {
            let database = if arm.sharing == Sharing::Apart { crowd.name } else { "bench" };
            let fleet = world.fleet(running.port, asking(crowd.name, database, crowd.sql, crowd.row_bytes));
            world.connect(fleet, crowd.clients).map_err(|error| blame(&running, &error))?;
            fleets.push(fleet);
        }
        Ok(FairnessSide { name: arm.name, running, fleets })
    }

    /// Puts the pooler's name and its last words before an error.
    pub fn blame(&self, error: &str) -> String {
        blame(&self.running, error)
    }
}

fn blame(running: &Running, error: &str) -> String {
    let log = running.log();
    let last: Vec<&str> = log.lines().rev().take(5).collect();
    format!("{}: {error}\n{}", running.name, last.into_iter().rev().collect::<Vec<_>>().join("\n"))
}

fn rules_name(arm: &Arm) -> String {
    format!("classes-{}.conf", arm.name)
}

/// Who calls itself like a crowd is in its class.
fn rules(crowds: &[Crowd]) -> String {
    crowds.iter().map(|crowd| format!("all all {0} all {0}\n", crowd.name)).collect()
}

fn ini(folder: &Path, arm: &Arm, crowds: &[Crowd], postgres: u16, port: u16) -> String {
    let database = |name: &str| format!("{name} = host=127.0.0.1 port={postgres} dbname=bench user={USER}\n");
    let mut text = format!("[databases]\n{}", database("bench"));
    if arm.sharing == Sharing::Apart {
        crowds.iter().for_each(|crowd| text += &database(crowd.name));
    }
    let mut more = String::new();
    if let Sharing::Classes(weights) = arm.sharing {
        text += "[classes]\n";
        let lines = crowds.iter().zip(weights).map(|(crowd, weight)| format!("{} = weight={weight}\n", crowd.name));
        text.extend(lines);
        more = format!("class_file = {}\n", folder.join(rules_name(arm)).display());
    }
    let users = folder.join("users-Trust.txt");
    text += &format!(
        "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\n\
         auth_file = {}\nadmin_users = {USER}\npool_mode = transaction\ndefault_pool_size = {SERVERS}\n\
         max_client_conn = 12000\nlog_connections = 0\nlog_disconnections = 0\n{more}",
        users.display()
    );
    text.extend(arm.program.settings.iter().map(|(key, value)| format!("{key} = {value}\n")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crowd_has_its_class_or_its_pool() {
        let crowd = |name| Crowd { name, clients: 1, sql: "select 1", row_bytes: 1 };
        let crowds = [crowd("greedy"), crowd("modest")];
        let ini = |sharing| {
            let arm = Arm { name: "arm", about: "", program: Contestant::direct(), sharing };
            ini(Path::new("/place"), &arm, &crowds, 1, 2)
        };
        let classes = ini(Sharing::Classes(&[1, 4]));
        assert!(classes.contains("[classes]\ngreedy = weight=1\nmodest = weight=4\n[pgbouncer]"), "{classes}");
        assert!(classes.contains("\nclass_file = /place/classes-arm.conf\n"), "{classes}");
        assert_eq!(rules(&crowds), "all all greedy all greedy\nall all modest all modest\n");
        let apart = ini(Sharing::Apart);
        assert!(apart.contains("\ngreedy = host=") && apart.contains("\nmodest = host="), "{apart}");
        let one_line = ini(Sharing::OneLine);
        assert!(!one_line.contains("class") && !one_line.contains("greedy"), "{one_line}");
    }
}
