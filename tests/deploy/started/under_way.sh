# shellcheck shell=bash
# under_way PORT: waits until somebody is connected to the slow server there; sourced.
under_way() {
    for _ in $(seq 100); do
        [ -z "$(ss -Htn state established "sport = :$1")" ] || return 0
        sleep 0.1
    done
    die "the slow server is not asked"
}
