#!/usr/bin/env bash
# Runs a command that needs chromium; root on Debian installs it where it is missing.
#
#   tools/chromium.sh make test-browser
set -euo pipefail
if ! command -v chromium >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null
fi
exec "$@"
