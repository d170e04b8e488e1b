"""NCI1 from GIN's text format to the raw files that TopoBench's loader reads: python nci1_raw.py NCI1.txt.gz FOLDER

For machines that cannot reach the TU site. TUDataset downloads nothing where the raw files are there already.
"""

import gzip
import sys
from pathlib import Path


def main(source, folder):
    with gzip.open(source, "rt") as file:
        lines = ([int(number) for number in line.split()] for line in file)
        (graphs,) = next(lines)
        pairs, indicator, labels, tags = [], [], [], []
        for graph in range(1, graphs + 1):
            size, label = next(lines)
            first = len(tags) + 1  # raw files number vertices and graphs from 1
            labels.append(label)
            for vertex in range(first, first + size):
                tag, _, *neighbours = next(lines)
                indicator.append(graph)
                tags.append(tag)
                pairs += [f"{vertex}, {first + neighbour}" for neighbour in sorted(neighbours)]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = {"A": pairs, "graph_indicator": indicator, "graph_labels": labels, "node_labels": tags}
    for name, rows in files.items():
        (folder / f"NCI1_{name}.txt").write_text("".join(f"{row}\n" for row in rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
