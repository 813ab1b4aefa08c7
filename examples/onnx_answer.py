"""Ten lines that answer with an exported catalogue, without Subspan: python onnx_answer.py birds.onnx a.jpg b.jpg"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
about = json.loads(session.get_modelmeta().custom_metadata_map["subspan"])
for file in sys.argv[2:]:
    image, pixels = ImageOps.exif_transpose(Image.open(file)).convert("RGB"), {}
    for name, view in about["preprocessing"].items():
        how = getattr(Image.Resampling, view["interpolation"].upper())
        square = (ImageOps.fit if view["fit"] == "crop" else Image.Image.resize)(image, (view["resize"],) * 2, how)
        middle = ImageOps.crop(square, (view["resize"] - view["size"]) // 2).resize((view["size"],) * 2)
        pixels[name] = np.asarray(ImageOps.mirror(middle) if view["mirrored"] else middle)[None]
    probabilities, familiarity = (found[0] for found in session.run(["probabilities", "familiarity"], pixels))
    known = (threshold := about["rejection"]["threshold"]) is None or familiarity >= threshold
    answer = about["classes"][probabilities.argmax()] if known else "none of these"
    print(f"{file}\t{answer}\t{probabilities.max():.3f}")
