"""Trains on the colour classes in a process of its own: ``python train_worker.py FOLDER [resume] [KEY=VALUE ...]``."""

import ast
import sys
from pathlib import Path

import torch
from colour_classes import colour_images, colour_job, tiny_recipe

from subspan.train.trainer import Runtime, train

if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, *rest = sys.argv[1:]
    changes = {key: ast.literal_eval(value) for key, value in (word.split("=") for word in rest if "=" in word)}
    runtime = Runtime(device="cpu", checkpoint_every=1, validate_every=0, tensorboard=False)
    images, _ = colour_images()
    train(images, [colour_job(Path(folder))], tiny_recipe(**changes), runtime, resume="resume" in rest)
