//! Every input in `corpus/` through its target, without libFuzzer: what was found once is not lost again.

use std::fs;
use std::path::Path;

#[test]
fn no_input_of_the_corpora_is_a_failure() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, run) in fuzz::TARGETS {
        let folder = fs::read_dir(root.join(name)).expect("every target has a corpus");
        let mut count = 0;
        for entry in folder {
            let path = entry.expect("the folder can be read").path();
            let bytes = fs::read(&path).expect("an input can be read");
            // The harness shows it with the panic that follows.
            println!("{}", path.display());
            run(&bytes);
            count += 1;
        }
        assert!(count >= 10, "the corpus of {name} has {count} inputs only");
        println!("{name}: {count} inputs");
    }
}
