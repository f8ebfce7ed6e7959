"""Trains the model that selects content: python3 bench/extract/train.py DATA [--weights FILE]

DATA is the output of features.mjs. Cross-validates by site in five folds, without the sites that are held out, and writes
the predictions of each fold's test pages to DATA/predictions.f32. The pages of held-out sites are predicted by a model that is
trained on all others. With --weights, trains on all pages and writes the weights. Needs lightgbm and numpy.
"""

import argparse
import base64
import json
import os

import lightgbm
import numpy

PARAMETERS = dict(
    objective="cross_entropy",
    learning_rate=0.1,
    num_leaves=24,
    min_data_in_leaf=60,
    min_sum_hessian_in_leaf=0.01,
    feature_fraction=0.25,
    bagging_fraction=0.7,
    bagging_freq=1,
    lambda_l2=5.0,
    max_bin=63,
    num_threads=1,
    verbose=-1,
    seed=18,
    deterministic=True,
    force_row_wise=True,
)
ROUNDS = 120


def read(folder):
    with open(os.path.join(folder, "pages.json")) as file:
        about = json.load(file)
    features = numpy.fromfile(os.path.join(folder, "features.f32"), dtype="<f4").reshape(-1, about["width"])
    labels = numpy.fromfile(os.path.join(folder, "labels.f32"), dtype="<f4").reshape(-1, 2)
    return about, features, labels


def weights_of(pages, labels):
    """Every page weighs the same in sum, fundus more than its number; within a page blocks weigh by their words."""
    weights = numpy.zeros(len(labels))
    for page in pages:
        rows = slice(page["first"], page["first"] + page["count"])
        words = labels[rows, 1]
        own = words**POWER + numpy.where(words > 0, 1.0, 0.0)
        total = own.sum()
        if total > 0 and page["truth"] > 0:
            weights[rows] = own / total * SETS[page["set"]] * 200
    return weights


LEAF = 255
# Rows whose predictions the tests compare.
SAMPLES = 8
POWER = 0.8
SETS = {"wcxb": 1.0, "fundus": 1.5}


# What the address of a page says: callers may not know it.
ADDRESS = {"pathDepth": -1, "slugWords": 0, "section": 0}


def without_addresses(features, about):
    """The features, every third page without its address."""
    masked = features.copy()
    for page in about["pages"][::3]:
        rows = slice(page["first"], page["first"] + page["count"])
        for name, value in ADDRESS.items():
            masked[rows, about["names"].index(name)] = value
    return masked


def train(features, labels, weights, rows, rounds=ROUNDS):
    rows = rows & (weights > 0)
    data = lightgbm.Dataset(features[rows], label=labels[rows, 0], weight=weights[rows], free_raw_data=True)
    return lightgbm.train(PARAMETERS, data, num_boost_round=rounds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--weights")
    arguments = parser.parse_args()
    about, features, labels = read(arguments.data)
    pages = about["pages"]
    weights = weights_of(pages, labels)
    masked = without_addresses(features, about)
    fold = numpy.concatenate([numpy.full(page["count"], -1 if page["isHeldOut"] else page["fold"]) for page in pages])
    predictions = numpy.zeros(len(labels), dtype="<f4")
    gains = numpy.zeros(features.shape[1])
    for test in range(5):
        model = train(masked, labels, weights, (fold != test) & (fold != -1))
        predictions[fold == test] = model.predict(features[fold == test])
        gains += model.feature_importance("gain")
    loss = -(labels[:, 0] * numpy.log(predictions + 1e-9) + (1 - labels[:, 0]) * numpy.log(1 - predictions + 1e-9))
    used = fold != -1
    print("weighted loss", numpy.average(loss[used], weights=weights[used]))
    names = about["names"]
    for at in numpy.argsort(-gains)[:40]:
        name = names[at] if at < len(names) else f"neighbour {at - len(names)}"
        print(f"{gains[at] / gains.sum():.4f} {name}")
    print("unused:", [names[at] for at in range(len(names)) if gains[at] < 1e-4 * gains.sum()])
    predictions[~used] = train(masked, labels, weights, used).predict(features[~used])
    if arguments.weights:
        write(train(masked, labels, weights, numpy.full(len(used), True)), features, arguments.weights)
    predictions.tofile(os.path.join(arguments.data, "predictions.f32"))


def write(model, features, path):
    """Writes the trees for model.ts: nodes in one list, the left child of a node after it."""
    feature, right, value, starts = [], [], [], []

    def add(node):
        at = len(feature)
        is_leaf = "split_feature" not in node
        feature.append(LEAF if is_leaf else node["split_feature"])
        right.append(0)
        value.append(node["leaf_value"] if is_leaf else single(node["threshold"]))
        if is_leaf:
            return
        assert node["decision_type"] == "<="
        add(node["left_child"])
        right[at] = len(feature)
        add(node["right_child"])

    for tree in model.dump_model()["tree_info"]:
        starts.append(len(feature))
        add(tree["tree_structure"])
    columns = {
        "TREES": numpy.array(starts, dtype="<u2"),
        "RIGHT": numpy.array(right, dtype="<u2"),
        "FEATURE": numpy.array(feature, dtype="u1"),
        "VALUE": numpy.array(value, dtype="<f4"),
    }
    with open(path, "w") as file:
        file.write("// Weights of the model that scores blocks. Written by bench/extract/train.py; do not edit.\n\n")
        file.write(f"/** Features per block that the weights are for. */\nexport const FEATURE_COUNT: number = {model.num_feature()};\n")
        rows = numpy.round(features[:: max(1, len(features) // SAMPLES)][:SAMPLES].astype("f8"), 4).astype("f4")
        sample = [*rows.flatten(), *model.predict(rows)]
        text = " ".join(f"{number:.6g}" for number in sample)
        file.write(f"/** Rows of features, then the prediction for each. */\nexport const SAMPLE: string =\n  '{text}';\n")
        for name, numbers in columns.items():
            file.write(f"export const {name}: string =\n  '{base64.b64encode(numbers.tobytes()).decode()}';\n")


def single(threshold):
    """The greatest float32 up to a threshold, so that float32 features compare as in training."""
    rounded = numpy.float32(threshold)
    return rounded if rounded <= threshold else numpy.nextafter(rounded, numpy.float32(-numpy.inf))


if __name__ == "__main__":
    main()
