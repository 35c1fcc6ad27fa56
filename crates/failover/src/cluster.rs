//! etcd and three PostgreSQL under Patroni.
//!
//! ```text
//!   start ──► whole ──(a fault)──► broken ──heal──► whole ──► drop: all processes are killed, the folder is removed
//! ```

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use client::Answer;
use demo::{Account, Guard, Home, free_port, random_password, unprivileged};
use measure::{interrupt, program};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::network::{HOSTS, Network};
use crate::node::{Node, Site, clear};
use crate::rest;
use crate::session::{Access, Session};
use crate::stock::{Programs, Stock};

/// A cluster is whole 20 s after its start. A host that has to be copied anew takes no longer; only a defect takes minutes.
const WHOLE_WITHIN: Duration = Duration::from_secs(180);
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Patroni answers GET at once, and carries out POST before it answers.
const READS_WITHIN: Duration = Duration::from_secs(2);
const ACTS_WITHIN: Duration = Duration::from_secs(60);
const ETCD_ENDS_WITHIN: Duration = Duration::from_secs(10);

/// A running cluster.
pub struct Cluster {
    account: Option<Account>,
    programs: Programs,
    network: Network,
    site: Site,
    nodes: Vec<Node>,
    patronis: Vec<Child>,
    etcd: Option<Child>,
    etcd_peers: SocketAddr,
    // Dropped in this order: the guard is dismissed before the folder is removed.
    guard: Option<Guard>,
    home: Home,
}

/// A member, as Patroni describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    host: usize,
    role: String,
    state: String,
    timeline: Option<u64>,
}

impl Cluster {
    /// Starts etcd and the hosts, and waits until all of them stream.
    ///
    /// # Errors
    /// A program is missing or does not run; three minutes are over; the run was interrupted.
    pub fn start(stock: &Stock, network: Network) -> Result<Self, String> {
        let account = unprivileged();
        let words = |error: demo::Error| error.to_string();
        let home = Home::create(None, account.as_ref()).map_err(words)?;
        let guard = Guard::of_folder(&home.dir, account.as_ref()).map_err(words)?;
        let programs = Programs::bring(stock, &home, account.as_ref())?;
        let site = Site {
            etcd: (network.outside(), free_port()).into(),
            password: random_password(),
            postgres_port: free_port(),
            rest_port: free_port(),
        };
        let etcd_peers = (network.outside(), free_port()).into();
        let nodes: Result<Vec<Node>, String> = (0..HOSTS)
            .map(|host| Node::prepare(host, &home.dir, &network, &site, &programs, account.as_ref()))
            .collect();
        let (nodes, guard, patronis) = (nodes?, Some(guard), Vec::new());
        let mut cluster =
            Self { account, programs, network, site, nodes, patronis, etcd: None, etcd_peers, guard, home };
        cluster.make_room("etcd")?;
        cluster.start_etcd()?;
        for host in 0..HOSTS {
            let patroni = cluster.start_patroni(host)?;
            cluster.patronis.push(patroni);
        }
        cluster.wait_until_whole()?;
        Ok(cluster)
    }

