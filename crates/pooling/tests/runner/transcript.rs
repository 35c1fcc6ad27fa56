//! A transcript's file: a header in prose, then what happens, a line each, and below it, indented, what follows from it.

use std::fmt::Write as _;

/// Sends are cut in two at every place up to here.
pub(crate) const SPLIT_LEN_MAX: usize = 160;

/// Before what follows.
const INDENT: &str = "    ";

const SPLIT: &str = "also split at every byte";

#[derive(Debug, Default)]
pub(crate) struct Transcript {
    /// Comment lines at the top.
    pub(crate) header: Vec<String>,
    pub(crate) steps: Vec<Step>,
    /// `also split at every byte`
    pub(crate) splits: bool,
}

/// One line that happens; a comment or an empty line is one at which nothing does.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) input: String,
    pub(crate) expected: Vec<String>,
}

impl Transcript {
    pub(crate) fn read(text: &str) -> Result<Transcript, String> {
        let mut transcript = Transcript::default();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next_if(|line| line.starts_with('#') || line.is_empty()) {
            transcript.header.push(line.to_owned());
        }
        while transcript.header.last().is_some_and(String::is_empty) {
            transcript.header.pop();
        }
        let prose: usize = transcript.header.iter().map(|line| line.len()).sum();
        if prose < 30 {
            return Err("a transcript begins with what it shows, in prose".to_owned());
        }
        for line in lines {
            match (line.strip_prefix(INDENT), transcript.steps.last_mut()) {
                _ if line == SPLIT => transcript.splits = true,
                (Some(follows), Some(step)) => step.expected.push(follows.to_owned()),
                (Some(_), None) => return Err(format!("'{line}' follows from nothing")),
                (None, _) => transcript.steps.push(Step { input: line.to_owned(), expected: Vec::new() }),
            }
        }
        Ok(transcript)
    }

    /// Known to fail: the first line says `# open: …`.
    pub(crate) fn is_open(&self) -> bool {
        self.header.first().is_some_and(|line| line.starts_with("# open:"))
    }

    /// The file with these answers in place of the expected ones.
    pub(crate) fn write(&self, answers: &[Vec<String>]) -> String {
        let mut text = String::new();
        for line in &self.header {
            let _ = writeln!(text, "{line}");
        }
        text.push('\n');
        if self.splits {
            let _ = writeln!(text, "{SPLIT}");
        }
        for (step, answer) in self.steps.iter().zip(answers) {
            let _ = writeln!(text, "{}", step.input);
            for line in answer {
                let _ = writeln!(text, "{INDENT}{line}");
            }
        }
        text
    }
}
