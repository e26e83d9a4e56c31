"""One result on a real model, however samples are ordered, batched or shared out.

Where onnxruntime itself computes other bits for another batch size or number of threads, the statistics have to differ.
So each tensor is held to this: where onnxruntime gives the same values, the statistics are equal, every number of them.
"""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.pipeline.prepare import prepare

BATCH = 8
MEAN = np.float32([0.485, 0.456, 0.406]).reshape(3, 1, 1)
STD = np.float32([0.229, 0.224, 0.225]).reshape(3, 1, 1)


@pytest.fixture(scope="module", params=["resnet20", "minilm"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def model(shared, kind):
    """ResNet-20, and the sentence encoder MiniLM where it is: 90 MB, too large to be shared by default."""
    if kind == "resnet20":
        return shared / "models" / "resnet20_cifar10.onnx"
    path = Path(os.environ.get("QUARKFAST_MINILM", shared / "models" / "minilm.onnx"))
    if not path.exists():
        pytest.skip(f"no MiniLM at {path}; QUARKFAST_MINILM names it")
    return path


@pytest.fixture(scope="module")
def samples(shared, kind):
    """40 images, or 40 sentences of 16 random tokens, a few of them masked."""
    if kind == "resnet20":
        with np.load(shared / "data" / "cifar10_calib.npz") as data:
            return {"input": ((data["x"][:40].astype(np.float32) / 255 - MEAN) / STD).astype(np.float32)}
    rng = np.random.default_rng(0)
    mask = (np.arange(16) < rng.integers(4, 17, (40, 1))).astype(np.int64)
    return {"input_ids": rng.integers(1000, 20000, (40, 16)), "attention_mask": mask}


def _rows(samples, rows):
    return {name: array[rows] for name, array in samples.items()}


@pytest.fixture(scope="module")
def expected(model, samples):
    return quarkfast.calibrate(model, samples, batch_size=BATCH, threads=1, moments=True)


def _values(model, tensors, samples, batch_size, threads):
    """Returns the sorted bits of each tensor over all samples, as plain onnxruntime computes them."""
    prepared = prepare(load_model(model), 13)
    found = {value.name: value for node in prepared.graph for value in node.outputs}
    inner = [name for name in tensors if name in found]
    given = {value.name for value in prepared.graph.outputs}
    prepared.graph.outputs.extend(found[name] for name in inner if name not in given)
    session = ort.inference_session(serialize(prepared), ort.session_options(threads=threads))
    names = [each.name for each in session.get_outputs()]
    runs = [ort.run(session, _rows(samples, slice(i, i + batch_size))) for i in range(0, 40, batch_size)]
    outputs = {name: [run[index] for run in runs] for index, name in enumerate(names)}
    outputs |= {name: [array] for name, array in samples.items()}
    return {name: np.sort(np.concatenate([each.ravel() for each in outputs[name]]).view(np.uint32)) for name in tensors}


def _same(one, other):
    """Whether all is equal but the extremes of single runs, which depend on what a run is."""
    return (
        (one.range, one.sums) == (other.range, other.sums)
        and one.histogram.exponent == other.histogram.exponent
        and one.histogram.counts.tobytes() == other.histogram.counts.tobytes()
    )


@pytest.mark.parametrize(
    ("batch_size", "threads", "order"),
    [
        pytest.param(1, 1, "kept", id="batch 1"),
        pytest.param(7, 1, "kept", id="batch 7"),
        pytest.param(32, 1, "kept", id="batch 32"),
        pytest.param(BATCH, 1, "shuffled", id="shuffled"),
        pytest.param(BATCH, 2, "kept", id="2 threads"),
    ],
)
def test_equal_activations_give_equal_bytes(model, samples, expected, batch_size, threads, order):
    x = _rows(samples, np.random.default_rng(0).permutation(40)) if order == "shuffled" else samples
    got = quarkfast.calibrate(model, x, batch_size=batch_size, threads=threads, moments=True)
    differing = [name for name in expected.tensors if not _same(expected.tensors[name], got.tensors[name])]
    if differing:
        theirs = _values(model, differing, samples, BATCH, 1)
        changed = _values(model, differing, x, batch_size, threads)
        assert not [name for name in differing if np.array_equal(theirs[name], changed[name])]


def test_two_halves_merged_are_the_whole(model, samples, expected):
    halves = [
        quarkfast.calibrate(model, part, batch_size=BATCH, threads=1, moments=True)
        for part in (_rows(samples, slice(2 * BATCH)), _rows(samples, slice(2 * BATCH, None)))
    ]
    assert quarkfast.merge_calibrations(halves[::-1]) == expected


def test_two_processes_give_the_whole(model, samples, expected):
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        got = quarkfast.calibrate(model, samples, batch_size=BATCH, threads=1, moments=True, executor=executor)
    assert got == expected


# Dask tells that MiniLM travels with every part.
@pytest.mark.filterwarnings("ignore:Sending large graph:UserWarning")
def test_a_dask_cluster_of_two_workers_gives_the_whole(model, samples, expected):
    distributed = pytest.importorskip("distributed", reason="no Dask: the extra `dask` is not installed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
    )
    with cluster, distributed.Client(cluster) as client:
        got = quarkfast.calibrate(
            model, samples, batch_size=BATCH, threads=1, moments=True, executor=client.get_executor()
        )
    assert got == expected


def test_a_saved_calibration_has_the_same_bytes_whatever_ran_it(model, samples, expected, tmp_path):
    again = quarkfast.calibrate(model, samples, batch_size=BATCH, threads=1, moments=True)
    for name, calibration in (("a", expected), ("b", again)):
        (tmp_path / name).mkdir()
        calibration.save(tmp_path / name / "c.json")
    for file in ("c.json", "c.npz"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
