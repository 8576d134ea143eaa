#!/bin/sh
# Makes the development certificates beside this script; more arguments go to `berth certs make` (--ip, --dns, --client).
set -eu

directory=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
berth=$directory/../.venv/bin/berth
[ -x "$berth" ] || berth=berth

exec "$berth" certs make --dir "$directory" --service berth --namespace kube-system \
    --dns localhost --ip 127.0.0.1 --ip ::1 --client kube-apiserver "$@"
