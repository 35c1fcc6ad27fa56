//! Lines of auth_file.
//!
//! Asserts that a warning has its line and one line of words, that there are no more users than lines, and that users who are
//! written again are the same.

use std::collections::BTreeMap;

use auth::Secret;

/// One run of the target.
pub fn run(bytes: &[u8]) {
    let (users, problems) = config::userlist::parse("users.txt", bytes);
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
    // A secret that seems to be a hash, and a user who is there already.
    assert!(users.len() <= lines && problems.len() <= 2 * lines, "no more users than lines, and two warnings for each");
    for problem in &problems {
        assert!((1..=lines).contains(&(problem.line as usize)), "line {} of {lines}", problem.line);
        assert!(!problem.to_string().contains('\n'));
    }
    // A hash of which only the digest is kept cannot be written again.
    let known: BTreeMap<&String, &Secret> =
        users.iter().filter(|(_, secret)| !matches!(secret, Secret::Md5(_))).collect();
    let text: String = known.iter().map(|(name, secret)| line(name, secret)).collect();
    let (again, problems) = config::userlist::parse("users.txt", text.as_bytes());
    assert!(problems.iter().all(|problem| problem.found.contains("begins as")), "{problems:?}");
    assert!(again.iter().eq(known), "users who are written are read again");
}

fn line(name: &str, secret: &Secret) -> String {
    let secret = match secret {
        Secret::Plain(password) => password.as_str().to_owned(),
        Secret::Scram(verifier) => verifier.to_string(),
        Secret::Md5(_) => String::new(),
    };
    format!("\"{}\" \"{}\"\n", name.replace('"', "\"\""), secret.replace('"', "\"\""))
}
