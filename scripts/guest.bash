#!/usr/bin/env bash
# A guest of qemu with two nodes of memory, emulated, that has a kernel and one program. For other
# scripts, which source it.

# Zeros up to a multiple of four.
pad() {
    head -c $(((4 - $1 % 4) % 4)) /dev/zero
}

# One file, folder or the end of an archive in cpio's "newc" format: name, mode, and the file.
entry() {
    local size=0
    [ -z "${3:-}" ] || size=$(stat -L -c %s "$3")
    inode=$((inode + 1))
    printf '070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\0' \
        "$inode" "$2" 0 0 1 0 "$size" 0 0 0 0 $((${#1} + 1)) 0 "$1"
    pad $((110 + ${#1} + 1))
    [ -z "${3:-}" ] || cat "$3"
    pad "$size"
}

# The guest's files: its first process, the program that this becomes, and the libraries of both.
files() {
    local inode=0 library folder
    local -a libraries folders=()
    mapfile -t libraries < <(ldd "$1" "$2" | grep -o '^[[:space:]].*' | grep -o '/[^ ]*' | sort -u)
    for library in "${libraries[@]}"; do
        folder=$(dirname "$library")
        while [ "$folder" != / ]; do
            folders+=("$folder")
            folder=$(dirname "$folder")
        done
    done
    # Those further out first.
    while read -r folder; do
        entry "${folder#/}" 040755
    done < <(printf '%s\n' "${folders[@]}" | sort -u)
    for library in "${libraries[@]}"; do
        entry "${library#/}" 0100755 "$library"
    done
    entry init 0100755 "$1"
    entry program 0100755 "$2"
    entry 'TRAILER!!!' 0
}

# Boots a guest and prints its console: its kernel, the program, the program's arguments, the most
# seconds that it may take, and by how much its memory is multiplied. Files are made in the folder
# `scratch`; in the guest, /tmp is in its memory.
boot() {
    local kernel=$1 program=$2 arguments=$3 most_seconds=$4 times=${5:-1}
    # Without what is for debuggers, which would only take memory.
    strip -o "$scratch/program" "$program" 2>/dev/null || cp "$program" "$scratch/program"
    rustc --edition 2024 -O -o "$scratch/init" scripts/guest_init.rs
    files "$scratch/init" "$scratch/program" >"$scratch/files"
    # The second node is small, so that a program can fill it.
    local -a nodes=(
        -object memory-backend-ram,id=memory0,size=$((512 * times))M
        -numa node,nodeid=0,cpus=0-1,memdev=memory0
        -object memory-backend-ram,id=memory1,size=$((256 * times))M
        -numa node,nodeid=1,cpus=2-3,memdev=memory1
    )
    # What is behind -- are the program's arguments. Its end is the guest's: the kernel gives up without
    # its first process, and does not start again. What clears a screen begins a new line instead.
    timeout "$most_seconds" qemu-system-x86_64 -accel tcg -cpu max -smp 4 -m $((768 * times))M "${nodes[@]}" \
        -nographic -nic none -no-reboot -kernel "$kernel" -initrd "$scratch/files" \
        -append "console=ttyS0 quiet panic=-1 -- $arguments" </dev/null 2>&1 |
        tr -d '\r' | sed -u 's/\x1bc/\n/g; s/\x1b\[[0-9?]*[A-Za-z]//g'
}
