"""The worker image's file system: Debian packages, wheels, and the settings that let MPI run over ssh."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.cluster.oci import ImageConfig
from tests.cluster.paths import HERE, cache_root
from tests.cluster.pins import Worker, digest
from tests.cluster.shell import run, run_logged, with_tries

_ROOTFS = HERE / "rootfs"

CONFIG = ImageConfig(
    env={
        # The defaults of torchrun in torch 1.13 fail on Python 3.11 (Std.from_str); given as numbers they work.
        "PET_TEE": "1",
        "PET_REDIRECTS": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PYTHONUNBUFFERED": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
)

# What no job reads. Licences stay.
_EXCLUDED = [
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/lintian/*",
    "/usr/include/*",
    "/usr/lib/*.a",
]
# With symbols for debugging, a third larger.
_STRIPPED = [
    "tensorflow/libtensorflow_cc.so.2",
    "tensorflow/libtensorflow_framework.so.2",
    "jaxlib/libjax_common.so",
]
# Each line in a process of its own: Paddle crashes beside TensorFlow and MPI.
_IMPORTED = [
    "tensorflow, keras, torch.distributed.run, torch.nn.parallel, xgboost, mpi4py.MPI",
    "jax.experimental.multihost_utils",
    "paddle.distributed.launch.main",
]
# The same as above for wheels: C++ headers and test suites.
_PRUNED = [
    "tensorflow/include",
    "paddle/include",
    "networkx/*/tests",
    "scipy/*/tests",
    "numpy/*/tests",
    "numpy/tests",
    "bin",
]
# Hard dependencies in Debian's eyes that nothing here loads: torch's C++ test programs, sympy, and the graphics
# drivers (with LLVM) behind an OpenCV that torch links. The Python packages' tests go only now: their byte
# compilation at installation insists on them.
_REMOVED = [
    "usr/lib/libtorch-test",
    "usr/lib/x86_64-linux-gnu/libLLVM*",
    "usr/lib/x86_64-linux-gnu/dri",
    "usr/lib/python3/dist-packages/sympy",
    "usr/lib/python3/dist-packages/mpmath",
    "usr/lib/python3/dist-packages/*/tests",
    "usr/lib/python3/dist-packages/*/*/tests",
    "var/lib/apt/lists",
    "var/cache",
]


def recipe(worker: Worker) -> str:
    """Key of the image's content: it changes with all that goes into it."""
    settings = [(str(path.relative_to(_ROOTFS)), path.read_text()) for path in _settings()]
    # The same for every checkout: no path of this one may have a part in it.
    argv = _argv(worker, Path("wheels"), Path("rootfs"), Path("out"))
    return digest(worker, [str(word) for word in argv], settings, _PRUNED, _STRIPPED, CONFIG)


def build_layer(worker: Worker, out: Path) -> None:
    """Write the whole root file system as one tar.

    :param out: tar file to write; a log lies beside it.
    """
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        wheels = Path(folder) / "dist-packages"
        install_wheels(worker.wheels, worker.python, wheels, out.with_suffix(".pip.log"))
        _shrink(wheels)
        argv = _argv(worker, wheels, _ROOTFS, out)
        log = out.with_suffix(".mmdebstrap.log")

        def attempt() -> None:
            out.unlink(missing_ok=True)
            run_logged(argv, log, env={**os.environ, "TMPDIR": folder})

        with_tries(attempt)


def _argv(worker: Worker, wheels: Path, rootfs: Path, out: Path) -> list[str | Path]:
    # /usr/local comes first on Debian's module path, so the wheels win over the packages' older numpy.
    site = f"/usr/local/lib/python{worker.python}"
    files = [path.relative_to(_ROOTFS) for path in _settings()]
    hooks = [
        *(f'rm -rf "$1"/{path}' for path in _REMOVED),
        'chroot "$1" useradd --uid 1000 --create-home --shell /bin/bash mpiuser',
        f'mkdir -p "$1{site}" "$1/run/sshd"',
        f'copy-in "{wheels}" {site}',
        *(f'copy-in "{rootfs / file}" /{file.parent}' for file in files),
        # Shows that all of it works together, and leaves the byte code of exactly what jobs import.
        *(f'chroot "$1" python3 -c "import {modules}"' for modules in _IMPORTED),
    ]
    # What it mounts goes with its namespace: a build that is killed leaves nothing that keeps its folder from going.
    argv: list[str | Path] = ["nice", "-n", "10", "unshare", "--mount"]
    argv += ["mmdebstrap", "--mode=root", "--format=tar", "--variant=minbase"]
    argv.append("--skip=cleanup/run")  # sshd does not start without its /run/sshd
    argv += [f"--include={','.join(worker.packages)}", '--aptopt=Apt::Install-Recommends "false"']
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDED]
    argv += [f"--customize-hook={hook}" for hook in hooks]
    return [*argv, worker.suite, out]


def _settings() -> list[Path]:
    return sorted(path for path in _ROOTFS.rglob("*") if path.is_file())


def install_wheels(wheels: list[str], python: str, target: Path, log: Path) -> None:
    """Unpack wheels for the worker image's Python.

    :param wheels: exact requirements, complete with their own requirements.
    :param python: its version.
    :param target: the folder.
    :param log: what pip prints.
    """
    argv: list[str | Path] = [_pip(), "install", "--no-deps", "--only-binary=:all:", "--no-compile", "--target", target]
    argv += ["--python-version", python, "--implementation", "cp"]
    for platform in ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"):
        argv += ["--platform", platform]
    with_tries(lambda: run_logged([*argv, *wheels], log, env=dict(os.environ)))


def _shrink(wheels: Path) -> None:
    for pattern in _PRUNED:
        for path in wheels.glob(pattern):
            shutil.rmtree(path)
    run("strip", "--strip-unneeded", *(wheels / name for name in _STRIPPED))


def _pip() -> Path:
    """A pip of our own: the environment that runs the tests need not have one."""
    folder = cache_root() / "pip"
    pip = folder / "bin" / "pip"
    if not pip.exists():
        shutil.rmtree(folder, ignore_errors=True)
        run(sys.executable, "-m", "venv", folder)
    return pip
