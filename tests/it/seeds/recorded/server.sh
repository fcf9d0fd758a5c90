#!/bin/sh
# An MCP server that answers with lines of the folder that it works in: `initialize` and `tools` are what it says of
# itself, `answer` is what it says to every call. What it is called with goes to `asked`. It ends once where there is `die`.
send() { sed "s/\"id\":[0-9][0-9]*/\"id\":$1/" "$2"; }
while read -r line; do
    id=${line#*\"id\":}
    id=${id%%,*}
    case $line in
        *'"method":"initialize"'*) send "$id" initialize ;;
        *'"method":"tools/list"'*) send "$id" tools ;;
        *'"method":"tools/call"'*)
            if [ -e die ]; then
                rm die
                exit 3
            fi
            printf '%s\n' "$line" > asked
            send "$id" answer
            ;;
    esac
done
