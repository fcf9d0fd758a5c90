//! Tests of the XML extractor: elements, paths, errors, and hostile documents.

use std::time::{Duration, Instant};

use super::*;

fn path(source: &str) -> ElementPath {
    let prefixes = Prefixes::from([("s".to_owned(), "urn:soap".to_owned())]);
    ElementPath::parse(source, &prefixes).unwrap_or_else(|error| panic!("{source}: {error}"))
}

#[track_caller]
fn check_with(xml: &Xml, text: &str, expected: Result<&str, &str>) {
    match (xml.extract(text), expected) {
        (Ok(value), Ok(expected)) => assert_eq!(value.to_string(), expected),
        (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
        (found, _) => panic!("found {found:?}"),
    }
}

#[track_caller]
fn check(text: &str, expected: Result<&str, &str>) {
    check_with(&Xml::default(), text, expected);
}

#[track_caller]
fn check_pick(source: &str, text: &str, expected: Result<&str, &str>) {
    check_with(&Xml { path: Some(path(source)), ..Xml::default() }, text, expected);
}

#[track_caller]
fn check_each(source: &str, text: &str, expected: Result<&str, &str>) {
    check_with(&Xml { items: Some(path(source)), ..Xml::default() }, text, expected);
}

#[test]
fn elements_are_objects_and_texts_are_strings() {
    check("<a><b>1</b><c> x \n</c><d/></a>", Ok(r#"{"b":"1","c":"x","d":""}"#));
    check("<a>\n  <b>1</b>\n  <b>2</b>\n</a>", Ok(r#"{"b":["1","2"]}"#));
    check("<a>5</a>", Ok(r#""5""#));
    check("<a x='1' y='2'>5</a>", Ok(r##"{"@x":"1","@y":"2","#text":"5"}"##));
    check("<p>Hello <b>big</b> world</p>", Ok(r##"{"b":"big","#text":"Hello  world"}"##));
}

#[test]
fn a_string_is_the_whole_text_of_an_element() {
    let xml = Xml { strings: vec!["t".to_owned()], ..Xml::default() };
    for (text, expected) in [
        ("<a><t>Pump <b>north</b> side</t></a>", r#"{"t":"Pump north side"}"#),
        (
            "<a><t x='1'>Pump</t><t> <b>nor<i>t</i>h</b><![CDATA[ & ]]><!-- no -->x </t></a>",
            r#"{"t":["Pump","north & x"]}"#,
        ),
        ("<a><t><b>all</b></t><u>a<b>c</b></u></a>", r##"{"t":"all","u":{"b":"c","#text":"a"}}"##),
        ("<a><t/></a>", r#"{"t":""}"#),
        ("<t><link>http://a/b</link></t>", r#""http://a/b""#),
        ("<a xmlns:i='http://www.w3.org/2001/XMLSchema-instance'><t i:nil='true'/></a>", r#"{"t":null}"#),
    ] {
        check_with(&xml, text, Ok(expected));
    }
    check_with(&Xml { trim: false, ..xml }, "<t> a <b/>\n</t>", Ok(r#"" a \n""#));
}

#[test]
fn all_kinds_of_text_are_text() {
    check("<a>x<![CDATA[ <&> ]]>y<!-- no --><?no no?></a>", Ok(r#""x <&> y""#));
    check("<a>&lt;&#65;&#x42;&amp;&apos;&quot;</a>", Ok(r#""<AB&'\"""#));
    check("<a b='&#10;&lt; \n'/>", Ok(r#"{"@b":"\n<  "}"#));
}

#[test]
fn nothing_is_empty_and_nil_is_null() {
    let text = "<a xmlns:i='http://www.w3.org/2001/XMLSchema-instance'><b i:nil='true'/><c i:nil='0'/>\
                <d i:type='xsd:int'>5</d></a>";
    check(text, Ok(r#"{"b":null,"c":"","d":"5"}"#));
    let named = "<a xmlns:i='http://www.w3.org/2001/XMLSchema-instance'><b name='note' i:nil='true'/></a>";
    check(named, Ok(r##"{"b":{"@name":"note","#text":null}}"##));
    let dropped = Xml { attributes: Attributes::Dropped, ..Xml::default() };
    check_with(&dropped, named, Ok(r#"{"b":null}"#));
    let full = "<a xmlns:i='http://www.w3.org/2001/XMLSchema-instance'><b i:nil='true'>x<c>5</c></b></a>";
    check(full, Ok(r#"{"b":null}"#));
}

#[test]
fn text_before_the_root_is_skipped() {
    check("\r\n\n<?xml version='1.0' encoding='ISO-8859-1'?>\n<a>é</a>\n\n", Ok(r#""é""#));
    check("\u{feff}<?xml version=\"1.1\"?><?xml-stylesheet href='x'?><!-- <x> --><a/>", Ok(r#""""#));
    check("<!DOCTYPE a PUBLIC '-//x//[' \"http://x/a>dtd\"><a/>", Ok(r#""""#));
}

#[test]
fn attributes_lists_and_white_space_as_configured() {
    let text = "<a n='1'><b> x </b></a>";
    check_with(&Xml { attributes: Attributes::Plain, ..Xml::default() }, text, Ok(r#"{"n":"1","b":"x"}"#));
    check_with(&Xml { attributes: Attributes::Dropped, ..Xml::default() }, text, Ok(r#"{"b":"x"}"#));
    check_with(&Xml { lists: vec!["b".to_owned()], ..Xml::default() }, text, Ok(r#"{"@n":"1","b":["x"]}"#));
    check_with(&Xml { trim: false, ..Xml::default() }, text, Ok(r#"{"@n":"1","b":" x "}"#));
}

#[test]
fn a_path_leads_to_one_thing() {
    let text = "<r><i t='x'><n>1</n></i><i t='y' id='7'><n>2</n></i><o><i><n>3</n></i></o></r>";
    check_pick("r/i[2]/n", text, Ok(r#""2""#));
    check_pick("/r/i[@t='x']", text, Ok(r#"{"@t":"x","n":"1"}"#));
    check_pick("r/i[n=\"2\"]/@id", text, Ok(r#""7""#));
    check_pick("r/*/i/n", text, Ok(r#""3""#));
    check_pick("//o//n", text, Ok(r#""3""#));
    check_pick("r/i", text, Err("expected one `r/i`, found 2; use `items` for a list"));
    check_pick("r/i[1]/@no", text, Err("expected the attribute `r/i[1]/@no`, found none"));
    check_pick("r/z", text, Err("line 1: expected `z` in `r`, found `i`, `o`"));
    check_pick("r/z/y", text, Err("line 1: expected `z` in `r`, found `i`, `o`"));
    check_pick("r/z", "\n\n<r><i/></r>", Err("line 3: expected `z` in `r`, found `i`"));
    check_pick("r/i[n='1 2']/@id", "<r><i id='7'><n><!-- c -->1<!-- c --> 2</n></i></r>", Ok(r#""7""#));
    check_pick("s/i", text, Err("expected `s` as the root element, found `r`"));
}

#[test]
fn one_row_and_none_are_a_list_too() {
    check_each("r/i", "<r><i>1</i></r>", Ok(r#"["1"]"#));
    check_each("r/i", "<r/>", Ok("[]"));
    check_each("r/i/@n", "<r><i n='1'/><i/><i n='2'/></r>", Ok(r#"["1","2"]"#));
    check_each("//i", "<r><i><i>1</i></i></r>", Ok(r#"[{"i":"1"},"1"]"#));
    let nested = "<r><a><a><b><c>1</c></b></a><b><c>2</c></b></a></r>";
    check_each("r//a/b/c", nested, Ok(r#"["1","2"]"#));
    check_each("r//a/b//c", nested, Ok(r#"["1","2"]"#));
    check_each("r/i", "<error>down</error>", Err("expected `r` as the root element, found `error`"));
    check_each("//i", "<error>down</error>", Err("expected an element `i` anywhere, found none"));
}

#[test]
fn names_match_in_any_namespace_without_a_prefix() {
    let text = "<e:E xmlns:e='urn:soap'><e:B>1</e:B><B>2</B></e:E>";
    check_pick("s:E/s:B", text, Ok(r#""1""#));
    check_each("E/B", text, Ok(r#"["1","2"]"#));
    check_pick("s:E", "<E xmlns='urn:other'/>", Err("expected `s:E` as the root element, found `E`"));
}

#[test]
fn an_invalid_path_is_an_error_with_its_position() {
    for (source, at, part) in [
        ("", 0, "the name of an element"),
        ("a/", 1, "the name of an element"),
        ("a///b", 1, "`/` or `//`"),
        ("a*", 1, "`/` or `//`"),
        ("a/b;c", 3, "`/` or `//`"),
        ("a/{u}b", 1, "`/` or `//`"),
        ("a/x:b", 2, "no prefix `x`"),
        ("ä[0]", 1, "a condition such as `[2]`"),
        ("a[@b='x]", 1, "found `[@b='x]`"),
        ("a[b]", 1, "or `[name='x']`"),
        ("a/@b/c", 4, "nothing after it"),
        ("@b", 2, "an element before the attribute"),
    ] {
        let error = ElementPath::parse(source, &Prefixes::new()).unwrap_err();
        assert!(error.at == at && error.message.contains(part), "{source}: {error:?}");
    }
}

#[test]
fn malformed_xml_is_an_error_with_its_position() {
    check("", Err("found an empty response"));
    check("Not found", Err("line 1, column 1: expected an XML document, found `Not found`"));
    check("\n<a>\n <b>1</c></a>", Err("line 3, column 6: invalid XML: expected `b` tag, not `c`"));
    check("<a><b>", Err("line 1, column 7: expected the end tag of every element"));
    check("<a>&nbsp;</a>", Err("unknown entity reference `nbsp`; XML has `&amp;`"));
    check("<a>x & y</a>", Err("column 6: invalid XML: malformed entity reference; XML has `&amp;`"));
    check("<a>\n 5 µm &#1;</a>", Err("line 2, column 7: invalid XML: malformed entity reference"));
    check("<a b='&#x1F;'/>", Err("column 7: invalid XML: malformed entity reference"));
    check("<a>&#;</a>", Err("numbers such as `&#65;`"));
    check("<a x='1' x='2'/>", Err("attribute `x` is already defined"));
    check("<a/><b/>", Err("invalid XML: "));
    check("<e:a/>", Err("unknown namespace prefix `e`"));
}

#[test]
fn entities_are_never_resolved() {
    let bomb = "<?xml version='1.0'?>\n<!DOCTYPE l [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;'>]>\n<l>&b;</l>";
    check(bomb, Err("line 2, column 14: expected a DTD without entities, found `<!ENTITY`"));
    check("<!DOCTYPE l SYSTEM 'file:///etc/passwd' [<!ENTITY x SYSTEM 'y'>]><l>&x;</l>", Err("`<!ENTITY`"));
    check("<!DOCTYPE l SYSTEM '/etc/passwd'><l>&x;</l>", Err("unknown entity reference `x`"));
    check("<!DOCTYPE l '[' [<!ENTITY x 'y'>]><l>&x;</l>", Err("`<!ENTITY`"));
    for hidden in ["<!-- ' --><!ENTITY x 'y'><!-- ' -->", "<?a '?><!ENTITY % x 'y'>", "<!ENTITY\tx \"]>\">"] {
        check(&format!("<!DOCTYPE l [{hidden}]><l>&x;</l>"), Err("`<!ENTITY`"));
    }
    check("<!DOCTYPE l [ <![INCLUDE[ <!ENTITY x 'y'> ]]> ]><l>&x;</l>", Err("XML with DTD detected"));
    check("<!DOCTYPE l [<!ENTITY x 'y'><l>&x;</l>", Err("XML with DTD detected"));
}

#[test]
fn a_dtd_without_entities_is_skipped() {
    for dtd in [
        "SYSTEM 'http://x/a.dtd'\n [\n <!ELEMENT V EMPTY>\n]",
        "[<!-- ' <!ENTITY x 'y'> --><!ATTLIST a b CDATA \"]>'\"> %more; <?c '?>] ",
        "[]",
    ] {
        let prolog = format!("<?xml version='1.0'?><!-- é --><!DOCTYPE a {dtd}>\n");
        check(&format!("{prolog}<a>é<b/></a>"), Ok(r##"{"b":"","#text":"é"}"##));
        let line = prolog.matches('\n').count() + 1;
        check(&format!("{prolog}<a>&x;</a>"), Err(&format!("line {line}, column 4: ")));
        check(&format!("{prolog}{}", "<a>".repeat(1000)), Err("at most 60 nested elements"));
    }
    check("<a><![CDATA[<!DOCTYPE b>]]></a>", Ok(r#""<!DOCTYPE b>""#));
    check("<a/><!DOCTYPE a>", Err("invalid XML: "));
}

#[track_caller]
fn assert_quick(text: &str) {
    let started = Instant::now();
    let _ = Xml::default().extract(text);
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?} for {} bytes", text.len());
}

const LARGE: usize = 1 << 20;

#[test]
fn deep_wide_and_long_documents_end_soon() {
    check(&"<a>".repeat(LARGE / 3), Err("at most 60 nested elements"));
    check(&"<a>".repeat(1000), Err("at most 60 nested elements"));
    check(&format!("<a>{}</a>", "<b/>".repeat(1_000_001)), Err("at most 1000000 elements"));
    let attributes: String = (0..LARGE / 12).map(|index| format!(" a{index}=''")).collect();
    check(&format!("<a{attributes}/>"), Err("at most 250 attributes"));
    let namespaces: String = (0..99).map(|index| format!(" xmlns:a{index}\n  = 'u{index}'")).collect();
    let rows = "<b xmlns:z=''/>".repeat(100_000);
    check(&format!("<a{namespaces}>{rows}</a>"), Err("at most 50000000 comparisons of namespaces"));
    check(&"=<".repeat(4 * LARGE), Err("expected an XML document"));
    check(&format!("<a>{}", "=".repeat(4 * LARGE)), Err("characters `<` and `=`"));
}

#[test]
fn documents_at_the_limits_are_parsed_in_time() {
    let attributes: String = (0..250).map(|index| format!(" a{index}=''")).collect();
    assert_quick(&format!("<a>{}</a>", format!("<b{attributes}/>").repeat(LARGE / attributes.len())));
    assert_quick(&format!("<a xmlns='urn:a' xmlns:x='urn:x'>{}</a>", "<b xmlns=''/>".repeat(LARGE / 13)));
    let nested = format!("{}{}", "<n>".repeat(50), "</n>".repeat(50));
    assert_quick(&format!("<a>{}</a>", nested.repeat(LARGE / nested.len())));
    assert_quick(&format!("<a>{}</a>", "&amp;".repeat(LARGE / 5)));
    assert_quick(&format!("<a>{}</a>", "<![CDATA[x]]>".repeat(LARGE / 13)));
    assert_quick(&format!("<a>{}</a>", "<!-- x -->x".repeat(LARGE / 11)));
    assert_quick(&format!("<a>{}", "<!--".repeat(LARGE / 4)));
    assert_quick(&format!("<a {}", "x\"".repeat(LARGE / 4)));
    assert_quick(&format!("<a>{}", "<b x=\"".repeat(100_000)));
}
