"""Make a wheel and a source distribution by hand: no build tool and no network is needed to install them."""

import base64
import hashlib
import io
import os
import tarfile
import zipfile

BACKEND = """
import os, shutil, sys
sys.path.insert(0, os.path.dirname(__file__))
import packages
def build_wheel(where, config_settings=None, metadata_directory=None):
    return packages.wheel(where, "fromsource")
"""


def wheel(where, name):
    files = {
        f"{name}/__init__.py": "def main(): print('hello from', __name__)\n",
        f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{name}-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}-1.0.dist-info/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    lines = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text)}")
    files[f"{name}-1.0.dist-info/RECORD"] = "\n".join([*lines, f"{name}-1.0.dist-info/RECORD,,"])
    file = f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(where, file), "w") as made:
        for path, text in files.items():
            made.writestr(path, text)
    return file


def source(where):
    with open(__file__) as file:
        own = file.read()
    files = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "fromsource"\nversion = "1.0"\n',
        "backend.py": BACKEND,
        "packages.py": own,
        "PKG-INFO": "Metadata-Version: 2.1\nName: fromsource\nVersion: 1.0\n",
    }
    with tarfile.open(os.path.join(where, "fromsource-1.0.tar.gz"), "w:gz") as made:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"fromsource-1.0/{path}")
            entry.size = len(text)
            made.addfile(entry, io.BytesIO(text.encode()))


if __name__ == "__main__":
    os.makedirs("dist", exist_ok=True)
    wheel("dist", "ready")
    source("dist")
