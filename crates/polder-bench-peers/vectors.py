"""Vector indexes of others beside Polder's, on the same vectors, in turns.

    vectors.py make FOLDER COUNT              vectors and queries, made up, as FOLDER/{base,query}.fvecs
    vectors.py truth FOLDER                   the nearest to each query, as FOLDER/truth
    vectors.py side NAME FOLDER THREADS SEARCHING
                                              builds an index of them by so many threads, and searches by so
                                              many whenever a line is read
    vectors.py compare FOLDER THREADS SEARCHING ROUNDS POLDER NAME...
                                              starts all sides, and has them search in turns; POLDER is
                                              the example `nearest` of polder-vector, which is two sides
    vectors.py save NAME FOLDER SHARE         builds an index to be searched with memory for one part in SHARE,
                                              as FOLDER/NAME-SHARE
    vectors.py larger NAME FOLDER SHARE SEARCHING
                                              searches it so; builds it where there is none
    vectors.py beyond FOLDER SHARE SEARCHING ROUNDS POLDER NAME...
                                              the same beside Polder with as little memory; POLDER is the
                                              example `beyond` of polder-vector

A side is a process of its own. It prints `build RATE BYTES`: vectors a second, bytes a vector; then for
each line that it reads one line with `WIDTH RECALL RATE` for each width: how many of the ten nearest were
found, and queries a second. Graphs of several levels have 16 links, and 32 on the lowest, which is as many
as those of one level have; an insert sees 100 nodes. The first round warms all up and does not count.

`scripts/vector-peers` and `scripts/vector-beyond` install what this needs.
"""

import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

DIMENSIONS = 128
LINKS = 16
INSERT_WIDTH = 100
NEAREST = 10
WIDTHS = (10, 15, 20, 30, 40, 60, 80, 120)
RECALLS = (0.95, 0.99)


def make(folder, count):
    """Around a thousand centres of a space of 16 dimensions, which is bent into one of 128, and noise."""
    import numpy

    random = numpy.random.default_rng(1)
    bend = random.normal(size=(16, DIMENSIONS)).astype(numpy.float32)
    centres = random.normal(size=(1000, 16)).astype(numpy.float32) * 1.5
    for name, rows in (("base", count), ("query", 1000)):
        inner = centres[random.integers(0, len(centres), rows)]
        inner = inner + random.normal(size=(rows, 16)).astype(numpy.float32)
        noise = random.normal(size=(rows, DIMENSIONS)) * 6
        vectors = (numpy.tanh(inner @ bend * 0.3) * 60 + 60 + noise).astype(numpy.float32)
        head = numpy.full((rows, 1), DIMENSIONS, dtype=numpy.int32).view(numpy.float32)
        numpy.hstack([head, vectors]).tofile(os.path.join(folder, name + ".fvecs"))


def load(folder, name):
    import numpy

    rows = numpy.fromfile(os.path.join(folder, name + ".fvecs"), dtype=numpy.float32)
    return rows.reshape(-1, DIMENSIONS + 1)[:, 1:].copy()


def written(save):
    """How many bytes a file has that `save` writes."""
    with tempfile.NamedTemporaryFile() as file:
        save(file.name)
        return os.path.getsize(file.name)


# Each side is a function that builds, one that searches, and one that says how many bytes the index has.


def hnswlib_side(base, folder, threads, searching):
    import hnswlib

    index = hnswlib.Index("l2", DIMENSIONS)
    index.init_index(len(base), M=LINKS, ef_construction=INSERT_WIDTH)

    def search(queries, width):
        index.set_ef(width)
        return index.knn_query(queries, k=NEAREST, num_threads=searching)[0]

    return (
        lambda: index.add_items(base, num_threads=threads),
        search,
        lambda: written(index.save_index),
    )


def usearch_index():
    from usearch.index import Index

    # By itself it would round numbers to two bytes.
    options = {"dtype": "f32", "connectivity": LINKS, "expansion_add": INSERT_WIDTH}
    return Index(ndim=DIMENSIONS, metric="l2sq", **options)


def usearch_side(base, folder, threads, searching):
    import numpy

    index = usearch_index()

    def search(queries, width):
        index.expansion_search = width
        return index.search(queries, NEAREST, threads=searching).keys

    return (
        lambda: index.add(numpy.arange(len(base)), base, threads=threads),
        search,
        lambda: written(index.save),
    )


def faiss_side(base, folder, threads, searching):
    import faiss

    index = faiss.IndexHNSWFlat(DIMENSIONS, LINKS)
    index.hnsw.efConstruction = INSERT_WIDTH

    def build():
        faiss.omp_set_num_threads(threads)
        index.add(base)
        faiss.omp_set_num_threads(searching)

    def search(queries, width):
        index.hnsw.efSearch = width
        return index.search(queries, NEAREST)[1]

    return build, search, lambda: written(lambda path: faiss.write_index(index, path))


