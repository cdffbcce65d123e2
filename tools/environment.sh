#!/usr/bin/env bash
# Creates a virtual environment, or does nothing if it exists already.
#
#   tools/environment.sh VENV CONSTRAINTS EXTRAS [GROUP...]
#   tools/environment.sh .venv constraints/newest.txt xgboost,mpi dev docs
#
# Needs only Python with its venv module: uv is installed from PyPI into .bootstrap/. VENV/.installed/ has a file for
# each installation, named after a digest of its inputs, so that a second run takes no time.
set -euo pipefail

venv=$1 constraints=$2 extras=$3
shift 3
python=${PYTHON:-python3.11}
uv=.bootstrap/bin/uv uv_version=0.13.9
# Wait for a slow or overloaded index.
export UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-120} UV_HTTP_RETRIES=${UV_HTTP_RETRIES:-8}

say() { printf '%s\n' "$*" >&2; }

require_python() {
    "$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' 2>/dev/null && return
    say "No Python 3.10 to 3.13 found as '$python'. Name one: make PYTHON=/path/to/python3"
    exit 1
}

require_venv_module() {
    "$python" -c 'import ensurepip, venv' 2>/dev/null && return
    local package
    package=$("$python" -c 'import sys; print(f"python{sys.version_info[0]}.{sys.version_info[1]}-venv")')
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "Installing Debian's $package: $python comes without its venv module."
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null
    else
        say "$python comes without its venv module. As root: apt-get install $package"
        exit 1
    fi
}

# download COMMAND...: try it three times at most, as one lost connection is no reason to give up.
download() {
    local try
    for try in 1 2 3; do
        "$@" && return
        [ "$try" = 3 ] || { say "Trying again in 10 s."; sleep 10; }
    done
    say "Packages could not be downloaded. Is PyPI reachable? PIP_INDEX_URL and UV_INDEX_URL name another index."
    exit 1
}

bootstrap() {
    [ -x "$uv" ] && [ "$("$uv" --version | cut -d' ' -f2)" = "$uv_version" ] && return
    require_venv_module
    "$python" -m venv --clear .bootstrap
    download .bootstrap/bin/python -m pip install --quiet --disable-pip-version-check "uv==$uv_version"
}

require_python
wanted=$({ cat pyproject.toml "$constraints"; "$python" --version; echo "$extras" "$@"; } | sha256sum | cut -c1-16)
[ -e "$venv/.installed/$wanted" ] && exit 0

say "Preparing $venv ..."
bootstrap
export UV_PYTHON_DOWNLOADS=never
# Create it again if it was created with another Python.
if [ ! -x "$venv/bin/python" ] || [ "$("$venv/bin/python" --version)" != "$("$python" --version)" ]; then
    "$uv" venv --quiet --clear --python "$python" "$venv"
fi
download "$uv" pip install --quiet --compile-bytecode --python "$venv/bin/python" --constraint "$constraints" \
    --editable ".[$extras]" "${@/#/--group=}"
mkdir -p "$venv/.installed"
touch "$venv/.installed/$wanted"
