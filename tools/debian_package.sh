#!/usr/bin/env bash
# Runs a command that needs a program from a Debian package. As root on Debian, installs the package if it is missing.
#
#   tools/debian_package.sh PACKAGE PROGRAM COMMAND ...
set -euo pipefail
package=$1 program=$2
shift 2
if ! command -v "$program" >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
fi
exec "$@"