def diskann_side(base, folder, threads, searching):
    import diskannpy

    index = None

    def build():
        nonlocal index
        diskannpy.build_memory_index(base, "l2", folder, INSERT_WIDTH, 2 * LINKS, threads)
        index = diskannpy.StaticMemoryIndex(folder, searching, WIDTHS[-1])

    def search(queries, width):
        return index.batch_search(queries, NEAREST, width, searching).identifiers

    def size():
        return sum(os.path.getsize(os.path.join(folder, name)) for name in ("ann", "ann.data"))

    return build, search, size


def caliby_pool(folder, memory):
    import caliby

    caliby.set_log_level("WARN")
    # It keeps at least four times as many addresses as memory.
    gigabytes = memory / (1 << 30)
    caliby.set_buffer_config(gigabytes, max(4.0, 4 * gigabytes))
    caliby.open(folder)
    return caliby


def caliby_index(caliby, count, **more):
    return caliby.HnswIndex(count, DIMENSIONS, M=LINKS, ef_construction=INSERT_WIDTH, **more)


def caliby_side(base, folder, threads, searching):
    caliby = caliby_pool(folder, 4 * base.nbytes + (256 << 20))
    index = caliby_index(caliby, len(base))

    def search(queries, width):
        return index.search_knn_parallel(queries, NEAREST, width, searching)[0]

    def size():
        index.flush()
        return caliby_bytes(folder)

    return lambda: index.add_points(base, threads), search, size


def caliby_bytes(folder):
    """The file of its only index."""
    names = [name for name in os.listdir(folder) if name.startswith("caliby_hnsw_")]
    return sum(os.path.getsize(os.path.join(folder, name)) for name in names)


SIDES = {
    "hnswlib": hnswlib_side,
    "usearch": usearch_side,
    "faiss": faiss_side,
    "diskann": diskann_side,
    "caliby": caliby_side,
}


def save_truth(folder):
    import faiss

    exact = faiss.IndexFlatL2(DIMENSIONS)
    exact.add(load(folder, "base"))
    truth = exact.search(load(folder, "query"), NEAREST)[1].tolist()
    with open(os.path.join(folder, "truth"), "w") as file:
        file.writelines(" ".join(map(str, row)) + "\n" for row in truth)


def load_truth(folder):
    with open(os.path.join(folder, "truth")) as file:
        return [[int(word) for word in line.split()] for line in file]


def keep_output():
    """What libraries print is lost: only this program's lines are read."""
    sys.stdout = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def bytes_read():
    """What this process has read from a device."""
    with open("/proc/self/io") as file:
        return int(dict(line.split(": ") for line in file)["read_bytes"])


def turns(search, queries, truth, widths, name=None):
    """Searches whenever a line is read. If it has a name, says at the end what was read from the device."""
    rounds, read, recalls = 0, dict.fromkeys(widths, 0), {}
    for rounds, _ in enumerate(sys.stdin):
        line = []
        for width in widths:
            before, begun = bytes_read(), time.monotonic()
            found = search(queries, width)
            seconds = time.monotonic() - begun
            if rounds > 0:
                read[width] += bytes_read() - before
            hits = sum(len(set(a) & set(b)) for a, b in zip(found.tolist(), truth))
            recalls[width] = hits / NEAREST / len(queries)
            line.append(f"{width} {recalls[width]} {len(queries) / seconds}")
        print(" ".join(line), flush=True)
    for width, total in read.items() if name and rounds else ():
        each = total / rounds / len(queries) / 1024
        what = f"recall {recalls[width]:.4f}, {each:.0f} KiB read for a query"
        print(f"{name}, {width} in sight: {what}", file=sys.stderr)


def side(name, folder, threads, searching):
    keep_output()
    base, queries = load(folder, "base"), load(folder, "query")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        build, search, size = SIDES[name](base, scratch, threads, searching)
        begun = time.monotonic()
        build()
        rate = len(base) / (time.monotonic() - begun)
        print("build", rate, size() / len(base), flush=True)
        turns(search, queries, load_truth(folder), WIDTHS)


# A search that waits for the device takes long, most where a page is read for each vector.
FEW_QUERIES = 200
MAPPED_QUERIES = 40
FEW_WIDTHS = (10, 20, 40, 80)
# Links of a graph that is searched on the device, reads of it together, and memory to build it in.
DISK_LINKS = 64
BEAM_WIDTH = 4
BUILD_GIGABYTES = 8.0
# One part of memory in so many for it: its codes are made for that.
DISK_SHARE = 10
# Memory of the interpreter that comes after it has entered its control group.
SLACK = 16 << 20


