# The SDKs that the client tests drive, installed once into the target folder; sourced after tests/lib.sh.
# shellcheck shell=bash

python_new=2.3.0
python_old=1.12.4
typescript_old=1.32.2
typescript_new=2.4.0

# python_sdk VERSION [PACKAGE…]
python_sdk() {
    local version=$1 venv=$target/mcp-python-$1
    if [ -f "$venv/installed" ]; then
        say "found the Python SDK $version"
        return
    fi
    say "installing the Python SDK $version (PyPI)"
    make_venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "mcp==$version" "${@:2}" >"$work/pip-$version.log" 2>&1 \
        || { cat "$work/pip-$version.log" >&2; die "pip could not install mcp $version"; }
    touch "$venv/installed"
}

# npm_packages FOLDER NAME PACKAGE…: what people call it, and what to install.
npm_packages() {
    local folder=$1 name=$2
    if [ -f "$folder/installed" ]; then
        say "found $name"
        return
    fi
    say "installing $name (npm)"
    mkdir -p "$folder"
    npm install --prefix "$folder" --no-save --no-audit --no-fund --loglevel=error "${@:3}" >"$work/npm.log" 2>&1 \
        || { cat "$work/npm.log" >&2; die "npm could not install $name"; }
    touch "$folder/installed"
}

python_sdk "$python_new"
# It reaches into parts of pydantic that later versions moved.
python_sdk "$python_old" 'pydantic<2.12'
new_python=$target/mcp-python-$python_new/bin/python
old_python=$target/mcp-python-$python_old/bin/python

npm_folder=$target/mcp-typescript-$typescript_old-$typescript_new
npm_packages "$npm_folder" "the TypeScript SDKs $typescript_old and $typescript_new" \
    "@modelcontextprotocol/sdk@$typescript_old" "@modelcontextprotocol/client@$typescript_new"
