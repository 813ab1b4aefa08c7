"""Answers, and labels where photographs lie in class folders, as other programs read them: Label Studio and FiftyOne.

    subspan predict birds.subspan photos/ --reject --json > answers.json
    python answers_for_others.py answers.json photos/ --label-studio tasks.json --fiftyone labels.json --labelled

Label Studio gets tasks with the answer as prediction and the label as annotation, for a labelling interface with an
Image named "image" and Choices named "class"; photographs go by the address of its local files below its document
root, here the folder. FiftyOne gets the labels.json of a FiftyOneImageClassificationDataset whose data are in the
folder: an index into the classes for each photograph, of its label, else of the answer; null for none of these.
"""

import argparse
import json
from pathlib import Path


def chosen(name: str | None) -> list[dict]:
    """What Label Studio calls a result: a choice, or none."""
    said = {"from_name": "class", "to_name": "image", "type": "choices"}
    return [] if name is None else [{**said, "value": {"choices": [name]}}]


def label_studio(answers: list[dict], labels: dict[str, str]) -> list[dict]:
    tasks = []
    for place, answer in answers:
        score = answer["candidates"][0]["probability"]
        task = {"data": {"image": f"/data/local-files/?d={place}"}}
        task["predictions"] = [{"model_version": "subspan", "score": score, "result": chosen(answer["name"])}]
        if place in labels:
            task["annotations"] = [{"result": chosen(labels[place])}]
        tasks.append(task)
    return tasks


def fiftyone(answers: list[dict], labels: dict[str, str]) -> dict:
    names = {place: labels.get(place, answer["name"]) for place, answer in answers}
    classes = sorted({one["name"] for _, answer in answers for one in answer["candidates"]} | set(labels.values()))
    indices = {place: None if name is None else classes.index(name) for place, name in names.items()}
    return {"classes": classes, "labels": {str(Path(place).with_suffix("")): at for place, at in indices.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("answers", type=Path, help="what `subspan predict --json` has printed")
    parser.add_argument("folder", type=Path, help="the photographs that were asked about")
    parser.add_argument("--labelled", action="store_true", help="the class folders of photographs are their labels")
    parser.add_argument("--label-studio", type=Path, help="write tasks here")
    parser.add_argument("--fiftyone", type=Path, help="write labels here")
    given = parser.parse_args()
    printed = json.loads(given.answers.read_text("utf-8"))
    answers = [(Path(one["image"]).relative_to(given.folder).as_posix(), one) for one in printed]
    labels = {place: Path(place).parent.name for place, _ in answers if "/" in place} if given.labelled else {}
    for path, made in ((given.label_studio, label_studio), (given.fiftyone, fiftyone)):
        if path is not None:
            path.write_text(json.dumps(made(answers, labels), indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
