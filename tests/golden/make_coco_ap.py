#!/usr/bin/env python3
"""make_coco_ap.py - writes coco_ap_golden.h: random boxes and what pycocotools' evaluation says of them.

    python3 tests/golden/make_coco_ap.py > tests/golden/coco_ap_golden.h

Coordinates are whole numbers, scores sixteenths or finer, so that texts are exact and scores tie. Needs pycocotools."""
import contextlib
import io
import random

from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

random.seed(11)
CASES = [  # images, classes, boxes an image, chance that a found box follows a true one, levels of score, crowds
    (1, 1, 3, 0.9, 16, 0.0),
    (6, 3, 6, 0.8, 16, 0.0),
    (12, 4, 8, 0.7, 256, 0.15),
    (5, 2, 30, 0.9, 64, 0.1),
    (10, 5, 3, 0.0, 16, 0.3),
    (3, 2, 60, 0.95, 4096, 0.05),
]


def box(side):
    w, h = random.randint(4, side), random.randint(4, side)
    return [random.randint(0, 300 - w), random.randint(0, 300 - h), w, h]


def near(b):
    x, y, w, h = b
    jitter = max(1, min(w, h) // random.choice([4, 8, 16, 64]))
    r = lambda: random.randint(-jitter, jitter)
    return [x + r(), y + r(), max(1, w + r()), max(1, h + r())]


def make(images, classes, per_image, follow, levels, crowds):
    truth, found = [], []
    for image in range(1, images + 1):
        if image % 5 == 4:  # some images show nothing
            mine = []
        else:
            mine = [(box(random.choice([30, 90, 280])), random.randint(1, classes)) for _ in range(random.randint(1, per_image))]
        for b, label in mine:
            area = b[2] * b[3] - random.randint(0, b[2] * b[3] // 2)
            truth.append(dict(id=len(truth) + 1, image_id=image, category_id=label, bbox=b, area=area, iscrowd=int(random.random() < crowds)))
        for _ in range(random.randint(0, 2 * per_image)):
            if mine and random.random() < follow:
                b, label = random.choice(mine)
                b = near(b)
                label = label if random.random() < 0.9 else random.randint(1, classes)
            else:
                b, label = box(200), random.randint(1, classes)
            found.append(dict(image_id=image, category_id=label, bbox=b, score=random.randint(1, levels) / levels))
    return truth, found


def evaluate(images, classes, truth, found):
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = dict(
            images=[dict(id=i + 1) for i in range(images)],
            categories=[dict(id=i + 1) for i in range(classes)],
            annotations=truth,
            info={},
        )
        coco.createIndex()
        e = COCOeval(coco, coco.loadRes([dict(f) for f in found]), "bbox")
        e.evaluate()
        e.accumulate()
        e.summarize()
    return list(e.stats[:9]) # -1: nothing to find


print("/* coco_ap_golden.h - written by make_coco_ap.py; do not edit. */")
print("#ifndef COCO_AP_GOLDEN_H\n#define COCO_AP_GOLDEN_H\n")
print("/* image, class, x, y, width, height, area, crowd; and of found boxes score * 4096 as the seventh. */")
rows = []
for i, case in enumerate(CASES):
    truth, found = make(*case)
    stats = evaluate(case[0], case[1], truth, found)
    print(f"static const int truth{i}[][8] = {{")
    for t in truth:
        print("    {" + ", ".join(map(str, [t["image_id"] - 1, t["category_id"], *t["bbox"], t["area"], t["iscrowd"]])) + "},")
    print(f"}};\nstatic const int found{i}[][7] = {{")
    for f in found:
        print("    {" + ", ".join(map(str, [f["image_id"] - 1, f["category_id"], *f["bbox"], int(f["score"] * 4096)])) + "},")
    print("};")
    rows.append((case[1], stats))
print("static const struct {\n    const int (*truth)[8], (*found)[7];\n    int truths, founds, classes;")
print("    double stats[9]; /* AP, AP50, AP75, small, medium, large, AR1, AR10, AR100 */\n} cases[] = {")
for i, (classes, stats) in enumerate(rows):
    values = ", ".join(f"{v:.15g}" for v in stats)
    print(f"    {{truth{i}, found{i}, sizeof truth{i} / sizeof *truth{i}, sizeof found{i} / sizeof *found{i}, {classes}, {{{values}}}}},")
print("};\n\n#endif")
