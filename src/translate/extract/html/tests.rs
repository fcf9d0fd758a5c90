//! Tests of the HTML extractor: text, selectors, tables, and hostile pages.

use std::time::{Duration, Instant};

use super::*;

fn css(source: &str) -> CssSelector {
    CssSelector::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn first(name: &str, source: &str) -> (String, Selected) {
    (name.to_owned(), Selected { css: Some(css(source)), attribute: None, all: false, optional: false })
}

fn itself(name: &str) -> (String, Selected) {
    (name.to_owned(), Selected { css: None, ..first(name, "x").1 })
}

fn table(columns: &[&str]) -> Html {
    let columns = Some(columns.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let columns = columns.filter(|columns| !columns.is_empty());
    Html { table: Some(css("table")), columns, ..Html::default() }
}

fn pairs() -> Html {
    Html { table: Some(css("table")), form: TableForm::Pairs, ..Html::default() }
}

fn select(select: Vec<(String, Selected)>) -> Html {
    Html { select: Some(Named(select)), ..Html::default() }
}

fn each(source: &str, elements: Vec<(String, Selected)>) -> Html {
    Html { items: Some(css(source)), ..select(elements) }
}

#[track_caller]
fn check(html: &Html, text: &str, expected: Result<&str, &str>) {
    match (html.extract(text), expected) {
        (Ok(value), Ok(expected)) => assert_eq!(value.to_string(), expected),
        (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
        (found, _) => {
            let found = format!("{found:?}");
            panic!("found {found:.200}");
        }
    }
}

#[test]
fn rows_without_a_table_are_one() {
    for prefix in ["", " <!-- a --><!-- b -->\n", "<tbody>", "<TBODY id=rows>"] {
        let page = format!("{prefix}<tr><td>Oslo<td>5</tr><tr><td>Bergen<td>6</tr>");
        let rows = table(&["city", "celsius"]);
        check(&rows, &page, Ok(r#"[{"city":"Oslo","celsius":"5"},{"city":"Bergen","celsius":"6"}]"#));
        check(&each("tr", vec![first("city", "td")]), &page, Ok(r#"[{"city":"Oslo"},{"city":"Bergen"}]"#));
    }
    check(&Html::default(), "<td>Oslo</td><td>5", Ok("\"Oslo\\t5\""));
    check(&Html::default(), "<track><tr><td>no", Ok("\"no\""));
}

#[test]
fn leading_white_space_of_preformatted_text_is_preserved() {
    let with_text = |source: &str| Html { text: Some(css(source)), ..Html::default() };
    let page = "<h1> A </h1>\n<pre>\n\n   total  free\nmem:   1     2\n \n</pre><xmp> a <b>\n  c</xmp>";
    let text = |html: Html| html.extract(page).unwrap();
    assert_eq!(text(with_text("pre")), "   total  free\nmem:   1     2");
    assert_eq!(text(with_text("xmp")), " a <b>\n  c");
    assert_eq!(text(with_text("h1")), "A");
    assert_eq!(text(Html::default()), "A\n\n\n   total  free\nmem:   1     2\n\n a <b>\n  c");
    let error = with_text("h2").extract(page).unwrap_err();
    assert_eq!(error.to_string(), "expected an element `h2`, found none");
}

#[test]
fn the_text_is_what_a_browser_shows() {
    let page = "<html><head><title>no</title><style>b{}</style></head><body>\n <h1>State &amp;\n more</h1>Up<br>since\
                <script>no()</script> <b>noon</b><p>One&nbsp;&nbsp; two</p>three<table><tr><td>a<td>b<tr><td>c</table>\
                <pre> x\n  y</pre>";
    check(
        &Html::default(),
        page,
        Ok(r#""State & more\n\nUp\nsince noon\n\nOne   two\n\nthree\na\tb\nc\n x\n  y""#),
    );
    check(&Html::default(), " \n", Err("found an empty response"));
}

#[test]
fn selectors_find_texts_attributes_and_lists() {
    let page = "<h1> A  b </h1><ul><li><a href=1>x</a><li>y<li><a href=2>z</a></ul>";
    let link = |all, optional| {
        let attribute = Some("href".to_owned());
        ("link".to_owned(), Selected { css: Some(css("a")), attribute, all, optional })
    };
    check(
        &select(vec![first("title", "h1"), link(true, false)]),
        page,
        Ok(r#"{"title":"A b","link":["1","2"]}"#),
    );
    let records = |link| each("li", vec![itself("t"), link]);
    check(
        &records(link(false, false)),
        page,
        Err("record 2: `link`: expected an element `a` with `href`, found none"),
    );
    check(&records(link(false, true)), page, Ok(r#"[{"t":"x","link":"1"},{"t":"y"},{"t":"z","link":"2"}]"#));
    check(&select(vec![first("a", "h2")]), page, Err("expected an element `h2`, found none"));
}

#[test]
fn removed_elements_are_not_found() {
    let page = "<html lang=no><ul><li>a<b>x</b><li class=old>b</ul>";
    let without = |source, html| Html { without: Some(css(source)), ..html }.extract(page);
    assert_eq!(without(".old, b", each("li", vec![itself("t")])).unwrap().to_string(), r#"[{"t":"a"}]"#);
    assert_eq!(without("*", Html::default()).unwrap(), "");
    let lang = Selected { attribute: Some("lang".to_owned()), ..first("lang", "html").1 };
    check(&select(vec![("lang".to_owned(), lang)]), page, Ok(r#"{"lang":"no"}"#));
}

#[test]
fn a_table_is_rows_by_its_headings() {
    let rows = table(&[]);
    check(
        &rows,
        "<table><tr><th>A<th>B<tr><td>1<td>2<tr><td>3</table>",
        Ok(r#"[{"A":"1","B":"2"},{"A":"3"}]"#),
    );
    check(
        &rows,
        "<table><tr><td>A<td>A<td><tr><td>1<td>2<td>3</table>",
        Ok(r#"[{"A":"1","A 2":"2","column 3":"3"}]"#),
    );
    let spans = "<table><tr><th rowspan=2>Host<th colspan=2>Load<tr><th>1<th>5\
                 <tr><td rowspan=2>a<td>x<td>y<tr><td colspan=2>z<tfoot><tr><td>sum</table>";
    check(
        &rows,
        spans,
        Ok(r#"[{"Host":"a","Load 1":"x","Load 5":"y"},{"Host":"a","Load 1":"z","Load 5":"z"}]"#),
    );
    let with_columns = table(&["x", "y"]);
    check(&with_columns, "<table><tr><td>1<td>2<tr><th colspan=2><hr></table>", Ok(r#"[{"x":"1","y":"2"}]"#));
    check(&rows, "<p>none", Err("expected a table `table`, found none"));
    check(&rows, "<table></table>", Ok("[]"));
    let blank_first = "<table><tr><td><td><tr><td>A<td>B<tr><td>1<td>2</table>";
    check(&rows, blank_first, Ok(r#"[{"A":"1","B":"2"}]"#));
}

#[test]
fn a_table_is_pairs_of_name_and_value() {
    let page = "<table><tr><th colspan=2>About<tr><th>Up:<td>3 d<tr><td>Load<td>1<td>2<tr><th>A<td>1<th>B<td>2</table>";
    check(&pairs(), page, Ok(r#"{"Up":"3 d","Load":["1","2"],"A":"1","B":"2"}"#));
    check(&pairs(), "<table><tr><th>A<td>1<td>2<th>B<td>3</table>", Ok(r#"{"A":["1","2"],"B":"3"}"#));
    check(&pairs(), "<table><tr><td>A<th>1<td>B<th>2</table>", Ok(r#"{"A":"1","B":"2"}"#));
}

#[test]
fn an_invalid_selector_is_an_error_with_its_position() {
    for (source, at, part) in [
        ("a > > b", 2, "expected"),
        ("a[href", 6, "expected `]`, found the end"),
        ("", 0, "expected"),
        ("a:hover2", 1, "expected"),
        ("a:is(b c)", 6, "found several"),
        ("a:has(b ~ c)", 8, "found `~`"),
        ("a ~ b", 2, "found `~`"),
        ("a:not(:is(b))", 9, "no parentheses inside"),
    ] {
        let error = CssSelector::parse(source).expect_err(source);
        assert!(error.message.contains(part), "{source}: {error:?}");
        assert!(error.at.abs_diff(at) <= 2, "{source}: {error:?}");
    }
    for source in [
        "a:nth-child(2n + 1)",
        "tr:nth-child(odd) td",
        "a:has(> b)",
        "a:is(b, c)",
        "a[x~='y (z'] + b",
        "tr:not(:nth-child(-n+2))",
        "#a\\~b",
    ] {
        css(source);
    }
}

#[track_caller]
fn assert_quick(html: &Html, page: &str) {
    let started = Instant::now();
    let found = html.extract(page).map(|value| value.to_string().len());
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?} for {} bytes: {found:?}", page.len());
}

/// Long enough that a superlinear implementation is slow.
const LARGE: usize = 1 << 16;

#[test]
fn hostile_pages_are_parsed_in_time() {
    check(&Html::default(), &"<div>".repeat(LARGE / 5), Err("nested at most 512 deep"));
    let bold: String = (0..LARGE / 16).map(|index| format!("<p><b a={index}>x</p>")).collect();
    check(&Html::default(), &bold, Err("nested at most 512 deep"));
    let attributes: String = (0..LARGE / 8).map(|index| format!(" a{index}")).collect();
    check(&Html::default(), &format!("<p{attributes}>"), Err("at most 1000 attributes"));
    check(&Html::default(), &format!("<!-- <a x=\" --><p{attributes}>"), Err("at most 1000 attributes"));
    let bodies: String = (0..LARGE / 16).map(|index| format!("<body a{index}>")).collect();
    check(&Html::default(), &bodies, Err("at most 1000 attributes"));
    let rows = table(&[]);
    check(&rows, &format!("<table>{}", "<tr><td colspan=1000>x".repeat(2000)), Err("at most 1000000 cells"));
    let holes = format!("<table><tr><td colspan=999>x<td rowspan=0>y{}", "<tr>".repeat(5000));
    check(&rows, &holes, Err("at most 1000000 cells"));
    let names = format!("<table><tr><th colspan=1000>{}", "x".repeat(LARGE / 32));
    assert_eq!(rows.extract(&names).unwrap(), json!([]));
    check(
        &rows,
        &format!("<table>{}", "<tr><td colspan=600>x<td colspan=600>x"),
        Err("at most 1000 columns"),
    );
    let wide = "<tr><td colspan=1000>x".repeat(LARGE / 22);
    check(&rows, &format!("<table>{wide}"), Err("expected at most 1000000 cells"));
    let tall = format!("<table><tr><td rowspan=65534>{}{}", "x".repeat(LARGE), "<tr><td>y".repeat(60_000));
    check(&rows, &tall, Err("within the work limit"));
    let heading = format!("<table><tr><th colspan=1000>{}", "x".repeat(LARGE));
    check(&rows, &heading, Err("within the work limit"));
    let nested = format!("{}{}", "<div>".repeat(500), "x".repeat(4 * LARGE));
    check(&each("div", vec![itself("t")]), &nested, Err("within the work limit"));
}

#[test]
fn large_pages_are_read_soon() {
    assert_quick(&Html::default(), &"<p>word ".repeat(LARGE / 8));
    assert_quick(&Html::default(), &"<a ".repeat(LARGE / 3));
    assert_quick(&Html::default(), &format!("<p title=\"{}\">", "a b/".repeat(LARGE / 4)));
    assert_quick(&Html::default(), &"<table><tr><td>x".repeat(100));
    assert_quick(&Html::default(), &format!("{}{}", "<div>".repeat(400), "<p>x".repeat(LARGE / 40)));
    assert_quick(&Html::default(), &"word & ".repeat(LARGE / 7));
    assert_quick(&Html::default(), &format!("<table>{}", "x<br>".repeat(LARGE / 5)));
    assert_quick(&Html::default(), &"<a href=x>y".repeat(LARGE / 11));
    assert_quick(&Html::default(), &"</p>".repeat(LARGE / 4));
    assert_quick(&table(&[]), &format!("<table>{}", "<tr><td>a<td>b".repeat(LARGE / 14)));
    assert_quick(&pairs(), &format!("<table>{}", "<tr><td>a<td>b".repeat(LARGE / 14)));
    assert_quick(
        &each("tr", vec![first("a", "td")]),
        &format!("<table>{}", "<tr><td>a<td>b".repeat(LARGE / 14)),
    );
    for source in [
        "i:has(b)",
        "div i",
        "i:nth-last-child(2)",
        "i + i",
        "i:not(.x):last-of-type",
        "div:has(b) div:has(i) i",
    ] {
        let page = format!("{}{}", "<div>".repeat(200), "<i></i>".repeat(LARGE / 28));
        let all = Selected { all: true, ..first("a", source).1 };
        assert_quick(&select(vec![("a".to_owned(), all)]), &page);
    }
    let nested = "<div>".repeat(500);
    assert_quick(
        &each("div", vec![first("a", "div, i")]),
        &format!("{nested}<i>{}", "x<br>".repeat(LARGE / 40)),
    );
}
