"""Headers and arrays of files of models, to look at and to change."""

import json

from bochner.persistence import files


def header_of(path):
    """What a file says of its model."""
    import safetensors

    with safetensors.safe_open(path, framework="np") as file:
        return json.loads(file.metadata()["bochner"])


def rewritten(path, change):
    """A file with another header, whose checksum is right."""
    import safetensors
    from safetensors.numpy import save

    with safetensors.safe_open(path, framework="np") as file:
        header = json.loads(file.metadata()["bochner"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(header, arrays)
    text = json.dumps(header)
    path.write_bytes(save(arrays, {"bochner": text, "sha256": files.checksum(text, arrays)}))
