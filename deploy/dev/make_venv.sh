#!/usr/bin/env bash
# Makes .venv with the first Python 3.11 or newer that it finds. Does nothing when a working one is there.
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() {
  echo "$1" >&2
  exit 1
}

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
has_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

if [ -d .venv ] && is_new_enough .venv/bin/python && .venv/bin/python -m pip --version >/dev/null 2>&1; then
  exit 0
fi

python=
without_venv=
for candidate in python3.13 python3.12 python3.11 python3; do
  if is_new_enough "$candidate"; then
    if has_venv "$candidate"; then
      python=$candidate
      break
    fi
    without_venv=${without_venv:-$candidate}
  fi
done
if [ -z "$python" ] && [ -n "$without_venv" ]; then
  # Debian and Ubuntu ship it apart.
  package=$("$without_venv" -c 'import sys; print(f"python3.{sys.version_info[1]}-venv")')
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing with apt: $package"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package"; } >/dev/null 2>&1 </dev/null || true
  fi
  has_venv "$without_venv" || fail "$without_venv has no venv module: apt-get install $package (as root), then run make again"
  python=$without_venv
fi
[ -n "$python" ] || fail "Python 3.11 or newer is needed, and none of python3.13, python3.12, python3.11, python3 is: install one and run make again"

"$python" -m venv --clear .venv
