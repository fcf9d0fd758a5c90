//! Tests of the columns extractor: tables, and text that is not a table. `programs` has tables that real
//! programs print.

mod programs;

use super::*;
use crate::translate::fields::{Field, FieldKind, FieldType, Fields, OnMissing};

#[track_caller]
fn check(columns: &Columns, text: &str, expected: Result<&str, &str>) {
    match (columns.extract(text, &Typing::Untyped), expected) {
        (Ok(value), Ok(expected)) => assert_eq!(value.to_string(), expected),
        (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
        (found, _) => panic!("found {found:?}"),
    }
}

/// Cells of some columns, row by row.
#[track_caller]
fn check_cells(columns: &Columns, text: &str, names: &str, expected: &[&[&str]]) {
    let value = columns.extract(text, &Typing::Untyped).unwrap();
    let rows: Vec<&serde_json::Map<String, Value>> =
        value.as_array().unwrap().iter().map(|row| row.as_object().unwrap()).collect();
    assert!(
        rows.iter().all(|row| row.keys().map(String::as_str).collect::<Vec<_>>().join("|") == names),
        "{value}"
    );
    let found: Vec<Vec<&str>> =
        rows.iter().map(|row| row.values().map(|cell| cell.as_str().unwrap()).collect()).collect();
    assert_eq!(found, expected);
}

fn under_header() -> Columns {
    Columns::default()
}

fn by_words(names: &str) -> Columns {
    let names = names.split(' ').map(str::to_owned).collect();
    Columns { columns: Some(names), ..Columns::default() }
}

fn pattern(source: &str) -> Option<Pattern> {
    Some(Pattern::compile(source).unwrap())
}

#[test]
fn a_cell_under_no_name_is_not_assigned_to_another() {
    let routes = |last: &str| {
        format!(
            "Destination  Genmask         Flags Metric     Use  Iface\n\
             0.0.0.0      0.0.0.0         UG       100       0  eth0\n\
             192.0.2.0    255.255.255.0   U          0       3  eth0\n\
             10.0.0.0     255.0.0.0       U                  0  eth1\n\
             {last}\n"
        )
    };
    let stray = |text: &str| check(&under_header(), text, Err("found `n/a` between `"));
    stray(&routes("172.16.0.0   255.255.0.0     U          0  n/a        eth1"));
    stray(&routes("172.16.0.0   255.255.0.0     U             n/a      0  eth1"));
    let valid = routes("172.16.0.0   255.255.0.0     U        n/a     n/a  eth1");
    let row = |cells: [&'static str; 6]| cells;
    check_cells(
        &under_header(),
        &valid,
        "Destination|Genmask|Flags|Metric|Use|Iface",
        &[
            &row(["0.0.0.0", "0.0.0.0", "UG", "100", "0", "eth0"]),
            &row(["192.0.2.0", "255.255.255.0", "U", "0", "3", "eth0"]),
            &row(["10.0.0.0", "255.0.0.0", "U", "", "0", "eth1"]),
            &row(["172.16.0.0", "255.255.0.0", "U", "n/a", "n/a", "eth1"]),
        ],
    );
}

#[test]
fn a_response_without_a_table_is_an_empty_list_if_configured() {
    let widths = |names: Option<Vec<String>>| Columns {
        widths: Some(vec![3, 4]),
        columns: names,
        ..Columns::default()
    };
    let with_start = || Columns { start_at: pattern("^NAME"), ..Columns::default() };
    let skip = || Columns { skip: 3, ..Columns::default() };
    let names = Some(vec!["a".to_owned(), "b".to_owned()]);
    for columns in [under_header(), by_words("a b"), widths(None), widths(names), with_start(), skip()] {
        check(&columns, " \r\n", Err("found an empty response"));
        check(&Columns { allow_empty: true, ..columns }, " \r\n", Ok("[]"));
    }
    check(&Columns { allow_empty: true, ..with_start() }, "No volumes.\n", Ok("[]"));
    check(&Columns { allow_empty: true, ..skip() }, "No volumes.\n", Ok("[]"));
    check(&Columns { allow_empty: true, ..under_header() }, "-----\n", Ok("[]"));
    check(&Columns { allow_empty: true, ..by_words("a b") }, "x\n", Err("expected 2 cells, found 1"));
}

#[test]
fn widths_are_in_characters_and_the_last_cell_is_the_rest() {
    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    let with_widths = |widths: &[usize], names: Option<Vec<String>>| Columns {
        widths: Some(widths.to_vec()),
        columns: names,
        ..Columns::default()
    };
    let expected =
        Ok(r#"[{"city":"Tromsø","temp":"-5","sky":"light snow"},{"city":"Bodø","temp":"","sky":""}]"#);
    let text = "Tromsø-5 light snow\r\nBodø\r\n";
    check(&with_widths(&[6, 3], names(&["city", "temp", "sky"])), text, expected);
    check(&with_widths(&[6, 3, 4], names(&["city", "temp", "sky"])), text, expected);
    check(&with_widths(&[4, 2], None), "CITYT\nOslo5 C\n", Ok(r#"[{"CITY":"Oslo","T":"5 C"}]"#));
}

#[test]
fn a_table_without_rows_is_empty_and_an_empty_response_an_error() {
    check(&under_header(), "a  b\n", Ok("[]"));
    check(&under_header(), "\r\n \n", Err("found an empty response"));
    check(&Columns { skip: 1, ..under_header() }, "title\n", Err("expected a line with the names"));
    check(&Columns { skip: 2, ..under_header() }, "title\n", Err("expected 2 lines before the table"));
    let from = Columns { start_at: pattern("^Proto"), ..under_header() };
    check(&from, "title\n", Err("expected a line that matches `^Proto`"));
    check(&under_header(), "a  a\n", Err("found `a` twice"));
}

#[test]
fn a_message_or_a_page_instead_of_a_table_is_an_error() {
    for line in [
        "df: /x: No such file or directory",
        "Datenbank nicht erreichbar",
        "error: unsupported option",
        "a b",
    ] {
        check(&under_header(), line, Err(&format!("line 1: expected a table, found one line `{line}`")));
        check(&Columns { allow_empty: true, ..under_header() }, line, Ok("[]"));
    }
    check(&under_header(), "-----\nNo data yet\n", Err("line 2: expected a table, found one line"));
    for page in ["<html><body>Login", "<!DOCTYPE html>\n<html>\n<p>x", "<div class=x>  <p>a  b\nc  d\n"] {
        check(&under_header(), page, Err("line 1: expected a table, found markup: `<"));
        check(&Columns { allow_empty: true, ..under_header() }, page, Err("found markup"));
    }
    check(&by_words("a b"), "<html lang=de> x\n<p> y\n", Err("found markup: `<html`"));
    check(&under_header(), "name\n----\n", Ok("[]"));
    check(&Columns { start_at: pattern("^PID"), ..under_header() }, "PID COMMAND\n", Ok("[]"));
}

#[test]
fn a_header_has_what_the_fields_need_even_without_rows() {
    let typing = |name: &str, missing| {
        let string = FieldType::from(FieldKind::String);
        Typing::Fields(Fields::new(vec![Field { missing, ..Field::new(name, string) }]))
    };
    let extract = |text: &str, name: &str, missing| {
        under_header().extract(text, &typing(name, missing)).map(|value| value.to_string())
    };
    let line = "df: /x: No such file or directory";
    let error = extract(line, "Mounted on", OnMissing::Error).unwrap_err();
    assert!(
        error.to_string().contains("line 1: field `Mounted on` is missing: expected `Mounted on`"),
        "{error}"
    );
    assert!(extract(line, "Mounted on", OnMissing::Omit).is_err());
    assert_eq!(extract("Use% Mounted on\n", "Mounted on", OnMissing::Error).unwrap(), "[]");
    assert!(extract("A  B\n", "C", OnMissing::Error).is_err());
    assert_eq!(extract("A  B\n", "C", OnMissing::Omit).unwrap(), "[]");
}

#[test]
fn words_are_cells_where_every_row_has_as_many_as_the_header() {
    let partitions =
        "major minor  #blocks  name\n\n 254        0  268435456 vda\n   8       16     524288 sdb1\n";
    check_cells(
        &under_header(),
        partitions,
        "major|minor|#blocks|name",
        &[&["254", "0", "268435456", "vda"], &["8", "16", "524288", "sdb1"]],
    );
    let vmstat = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 3  0      0 12622264 121568 11267600    0    0  3676 11089  367  608 71 10 19  0  0
";
    check_cells(
        &under_header(),
        vmstat,
        "r|b|swpd|free|buff|cache|si|so|bi|bo|in|cs|us|sy|id|wa|st",
        &[&[
            "3", "0", "0", "12622264", "121568", "11267600", "0", "0", "3676", "11089", "367", "608", "71",
            "10", "19", "0", "0",
        ]],
    );
    check(
        &under_header(),
        &format!("procs ---memory--- --swap--\n{vmstat}"),
        Err("line 1: expected names of columns, found `---memory---`"),
    );
    let lsmem = "\
RANGE                                 SIZE  STATE REMOVABLE  BLOCK
0x0000000000000000-0x00000000bfffffff   3G online       yes   0-23

Memory block size:       128M
";
    check_cells(
        &Columns { stop_before: pattern("^$"), ..under_header() },
        lsmem,
        "RANGE|SIZE|STATE|REMOVABLE|BLOCK",
        &[&["0x0000000000000000-0x00000000bfffffff", "3G", "online", "yes", "0-23"]],
    );
}

#[test]
fn as_many_words_by_chance_are_not_the_cells() {
    check_cells(
        &under_header(),
        "Filesystem  Size  Used Avail Use% Mounted on\n/dev/vda    252G   45G   47G  49% /my disk\n",
        "Filesystem|Size|Used|Avail|Use%|Mounted on",
        &[&["/dev/vda", "252G", "45G", "47G", "49%", "/my disk"]],
    );
    check_cells(
        &under_header(),
        "NAME   RESTARTS     AGE   NOMINATED NODE\ndb-0   1 (3d ago)   10d   <none>\n",
        "NAME|RESTARTS|AGE|NOMINATED NODE",
        &[&["db-0", "1 (3d ago)", "10d", "<none>"]],
    );
}

#[test]
fn fields_say_which_words_of_the_header_are_one_name() {
    let names = |text: &str, fields: &[&str]| {
        let string = || FieldType::from(FieldKind::String);
        let list = fields.iter().map(|name| Field::new(*name, string())).collect();
        let value = under_header().extract(text, &Typing::Fields(Fields::new(list))).unwrap();
        value[0].as_object().unwrap().keys().cloned().collect::<Vec<_>>().join("|")
    };
    let arp = "Address    Flags Mask       Iface\n192.0.2.1  C                eth0\n";
    assert_eq!(names(arp, &[]), "Address|Flags Mask|Iface");
    assert_eq!(names(arp, &["Flags", "Mask"]), "Address|Flags|Mask|Iface");
    assert_eq!(names(arp, &["Flags Mask"]), "Address|Flags Mask|Iface");
    let lsblk = "NAME   TYPE MOUNTPOINTS\nzram0  disk \nvda    disk /\n";
    assert_eq!(names(lsblk, &["TYPE"]), "NAME|TYPE|MOUNTPOINTS");
    // A word of a longer name does not split it.
    let df = "Use%  Mounted on\n 49%  /\n";
    assert_eq!(names(df, &["Mounted"]), "Use%|Mounted on");
    assert_eq!(names("Use%  Mounted on\n 49%  x y z\n", &["Mounted on"]), "Use%|Mounted on");
}

#[test]
fn words_between_two_names_are_an_error() {
    let text = "  PID  PPID                  STARTED     ELAPSED COMMAND
  992   991 Sat Nov 21 13:57:54 2026    02:19:15 bash
";
    let expected =
        "line 2: expected cells below the words of the header, found `21` between `PPID` and `STARTED`";
    check(&under_header(), text, Err(expected));
    // No other row shows where the cells of a shifted row are.
    let overflow = "\
USER       PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
www-data 1234567 12.5  0.0 1234567890 98765432 ?      Ssl  Nov20 1234:47 /usr/bin/foo
";
    check(&under_header(), &format!("{} -D\n", overflow.trim_end()), Err("line 2: expected cells below"));
}

#[test]
fn lines_end_in_lf_or_cr_or_both() {
    for end in ["\n", "\r\n", "\r"] {
        let text = |lines: &[&str]| lines.join(end);
        let table = text(&["title", "", "NAME   AGE", "web    1d", "db     2d", "", "2 in all", ""]);
        let columns =
            Columns { skip: 1, start_at: pattern("AGE$"), stop_before: pattern("^$"), ..under_header() };
        check_cells(&columns, &table, "NAME|AGE", &[&["web", "1d"], &["db", "2d"]]);
        let ragged = text(&["a b", "1 2", "3"]);
        check(&Columns { skip: 1, ..by_words("a b") }, &ragged, Err("line 3: expected 2 cells, found 1"));
    }
}

#[test]
fn tabs_become_spaces() {
    check(
        &under_header(),
        "name\tsize\na b\t1\nlonger\t2\n",
        Ok(r#"[{"name":"a b","size":"1"},{"name":"longer","size":"2"}]"#),
    );
}

#[test]
fn an_error_in_the_last_line_names_the_option_that_ends_the_table() {
    let hint = "; if it is below the table, `stop_before` ends the table there";
    let error =
        |columns: &Columns, text: &str| columns.extract(text, &Typing::Untyped).unwrap_err().to_string();
    let text = "NAME    SIZE  OWNER\na b        1  x\nc d       22  y\nTotal: 4 devices\n";
    let message = error(&under_header(), text);
    assert!(message.starts_with("line 4: ") && message.ends_with(hint), "{message}");
    let message = error(&by_words("name size owner"), "a 1 x\nb 2 y\nTotal: 2\n");
    let ragged = "; `ragged_rows` pads or skips such rows";
    assert_eq!(message, format!("line 3: expected 3 cells, found 2{ragged}{hint}"));
    let message = error(&by_words("name size owner"), "a 1 x\nb 2\nc 3 z\n");
    assert_eq!(message, format!("line 2: expected 3 cells, found 2{ragged}"));
}

#[test]
fn overlapping_cells_are_an_error_or_skipped() {
    let text = "NAME   SIZE   OWNER\na b    1      x\nlonger than it 12     y\nmuchtoolongname12345   z\n";
    check(&under_header(), text, Err("line 4: expected cells below the words of the header"));
    let skip = Columns { ragged_rows: RaggedRows::Skip, ..under_header() };
    assert_eq!(skip.extract(text, &Typing::Untyped).unwrap().as_array().unwrap().len(), 2);
}

#[test]
fn hostile_tables_come_to_an_end() {
    let words = "a ".repeat(5000);
    check(&under_header(), &format!("{words}\n{}", "x\n".repeat(50_000)), Err("at most 1000 columns"));
    let wide: Vec<_> = (0..1000).map(|number| format!("{number:04}")).collect();
    check(&under_header(), &format!("{}\n{}", wide.join("  "), "x\n".repeat(90_000)), Err("found more"));
    check(&under_header(), &format!("a b\n{}", "x y\n".repeat(100_001)), Err("at most 100000 rows"));
    check(&under_header(), &"\t".repeat(2_000_000).replace('\t', "\tx"), Err("bytes, found"));
    let long = format!("{}\n{}", wide.join("  "), "y".repeat(1_000_000));
    check(&under_header(), &long, Err("line 2"));
}

#[test]
fn the_rest_of_a_line_is_unchanged() {
    check(&by_words("a b"), "1  x\ty  z \n", Ok(r#"[{"a":"1","b":"x\ty  z"}]"#));
}
