"""The contract: the generated code is what the protos say, and the protos keep their style and their promises."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

ROOT = Path(__file__).resolve().parents[2]
BUF = Path(sys.executable).parent / "buf"
SERVICE, METHOD = 6, 2  # field numbers in FileDescriptorProto and ServiceDescriptorProto: paths of source comments


def buf(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BUF, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[descriptor_pb2.FileDescriptorProto]:
    """The project's own proto files, comments included."""
    image = tmp_path_factory.mktemp("contract") / "image.binpb"
    done = buf("build", "protos", "-o", str(image))
    assert done.returncode == 0, done.stderr
    built = descriptor_pb2.FileDescriptorSet.FromString(image.read_bytes())
    own = [file for file in built.file if file.package.startswith("palimpsest.")]
    assert own
    return own


def test_generated_code_is_what_the_protos_say() -> None:
    spec = importlib.util.spec_from_file_location("gen_protos", ROOT / "deploy" / "dev" / "gen_protos.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert generator.differences() == [], "run `make gen`"


def test_buf_finds_nothing_to_lint() -> None:
    done = buf("lint", "protos")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_nothing_breaks_what_was_promised() -> None:
    done = buf("breaking", "protos", "--against", "protos/baseline.binpb")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_removed_field_would_be_noticed(tmp_path: Path) -> None:
    """The check above can fail: it is given a contract with one field less."""
    baseline = descriptor_pb2.FileDescriptorSet.FromString((ROOT / "protos" / "baseline.binpb").read_bytes())
    messages = [
        message for file in baseline.file if file.package.startswith("palimpsest.") for message in file.message_type
    ]
    next(message for message in messages if message.name == "GetJobRequest").field.pop()
    poorer = tmp_path / "poorer.binpb"
    poorer.write_bytes(baseline.SerializeToString())
    done = buf("breaking", str(poorer), "--against", "protos/baseline.binpb")
    assert done.returncode != 0
    assert "GetJobRequest" in done.stdout


def test_every_rpc_says_what_it_does(files: list[descriptor_pb2.FileDescriptorProto]) -> None:
    silent, seen = [], 0
    for file in files:
        comments = {tuple(place.path): place.leading_comments for place in file.source_code_info.location}
        for number, service in enumerate(file.service):
            for index, method in enumerate(service.method):
                seen += 1
                if len(comments.get((SERVICE, number, METHOD, index), "").split()) < 3:
                    silent.append(f"{service.name}.{method.name}")
    assert seen >= 15
    assert silent == []
