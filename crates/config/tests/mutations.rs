//! Sound files with bytes changed at random, but the same each time: nothing panics, nothing grows without bound, and
//! what is refused is refused with a reason.

use std::io;

use config::problem::PROBLEMS_MAX;
use config::{Severity, Upstream};
use queueing::classes::Class;
use settings::PoolSize;

const INI: &str = include_str!("../../../docs/pgweir.ini");
const ENTRIES: &str = "\
[databases]
app = host=10.0.0.1,::1,/run/pg port=5433 dbname='a''b' user=web password='x y' pool_size=5 pool_mode=statement
\"my db\" = connect_query='select 1' server_lifetime=0.5 timezone='UTC'
* = host=@weir load_balance_hosts=disable
[users]
ann = pool_size=3 query_timeout=5 max_user_connections=-1
[peers]
1 = host=/run/weir port=6000
%include other.ini
[pgbouncer] auth_file = users.txt
listen_addr = 127.0.0.1, ::1
query_timeout = 0.5
";
const USERS: &str = "\
\"ann\" \"secret\"
; a comment
\"md5\" \"md50123456789abcdef0123456789abcdef\" more
\"quo\"\"ted\" \"se\"\"cret\"
\"empty\" \"\"
\"scram\" \"SCRAM-SHA-256$4096:AAECAwQFBgcICQoLDA0ODw==$AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"
";
const RULES: &str = "\
# database user application tag class
all all sidekiq*,\"good job\"  all  background
shop,\"ma\"\"il\" ann \"\" action:ex*,job:\"a b\" web # here
all all all all default
";
const URL: &str =
    "postgres://ann:p%40ss@db:5433,[::1]:1/app%20x?application_name=a&sslmode=prefer&host=/run/pg&connect_timeout=5";
const PASSFILE: &str = "db:5433:app x:ann:pa\\:ss\n*:*:*:*:any\n# comment\n\\::1";

/// Marsaglia's xorshift: no seed but the loop's number.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit.max(1)).expect("a length")).expect("below a length")
    }

    /// Bytes changed, put in, taken out, doubled, swapped for pieces that mean something.
    fn mutate(&mut self, text: &[u8]) -> Vec<u8> {
        const PIECES: [&[u8]; 16] = [
            b"=",
            b"'",
            b"\"",
            b"\n",
            b"[",
            b"]",
            b"%include weir.ini\n",
            b"%",
            b"\0",
            b"\xff",
            b" ",
            b"-1",
            b";",
            b"99999999999999999999",
            b"\\",
            b",",
        ];
        let mut text = text.to_vec();
        for _ in 0..=self.below(6) {
            let at = self.below(text.len());
            let end = (at + self.below(12)).min(text.len());
            match self.below(5) {
                0 if at < text.len() => text[at] = u8::try_from(self.below(256)).expect("below 256"),
                1 => drop(text.drain(at..end)),
                2 => {
                    let again = text[at..end].to_vec();
                    text.splice(at..at, again);
                }
                3 => text.truncate(at),
                _ => drop(text.splice(at..end, PIECES[self.below(PIECES.len())].iter().copied())),
            }
        }
        text
    }
}

