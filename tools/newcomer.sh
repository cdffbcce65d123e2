#!/usr/bin/env bash
# Does what a newcomer does, in a copy of this checkout and with an empty home: `make demo` twice, and `make down`. With
# the argument 1, `make demo` only once.
# Each demo has to end with the job's table, only the first may prepare an environment, and no process may be left.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
clone=$folder/clone
mkdir "$clone" "$folder/home"
git ls-files --cached --others --exclude-standard -z | xargs -0 cp --parents --target-directory "$clone"

newcomer() {
    env --chdir="$clone" -u XDG_CACHE_HOME -u VIRTUAL_ENV -u MAKEFLAGS -u MAKELEVEL HOME="$folder/home" "$@"
}

# A process may end before its entry in /proc is read, which is no error here.
processes() { { grep -lsF "$folder/" /proc/[0-9]*/environ || true; } | cut -d/ -f3 | xargs -r ps -o pid=,args= -p || true; }

clean_up() {
    newcomer make down >/dev/null 2>&1 || true
    rm -rf "$folder"
}
trap clean_up EXIT

fail() {
    printf 'newcomer: %s\n' "$*" >&2
    exit 1
}

# demo NAME: run it, and write its output to a file of that name.
demo() {
    local begin=$SECONDS
    newcomer make demo </dev/null 2>&1 | tee "$folder/$1.log"
    printf 'newcomer: the %s demo took %d s\n' "$1" "$((SECONDS - begin))"
    grep -q '^  phase  *succeeded$' "$folder/$1.log" || fail "no summary at the end of the $1 demo"
    grep -q '^  worker-1  0  *Completed ' "$folder/$1.log" || fail "no row for worker-1 at the end of the $1 demo"
}

demo first
grep -q '^Preparing \.venv' "$folder/first.log" || fail "the first demo did not prepare its environment"
if [ "${1:-2}" != 1 ]; then
    demo repeated
    ! grep '^Preparing ' "$folder/repeated.log" || fail "the repeated demo prepared an environment again"
fi
newcomer make down
left=$(processes)
[ -z "$left" ] || fail "left by make down:"$'\n'"$left"
