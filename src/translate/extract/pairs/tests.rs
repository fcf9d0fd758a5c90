//! Tests of lines of keys and values as programs print them.

use super::*;
use crate::translate::work_budget::STOPPED;
use crate::translate::{Field, FieldKind};

#[track_caller]
fn check(pairs: &Pairs, text: &str, expected: Result<&str, &str>) {
    match (pairs.extract(text, None, None), expected) {
        (Ok(value), Ok(expected)) => assert_eq!(value.to_string(), expected),
        (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
        (found, _) => panic!("found {:.400}", format!("{found:?}")),
    }
}

fn separated(separators: &[&str]) -> Pairs {
    Pairs { separators: separators.iter().map(|text| (*text).to_owned()).collect(), ..Pairs::default() }
}

fn indented(indented: Indented) -> Pairs {
    Pairs { indented, ..Pairs::default() }
}

fn sectioned() -> Pairs {
    Pairs { sections: Some(Pattern::compile(Pairs::BRACKETS).unwrap()), ..separated(&["="]) }
}

#[test]
fn the_first_separator_counts_and_white_space_does_not() {
    check(&separated(&[":"]), "temp: 5\r\n  time : 12:30\n", Ok(r#"{"temp":"5","time":"12:30"}"#));
    check(&separated(&[":"]), "temp: 5\r  time : 12:30\r", Ok(r#"{"temp":"5","time":"12:30"}"#));
    check(&separated(&["="]), "a=1\nb=\n", Ok(r#"{"a":"1","b":""}"#));
    check(
        &separated(&[" "]),
        "nr_free_pages   51\n  pgfault 7",
        Ok(r#"{"nr_free_pages":"51","pgfault":"7"}"#),
    );
    check(&separated(&[":", "=", "=>"]), "a=b:c\nd:e=f\ng => h", Ok(r#"{"a":"b:c","d":"e=f","g":"h"}"#));
}

#[test]
fn headings_are_skipped_and_repeated_keys_gather() {
    let text = "Report\n======\n\nnode: a\nnode: b\nnode: c\n: d\n";
    check(&Pairs::default(), text, Ok(r#"{"node":["a","b","c"]}"#));
}

#[test]
fn a_line_aligned_with_a_value_is_a_further_value() {
    let text = "   DNS Servers . . . : 192.0.2.1\r\n                       fe80::1%3\r\n                       192.0.2.2\r\n\r\n   \
                Next. . . . . . . : x\r\n";
    let expected = r#"{"DNS Servers":["192.0.2.1","fe80::1%3","192.0.2.2"],"Next":"x"}"#;
    check(&Pairs::default(), text, Ok(expected));
    check(&indented(Indented::Nested), text, Ok(expected));
    check(&Pairs::default(), "to:\ta\n\tb\nto: c\n", Ok(r#"{"to":["a","b","c"]}"#));
    // Pairs, rules and lines with another alignment are unchanged.
    let others = "a: 1\n   b: 2\nc: 3\n   ---\nd: 4\n  (four)\n";
    check(&Pairs::default(), others, Ok(r#"{"a":"1","b":"2","c":"3","d":"4"}"#));
    check(&separated(&[" "]), "a   1\n    b 2\n", Ok(r#"{"a":"1","b":"2"}"#));
}

#[test]
fn sections_with_an_end_may_be_nested() {
    let pattern = |source| Some(Pattern::compile(source).unwrap());
    let pairs = || Pairs {
        sections: pattern("^BEGIN:(?<name>.+)"),
        section_end: pattern("^END:"),
        ..Pairs::default()
    };
    let text = "a:1\nBEGIN:X\nb:2\nBEGIN:Y\nc:3\nEND:Y\nd:4\nEND:X\nEND:Z\ne:5\nBEGIN:X\nf:6\n";
    check(&pairs(), text, Ok(r#"{"a":"1","X":[{"b":"2","Y":{"c":"3"},"d":"4"},{"f":"6"}],"e":"5"}"#));
    check(
        &pairs(),
        &"BEGIN:X\n".repeat(33),
        Err("line 33: expected at most 32 levels of sections and indentation, found more"),
    );
    let nested = Pairs { indented: Indented::Nested, ..pairs() };
    check(&nested, "BEGIN:X\nb: 2\n c: 3\nEND:X\nd: 4\n", Ok(r#"{"X":{"b":{"value":"2","c":"3"}},"d":"4"}"#));
}

#[test]
fn dots_that_lead_to_the_separator_are_no_part_of_the_key() {
    let expected = r#"{"IPv4 Address":"192.0.2.7","Total":"5","etc.":"x","..":"y"}"#;
    check(&Pairs::default(), "IPv4 Address. . . : 192.0.2.7\nTotal.....: 5\netc.: x\n..: y\n", Ok(expected));
}

#[test]
fn words_below_a_line_are_not_lost() {
    let nested = || indented(Indented::Nested);
    check(&nested(), "Files:\n  /a 1\n  /b 2\nOne:\n  x\n", Ok(r#"{"Files":["/a 1","/b 2"],"One":"x"}"#));
    check(&nested(), "Disk: 5\n  not mounted\n  ----\n", Ok(r#"{"Disk":["5","not mounted"]}"#));
    check(
        &nested(),
        "Disk: 5\n  free: 2\n  not mounted\n",
        Ok(r#"{"Disk":{"value":["5","not mounted"],"free":"2"}}"#),
    );
    check(&nested(), "Title\n\na: b\n", Ok(r#"{"a":"b"}"#));
}

#[test]
fn values_of_many_lines_have_a_limit() {
    let text = format!("a: b\n{}", "   c\n".repeat(RECORD_LIMIT));
    for pairs in [Pairs::default(), indented(Indented::Nested)] {
        check(&pairs, &text, Err("expected at most 100000 pairs, found more"));
    }
}

#[test]
fn a_response_without_pairs_is_an_error() {
    check(&Pairs::default(), "", Err("found none"));
    check(&Pairs::default(), "Service restarting", Err("expected lines of `key: value`"));
    let blocks = || Pairs { each: EachPairs::Block, ..Pairs::default() };
    check(&blocks(), "none\n\nat all", Err("expected blocks of lines of `key: value`"));
    check(
        &Pairs { records: Records { allow_empty: true, ..Records::default() }, ..blocks() },
        "none\n\nat all",
        Ok("[]"),
    );
}

#[test]
fn comments_are_skipped_and_quotes_removed() {
    let pairs = Pairs { comments: vec!["#".into(), "//".into()], unquote: true, ..separated(&["="]) };
    let text =
        "# a=1\n // b=2\nNAME=\"Debian \\\"GNU\\\" \\n\"\nID='x y'\nc = \"a\" \"b\"\nd=\"\ne='\nf=\"\"\n";
    let expected = r#"{"NAME":"Debian \"GNU\" \\n","ID":"x y","c":"\"a\" \"b\"","d":"\"","e":"'","f":""}"#;
    check(&pairs, text, Ok(expected));
}

#[test]
fn indented_lines_are_members_if_configured() {
    let text = "Client:\n Version: 24\nServer:\n Containers: 3\n  Running: 1\n Name:\nEnd: x\n";
    check(
        &indented(Indented::Nested),
        text,
        Ok(
            r#"{"Client":{"Version":"24"},"Server":{"Containers":{"value":"3","Running":"1"},"Name":""},"End":"x"}"#,
        ),
    );
    check(
        &indented(Indented::Same),
        text,
        Ok(r#"{"Client":"","Version":"24","Server":"","Containers":"3","Running":"1","Name":"","End":"x"}"#),
    );
}

#[test]
fn lines_that_are_repeated_gather_with_what_is_below_them() {
    let text = "vm\n    width: 64 bits\n  *-cpu\n     size: 1\n\n  *-cpu\n\t size: 2\nfoot\n";
    let expected = r#"{"vm":{"width":"64 bits","*-cpu":[{"size":"1"},{"size":"2"}]}}"#;
    check(&indented(Indented::Nested), text, Ok(expected));
    check(&indented(Indented::Nested), "a: 1\n value: 2\n value: 3", Ok(r#"{"a":{"value":["1","2","3"]}}"#));
}

#[test]
fn a_tab_reaches_to_the_next_multiple_of_eight() {
    let text = "a:\n        b: 1\n\tc: 2\n    \td:\n         e: 3\n";
    check(&indented(Indented::Nested), text, Ok(r#"{"a":{"b":"1","c":"2","d":{"e":"3"}}}"#));
}

#[test]
fn folded_lines_go_on_with_the_value() {
    let text = "Subject: one\r\n two\r\nList:\r\n a: 1\r\n  b\r\n\r\n stray: x\r\nEnd: y\r\n";
    check(
        &indented(Indented::Words),
        text,
        Ok(r#"{"Subject":"one two","List":"a: 1 b","stray":"x","End":"y"}"#),
    );
    check(
        &indented(Indented::Lines),
        text,
        Ok(r#"{"Subject":"one\ntwo","List":"a: 1\n b","stray":"x","End":"y"}"#),
    );
    check(&indented(Indented::Fold), "dn: ou=a,\n dc=b \n c\n", Ok(r#"{"dn":"ou=a,dc=b c"}"#));
}

#[test]
fn a_comment_behind_the_name_of_a_section_is_no_part_of_it() {
    let text = "[a]\nx=1\n[b] ; second\nx=2\n[c]# third [3]\nx=3\n[d] \t\nx=4\n";
    let expected = r#"{"a":{"x":"1"},"b":{"x":"2"},"c":{"x":"3"},"d":{"x":"4"}}"#;
    check(&sectioned(), text, Ok(expected));
}

#[test]
fn sections_are_objects_and_repeated_ones_gather() {
    let text = "top=0\n[Interface]\nPort = 51820\n[Peer]\nKey = a\n[Peer]\nKey = b\n[empty]\n";
    let expected = r#"{"top":"0","Interface":{"Port":"51820"},"Peer":[{"Key":"a"},{"Key":"b"}],"empty":{}}"#;
    check(&sectioned(), text, Ok(expected));
    let sections = Some(Pattern::compile("^# (?<name>.+)").unwrap());
    let text = "# Server\r\nredis_version:7.0.15\r\n\r\n# Clients\r\nconnected_clients:1\r\n";
    let expected = r#"{"Server":{"redis_version":"7.0.15"},"Clients":{"connected_clients":"1"}}"#;
    check(&Pairs { sections, ..Pairs::default() }, text, Ok(expected));
}

#[test]
fn blocks_of_pairs_are_a_list() {
    let text = "processor\t: 0\nflags\t\t: fpu vme\n\nprocessor\t: 1\nflags\t\t: fpu\n\n";
    let expected = r#"[{"processor":"0","flags":"fpu vme"},{"processor":"1","flags":"fpu"}]"#;
    check(&Pairs { each: EachPairs::Block, ..Pairs::default() }, text, Ok(expected));
}

#[test]
fn hostile_responses_take_linear_time_and_bounded_memory() {
    let nested = || indented(Indented::Nested);
    check(&nested(), &"a:\n".repeat(150_000), Err("line 100001: expected at most 100000 pairs"));
    check(&nested(), &"a\n".repeat(150_000), Err("line 100001: expected at most 100000 pairs"));
    let stairs: String = (0..1_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    check(&nested(), &stairs, Err("line 33: expected at most 32 levels of sections and indentation"));
    let deep = format!("a:\n{}b: 1\n", " ".repeat(1 << 20));
    check(&nested(), &deep, Ok(r#"{"a":{"b":"1"}}"#));
    check(&indented(Indented::Words), &"a".repeat(1 << 20), Err("found none"));
    let folded = format!("a: b\n{}", " c\n".repeat(150_000));
    assert!(indented(Indented::Words).extract(&folded, None, None).is_ok());
    let blocks = || Pairs { each: EachPairs::Block, ..Pairs::default() };
    check(&blocks(), &"a:\n\n".repeat(150_000), Err("at most 100000 blocks of pairs"));
    let blocks_of_nearly_all = format!("{}\n", "a:\n".repeat(99_999)).repeat(11);
    let limit_of_all = Err("line 1000011: expected at most 1000000 pairs");
    check(&blocks(), &blocks_of_nearly_all, limit_of_all);
    check(&sectioned(), &"[a]\n".repeat(150_000), Err("at most 100000 pairs"));
    check(&sectioned(), &"[".repeat(1 << 20), Err("found none"));
}

#[test]
fn nothing_that_is_nested_is_deeper_than_json_may_be() {
    let stairs: String =
        (0..31).map(|depth| format!("{0}a:\n{0} b: 1\n{0}a:\n", "  ".repeat(depth))).collect();
    let found = indented(Indented::Nested).extract(&stairs, None, None).unwrap().to_string();
    assert!(serde_json::from_str::<Value>(&found).is_ok());
}

fn matching(pattern: &str) -> Pairs {
    Pairs { pattern: Some(Pattern::compile(pattern).unwrap()), ..Pairs::default() }
}

#[test]
fn a_pattern_defines_pairs() {
    let stat = matching(r"^STAT (?<key>\S+) (?<value>.*)$");
    check(&stat, "STAT pid 7\r\nSTAT version 1.6 a\r\nEND\r\n", Ok(r#"{"pid":"7","version":"1.6 a"}"#));
    check(&stat, "ERROR\r\n", Err("expected lines that match `^STAT (?<key>"));
    // The value comes first, and white space at the beginning of the line is ignored.
    let counts = matching(r"^(?<value>\d+) (?<key>.+)$");
    check(
        &counts,
        "Tcp:\n    3 active openings\n    0 resets\n",
        Ok(r#"{"active openings":"3","resets":"0"}"#),
    );
    check(&matching("(?<key> *)=(?<value>.*)"), "=1", Err("found none"));
}

#[test]
fn a_line_may_have_several_pairs_of_a_pattern() {
    let records = Records { block_start: Some(Pattern::compile("^").unwrap()), ..Records::default() };
    let pairs = Pairs {
        each: EachPairs::Block,
        records,
        unquote: true,
        ..matching(r#"(?<key>[\w.-]+)=(?<value>"(?:[^"\\]|\\.)*"|\S*)"#)
    };
    let text = "level=info msg=\"it is \\\"up\\\"\" n=1\n\nlevel=warn msg= n=2 n=3\n-- end\n";
    let expected =
        r#"[{"level":"info","msg":"it is \"up\"","n":"1"},{"level":"warn","msg":"","n":["2","3"]}]"#;
    check(&pairs, text, Ok(expected));
    check(&pairs, "nothing\n", Err("expected blocks of lines that match `"));
}

#[test]
fn lines_continue_the_last_pair_of_a_pattern() {
    let event = Pairs { indented: Indented::Fold, ..matching("^(?<key>[A-Z-]+)[^:]*:(?<value>.*)$") };
    let text = "DTSTART;TZID=Europe/Oslo:20261121T093000\nSUMMARY:Review\n , part 1\n\n more\n";
    check(&event, text, Ok(r#"{"DTSTART":"20261121T093000","SUMMARY":"Review, part 1"}"#));
    let sectioned = Pairs {
        sections: Some(Pattern::compile("^# (?<name>.+)").unwrap()),
        ..matching("(?<key>[a-z]+)=(?<value>[0-9]+)")
    };
    check(&sectioned, "a=0\n# One=1\na=1,b=2\n", Ok(r#"{"a":"0","One=1":{"a":"1","b":"2"}}"#));
}

#[test]
fn pairs_stop_when_the_call_is_cancelled() {
    let work_budget = WorkBudget::default();
    let pairs = matching("(?<key>a)(?<value>b)");
    assert!(pairs.extract("abab", None, Some(&work_budget)).is_ok());
    work_budget.cancel();
    assert_eq!(
        pairs.extract("abab", None, Some(&work_budget)).unwrap_err().to_string(),
        format!("line 1: {STOPPED}")
    );
}

#[test]
fn unused_outermost_keys_are_not_extracted() {
    let used_fields = Fields::new(vec![Field::new("b", FieldKind::Any.into())]);
    let text = "a: 1\nb: 2\n  b1: 3\nc:\n  b: 4\n";
    let found = indented(Indented::Nested).extract(text, Some(&used_fields), None).unwrap();
    assert_eq!(found.to_string(), r#"{"b":{"value":"2","b1":"3"}}"#);
}

#[test]
fn our_own_pattern_has_a_name() {
    assert_eq!(Pattern::compile(Pairs::BRACKETS).unwrap().names().collect::<Vec<_>>(), ["name"]);
}