#[test]
fn no_file_makes_it_panic() {
    let ini = format!("{INI}\n{ENTRIES}");
    let (mut loaded, mut refused) = (0, 0);
    for seed in 1..3000 {
        let mut random = Random(seed);
        let whole = if seed % 2 == 0 { ENTRIES } else { &ini };
        let (ini, users) = (random.mutate(whole.as_bytes()), random.mutate(USERS.as_bytes()));
        let read = |name: &str| match name {
            "weir.ini" => Ok(ini.clone()),
            "other.ini" => Ok(b"pool_size = 3".to_vec()),
            "users.txt" => Ok(users.clone()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        match config::load_with("weir.ini", 2, config::Built::default(), &read) {
            Ok(config) => {
                loaded += 1;
                assert!(!config::explain(&config).is_empty());
            }
            Err(problems) => {
                refused += 1;
                assert!(problems.iter().any(|problem| problem.severity == Severity::Error), "seed {seed}");
                assert!(problems.iter().all(|problem| !problem.to_string().contains('\n')), "seed {seed}");
            }
        }
    }
    // Else the mutations would be too gentle or too rough to say anything.
    assert!(loaded > 100 && refused > 100, "{loaded} loaded, {refused} refused");
}

#[test]
fn no_auth_file_makes_it_panic() {
    for seed in 1..20_000 {
        let mut random = Random(seed);
        let (users, problems) = config::userlist::parse("users.txt", &random.mutate(USERS.as_bytes()));
        assert!(users.len() <= USERS.len() && problems.len() <= PROBLEMS_MAX, "seed {seed}");
    }
}

#[test]
fn no_class_file_makes_it_panic() {
    let classes = ["default", "background", "web"].map(Class::new);
    let (mut sound, mut broken) = (0, 0);
    for seed in 1..20_000 {
        let mut random = Random(seed);
        let text = random.mutate(RULES.as_bytes());
        let mut problems = Vec::new();
        let rules = config::rules::parse("classes.conf", &text, &classes, &mut problems);
        assert!(rules.len() <= text.len() && problems.len() <= text.len(), "seed {seed}");
        assert!(rules.iter().all(|line| usize::from(line.rule.class.0) < classes.len()), "seed {seed}");
        assert!(problems.iter().all(|problem| problem.line > 0 && !problem.to_string().contains('\n')), "seed {seed}");
        if problems.is_empty() { sound += 1 } else { broken += 1 }
    }
    // Else the mutations would be too gentle or too rough to say anything.
    assert!(sound > 1000 && broken > 1000, "{sound} sound, {broken} broken");
}

#[test]
fn a_class_file_has_an_end() {
    let classes = [Class::new("default")];
    let read = |text: String| {
        let mut problems = Vec::new();
        let rules = config::rules::parse("f", text.as_bytes(), &classes, &mut problems);
        (rules.len(), problems.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let line = "all all all all default\n";
    assert_eq!(read(line.repeat(10_000)), (10_000, Vec::new()));
    let one_more = "f:10001: found one more rule, expected at most 10000".to_owned();
    assert_eq!(read(line.repeat(20_000)), (10_000, vec![one_more]));
    let too_long = "f: found 1048577 bytes or more, expected at most 1048576".to_owned();
    assert_eq!(read("\n".repeat((1 << 20) + 1)), (0, vec![too_long]));
    let (rules, problems) = read("nonsense\n".repeat(100_000));
    assert_eq!((rules, problems.len()), (0, PROBLEMS_MAX));
}

/// As many rules as there may be, none of which is of use: it takes a moment, not minutes.
#[test]
fn the_largest_class_file_is_judged() {
    let rules: String = (0..10_000).map(|user| format!("shop,mail user{user} app{user}* k:v{user} web\n")).collect();
    let users: String = (0..20_000).map(|user| format!("\"stranger{user}\" \"secret\"\n")).collect();
    let read = |name: &str| match name {
        "weir.ini" => {
            Ok(b"[classes]\nweb =\n[databases]\nx =\n[pgbouncer]\nauth_file = users.txt\nclass_file = f\n".to_vec())
        }
        "users.txt" => Ok(users.clone().into_bytes()),
        _ => Ok(rules.clone().into_bytes()),
    };
    let config = config::load_with("weir.ini", 2, config::Built::default(), &read).expect("only warnings");
    assert_eq!(config.pooling.classes.rules.len(), 10_000);
    assert!((PROBLEMS_MAX..2 * PROBLEMS_MAX).contains(&config.warnings.len()), "{}", config.warnings.len());
}

#[test]
fn no_url_makes_it_panic() {
    for seed in 1..20_000 {
        let mut random = Random(seed);
        let url = String::from_utf8_lossy(&random.mutate(URL.as_bytes())).into_owned();
        let passfile = String::from_utf8_lossy(&random.mutate(PASSFILE.as_bytes())).into_owned();
        let listen = ["127.0.0.1:6432", "*", "[::1]"][random.below(3)];
        let upstream = Upstream {
            env: &|_| None,
            assignments: &[],
            passfile: Some(&passfile),
            listen: Some(listen),
            pool_size: Some(PoolSize::Auto),
            cores: 1,
            built: config::Built::default(),
        };
        if let Ok(config) = config::from_urls(&[url], &upstream, &config::read_file) {
            assert!(!config::explain(&config).is_empty());
        }
    }
}

#[test]
fn files_that_include_each_other_come_to_an_end() {
    let reads = std::cell::Cell::new(0);
    let read = |_: &str| {
        reads.set(reads.get() + 1);
        Ok("%include a\n".repeat(20).into_bytes())
    };
    let problems = config::load_with("a", 1, config::Built::default(), &read).expect_err("it cannot end well");
    assert!(reads.get() <= 1001, "{} reads", reads.get());
    assert!(problems.len() <= 2 * PROBLEMS_MAX);
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let read = |_: &str| Ok(vec![b'\n'; config::ini::FILE_BYTES_MAX + 1]);
    let problems = config::load_with("a", 1, config::Built::default(), &read).expect_err("it is too large");
    assert!(problems[0].to_string().contains("expected at most 16777216 bytes"), "{}", problems[0]);
    let read = |_: &str| Ok("[pgbouncer]\n".repeat(300_000).into_bytes());
    let problems = config::load_with("a", 1, config::Built::default(), &read).expect_err("it has too many lines");
    assert!(problems[0].to_string().contains("at most 250000 lines"), "{}", problems[0]);
}

/// Found by fuzzing: a name from auth_file went to the terminal as it was.
#[test]
fn a_page_of_explanation_says_nothing_to_the_terminal() {
    let read = |name: &str| match name {
        "weir.ini" => Ok(b"[pgbouncer]\nauth_file = users.txt\n[databases]\n\"d\x1b[2J\" = host=::1\n".to_vec()),
        _ => Ok(b"\"u\x07\x0cv\" \"secret\"".to_vec()),
    };
    let page = config::explain(
        &config::load_with("weir.ini", 2, config::Built::default(), &read).expect("any name is a name"),
    );
    assert!(page.contains("u??v") && page.contains("d?[2J"), "{page}");
    assert!(page.lines().all(|line| !line.contains(char::is_control)), "{page:?}");
}
