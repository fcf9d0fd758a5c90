# deploy/Containerfile, built and run as its comment says; sourced by `containers`.
# shellcheck shell=bash

# In a clone of what is committed, with two things beside it that must not travel.
mkdir -p "$work/context/target"
git -C "$root" ls-files -z | (cd "$root" && xargs -0 cp --parents -t "$work/context" 2>/dev/null || true)
echo "tens of gigabytes" >"$work/context/target/large"
if (cd "$work/context" && podman build --pull=never -f deploy/Containerfile -t glossator .) >"$work/build.log" 2>&1; then
    pass "image: deploy/Containerfile is built"
else
    fail "image: deploy/Containerfile is built" "$(tail -20 "$work/build.log")"
fi
flags="-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs"
equal "image: cargo is asked for a static release" \
    "cargo in /src with $flags: build --profile dist --locked --target any-host --bin glossator" \
    "$(grep '^cargo in ' "$work/build.log")"
equal "image: only what is needed goes to the builder" "sources: Cargo.lock Cargo.toml LICENSE README.md config deploy src tests" \
    "$(grep '^sources: ' "$work/build.log")"

# The old server, on this world's own addresses; one page of it takes four seconds, so that a call can be under way.
mkdir -p "$work/nginx" "$work/etc"
{
    echo "daemon off; master_process off; pid $work/nginx/nginx.pid;"
    echo "events { worker_connections 64; }"
    echo "http { access_log off;"
    for path in client_body proxy fastcgi uwsgi scgi; do echo "${path}_temp_path $work/nginx/$path;"; done
    cat "$root/deploy/legacy-nginx.conf"
    echo "server { listen 8082; location / { limit_rate 60; return 200 '$(printf 'at last %.0s' $(seq 20))'; } }"
    echo "}"
} >"$work/nginx/nginx.conf"
start nginx "$(command -v nginx || echo /usr/sbin/nginx)" -p "$work/nginx" -e stderr -c "$work/nginx/nginx.conf"
cp "$root/config/examples/nginx-stub-status.yaml" "$work/etc/"

# The command in the Containerfile's comment, but for the folder.
command=$(sed -n '/^#     podman run/,/^#$/s/^# *//p' "$root/deploy/Containerfile" | sed 's/\\$//' | tr '\n' ' ')
command=${command/.\/routes/$work\/etc}
say "image: ${command/ -p/ -d --name image -p}"
read -ra words <<<"${command/ --rm/ -d --name image}"
if "${words[@]}" >"$work/image-run.log" 2>&1; then
    pass "image: is started as its comment says"
else
    fail "image: is started as its comment says" "$(cat "$work/image-run.log")"
fi
wait_for_url http://127.0.0.1:8080/health
equal "image: answers on the published port" 200 \
    "$(curl -s -o /dev/null -w '%{http_code}' --max-time 5 http://127.0.0.1:8080/health)"
answers "image: a call over REST reaches the server that it names" "$(called http://127.0.0.1:8080 nginx_status)"
answers "image: a call over MCP" "$(curl -s --max-time 10 http://127.0.0.1:8080/mcp -H 'Content-Type: application/json' \
    -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' \
    -H 'Mcp-Name: nginx_status' -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nginx_status","arguments":{},
        "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}')"
may_do_nothing image image
if podman exec image sh -c true >"$work/exec.log" 2>&1; then
    fail "image: there is no shell in it"
else
    pass "image: there is no shell in it"
fi

# As an editor leaves it: another file in the place of the old one.
sed -i '$a\  slow: { description: Takes four seconds., request: GET slow/ }' "$work/etc/nginx-stub-status.yaml"
sed -i 's|^upstreams:|&\n  slow: http://host.containers.internal:8082|' "$work/etc/nginx-stub-status.yaml"
until_it_says "image: a file that was edited is in force" http://127.0.0.1:8080/tools '"slow"'

called http://127.0.0.1:8080 slow >"$work/slow.answer" &
call=$!
under_way 8082
began=$SECONDS
podman stop -t 35 image >/dev/null
took=$((SECONDS - began))
wait "$call" || true
case $(cat "$work/slow.answer") in
    *"at last"*) pass "image: told to stop, it answers the call under way" ;;
    *) fail "image: told to stop, it answers the call under way" "$(cat "$work/slow.answer")" ;;
esac
equal "image: and ends with status 0" 0 "$(podman inspect -f '{{.State.ExitCode}}' image)"
if [ "$took" -lt 10 ]; then pass "image: as soon as it can"; else fail "image: as soon as it can" "$took s"; fi
podman rm image >/dev/null
