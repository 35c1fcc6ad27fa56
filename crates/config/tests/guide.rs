//! The files in docs/guide/sizing-and-sharing.md are sound: each `ini` block, with the `conf` block behind it as its class_file.

use std::fs;
use std::path::PathBuf;

#[test]
fn every_example_of_the_guide_is_accepted_without_a_warning() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/sizing-and-sharing.md");
    let page = fs::read_to_string(path).expect("the guide is in the tree");
    let blocks: Vec<(&str, &str)> =
        page.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n')).collect();
    let mut examples = 0;
    for (index, (_, ini)) in blocks.iter().enumerate().filter(|(_, (kind, _))| *kind == "ini") {
        let rules = blocks.get(index + 1).filter(|(kind, _)| *kind == "conf").map_or("", |(_, text)| *text);
        assert_eq!(ini.contains("class_file"), !rules.is_empty(), "{ini}");
        let read = |name: &str| match name {
            "weir.ini" => Ok(ini.as_bytes().to_vec()),
            name if name.ends_with("classes.conf") => Ok(rules.as_bytes().to_vec()),
            _ => Ok(Vec::new()),
        };
        let config = config::load_with("weir.ini", 4, &read).unwrap_or_else(|problems| panic!("{ini}{problems:#?}"));
        // An example is a part of a file, without its users.
        let lacks = |problem: &&config::Problem| {
            problem.found == "no user who can log in" || problem.found == "no entry" || problem.found == "\"prefer\""
        };
        let warnings: Vec<_> = config.warnings.iter().filter(|problem| !lacks(problem)).collect();
        assert!(warnings.is_empty(), "{ini}{rules}{warnings:#?}");
        examples += 1;
    }
    assert!(examples >= 4, "{examples} examples");
}
