#!/usr/bin/env bash
# Vector indexes of others, for Python. For other scripts, which source it.

# Makes the environment $1 with the packages behind it.
environment() {
    local folder=$1
    shift
    [ -x "$folder/bin/python" ] || python3 -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}

# Installs peers below the folder $1, and sets `python` and `peers`, those of $2 and behind it that are there.
# A peer that wants other packages beside it has an environment of its own, `venv-PEER`.
install_peers() {
    local folder=$1 peer log advice
    local -a packages
    shift
    python=$folder/venv/bin/python peers=()
    environment "$folder/venv" numpy==2.4.6 hnswlib==0.8.0 usearch==2.26.6 faiss-cpu==1.15.1
    for peer in "$@"; do
        case $peer in
        diskann)
            packages=(diskannpy==0.7.0)
            advice="there are wheels of diskannpy for x86-64 and Python 3.9 to 3.11 alone" ;;
        caliby)
            # Compiled, which takes minutes.
            packages=(numpy==2.4.6 caliby==0.1.3)
            advice="it needs a compiler for C++20, libaio and Abseil: apt-get install g++ libaio-dev libabsl-dev" ;;
        *)
            peers+=("$peer")
            continue ;;
        esac
        log=$folder/$peer.log
        if environment "$folder/venv-$peer" "${packages[@]}" >"$log" 2>&1; then
            peers+=("$peer")
        else
            rm -rf "$folder/venv-$peer"
            echo "$peer is left out, it cannot be installed: $advice; $log has the errors" >&2
        fi
    done
}
