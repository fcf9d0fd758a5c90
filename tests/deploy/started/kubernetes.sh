# The manifest and the chart's examples, played by podman; sourced by `containers`.
# shellcheck shell=bash
#
# There is no cluster: of the Deployment, podman plays the Pods, with their containers, limits and security contexts.
# kubelet.py does the kubelet's part. Services, the NetworkPolicy and what scales are read by `extract.py` alone.

podman network create --subnet 10.89.7.0/24 cluster >/dev/null
kubelet() { "${STARTED_PYTHON:?}" "$here/kubelet.py" "$@"; }

# secret NAME KEY TEXT: a Secret for the end of a manifest.
secret() { printf -- '---\napiVersion: v1\nkind: Secret\nmetadata: { name: %s }\ndata: { %s: %s }\n' "$1" "$2" "$(printf '%s' "$3" | base64)"; }

# play NAME MANIFEST ADDRESS…: its pods, each at an address of its own; their probes are asked as the kubelet asks.
play() {
    local name=$1 manifest=$2 number=0 address kind port path seconds found
    shift 2
    kubelet lay-out "$manifest" "$work/$name" "$@"
    for address in "$@"; do
        number=$((number + 1))
        if ! podman kube play --network cluster --ip "$address" "$work/$name/$number/pod.yaml" >"$work/$name/$number.log" 2>&1; then
            fail "$name: pod $number starts" "$(cat "$work/$name/$number.log")"
            return
        fi
        while read -r kind port path seconds; do
            for _ in $(seq $((seconds * 10))); do
                found=$(curl -s -o /dev/null -w '%{http_code}' --max-time 1 "http://$address:$port$path" || true)
                [ "$found" != 200 ] || break
                sleep 0.1
            done
            equal "$name: pod $number, $kind probe" 200 "$found"
        done <"$work/$name/probes"
    done
}

# -- The manifest: a sidecar, twice
{
    cat "$root/deploy/kubernetes.yaml"
    secret status-admin token 0123456789abcdef
} >"$work/kubernetes.manifest"
play kubernetes "$work/kubernetes.manifest" 10.89.7.11 10.89.7.12
for address in 10.89.7.11 10.89.7.12; do
    answers "kubernetes: $address answers a call by the name of the Service" "$(called "http://$address:8080" nginx_status "Host: status")"
done
may_do_nothing kubernetes status-1-glossator
equal "kubernetes: its memory is limited" $((512 * 1024 * 1024)) "$(podman inspect -f '{{.HostConfig.Memory}}' status-1-glossator)"
equal "kubernetes: another name is refused" 403 "$(curl -s -o /dev/null -w '%{http_code}' --max-time 5 -H 'Host: other.example' http://10.89.7.11:8080/tools)"
equal "kubernetes: nobody reaches the legacy server but by glossator" 000 \
    "$(curl -s -o /dev/null -w '%{http_code}' --max-time 5 http://10.89.7.11:8081/nginx_status || true)"

# The ConfigMap changes: a route more, which asks a server outside of the pod for something slow.
config=$work/kubernetes/1/config
sed 's|^upstreams:|&\n  slow: http://10.89.7.1:8082|; $a\  slow: { description: Takes four seconds., request: GET slow/ }' \
    "$config/glossator.yaml" | kubelet swap "$config" glossator.yaml
until_it_says "kubernetes: a changed ConfigMap is in force" http://10.89.7.11:9901/routes '"slow"'
echo 'routes: [' | kubelet swap "$config" glossator.yaml
until_it_says "kubernetes: a bad one shows in the metrics" http://10.89.7.11:9901/metrics '^glossator_config_last_reload_successful 0'
answers "kubernetes: and the old one goes on" "$(called http://10.89.7.11:8080 nginx_status "Host: status")"

called http://10.89.7.11:8080 slow "Host: status" >"$work/slow.answer" &
call=$!
under_way 8082
podman stop -t 35 status-1-glossator >/dev/null &
stopping=$!
for _ in $(seq 100); do
    found=$(curl -s -o /dev/null -w '%{http_code}' --max-time 1 http://10.89.7.11:9901/readyz || true)
    [ "$found" = 200 ] || break
    sleep 0.05
done
equal "kubernetes: told to stop, it is no longer ready" 503 "$found"
wait "$call" || true
case $(cat "$work/slow.answer") in
    *"at last"*) pass "kubernetes: and answers the call under way" ;;
    *) fail "kubernetes: and answers the call under way" "$(cat "$work/slow.answer")" ;;
