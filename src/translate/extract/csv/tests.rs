//! What is a table, what is none, and what rows say of it.

use super::*;
use crate::translate::fields::{Field, FieldKind, FieldType, Fields};

#[track_caller]
fn check(csv: &Csv, text: &str, expected: Result<&str, &str>) {
    match (csv.read(text, csv.delimiter.unwrap_or(b','), &Typing::AsFound), expected) {
        (Ok(value), Ok(expected)) => assert_eq!(value.to_string(), expected),
        (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
        (found, _) => panic!("found {found:?}"),
    }
}

fn plain() -> Csv {
    Csv::default()
}

fn given(names: &[&str]) -> CsvNames {
    CsvNames::Given(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn the_first_line_names_the_cells_of_the_others() {
    let expected = Ok(r#"[{"city":"Oslo","temp":"-5.0"},{"city":"Bergen, \"ytre\"\r\nby","temp":""}]"#);
    check(&plain(), "city,temp\r\nOslo,-5.0\r\n\"Bergen, \"\"ytre\"\"\r\nby\",\r\n\r\n\n", expected);
    check(&plain(), "city,temp\rOslo,5", Ok(r#"[{"city":"Oslo","temp":"5"}]"#));
    check(&Csv { delimiter: Some(b';'), ..plain() }, "a;b\n1,5;2", Ok(r#"[{"a":"1,5","b":"2"}]"#));
    check(
        &Csv { delimiter: Some(b'|'), trim: true, ..plain() },
        "a | b\n 1 | 2 \n",
        Ok(r#"[{"a":"1","b":"2"}]"#),
    );
    check(
        &Csv { delimiter: Some(b'\t'), quote: Quote::Never, ..plain() },
        "a\tb\n\"5\tx",
        Ok(r#"[{"a":"\"5","b":"x"}]"#),
    );
    check(&Csv { quote: Quote::With(b'\''), ..plain() }, "a,b\n'1,2',3", Ok(r#"[{"a":"1,2","b":"3"}]"#));
}

#[test]
fn rows_may_be_apart_by_another_character() {
    let csv = || Csv { delimiter: Some(b'\x1f'), row_delimiter: Some(b'\x1e'), ..plain() };
    let expected = Ok(r#"[{"a":"1","b":"x\ny"},{"a":"2","b":""}]"#);
    check(&csv(), "a\x1fb\x1e1\x1fx\ny\x1e2\x1f", expected);
    check(&csv(), "a\x1fb\x1e\r\n1\x1fx\ny\x1e\n2\x1f\x1e\n", expected);
    check(&Csv { skip: 1, ..csv() }, "title\n\x1ea\x1fb\x1e1\x1fx\ny\x1e2\x1f", expected);
    let marked = Csv { names: CsvNames::Marked("#".into()), ..csv() };
    check(&marked, "title\x1e\n#a\x1fb\x1e1\x1fx\ny\x1e2\x1f", expected);
    check(&csv(), "a\x1fb\x1e1\x1f2\x1e\n3\x1e", Err("line 3: expected 2 cells, found 1"));
    check(&csv(), "a\x1fb\x1e\"1\x1f2\x1e", Err("expected an end to what is in quotes"));
}

#[test]
fn a_sentence_is_no_header() {
    for message in [
        "Sorry, the service is down, try later.\n",
        "Sorry, out of order",
        "Closed,call again!",
        "busy,the server has too many clients",
    ] {
        check(&plain(), message, Err("line 1: expected a table, found one line `"));
        check(&Csv { allow_empty: true, ..plain() }, message, Ok("[]"));
    }
    for header in ["First Name,Last Name\n", "city, temp\n", "Price in EUR,Date\n", "No.,Name\n"] {
        check(&plain(), header, Ok("[]"));
    }
}

#[test]
fn a_table_without_rows_is_empty_and_an_empty_reply_an_error() {
    check(&plain(), "city,temp\n", Ok("[]"));
    check(&plain(), " \r\n", Err("found an empty reply"));
    check(&Csv { skip: 1, ..plain() }, "title\n", Err("expected a line with the names"));
    let marked = || Csv { names: CsvNames::Marked("# ".into()), ..plain() };
    for csv in [plain(), marked(), Csv { names: given(&["a"]), ..plain() }, Csv { skip: 3, ..plain() }] {
        check(&csv, " \r\n", Err("found an empty reply"));
        check(&Csv { allow_empty: true, ..csv }, " \r\n", Ok("[]"));
    }
    check(&Csv { allow_empty: true, ..marked() }, "No proxies.\n", Ok("[]"));
    check(&Csv { allow_empty: true, skip: 3, ..plain() }, "No proxies.\n", Ok("[]"));
    check(&Csv { allow_empty: true, ..plain() }, "a,b\n1\n", Err("line 2: expected 2 cells, found 1"));
    check(
        &Csv { skip: 3, ..plain() },
        "title\na,b\n",
        Err("expected 3 lines before the table, which are skipped, found 2"),
    );
    check(&Csv { names: given(&["a"]), skip: 1, ..plain() }, "title\n", Ok("[]"));
}

#[test]
fn a_message_or_a_page_in_place_of_a_table_is_an_error() {
    for line in
        ["df: /x: No such file or directory", "Datenbank nicht erreichbar", "error: unsupported option"]
    {
        check(&plain(), line, Err(&format!("line 1: expected a table, found one line `{line}`")));
        check(&Csv { allow_empty: true, ..plain() }, line, Ok("[]"));
    }
    check(&plain(), "<html><body>Login", Err("line 1: expected a table, found markup: `<html><body>Login`"));
    check(&plain(), "<!DOCTYPE html>\n<p>x\n", Err("found markup"));
    check(
        &Csv { names: given(&["a"]), ..plain() },
        "<html>\n<p>x\n",
        Err("line 1: expected a table, found markup"),
    );
    check(&Csv { names: CsvNames::Marked("# ".into()), ..plain() }, "# a\n", Ok("[]"));
    check(&plain(), "<DATE>,<TIME>\n1,2\n", Ok(r#"[{"<DATE>":"1","<TIME>":"2"}]"#));
}

#[test]
fn a_header_has_what_the_fields_need_even_without_rows() {
    let typing = Typing::Fields(Fields::new(vec![Field::new("temp", FieldType::from(FieldKind::String))]));
    assert_eq!(plain().read("city,temp\n", b',', &typing).unwrap().to_string(), "[]");
    let error = plain().read("Error,no database\n", b',', &typing).unwrap_err();
    assert!(error.to_string().contains("line 1: field `temp` is missing: expected `temp`"), "{error}");
}

#[test]
fn names_may_be_given_and_lines_before_them_skipped() {
    let own = Csv { names: given(&["a", "b"]), ..plain() };
    check(&own, "1,2\n", Ok(r#"[{"a":"1","b":"2"}]"#));
    check(&Csv { skip: 2, ..own }, "Report\n,x\n1,2\n", Ok(r#"[{"a":"1","b":"2"}]"#));
}

#[test]
fn a_marked_header_is_found_and_its_mark_left_out() {
    let haproxy = Csv { names: CsvNames::Marked("# ".into()), ..plain() };
    check(
        &haproxy,
        "# pxname,svname,qcur,\nwww,FRONTEND,,\n\n",
        Ok(r#"[{"pxname":"www","svname":"FRONTEND","qcur":""}]"#),
    );
    check(&haproxy, "pxname,svname\n", Err("that begins with `# `, found none"));
    let log = Csv {
        names: CsvNames::Marked("#Fields: ".into()),
        delimiter: Some(b' '),
        comment: Some(b'#'),
        ..plain()
    };
    let text = "#Software: IIS\r\n#Fields: time cs-uri\r\n10:00 /a\r\n#Date: x\r\n10:01 /b\r\n";
    check(&log, text, Ok(r#"[{"time":"10:00","cs-uri":"/a"},{"time":"10:01","cs-uri":"/b"}]"#));
}

#[test]
fn a_row_of_other_cells_says_where_it_stands() {
    check(&plain(), "a,b\n\n1,2\n\n\n3\n", Err("line 6: expected 2 cells, found 1"));
    check(&plain(), "a,b\r\n\"1\r\n\",2\r\n3,4,5\r\n", Err("line 4: expected 2 cells, found 3"));
    check(&Csv { comment: Some(b'#'), skip: 1, ..plain() }, "x\na,b\n# c\n1\n", Err("line 4: expected 2"));
    check(
        &Csv { names: CsvNames::Marked("# ".into()), ..plain() },
        "x\n# a,\n1,2\n",
        Err("line 3: expected 1 cells, found 2"),
    );
    let pad = Csv { uneven: Uneven::Pad, ..plain() };
    check(&pad, "a,b\n1\n1,2,,\n", Ok(r#"[{"a":"1","b":""},{"a":"1","b":"2"}]"#));
    check(&pad, "a,b\n1,2,3\n", Err("line 2: expected 2 cells, found 3"));
    let skip = Csv { uneven: Uneven::Skip, ..plain() };
    check(&skip, "a,b\n1,2\nTotal: 1 row\n", Ok(r#"[{"a":"1","b":"2"}]"#));
}

#[test]
fn every_column_has_a_name_of_its_own() {
    check(&plain(), "a,b,a\n", Err("line 1: expected names of columns that differ, found `a` twice"));
    check(&plain(), "\n,a\n", Err("line 2: expected a name for every column, found none for column 1"));
}

#[test]
fn quotes_left_open_are_an_error_not_a_cell() {
    check(&plain(), "a,b\n1,2\n3,\"4\n5,6\n", Err("line 3: expected an end to what is in quotes"));
    check(&plain(), "\"a,b\n", Err("line 1: expected an end"));
    check(&plain(), "a\n\"", Err("line 2: expected an end"));
    check(&plain(), "a\n\"\"", Ok(r#"[{"a":""}]"#));
    check(&plain(), "a\n\0", Ok("[{\"a\":\"\\u0000\"}]"));
}

#[test]
fn a_table_does_not_outgrow_its_reply() {
    let long = format!("{}\n{}", "n".repeat(100_000), "1\n".repeat(5000));
    check(&plain(), &long, Err("with its names in every row, found more"));
    check(&plain(), &format!("a\n{}", "1\n".repeat(100_001)), Err("at most 100000 rows"));
    let commas = ",".repeat(200_000);
    check(&plain(), &commas, Err("line 1: expected at most 100000 cells, found 200001"));
    // A reply of 60 KB may not take half a gigabyte.
    let header: Vec<_> = (0..900).map(|number| number.to_string()).collect();
    let short = format!("{}\n{}", header.join(","), "1\n".repeat(28_000));
    check(&Csv { uneven: Uneven::Pad, ..plain() }, &short, Err("expected a table of at most 24"));
    let header: Vec<_> = (0..50_000).map(|number| number.to_string()).collect();
    let wide = format!("{}\n{}", header.join(","), "1\n".repeat(1000));
    check(&Csv { uneven: Uneven::Pad, ..plain() }, &wide, Err("found more"));
}
