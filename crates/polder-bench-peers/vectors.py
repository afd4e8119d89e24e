"""Vector indexes of others beside Polder's, on the same vectors, in turns.

    vectors.py make FOLDER COUNT              vectors and queries, made up, as FOLDER/{base,query}.fvecs
    vectors.py side NAME FOLDER THREADS       builds an index of them, and searches whenever a line is read
    vectors.py compare FOLDER THREADS ROUNDS POLDER NAME...
                                              starts all sides, and has them search in turns; POLDER is
                                              the example `nearest` of polder-vector
    vectors.py mapped FOLDER SHARE THREADS    searches an index of usearch in a file that is mapped, in a
                                              control group with memory for this share of the file
    vectors.py beyond FOLDER SHARE THREADS ROUNDS POLDER
                                              the same beside Polder with as little memory; POLDER is the
                                              example `beyond` of polder-vector

A side is a process of its own. It prints `build RATE BYTES`: vectors a second, bytes a vector; then for
each line that it reads one line with `WIDTH RECALL RATE` for each width: how many of the ten nearest were
found, and queries a second. All have 16 links and see 100 nodes for an insert.

`scripts/vector-peers` and `scripts/vector-beyond` install what this needs.
"""

import math
import os
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


def hnswlib_side(base, threads):
    import hnswlib

    index = hnswlib.Index("l2", DIMENSIONS)
    index.init_index(len(base), M=LINKS, ef_construction=INSERT_WIDTH)

    def build():
        index.add_items(base, num_threads=threads)
        index.set_num_threads(1)

    def search(queries, width):
        index.set_ef(width)
        return index.knn_query(queries, k=NEAREST, num_threads=1)[0]

    return build, search, index.save_index


def usearch_side(base, threads):
    import numpy
    from usearch.index import Index

    # By itself it would round numbers to two bytes.
    options = {"dtype": "f32", "connectivity": LINKS, "expansion_add": INSERT_WIDTH}
    index = Index(ndim=DIMENSIONS, metric="l2sq", **options)

    def search(queries, width):
        index.expansion_search = width
        return index.search(queries, NEAREST, threads=1).keys

    return (
        lambda: index.add(numpy.arange(len(base)), base, threads=threads),
        search,
        index.save,
    )


def faiss_side(base, threads):
    import faiss

    index = faiss.IndexHNSWFlat(DIMENSIONS, LINKS)
    index.hnsw.efConstruction = INSERT_WIDTH

    def build():
        faiss.omp_set_num_threads(threads)
        index.add(base)
        faiss.omp_set_num_threads(1)

    def search(queries, width):
        index.hnsw.efSearch = width
        return index.search(queries, NEAREST)[1]

    return build, search, lambda path: faiss.write_index(index, path)


SIDES = {"hnswlib": hnswlib_side, "usearch": usearch_side, "faiss": faiss_side}


def truth_of(base, queries):
    import faiss

    exact = faiss.IndexFlatL2(DIMENSIONS)
    exact.add(base)
    return exact.search(queries, NEAREST)[1].tolist()


def turns(search, queries, truth, widths):
    """Searches whenever a line is read."""
    for _ in sys.stdin:
        line = []
        for width in widths:
            begun = time.monotonic()
            found = search(queries, width)
            seconds = time.monotonic() - begun
            hits = sum(len(set(a) & set(b)) for a, b in zip(found.tolist(), truth))
            line.append(f"{width} {hits / NEAREST / len(queries)} {len(queries) / seconds}")
        print(" ".join(line), flush=True)


def side(name, folder, threads):
    base, queries = load(folder, "base"), load(folder, "query")
    truth = truth_of(base, queries)
    build, search, save = SIDES[name](base, threads)
    begun = time.monotonic()
    build()
    rate = len(base) / (time.monotonic() - begun)
    with tempfile.NamedTemporaryFile() as file:
        save(file.name)
        print("build", rate, os.path.getsize(file.name) / len(base), flush=True)
    turns(search, queries, truth, WIDTHS)


# A search that waits for the device takes long, most where a page is read for each vector.
FEW_QUERIES = 200
MAPPED_QUERIES = 40
FEW_WIDTHS = (10, 20, 40, 80)
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


