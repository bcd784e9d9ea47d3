#!/usr/bin/env bash
# Makes sure that what the tests run beside the project is there: mariadbd, redis-server and grpcurl. Milvus comes out of
# a wheel. Uses what is on PATH; on Debian and Ubuntu, as root, installs the rest with apt and leaves no service of the
# distribution running or enabled; elsewhere says in one line a thing what is missing and how to get it, and exits 1.
set -euo pipefail
cd "$(dirname "$0")/../.."

PATH="$PATH:/usr/sbin:/usr/local/sbin"
BIN="$PWD/.venv/bin"
missing=()

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

apt_install() {
  echo "installing with apt: $*"
  local policy=/usr/sbin/policy-rc.d ours= log
  log=$(mktemp)
  if [ ! -e "$policy" ]; then # maintainer scripts ask it before they start a service
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    ours=yes
  fi
  local status=0
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } \
    >"$log" 2>&1 </dev/null || status=$?
  [ -z "$ours" ] || rm -f "$policy"
  [ "$status" = 0 ] || tail -n 20 "$log" >&2
  rm -f "$log"
  return "$status"
}

# Not now, and not after the next boot either, whatever starts services there.
disable_service() {
  systemctl stop "$1.service" || true
  update-rc.d "$1" disable || true
}

have_mariadb() { command -v mariadbd >/dev/null && command -v mariadb-install-db >/dev/null; }
have_redis() { command -v redis-server >/dev/null; }

packages=()
have_mariadb || packages+=(mariadb-server)
have_redis || packages+=(redis-server)
if [ "${#packages[@]}" -gt 0 ] && can_apt; then
  apt_install "${packages[@]}" || true # what is still missing is named below
  for package in "${packages[@]}"; do disable_service "${package/mariadb-server/mariadb}" >/dev/null 2>&1; done
fi
have_mariadb || missing+=("mariadbd is missing: apt-get install mariadb-server (as root), brew install mariadb, or dnf install mariadb-server")
have_redis || missing+=("redis-server is missing: apt-get install redis-server (as root), brew install redis, or dnf install redis")

have_grpcurl() { PATH="$BIN:$PATH:${HOME:-/root}/go/bin" command -v grpcurl >/dev/null; }

# The newest grpcurl that the Go at hand builds.
install_grpcurl() {
  local go=/usr/local/go/bin/go version=v1.9.3
  go=$(command -v go || { [ -x "$go" ] && echo "$go"; }) || return 1
  case "$("$go" env GOVERSION)" in
    go1.19* | go1.20*) version=v1.9.1 ;;
    go1.?.* | go1.1?.* | go1.1?) return 1 ;;
  esac
  echo "building grpcurl $version with $("$go" env GOVERSION)"
  mkdir -p "$BIN"
  GOBIN="$BIN" GOTOOLCHAIN=local "$go" install "github.com/fullstorydev/grpcurl/cmd/grpcurl@$version"
}

if ! have_grpcurl; then
  if ! command -v go >/dev/null && [ ! -x /usr/local/go/bin/go ] && can_apt; then
    apt_install golang-go ca-certificates || true
  fi
  install_grpcurl || true
  have_grpcurl || missing+=("grpcurl is missing: install Go 1.19 or newer and run this again, or put grpcurl (github.com/fullstorydev/grpcurl) on PATH")
fi

if [ "${#missing[@]}" -gt 0 ]; then
  printf '%s\n' "${missing[@]}" >&2
  exit 1
fi
