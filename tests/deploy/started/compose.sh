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
sed -i 's/title: nginx connections/title: edited/' "$work/context/config/examples/nginx-stub-status.yaml"
until_it_says "compose: a file that was edited is in force" http://127.0.0.1:8080/tools '"title":"edited"'
may_do_nothing compose "$(podman ps --format '{{.Names}}' --filter name=glossator)"
down compose.yaml

# Three with a store, behind a balancer.
export GLOSSATOR_SECRET=0123456789abcdef0123456789abcdef
up compose-replicas.yaml
mapfile -t replicas < <(podman ps --format '{{.Names}}' --filter name=glossator)
equal "compose-replicas: three of them" 3 "${#replicas[@]}"
# Whom the balancer finds not yet listening, it leaves out for ten seconds.
for _ in $(seq 100); do
    called http://127.0.0.1:8080 nginx_status
    echo
    spared=no
    for name in "${replicas[@]}"; do
        podman logs "$name" >"$work/$name.log" 2>&1
        grep -q 'INFO.* call route=nginx_status outcome="success"' "$work/$name.log" || spared=yes
    done
    [ "$spared" = yes ] || break
    sleep 0.2
done >"$work/calls.answers"
equal "compose-replicas: each replica has some of the calls" no "$spared"
equal "compose-replicas: calls through the balancer are answered" "$(wc -l <"$work/calls.answers")" \
    "$(grep -c '"structuredContent".*"requests"' "$work/calls.answers")"
# As in the log of the balancer, which knows.
client=$(podman logs "$(podman ps --format '{{.Names}}' --filter name=balancer)" 2>/dev/null | awk '/POST/ && !told++ { print $1 }')
for name in "${replicas[@]}"; do
    equal "compose-replicas: $name is told by the balancer who asks" "$client" \
        "$(grep -o 'client=[^ ]*' "$work/$name.log" | sort -u | sed 's/client=//')"
    if grep -q 'shared state connected' "$work/$name.log"; then
        pass "compose-replicas: $name has the store"
    else
        fail "compose-replicas: $name has the store" "$(cat "$work/$name.log")"
    fi
done
sed -i 's/title: nginx connections/title: edited/' "$work/context/deploy/replicas/nginx-status.yaml"
for number in 1 2 3; do
    until_it_says "compose-replicas: a file that was edited is in force, at an answer in turn ($number)" \
        http://127.0.0.1:8080/tools '"title":"edited"'
done
may_do_nothing compose-replicas "${replicas[0]}"
down compose-replicas.yaml