def mapped(folder, share, threads):
    from usearch.index import Index

    path = os.path.join(folder, "usearch.index")
    if not os.path.exists(path):
        # In a process of its own, whose memory goes with it.
        subprocess.run([sys.executable, __file__, "save", folder, path], check=True)
    truth_path = os.path.join(folder, "truth")
    with open(truth_path) as file:
        truth = [[int(word) for word in line.split()] for line in file]
    queries = load(folder, "query")[:MAPPED_QUERIES]
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    # What is in memory counts for whoever read it first.
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    size = os.path.getsize(path)
    enter_group(size // share + SLACK)
    index = Index.restore(path, view=True)

    def search(queries, width):
        index.expansion_search = width
        return index.search(queries, NEAREST, threads=threads).keys

    print("build", 0, size / len(index), flush=True)
    turns(search, queries, truth, FEW_WIDTHS)


def save_index(folder, path):
    base, queries = load(folder, "base"), load(folder, "query")
    with open(os.path.join(folder, "truth"), "w") as file:
        file.writelines(" ".join(map(str, row)) + "\n" for row in truth_of(base, queries))
    build, _, save = usearch_side(base, os.cpu_count())
    build()
    save(path)


def rate_at(points, recall):
    """Queries a second at this recall, between the two widths around it."""
    points = sorted(points)
    for (low, slow), (high, fast) in zip(points, points[1:]):
        if low <= recall <= high and high > low:
            part = (recall - low) / (high - low)
            return math.exp((1 - part) * math.log(slow) + part * math.log(fast))
    return math.nan


def race(commands, rounds, more=()):
    """Starts all sides, has them search in turns, and prints how the first one does by each other, and of
    more pairs the one by the other."""
    sides, rates = {}, {}
    # One after the other: a build has the machine for itself.
    for name, command in commands.items():
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        _, rate, size = child.stdout.readline().split()
        print(f"{name}: built {float(rate):.0f} vectors a second, {float(size):.0f} bytes each")
        sides[name] = child
        rates[name] = {recall: [] for recall in RECALLS}
    for _ in range(rounds):
        for name, child in sides.items():
            child.stdin.write("\n")
            child.stdin.flush()
            words = [float(word) for word in child.stdout.readline().split()]
            points = list(zip(words[1::3], words[2::3]))
            for recall in RECALLS:
                rates[name][recall].append(rate_at(points, recall))
    for child in sides.values():
        child.stdin.close()
        child.wait()
    first, *others = commands
    for recall in RECALLS:
        for one, other in [*((first, other) for other in others), *more]:
            pairs = zip(rates[one][recall], rates[other][recall])
            ratios = sorted(ours / theirs for ours, theirs in pairs)
            print(
                f"recall {recall}: {one} by {other} {statistics.median(ratios):.2f} "
                f"({ratios[0]:.2f} to {ratios[-1]:.2f}, {rounds} rounds)"
            )


def compare(folder, threads, rounds, polder, names):
    files = [os.path.join(folder, name + ".fvecs") for name in ("base", "query")]
    commands = {"polder": [polder, *files, str(threads), str(LINKS), str(INSERT_WIDTH), "turns"]}
    for name in names:
        commands[name] = [sys.executable, __file__, "side", name, folder, str(threads)]
    race(commands, rounds)


def beyond(folder, share, threads, rounds, polder):
    files = [os.path.join(folder, name + ".fvecs") for name in ("base", "few")]
    with open(os.path.join(folder, "query.fvecs"), "rb") as queries, open(files[1], "wb") as few:
        few.write(queries.read(FEW_QUERIES * 4 * (1 + DIMENSIONS)))
    ours = [polder, *files, str(share), str(threads), str(INSERT_WIDTH)]
    race(
        {
            "polder": [*ours, "together"],
            "polder, steered by codes": [*ours, "steered"],
            "polder, page by page": [*ours, "one-by-one"],
            "usearch, mapped": [sys.executable, __file__, "mapped", folder, str(share), str(threads)],
        },
        rounds,
        [("polder, steered by codes", "usearch, mapped")],
    )


def main():
    match sys.argv[1:]:
        case ["make", folder, count]:
            make(folder, int(count))
        case ["side", name, folder, threads]:
            side(name, folder, int(threads))
        case ["compare", folder, threads, rounds, polder, *names]:
            compare(folder, int(threads), int(rounds), polder, names)
        case ["save", folder, path]:
            save_index(folder, path)
        case ["mapped", folder, share, threads]:
            mapped(folder, int(share), int(threads))
        case ["beyond", folder, share, threads, rounds, polder]:
            beyond(folder, int(share), int(threads), int(rounds), polder)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
