# podman in a world of its own, and stand-ins for the images that deploy/ names; sourced, not run.
# shellcheck shell=bash
#
# No registry is asked: what the stand-ins have in them is Debian's, under the names of the originals. The image of
# glossator itself is built from deploy/Containerfile as it stands, and so is whatever is started.

tree=${DEBIAN_TREE:?}
# shellcheck source=under_way.sh
source "$here/under_way.sh"

# engine_in FOLDER: podman with all that it keeps in there.
engine_in() {
    mkdir -p "$1"
    export CONTAINERS_STORAGE_CONF=$1/storage.conf CONTAINERS_CONF=$1/containers.conf
    export CONTAINERS_REGISTRIES_CONF=$1/registries.conf
    # It would ask systemd for timers; probes are asked by kubelet.py.
    export DISABLE_HC_SYSTEMD=true
    cat >"$CONTAINERS_STORAGE_CONF" <<EOF
[storage]
driver = "overlay"
runroot = "$1/run"
graphroot = "$1/graph"
EOF
    # More files than whoever runs this may have open, nobody can allow a container.
    local files
    files=$(ulimit -Hn)
    cat >"$CONTAINERS_CONF" <<EOF
[containers]
default_ulimits = ["nofile=$files:$files", "nproc=1024:1024"]
pids_limit = 0
[network]
network_backend = "netavark"
network_config_dir = "$1/networks"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
tmp_dir = "$1/tmp"
volume_path = "$1/volumes"
EOF
    echo 'unqualified-search-registries = ["docker.io"]' >"$CONTAINERS_REGISTRIES_CONF"
}

# A bridge takes the lowest address of its ports, so it has another one whenever a container comes or goes, and those that
# know the old one get no answer for seconds. udev keeps it as it is, on machines that have that; here this does.
keep_addresses() {
    local index name told=:
    ip -o monitor link | while IFS=': ' read -r index name _; do
        case $told$name in
            *":$index:"*) ;;
            *:podman*)
                told+=$index:
                ip link set "$name" address "$(cat "/sys/class/net/$name/address")" || true ;;
        esac
    done
}

podman() { command podman --log-level=error "$@"; }

# image NAME: from the Containerfile on standard input, whose base is the Debian tree, and the files of $work/image.
image() {
    mkdir -p "$work/image"
    cat >"$work/image/Containerfile"
    podman build -q --pull=never -t "$1" "$work/image" >"$work/image.log" 2>&1 || { cat "$work/image.log" >&2; die "no $1"; }
}

# The bases in deploy/Containerfile: a builder that hands out the program which is tested, instead of an hour of the
# machine's; and what distroless/static has in it.
stand_ins_to_build() {
    podman import -q "$tree" localhost/debian >"$work/import.log" 2>&1 || { cat "$work/import.log" >&2; die "no Debian image"; }
    mkdir -p "$work/image"
    cp "$glossator" "$work/image/glossator"
    cat >"$work/image/rustc" <<'EOF'
#!/bin/sh
[ "$*" = "--print host-tuple" ] && echo any-host
EOF
    # It says what it was asked for, and of what.
    cat >"$work/image/cargo" <<'EOF'
#!/bin/sh
echo "cargo in $PWD with $CARGO_BUILD_RUSTFLAGS: $*"
echo "sources:" *
install -D /usr/local/bin/glossator target/any-host/dist/glossator
EOF
    image "docker.io/library/$(base_of 1)" <<'EOF'
FROM localhost/debian
COPY --chmod=755 rustc cargo glossator /usr/local/bin/
EOF
    image "$(base_of 2)" <<'EOF'
FROM localhost/debian AS debian
RUN mkdir -p /empty/etc/ssl/certs /empty/usr/share /empty/home/nonroot && chmod 700 /empty/home/nonroot \
    && chown 65532:65532 /empty/home/nonroot && install -d -m 1777 /empty/tmp \
    && cp /etc/ssl/certs/ca-certificates.crt /empty/etc/ssl/certs/ && cp -a /usr/share/zoneinfo /empty/usr/share/ \
    && echo 'root:x:0:0:root:/root:/sbin/nologin' >/empty/etc/passwd \
    && echo 'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin' >>/empty/etc/passwd
FROM scratch
COPY --from=debian /empty /
USER 65532
EOF
    rm "$work/image/glossator"
}

# base_of NUMBER: the image that a stage of deploy/Containerfile begins with.
base_of() { grep '^FROM ' "$root/deploy/Containerfile" | sed -n "$1s/^FROM \([^ ]*\).*/\1/p"; }

# nginx as its image has it: in the foreground, its own pages in conf.d, its log on standard output. Valkey likewise,
# reached by others than itself.
stand_ins_to_run() {
    image docker.io/library/nginx:1.27 <<'EOF'
FROM localhost/debian
RUN rm -f /etc/nginx/sites-enabled/* && ln -sf /dev/stdout /var/log/nginx/access.log \
    && ln -sf /dev/stderr /var/log/nginx/error.log
STOPSIGNAL SIGQUIT
CMD ["nginx", "-g", "daemon off;"]
EOF
    image docker.io/valkey/valkey:8 <<'EOF'
FROM localhost/debian
RUN printf '#!/bin/sh\nexec /usr/bin/valkey-server --protected-mode no "$@"\n' >/usr/local/bin/valkey-server \
    && chmod 755 /usr/local/bin/valkey-server && install -d -o 999 -g 999 /data
WORKDIR /data
CMD ["valkey-server"]
EOF
}

# may_do_nothing NAME CONTAINER: what the kernel holds of its first process.
may_do_nothing() {
    local process state
    process=$(podman inspect -f '{{.State.Pid}}' "$2") && [ "$process" != 0 ] || { fail "$1: runs"; return; }
    state=$(tr -s '\t\n' '  ' <"/proc/$process/status")
    case $state in
        *" Uid: 65532 65532 65532 65532 "*) pass "$1: runs as nobody" ;;
        *) fail "$1: runs as nobody" "$state" ;;
    esac
    case $state in
        *" CapPrm: 0000000000000000 CapEff: 0000000000000000 CapBnd: 0000000000000000 "*" NoNewPrivs: 1 Seccomp: 2 "*)
            pass "$1: has no capability, can't get one, and its system calls are filtered" ;;
        *) fail "$1: has no capability, can't get one, and its system calls are filtered" "$state" ;;
    esac
    case $(awk '$5 == "/" { print $6 }' "/proc/$process/mountinfo") in
        ro,* | ro) pass "$1: its root can't be written" ;;
        *) fail "$1: its root can't be written" "$(cat "/proc/$process/mountinfo")" ;;
    esac
}

# answers NAME: what a call of nginx_status says that came from the old server.
answers() {
    case $2 in
        *'"structuredContent"'*'"requests"'*) pass "$1" ;;
        *) fail "$1" "$2" ;;
    esac
}

# called URL TOOL [HEADER]: its answer over REST.
called() {
    curl -s --max-time 10 -X POST -H "${3:-Host: localhost:8080}" -H 'Content-Type: application/json' -d '{}' "$1/tools/$2"
}

# until_it_says NAME URL WORDS: what is in force is seen within a while.
until_it_says() {
    local answer
    for _ in $(seq 150); do
        # The token of operators, where they are asked for one.
        answer=$(curl -s --max-time 5 -H "Authorization: Bearer 0123456789abcdef" "$2" || true)
        if grep -q "$3" <<<"$answer"; then
            pass "$1"
            return
        fi
        sleep 0.1
    done
    fail "$1" "$answer"
}