def enter_group(limit):
    """This process may use so many bytes more than it has; pages of files count."""
    name = f"polder-vectors-{os.getpid()}"
    for root, file in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
        group = os.path.join("/sys/fs/cgroup", root, name)
        try:
            os.mkdir(group)
            with open(os.path.join(group, file), "w") as out:
                out.write(str(limit))
            with open(os.path.join(group, "cgroup.procs"), "w") as out:
                out.write(str(os.getpid()))
            return group
        except OSError:
            if os.path.isdir(group):
                os.rmdir(group)
    sys.exit("no control group for memory can be made here: run as root")


# Of an index that is larger than memory there is a function that saves it, to be searched in so many bytes of
# memory, and one that opens what was saved, and gives a function that searches and how many bytes there are.


def usearch_save(base, path, memory):
    import numpy

    index = usearch_index()
    index.add(numpy.arange(len(base)), base, threads=os.cpu_count())
    index.save(path)


def usearch_mapped(path, count, memory, searching):
    from usearch.index import Index

    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    # What is in memory counts for whoever read it first.
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    enter_group(memory + SLACK)
    index = Index.restore(path, view=True)

    def search(queries, width):
        index.expansion_search = width
        return index.search(queries, NEAREST, threads=searching).keys

    return search, os.path.getsize(path)


def caliby_save(base, path, memory):
    import caliby

    os.mkdir(path)
    build, _, _ = caliby_side(base, path, os.cpu_count(), 1)
    build()
    caliby.close()


def caliby_pooled(path, count, memory, searching):
    # It reads past the kernel's cache of files, so its pool is all that it has.
    index = caliby_index(caliby_pool(path, memory), count, index_id=1)
    if not index.was_recovered():
        sys.exit(f"caliby does not find its index in {path}: remove that folder")

    def search(queries, width):
        return index.search_knn_parallel(queries, NEAREST, width, searching)[0]

    return search, caliby_bytes(path)


def diskann_save(base, path, memory):
    import diskannpy

    os.mkdir(path)
    threads, gigabytes = os.cpu_count(), memory / (1 << 30)
    diskannpy.build_disk_index(
        base, "l2", path, INSERT_WIDTH, DISK_LINKS, gigabytes, BUILD_GIGABYTES, threads
    )


def diskann_disk(path, count, memory, searching):
    import diskannpy

    # With room for one thread it waits for another one forever, when it opens the file (0.7.0).
    index = diskannpy.StaticDiskIndex(path, max(searching, 2), 0)

    def search(queries, width):
        return index.batch_search(queries, NEAREST, width, searching, BEAM_WIDTH).identifiers

    return search, os.path.getsize(os.path.join(path, "ann_disk.index"))


LARGER = {
    "usearch": (usearch_save, usearch_mapped, MAPPED_QUERIES),
    "caliby": (caliby_save, caliby_pooled, FEW_QUERIES),
    "diskann": (diskann_save, diskann_disk, FEW_QUERIES),
}


def count_of(folder):
    return os.path.getsize(os.path.join(folder, "base.fvecs")) // (4 + 4 * DIMENSIONS)


def memory_of(folder, share):
    """One part of what a graph without codes takes, as the example `beyond` has it."""
    return count_of(folder) * (4 * DIMENSIONS + 308) // share


def save_index(name, folder, share):
    path = os.path.join(folder, f"{name}-{share}")
    shutil.rmtree(path + ".part", ignore_errors=True)
    keep_output()
    LARGER[name][0](load(folder, "base"), path + ".part", memory_of(folder, share))
    os.rename(path + ".part", path)


def larger(name, folder, share, searching):
    path = os.path.join(folder, f"{name}-{share}")
    if not os.path.exists(path):
        # In a process of its own, whose memory goes with it.
        subprocess.run([sys.executable, __file__, "save", name, folder, str(share)], check=True)
    keep_output()
    _, open_index, some = LARGER[name]
    truth, queries = load_truth(folder), load(folder, "query")[:some]
    count = count_of(folder)
    search, size = open_index(path, count, memory_of(folder, share), searching)
    print("build", 0, size / count, flush=True)
    turns(search, queries, truth, FEW_WIDTHS, name)


def rate_at(points, recall):
    """Queries a second at this recall, between the two widths around it; those of the least width, if that
    finds more."""
    points = sorted(points)
    if points[0][0] > recall:
        return points[0][1]
    for (low, slow), (high, fast) in zip(points, points[1:]):
        if low <= recall <= high and high > low:
            part = (recall - low) / (high - low)
            return math.exp((1 - part) * math.log(slow) + part * math.log(fast))
    return math.nan