esac
wait "$stopping" || true
equal "kubernetes: then it ends with status 0" 0 "$(podman inspect -f '{{.State.ExitCode}}' status-1-glossator)"
podman pod rm -fa >/dev/null

# -- The chart's examples, as Helm's own libraries have rendered them for `extract.py`
rendered=${HELM_RENDERED:?}
# It asks for the version that it was made for.
podman tag glossator "docker.io/library/$(sed -n 's/^ *image: \(glossator:.*\)/\1/p' "$rendered/helm-sidecar.rendered.yaml")"
play helm-sidecar "$rendered/helm-sidecar.rendered.yaml" 10.89.7.21
answers "helm, sidecar: a call is answered" "$(called http://10.89.7.21:8080 nginx_status "Host: weather-glossator.prod.svc")"
may_do_nothing "helm, sidecar" weather-glossator-1-glossator
podman pod rm -fa >/dev/null

# Alone, with its Secrets, in front of servers that it knows by names of the cluster.
podman run -d --name weather --network cluster --network-alias weather.legacy.svc docker.io/library/nginx:1.27 sh -c \
    "echo 'server { listen 9000; default_type application/json; location /forecast/ { return 200 \"{\\\"sky\\\": \\\"clear\\\"}\"; } }' \
        >/etc/nginx/conf.d/default.conf && exec nginx -g 'daemon off;'" >/dev/null
podman run -d --name store --network cluster --network-alias valkey.stores.svc docker.io/valkey/valkey:8 \
    valkey-server --save "" --requirepass 0123456789abcdef >/dev/null
{
    cat "$rendered/helm-standalone.rendered.yaml"
    secret weather-token token fedcba9876543210
    secret weather-admin token 0123456789abcdef
    secret weather-sessions session 0123456789abcdef0123456789abcdef
    secret weather-store password 0123456789abcdef
} >"$work/standalone.yaml"
play helm-standalone "$work/standalone.yaml" 10.89.7.31 10.89.7.32
for address in 10.89.7.31 10.89.7.32; do
    answer=$(curl -s --max-time 10 -H 'Host: tools.example.com' -H 'Content-Type: application/json' -d '{"city": "oslo"}' \
        "http://$address:8080/tools/get_forecast")
    case $answer in
        *'"sky"'*) pass "helm, standalone: $address reaches its server by its name in the cluster" ;;
        *) fail "helm, standalone: $address reaches its server by its name in the cluster" "$answer" ;;
    esac
    until_it_says "helm, standalone: $address has the store, by the password of its Secret" "http://$address:9901/metrics" '^glossator_shared_state_up 1'
done
# mcp ADDRESS SESSION MESSAGE: as a client of an older revision does.
mcp() {
    curl -s --max-time 10 "http://$1:8080/mcp" -D "$work/mcp.head" -H 'Host: tools.example.com' -H 'Content-Type: application/json' \
        -H 'Accept: application/json, text/event-stream' ${2:+-H "Mcp-Session-Id: $2"} -d "$3"
}
mcp 10.89.7.31 "" '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},
    "clientInfo":{"name":"curl","version":"8"}}}' >"$work/mcp.answer"
session=$(tr -d '\r' <"$work/mcp.head" | sed -n 's/^mcp-session-id: //Ip')
case $session$(mcp 10.89.7.32 "$session" '{"jsonrpc":"2.0","id":2,"method":"tools/list"}') in
    ?*'"get_forecast"'*) pass "helm, standalone: a session that one pod began goes on at the other" ;;
    *) fail "helm, standalone: a session that one pod began goes on at the other" "$(cat "$work/mcp.answer" "$work/mcp.head")" ;;
esac
mcp 10.89.7.32 "${session%?????}AAAAA" '{"jsonrpc":"2.0","id":3,"method":"tools/list"}' >"$work/mcp.answer"
equal "helm, standalone: one that nobody began does not" "HTTP/1.1 404 Not Found" "$(head -1 "$work/mcp.head" | tr -d '\r')"
may_do_nothing "helm, standalone" weather-glossator-1-glossator
podman pod rm -fa >/dev/null
podman rm -fa >/dev/null
