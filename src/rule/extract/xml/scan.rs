//! A look at the tags of a document before it is parsed: what the parser would take too long over, or go too deep
//! for, is refused here.
//!
//! The parser compares each attribute of an element with the others and copies the namespaces in scope wherever one
//! is declared, so both are held to small numbers; it expands entities, so a document may declare none.

use super::super::RECORD_LIMIT;

/// How deep elements may nest: so deep that objects, and lists between them, stay within
/// [`JSON_DEPTH_LIMIT`](crate::tool::JSON_DEPTH_LIMIT).
pub(super) const DEPTH_LIMIT: usize = 60;

/// How many elements one reply may have.
pub(super) const ELEMENT_LIMIT: usize = 10 * RECORD_LIMIT;

/// How many attributes one element may have.
const ATTRIBUTE_LIMIT: usize = 250;

/// How often namespaces may be compared: at each element that declares some, all in scope with each other.
const NAMESPACE_WORK_LIMIT: usize = 50_000_000;

/// How many marks (`<`, `=`) one reply may have. The parser sets memory aside for as many nodes and attributes.
const MARK_LIMIT: usize = 4 * ELEMENT_LIMIT;

/// What is wrong, and at which byte.
pub(super) type Refusal = (usize, String);

/// Looks at every tag. What is not well-formed is left to the parser to tell of: it stops there.
pub(super) fn check(text: &str) -> Result<(), Refusal> {
    let marks = text.bytes().filter(|byte| matches!(byte, b'<' | b'=')).count();
    if marks > MARK_LIMIT {
        return Err((0, format!("expected at most {MARK_LIMIT} marks `<` and `=`, found {marks}")));
    }
    let (mut elements, mut namespace_work) = (0, 0);
    // The number of namespaces that are declared by each open element.
    let mut open: Vec<usize> = Vec::new();
    let mut position = 0;
    while let Some(found) = text[position..].find('<') {
        let start = position + found;
        let rest = &text[start..];
        let length = if let Some(inside) = rest.strip_prefix("<!--") {
            past(inside, "-->").map(|length| length + 4)
        } else if rest.starts_with("<![CDATA[") {
            past(rest, "]]>")
        } else if rest.starts_with("<?") {
            past(rest, "?>")
        } else if rest.starts_with("<!") {
            Some(document_type(rest).map_err(|message| (start, message))?)
        } else if rest.starts_with("</") {
            open.pop();
            past(rest, ">")
        } else {
            elements += 1;
            if elements > ELEMENT_LIMIT {
                return Err((start, format!("expected at most {ELEMENT_LIMIT} elements, found more")));
            }
            let tag = tag(rest).map_err(|message| (start, message))?;
            if tag.namespaces > 0 {
                let in_scope = open.iter().sum::<usize>() + tag.namespaces;
                namespace_work += in_scope * in_scope;
                if namespace_work > NAMESPACE_WORK_LIMIT {
                    let message = "expected few namespaces to be declared, found many, and again and again";
                    return Err((start, message.to_owned()));
                }
            }
            if !tag.is_empty {
                open.push(tag.namespaces);
                if open.len() > DEPTH_LIMIT {
                    let message = format!("expected elements nested at most {DEPTH_LIMIT} deep, found more");
                    return Err((start, message));
                }
            }
            Some(tag.length)
        };
        match length {
            Some(length) => position = start + length,
            None => break,
        }
    }
    Ok(())
}

fn past(text: &str, end: &str) -> Option<usize> {
    text.find(end).map(|at| at + end.len())
}

struct Tag {
    /// In bytes.
    length: usize,
    namespaces: usize,
    /// Whether it ends itself: `<a/>`.
    is_empty: bool,
}

fn tag(text: &str) -> Result<Tag, String> {
    let (mut attributes, mut namespaces, mut quote, mut word) = (0, 0, None, 0);
    let bytes = text.as_bytes();
    for (index, byte) in bytes.iter().copied().enumerate() {
        match (quote, byte) {
            (Some(open), _) if byte == open => (quote, word) = (None, index + 1),
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'=') => {
                attributes += 1;
                namespaces += usize::from(text[word..].starts_with("xmlns"));
                if attributes > ATTRIBUTE_LIMIT {
                    return Err(format!(
                        "expected at most {ATTRIBUTE_LIMIT} attributes in an element, found more"
                    ));
                }
            }
            (None, b'>') => {
                return Ok(Tag { length: index + 1, namespaces, is_empty: bytes[index - 1] == b'/' });
            }
            // A name begins behind white space, but the one before `=` has ended then.
            (None, b' ' | b'\t' | b'\r' | b'\n')
                if !matches!(bytes.get(index + 1), Some(b'=' | b' ' | b'\t' | b'\r' | b'\n')) =>
            {
                word = index + 1;
            }
            (None, _) => {}
        }
    }
    Ok(Tag { length: text.len(), namespaces, is_empty: true })
}

/// The length of `<!DOCTYPE …>`, which may name a file (nobody reads it) and declare nothing of its own.
fn document_type(text: &str) -> Result<usize, String> {
    let mut quote = None;
    for (index, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'[') => {
                return Err("expected a document without declarations of its own, found a `<!DOCTYPE` with \
                            some: entities are not expanded"
                    .to_owned());
            }
            (None, b'>') => return Ok(index + 1),
            (None, _) => {}
        }
    }
    Ok(text.len())
}
