//! A transcript's file: a header in prose, then blocks of lines that happen, `----`, and what follows from them.

use std::fmt::Write as _;

/// Sends are cut in two at every place up to here.
pub(crate) const SPLIT_LEN_MAX: usize = 160;

#[derive(Debug, Default)]
pub(crate) struct Transcript {
    /// Comment lines at the top.
    pub(crate) header: Vec<String>,
    pub(crate) blocks: Vec<Block>,
    /// `also split at every byte`
    pub(crate) splits: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) input: Vec<String>,
    pub(crate) expected: Vec<String>,
}

const SPLIT: &str = "also split at every byte";

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
        let mut block = Block::default();
        let mut answered = false;
        for line in lines {
            match line {
                SPLIT => transcript.splits = true,
                "----" => answered = true,
                "" if answered => {
                    transcript.blocks.push(std::mem::take(&mut block));
                    answered = false;
                }
                "" => {}
                line if answered => block.expected.push(line.to_owned()),
                line => block.input.push(line.to_owned()),
            }
        }
        if !block.input.is_empty() {
            transcript.blocks.push(block);
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
        for (index, (block, answer)) in self.blocks.iter().zip(answers).enumerate() {
            text.push('\n');
            if index == 0 && self.splits {
                let _ = writeln!(text, "{SPLIT}");
            }
            for line in &block.input {
                let _ = writeln!(text, "{line}");
            }
            let _ = writeln!(text, "----");
            for line in answer {
                let _ = writeln!(text, "{line}");
            }
        }
        text
    }
}
