"""The default images of the init containers for volumes, from Airflow's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_trainer_provider.spec import TrainJobSpec, Volume

#: Source of a volume -> the setting with the image that fetches it.
_OPTIONS = {"git": "git_image", "s3": "s3_image"}


def with_images(spec: TrainJobSpec) -> TrainJobSpec:
    """Fill in ``[trainer] git_image`` and ``s3_image`` for volumes without an image.

    :param spec: the user's spec. If neither the volume nor the option has an image, the backend refuses the volume.
    """
    if not _needs_images(spec):
        return spec
    # Imported here: for other jobs the command line does not import Airflow.
    from airflow_trainer_provider.hooks.settings import load_settings

    settings = load_settings()
    images = {source: getattr(settings, option) for source, option in _OPTIONS.items()}
    groups = {}
    for name, group in spec.replicas.items():
        overrides = tuple(each.model_copy(update=_changed(each.volumes, images)) for each in group.overrides)
        more = {"overrides": overrides} if overrides else {}
        groups[name] = group.model_copy(update={**_changed(group.volumes, images), **more})
    return spec.model_copy(
        update={**_changed(spec.volumes or None, images), **({"replicas": groups} if groups else {})}
    )


def _needs_images(spec: TrainJobSpec) -> bool:
    return any(volume.source in _OPTIONS for _, part in spec.parts for volume in part.volumes or ())


def _changed(volumes: tuple[Volume, ...] | None, images: Mapping[str, str]) -> dict[str, Any]:
    """The update of a part of the spec with the images filled in; empty if the part has no volumes."""
    return {} if volumes is None else {"volumes": tuple(_with_image(volume, images) for volume in volumes)}


def _with_image(volume: Volume, images: Mapping[str, str]) -> Volume:
    source = getattr(volume, volume.source)
    image = images.get(volume.source)
    if not image or source.image is not None:
        return volume
    return volume.model_copy(update={volume.source: source.model_copy(update={"image": image})})
