//! Text of an HTML element as a browser shows it, and the message of an error page.

use http::StatusCode;
use scraper::{ElementRef, Html as Page, Node};

use super::page;
use super::page::PageBudget;
use crate::translate::read_error::ReadError;

/// Elements whose text is skipped, unless the element itself was selected.
const HIDDEN: [&str; 9] =
    ["head", "script", "style", "noscript", "template", "iframe", "object", "select", "textarea"];

/// Elements with a line break before and after.
#[rustfmt::skip]
const BLOCKS: [&str; 39] = [
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog",
    "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "html",
    "legend", "li", "listing", "main", "menu", "nav", "ol", "optgroup", "option", "plaintext", "pre", "section",
    "summary", "table", "tr", "ul", "xmp",
];

/// Elements whose white space is preserved.
const PRESERVED: [&str; 5] = ["listing", "plaintext", "pre", "textarea", "xmp"];

/// Elements with a blank line before and after.
const PARAGRAPHS: [&str; 7] = ["p", "h1", "h2", "h3", "h4", "h5", "h6"];

/// Text of an element without markup. White space collapses to one space. `<br>` and block elements become
/// line breaks, paragraphs and headings have a blank line around them, and the cells of a row are separated
/// by a tab. No-break spaces become spaces. White space in `<pre>` is preserved, even at the beginning of the
/// first line, which may be the header of a table.
pub(super) fn rendered_text(root: ElementRef<'_>, budget: &mut PageBudget) -> Result<String, ReadError> {
    let mut writer = TextWriter::default();
    render(root, &mut writer, budget)?;
    Ok(writer.finish())
}

/// Writes the text of an element. Recurses once per level of nested elements.
fn render(
    element: ElementRef<'_>,
    writer: &mut TextWriter,
    budget: &mut PageBudget,
) -> Result<(), ReadError> {
    let name = element.value().name();
    budget.take(1)?;
    writer.handle_edge(name, true);
    for child in element.children() {
        match (child.value(), ElementRef::wrap(child)) {
            (Node::Text(text), _) => {
                budget.take(1 + text.len())?;
                writer.write(text);
            }
            (_, Some(child)) if !is_hidden(child) => render(child, writer, budget)?,
            _ => budget.take(1)?,
        }
    }
    writer.handle_edge(name, false);
    Ok(())
}

fn is_hidden(element: ElementRef<'_>) -> bool {
    HIDDEN.contains(&element.value().name()) || element.attr("hidden").is_some()
}

#[derive(Default)]
struct TextWriter {
    text: String,
    /// Pending separators before the next word: line breaks, a tab, a space.
    pending_breaks: usize,
    needs_tab: bool,
    needs_space: bool,
    /// Number of open elements that preserve white space.
    preserving_elements: usize,
    /// Whether the text begins inside an element that preserves white space.
    begins_preserved: bool,
}

impl TextWriter {
    fn write(&mut self, text: &str) {
        for character in text.chars() {
            if self.preserving_elements > 0 && character == '\n' {
                self.pending_breaks += 1;
            } else if self.preserving_elements == 0 && character.is_ascii_whitespace() {
                self.needs_space = true;
            } else {
                self.write_separator();
                self.begins_preserved |= self.text.is_empty() && self.preserving_elements > 0;
                self.text.push(if character == '\u{a0}' { ' ' } else { character });
            }
        }
    }

    /// Returns the text without surrounding blank lines and white space.
    fn finish(self) -> String {
        let text = self.text.trim_end();
        let start = match text.find(|character: char| !character.is_whitespace()) {
            Some(first) if self.begins_preserved => text[..first].rfind('\n').map_or(0, |at| at + 1),
            Some(first) => first,
            None => 0,
        };
        text[start..].to_owned()
    }

    fn write_separator(&mut self) {
        if !self.text.is_empty() {
            if self.pending_breaks > 0 {
                let end = self.text.trim_end_matches([' ', '\t']).len();
                self.text.truncate(end);
                self.text.extend(std::iter::repeat_n('\n', self.pending_breaks));
            } else if self.needs_tab {
                self.text.push('\t');
            } else if self.needs_space {
                self.text.push(' ');
            }
        }
        (self.pending_breaks, self.needs_tab, self.needs_space) = (0, false, false);
    }

    /// Handles the start or the end of an element.
    fn handle_edge(&mut self, name: &str, is_start: bool) {
        match name {
            "br" if is_start => self.pending_breaks += 1,
            "br" => {}
            "td" | "th" => self.needs_tab = true,
            _ if PARAGRAPHS.contains(&name) => self.pending_breaks = self.pending_breaks.max(2),
            _ if BLOCKS.contains(&name) => self.pending_breaks = self.pending_breaks.max(1),
            _ => {}
        }
        if PRESERVED.contains(&name) {
            self.preserving_elements = if is_start {
                self.preserving_elements + 1
            } else {
                self.preserving_elements.saturating_sub(1)
            };
        }
    }
}

/// Words that carry no information in an error message.
const STOP_WORDS: [&str; 10] =
    ["code", "error", "http", "page", "report", "response", "status", "sorry", "the", "type"];