    /// The addresses of the hosts' PostgreSQL.
    #[must_use]
    pub fn places(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.postgres).collect()
    }

    /// A host's name for people.
    #[must_use]
    pub fn name(&self, host: usize) -> String {
        self.nodes[host].name()
    }

    /// The account that all of it runs as, where this program is root.
    #[must_use]
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// Makes a folder, the account's own. Processes that run in it end with the cluster.
    ///
    /// # Errors
    /// There is one of that name.
    pub fn make_room(&self, name: &str) -> Result<std::path::PathBuf, String> {
        let folder = self.home.dir.join(name);
        let words = |error: std::io::Error| format!("cannot make {}: {error}", folder.display());
        fs::create_dir(&folder).map_err(words)?;
        if let Some(Account { uid, gid, .. }) = self.account {
            std::os::unix::fs::chown(&folder, Some(uid), Some(gid)).map_err(words)?;
        }
        Ok(folder)
    }

    /// The host that is the primary, as Patroni describes the cluster.
    ///
    /// # Errors
    /// Nobody answers, or there is none.
    pub fn primary(&self) -> Result<usize, String> {
        self.find(&["leader", "primary"]).ok_or_else(|| "no member says who is the primary".to_owned())
    }

    /// The synchronous standby, which is to be the next primary.
    ///
    /// # Errors
    /// There is none now.
    pub fn candidate(&self) -> Result<usize, String> {
        self.find(&["sync_standby"]).ok_or_else(|| "there is no synchronous standby".to_owned())
    }

    /// The standby that is not synchronous.
    ///
    /// # Errors
    /// There is none now.
    pub fn other_standby(&self) -> Result<usize, String> {
        self.find(&["replica"]).ok_or_else(|| "there is no other standby".to_owned())
    }

    fn find(&self, roles: &[&str]) -> Option<usize> {
        self.members().into_iter().find(|member| roles.contains(&member.role.as_str())).map(|member| member.host)
    }

    /// Runs a statement at a host, as the superuser.
    ///
    /// # Errors
    /// The host does not answer, or with an error.
    pub fn query(&self, host: usize, sql: &str) -> Result<Answer, String> {
        let mut session = Session::open(&Access::superuser(self.nodes[host].postgres, &self.site.password), None)
            .map_err(|error| format!("{}: {error}", self.name(host)))?;
        let answer = session.query(sql).map_err(|error| format!("{}: {error}", self.name(host)))?;
        match answer.errors.first() {
            Some(error) => Err(format!("{}: {} {}", self.name(host), error.sqlstate, error.message)),
            None => Ok(answer),
        }
    }

    /// Asks Patroni to make the synchronous standby the primary; returns when it has answered.
    ///
    /// # Errors
    /// It refuses.
    pub fn switch_over(&self) -> Result<(), String> {
        let (from, to) = (self.primary()?, self.candidate()?);
        let wish = json!({ "leader": self.name(from), "candidate": self.name(to) });
        self.order(from, "POST", "/switchover", &wish)
    }

    /// Asks Patroni to restart PostgreSQL where it is; returns when it has been done.
    ///
    /// # Errors
    /// It refuses.
    pub fn restart(&self, host: usize) -> Result<(), String> {
        self.order(host, "POST", "/restart", &json!({}))
    }

    /// Tells Patroni to keep its hands off, or no longer. Returns once all members that run have learned it.
    ///
    /// # Errors
    /// It refuses, or one has not learned it.
    pub fn pause(&self, paused: bool) -> Result<(), String> {
        self.order(self.primary()?, "PATCH", "/config", &json!({ "pause": paused }))?;
        let has_learned = |node: &Node| {
            let answer = rest::ask(node.rest, "GET", "/patroni", None, READS_WITHIN);
            answer.map_or(node.processes().is_empty(), |answer| answer["pause"].as_bool().unwrap_or(false) == paused)
        };
        self.until("all members know of the pause", || self.nodes.iter().all(has_learned))
    }

    /// Promotes a standby behind Patroni's back.
    ///
    /// # Errors
    /// It does not become a primary within a minute.
    pub fn promote(&self, host: usize) -> Result<(), String> {
        self.query(host, "select pg_promote()").map(drop)
    }

    fn order(&self, host: usize, method: &str, path: &str, body: &Value) -> Result<(), String> {
        rest::ask(self.nodes[host].rest, method, path, Some(body), ACTS_WITHIN).map(drop)
    }

    /// Stops all processes of a host as they are.
    ///
    /// # Errors
    /// They do not stop within half a minute.
    pub fn freeze(&self, host: usize) -> Result<(), String> {
        self.nodes[host].freeze()
    }

    pub fn thaw(&self, host: usize) {
        self.nodes[host].thaw();
    }

    /// kill -9 for Patroni and PostgreSQL of a host.
    pub fn kill(&self, host: usize) {
        self.nodes[host].kill(self.patronis[host].id());
    }

    /// Ends a host and removes its data: it copies the primary's when the cluster is healed. A host that was promoted beside the
    /// primary has a history of its own, which Patroni does not always take back.
    ///
    /// # Errors
    /// The data cannot be removed.
    pub fn discard(&self, host: usize) -> Result<(), String> {
        let folder = &self.nodes[host].folder;
        clear(folder);
        let data = folder.join("data");
        fs::remove_dir_all(&data).map_err(|error| format!("cannot remove {}: {error}", data.display()))
    }

    /// Pulls the cable of a host.
    ///
    /// # Errors
    /// The network is the loopback.
    pub fn cut(&self, host: usize) -> Result<(), String> {
        self.network.cut(host)
    }

    /// Ends etcd; the hosts are refused there.
    pub fn stop_etcd(&mut self) {
        if let Some(mut etcd) = self.etcd.take() {
            program::end(&mut etcd, Signal::TERM, ETCD_ENDS_WITHIN);
        }
    }

    /// Starts it with what it had.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_etcd(&mut self) -> Result<(), String> {
        let folder = self.home.dir.join("etcd");
        let words = |error: std::io::Error| format!("cannot start etcd: {error}");
        let log = File::options().create(true).append(true).open(folder.join("log")).map_err(words)?;
        let mut command = Command::new(self.programs.etcd());
        if let Some(account) = &self.account {
            account.apply(&mut command);
        }
        let (clients, peers) = (format!("http://{}", self.site.etcd), format!("http://{}", self.etcd_peers));
        command.args(["--name", "one", "--data-dir", "data", "--listen-client-urls", &clients]);
        command.args(["--advertise-client-urls", &clients, "--listen-peer-urls", &peers]);
        command.args(["--initial-advertise-peer-urls", &peers, "--initial-cluster", &format!("one={peers}")]);
        command.env_clear().current_dir(&folder).stdin(Stdio::null()).process_group(0);
        command.stdout(log.try_clone().map_err(words)?).stderr(log);
        self.etcd = Some(command.spawn().map_err(words)?);
        Ok(())
    }

    /// Takes all faults back, and waits until all hosts stream.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn heal(&mut self) -> Result<(), String> {
        self.network.mend()?;
        self.nodes.iter().for_each(Node::thaw);
        if self.etcd.is_none() {
            self.start_etcd()?;
        }
        for host in 0..HOSTS {
            if matches!(self.patronis[host].try_wait(), Ok(None)) {
                continue;
            }
            // Processes of a PostgreSQL that was killed may still be about to end.
            clear(&self.nodes[host].folder);
            self.patronis[host] = self.start_patroni(host)?;
        }
        self.wait_until_whole()
    }

    fn start_patroni(&self, host: usize) -> Result<Child, String> {
        self.nodes[host].start(&self.network, &self.programs, self.account.as_ref())
    }

    fn wait_until_whole(&self) -> Result<(), String> {
        let waited = self.until("the cluster is whole", || self.is_whole());
        waited.map_err(|error| {
            let logs = self.nodes.iter().map(|node| format!("{} wrote:\n{}\n", node.name(), node.log()));
            format!("{error}; members: {:?}\n{}", self.members(), logs.collect::<String>())
        })
    }

    /// One primary, two standbys that stream from it, one of them synchronous; and PostgreSQL agrees.
    fn is_whole(&self) -> bool {
        let members = self.members();
        let count = |role: &str| members.iter().filter(|member| member.role == role).count();
        let leads = |member: &Member| member.role == "leader" && member.state == "running";
        let streams = |member: &Member| member.state == "streaming";
        let is_one_timeline = members.windows(2).all(|two| two[0].timeline == two[1].timeline);
        let shape = (members.len(), count("leader"), count("sync_standby"), count("replica"));
        if shape != (HOSTS, 1, 1, 1) || !is_one_timeline || !members.iter().all(|one| leads(one) || streams(one)) {
            return false;
        }
        let agrees = |member: &Member| {
            let recovers = self.query(member.host, "select pg_is_in_recovery()");
            recovers.is_ok_and(|answer| answer.value() == Some(if leads(member) { "f" } else { "t" }))
        };
        members.iter().all(agrees)
    }

    /// All members, as the first one describes them that answers.
    fn members(&self) -> Vec<Member> {
        let ask = |node: &Node| rest::ask(node.rest, "GET", "/cluster", None, READS_WITHIN).ok();
        let described = self.nodes.iter().filter_map(ask).map(|answer| self.read_members(&answer));
        described.into_iter().find(|members| !members.is_empty()).unwrap_or_default()
    }

    fn read_members(&self, answer: &Value) -> Vec<Member> {
        let member = |value: &Value| {
            let host = self.nodes.iter().position(|node| value["name"] == node.name())?;
            let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
            Some(Member { host, role: text("role"), state: text("state"), timeline: value["timeline"].as_u64() })
        };
        answer["members"].as_array().into_iter().flatten().filter_map(member).collect()
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) -> Result<(), String> {
        let limit = Instant::now() + WHOLE_WITHIN;
        while !is_so() {
            interrupt::check()?;
            if Instant::now() > limit {
                return Err(format!("after {WHOLE_WITHIN:?} still not so: {what}"));
            }
            std::thread::sleep(ASK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.nodes.iter().for_each(|node| eprintln!("{} wrote:\n{}", node.name(), node.log()));
        }
        clear(&self.home.dir);
        self.patronis.iter_mut().chain(&mut self.etcd).for_each(|child| drop(child.wait()));
        self.guard = None;
    }
}
