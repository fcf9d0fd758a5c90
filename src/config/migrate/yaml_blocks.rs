//! Finds YAML inside other files: code blocks of Markdown, and configurations as strings of a Kubernetes
//! manifest.

use std::ops::Range;

use crate::settings::{Entry, Files, Kind, Node};

/// YAML block in another file, without its indentation.
pub(super) struct YamlBlock {
    pub(super) text: String,
    /// Byte range in the file.
    pub(super) range: Range<usize>,
    /// Number of lines before it.
    pub(super) line: usize,
    /// Number of spaces that were removed from each line.
    pub(super) indent: usize,
}

impl YamlBlock {
    /// Unindents lines of a file. `None` if one is indented less.
    fn new(file: &str, range: Range<usize>, indent: usize) -> Option<Self> {
        let mut text = String::new();
        for line in file[range.clone()].split_inclusive('\n') {
            let is_blank = line.trim().is_empty();
            text += if is_blank { line } else { line.strip_prefix(&" ".repeat(indent))? };
        }
        let line = file[..range.start].matches('\n').count();
        Some(Self { text, range, line, indent })
    }

    /// Indents a new text as the lines of the file are indented.
    pub(super) fn in_file(&self, text: &str) -> String {
        let margin = " ".repeat(self.indent);
        let line =
            |line: &str| if line.trim().is_empty() { line.to_owned() } else { format!("{margin}{line}") };
        text.split_inclusive('\n').map(line).collect()
    }
}

/// YAML blocks of a Markdown page.
pub(super) fn find_in_markdown(page: &str) -> Vec<YamlBlock> {
    let mut blocks = Vec::new();
    let mut lines = page.split_inclusive('\n').scan(0, |at, line| {
        *at += line.len();
        Some((*at - line.len(), line))
    });
    while let Some((start, line)) = lines.next() {
        let words = line.trim();
        let Some(mark) = ["```", "~~~"].iter().find(|mark| words.starts_with(**mark)) else { continue };
        let info = words.trim_start_matches(&mark[..1]);
        let fence = &words[..words.len() - info.len()];
        let is_end =
            |words: &str| words.starts_with(fence) && words.chars().all(|one| fence.starts_with(one));
        let Some((end, _)) = lines.find(|(_, line)| is_end(line.trim())) else { break };
        if let Some("yaml" | "yml") = info.split_whitespace().next() {
            let indent = line.len() - line.trim_start_matches(' ').len();
            blocks.extend(YamlBlock::new(page, start + line.len()..end, indent));
        }
    }
    blocks
}

/// Configurations in a Kubernetes `ConfigMap`: strings under file names.
pub(super) fn find_in_manifest(files: &Files, node: &Node, blocks: &mut Vec<YamlBlock>) {
    match &node.kind {
        Kind::Map(entries) => {
            for Entry { key, value } in entries {
                let is_file = key.text.ends_with(".yaml") || key.text.ends_with(".yml");
                match &value.kind {
                    Kind::Text(text) if is_file && value.is_literal => {
                        blocks.extend(from_literal(files, value, text));
                    }
                    _ => find_in_manifest(files, value, blocks),
                }
            }
        }
        Kind::List(items) => items.iter().for_each(|item| find_in_manifest(files, item, blocks)),
        Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => {}
    }
}

/// Lines of a literal block (`|`).
fn from_literal(files: &Files, node: &Node, text: &str) -> Option<YamlBlock> {
    let file = files.text(node.span);
    // The span of such a string begins at its first character, after the indentation.
    let start = file[..node.span.start].rfind('\n')? + 1;
    let first = file[start..].lines().find(|line| !line.trim().is_empty())?;
    let indent = first.len() - first.trim_start_matches(' ').len();
    let is_inside = |line: &&str| line.trim().is_empty() || line.starts_with(&" ".repeat(indent));
    let length: usize = file[start..].split_inclusive('\n').take_while(is_inside).map(str::len).sum();
    let block = YamlBlock::new(file, start..start + length, indent)?;
    // If the lines differ from the parsed string, the block is not migrated.
    let lines = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    (lines(&block.text).trim_matches('\n') == lines(text).trim_matches('\n')).then_some(block)
}