def race(commands, rounds, pairs):
    """Starts all sides, has them search in turns, and prints how fast each is, and of pairs the one by the
    other. A side that ends early is left out."""
    sides, rates = {}, {}
    # Threads that wait do not take the processor from the side whose turn it is.
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}

    def line_of(name):
        line = sides[name].stdout.readline()
        if not line:
            print(f"{name}: left out, it ended by {sides.pop(name).wait()}: see above", flush=True)
        return [float(word) for word in line.split() if word != "build"]

    # One after the other: a build has the machine for itself.
    for name, command in commands.items():
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        sides[name] = subprocess.Popen(command, **pipes, text=True, env=environment)
        if words := line_of(name):
            rate, size = words
            built = f"built {rate:.0f} vectors a second, " if rate else ""
            print(f"{name}: {built}{size:.0f} bytes each", flush=True)
            rates[name] = {recall: [] for recall in RECALLS}
    for round in range(rounds + 1):
        for name in list(sides):
            sides[name].stdin.write("\n")
            sides[name].stdin.flush()
            words = line_of(name)
            points = list(zip(words[1::3], words[2::3]))
            for recall in RECALLS if points and round else ():
                rates[name][recall].append(rate_at(points, recall))
    for child in sides.values():
        child.stdin.close()
        child.wait()
    for recall in RECALLS:
        for name in sides:
            rate = statistics.median(rates[name][recall])
            print(f"recall {recall}: {name} {rate:.0f} queries a second")
        for one, other in pairs:
            if one not in sides or other not in sides:
                continue
            both = zip(rates[one][recall], rates[other][recall])
            ratios = sorted(ours / theirs for ours, theirs in both)
            if any(map(math.isnan, ratios)):
                print(f"recall {recall}: {one} by {other}: one of them does not find so many")
                continue
            print(
                f"recall {recall}: {one} by {other} {statistics.median(ratios):.2f} "
                f"({ratios[0]:.2f} to {ratios[-1]:.2f}, {rounds} rounds)"
            )


def python_of(name):
    """Some have an environment of their own, because they want other packages beside them."""
    own = os.path.join(os.path.dirname(sys.prefix), f"venv-{name}", "bin", "python")
    return own if os.path.exists(own) else sys.executable


def ensure_truth(folder):
    if not os.path.exists(os.path.join(folder, "truth")):
        subprocess.run([sys.executable, __file__, "truth", folder], check=True)


def compare(folder, threads, searching, rounds, polder, names):
    ensure_truth(folder)
    files = [os.path.join(folder, name + ".fvecs") for name in ("base", "query")]
    graph = [str(threads), str(LINKS), str(INSERT_WIDTH), str(searching)]
    ours = {"polder": "turns", "polder in batches": "batches"}
    commands = {name: [polder, *files, *graph, way] for name, way in ours.items()}
    for name in names:
        side = ["side", name, folder, str(threads), str(searching)]
        commands[name] = [python_of(name), __file__, *side]
    race(commands, rounds, [(one, name) for one in ours for name in names])


def beyond(folder, share, searching, rounds, polder, names):
    ensure_truth(folder)
    files = [os.path.join(folder, name + ".fvecs") for name in ("base", "few")]
    with open(os.path.join(folder, "query.fvecs"), "rb") as queries, open(files[1], "wb") as few:
        few.write(queries.read(FEW_QUERIES * 4 * (1 + DIMENSIONS)))

    def ours(way, share=share):
        return [polder, *files, str(share), str(searching), str(INSERT_WIDTH), way]

    def theirs(name, share=share):
        return [python_of(name), __file__, "larger", name, folder, str(share), str(searching)]

    steered, little = "polder, steered by codes", f"polder, steered by codes, one in {DISK_SHARE}"
    alone = "polder, page by page"
    commands = {"polder": ours("together"), steered: ours("steered"), alone: ours("one-by-one")}
    pairs = [("polder", alone), ("polder", steered)]
    for name in names:
        if name == "diskann":
            commands[little] = ours("steered", DISK_SHARE)
            commands[name] = theirs(name, DISK_SHARE)
            pairs.append((little, name))
        else:
            commands[name] = theirs(name)
            pairs += [("polder", name), (steered, name)]
    race(commands, rounds, pairs)


def main():
    match sys.argv[1:]:
        case ["make", folder, count]:
            make(folder, int(count))
        case ["truth", folder]:
            save_truth(folder)
        case ["side", name, folder, threads, searching]:
            side(name, folder, int(threads), int(searching))
        case ["compare", folder, threads, searching, rounds, polder, *names]:
            compare(folder, int(threads), int(searching), int(rounds), polder, names)
        case ["save", name, folder, share]:
            save_index(name, folder, int(share))
        case ["larger", name, folder, share, searching]:
            larger(name, folder, int(share), int(searching))
        case ["beyond", folder, share, searching, rounds, polder, *names]:
            beyond(folder, int(share), int(searching), int(rounds), polder, names)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
