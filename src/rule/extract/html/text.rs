//! The text of an element as a browser shows it.

use scraper::{ElementRef, Node};

use super::work::Work;

/// What is never shown; an element that is asked for itself is.
const HIDDEN: [&str; 9] =
    ["head", "script", "style", "noscript", "template", "iframe", "object", "select", "textarea"];

/// Elements that begin and end a line.
#[rustfmt::skip]
const BLOCKS: [&str; 39] = [
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog",
    "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "html",
    "legend", "li", "listing", "main", "menu", "nav", "ol", "optgroup", "option", "plaintext", "pre", "section",
    "summary", "table", "tr", "ul", "xmp",
];

/// Elements whose white space is kept.
const KEPT: [&str; 5] = ["listing", "plaintext", "pre", "textarea", "xmp"];

/// Elements with a blank line round them.
const PARAGRAPHS: [&str; 7] = ["p", "h1", "h2", "h3", "h4", "h5", "h6"];

/// The text without markup: white space as one space, `<br>` and the ends of blocks as line breaks, a blank line
/// round paragraphs and headings, a tab between the cells of a row. No-break spaces are spaces. White space of `<pre>` is
/// kept, at the begin of the first line too: what stands there may be the header of a table.
pub(super) fn shown(root: ElementRef<'_>, work: &mut Work) -> Result<String, String> {
    let mut writer = Writer::default();
    let mut node = *root;
    loop {
        work.take(1)?;
        let mut is_shown = true;
        match node.value() {
            Node::Text(text) => {
                work.take(text.len())?;
                writer.write(text);
            }
            Node::Element(element) => {
                let is_hidden = HIDDEN.contains(&element.name()) || element.attr("hidden").is_some();
                is_shown = node.id() == root.id() || !is_hidden;
                if is_shown {
                    writer.edge(element.name(), true);
                }
            }
            _ => {}
        }
        if let Some(child) = node.first_child().filter(|_| is_shown) {
            node = child;
            continue;
        }
        loop {
            if let Some(element) = node.value().as_element().filter(|_| is_shown) {
                writer.edge(element.name(), false);
            }
            is_shown = true;
            if node.id() == root.id() {
                return Ok(writer.done());
            }
            if let Some(next) = node.next_sibling() {
                node = next;
                break;
            }
            let Some(parent) = node.parent() else { return Ok(writer.done()) };
            node = parent;
        }
    }
}

#[derive(Default)]
struct Writer {
    text: String,
    /// What comes before the next word.
    breaks: usize,
    tab: bool,
    space: bool,
    /// How many elements are open whose white space is kept.
    kept: usize,
    /// Whether the text begins in such an element.
    begins_kept: bool,
}

impl Writer {
    fn write(&mut self, text: &str) {
        for character in text.chars() {
            if self.kept > 0 && character == '\n' {
                self.breaks += 1;
            } else if self.kept == 0 && character.is_ascii_whitespace() {
                self.space = true;
            } else {
                self.pad();
                self.begins_kept |= self.text.is_empty() && self.kept > 0;
                self.text.push(if character == '\u{a0}' { ' ' } else { character });
            }
        }
    }

    /// The text without blank lines and white space round it.
    fn done(self) -> String {
        let text = self.text.trim_end();
        let from = match text.find(|character: char| !character.is_whitespace()) {
            Some(first) if self.begins_kept => text[..first].rfind('\n').map_or(0, |at| at + 1),
            Some(first) => first,
            None => 0,
        };
        text[from..].to_owned()
    }

    fn pad(&mut self) {
        if !self.text.is_empty() {
            if self.breaks > 0 {
                let end = self.text.trim_end_matches([' ', '\t']).len();
                self.text.truncate(end);
                self.text.extend(std::iter::repeat_n('\n', self.breaks));
            } else if self.tab {
                self.text.push('\t');
            } else if self.space {
                self.text.push(' ');
            }
        }
        (self.breaks, self.tab, self.space) = (0, false, false);
    }

    /// The begin or the end of an element.
    fn edge(&mut self, name: &str, is_begin: bool) {
        match name {
            "br" if is_begin => self.breaks += 1,
            "br" => {}
            "td" | "th" => self.tab = true,
            _ if PARAGRAPHS.contains(&name) => self.breaks = self.breaks.max(2),
            _ if BLOCKS.contains(&name) => self.breaks = self.breaks.max(1),
            _ => {}
        }
        if KEPT.contains(&name) {
            self.kept = if is_begin { self.kept + 1 } else { self.kept.saturating_sub(1) };
        }
    }
}
