# shellcheck shell=bash
set -euo pipefail
# Shared by the scripts: progress messages, and the virtual environment.
#
# The caller sets ROOT (the checkout) and LOGS (a folder), and may set PYTHON.

VENV=$ROOT/.venv
# Compiling all that is installed takes longer than installing it. So a module is compiled when it is
# first imported, and that must be kept.
unset PYTHONDONTWRITEBYTECODE
EXTRAS=demo,analysis # of the package; tests need more, which take longer to install

die() {
    printf '%s\n' "" "$@" >&2
    exit 1
}

((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)) ||
    die "This needs bash 4.4 or later, not $BASH_VERSION."

# begin TITLE: print which step starts.
begin() {
    step_start=$SECONDS
    printf '\n== %s\n' "$1"
}

# finish: print how long the step took.
finish() {
    printf '   done in %s s\n' "$((SECONDS - step_start))"
}

# logged NAME COMMAND…: run a command with its output in $LOGS/NAME.log; if it fails, show
# the end of the log and exit.
logged() {
    local log=$LOGS/$1.log
    shift
    if ! "$@" >"$log" 2>&1; then
        show_failure "$log"
    fi
}

# What pip prints when it cannot reach a package index.
NO_NETWORK='ConnectionError|NewConnection|ConnectTimeout|ReadTimeout|NameResolution|ProxyError'
NO_NETWORK+='|Connection broken|Temporary failure in name|No matching distribution'

# show_failure LOG: show the end of a log, suggest what to do, and exit.
show_failure() {
    echo "   failed; last lines of $1:" >&2
    tail -n 15 "$1" | cut -c 1-300 | sed 's/^/   | /' >&2
    if grep -qE "$NO_NETWORK" "$1"; then
        die "pip could not download a package. Most likely it cannot reach the package index." \
            "Check the network and pip's settings (proxy, index, PIP_... variables)," \
            "then run this again; it resumes."
    fi
    die "The full log is in $1." "Fix the cause, then run this again; it resumes."
}

# choose_python: set PYTHON to a suitable interpreter: the caller's PYTHON, that of the environment
# that there is (so that it is not made again with another one), or one in PATH.
choose_python() {
    local candidate candidates=(python3.11 python3.12 python3 python)
    local will_do='import sys, venv, ensurepip; exit(not (3, 11) <= sys.version_info < (3, 13))'
    local base='import sys; print(sys._base_executable)'
    [[ ! -x $VENV/bin/python ]] ||
        candidates=("$("$VENV/bin/python" -c "$base" 2>/dev/null || true)" "${candidates[@]}")
    [[ -z ${PYTHON:-} ]] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        if "$candidate" -c "$will_do" >/dev/null 2>&1; then
            PYTHON=$candidate
            return
        fi
    done
    if [[ -z ${PYTHON:-} ]] && command -v uv >/dev/null; then
        echo "   no Python 3.11 or 3.12 with venv; uv installs 3.11" >&2
        uv python install 3.11 >&2 && PYTHON=$(uv python find --system 3.11) && return
    fi
    die "This needs Python 3.11 or 3.12 with venv, and found none as: ${candidates[*]}" \
        "Name one (PYTHON=/path/to/python3.11 $0), or install uv, which gets one: https://docs.astral.sh/uv"
}

# install LOG EXTRAS FLAG…: install this checkout in $VENV, with these extras, by pip.
install() {
    local log=$1 extras=$2
    shift 2
    (
        cd "$ROOT" || exit
        logged "$log" "$VENV/bin/python" -m pip install --disable-pip-version-check \
            --no-input --retries 2 --timeout 20 "$@" -c constraints.txt -e ".[$extras]"
    )
}

# make_environment: create a virtual environment in $VENV with this checkout and $EXTRAS installed, or
# add what is missing of these. It is not made again while another script uses it: all hold a lock to
# their end. (Without flock, as on macOS, nothing holds them apart.)
make_environment() {
    local stamp=$VENV/fairseq-hybrid-attn.stamp wanted
    choose_python
    wanted=$(
        cd "$ROOT" || exit
        "$PYTHON" - constraints.txt pyproject.toml setup.py <<'PYTHON'
import hashlib, os, sys

digest = hashlib.sha256(f"{sys.version} {os.getcwd()}".encode())
for name in sys.argv[1:]:
    digest.update(open(name, "rb").read())
print(digest.hexdigest())
PYTHON
    )
    if command -v flock >/dev/null; then
        exec 8>"$VENV.lock"
        flock --shared 8
    fi
    if [[ -f $stamp && $(<"$stamp") == "$wanted $EXTRAS"* ]]; then # or more than these
        echo "   $VENV is up to date"
        return
    fi
    if [[ -f $stamp && $(<"$stamp") == "$wanted "* ]]; then
        echo "   adding $EXTRAS to $VENV (see $LOGS/install.log)"
        install install "$EXTRAS" --no-compile
        echo "$wanted $EXTRAS" >"$stamp.new"
        mv "$stamp.new" "$stamp"
        return
    fi
    if [[ -e $VENV && ! -f $stamp ]]; then
        die "$VENV exists, but was not made by this script. Move it away, then run this again."
    fi
    if command -v flock >/dev/null; then
        flock --unlock 8
        flock --nonblock 8 ||
            die "$VENV has to be made again, but another script uses it." "Run this after it has ended."
    fi
    rm -rf "$VENV"
    mkdir "$VENV"
    echo unfinished >"$stamp" # tells our unfinished environment from a foreign one
    echo "   $("$PYTHON" --version) in $VENV; about a minute, and the download (see $LOGS/install.log)"
    logged venv "$PYTHON" -m venv "$VENV"
    install install "$EXTRAS" --no-compile
    # fairseq warns of its syntax when it is compiled.
    logged compile "$VENV/bin/python" -c "import fairseq_cli.train"
    echo "$wanted $EXTRAS" >"$stamp.new"
    mv "$stamp.new" "$stamp"
    ! command -v flock >/dev/null || flock --shared 8
}

# add_aligner: install eflomal in the environment. It must be compiled and is rarely needed, so it
# is not installed by default; without a C compiler it is left out.
add_aligner() {
    if "$VENV/bin/python" -c 'import eflomal' >/dev/null 2>&1; then
        return
    fi
    if ! command -v "${CC:-cc}" >/dev/null; then
        echo "   without the word aligner eflomal: it needs a C compiler, but none was found"
        return
    fi
    echo "   compiling eflomal, a word aligner; this takes half a minute"
    install eflomal "$EXTRAS,alignment"
}
