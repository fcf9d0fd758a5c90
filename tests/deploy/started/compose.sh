# The two compose files, as podman-compose brings them up; sourced by `containers`.
# shellcheck shell=bash

# compose FILE COMMAND…: in a clone of what is committed, built from there.
compose() {
    local file=$1
    shift
    (cd "$work/context" && "${PODMAN_COMPOSE:?}" --podman-args=--log-level=error -f "deploy/$file" "$@") >>"$work/$file.log" 2>&1
}

# up FILE, and down: a container that is told to stop ends by itself, with status 0.
up() {
    if compose "$1" up --build -d; then pass "${1%.yaml}: comes up"; else fail "${1%.yaml}: comes up" "$(tail -20 "$work/$1.log")"; fi
    wait_for_url http://127.0.0.1:8080/health
}
down() {
    local name
    for name in $(podman ps --format '{{.Names}}' --filter name=glossator); do
        podman stop -t 35 "$name" >/dev/null
        equal "${1%.yaml}: $name ends with status 0" 0 "$(podman inspect -f '{{.State.ExitCode}}' "$name")"
    done
    compose "$1" down || fail "${1%.yaml}: goes down" "$(tail -20 "$work/$1.log")"
    equal "${1%.yaml}: nothing is left of it" "" "$(podman ps -aq)"
}

up compose.yaml
answers "compose: a call reaches the old server, by its name in DNS" "$(called http://127.0.0.1:8080 nginx_status)"
may_do_nothing compose "$(podman ps --format '{{.Names}}' --filter name=glossator)"
down compose.yaml

# The balancer has no name for a store, a replica or a secret of its own: all of it is in the files.
export GLOSSATOR_SECRET=0123456789abcdef0123456789abcdef
up compose-replicas.yaml
mapfile -t replicas < <(podman ps --format '{{.Names}}' --filter name=glossator)
equal "compose-replicas: three of them" 3 "${#replicas[@]}"
for _ in $(seq 9); do
    called http://127.0.0.1:8080 nginx_status
    echo
done >"$work/nine.answers"
equal "compose-replicas: calls through the balancer are answered" "9 of 9" \
    "$(grep -c '"structuredContent".*"requests"' "$work/nine.answers") of $(wc -l <"$work/nine.answers")"
# As in the log of the balancer, which knows.
client=$(podman logs "$(podman ps --format '{{.Names}}' --filter name=balancer)" 2>/dev/null | awk '/POST/ && !told++ { print $1 }')
for name in "${replicas[@]}"; do
    podman logs "$name" >"$work/$name.log" 2>&1
    equal "compose-replicas: $name has a third of them" 3 "$(grep -c 'INFO.* call tool=nginx_status outcome="success"' "$work/$name.log")"
    equal "compose-replicas: $name is told by the balancer who asks" "$client" \
        "$(grep -o 'client=[^ ]*' "$work/$name.log" | sort -u | sed 's/client=//')"
    if grep -q 'the shared store is there' "$work/$name.log"; then
        pass "compose-replicas: $name has the store"
    else
        fail "compose-replicas: $name has the store" "$(cat "$work/$name.log")"
    fi
done
if [ -n "$(podman exec "$(podman ps --format '{{.Names}}' --filter name=store)" valkey-cli client list 2>/dev/null | grep -v 'cmd=client')" ]; then
    pass "compose-replicas: the store has them"
else
    fail "compose-replicas: the store has them"
fi
may_do_nothing compose-replicas "${replicas[0]}"
down compose-replicas.yaml
