//! Tests of tables as real programs print them.

use super::*;

#[test]
fn ps_aux_is_read() {
    let text = "\
USER       PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
root         1  0.3  0.0  53972 22084 ?        SLl  13:57   0:07 /sbin/init --addr 0.0.0.0
postgres 20415 12.5 10.1 71893580 1204884 pts/0 Ssl+ Nov20 123:07 postgres: writer   process
systemd+     2  0.0  0.0      0     0 ?        S    13:57   0:00 [kthreadd]
";
    check_cells(
        &under_header(),
        text,
        "USER|PID|%CPU|%MEM|VSZ|RSS|TTY|STAT|START|TIME|COMMAND",
        &[
            &[
                "root",
                "1",
                "0.3",
                "0.0",
                "53972",
                "22084",
                "?",
                "SLl",
                "13:57",
                "0:07",
                "/sbin/init --addr 0.0.0.0",
            ],
            &[
                "postgres",
                "20415",
                "12.5",
                "10.1",
                "71893580",
                "1204884",
                "pts/0",
                "Ssl+",
                "Nov20",
                "123:07",
                "postgres: writer   process",
            ],
            &["systemd+", "2", "0.0", "0.0", "0", "0", "?", "S", "13:57", "0:00", "[kthreadd]"],
        ],
    );
}

#[test]
fn df_is_read() {
    let text = "\
Filesystem               Size  Used Avail Use% Mounted on
devtmpfs                  12G     0   12G   0% /dev
/dev/vda                 252G   45G   47G  49% /
tmpfs                     24G     0   24G   0% /run/user/0
";
    check_cells(
        &under_header(),
        text,
        "Filesystem|Size|Used|Avail|Use%|Mounted on",
        &[
            &["devtmpfs", "12G", "0", "12G", "0%", "/dev"],
            &["/dev/vda", "252G", "45G", "47G", "49%", "/"],
            &["tmpfs", "24G", "0", "24G", "0%", "/run/user/0"],
        ],
    );
    let blocks = "\
Filesystem     1K-blocks     Used Available Use% Mounted on
/dev/sda1       41152736 12345678  26973000  32% /
//nas/my files   1000000        1    999999   1% /mnt/my files
";
    check_cells(
        &under_header(),
        blocks,
        "Filesystem|1K-blocks|Used|Available|Use%|Mounted on",
        &[
            &["/dev/sda1", "41152736", "12345678", "26973000", "32%", "/"],
            &["//nas/my files", "1000000", "1", "999999", "1%", "/mnt/my files"],
        ],
    );
}

#[test]
fn docker_ps_is_read_with_its_empty_cells() {
    let text = "\
CONTAINER ID   IMAGE          COMMAND                  CREATED         STATUS                     PORTS                  NAMES
3f4e8b1c9a7d   nginx:latest   \"/docker-entrypoint.…\"   2 hours ago     Up 2 hours                 0.0.0.0:8080->80/tcp   web
9c1d2e3f4a5b   busybox        \"sh -c 'sleep 1'\"        3 minutes ago   Exited (0) 2 minutes ago                          quirky_bose
";
    check_cells(
        &under_header(),
        text,
        "CONTAINER ID|IMAGE|COMMAND|CREATED|STATUS|PORTS|NAMES",
        &[
            &[
                "3f4e8b1c9a7d",
                "nginx:latest",
                "\"/docker-entrypoint.…\"",
                "2 hours ago",
                "Up 2 hours",
                "0.0.0.0:8080->80/tcp",
                "web",
            ],
            &[
                "9c1d2e3f4a5b",
                "busybox",
                "\"sh -c 'sleep 1'\"",
                "3 minutes ago",
                "Exited (0) 2 minutes ago",
                "",
                "quirky_bose",
            ],
        ],
    );
}

#[test]
fn kubectl_get_is_read() {
    let text = "\
NAME                     READY   STATUS    RESTARTS       AGE   IP           NODE     NOMINATED NODE   READINESS GATES
web-7c5ddbdf54-2xk9p     1/1     Running   1 (3d ago)     10d   10.244.0.5   node-1   <none>           <none>
db-0                     0/1     Pending   0              2m    <none>       <none>   <none>           <none>
";
    check_cells(
        &under_header(),
        text,
        "NAME|READY|STATUS|RESTARTS|AGE|IP|NODE|NOMINATED NODE|READINESS GATES",
        &[
            &[
                "web-7c5ddbdf54-2xk9p",
                "1/1",
                "Running",
                "1 (3d ago)",
                "10d",
                "10.244.0.5",
                "node-1",
                "<none>",
                "<none>",
            ],
            &["db-0", "0/1", "Pending", "0", "2m", "<none>", "<none>", "<none>", "<none>"],
        ],
    );
}