/// Message of an error page: a line that begins with the status (`404 - No such project`), else the first
/// heading and the first paragraph (or else the first line of several words below the heading), else the
/// title. Lines that only repeat the status or name the server software are skipped.
pub(in crate::translate) fn error_page_message(page: &str, status: StatusCode) -> Option<String> {
    let page = page::parse(page).ok()?;
    let mut budget = PageBudget::for_page(&page, "");
    let mut line = |element| rendered_text(element, &mut budget).map(|text| collapse_whitespace(&text)).ok();
    let heading = elements(&page, &PARAGRAPHS[1..]).next().and_then(&mut line).unwrap_or_default();
    let title = elements(&page, &["title"]).next().and_then(&mut line);
    let paragraphs: Vec<String> = elements(&page, &["p"]).filter_map(&mut line).collect();
    let body = rendered_text(elements(&page, &["body"]).next()?, &mut budget).ok()?;
    let lines: Vec<String> = body.lines().map(collapse_whitespace).filter(|line| !line.is_empty()).collect();

    let is_informative = |text: &&String| !is_server_software(text) && has_information(text, status);
    let begins_with_status = |line: &&String| line.starts_with(status.as_str()) && is_informative(line);
    if let Some(line) = lines.iter().find(begins_with_status) {
        return Some(line.clone());
    }
    // A page may have menus after the heading, so paragraphs take precedence over other lines.
    let is_sentence = |line: &&String| line.contains(' ') && is_informative(line);
    let after_heading = lines.iter().position(|line| *line == heading).map_or(0, |at| at + 1);
    let sentence =
        paragraphs.iter().find(is_informative).or_else(|| lines[after_heading..].iter().find(is_sentence));
    let parts: Vec<&str> =
        Some(&heading).filter(is_informative).into_iter().chain(sentence).map(String::as_str).collect();
    match parts.as_slice() {
        [] => title.filter(|title| has_information(title, status)),
        parts => Some(parts.join(": ")),
    }
}

fn elements<'p>(page: &'p Page, names: &'static [&str]) -> impl Iterator<Item = ElementRef<'p>> {
    page.root_element().descendent_elements().filter(|element| names.contains(&element.value().name()))
}

/// Joins the words of a text by single spaces, in one line.
fn collapse_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a line is the name of the server software, such as `nginx/1.22.1` at the bottom of a page.
fn is_server_software(line: &str) -> bool {
    line.split_once('/').is_some_and(|(name, version)| {
        !name.contains(' ') && version.starts_with(|character: char| character.is_ascii_digit())
    })
}

/// Whether a string has a word other than the status, its reason and the stop words.
fn has_information(text: &str, status: StatusCode) -> bool {
    let reason = status.canonical_reason().unwrap_or_default();
    text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()).any(|word| {
        let is_reason = reason.split(['-', ' ']).any(|part| part.eq_ignore_ascii_case(word));
        let is_stop_word = STOP_WORDS.iter().any(|stop| stop.eq_ignore_ascii_case(word));
        !is_reason && !is_stop_word && word.chars().any(char::is_alphabetic)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, page: &str, expected: Option<&str>) {
        let found = error_page_message(page, StatusCode::from_u16(status).unwrap());
        assert_eq!(found.as_deref(), expected, "{page}");
    }

    #[test]
    fn error_pages_of_known_servers_have_a_message() {
        // Apache
        check(
            404,
            "<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n<title>404 Not Found</title>\n</head>\
             <body>\n<h1>Not Found</h1>\n<p>The requested URL was not found on this server.</p>\n<hr>\n\
             <address>Apache/2.4.62 (Debian) Server at localhost Port 80</address>\n</body></html>",
            Some("The requested URL was not found on this server."),
        );
        // monit
        check(
            404,
            "<html><head><title>404 Not Found</title></head><body bgcolor=#FFFFFF><h2>Not Found</h2>There is no service \
             named &quot;web&quot;<p><hr><a href='http://mmonit.com/monit/'><font size=-1>monit 5.33.0</font></a></body></html>",
            Some("There is no service named \"web\""),
        );
        // Icecast
        check(
            400,
            "<html><head><title>Error 400</title></head><body><b>400 - unknown request</b></body></html>\r\n",
            Some("400 - unknown request"),
        );
        // gitweb
        check(
            404,
            "<html><head><title>localhost Git</title></head><body><div class=\"page_header\"><a href=\"/\">projects</a> / \
             </div>\n<div class=\"page_body\">\n<br /><br />\n404 - No such project\n<br />\n</div></body></html>",
            Some("404 - No such project"),
        );
        // Python
        check(
            404,
            "<html><head><title>Error response</title></head><body><h1>Error response</h1><p>Error code: 404</p>\
             <p>Message: File not found.</p></body></html>",
            Some("Message: File not found."),
        );
        check(
            503,
            "<h1>Mail archive</h1><ul><li><a href=/>All lists</a></ul><p>nginx/1.22.1</p>\
             <p>The index is being<br>rebuilt.</p>",
            Some("Mail archive: The index is being rebuilt."),
        );
        check(
            403,
            "<h1>Members only</h1><p>Ask the desk for a card.</p>",
            Some("Members only: Ask the desk for a card."),
        );
        check(409, "<html><title>Room taken</title><body></body></html>", Some("Room taken"));
    }

    #[test]
    fn pages_that_only_repeat_the_status_have_no_message() {
        // nginx
        check(
            404,
            "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center>\r\n\
             <hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>",
            None,
        );
        check(404, "<html><body><h1>404</h1>nginx/1.22.1</body></html>", None);
        check(403, "<h1>403 - Forbidden</h1>", None);
        check(400, "", None);
    }
}
