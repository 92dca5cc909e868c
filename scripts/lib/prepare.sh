# shellcheck shell=bash
set -euo pipefail
# Shared by the scripts in scripts/prepare, which run "fairseq-hybrid prepare".
#
# The caller sets ROOT (the checkout) and defines usage.

LOGS=$ROOT/build/logs
# shellcheck source=scripts/lib/common.sh
source "$ROOT/scripts/lib/common.sh"

# The settings that they share, for the end of usage.
settings() {
    cat <<'HELP'
Environment variables:
  DATA       output folder, with a subfolder for each corpus (data/ in the checkout)
  DOWNLOADS  folder of archives (downloads/ in DATA); those in it are not downloaded, and if it
             has all of them, no network is needed
  WORKERS    parallel processes (one per core)
  PYTHON     Python 3.11 or 3.12 for the virtual environment
and those of pip; docs/install.md shows how to install torch without CUDA.

Further options are those of "fairseq-hybrid prepare", such as --pairs N. If interrupted,
the script resumes when run again; once finished, it changes nothing.
HELP
}

# help_if_asked ARGUMENT…: show usage and exit if asked to.
help_if_asked() {
    local argument
    for argument in "$@"; do
        if [[ $argument == -h || $argument == --help ]]; then
            usage
            printf '\n'
            settings
            exit 0
        fi
    done
}

# prepare RECIPE FOLDER ARGUMENT…: create the environment, then prepare RECIPE in DATA/FOLDER.
prepare() {
    local recipe=$1 folder=$2
    shift 2
    DATA=${DATA:-$ROOT/data}
    DOWNLOADS=${DOWNLOADS:-$DATA/downloads}
    WORKERS=${WORKERS:-}
    [[ -z $WORKERS || $WORKERS =~ ^[1-9][0-9]{0,3}$ ]] ||
        die "WORKERS=$WORKERS: use a whole number above 0"
    local options=(--output "$DATA/$folder" --downloads "$DOWNLOADS")
    [[ -z $WORKERS ]] || options+=(--workers "$WORKERS")

    mkdir -p "$LOGS"
    begin "Virtual environment"
    make_environment
    finish
    unset PYTHONPATH PYTHONHOME

    begin "$recipe, to $DATA/$folder"
    # The user's options come last and win. One thread each, since the work is split into processes.
    OMP_NUM_THREADS=1 "$VENV/bin/fairseq-hybrid" prepare "$recipe" "${options[@]}" "$@"
    finish
}

# variant FALLBACK NAME… -- ARGUMENT…: set VARIANT to the first argument if it is one of the names,
# or to FALLBACK if there is none or it is an option. Set ARGUMENTS to the rest.
variant() {
    local names=()
    VARIANT=$1
    shift
    while [[ $1 != -- ]]; do
        names+=("$1")
        shift
    done
    shift
    if (($# > 0)) && [[ $1 != -* ]]; then
        VARIANT=$1
        shift
        [[ " ${names[*]} " == *" $VARIANT "* ]] || die "$VARIANT: use one of ${names[*]}"
    fi
    # shellcheck disable=SC2034 # the caller passes them on
    ARGUMENTS=("$@")
}