#[test]
fn netstat_is_read_from_its_header_on() {
    let text = "\
Active Internet connections (w/o servers)
Proto Recv-Q Send-Q Local Address           Foreign Address         State      
tcp        0      0 127.0.0.1:56258         127.0.0.1:45269         TIME_WAIT  
tcp        0   1048 10.0.0.7:22             203.0.113.9:51514       ESTABLISHED

Active UNIX domain sockets (w/o servers)
Proto RefCnt Flags       Type       State         I-Node   Path
unix  2      [ ]         DGRAM                    18203    /run/systemd/notify
";
    let tcp = Columns { start_at: pattern("^Proto"), stop_before: pattern("^$"), ..under_header() };
    check_cells(
        &tcp,
        text,
        "Proto|Recv-Q|Send-Q|Local Address|Foreign Address|State",
        &[
            &["tcp", "0", "0", "127.0.0.1:56258", "127.0.0.1:45269", "TIME_WAIT"],
            &["tcp", "0", "1048", "10.0.0.7:22", "203.0.113.9:51514", "ESTABLISHED"],
        ],
    );
    let unix = Columns { start_at: pattern("^Proto RefCnt"), ..under_header() };
    check_cells(
        &unix,
        text,
        "Proto|RefCnt|Flags|Type|State|I-Node|Path",
        &[&["unix", "2", "[ ]", "DGRAM", "", "18203", "/run/systemd/notify"]],
    );
}

#[test]
fn free_is_read_when_its_first_column_has_a_name() {
    let text = "               total        used        free      shared  buff/cache   available
Mem:           24105        1174        3930           8       19401       22931
Swap:              0           0           0
";
    check_cells(
        &Columns { first_column: Some("kind".into()), ..under_header() },
        text,
        "kind|total|used|free|shared|buff/cache|available",
        &[&["Mem:", "24105", "1174", "3930", "8", "19401", "22931"], &["Swap:", "0", "0", "0", "", "", ""]],
    );
    check(&under_header(), text, Err("line 2: expected a name in the header for every cell, found `Mem:`"));
}

