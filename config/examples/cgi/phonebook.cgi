#!/bin/sh
# A phonebook, as such programs were written: GET /find?name=LETTERS, POST /add with a form.
book='Mona,17-23,4
Moritz,17-42,11
Anna,18-01,2'

answer() {
    printf 'Status: %s\nContent-Type: %s\n\n' "$1" "$2"
}

case "$REQUEST_METHOD $PATH_INFO" in
'GET /find')
    letters=${QUERY_STRING#name=}
    case $letters in
    *[!A-Za-z]* | '')
        answer '400 Bad Request' text/plain
        echo 'name must be letters'
        exit
        ;;
    esac
    found=$(echo "$book" | grep -i "^$letters")
    if [ -z "$found" ]; then
        answer '404 Not Found' text/plain
        echo none
    else
        answer '200 OK' 'text/csv; charset=us-ascii'
        echo 'name,number,room'
        echo "$found"
    fi
    ;;
'POST /add')
    answer '200 OK' text/plain
    echo "$SERVER_NAME would add: $(head -c "$CONTENT_LENGTH")"
    ;;
*)
    answer '404 Not Found' text/plain
    echo "no such page: $PATH_INFO"
    ;;
esac
