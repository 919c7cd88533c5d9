#!/usr/bin/env bash
# Prepares a checkout: a .venv that holds exactly what uv.lock says, a Java for Spark, and the programs the
# tests compare with.
#
#   tools/setup.sh [python] [java] [rivals]   python and java when none is named
#   PYTHON=/path/to/python tools/setup.sh to choose the interpreter
#
# Every make target calls this first, so the usual case (nothing to do) costs one checksum and one
# `java -version`. A failure is one sentence; what the installers said is in .setup.log.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly JAVA_MIN=17 # Spark 4 starts on nothing older
readonly UV_MIN=6    # uv 0.6, as [tool.uv] required-version in pyproject.toml
readonly UV_PIN=0.13.7
readonly LOG=.setup.log
readonly STAMP=.venv/.ready

say() { printf 'set-up: %s\n' "$*" >&2; }
fail() {
    say "$*"
    exit 1
}
logged() { "$@" >>"$LOG" 2>&1; }

# Names the two causes a reader can act upon at once; anything else is for the log to tell.
cause() {
    local what="the installer reported an error"
    if grep -qiE 'no space left|quota exceeded' "$LOG"; then
        what="the disk is full"
    elif grep -qiE 'dns error|name resolution|could not resolve|failure resolving|unreachable|timed out|connection (refused|reset)|error sending request|failed to (fetch|download)' "$LOG"; then
        what="the package server could not be reached (network, proxy, certificates)"
    fi
    echo "$what; details are in $LOG"
}

# Two calls of make in one checkout must not both build .venv. The lock is this file itself, so
# that it needs no file of its own; where flock is missing (macOS) the second call takes its chance.
take_lock() {
    if command -v flock >/dev/null; then
        exec 9<tools/setup.sh
        flock --nonblock 9 || {
            say "waiting for another set-up of this checkout …"
            flock 9
        }
    fi
    : >"$LOG" # after the lock: the log belongs to whoever is installing
}

# --- system packages ---------------------------------------------------------------------------

can_apt() {
    command -v apt-get >/dev/null || return 1
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null
}

# Installs the first of the named packages that this release of Debian or Ubuntu has.
apt_install_one_of() {
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get --yes -o DPkg::Lock::Timeout=300) package
    [ "$(id -u)" = 0 ] || apt=(sudo -n "${apt[@]}")
    # A broken third-party source makes update fail although the packages we want are there.
    logged "${apt[@]}" update || true
    for package in "$@"; do
        if logged "${apt[@]}" install --no-install-recommends "$package"; then
            hash -r
            return 0
        fi
    done
    return 1
}

# --- Java --------------------------------------------------------------------------------------

# Looks where Spark looks: JAVA_HOME first, then PATH.
java_is_there() {
    local java=java major
    [ -z "${JAVA_HOME:-}" ] || java=$JAVA_HOME/bin/java
    command -v "$java" >/dev/null || return 1
    # Java 8 called itself 1.8: it counts as 1, which is too old as well.
    major=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
    [ "${major:-0}" -ge "$JAVA_MIN" ]
}

setup_java() {
    java_is_there && return
    take_lock
    java_is_there && return
    [ -z "${JAVA_HOME:-}" ] ||
        fail "JAVA_HOME is $JAVA_HOME, where there is no Java $JAVA_MIN or newer: point it at one, or unset it."
    can_apt ||
        fail "Spark needs Java $JAVA_MIN or newer and there is none on PATH: install it (Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless) and repeat the command."
    say "installing Java (once) …"
    # The default is too old in Ubuntu 22.04, and version 17 is gone from Debian 13.
    apt_install_one_of openjdk-17-jre-headless default-jre-headless ||
        fail "could not install Java $JAVA_MIN: $(cause)."
    java_is_there ||
        fail "Java was installed, but the java on PATH is older than $JAVA_MIN: choose another with update-alternatives --config java."
}

# --- what the tests and benchmarks run beside ours ------------------------------------------------

# Program and Debian package. The tests start them on loopback and stop them again; where one is missing
# they say so and leave out what needs it.
readonly RIVALS=(mosquitto:mosquitto mosquitto_pub:mosquitto-clients chromium:chromium
    prosody:prosody nats-server:nats-server)

missing_rivals() {
    local rival
    for rival in "${RIVALS[@]}"; do
        PATH=$PATH:/usr/sbin command -v "${rival%%:*}" >/dev/null || echo "${rival##*:}"
    done
}