#[test]
fn ls_is_read_by_white_space() {
    let text = "\
total 88
lrwxrwxrwx   1 root root     7 May 20  2025 bin -> usr/bin
-rw-r--r--   1 root root   512 Nov 21 13:57 my  file.json
";
    let ls = Columns { skip: 1, ..by_words("mode links owner group size month day time name") };
    check_cells(
        &ls,
        text,
        "mode|links|owner|group|size|month|day|time|name",
        &[
            &["lrwxrwxrwx", "1", "root", "root", "7", "May", "20", "2025", "bin -> usr/bin"],
            &["-rw-r--r--", "1", "root", "root", "512", "Nov", "21", "13:57", "my  file.json"],
        ],
    );
    check(&ls, "total 0\n", Ok("[]"));
    check(&ls, "total 0\nx y\n", Err("line 2: expected 9 cells, found 2"));
    check(
        &Columns { ragged_rows: RaggedRows::Skip, ..by_words("a b") },
        "1 2\n1\n",
        Ok(r#"[{"a":"1","b":"2"}]"#),
    );
    check(&Columns { ragged_rows: RaggedRows::Pad, ..by_words("a b") }, "1\n", Ok(r#"[{"a":"1","b":""}]"#));
}

#[test]
fn a_ruled_header_sets_column_starts() {
    let text = "\
Name            Qty Unit price
------------- ----- ----------
Blue  widget      5       1.50
Red                       2.00

(2 rows affected)
";
    let columns = Columns { stop_before: pattern(r"^\("), ..under_header() };
    check_cells(
        &columns,
        text,
        "Name|Qty|Unit price",
        &[&["Blue  widget", "5", "1.50"], &["Red", "", "2.00"]],
    );
    check(&under_header(), "a  b\n-- --\nxxxx\n", Err("line 3: expected cells below"));
    check(&under_header(), "Report\n======\nx\n", Ok(r#"[{"Report":"x"}]"#));
}

#[test]
fn a_frame_sets_cell_ends() {
    let psql = concat!(
        "       List of things\n",
        " id |    name     |  note  \n",
        "----+-------------+--------\n",
        "  1 | Oslo | west | \n",
        "  2 | Bergen      | two   +\n",
        "    |             | lines +\n",
        "    |             | more\n",
        "  3 | C++         | a+\n",
        "(3 rows)\n\nbeside\n",
    );
    let names = "id|name|note";
    check_cells(
        &under_header(),
        psql,
        names,
        &[&["1", "Oslo | west", ""], &["2", "Bergen", "two\nlines\nmore"], &["3", "C++", "a+"]],
    );
    let mysql = "+----+--------+------+\n| id | name   | note |\n+----+--------+------+\n|  1 | a | b  | NULL |\n|  2 |                  c+     |      |\n+----+--------+------+\n2 rows in set (0.00 sec)\n";
    check_cells(&under_header(), mysql, names, &[&["1", "a | b", "NULL"], &["2", "c+", ""]]);
    let unnamed = "+----+------+\n|  1 | Oslo |\n|  2 |      |\n+----+------+\n";
    check_cells(&by_words("id name"), unnamed, "id|name", &[&["1", "Oslo"], &["2", ""]]);
    let boxed = "┌────┬──────┐\n│ id │ name │\n├────┼──────┤\n│ 1  │ a|b  │\n└────┴──────┘\n";
    check_cells(&under_header(), boxed, "id|name", &[&["1", "a|b"]]);
    let wide = "┌────┬──────┐\n│ id │ name │\n├────┼──────┤\n│ 1  │ 東京 │\n│ 2  │ 京   │\n└────┴──────┘\n";
    check_cells(&under_header(), wide, "id|name", &[&["1", "東京"], &["2", "京"]]);
    let grid = "+----+------+\n| id | name |\n+====+======+\n| 1  | a    |\n+----+------+\n| 2  | b    |\n+----+------+\n";
    check_cells(&under_header(), grid, "id|name", &[&["1", "a"], &["2", "b"]]);
    check_cells(&under_header(), "+----+\n| id |\n+----+\n| 7  |\n+----+\n", "id", &[&["7"]]);
    check(&under_header(), " id | name \n----+------\n(0 rows)\n", Ok("[]"));
}

#[test]
fn markdown_need_not_be_aligned() {
    let rows: &[&[&str]] = &[&["1", "Oslo"], &["2", "a|b"], &["3", ""]];
    let edged = "# Cities\n\n| id | name |\n| ---: | :--- |\n| 1 | Oslo |\n|2|a\\|b|\n| 3 | |\n";
    check_cells(&under_header(), edged, "id|name", rows);
    let bare = "id|name\n---|---\n1|Oslo\n2 | a\\|b\n3 |\n";
    check_cells(&under_header(), bare, "id|name", rows);
    // A cell that ends in a plus continues in the next line in `psql` only.
    let plus = "|id|name|\n|--|--|\n|1|C+|\n||b|\n";
    check_cells(&under_header(), plus, "id|name", &[&["1", "C+"], &["", "b"]]);
}

#[test]
fn other_lines_do_not_end_a_framed_table() {
    let lost = " id | name \n----+------\n  1 | Oslo\nERROR: connection lost\n";
    check(
        &under_header(),
        lost,
        Err("line 4: expected a row between bars, found a line without; `stop_before`"),
    );
    check(
        &Columns { stop_before: pattern("^Indexes"), ..under_header() },
        " id | name \n----+------\n  1 | Oslo\nIndexes:\n  \"a\" btree (id)\n",
        Ok(r#"[{"id":"1","name":"Oslo"}]"#),
    );
    check(&under_header(), "|a|b|\n|-|-|\n|1|\n", Err("line 3: expected 2 cells, found 1"));
    check(
        &under_header(),
        "|a|b|\n|-|-|\n|1|2|3|\n",
        Err("line 3: expected 2 cells, found 3; `ragged_rows: skip` skips such rows"),
    );
    check(
        &Columns { ragged_rows: RaggedRows::Skip, ..under_header() },
        "|a|b|\n|-|-|\n|1|\n|1|2|\n",
        Ok(r#"[{"a":"1","b":"2"}]"#),
    );
    // The rule of `dpkg -l` is not a frame, although bars are above it.
    let dpkg = "||/ Name     Version  Description\n+++-========-========-===========\nii  adduser  3.134    adds users\n";
    check_cells(
        &under_header(),
        dpkg,
        "||/|Name|Version|Description",
        &[&["ii", "adduser", "3.134", "adds users"]],
    );
}

#[test]
fn a_first_column_that_has_a_name_needs_none() {
    let first = || Columns { first_column: Some("state".to_owned()), ..under_header() };
    let dpkg = "||/ Name     Description\nii  adduser  adds users and groups\nrc  apt      a tool\n";
    check(
        &first(),
        dpkg,
        Err("line 1: expected no name for the first column, as `first_column` gives it one, found `||/`"),
    );
    let pandas = "|    | city   |   temp |\n|---:|:-------|-------:|\n|  0 | Oslo   |     -5 |\n";
    check(&under_header(), pandas, Err("line 1: expected a name for every column, found none for column 1"));
    check_cells(&first(), pandas, "state|city|temp", &[&["0", "Oslo", "-5"]]);
    check(&first(), "|a|b|\n|-|-|\n|1|2|\n", Err("line 1: expected no name for the first column"));
}
