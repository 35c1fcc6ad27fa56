//! The configuration files in the documentation are sound: each `ini` block, with the `conf` block after it as its
//! class_file, and the samples in docs/. crates/outer/tests/clients runs the `console` blocks; a comment above each
//! `text` block gives the reason why it is not run.

use std::path::{Path, PathBuf};

#[path = "../../outer/src/examples.rs"]
pub mod examples;

use examples::{Block, Kind};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// As `pgweir check` reads it, with these rules.
fn check(place: &str, ini: &str, rules: &str) {
    let read = |name: &str| match name {
        "weir.ini" => Ok(ini.as_bytes().to_vec()),
        name if name.ends_with("classes.conf") => Ok(rules.as_bytes().to_vec()),
        name if name.ends_with("userlist.txt") => {
            Ok(b"\"app\" \"secret\"\n\"dba\" \"another secret\"\n\"prober\" \"a third secret\"\n".to_vec())
        }
        name if name.starts_with("/run/secrets/") || name.ends_with(".password") => Ok(b"secret\n".to_vec()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let config = config::load_with("weir.ini", 4, config::Built { pam: true, gssapi: true }, &read)
        .unwrap_or_else(|problems| panic!("{place}\n{ini}{problems:#?}"));
    // An example is a part of a file, without its users.
    let lacks = |problem: &&config::Problem| {
        ["no user who can log in", "no entry", "nothing, which means \"prefer\""].contains(&problem.found.as_str())
    };
    let warnings: Vec<_> = config.warnings.iter().filter(|problem| !lacks(problem)).collect();
    assert!(warnings.is_empty(), "{place}\n{ini}{rules}{warnings:#?}");
}

#[test]
fn every_file_in_the_pages_is_accepted_without_a_warning() {
    let blocks = examples::all(&root()).expect("every block says how it is run");
    let mut files = 0;
    for (at, block) in blocks.iter().enumerate().filter(|(_, block)| block.kind == Kind::Ini) {
        let rules = blocks.get(at + 1).filter(|next| next.kind == Kind::Conf).map_or("", |next| &next.text);
        assert_eq!(block.text.contains("class_file"), !rules.is_empty(), "{}: class_file and rules", block.place);
        check(&block.place, &block.text, rules);
        files += 1;
    }
    let rules = blocks.iter().filter(|block| block.kind == Kind::Conf).count();
    assert!(files >= 8 && rules >= 3, "{files} files, {rules} of rules");
}

/// Text that is no step of a recipe.
fn is_not_run(block: &Block) -> bool {
    block.kind == Kind::Text && block.setting("recipe").is_none()
}

/// The count of blocks that are not run: adding one needs a change here.
#[test]
fn so_many_blocks_are_not_run() {
    let blocks = examples::all(&root()).expect("every block says how it is run");
    let of = |page: &str| {
        let is_of = |block: &&Block| is_not_run(block) && block.place.split(':').next() == Some(page);
        blocks.iter().filter(is_of).count()
    };
    let all = blocks.iter().filter(|block| is_not_run(block)).count();
    let pages = [
        ("README.md", 1),
        ("docs/README.md", 1),
        ("docs/guide/authentication.md", 1),
        ("docs/guide/console.md", 2),
        ("docs/guide/container.md", 4),
        ("docs/guide/deadlines-and-limits.md", 2),
        ("docs/guide/doctor.md", 3),
        ("docs/guide/from-pgbouncer.md", 2),
        ("docs/guide/kubernetes.md", 5),
        ("docs/guide/limits-and-memory.md", 2),
        ("docs/guide/live-page.md", 3),
        ("docs/guide/log.md", 1),
        ("docs/guide/metrics.md", 4),
        ("docs/guide/operating.md", 2),
        ("docs/guide/packages.md", 9),
        ("docs/guide/profile.md", 1),
        ("docs/guide/proxies.md", 1),
        ("docs/guide/published-tests.md", 1),
        ("docs/guide/replication.md", 1),
        ("docs/guide/report.md", 3),
        ("docs/guide/service.md", 3),
        ("docs/guide/sizing-and-sharing.md", 4),
        ("docs/guide/top.md", 5),
        ("docs/guide/tracing.md", 2),
        ("docs/guide/transparent-pooling.md", 1),
        ("docs/guide/two-poolers.md", 3),
        ("docs/guide/why-is-it-slow.md", 5),
        ("docs/recipes/cloudnative-pg.md", 1),
        ("docs/recipes/dotnet.md", 2),
        ("docs/recipes/gitlab.md", 1),
        ("docs/recipes/go.md", 2),
        ("docs/recipes/hibernate.md", 1),
        ("docs/recipes/laravel.md", 2),
        ("docs/recipes/patroni.md", 1),
        ("docs/recipes/rails.md", 2),
        ("docs/recipes/secrets.md", 1),
        ("docs/start/dba.md", 7),
        ("docs/start/developer.md", 3),
        ("docs/start/sre.md", 1),
    ];
    assert_eq!(pages.map(|(page, _)| (page, of(page))), pages);
    assert_eq!(all, pages.iter().map(|(_, count)| count).sum::<usize>(), "no other page has any");
    // A drawing is compared with the code by a test that names its page.
    let mut drawn = blocks.iter().filter(|block| block.kind == Kind::Mermaid);
    assert!(drawn.all(|block| block.place.starts_with("docs/states.md:")), "no other page has a drawing");
}

#[test]
fn the_sample_of_classes_is_the_guides() {
    let sample = std::fs::read_to_string(root().join("docs/classes.conf")).expect("it is in the tree");
    let blocks = examples::all(&root()).expect("every block says how it is run");
    let at = blocks.iter().position(|block| block.kind == Kind::Conf && block.place.contains("sizing-and-sharing"));
    let at = at.expect("the guide has one");
    assert!(sample.ends_with(&format!("\n{}", blocks[at].text)), "docs/classes.conf ends with {}", blocks[at].place);
    check("docs/classes.conf", &blocks[at - 1].text, &sample);
}