setup_rivals() {
    local packages package
    mapfile -t packages < <(missing_rivals)
    [ ${#packages[@]} -gt 0 ] || return 0
    if ! can_apt; then
        say "not installed, and tests that need them are left out: ${packages[*]}"
        return 0
    fi
    take_lock
    say "installing ${packages[*]} for the tests (once) …"
    for package in "${packages[@]}"; do
        apt_install_one_of "$package" || say "could not install $package: $(cause); tests that need it are left out"
        # Debian starts a server as it installs it; ours are started by the tests, on ports of their own.
        if [[ $package =~ ^(mosquitto|prosody)$ ]] && command -v systemctl >/dev/null; then
            logged sudo -n systemctl disable --now "$package" || logged systemctl disable --now "$package" || true
        fi
    done
}

# --- Python ------------------------------------------------------------------------------------

find_python() {
    local candidates=(python3.13 python3.12 python3.11 python3) candidate
    [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        # Run it, not only look for it: version managers put names on PATH that start nothing.
        "$candidate" -c 'import sys; sys.version_info >= (3, 11) or sys.exit(1); print(sys.executable)' \
            2>/dev/null && return
    done
    return 1
}

make_bootstrap_venv() {
    local python=$1 version
    logged "$python" -m venv --clear .uv && return
    # Debian splits ensurepip from Python, so `venv` is there and yet cannot make one.
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    can_apt ||
        fail "$python cannot create virtual environments: install the venv package (Debian, Ubuntu: sudo apt-get install python$version-venv) and repeat the command."
    say "installing python$version-venv (once) …"
    apt_install_one_of "python$version-venv" python3-venv ||
        fail "could not install python$version-venv: $(cause)."
    logged "$python" -m venv --clear .uv ||
        fail "$python cannot create virtual environments: $(cause)."
}

uv_is_usable() {
    local version
    version=$("$1" --version 2>/dev/null) || return 1
    [[ $version =~ ^uv\ ([0-9]+)\.([0-9]+) ]] || return 1
    ((BASH_REMATCH[1] > 0 || BASH_REMATCH[2] >= UV_MIN))
}

# Sets $uv. A uv of our own lives beside .venv, because `uv sync` removes from .venv whatever is
# not in the lock file, itself included.
find_or_install_uv() {
    local python=$1
    for uv in uv .uv/bin/uv; do
        uv_is_usable "$uv" && return
    done
    say "installing uv $UV_PIN into .uv (once) …"
    make_bootstrap_venv "$python"
    logged .uv/bin/python -m pip install --disable-pip-version-check "uv==$UV_PIN" ||
        fail "could not install uv: $(cause)."
}

sync_venv() {
    local python=$1
    unset VIRTUAL_ENV # an activated environment is not the one to fill
    export UV_PYTHON=$python UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT=.venv
    logged "$uv" sync --frozen --all-groups --all-extras ||
        # Behind a company proxy only the machine's own certificates hold (the option has two names).
        UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1 logged "$uv" sync --frozen --all-groups --all-extras
}

# What the stamp must say for .venv to be current. The folder is part of it because the scripts
# in .venv/bin name it: a copied or moved checkout is set up again.
fingerprint() {
    cat pyproject.toml lab/pyproject.toml uv.lock tools/setup.sh | cksum
    echo "${PYTHON:-} $PWD"
}

venv_is_current() {
    [ -x .venv/bin/python ] && [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(fingerprint)" ]
}

setup_python() {
    local python uv
    venv_is_current && return
    take_lock
    venv_is_current && return
    python=$(find_python) ||
        fail "${PYTHON:-python3} is not a Python 3.11 or newer: install one, or name it (PYTHON=/path/to/python make setup)."
    find_or_install_uv "$python"
    say "installing the locked dependencies into .venv (the first time about 600 MB, most of it Spark) …"
    rm -f "$STAMP" # an interrupted set-up must not look finished
    sync_venv "$python" || fail "could not install the locked dependencies: $(cause)."
    fingerprint >"$STAMP"
    say "ready ($(.venv/bin/python --version))"
}

[ $# -gt 0 ] || set -- python java
for part in "$@"; do
    case $part in
    python | java | rivals) "setup_$part" ;;
    *) fail "unknown part '$part': python, java and rivals are what can be set up." ;;
    esac
done
