# What the measuring scripts have in common; sourced after ../lib.sh, with $work set.
# shellcheck shell=bash

here=$root/tests/bench
have nginx nginx
nginx=$(command -v nginx || echo /usr/sbin/nginx)

# nginx_on NAME CORE PORT: one worker; the server block comes on standard input.
nginx_on() {
    local name=$1 core=$2 port=$3 path
    mkdir -p "$work/$name"
    {
        echo "daemon off; worker_processes 1; pid $work/$name/nginx.pid;"
        # As root the worker would change to a user that may not read these files.
        [ "$(id -u)" != 0 ] || echo "user root;"
        echo "events { worker_connections 1024; }"
        echo "http { access_log off; keepalive_requests 1000000000; tcp_nodelay on;"
        for path in client_body proxy fastcgi uwsgi scgi; do echo "${path}_temp_path $work/$name/$path;"; done
        cat
        echo "}"
    } >"$work/$name/nginx.conf"
    start "$name" taskset -c "$core" "$nginx" -p "$work/$name" -e stderr -c "$work/$name/nginx.conf"
    wait_for_url "http://127.0.0.1:$port/200"
}

# The upstream: nginx with fixed replies, on core 0. Its port is in $upstream_port, and in
# $BENCH_UPSTREAM as load.yaml wants it.
start_upstream() {
    python3 "$here/load.py" prepare "$work"
    upstream_port=$(free_port)
    nginx_on upstream 0 "$upstream_port" <<EOF
server {
    listen 127.0.0.1:$upstream_port;
    root $work/bodies;
    sendfile on;
    open_file_cache max=16 inactive=1h;
    open_file_cache_valid 1h;
    default_type application/json;
    location = /text { default_type text/plain; }
}
EOF
    export BENCH_UPSTREAM=http://127.0.0.1:$upstream_port
}
