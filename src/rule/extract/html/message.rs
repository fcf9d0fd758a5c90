//! What an error page says, for errors that no rule looked for.

use http::StatusCode;
use scraper::{ElementRef, Html as Page};

use super::{text, tree, work::Work};

/// Words that say no more than that there was an error.
const EMPTY_WORDS: [&str; 10] =
    ["code", "error", "http", "page", "report", "response", "status", "sorry", "the", "type"];

const HEADINGS: [&str; 6] = ["h1", "h2", "h3", "h4", "h5", "h6"];

/// The sentence that an error page has for people: a line that begins with the status (`404 - No such project`), else the first
/// heading and the first paragraph, else the title. What only repeats the status is passed over, and so is the name of the
/// server's program.
pub(in crate::rule) fn message_of(page: &str, status: StatusCode) -> Option<String> {
    let page = tree::parse(page).ok()?;
    let mut work = Work::for_page(&page, "");
    let mut shown = |element| text::shown(element, &mut work).map(|text| words_of(&text)).ok();
    let body = element(&page, &["body"])?;
    let heading = element(&page, &HEADINGS).and_then(&mut shown).unwrap_or_default();
    let paragraphs: Vec<String> = elements(&page, &["p"]).filter_map(&mut shown).collect();
    let title = element(&page, &["title"]).and_then(&mut shown).unwrap_or_default();
    let body = text::shown(body, &mut work).ok()?;
    let lines: Vec<String> = body.lines().map(words_of).filter(|line| !line.is_empty()).collect();

    let says = |text: &&String| says_more(text, status);
    let begins_with_status = |line: &&String| line.starts_with(status.as_str()) && says(line);
    if let Some(line) = lines.iter().find(begins_with_status) {
        return Some(line.clone());
    }
    let is_sentence = |line: &&String| line.contains(' ') && !is_program(line) && says(line);
    let behind_heading = lines.iter().skip_while(|line| !heading.is_empty() && **line != heading);
    let paragraph = paragraphs
        .iter()
        .find(|paragraph| says(paragraph))
        .or_else(|| behind_heading.filter(|line| **line != heading).find(is_sentence));
    let said: Vec<&str> =
        [Some(&heading).filter(says), paragraph].into_iter().flatten().map(String::as_str).collect();
    match said.as_slice() {
        [] => Some(title).filter(|title| says_more(title, status)),
        said => Some(said.join(": ")),
    }
}

fn elements<'p>(page: &'p Page, names: &'static [&str]) -> impl Iterator<Item = ElementRef<'p>> {
    page.root_element().descendent_elements().filter(|element| names.contains(&element.value().name()))
}

fn element<'p>(page: &'p Page, names: &'static [&str]) -> Option<ElementRef<'p>> {
    elements(page, names).next()
}

/// A text on one line.
fn words_of(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `nginx/1.22.1`, which stands at the foot of many pages.
fn is_program(line: &str) -> bool {
    line.split_once('/').is_some_and(|(name, version)| {
        !name.contains(' ') && version.starts_with(|character: char| character.is_ascii_digit())
    })
}

/// Whether a text has a word that is not the status or its reason.
fn says_more(text: &str, status: StatusCode) -> bool {
    let reason = status.canonical_reason().unwrap_or_default();
    text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()).any(|word| {
        let is_reason = reason.split(['-', ' ']).any(|part| part.eq_ignore_ascii_case(word));
        let is_empty = EMPTY_WORDS.iter().any(|empty| empty.eq_ignore_ascii_case(word));
        !is_reason && !is_empty && word.chars().any(char::is_alphabetic)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, page: &str, expected: Option<&str>) {
        let found = message_of(page, StatusCode::from_u16(status).unwrap());
        assert_eq!(found.as_deref(), expected, "{page}");
    }

    #[test]
    fn pages_of_known_servers_say_why() {
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
            403,
            "<h1>Members only</h1><p>Ask the desk for a card.</p>",
            Some("Members only: Ask the desk for a card."),
        );
        check(409, "<html><title>Room taken</title><body></body></html>", Some("Room taken"));
    }

    #[test]
    fn pages_that_only_repeat_the_status_say_nothing() {
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
